"""Sparse codes by the lasso: ``X ~ codes @ atoms`` with a small sum of absolute coefficients.

The code of a row is followed from zero as the penalty falls (homotopy, or LARS with the lasso's
change: Osborne, Presnell and Turlach 2000; Efron, Hastie, Johnstone and Tibshirani 2004). At a
penalty ``p`` the atoms of the code, the *members* with signs ``s``, have correlations ``p s`` with
the residual, and all other atoms smaller ones:

    code(p) = G^-1 (c - p s),   |residual|^2 = |x|^2 - |L^-1 c|^2 + p^2 |L^-1 s|^2

with ``G = L L'`` the Gram matrix and ``c`` the correlations ``atoms @ x`` of the members. So the
code is linear in ``p`` until an atom's correlation reaches ``p`` (it joins) or a coefficient
reaches zero (it leaves), and both stopping rules are solved for exactly.

All in Gram space and in float64: the rows share one Gram matrix, a block of them one product for
their correlations; a row carries the Cholesky factor ``L`` of its members, which grows by a row
when an atom joins and is mended by rotations when one leaves. The sum ``weights @ gram[members]``
of each step is nearly all of the work.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix, vstack
from sklearn.exceptions import ConvergenceWarning

from dbdl._threads import block_slices, run_blocks
from dbdl.coding.omp import (
    ROWS,
    _aligned,
    _as_matrix,
    _check_finite,
    _check_gram,
    _read_only,
    gram_matrix,
    kernel,
)

Array = NDArray[Any]

# An atom whose squared norm, projected off the members, is below this part of its squared norm
# adds nothing to them but rounding: it stays out until a member leaves.
DEPENDENCE = {"float64": 1e-12, "float32": 1e-5}

# The path ends where the penalty is rounding: this part of its first value.
SMALLEST_PENALTY = 1e-13

# Correlations are updated from step to step; after this many they are computed anew.
REFRESH = 64

# Steps allowed for each atom that can be a member. On faces a path takes about one; only ties
# among many atoms take several.
STEPS_PER_MEMBER = 20


def lasso(
    X: ArrayLike,
    atoms: ArrayLike,
    penalty: float | None = None,
    tol: float | None = None,
    gram: ArrayLike | None = None,
    n_threads: int = 1,
) -> csr_matrix:
    r"""Code rows by the lasso, with a given penalty or a given residual.

    With ``penalty`` the code of a row :math:`x` over the atoms :math:`D` is

    .. math:: \arg\min_a \tfrac12 \|x - a D\|_2^2 + \text{penalty} \|a\|_1

    and with ``tol``

    .. math:: \arg\min_a \|a\|_1 \quad\text{subject to}\quad \|x - a D\|_2 \le \text{tol}.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Rows to code.
    atoms : array-like of shape (n_atoms, n_features)
        Dictionary, of any norms: the norm of an atom counts. Zero atoms are never used; of equal
        or dependent atoms an independent part is.
    penalty : float, optional
        Weight of the sum of absolute coefficients, 0 or more. scikit-learn's ``alpha`` times the
        number of features.
    tol : float, optional
        Largest *norm* of the residual, not its square. Where the atoms cannot meet it, the code
        has the least residual. Under 1e-7 of the norm of the row it is rounding and acts like 0.
    gram : array-like of shape (n_atoms, n_atoms), optional
        ``atoms @ atoms.T``, where it is at hand; computed in float64 otherwise. The codes can be no
        more exact than it is.
    n_threads : int, default=1
        Number of threads. Any number gives the same bits.

    Returns
    -------
    codes : csr_matrix of shape (n_samples, n_atoms)
        Codes with sorted column numbers, in the float dtype of ``X``.

    Examples
    --------
    >>> import numpy as np
    >>> from dbdl.coding.lasso import lasso
    >>> lasso([[3.0, 0.0, -1.0]], np.eye(3), penalty=0.5).toarray()
    array([[ 2.5,  0. , -0.5]])
    """
    _check_rule(penalty, tol)
    rows, dictionary = _as_matrix(X, "X"), _as_matrix(atoms, "atoms")
    if rows.shape[1] != dictionary.shape[1]:
        raise ValueError(
            f"X has {rows.shape[1]} features and atoms have {dictionary.shape[1]}. Expected the "
            "same number: rows are samples in X and atoms in atoms."
        )
    _check_finite(rows, "X")
    _check_finite(dictionary, "atoms")
    asked, wide = rows.dtype, np.dtype(np.float64)
    rows, dictionary = _aligned(rows, wide), _aligned(dictionary, wide)
    if gram is None:
        products, dependence = gram_matrix(dictionary, n_threads), DEPENDENCE["float64"]
    else:
        products = _check_gram(_as_matrix(gram, "gram"), len(dictionary))
        dependence = DEPENDENCE[products.dtype.name]
        products = _aligned(products, wide)
    problem = _Problem(
        _read_only(products),
        -1.0 if penalty is None else float(penalty),
        -1.0 if tol is None else float(tol),
        dependence,
        min(dictionary.shape),
    )

    def code(block: slice) -> csr_matrix:
        return _code_block(rows[block], dictionary, problem)

    blocks = run_blocks(code, block_slices(len(rows), ROWS), n_threads)
    if not blocks:
        return csr_matrix((0, len(dictionary)), dtype=asked)
    return vstack(blocks, format="csr").astype(asked, copy=False)


def _check_rule(penalty: float | None, tol: float | None) -> None:
    if (penalty is None) == (tol is None):
        raise ValueError(
            f"penalty is {penalty!r} and tol is {tol!r}. Expected exactly one of them. Pass the "
            "weight of the absolute coefficients, or the norm of the residual."
        )
    value, name = (tol, "tol") if penalty is None else (penalty, "penalty")
    if value is not None and not 0 <= value < np.inf:
        raise ValueError(f"{name} is {value!r}. Expected a finite number of 0 or more.")


def _code_block(rows: Array, atoms: Array, problem: _Problem) -> csr_matrix:
    """Code up to ROWS rows; padded, so that a row alone has the bits of the row in a batch."""
    padded = np.zeros((ROWS, rows.shape[1]))
    padded[: len(rows)] = rows
    correlations = padded @ atoms.T
    if not np.isfinite(correlations).all():
        raise ValueError(
            "The products of X and atoms overflow. Expected values whose products stay finite. "
            "Scale X and atoms, to rows of norm one say."
        )
    codes = np.zeros((len(rows), len(atoms)))
    if not _follow_all(correlations, np.einsum("ij,ij->i", rows, rows), problem, codes):
        warnings.warn(
            "The path of a row took too many steps and was cut short: its code has a larger "
            "penalty than asked for. Many atoms tie; drop copies of atoms.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return csr_matrix(codes)


# -------------------------------------------------------------------------------------- kernels


class _Problem(NamedTuple):
    """What all rows share."""

    gram: Array  # (n_atoms, n_atoms)
    penalty: float  # negative: none
    tol: float  # negative: none
    dependence: float
    most_members: int


class _Path(NamedTuple):
    """Where the path of one row is."""

    member: Array  # (most_members,), atom numbers
    sign: Array  # (most_members,)
    code: Array  # (most_members,)
    weights: Array  # (most_members,), G^-1 s: change of the code as the penalty falls by one
    factor: Array  # (most_members, most_members), L, lower, by rows
    row_part: Array  # (most_members,), L^-1 c
    sign_part: Array  # (most_members,), L^-1 s
    correlation: Array  # (n_atoms,), with the residual
    change: Array  # (n_atoms,), of the correlation as the penalty falls by one, negated
    distance: Array  # (n_atoms,), fall of the penalty until the atom joins
    barred: Array  # (n_atoms,), infinity for members, zero atoms and dependent atoms, else 0


@kernel()
def _follow_all(correlations: Array, squares: Array, problem: Any, codes: Array) -> bool:
    """Codes of all rows; False where a path was cut short."""
    n_atoms, most = problem.gram.shape[0], problem.most_members
    path = _Path(
        np.zeros(most, np.int64),
        np.zeros(most),
        np.zeros(most),
        np.zeros(most),
        np.zeros((most, most)),
        np.zeros(most),
        np.zeros(most),
        np.zeros(n_atoms),
        np.zeros(n_atoms),
        np.zeros(n_atoms),
        np.zeros(n_atoms),
    )
    complete = True
    for i in range(codes.shape[0]):
        n_members, arrived = _follow(correlations[i], squares[i], problem, path)
        for j in range(n_members):
            codes[i, path.member[j]] = path.code[j]
        complete = complete and arrived
    return complete


@kernel()
def _follow(start: Array, square: float, problem: Any, path: Any) -> Any:
    """Follow the path of one row to its end: number of members, and whether it got there."""
    path.correlation[:] = start
    first = 0.0
    for k in range(start.shape[0]):
        path.barred[k] = 0.0 if problem.gram[k, k] > 0 else np.inf
        first = max(first, abs(start[k]))
    floor = SMALLEST_PENALTY * first
    lowest = max(problem.penalty, floor)
    now = first
    if now <= lowest or square <= problem.tol * abs(problem.tol):
        return 0, True
    n = 0
    joining = _best(path.correlation)
    for step in range(STEPS_PER_MEMBER * (problem.most_members + 5)):
        if joining >= 0:
            n = _join(joining, start, problem, path, n)
        _solve_weights(path, n)
        _sum_rows(problem.gram, path.member, path.weights, n, path.change)
        fall, joining = _next_to_join(path, now, problem.most_members > n)
        fall_out, leaving = _next_to_leave(path, n)
        if fall_out <= fall:
            fall, joining = fall_out, -1
        else:
            leaving = -1
        end = lowest
        if problem.tol >= 0:
            end = max(_penalty_at(problem.tol, square, path, n), lowest)
        if now - fall <= end:
            # rounding alone can put the end behind us
            _set_code(path, n, 0.0 if end == floor else min(end, now))
            return n, True
        now -= fall
        for j in range(n):
            path.code[j] += fall * path.weights[j]
        for k in range(path.correlation.shape[0]):
            path.correlation[k] -= fall * path.change[k]
        if leaving >= 0:
            n = _leave(leaving, problem, path, n)
        if step % REFRESH == REFRESH - 1:
            _set_code(path, n, now)
            _sum_rows(problem.gram, path.member, path.code, n, path.change)
            for k in range(start.shape[0]):
                path.correlation[k] = start[k] - path.change[k]
    _set_code(path, n, now)
    return n, False


@kernel()
def _best(correlation: Array) -> int:
    best = 0
    for k in range(correlation.shape[0]):
        if abs(correlation[k]) > abs(correlation[best]):
            best = k
    return best


@kernel()
def _join(k: int, start: Array, problem: Any, path: Any, n: int) -> int:
    """Add atom k to the members and a row to the factor, unless it depends on the members."""
    row = path.factor[n]
    own = problem.gram[k]
    for j in range(n):
        row[j] = own[path.member[j]]
    square = own[k]
    row_part, sign_part = start[k], np.sign(path.correlation[k])
    for j in range(n):
        before = path.factor[j]
        value = row[j]
        for i in range(j):
            value -= before[i] * row[i]
        row[j] = value / before[j]
    for j in range(n):
        square -= row[j] * row[j]
        row_part -= row[j] * path.row_part[j]
        sign_part -= row[j] * path.sign_part[j]
    path.barred[k] = np.inf
    if square <= problem.dependence * own[k]:
        return n
    row[n] = np.sqrt(square)
    path.row_part[n] = row_part / row[n]
    path.sign_part[n] = sign_part / row[n]
    path.member[n] = k
    path.sign[n] = np.sign(path.correlation[k])
    path.code[n] = 0.0
    return n + 1


@kernel()
def _leave(gone: int, problem: Any, path: Any, n: int) -> int:
    """Take member number ``gone`` out, and bring the factor back to lower form by rotations."""
    L = path.factor
    for i in range(gone, n - 1):
        path.member[i] = path.member[i + 1]
        path.sign[i] = path.sign[i + 1]
        path.code[i] = path.code[i + 1]
        L[i, : i + 2] = L[i + 1, : i + 2]
    for i in range(gone, n - 1):
        # columns i and i + 1 of row i: the second becomes zero
        length = np.hypot(L[i, i], L[i, i + 1])
        cosine, sine = L[i, i] / length, L[i, i + 1] / length
        for j in range(i, n - 1):
            a, b = L[j, i], L[j, i + 1]
            L[j, i] = cosine * a + sine * b
            L[j, i + 1] = cosine * b - sine * a
        for part in (path.row_part, path.sign_part):
            a, b = part[i], part[i + 1]
            part[i] = cosine * a + sine * b
            part[i + 1] = cosine * b - sine * a
    # what depended on the members may not depend on those that are left
    for k in range(path.barred.shape[0]):
        path.barred[k] = 0.0 if problem.gram[k, k] > 0 else np.inf
    for j in range(n - 1):
        path.barred[path.member[j]] = np.inf
    return n - 1


@kernel()
def _solve_weights(path: Any, n: int) -> None:
    path.weights[:n] = path.sign_part[:n]
    _solve_back(path.factor, path.weights, n)


@kernel()
def _set_code(path: Any, n: int, penalty: float) -> None:
    """Code at a penalty, from the factor; a coefficient that rounding turned round is zero."""
    for j in range(n):
        path.code[j] = path.row_part[j] - penalty * path.sign_part[j]
    _solve_back(path.factor, path.code, n)
    for j in range(n):
        if path.code[j] * path.sign[j] < 0:
            path.code[j] = 0.0


@kernel()
def _solve_back(factor: Array, values: Array, n: int) -> None:
    """Solve L' x = values in place."""
    for j in range(n - 1, -1, -1):
        row = factor[j]
        value = values[j] / row[j]
        values[j] = value
        for i in range(j):
            values[i] -= value * row[i]


