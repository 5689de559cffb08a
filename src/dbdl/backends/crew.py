"""The resources of a fit: a device, its threads, and an engine for rows that are elsewhere.

`Crew.map` is the one place that knows how chains share a device and its threads, and what to do
when the device has too little memory.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, TypeVar

from dbdl._threads import run_blocks
from dbdl.backends import Backend, Engine, make_backend
from dbdl.backends.base import DeviceMemoryError
from dbdl.backends.sharded import InTurn
from dbdl.model.statistics import SUM_ROWS

logger = logging.getLogger("dbdl")

#: Chains run side by side only if they take less memory than this together, to the nearest order of
#: magnitude: each copies its rows when it maps and codes them, and holds a few Gram matrices.
MOST_BYTES, COPIES_OF_ROWS, COPIES_OF_GRAM = 4 * 2**30, 2, 4

Item = TypeVar("Item")
Result = TypeVar("Result")


class ProblemSize(NamedTuple):
    """Size of the rows and the dictionary, by which rows are cut into parts that fit a device."""

    n_rows: int
    n_atoms: int
    row_bytes: int


@dataclass(frozen=True)
class Crew:
    """A device, its threads, and an engine for rows that are elsewhere."""

    device: str = "cpu"  # see `dbdl.backends.make_backend`
    n_threads: int = 1
    engine: Engine | None = None  # works on rows that are not in memory here
    size: ProblemSize | None = None  # of rows in memory, which a small device takes in parts

    def here(self) -> Crew:
        """Return the crew for rows that are in memory."""
        return replace(self, engine=None)

    def backend(self, n_threads: int | None = None) -> Backend:
        """Return a backend for one piece of work, by default with all threads."""
        return make_backend(self.device, n_threads or self.n_threads, self.engine)

    def map(self, work: Callable[[Item, Backend], Result], items: Iterable[Item]) -> list[Result]:
        """Call ``work`` with every item and a backend, in parallel; return the results in order.

        Items run side by side as far as threads and memory allow, and share the threads. The
        results do not depend on the number of threads.
        """
        items = list(items)
        n_lanes = self._n_lanes
        n_left = len(items) % n_lanes
        whole, left = items[: len(items) - n_left], items[len(items) - n_left :]
        results: list[Result] = []
        if n_lanes == 1:
            for item in whole:  # in Python 3.11 a comprehension would be one more frame
                results.append(self._do(work, self.n_threads, item))
            return results
        n_threads = max(self.n_threads // n_lanes, 1)
        results = run_blocks(partial(self._do, work, n_threads), whole, n_lanes)
        n_threads = max(self.n_threads // max(n_left, 1), 1)
        return results + run_blocks(partial(self._do, work, n_threads), left, n_left)

    @property
    def _n_lanes(self) -> int:
        """Number of chains side by side whose mapped rows and Gram matrices fit into memory.

        An engine keeps its rows elsewhere, and decides alone.
        """
        n_lanes = self.backend().n_lanes
        if self.size is None or self.engine is not None:
            return n_lanes
        rows, gram = self.size.n_rows * self.size.row_bytes, 8 * self.size.n_atoms**2
        most = MOST_BYTES // (COPIES_OF_ROWS * rows + COPIES_OF_GRAM * gram)
        return max(min(n_lanes, most), 1)

    def _do(self, work: Callable[[Item, Backend], Result], n_threads: int, item: Item) -> Result:
        """Do one piece of work, with a second attempt if the device runs out of memory.

        The second attempt has the device to itself and moves rows there in parts if necessary.
        """
        backend = self.backend(n_threads)
        try:
            with backend.lane():
                return work(item, backend)
        except DeviceMemoryError as error:
            backend = self._in_smaller_parts(error, n_threads)
        with backend.lane(alone=True):
            gc.collect()  # the error kept some of the device's memory in use
            return work(item, backend)

    def _in_smaller_parts(self, error: DeviceMemoryError, n_threads: int) -> Backend:
        """Return a backend that moves rows to the device in parts that fit, or raise the error.

        Codes then stay on the host. The result is the same up to rounding.
        """
        if self.engine is not None or self.size is None:
            raise error
        n_rows = error.n_entries // (3 * self.size.n_atoms)
        if n_rows >= self.size.n_rows:
            return self.backend(n_threads)
        if n_rows < SUM_ROWS:
            raise error
        # Only the text: a logger that keeps the error would keep the device's memory in use.
        logger.warning("dbdl: %s Continuing with %d rows at a time.", str(error), n_rows)
        in_turn = InTurn(part_bytes=n_rows * self.size.row_bytes)
        return replace(self, engine=in_turn).backend(n_threads)
