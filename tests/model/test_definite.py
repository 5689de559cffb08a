"""Equations with positive definite matrices."""

import numpy as np
import pytest

from dbdl.model.atom_priors import IsotropicPrior
from dbdl.model.definite import solve_definite
from dbdl.model.statistics import AtomSums


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_definite_matrix_is_solved(overwrite):
    rng = np.random.default_rng(0)
    half, right = rng.standard_normal((6, 6)), rng.standard_normal((6, 2))
    matrix = half @ half.T + np.eye(6)
    expected = np.linalg.solve(matrix, right)
    np.testing.assert_allclose(solve_definite(matrix, right, overwrite=overwrite), expected)


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_matrix_that_rounding_made_singular_has_the_smallest_solution(overwrite):
    half = np.random.default_rng(0).standard_normal((30, 4))
    matrix = 1e20 * half @ half.T + np.eye(30)  # the identity is lost
    right = 1e20 * half
    found = solve_definite(matrix, right, overwrite=overwrite)
    np.testing.assert_allclose(half.T @ found, np.eye(4), atol=1e-8)


def test_atoms_of_rows_without_noise_have_a_mean():
    # rows in a plane are explained exactly, and the noise precision then grows without limit
    rng = np.random.default_rng(0)
    codes, X = rng.standard_normal((50, 40)), rng.standard_normal((50, 2))
    noise_precision = 1e25
    sums = AtomSums(noise_precision * codes.T @ codes, noise_precision * codes.T @ X)
    rank_two = AtomSums(sums.gram * np.outer(*2 * [rng.standard_normal(40)]), sums.cross)
    for case in (sums, rank_two):
        mean = IsotropicPrior(2.0).posterior(AtomSums(case.gram.copy(), case.cross)).mean()
        assert np.isfinite(mean).all()
