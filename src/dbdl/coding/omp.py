"""Sparse codes by orthogonal matching pursuit: ``X ~ codes @ atoms``, few non-zeros a row.

Each row is coded greedily: choose an atom, project the row on all atoms chosen so far, go on with
the residual. Two rules choose the next atom ``k``, with ``c_k`` its correlation with the residual:

- ``"orthogonal"``, the textbook (Pati, Rezaiifar and Krishnaprasad, 1993): largest
  ``|c_k| / ||atom_k||``;
- ``"forward"``, also called optimised OMP (Rebollo-Neira and Lowe, 2002) and what SPAMS computes:
  largest ``|c_k| / n_k``, with ``n_k`` the norm of the atom projected off the chosen ones, so that
  the residual falls most.

Everything happens in Gram space (Rubinstein, Zibulevsky and Elad, 2008). With the chosen atoms
orthonormalised into directions, ``V[t, k]`` is the correlation of atom ``k`` with direction ``t``:

    V[t] = (gram[k_t] - sum_{j<t} V[j, k_t] V[j]) / n_t,   c -= beta_t V[t],   n^2 -= V[t]^2

and the entries ``V[j, k_t]`` are the Cholesky factor of the Gram matrix of the chosen atoms.

The sum over ``j`` is nearly all of the work, and its speed is that of reading ``V`` from the second
level cache. So ``V`` is kept in float32 and only *screens*: the few atoms whose screened score lies
within ``MARGIN`` of the best are scored again in float64 from the Gram matrix, and the best of them
is chosen. The Cholesky factor and the codes are float64 throughout, and do not see the rounding of
the screen. Each exact score also measures the error of the screen; where that is no longer small
against the margin (atoms close to dependent, residuals close to zero) the row starts again with
``V`` in float64. The sum alone runs 2.0 to 2.2 times as fast as in float64 (1216 to 4608 atoms).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix

from dbdl._arrays import times_powers
from dbdl._compile import REORDERED, inlined, kernel
from dbdl._threads import block_slices, resolve_n_jobs, run_blocks
from dbdl.coding._checks import (
    aligned,
    as_lengths,
    as_matrices,
    as_matrix,
    check_choices,
    check_finite,
    check_gram,
    check_lengths,
    check_n_jobs,
)
from dbdl.coding._scales import by_scale, in_dtype, scaled_number, unsafe_atoms, unsafe_exponents

Selection = Literal["orthogonal", "forward"]
Array = NDArray[Any]

# Rows coded by one call of the kernel. The last block is padded with zero rows: a product of
# another height rounds differently, and a query would not get the bits of its row in a batch.
ROWS = 32

# Rows of the Gram matrix computed by one product.
GRAM_ROWS = 128

# A projected squared norm below this part of the squared norm is rounding: the atom is taken as
# dependent on the chosen ones. The Cholesky factor loses about eps / this: five digits remain.
DEPENDENCE = {"float64": 1e-10, "float32": 1e-5}

# Projected squared norms (atoms have norm one) from here on are beyond doubt.
INDEPENDENCE = 1e-3

# Screened scores within this part of the best are scored exactly. That is cheap: at 0.02, 1.2 atoms
# a step were, on YaleB faces.
MARGIN = 0.03

# Errors of the screened correlations (relative) and of the screened squared norms (atoms have norm
# one) that are let pass, as measured on the atoms scored exactly. This is a check, no proof: the
# true winner is missed if the errors of other atoms are several times as large.
CORRELATION_SLACK = 1e-3
NORM_SLACK = 1.5e-6

# Under this projected squared norm NORM_SLACK is half a percent, and the screen no longer trusted.
NORM_FLOOR = 3e-4

# Correlations under this many roundings of a dot product are taken for zero: nothing is left.
NOISE = 4.0

# Columns of V processed together: the running sum stays in the first level cache.
CHUNK = 1024

# Width of the elementwise maximum by which the best scores are found. Compilers vectorise that
# without fast-math, a maximum over all elements not.
LANES = 128

OVERFLOW = (
    "The products of X and atoms overflow. Expected values whose products stay finite. Scale X and "
    "atoms, to rows of norm one say (normalize=True where there is such a parameter)."
)

# 64 bytes, a cache line and the widest vector, in numbers of float32.
LINE = 16


@dataclass(frozen=True)
class Pursuit:
    """Greedy paths of a batch of rows, and their codes at each requested length.

    Attributes
    ----------
    order : ndarray of shape (n_samples, longest), int32
        Atoms in the order in which they were chosen; only the first ``count[i]`` of a row count.
    count : ndarray of shape (n_samples,), int32
        Number of atoms chosen.
    coefficients : list of ndarray of shape (n_samples, length)
        For each requested length the coefficients of the first ``length`` chosen atoms, in the
        same order, zero past ``count``.
    """

    order: NDArray[np.int32]
    count: NDArray[np.int32]
    coefficients: list[Array]

    def to_csr(self, which: Sequence[int], n_atoms: int) -> csr_matrix:
        """Codes (n_samples, n_atoms), columns sorted: the mean over the lengths with these numbers.

        A path's codes have nested supports, so their mean has that of the longest.
        """
        coefficients = _mean_of_nested([self.coefficients[number] for number in which])
        data, indices, indptr = _sorted_rows(self.order, self.count, coefficients)
        return csr_matrix((data, indices, indptr), shape=(coefficients.shape[0], n_atoms))


def _mean_of_nested(parts: list[Array]) -> Array:
    """Mean of arrays (n_samples, length) of several lengths, as if zeros followed the shorter."""
    if len(parts) == 1:
        return parts[0]
    mean = np.zeros_like(max(parts, key=lambda part: part.shape[1]))
    for part in parts:
        mean[:, : part.shape[1]] += part / len(parts)
    return mean


def omp(
    X: ArrayLike,
    atoms: ArrayLike,
    n_nonzero: int = 50,
    tol: float | None = None,
    selection: Selection = "orthogonal",
    *,
    gram: ArrayLike | None = None,
    n_jobs: int | None = None,
) -> csr_matrix:
    """Code rows by orthogonal matching pursuit, ``X ~ codes @ atoms``.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Rows to code.
    atoms : array-like of shape (n_atoms, n_features)
        Dictionary, of any norms. Zero atoms are never chosen, nor are atoms that depend linearly
        on those already chosen (projected squared norm under 1e-10 of the squared norm, 1e-5 in
        float32).
    n_nonzero : int, default=50
        Most atoms a row may use. A row ends earlier when ``tol`` is reached or when nothing is
        left of it, as for a row of zeros.
    tol : float, optional
        A row is done once the norm (not the squared norm) of its residual is ``tol`` or less. The
        norm comes from Pythagoras: under 1e-8 of the norm of the row (1e-4 in float32) it is
        rounding, and a smaller ``tol`` acts like none.
    selection : {"orthogonal", "forward"}, default="orthogonal"
        ``"orthogonal"`` takes the atom best correlated with the residual, as the textbooks do;
        ``"forward"`` the one that lowers the residual most.
    gram : array-like of shape (n_atoms, n_atoms), optional
        ``atoms @ atoms.T``, where it is at hand; computed otherwise. Only its shape and its
        diagonal are checked.
    n_jobs : int, optional
        Number of threads, with joblib's meaning of None and -1. Any number gives the same bits.

    Returns
    -------
    codes : csr_matrix of shape (n_samples, n_atoms)
        Codes with sorted column numbers, in the float dtype of ``X``.

    Examples
    --------
    >>> import numpy as np
    >>> from dbdl.coding.omp import omp
    >>> omp([[3.0, 0.0, 1.0]], np.eye(3), n_nonzero=2).toarray()
    array([[3., 0., 1.]])
    """
    return _code(X, atoms, [n_nonzero], tol, selection, gram, n_jobs)[0]


def omp_path(
    X: ArrayLike,
    atoms: ArrayLike,
    n_nonzero: Sequence[int],
    selection: Selection = "orthogonal",
    *,
    gram: ArrayLike | None = None,
    n_jobs: int | None = None,
) -> list[csr_matrix]:
    """Codes for several numbers of non-zeros from one greedy pass.

    A greedy path passes through the codes of every smaller number of non-zeros: their atoms are a
    prefix, and only the coefficients are solved for anew. Costs hardly more than the largest.

    Parameters
    ----------
    X, atoms, selection, gram, n_jobs
        As for :func:`omp`.
    n_nonzero : sequence of int
        Numbers of non-zeros, in any order.

    Returns
    -------
    codes : list of csr_matrix of shape (n_samples, n_atoms)
        One for each entry of ``n_nonzero``, bit for bit what :func:`omp` gives for it.
    """
    return _code(X, atoms, as_lengths(n_nonzero), None, selection, gram, n_jobs)


def encode(
    X: Array,
    atoms: Array,
    gram: Array,
    lengths: Sequence[int],
    selection: Selection = "orthogonal",
    tol: float | None = None,
    n_threads: int = 1,
) -> Pursuit:
    """Greedy paths and their codes, without a look at the input: the door for other modules.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Rows to code, finite; C-contiguous, float32 or float64, like ``atoms`` and ``gram``.
    atoms : ndarray of shape (n_atoms, n_features)
        Dictionary.
    gram : ndarray of shape (n_atoms, n_atoms)
        ``atoms @ atoms.T``, see :func:`gram_matrix`.
    lengths : sequence of int
        Numbers of non-zeros, each from 1 to ``min(n_atoms, n_features)``.
    selection, tol
        As for :func:`omp`.
    n_threads : int, default=1
        Number of threads.

    Returns
    -------
    Pursuit
    """
    X, atoms, gram = (_read_only(array) for array in (X, atoms, gram))
    sizes = np.array(lengths, dtype=np.int64)
    problem = _pose(X, atoms, gram, int(sizes.max()), selection, tol)
    n_samples, dtype = X.shape[0], X.dtype
    order = np.zeros((n_samples, sizes.max()), np.int32)
    count = np.zeros(n_samples, np.int32)
    coefficients = np.zeros((n_samples, sizes.sum()), dtype)

    def code(rows: slice) -> None:
        _code_block(X[rows], problem, sizes, order[rows], count[rows], coefficients[rows])

    run_blocks(code, block_slices(n_samples, ROWS), n_threads)
    if n_samples and count.min() < 0:
        raise ValueError(OVERFLOW)
    ends = np.cumsum(sizes)[:-1]
    return Pursuit(order, count, np.split(coefficients, ends, axis=1))


def gram_matrix(atoms: Array, n_threads: int = 1) -> Array:
    """``atoms @ atoms.T``, exactly symmetric, with the same bits for any number of threads.

    Parameters
    ----------
    atoms : ndarray of shape (n_atoms, n_features)
        Dictionary.
    n_threads : int, default=1
        Number of threads.

    Returns
    -------
    gram : ndarray of shape (n_atoms, n_atoms)
    """
    n_atoms = atoms.shape[0]
    gram = np.empty((n_atoms, n_atoms), atoms.dtype)

    def fill(rows: slice) -> None:
        upper = atoms[rows] @ atoms[rows.start :].T
        gram[rows, rows.start :] = upper
        gram[rows.start :, rows] = upper.T

    run_blocks(fill, block_slices(n_atoms, GRAM_ROWS), n_threads)
    return gram


# ---------------------------------------------------------------------------- checks and shells


def _code(
    X: ArrayLike,
    atoms: ArrayLike,
    lengths: list[int],
    tol: float | None,
    selection: Selection,
    gram: ArrayLike | None,
    n_jobs: int | None,
) -> list[csr_matrix]:
    """Check the input, code, and lay the codes out as CSR matrices in the float dtype of X."""
    rows, dictionary = as_matrices(X, atoms)
    check_choices(selection, tol)
    lengths = check_lengths(lengths, min(dictionary.shape))
    asked = rows.dtype
    dtype = np.result_type(rows, dictionary)
    rows, dictionary = aligned(rows, dtype), aligned(dictionary, dtype)
    check_finite(rows, "X")
    n_threads = resolve_n_jobs(check_n_jobs(n_jobs))
    products = None
    if gram is None:
        check_finite(dictionary, "atoms")
    else:
        products = check_gram(aligned(as_matrix(gram, "gram"), dtype), dictionary.shape[0])
    atom_exponents = unsafe_atoms(dictionary, products)
    if atom_exponents is not None:
        check_finite(dictionary, "atoms")
        dictionary, products = times_powers(dictionary, -atom_exponents), None
    if products is None:
        products = gram_matrix(dictionary, n_threads)

    def code(rows: Array, exponent: int) -> list[csr_matrix]:
        own_tol = scaled_number(tol, -exponent)
        pursuit = encode(rows, dictionary, products, lengths, selection, own_tol, n_threads)
        return [pursuit.to_csr([i], dictionary.shape[0]) for i in range(len(lengths))]

    try:
        codes = by_scale(code, rows, unsafe_exponents(rows), atom_exponents)
    except ValueError:
        # atoms passed with their Gram matrix are looked at only here, since a single query would
        # notice the time to read them all once more
        check_finite(dictionary, "atoms")
        raise
    return [in_dtype(matrix, asked) for matrix in codes]


# -------------------------------------------------------------------------------------- kernels


class _Problem(NamedTuple):
    """What all rows share. Atoms count as scaled to norm one, rows too."""

    atoms: Array  # (n_atoms, n_features)
    gram: Array  # (n_atoms, n_atoms), as given
    inverse_norm: Array  # (n_atoms,), zero for zero atoms, float64
    screen_gram: Array  # (n_atoms, n_atoms), for V in float32: gram, or its float32 copy
    screen_scale: Array  # (n_atoms,), brings screen_gram to atoms of norm one
    longest: int  # most atoms of a row
    forward: bool
    tol: float  # negative: none
    noise: float  # correlations up to this count as zero
    dependence: float  # projected squared norms up to this count as zero
    rounding: float  # of the entries of the Gram matrix


class _Factor(NamedTuple):
    """The exact side of a row, float64: the Cholesky factor L of the chosen atoms' Gram matrix."""

    columns: Array  # (longest, longest), columns[j, i] = L[i, j]
    inverse_diagonal: Array  # (longest,)
    target: Array  # (longest,), L^-1 c: coefficients of the row on the directions
    weights: Array  # (longest,), L^-1 gram[chosen, k] for the best atom so far
    trial: Array  # (longest,), the same for the atom being looked at
    combination: Array  # (longest,), that atom's projection in terms of the chosen ones


