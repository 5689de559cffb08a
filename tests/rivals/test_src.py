"""Sparse representation classification: residuals by their definition, and both coders."""

from functools import cache

import numpy as np
import pytest
from scipy.sparse import random as random_sparse
from sklearn.datasets import load_digits

from dbdl.rivals.src import SRCClassifier, SRCModel


@cache
def digits():
    return load_digits(return_X_y=True)


def slow_residuals(rows, codes, atoms, class_of_atom, n_classes):
    """The definition, class by class."""
    parts = [codes * (class_of_atom == c) for c in range(n_classes)]
    return np.array([np.linalg.norm(rows - part @ atoms, axis=1) for part in parts]).T


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_class_residuals_are_those_of_the_definition(dtype, n_threads):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((70, 30)).astype(dtype)
    atoms = rng.standard_normal((50, 30)).astype(dtype)
    class_of_atom = rng.integers(0, 7, 50)
    codes = random_sparse(70, 50, 0.2, format="csr", random_state=0, dtype=np.float64).astype(dtype)
    model = SRCModel(atoms, class_of_atom, 8, coder="omp", tolerance=0.0, n_nonzero=1)
    residuals = model.residuals(rows, codes, n_threads)
    expected = slow_residuals(rows, codes.toarray(), atoms, class_of_atom, 8)
    np.testing.assert_allclose(residuals, expected, rtol=1e-12 if dtype == np.float64 else 1e-5)


def test_lasso_codes_leave_the_tolerance_and_a_training_row_its_own_class():
    X, Y = digits()
    model = SRCClassifier(tolerance=0.1, calibrate=False).fit(X[:300], Y[:300])
    rows = model.atoms_[:20]
    codes = model.model_.code(rows)
    np.testing.assert_allclose(np.linalg.norm(rows - codes @ model.atoms_, axis=1), 0.1)
    scores = model.decision_function(X[:20])
    np.testing.assert_array_equal(scores.argmax(axis=1), Y[:20])
    np.testing.assert_allclose(scores.max(axis=1), -0.1)  # the row itself, shrunk by a tenth


def test_omp_codes_have_the_non_zeros_asked_for():
    X, Y = digits()
    model = SRCClassifier(coder="omp", n_nonzero=7, calibrate=False).fit(X[:300], Y[:300])
    codes = model.model_.code(X[300:400])
    assert (np.diff(codes.indptr) == 7).all()
    assert model.score(X[300:600], Y[300:600]) > 0.85


def test_a_tolerance_out_of_reach_gives_the_least_residual_and_still_classifies():
    X, Y = digits()
    model = SRCClassifier(tolerance=1e-6, calibrate=False).fit(X[:30], Y[:30])
    rows = X[300:320] / np.linalg.norm(X[300:320], axis=1, keepdims=True)
    residual = np.linalg.norm(rows - model.model_.code(rows) @ model.atoms_, axis=1)
    solution = np.linalg.lstsq(model.atoms_.T, rows.T, rcond=None)[0]
    least = np.linalg.norm(rows - (model.atoms_.T @ solution).T, axis=1)
    assert (least > 1e-3).all()
    np.testing.assert_allclose(residual, least, rtol=1e-9)
    assert model.score(X[300:600], Y[300:600]) > 0.6  # three rows a class, against 0.1 by chance
