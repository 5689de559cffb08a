"""The engine of a cluster: what parts of rows do becomes tasks of Dask.

Tasks are pure: each is a function of values and of other tasks, draws are addressed, and nothing
is changed in place. A worker that dies takes results with it; Dask finds them again from the
tasks that made them, on the workers that are left, with the same bits. Rows are read, or computed
from the user's collection, where they are needed and stay there; a sweep sends the parameters out
and brings sums back.
"""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable
from concurrent.futures import CancelledError
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

import numpy as np
from distributed import Client, Future, KilledWorker
from distributed.client import FutureCancelledError

from dbdl._processor import processor_kind
from dbdl.backends.base import LANES_OF_A_DEVICE, Backend, Data
from dbdl.backends.sharded import Node, Part, Rows, cut, cut_while, open_part
from dbdl.model.statistics import SUM_ROWS
from dbdl.rows import LazyRows, Preparation
from dbdl.rows.readers import DaskRows

logger = logging.getLogger("dbdl")

#: Parts for each thread where their number is no power of two: unequal parts then even out.
PARTS_A_THREAD = 4
#: Seconds after which a cluster without workers is given up. Of a scheduler that does not answer
#: Dask itself says so after its own time for connections, 30 seconds unless configured.
LOST_AFTER = 60.0
#: Seconds between two looks at the cluster while a result is waited for.
LOOK_EVERY = 2.0
#: Times that a task is tried again whose workers died.
MOST_RETRIES = 10
#: Seconds that workers have to say their kind of processor; then the fit goes on without it. For
#: their first answer they import dbdl, seconds that their first task would take otherwise.
ANSWER_WITHIN = 30.0
#: Workers of one kind of processor that a warning names.
MOST_NAMED = 3

#: Sets of kinds that were warned of.
_warned_of: set[frozenset[str]] = set()


class ClusterLostError(RuntimeError):
    """The cluster is gone; what to do is in the message."""


@dataclass(frozen=True)
class DaskEngine:
    """Tasks on the workers of a client.

    Attributes
    ----------
    client : distributed.Client
    lost_after : float
        Seconds after which a cluster without workers is given up.
    """

    client: Client
    lost_after: float = LOST_AFTER
    _held: dict[Any, Future] = field(default_factory=dict, repr=False, compare=False)

    def n_lanes(self, inner: Backend) -> int:
        """Number of chains that are learned at the same time."""
        return LANES_OF_A_DEVICE

    def arrange(self, rows: Any) -> Any:
        """Return rows in partitions of whole blocks."""
        return aligned(rows, SUM_ROWS) if isinstance(rows, LazyRows) else rows

    def nodes(self, source: Rows, block_rows: int) -> list[Node]:
        """Cut as the chunks of a collection are, or into a few parts for each thread."""
        n_blocks = -(-source.shape[0] // block_rows)
        if not isinstance(source, LazyRows) or not isinstance(source.reader, DaskRows):
            return cut(n_blocks, n_parts(max(self._n_threads(), 1)))
        bounds = np.cumsum(source.reader.array.chunks[0])[:-1] // block_rows
        return cut_while(
            n_blocks, lambda node: any(node.first < bound < node.last for bound in bounds)
        )

    def hold(self, inner: Backend, part: Part) -> Future:
        """Read the rows of a part where they will stay; chains share them."""
        key = id(part.source), part.rows.start, part.rows.stop
        if key not in self._held:
            self._held[key] = self._read(inner, part)
        return self._held[key]

    def _read(self, inner: Backend, part: Part) -> Future:
        source: Any = part.source
        empty = replace(part, source=_no_rows(source))
        if isinstance(source, np.ndarray):
            return self.run(_fill, inner, empty, source[part.rows], None)
        if isinstance(source.reader, DaskRows):
            raw = self.client.compute(source.reader.array[part.rows])
            return self.run(_fill, inner, empty, raw, source.prepare)
        return self.run(open_part, inner, part)

    def share(self, value: Any) -> Future:
        """Send a value out once; workers hand it on to each other."""
        return self.run(_itself, value)

    def run(self, function: Callable[..., Any], *arguments: Any) -> Future:
        """Make a task of a function; arguments may be tasks."""
        if self.client.status not in ("running", "connecting"):
            raise ClusterLostError(self._what_is_lost())
        name = getattr(function, "__name__", type(function).__name__).strip("_")
        with warnings.catch_warnings():  # parameters are as large as they are
            warnings.filterwarnings("ignore", message="Sending large graph")
            return self.client.submit(
                function, *arguments, key=f"dbdl-{name}-{uuid4().hex}", pure=False
            )

    def fetch(self, handle: Future) -> Any:
        """Wait for the value of a task, for as long as there is a cluster that works on it."""
        last_seen, n_retries = time.monotonic(), 0
        while True:
            try:
                return handle.result(timeout=LOOK_EVERY)
            except TimeoutError:
                if handle.status == "error":  # the task's own
                    raise
                if self._n_threads() > 0:
                    last_seen = time.monotonic()
                elif time.monotonic() - last_seen > self.lost_after:
                    raise ClusterLostError(self._what_is_lost()) from None
            except KilledWorker as error:
                n_retries += 1
                if n_retries > MOST_RETRIES:
                    raise ClusterLostError(
                        f"a task took {n_retries} workers with it: {error}. Look at the workers' "
                        "logs; most often they have too little memory."
                    ) from error
                self.client.retry([handle])
            except (CancelledError, FutureCancelledError, OSError) as error:
                if handle.status == "error":
                    raise
                raise ClusterLostError(self._what_is_lost()) from error

    def _n_threads(self) -> int:
        """Return the number of threads of all workers, 0 if nobody answers."""
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
            "goes on from the last checkpoint when it is called again."
        )


