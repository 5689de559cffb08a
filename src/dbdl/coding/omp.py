"""Sparse codes by orthogonal matching pursuit: ``X ~ codes @ atoms``, few non-zeros per row.

Each row is coded greedily: choose an atom, project the row on all atoms chosen so far, continue
with the residual. There are two rules for the next atom ``k``, where ``c_k`` is its correlation
with the residual:

- ``"orthogonal"``, the textbook rule (Pati, Rezaiifar and Krishnaprasad, 1993): largest
  ``|c_k| / ||atom_k||``;
- ``"forward"``, also called optimised OMP (Rebollo-Neira and Lowe, 2002) and computed by SPAMS:
  largest ``|c_k| / n_k``, where ``n_k`` is the norm of the atom projected off the chosen ones. It
  lowers the residual most.

Everything happens in Gram space (Rubinstein, Zibulevsky and Elad, 2008). With the chosen atoms
orthonormalised into directions, ``V[t, k]`` is the correlation of atom ``k`` with direction ``t``:

    V[t] = (gram[k_t] - sum_{j<t} V[j, k_t] V[j]) / n_t,   c -= beta_t V[t],   n^2 -= V[t]^2

and the entries ``V[j, k_t]`` are the Cholesky factor of the Gram matrix of the chosen atoms.

The sum over ``j`` is nearly all of the work, and its speed is that of reading ``V`` from the second
level cache. ``V`` is therefore stored in float32 and only *screens*: the few atoms whose screened
score lies within ``MARGIN`` of the best are scored again in float64 from the Gram matrix, and the
best of them is chosen. The Cholesky factor and the codes are float64 throughout and unaffected by
the rounding of the screen. Each exact score also measures the error of the screen. Once that is no
longer small against the margin (nearly dependent atoms, residuals close to zero), the row is
restarted with ``V`` in float64. The sum alone runs 2.0 to 2.2 times as fast as in float64 (1216 to
4608 atoms).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix

from dbdl._arrays import Array, times_powers
from dbdl._compile import CONTRACTED, inlined, kernel, read_only
from dbdl._products import block_product, row_products, row_squares
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

Rule = Literal["orthogonal", "forward"]

# Rows coded by one call of the kernel.
ROWS = 32

# Rows of the Gram matrix computed by one product.
GRAM_ROWS = 128

# A projected squared norm below this fraction of the squared norm is rounding: the atom is treated
# as dependent on the chosen ones. The Cholesky factor loses about eps / this: five digits remain.
DEPENDENCE = {"float64": 1e-10, "float32": 1e-5}

# Atoms with a larger projected squared norm (atoms have norm one) are certainly independent.
INDEPENDENCE = 1e-3

# Atoms whose screened score is within this fraction of the best are scored exactly. That is cheap:
# at 0.02, it was 1.2 atoms per step on YaleB faces.
MARGIN = 0.03

# Tolerated errors of the screened correlations (relative) and of the screened squared norms (atoms
# have norm one), as measured on the atoms scored exactly. This is a check, not a proof: the true
# winner is missed if the errors of other atoms are several times as large.
CORRELATION_SLACK = 1e-3
NORM_SLACK = 1.5e-6

# Below this projected squared norm NORM_SLACK is half a percent, and the screen is not trusted.
NORM_FLOOR = 3e-4

# Correlations below this many rounding errors of a dot product count as zero.
NOISE = 4.0

# Columns of V processed together: the running sum stays in the first level cache.
CHUNK = 1024

# Width of the elementwise maximum that finds the best scores. Compilers vectorise it without
# fast-math, unlike a maximum over all elements.
LANES = 128

OVERFLOW = (
    "The products of X and atoms overflow. Expected values whose products stay finite. Scale X and "
    "atoms, for example to rows of norm one (normalize=True where there is such a parameter)."
)

# The screen pays if rows x non-zeros x (non-zeros + 64) exceed this multiple of the atoms. With
# 1810 atoms that is from 8 rows on for 10 non-zeros, and from the first row for 50. A float32 copy
# of the Gram matrix for the screen pays from 860 rows on for 10 non-zeros, and from 110 for 50.
SCREEN_PAYS, COPY_PAYS = 3, 350

# A cache line and the widest vector, 64 bytes, counted in float32 values.
LINE = 16


@dataclass(frozen=True)
class Pursuit:
    """Greedy paths of a batch of rows, and their codes at each requested length.

    Attributes
    ----------
    order : ndarray of shape (n_samples, longest), int32
        Atoms in the order of choice; only the first ``count[i]`` entries of a row are valid.
    count : ndarray of shape (n_samples,), int32
        Number of atoms chosen.
    coefficients : list of ndarray of shape (n_samples, length)
        For each requested length, the coefficients of the first ``length`` chosen atoms, in the
        same order; zero past ``count``.
    """

    order: NDArray[np.int32]
    count: NDArray[np.int32]
    coefficients: list[Array]

    def to_csr(self, which: Sequence[int], n_atoms: int) -> csr_matrix:
        """Codes (n_samples, n_atoms), columns sorted: the mean over the lengths at these indices.

        The codes of a path have nested supports, so their mean has the support of the longest.
        """
        coefficients = _mean_of_nested([self.coefficients[i] for i in which])
        return codes_of_paths(self.order, self.count, coefficients, n_atoms)


def codes_of_paths(order: Array, count: Array, coefficients: Array, n_atoms: int) -> csr_matrix:
    """Codes (n_samples, n_atoms), columns sorted, from the coefficients (n_samples, length).

    A path may have fewer atoms than ``length``, and ``order`` may go on behind it.
    """
    length = coefficients.shape[1]
    kept = np.minimum(count, length)
    chosen = np.arange(length) < kept[:, np.newaxis]
    return codes_of_entries(kept, order[:, :length][chosen], coefficients[chosen], n_atoms)


def codes_of_entries(n_used: Array, atom: Array, coefficient: Array, n_atoms: int) -> csr_matrix:
    """Codes (n_samples, n_atoms), columns sorted, from the entries of all rows, row by row.

    ``n_used`` (n_samples,) is their number in each row. Within a row they may have any order.
    """
    ends = np.concatenate([[0], np.cumsum(n_used)])
    codes = csr_matrix((coefficient, atom, ends), shape=(len(n_used), n_atoms))
    codes.sort_indices()
    return codes


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
    rule: Rule = "orthogonal",
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
        Dictionary of atoms of any norm. Zero atoms are never chosen, nor are atoms that depend
        linearly on those already chosen (projected squared norm below 1e-10 of the squared norm,
        1e-5 in float32).
    n_nonzero : int, default=50
        Largest number of atoms per row. A row uses fewer once ``tol`` is reached or its residual
        is zero.
    tol : float, optional
        A row is done once the norm (not the squared norm) of its residual is ``tol`` or less. The
        norm comes from Pythagoras: below 1e-8 of the norm of the row (1e-4 in float32) it is
        rounding, and a smaller ``tol`` acts like None.
    rule : {"orthogonal", "forward"}, default="orthogonal"
        ``"orthogonal"`` takes the atom best correlated with the residual, as in textbooks;
        ``"forward"`` takes the atom that lowers the residual most.
    gram : array-like of shape (n_atoms, n_atoms), optional
        ``atoms @ atoms.T``; computed if not given. Only its shape and diagonal are checked.
    n_jobs : int, optional
        Number of threads; None uses all that are free. The result does not depend on it.

    Returns
    -------
    codes : csr_matrix of shape (n_samples, n_atoms)
        Codes with sorted column indices, in the float dtype of ``X``.

    Examples
    --------
    >>> import numpy as np
    >>> from dbdl.coding.omp import omp
    >>> omp([[3.0, 0.0, 1.0]], np.eye(3), n_nonzero=2).toarray()
    array([[3., 0., 1.]])
    """
    return _code(X, atoms, [n_nonzero], tol, rule, gram, n_jobs)[0]


