"""The report on an experiment: what it shows in a sentence, tables that can be sorted and saved."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from dbdl._files import write_atomically
from dbdl.experiments.headline import headline, how_judged
from dbdl.experiments.printing import (
    HEADINGS,
    Panel,
    grid_of_means,
    grid_of_splits,
    panels,
    to_csv,
)
from dbdl.experiments.spec import Table
from dbdl.experiments.summary import MAJORITY, OURS, Line, worth_drawing
from dbdl.registry import methods
from dbdl.report.charts import WIDTHS, Scale, minus
from dbdl.report.rendering import render


def write_results(
    experiment: Table,
    lines: Sequence[Line],
    path: str | os.PathLike[str],
    *,
    records: Sequence[dict[str, Any]] = (),
    origin: Mapping[str, str] | None = None,
) -> Path:
    """Write the summary of an experiment as one HTML file that fetches nothing.

    Parameters
    ----------
    experiment : Table
    lines : sequence of Line
        From `dbdl.experiments.summary.summarise`.
    path : str or path-like
        The HTML file, in a folder that exists. An existing file is replaced.
    records : sequence of dict, optional
        The records behind the lines; they name the machine and the versions, and how they came
        about.
    origin : mapping of str to str, optional
        How to get the page again: its ``command``, the ``file`` of the data and the ``seed``; by
        default those of the last record.

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
    sections = {f"column-{i}": column["name"] for i, column in enumerate(columns)}
    sections |= {"methods": "Methods", "reading": "How to read", "again": "Run it again"}
    page = render(
        "results.html",
        title=experiment.title,
        subtitle=Path(experiment.dataset).name,
        sections=sections,
        note=experiment.note.strip(),
        columns=columns,
        about=_about([line.method for line in lines]),
        downloads=_downloads(experiment, lines, records),
        origin=_origin(records) if origin is None else dict(origin),
        ours=OURS,
        machines=sorted(machines),
        data={},
    )
    return write_atomically(path, page)


def _origin(records: Sequence[dict[str, Any]]) -> dict[str, str]:
    last = records[-1] if records else {}
    fields = {"command": "command", "file": "file", "seed": "seed", "fingerprint": "data"}
    return {name: str(last[field]) for name, field in fields.items() if field in last}


def _about(names: Sequence[str]) -> list[dict[str, str]]:
    """Return what each method is, in a line, and its paper."""
    known = methods()
    found = []
    for name in dict.fromkeys(names):
        if name == MAJORITY:
            does, paper = "the most frequent class of the training rows, whatever the row is", ""
        else:
            method = known.get(name)
            does, paper = ("", "") if method is None else (method.in_a_line, method.paper)
        found.append({"name": name, "does": does, "paper": paper})
    return found


def _downloads(
    experiment: Table, lines: Sequence[Line], records: Sequence[dict[str, Any]]
) -> list[tuple[str, str, str]]:
    """Return tables as files inside the page: the words of a link, the file's name and address."""
    grids = [("the means as CSV", "means", grid_of_means(experiment, lines))]
    if own := [r for r in records if "split" in r]:
        grids.append(("every split as CSV", "splits", grid_of_splits(experiment, own)))
    stem = re.sub(r"\W+", "-", experiment.name)
    return [
        (words, f"{stem}-{kind}.csv", "data:text/csv;charset=utf-8," + quote(to_csv(grid)))
        for words, kind, grid in grids
    ]


def _column(panel: Panel) -> dict[str, Any]:
    lines, headings = panel.lines, panel.headings
    majority = next((line for line in lines if line.method == MAJORITY), None)
    rows = [
        [(_shown(*cell), _sorted_by(line, cell[0])) for cell in zip(headings, row, strict=True)]
        for line, row in zip(lines, panel.cells, strict=True)
    ]
    return {
        **panel._asdict(),
        "headline": headline(lines),
        "judged": how_judged(lines),
        "methods": [line.method for line in lines],
        "majority": None if majority is None else majority.accuracy,
        "has_splits": any(line.n_splits > 1 for line in lines),
        "has_p_values": any(np.isfinite(line.p_value) for line in lines),
        "has_paper": any(np.isfinite(line.paper) for line in lines),
        "has_means_over_classes": "balanced accuracy %" in headings,
        "has_hindsight": any("in hindsight" in line.settings for line in lines),
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
    drawn = worth_drawing(lines)
    if not drawn:
        return None
    dots = [(line, float(np.nan_to_num(line.spread)), _tip(line)) for line in drawn]
    values = [line.accuracy + sign * spread for line, spread, _ in dots for sign in (-1, 1)]
    values += [line.paper for line, *_ in dots if np.isfinite(line.paper)]
    low, high = max(min(values) - 1, 0.0), min(max(values) + 1, 100.0)
    longest = max(len(line.method) for line, *_ in dots)
    label = "; ".join(f"{line.method} {line.accuracy:.2f} %" for line, *_ in dots)
    return {
        kind: {
            "x": Scale(low, high, min(width * 0.4, 24 + 6.5 * longest), width - 14),
            "dots": dots,
            "label": f"Accuracies: {label}",
            "width": width,
        }
        for kind, width in WIDTHS.items()
    }


def _tip(line: Line) -> str:
    spread = f" ± {line.spread:.2f}" if np.nan_to_num(line.spread) else ""
    paper = f"; the paper: {line.paper:.2f} %" if np.isfinite(line.paper) else ""
    return f"{line.method}: {line.accuracy:.2f}{spread} %{paper}"
