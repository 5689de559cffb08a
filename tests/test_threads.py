"""Work on blocks: order, errors, nested calls, and forked children."""

import multiprocessing
import os
import threading
import time

import pytest
from joblib import Parallel, cpu_count, delayed, parallel_config

from dbdl._threads import block_slices, even_slices, resolve_n_jobs, run_blocks


def test_results_keep_the_order_of_the_blocks():
    def late_first(block):
        time.sleep(0.01 * (5 - block))
        return block

    assert run_blocks(late_first, range(5), 3) == list(range(5))


def test_work_may_run_blocks_of_its_own():
    def outer(i):
        return sum(run_blocks(lambda j: i * j, range(4), 2))

    assert run_blocks(outer, range(4), 2) == [6 * i for i in range(4)]


def test_threads_are_used_again():
    names = {
        name
        for _ in range(5)
        for name in run_blocks(lambda _: threading.current_thread().name, range(8), 2)
    }
    assert len(names) <= 2


def test_an_error_is_raised_once_all_work_has_ended():
    running = []

    def work(block):
        if block == 0:
            raise ValueError("block 0")
        running.append(block)
        time.sleep(0.02)
        running.remove(block)

    with pytest.raises(ValueError, match="block 0"):
        run_blocks(work, range(6), 2)
    assert not running
    assert run_blocks(abs, [-1, -2], 2) == [1, 2]


def test_after_an_error_blocks_end_at_their_next_call():
    begun, sweeps = threading.Event(), []

    def work(block):
        if block == 0:
            begun.wait(20)
            raise KeyboardInterrupt
        for sweep in range(1000):  # as a chain
            begun.set()
            time.sleep(0.01)
            run_blocks(sweeps.append, [sweep])

    with pytest.raises(KeyboardInterrupt):
        run_blocks(work, range(2), 2)
    assert len(sweeps) < 500
    assert run_blocks(lambda i: sum(run_blocks(abs, [-i, i])), [1, 2], 2) == [2, 4]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_starts_threads_of_its_own():
    run_blocks(abs, [-1, -2], 2)
    child = multiprocessing.get_context("fork").Process(target=run_blocks, args=(abs, [-1, -2], 2))
    child.start()
    child.join(20)
    alive = child.is_alive()
    if alive:
        child.terminate()
    assert not alive and child.exitcode == 0


@pytest.mark.parametrize("n", [1, 3, 4, 127, 128, 500, 1209, 5000])
def test_even_slices_cover_everything_in_equal_parts(n):
    slices = even_slices(n, 128, 4)
    assert [i for s in slices for i in range(s.start, s.stop)] == list(range(n))
    assert all(s.start % 4 == 0 and s.stop - s.start < 128 + 4 for s in slices)
    assert slices == block_slices(n, slices[0].stop)


# ------------------------------------------------------------------------------ number of threads


@pytest.fixture
def no_limit(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)


@pytest.mark.usefixtures("no_limit")
def test_all_processors_are_used_unless_a_number_is_given():
    assert resolve_n_jobs(None) == resolve_n_jobs(-1) == cpu_count()
    assert resolve_n_jobs(1) == 1


@pytest.mark.parametrize(("allowed", "expected"), [("3", 3), ("5,2", 5), ("0", None), ("x", None)])
def test_the_variable_that_limits_blas_limits_our_threads_too(allowed, expected, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", allowed)
    assert resolve_n_jobs(None) == (expected or cpu_count())
    assert resolve_n_jobs(1) == 1  # a number that is given wins


@pytest.mark.usefixtures("no_limit")
def test_a_context_of_joblib_gives_the_number():
    with parallel_config(n_jobs=1):
        assert resolve_n_jobs(None) == 1


@pytest.mark.usefixtures("no_limit")
def test_a_worker_thread_of_joblib_has_one_thread():
    found = Parallel(n_jobs=2, prefer="threads")(delayed(resolve_n_jobs)(None) for _ in range(2))
    assert found == [1, 1]
