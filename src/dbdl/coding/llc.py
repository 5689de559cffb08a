"""Locality-constrained linear codes (Wang et al., CVPR 2010): affine codes over nearby atoms.

A row x is coded over its nearest ``n_nonzero`` atoms B with coefficients that sum to one. With
``C = (B - x)(B - x)'`` the solution is ``(C + penalty tr(C) I)^-1 1``, scaled to sum to one. ``C``
is computed from the Gram matrix of the atoms, which all rows share.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_matrix

from dbdl._arrays import Array, exponents, times_powers, unsafe
from dbdl._compile import REORDERED, inlined, kernel
from dbdl._products import row_products, row_squares
from dbdl._threads import block_slices, run_blocks
from dbdl.coding._checks import (
    aligned,
    as_matrices,
    as_matrix,
    check_finite,
    check_gram,
    check_length,
    is_number,
)
from dbdl.coding._scales import PLENTY, by_scale
from dbdl.coding.omp import ROWS, gram_matrix

FLOAT64 = np.dtype(np.float64)


def llc(
    X: ArrayLike,
    atoms: ArrayLike,
    n_nonzero: int = 5,
    penalty: float = 1e-4,
    gram: ArrayLike | None = None,
    n_threads: int = 1,
) -> csr_matrix:
    r"""Code rows over their nearest atoms.

    The code of a row :math:`x` over its nearest atoms :math:`B` is

    .. math:: \arg\min_a \|x - a B\|^2 + \text{penalty} \, \operatorname{tr}(C) \|a\|^2
              \quad\text{subject to}\quad \textstyle\sum_j a_j = 1,
              \qquad C = (B - x)(B - x)^T

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Rows to code.
    atoms : array-like of shape (n_atoms, n_features)
        Codebook. Distances under 1e-90 of its largest atom count as zero.
    n_nonzero : int, default=5
        Number of nearest atoms per row; at most all atoms are used.
    penalty : float, default=1e-4
        Weight of the squared coefficients, more than 0.
    gram : array-like of shape (n_atoms, n_atoms), optional
        ``atoms @ atoms.T`` in float64; computed if not given.
    n_threads : int, default=1
        Number of threads. The result does not depend on it.

    Returns
    -------
    codes : csr_matrix of shape (n_samples, n_atoms), float64
        Codes with sorted column indices.

    Examples
    --------
    >>> import numpy as np
    >>> from dbdl.coding.llc import llc
    >>> atoms = np.array([[0.0, 0.0], [1.0, 0.0], [5.0, 5.0]])
    >>> llc(np.array([[0.25, 0.0]]), atoms, n_nonzero=2, penalty=1e-9).toarray().round(6)
    array([[0.75, 0.25, 0.  ]])
    """
    given, dictionary = as_matrices(X, atoms)
    check_finite(given, "X")
    check_finite(dictionary, "atoms")
    check_length(n_nonzero)
    if not (is_number(penalty) and 0 < penalty < np.inf):
        raise ValueError(f"penalty is {penalty!r}. Expected a finite number of more than 0.")
    rows, wide = aligned(given, FLOAT64), aligned(dictionary, FLOAT64)
    products = None
    if gram is not None:
        products = check_gram(aligned(as_matrix(gram, "gram"), FLOAT64), len(wide))
        check_finite(products, "gram")
    n_used = min(int(n_nonzero), len(wide))
    own_penalty = min(float(penalty), PLENTY)  # coefficients become equal at far smaller penalties

    def code_rows(rows: Array, exponent: int) -> list[csr_matrix]:
        # rows and atoms share one scale, since distances are between them
        own_atoms, own_gram = wide, products
        if exponent:
            own_atoms, own_gram = times_powers(wide, np.full(len(wide), -exponent)), None
        if own_gram is None:
            own_gram = gram_matrix(own_atoms, n_threads)
        return [_code_alike(rows, own_atoms, own_gram, n_used, own_penalty, n_threads)]

    exponent = np.maximum(exponents(rows), int(exponents(wide).max()))
    bad = unsafe(exponent, FLOAT64)
    groups = np.where(bad, exponent, 0) if bad.any() else None
    return by_scale(code_rows, rows, groups, scale_back=False)[0]


def _code_alike(
    rows: Array, atoms: Array, gram: Array, n_used: int, penalty: float, n_threads: int
) -> csr_matrix:
    """Code rows (float64) that share the scale of the atoms."""

    def code(block: slice) -> tuple[Array, Array]:
        return codes_of_nearest(rows[block], atoms, gram, n_used, penalty)

    blocks = run_blocks(code, block_slices(len(rows), ROWS), n_threads)
    empty = [(np.empty((0, n_used), dtype=np.int64), np.empty((0, n_used)))]
    indices, values = (np.concatenate(parts) for parts in zip(*(blocks or empty), strict=True))
    indptr = np.arange(0, indices.size + 1, n_used)
    return csr_matrix((values.ravel(), indices.ravel(), indptr), shape=(len(rows), len(atoms)))


def codes_of_nearest(
    X: Array, atoms: Array, gram: Array, n_used: int, penalty: float = 1e-4
) -> tuple[Array, Array]:
    """Code rows over their ``n_used`` nearest atoms, all arrays in float64 and unchecked.

    Returns the ascending indices of these atoms and the codes, each (n_samples, n_used).
    """
    # valid indices from the start: if products are not finite, no atom is ever found
    nearest = np.tile(np.arange(n_used), (len(X), 1))
    codes = np.empty((len(X), n_used))
    _code_rows(row_products(X, atoms), row_squares(X), gram, penalty, nearest, codes)
    return nearest, codes


# ---------------------------------------------------------------------------------------- kernels


@kernel(allocates=True)
def _code_rows(
    products: Array, square: Array, gram: Array, penalty: float, nearest: Array, codes: Array
) -> None:
    """Fill ``nearest`` and ``codes`` from the products of rows and atoms."""
    n_used = nearest.shape[1]
    half_square = 0.5 * np.diag(gram)
    closeness = np.empty(n_used)
    local = np.empty((n_used, n_used))
    for i in range(len(products)):
        _find_nearest(products[i], half_square, nearest[i], closeness)
        trace = _fill_local(products[i], square[i], gram, nearest[i], local)
        # for a row that equals all its atoms the matrix is rounding: coefficients are then equal
        floor = n_used * 2.220446049250313e-16 * square[i]  # the spacing of float64 at 1
        if trace < 1e-150 or trace > 1e150:  # such a matrix cannot be factored as it is
            local /= trace if trace > 0 else 1.0
            floor /= trace if trace > 0 else 1.0
            trace = 1.0 if trace > 0 else 0.0
        if trace <= floor or not _solve_for_ones(local, penalty * trace, codes[i]):
            codes[i] = 1.0
        codes[i] /= codes[i].sum()


@inlined(allocates=True)
def _find_nearest(products: Array, half_square: Array, nearest: Array, closeness: Array) -> None:
    """Find the atoms with the highest ``x @ atom - |atom|^2 / 2``, in ascending order."""
    n_used = len(nearest)
    closeness[:] = -np.inf
    for k in range(len(products)):
        value = products[k] - half_square[k]
        if value > closeness[n_used - 1]:  # sorted by closeness; of equal ones the first stays
            j = n_used - 1
            while j > 0 and closeness[j - 1] < value:
                closeness[j] = closeness[j - 1]
                nearest[j] = nearest[j - 1]
                j -= 1
            closeness[j] = value
            nearest[j] = k
    nearest.sort()


@inlined()
def _fill_local(products: Array, square: float, gram: Array, nearest: Array, local: Array) -> float:
    """Fill the lower half of ``(B - x)(B - x)'`` and return its trace."""
    trace = 0.0
    for a in range(len(nearest)):
        for b in range(a + 1):
            k, m = nearest[a], nearest[b]
            local[a, b] = gram[k, m] + square - (products[k] + products[m])
        trace += local[a, a]
    return trace


@inlined(REORDERED)
def _solve_for_ones(local: Array, ridge: float, solution: Array) -> bool:
    """Solve ``(local + ridge I) solution = 1`` by Cholesky, in place; False if not definite."""
    n = len(local)
    for a in range(n):
        for b in range(a):
            total = local[a, b]
            for c in range(b):
                total -= local[a, c] * local[b, c]
            local[a, b] = total / local[b, b]
        total = local[a, a] + ridge
        for c in range(a):
            total -= local[a, c] * local[a, c]
        if not total > 0:
            return False
        local[a, a] = np.sqrt(total)
    for a in range(n):
        total = 1.0
        for c in range(a):
            total -= local[a, c] * solution[c]
        solution[a] = total / local[a, a]
    for a in range(n - 1, -1, -1):
        total = solution[a]
        for c in range(a + 1, n):
            total -= local[c, a] * solution[c]
        solution[a] = total / local[a, a]
    return True
