"""FISTA against an independent solver, the conditions of a minimum, and its own promises."""

import numpy as np
import pytest
from sklearn.linear_model import Lasso

from dbdl.coding.lasso import lasso
from dbdl.rivals._fista import fista

pytestmark = pytest.mark.bits


def make_problem(n_samples=12, n_atoms=20, n_features=30, seed=0, common=0.0):
    """Rows and unit atoms; with ``common`` they share a direction, as faces do."""
    rng = np.random.default_rng(seed)
    shared = common * rng.standard_normal(n_features)
    atoms = rng.standard_normal((n_atoms, n_features)) + shared
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    X = rng.standard_normal((n_samples, n_features)) + shared
    return X / np.linalg.norm(X, axis=1, keepdims=True), atoms


def solve(X, atoms, penalty, start=None, **settings):
    gram = atoms @ atoms.T
    start = np.zeros((len(X), len(atoms)), dtype=X.dtype) if start is None else start

    def product(codes, out):
        np.matmul(codes, gram, out=out)

    return fista(product, X @ atoms.T, start, penalty, **settings)


def closeness(X, atoms):
    """How close codes at the minimum can be told to be, by an objective that rounds.

    Near a minimum the objective rises by at least half its least curvature times the squared
    distance, and its terms round by a few eps.
    """
    least_curvature = np.linalg.eigvalsh(atoms @ atoms.T)[0]
    rounding = 100 * np.finfo(np.float64).eps * 0.5 * np.sum(X**2)
    return np.sqrt(2 * rounding / least_curvature)


def lasso_objective(X, atoms, codes, penalty):
    return 0.5 * np.sum((X - codes @ atoms) ** 2) + penalty * np.abs(codes).sum()


@pytest.mark.parametrize("common", [0.0, 3.0])
def test_finds_the_lasso_codes_of_two_other_solvers(common):
    X, atoms = make_problem(common=common)
    found = solve(X, atoms, 0.05, n_iterations=20_000, tol=1e-12).codes
    np.testing.assert_allclose(
        found, lasso(X, atoms, penalty=0.05).toarray(), atol=closeness(X, atoms)
    )
    other = Lasso(alpha=0.05 / X.shape[1], fit_intercept=False, tol=1e-12, max_iter=100_000)
    for x, code in zip(X, found, strict=True):
        np.testing.assert_allclose(code, other.fit(atoms.T, x).coef_, atol=1e-5)


def test_the_objective_is_that_of_the_problem_and_belongs_to_the_codes():
    X, atoms = make_problem()
    result = solve(X, atoms, 0.02, n_iterations=30)
    constant = 0.5 * np.sum(X**2)
    assert result.objective[0] == 0
    np.testing.assert_allclose(
        result.objective[-1] + constant, lasso_objective(X, atoms, result.codes, 0.02), rtol=1e-12
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("lipschitz", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("seed", range(3))
def test_the_objective_never_rises_whatever_the_first_guess_of_the_curvature(
    dtype, lipschitz, seed
):
    X, atoms = (a.astype(dtype) for a in make_problem(seed=seed, common=2.0))
    start = np.random.default_rng(seed).standard_normal((len(X), len(atoms))).astype(dtype)
    result = solve(X, atoms, 0.03, start, lipschitz=lipschitz, n_iterations=60)
    assert result.codes.dtype == dtype
    assert np.diff(result.objective).max() <= 0
    assert result.objective[-1] < result.objective[0]


def test_a_bad_guess_of_the_curvature_costs_little():
    X, atoms = make_problem(common=2.0)
    best = solve(X, atoms, 0.03, n_iterations=20_000, tol=1e-12).objective[-1]
    for lipschitz in (1e-9, 1e3):
        found = solve(X, atoms, 0.03, lipschitz=lipschitz, n_iterations=400, tol=0)
        assert found.objective[-1] <= best + 1e-8


def test_no_penalty_gives_least_squares_and_a_large_one_gives_zero():
    X, atoms = make_problem()
    found = solve(X, atoms, 0.0, n_iterations=20_000, tol=1e-13).codes
    np.testing.assert_allclose(found, np.linalg.lstsq(atoms.T, X.T, rcond=None)[0].T, atol=1e-6)
    assert not solve(X, atoms, 10.0, start=found).codes.any()


def test_the_start_is_kept_and_nothing_changes_at_the_minimum():
    X, atoms = make_problem()
    best = solve(X, atoms, 0.05, n_iterations=20_000, tol=1e-12).codes
    before = best.copy()
    result = solve(X, atoms, 0.05, start=best, n_iterations=50)
    np.testing.assert_array_equal(best, before)
    np.testing.assert_allclose(result.codes, best, atol=closeness(X, atoms))
    assert result.converged and len(result.objective) < 20


def test_rows_may_be_coupled():
    """A map that pulls rows to their mean: against a gradient descent that takes its time."""
    X, atoms = make_problem(n_samples=6, n_atoms=8)
    gram, linear = atoms @ atoms.T, X @ atoms.T

    def image(codes):
        return codes @ gram + 0.7 * (codes - codes.mean(axis=0))

    def product(codes, out):
        out[:] = image(codes)

    codes = np.zeros_like(linear)
    for _ in range(20_000):
        codes = codes - 0.1 * (image(codes) - linear)
        codes = np.sign(codes) * np.maximum(np.abs(codes) - 0.1 * 0.02, 0)
    found = fista(product, linear, np.zeros_like(linear), 0.02, n_iterations=5000, tol=1e-12)
    np.testing.assert_allclose(found.codes, codes, atol=1e-8)


def test_no_rows_no_iterations_and_zero_rows():
    X, atoms = make_problem()
    assert solve(X[:0], atoms, 0.1).codes.shape == (0, len(atoms))
    assert not solve(X, atoms, 0.1, n_iterations=0).codes.any()
    assert not solve(np.zeros_like(X), atoms, 0.1).codes.any()