def engine_for_fit(client: Client) -> DaskEngine:
    """Return the engine of a client, with a warning if its workers do not round alike."""
    _warn_of_unlike_processors(processor_kind(), _kinds_of_workers(client))
    return DaskEngine(client)


def _kinds_of_workers(client: Client) -> dict[str, str]:
    """Ask each worker for its kind of processor; workers that fail to answer are left out."""
    try:
        kinds: dict[str, str] = client.run(
            processor_kind, on_error="ignore", callback_timeout=ANSWER_WITHIN
        )
    except Exception as error:  # a fit that can run must not fail for it
        logger.debug("dbdl: workers did not say their kind of processor: %r", error)
        return {}
    return kinds


def _warn_of_unlike_processors(here: str, of_workers: dict[str, str]) -> None:
    """Warn where workers or the head are of different kinds, once for each set of kinds."""
    kinds = frozenset({here, *of_workers.values()})
    if len(kinds) == 1 or kinds in _warned_of:
        return
    _warned_of.add(kinds)
    lines = [f"  this process: {here}"]
    for kind in sorted(set(of_workers.values())):
        addresses = [address for address, its in of_workers.items() if its == kind]
        lines.append(f"  {_named(addresses)}: {kind}")
    # tasks go to any worker, but what the head computes stays with the head
    runs = " and between runs" if len(set(of_workers.values())) > 1 else ""
    warnings.warn(
        "the processors of this Dask cluster are of different kinds, which round differently:\n"
        + "\n".join(lines)
        + f"\nCodes and atoms may differ in their last bits from a fit on one machine{runs}. "
        "For the same bits, use workers of one kind, with the same versions of NumPy, SciPy and "
        "numba, and start the fit on a machine of that kind.",
        UserWarning,
        stacklevel=11,  # the line that calls fit
    )


def _named(addresses: list[str]) -> str:
    named = ", ".join(sorted(addresses)[:MOST_NAMED])
    n_others = len(addresses) - MOST_NAMED
    more = f" and {n_others} more" if n_others > 0 else ""
    return f"{'worker' if len(addresses) == 1 else 'workers'} {named}{more}"


def n_parts(n_threads: int) -> int:
    """Return the number of parts for so many threads.

    One each where the tree can be cut so: a thread that has one part waits for it, and Dask does
    not move rows from one that has two to one that has none.
    """
    is_power_of_two = n_threads & (n_threads - 1) == 0
    return n_threads if is_power_of_two else PARTS_A_THREAD * n_threads


def aligned(rows: LazyRows, block_rows: int) -> LazyRows:
    """Return rows of a collection in chunks of whole blocks, with a word if they were not."""
    reader = rows.reader
    if not isinstance(reader, DaskRows):
        return rows
    bounds = np.cumsum(reader.array.chunks[0])[:-1]
    if not (bounds % block_rows).any():
        return rows
    n_chunks = reader.array.numblocks[0]
    n_blocks = -(-reader.shape[0] // block_rows)
    height = block_rows * -(-n_blocks // min(n_chunks, n_blocks))
    logger.warning(
        "dbdl: chunks of X are brought to multiples of %d rows (%d each), so that results do not "
        "depend on them; rechunk({0: %d}) beforehand saves the work",
        block_rows,
        height,
        height,
    )
    return replace(rows, reader=replace(reader, array=reader.array.rechunk({0: height})))


def _fill(inner: Backend, part: Part, raw: Any, prepare: Preparation | None) -> Data:
    rows = np.asarray(raw)
    return inner.hold(part.filled(rows if prepare is None else prepare(rows, part.rows.start)))


def _itself(value: Any) -> Any:
    return value


def _no_rows(source: Rows) -> Rows:
    """Stand-in for rows that travel on their own."""
    return np.empty((0, source.shape[1]), dtype=source.dtype)
