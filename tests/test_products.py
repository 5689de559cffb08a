"""Products are right, and a row has the same bits wherever it stands."""

import numpy as np
import pytest

from dbdl._products import FEATURES, ROWS, block_product, row_products, row_squares
from dbdl._threads import run_blocks

pytestmark = pytest.mark.bits

SHAPES = [(41, 130), (64, 500), (504, 600), (1, 1), (3, 5), (FEATURES + 7, 9)]
dtypes = pytest.mark.parametrize("dtype", [np.float64, np.float32])
shapes = pytest.mark.parametrize(("n_features", "n_atoms"), SHAPES)


def make(n_rows, n_features, n_atoms, dtype):
    rng = np.random.default_rng(n_features + n_atoms)
    rows, atoms = (
        rng.standard_normal((n_rows, n_features)),
        rng.standard_normal((n_atoms, n_features)),
    )
    return rows.astype(dtype), atoms.astype(dtype)


@dtypes
@shapes
def test_a_row_has_one_pattern_of_bits_at_all_places_of_a_batch(n_features, n_atoms, dtype):
    rows, atoms = make(1, n_features, n_atoms, dtype)
    for n_rows in (1, 2, 3, ROWS - 1, ROWS, ROWS + 1, 3 * ROWS + 5):
        copies = np.repeat(rows, n_rows, axis=0)
        products = row_products(copies, atoms)
        np.testing.assert_array_equal(
            products, np.repeat(row_products(rows, atoms), n_rows, axis=0)
        )
        assert len(np.unique(row_squares(copies))) == 1


@dtypes
@shapes
def test_copies_of_an_atom_have_the_same_products(n_features, n_atoms, dtype):
    rows, atoms = make(5, n_features, 1, dtype)
    products = row_products(rows, np.repeat(atoms, n_atoms, axis=0))
    np.testing.assert_array_equal(products, np.repeat(products[:, :1], n_atoms, axis=1))


@dtypes
@shapes
def test_products_are_those_of_the_rows_and_atoms(n_features, n_atoms, dtype):
    rows, atoms = make(37, n_features, n_atoms, dtype)
    exact = rows.astype(np.float64) @ atoms.astype(np.float64).T
    # each of the sums' terms rounds once
    size = np.abs(rows).astype(np.float64) @ np.abs(atoms).astype(np.float64).T
    bound = (n_features + 2) * np.finfo(dtype).eps * size
    assert (np.abs(row_products(rows, atoms) - exact) <= bound).all()
    assert (np.abs(block_product(rows, atoms.T) - exact) <= bound).all()
    squares = np.sum(rows.astype(np.float64) ** 2, axis=1)
    np.testing.assert_allclose(row_squares(rows), squares, rtol=(n_features + 2) * 2.3e-16)


def test_no_rows_give_no_products():
    assert row_products(np.empty((0, 3)), np.ones((4, 3))).shape == (0, 4)
    assert row_squares(np.empty((0, 3))).shape == (0,)


@dtypes
def test_a_block_has_the_same_bits_in_any_thread(dtype):
    left, right = make(128, 64, 243, dtype)
    alone = block_product(left, right.T)
    for product in run_blocks(lambda _: block_product(left, right.T), range(8), 4):
        np.testing.assert_array_equal(product, alone)
