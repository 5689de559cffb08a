"""The report on an experiment: our numbers beside the paper's, in tables that can be sorted."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dbdl._files import write_atomically
from dbdl.experiments.spec import Table
from dbdl.experiments.summary import HEADINGS, Line, Panel, panels
from dbdl.report.charts import Scale, minus
from dbdl.report.rendering import render


def write_results(
    experiment: Table,
    lines: Sequence[Line],
    path: str | os.PathLike[str],
    *,
    records: Iterable[dict[str, Any]] = (),
) -> Path:
    """Write the summary of an experiment as one HTML file that fetches nothing.

    Parameters
    ----------
    experiment : Table
    lines : sequence of Line
        From `dbdl.experiments.summary.summarise`.
    path : str or path-like
        The HTML file, in a folder that exists. An existing file is replaced.
    records : iterable of dict, optional
        The records behind the lines; they name the machine and the versions.

    Returns
    -------
    path : Path

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from dbdl.datasets import load
    >>> from dbdl.experiments.rows import labelled_rows
    >>> from dbdl.experiments.run import run_table
    >>> from dbdl.experiments.spec import load_table
    >>> from dbdl.experiments.summary import summarise
    >>> from dbdl.report import write_results
    >>> table, data = load_table("iris"), labelled_rows(load("iris"), unit=False)
    >>> records = run_table(table, data, None, only=["1-NN"], n_splits=2, quick=True)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = write_results(table, summarise(table, records), f"{folder}/results.html")
    ...     page.read_text("utf-8")[:15]
    '<!DOCTYPE html>'
    """
    columns = [_column(panel) for panel in panels(experiment, lines)]
    if not columns:
        raise ValueError(
            f"there are no lines of the table {experiment.name!r}; run it before writing its report"
        )
    machines = {
        f"{r['machine']}; Python {r.get('python', '?')}; {r.get('versions', '')}"
        for r in records
        if "machine" in r
    }
    page = render(
        "results.html",
        title=experiment.title,
        subtitle=experiment.dataset,
        sections={f"column-{i}": column["name"] for i, column in enumerate(columns)},
        note=experiment.note.strip(),
        columns=columns,
        machines=sorted(machines),
        data={},
    )
    return write_atomically(path, page)


def _column(panel: Panel) -> dict[str, Any]:
    lines, headings = panel.lines, panel.headings
    rows = [
        [(_shown(*cell), _sorted_by(line, cell[0])) for cell in zip(headings, row, strict=True)]
        for line, row in zip(lines, panel.cells, strict=True)
    ]
    return {
        **panel._asdict(),
        "has_splits": any(line.n_splits > 1 for line in lines),
        "has_p_values": any(np.isfinite(line.p_value) for line in lines),
        "has_paper": any(np.isfinite(line.paper) for line in lines),
        "has_means_over_classes": "balanced accuracy %" in headings,
        "has_coders": any("in hindsight" in line.settings for line in lines),
        "chart": _dots(lines),
        "rows": rows,
    }


def _shown(heading: str, text: str) -> str:
    if heading == "method":  # a method's name stays on one line
        return text.replace(" ", "\u00a0")
    return minus(text) if text[:1] == "-" else text


def _sorted_by(line: Line, heading: str) -> float | str:
    value = getattr(line, HEADINGS[heading][0])
    if isinstance(value, str):
        return value or " "
    return float(value) if np.isfinite(value) else ""


def _dots(lines: Sequence[Line]) -> dict[str, Any] | None:
    """Return accuracies, their spread and tips; None where nothing has finished."""
    dots = [
        (line, float(np.nan_to_num(line.spread)), _tip(line))
        for line in lines
        if np.isfinite(line.accuracy)
    ]
    if not dots:
        return None
    values = [line.accuracy + sign * spread for line, spread, _ in dots for sign in (-1, 1)]
    values += [line.paper for line, *_ in dots if np.isfinite(line.paper)]
    left = min(190, 24 + 7 * max(len(line.method) for line, *_ in dots))  # 7 units per letter
    x = Scale(max(min(values) - 1, 0.0), min(max(values) + 1, 100.0), left, 704)
    label = "; ".join(f"{line.method} {line.accuracy:.2f} %" for line, *_ in dots)
    return {"x": x, "dots": dots, "label": f"Accuracies: {label}"}


def _tip(line: Line) -> str:
    spread = f" ± {line.spread:.2f}" if np.nan_to_num(line.spread) else ""
    paper = f"; the paper: {line.paper:.2f} %" if np.isfinite(line.paper) else ""
    return f"{line.method}: {line.accuracy:.2f}{spread} %{paper}"
