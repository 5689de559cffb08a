"""The engine for a cluster: the work on parts of rows becomes Dask tasks.

Tasks are pure: each is a function of values and of other tasks, draws are addressed, and nothing
is changed in place. If a worker dies, its results are lost; Dask recomputes them on the remaining
workers, with the same bits. Rows are read, or computed from the user's collection, on the worker
that needs them, and stay there. A sweep sends the parameters to the workers and returns sums.
"""

from __future__ import annotations

import logging
import time
import warnings
import weakref
from collections.abc import Callable
from concurrent.futures import CancelledError
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

import numpy as np
from distributed import Client, Future, KilledWorker
from distributed.client import FutureCancelledError

from dbdl._processor import processor_kind
from dbdl._warnings import warn_caller
from dbdl.backends.base import LANES_OF_A_DEVICE, Backend, Data
from dbdl.backends.sharded import Node, Part, Rows, cut, cut_while
from dbdl.model.statistics import SUM_ROWS
from dbdl.rows import LazyRows, Preparation

logger = logging.getLogger("dbdl")

#: Parts per thread if the number of threads is not a power of two: unequal parts then even out.
PARTS_A_THREAD = 4
#: Seconds after which a cluster without workers is given up. If the scheduler does not answer, Dask
#: itself raises an error after its own connection timeout, 30 seconds by default.
LOST_AFTER = 60.0
#: Seconds between two checks of the cluster while waiting for a result.
LOOK_EVERY = 2.0
#: Times that a task is retried after its worker died.
MOST_RETRIES = 10
#: Seconds to wait for workers to report their kind of processor. The first answer includes the
#: import of dbdl, which the first task would otherwise do.
ANSWER_WITHIN = 30.0
#: Number of workers per kind of processor that a warning names.
MOST_NAMED = 3

#: Sets of kinds for which a warning was given.
_warned_of: set[frozenset[str]] = set()


class ClusterLostError(RuntimeError):
    """The cluster is gone; the message says what to do."""


