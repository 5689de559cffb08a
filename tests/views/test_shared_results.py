"""Views that are learned from the same rows share what they have in common."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from same_records import assert_same_record

from dbdl import DBDLClassifier
from dbdl.views import AUTOMATIC, AUTOMATIC_FOR_FEW_ATOMS, LabelledRows, Shared, view_named
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


def test_a_result_is_computed_once_by_threads_that_ask_together():
    shared, begun, n_calls = Shared(), threading.Event(), []

    def compute():
        n_calls.append(1)
        begun.wait(10)
        return "found"

    with ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(shared.once, "name", compute) for _ in range(3)]
        begun.set()
        assert [one.result(10) for one in asked] == ["found"] * 3
    assert len(n_calls) == 1


def test_an_error_is_not_kept():
    shared = Shared()
    with pytest.raises(ZeroDivisionError):
        shared.once("name", lambda: 1 / 0)
    assert shared.once("name", lambda: 5) == 5
