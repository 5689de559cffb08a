"""The report of an experiment has our numbers beside the paper's."""

from __future__ import annotations

import pytest

from dbdl.experiments.printing import text_cells
from dbdl.experiments.spec import load_table, with_search_note
from dbdl.experiments.summary import summarise
from dbdl.report import write_results

TABLE = load_table("yaleb")
COLUMN = next(iter(TABLE.columns))


def record(method, split, **figures):
    return {
        "table": TABLE.name, "column": COLUMN, "method": method, "settings": "{}", "split": split,
        "machine": "Linux <x86>, 2 cores", "python": "3.11", "versions": "numpy 2", "chosen": {},
        **figures,
    }  # fmt: skip


RECORDS = [
    *(record("DBDL", s, accuracy=0.98 + s / 1000, fit_seconds=3.0) for s in range(3)),
    *(record("SRC", s, accuracy=0.96 - s / 1000, fit_seconds=1.0) for s in range(3)),
    record("CRC", 0, failure="ValueError: <no>"),
]


def test_every_cell_of_the_summary_is_in_the_table(tmp_path):
    lines = summarise(TABLE, RECORDS)
    path = write_results(TABLE, lines, tmp_path / "results.html", records=RECORDS)
    page = path.read_text(encoding="utf-8")
    for line in lines:
        for cell in list(text_cells(line).values())[:3]:
            assert cell.replace("<", "&lt;").replace(">", "&gt;") in page
    assert "96.32" in page  # the paper's accuracy of SRC
    assert "Linux &lt;x86&gt;, 2 cores" in page
    assert 'data-value="nan"' not in page and ">nan<" not in page


def test_what_was_not_run_is_not_there_and_an_empty_table_is_refused(tmp_path):
    path = write_results(TABLE, summarise(TABLE, RECORDS[:3]), tmp_path / "results.html")
    page = path.read_text(encoding="utf-8")
    assert ">DBDL<" in page and ">SRC<" not in page
    with pytest.raises(ValueError, match="no lines of the table 'yaleb'"):
        write_results(TABLE, [], tmp_path / "empty.html")


def test_p_values_and_words_about_them_need_five_splits(tmp_path):
    few = write_results(TABLE, summarise(TABLE, RECORDS), tmp_path / "few.html")
    page = few.read_text(encoding="utf-8")
    assert "No p-values: 3 splits, where at least 5 are needed" in page and "by chance" not in page
    five = [
        record(method, s, accuracy=share + s / 1000, n_train=80, n_test=20)
        for method, share in (("DBDL", 0.98), ("SRC", 0.96))
        for s in [0, 1, 3, 4, 2]
    ]
    five[-1]["accuracy"] = 0.97
    page = write_results(TABLE, summarise(TABLE, five), tmp_path / "five.html").read_text("utf-8")
    assert "(p " in page and "by chance" in page and "No p-values" not in page


def test_the_page_says_what_learning_adds_and_how_settings_were_found(tmp_path):
    twin = [record("DBDL unlearned", s, accuracy=0.99) for s in range(3)]
    noted = with_search_note(TABLE, quick=True)
    path = write_results(noted, summarise(TABLE, [*RECORDS, *twin]), tmp_path / "results.html")
    page = path.read_text(encoding="utf-8")
    assert "Learning and views add nothing here" in page and "0.90 points more accurate" in page
    assert "Nothing was searched (--quick)" in page
    assert "without compilation" in page


def test_means_over_classes_are_shown_where_classes_are_unbalanced(tmp_path):
    means = {"balanced_accuracy": 0.71, "macro_f1": 0.62}
    for ratio in (1.0, 10.0):
        found = [{**r, **means, "class_ratio": ratio} for r in RECORDS[:3]]
        page = write_results(TABLE, summarise(TABLE, found), tmp_path / "results.html").read_text(
            encoding="utf-8"
        )
        for words in ("balanced accuracy %", "macro F1 %", "71.00", "which count alike"):
            assert (words in page) == (ratio == 10.0), words


def test_failures_alone_are_shown_as_failures(tmp_path):
    path = write_results(TABLE, summarise(TABLE, RECORDS[-1:]), tmp_path / "results.html")
    page = path.read_text(encoding="utf-8")
    assert "failed: ValueError: &lt;no&gt;" in page and "Nothing has finished yet" in page
