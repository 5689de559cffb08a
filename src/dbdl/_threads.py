"""Compiled work on blocks of a fixed size, on our own threads.

Multi-threaded BLAS rounds differently with another number of threads, so every product is cut
into blocks of a fixed size, BLAS is held at one thread, and the blocks run on our own pool.
The result then has the same bits for any number of threads (`dbdl._products`).
"""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
import scipy.linalg  # noqa: F401 - loads the BLAS that compiled code calls, so that it can be held
from joblib import cpu_count, effective_n_jobs
from joblib.parallel import get_active_backend
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

Array = NDArray[Any]
Item = TypeVar("Item")
Result = TypeVar("Result")

_lock = threading.Lock()
_idle_pools: dict[int, list[ThreadPoolExecutor]] = defaultdict(list)
_holders = 0
_threads_found: list[int] | None = None  # of each BLAS library, while it is held
_own = threading.local()  # ``stop``, in a thread of a pool: set if nobody waits for its block


class Stopped(BaseException):
    """Ends a block for whose result nobody waits any more."""


def _begin_anew() -> None:
    """Forget, in a child process, the parent's threads, which a fork does not copy.

    The numbers of threads that BLAS had are kept: they are restored by the child's last holder.
    """
    global _lock, _holders
    _lock, _holders = threading.Lock(), 0
    _idle_pools.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)


@lru_cache(maxsize=1)
def blas_libraries() -> list[Any]:
    """Look up the BLAS libraries of NumPy and SciPy, once: it takes milliseconds."""
    libraries = ThreadpoolController().lib_controllers
    return [library for library in libraries if library.user_api == "blas"]


@lru_cache(maxsize=1)
def _by_kind() -> tuple[list[Any], list[Any]]:
    """BLAS libraries with one number of threads, and those, as with OpenMP, with one per thread."""
    kinds: tuple[list[Any], list[Any]] = ([], [])
    for library in blas_libraries():
        kinds[getattr(library, "threading_layer", None) == "openmp"].append(library)
    return kinds


def _set_threads(library: Any, n_threads: int) -> None:
    """Set the number of threads of a library, from any thread.

    From version 3.8 on threadpoolctl silently ignores all threads but the first that set a number.
    """
    give_up_control = getattr(library, "clear_controlling_thread", lambda force: None)
    give_up_control(force=True)
    library.set_num_threads(n_threads)
    give_up_control(force=True)


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Hold BLAS at one thread; the last holder to leave restores what the first one found.

    The number of threads is process-wide. So holders are counted, and a fit holds it from its
    beginning to its end: its bits depend on nothing else that the process does. If somebody else
    has raised the number meanwhile, the next holder lowers it again.
    """
    global _holders, _threads_found
    shared, per_thread = _by_kind()
    own = {library: library.num_threads for library in per_thread}
    with _lock:
        if _threads_found is None:
            _threads_found = [library.num_threads for library in shared]
        _holders += 1
        for library in (*shared, *own):
            if library.num_threads != 1:
                _set_threads(library, 1)
    try:
        yield
    finally:
        for library, n_threads in own.items():
            _set_threads(library, n_threads)
        with _lock:
            _holders -= 1
            if _holders == 0:
                for library, n_threads in zip(shared, _threads_found, strict=True):
                    _set_threads(library, n_threads)
                _threads_found = None


def held_blas() -> AbstractContextManager[None]:
    """Hold BLAS at one thread, at no cost if it is held already.

    For blocks of work: reading the number of threads each time would let other threads go first.
    """
    if _holders > 0 and not _by_kind()[1]:
        return nullcontext()
    return single_threaded_blas()


@contextmanager
def _pool(n_threads: int) -> Iterator[ThreadPoolExecutor]:
    """Lend a pool of ``n_threads``: an idle one, or a new one if all are lent.

    Starting threads takes as long as a small block. One pool for all would not do: nested work, or
    two fits at once, could take up each other's threads.
    """
    with _lock:
        idle = _idle_pools[n_threads]
        pool = idle.pop() if idle else ThreadPoolExecutor(n_threads, thread_name_prefix="dbdl")
    try:
        yield pool
    finally:
        with _lock:
            _idle_pools[n_threads].append(pool)


def run_blocks(
    work: Callable[[Item], Result], blocks: Iterable[Item], n_threads: int = 1
) -> list[Result]:
    """Apply ``work`` to every block, on ``n_threads`` threads, with BLAS held at one thread each.

    Results keep the order of the blocks. After an error, or Ctrl-C, blocks that have begun end at
    their own next call of this function: a chain would otherwise run all its sweeps.
    """
    blocks = list(blocks)
    if _is_stopped():
        raise Stopped
    with single_threaded_blas():
        if min(n_threads, len(blocks)) <= 1:
            return [work(block) for block in blocks]
        return _run_on_pool(work, blocks, n_threads)


def _run_on_pool(
    work: Callable[[Item], Result], blocks: list[Item], n_threads: int
) -> list[Result]:
    stop = threading.Event()

    def stoppable(block: Item) -> Result:
        _own.stop = stop
        with held_blas():
            return work(block)

    with _pool(n_threads) as pool:
        tasks = [pool.submit(stoppable, block) for block in blocks]
        try:
            return [task.result() for task in tasks]
        finally:  # after an error no block may go on unnoticed
            stop.set()
            for task in tasks:
                task.cancel()
            wait(tasks)


def _is_stopped() -> bool:
    """Whether this thread works on a block for whose result nobody waits any more."""
    stop: threading.Event | None = getattr(_own, "stop", None)
    return stop is not None and stop.is_set()


def map_blocks(work: Callable[[Array], Array], X: Array, size: int, n_threads: int = 1) -> Array:
    """Apply ``work`` to blocks of ``size`` rows, of which there may be none; stack the results."""
    blocks = block_slices(len(X), size) or [slice(0, 0)]
    return np.concatenate(run_blocks(lambda rows: work(X[rows]), blocks, n_threads))


def block_slices(n: int, size: int) -> list[slice]:
    """Cut ``range(n)`` into slices of ``size``; the last may be shorter."""
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def even_slices(n: int, most: int, multiple: int) -> list[slice]:
    """Cut ``range(n)`` into an even number of equal slices of about ``most`` at most.

    Equal and even in number, so that two threads share them fairly. All but the last are a
    multiple of ``multiple`` long, and may pass ``most`` by less than that.
    """
    n_slices = 2 * -(-n // (2 * most))
    return block_slices(n, multiple * -(-n // (n_slices * multiple)))


def resolve_n_jobs(n_jobs: int | None) -> int:
    """Number of threads asked for by ``n_jobs``: None means all that are free, -1 all processors.

    In a context of `joblib.parallel_config`, None means its number.
    """
    backend, of_context = get_active_backend()
    if n_jobs is None and of_context is None:
        return _free_threads(in_worker=bool(backend.nesting_level))
    return min(effective_n_jobs(n_jobs), 2 * (os.cpu_count() or 1))


def _free_threads(in_worker: bool) -> int:
    """One thread per processor, or what ``OMP_NUM_THREADS`` allows; one in a worker of joblib.

    BLAS and the compiled parts of scikit-learn obey the same variable. joblib and Dask set it for
    the processes that they start, so that these do not ask for more threads than there are cores.
    """
    allowed = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    if allowed.isdecimal() and int(allowed) > 0:
        return int(allowed)
    return 1 if in_worker else int(cpu_count())
