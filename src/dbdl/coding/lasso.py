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
when an atom joins and is mended by rotations when one leaves. Nearly all of the work is the sum
``weights @ gram[members]`` of each step, by which the correlations of all other atoms change. So a
step looks only at the atoms that are close to joining, and every few steps all correlations are
computed anew, which also takes the rounding out of them.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solve_triangular
from scipy.sparse import csr_matrix, vstack
from sklearn.exceptions import ConvergenceWarning

from dbdl._compile import REORDERED, kernel, pasted
from dbdl._threads import block_slices, run_blocks, single_threaded_blas
from dbdl.coding._checks import (
    aligned,
    as_matrices,
    as_matrix,
    check_finite,
    check_gram,
    check_rule,
)
from dbdl.coding._scales import (
    by_scale,
    in_dtype,
    scaled_number,
    unsafe_exponents,
    with_safe_atoms,
)
from dbdl.coding.omp import OVERFLOW, ROWS, _read_only, gram_matrix

Array = NDArray[Any]

# An atom whose squared norm, projected off the members, is below this part of its squared norm
# is taken as dependent on them: it stays out until a member leaves. Pictures that are in a data
# set twice differ by the rounding of their features, and would be given huge coefficients of
# opposite signs (in half precision the part is up to 1e-8).
DEPENDENCE = {"float64": 1e-8, "float32": 1e-5}

# Squared residuals below this part of the squared norm of the row are rounding.
ROUNDING = 1e-12

# The path ends where the penalty is rounding: this part of its first value.
SMALLEST_PENALTY = 1e-13

# Only this many atoms, those best correlated with the residual, are looked at in each step...
WATCHED = 256

# ... and after this many steps all atoms are. Where one should have joined that was not watched,
# the steps are taken again with it.
STRETCH = 16

# Correlations may pass the penalty by this part of it, and of its first value, which is rounding.
SLACK = 1e-12

# An atom ties with the newest member if that has moved from zero by less than so many times the
# smallest penalty.
TIED = 1e3

# Correlations of a row whose path goes in circles are moved by up to half this part of the largest,
# by multiples of the golden ratio, which are spread evenly.
PARTED = 1e-9
GOLDEN = 0.6180339887498949

# Stretches allowed for each atom that can be a member. On faces a path takes two steps a member;
# only ties among many atoms take more.
STRETCHES_PER_MEMBER = 2