def omp_path(
    X: ArrayLike,
    atoms: ArrayLike,
    n_nonzero: Sequence[int],
    rule: Rule = "orthogonal",
    *,
    gram: ArrayLike | None = None,
    n_jobs: int | None = None,
) -> list[csr_matrix]:
    """Codes for several numbers of non-zeros from one greedy pass.

    A greedy path passes through the codes of every smaller number of non-zeros: their atoms are a
    prefix of the path, and only the coefficients are solved for again. All of them together cost
    hardly more than the longest.

    Parameters
    ----------
    X, atoms, rule, gram, n_jobs
        As for :func:`omp`.
    n_nonzero : sequence of int
        Numbers of non-zeros, in any order.

    Returns
    -------
    codes : list of csr_matrix of shape (n_samples, n_atoms)
        One per entry of ``n_nonzero``, equal to that of :func:`omp` bit for bit.

    Examples
    --------
    >>> import numpy as np
    >>> from dbdl.coding import omp_path
    >>> [codes.nnz for codes in omp_path([[3.0, 0.0, 1.0]], np.eye(3), [1, 2])]
    [1, 2]
    """
    return _code(X, atoms, as_lengths(n_nonzero), None, rule, gram, n_jobs)


def encode(
    X: Array,
    atoms: Array,
    gram: Array,
    lengths: Sequence[int],
    rule: Rule = "orthogonal",
    tol: float | None = None,
    n_threads: int = 1,
) -> Pursuit:
    """Greedy paths and their codes for other modules: the input is not checked.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Rows to code, finite; C-contiguous, float32 or float64, like ``atoms`` and ``gram``.
    atoms : ndarray of shape (n_atoms, n_features)
    gram : ndarray of shape (n_atoms, n_atoms)
        ``atoms @ atoms.T``, see :func:`gram_matrix`.
    lengths : sequence of int
        Numbers of non-zeros, each from 1 to ``min(n_atoms, n_features)``.
    rule, tol
        As for :func:`omp`.
    n_threads : int, default=1
    """
    X, atoms, gram = (np.ascontiguousarray(array) for array in (X, atoms, gram))
    sizes = np.array(lengths, dtype=np.int64)
    longest = int(sizes.max())
    problem = _pose(X, gram, rule, tol)
    # Few rows skip the screen. Many are worth a copy, which halves what each step reads.
    work = len(X) * longest * (longest + 64) / len(gram)
    screens, copies = work > SCREEN_PAYS, work > COPY_PAYS
    unit_gram = np.empty(gram.shape if copies else (0, 0), np.float32)
    _unit_gram(problem.gram, problem.inverse_norm, unit_gram)
    order = np.zeros((len(X), longest), np.int32)
    count = np.zeros(len(X), np.int32)
    coefficients = np.zeros((len(X), sizes.sum()), X.dtype)

    def code(rows: slice) -> None:
        correlations = row_products(X[rows], atoms)
        if not np.isfinite(correlations).all():
            raise ValueError(OVERFLOW)
        norms = np.sqrt(row_squares(X[rows]))
        factor = _new_factor(longest)
        out = sizes, order[rows], count[rows], coefficients[rows]
        todo = np.flatnonzero(norms)
        screened = todo if screens else todo[:0]
        screen = _new_screen(unit_gram, len(gram), longest)
        _pursue(screened, correlations, norms, problem, factor, screen, *out)
        left = np.flatnonzero(count[rows] < 0) if screens else todo
        exact = np.zeros((longest + 2 if len(left) else 2, len(gram)))
        _pursue_carefully(left, correlations, norms, problem, factor, exact, *out)

    run_blocks(code, block_slices(len(X), ROWS), n_threads)
    ends = np.cumsum(sizes)[:-1]
    return Pursuit(order, count, np.split(coefficients, ends, axis=1))


