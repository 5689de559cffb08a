"""Atoms of classes and shared atoms of low rank (LRSDL: Vu and Monga, IEEE TIP 2017)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from dbdl._parameters import AnyCount, AnyWeight
from dbdl.coding.lasso import lasso
from dbdl.model.record import Record
from dbdl.model.state import Doubles, Floats
from dbdl.model.trust import AtomBlock, AtomBlocks, Atoms, ByClass, NClasses, NotNegative, Objective
from dbdl.rivals._atoms import update_atoms
from dbdl.rivals._base import Lesson, Scores
from dbdl.rivals._class_atoms import (
    ClassAtomsClassifier,
    alternate,
    improve_codes,
    squared_class_residuals,
    squared_norms,
    total_square,
    with_pull,
)
from dbdl.rivals._fista import FistaResult
from dbdl.rivals.fddl import FisherCodes

#: The updates of shared atoms end when their copies agree, and rest, to this part of their size.
SPLIT_TOL = 1e-7
SPLIT_STEPS = 300

#: Shared atoms shorter than this have been left out by the nuclear norm.
SHORTEST = 1e-6


@dataclass(frozen=True)
class LRSDLModel(Record):
    """Atoms of every class, one block each, the shared atoms after them, and mean codes."""

    atoms: Atoms
    n_classes: NClasses
    test_penalty: NotNegative
    objective: Objective
    blocks: AtomBlocks
    shared: AtomBlock
    mean_codes: ByClass  # (n_classes, n_atoms); over the shared atoms, the mean of all rows
    fisher: NotNegative
    mean_weight: NotNegative

    def code(self, X: Floats, n_threads: int = 1) -> Floats:
        """Codes of rows (n_samples, n_atoms), their shared part near its mean."""
        mean = self.mean_codes[0, self.shared]
        rows, taller = with_pull(X, self.atoms, self.shared, mean, self.fisher)
        # the lasso halves the residual
        codes = lasso(rows, taller, penalty=self.test_penalty / 2, n_threads=n_threads)
        return codes.toarray()

    def scores(self, X: Floats, n_threads: int = 1) -> Scores:
        """Minus the class residuals without the shared part, and the distances to mean codes."""
        codes = self.code(X, n_threads)
        particular = X - codes[:, self.shared] @ self.atoms[self.shared]
        loss = squared_class_residuals(particular, codes, self.atoms, self.blocks)
        own = slice(0, self.shared.start)
        for c, mean in enumerate(self.mean_codes[:, own]):
            loss[:, c] += self.mean_weight * squared_norms(codes[:, own] - mean)
        return -loss


@dataclass(frozen=True)
class LowRankCodes:
    r"""The problem of `LRSDLClassifier`; rows are sorted by class, shared atoms come last.

    Given the shared atoms and their codes, it is that of FDDL for the rows less their shared part:
    `without_shared` gives it, and with it the update of the atoms of classes.
    """

    fisher_codes: FisherCodes  # of the rows as they are
    shared: slice
    low_rank: float

    def step(self, atoms: Floats, found: FistaResult) -> tuple[Floats, FistaResult, float]:
        """Update the atoms of classes, then the shared ones, then improve the codes."""
        own, codes, atoms = self.own, found.codes, atoms.copy()
        problem = self.without_shared(codes, atoms)
        atoms[own] = update_atoms(atoms[own], *problem.sums(codes[:, own]), problem.blocks)
        atoms[self.shared] = low_rank_atoms(
            atoms[self.shared], *self.shared_sums(codes, atoms), self.low_rank / 2
        )
        found = self.code(atoms, codes, found.lipschitz)
        return atoms, found, self.objective(found.codes, atoms)

    @property
    def own(self) -> slice:
        """The atoms of classes."""
        return slice(0, self.shared.start)

    def without_shared(self, codes: Floats, atoms: Floats) -> FisherCodes:
        """Return the problem of the rows less what the shared atoms give."""
        left = self.fisher_codes.X - codes[:, self.shared] @ atoms[self.shared]
        return replace(self.fisher_codes, X=left)

    def code(self, atoms: Floats, before: Floats, curvature: float = 1.0) -> FistaResult:
        """Codes of all rows, improved from those before."""
        penalty = self.fisher_codes.penalty
        return improve_codes(self.product(atoms), self.linear(atoms), before, penalty, curvature)

    def product(self, atoms: Floats) -> Callable[[Floats, Floats], None]:
        """Return Q as a function that writes Q(codes) into its second argument.

        Over the atoms of classes it is that of FDDL. Both residuals of a row hold its shared part:
        the one of all atoms, and the one of the atoms of its class.
        """
        fisher_codes, shared, own = self.fisher_codes, self.shared, self.own
        multiply_own = fisher_codes.product(atoms[own])
        among, across = atoms[shared] @ atoms[shared].T, atoms[shared] @ atoms[own].T
        weight = atoms.dtype.type(fisher_codes.fisher)
        among = 2 * among + weight * np.eye(len(among), dtype=atoms.dtype)

        def multiply(codes: Floats, out: Floats) -> None:
            part = np.empty_like(codes[:, own], order="C")
            multiply_own(np.ascontiguousarray(codes[:, own]), part)
            out[:, own] = part + codes[:, shared] @ across
            out[:, shared] = codes[:, shared] @ among + codes[:, own] @ across.T
            out[:, shared] -= weight * codes[:, shared].mean(axis=0)
            for rows, block in zip(fisher_codes.class_rows, fisher_codes.blocks, strict=True):
                out[rows, block] += codes[rows, shared] @ across[:, block]
                out[rows, shared] += codes[rows, block] @ across[:, block].T

        return multiply

    def linear(self, atoms: Floats) -> Floats:
        """Linear part, of the shape of the codes."""
        over_shared = 2 * self.fisher_codes.X @ atoms[self.shared].T
        return np.hstack([self.fisher_codes.linear(atoms[self.own]), over_shared])

    def shared_sums(self, codes: Floats, atoms: Floats) -> tuple[Doubles, Doubles]:
        """Gram matrix and cross products that the shared atoms see: they take part twice."""
        problem, own = self.fisher_codes, self.own
        left = 2 * problem.X - codes[:, own] @ atoms[own]
        for rows, block in zip(problem.class_rows, problem.blocks, strict=True):
            left[rows] -= codes[rows, block] @ atoms[block]
        mine = codes[:, self.shared].astype(np.float64)
        return 2 * mine.T @ mine, mine.T @ left

    def objective(self, codes: Floats, atoms: Floats) -> float:
        """Objective of `LRSDLClassifier`."""
        own, mine = self.own, codes[:, self.shared].astype(np.float64)
        value = self.without_shared(codes, atoms).objective(codes[:, own], atoms[own])
        value += self.fisher_codes.penalty * float(np.abs(mine).sum())
        value += self.fisher_codes.fisher * total_square(mine - mine.mean(axis=0))
        return value + self.low_rank * nuclear_norm(atoms[self.shared])


# --------------------------------------------------------------------------------- shared atoms


def low_rank_atoms(atoms: Floats, gram: Doubles, cross: Doubles, penalty: float) -> Floats:
    """Atoms (n_atoms, n_features) of norm at most one, with a penalty on their rank.

    Minimises ``1/2 tr(gram @ atoms @ atoms.T) - tr(cross @ atoms.T) + penalty ||atoms||_*`` over
    the ball of each atom. The method of multipliers holds three copies of the atoms, one for the
    squares, one for the nuclear norm and one for the balls: each has a closed form. The atoms that
    it ends with are kept if they are better than those before.
    """
    if not len(atoms):
        return atoms
    before = atoms.astype(np.float64)
    size = float(np.trace(gram)) / len(gram) or 1.0  # on the scale of the squares
    solve = np.linalg.inv(gram + 2 * size * np.eye(len(gram)))
    middle = low = short = before
    low_price, short_price = np.zeros_like(before), np.zeros_like(before)
    for _ in range(SPLIT_STEPS):
        last, middle = middle, solve @ (cross + size * (low - low_price + short - short_price))
        low = shrink_spectrum(middle + low_price, penalty / size)
        short = into_balls(middle + short_price)
        low_price, short_price = low_price + middle - low, short_price + middle - short
        gap = max(np.abs(middle - other).max() for other in (last, low, short))
        if gap <= SPLIT_TOL * np.abs(middle).max():
            break
    found = into_balls(low)  # shorter rows have no higher rank

    def value(atoms: Doubles) -> float:
        squares = 0.5 * np.vdot(gram @ atoms, atoms) - np.vdot(cross, atoms)
        return float(squares) + penalty * nuclear_norm(atoms)

    return found.astype(atoms.dtype) if value(found) < value(before) else atoms


def shrink_spectrum(rows: Doubles, threshold: float) -> Doubles:
    """Lower each singular value by the threshold, to zero at least."""
    left, strength, right = np.linalg.svd(rows, full_matrices=False)
    return left * np.maximum(strength - threshold, 0) @ right


def into_balls(rows: Doubles) -> Doubles:
    """Rows, scaled to norm one where they are longer."""
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1.0)


def nuclear_norm(rows: Floats) -> float:
    """Sum of the singular values."""
    return float(np.linalg.svd(rows.astype(np.float64), compute_uv=False).sum()) if rows.size else 0


# ----------------------------------------------------------------------------------- classifier


class LRSDLClassifier(ClassAtomsClassifier):
    r"""Low-rank shared dictionary learning (LRSDL).

    FDDL (`dbdl.rivals.fddl`) with atoms :math:`D_0` that all classes share, as DL-COPAR has them,
    but of low rank. The codes of the rows :math:`X_c` of class :math:`c` are :math:`A_c` over the
    blocks :math:`D_j` of classes, with parts :math:`A_c^j`, and :math:`A_c^0` over :math:`D_0`.
    With :math:`\bar X_c = X_c - A_c^0 D_0`, the rows less their shared part,

    .. math::

        \min_{D, A} \sum_c \Big( \|\bar X_c - A_c D\|_F^2 + \|\bar X_c - A_c^c D_c\|_F^2
        + \sum_{j \ne c} \|A_c^j D_j\|_F^2 \Big) + \lambda_1 \big( \|A\|_1 + \|A^0\|_1 \big)
        + \lambda_2 \big( \operatorname{tr} S_W(A) - \operatorname{tr} S_B(A) + \|A\|_F^2
        + \|A^0 - m^0\|_F^2 \big) + \eta \|D_0\|_*

    with :math:`S_W` and :math:`S_B` as in FDDL, :math:`m^0` the mean of the shared codes, and
    :math:`\|\cdot\|_*` the nuclear norm. The atoms of classes have unit norm, the shared ones at
    most that. So the shared atoms span few directions, and all rows use them alike: they cannot
    take away what tells the classes apart.

    Atoms of classes, shared atoms and codes are updated in turn. The atoms of classes are updated
    one by one, the shared ones together by the method of multipliers, and the codes together by
    FISTA. No update is accepted that is worse, so the objective never rises.

    A row :math:`x` has the code
    :math:`a = \arg\min_a \|x - a D - a^0 D_0\|^2 + \gamma (\|a\|_1 + \|a^0\|_1) + \lambda_2
    \|a^0 - m^0\|^2` and belongs to the class with the least
    :math:`\|x - a^0 D_0 - a^c D_c\|^2 + w \|a - m_c\|^2`, with :math:`m_c` the mean code of the
    class.

    Its authors halve the squares and :math:`\lambda_2`, so their :math:`\lambda_1` and
    :math:`\eta` are half of those here; and they weigh the two parts of the rule by :math:`w` and
    :math:`1 - w`. Not among the methods of the DBDL paper.

    Parameters
    ----------
    n_shared_atoms : int, default=5
        At most as many as there are rows; 0 leaves the shared block out, which is FDDL. They start
        at the principal directions of all rows. Those that become zero are dropped.
    fisher : float, default=0.05
        :math:`\lambda_2`.
    low_rank : float, default=0.1
        :math:`\eta`, weight of the nuclear norm of the shared atoms.
    test_penalty : float, default=0.005
        :math:`\gamma`, weight of the l1 norm of the codes of new rows.
    mean_weight : float, default=0.5
        :math:`w`.

    Attributes
    ----------
    atoms_, components_ : ndarray of shape (n_atoms, n_features)
        Atoms of unit norm, class after class; the shared ones last, of norm at most one.

    References
    ----------
    T. H. Vu and V. Monga, "Fast low-rank shared dictionary learning for image classification", IEEE
    Trans. Image Processing 26, 2017.
    """

    n_shared_atoms: AnyCount = 5
    fisher: AnyWeight = 0.05
    low_rank: AnyWeight = 0.1
    test_penalty: AnyWeight = 0.005
    mean_weight: AnyWeight = 0.5

    _example = "random_state=0"

    def _learn(self, lesson: Lesson) -> LRSDLModel:
        lesson = lesson.of_rows(np.argsort(lesson.class_of_row, kind="stable"))
        X, n_classes = lesson.X, lesson.n_classes
        atoms, blocks = self._first_atoms(lesson, self.n_shared_atoms)
        n_own = blocks[-1].stop
        fisher_codes = FisherCodes(
            X, lesson.class_of_row, n_classes, blocks, self.fisher, self.penalty, lesson.n_threads
        )
        problem = LowRankCodes(fisher_codes, slice(n_own, len(atoms)), self.low_rank)
        found = problem.code(atoms, np.zeros((len(X), len(atoms)), dtype=X.dtype))
        atoms, found, trace = alternate(problem.step, atoms, found, self.n_iterations)
        means = fisher_codes.class_means(found.codes)
        means[:, problem.shared] = found.codes[:, problem.shared].mean(axis=0)
        kept = np.linalg.norm(atoms, axis=1) > SHORTEST
        kept[:n_own] = True
        return LRSDLModel(
            atoms[kept], n_classes, self.test_penalty, trace, tuple(blocks),
            slice(n_own, int(kept.sum())), means[:, kept], self.fisher, self.mean_weight,
        )  # fmt: skip