def lasso(
    X: ArrayLike,
    atoms: ArrayLike,
    penalty: float | None = None,
    tol: float | None = None,
    gram: ArrayLike | None = None,
    factor: SharedFactor | None = None,
    n_threads: int = 1,
    *,
    n_nonzero: int | None = None,
) -> csr_matrix:
    r"""Code rows by the lasso, with a given penalty, residual or number of non-zeros.

    With ``penalty`` the code of a row :math:`x` over the atoms :math:`D` is

    .. math:: \arg\min_a \tfrac12 \|x - a D\|_2^2 + \text{penalty} \|a\|_1

    and with ``tol``

    .. math:: \arg\min_a \|a\|_1 \quad\text{subject to}\quad \|x - a D\|_2 \le \text{tol}.

    With ``n_nonzero`` the penalty falls until one more atom than that would join, for every row
    by itself: the code is the last of the row's path before it has more non-zeros. Of atoms that
    would join together, those that find no room are left out.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Rows to code.
    atoms : array-like of shape (n_atoms, n_features)
        Dictionary, of any norms: the norm of an atom counts. Zero atoms are never used, nor are
        those under 1e-90 of the largest; of equal or dependent atoms an independent part is.
    penalty : float, optional
        Weight of the sum of absolute coefficients, 0 or more. scikit-learn's ``alpha`` times the
        number of features.
    tol : float, optional
        Largest *norm* of the residual, not its square. Where the atoms cannot meet it, the code
        has the least residual. Under 1e-7 of the norm of the row it is rounding and acts like 0.
    gram : array-like of shape (n_atoms, n_atoms), optional
        ``atoms @ atoms.T``, where it is at hand; computed in float64 otherwise. The codes can be no
        more exact than it is.
    factor : SharedFactor, optional
        Of the Gram matrix. With it, rows that cannot meet ``tol`` are coded at once.
    n_threads : int, default=1
        Number of threads. Any number gives the same bits.
    n_nonzero : int, optional
        Largest number of non-zeros of a row, 1 or more.

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
    check_rule(penalty, tol, n_nonzero)
    rows, dictionary = as_matrices(X, atoms)
    check_finite(rows, "X")
    check_finite(dictionary, "atoms")
    asked, wide = rows.dtype, np.dtype(np.float64)
    rows, dictionary = aligned(rows, wide), aligned(dictionary, wide)
    products, dependence = None, DEPENDENCE["float64"]
    if gram is not None:
        products = check_gram(as_matrix(gram, "gram"), len(dictionary))
        dependence = DEPENDENCE[products.dtype.name]
        products = aligned(products, wide)
    dictionary, atom_exponent, is_new = with_safe_atoms(dictionary, products)
    if is_new:
        products, factor, dependence = None, None, DEPENDENCE["float64"]
    if products is None:
        products = gram_matrix(dictionary, n_threads)
    most = min(dictionary.shape)
    wanted = most if n_nonzero is None else int(n_nonzero)

    def code_rows(rows: Array, exponent: int) -> list[csr_matrix]:
        own_penalty = scaled_number(penalty, -exponent - atom_exponent)
        own_tol = scaled_number(tol, -exponent)
        problem = _Problem(
            _read_only(products),
            -1.0 if own_penalty is None else float(own_penalty),
            -1.0 if own_tol is None else float(own_tol),
            dependence,
            min(most, wanted + 1),
            wanted,
        )

        def code(block: slice) -> csr_matrix:
            return _code_block(rows[block], dictionary, problem, factor)

        blocks = run_blocks(code, block_slices(len(rows), ROWS), n_threads)
        return [vstack(blocks, format="csr") if blocks else csr_matrix((0, len(dictionary)))]

    atom_exponents = np.full(len(dictionary), atom_exponent) if atom_exponent else None
    codes = by_scale(code_rows, rows, unsafe_exponents(rows), atom_exponents)
    return in_dtype(codes[0], asked)


class SharedFactor(NamedTuple):
    """Cholesky factor of the Gram matrix of atoms, to be shared by all rows coded with a ``tol``.

    A row that the atoms cannot meet has the code of least squares, which the factor gives in one
    step; the path takes a step for every atom.
    """

    atom: Array  # (n_independent,), numbers of the atoms that are no copies of earlier ones
    factor: Array  # (n_independent, n_independent), lower triangle

    @staticmethod
    def of(gram: Array, n_features: int) -> SharedFactor | None:
        """Factor a Gram matrix (n_atoms, n_atoms) in float64; None where that is of no use.

        More atoms than features meet any row, and of atoms that depend on several others there is
        no one code of least squares.
        """
        norm = np.sqrt(gram.diagonal())
        if len(gram) > n_features or not (norm > 0).all():
            return None
        dependence = DEPENDENCE["float64"]
        cosine = np.tril(np.abs(gram), -1) / norm / norm[:, np.newaxis]
        atom = np.flatnonzero((1 - cosine**2 > dependence).all(axis=1))
        own = gram[np.ix_(atom, atom)]
        with single_threaded_blas():
            try:
                factor = np.linalg.cholesky(own)
            except np.linalg.LinAlgError:
                return None
        projected = factor.diagonal() ** 2
        return (
            SharedFactor(atom, factor) if (projected > dependence * own.diagonal()).all() else None
        )

    def least_squares(self, correlations: Array) -> tuple[Array, Array]:
        """Codes of rows by their correlations (n_rows, n_atoms), and how much they explain.

        That is the squared norm of the row less that of its residual.
        """
        own = correlations[:, self.atom].T
        part = solve_triangular(self.factor, own, lower=True, check_finite=False)
        codes = np.zeros_like(correlations)
        codes[:, self.atom] = solve_triangular(
            self.factor, part, lower=True, trans="T", check_finite=False
        ).T
        return codes, np.einsum("ji,ji->i", part, part)


def _code_block(
    rows: Array, atoms: Array, problem: _Problem, factor: SharedFactor | None
) -> csr_matrix:
    """Code up to ROWS rows; padded, so that a row alone has the bits of the row in a batch."""
    padded = np.zeros((ROWS, rows.shape[1]))
    padded[: len(rows)] = rows
    correlations = padded @ atoms.T
    if not np.isfinite(correlations).all():
        raise ValueError(OVERFLOW)
    squares = np.einsum("ij,ij->i", rows, rows)
    codes = np.zeros((len(rows), len(atoms)))
    open_rows = np.arange(len(rows))
    if factor is not None and problem.tol >= 0:
        least, explained = (values[: len(rows)] for values in factor.least_squares(correlations))
        unmet = squares - explained > problem.tol**2 + ROUNDING * squares
        codes[unmet] = least[unmet]
        open_rows = np.flatnonzero(~unmet)
    if not _follow_all(correlations, squares, problem, open_rows, codes):
        warnings.warn(
            "The path of a row took too many steps and was cut short: its code has a larger "
            "penalty, or fewer non-zeros, than asked for. Many atoms tie; drop copies of atoms.",
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
    most_members: int  # that there is room for
    n_nonzero: int  # that are wanted: the path ends before one more joins


class _Path(NamedTuple):
    """Where the path of one row is: members, their factor, and the code."""

    member: Array  # (most_members,), atom numbers
    sign: Array  # (most_members,)
    code: Array  # (most_members,)
    weights: Array  # (most_members,), G^-1 s: change of the code as the penalty falls by one
    factor: Array  # (most_members, most_members), factor[j, i] = L[i, j]: by columns
    trial: Array  # (most_members,), the row of L in the making
    row_part: Array  # (most_members,), L^-1 c
    sign_part: Array  # (most_members,), L^-1 s


class _Watch(NamedTuple):
    """The atoms that may join in the next steps. The first ``n_watched`` entries count."""

    atom: Array  # (n_atoms,), atom numbers
    place: Array  # (n_atoms,), where an atom is in this list; -1: not watched
    correlation: Array  # (n_atoms,), with the residual
    change: Array  # (n_atoms,), of the correlation as the penalty falls by one, negated
    distance: Array  # (n_atoms,), fall of the penalty until the atom joins
    barred: Array  # (n_atoms,), infinity for members and atoms dependent on them, else 0
    table: Array  # (most_members, n_atoms), gram[member, atom] at row slot[j] for member j
    slot: Array  # (most_members,), row of the table of each member; free rows at the end


@kernel()
def _new_path(most: int) -> Any:
    return _Path(
        np.zeros(most, np.int64),
        np.zeros(most),
        np.zeros(most),
        np.zeros(most),
        np.zeros((most, most)),
        np.zeros(most),
        np.zeros(most),
        np.zeros(most),
    )


@kernel()
def _new_watch(n_atoms: int, most: int) -> Any:
    return _Watch(
        np.zeros(n_atoms, np.int64),
        np.full(n_atoms, -1),
        np.zeros(n_atoms),
        np.zeros(n_atoms),
        np.zeros(n_atoms),
        np.zeros(n_atoms),
        np.zeros((most, n_atoms)),
        np.arange(most),
    )


@kernel(REORDERED)
def _follow_all(
    correlations: Array, squares: Array, problem: Any, numbers: Array, codes: Array
) -> bool:
    """Fill in the codes of the rows with these numbers; False where a path was cut short."""
    n_atoms, most = problem.gram.shape[0], problem.most_members
    path, saved = _new_path(most), _new_path(most)
    watch = _new_watch(n_atoms, most)
    before, after = np.zeros(n_atoms), np.zeros(n_atoms)
    complete = True
    for i in numbers:
        start = correlations[i].copy()
        for _attempt in range(2):
            n, arrived = _follow(start, squares[i], problem, path, saved, watch, before, after)
            if arrived:
                break
            _part_ties(start)
        for j in range(n):
            if path.code[j] * path.sign[j] > 0:  # else zero but for rounding
                codes[i, path.member[j]] = path.code[j]
        complete = complete and arrived
    return complete


@kernel()
def _part_ties(correlation: Array) -> None:
    """Move correlations apart a little, each in its own way: ties can send a path in circles."""
    size = PARTED * abs(correlation[_best(correlation)])
    for k in range(correlation.shape[0]):
        correlation[k] += size * ((k * GOLDEN) % 1.0 - 0.5)


@pasted(REORDERED)
def _follow(
    start: Array,
    square: float,
    problem: Any,
    path: Any,
    saved: Any,
    watch: Any,
    before: Array,
    after: Array,
) -> Any:
    """Follow the path of one row to its end: number of members, and whether it got there."""
    best = _best(start)
    first = abs(start[best])
    floor = SMALLEST_PENALTY * first
    lowest = max(problem.penalty, floor)
    if first <= lowest or square <= problem.tol * abs(problem.tol):
        return 0, True
    before[:] = start
    now, n = first, _join(best, np.sign(start[best]), start, problem, path, 0)
    slack = SLACK * first
    for _ in range(STRETCHES_PER_MEMBER * (problem.most_members + 5)):
        _copy(path, saved, n)
        n_watched = _choose_watched(before, problem, path, watch, n)
        while True:
            n_after, now_after, arrived, n_watched = _walk(
                start, square, now, lowest, floor, problem, path, watch, n, n_watched
            )
            _sum_rows(problem.gram, path.member, path.code, n_after, after)
            for k in range(start.shape[0]):
                after[k] = start[k] - after[k]
            limit = now_after + SLACK * now_after + slack
            n_more = _watch_missed(after, limit, problem, watch, n_watched)
            if n_more == n_watched:
                break
            n_watched = n_more
            _copy(saved, path, n)
            _fill(before, problem, path, watch, n, n_watched)
        n, now = n_after, now_after
        if arrived:
            return n, True
        before[:] = after
    return n, False


@kernel()
def _copy(source: Any, target: Any, n: int) -> None:
    target.member[:n] = source.member[:n]
    target.sign[:n] = source.sign[:n]
    target.code[:n] = source.code[:n]
    target.row_part[:n] = source.row_part[:n]
    target.sign_part[:n] = source.sign_part[:n]
    for j in range(n):
        target.factor[j, j:n] = source.factor[j, j:n]


@kernel()
def _choose_watched(correlation: Array, problem: Any, path: Any, watch: Any, n: int) -> int:
    """Watch the atoms best correlated with the residual; their number."""
    watch.place[:] = -1
    size = np.abs(correlation)
    n_atoms = size.shape[0]
    for j in range(n):
        size[path.member[j]] = -1.0
    least = 0.0
    if n_atoms > WATCHED + n:
        least = np.partition(size, n_atoms - WATCHED)[n_atoms - WATCHED]
    n_watched = 0
    for k in range(n_atoms):
        if size[k] >= least and problem.gram[k, k] > 0:
            watch.atom[n_watched] = k
            watch.place[k] = n_watched
            n_watched += 1
    _fill(correlation, problem, path, watch, n, n_watched)
    return n_watched


@kernel()
def _watch_missed(
    correlation: Array, limit: float, problem: Any, watch: Any, n_watched: int
) -> int:
    """Watch the atoms that should have joined but were not watched; the new number watched.

    Members are watched or have a correlation of the penalty.
    """
    for k in range(correlation.shape[0]):
        if abs(correlation[k]) > limit and watch.place[k] < 0 and problem.gram[k, k] > 0:
            watch.atom[n_watched] = k
            watch.place[k] = n_watched
            n_watched += 1
    return n_watched


@kernel()
def _fill(correlation: Array, problem: Any, path: Any, watch: Any, n: int, n_watched: int) -> None:
    """Correlations of the watched atoms, and their products with the members."""
    for i in range(n_watched):
        watch.correlation[i] = correlation[watch.atom[i]]
    _bar_members(path, watch, n, n_watched)
    for j in range(n):
        _fill_row(problem, path, watch, j, n_watched)


@kernel()
def _fill_row(problem: Any, path: Any, watch: Any, j: int, n_watched: int) -> None:
    row, out, atom = problem.gram[path.member[j]], watch.table[watch.slot[j]], watch.atom
    for i in range(n_watched):
        out[i] = row[atom[i]]


@kernel()
def _bar_members(path: Any, watch: Any, n: int, n_watched: int) -> None:
    watch.barred[:n_watched] = 0.0
    for j in range(n):
        place = watch.place[path.member[j]]
        if place >= 0:
            watch.barred[place] = np.inf


@pasted(REORDERED)
def _walk(
    start: Array,
    square: float,
    now: float,
    lowest: float,
    floor: float,
    problem: Any,
    path: Any,
    watch: Any,
    n: int,
    n_watched: int,
) -> Any:
    """Take some steps, as if only the watched atoms were there.

    Returns the number of members, the penalty, whether the path came to its end, and the number
    of watched atoms: a member that leaves is watched from then on.
    """
    n_steps = 0
    while n_steps < STRETCH:
        path.weights[:n] = path.sign_part[:n]
        _solve_back(path.factor, path.weights, n)
        _sum_rows(watch.table, watch.slot, path.weights, n, watch.change[:n_watched])
        fall, joining = np.inf, -1
        if n < problem.most_members:
            fall, joining = _next_to_join(watch, now, n_watched)
        fall_out, leaving = _next_to_leave(path, n)
        end = lowest
        if problem.tol >= 0:
            end = max(_penalty_at(problem.tol, square, path, n), lowest)
        if now - min(fall, fall_out) <= end:
            # rounding alone can put the end behind us
            now = 0.0 if end == floor else min(end, now)
            _set_code(path, n, now)
            return n, now, True, n_watched
        now -= min(fall, fall_out)
        for j in range(n):
            path.code[j] += min(fall, fall_out) * path.weights[j]
        for i in range(n_watched):
            watch.correlation[i] -= min(fall, fall_out) * watch.change[i]
        if fall_out <= fall:
            gone = path.member[leaving]
            correlation = path.sign[leaving] * now
            n = _leave(leaving, path, watch, n)
            if watch.place[gone] < 0:
                _watch_also(gone, correlation, problem, path, watch, n, n_watched)
                n_watched += 1
            # what depended on the members may not depend on those that are left
            _bar_members(path, watch, n, n_watched)
            n_steps += 1
        else:
            k = watch.atom[joining]
            watch.barred[joining] = np.inf
            more = _join(k, np.sign(watch.correlation[joining]), start, problem, path, n)
            if more > problem.n_nonzero:
                newest = path.code[n - 1] * problem.gram[path.member[n - 1], path.member[n - 1]]
                if abs(newest) > TIED * floor:
                    _set_code(path, n, now)
                    return n, now, True, n_watched
                more = n  # it ties with the newest member: left out, or the code might be zero
            if more > n:  # copies of a member do not join, and many would use up every stretch
                _fill_row(problem, path, watch, n, n_watched)
                n_steps += 1
            n = more
    _set_code(path, n, now)
    return n, now, False, n_watched


@kernel()
def _watch_also(
    k: int, correlation: float, problem: Any, path: Any, watch: Any, n: int, n_watched: int
) -> None:
    watch.atom[n_watched] = k
    watch.place[k] = n_watched
    watch.correlation[n_watched] = correlation
    for j in range(n):
        watch.table[watch.slot[j], n_watched] = problem.gram[path.member[j], k]


@kernel()
def _best(correlation: Array) -> int:
    best = 0
    for k in range(correlation.shape[0]):
        if abs(correlation[k]) > abs(correlation[best]):
            best = k
    return best


@pasted(REORDERED)
def _join(k: int, sign: float, start: Array, problem: Any, path: Any, n: int) -> int:
    """Add atom k to the members and a row to the factor, unless it depends on the members."""
    row, own = path.trial, problem.gram[k]
    for j in range(n):
        row[j] = own[path.member[j]]
    for j in range(n):
        value = row[j] / path.factor[j, j]
        row[j] = value
        rest, column = row[j + 1 : n], path.factor[j, j + 1 : n]
        for i in range(rest.shape[0]):
            rest[i] -= value * column[i]
    square, row_part, sign_part = own[k], start[k], sign
    for j in range(n):
        square -= row[j] * row[j]
        row_part -= row[j] * path.row_part[j]
        sign_part -= row[j] * path.sign_part[j]
    if square <= problem.dependence * own[k]:
        return n
    length = np.sqrt(square)
    for j in range(n):
        path.factor[j, n] = row[j]
    path.factor[n, n] = length
    path.row_part[n] = row_part / length
    path.sign_part[n] = sign_part / length
    path.member[n] = k
    path.sign[n] = sign
    path.code[n] = 0.0
    return n + 1


@pasted(REORDERED)
def _leave(gone: int, path: Any, watch: Any, n: int) -> int:
    """Take member number ``gone`` out, and bring the factor back to lower form by rotations."""
    free = watch.slot[gone]
    for i in range(gone, n - 1):
        path.member[i] = path.member[i + 1]
        path.sign[i] = path.sign[i + 1]
        path.code[i] = path.code[i + 1]
        watch.slot[i] = watch.slot[i + 1]
    watch.slot[n - 1] = free
    for j in range(n):  # row ``gone`` of L goes, those below move up
        column = path.factor[j]
        for i in range(max(gone, j - 1), n - 1):
            column[i] = column[i + 1]
    for i in range(gone, n - 1):
        # rotate columns i and i + 1, so that row i has no entry in the second
        left, right = path.factor[i, i : n - 1], path.factor[i + 1, i : n - 1]
        length = np.hypot(left[0], right[0])
        cosine, sine = left[0] / length, right[0] / length
        for j in range(left.shape[0]):
            a, b = left[j], right[j]
            left[j] = cosine * a + sine * b
            right[j] = cosine * b - sine * a
        for part in (path.row_part, path.sign_part):
            a, b = part[i], part[i + 1]
            part[i] = cosine * a + sine * b
            part[i + 1] = cosine * b - sine * a
    return n - 1


@pasted(REORDERED)
def _set_code(path: Any, n: int, penalty: float) -> None:
    """Code at a penalty, from the factor.

    An atom that has just joined can have the wrong sign by rounding. That stays: members would
    otherwise no longer have correlations of the penalty, and the error would grow.
    """
    for j in range(n):
        path.code[j] = path.row_part[j] - penalty * path.sign_part[j]
    _solve_back(path.factor, path.code, n)


@pasted(REORDERED)
def _solve_back(factor: Array, values: Array, n: int) -> None:
    """Solve L' x = values in place."""
    for j in range(n - 1, -1, -1):
        known, column = values[j + 1 : n], factor[j, j + 1 : n]
        value = values[j]
        for i in range(known.shape[0]):
            value -= column[i] * known[i]
        values[j] = value / factor[j, j]