def gram_matrix(atoms: Array, n_threads: int = 1) -> Array:
    """``atoms @ atoms.T``, exactly symmetric, with the same bits for any number of threads."""
    n_atoms = atoms.shape[0]
    gram = np.empty((n_atoms, n_atoms), atoms.dtype)

    def fill(rows: slice) -> None:
        upper = block_product(atoms[rows], atoms[rows.start :].T)
        # with some BLAS kernels the two halves of a square differ in their last bits
        own = np.triu(upper[:, : len(upper)])
        upper[:, : len(upper)] = own + np.triu(own, 1).T
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
    rule: Rule,
    gram: ArrayLike | None,
    n_jobs: int | None,
) -> list[csr_matrix]:
    """Check the input, code, and lay the codes out as CSR matrices in the float dtype of X."""
    rows, dictionary = as_matrices(X, atoms)
    check_choices(rule, tol)
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
        pursuit = encode(rows, dictionary, products, lengths, rule, own_tol, n_threads)
        return [pursuit.to_csr([i], dictionary.shape[0]) for i in range(len(lengths))]

    try:
        codes = by_scale(code, rows, unsafe_exponents(rows), atom_exponents)
    except ValueError:
        # atoms passed with their Gram matrix are checked only here: reading all of them would slow
        # down a single query
        check_finite(dictionary, "atoms")
        raise
    return [in_dtype(matrix, asked) for matrix in codes]


