"""Sparse codes by the lasso: ``X ~ codes @ atoms`` with a small sum of absolute coefficients.

The code of a row is followed from zero as the penalty falls (homotopy, or LARS with the lasso
modification: Osborne, Presnell and Turlach 2000; Efron, Hastie, Johnstone and Tibshirani 2004). At
a penalty ``p`` the atoms of the code, the *members* with signs ``s``, have correlations ``p s``
with the residual, and the correlations of all other atoms are smaller:

    code(p) = G^-1 (c - p s),   |residual|^2 = |x|^2 - |L^-1 c|^2 + p^2 |L^-1 s|^2

with ``G = L L'`` the Gram matrix and ``c`` the correlations ``atoms @ x`` of the members. The code
is linear in ``p`` until an atom's correlation reaches ``p`` (it joins) or a coefficient reaches
zero (it leaves), so both stopping rules are solved for exactly.

Everything is done in Gram space and in float64. All rows share one Gram matrix, and the
correlations of a block of rows come from one product. Each row has the Cholesky factor ``L`` of its
members, which gains a row when an atom joins and is repaired by rotations when one leaves. Nearly
all of the work is the sum ``weights @ gram[members]`` of each step, by which the correlations of
all other atoms change. A step therefore considers only the atoms that are close to joining. Every
few steps all correlations are recomputed, which also removes their accumulated rounding.

The path to a number of non-zeros passes the codes of all smaller numbers, so one path gives them
all. It takes the same steps as if only the largest number were asked for. Where it passes a smaller
one, all correlations are computed, as at the end of a path. If they are right, the code has the
bits that it has at the end of its own path. Otherwise, and if atoms tie there, the path to the
smaller number goes on in another way, and is followed by itself.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solve_triangular
from scipy.sparse import csr_matrix
from sklearn.exceptions import ConvergenceWarning

from dbdl._arrays import Array
from dbdl._compile import REORDERED, inlined, kernel, pasted
from dbdl._products import row_products, row_squares
from dbdl._threads import block_slices, run_blocks, single_threaded_blas
from dbdl.coding._checks import (
    aligned,
    as_matrices,
    as_matrix,
    check_finite,
    check_gram,
    check_rule,
)
from dbdl.coding._scales import by_scale, in_dtype, scaled_number, unsafe_exponents, with_safe_atoms
from dbdl.coding.omp import OVERFLOW, ROWS, codes_of_entries, gram_matrix

# An atom whose squared norm, projected off the members, is below this fraction of its squared norm
# is treated as dependent on them: it stays out until a member leaves. Two copies of a picture in a
# data set differ only by the rounding of their features, and would get huge coefficients of
# opposite signs (in half precision the fraction is up to 1e-8).
DEPENDENCE = {"float64": 1e-8, "float32": 1e-5}

# Squared residuals below this fraction of the squared norm of the row are rounding.
ROUNDING = 1e-12

# The path ends where the penalty is rounding: at this fraction of its first value.
SMALLEST_PENALTY = 1e-13

# Each step watches about this many atoms, those best correlated with the residual. Their least
# correlation is found by bisection, in this many steps.
WATCHED = 256
BISECTIONS = 20

# After this many steps all atoms are checked. If one that was not watched should have joined, the
# steps are repeated with it.
STRETCH = 16

# Correlations may exceed the penalty by this fraction of it, and of its first value: rounding.
SLACK = 1e-12

# An atom ties with the newest member if that has moved from zero by less than this multiple of the
# smallest penalty.
TIED = 1e3

# If the path of a row cycles, its correlations are shifted by up to half this fraction of the
# largest, by multiples of the golden ratio, which are spread evenly.
PARTED = 1e-9
GOLDEN = 0.6180339887498949

# Stretches allowed per atom that can be a member. On faces a path takes two steps per member; only
# ties among many atoms take more.
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

    With ``n_nonzero`` the penalty of each row falls until more atoms than that would join: the code
    is the last on the row's path with at most ``n_nonzero`` non-zeros. If several atoms would join
    at once, only as many join as there is room for.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Rows to code.
    atoms : array-like of shape (n_atoms, n_features)
        Dictionary of atoms of any norm; the norm of an atom matters. Zero atoms are never used, nor
        are atoms under 1e-90 of the largest. Of equal or dependent atoms, an independent subset is
        used.
    penalty : float, optional
        Weight of the sum of absolute coefficients, 0 or more. It equals scikit-learn's ``alpha``
        times the number of features.
    tol : float, optional
        Largest *norm* of the residual, not its square. If the atoms cannot reach it, the code has
        the least residual. Below 1e-7 of the norm of the row it is rounding and acts like 0.
    gram : array-like of shape (n_atoms, n_atoms), optional
        ``atoms @ atoms.T``; computed in float64 if not given. The codes are at most as exact as
        this matrix.
    factor : SharedFactor, optional
        Factor of the Gram matrix. With it, rows that cannot reach ``tol`` are coded in one step.
    n_threads : int, default=1
        Number of threads. The result does not depend on it.
    n_nonzero : int, optional
        Largest number of non-zeros of a row, 1 or more.

    Returns
    -------
    codes : csr_matrix of shape (n_samples, n_atoms)
        With sorted column indices, in the float dtype of ``X``.

    Examples
    --------
    >>> from dbdl.coding import lasso
    >>> lasso([[3.0, -1.0]], [[1.0, 0.0], [0.0, 1.0]], penalty=0.5).toarray()
    array([[ 2.5, -0.5]])
    """
    check_rule(penalty, tol, n_nonzero)
    lengths = None if n_nonzero is None else [int(n_nonzero)]
    return _code(X, atoms, lengths, penalty, tol, gram, factor, n_threads)[0]


