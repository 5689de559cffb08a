"""Projective dictionary pair learning (Gu et al., NIPS 2014): codes by a matrix product."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dbdl._parameters import AnyWeight, PositiveCount, PositiveWeight
from dbdl._threads import run_blocks
from dbdl.estimators._rows import unit_rows
from dbdl.model.record import Record
from dbdl.model.ridge import solve_ridge
from dbdl.model.state import Doubles, Floats
from dbdl.model.trust import Atoms, ClassOfAtom, NClasses, Objective, Projection
from dbdl.rivals._base import Lesson, RivalClassifier, Scores
from dbdl.rivals._class_atoms import squared_class_residuals

#: Passes over the atoms of a class in each iteration.
ATOM_PASSES = 2


@dataclass(frozen=True)
class DPLModel(Record):
    """Atoms to build rows from, and projections to code rows with, class by class."""

    atoms: Atoms
    projection: Projection  # (n_features, n_atoms)
    class_of_atom: ClassOfAtom
    n_classes: NClasses
    objective: Objective

    def scores(self, X: Floats, n_threads: int = 1) -> Scores:
        """Minus the norm of what each class's pair leaves of the row."""
        blocks = [self.class_of_atom == c for c in range(self.n_classes)]
        return -np.sqrt(squared_class_residuals(X, X @ self.projection, self.atoms, blocks))


@dataclass(frozen=True)
class Pair:
    """Atoms and projection of one class."""

    atoms: Doubles  # (n_atoms, n_features), of norm at most one
    projection: Doubles  # (n_features, n_atoms)
    objective: list[float]


def learn_pair(
    rows: Doubles, gram_of_others: Doubles, settings: DPLClassifier, rng: np.random.Generator
) -> Pair:
    """Learn the pair of one class; the classes do not depend on each other.

    ``gram_of_others`` is ``others.T @ others`` of the rows of all other classes.
    """
    tie = settings.tie
    n_atoms = min(settings.n_atoms_per_class, len(rows))
    to_projection = projection_of_codes(rows, gram_of_others, settings)
    shared = rows @ to_projection  # turns codes into the codes that their projection gives
    atoms: Doubles = unit_rows(rng.standard_normal((n_atoms, rows.shape[1]))).astype(np.float64)
    projected: Doubles = rows @ unit_rows(rng.standard_normal((n_atoms, rows.shape[1]))).T
    objective = []
    for _ in range(settings.n_iterations):
        codes = update_codes(rows, atoms, projected, tie)
        projected = shared @ codes
        atoms = update_atoms_in_ball(atoms, codes.T @ codes, codes.T @ rows)
        # With the projection at its minimum, its three terms together are tie (codes - projected)
        # times codes: the trace costs no product with the rows of other classes.
        fit = np.square(rows - codes @ atoms).sum()
        objective.append(float(fit + tie * np.vdot(codes - projected, codes)))
    return Pair(atoms, to_projection @ codes, objective)


def projection_of_codes(rows: Doubles, gram_of_others: Doubles, settings: DPLClassifier) -> Doubles:
    """Doubles (n_features, n_samples) that turns codes of the rows into the best projection.

    The projection solves (tie rows' rows + discrimination others' others + penalty I) P
    = tie rows' codes. The matrix stays the same in all iterations: it is factored once.
    """
    system = settings.tie * (rows.T @ rows) + settings.discrimination * gram_of_others
    return solve_ridge(system, settings.tie * rows.T, settings.penalty)


def update_codes(rows: Doubles, atoms: Doubles, projected: Doubles, tie: float) -> Doubles:
    """Codes that minimise ||rows - codes atoms||^2 + tie ||projected - codes||^2."""
    return solve_ridge(atoms @ atoms.T, (rows @ atoms.T + tie * projected).T, tie).T


def update_atoms_in_ball(atoms: Doubles, gram: Doubles, cross: Doubles) -> Doubles:
    """Atoms of norm at most one, one after another, each at its minimum given the others.

    Lowers ||rows - codes atoms||^2 with ``gram = codes' codes`` and ``cross = codes' rows``. The
    best atom without the bound, scaled back to norm one where it is longer, is the best within it.
    """
    atoms = atoms.copy()
    for _ in range(ATOM_PASSES):
        for k in np.flatnonzero(np.diagonal(gram) > 0):
            atom = atoms[k] + (cross[k] - gram[k] @ atoms) / gram[k, k]
            atoms[k] = atom / max(float(np.linalg.norm(atom)), 1.0)
    return atoms


class DPLClassifier(RivalClassifier):
    r"""Projective dictionary pair learning (DPL).

    Each class has atoms :math:`D_c` and a projection :math:`P_c` that codes a row by one product,
    with no sparsity to solve for. With :math:`X_c` the rows of the class and :math:`\bar X_c`
    those of all others,

    .. math:: \min_{D, P, A} \sum_c \|X_c - A_c D_c\|^2 + \tau \|X_c P_c - A_c\|^2
              + \lambda \|\bar X_c P_c\|^2 + \gamma \|P_c\|^2
              \quad\text{subject to}\quad \|d\| \le 1 \text{ for every atom } d.

    :math:`A_c`, :math:`P_c` and :math:`D_c` are updated in turn, all in closed form: two linear
    systems, and two passes over the atoms, each at its minimum given the others (where the authors
    use alternating directions). So the objective never rises. A row belongs to the class with the
    least :math:`\|x - x P_c D_c\|`.

    Not among the methods of the DBDL paper, but worth comparing with: it is fast both to learn and
    to use. The default weights, for rows of unit norm, are meant to be those its authors
    use for faces; they were not checked against their code.

    Parameters
    ----------
    tie : float, default=0.05
        :math:`\tau`, how closely the codes follow the projection.
    discrimination : float, default=0.003
        :math:`\lambda`, weight of the codes that a class gives to rows of others.
    penalty : float, default=0.0001
        :math:`\gamma`, of the projection's size.

    Attributes
    ----------
    atoms_, components_ : ndarray of shape (n_atoms, n_features)
        Atoms of norm at most one.

    References
    ----------
    S. Gu, L. Zhang, W. Zuo and X. Feng, "Projective dictionary pair learning for pattern
    classification", NIPS 2014.
    """

    n_atoms_per_class: PositiveCount = 15
    tie: PositiveWeight = 0.05
    discrimination: AnyWeight = 0.003
    penalty: PositiveWeight = 0.0001
    n_iterations: PositiveCount = 20

    _needs_many_features = True
    _example = "calibrate=False, random_state=0"

    def _learn(self, lesson: Lesson) -> DPLModel:
        rows, dtype = lesson.X.astype(np.float64), lesson.X.dtype
        gram = rows.T @ rows

        def learn(c: int) -> Pair:
            own = rows[lesson.class_of_row == c]
            return learn_pair(own, gram - own.T @ own, self, lesson.rng(c))

        pairs = run_blocks(learn, range(lesson.n_classes), lesson.n_threads)
        return DPLModel(
            np.vstack([pair.atoms for pair in pairs]).astype(dtype),
            np.hstack([pair.projection for pair in pairs]).astype(dtype),
            np.repeat(np.arange(lesson.n_classes), [len(pair.atoms) for pair in pairs]),
            lesson.n_classes,
            np.sum([pair.objective for pair in pairs], axis=0),
        )
