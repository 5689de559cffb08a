"""The command line with good and bad input, in a separate process as a user runs it."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from command import QUICK, assert_refused, dbdl, inside, succeed
from layouts import write_classes
from rich.console import Console
from sklearn.datasets import load_digits, load_wine
from typer.main import get_command

from dbdl.cli import COMMANDS, app
from dbdl.cli.terminal import print_panels
from dbdl.experiments.protocol import Protocol
from dbdl.experiments.spec import Entry, Table
from dbdl.experiments.summary import summarise
from dbdl.persistence import load as load_model


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


def test_views_are_set_by_name_and_the_held_out_figures_are_those_of_the_ensemble(folder):
    fit = ("fit", "train.csv", "-o", "views.skops", "--set", "n_sweeps=3")
    chains = ("--set", "n_chains=2", "--set", "coder=forward")
    found, _ = succeed(*fit, *chains, "--set", "views=plain + constant", cwd=folder)
    model = load_model(folder / "views.skops")
    assert [chain.view.name for chain in model.chains_] == ["plain + constant"] * 2
    assert found["held_out_accuracy"] == model.held_out_.ensemble_accuracy
    assert found["held_out_log_loss"] == model.held_out_.ensemble_log_loss
    assert found["held_out_balanced_accuracy"] == model.held_out_.ensemble_balanced_accuracy
    assert found["held_out_macro_f1"] == model.held_out_.ensemble_macro_f1
    succeed(*fit, *chains, "--set", "views=['plain', 'unit whitened']", cwd=folder)
    model = load_model(folder / "views.skops")
    assert [chain.view.name for chain in model.chains_] == ["plain", "unit whitened"]
    assert_refused(inside(*fit, "--set", "views=fancy", cwd=folder), "no view 'fancy'", "'plain'")


def test_fit_predict_and_the_accuracy_where_labels_are_known(folder):
    result = dbdl("predict", "model.skops", "test.csv", "--label", "digit", "--json", cwd=folder)
    found = json.loads(result.stdout)
    assert found["rows"] == 60 and found["accuracy"] > 0.8
    assert found["balanced_accuracy"] > 0.8 and found["macro_f1"] > 0.7
    assert set(found["predicted"]) <= {f"d{i}" for i in range(10)}


def test_probabilities_are_written_as_a_table(folder):
    output = folder / "predicted.csv"
    result = dbdl("predict", "model.skops", "test.csv", "-p", "-o", output, cwd=folder)
    assert result.returncode == 0 and "% right of 60 rows" in result.stderr
    rows = list(csv.reader(output.open()))
    assert rows[0] == ["row", "line", "truth", "predicted", *(f"p_d{i}" for i in range(10))]
    assert [row[:2] for row in rows[1:3]] == [["1", "2"], ["2", "3"]]
    assert sum(map(float, rows[1][4:])) == pytest.approx(1, abs=1e-4)


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
    assert "before any clock starts" in first.stderr and "CRC, 1-NN" in first.stderr
    assert "chosen on training rows" in first.stdout
    assert (folder / "a.png").stat().st_size > 5000 and "CRC" in (folder / "a.html").read_text()
    again = dbdl(*arguments, cwd=folder)
    assert again.stdout == first.stdout and "split" not in again.stderr  # nothing ran again
    assert "clock" not in again.stderr


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
    names = {row["name"] for row in json.loads(inside("methods", "--json", cwd=folder).stdout)}
    assert {"DBDL", "DBDL (paper)", "SRC", "K-SVD"} <= names
    found = json.loads(dbdl("data", "--json", cwd=folder, DBDL_DATA="").stdout)
    assert {"yaleb", "scene15"} <= {row["name"] for row in found}
    assert "Extended YaleB" in inside("data", cwd=folder).stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_the_terminal_wraps_the_paragraphs_of_a_help(name):
    paragraphs = get_command(app).commands[name].help.split("\n\n")
    assert paragraphs[0] and not any("\n" in paragraph for paragraph in paragraphs)


def test_compare_writes_a_picture_and_pages_of_results_and_model_to_a_folder(folder):
    result = dbdl(
        "compare", "train.csv", "--quick", "--folds", 2, "-m", "dbdl, dbdl unlearned, ridge",
        "-o", "out", cwd=folder,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert "| DBDL |" in result.stdout and "| ridge |" in result.stdout
    assert (folder / "out" / "accuracy.png").stat().st_size > 5000
    page = (folder / "out" / "report.html").read_text(encoding="utf-8")
    model = (folder / "out" / "model.html").read_text(encoding="utf-8")
    assert "ridge" in page
    assert "Decisions explained" in model and "pixel" in model
    searched = "Nothing was searched (--quick)"
    for said in (searched, "No p-values: 2 splits", "Learning and views add"):
        assert said in result.stdout and said in page
    assert "(p " not in result.stdout and "in hindsight" not in result.stdout
    assert "Without learning" in model and "lasso" in model
    again = dbdl("report", "out/cells.jsonl", "-o", "again.html", cwd=folder)
    assert again.returncode == 0, again.stderr
    assert "Nothing was searched (--quick)" in (folder / "again.html").read_text(encoding="utf-8")


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


def test_means_over_classes_have_room_in_eighty_columns():
    entries = (Entry("DBDL"), Entry("DBDL unlearned"))
    table = Table("t", "Rare kinds", "", {"5 folds": Protocol(folds=5)}, entries)
    records = [
        {"column": "5 folds", "method": entry.method, "split": split, "accuracy": 0.9 + split / 100,
         "balanced_accuracy": 0.75, "macro_f1": 0.7, "class_ratio": 9.0, "log_loss": 0.4,
         "fit_seconds": 1.0, "query_milliseconds": 0.1, "n_train": 80, "n_test": 20,
         "calibration_error": 0.1, "n_atoms": 300}
        for entry in entries for split in range(5)
    ]  # fmt: skip
    output = io.StringIO()
    print_panels(table, summarise(table, records), Console(file=output, width=80))
    said = output.getvalue()
    assert all(len(line) <= 80 for line in said.splitlines())
    assert "balanced" in said and "75.00" in said and "70.00" in said
    assert "92.00 ± 1.58" in said and "fit s" not in said.partition("Not shown")[2]


@pytest.mark.parametrize(("width", "n_left_out"), [(200, 0), (70, 1), (50, 2)])
def test_a_narrow_terminal_shows_the_columns_that_matter_most(width, n_left_out):
    entries = (Entry("DBDL"), Entry("CRC"))
    table = Table("t", "Digits [2]", "", {"2 folds": Protocol(folds=2)}, entries)
    records = [
        {"column": "2 folds", "method": method, "split": split, "accuracy": 0.9, "log_loss": 0.4,
         "fit_seconds": 1.0, "query_milliseconds": 0.1, "n_train": 9, "n_test": 1,
         "chosen": {"penalty": 0.001}}
        for method in ("DBDL", "CRC") for split in range(2)
    ]  # fmt: skip
    output = io.StringIO()
    print_panels(table, summarise(table, records), Console(file=output, width=width))
    said = output.getvalue()
    assert "Digits [2]" in said and "2 folds" in said and "No p-values: 2 splits" in said
    assert "method" in said and "90.00" in said
    left_out = said.partition("Not shown: ")[2].partition(". Use")[0].replace("\n", " ")
    names = left_out.split(", ") if left_out else []
    assert len(names) == n_left_out and (not names or names[-1] == "chosen on training rows")


# ------------------------------------------------------------------------------------ bad input


def test_files_that_are_missing_foreign_or_damaged(folder):
    assert_refused(inside("fit", "none.csv", "-o", "m.skops", cwd=folder), "none.csv")
    assert_refused(inside("predict", "none.skops", "test.csv", cwd=folder), "none.skops")
    assert_refused(inside("predict", "test.csv", "test.csv", cwd=folder), "test.csv")
    whole = (folder / "model.skops").read_bytes()
    (folder / "half.skops").write_bytes(whole[: len(whole) // 2])
    assert_refused(inside("predict", "half.skops", "test.csv", cwd=folder), "half.skops")


def test_methods_that_cannot_be_saved_and_tables_that_do_not_exist(folder):
    boosting = inside("fit", "none.csv", "--method", "boosting", "-o", "m.skops", cwd=folder)
    assert_refused(boosting, "models of boosting cannot be saved", "dbdl compare")
    cells = {"table": "t", "column": "c", "method": "CRC", "settings": "{}", "split": 0}
    (folder / "some.jsonl").write_text(json.dumps({**cells, "accuracy": 0.5}) + "\n")
    page = inside("report", "some.jsonl", "--table", "nope", "-o", "p.html", cwd=folder)
    assert_refused(page, "unknown table 'nope'; there are ar,")
    assert not (folder / "p.html").exists()


def test_data_that_cannot_be_used(folder):
    (folder / "words.csv").write_text("a,b,y\n1,two,0\n3,4,1\n")
    assert_refused(inside("fit", "words.csv", "-o", "m.skops", cwd=folder), "two")
    (folder / "one.csv").write_text("a,b,y\n1,2,0\n3,4,0\n")
    for command in (("fit", "one.csv", "-o", "m.skops"), ("compare", "one.csv")):
        result = inside(*command, cwd=folder)
        assert_refused(
            result, "all labels in the column y are '0'", "at least 2 classes", "--label"
        )
        assert "BetaProcessDictionary" not in result.stderr  # which no command has
    assert_refused(inside("predict", "model.skops", "words.csv", cwd=folder))
    (folder / "narrow.csv").write_text("a,b\n1,2\n3,4\n")
    narrow = inside("predict", "model.skops", "narrow.csv", cwd=folder)
    assert_refused(narrow, "no columns 'pixel0', 'pixel1'")
    (folder / "nameless.csv").write_text("1,2\n3,4\n")
    assert_refused(inside("predict", "model.skops", "nameless.csv", cwd=folder), "64")
    assert_refused(inside("fit", "train.csv", "-o", "m", "--label", "nope", cwd=folder), "nope")
    assert_refused(
        inside("compare", "train.csv", "--folds", 50, cwd=folder), "too few for 50 folds"
    )


def test_fit_prints_the_curve_by_which_it_chose_the_number_of_atoms(folder):
    fit = ("fit", "train.csv", "-o", "sizes.skops", "--set", "n_sweeps=3", "--set", "n_chains=2")
    result = dbdl(*fit, "--set", "views=plain", "--set", "n_initial_atoms=auto", cwd=folder)
    assert result.returncode == 0, result.stderr
    for line in str(load_model(folder / "sizes.skops").size_curve_).splitlines():
        assert line in result.stderr
    assert "chosen: within one standard error" in result.stderr
    assert "atoms per chain" not in dbdl(*fit, cwd=folder).stderr
    auto = (*fit, "--set", "views=plain", "--set", "n_initial_atoms=auto")
    verbose = inside(*auto, "--set", "verbose=1", cwd=folder)
    assert (verbose.stdout + verbose.stderr).count("atoms per chain") == 1


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
    assert_refused(inside(*fit, "--method", "nope", cwd=folder), "unknown method 'nope'", "DBDL")
    assert_refused(inside(*fit, "--set", "n_chain=3", cwd=folder), "n_chain", "n_chains")
    assert_refused(inside(*fit, "--set", "n_chains", cwd=folder), "name=value")
    assert_refused(inside(*fit, "--set", "n_chains=0", cwd=folder), "n_chains")
    assert_refused(inside("reproduce", "nope", cwd=folder), "unknown table 'nope'", "yaleb")
    assert_refused(inside("reproduce", "digits", "--only", "nope", cwd=folder), "'nope'")
    assert_refused(inside("fit", "train.csv", "-o", "nowhere/m.skops", cwd=folder), "nowhere")
    assert_refused(inside("fit", "train.csv", "-o", ".", cwd=folder), "is a folder")
    assert_refused(inside("compare", "train.csv", "-o", "test.csv", cwd=folder), "is a file")
    assert_refused(inside("figures", "train.csv", "-o", "test.csv", cwd=folder), "is a file")
    assert_refused(
        inside("report", "model.skops", "--data", "test.csv", "-o", "no/r.html", cwd=folder), "no"
    )
    assert_refused(inside("compare", cwd=folder))


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


# ------------------------------------------------------------------------- names of columns, files


@pytest.fixture(scope="module")
def beetles(tmp_path_factory):
    """Tables of two kinds of beetles, the label first, and a model of them."""
    path = tmp_path_factory.mktemp("beetles")
    rows = [[kind, 1 + i % 3, 5 * (kind == "ant"), 7 * (kind == "bee"), i % 2]
            for i in range(20) for kind in ("ant", "bee")]  # fmt: skip
    names = ["kind", "a", "b", "c", "d"]

    def write(file_name, columns):
        with (path / file_name).open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(columns)
            writer.writerows([row[names.index(name)] for name in columns] for row in rows)

    write("first.csv", names)
    write("turned.csv", ["d", "c", "kind", "b", "a"])
    write("bare.csv", ["d", "c", "b", "a"])
    write("narrow.csv", ["kind", "a", "b", "c"])
    result = dbdl("fit", "first.csv", "--label", "kind", "-o", "m.skops", *QUICK, cwd=path)
    assert result.returncode == 0, result.stderr
    return path


@pytest.mark.parametrize("table", ["first.csv", "turned.csv"])
def test_columns_are_found_by_the_names_that_the_model_knows(beetles, table):
    result = inside("predict", "m.skops", table, "--json", cwd=beetles)
    assert json.loads(result.stdout)["accuracy"] == 1.0


def test_rows_need_have_no_labels_but_all_features(beetles):
    found = json.loads(inside("predict", "m.skops", "bare.csv", "--json", cwd=beetles).stdout)
    assert found["predicted"] == ["ant", "bee"] * 20
    assert_refused(inside("predict", "m.skops", "narrow.csv", cwd=beetles), "no column 'd'")


def test_a_header_of_wavelengths_is_no_row(beetles):
    with (beetles / "waves.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([400, 410, 420, "species"])
        writer.writerows([i % 3, 2 * (i % 2), 1, "ash" if i % 2 else "elm"] for i in range(20))
    result = dbdl("fit", "waves.csv", "-o", "w.skops", *QUICK, "--json", cwd=beetles)
    found = json.loads(result.stdout)
    assert (found["rows"], found["classes"]) == (20, 2)


def test_answers_go_to_a_file_and_to_programs(beetles):
    result = dbdl("predict", "m.skops", "first.csv", "--json", "-o", "p.csv", cwd=beetles)
    assert json.loads(result.stdout)["rows"] == 40
    assert (beetles / "p.csv").read_text().count("\n") == 41


def test_outputs_and_settings_are_looked_at_before_hours_are_spent(beetles):
    def compare(*options):
        return inside(
            "compare", "first.csv", "--label", "kind", "-m", "1-NN", *options, cwd=beetles
        )

    assert_refused(compare("--results", "first.csv"), "first.csv is not a file of results")
    assert_refused(compare("--plot", "x.foo"), "pictures end in")
    (beetles / "out" / "report.html").mkdir(parents=True)
    assert_refused(compare("-o", "out"), "report.html is a folder")
    result = inside(
        "fit", "first.csv", "--label", "kind", "-o", "s.skops", *QUICK, "--set", "random_state=3",
        cwd=beetles,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    ridge = inside(
        "fit", "first.csv", "--label", "kind", "-o", "r.skops", "--method", "ridge", cwd=beetles
    )
    assert ridge.returncode == 0, ridge.stderr
    assert_refused(inside("predict", "r.skops", "first.csv", "-p", cwd=beetles), "no probabilities")


def test_cells_are_kept_beside_the_pages(beetles):
    def compare(*options):
        return dbdl(
            "compare", "first.csv", "--label", "kind", "-m", "1-NN", "--folds", "2", *options,
            cwd=beetles,
        )  # fmt: skip

    assert compare("-o", "kept").returncode == 0
    assert (beetles / "kept" / "cells.jsonl").read_text().count("\n") == 2
    assert compare("-o", "kept").returncode == 0
    assert (beetles / "kept" / "cells.jsonl").read_text().count("\n") == 2


def test_a_comparison_in_which_nothing_worked_says_so(beetles):
    with (beetles / "zeros.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["a", "b", "kind"])
        writer.writerows([0, 0, "ant" if i % 2 else "bee"] for i in range(12))
    result = dbdl("compare", "zeros.csv", "-m", "DBDL", "--folds", "2", "--quick", cwd=beetles)
    assert result.returncode == 1 and "every cell failed" in result.stderr
    assert "some splits failed" not in result.stdout


# ------------------------------------------------------------------- columns that give classes away


@pytest.fixture(scope="module")
def wine(tmp_path_factory):
    """Wine, sorted by class, without an index and as pandas writes it with one; models of ridge."""
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    path = tmp_path_factory.mktemp("wine")
    frame = load_wine(as_frame=True).frame.sample(frac=1, random_state=0).sort_values("target")
    frame["kind"] = np.array(["ash", "elm", "oak"])[frame.pop("target")]
    frame.to_csv(path / "bare.csv", index=False)
    frame.to_csv(path / "indexed.csv")
    frame.to_parquet(path / "indexed.parquet")
    frame.rename_axis("row").to_parquet(path / "row.parquet")
    pd.read_csv(path / "indexed.csv").to_csv(path / "again.csv", index=False)
    pd.read_csv(path / "indexed.csv").to_csv(path / "twice.csv")
    frame = frame.reset_index(drop=True)
    frame.to_csv(path / "nameless.csv", header=False)
    numbers, names = range(7, 185), [f"wine {i}" for i in range(178)]
    frame.assign(number=numbers)[["number", *frame]].to_csv(path / "counted.csv", index=False)
    frame.assign(name=names)[["name", *frame]].to_csv(path / "names.csv", index=False)
    return path


WINE = [
    "indexed.csv", "again.csv", "twice.csv", "counted.csv", "names.csv", "nameless.csv",
    "indexed.parquet", "row.parquet",
]  # fmt: skip


def compare_wine(wine, table):
    found, said = succeed("compare", table, "-m", "ridge, 1-NN", "--quick", "--folds", 3, cwd=wine)
    return [line["accuracy"] for line in found["lines"]], said


def ridge_of(wine, table):
    """The file of a model of a table, fitted once."""
    model = wine / f"{table}.skops"
    if not model.exists():
        succeed("fit", table, "--method", "ridge", "-o", model, cwd=wine)
    return model


@pytest.fixture(scope="module")
def without_index(wine):
    accuracies, said = compare_wine(wine, "bare.csv")
    assert "note" not in said
    return accuracies


@pytest.mark.parametrize("table", WINE)
def test_a_table_with_row_numbers_scores_as_one_without(wine, without_index, table):
    accuracies, said = compare_wine(wine, table)
    assert accuracies == without_index
    assert "13 numbers (" in said and " dropped: " in said


@pytest.mark.parametrize("table", WINE)
@pytest.mark.parametrize("fitted", ["bare.csv", "counted.csv", "indexed.parquet", "nameless.csv"])
def test_a_model_takes_tables_with_row_numbers_and_without(wine, fitted, table):
    model = ridge_of(wine, fitted)
    found, said = succeed("predict", model, table, cwd=wine)
    assert found["accuracy"] == succeed("predict", model, "bare.csv", cwd=wine)[0]["accuracy"]
    assert "dropped" not in said and "13 numbers (" in said


@pytest.mark.parametrize("fitted", ["counted.csv", "nameless.csv"])
def test_the_columns_of_a_single_row_are_those_of_the_fit(wine, fitted):
    model = ridge_of(wine, fitted)
    expected = succeed("predict", model, fitted, cwd=wine)[0]["predicted"]
    lines = (wine / fitted).read_text().splitlines()
    header = [] if fitted == "nameless.csv" else lines[:1]
    for i in (0, 100):
        (wine / "single.csv").write_text("\n".join([*header, lines[i + len(header)]]) + "\n")
        assert succeed("predict", model, "single.csv", cwd=wine)[0]["predicted"] == [expected[i]]


def test_a_number_or_a_label_that_only_content_can_tell_is_told_or_asked_for(wine):
    model = ridge_of(wine, "nameless.csv")
    rows = [line.split(",") for line in (wine / "nameless.csv").read_text().splitlines()]

    def predict(rows):
        (wine / "part.csv").write_text("\n".join(",".join(row) for row in rows) + "\n")
        return inside("predict", model, "part.csv", "--json", cwd=wine)

    expected = succeed("predict", model, "nameless.csv", cwd=wine)[0]
    unlabelled = json.loads(predict([row[:-1] for row in rows]).stdout)
    assert "accuracy" not in unlabelled and unlabelled["predicted"] == expected["predicted"]
    assert json.loads(predict([row[1:] for row in rows]).stdout) == expected
    assert_refused(predict([rows[0][:-1]]), "one column more", "Add a header")
    model = ridge_of(wine, "bare.csv")
    assert json.loads(predict([row[:-1] for row in rows]).stdout) == unlabelled
    assert_refused(
        predict([rows[0][:-1]]), "one column more", f"'{rows[0][-2][:-2]}' is not one of them"
    )


def test_different_whole_numbers_in_every_row_are_used_with_a_note(wine):
    lines = (wine / "bare.csv").read_text().splitlines()
    odd = [f"{(7 * i) % 1009}," for i in range(178)]
    rows = [f"{number}{line}" for number, line in zip(odd, lines[1:], strict=True)]
    (wine / "odd.csv").write_text("\n".join([f"licence,{lines[0]}", *rows]))
    found, said = succeed("fit", "odd.csv", "--method", "ridge", "-o", "odd.skops", cwd=wine)
    assert found["features"] == 14
    assert "'licence'" in said and "a different whole number in every row" in said


def test_names_of_many_columns_are_shortened(folder):
    _, said = succeed("fit", "train.csv", "--method", "ridge", "-o", "ridge.skops", cwd=folder)
    assert "64 numbers (pixel0, pixel1" in said and "pixel63" not in said
    assert "labels: digit" in said


def test_two_columns_of_one_name_are_refused_by_every_command(wine):
    text = (wine / "bare.csv").read_text()
    (wine / "twins.csv").write_text(text.replace("malic_acid", "alcohol", 1))
    words = ("2 columns have the name 'alcohol'",)
    assert_refused(inside("fit", "twins.csv", "-o", "twins.skops", cwd=wine), *words)
    assert_refused(inside("compare", "twins.csv", cwd=wine), *words)
    model = ridge_of(wine, "bare.csv")
    assert_refused(inside("predict", model, "twins.csv", cwd=wine), *words)


def test_a_report_finds_its_columns_by_name(beetles):
    result = inside("report", "m.skops", "--data", "turned.csv", "-o", "turned.html", cwd=beetles)
    assert result.returncode == 0, result.stderr
    first = inside("report", "m.skops", "--data", "first.csv", "-o", "first.html", cwd=beetles)
    assert first.returncode == 0, first.stderr
    turned, first = ((beetles / f"{name}.html").read_text() for name in ("turned", "first"))
    assert turned.replace("turned", "first") == first  # but for the command that writes it
    bare = inside("report", "m.skops", "--data", "bare.csv", "-o", "bare.html", cwd=beetles)
    assert_refused(bare, "no column of labels", "--label")


# ------------------------------------------------------------------------ outputs that cost a file


def outputs_that_are_inputs():
    return {
        "fit the data": ("fit", "first.csv", "--label", "kind", "-o", "first.csv"),
        "fit a link": ("fit", "first.csv", "--label", "kind", "-o", "link.csv"),
        "fit another name": ("fit", "first.csv", "--label", "kind", "-o", "hard.skops"),
        "predict the data": ("predict", "m.skops", "first.csv", "-o", "first.csv"),
        "predict the model": ("predict", "m.skops", "first.csv", "-o", "m.skops"),
        "report the model": ("report", "m.skops", "--data", "first.csv", "-o", "m.skops"),
        "report the data": ("report", "m.skops", "--data", "first.csv", "-o", "first.csv"),
        "report the results": ("report", "r.jsonl", "-o", "r.jsonl"),
        "compare a plot": ("compare", "first.csv", "--label", "kind", "--plot", "first.csv"),
        "compare a page": ("compare", "first.csv", "--label", "kind", "--report", "link.csv"),
        "compare results": ("compare", "first.csv", "--label", "kind", "--results", "first.csv"),
    }


@pytest.mark.parametrize("name", outputs_that_are_inputs())
def test_an_output_that_is_an_input_is_refused(beetles, name):
    if not (beetles / "link.csv").exists():
        (beetles / "link.csv").symlink_to(beetles / "first.csv")
        (beetles / "hard.skops").hardlink_to(beetles / "first.csv")
        (beetles / "r.jsonl").write_text('{"table": "t", "column": "c", "method": "m", "split": 0}')
    before = {path: path.read_bytes() for path in beetles.iterdir() if path.is_file()}
    words = "first.csv is not a file of results" if name == "compare results" else "would be lost"
    assert_refused(inside(*outputs_that_are_inputs()[name], cwd=beetles), words)
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize(
    ("arguments", "right"),
    [
        (
            ("fit", "first.csv", "--label", "kind", "-o", "m.pkl"),
            "end in .skops, as m.skops",
        ),
        (("predict", "m.skops", "first.csv", "-o", "p.xlsx"), "end in .csv, .parquet, .json, as"),
        (("report", "m.skops", "--data", "first.csv", "-o", "r.pdf"), "pages end in .html"),
        (("compare", "first.csv", "--label", "kind", "--report", "r.pdf"), "pages end in .html"),
        (("compare", "first.csv", "--label", "kind", "--plot", "r.html"), "pictures end in .png"),
        (("compare", "first.csv", "--label", "kind", "--results", "r.xlsx"), "end in .jsonl"),
        (("reproduce", "digits", "--results", "r.csv"), "end in .jsonl"),
    ],
)
def test_an_ending_of_another_format_is_refused_with_the_right_one(beetles, arguments, right):
    assert_refused(inside(*arguments, cwd=beetles), right)
    assert not (beetles / arguments[-1]).exists()


def test_two_outputs_in_one_file_are_refused(beetles):
    result = inside(
        "compare", "first.csv", "--label", "kind", "-o", "two", "--report", "two/model.html",
        cwd=beetles,
    )  # fmt: skip
    assert_refused(result, "model.html is given for two outputs")


def test_pictures_among_the_images_that_are_read_are_refused(tmp_path):
    write_classes(tmp_path / "pets", ["cat", "dog"], n_images=3)
    before = sorted(path.name for path in (tmp_path / "pets").rglob("*.*"))
    image = next((tmp_path / "pets" / "cat").iterdir()).with_suffix(".png")
    for output in (("--plot", image), ("-o", tmp_path / "pets" / "out")):
        result = inside("compare", "pets", "--folds", 2, *output, cwd=tmp_path)
        assert_refused(result, "whose images are read")
    result = inside("figures", "pets", "-o", "pets", cwd=tmp_path)
    assert_refused(result, "whose images are read")
    assert sorted(path.name for path in (tmp_path / "pets").rglob("*.*")) == before


@pytest.mark.skipif(not os.path.exists("/dev/stdout"), reason="there is no such device")
def test_a_device_is_written_to_as_it_is(beetles):
    result = dbdl("predict", "m.skops", "first.csv", "-o", "/dev/stdout", cwd=beetles)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[:2] == ["row,line,truth,predicted", "1,2,ant,ant"]


@pytest.fixture(scope="module")
def oversampled(tmp_path_factory):
    """Sixty rows whose labels say nothing, five times each."""
    rng, path = np.random.default_rng(0), tmp_path_factory.mktemp("copies") / "copies.csv"
    rows = [
        [*(f"{v:.6f}" for v in rng.standard_normal(6)), "ab"[rng.integers(2)]] for _ in "x" * 60
    ]
    lines = [",".join(rows[k]) for k in rng.permutation(np.repeat(np.arange(60), 5))]
    path.write_text("\n".join(["a,b,c,d,e,f,kind", *lines]))
    return path


def test_rows_kept_back_for_refusals_are_no_copies_of_rows_learned_from(oversampled):
    model = oversampled.with_suffix(".skops")
    settings = ("--set", "n_chains=2", "--set", "views=plain", "--set", "n_sweeps=3")
    fit = ("fit", oversampled, "--refusals", 0.3, "-o", model, *settings)
    found, _ = succeed(*fit, cwd=oversampled.parent)
    assert found["rows_kept_back"] == 5 * round(0.3 * 60)
    assert found["held_out_accuracy"] < 0.8


def test_compare_says_that_rows_are_copies(oversampled):
    found = inside("compare", oversampled, "--quick", "-m", "1-NN", cwd=oversampled.parent)
    assert "240 of 300 rows are copies of others" in " ".join(found.stderr.split())
