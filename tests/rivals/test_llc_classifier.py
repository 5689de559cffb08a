"""The codebook of locality-constrained coding, and its classifier."""

from functools import cache

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits

from dbdl.rivals.llc import LLCClassifier, k_means


@cache
def digits():
    return load_digits(return_X_y=True)


def squared_distance(rows, centres):
    return ((rows[:, np.newaxis] - centres) ** 2).sum(axis=2).min(axis=1).sum()


def test_k_means_does_not_increase_its_objective_and_gets_as_far_as_scikit_learn():
    X, _ = digits()
    rows = X[:300]
    centres, objective = k_means(rows, 20, 100, np.random.default_rng(0))
    assert (np.diff(objective) <= 1e-9 * objective[0]).all()
    assert objective[-1] == pytest.approx(squared_distance(rows, centres))
    other = KMeans(20, n_init=1, random_state=0).fit(rows)
    assert objective[-1] < 1.05 * other.inertia_


def test_k_means_of_copies_and_of_as_many_centres_as_rows_is_the_rows():
    rows = np.repeat(np.eye(3), 2, axis=0)
    centres, objective = k_means(rows, 6, 10, np.random.default_rng(0))
    assert objective[-1] == pytest.approx(0, abs=1e-12)
    np.testing.assert_allclose(np.unique(centres, axis=0), np.unique(rows, axis=0))


@pytest.mark.parametrize("codebook", ["class", "all"])
def test_codebook_has_the_size_asked_for_and_tells_digits_apart(codebook):
    X, Y = digits()
    model = LLCClassifier(n_atoms_per_class=8, codebook=codebook, n_nonzero=20, random_state=0)
    model.set_params(calibrate=False).fit(X[:600], Y[:600])
    assert model.n_atoms_ == 80
    assert (np.diff(model.objective_) <= 1e-9 * model.objective_[0]).all()
    assert model.score(X[600:1200], Y[600:1200]) > 0.9