# -------------------------------------------------------------------------------------- kernels


class _Problem(NamedTuple):
    """The parts of the problem that all rows share; atoms and rows count as scaled to norm one."""

    gram: Array  # (n_atoms, n_atoms), as given
    inverse_norm: Array  # (n_atoms,), zero for zero atoms, float64
    forward: bool
    tol: float  # negative if there is none
    noise: float  # correlations up to this count as zero
    dependence: float  # projected squared norms up to this count as zero
    rounding: float  # of the entries of the Gram matrix


class _Factor(NamedTuple):
    """The exact side of a row, float64: the Cholesky factor L of the chosen atoms' Gram matrix."""

    columns: Array  # (longest, longest), columns[j, i] = L[i, j]
    inverse_diagonal: Array  # (longest,)
    target: Array  # (longest,), L^-1 c: coefficients of the row on the directions
    weights: Array  # (longest,), L^-1 gram[chosen, k] for the best atom so far
    trial: Array  # (longest,), the same for the atom being scored
    combination: Array  # (longest,), that atom's projection in terms of the chosen ones


class _Screen(NamedTuple):
    """The screening side of a row, float32, padded to whole cache lines."""

    gram: Array  # (n_atoms, n_atoms), of atoms of norm one; (0, 0) if not copied
    directions: Array  # V, (longest + 8, width): room for the zero weights of a last, partial group
    running: Array  # (CHUNK,), the direction being computed
    correlation: Array  # (width,)
    norm: Array  # (width,), projected squared norm (forward) or 1; infinity for barred atoms
    score: Array  # (width,)
    highest: Array  # (LANES,), elementwise maximum of the scores, LANES columns at a time
    lowest: Array  # (LANES,), elementwise minimum of the norms
    weights: Array  # (longest + 8,)


def _pose(X: Array, gram: Array, rule: str, tol: float | None) -> _Problem:
    eps = float(np.finfo(X.dtype).eps)
    norm = np.sqrt(np.diagonal(gram).astype(np.float64))
    inverse_norm = np.divide(1.0, norm, out=np.zeros_like(norm), where=norm > 0)
    return _Problem(
        read_only(gram),
        inverse_norm,
        rule == "forward",
        -1.0 if tol is None else float(tol),
        NOISE * eps * math.sqrt(X.shape[1]),
        DEPENDENCE[X.dtype.name],
        eps,
    )


def _new_factor(longest: int) -> _Factor:
    return _Factor(np.zeros((longest, longest)), *(np.zeros(longest) for _ in range(5)))