class _Screen(NamedTuple):
    """The screening side of a row, all of one dtype, padded to whole cache lines."""

    directions: Array  # V, (longest + 8, width): room for the zero weights of a last, partial group
    running: Array  # (CHUNK,), the direction in the making
    correlation: Array  # (width,)
    norm: Array  # (width,), projected squared norm (forward) or 1; barred atoms infinity or 0
    score: Array  # (width,)
    highest: Array  # (LANES,), elementwise maximum of the scores, LANES columns at a time
    lowest: Array  # (LANES,), elementwise minimum of the norms
    weights: Array  # (longest + 8,)


def _read_only(array: Array) -> Array:
    """A read-only view: one compiled version then serves arrays that are and are not writeable."""
    view = array.view()
    view.flags.writeable = False
    return view


def _pose(
    X: Array, atoms: Array, gram: Array, longest: int, selection: str, tol: float | None
) -> _Problem:
    eps = float(np.finfo(X.dtype).eps)
    norm = np.sqrt(np.diagonal(gram).astype(np.float64))
    inverse_norm = np.divide(1.0, norm, out=np.zeros_like(norm), where=norm > 0)
    screen_gram, screen_scale = gram, inverse_norm.astype(gram.dtype)
    if X.shape[0] > gram.shape[0] // 8:
        # enough rows to pay for a copy that halves what each step reads
        screen_gram = _unit_gram(gram, inverse_norm)
        screen_scale = np.ones(gram.shape[0], np.float32)
    return _Problem(
        atoms,
        gram,
        inverse_norm,
        _read_only(screen_gram),
        screen_scale,
        longest,
        selection == "forward",
        -1.0 if tol is None else float(tol),
        NOISE * eps * math.sqrt(X.shape[1]),
        DEPENDENCE[X.dtype.name],
        eps,
    )


