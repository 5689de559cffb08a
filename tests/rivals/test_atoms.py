"""The update of atoms of unit norm: each step is a minimum, and no pass raises the objective."""

import numpy as np
import pytest
from class_atoms_problem import atoms_objective

from dbdl.rivals._atoms import choose_atoms, start_atoms, update_atoms
from dbdl.rivals._base import Lesson

BLOCKS = [slice(0, 3), slice(3, 7), slice(7, 8)]


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def make_problem(seed=0, n_samples=40, n_atoms=8, n_features=11):
    rng = np.random.default_rng(seed)
    codes = rng.standard_normal((n_samples, n_atoms)) * (rng.random((n_samples, n_atoms)) < 0.5)
    X = rng.standard_normal((n_samples, n_features))
    return X, codes, unit(rng.standard_normal((n_atoms, n_features)))


def update_slowly(atoms, X, codes):
    """The definition: each atom the direction of its share of the residual of all others."""
    atoms = atoms.copy()
    for k in range(len(atoms)):
        residual = X - codes @ atoms + np.outer(codes[:, k], atoms[k])
        atoms[k] = codes[:, k] @ residual
        atoms[k] /= np.linalg.norm(atoms[k])
    return atoms


@pytest.mark.parametrize("blocks", [BLOCKS, [slice(0, 8)], [slice(k, k + 1) for k in range(8)]])
def test_one_pass_is_the_update_by_definition_for_any_blocks(blocks):
    X, codes, atoms = make_problem()
    found = update_atoms(atoms, codes.T @ codes, codes.T @ X, blocks)
    np.testing.assert_allclose(found, update_slowly(atoms, X, codes), rtol=1e-10)


def test_the_objective_is_half_the_squared_residual_and_the_overlap_of_pairs():
    X, codes, atoms = make_problem()
    sums = codes.T @ codes, codes.T @ X
    residual = 0.5 * np.sum((X - codes @ atoms) ** 2) - 0.5 * np.sum(X**2)
    pairs = sum(
        np.sum((atoms[a] @ atoms[b].T) ** 2) for i, a in enumerate(BLOCKS) for b in BLOCKS[i + 1 :]
    )
    np.testing.assert_allclose(atoms_objective(atoms, *sums, BLOCKS), residual)
    expected = residual + 0.5 * 0.7 * pairs
    np.testing.assert_allclose(atoms_objective(atoms, *sums, BLOCKS, 0.7), expected)


@pytest.mark.parametrize("incoherence", [0.0, 0.01, 1.0, 100.0])
@pytest.mark.parametrize("seed", range(4))
def test_no_pass_raises_the_objective_and_norms_stay_one(incoherence, seed):
    X, codes, atoms = make_problem(seed)
    sums = codes.T @ codes, codes.T @ X
    values = [atoms_objective(atoms, *sums, BLOCKS, incoherence)]
    for _ in range(20):
        atoms = update_atoms(atoms, *sums, BLOCKS, incoherence)
        np.testing.assert_allclose(np.linalg.norm(atoms, axis=1), 1)
        values.append(atoms_objective(atoms, *sums, BLOCKS, incoherence))
    assert np.diff(values).max() <= 1e-10 * abs(values[-1])
    assert values[-1] < values[0]


def test_incoherence_keeps_blocks_apart_and_leaves_atoms_of_one_block_alone():
    X, codes, atoms = make_problem()
    sums = codes.T @ codes, codes.T @ X

    def after_passes(n_passes, blocks, incoherence=0.0):
        found = atoms
        for _ in range(n_passes):
            found = update_atoms(found, *sums, blocks, incoherence)
        return found

    free, apart = after_passes(300, BLOCKS), after_passes(300, BLOCKS, 50.0)
    across = [np.abs(a[BLOCKS[0]] @ a[BLOCKS[1]].T).max() for a in (free, apart)]
    assert across[1] < 0.2 * across[0]
    one_block = after_passes(3000, [slice(0, 8)], 50.0)
    np.testing.assert_allclose(
        atoms_objective(one_block, *sums, [slice(0, 8)]),
        atoms_objective(after_passes(3000, [slice(0, 8)]), *sums, BLOCKS),
        rtol=1e-2,
    )


def test_an_unused_atom_stays_and_the_input_is_kept():
    X, codes, atoms = make_problem()
    codes[:, 4] = 0
    before = atoms.copy()
    found = update_atoms(atoms, codes.T @ codes, codes.T @ X, BLOCKS)
    np.testing.assert_array_equal(atoms, before)
    np.testing.assert_array_equal(found[4], atoms[4])
    assert not np.allclose(found[3], atoms[3])


def test_float32_stays_and_agrees():
    X, codes, atoms = make_problem()
    expected = update_atoms(atoms, codes.T @ codes, codes.T @ X, BLOCKS, 0.1)
    X, codes, atoms = (a.astype(np.float32) for a in (X, codes, atoms))
    found = update_atoms(atoms, codes.T @ codes, codes.T @ X, BLOCKS, 0.1)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-4)


# ----------------------------------------------------------------------------------------- start


def test_rows_are_rows_without_repeats_and_principal_directions_span_the_most():
    rng = np.random.default_rng(0)
    X = unit(rng.standard_normal((6, 9)))
    rows = choose_atoms(np.vstack([X, X, np.zeros((2, 9))]), 6, "rows", rng)
    np.testing.assert_allclose(np.sort(rows, axis=0), np.sort(X, axis=0))
    directions = choose_atoms(X, 4, "pca", rng)
    np.testing.assert_allclose(directions @ directions.T, np.eye(4), atol=1e-10)
    left = np.sum((X - X @ directions.T @ directions) ** 2)
    np.testing.assert_allclose(left, np.sum(np.linalg.svd(X)[1][4:] ** 2))


@pytest.mark.parametrize("start", ["rows", "pca"])
def test_a_small_class_gets_as_many_atoms_as_rows_and_equal_rows_are_made_up_for(start):
    rng = np.random.default_rng(0)
    X = np.vstack([np.ones((3, 5)), np.zeros((2, 5)), unit(rng.standard_normal((9, 5)))])
    classes = np.array([0, 0, 0, 1, 1, *[2] * 9])
    atoms, blocks = start_atoms(Lesson(X, classes, 3), 4, start, rng)
    assert blocks == [slice(0, 3), slice(3, 5), slice(5, 9)]
    np.testing.assert_allclose(np.linalg.norm(atoms, axis=1), 1)
    np.testing.assert_allclose(atoms[0], np.ones(5) / np.sqrt(5))
    assert len(np.unique(np.round(atoms, 8), axis=0)) == 9
