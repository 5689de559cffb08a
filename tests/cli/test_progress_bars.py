"""Bars name what runs now and forecast the time; messages are never printed into their line."""

from __future__ import annotations

import io
import math
import re
import warnings

import pytest
from rich.console import Console

from dbdl.cli import progress, terminal
from dbdl.experiments.run import Cell
from dbdl.experiments.spec import Entry
from dbdl.registry import methods


@pytest.fixture
def screen(monkeypatch):
    """Everything that a terminal of 100 columns is sent."""
    sent = io.StringIO()

    def console(**_):
        return Console(file=sent, force_terminal=True, width=100, color_system=None)

    monkeypatch.setattr(progress, "Console", console)
    monkeypatch.setattr(terminal, "Console", console)
    monkeypatch.setattr(terminal, "_NOTED", set())
    return sent


def lines_of(screen):
    return re.split(r"[\r\n]+", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue()))


def cell(method, number=0):
    return Cell("t", "c", Entry(method), number, None, methods()[method])


def record(**more):
    return {"method": "CRC", "split": 0, "accuracy": 0.9, **more}


def test_the_bar_names_the_cells_that_run_and_how_long_it_may_take(screen):
    with progress.cells_bar(quiet=False) as bar:
        bar.on_running([cell("CRC"), cell("SRC", 2)], 600.0, 3, 12)
        bar._progress.refresh()
    shown = [line for line in lines_of(screen) if "CRC, split 1; SRC, split 3" in line]
    assert shown and "3/12" in shown[-1] and "about 10 min left" in shown[-1]


def test_nothing_is_forecast_while_nothing_is_known_and_when_the_forecast_was_too_short(screen):
    with progress.cells_bar(quiet=False) as bar:
        for seconds in (math.nan, -3.0):
            bar.on_running([cell("CRC")], seconds, 0, 12)
            bar._progress.refresh()
    assert "left" not in screen.getvalue()


def test_warnings_and_results_have_lines_of_their_own_above_the_bar(screen):
    with warnings.catch_warnings(), progress.cells_bar(quiet=False) as bar:
        terminal.show_warnings_as_notes()
        bar.on_running([cell("CRC")], 60.0, 0, 12)
        bar.on_cell(record(warnings=["it is hot", "it is hot"]), 1, 12)
        warnings.warn("it is late", stacklevel=1)
        bar._progress.refresh()
    said = [line for line in lines_of(screen) if "it is" in line or "90.00 %" in line]
    stripped = [line.strip() for line in said]
    assert stripped == ["CRC, split 1: 90.00 %", "note: CRC: it is hot", "note: it is late"]
    assert not terminal.LIVE


@pytest.mark.parametrize(
    ("seconds", "words"), [(40, "40 s"), (100, "2 min"), (5400, "1 h 30 min"), (7200, "2 h 0 min")]
)
def test_times_are_as_exact_as_a_forecast_is(seconds, words):
    assert progress.in_time(seconds) == words


def test_a_fit_has_one_bar_over_the_sweeps_of_all_chains(screen):
    pytest.importorskip("sklearn.callback")
    from sklearn.datasets import load_digits

    import dbdl

    X, y = load_digits(n_class=3, return_X_y=True)
    model = dbdl.DBDLClassifier(n_sweeps=4, n_chains=2, coder="forward", random_state=0)
    model.set_callbacks(progress.SweepsBar()).fit(X[:90], y[:90])
    bars = [line for line in lines_of(screen) if "━" in line]
    assert any("/8 " in line for line in bars)
    assert all("learning" in line or "choosing on rows left out" in line for line in bars)
    assert not terminal.LIVE