@kernel(REORDERED)
def _unit_gram(gram: Array, inverse_norm: Array) -> Array:
    """Float32 copy of the Gram matrix, of atoms scaled to norm one."""
    n_atoms = gram.shape[0]
    unit = np.empty((n_atoms, n_atoms), np.float32)
    for i in range(n_atoms):
        for k in range(n_atoms):
            unit[i, k] = gram[i, k] * inverse_norm[i] * inverse_norm[k]
    return unit


@kernel(REORDERED)
def _code_block(
    rows: Array, problem: Any, sizes: Array, order: Array, count: Array, coefficients: Array
) -> None:
    """Code up to ROWS rows, one after the other, filling order, count and coefficients."""
    padded = np.zeros((ROWS, rows.shape[1]), rows.dtype)
    for i in range(rows.shape[0]):
        for feature in range(rows.shape[1]):
            padded[i, feature] = rows[i, feature]
    correlations = np.dot(padded, problem.atoms.T)
    factor = _new_factor(problem.longest)
    screen = _new_screen(problem, np.zeros(1, np.float32))
    for i in range(rows.shape[0]):
        norm = _norm(rows[i])
        if not _all_finite(correlations[i]):
            count[i] = -1
            continue
        if norm == 0.0:
            continue
        count[i] = _pursue(
            correlations[i], norm, problem, factor, screen, NORM_FLOOR, True, order[i]
        )
        if count[i] < 0:
            careful = _new_screen(problem, np.zeros(1, np.float64))
            count[i] = _pursue(
                correlations[i], norm, problem, factor, careful, problem.dependence, False, order[i]
            )
        _solve(factor, norm, problem.inverse_norm, order[i], count[i], sizes, coefficients[i])


