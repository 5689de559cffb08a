"""Views that are learned from the same rows share what they have in common."""

import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from same_records import assert_same_record

from dbdl import DBDLClassifier
from dbdl.backends.crew import Crew
from dbdl.learn.chain import ChainSettings
from dbdl.learn.problem import LabelSettings, Problem
from dbdl.learn.usable import usable_views
from dbdl.views import (
    AUTOMATIC,
    AUTOMATIC_FOR_FEW_ATOMS,
    LabelledRows,
    Shared,
    make_views,
    view_named,
)
from dbdl.views import sums as sums_module


def make_rows(n_rows=90, n_features=6):
    rng = np.random.default_rng(0)
    class_of_row = np.arange(n_rows) % 3
    X = 5 + class_of_row[:, np.newaxis] + rng.standard_normal((n_rows, n_features))
    return LabelledRows(X, class_of_row, 3)


@pytest.fixture
def n_spectra(monkeypatch):
    """Numbers of rows whose spectrum was computed, in a list."""
    seen = []

    def counted(products, fourth, n_rows, real=sums_module.spectrum_of_products):
        seen.append(int(n_rows))
        return real(products, fourth, n_rows)

    monkeypatch.setattr(sums_module, "spectrum_of_products", counted)
    return seen


def test_sharing_changes_no_view():
    rows = make_rows()
    together = rows._replace(shared=Shared())
    for name in {*AUTOMATIC, *AUTOMATIC_FOR_FEW_ATOMS}:
        assert_same_record(view_named(name).fit(together), view_named(name).fit(rows))


def test_a_covariance_is_taken_apart_once(n_spectra):
    rows = make_rows()._replace(shared=Shared())
    for name in ("whitened", "half-whitened + constant", "few atoms of whitened"):
        view_named(name).fit(rows)
    assert len(n_spectra) == 1
    view_named("unit whitened").fit(rows)  # of other rows
    view_named("scaled and whitened").fit(rows)  # of other features
    assert len(n_spectra) == 3


def test_views_of_one_map_have_the_same_arrays():
    rows = make_rows()._replace(shared=Shared())
    one, other = (
        view_named(name).fit(rows)
        for name in ("half-whitened", "few atoms of half-whitened + constant")
    )
    assert one.matrix is other.matrix and one.mean is other.mean
    assert one.recipe != other.recipe


def test_the_guard_against_views_that_ruin_rows_shares_too(n_spectra):
    X, class_of_row, *_ = make_rows(600)
    views = make_views(["whitened", "half-whitened + constant"])
    problem = Problem(X, class_of_row, 3, ChainSettings(), LabelSettings(), views=views)
    assert usable_views(problem, Crew(), views) == views
    assert len(n_spectra) == 1


def test_a_kernel_view_does_not_take_its_coordinates_for_the_rows(n_spectra):
    rows = make_rows()._replace(shared=Shared())
    view_named("half-whitened + constant").fit(rows)
    view_named("kernel of half-whitened + constant").fit(rows)
    assert len(n_spectra) == 2  # that of the rows, and that of the coordinates


def test_members_of_one_fold_share_and_those_of_others_do_not(n_spectra):
    X, y, *_ = make_rows(700)  # enough rows for all first members to leave out the same fold
    DBDLClassifier(
        views=["whitened", "half-whitened"], n_chains=4, n_sweeps=1, n_initial_atoms=6,
        random_state=0,
    ).fit(X, y)  # fmt: skip
    assert n_spectra.count(630) == 2  # one per fold


def ask_together(compute, n_threads=3):
    """Ask for one result in several threads at once; return the results and errors."""
    shared, together = Shared(), threading.Barrier(n_threads)

    def slowly():
        time.sleep(0.1)  # so that the others ask meanwhile
        return compute()

    def ask():
        together.wait(10)
        return shared.once("name", slowly)

    with ThreadPoolExecutor(n_threads) as pool:
        asked = [pool.submit(ask) for _ in range(n_threads)]
        return [one.exception(10) or one.result(10) for one in asked]


def test_a_result_is_computed_once_by_threads_that_ask_together():
    numbers = itertools.count()
    assert ask_together(lambda: f"number {next(numbers)}") == ["number 0"] * 3


def test_after_an_error_those_who_wait_compute_anew():
    numbers = itertools.count()
    found = ask_together(lambda: f"number {1 // next(numbers)}")
    assert found.count("number 1") == 2
    assert sum(isinstance(one, ZeroDivisionError) for one in found) == 1


def test_results_of_other_names_do_not_wait():
    shared = Shared()
    assert shared.once("outer", lambda: shared.once("inner", lambda: 1) + 1) == 2
    with ThreadPoolExecutor(1) as pool:
        other = lambda: pool.submit(shared.once, "other", lambda: 5).result(10)  # noqa: E731
        assert shared.once("name", other) == 5
