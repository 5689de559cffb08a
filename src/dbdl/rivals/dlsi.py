"""Dictionaries of classes with structured incoherence (Ramirez, Sprechmann and Sapiro, 2010)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dbdl._parameters import AnyWeight
from dbdl._threads import run_blocks
from dbdl.coding.lasso import lasso
from dbdl.model.state import Floats
from dbdl.model.trust import AtomBlocks
from dbdl.rivals._atoms import Start, pairwise_overlap, update_atoms
from dbdl.rivals._base import Lesson, Scores
from dbdl.rivals._class_atoms import (
    ClassAtomsClassifier,
    ClassLossModel,
    alternate,
    lasso_loss,
    total_square,
)


@dataclass(frozen=True)
class DLSIModel(ClassLossModel):
    """Atoms of every class, one block each."""

    blocks: AtomBlocks

    def local_loss(self, X: Floats, c: int) -> Scores:
        """Least loss of rows (n_samples,) over the atoms of class ``c``."""
        return lasso_loss(X, self.atoms[self.blocks[c]], self.test_penalty)


@dataclass(frozen=True)
class ClassCodes:
    """The problem of `DLSIClassifier`: rows and codes class by class."""

    rows: list[Floats]
    blocks: list[slice]
    penalty: float
    incoherence: float
    n_threads: int = 1

    def step(self, atoms: Floats, codes: list[Floats]) -> tuple[Floats, list[Floats], float]:
        """Update the atoms by one pass, then find the codes over them."""
        atoms = update_atoms(atoms, *self.sums(codes), self.blocks, 2 * self.incoherence)
        codes = self.code(atoms)
        return atoms, codes, self.objective(codes, atoms)

    def code(self, atoms: Floats) -> list[Floats]:
        """Codes of the rows of each class over its atoms."""

        def of_class(c: int) -> Floats:
            own = atoms[self.blocks[c]]
            return lasso(self.rows[c], own, penalty=self.penalty).toarray()

        return run_blocks(of_class, range(len(self.rows)), self.n_threads)

    def sums(self, codes: list[Floats]) -> tuple[Floats, Floats]:
        """Sums of all classes in one: their codes meet no atoms of other classes."""
        n_atoms, dtype = self.blocks[-1].stop, self.rows[0].dtype
        gram = np.zeros((n_atoms, n_atoms), dtype)
        cross = np.empty((n_atoms, self.rows[0].shape[1]), dtype)
        for own, code, block in zip(self.rows, codes, self.blocks, strict=True):
            gram[block, block] = code.T @ code
            cross[block] = code.T @ own
        return gram, cross

    def objective(self, codes: list[Floats], atoms: Floats) -> float:
        """Objective of `DLSIClassifier`."""
        value = 0.0
        for own, code, block in zip(self.rows, codes, self.blocks, strict=True):
            value += 0.5 * total_square(own - code @ atoms[block])
            value += self.penalty * float(np.abs(code).sum(dtype=np.float64))
        overlap = (atoms @ atoms.T).astype(np.float64)
        return value + self.incoherence * pairwise_overlap(overlap, self.blocks)


class DLSIClassifier(ClassAtomsClassifier):
    r"""Dictionary learning with structured incoherence (DLSI).

    Every class :math:`c` has atoms :math:`D_c` of unit norm for its rows :math:`X_c`, and atoms
    of different classes are kept apart:

    .. math::

        \min_{D, A} \sum_c \tfrac12 \|X_c - A_c D_c\|_F^2 + \lambda \|A_c\|_1
        + \tfrac{\eta}{2} \sum_c \sum_{j \ne c} \|D_c D_j^T\|_F^2

    which is half the problem of the paper with half its :math:`\lambda`. Codes and atoms are
    updated in turn: the codes are lasso solutions, the atoms change one by one on the sphere, their
    incoherence by a bound that touches it at the old atom. The objective never rises.

    A row :math:`x` belongs to the class with the least
    :math:`\min_a \tfrac12 \|x - a D_c\|^2 + \lambda \|a\|_1`.

    The DBDL paper cites figures of this method for action recognition and names no settings. The
    paper's extension that ignores atoms shared by classes is left out.

    Parameters
    ----------
    penalty : float, default=0.001
        Weight of the l1 norm of the codes, in learning and for new rows of unit norm.
    incoherence : float, default=0.001
        :math:`\eta`.

    References
    ----------
    I. Ramirez, P. Sprechmann and G. Sapiro, "Classification and clustering via dictionary learning
    with structured incoherence and shared features", CVPR 2010.
    """

    penalty: AnyWeight = 0.001
    incoherence: AnyWeight = 0.001
    start: Start = "pca"

    _example = "random_state=0"

    def _learn(self, lesson: Lesson) -> DLSIModel:
        atoms, blocks = self._first_atoms(lesson)
        problem = ClassCodes(
            lesson.by_class(), blocks, self.penalty, self.incoherence, lesson.n_threads
        )
        atoms, _, trace = alternate(problem.step, atoms, problem.code(atoms), self.n_iterations)
        return DLSIModel(atoms, lesson.n_classes, self.penalty, trace, tuple(blocks))
