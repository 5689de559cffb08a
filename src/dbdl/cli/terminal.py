"""Printing: tables on standard output; progress, notes and complaints on standard error."""

from __future__ import annotations

import csv
import io
import json
import sys
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

from dbdl._files import write_atomically
from dbdl.experiments.headline import headline
from dbdl.experiments.printing import (
    HEADINGS,
    Panel,
    grid_of_means,
    grid_of_splits,
    grid_to_latex,
    grid_to_markdown,
    panels,
    to_csv,
    to_latex,
    to_markdown,
    to_records,
)
from dbdl.experiments.run import Record
from dbdl.experiments.spec import Table
from dbdl.experiments.summary import OURS, Line, notes

#: Consoles of the bars that are shown now. Messages go through the last one: it prints them above
#: its bar, and never into the bar's line.
LIVE: list[Console] = []


def say(message: str, prefix: str = "") -> None:
    """Print a message on standard error, on one line; :100: in a path is not an emoji."""
    console = LIVE[-1] if LIVE else Console(stderr=True)
    console.print(prefix + escape(message), soft_wrap=True, emoji=False, highlight=False)


def complain(message: str) -> None:
    """Say what went wrong."""
    say(message, "[bold red]dbdl:[/] ")


def show_warnings_as_notes() -> None:
    """Print each warning once, on one line without its place in the code.

    FutureWarnings are hidden: they are for authors. So is scikit-learn's warning of rows without
    names: the commands find the columns of a table by name before they make rows of them.
    """
    warnings.filterwarnings("ignore", category=FutureWarning)
    warnings.filterwarnings("ignore", message="X does not have valid feature names")
    _NOTED.clear()
    warnings.showwarning = lambda message, *_, **__: note(str(message))


_NOTED: set[str] = set()


def note(message: str) -> None:
    """Print a note, once."""
    text = " ".join(message.split())
    if text not in _NOTED:
        _NOTED.add(text)
        say(text, "[yellow]note:[/] ")


def print_pairs(found: dict[str, Any], as_json: bool) -> None:
    """Print names and values; those that are None are left out on the screen.

    Accuracies and other shares are in per cent on the screen, and from 0 to 1 for programs.
    """
    if as_json:
        print(json.dumps(found))
        return
    known = ((name.replace("_", " "), v) for name, v in found.items() if v is not None)
    print_columns((), ((name, _value_in_words(name, v)) for name, v in known))


#: Words in the names of shares.
SHARES = ("accuracy", "macro f1", "share", "confidence")


def _value_in_words(name: str, value: Any) -> str:
    """Return a value as text; shares are in %, as everywhere on the screen."""
    if isinstance(value, int):
        return f"{value:,}"
    if not isinstance(value, float):
        return str(value)
    is_share = any(word in name for word in SHARES)
    return f"{100 * value:.2f} %" if is_share else f"{value:.4g}"


def print_columns(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table of texts."""
    shown = RichTable(*headings, show_header=bool(headings))
    for row in rows:
        shown.add_row(*map(escape, row))
    Console().print(shown)


Format = Literal["json", "csv", "latex", "markdown"]


def print_results(
    table: Table,
    lines: Sequence[Line],
    records: Sequence[Record],
    form: Format | None,
    per_split: bool = False,
) -> None:
    """Print a summary, or with ``per_split`` every split.

    Without a form, it is a table for a person at a terminal, and Markdown in a file.
    """
    if form == "json":
        of_column = {c: [line for line in lines if line.column == c] for c in table.columns}
        found: dict[str, Any] = {
            "title": table.title,
            "note": table.note,
            "headline": {column: headline(own) for column, own in of_column.items()},
            "notes": {column: notes(column, lines) for column in table.columns},
            "lines": to_records(lines),
        }
        print(json.dumps({**found, "splits": list(records)} if per_split else found, default=float))
    elif per_split:
        _print_splits(table, records, form)
    elif form == "csv":
        sys.stdout.write(to_csv(grid_of_means(table, lines)))
    elif form == "latex":
        print(to_latex(table, lines))
    elif form is None and sys.stdout.isatty():
        print_panels(table, lines, Console())
    else:
        print(to_markdown(table, lines))


def _print_splits(table: Table, records: Sequence[Record], form: Format | None) -> None:
    grid = grid_of_splits(table, records)
    if form == "csv":
        sys.stdout.write(to_csv(grid))
    elif form == "latex":
        print(grid_to_latex(grid))
    elif form is None and sys.stdout.isatty():
        print_columns(grid.headings, grid.rows)
    else:
        print(grid_to_markdown(grid))


#: Columns of `HEADINGS` by need: where a terminal is too narrow for all, the last are left out.
_BY_NEED = (
    "method", "accuracy %", "paper %", "minus DBDL", "balanced accuracy %", "macro F1 %", "fit s",
    "query ms", "log-loss", "atoms", "calibration error %", "paper fit s", "paper query ms",
    "chosen on training rows",
)  # fmt: skip


def print_panels(table: Table, lines: Sequence[Line], console: Console) -> None:
    """Print a summary for a person, with as many columns as the terminal has room for."""
    left_out: set[str] = set()
    for panel in panels(table, lines):
        shown = _columns_that_fit(panel, console.width)
        left_out |= set(panel.headings) - set(shown)
        grid = RichTable(title=f"{escape(table.title)}\n{escape(panel.title)}")
        for name, width in shown.items():
            is_text = name in ("method", "chosen on training rows")
            fixed = None if name == "accuracy %" else width  # where a failure is told
            justify: Any = "left" if is_text else "right"
            grid.add_column(name, justify=justify, width=fixed, min_width=width)
        for row in panel.cells:
            cells = dict(zip(panel.headings, map(escape, row), strict=True))
            style = "bold" if row[0] == OURS else None
            grid.add_row(*(cells[name] for name in shown), style=style)
        console.print(grid)
        if said := headline(panel.lines):
            console.print(escape(said), style="bold")
        for note in panel.notes:
            console.print(escape(note), style="dim")
    if table.note:
        console.print(escape(table.note.strip()), style="dim")
    if left_out:
        names = ", ".join(name for name in HEADINGS if name in left_out)
        console.print(f"Not shown: {names}. Use a wider window, --report or --json.", style="dim")


def _columns_that_fit(panel: Panel, width: int) -> dict[str, int]:
    """Return the columns to show and their widths; failures, which are long, may wrap."""
    whole, broken = {}, {}
    for name, *cells in zip(panel.headings, *panel.cells, strict=True):
        longest = max((len(c) for c in cells if not c.startswith("failed")), default=0)
        whole[name] = max(longest, len(name))
        broken[name] = max(longest, *map(len, name.split()))  # a heading breaks between words

    def is_narrow(widths: dict[str, int]) -> bool:
        return 1 + sum(3 + widths[name] for name in broken) <= width  # with lines and spaces

    for name in reversed(_BY_NEED[2:]):
        if is_narrow(broken):
            break
        broken.pop(name, None)
    return {name: whole[name] for name in broken} if is_narrow(whole) else broken


def write_csv(output: Path | None, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a table to a file, whole or not at all, or to standard output."""
    text = io.StringIO(newline="")
    csv.writer(text).writerows([header, *rows])
    if output is None:
        sys.stdout.write(text.getvalue())
    else:
        write_atomically(output, text.getvalue().encode())
