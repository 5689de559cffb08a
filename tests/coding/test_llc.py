"""Codes over nearby atoms against their definition."""

import numpy as np
import pytest

from dbdl.coding import llc


def code_slowly(x, atoms, n_nonzero, penalty):
    """The definition: the nearest atoms, and the constrained minimum by Lagrange's conditions."""
    nearest = np.argsort(((atoms - x) ** 2).sum(axis=1))[:n_nonzero]
    near = atoms[nearest]
    weight = penalty * ((near - x) ** 2).sum()
    system = np.zeros((n_nonzero + 1, n_nonzero + 1))
    system[:-1, :-1] = 2 * (near @ near.T + weight * np.eye(n_nonzero))
    system[-1, :-1] = system[:-1, -1] = 1
    code = np.zeros(len(atoms))
    code[nearest] = np.linalg.solve(system, np.append(2 * near @ x, 1))[:-1]
    return code


@pytest.mark.parametrize("n_nonzero", [1, 5, 40])
def test_codes_are_those_of_the_definition(n_nonzero):
    rng = np.random.default_rng(0)
    X, atoms = rng.standard_normal((45, 10)), rng.standard_normal((40, 10))
    expected = [code_slowly(x, atoms, n_nonzero, 0.01) for x in X]
    codes = llc(X, atoms, n_nonzero, 0.01)
    np.testing.assert_allclose(codes.toarray(), expected, atol=1e-10)
    assert (np.diff(codes.indptr) == n_nonzero).all()


def test_codes_sum_to_one_and_do_not_move_with_rows_and_atoms():
    rng = np.random.default_rng(0)
    X, atoms, shift = rng.standard_normal((20, 6)), rng.standard_normal((30, 6)), np.arange(6.0)
    codes = llc(X, atoms, 5).toarray()
    np.testing.assert_allclose(codes.sum(axis=1), 1)
    np.testing.assert_allclose(llc(X + shift, atoms + shift, 5).toarray(), codes, atol=1e-8)


def test_any_number_of_threads_and_a_row_alone_give_the_same_bits():
    rng = np.random.default_rng(0)
    X, atoms = rng.standard_normal((70, 8)), rng.standard_normal((50, 8))
    expected = llc(X, atoms, 7).toarray()
    np.testing.assert_array_equal(llc(X, atoms, 7, n_threads=3).toarray(), expected)
    alone = np.vstack([llc(x[np.newaxis], atoms, 7).toarray() for x in X])
    np.testing.assert_array_equal(alone, expected)


def test_copies_of_a_row_as_atoms_and_too_few_atoms_are_coded():
    x = np.array([[0.6, 0.8]])
    np.testing.assert_allclose(llc(x, np.repeat(x, 4, axis=0), 9).toarray(), 0.25)
    np.testing.assert_allclose(llc(np.zeros((1, 2)), np.zeros((3, 2)), 2).sum(), 1)
    assert llc(np.empty((0, 2)), x, 1).shape == (0, 1)


def test_of_atoms_equally_near_the_first_is_used():
    atoms = np.array([[2.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, -1.0]])
    np.testing.assert_array_equal(llc(np.zeros((1, 2)), atoms, 1).indices, [1])
    np.testing.assert_array_equal(llc(np.zeros((1, 2)), atoms, 2).indices, [1, 2])


def test_a_row_almost_equal_to_its_atoms_has_finite_codes():
    x = np.full((1, 50), 0.1)
    atoms = x + 1e-16 * np.random.default_rng(0).standard_normal((6, 50))
    for penalty in (1e-12, 1e-4):
        codes = llc(x, atoms, 6, penalty).toarray()
        assert np.isfinite(codes).all()
        np.testing.assert_allclose(codes.sum(), 1)
