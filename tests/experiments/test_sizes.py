"""Accuracy against the size of the dictionary, on small data."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

from dbdl.experiments.protocol import Protocol
from dbdl.experiments.rows import LabelledRows
from dbdl.experiments.sizes import METHODS, accuracy_by_size, sizes_that_fit


@pytest.fixture(scope="module")
def data():
    X, y = load_digits(n_class=4, return_X_y=True)
    return LabelledRows(X[:160] / np.linalg.norm(X[:160], axis=1, keepdims=True), y[:160])


def test_sizes_grow_evenly_up_to_the_rows_of_the_smallest_class():
    assert sizes_that_fit(32, 4) == [8, 16, 24, 32]
    assert sizes_that_fit(3, 7) == [1, 2, 3]
    assert sizes_that_fit(1, 7) == [1]


def test_each_method_has_one_accuracy_per_size_and_split(data):
    splits = list(Protocol(per_class=0.5, n_splits=2).splits(data.y, seed=0))
    seen = []
    curves = accuracy_by_size(data, splits, n_sizes=2, on_fit=lambda *fit: seen.append(fit))
    assert [curve.method for curve in curves] == list(METHODS)
    n_smallest = min(np.bincount(data.y[split.train]).min() for split in splits)
    for curve in curves:
        assert curve.n_atoms == [4 * size for size in sizes_that_fit(n_smallest, 2)]
        assert np.shape(curve.accuracy) == (2, 2) and min(curve.mean) > 80
    assert seen[-1][:2] == (12, 12)


def test_the_same_seed_draws_the_same_lines(data):
    splits = list(Protocol(per_class=0.3, n_splits=1).splits(data.y, seed=0))
    one, other = (accuracy_by_size(data, splits, only=["K-SVD"], n_sizes=2) for _ in range(2))
    assert one == other
