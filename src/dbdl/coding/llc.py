"""Locality-constrained linear codes (Wang et al., CVPR 2010): affine codes over nearby atoms.

The nearest ``n_nonzero`` atoms B of a row x code it with coefficients that sum to one. With
``C = (B - x)(B - x)'`` the solution is ``(C + penalty tr(C) I)^-1 1``, scaled to the sum of one.
``C`` comes from the Gram matrix of the atoms, which all rows share.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, vstack

from dbdl._threads import block_slices, run_blocks
from dbdl.coding.omp import ROWS, gram_matrix

Array = NDArray[Any]


def llc(
    X: Array,
    atoms: Array,
    n_nonzero: int = 5,
    penalty: float = 1e-4,
    gram: Array | None = None,
    n_threads: int = 1,
) -> csr_matrix:
    r"""Code rows over their nearest atoms.

    The code of a row :math:`x` over its nearest atoms :math:`B` is

    .. math:: \arg\min_a \|x - a B\|^2 + \text{penalty} \, \operatorname{tr}(C) \|a\|^2
              \quad\text{subject to}\quad \textstyle\sum_j a_j = 1,
              \qquad C = (B - x)(B - x)^T

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Rows to code, finite.
    atoms : ndarray of shape (n_atoms, n_features)
        Codebook, finite.
    n_nonzero : int, default=5
        Nearest atoms that a row uses; at most all.
    penalty : float, default=1e-4
        More than 0.
    gram : ndarray of shape (n_atoms, n_atoms), optional
        ``atoms @ atoms.T`` in float64, where it is at hand.
    n_threads : int, default=1
        Number of threads. Any number gives the same bits.

    Returns
    -------
    codes : csr_matrix of shape (n_samples, n_atoms), float64
        Codes with sorted column numbers; computed in float64.

    Examples
    --------
    >>> import numpy as np
    >>> from dbdl.coding.llc import llc
    >>> atoms = np.array([[0.0, 0.0], [1.0, 0.0], [5.0, 5.0]])
    >>> llc(np.array([[0.25, 0.0]]), atoms, n_nonzero=2, penalty=1e-9).toarray().round(6)
    array([[0.75, 0.25, 0.  ]])
    """
    wide = np.ascontiguousarray(atoms, dtype=np.float64)
    products = gram_matrix(wide, n_threads) if gram is None else gram
    n_used = min(n_nonzero, len(wide))

    def code(rows: slice) -> csr_matrix:
        return _code_block(X[rows], wide, products, n_used, penalty)

    blocks = run_blocks(code, block_slices(len(X), ROWS), n_threads)
    return vstack([csr_matrix((0, len(wide))), *blocks], format="csr")


def _code_block(rows: Array, atoms: Array, gram: Array, n_used: int, penalty: float) -> csr_matrix:
    """Code up to ROWS rows; padded, so that a row alone has the bits of the row in a batch."""
    padded = np.zeros((ROWS, rows.shape[1]))
    padded[: len(rows)] = rows
    products = padded @ atoms.T
    distance = np.diagonal(gram) - 2 * products
    nearest = np.sort(np.argpartition(distance, n_used - 1, axis=1)[:, :n_used], axis=1)
    offset = np.take_along_axis(products, nearest, axis=1)
    square = np.einsum("ij,ij->i", padded, padded)
    local = gram[nearest[:, :, np.newaxis], nearest[:, np.newaxis, :]]
    local += square[:, np.newaxis, np.newaxis]
    local -= offset[:, :, np.newaxis] + offset[:, np.newaxis, :]
    trace = np.trace(local, axis1=1, axis2=2)
    # a row that equals all of its atoms has a matrix of rounding: equal coefficients then
    floor = n_used * np.finfo(float).eps * square
    ridge = np.where(trace > floor, penalty * trace, 1.0)
    at = np.arange(n_used)
    local[:, at, at] += ridge[:, np.newaxis]
    codes = np.linalg.solve(local, np.ones((ROWS, n_used, 1)))[:, :, 0]
    codes /= codes.sum(axis=1, keepdims=True)
    indptr = np.arange(0, n_used * len(rows) + 1, n_used)
    used = slice(0, len(rows))
    return csr_matrix(
        (codes[used].ravel(), nearest[used].ravel(), indptr), shape=(len(rows), len(atoms))
    )
