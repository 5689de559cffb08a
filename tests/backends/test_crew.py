"""Work is handed out in order; if a device is too small, the work is tried again in parts."""

import logging
import threading
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import ClassVar
from weakref import WeakSet

import numpy as np
import pytest

from dbdl import BetaProcessDictionary, DBDLClassifier
from dbdl.backends import NumbaBackend, crew
from dbdl.backends.base import DeviceMemoryError
from dbdl.backends.sharded import InTurn, ShardedBackend

N_ROWS, N_ATOMS = 30_000, 30
FIT = {"n_sweeps": 2, "n_chains": 2, "n_initial_atoms": N_ATOMS, "n_nonzero": 3, "random_state": 0}


@dataclass(frozen=True)
class SmallDevice(NumbaBackend):
    """Has room for so many rows times atoms, if nothing is left there of an earlier try."""

    room: int = 0
    left_over: ClassVar[WeakSet] = WeakSet()
    lanes: ClassVar[list[bool]] = []

    def lane(self, alone=False):
        self.lanes.append(alone)
        return nullcontext()

    def hold(self, data):
        if len(data.X) * N_ATOMS > self.room:
            held = np.empty(1).view(OnDevice)
            self.left_over.add(held)
            raise DeviceMemoryError("too little memory.", self.room)
        assert not self.left_over
        return data


class OnDevice(np.ndarray):
    """An array that can be watched."""

    __hash__ = object.__hash__


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    y = np.arange(N_ROWS) % 3
    X = rng.standard_normal((3, 6))[y] + 0.3 * rng.standard_normal((N_ROWS, 6))
    return X.astype(np.float32), y


@contextmanager
def device_with(room, monkeypatch):
    def make(device="cpu", n_threads=1, engine=None):
        small = SmallDevice(n_threads, room=room)
        return small if engine is None else ShardedBackend(n_threads, inner=small, engine=engine)

    SmallDevice.lanes.clear()
    with monkeypatch.context() as patch:
        patch.setattr(crew, "make_backend", make)
        yield


def test_rows_are_taken_to_the_device_in_parts_that_fit(rows, monkeypatch, caplog):
    views = ["standardised + constant", "kernel of plain"]  # given, so that no guard looks at them
    whole = DBDLClassifier(**FIT, views=views).fit(*rows)
    with device_with(3 * 8192 * N_ATOMS + 1, monkeypatch), caplog.at_level(logging.WARNING, "dbdl"):
        parts = DBDLClassifier(**FIT, views=views).fit(*rows)
    assert "8192 rows at a time" in caplog.text
    assert SmallDevice.lanes.count(True) == 2  # each of two chains tries again, alone
    np.testing.assert_array_equal(parts.atoms_, whole.atoms_)
    np.testing.assert_array_equal(parts.label_atoms_, whole.label_atoms_)


def test_a_dictionary_too_is_learned_in_parts(rows, monkeypatch, caplog):
    fit = {name: value for name, value in FIT.items() if name != "n_chains"}
    whole = BetaProcessDictionary(**fit).fit(rows[0])
    with device_with(3 * 8192 * N_ATOMS + 1, monkeypatch), caplog.at_level(logging.WARNING, "dbdl"):
        parts = BetaProcessDictionary(**fit).fit(rows[0])
    assert "8192 rows at a time" in caplog.text
    np.testing.assert_array_equal(parts.atoms_, whole.atoms_)


def test_a_device_too_small_for_a_block_of_rows_says_so(rows, monkeypatch):
    with (
        device_with(5000 * N_ATOMS, monkeypatch),
        pytest.raises(DeviceMemoryError, match="too little memory"),
    ):
        DBDLClassifier(**FIT).fit(*rows)


# ------------------------------------------------------------------------------------ threads


@pytest.mark.parametrize("n_threads", [1, 2, 3, 8])
@pytest.mark.parametrize("n_items", [0, 1, 3, 7])
def test_results_come_in_order_whatever_the_number_of_threads(n_threads, n_items):
    found = crew.Crew(n_threads=n_threads).map(lambda item, backend: item**2, range(n_items))
    assert found == [item**2 for item in range(n_items)]


def test_whole_rounds_have_one_thread_per_item_and_what_is_left_over_shares_them():
    def threads_of(n_items, n_threads):
        return crew.Crew(n_threads=n_threads).map(lambda _, own: own.n_threads, range(n_items))

    assert threads_of(7, 3) == [1] * 6 + [3]
    assert threads_of(5, 3) == [1] * 5  # two items are left: a thread each
    assert threads_of(2, 8) == [4, 4]
    assert threads_of(2, 1) == [1, 1]


@pytest.mark.parametrize("n_atoms", [2, 20_000])
def test_chains_that_would_take_too_much_memory_run_one_after_another(n_atoms):
    size = crew.ProblemSize(n_rows=1000, n_atoms=n_atoms, row_bytes=800)
    found = crew.Crew(n_threads=4, size=size).map(lambda _, own: own.n_threads, range(4))
    assert found == ([1] * 4 if n_atoms == 2 else [4] * 4)


class ManyLanes(InTurn):
    """An engine whose workers take five chains at a time, however few threads there are here."""

    def n_lanes(self, inner):
        return 5


def test_an_engine_decides_alone_how_many_chains_run_side_by_side():
    together = threading.Barrier(5)
    found = crew.Crew(n_threads=1, engine=ManyLanes(part_bytes=10**6)).map(
        lambda _, backend: together.wait(timeout=30), range(5)
    )
    assert sorted(found) == list(range(5))


def test_an_error_of_one_piece_of_work_is_raised():
    def work(item, backend):
        if item == 2:
            raise ZeroDivisionError("two")
        return item

    with pytest.raises(ZeroDivisionError, match="two"):
        crew.Crew(n_threads=2).map(work, range(4))


def test_a_crew_for_rows_in_memory_has_no_engine():
    whole = crew.Crew(engine=InTurn(part_bytes=10**6))
    assert isinstance(whole.backend(), ShardedBackend)
    assert isinstance(whole.here().backend(), NumbaBackend)
    assert whole.here().n_threads == whole.n_threads