@kernel()
def _sum_rows(gram: Array, member: Array, weights: Array, n: int, out: Array) -> None:
    """``weights @ gram[member]``, eight rows at a time: the sum is then written once for eight."""
    out[:] = 0
    whole = n - n % 8
    for j in range(0, whole, 8):
        w0, w1, w2, w3 = weights[j], weights[j + 1], weights[j + 2], weights[j + 3]
        w4, w5, w6, w7 = weights[j + 4], weights[j + 5], weights[j + 6], weights[j + 7]
        g0, g1, g2, g3 = (
            gram[member[j]], gram[member[j + 1]], gram[member[j + 2]], gram[member[j + 3]],
        )  # fmt: skip
        g4, g5, g6, g7 = (
            gram[member[j + 4]], gram[member[j + 5]], gram[member[j + 6]], gram[member[j + 7]],
        )  # fmt: skip
        for k in range(out.shape[0]):
            out[k] += (
                w0 * g0[k] + w1 * g1[k] + w2 * g2[k] + w3 * g3[k]
                + w4 * g4[k] + w5 * g5[k] + w6 * g6[k] + w7 * g7[k]
            )  # fmt: skip
    for j in range(whole, n):
        weight, row = weights[j], gram[member[j]]
        for k in range(out.shape[0]):
            out[k] += weight * row[k]