def _new_screen(gram: Array, n_atoms: int, longest: int) -> _Screen:
    width = -(-n_atoms // LINE) * LINE
    if width % 256 == 0:  # rows that are whole pages apart would share cache sets
        width += LINE
    buffer = _aligned_zeros(longest + 8 + 3, width, np.float32)
    sizes = (CHUNK, LANES, LANES, longest + 8)
    running, highest, lowest, weights = (np.zeros(size, np.float32) for size in sizes)
    correlation, norm, score, directions = buffer[0], buffer[1], buffer[2], buffer[3:]
    return _Screen(gram, directions, running, correlation, norm, score, highest, lowest, weights)


def _aligned_zeros(n_rows: int, n_columns: int, dtype: type) -> Array:
    """Zeros that start on a cache line: otherwise the sums ran 3 to 50 % slower."""
    flat: Array = np.zeros(n_rows * n_columns + LINE, dtype)
    offset = (-flat.ctypes.data % (4 * LINE)) // flat.itemsize
    return flat[offset : offset + n_rows * n_columns].reshape(n_rows, n_columns)


@kernel(CONTRACTED)
def _unit_gram(gram: Array, inverse_norm: Array, unit: Array) -> None:
    """Fill ``unit`` (float32), unless empty, with the Gram matrix of atoms scaled to norm one."""
    for i in range(unit.shape[0]):
        for k in range(unit.shape[0]):
            unit[i, k] = gram[i, k] * inverse_norm[i] * inverse_norm[k]


@kernel(CONTRACTED)
def _pursue(
    rows: Array, correlations: Array, norms: Array, problem: Any, factor: Any, screen: Any,
    sizes: Array, order: Array, count: Array, coefficients: Array,
) -> None:  # fmt: skip
    """Choose the atoms of the rows with these indices, one row at a time, and solve for them.

    Fills ``order``, ``count`` and ``coefficients``; the count is -1 where the screen cannot be
    trusted. It is one long function, since compiling a part of it separately doubles the time.
    """
    gram, inverse_norm, forward, tol, noise, dependence, rounding = problem
    columns, inverse_diagonal, target, weights, trial, combination = factor
    (
        screen_gram, V, running, screen_correlation, screen_norm, score, highest, lowest,
        screen_weights,
    ) = screen  # fmt: skip
    n_atoms, width, longest = correlations.shape[1], V.shape[1], order.shape[1]
    copied = screen_gram.shape[0] > 0
    shrinking = V.dtype.type(1 if forward else 0)  # squared norms, as atoms are projected
    for i in rows:
        norm = norms[i]
        for k in range(width):
            screen_correlation[k] = 0
            screen_norm[k] = np.inf
        for k in range(n_atoms):
            if inverse_norm[k] > 0:
                screen_correlation[k] = correlations[i, k] * inverse_norm[k] / norm
                screen_norm[k] = 1
        for j in range(longest):
            screen_weights[j] = 0
        limit = (tol / norm) ** 2 if tol >= 0 else -1.0
        remaining = 1.0
        t = 0
        chosen = -1  # the atom whose direction has to be taken out
        while t < longest and remaining > limit:
            inverse = V.dtype.type(0)
            step = V.dtype.type(0)
            if chosen >= 0:
                inverse, step = V.dtype.type(inverse_diagonal[t - 1]), V.dtype.type(target[t - 1])
            for lane in range(LANES):
                highest[lane] = 0
                lowest[lane] = np.inf
            for start in range(0, width, CHUNK):
                stop = min(start + CHUNK, width)
                if chosen >= 0:
                    # Compute the direction of the atom chosen last.
                    filled = max(0, min(stop, n_atoms) - start)
                    if copied:
                        row = screen_gram[chosen, start : start + filled]
                        for k in range(filled):
                            running[k] = row[k]
                    else:
                        own, scale = gram[chosen, start:stop], inverse_norm[start:stop]
                        for k in range(filled):
                            running[k] = own[k] * inverse_norm[chosen] * scale[k]
                    for k in range(filled, CHUNK):
                        running[k] = 0
                    # Groups of eight: the running sum is read and written once per eight products,
                    # and plain loops over columns vectorise. Weights past t are zero, so the last
                    # group may be partial.
                    for j in range(0, t - 1, 8):
                        w0, w1, w2, w3 = (
                            screen_weights[j],
                            screen_weights[j + 1],
                            screen_weights[j + 2],
                            screen_weights[j + 3],
                        )
                        # one row at a time: a slice of several would not be known to be contiguous
                        v0, v1 = V[j, start:stop], V[j + 1, start:stop]
                        v2, v3 = V[j + 2, start:stop], V[j + 3, start:stop]
                        if t - 1 - j > 4:
                            w4, w5, w6, w7 = (
                                screen_weights[j + 4],
                                screen_weights[j + 5],
                                screen_weights[j + 6],
                                screen_weights[j + 7],
                            )
                            v4, v5 = V[j + 4, start:stop], V[j + 5, start:stop]
                            v6, v7 = V[j + 6, start:stop], V[j + 7, start:stop]
                            for k in range(v0.shape[0]):
                                running[k] -= (
                                    w0 * v0[k] + w1 * v1[k] + w2 * v2[k] + w3 * v3[k]
                                    + w4 * v4[k] + w5 * v5[k] + w6 * v6[k] + w7 * v7[k]
                                )  # fmt: skip
                        else:
                            for k in range(v0.shape[0]):
                                running[k] -= w0 * v0[k] + w1 * v1[k] + w2 * v2[k] + w3 * v3[k]
                # Remove it from correlations and norms.
                own_correlation, own_norm = screen_correlation[start:stop], screen_norm[start:stop]
                own_score, direction = (
                    score[start:stop],
                    V[t - 1 if chosen >= 0 else longest, start:stop],
                )
                for k in range(direction.shape[0]):
                    value = running[k] * inverse
                    direction[k] = value
                    left = own_correlation[k] - step * value
                    own_correlation[k] = left
                    square = own_norm[k] - shrinking * value * value
                    own_norm[k] = square
                    own_score[k] = left * left / square
                for first in range(0, direction.shape[0], LANES):
                    part, part_norm = (
                        own_score[first : first + LANES],
                        own_norm[first : first + LANES],
                    )
                    for k in range(part.shape[0]):
                        highest[k] = part[k] if part[k] > highest[k] else highest[k]
                        lowest[k] = part_norm[k] if part_norm[k] < lowest[k] else lowest[k]
            chosen = -1
            top = highest[0]
            for lane in range(LANES):
                top = highest[lane] if highest[lane] > top else top
            if top <= 0:
                break
            threshold = top * (1 - MARGIN)
            best, best_score, best_correlation, best_square, dropped = -1, 0.0, 0.0, 1.0, False
            trusted = True
            for lane in range(LANES):
                if highest[lane] < threshold and lowest[lane] >= NORM_FLOOR:
                    continue
                for k in range(lane, n_atoms, LANES):
                    low = screen_norm[k] < NORM_FLOOR
                    if score[k] < threshold and not low:
                        continue
                    # Correlations of atom k with the directions, exactly: L trial = gram[chosen, k]
                    for j in range(t):
                        other = order[i, j]
                        trial[j] = gram[k, other] * (inverse_norm[k] * inverse_norm[other])
                    square, correlation = 1.0, correlations[i, k] * inverse_norm[k] / norm
                    for j in range(t):
                        value = trial[j] * inverse_diagonal[j]
                        trial[j] = value
                        square -= value * value
                        correlation -= value * target[j]
                        for m in range(j + 1, t):
                            trial[m] -= value * columns[j, m]
                    if square <= dependence:
                        screen_norm[k] = np.inf
                        dropped = True
                        continue
                    if (
                        low
                        or abs(screen_correlation[k] - correlation)
                        > CORRELATION_SLACK * abs(correlation)
                        or (forward and abs(screen_norm[k] - square) > NORM_SLACK)
                    ):
                        trusted = False
                    exact_score = correlation * correlation
                    if forward:
                        exact_score /= square
                    if exact_score > best_score or (exact_score == best_score and k < best):
                        best, best_score = k, exact_score
                        best_correlation, best_square = correlation, square
                        for j in range(t):
                            weights[j] = trial[j]
            if not trusted:
                t = -1
                break
            if best < 0 and dropped:
                continue
            if best < 0:
                break
            if best_square <= INDEPENDENCE and _is_dependent(
                best_square, weights, columns, inverse_diagonal, combination, rounding, t
            ):
                screen_norm[best] = np.inf
                continue
            if abs(best_correlation) <= noise:
                break
            for j in range(t):
                columns[j, t] = weights[j]
                screen_weights[j] = weights[j]
            order[i, t] = best
            inverse_diagonal[t] = 1 / np.sqrt(best_square)
            target[t] = best_correlation * inverse_diagonal[t]
            remaining -= target[t] ** 2
            screen_norm[best] = np.inf
            chosen = best
            t += 1
        count[i] = t
        _solve(factor, norm, inverse_norm, order[i], t, sizes, coefficients[i])


@kernel(CONTRACTED)
def _pursue_carefully(
    rows: Array, correlations: Array, norms: Array, problem: Any, factor: Any, exact: Array,
    sizes: Array, order: Array, count: Array, coefficients: Array,
) -> None:  # fmt: skip
    """Like `_pursue`, with V in float64 and no screen: all scores are exact.

    The rows of ``exact`` are work space for correlations, projected squared norms (0 for barred
    atoms) and the directions V.
    """
    gram, inverse_norm, forward, tol, noise, dependence, rounding = problem
    columns, inverse_diagonal, target, _, trial, combination = factor
    correlation, square = exact[0], exact[1]
    n_atoms, longest = correlations.shape[1], order.shape[1]
    for i in rows:
        norm = norms[i]
        for k in range(n_atoms):
            correlation[k] = correlations[i, k] * inverse_norm[k] / norm
            square[k] = 1.0 if inverse_norm[k] > 0 else 0.0
        limit = (tol / norm) ** 2 if tol >= 0 else -1.0
        remaining = 1.0
        t = 0
        while t < longest and remaining > limit:
            best, best_score = -1, 0.0
            for k in range(n_atoms):
                if square[k] > dependence:
                    score = correlation[k] * correlation[k]
                    if forward:
                        score /= square[k]
                    if score > best_score:
                        best, best_score = k, score
            if best < 0:
                break
            for j in range(t):
                trial[j] = exact[j + 2, best]
            if square[best] <= INDEPENDENCE and _is_dependent(
                square[best], trial, columns, inverse_diagonal, combination, rounding, t
            ):
                square[best] = 0.0
                continue
            if abs(correlation[best]) <= noise:
                break
            inverse = 1 / np.sqrt(square[best])
            step = correlation[best] * inverse
            for j in range(t):
                columns[j, t] = trial[j]
            order[i, t] = best
            inverse_diagonal[t], target[t] = inverse, step
            remaining -= step**2
            square[best] = 0.0
            row, direction = gram[best], exact[t + 2]
            for k in range(n_atoms):
                direction[k] = row[k] * (inverse_norm[k] * inverse_norm[best])
            for j in range(t):
                weight, other = columns[j, t], exact[j + 2]
                for k in range(n_atoms):
                    direction[k] -= weight * other[k]
            for k in range(n_atoms):
                value = direction[k] * inverse
                direction[k] = value
                correlation[k] -= value * step
                square[k] -= value * value
            t += 1
        count[i] = t
        _solve(factor, norm, inverse_norm, order[i], t, sizes, coefficients[i])


@inlined(CONTRACTED)
def _is_dependent(
    square: float, weights: Array, columns: Array, inverse_diagonal: Array, combination: Array,
    rounding: float, t: int,
) -> bool:  # fmt: skip
    """Whether a small projected squared norm is just rounding.

    ``weights`` are the atom's correlations with the t directions. Entries of the Gram matrix off
    by eps change the squared norm by up to eps (1 + sum |combination of the chosen atoms|)^2.
    """
    total = 1.0
    for j in range(t - 1, -1, -1):
        value = weights[j]
        for m in range(j + 1, t):
            value -= columns[j, m] * combination[m]
        combination[j] = value * inverse_diagonal[j]
        total += abs(combination[j])
    return square <= rounding * total * total


@inlined(CONTRACTED)
def _solve(
    factor: Any, norm: float, inverse_norm: Array, order: Array, count: int, sizes: Array,
    coefficients: Array,
) -> None:  # fmt: skip
    """Coefficients of each requested prefix of the chosen atoms, L' x = target, in turn."""
    columns, inverse_diagonal, target, solution = (
        factor.columns, factor.inverse_diagonal, factor.target, factor.trial,
    )  # fmt: skip
    first = 0
    for size in sizes:
        last = min(size, count)
        for j in range(last - 1, -1, -1):
            value = target[j]
            for m in range(j + 1, last):
                value -= columns[j, m] * solution[m]
            solution[j] = value * inverse_diagonal[j]
            coefficients[first + j] = solution[j] * (norm * inverse_norm[order[j]])
        first += size
