"""Sparse codes and parameters: round trips and dropping."""

import sys

import numpy as np
import pytest

from dbdl.model.state import Codes, Parameters
from dbdl.model.statistics import AtomSums


def sparse_array(seed, n_samples=9, n_atoms=7, density=0.3):
    rng = np.random.default_rng(seed)
    dense = rng.standard_normal((n_samples, n_atoms))
    dense *= rng.random(dense.shape) < density
    dense[seed % n_samples] = 0.0  # a row without entries
    return dense


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("seed", range(5))
def test_codes_survive_the_way_from_dense_and_back(seed, dtype):
    dense = sparse_array(seed).astype(dtype)
    codes = Codes.from_dense(dense)
    assert codes.n_samples == len(dense)
    assert codes.strength.dtype == dtype
    np.testing.assert_array_equal(codes.to_dense(7), dense)


def test_atoms_are_ascending_within_a_row():
    codes = Codes.from_dense(sparse_array(1, density=0.8))
    for start, stop in zip(codes.row_start[:-1], codes.row_start[1:], strict=True):
        assert (np.diff(codes.atom[start:stop]) > 0).all()


@pytest.mark.parametrize("dense", [np.zeros((4, 3)), np.ones((4, 3))], ids=["empty", "full"])
def test_empty_and_full_codes_survive_too(dense):
    codes = Codes.from_dense(dense)
    np.testing.assert_array_equal(codes.to_dense(3), dense)
    np.testing.assert_array_equal(codes.keep(np.array([0, 2]), 3).to_dense(2), dense[:, [0, 2]])


@pytest.mark.parametrize("kept", [[0, 1, 2, 3, 4, 5, 6], [0, 3, 6], [2], [5, 6]])
@pytest.mark.parametrize("seed", range(3))
def test_keeping_atoms_of_codes_keeps_their_columns(seed, kept):
    dense = sparse_array(seed)
    part = Codes.from_dense(dense).keep(np.array(kept), 7)
    np.testing.assert_array_equal(part.to_dense(len(kept)), dense[:, kept])
    same = Codes.from_dense(dense[:, kept])
    np.testing.assert_array_equal(part.row_start, same.row_start)
    np.testing.assert_array_equal(part.atom, same.atom)


def test_keeping_atoms_of_parameters_keeps_their_births_and_leaves_precisions_alone():
    rng = np.random.default_rng(0)
    whole = Parameters(
        rng.standard_normal((5, 3)),
        rng.standard_normal((2, 5)),
        np.array([1.0, 2.0]),
        np.array([3.0, 4.0]),
        np.array([0, 2, 5, 9, 11]),
    )
    part = whole.keep(np.array([1, 4]))
    assert part.n_atoms == 2
    np.testing.assert_array_equal(part.births, [2, 11])
    np.testing.assert_array_equal(part.atoms, whole.atoms[[1, 4]])
    np.testing.assert_array_equal(part.selection_logit, whole.selection_logit[:, [1, 4]])
    np.testing.assert_array_equal(part.strength_precision, whole.strength_precision)
    np.testing.assert_array_equal(part.noise_precision, whole.noise_precision)


def test_records_know_the_memory_of_their_arrays():
    codes = Codes(np.zeros(1001, np.int64), np.zeros(5000, np.int32), np.zeros(5000, np.float32))
    assert 48_000 < sys.getsizeof(codes) < 49_000
    sums = AtomSums(np.zeros((100, 100)), np.zeros((100, 20)))
    assert 96_000 < sys.getsizeof(sums) < 97_000
