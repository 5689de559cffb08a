"""Copies of rows are found, in memory and in parts."""

import numpy as np
import pytest

from dbdl import DBDLClassifier
from dbdl.rows import lazy_rows, open_rows
from dbdl.rows.copies import first_copies


def with_copies(dtype=np.float64):
    rng = np.random.default_rng(0)
    single = rng.standard_normal((700, 5)).astype(dtype)
    return single[rng.integers(700, size=1500)]


def slowly(X):
    first = {}
    return np.array([first.setdefault(tuple(row), number) for number, row in enumerate(X.tolist())])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_copies_are_those_that_a_slow_look_finds(dtype):
    X = with_copies(dtype)
    np.testing.assert_array_equal(first_copies(X), slowly(X))
    np.testing.assert_array_equal(first_copies(np.asfortranarray(X)), slowly(X))


@pytest.mark.parametrize(
    "X",
    [
        np.arange(6, dtype=np.int8).reshape(3, 2),
        np.array([["a", 1.0], ["b", 1.0], ["a", 2.0]], dtype=object),
        np.array([[1.0, 2.0], [2.0, 1.0], [1.0, 1.0], [2.0, 2.0]]),
    ],
)
def test_without_copies_there_are_none(X):
    assert first_copies(X) is None
    copies = first_copies(np.concatenate([X, X[1:2]]))
    np.testing.assert_array_equal(copies, [*range(len(X)), 1])


def test_zeros_of_both_signs_are_equal():
    np.testing.assert_array_equal(first_copies(np.array([[0.0, 1.0], [-0.0, 1.0]])), [0, 0])


def test_copies_among_rows_of_a_file_are_those_of_rows_in_memory(tmp_path):
    X = with_copies()
    np.save(tmp_path / "rows.npy", X)
    lazy = lazy_rows(open_rows(tmp_path / "rows.npy")[0])
    np.testing.assert_array_equal(first_copies(lazy), first_copies(X))


def test_a_table_that_was_oversampled_is_not_held_out_by_its_own_copies():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 6)), rng.integers(2, size=60)  # labels that say nothing
    model = DBDLClassifier(n_chains=4, views="plain", n_sweeps=3, random_state=0)
    model.fit(np.repeat(X, 5, axis=0), np.repeat(y, 5))
    assert model.held_out_.ensemble_accuracy < 0.75