@pasted(REORDERED)
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


@pasted(REORDERED)
def _next_to_join(watch: Any, now: float, n_watched: int) -> Any:
    """How far the penalty falls until an atom's correlation meets it, and whose in the list."""
    correlation, change = watch.correlation[:n_watched], watch.change[:n_watched]
    distance, barred = watch.distance[:n_watched], watch.barred[:n_watched]
    for i in range(n_watched):
        # at or past the penalty by rounding or a tie: joins at once, if it does not turn back
        up = max(now - correlation[i], 0.0) / (1 - change[i])
        down = max(now + correlation[i], 0.0) / (1 + change[i])
        up = up if change[i] < 1 else np.inf
        down = down if change[i] > -1 else np.inf
        distance[i] = min(up, down) + barred[i]
    least, which = np.inf, -1
    for i in range(n_watched):
        if distance[i] < least:
            least, which = distance[i], i
    return least, which


@pasted(REORDERED)
def _next_to_leave(path: Any, n: int) -> Any:
    """How far the penalty falls until a coefficient is zero, and whose."""
    least, which = np.inf, -1
    for j in range(n):
        if path.weights[j] * path.sign[j] < 0:
            fall = max(-path.code[j] / path.weights[j], 0.0)
            if fall < least:
                least, which = fall, j
    return least, which


@pasted(REORDERED)
def _penalty_at(tol: float, square: float, path: Any, n: int) -> float:
    """Penalty at which these members leave a residual of norm ``tol``; 0 where they cannot."""
    left, slope = square, 0.0
    for j in range(n):
        left -= path.row_part[j] * path.row_part[j]
        slope += path.sign_part[j] * path.sign_part[j]
    if left >= tol * tol or slope == 0.0:
        return 0.0
    return np.sqrt((tol * tol - left) / slope)
