"""Random faces: directions of unit norm from a seed, which preserve distances."""

from __future__ import annotations

from functools import cache

import numpy as np
from sklearn.utils.estimator_checks import parametrize_with_checks

from dbdl.features import RandomFaces


@cache
def make_rows():
    return np.random.default_rng(0).random((20, 3000))


@parametrize_with_checks([RandomFaces(3), RandomFaces(3, normalize=False)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_directions_have_unit_norm_and_hardly_overlap():
    X = make_rows()
    directions = RandomFaces(200).fit(X).components_
    gram = directions @ directions.T
    np.testing.assert_allclose(np.diag(gram), 1)
    assert np.abs(gram - np.eye(200)).max() < 6 / np.sqrt(3000)


def test_projected_rows_are_products_with_the_directions_scaled_to_unit_norm():
    X = make_rows()
    plain = RandomFaces(50, normalize=False).fit(X)
    projected = plain.transform(X)
    np.testing.assert_allclose(projected, X @ plain.components_.T)
    norm = np.linalg.norm(projected, axis=1, keepdims=True)
    np.testing.assert_allclose(RandomFaces(50).fit_transform(X), projected / norm)


def test_the_seed_decides():
    X = make_rows()
    first = RandomFaces(10, random_state=1).fit_transform(X)
    np.testing.assert_array_equal(RandomFaces(10, random_state=1).fit_transform(X), first)
    assert not np.allclose(RandomFaces(10, random_state=2).fit_transform(X), first)
    np.testing.assert_array_equal(RandomFaces(10, random_state=1).fit(X[:1]).transform(X), first)


def test_distances_survive():
    X = make_rows()
    directions = RandomFaces(1000, normalize=False).fit(X)
    scale = np.sqrt(3000 / 1000)
    for i in range(1, len(X)):
        before = np.linalg.norm(X[i] - X[0])
        after = scale * np.linalg.norm(directions.transform(X[[i]]) - directions.transform(X[[0]]))
        assert abs(after / before - 1) < 0.15


def test_float32_stays_float32():
    X = make_rows()
    assert RandomFaces(10).fit_transform(X.astype(np.float32)).dtype == np.float32