@dataclass(frozen=True)
class DaskEngine:
    """Tasks on the workers of a client; gives up after ``lost_after`` seconds without workers."""

    is_here = False

    client: Client
    lost_after: float = LOST_AFTER
    _held: dict[Any, Future] = field(default_factory=dict, repr=False, compare=False)

    def n_lanes(self, inner: Backend) -> int:
        return LANES_OF_A_DEVICE

    def arrange(self, rows: Any) -> Any:
        """Return rows in partitions of whole blocks."""
        return rows if _collection(rows) is None else aligned(rows, SUM_ROWS)

    def nodes(self, source: Rows, block_rows: int) -> list[Node]:
        """Cut along the chunks of a collection, or into a few parts per thread."""
        n_blocks, collection = -(-source.shape[0] // block_rows), _collection(source)
        if collection is None:
            return cut(n_blocks, n_parts(max(self._n_threads(), 1)))
        bounds = np.cumsum(collection.chunks[0])[:-1] // block_rows
        return cut_while(
            n_blocks, lambda node: any(node.first < bound < node.last for bound in bounds)
        )

    def hold(self, inner: Backend, part: Part) -> Future:
        """Read the rows of a part on the worker where they stay as long as their source exists."""
        key = id(part.source), part.rows.start, part.rows.stop
        if key not in self._held:
            self._held[key] = self._read(inner, part)
            weakref.finalize(part.source, self._held.pop, key, None)
        return self._held[key]

    def _read(self, inner: Backend, part: Part) -> Future:
        source: Any = part.source
        empty = replace(part, source=np.empty((0, source.shape[1]), dtype=source.dtype))
        if isinstance(source, np.ndarray):
            return self.run(_fill, inner, empty, source[part.rows])
        if source.collection is not None:
            raw = self.client.compute(source.collection[part.rows])
            number = source.reader.number_of(part.rows)
            return self.run(_fill_prepared, inner, empty, raw, source.prepare, number)
        return self.run(_read_there, inner, empty, *source.cut(part.rows))

    def share(self, value: Any) -> Future:
        """Send a value once; workers pass it on to each other."""
        return self.run(_itself, value)

    def run(self, function: Callable[..., Any], *arguments: Any) -> Future:
        """Submit a function as a task; arguments may be tasks."""
        if self.client.status not in ("running", "connecting"):
            raise ClusterLostError(self._what_is_lost())
        name = getattr(function, "__name__", type(function).__name__).strip("_")
        with warnings.catch_warnings():  # large parameters are expected
            warnings.filterwarnings("ignore", message="Sending large graph")
            return self.client.submit(
                function, *arguments, key=f"dbdl-{name}-{uuid4().hex}", pure=False
            )

    def fetch(self, handle: Future) -> Any:
        """Wait for the value of a task as long as there are workers."""
        last_seen, n_retries = time.monotonic(), 0
        while True:
            try:
                return handle.result(timeout=LOOK_EVERY)
            except TimeoutError:
                if handle.status == "error":  # raised by the task itself
                    raise
                if self._n_threads() > 0:
                    last_seen = time.monotonic()
                elif time.monotonic() - last_seen > self.lost_after:
                    raise ClusterLostError(self._what_is_lost()) from None
            except KilledWorker as error:
                n_retries += 1
                if n_retries > MOST_RETRIES:
                    raise ClusterLostError(
                        f"{n_retries} workers died while running a task: {error}. Look at their "
                        "logs; most often they have too little memory."
                    ) from error
                self.client.retry([handle])
            except (CancelledError, FutureCancelledError, OSError) as error:
                if handle.status == "error":
                    raise
                raise ClusterLostError(self._what_is_lost()) from error

    def _n_threads(self) -> int:
        """Return the number of threads of all workers, 0 if the scheduler does not answer."""
        scheduler = self.client.scheduler
        if self.client.status != "running" or scheduler is None:
            return 0
        try:
            threads = self.client.sync(scheduler.ncores, callback_timeout=LOOK_EVERY)
            return sum(threads.values())
        except (TimeoutError, OSError):
            return 0

    def _what_is_lost(self) -> str:
        lost = "has no worker left" if self.client.status == "running" else "does not answer"
        return (
            f"the Dask cluster at {self.client.scheduler.address if self.client.scheduler else '?'}"
            f" {lost} (waited {self.lost_after:g} s). Start it again; a fit with checkpoint=... "
            "resumes from the last checkpoint when it is called again."
        )


def engine_for_fit(client: Client) -> DaskEngine:
    """Return the engine of a client, with a warning if its workers round differently."""
    _warn_of_unlike_processors(processor_kind(), _kinds_of_workers(client))
    return DaskEngine(client)


def _kinds_of_workers(client: Client) -> dict[str, str]:
    """Ask each worker for its kind of processor; workers that do not answer are left out."""
    try:
        return client.run(processor_kind, on_error="ignore", callback_timeout=ANSWER_WITHIN)
    except Exception as error:  # this must not stop a fit that can run
        logger.debug("dbdl: workers did not report their kind of processor: %r", error)
        return {}


def _warn_of_unlike_processors(here: str, of_workers: dict[str, str]) -> None:
    """Warn if processors are of different kinds, once per set of kinds."""
    kinds = frozenset({here, *of_workers.values()})
    if len(kinds) == 1 or kinds in _warned_of:
        return
    _warned_of.add(kinds)
    lines = [f"  this process: {here}"]
    for kind in sorted(set(of_workers.values())):
        addresses = [address for address, its in of_workers.items() if its == kind]
        lines.append(f"  {_named(addresses)}: {kind}")
    # tasks run on any worker, but the head's own work always runs here
    runs = " and between runs" if len(set(of_workers.values())) > 1 else ""
    warn_caller(
        "the processors of this Dask cluster are of different kinds, which round differently:\n"
        + "\n".join(lines)
        + f"\nCodes and atoms may differ in their last bits from a fit on one machine{runs}. "
        "For the same bits, use workers of one kind, with the same versions of NumPy, SciPy and "
        "numba, and start the fit on a machine of that kind.",
    )


def _named(addresses: list[str]) -> str:
    named = ", ".join(sorted(addresses)[:MOST_NAMED])
    n_others = len(addresses) - MOST_NAMED
    more = f" and {n_others} more" if n_others > 0 else ""
    return f"{'worker' if len(addresses) == 1 else 'workers'} {named}{more}"


def n_parts(n_threads: int) -> int:
    """Return the number of parts for a number of threads.

    It is one part per thread if the tree can be cut that way: Dask does not move rows from a thread
    with two parts to one with none.
    """
    is_power_of_two = n_threads & (n_threads - 1) == 0
    return n_threads if is_power_of_two else PARTS_A_THREAD * n_threads


def aligned(rows: LazyRows, block_rows: int) -> LazyRows:
    """Return rows of a collection in chunks of whole blocks, with a warning if they were not.

    If some rows are left out, chunks never are whole blocks, and the user can do nothing about it.
    """
    collection = rows.collection
    if not (np.cumsum(collection.chunks[0])[:-1] % block_rows).any():
        return rows
    n_chunks, n_blocks = collection.numblocks[0], -(-len(rows) // block_rows)
    height = block_rows * -(-n_blocks // min(n_chunks, n_blocks))
    reader: Any = rows.reader
    level = logging.WARNING if reader.numbers is None else logging.DEBUG
    logger.log(
        level,
        f"dbdl: X is rechunked to multiples of {block_rows} rows ({height} each), so that results "
        f"do not depend on its chunks; X.rechunk({{0: {height}}}) before fit saves the work",
    )
    return replace(rows, reader=replace(reader, array=collection.rechunk({0: height})))


def _fill(inner: Backend, part: Part, rows: Any) -> Data:
    return inner.hold(part.filled(np.asarray(rows)))


def _fill_prepared(inner: Backend, part: Part, raw: Any, prepare: Preparation, number: Any) -> Data:
    return _fill(inner, part, prepare(np.asarray(raw), number))


def _read_there(inner: Backend, part: Part, source: LazyRows, rows: slice) -> Data:
    return _fill(inner, part, source[rows])


def _itself(value: Any) -> Any:
    return value


def _collection(source: Any) -> Any:
    """Return the Dask array behind rows, or None."""
    return getattr(source, "collection", None)
