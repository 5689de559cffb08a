"""Nothing is compiled while a clock runs, and a message says why one has to wait."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from sklearn.datasets import load_digits

from dbdl.experiments import run, warm
from dbdl.experiments.protocol import Protocol
from dbdl.experiments.rows import LabelledRows
from dbdl.experiments.run import run_table
from dbdl.experiments.spec import Entry, Table

#: Reads a count of all that is compiled at each reading of the clock, in place of the time. Cells
#: are run as a worker runs them: in a process that has compiled nothing yet.
SCRIPT = """
    import json, sys
    from numba.core.dispatcher import Dispatcher
    from sklearn.datasets import load_digits
    from dbdl.experiments import measure
    from dbdl.experiments.protocol import Protocol
    from dbdl.experiments.rows import LabelledRows
    from dbdl.experiments.run import cells, run_cell
    from dbdl.experiments.spec import Entry, Table

    class Clock:
        @staticmethod
        def perf_counter():
            modules = [m for name, m in sys.modules.items() if name.startswith("dbdl")]
            named = [value for module in modules for value in vars(module).values()]
            kernels = {id(v): v for v in named if isinstance(v, Dispatcher)}.values()
            readings.append(sum(len(kernel.overloads) for kernel in kernels))
            return 0.0

    measure.time = Clock
    X, y = load_digits(return_X_y=True)
    data = LabelledRows(X[:350].astype(%(dtype)r), y[:350])
    entries = tuple(Entry(name, settings) for name, settings in %(entries)r)
    table = Table("t", "t", "", {"c": Protocol(per_class=30, n_splits=1)}, entries)
    for cell in cells(table, data):
        readings = []
        record = run_cell(cell, data, quick=True, n_threads=1)
        print(json.dumps([cell.entry.method, readings, record.get("failure", "")]))
"""


def readings(dtype, entries):
    script = textwrap.dedent(SCRIPT) % {"dtype": dtype, "entries": entries}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("dtype", "entries"),
    [
        ("float64", [("DBDL", {"n_nonzero": 10}), ("DBDL (paper)", {})]),
        ("float32", [("DBDL 1 chain", {})]),
        ("float64", [(name, {}) for name in ("LC-KSVD2", "SRC", "DLSI", "LLC", "bagged rows")]),
    ],
)
def test_nothing_is_compiled_between_two_readings_of_the_clock(dtype, entries):
    cells = readings(dtype, entries)
    assert len(cells) == len(entries)
    for method, compiled, failure in cells:
        assert not failure
        assert len(compiled) == 4  # fit and predict, each from here to there
        assert len(set(compiled)) == 1 and compiled[0] > 0, method


@pytest.fixture
def warmed(monkeypatch):
    """What is warmed up in a process that has warmed up nothing."""
    calls = []
    monkeypatch.setattr(warm, "_DONE", set())
    monkeypatch.setattr(warm, "warm_up", lambda make, *kind: calls.append((make.name, *kind)))
    return calls


@pytest.fixture(scope="module")
def data():
    X, y = load_digits(n_class=3, return_X_y=True)
    return LabelledRows(X[:90], y[:90])


def table_of(*names):
    columns = {"c": Protocol(per_class=10, n_splits=3)}
    return Table("t", "t", "", columns, tuple(Entry(name) for name in names))


def test_each_method_is_warmed_up_once_before_the_first_cell(warmed, data, monkeypatch):
    order = []
    measure = run.measure
    monkeypatch.setattr(run, "measure", lambda *a: order.append(len(warmed)) or measure(*a))
    told = []
    run_table(table_of("1-NN", "ridge"), data, None, quick=True, on_warm_up=told.append)
    assert [call[0] for call in warmed] == ["1-NN", "ridge"]
    assert told == [["1-NN", "ridge"]] and order == [2] * 6
    assert all(call[2:] == (64, np.dtype("float64")) for call in warmed)


def test_nothing_is_warmed_up_where_no_cell_is_missing(warmed, data, tmp_path):
    results = tmp_path / "r.jsonl"
    run_table(table_of("1-NN"), data, results)
    warmed.clear()
    warm._DONE.clear()
    run_table(table_of("1-NN"), data, results, on_warm_up=lambda _: pytest.fail("nothing to do"))
    assert not warmed


def test_a_method_that_fails_on_the_tiny_problem_is_measured_all_the_same(data, monkeypatch):
    def fail(*_):
        raise ValueError("no")

    monkeypatch.setattr(warm, "_DONE", set())
    monkeypatch.setattr(warm, "warm_up", fail)
    assert all("accuracy" in record for record in run_table(table_of("1-NN"), data, None))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n_features", [1, 64])
def test_tiny_problems_have_the_features_and_the_type_asked_for(n_features, dtype):
    problems = list(warm.tiny_problems(n_features, dtype))
    assert len(problems) == 2
    for X, y in problems:
        assert X.shape == (len(y), n_features) and X.dtype == dtype
    different = [len(np.unique(X, axis=0)) for X, _ in problems]
    assert different[1] == different[0] / warm.N_COPIES


def test_the_first_cell_is_named_before_it_runs(warmed, data):
    said = []
    run_table(
        table_of("1-NN", "ridge"), data, None, quick=True,
        on_running=lambda cells, _, n_done, n_cells: said.append((cells[0].entry.method, n_done)),
        on_cell=lambda record, *_: said.append(record["method"]),
    )  # fmt: skip
    assert said[:3] == [("1-NN", 0), "1-NN", ("ridge", 1)]
