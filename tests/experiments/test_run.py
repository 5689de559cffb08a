"""A table is run cell by cell, is resumed after a kill, and shows which cells failed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.metrics import balanced_accuracy_score, f1_score

from dbdl import DBDLClassifier
from dbdl.coding import Coder, Forward, LassoPath
from dbdl.experiments.measure import (
    Part,
    calibration_error,
    calibration_floor,
    choose_settings,
    class_ratio,
    measure,
    most_used_coder,
    probability_figures,
)
from dbdl.experiments.printing import to_markdown, to_records
from dbdl.experiments.protocol import Protocol
from dbdl.experiments.rows import LabelledRows
from dbdl.experiments.run import cells, fit_cell, latest, read_records, record_key, run_table
from dbdl.experiments.spec import (
    Entry,
    SpecError,
    Table,
    load_table,
    nothing_chosen,
    table_names,
    with_search_note,
)
from dbdl.experiments.summary import paired_p_value, summarise
from dbdl.registry import methods

TOML = """
name = "tiny"
title = "A tiny table"
dataset = "digits"
note = "Only a test."

[columns."8 of each class"]
per_class = 8
n_splits = 3

[[methods]]
method = "CRC"
accuracy = [90.0]
spread = [1.5]

[[methods]]
method = "1-NN"

