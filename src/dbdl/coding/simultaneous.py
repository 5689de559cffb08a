"""Codes of several rows over the same atoms: simultaneous orthogonal matching pursuit.

Rows of a group, such as a pixel and its neighbours, are coded together (Tropp, Gilbert and Strauss,
2006). Each step takes the atom whose correlations with the residuals of all rows have the largest
sum of squares, and projects every row on the atoms chosen so far. A group has one support, and each
of its rows coefficients of its own. The computation is that of `dbdl.coding.omp`, in Gram space,
with one vector of correlations per row of the group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix

from dbdl._arrays import Array
from dbdl._compile import CONTRACTED, kernel, read_only
from dbdl._products import row_products
from dbdl._threads import block_slices, resolve_n_jobs, run_blocks
from dbdl.coding._checks import (
    as_matrices,
    as_matrix,
    check_finite,
    check_gram,
    check_lengths,
    check_n_jobs,
)
from dbdl.coding._scales import unsafe_exponents
from dbdl.coding.omp import DEPENDENCE, codes_of_paths, gram_matrix

#: Rows multiplied by the atoms in one call, and groups coded by one call of the kernel.
ROWS, GROUPS = 256, 64
#: Correlations below this fraction of the row count as zero.
NOISE = {"float64": 1e-14, "float32": 1e-6}


@dataclass(frozen=True)
class SharedCodes:
    """Codes of groups of rows, each over atoms that its rows share.

    Attributes
    ----------
    order : ndarray of shape (n_groups, n_nonzero), int32
        Atoms in the order of choice; only the first ``count[g]`` entries are valid.
    count : ndarray of shape (n_groups,), int32
    coefficients : ndarray of shape (n_groups, group_size, n_nonzero)
        Zero past ``count``, and for members that are absent.
    n_members : ndarray of shape (n_groups,), int32
        Number of rows in each group.

    Examples
    --------
    >>> import numpy as np
    >>> from dbdl.coding import simultaneous_omp
    >>> codes = simultaneous_omp([[3.0, 1.0], [2.0, 0.0]], np.eye(2), [[0, 1]], n_nonzero=1)
    >>> codes.order.tolist(), codes.of_member(1, 2).toarray().tolist()
    ([[0]], [[2.0, 0.0]])
    """

    order: NDArray[np.int32]
    count: NDArray[np.int32]
    coefficients: Array
    n_members: NDArray[np.int32]

    def of_member(self, number: int, n_atoms: int) -> csr_matrix:
        """Codes (n_groups, n_atoms) of one row of each group."""
        return codes_of_paths(self.order, self.count, self.coefficients[:, number], n_atoms)

    def mean(self, n_atoms: int) -> csr_matrix:
        """Mean codes (n_groups, n_atoms) of the rows of each group."""
        share = self.coefficients / np.maximum(self.n_members, 1)[:, np.newaxis, np.newaxis]
        return codes_of_paths(self.order, self.count, share.sum(axis=1), n_atoms)


def simultaneous_omp(
    X: ArrayLike,
    atoms: ArrayLike,
    groups: ArrayLike,
    n_nonzero: int = 10,
    *,
    gram: ArrayLike | None = None,
    n_jobs: int | None = None,
) -> SharedCodes:
    """Code groups of rows over shared atoms, ``X ~ codes @ atoms``.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
    atoms : array-like of shape (n_atoms, n_features)
        Of any norm. Zero atoms are never chosen, nor are atoms that depend linearly on those
        already chosen.
    groups : array-like of shape (n_groups, group_size), int
        Numbers of the rows of each group; -1 where a group has fewer. A row may be in several.
    n_nonzero : int, default=10
        Largest number of atoms per group.
    gram : array-like of shape (n_atoms, n_atoms), optional
        ``atoms @ atoms.T``; computed if not given.
    n_jobs : int, optional
        Number of threads; None uses all that are free. The result does not depend on it.

    Returns
    -------
    codes : SharedCodes

    Examples
    --------
    >>> import numpy as np
    >>> from dbdl.coding import simultaneous_omp
    >>> X = [[3.0, 1.0, 0.0], [0.0, 1.0, 2.9]]
    >>> simultaneous_omp(X, np.eye(3), [[0, 1]], n_nonzero=2).mean(3).toarray()
    array([[1.5 , 0.  , 1.45]])
    """
    rows, dictionary = as_matrices(X, atoms)
    dtype = np.result_type(rows, dictionary)
    rows, dictionary = (np.ascontiguousarray(a, dtype=dtype) for a in (rows, dictionary))
    check_finite(rows, "X")
    check_finite(dictionary, "atoms")
    (longest,) = check_lengths([n_nonzero], min(dictionary.shape))
    if unsafe_exponents(rows) is not None or unsafe_exponents(dictionary) is not None:
        raise ValueError(
            "X or atoms have values so large or so small that their squares overflow or vanish. "
            "Expected rows of one scale. Scale X and atoms, for example to rows of norm one."
        )
    members = np.asarray(groups)
    if members.dtype.kind not in "iu":
        raise ValueError(
            f"groups holds {members.dtype}. Expected whole numbers: the rows of each group."
        )
    members = np.ascontiguousarray(members, dtype=np.int64)
    if members.ndim != 2 or members.max(initial=-1) >= len(rows) or members.min(initial=-1) < -1:
        raise ValueError(
            f"groups has the shape {members.shape} and numbers {members.min(initial=0)} to "
            f"{members.max(initial=0)}. Expected rows of numbers from 0 to {len(rows) - 1}, or -1."
        )
    n_threads = resolve_n_jobs(check_n_jobs(n_jobs))
    if gram is None:
        inner = gram_matrix(dictionary, n_threads)
    else:
        inner = check_gram(as_matrix(gram, "gram"), len(dictionary))
    inner = np.ascontiguousarray(inner, dtype=dtype)
    return encode_groups(rows, dictionary, inner, members, longest, n_threads)


def encode_groups(
    X: Array, atoms: Array, gram: Array, groups: Array, n_nonzero: int, n_threads: int = 1
) -> SharedCodes:
    """Code groups of rows as `simultaneous_omp` does; the input is not checked."""
    products = np.empty((len(X), len(atoms)), X.dtype)

    def multiply(rows: slice) -> None:
        products[rows] = row_products(X[rows], atoms)

    run_blocks(multiply, block_slices(len(X), ROWS), n_threads)
    n_groups, size = groups.shape
    order = np.zeros((n_groups, n_nonzero), np.int32)
    count = np.zeros(n_groups, np.int32)
    coefficients = np.zeros((n_groups, size, n_nonzero), X.dtype)
    diagonal = np.ascontiguousarray(gram.diagonal(), dtype=np.float64)
    limits = DEPENDENCE[X.dtype.name], NOISE[X.dtype.name]

    def code(part: slice) -> None:
        work = np.zeros((size + n_nonzero + 2, len(atoms)))
        factor, beta = np.zeros((n_nonzero, n_nonzero)), np.zeros((size, n_nonzero))
        _pursue_groups(
            read_only(products), read_only(gram), read_only(diagonal), read_only(groups[part]),
            limits, work, factor, beta, order[part], count[part], coefficients[part],
        )  # fmt: skip

    run_blocks(code, block_slices(n_groups, GROUPS), n_threads)
    n_members = (groups >= 0).sum(axis=1).astype(np.int32)
    return SharedCodes(order, count, coefficients, n_members)


@kernel(CONTRACTED)
def _pursue_groups(
    products: Array, gram: Array, diagonal: Array, groups: Array, limits: Any, work: Array,
    factor: Array, beta: Array, order: Array, count: Array, coefficients: Array,
) -> None:  # fmt: skip
    """Code groups one by one.

    ``work`` holds, per atom: the correlations of each row of a group, the directions V, the sum of
    squared correlations, and the squared norm of the projected atom.
    """
    dependence, noise = limits
    n_groups, size = groups.shape
    n_atoms, n_nonzero = gram.shape[0], order.shape[1]
    power, left = work[size + n_nonzero], work[size + n_nonzero + 1]
    for g in range(n_groups):
        first = 0.0
        for t in range(size):
            i, correlation = groups[g, t], work[t]
            for k in range(n_atoms):
                correlation[k] = products[i, k] if i >= 0 else 0.0
        for k in range(n_atoms):
            left[k] = diagonal[k]
        chosen = np.int64(0)
        while chosen < n_nonzero:
            for k in range(n_atoms):
                power[k] = 0.0
            for t in range(size):
                correlation = work[t]
                for k in range(n_atoms):
                    power[k] += correlation[k] * correlation[k]
            best, highest = -1, 0.0
            for k in range(n_atoms):
                # an atom that is left has a norm; comparing products avoids a division
                if left[k] > dependence * diagonal[k] and power[k] > highest * diagonal[k]:
                    best, highest = k, power[k] / diagonal[k]
            if chosen == 0:
                first = highest
            if best < 0 or highest <= noise * noise * first:
                break
            norm = np.sqrt(left[best])
            direction = work[size + chosen]
            for k in range(n_atoms):
                direction[k] = gram[best, k]
            for j in range(chosen):
                known = work[size + j]
                factor[chosen, j] = known[best]
                for k in range(n_atoms):
                    direction[k] -= factor[chosen, j] * known[k]
            factor[chosen, chosen] = norm
            for k in range(n_atoms):
                direction[k] /= norm
                left[k] -= direction[k] * direction[k]
            left[best] = 0.0
            for t in range(size):
                correlation = work[t]
                beta[t, chosen] = correlation[best] / norm
                for k in range(n_atoms):
                    correlation[k] -= beta[t, chosen] * direction[k]
            order[g, chosen] = best
            chosen += 1
        count[g] = chosen
        for t in range(size):  # coefficients solve factor.T @ coefficients = beta
            for j in range(chosen - 1, -1, -1):
                value = beta[t, j]
                for later in range(j + 1, chosen):
                    value -= factor[later, j] * coefficients[g, t, later]
                coefficients[g, t, j] = value / factor[j, j]