def lasso_each(
    X: ArrayLike,
    atoms: ArrayLike,
    n_nonzero: Sequence[int],
    gram: ArrayLike | None = None,
    n_threads: int = 1,
) -> list[csr_matrix]:
    """Codes for several numbers of non-zeros from one path per row.

    Parameters
    ----------
    X, atoms, gram, n_threads
        As for :func:`lasso`.
    n_nonzero : sequence of int
        Numbers of non-zeros, in any order.

    Returns
    -------
    codes : list of csr_matrix of shape (n_samples, n_atoms)
        One per entry of ``n_nonzero``, equal to that of :func:`lasso` bit for bit.

    Examples
    --------
    >>> from dbdl.coding.lasso import lasso_each
    >>> [codes.toarray() for codes in lasso_each([[3.0, -1.0]], [[1.0, 0.0], [0.0, 1.0]], [1, 2])]
    [array([[2., 0.]]), array([[ 3., -1.]])]
    """
    for length in n_nonzero:
        check_rule(None, None, length)
    return _code(X, atoms, [int(n) for n in n_nonzero], None, None, gram, None, n_threads)


def _code(
    X: ArrayLike,
    atoms: ArrayLike,
    lengths: list[int] | None,
    penalty: float | None,
    tol: float | None,
    gram: ArrayLike | None,
    factor: SharedFactor | None,
    n_threads: int,
) -> list[csr_matrix]:
    """Check the arrays and code, for each length; None for codes of any number of non-zeros."""
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
    wanted = [most] if lengths is None else [min(n, most) for n in lengths]
    sizes, place = np.unique(np.array(wanted, dtype=np.int64), return_inverse=True)

    def code_rows(rows: Array, exponent: int) -> list[csr_matrix]:
        own_penalty = scaled_number(penalty, -exponent - atom_exponent)
        own_tol = scaled_number(tol, -exponent)
        problem = _Problem(
            np.require(products, requirements=["W"]),  # the kernel is compiled for writable arrays
            -1.0 if own_penalty is None else float(own_penalty),
            -1.0 if own_tol is None else float(own_tol),
            dependence,
            min(most, int(sizes[-1]) + 1),
            sizes,
        )

        def code(block: slice) -> list[_Entries]:
            return _code_block(rows[block], dictionary, problem, factor)

        blocks = run_blocks(code, block_slices(len(rows), ROWS), n_threads)
        if not blocks:
            return [csr_matrix((0, len(dictionary))) for _ in sizes]
        return [_join(parts, len(dictionary)) for parts in zip(*blocks, strict=True)]

    atom_exponents = np.full(len(dictionary), atom_exponent) if atom_exponent else None
    codes = by_scale(code_rows, rows, unsafe_exponents(rows), atom_exponents)
    return [in_dtype(codes[p], asked) for p in place]


