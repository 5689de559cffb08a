"""Printing: tables on standard output; progress, notes and complaints on standard error."""

from __future__ import annotations

import csv
import io
import json
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn
from rich.table import Table as RichTable

from dbdl._files import write_atomically
from dbdl.experiments.run import Record
from dbdl.experiments.spec import Table
from dbdl.experiments.summary import HEADINGS, Line, Panel, notes, panels, to_markdown, to_records


def say(message: str, prefix: str = "") -> None:
    """Print a message on standard error, on one line; :100: in a path is not an emoji."""
    Console(stderr=True, soft_wrap=True, emoji=False).print(prefix + escape(message))


def complain(message: str) -> None:
    """Say what went wrong."""
    say(message, "[bold red]dbdl:[/] ")


def show_warnings_as_notes() -> None:
    """Print each warning once, on one line without its place in the code.

    FutureWarnings are hidden: they are for authors.
    """
    warnings.filterwarnings("ignore", category=FutureWarning)
    seen: set[str] = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        text = " ".join(str(message).split())
        if text not in seen:
            seen.add(text)
            say(text, "[yellow]note:[/] ")

    warnings.showwarning = show


def print_pairs(found: dict[str, Any], as_json: bool) -> None:
    """Print names and values; those that are None are left out on the screen."""
    if as_json:
        print(json.dumps(found))
        return
    known = ((name.replace("_", " "), v) for name, v in found.items() if v is not None)
    print_columns((), ((name, f"{v:.4g}" if isinstance(v, float) else str(v)) for name, v in known))


def print_columns(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table of texts."""
    shown = RichTable(*headings, show_header=bool(headings))
    for row in rows:
        shown.add_row(*map(escape, row))
    Console().print(shown)


def print_results(table: Table, lines: Sequence[Line], as_json: bool) -> None:
    """Print a summary: for programs, for a person at a terminal, or as Markdown for a file."""
    if as_json:
        said = {column: notes(column, lines) for column in table.columns}
        shown = {"title": table.title, "note": table.note, "notes": said}
        print(json.dumps({**shown, "lines": to_records(lines)}))
    elif sys.stdout.isatty():
        print_panels(table, lines, Console())
    else:
        print(to_markdown(table, lines))


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
            style = "bold" if row[0].startswith("DBDL") else None
            grid.add_row(*(cells[name] for name in shown), style=style)
        console.print(grid)
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


@contextmanager
def steps_bar(what: str, *, quiet: bool) -> Iterator[Callable[[int, int, str], None]]:
    """Show progress over steps; called with those done, all, and a line to print."""
    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True, quiet=quiet)
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(what, total=None)

        def on_step(n_done: int, n_steps: int, found: str) -> None:
            progress.update(task, completed=n_done, total=n_steps)
            console.print(escape(found), style="dim")

        yield on_step


@contextmanager
def cells_bar(*, quiet: bool) -> Iterator[Callable[[Record, int, int], None]]:
    """Show progress over the cells of a table, and a line for each that is finished."""
    with steps_bar("cells", quiet=quiet) as on_step:

        def on_cell(record: Record, n_done: int, n_cells: int) -> None:
            result = record.get("failure") or f"{100 * record['accuracy']:.2f} %"
            on_step(n_done, n_cells, f"{record['method']}, split {record['split']}: {result}")

        yield on_cell


def write_csv(output: Path | None, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a table to a file, whole or not at all, or to standard output."""
    text = io.StringIO(newline="")
    csv.writer(text).writerows([header, *rows])
    if output is None:
        sys.stdout.write(text.getvalue())
    else:
        write_atomically(output, text.getvalue().encode())