@kernel()
def _next_to_join(path: Any, now: float, room: bool) -> Any:
    """How far the penalty falls until an atom's correlation meets it, and which atom's."""
    correlation, change, distance, barred = (
        path.correlation, path.change, path.distance, path.barred,
    )  # fmt: skip
    if not room:
        return np.inf, -1
    for k in range(distance.shape[0]):
        # at or past the penalty by rounding or a tie: joins at once, if it does not turn back
        up = max(now - correlation[k], 0.0) / max(1 - change[k], 0.0)
        down = max(now + correlation[k], 0.0) / max(1 + change[k], 0.0)
        up = up if change[k] < 1 else np.inf
        down = down if change[k] > -1 else np.inf
        distance[k] = min(up, down) + barred[k]
    best = 0
    least = distance[0]
    for k in range(distance.shape[0]):
        if distance[k] < least:
            best, least = k, distance[k]
    return least, best


@kernel()
def _next_to_leave(path: Any, n: int) -> Any:
    """How far the penalty falls until a coefficient is zero, and whose."""
    least, which = np.inf, -1
    for j in range(n):
        if path.weights[j] * path.sign[j] < 0:
            fall = max(-path.code[j] / path.weights[j], 0.0)
            if fall < least:
                least, which = fall, j
    return least, which


@kernel()
def _penalty_at(tol: float, square: float, path: Any, n: int) -> float:
    """Penalty at which these members leave a residual of norm ``tol``; 0 where they cannot."""
    left, slope = square, 0.0
    for j in range(n):
        left -= path.row_part[j] * path.row_part[j]
        slope += path.sign_part[j] * path.sign_part[j]
    if left >= tol * tol or slope == 0.0:
        return 0.0
    return np.sqrt((tol * tol - left) / slope)