class SharedFactor(NamedTuple):
    """Cholesky factor of the Gram matrix of atoms, shared by all rows coded with a ``tol``.

    If the atoms cannot reach ``tol`` for a row, its code is that of least squares. The factor gives
    it in one step; the path takes at least one step per atom.
    """

    atom: Array  # (n_independent,), indices of the atoms that do not copy earlier ones
    inverse: Array  # (n_independent, n_independent), inverse of the factor, a lower triangle
    transposed: Array  # the same, transposed

    @staticmethod
    def of(gram: Array, n_features: int) -> SharedFactor | None:
        """Factor a Gram matrix (n_atoms, n_atoms) in float64; None if it would be of no use.

        With more atoms than features every row can be reached. If atoms depend on several others,
        the code of least squares is not unique.
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
            if not (factor.diagonal() ** 2 > dependence * own.diagonal()).all():
                return None
            inverse = solve_triangular(factor, np.eye(len(factor)), lower=True, check_finite=False)
        return SharedFactor(atom, np.ascontiguousarray(inverse), np.ascontiguousarray(inverse.T))

    def least_squares(self, correlations: Array) -> tuple[Array, Array]:
        """Codes of rows from their correlations (n_rows, n_atoms), and how much they explain.

        A code explains the squared norm of the row minus that of its residual.
        """
        part = row_products(np.ascontiguousarray(correlations[:, self.atom]), self.inverse)
        codes = np.zeros_like(correlations)
        codes[:, self.atom] = row_products(part, self.transposed)
        return codes, row_squares(part)


class _Entries(NamedTuple):
    """Non-zeros of the codes of some rows, row by row."""

    n_used: Array  # (n_rows,), number of non-zeros of each row
    atom: Array  # (n_entries,)
    coefficient: Array  # (n_entries,)


def _join(blocks: Sequence[_Entries], n_atoms: int) -> csr_matrix:
    """Codes (n_samples, n_atoms) of all rows, from the entries of their blocks."""
    n_used, atom, coefficient = map(np.concatenate, zip(*blocks, strict=True))
    return codes_of_entries(n_used, atom, coefficient, n_atoms)


def _code_block(
    rows: Array, atoms: Array, problem: _Problem, factor: SharedFactor | None
) -> list[_Entries]:
    """Codes of some rows, for each length of the problem."""
    correlations = row_products(rows, atoms)
    if not np.isfinite(correlations).all():
        raise ValueError(OVERFLOW)
    squares = row_squares(rows)
    lengths, n_atoms, most = problem.lengths, len(atoms), problem.most_members
    codes = _new_codes(len(lengths), len(rows), most)
    if factor is not None and problem.tol >= 0:
        least, explained = factor.least_squares(correlations)
        unmet = squares - explained > problem.tol**2 + ROUNDING * squares
        for i in np.flatnonzero(unmet).tolist():
            codes.write(i, least[i])
    paths, watch = (_new_path(most), _new_path(most)), _new_watch(n_atoms, most)
    scratch = np.zeros((3, n_atoms))
    complete = True
    for some in [slice(len(lengths)), *(slice(m, m + 1) for m in range(len(lengths)))]:
        todo = np.flatnonzero((codes.n_used[some] < 0).any(axis=0))
        if not len(todo):
            continue
        own, out = problem._replace(lengths=lengths[some]), codes.of_lengths(some)
        complete &= _follow(todo, correlations, squares, own, *paths, watch, *scratch, out)
    if not complete:
        warnings.warn(
            "The path of a row took too many steps and was cut short: its code has a larger "
            "penalty, or fewer non-zeros, than requested. Many atoms tie; drop copies of atoms.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return codes.entries()


# -------------------------------------------------------------------------------------- kernels


class _Problem(NamedTuple):
    """The parts of the problem that all rows share."""

    gram: Array  # (n_atoms, n_atoms)
    penalty: float  # negative if there is none
    tol: float  # negative if there is none
    dependence: float
    most_members: int  # room for this many
    lengths: Array  # (n_lengths,), numbers of non-zeros, increasing; no more join at the last


class _Path(NamedTuple):
    """The state of one row's path: members, their factor, and the code."""

    member: Array  # (most_members,), atom indices
    sign: Array  # (most_members,)
    code: Array  # (most_members,), changed step by step
    solved: Array  # (most_members,), the code from the factor, after the last step of a walk
    row_part: Array  # (most_members,), L^-1 c
    sign_part: Array  # (most_members,), L^-1 s
    factor: Array  # (most_members, most_members), factor[j, i] = L[i, j]: by columns


