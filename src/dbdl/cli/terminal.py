"""What the command prints: tables, progress, complaints. Data on standard output, talk on error."""

from __future__ import annotations

import csv
import io
import json
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table as RichTable

from dbdl._files import write_atomically
from dbdl.experiments.run import Record
from dbdl.experiments.spec import Table
from dbdl.experiments.summary import (
    HEADINGS,
    Line,
    notes,
    text_cells,
    to_markdown,
    to_records,
)
from dbdl.experiments.warm import in_words


def _aside() -> Console:
    """Standard error, where :100: in a path is no picture."""
    return Console(stderr=True, soft_wrap=True, emoji=False)


def complain(message: str) -> None:
    """Say what went wrong, in one line."""
    _aside().print(f"[bold red]dbdl:[/] {plain(message)}")


def say(message: str) -> None:
    """Tell how it goes, beside the output."""
    _aside().print(plain(message))


def show_warnings_as_notes() -> None:
    """Print a warning as one line, once, without the place in the code; hide those for authors."""
    warnings.filterwarnings("ignore", category=FutureWarning)
    seen: set[str] = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        text = " ".join(str(message).split())
        if text not in seen:
            seen.add(text)
            _aside().print(f"[yellow]note:[/] {plain(text)}")

    warnings.showwarning = show


def plain(text: str) -> str:
    """Take square brackets literally."""
    return text.replace("[", r"\[")


def print_pairs(found: dict[str, Any], as_json: bool) -> None:
    """Print names and values; those that are None are left out on the screen."""
    if as_json:
        print(json.dumps(found))
        return
    shown = RichTable(show_header=False)
    for name, value in found.items():
        if value is not None:
            text = f"{value:.4g}" if isinstance(value, float) else str(value)
            shown.add_row(name.replace("_", " "), plain(text))
    Console().print(shown)


def print_columns(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table of texts."""
    shown = RichTable(*headings)
    for row in rows:
        shown.add_row(*map(plain, row))
    Console().print(shown)


def print_results(table: Table, lines: Sequence[Line], as_json: bool) -> None:
    """Print a summary: for programs, for a person at a terminal, or as Markdown for a file."""
    if as_json:
        said = {column: notes(column, lines) for column in table.columns}
        shown = {"title": table.title, "note": table.note, "notes": said}
        print(json.dumps({**shown, "lines": to_records(lines)}))
    elif sys.stdout.isatty():
        _print_lines(table, lines, Console())
    else:
        print(to_markdown(table, lines))


#: Columns of `HEADINGS` that go first where a terminal is too narrow for all, the last one first.
_LESS_NEEDED = (
    "method", "accuracy %", "paper %", "minus DBDL", "fit s", "query ms", "log-loss", "atoms",
    "calibration error %", "paper fit s", "paper query ms", "chosen on training rows",
)  # fmt: skip


def _print_lines(table: Table, lines: Sequence[Line], console: Console) -> None:
    left_out: set[str] = set()
    for column in table.columns:
        own = [line for line in lines if line.column == column]
        if not own:
            continue
        cells = [text_cells(line) for line in own]
        used = {HEADINGS[i] for i in range(len(HEADINGS)) if any(row[i] for row in cells)}
        shown = _columns_that_fit(cells, used, console.width)
        left_out |= used - set(shown)
        splits = _splits_in_words(table, column, own)
        view = RichTable(title=f"{plain(table.title)}\n{plain(splits)}")
        for name in shown:
            is_text = name in ("method", "chosen on training rows")
            view.add_column(name, justify="left" if is_text else "right")
        for line, row in zip(own, cells, strict=True):
            style = "bold" if line.method.startswith("DBDL") else None
            view.add_row(*(plain(row[HEADINGS.index(name)]) for name in shown), style=style)
        console.print(view)
        for note in notes(column, own):
            console.print(plain(note), style="dim")
    if table.note:
        console.print(plain(table.note.strip()), style="dim")
    if left_out:
        names = ", ".join(name for name in HEADINGS if name in left_out)
        console.print(f"For {names}: a wider window, --report or --json.", style="dim")


def _splits_in_words(table: Table, column: str, lines: Sequence[Line]) -> str:
    n_splits = max(line.n_splits for line in lines)
    if table.columns[column].folds == n_splits:  # the column's name says it
        return column
    return f"{column}, {n_splits} split{'s' * (n_splits > 1)}"


def _columns_that_fit(cells: list[list[str]], used: set[str], width: int) -> list[str]:
    """Return the columns to show, in their order; failures, which are long, may wrap."""
    kept = {name for name in _LESS_NEEDED if name in used}

    def wide(name: str) -> int:
        i = HEADINGS.index(name)
        words = max(map(len, name.split()))  # a heading may break between words
        return 3 + max(words, *(len(row[i]) for row in cells if not row[i].startswith("failed")), 0)

    for name in reversed(_LESS_NEEDED[2:]):
        if 1 + sum(map(wide, kept)) <= width:
            break
        kept.discard(name)
    return [name for name in HEADINGS if name in kept]


def _progress(quiet: bool) -> Progress:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=Console(stderr=True, quiet=quiet), transient=True)


@contextmanager
def cells_bar(*, quiet: bool) -> Iterator[Callable[[Record, int, int], None]]:
    """Show progress over the cells of a table; a line for each that is finished."""
    with _progress(quiet) as progress:
        task = progress.add_task("cells", total=None)

        def on_cell(record: Record, n_done: int, n_cells: int) -> None:
            progress.update(task, completed=n_done, total=n_cells)
            result = record.get("failure") or f"{100 * record['accuracy']:.2f} %"
            progress.console.print(
                f"{record['method']}, split {record['split']}: {plain(result)}", style="dim"
            )

        yield on_cell


def say_warm_up(names: Sequence[str]) -> None:
    """Tell those who wait that methods are warmed up before any clock starts."""
    say(in_words(names))


@contextmanager
def steps_bar(what: str, *, quiet: bool) -> Iterator[Callable[[int, int, str], None]]:
    """Show progress over steps; called with those done, all, and what was found."""
    with _progress(quiet) as progress:
        task = progress.add_task(what, total=None)

        def on_step(n_done: int, n_steps: int, found: str) -> None:
            progress.update(task, completed=n_done, total=n_steps)
            progress.console.print(plain(found), style="dim")

        yield on_step


def write_csv(output: Path | None, header: Sequence[str], lines: Iterable[Sequence[Any]]) -> None:
    """Write a table to a file, whole or not at all, or to standard output."""
    if output is None:
        _write_rows(sys.stdout, header, lines)
        return
    text = io.StringIO(newline="")
    _write_rows(text, header, lines)
    write_atomically(output, text.getvalue().encode())


def _write_rows(file: TextIO, header: Sequence[str], lines: Iterable[Sequence[Any]]) -> None:
    writer = csv.writer(file)
    writer.writerow(header)
    writer.writerows(lines)