[[methods]]
method = "ridge"
settings = { alpha = 0.1 }
"""
FEW = {"n_sweeps": 2, "n_chains": 2}
TIMES = {"seconds", "fit_seconds", "query_milliseconds"}


@pytest.fixture(scope="module")
def data():
    X, y = load_digits(return_X_y=True)
    return LabelledRows(X[:400], y[:400])


@pytest.fixture(scope="module")
def table():
    return Table.from_toml(TOML, "tiny.toml")


def without_times(records):
    return [{k: v for k, v in record.items() if k not in TIMES} for record in records]


def test_every_cell_is_run_once_and_written_down(table, data, tmp_path):
    results = tmp_path / "deep" / "results.jsonl"
    seen = []
    records = run_table(table, data, results, on_cell=lambda *cell: seen.append(cell))
    assert len(records) == 9 and seen[-1][1:] == (9, 9)
    assert sorted(map(record_key, read_records(results))) == sorted(map(record_key, records))
    assert all(0.5 < r["accuracy"] <= 1 and r["versions"] and r["machine"] for r in records)
    again = run_table(table, data, results, on_cell=lambda *_: pytest.fail("ran again"))
    assert again == records


def test_every_method_sees_the_same_splits(table, data, tmp_path):
    records = run_table(table, data, tmp_path / "a.jsonl", only=["1-NN"])
    both = run_table(table, data, tmp_path / "b.jsonl", only=["ridge", "1-NN"])
    own = [record for record in both if record["method"] == "1-NN"]
    assert without_times(records) == without_times(own)


def test_a_line_that_was_cut_off_costs_its_own_cell_only(table, data, tmp_path):
    results = tmp_path / "results.jsonl"
    whole = run_table(table, data, results, only=["1-NN"])
    text = results.read_text()
    results.write_text(text[: len(text) - 40])
    ran = []
    again = run_table(table, data, results, only=["1-NN"], on_cell=lambda r, *_: ran.append(r))
    assert len(ran) == 1 and without_times(again) == without_times(whole)
    assert len(list(read_records(results))) == 3


def test_workers_do_not_change_the_rows(table, data, tmp_path):
    one = run_table(table, data, tmp_path / "one.jsonl")
    two = run_table(table, data, tmp_path / "two.jsonl", n_workers=2)
    assert without_times(one) == without_times(two)


def test_a_failure_is_a_record_and_is_tried_again(table, data, tmp_path):
    bad = LabelledRows(np.where(np.arange(400)[:, None] == 3, np.inf, data.X), data.y)
    records = run_table(table, bad, tmp_path / "r.jsonl", only=["1-NN"])
    assert all("infinity" in record["failure"] for record in records)
    assert "failed: ValueError" in to_markdown(table, summarise(table, records))
    mended = run_table(table, data, tmp_path / "r.jsonl", only=["1-NN"])
    assert all("failure" not in record for record in mended)


def test_cells_of_other_data_or_other_effort_are_not_taken_for_these(table, data, tmp_path):
    results = tmp_path / "r.jsonl"
    whole = run_table(table, data, results, only=["1-NN"], quick=True)
    ran = []
    run_table(table, data, results, only=["1-NN"], on_cell=lambda *cell: ran.append(cell))
    assert len(ran) == 3
    other = LabelledRows(data.X + 1, data.y)
    run_table(table, other, results, only=["1-NN"], on_cell=lambda *cell: ran.append(cell))
    assert len(ran) == 6
    # those that are there still count, and so do records from before origins were kept
    again = run_table(table, data, results, only=["1-NN"], quick=True)
    assert without_times(again) == without_times(whole)
    old = [{k: v for k, v in r.items() if k not in ("data", "quick")} for r in whole]
    results.write_text("".join(json.dumps(record) + "\n" for record in old))
    run_table(table, other, results, only=["1-NN"], on_cell=lambda *_: pytest.fail("ran again"))
    assert len(latest([*old, *whole])) == 3


def test_a_killed_run_goes_on_and_ends_with_the_same_rows(table, data, tmp_path):
    whole = run_table(table, data, tmp_path / "whole.jsonl")
    script = textwrap.dedent(f"""
        import time
        from pathlib import Path
        from sklearn.datasets import load_digits
        from dbdl.experiments.rows import LabelledRows
        from dbdl.experiments.run import run_table
        from dbdl.experiments.spec import Table
        X, y = load_digits(return_X_y=True)
        run_table(Table.from_toml({TOML!r}, "tiny.toml"), LabelledRows(X[:400], y[:400]),
                  Path({str(tmp_path / "killed.jsonl")!r}), on_cell=lambda *_: time.sleep(0.5))
    """)
    process = subprocess.Popen([sys.executable, "-c", script])
    results = tmp_path / "killed.jsonl"
    for _ in range(600):
        if results.exists() and len(list(read_records(results))) >= 2:
            break
        time.sleep(0.1)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    n_before = len(list(read_records(results)))
    assert 2 <= n_before < 9
    assert without_times(run_table(table, data, results)) == without_times(whole)


# ------------------------------------------------------------------------------------ one cell


def test_settings_that_are_not_given_are_chosen_on_training_rows(data):
    train = Part(data.X[:200], data.y[:200])
    method = methods()["CRC"]
    chosen = choose_settings(method, {}, train, seed=0)
    assert chosen["penalty"] in method.grid["penalty"]
    assert choose_settings(method, {"penalty": 0.5}, train, seed=0) == {}


def test_a_class_with_one_row_takes_the_middle_of_the_grid(data):
    train = Part(np.vstack([data.X[:50], data.X[60:61]]), np.append(data.y[:50], 77))
    grid = methods()["CRC"].grid["penalty"]
    assert choose_settings(methods()["CRC"], {}, train, 0) == {"penalty": grid[len(grid) // 2]}


def test_what_is_measured_of_dbdl(data):
    train, test = Part(data.X[:150], data.y[:150]), Part(data.X[150:], data.y[150:])
    quick = {"n_sweeps": 3, "random_state": 0}
    figures = measure(methods()["DBDL 1 chain"], quick, train, test)
    assert figures["accuracy"] > 0.7 and 0 < figures["log_loss"] < 2
    assert figures["best_accuracy"] >= figures["accuracy"]
    answers = methods()["DBDL 1 chain"](**quick).fit(*train).predict(test.X)
    assert figures["balanced_accuracy"] == balanced_accuracy_score(test.y, answers)
    assert figures["macro_f1"] == f1_score(test.y, answers, average="macro")
    assert 0 <= figures["calibration_error"] < 0.5 and figures["n_atoms"] > 50


def test_of_several_coders_the_one_with_the_largest_weight_is_named(data):
    train, test = Part(data.X[:150], data.y[:150]), Part(data.X[150:], data.y[150:])
    settings = {"n_sweeps": 3, "n_chains": 3, "coder": "forward", "random_state": 0}
    model = methods()["DBDL"](**settings).fit(*train)
    weights = (0.4, 0.25, 0.35)
    coders = (Forward(4), Forward(2), Forward(2))
    model.chains_ = [
        replace(chain, weight=weight, coder=coder)
        for chain, weight, coder in zip(model.chains_, weights, coders, strict=True)
    ]
    assert most_used_coder(model) == Forward(2)
    figures = measure(methods()["DBDL"], settings, train, test)
    assert figures["coder"] in {coder.label for coder in model.held_out_.coders}


def test_the_atoms_of_one_chain_are_counted_where_the_number_of_chains_is_left_open(data):
    train, test = Part(data.X[:150], data.y[:150]), Part(data.X[150:], data.y[150:])
    given = {"n_sweeps": 2, "random_state": 0, "views": "plain", **methods()["DBDL"].fixed}
    figures = measure(methods()["DBDL"], given, train, test)
    assert figures["n_atoms"] == pytest.approx(0.78 * 135, rel=0.08)  # of 15 chains


def test_log_loss_and_calibration_error_by_hand():
    probability = np.array([[0.8, 0.2], [0.6, 0.4], [0.1, 0.9]])
    figures = probability_figures(probability, np.array(["a", "b"]), np.array(["a", "b", "z"]))
    assert figures["log_loss"] == pytest.approx(-np.log([0.8, 0.4, 1e-15]).mean())
    assert figures["calibration_error"] == pytest.approx((0.2 + 0.6 + 0.9) / 3)


def test_the_calibration_floor_is_the_error_of_calibrated_probabilities():
    rng = np.random.default_rng(1)
    confidence = rng.uniform(0.5, 1, 2000)
    errors = [calibration_error(confidence, rng.random(2000) < confidence) for _ in range(50)]
    assert calibration_floor(confidence) == pytest.approx(np.mean(errors), rel=0.1)
    assert calibration_floor(confidence[:100]) > 3 * calibration_floor(confidence)
    assert calibration_floor(np.ones(10)) == 0


def test_nothing_is_said_to_be_chosen_where_there_was_one_coder(data):
    train, test = Part(data.X[:150], data.y[:150]), Part(data.X[150:], data.y[150:])
    given = {"n_sweeps": 3, "random_state": 0, **methods()["DBDL 1 chain"].fixed}
    figures = measure(methods()["DBDL 1 chain"], given, train, test)
    assert "coder" not in figures and "best_accuracy" not in figures


def test_atoms_are_those_of_one_dictionary_in_every_ensemble(data):
    train, test = Part(data.X[:150], data.y[:150]), Part(data.X[150:], data.y[150:])
    given = {"random_state": 0, "calibrate": False, **methods()["DBDL unlearned"].fixed}
    figures = measure(methods()["DBDL unlearned"], given, train, test)
    assert figures["n_atoms"] == pytest.approx(0.78 * 150, rel=0.08)  # 150 in the five together


# ----------------------------------------------------------------------------------------- quick


@pytest.mark.parametrize("name", methods())
def test_with_quick_no_method_chooses_anything(name):
    table = Table("t", "t", "", {"c": Protocol(folds=2)}, (Entry(name),))
    [entry] = nothing_chosen(table).entries
    given = methods()[name](**entry.settings).get_params()
    coder = given.get("coder")
    assert coder != "auto" and (given.get("n_nonzero") != "auto" or isinstance(coder, Coder))


def test_with_quick_a_fit_of_dbdl_tries_one_coder(data):
    table = Table("t", "t", "", {"c": Protocol(folds=2)}, (Entry("DBDL", FEW),))
    [record] = run_table(table, data, None, n_splits=1, quick=True)
    assert record["chosen"] == {} and "coder" not in record
    first = next(cells(nothing_chosen(table), data))
    assert first.entry.settings == {**FEW, "coder": LassoPath(14)}
    assert json.loads(record["settings"]) == {**FEW, "coder": repr(LassoPath(14))}
    model, _ = fit_cell(first, data)  # the model of the page is that of the table
    assert len(model.held_out_.coders) == 1 and {c.coder for c in model.chains_} == {LassoPath(14)}


def test_settings_that_a_table_gives_stay_with_quick():
    entries = (Entry("DBDL", {"n_nonzero": 7}), Entry("bagged rows"), Entry("ridge"))
    table = Table("t", "t", "", {"c": Protocol(folds=2)}, entries)
    ours, bagged, ridge = (entry.settings for entry in nothing_chosen(table).entries)
    assert ours == {"coder": LassoPath(7)} and bagged == {"coder": LassoPath(14)} and not ridge


def test_a_table_says_whether_settings_were_searched(table):
    quick, whole = (with_search_note(table, quick).note for quick in (True, False))
    assert quick.startswith("Only a test. Nothing was searched (--quick)") and "DBDL" in quick
    assert "chosen on training rows" in whole and "Nothing was searched" not in whole


# ------------------------------------------------------------------------------------ the table


def test_the_paper_s_own_dbdl_is_a_method_and_stands_beside_the_paper_s_figures():
    ours = methods()["DBDL (paper)"]
    assert ours().get_params() == DBDLClassifier.paper().get_params()
    for name in table_names():
        table = load_table(name)
        printed = {e.method for e in table.entries if e.accuracy or e.fit_seconds}
        assert not printed or "DBDL (paper)" in printed
        assert not {"DBDL", "DBDL 1 chain"} & printed


def records_of(**accuracies):
    """Records of methods, named with _ for a space, with an accuracy in % for each split."""
    return [
        {"table": "t", "column": "c", "method": method.replace("_", " "), "settings": "{}",
         "split": split, "accuracy": value / 100, "n_train": 80, "n_test": 20}
        for method, values in accuracies.items()
        for split, value in enumerate(values)
    ]  # fmt: skip


def text_of(**accuracies):
    names = [method.replace("_", " ") for method in accuracies]
    columns = {"c": Protocol(folds=5)}
    table = Table("t", "t", "", columns, tuple(Entry(name) for name in names))
    return to_markdown(table, summarise(table, records_of(**accuracies)))


def test_means_over_classes_are_in_the_table_where_classes_are_unbalanced_and_always_in_records():
    table = Table("t", "t", "", {"c": Protocol(folds=5)}, (Entry("DBDL"),))
    found = records_of(DBDL=[98, 96])
    for ratio in (1.9, 2.0):
        for record in found:
            record |= {"balanced_accuracy": 0.7, "macro_f1": 0.6, "class_ratio": ratio}
        lines = summarise(table, found)
        [values] = to_records(lines)
        assert (values["balanced_accuracy"], values["macro_f1"]) == pytest.approx((0.7, 0.6))
        text = to_markdown(table, lines)
        assert ("| balanced accuracy % | macro F1 % |" in text) == (ratio == 2.0)
        assert ("| 70.00 | 60.00 |" in text) == (ratio == 2.0)


def test_a_record_says_how_unbalanced_the_classes_are(data):
    y = np.where(data.y == 3, 3, 0)
    assert class_ratio(y) == (y == 0).sum() / (y == 3).sum()


def test_a_table_of_two_splits_has_differences_without_p_values_and_says_why():
    text = text_of(DBDL=[98, 98.5], ridge=[93, 93.4])
    assert "-5.05 |" in text and "(p " not in text
    assert "No p-values: 2 splits, where at least 5 are needed." in text
    five = text_of(DBDL=[98, 98.5, 98, 98.2, 98.1], ridge=[93, 93.4, 93, 93.3, 93.1])
    assert "(p " in five and "No p-values" not in five


@pytest.mark.parametrize(
    ("ours", "unlearned", "said"),
    [
        ([98, 98], [98.5, 98.5], "add nothing here: random training rows left as they are "
         "(DBDL unlearned) are 0.50 points more accurate"),
        ([98, 98], [98, 98], "add nothing here"),
        ([98, 98.4], [98, 98], "add 0.20 points to random training rows left as they are "
         "(DBDL unlearned), which 2 splits cannot tell from chance"),
        ([98, 99, 97, 98, 98], [97.5, 99.5, 96, 98.5, 98], "not told apart from chance"),
        ([98, 99, 97, 98, 98], [88, 89, 87.1, 88.2, 88], "add 9.94 points"),
    ],
)  # fmt: skip
def test_a_table_says_what_learning_adds_to_random_training_rows(ours, unlearned, said):
    assert said in text_of(DBDL=ours, DBDL_unlearned=unlearned, ridge=[93] * len(ours))


def test_a_table_without_both_says_nothing_of_learning():
    assert "earning" not in text_of(DBDL=[98, 98], ridge=[90, 90])
    assert "earning" not in text_of(DBDL_unlearned=[98, 98], ridge=[90, 90])


def test_a_difference_of_nothing_has_no_minus():
    assert "| +0.00 |" in text_of(DBDL=[98, 98.002], ridge=[98, 98])


def test_every_table_of_the_package_can_be_read_and_names_known_methods():
    assert {"yaleb", "ar", "caltech101", "caltech101_times", "scene15", "ucf_sports"} <= set(
        table_names()
    )
    for name in table_names():
        table = load_table(name)
        assert table.name == name
        for entry in table.entries:
            methods()[entry.method](**entry.settings)
            assert len(entry.accuracy) in (0, len(table.columns))
            assert set(entry.settings) <= set(methods()[entry.method]().get_params())


def test_boosting_runs_only_in_the_tables_that_name_it():
    small = {"digits", "digits_half", "wine", "iris", "breast_cancer"}
    with_boosting = {
        name for name in table_names() if "boosting" in {e.method for e in load_table(name).entries}
    }
    assert with_boosting == small
    everything = {*methods()} - {"boosting"}
    assert {entry.method for entry in load_table("yaleb").entries} == everything


def test_settings_of_a_table_may_be_words_and_numbers():
    chosen = [{"shrinkage": "auto"}, {"shrinkage": 0.1}, {"shrinkage": 0.01}]
    records = [
        {**r, "chosen": c} for r, c in zip(records_of(LDA=[90, 91, 92]), chosen, strict=True)
    ]
    table = Table("t", "t", "", {"c": Protocol(folds=3)}, (Entry("LDA"),))
    assert summarise(table, records)[0].settings == "shrinkage 0.01, 0.1, auto"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('method = "1-NN"', 'method = "2-NN"'), "unknown method '2-NN'"),
        (("n_splits = 3", "folds = 3"), "exactly one of per_class"),
        (("accuracy = [90.0]", "accurcy = [90.0]"), "unknown keys"),
        (('dataset = "digits"', ""), "dataset"),
        (('note = "Only a test."', "unit_row = true"), "unknown keys ['unit_row']"),
        (("[columns", "[columns["), "tiny.toml"),
        (("per_class", "perclass"), "unknown keys ['perclass']"),
        (("n_splits = 3", "n_splits = 0"), "n_splits is 0. Expected a whole number from 1"),
        (("accuracy = [90.0]", "accuracy = [90.0, 91.0]"), "has 2 numbers, but the table has 1"),
    ],
)
def test_a_mistake_in_a_table_is_named_with_its_file(change, message):
    with pytest.raises(SpecError, match=r"tiny\.toml") as error:
        Table.from_toml(TOML.replace(*change), "tiny.toml")
    assert message in str(error.value)


def test_a_table_that_does_not_exist_is_refused_with_those_that_do():
    with pytest.raises(SpecError, match=r"unknown table 'yale'.*yaleb"):
        load_table("yale")


def test_the_summary_stands_beside_the_paper(table, data, tmp_path):
    records = run_table(table, data, tmp_path / "r.jsonl")
    lines = summarise(table, records)
    assert [line.accuracy for line in lines] == sorted((r.accuracy for r in lines), reverse=True)
    crc = next(line for line in lines if line.method == "CRC")
    assert (crc.paper, crc.paper_spread, crc.n_splits) == (90.0, 1.5, 3)
    text = to_markdown(table, lines)
    assert "90.00 ± 1.50" in text and "Only a test." in text and "3 splits" in text
    assert "paper fit s" not in text  # empty columns are left out
    assert to_records(lines)[0]["paper_fit_seconds"] is None


def test_a_paired_difference_by_chance_is_not_significant_and_a_steady_one_is():
    rng = np.random.default_rng(0)
    assert paired_p_value(rng.standard_normal(10), 1.0) > 0.05
    assert paired_p_value(3 + 0.1 * rng.standard_normal(10), 1.0) < 1e-4
    assert paired_p_value(np.zeros(5), 1.0) == 1.0


@pytest.mark.parametrize("n_splits", [0, 1, 2, 4])
def test_fewer_than_five_splits_have_no_p_value(n_splits):
    assert np.isnan(paired_p_value(3 + 0.1 * np.arange(n_splits), 0.25))
    assert paired_p_value(3 + 0.1 * np.arange(5), 0.25) < 1e-4


def test_chance_is_judged_by_the_share_of_test_rows():
    differences = np.array([1.0, 2.0, 3.0, 1.5, 2.5])
    by_share = [paired_p_value(differences, share) for share in (0.25, 1.0, 6.7)]
    assert by_share == sorted(by_share) and by_share[0] < by_share[2] / 2
    assert np.isnan(paired_p_value(differences, np.nan))


def test_cells_of_other_data_or_effort_are_left_out():
    def record(data, quick, method="ridge"):
        return {"table": "t", "column": "c", "method": method, "settings": "{}", "split": 0,
                "data": data, "quick": quick}  # fmt: skip

    found = latest([record("old", False), record("new", True), record("new", False)])
    assert found == [record("new", False)]
    assert latest([]) == []