class _Watch(NamedTuple):
    """The atoms that may join in the next steps. The first ``n_watched`` entries count."""

    atom: Array  # (n_atoms,), atom indices
    place: Array  # (n_atoms,), position of an atom in this list; -1 if not watched
    correlation: Array  # (n_atoms,), with the residual
    change: Array  # (n_atoms,), of the correlation as the penalty falls by one, negated
    distance: Array  # (n_atoms,), fall of the penalty until the atom joins
    barred: Array  # (n_atoms,), infinity for members and atoms dependent on them, else 0
    table: Array  # (most_members, n_atoms), gram[member, atom] at row slot[j] for member j
    slot: Array  # (most_members,), row of the table of each member; free rows at the end
    weights: Array  # (most_members,), G^-1 s: change of the code as the penalty falls by one
    trial: Array  # (most_members,), the row of L being computed


class _Codes(NamedTuple):
    """Codes of some rows for each length, of which the first ``n_used`` members count."""

    member: Array  # (n_lengths, n_rows, most_members), atom indices
    coefficient: Array  # (n_lengths, n_rows, most_members)
    n_used: Array  # (n_lengths, n_rows); -1 for a code that is not known yet

    def of_lengths(self, some: slice) -> _Codes:
        """Return the codes of some of the lengths, in the same memory."""
        return _Codes(*(part[some] for part in self))

    def write(self, i: int, code: Array) -> None:
        """Set the code (n_atoms,) of a row for all lengths."""
        used = np.flatnonzero(code)
        self.n_used[:, i] = len(used)
        self.member[:, i, : len(used)] = used
        self.coefficient[:, i, : len(used)] = code[used]

    def entries(self) -> list[_Entries]:
        """List the entries of the codes, for each length."""
        chosen = np.arange(self.member.shape[2]) < self.n_used[:, :, np.newaxis]
        return [
            _Entries(n_used, member[some], coefficient[some])
            for member, coefficient, n_used, some in zip(*self, chosen, strict=True)
        ]


def _new_codes(n_lengths: int, n_rows: int, most: int) -> _Codes:
    shape = (n_lengths, n_rows, most)
    return _Codes(np.empty(shape, np.int32), np.empty(shape), np.full(shape[:2], -1))


def _new_path(most: int) -> _Path:
    sign, code, solved, row_part, sign_part = np.zeros((5, most))
    member, factor = np.zeros(most, np.int64), np.zeros((most, most))
    return _Path(member, sign, code, solved, row_part, sign_part, factor)


