"""Ridge regression, against the equation that its solution satisfies."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from dbdl.model.ridge import ridge, scaled_ridge
from dbdl.model.statistics import AtomSums


def make_problem(n_samples, n_atoms, seed=0):
    rng = np.random.default_rng(seed)
    shape = (n_samples, n_atoms)
    codes = rng.standard_normal(shape) * (rng.random(shape) < 0.5)
    return codes, rng.standard_normal((n_samples, 3))


def assert_solves(solution, codes, target, penalty):
    """The gradient of ||target - codes W||^2 + penalty ||W||^2 is zero."""
    left = codes.T @ (target - codes @ solution)
    np.testing.assert_allclose(left, penalty * solution, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("penalty", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("shape", [(20, 6), (6, 20), (8, 8)], ids=["tall", "wide", "square"])
def test_the_gradient_of_the_penalised_squares_is_zero_at_the_solution(shape, penalty):
    codes, target = make_problem(*shape)
    assert_solves(ridge(csr_matrix(codes), target, penalty), codes, target, penalty)


@pytest.mark.parametrize("penalty", [0.1, 30.0])
def test_scaled_codes_are_solved_for_from_the_sums_of_the_codes(penalty):
    codes, target = make_problem(20, 6)
    scale = np.array([0.1, 0.5, 1.0, 2.0, 5.0, 9.0])
    sums = AtomSums(codes.T @ codes, codes.T @ target)
    assert_solves(scaled_ridge(sums, scale, penalty), codes * scale, target, penalty)


def test_one_code_is_shrunk_by_its_square_over_its_square_and_the_penalty():
    found = ridge(csr_matrix([[3.0]]), np.array([[2.0]]), 1.0)
    np.testing.assert_allclose(found, [[2.0 * 3.0 / (3.0**2 + 1.0)]], rtol=1e-15)


@pytest.mark.parametrize("shape", [(20, 6), (4, 9)], ids=["tall", "wide"])
def test_where_the_penalty_is_lost_in_rounding_the_smallest_solution_is_found(shape):
    codes, target = make_problem(*shape)
    codes[:, 1] = codes[:, 0]  # copies: without a penalty there are many solutions
    found = ridge(csr_matrix(codes), target, 1e-300)
    np.testing.assert_allclose(found, np.linalg.pinv(codes) @ target, rtol=1e-6, atol=1e-9)


def test_codes_without_an_entry_have_no_solution_but_zero():
    assert not ridge(csr_matrix((5, 3)), np.ones((5, 2)), 0.1).any()
