"""Atoms of classes: the loop that learns them, codes and residuals by class, and two decisions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from dbdl._parameters import AnyCount, AnyWeight, PositiveCount
from dbdl._threads import run_blocks
from dbdl.coding.lasso import lasso
from dbdl.model.record import Record
from dbdl.model.state import Doubles, Floats
from dbdl.model.trust import Atoms, NClasses, NotNegative, Objective
from dbdl.rivals._atoms import Start, start_atoms
from dbdl.rivals._base import Lesson, RivalClassifier, Scores
from dbdl.rivals._fista import FistaResult, Product, fista

Codes = TypeVar("Codes")
Decision = Literal["global", "local"]

#: FISTA ends when a step is this part of the codes, or after 100 steps. Codes start where the last
#: iteration left them, so that ten to thirty steps are usual.
CODE_TOL = 1e-3


# ----------------------------------------------------------------------------------- estimators


class ClassAtomsClassifier(RivalClassifier):
    """Base of the rivals that learn atoms of each class, and update atoms and codes in turn.

    Parameters
    ----------
    penalty : float, default=0.005
        Weight of the l1 norm of the codes, for rows of unit norm.
    start : {"rows", "pca"}, default="rows"
        First atoms: rows of the class at random, or its principal directions (not centred).

    Attributes
    ----------
    atoms_, components_ : ndarray of shape (n_atoms, n_features)
        Atoms of unit norm, class after class.
    """

    n_atoms_per_class: PositiveCount = 15
    n_iterations: AnyCount = 15
    penalty: AnyWeight = 0.005
    start: Start = "rows"

    _needs_many_features = True

    def _first_atoms(self, lesson: Lesson, n_shared: int = 0) -> tuple[Floats, list[slice]]:
        """Return the first atoms, and the block of each class among them; shared ones come last."""
        return start_atoms(lesson, self.n_atoms_per_class, self.start, lesson.rng(), n_shared)


class DecidingClassifier(ClassAtomsClassifier):
    r"""Base of those rivals that can decide by one code over all atoms or by a code per class.

    Parameters
    ----------
    decision : {"global", "local"}, default="global"
        How a row gets its class, see above.
    test_penalty : float, default=0.005
        :math:`\gamma`, weight of the l1 norm of the codes of new rows.
    """

    decision: Decision = "global"
    test_penalty: AnyWeight = 0.005


@dataclass(frozen=True)
class ClassLossModel(Record):
    """Atoms, and a loss for each class: that of a code of its own."""

    atoms: Atoms
    n_classes: NClasses
    test_penalty: NotNegative
    objective: Objective

    @abstractmethod
    def local_loss(self, X: Floats, c: int) -> Scores:
        """Loss of rows (n_samples,) by codes over the atoms of class ``c``."""

    def scores(self, X: Floats, n_threads: int = 1) -> Scores:
        """Minus the loss of each class."""
        losses = run_blocks(partial(self.local_loss, X), range(self.n_classes), n_threads)
        return -np.column_stack(losses)


@dataclass(frozen=True)
class DecidingModel(ClassLossModel):
    """A loss for each class: that of a code over all atoms, or that of a code of its own."""

    decision: Decision

    @abstractmethod
    def global_loss(self, X: Floats, codes: Floats) -> Scores:
        """Loss of rows (n_samples, n_classes) by their codes over all atoms."""

    def scores(self, X: Floats, n_threads: int = 1) -> Scores:
        """Minus the loss of each class under the decision."""
        if self.decision == "local":
            return super().scores(X, n_threads)
        # the lasso halves the residual
        codes = lasso(X, self.atoms, penalty=self.test_penalty / 2, n_threads=n_threads)
        return -self.global_loss(X, codes.toarray())


# ------------------------------------------------------------------------------------- learning


def alternate(
    step: Callable[[Floats, Codes], tuple[Floats, Codes, float]],
    atoms: Floats, codes: Codes, n_iterations: int,
) -> tuple[Floats, Codes, Doubles]:  # fmt: skip
    """Return atoms and codes after so many steps, and the objective, which a step gives last."""
    trace = []
    for _ in range(n_iterations):
        atoms, codes, objective = step(atoms, codes)
        trace.append(objective)
    return atoms, codes, np.array(trace)


def improve_codes(
    product: Product, linear: Floats, before: Floats, penalty: float, curvature: float = 1.0
) -> FistaResult:
    """Lower ``<codes, Q(codes)> - 2 <codes, linear> + penalty ||codes||_1`` from codes before.

    These are the codes of a learning iteration: close to the minimum, and never worse than those it
    started from. FISTA halves the quadratic part, so it is given half the penalty.
    """
    return fista(product, linear, before, penalty / 2, lipschitz=curvature, tol=CODE_TOL)


def lasso_loss(X: Floats, atoms: Floats, penalty: float, residual_weight: float = 0.5) -> Scores:
    """Least ``residual_weight * ||x - a @ atoms||^2 + penalty * ||a||_1`` of each row."""
    codes = lasso(X, atoms, penalty=penalty / (2 * residual_weight))
    size = np.asarray(abs(codes).sum(axis=1, dtype=np.float64)).ravel()
    return residual_weight * squared_norms(X - codes @ atoms) + penalty * size


def loss_near_mean(
    X: Floats, atoms: Floats, mean: Floats, penalty: float, mean_weight: float
) -> Scores:
    """Least ``||x - a @ atoms||^2 + penalty ||a||_1 + mean_weight ||a - mean||^2`` of each row."""
    rows, taller = with_pull(X, atoms, slice(None), mean, mean_weight)
    return lasso_loss(rows, taller, penalty, residual_weight=1.0)


def with_pull(
    X: Floats, atoms: Floats, pulled: slice, mean: Floats, weight: float
) -> tuple[Floats, Floats]:
    """Rows and atoms whose residual has the pull ``weight ||a[pulled] - mean||^2`` of a code a.

    The pull is the residual of as many features more as there are atoms pulled.
    """
    root = np.sqrt(weight)
    target = np.broadcast_to(root * mean, (len(X), len(mean)))
    pull = root * np.eye(len(atoms))[:, pulled]
    return np.hstack([X, target]).astype(X.dtype), np.hstack([atoms, pull]).astype(X.dtype)


def squared_class_residuals(
    X: Floats, codes: Floats, atoms: Floats, blocks: Sequence[slice | NDArray[np.bool_]]
) -> Scores:
    """Squared norms (n_samples, n_classes) of rows less the part of their codes over each class.

    ``codes`` (n_samples, n_atoms) are dense; `dbdl.rivals.src` has the same for sparse ones.
    ``blocks`` tell the atoms of each class.
    """
    return np.column_stack([squared_norms(X - codes[:, b] @ atoms[b]) for b in blocks])


def squared_norms(rows: Floats) -> Scores:
    """Squared norm of each row, summed in float64."""
    return np.einsum("if,if->i", rows, rows, dtype=np.float64)


def total_square(rows: Floats) -> float:
    """Sum of all squares, in float64."""
    return float(squared_norms(rows).sum())
