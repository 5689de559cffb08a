"""Atoms of classes and atoms shared by all (DL-COPAR: Kong and Wang, ECCV 2012)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dbdl._parameters import AnyCount, AnyWeight
from dbdl._threads import run_blocks
from dbdl.model.state import Floats
from dbdl.model.trust import AtomBlock, AtomBlocks
from dbdl.rivals._atoms import Start, pairwise_overlap, update_atoms
from dbdl.rivals._base import Lesson, Scores
from dbdl.rivals._class_atoms import (
    DecidingClassifier,
    DecidingModel,
    Decision,
    alternate,
    improve_codes,
    lasso_loss,
    squared_class_residuals,
    total_square,
)
from dbdl.rivals._fista import FistaResult


@dataclass(frozen=True)
class CoparModel(DecidingModel):
    """Atoms of every class, one block each, and the shared atoms after them."""

    blocks: AtomBlocks
    shared: AtomBlock

    def local_loss(self, X: Floats, c: int) -> Scores:
        """Loss by codes over the atoms of class ``c`` and the shared ones."""
        atoms = np.vstack([self.atoms[self.blocks[c]], self.atoms[self.shared]])
        return lasso_loss(X, atoms, self.test_penalty, residual_weight=1.0)

    def global_loss(self, X: Floats, codes: Floats) -> Scores:
        """Class residuals of rows without their shared part."""
        particular = X - codes[:, self.shared] @ self.atoms[self.shared]
        return squared_class_residuals(particular, codes, self.atoms, self.blocks)


@dataclass(frozen=True)
class SharedCodes:
    """The problem of `CoparClassifier`: rows and codes class by class."""

    rows: list[Floats]
    blocks: list[slice]
    shared: slice
    penalty: float
    incoherence: float
    n_threads: int = 1

    def step(
        self, atoms: Floats, found: list[FistaResult]
    ) -> tuple[Floats, list[FistaResult], float]:
        """Update the atoms by one pass, then improve the codes."""
        codes = [result.codes for result in found]
        blocks = [*self.blocks, self.shared]
        atoms = update_atoms(atoms, *self.sums(codes), blocks, 2 * self.incoherence)
        curvature = float(np.median([result.lipschitz for result in found]))
        found = self.code(atoms, codes, curvature)
        return atoms, found, self.objective([result.codes for result in found], atoms)

    def code(
        self, atoms: Floats, before: list[Floats], curvature: float = 1.0
    ) -> list[FistaResult]:
        """Codes of all classes, improved from those before."""
        gram = atoms @ atoms.T

        def of_class(c: int) -> FistaResult:
            return self.code_class(c, atoms, gram, before[c], curvature)

        return run_blocks(of_class, range(len(self.rows)), self.n_threads)

    def others(self, c: int) -> NDArray[np.bool_]:
        """Mask of the atoms of classes other than c, (n_atoms,)."""
        mask = np.ones(self.shared.stop, dtype=bool)
        mask[self.blocks[c]] = False
        mask[self.shared] = False
        return mask

    def quadratic(self, c: int, gram: Floats) -> Floats:
        """Matrix of the quadratic form in a code of class c, (n_atoms, n_atoms).

        The Gram matrix of all atoms, that of the atoms of class c and the shared ones, and the
        squares of the coefficients of other classes.
        """
        others = self.others(c)
        usable = np.flatnonzero(~others)
        quadratic = gram.copy()
        quadratic[np.ix_(usable, usable)] *= 2
        quadratic.flat[:: len(gram) + 1] += others
        return quadratic

    def linear(self, c: int, atoms: Floats) -> Floats:
        """Linear part in the codes of class c, (n_samples of c, n_atoms)."""
        linear: Floats = self.rows[c] @ atoms.T
        linear[:, ~self.others(c)] *= 2
        return linear

    def code_class(
        self, c: int, atoms: Floats, gram: Floats, before: Floats, curvature: float = 1.0
    ) -> FistaResult:
        """Codes of the rows of class c given the atoms."""
        quadratic = self.quadratic(c, gram)

        def multiply(codes: Floats, out: Floats) -> None:
            np.matmul(codes, quadratic, out=out)

        return improve_codes(multiply, self.linear(c, atoms), before, self.penalty, curvature)

    def sums(self, codes: list[Floats]) -> tuple[Floats, Floats]:
        """Gram matrix and cross products that the atoms see.

        All atoms code the rows once, those of the class and the shared ones once more.
        """
        stacked, X = np.vstack(codes), np.vstack(self.rows)
        usable = np.vstack([code * ~self.others(c) for c, code in enumerate(codes)])
        return stacked.T @ stacked + usable.T @ usable, (stacked + usable).T @ X

    def objective(self, codes: list[Floats], atoms: Floats) -> float:
        """Objective of `CoparClassifier`."""
        value = 0.0
        for c, (rows, code) in enumerate(zip(self.rows, codes, strict=True)):
            others = self.others(c)
            value += total_square(rows - code @ atoms)
            value += total_square(rows - code[:, ~others] @ atoms[~others])
            value += total_square(code[:, others])
            value += self.penalty * float(np.abs(code).sum(dtype=np.float64))
        overlap = (atoms @ atoms.T).astype(np.float64)
        pairs = pairwise_overlap(overlap, [*self.blocks, self.shared])
        return value + 2 * self.incoherence * pairs


class CoparClassifier(DecidingClassifier):
    r"""Separating the commonality and the particularity of classes (DL-COPAR).

    The atoms :math:`D` of unit norm are blocks :math:`D_c` of classes and a block :math:`D_0` that
    all classes share. The codes :math:`A_c` of the rows :math:`X_c` of class :math:`c`, with parts
    :math:`A_c^j` over block :math:`j`, should use their own and the shared atoms:

    .. math::

        \min_{D, A} \sum_c \Big( \|X_c - A_c D\|_F^2 + \|X_c - A_c^c D_c - A_c^0 D_0\|_F^2
        + \sum_{j \ne c, 0} \|A_c^j\|_F^2 + \lambda \|A_c\|_1 \Big)
        + \eta \sum_{b} \sum_{j \ne b} \|D_b D_j^T\|_F^2

    where the last sums go over all blocks, the shared one too.

    Atoms and codes are updated in turn: the codes by FISTA, the atoms one by one on the sphere,
    their incoherence by a bound that touches it at the old atom. The objective never rises.

    A row :math:`x` belongs to the class with the least

    - ``decision="local"``: :math:`\min_a \|x - a^c D_c - a^0 D_0\|^2 + \gamma \|a\|_1`, a code over
      the atoms of the class and the shared ones;
    - ``decision="global"``: :math:`\|x - a^0 D_0 - a^c D_c\|^2` with the code
      :math:`a = \arg\min_a \|x - a D\|^2 + \gamma \|a\|_1` over all atoms.

    The DBDL paper uses 15 atoms per class and 5 shared ones with the local decision on Extended
    YaleB and AR: the defaults here. On Caltech-101 it uses as many atoms as rows of a class, 314
    shared ones and the global decision. The other settings are not named there: the defaults
    were chosen on held-out rows of splits of Extended YaleB, which are test rows of other splits.

    Parameters
    ----------
    n_shared_atoms : int, default=5
        At most as many as there are rows; 0 leaves the shared block out. They start at the
        principal directions of all rows.
    incoherence : float, default=0.001
        :math:`\eta`.

    Attributes
    ----------
    atoms_, components_ : ndarray of shape (n_atoms, n_features)
        Atoms of unit norm, class after class, the shared ones last.

    References
    ----------
    S. Kong and D. Wang, "A dictionary learning approach for classification: separating the
    particularity and the commonality", ECCV 2012.
    """

    n_shared_atoms: AnyCount = 5
    penalty: AnyWeight = 0.001
    incoherence: AnyWeight = 0.001
    start: Start = "pca"
    decision: Decision = "local"
    test_penalty: AnyWeight = 0.001

    _example = "random_state=0"

    def _learn(self, lesson: Lesson) -> CoparModel:
        rows = lesson.by_class()
        atoms, blocks = self._first_atoms(lesson, self.n_shared_atoms)
        shared = slice(blocks[-1].stop, len(atoms))
        problem = SharedCodes(
            rows, blocks, shared, self.penalty, self.incoherence, lesson.n_threads
        )
        empty = [np.zeros((len(part), len(atoms)), dtype=lesson.X.dtype) for part in rows]
        found = problem.code(atoms, empty)
        atoms, _, trace = alternate(problem.step, atoms, found, self.n_iterations)
        return CoparModel(
            atoms, lesson.n_classes, self.test_penalty, trace, self.decision, tuple(blocks), shared
        )