def _new_watch(n_atoms: int, most: int) -> _Watch:
    correlation, change, distance, barred = np.zeros((4, n_atoms))
    weights, trial = np.zeros((2, most))
    atom, place = np.zeros(n_atoms, np.int64), np.full(n_atoms, -1)
    table, slot = np.zeros((most, n_atoms)), np.arange(most)
    return _Watch(atom, place, correlation, change, distance, barred, table, slot, weights, trial)


@kernel(REORDERED)
def _follow(
    rows: Array, correlations: Array, squares: Array, problem: Any, kept: Any, tried: Any,
    watch: Any, start: Array, before: Array, after: Array, codes: Any,
) -> bool:  # fmt: skip
    """Follow the paths of the rows with these indices; False if one was cut short.

    ``kept`` is the path as far as it is known to be right. From there a stretch of steps is tried
    as if only the watched atoms existed, and repeated with those that should have joined.

    ``codes`` gets the codes of the last length, and of each shorter one whose own path would have
    ended where this path passes it, after the same steps.
    """
    gram, tol, n_atoms = problem.gram, problem.tol, problem.gram.shape[0]
    lengths, last = problem.lengths, problem.lengths.shape[0] - 1
    place = watch.place
    complete = True
    for i in rows:
        arrived = False
        # of their final type: a plain 0 would have the loop compiled twice
        n, goal, n_stretches = np.int64(0), np.int64(0), np.int64(0)
        for attempt in range(2):
            first = 0.0
            for k in range(n_atoms):
                start[k] = correlations[i, k]
                first = max(first, abs(start[k]))
            if attempt == 1:  # ties can make a path cycle: separate them
                size, first = PARTED * first, 0.0
                for k in range(n_atoms):
                    start[k] += size * ((k * GOLDEN) % 1.0 - 0.5)
                    first = max(first, abs(start[k]))
            floor = SMALLEST_PENALTY * first
            lowest = max(problem.penalty, floor)
            arrived = first <= lowest or squares[i] <= tol * abs(tol)
            n, now = np.int64(0), first
            goal = np.int64(last * attempt)  # a second attempt is for the last length alone
            for k in range(n_atoms):
                before[k] = start[k]
            n_stretches = np.int64(0)
            while not arrived and n_stretches < _most_stretches(lengths[last]):
                n_stretches += 1
                n_watched = _choose_watched(before, gram, kept.member, n, place, watch.atom)
                n_steps, repeated = np.int64(0), False
                while True:
                    if n_steps == 0:
                        n_after, now_after = n, now
                        _start_stretch(before, gram, kept, tried, watch, n, n_watched)
                    n_after, now_after, goal, n_steps, passed, arrived, n_watched = _walk(
                        start, squares[i], lowest, floor, problem, tried, watch,
                        n_after, now_after, goal, n_steps, n_watched,
                    )  # fmt: skip
                    n_coded = n_after - passed  # without the member that has just joined
                    _sum_rows(gram, tried.member, tried.solved, n_coded, after)
                    limit = now_after + SLACK * now_after + SLACK * first
                    n_before = n_watched
                    for k in range(n_atoms):
                        after[k] = start[k] - after[k]
                        # members are watched, or their correlation equals the penalty
                        if abs(after[k]) > limit and place[k] < 0 and gram[k, k] > 0:
                            watch.atom[n_watched] = k
                            place[k] = n_watched
                            n_watched += 1
                    if passed and goal <= last:  # go on as if this length were not asked for
                        m, is_right = goal - 1, n_watched == n_before and not repeated
                        # its own path may have been cut short before
                        if is_right and n_stretches <= _most_stretches(lengths[m]):
                            _write(tried, n_coded, codes, m, i)
                        for w in range(n_before, n_watched):
                            place[watch.atom[w]] = -1
                        n_watched = n_before
                    elif n_watched > n_before:
                        n_steps, goal, repeated = np.int64(0), min(goal, last), True
                    else:
                        arrived = arrived or passed
                        break
                kept, tried = tried, kept
                before, after = after, before
                n, now = n_coded, now_after
            if arrived:
                break
        # lengths that the path never passed share the code at its end
        for m in range(min(goal, last), last + 1):
            if m == last or n_stretches <= _most_stretches(lengths[m]):
                _write(kept, n, codes, m, i)
        complete = complete and arrived
    return complete


