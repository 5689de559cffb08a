"""Claims about BetaProcessDictionary beyond scikit-learn's contract."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from cones import make_cones
from sklearn.base import clone

from dbdl import BetaProcessDictionary


@cache
def make_rows():
    return make_cones(n_rows=40)[0]


@cache
def unit_rows_and_mean_length():
    length = np.linalg.norm(make_rows(), axis=1, keepdims=True)
    return make_rows() / length, np.sqrt((length**2).mean())


@pytest.fixture(scope="module")
def model():
    X = make_rows()
    return BetaProcessDictionary(n_sweeps=10, random_state=0).fit(X)


def test_rows_come_back_from_their_codes(model):
    """In the mean size of the training rows: a row of unit norm does not know its own."""
    X = make_rows()
    UNIT, MEAN_LENGTH = unit_rows_and_mean_length()
    rows = model.inverse_transform(model.transform(X)) / MEAN_LENGTH
    assert ((rows - UNIT) ** 2).sum(axis=1).mean() < 0.02


def test_rows_as_they_are_come_back_in_their_own_size():
    X = make_rows()
    model = BetaProcessDictionary(n_sweeps=10, normalize=False, n_nonzero=6, random_state=0).fit(X)
    rows = model.inverse_transform(model.transform(X))
    assert ((rows - X) ** 2).sum() < 0.02 * (X**2).sum()


def test_atoms_have_unit_norm_and_a_probability_each(model):
    np.testing.assert_allclose(np.linalg.norm(model.atoms_, axis=1), 1.0, rtol=1e-12)
    assert model.selection_probability_.shape == (model.n_atoms_,)
    assert model.trace_.n_atoms.shape == (10,)


def test_auto_takes_the_number_of_atoms_that_rows_use(model):
    assert model.coder_.n_nonzero == max(1, round(model.trace_.mean_nonzero[-1]))


def test_more_nonzeros_explain_more(model):
    X = make_rows()
    UNIT, MEAN_LENGTH = unit_rows_and_mean_length()
    errors = []
    for n in (1, 2, 5):
        fitted = clone(model).set_params(n_nonzero=n).fit(X)
        rows = fitted.inverse_transform(fitted.transform(X)) / MEAN_LENGTH
        errors.append(((rows - UNIT) ** 2).sum())
    assert errors[0] > errors[1] > errors[2]


@pytest.mark.parametrize("n_jobs", [2, 3])
def test_any_number_of_threads_gives_the_same_bits(model, n_jobs):
    X = make_rows()
    other = clone(model).set_params(n_jobs=n_jobs).fit(X)
    np.testing.assert_array_equal(other.atoms_, model.atoms_)
