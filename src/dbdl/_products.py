"""Matrix products whose bits are promised: every such product goes through this module.

A product of another height runs another kernel of the BLAS library and may round differently, and
with some processors' kernels even the place of a row inside a block matters. Two products avoid
that, each in its own way:

- `row_products` is compiled here. Every inner product is the same sequence of operations, so a row
  has the same bits alone, in a batch, and at any place of a batch: the product of coding, where a
  query must equal its row in a batch, and rows are read in parts of any size. It is about as fast
  as BLAS for a few dozen rows.
- `block_product` is BLAS on one thread, for blocks that are cut by row number or atom number
  alone: the product of sampling, where a row always stands at the same place of the same block.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbdl._compile import REORDERED, kernel, read_only
from dbdl._threads import held_blas

Array = NDArray[Any]

#: Rows multiplied together, and features summed together: this part of four atoms stays in the
#: first level cache, and that of the rows in the second.
ROWS, FEATURES = 32, 512


def row_products(rows: Array, atoms: Array) -> Array:
    """``rows @ atoms.T`` (n_rows, n_atoms), where a row has the same bits in any batch.

    Both are C-contiguous, and float32 or float64.
    """
    products = np.zeros((len(rows), len(atoms)), rows.dtype)
    _add_products(read_only(rows), read_only(atoms), products)
    return products


def row_squares(rows: Array) -> NDArray[np.float64]:
    """Squared norms of rows (n_rows,), in float64, each by the same operations."""
    squares = np.empty(len(rows))
    _fill_squares(read_only(rows), squares)
    return squares


def block_product(left: Array, right: Array, out: Array | None = None) -> Array:
    """``left @ right`` by BLAS on one thread, into ``out`` if any; the caller fixes the shapes."""
    with held_blas():
        product: Array = np.matmul(left, right, out=out)
    return product


@kernel(REORDERED)
def _add_products(rows: Array, atoms: Array, products: Array) -> None:
    """Add inner products, four rows (w, x, y, z) by four atoms (a, b, c, d) at a time.

    At the edges the last row or atom is taken again: its sums start and end with the same numbers.
    """
    n_features, last_atom = rows.shape[1], atoms.shape[0] - 1
    for top in range(0, rows.shape[0], ROWS):
        last = min(top + ROWS, rows.shape[0]) - 1
        for left in range(0, n_features, FEATURES):
            right = min(left + FEATURES, n_features)
            for k in range(0, last_atom + 1, 4):
                k1, k2, k3 = min(k + 1, last_atom), min(k + 2, last_atom), min(k + 3, last_atom)
                a, b = atoms[k, left:right], atoms[k1, left:right]
                c, d = atoms[k2, left:right], atoms[k3, left:right]
                for i in range(top, last + 1, 4):
                    i1, i2, i3 = min(i + 1, last), min(i + 2, last), min(i + 3, last)
                    w, x = rows[i, left:right], rows[i1, left:right]
                    y, z = rows[i2, left:right], rows[i3, left:right]
                    to_w, to_x, to_y, to_z = products[i], products[i1], products[i2], products[i3]
                    wa, wb, wc, wd = to_w[k], to_w[k1], to_w[k2], to_w[k3]
                    xa, xb, xc, xd = to_x[k], to_x[k1], to_x[k2], to_x[k3]
                    ya, yb, yc, yd = to_y[k], to_y[k1], to_y[k2], to_y[k3]
                    za, zb, zc, zd = to_z[k], to_z[k1], to_z[k2], to_z[k3]
                    for j in range(w.shape[0]):
                        wa += w[j] * a[j]
                        wb += w[j] * b[j]
                        wc += w[j] * c[j]
                        wd += w[j] * d[j]
                        xa += x[j] * a[j]
                        xb += x[j] * b[j]
                        xc += x[j] * c[j]
                        xd += x[j] * d[j]
                        ya += y[j] * a[j]
                        yb += y[j] * b[j]
                        yc += y[j] * c[j]
                        yd += y[j] * d[j]
                        za += z[j] * a[j]
                        zb += z[j] * b[j]
                        zc += z[j] * c[j]
                        zd += z[j] * d[j]
                    to_w[k], to_w[k1], to_w[k2], to_w[k3] = wa, wb, wc, wd
                    to_x[k], to_x[k1], to_x[k2], to_x[k3] = xa, xb, xc, xd
                    to_y[k], to_y[k1], to_y[k2], to_y[k3] = ya, yb, yc, yd
                    to_z[k], to_z[k1], to_z[k2], to_z[k3] = za, zb, zc, zd


@kernel(REORDERED)
def _fill_squares(rows: Array, squares: Array) -> None:
    for i in range(rows.shape[0]):
        square = 0.0
        for value in rows[i]:
            square += np.float64(value) * np.float64(value)
        squares[i] = square
