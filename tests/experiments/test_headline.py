"""The headline names the best methods, and calls level only those that splits cannot tell apart."""

from __future__ import annotations

import pytest

from dbdl.experiments.headline import headline, how_judged
from dbdl.experiments.printing import to_records
from dbdl.experiments.protocol import Protocol
from dbdl.experiments.run import Cell, seconds_left
from dbdl.experiments.spec import Entry, Table
from dbdl.experiments.summary import MAJORITY, coders_in_words, summarise, worth_drawing
from dbdl.registry import methods

WOBBLE = (0.0, 0.4, -0.4, 0.2, -0.2)


def lines_of(n_splits=5, majority=None, calibration=None, **accuracies):
    """Lines of methods (_ for a space) with a mean accuracy in %; spreads differ by method."""
    records = [
        {"column": "c", "method": name.replace("_", " "), "split": split, "n_train": 80,
         "n_test": 200, "accuracy": (mean + (1 + number / 3) * WOBBLE[split]) / 100,
         **({} if majority is None else {"majority": {"accuracy": majority / 100}}),
         **({} if calibration is None else {"calibration_error": calibration[number] / 100})}
        for number, (name, mean) in enumerate(accuracies.items())
        for split in range(n_splits)
    ]  # fmt: skip
    entries = tuple(Entry(name.replace("_", " ")) for name in accuracies)
    return summarise(Table("t", "t", "", {"c": Protocol(folds=5)}, entries), records)


def test_methods_that_splits_cannot_tell_apart_are_level_and_dbdl_comes_first():
    said = headline(lines_of(SRC=97.9, DBDL=97.85, CRC=90.0))
    assert said.startswith("DBDL and SRC are level on this data, at 97.8 to 97.9 %")


def test_a_clear_winner_is_named_with_the_points_between():
    assert headline(lines_of(DBDL=97.0, SRC=94.0)).startswith(
        "DBDL is the most accurate on this data, with 97.0 %; SRC is 3.0 points behind"
    )
    behind = headline(lines_of(DBDL=94.0, SRC=97.0, CRC=96.0))
    assert behind.startswith("SRC is the most accurate") and "DBDL is 3.0 points behind" in behind


def test_many_level_methods_are_counted_and_variants_of_dbdl_are_not_named():
    said = headline(lines_of(A=97.0, B=97.01, C=97.02, D=97.03, DBDL=97.0, DBDL_1_chain=97.0))
    assert said.startswith("DBDL, D, C and 2 other methods are level")
    assert "1 chain" not in said


def test_the_best_calibrated_of_the_level_methods_is_named():
    said = headline(lines_of(DBDL=97.9, SRC=97.9, CRC=80.0, calibration=[1.1, 4.0, 0.2]))
    assert "DBDL’s probabilities are the best calibrated of these (error 1.1 %)" in said
    alone = headline(lines_of(DBDL=97.9, CRC=80.0, calibration=[1.1, 0.2]))
    assert "CRC’s probabilities are the best calibrated (error 0.2 %)" in alone


def test_the_majority_class_is_the_baseline_and_no_method_may_hide_behind_it():
    lines = lines_of(DBDL=97.0, SRC=90.0, majority=40.0)
    assert lines[-1].method == MAJORITY and lines[-1].accuracy == pytest.approx(40)
    assert "always answering the most frequent class is right for 40.0 %" in headline(lines)
    assert "No method is better than always" in headline(lines_of(DBDL=90, majority=90.2))


def test_few_splits_are_judged_by_the_number_of_test_rows():
    near, far = (headline(lines_of(1, DBDL=97.0, SRC=s)) for s in (96.5, 93.0))
    assert "are level" in near and "DBDL is the most accurate" in far
    assert "standard errors" in how_judged(lines_of(1, DBDL=97.0))
    assert "paired test over 5 splits" in how_judged(lines_of(DBDL=97.0))


def test_nothing_finished_has_no_headline():
    record = {"column": "c", "method": "DBDL", "split": 0, "failure": "ValueError: no"}
    table = Table("t", "t", "", {"c": Protocol(folds=5)}, (Entry("DBDL"),))
    assert headline(summarise(table, [record])) == ""


def test_a_chart_leaves_out_a_majority_class_far_below():
    for majority, drawn in ((10.0, 2), (88.0, 3)):
        assert len(worth_drawing(lines_of(DBDL=97.0, SRC=90.0, majority=majority))) == drawn


# -------------------------------------------------------------------------------- words and units


def test_labels_of_coders_are_put_in_words():
    assert coders_in_words(["L14", "L28"]) == "lasso, 14 or 28 non-zeros"
    said = coders_in_words(["F28m", "O5", "P7"])
    assert "averaged forward selection, 28 non-zeros" in said
    assert "matching pursuit, 5 non-zeros" in said and "posterior mean, 7" in said
    assert coders_in_words([]) == "" and coders_in_words(["new"]) == "new"


def test_a_hindsight_without_values_is_left_out():
    record = {"column": "c", "method": "DBDL", "split": 0, "accuracy": 0.9, "coder": "L14"}
    table = Table("t", "t", "", {"c": Protocol(folds=5)}, (Entry("DBDL"),))
    [line] = summarise(table, [record])
    assert line.settings == "lasso, 14 non-zeros"
    [line] = summarise(table, [{**record, "best_coder": "O3", "best_accuracy": 0.91}])
    best = "matching pursuit, 3 non-zeros"
    assert line.settings == f"lasso, 14 non-zeros (in hindsight {best}: 91.00 %)"


def test_programs_get_shares_and_people_get_percent():
    [line] = lines_of(DBDL=97.0)
    [values] = to_records([line])
    assert line.accuracy == pytest.approx(97) and values["accuracy"] == pytest.approx(0.97)
    assert values["spread"] == pytest.approx(line.spread / 100)


# ------------------------------------------------------------------------------------- the forecast


def cell(method, number=0):
    return Cell("t", "c", Entry(method), number, None, methods()[method])


def test_the_time_left_is_that_of_earlier_cells_of_the_same_method():
    records = [{"method": "DBDL", "seconds": 60.0}, {"method": "1-NN", "seconds": 1.0}]
    left = [cell("DBDL", 1), cell("1-NN", 1), cell("1-NN", 2)]
    assert seconds_left(left, records, quick=True) == pytest.approx(62)
    assert seconds_left(left, records, quick=True, n_workers=2) == pytest.approx(31)


def test_methods_that_have_not_run_are_judged_by_their_number_of_fits():
    assert cell("CRC").n_fits(quick=False) == 16 and cell("CRC").n_fits(quick=True) == 1
    records = [{"method": "DBDL", "seconds": 10.0}]
    assert seconds_left([cell("CRC")], records, quick=False) == pytest.approx(160)
    assert not seconds_left([cell("CRC")], [], quick=False) >= 0  # nothing is known yet