@pasted(REORDERED)
def _most_stretches(length: int) -> int:
    """How many stretches the path to a number of non-zeros may have."""
    return STRETCHES_PER_MEMBER * (length + 6)


@pasted(REORDERED)
def _write(path: Any, n: int, codes: Any, m: int, i: int) -> None:
    """Write the code of the first ``n`` members to that of row i for length m."""
    n_written = 0
    for j in range(n):
        if path.solved[j] * path.sign[j] > 0:  # otherwise zero up to rounding
            codes.member[m, i, n_written] = path.member[j]
            codes.coefficient[m, i, n_written] = path.solved[j]
            n_written += 1
    codes.n_used[m, i] = n_written


@pasted(REORDERED)
def _start_stretch(
    correlation: Array, gram: Array, kept: Any, tried: Any, watch: Any, n: int, n_watched: int
) -> None:
    """Copy the path that is kept, and what the watched atoms have to do with its members."""
    for j in range(n):
        tried.member[j] = kept.member[j]
        tried.sign[j] = kept.sign[j]
        tried.code[j] = kept.solved[j]
        tried.row_part[j] = kept.row_part[j]
        tried.sign_part[j] = kept.sign_part[j]
        for m in range(j, n):
            tried.factor[j, m] = kept.factor[j, m]
        for w in range(n_watched):
            watch.table[watch.slot[j], w] = gram[kept.member[j], watch.atom[w]]
    for w in range(n_watched):
        watch.correlation[w] = correlation[watch.atom[w]]


@pasted(REORDERED)
def _choose_watched(
    correlation: Array, gram: Array, member: Array, n: int, place: Array, atom: Array
) -> int:
    """Watch about WATCHED atoms, those best correlated with the residual; returns their count."""
    n_atoms = correlation.shape[0]
    least, high = 0.0, 0.0
    for k in range(n_atoms):
        high = max(high, abs(correlation[k]))
        place[k] = -1
    if n_atoms > WATCHED + n:  # members are among the best
        for _ in range(BISECTIONS):
            middle = 0.5 * (least + high)
            n_above = 0
            for k in range(n_atoms):
                n_above += abs(correlation[k]) >= middle
            if n_above > WATCHED + n:
                least = middle
            else:
                high = middle
    for j in range(n):
        place[member[j]] = 0
    n_watched = 0
    for k in range(n_atoms):
        if place[k] < 0 and abs(correlation[k]) >= least and gram[k, k] > 0:
            atom[n_watched] = k
            place[k] = n_watched
            n_watched += 1
    for j in range(n):
        place[member[j]] = -1
    return n_watched


