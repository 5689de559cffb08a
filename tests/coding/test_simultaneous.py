"""Simultaneous matching pursuit against its slow reference, and against OMP for single rows."""

import numpy as np
import pytest

from dbdl.coding import omp, simultaneous_omp


def slow(X, atoms, n_nonzero):
    """Support and coefficients of the rows of one group, by least squares in each step."""
    chosen, residual, norms = [], X, np.linalg.norm(atoms, axis=1)
    for _ in range(n_nonzero):
        power = np.square(residual @ atoms.T / norms).sum(axis=0)
        power[chosen] = -1
        chosen.append(int(power.argmax()))
        codes = np.linalg.lstsq(atoms[chosen].T, X.T, rcond=None)[0].T
        residual = X - codes @ atoms[chosen]
    return chosen, codes


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    X, atoms = rng.standard_normal((30, 20)), rng.standard_normal((40, 20))
    return X, atoms, rng.integers(0, 30, (70, 9))


def test_supports_and_coefficients_are_those_of_the_reference(problem):
    X, atoms, groups = problem
    found = simultaneous_omp(X, atoms, groups, 5)
    for group, order, codes in zip(groups, found.order, found.coefficients, strict=True):
        chosen, expected = slow(X[group], atoms, 5)
        assert order.tolist() == chosen
        np.testing.assert_allclose(codes, expected)


def test_a_group_of_one_row_has_the_code_of_omp(problem):
    X, atoms, _ = problem
    found = simultaneous_omp(X, atoms, np.arange(30)[:, np.newaxis], 6)
    expected = omp(X, atoms, 6).toarray()
    np.testing.assert_allclose(found.of_member(0, 40).toarray(), expected, atol=1e-12)


def test_the_mean_is_over_the_rows_that_a_group_has(problem):
    X, atoms, groups = problem
    groups = groups.copy()
    groups[:, 4:] = -1
    found = simultaneous_omp(X, atoms, groups, 5)
    codes = [found.of_member(t, 40).toarray() for t in range(9)]
    np.testing.assert_allclose(found.mean(40).toarray(), sum(codes[:4]) / 4)
    assert not np.any(codes[4:])
    np.testing.assert_array_equal(found.order, simultaneous_omp(X, atoms, groups[:, :4], 5).order)


@pytest.mark.bits
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_group_has_the_same_bits_alone_and_on_several_threads(problem, dtype):
    X, atoms, groups = problem
    X, atoms = X.astype(dtype), atoms.astype(dtype)
    together = simultaneous_omp(X, atoms, groups, 5, n_jobs=2)
    for g in (0, 33, 69):
        alone = simultaneous_omp(X[groups[g]], atoms, [range(9)], 5)
        np.testing.assert_array_equal(alone.coefficients[0], together.coefficients[g])


def test_equal_atoms_and_zero_rows_do_no_harm():
    atoms = np.vstack([np.eye(3), np.eye(3), np.zeros((1, 3))])
    found = simultaneous_omp([[1.0, 0, 2], [0, 0, 0]], atoms, [[0, 1], [1, 1]], 3)
    assert found.count.tolist() == [2, 0]
    np.testing.assert_allclose(found.of_member(0, 7).toarray()[0], [1, 0, 2, 0, 0, 0, 0])


def test_groups_of_rows_that_do_not_exist_are_refused(problem):
    X, atoms, _ = problem
    for groups in ([[30]], [[-2]], [0, 1], [[0.5]]):
        with pytest.raises(ValueError, match="groups"):
            simultaneous_omp(X, atoms, groups, 2)


def test_odd_input_is_refused_in_words(problem):
    X, atoms, groups = problem
    for changed, message in (
        ({"X": X * 1e200}, "overflow or vanish"),
        ({"X": X * np.nan}, "X"),
        ({"atoms": atoms[:, :5]}, "features"),
        ({"n_nonzero": 0}, "n_nonzero"),
        ({"n_jobs": 0}, "n_jobs"),
        ({"gram": np.eye(3)}, "gram has shape"),
    ):
        arguments = {"X": X, "atoms": atoms, "groups": groups, "n_nonzero": 3, **changed}
        with pytest.raises(ValueError, match=message):
            simultaneous_omp(**arguments)
