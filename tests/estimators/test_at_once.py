"""A fit has the same bits whatever else the process does, and leaves BLAS as it found it."""

import multiprocessing
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import pytest
from joblib import Parallel, delayed
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_info, threadpool_limits

from dbdl import BetaProcessDictionary, DBDLClassifier
from dbdl._threads import single_threaded_blas

pytestmark = pytest.mark.bits


@cache
def digits():
    """Rows to learn from, their classes, and rows to ask for."""
    rows, labels = load_digits(return_X_y=True)
    return rows[:240], labels[:240], rows[240:300]


def fit(seed=0, **settings):
    X, y, _ = digits()
    return DBDLClassifier(n_chains=2, n_sweeps=3, random_state=seed, **settings).fit(X, y)


def bits(model):
    _, _, queries = digits()
    parts = [part for chain in model.chains_ for part in (chain.atoms, chain.label_atoms)]
    return [*parts, model.decision_function(queries), np.array(model.temperature_)]


def assert_same(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def blas_threads():
    return [
        library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"
    ]


@pytest.fixture(scope="module")
def alone():
    return bits(fit())


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_fits_in_several_threads_have_the_bits_of_one_alone(alone, n_jobs):
    with ThreadPoolExecutor(3) as threads:
        for found in threads.map(lambda _: bits(fit(n_jobs=n_jobs)), range(3)):
            assert_same(found, alone)


def test_overlapping_fits_in_threads_that_live_on_leave_blas_as_it_was():
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        first_is_in, second_is_in = threading.Event(), threading.Event()

        def first():
            with single_threaded_blas():
                first_is_in.set()
                second_is_in.wait(20)
            return blas_threads()

        def second():
            first_is_in.wait(20)
            with single_threaded_blas():
                second_is_in.set()
                one.result(20)  # the first leaves while the second still holds
                return blas_threads()

        with ThreadPoolExecutor(2) as threads:
            one = threads.submit(first)
            two = threads.submit(second)
            assert set(one.result()) == set(two.result()) == {1}
            assert blas_threads() == before
        assert blas_threads() == before


def test_a_number_of_blas_threads_that_others_raise_is_lowered_again(alone):
    with single_threaded_blas(), threadpool_limits(2, user_api="blas"):
        assert_same(bits(fit()), alone)


def test_threads_that_predict_with_one_model_agree():
    _, _, queries = digits()
    model = fit()
    expected = model.predict_proba(queries)
    with ThreadPoolExecutor(8) as threads:
        for found in threads.map(lambda _: model.predict_proba(queries), range(8)):
            np.testing.assert_array_equal(found, expected)


@pytest.mark.slow
def test_processes_of_joblib_have_the_same_bits(alone):
    for found in Parallel(n_jobs=2, backend="loky")(delayed(fit_bits)() for _ in range(2)):
        assert_same(found, alone)


def fit_bits():
    return bits(fit())


def send_bits(pipe):
    pipe.send(bits(fit()))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_forked_while_a_fit_runs_has_the_same_bits(alone):
    running, stop = threading.Event(), threading.Event()

    def go_on():
        with single_threaded_blas():
            running.set()
            while not stop.is_set():
                fit(seed=1)

    thread = threading.Thread(target=go_on)
    thread.start()
    running.wait(20)
    here, there = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(target=send_bits, args=(there,))
    try:
        child.start()
        assert here.poll(120), "the child hangs"
        assert_same(here.recv(), alone)
        child.join(20)
    finally:
        stop.set()
        thread.join()
        child.kill()


def test_an_unsupervised_fit_in_a_thread_has_the_bits_of_one_alone():
    X, _, _ = digits()

    def learn(_=None):
        return BetaProcessDictionary(n_sweeps=3, random_state=0).fit(X).components_

    alone = learn()
    with ThreadPoolExecutor(2) as threads:
        for found in threads.map(learn, range(2)):
            np.testing.assert_array_equal(found, alone)
