"""The report on an experiment: our numbers beside the paper's, in tables that can be sorted."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from dbdl._files import write_atomically
from dbdl.experiments.spec import Table
from dbdl.experiments.summary import HEADINGS, Line, notes, text_cells
from dbdl.report.charts import Scale
from dbdl.report.markup import Cell, document, footer, head, json_script, svg, table, text

#: What a column of `HEADINGS` is sorted by.
_SORTED_BY = (
    "method", "accuracy", "paper", "difference", "log_loss", "calibration_error", "n_atoms",
    "fit_seconds", "paper_fit_seconds", "query_milliseconds", "paper_milliseconds", "settings",
)  # fmt: skip


def write_results(
    experiment: Table,
    lines: Sequence[Line],
    path: str | os.PathLike[str],
    *,
    records: Iterable[dict[str, Any]] = (),
) -> Path:
    """Write the summary of an experiment as one HTML file with nothing to fetch.

    Parameters
    ----------
    experiment : Table
    lines : sequence of Line
        From `dbdl.experiments.summary.summarise`.
    path : str or path-like
        Of the HTML file, in a folder that exists. A file that is there is replaced.
    records : iterable of dict, optional
        Those that the lines come from; machine and versions are taken from them.

    Returns
    -------
    path : Path
    """
    columns = [column for column in experiment.columns if _of(lines, column)]
    if not columns:
        raise ValueError(
            f"there are no lines of the table {experiment.name!r}; run it before writing its report"
        )
    names = {f"column-{number}": column for number, column in enumerate(columns)}
    sections = [_section(key, column, _of(lines, column)) for key, column in names.items()]
    note = f"<p>{text(experiment.note.strip())}</p>" if experiment.note else ""
    today = f"{datetime.now(UTC):%d %B %Y}"
    body = (
        head(experiment.title, " · ".join(filter(None, (experiment.dataset, today))), names)
        + f'<main id="main">{note}{"".join(sections)}</main>'
        + footer(_machines(records))
    )
    page = document(experiment.title, "", body, json_script("data", {}))
    return write_atomically(path, page.encode())


def _of(lines: Sequence[Line], column: str) -> list[Line]:
    return [line for line in lines if line.column == column]


def _section(key: str, column: str, lines: list[Line]) -> str:
    n_splits = max(line.n_splits for line in lines)
    cells = [text_cells(line) for line in lines]
    shown = [i for i in range(len(HEADINGS)) if any(row[i] for row in cells)]
    rows = [
        [Cell(_shown(row[i], i), _sorted_by(line, i)) for i in shown]
        for line, row in zip(lines, cells, strict=True)
    ]
    caption = f"{column}, {n_splits} split{'s' * (n_splits != 1)}"
    said = "".join(f"<p>{text(note)}</p>" for note in notes(column, lines))
    return (
        f'<section id="{key}" aria-labelledby="{key}-heading"><h2 id="{key}-heading">'
        f"{text(column)}</h2><p>{_figures_in_words(lines)}</p>{said}"
        f'<figure class="wide">{_dots(lines)}</figure>'
        f'<div class="whole">{table(caption, [HEADINGS[i] for i in shown], rows)}</div>'
        f"{_coders(lines)}</section>"
    )


def _figures_in_words(lines: Sequence[Line]) -> str:
    """Say what the columns of the table are."""
    several = any(line.n_splits > 1 for line in lines)
    judged = any(np.isfinite(line.p_value) for line in lines)
    return (
        f"Accuracy in %{', mean ± standard deviation over splits' * several}. Minus DBDL: the "
        "difference to DBDL on the same rows, in points"
        f"{'; p: how likely one as large is by chance' * judged}. Atoms: of one dictionary, where "
        "a method has several. Fit s: one fit, without compilation, which was done before."
    )


def _coders(lines: Sequence[Line]) -> str:
    """Explain the names of coders, where DBDL chose one."""
    if not any("in hindsight" in line.settings for line in lines):
        return ""
    return (
        '<p class="soft">Coders: F28 is forward selection and O28 textbook matching pursuit with '
        "28 non-zeros, m the mean along its path, L28 the lasso's path up to 28. In hindsight: the "
        "best one on the test rows, which no one may choose by.</p>"
    )


def _shown(cell: str, i: int) -> str:
    if i == 0:  # a method's name stays on one line
        return text(cell).replace(" ", "\u00a0")
    return text(cell).replace("-", "−") if cell[:1] == "-" else text(cell)


def _sorted_by(line: Line, i: int) -> float | str:
    value = getattr(line, _SORTED_BY[i])
    if isinstance(value, str):
        return value or " "
    return float(value) if np.isfinite(value) else ""


def _dots(lines: Sequence[Line]) -> str:
    """Draw accuracies with their spread; the paper's numbers are open diamonds."""
    drawn = [line for line in lines if np.isfinite(line.accuracy)]
    values = [
        value
        for line in drawn
        for value in (line.accuracy - np.nan_to_num(line.spread),
                      line.accuracy + np.nan_to_num(line.spread), line.paper)
        if np.isfinite(value)
    ]  # fmt: skip
    if not values:
        return "<p>Nothing has finished yet.</p>"
    longest = max(len(line.method) for line in drawn)
    step, width, left = 22, 720, min(190, 24 + 7 * longest)  # about 7 units a letter
    height = step * len(drawn) + 46
    low = max(min(values) - 1, 0.0)
    x = Scale(low, min(max(values) + 1, 100.0), left, width - 16)
    parts = []
    for value in x.ticks():
        parts.append(
            f'<line class="grid" x1="{x(value)}" x2="{x(value)}" y1="4" y2="{height - 40}"/>'
            f'<text x="{x(value)}" y="{height - 22}" text-anchor="middle">{value:g}</text>'
        )
    for number, line in enumerate(drawn):
        parts.append(_dot(line, x, 16 + step * number, left))
    has_paper = any(np.isfinite(line.paper) for line in drawn)
    parts.append(
        f'<text class="title" x="{(left + width) / 2}" y="{height - 4}" text-anchor="middle">'
        f"accuracy, %{': dots ours, diamonds the paper’s' * has_paper}</text>"
    )
    label = "; ".join(f"{line.method} {line.accuracy:.2f} %" for line in drawn)
    return svg(width, height, f"Accuracies: {label}", "".join(parts))


def _dot(line: Line, x: Scale, y: float, left: float) -> str:
    tip = f"{line.method}: {line.accuracy:.2f}"
    spread = np.nan_to_num(line.spread)
    tip += f" ± {line.spread:.2f} %" if spread else " %"
    paper = ""
    if np.isfinite(line.paper):
        tip += f"; the paper: {line.paper:.2f} %"
        at = x(line.paper)
        paper = (
            f'<path class="paper-mark" d="M{at} {y - 6}L{at + 6} {y}L{at} {y + 6}L{at - 6} {y}Z"/>'
        )
    ends = f'x1="{x(line.accuracy - spread)}" x2="{x(line.accuracy + spread)}"'
    return (
        f'<g data-tip="{text(tip)}"><text x="{left - 10}" y="{y + 4}" text-anchor="end">'
        f'{text(line.method)}</text><line class="whisker" {ends} y1="{y}" y2="{y}"/>'
        f'{paper}<circle class="dot" r="5" cx="{x(line.accuracy)}" cy="{y}"/></g>'
    )


def _machines(records: Iterable[dict[str, Any]]) -> str:
    found = {
        f"{r['machine']}; Python {r.get('python', '?')}; {r.get('versions', '')}"
        for r in records
        if "machine" in r
    }
    return "".join(f"<p>Measured on {text(name)}.</p>" for name in sorted(found))
