"""The command: good and bad input in a process of its own, as a user would."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time

import pytest
from sklearn.datasets import load_digits

QUICK = ("--set", "n_chains=1", "--set", "n_sweeps=3")


def dbdl(*arguments, cwd, **environment):
    """Run the command; its exit code, standard output and standard error."""
    return subprocess.run(
        [sys.executable, "-m", "dbdl", *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "COLUMNS": "200", **environment},
        capture_output=True,
        text=True,
        timeout=600,
    )


def assert_refused(result, *words):
    """One line that says what was wrong, exit code 2, no stack trace."""
    assert result.returncode == 2, result.stderr
    assert "Traceback" not in result.stderr
    for word in words:
        assert word in result.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a table of digits, the first half to learn from, and a model of them."""
    path = tmp_path_factory.mktemp("cli")
    X, y = load_digits(return_X_y=True)
    for name, rows in (("train", slice(0, 120)), ("test", slice(120, 180))):
        with (path / f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([*(f"pixel{i}" for i in range(64)), "digit"])
            writer.writerows(
                [*row, f"d{label}"] for row, label in zip(X[rows], y[rows], strict=True)
            )
    result = dbdl("fit", "train.csv", "-o", "model.skops", *QUICK, "--json", cwd=path)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["classes"] == 10
    return path


def test_fit_predict_and_the_accuracy_where_labels_are_known(folder):
    result = dbdl("predict", "model.skops", "test.csv", "--label", "digit", "--json", cwd=folder)
    found = json.loads(result.stdout)
    assert found["rows"] == 60 and found["accuracy"] > 0.8
    assert set(found["predicted"]) <= {f"d{i}" for i in range(10)}


def test_probabilities_are_written_as_a_table(folder):
    output = folder / "predicted.csv"
    result = dbdl("predict", "model.skops", "test.csv", "-p", "-o", output, cwd=folder)
    assert result.returncode == 0 and "% right of 60 rows" in result.stderr
    rows = list(csv.reader(output.open()))
    assert rows[0] == ["predicted", *(f"d{i}" for i in range(10))]
    assert sum(map(float, rows[1][1:])) == pytest.approx(1, abs=1e-4)


def test_compare_prints_a_table_and_goes_on_from_its_cells(folder):
    arguments = (
        "compare",
        "train.csv",
        "-m",
        "CRC",
        "-m",
        "1-nn",
        "--folds",
        3,
        "--results",
        "r.jsonl",
    )
    first = dbdl(*arguments, "--plot", "a.png", "--report", "a.html", cwd=folder)
    assert first.returncode == 0, first.stderr
    assert "| CRC |" in first.stdout and "| 1-NN |" in first.stdout
    assert (folder / "a.png").stat().st_size > 5000 and "CRC" in (folder / "a.html").read_text()
    again = dbdl(*arguments, cwd=folder)
    assert again.stdout == first.stdout and "split" not in again.stderr  # nothing ran again


def test_reports_of_a_model_and_of_results(folder):
    result = dbdl("report", "model.skops", "--data", "test.csv", "-o", "model.html", cwd=folder)
    assert result.returncode == 0, result.stderr
    assert (folder / "model.html").read_text().lstrip().lower().startswith("<!doctype html>")
    assert_refused(dbdl("report", "model.skops", "-o", "b.html", cwd=folder), "--data")


def test_reproduce_runs_a_table_of_the_package(folder):
    arguments = ("reproduce", "digits", "--only", "1-NN", "--splits", 2, "--json")
    found = json.loads(dbdl(*arguments, cwd=folder).stdout)
    assert found["lines"][0]["n_splits"] == 2
    assert len((folder / "results" / "digits.jsonl").read_text().splitlines()) == 2


def test_lists_of_methods_and_data(folder):
    names = {row["name"] for row in json.loads(dbdl("methods", "--json", cwd=folder).stdout)}
    assert {"DBDL", "SRC", "K-SVD"} <= names
    found = json.loads(dbdl("data", "--json", cwd=folder, DBDL_DATA="").stdout)
    assert {"yaleb", "scene15"} <= {row["name"] for row in found}
    assert "Extended YaleB" in dbdl("data", cwd=folder).stdout


def test_compare_writes_a_picture_and_pages_of_results_and_model_to_a_folder(folder):
    result = dbdl(
        "compare", "train.csv", "--quick", "--folds", 2, "-m", "dbdl, ridge", "-o", "out",
        cwd=folder,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert "| DBDL |" in result.stdout and "| ridge |" in result.stdout
    assert (folder / "out" / "accuracy.png").stat().st_size > 5000
    assert "ridge" in (folder / "out" / "report.html").read_text(encoding="utf-8")
    model = (folder / "out" / "model.html").read_text(encoding="utf-8")
    assert "Which atoms, which class, why" in model and "pixel" in model


def test_figures_are_drawn_and_their_numbers_printed(folder):
    result = dbdl("figures", "train.csv", "-o", "figures", "--quick", cwd=folder)
    assert result.returncode == 0, result.stderr
    assert "LC-KSVD1" in result.stdout
    assert len(list((folder / "figures").glob("figure*.png"))) == 3


def test_a_warning_is_a_note_without_a_place_in_the_code(folder):
    result = dbdl(
        "fit", "train.csv", "-o", "w.skops", "--method", "K-SVD", "--set", "n_nonzero=500",
        cwd=folder,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert "note: n_nonzero=500 is more than" in result.stderr
    assert "UserWarning" not in result.stderr and ".py" not in result.stderr


# ------------------------------------------------------------------------------------ bad input


def test_files_that_are_missing_foreign_or_damaged(folder):
    assert_refused(dbdl("fit", "none.csv", "-o", "m.skops", cwd=folder), "none.csv")
    assert_refused(dbdl("predict", "none.skops", "test.csv", cwd=folder), "none.skops")
    assert_refused(dbdl("predict", "test.csv", "test.csv", cwd=folder), "test.csv")
    whole = (folder / "model.skops").read_bytes()
    (folder / "half.skops").write_bytes(whole[: len(whole) // 2])
    assert_refused(dbdl("predict", "half.skops", "test.csv", cwd=folder), "half.skops")


def test_data_that_cannot_be_used(folder):
    (folder / "words.csv").write_text("a,b,y\n1,two,0\n3,4,1\n")
    assert_refused(dbdl("fit", "words.csv", "-o", "m.skops", cwd=folder), "two")
    (folder / "one.csv").write_text("a,b,y\n1,2,0\n3,4,0\n")
    assert_refused(dbdl("fit", "one.csv", "-o", "m.skops", cwd=folder), "at least 2 classes")
    assert_refused(dbdl("compare", "one.csv", cwd=folder), "one has one class alone, '0'")
    assert_refused(dbdl("predict", "model.skops", "words.csv", cwd=folder))
    (folder / "narrow.csv").write_text("a,b\n1,2\n3,4\n")
    assert_refused(dbdl("predict", "model.skops", "narrow.csv", cwd=folder), "64")
    assert_refused(dbdl("fit", "train.csv", "-o", "m", "--label", "nope", cwd=folder), "nope")
    assert_refused(dbdl("compare", "train.csv", "--folds", 50, cwd=folder), "too few for 50 folds")


def test_a_fit_is_kept_in_a_folder_and_gone_on_from(folder):
    fit = ("fit", "train.csv", *QUICK, "--checkpoint", "kept", "--json")
    results = [dbdl(*fit, "-o", name, cwd=folder) for name in ("first.skops", "second.skops")]
    assert [result.returncode for result in results] == [0, 0], results[-1].stderr
    assert sorted(file.name for file in (folder / "kept").iterdir()) == ["chain-000.npz", "fit.npz"]
    predicted = [
        dbdl("predict", name, "test.csv", "--json", cwd=folder).stdout
        for name in ("model.skops", "first.skops", "second.skops")
    ]
    assert len(set(predicted)) == 1
    again = dbdl(*fit, "--seed", 1, "-o", "m.skops", cwd=folder)
    assert_refused(again, "random_state gives another seed", "Use another path")
    other = ("fit", "train.csv", "--checkpoint", "other", "--method", "CRC", "-o", "m.skops")
    assert_refused(dbdl(*other, cwd=folder), "CRC keeps no checkpoints")


def test_names_and_settings_that_do_not_exist(folder):
    fit = ("fit", "train.csv", "-o", "m.skops")
    assert_refused(dbdl(*fit, "--method", "nope", cwd=folder), "unknown method 'nope'", "DBDL")
    assert_refused(dbdl(*fit, "--set", "n_chain=3", cwd=folder), "n_chain", "n_chains")
    assert_refused(dbdl(*fit, "--set", "n_chains", cwd=folder), "name=value")
    assert_refused(dbdl(*fit, "--set", "n_chains=0", cwd=folder), "n_chains")
    assert_refused(dbdl("reproduce", "nope", cwd=folder), "unknown table 'nope'", "yaleb")
    assert_refused(dbdl("reproduce", "digits", "--only", "nope", cwd=folder), "'nope'")
    assert_refused(dbdl("fit", "train.csv", "-o", "nowhere/m.skops", cwd=folder), "nowhere")
    assert_refused(dbdl("fit", "train.csv", "-o", ".", cwd=folder), "is a folder")
    assert_refused(dbdl("compare", "train.csv", "-o", "test.csv", cwd=folder), "is a file")
    assert_refused(dbdl("figures", "train.csv", "-o", "test.csv", cwd=folder), "is a file")
    assert_refused(
        dbdl("report", "model.skops", "--data", "test.csv", "-o", "no/r.html", cwd=folder), "no"
    )
    assert_refused(dbdl("compare", cwd=folder))


def test_data_that_is_absent_is_described(folder):
    result = dbdl("reproduce", "caltech101", cwd=folder, DBDL_DATA=str(folder))
    assert_refused(result, "101_ObjectCategories", "DBDL_DATA")


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
def test_an_interruption_keeps_what_is_finished_and_exits_130(folder):
    command = (
        "compare",
        "train.csv",
        "-m",
        "1-NN",
        "-m",
        "DBDL",
        "--folds",
        "3",
        "--results",
        "k.jsonl",
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "dbdl", *command],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
        # a shell may have told us to ignore the signal, which a child inherits
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    results = folder / "k.jsonl"
    for _ in range(1200):
        if results.exists() and results.read_text().count("\n") >= 1:
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130 and "Traceback" not in errors
    assert results.read_text().count("\n") >= 1
