"""Tables written down: for a terminal, as Markdown, CSV or LaTeX, and as values for programs.

Accuracies are in % wherever people read them, and from 0 to 1 in JSON, as scikit-learn has them.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np

from dbdl.experiments.headline import headline
from dbdl.experiments.measure import UNBALANCED
from dbdl.experiments.run import Record
from dbdl.experiments.spec import Table
from dbdl.experiments.summary import Line, coders_in_words, in_splits, notes

#: Columns of a printed table by their headings: the field of a line, and the form of its number.
HEADINGS = {
    "method": ("method", ""),
    "accuracy %": ("accuracy", ".2f"),
    "paper %": ("paper", ".2f"),
    "minus DBDL": ("difference", "+z.2f"),
    "balanced accuracy %": ("balanced_accuracy", ".2f"),
    "macro F1 %": ("macro_f1", ".2f"),
    "log-loss": ("log_loss", ".3f"),
    "calibration error %": ("calibration_error", ".1f"),
    "atoms": ("n_atoms", ".0f"),
    "fit s": ("fit_seconds", ".1f"),
    "paper fit s": ("paper_fit_seconds", ".0f"),
    "query ms": ("query_milliseconds", ".2f"),
    "paper query ms": ("paper_milliseconds", ".2f"),
    "chosen on training rows": ("settings", ""),
}


def text_cells(line: Line) -> dict[str, str]:
    """Cells of a line by `HEADINGS`; empty where nothing was measured.

    Balanced accuracy and macro F1 say little more than the accuracy unless classes are unbalanced.
    """
    if line.failure and not line.n_splits:
        failed = {"method": line.method, "accuracy %": f"failed: {line.failure}"}
        return {**dict.fromkeys(HEADINGS, ""), **failed}
    cells = {name: _text(getattr(line, field), form) for name, (field, form) in HEADINGS.items()}
    cells["accuracy %"] += _text(line.spread, ".2f", " ± {}") + " *" * bool(line.failure)
    cells["paper %"] += _text(line.paper_spread, ".2f", " ± {}")
    cells["minus DBDL"] += _text(line.p_value, ".2g", " (p {})")
    if not line.class_ratio >= UNBALANCED:
        cells["balanced accuracy %"] = cells["macro F1 %"] = ""
    return cells


def _text(value: float | str, form: str, around: str = "{}") -> str:
    known = isinstance(value, str) or np.isfinite(value)
    return around.format(format(value, form)) if known else ""


class Panel(NamedTuple):
    """One column of a table as texts."""

    name: str
    title: str  #: The column's name and its number of splits.
    lines: list[Line]
    headings: list[str]  #: Those of `HEADINGS` under which any line has a text.
    cells: list[list[str]]  #: For each line its texts under these headings.
    notes: list[str]


def panels(table: Table, lines: Sequence[Line]) -> Iterator[Panel]:
    """Yield the columns of a table that have lines."""
    for column, protocol in table.columns.items():
        own = [line for line in lines if line.column == column]
        if not own:
            continue
        n_splits = max(line.n_splits for line in own)
        # the name of a column of folds says how many there are
        title = column if protocol.folds == n_splits else f"{column}, {in_splits(n_splits)}"
        rows = [text_cells(line) for line in own]
        used = [name for name in HEADINGS if any(row[name] for row in rows)]
        cells = [[row[name] for name in used] for row in rows]
        yield Panel(column, title, own, used, cells, notes(column, own))


def to_markdown(table: Table, lines: Sequence[Line]) -> str:
    """Return the table as Markdown; columns of which no line has anything are left out."""
    text = [f"### {table.title}", ""]
    for panel in panels(table, lines):
        said = filter(None, (headline(panel.lines), *panel.notes))
        text += [f"{panel.title}:", "", grid_to_markdown(Grid(panel.headings, panel.cells))]
        text += [*(note.replace("*", "\\*") + "\n" for note in said)]  # no list
    if table.note:
        text += [table.note.strip(), ""]
    return "\n".join(text)


#: Fields of a line that are in %.
_PERCENT = frozenset(
    {
        "accuracy", "spread", "difference", "balanced_accuracy", "macro_f1", "paper",
        "paper_spread", "calibration_error", "calibration_floor",
    }
)  # fmt: skip
#: Fields of a line that are for further computations only.
_INNER = frozenset({"splits", "n_test", "test_share"})


def to_records(lines: Sequence[Line]) -> list[dict[str, Any]]:
    """Return lines as plain values for JSON: shares from 0 to 1, and None for NaN."""

    def plain(name: str, value: Any) -> Any:
        if isinstance(value, float) and not np.isfinite(value):
            return None
        return round(value / 100, 12) if name in _PERCENT else value

    every = (asdict(line) for line in lines)
    return [{k: plain(k, v) for k, v in line.items() if k not in _INNER} for line in every]


# ------------------------------------------------------------------- tables for papers and programs

#: Fields of a line by heading: those of `HEADINGS`, and numbers that stand apart in a CSV file.
_FIELDS = {name: field for name, (field, _) in HEADINGS.items()} | {
    "splits": "n_splits", "standard deviation": "spread", "p-value": "p_value",
    "failure": "failure",
}  # fmt: skip
#: Columns of a table of means, and of one of single splits.
_OF_MEANS = (
    "method", "splits", "accuracy %", "standard deviation", "minus DBDL", "p-value",
    "balanced accuracy %", "macro F1 %", "log-loss", "calibration error %", "atoms", "fit s",
    "query ms", "paper %", "chosen on training rows", "failure",
)  # fmt: skip
_OF_SPLITS = (
    "accuracy %", "balanced accuracy %", "macro F1 %", "log-loss", "calibration error %", "atoms",
    "fit s", "query ms",
)  # fmt: skip


class Grid(NamedTuple):
    """A table of texts, numbers with all their digits."""

    headings: list[str]
    rows: list[list[str]]


def grid_of_means(table: Table, lines: Sequence[Line]) -> Grid:
    """Return a line per method and column; headings without any value are left out."""
    rows = []
    for line in lines:
        cells = {name: _plain(getattr(line, _FIELDS[name])) for name in _OF_MEANS}
        rows.append({"split of rows": line.column, **cells})
    return _used(rows, keep_first=len(table.columns) > 1)


def grid_of_splits(table: Table, records: Sequence[Record]) -> Grid:
    """Return a line per method and split, in the order of the records."""
    rows = []
    for record in records:
        cells = {"method": record["method"], "split": str(record["split"] + 1)}
        for name in _OF_SPLITS:
            field = _FIELDS[name]
            value: Any = record.get(field)
            known = value is not None and (field != "n_atoms" or value)  # 0: it has no atoms
            factor = 100 if field in _PERCENT else 1
            cells[name] = _plain(factor * float(value)) if known else ""
        cells["chosen on training rows"] = _chosen(record)
        cells["failure"] = record.get("failure", "")
        rows.append({"split of rows": record["column"], **cells})
    return _used(rows, keep_first=len(table.columns) > 1)


def _chosen(record: Record) -> str:
    if "coder" in record:
        return coders_in_words([record["coder"]])
    return "; ".join(f"{name} {value}" for name, value in (record.get("chosen") or {}).items())


def _plain(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}" if np.isfinite(value) else ""
    return str(value)


def _used(rows: Sequence[Mapping[str, str]], keep_first: bool) -> Grid:
    names = list(rows[0]) if rows else []
    used = [name for name in names if any(row[name] for row in rows)]
    used = used if keep_first else used[1:]
    return Grid(used, [[row[name] for name in used] for row in rows])


def to_csv(grid: Grid) -> str:
    """Return a table as CSV, by the rules of RFC 4180."""
    text = io.StringIO(newline="")
    csv.writer(text).writerows([grid.headings, *grid.rows])
    return text.getvalue()


def grid_to_markdown(grid: Grid) -> str:
    """Return a table as Markdown."""
    lines = (grid.headings, ["---"] * len(grid.headings), *grid.rows)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"


def to_latex(table: Table, lines: Sequence[Line]) -> str:
    """Return the table for a paper, with the package ``booktabs``; the best accuracy is bold."""
    text = []
    for panel in panels(table, lines):
        headings = [name for name in panel.headings if name != "chosen on training rows"]
        rows = [[_tex(cell) for cell in row[: len(headings)]] for row in panel.cells]
        best = np.nanmax([line.accuracy for line in panel.lines] + [0.0])
        for line, row in zip(panel.lines, rows, strict=True):
            if line.accuracy == best:
                row[1] = rf"\textbf{{{row[1]}}}"
        tabular = _tabular("l" + "r" * (len(headings) - 1), [list(map(_tex, headings)), *rows])
        caption = rf"\caption{{{_tex(table.title)}, {_tex(panel.title)}}}"
        text += [r"\begin{table}", r"\centering", caption, *tabular, r"\end{table}", ""]
    return "\n".join(text)


def grid_to_latex(grid: Grid) -> str:
    """Return a table of texts for a paper, with the package ``booktabs``."""
    rows = [list(map(_tex, row)) for row in (grid.headings, *grid.rows)]
    return "\n".join([*_tabular("l" * len(grid.headings), rows), ""])


def _tabular(alignment: str, rows: Sequence[list[str]]) -> list[str]:
    """Lines of a table of LaTeX cells, whose first row are the headings."""
    lines = [" & ".join(row) + r" \\" for row in rows]
    head = [rf"\begin{{tabular}}{{{alignment}}}", r"\toprule", lines[0], r"\midrule"]
    return [*head, *lines[1:], r"\bottomrule", r"\end{tabular}"]


_TEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$",
}  # fmt: skip


def _tex(text: str) -> str:
    escaped = "".join(_TEX.get(letter, letter) for letter in text)
    return re.sub(r"^([+-])(?=\d)", r"$\1$", escaped)  # a true minus
