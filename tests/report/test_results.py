"""The report on an experiment has our numbers beside the paper's."""

from __future__ import annotations

import pytest

from dbdl.experiments.spec import load_table
from dbdl.experiments.summary import summarise, text_cells
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
        for cell in text_cells(line)[:3]:
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


def test_failures_alone_are_shown_as_failures(tmp_path):
    path = write_results(TABLE, summarise(TABLE, RECORDS[-1:]), tmp_path / "results.html")
    page = path.read_text(encoding="utf-8")
    assert "failed: ValueError: &lt;no&gt;" in page and "Nothing has finished yet" in page
