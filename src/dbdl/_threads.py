"""Running compiled work on fixed blocks with our own threads.

Multi-threaded BLAS rounds differently with another number of threads, so every product is cut
into blocks of a fixed size, BLAS is held at one thread, and the blocks run on a pool of ours.
The result then has the same bits for any number of threads.
"""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any, TypeVar

import scipy.linalg  # noqa: F401 - loads the BLAS that compiled code calls, so that it can be held
from joblib import effective_n_jobs
from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Result = TypeVar("Result")

_lock = threading.Lock()
_idle_pools: dict[int, list[ThreadPoolExecutor]] = defaultdict(list)
_holders = 0
_limit: Any = None
_controller: ThreadpoolController | None = None


def _begin_anew() -> None:
    """Forget, in a child process, threads that did not come along and what they held."""
    global _lock, _holders, _limit
    _lock, _holders, _limit = threading.Lock(), 0, None
    _idle_pools.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Hold BLAS at one thread; the last holder to leave restores the setting found by the first.

    The limits of threadpoolctl are process-wide: without the count, one fit that ends would undo
    the limit of another that still runs.
    """
    global _holders, _limit, _controller
    with _lock:
        _holders += 1
        if _holders == 1:
            if _controller is None:  # looking the libraries up takes milliseconds: do it once
                _controller = ThreadpoolController()
            _limit = _controller.limit(limits=1, user_api="blas")
    try:
        yield
    finally:
        with _lock:
            _holders -= 1
            if _holders == 0:
                _limit.restore_original_limits()
                _limit = None


@contextmanager
def _pool(n_threads: int) -> Iterator[ThreadPoolExecutor]:
    """Lend a pool of ``n_threads``: an idle one, or a new one where all are lent.

    Starting threads takes as long as a small block. One pool for all would not do: work that
    waits for work of its own, or two fits at once, could take up each other's threads.
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

    Results keep the order of the blocks.
    """
    blocks = list(blocks)
    with single_threaded_blas():
        if min(n_threads, len(blocks)) <= 1:
            return [work(block) for block in blocks]
        with _pool(n_threads) as pool:
            tasks = [pool.submit(work, block) for block in blocks]
            try:
                return [task.result() for task in tasks]
            finally:  # after an error nothing may go on behind the caller's back
                for task in tasks:
                    task.cancel()
                wait(tasks)


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
    """Number of threads asked for by ``n_jobs``, with joblib's meaning of None and -1."""
    return min(effective_n_jobs(n_jobs), 2 * (os.cpu_count() or 1))