@pasted(REORDERED)
def _walk(
    start: Array, square: float, lowest: float, floor: float, problem: Any, path: Any, watch: Any,
    n: int, now: float, goal: int, n_steps: int, n_watched: int,
) -> Any:  # fmt: skip
    """Take the steps of a stretch that are left, as if only the watched atoms existed.

    Stops early where it passes ``lengths[goal]``: one more member has joined then, which the code
    ``path.solved`` leaves out. Returns the number of members, the penalty, the next goal, the steps
    taken so far, whether a length was just passed, whether the path has ended, and the number of
    watched atoms: a member that leaves is watched from then on.
    """
    gram, tol, lengths = problem.gram, problem.tol, problem.lengths
    member, sign, code, solved, row_part, sign_part, factor = path
    atom, place, correlation, change, distance, barred, table, slot, weights, trial = watch
    members_left = n_steps == 0
    passed, arrived = False, False
    while n_steps < STRETCH and not passed:
        if members_left:  # atoms that depended on the members may not depend on the remaining ones
            for w in range(n_watched):
                barred[w] = 0.0
            for j in range(n):
                if place[member[j]] >= 0:
                    barred[place[member[j]]] = np.inf
            members_left = False
        for j in range(n):
            weights[j] = sign_part[j]
        _solve_back(factor, weights, n)
        _sum_rows(table, slot, weights, n, change[:n_watched])
        # how far the penalty falls until an atom's correlation reaches it, and which atom
        fall, joining = np.inf, -1
        if n < problem.most_members:
            for w in range(n_watched):
                # at or past the penalty by rounding or a tie: joins at once, if it does not turn
                up = max(now - correlation[w], 0.0) / (1 - change[w])
                down = max(now + correlation[w], 0.0) / (1 + change[w])
                up = up if change[w] < 1 else np.inf
                down = down if change[w] > -1 else np.inf
                distance[w] = min(up, down) + barred[w]
            for w in range(n_watched):
                if distance[w] < fall:
                    fall, joining = distance[w], w
        # until a coefficient is zero, and which one
        fall_out, leaving = np.inf, -1
        left, slope = square, 0.0
        for j in range(n):
            left -= row_part[j] * row_part[j]
            slope += sign_part[j] * sign_part[j]
            if weights[j] * sign[j] < 0 and max(-code[j] / weights[j], 0.0) < fall_out:
                fall_out, leaving = max(-code[j] / weights[j], 0.0), j
        # and until the residual has norm ``tol``, if these members can reach it
        end = lowest
        if tol >= 0 and left < tol * tol and slope > 0.0:
            end = max(np.sqrt((tol * tol - left) / slope), lowest)
        least = min(fall, fall_out)
        if now - least <= end:
            # rounding alone can put the end behind us
            now = 0.0 if end == floor else min(end, now)
            arrived = True
            break
        now -= least
        for j in range(n):
            code[j] += least * weights[j]
        for w in range(n_watched):
            correlation[w] -= least * change[w]
        if fall_out <= fall:
            gone = member[leaving]
            own_correlation = sign[leaving] * now
            _leave(leaving, path, slot, n)
            n -= 1
            if place[gone] < 0:
                atom[n_watched], place[gone] = gone, n_watched
                correlation[n_watched] = own_correlation
                for j in range(n):
                    table[slot[j], n_watched] = gram[member[j], gone]
                n_watched += 1
            members_left = True
            n_steps += 1
            continue
        k = atom[joining]
        barred[joining] = np.inf
        # a row of the factor: L trial = gram[member, k]
        for j in range(n):
            trial[j] = gram[k, member[j]]
        new_sign = 1.0 if correlation[joining] > 0 else -1.0
        projected, new_row_part, new_sign_part = gram[k, k], start[k], new_sign
        for j in range(n):
            value = trial[j] / factor[j, j]
            trial[j] = value
            projected -= value * value
            new_row_part -= value * row_part[j]
            new_sign_part -= value * sign_part[j]
            for m in range(j + 1, n):
                trial[m] -= value * factor[j, m]
        if projected <= problem.dependence * gram[k, k]:
            continue  # not a step: many copies of a member would use up every stretch
        if n == lengths[goal]:
            newest = code[n - 1] * gram[member[n - 1], member[n - 1]]
            ties = abs(newest) <= TIED * floor  # with the newest member
            if ties and goal == lengths.shape[0] - 1:
                continue  # left out, since the code might be zero
            passed = not ties
            goal += 1
        length = np.sqrt(projected)
        for j in range(n):
            factor[j, n] = trial[j]
        factor[n, n] = length
        row_part[n] = new_row_part / length
        sign_part[n] = new_sign_part / length
        member[n] = k
        sign[n] = new_sign
        code[n] = 0.0
        for w in range(n_watched):
            table[slot[n], w] = gram[k, atom[w]]
        n += 1
        n_steps += 1
    # The code at this penalty, from the factor. By rounding, an atom that has just joined can have
    # the wrong sign. It stays a member: otherwise the members' correlations would no longer equal
    # the penalty, and the error would grow.
    n_coded = n - passed  # the rows of the factor above the newest member are those without it
    for j in range(n_coded):
        solved[j] = row_part[j] - now * sign_part[j]
    _solve_back(factor, solved, n_coded)
    return n, now, goal, n_steps, passed, arrived, n_watched