@kernel()
def _new_factor(longest: int) -> Any:
    return _Factor(
        np.zeros((longest, longest)),
        np.zeros(longest),
        np.zeros(longest),
        np.zeros(longest),
        np.zeros(longest),
        np.zeros(longest),
    )


@kernel()
def _new_screen(problem: Any, kind: Array) -> Any:
    width = -(-problem.gram.shape[0] // LINE) * LINE
    if width % 256 == 0:  # rows a whole number of pages apart would share their cache sets
        width += LINE
    buffer = _aligned_zeros(problem.longest + 8 + 4, width, kind)
    return _Screen(
        buffer[4:],
        np.zeros(CHUNK, kind.dtype),
        buffer[0],
        buffer[1],
        buffer[2],
        np.zeros(LANES, kind.dtype),
        np.zeros(LANES, kind.dtype),
        np.zeros(problem.longest + 8, kind.dtype),
    )


@kernel()
def _aligned_zeros(n_rows: int, n_columns: int, kind: Array) -> Array:
    """Zeros that start on a cache line: the sums ran 3 to 50 % slower off it."""
    flat = np.zeros(n_rows * n_columns + LINE, kind.dtype)
    offset = (-flat.ctypes.data % (4 * LINE)) // kind.itemsize
    return flat[offset : offset + n_rows * n_columns].reshape(n_rows, n_columns)


@inlined(REORDERED)
def _norm(row: Array) -> float:
    square = 0.0
    for value in row:
        square += np.float64(value) * np.float64(value)
    return np.sqrt(square)


@kernel()
def _all_finite(values: Array) -> bool:
    total = 0.0
    for value in values:
        total += value * 0  # zero, or NaN from NaN and infinity
    return total == 0.0


@inlined(REORDERED)
def _pursue(
    correlations: Array,
    norm: float,
    problem: Any,
    factor: Any,
    screen: Any,
    norm_floor: float,
    doubt: bool,
    order: Array,
) -> int:
    """Choose the atoms of one row; their number, or -1 where the screen is not to be trusted.

    Without ``doubt`` (V in float64) it is always trusted, and projected squared norms under
    ``norm_floor`` are looked at for dependence alone.
    """
    barred = np.inf if problem.forward else 0.0
    n_atoms = correlations.shape[0]
    _start(correlations, norm, problem, screen, barred)
    limit = (problem.tol / norm) ** 2 if problem.tol >= 0 else -1.0
    remaining = 1.0
    t = 0
    while t < problem.longest and remaining > limit:
        top = _highest(screen.highest)
        if top <= 0:
            break
        threshold = top * (1 - MARGIN)
        best, best_score, best_correlation, best_square, dropped = -1, 0.0, 0.0, 1.0, False
        for lane in range(LANES):
            if screen.highest[lane] < threshold:
                continue
            for k in range(lane, n_atoms, LANES):
                if screen.score[k] < threshold:
                    continue
                _project(k, problem, factor, order, t)
                square, correlation = 1.0, correlations[k] * problem.inverse_norm[k] / norm
                for j in range(t):
                    square -= factor.trial[j] * factor.trial[j]
                    correlation -= factor.trial[j] * factor.target[j]
                if _is_dependent(square, problem, factor, t):
                    screen.norm[k] = barred
                    dropped = True
                    continue
                if doubt:
                    error = abs(screen.correlation[k] - correlation)
                    if error > CORRELATION_SLACK * abs(correlation):
                        return -1
                    if problem.forward and abs(screen.norm[k] - square) > NORM_SLACK:
                        return -1
                score = correlation * correlation
                if problem.forward:
                    score /= square
                if score > best_score or (score == best_score and k < best):
                    best, best_score, best_correlation, best_square = k, score, correlation, square
                    for j in range(t):
                        factor.weights[j] = factor.trial[j]
        if best < 0 and dropped:
            _rank(screen, problem.forward)
            continue
        if best < 0 or abs(best_correlation) <= problem.noise:
            break
        inverse = 1 / np.sqrt(best_square)
        for j in range(t):
            factor.columns[j, t] = factor.weights[j]
            screen.weights[j] = factor.weights[j]
        order[t] = best
        factor.inverse_diagonal[t] = inverse
        factor.target[t] = best_correlation * inverse
        remaining -= factor.target[t] ** 2
        screen.norm[best] = barred
        t += 1
        if t < problem.longest:
            _advance(problem, factor, screen, doubt, order, t - 1)
            if problem.forward and _lowest(screen.lowest) < norm_floor:
                for k in range(n_atoms):
                    if screen.norm[k] < norm_floor:
                        _project(k, problem, factor, order, t)
                        square = 1.0
                        for j in range(t):
                            square -= factor.trial[j] * factor.trial[j]
                        if _is_dependent(square, problem, factor, t):
                            screen.norm[k] = barred
                        elif doubt:
                            return -1
                _rank(screen, True)
    return t


@inlined(REORDERED)
def _start(correlations: Array, norm: float, problem: Any, screen: Any, barred: float) -> None:
    screen.weights[:] = 0
    screen.correlation[:] = 0
    screen.norm[:] = barred
    for k in range(correlations.shape[0]):
        if problem.inverse_norm[k] > 0:
            screen.correlation[k] = correlations[k] * problem.inverse_norm[k] / norm
            screen.norm[k] = 1
    _rank(screen, problem.forward)


@inlined(REORDERED)
def _rank(screen: Any, forward: bool) -> None:
    """Scores of all atoms from their correlations and norms."""
    for k in range(screen.score.shape[0]):
        square = screen.correlation[k] * screen.correlation[k]
        screen.score[k] = square / screen.norm[k] if forward else square * screen.norm[k]
    screen.highest[:] = 0
    _fold(screen.score, screen.norm, screen.highest, screen.lowest)


@inlined(REORDERED)
def _fold(score: Array, norm: Array, highest: Array, lowest: Array) -> None:
    for start in range(0, score.shape[0], LANES):
        part, norms = score[start : start + LANES], norm[start : start + LANES]
        for k in range(part.shape[0]):
            highest[k] = part[k] if part[k] > highest[k] else highest[k]
            lowest[k] = norms[k] if norms[k] < lowest[k] else lowest[k]


@inlined(REORDERED)
def _highest(values: Array) -> float:
    """Maximum, by four chains: one alone would wait for itself at each step."""
    a, b, c, d = values[0], values[1], values[2], values[3]
    for k in range(4, values.shape[0], 4):
        a = values[k] if values[k] > a else a
        b = values[k + 1] if values[k + 1] > b else b
        c = values[k + 2] if values[k + 2] > c else c
        d = values[k + 3] if values[k + 3] > d else d
    return max(max(a, b), max(c, d))


@inlined(REORDERED)
def _lowest(values: Array) -> float:
    a, b, c, d = values[0], values[1], values[2], values[3]
    for k in range(4, values.shape[0], 4):
        a = values[k] if values[k] < a else a
        b = values[k + 1] if values[k + 1] < b else b
        c = values[k + 2] if values[k + 2] < c else c
        d = values[k + 3] if values[k + 3] < d else d
    return min(min(a, b), min(c, d))


@inlined(REORDERED)
def _project(k: int, problem: Any, factor: Any, order: Array, t: int) -> None:
    """Correlations of atom k with the t directions, exactly: L trial = gram[chosen, k]."""
    row, scale, trial = problem.gram[k], problem.inverse_norm[k], factor.trial
    for j in range(t):
        trial[j] = row[order[j]] * (scale * problem.inverse_norm[order[j]])
    for j in range(t):
        value = trial[j] * factor.inverse_diagonal[j]
        trial[j] = value
        column = factor.columns[j]
        for i in range(j + 1, t):
            trial[i] -= value * column[i]


@inlined(REORDERED)
def _is_dependent(square: float, problem: Any, factor: Any, t: int) -> bool:
    """Whether a projected squared norm, of the atom in ``trial``, is no more than rounding.

    Entries of the Gram matrix off by eps change it by up to eps (1 + sum |combination|)^2.
    """
    if square > INDEPENDENCE:
        return False
    if square <= problem.dependence:
        return True
    total = 1.0
    combination = factor.combination
    for j in range(t - 1, -1, -1):
        value = factor.trial[j]
        for i in range(j + 1, t):
            value -= factor.columns[j, i] * combination[i]
        combination[j] = value * factor.inverse_diagonal[j]
        total += abs(combination[j])
    return square <= problem.rounding * total * total


@inlined(REORDERED)
def _advance(problem: Any, factor: Any, screen: Any, doubt: bool, order: Array, t: int) -> None:
    """Make direction t from the atom chosen last, take it out of correlations and norms."""
    chosen = order[t]
    V, weights = screen.directions, screen.weights
    inverse = V.dtype.type(factor.inverse_diagonal[t])
    step = V.dtype.type(factor.target[t])
    width, n_atoms = V.shape[1], problem.gram.shape[0]
    quick_row, quick_scale = problem.screen_gram[chosen], problem.screen_scale
    row, scale = problem.gram[chosen], problem.inverse_norm
    screen.highest[:] = 0
    screen.lowest[:] = np.inf
    for start in range(0, width, CHUNK):
        stop = min(start + CHUNK, width)
        running = screen.running[: stop - start]
        filled = max(0, min(stop, n_atoms) - start)
        end = start + filled
        if doubt:
            _scale_row(quick_row[start:end], quick_scale[start:end], quick_scale[chosen], running)
        else:
            _scale_row(row[start:end], scale[start:end], scale[chosen], running)
        running[filled:] = 0
        # Groups of eight: the running sum is read and written once for eight products, and plain
        # loops over columns vectorise. Weights past t are zero, so the last group may be partial.
        for j in range(0, t, 8):
            if t - j > 4:
                _take_eight(running, V, weights, j, start, stop)
            else:
                _take_four(running, V, weights, j, start, stop)
        correlation, norm = screen.correlation[start:stop], screen.norm[start:stop]
        score = screen.score[start:stop]
        if problem.forward:
            _finish_forward(running, V[t, start:stop], correlation, norm, score, inverse, step)
        else:
            _finish_orthogonal(running, V[t, start:stop], correlation, norm, score, inverse, step)
        _fold(score, norm, screen.highest, screen.lowest)


@inlined(REORDERED)
def _scale_row(row: Array, scale: Array, own: float, out: Array) -> None:
    for k in range(row.shape[0]):
        out[k] = row[k] * (own * scale[k])


@inlined(REORDERED)
def _take_eight(running: Array, V: Array, weights: Array, j: int, start: int, stop: int) -> None:
    w0, w1, w2, w3 = weights[j], weights[j + 1], weights[j + 2], weights[j + 3]
    w4, w5, w6, w7 = weights[j + 4], weights[j + 5], weights[j + 6], weights[j + 7]
    # one row at a time: a slice of several would not be known to be contiguous
    v0, v1 = V[j, start:stop], V[j + 1, start:stop]
    v2, v3 = V[j + 2, start:stop], V[j + 3, start:stop]
    v4, v5 = V[j + 4, start:stop], V[j + 5, start:stop]
    v6, v7 = V[j + 6, start:stop], V[j + 7, start:stop]
    for k in range(running.shape[0]):
        running[k] -= (
            w0 * v0[k] + w1 * v1[k] + w2 * v2[k] + w3 * v3[k]
            + w4 * v4[k] + w5 * v5[k] + w6 * v6[k] + w7 * v7[k]
        )  # fmt: skip


@inlined(REORDERED)
def _take_four(running: Array, V: Array, weights: Array, j: int, start: int, stop: int) -> None:
    w0, w1, w2, w3 = weights[j], weights[j + 1], weights[j + 2], weights[j + 3]
    v0, v1 = V[j, start:stop], V[j + 1, start:stop]
    v2, v3 = V[j + 2, start:stop], V[j + 3, start:stop]
    for k in range(running.shape[0]):
        running[k] -= w0 * v0[k] + w1 * v1[k] + w2 * v2[k] + w3 * v3[k]


@inlined(REORDERED)
def _finish_forward(
    running: Array,
    direction: Array,
    correlation: Array,
    norm: Array,
    score: Array,
    inverse: float,
    step: float,
) -> None:
    for k in range(direction.shape[0]):
        value = running[k] * inverse
        direction[k] = value
        left = correlation[k] - step * value
        correlation[k] = left
        square = norm[k] - value * value
        norm[k] = square
        score[k] = left * left / square


@inlined(REORDERED)
def _finish_orthogonal(
    running: Array,
    direction: Array,
    correlation: Array,
    norm: Array,
    score: Array,
    inverse: float,
    step: float,
) -> None:
    for k in range(direction.shape[0]):
        value = running[k] * inverse
        direction[k] = value
        left = correlation[k] - step * value
        correlation[k] = left
        score[k] = left * left * norm[k]


@inlined(REORDERED)
def _solve(
    factor: Any,
    norm: float,
    inverse_norm: Array,
    order: Array,
    count: int,
    sizes: Array,
    coefficients: Array,
) -> None:
    """Coefficients of each requested prefix, L' x = target, side by side."""
    solution = np.empty(count)
    first = 0
    for size in sizes:
        last = min(size, count)
        for j in range(last - 1, -1, -1):
            value = factor.target[j]
            for i in range(j + 1, last):
                value -= factor.columns[j, i] * solution[i]
            solution[j] = value * factor.inverse_diagonal[j]
            coefficients[first + j] = solution[j] * (norm * inverse_norm[order[j]])
        first += size


@kernel(REORDERED)
def _sorted_rows(order: Array, count: Array, coefficients: Array) -> Any:
    """Data, column numbers and row starts of a CSR matrix with sorted columns."""
    n_rows, length = coefficients.shape
    indptr = np.zeros(n_rows + 1, np.int32)
    for i in range(n_rows):
        indptr[i + 1] = indptr[i] + min(np.int32(length), count[i])
    indices = np.empty(indptr[n_rows], np.int32)
    data = np.empty(indptr[n_rows], coefficients.dtype)
    for i in range(n_rows):
        start = indptr[i]
        for j in range(indptr[i + 1] - start):
            at = start + j  # insertion: a few dozen entries
            while at > start and indices[at - 1] > order[i, j]:
                indices[at], data[at] = indices[at - 1], data[at - 1]
                at -= 1
            indices[at], data[at] = order[i, j], coefficients[i, j]
    return data, indices, indptr
