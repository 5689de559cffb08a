"""Bars on standard error: what is running now, how far it is, and how long it may take."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from dbdl.cli.terminal import LIVE, note
from dbdl.experiments.run import Cell, Record


class TimeLeft(ProgressColumn):
    """The time that is left, counted down from a forecast; nothing while there is none.

    A task has the forecast in its field ``left``, in seconds from the moment ``forecast_at``. A
    task without this field is judged by its own speed.
    """

    def render(self, task: Task) -> Text:
        """Return the time in words."""
        left = task.time_remaining
        if "left" in task.fields:
            left = task.fields["left"] - (task.get_time() - task.fields["forecast_at"])
        if left is None or not left > 0 or task.finished:  # NaN, or longer than was forecast
            return Text("")
        return Text(f"about {in_time(max(left, 1.0))} left", style="cyan")


def in_time(seconds: float) -> str:
    """Return a time in words, as exact as a forecast is: 40 s, 3 min, 2 h 10 min."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


@contextmanager
def shown_progress(*columns: ProgressColumn | str, quiet: bool) -> Iterator[Progress]:
    """Show a bar on standard error; messages are printed above it."""
    console = Console(stderr=True, quiet=quiet)
    LIVE.append(console)
    try:
        # in a file, where nothing can be drawn anew, a bar would leave an empty line
        hidden = not console.is_terminal
        with Progress(*columns, console=console, transient=True, disable=hidden) as progress:
            yield progress
    finally:
        LIVE.remove(console)


def _columns() -> tuple[ProgressColumn, ...]:
    description = TextColumn("{task.description}", markup=False)
    return description, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeLeft()


@contextmanager
def steps_bar(what: str, *, quiet: bool) -> Iterator[Callable[[int, int, str], None]]:
    """Show progress over steps; called with those done, all, and a line to print."""
    with shown_progress(*_columns(), quiet=quiet) as progress:
        task = progress.add_task(what, total=None)

        def on_step(n_done: int, n_steps: int, found: str) -> None:
            progress.update(task, completed=n_done, total=n_steps)
            if found:
                progress.console.print(escape(found), style="dim", highlight=False)

        yield on_step


class CellsBar:
    """Progress over the cells of a table: which run now, how long it may take, and results."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("compiling", total=None, left=math.nan, forecast_at=0.0)

    def on_running(
        self, running: Sequence[Cell], seconds_left: float, n_done: int, n_cells: int
    ) -> None:
        """Name the cells that are running."""
        shown = "; ".join(f"{cell.entry.method}, split {cell.number + 1}" for cell in running)
        forecast = {"left": seconds_left, "forecast_at": self._progress.get_time()}
        counts: dict[str, Any] = {"completed": n_done, "total": n_cells, **forecast}
        self._progress.update(self._task, description=shown, **counts)

    def on_cell(self, record: Record, n_done: int, n_cells: int) -> None:
        """Print the result of a cell, and warnings that nobody has seen yet."""
        self._progress.update(self._task, completed=n_done, total=n_cells)
        result = record.get("failure") or f"{100 * record['accuracy']:.2f} %"
        said = f"{record['method']}, split {record['split'] + 1}: {result}"
        self._progress.console.print(escape(said), style="dim", highlight=False)
        for text in record.get("warnings", ()):
            note(f"{record['method']}: {text}")


@contextmanager
def cells_bar(*, quiet: bool) -> Iterator[CellsBar]:
    """Show progress over the cells of a table, and a line for each that is finished."""
    with shown_progress(*_columns(), quiet=quiet) as progress:
        yield CellsBar(progress)


class SweepsBar:
    """Callback for scikit-learn: one bar over the sweeps of all chains of a fit."""

    def setup(self, estimator: Any, context: Any) -> None:
        """Show the bar."""
        self._shown = shown_progress(*_columns(), quiet=False)
        self._progress = self._shown.__enter__()
        self._task = self._progress.add_task("learning", total=None)
        self._n_swept: Counter[int] = Counter()

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Count the sweeps of all chains, once the first chain says how many it has."""
        if context.task_name == "chain":
            n_sweeps = context.parent.max_subtasks * context.max_subtasks
            self._progress.update(self._task, total=n_sweeps)

    def on_fit_task_end(self, estimator: Any, context: Any) -> None:
        """Count a sweep, or the sweeps that a chain was announced to have and does not need."""
        if context.task_name == "sweep":
            self._n_swept[context.parent.task_id] += 1
            self._progress.advance(self._task)
        elif context.task_name == "chain":
            n_left = context.max_subtasks - self._n_swept[context.task_id]
            self._progress.advance(self._task, n_left)
        if self._progress.tasks[0].finished:
            self._progress.update(self._task, description="choosing on rows left out")

    def teardown(self, estimator: Any, context: Any) -> None:
        """Remove the bar."""
        self._shown.__exit__(None, None, None)