@pasted(REORDERED)
def _leave(gone: int, path: Any, slot: Array, n: int) -> None:
    """Remove the member at index ``gone``, and make the factor lower triangular by rotations."""
    member, sign, code, _, row_part, sign_part, factor = path
    free = slot[gone]
    for i in range(gone, n - 1):
        member[i] = member[i + 1]
        sign[i] = sign[i + 1]
        code[i] = code[i + 1]
        slot[i] = slot[i + 1]
    slot[n - 1] = free
    for j in range(n):  # row ``gone`` of L is removed, those below move up
        for i in range(max(gone, j - 1), n - 1):
            factor[j, i] = factor[j, i + 1]
    for i in range(gone, n - 1):
        # rotate columns i and i + 1, so that row i has no entry in the second
        length = np.hypot(factor[i, i], factor[i + 1, i])
        cosine, sine = factor[i, i] / length, factor[i + 1, i] / length
        for j in range(i, n - 1):
            a, b = factor[i, j], factor[i + 1, j]
            factor[i, j] = cosine * a + sine * b
            factor[i + 1, j] = cosine * b - sine * a
        a, b = row_part[i], row_part[i + 1]
        row_part[i], row_part[i + 1] = cosine * a + sine * b, cosine * b - sine * a
        a, b = sign_part[i], sign_part[i + 1]
        sign_part[i], sign_part[i + 1] = cosine * a + sine * b, cosine * b - sine * a


@inlined(REORDERED)
def _solve_back(factor: Array, values: Array, n: int) -> None:
    """Solve L' x = values in place."""
    for j in range(n - 1, -1, -1):
        known, column = values[j + 1 : n], factor[j, j + 1 : n]
        value = values[j]
        for i in range(known.shape[0]):
            value -= column[i] * known[i]
        values[j] = value / factor[j, j]


@inlined(REORDERED)
def _sum_rows(table: Array, number: Array, weights: Array, n: int, out: Array) -> None:
    """``weights @ table[number]``, eight rows at a time: the sum is written once per eight."""
    for k in range(out.shape[0]):
        out[k] = 0
    whole = n - n % 8
    for j in range(0, whole, 8):
        w0, w1, w2, w3 = weights[j], weights[j + 1], weights[j + 2], weights[j + 3]
        w4, w5, w6, w7 = weights[j + 4], weights[j + 5], weights[j + 6], weights[j + 7]
        r0, r1, r2, r3 = (
            table[number[j]], table[number[j + 1]], table[number[j + 2]], table[number[j + 3]],
        )  # fmt: skip
        r4, r5, r6, r7 = (
            table[number[j + 4]], table[number[j + 5]], table[number[j + 6]], table[number[j + 7]],
        )  # fmt: skip
        for k in range(out.shape[0]):
            out[k] += (
                w0 * r0[k] + w1 * r1[k] + w2 * r2[k] + w3 * r3[k]
                + w4 * r4[k] + w5 * r5[k] + w6 * r6[k] + w7 * r7[k]
            )  # fmt: skip
    for j in range(whole, n):
        weight, row = weights[j], table[number[j]]
        for k in range(out.shape[0]):
            out[k] += weight * row[k]
