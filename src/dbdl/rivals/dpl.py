"""Projective dictionary pair learning (Gu et al., NIPS 2014): codes by a matrix product."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval

from dbdl._threads import run_blocks
from dbdl.estimators._rows import NOT_NEGATIVE, POSITIVE, unit_rows
from dbdl.model.record import Record
from dbdl.model.ridge import solve_ridge
from dbdl.model.state import Floats
from dbdl.model.trust import Atoms, ClassOfAtom, NClasses, Objective, Projection
from dbdl.rivals._base import RIVAL_CONSTRAINTS, Classes, RivalClassifier
from dbdl.rivals._class_codes import squared_class_residuals

Matrix = NDArray[np.float64]

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

    def scores(self, X: Floats, n_threads: int = 1) -> NDArray[np.float64]:
        """Minus the norm of what each class's pair leaves of the row."""
        blocks = [self.class_of_atom == c for c in range(self.n_classes)]
        return -np.sqrt(squared_class_residuals(X, X @ self.projection, self.atoms, blocks))


@dataclass(frozen=True)
class DPLSettings:
    """Size and weights of the objective; see `DPLClassifier`."""

    n_atoms_per_class: int = 15
    tie: float = 0.05
    discrimination: float = 0.003
    penalty: float = 1e-4
    n_iterations: int = 20


@dataclass(frozen=True)
class Pair:
    """What is learned for one class."""

    atoms: Matrix  # (n_atoms, n_features), of norm at most one
    projection: Matrix  # (n_features, n_atoms)
    objective: list[float]


def learn_pair(
    rows: Matrix, gram_of_others: Matrix, settings: DPLSettings, rng: np.random.Generator
) -> Pair:
    """Learn the pair of one class; the classes do not depend on each other.

    Parameters
    ----------
    rows : ndarray of shape (n_samples, n_features)
        Rows of the class.
    gram_of_others : ndarray of shape (n_features, n_features)
        ``others.T @ others`` of the rows of all other classes.
    settings : DPLSettings
    rng : Generator

    Returns
    -------
    Pair
    """
    tie = settings.tie
    n_atoms = min(settings.n_atoms_per_class, len(rows))
    to_projection = projection_of_codes(rows, gram_of_others, settings)
    shared = rows @ to_projection  # turns codes into the codes that their projection gives
    atoms: Matrix = unit_rows(rng.standard_normal((n_atoms, rows.shape[1]))).astype(np.float64)
    projected: Matrix = rows @ unit_rows(rng.standard_normal((n_atoms, rows.shape[1]))).T
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


def projection_of_codes(rows: Matrix, gram_of_others: Matrix, settings: DPLSettings) -> Matrix:
    """Matrix (n_features, n_samples) that turns codes of the rows into the best projection.

    The projection solves (tie rows' rows + discrimination others' others + penalty I) P
    = tie rows' codes. The matrix stays the same in all iterations: it is factored once.
    """
    system = settings.tie * (rows.T @ rows) + settings.discrimination * gram_of_others
    return solve_ridge(system, settings.tie * rows.T, settings.penalty)


def update_codes(rows: Matrix, atoms: Matrix, projected: Matrix, tie: float) -> Matrix:
    """Codes that minimise ||rows - codes atoms||^2 + tie ||projected - codes||^2."""
    return solve_ridge(atoms @ atoms.T, (rows @ atoms.T + tie * projected).T, tie).T


def update_atoms_in_ball(atoms: Matrix, gram: Matrix, cross: Matrix) -> Matrix:
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


def learn_dpl(
    X: Floats,
    class_of_row: Classes,
    n_classes: int,
    settings: DPLSettings,
    seed: int,
    n_threads: int = 1,
) -> DPLModel:
    """Learn a pair for every class."""
    rows = X.astype(np.float64)
    gram = rows.T @ rows

    def learn(c: int) -> Pair:
        own = rows[class_of_row == c]
        return learn_pair(own, gram - own.T @ own, settings, np.random.default_rng([seed, c]))

    pairs = run_blocks(learn, range(n_classes), n_threads)
    return DPLModel(
        np.vstack([pair.atoms for pair in pairs]).astype(X.dtype),
        np.hstack([pair.projection for pair in pairs]).astype(X.dtype),
        np.repeat(np.arange(n_classes), [len(pair.atoms) for pair in pairs]),
        n_classes,
        np.sum([pair.objective for pair in pairs], axis=0),
    )


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
    use alternating directions). So the objective never rises. A row belongs to the class
    with the least :math:`\|x - x P_c D_c\|`.

    Not among the methods of the DBDL paper: an honest table needs it, since it is fast both to
    learn and to use. The default weights, for rows of unit norm, are meant to be those its authors
    use for faces; they were not checked against their code.

    Parameters
    ----------
    n_atoms_per_class : int, default=15
        Atoms of each class. A class with fewer rows has as many as rows.
    tie : float, default=0.05
        :math:`\tau`, how closely the codes follow the projection.
    discrimination : float, default=0.003
        :math:`\lambda`, weight of the codes that a class gives to rows of others.
    penalty : float, default=0.0001
        :math:`\gamma`, of the projection's size.
    n_iterations : int, default=20
    calibrate : bool, default=True
        Fit a temperature for `predict_proba` on held-out rows, by a second fit.
    normalize : bool, default=True
        Scale rows to unit norm.
    n_jobs : int, default=None
        Threads.
    random_state : int, RandomState instance or None, default=None
        Seed of the first atoms and projections.

    Attributes
    ----------
    atoms_, components_ : ndarray of shape (n_atoms, n_features)
        Of norm at most one.
    classes_ : ndarray of shape (n_classes,)
    n_atoms_ : int
    model_ : DPLModel
    objective_ : ndarray of shape (n_iterations,)
    temperature_ : float
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    References
    ----------
    S. Gu, L. Zhang, W. Zuo and X. Feng, "Projective dictionary pair learning for pattern
    classification", NIPS 2014.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dbdl.rivals.dpl import DPLClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = DPLClassifier(calibrate=False, random_state=0).fit(X[::2], y[::2])
    >>> bool(model.score(X[1::2], y[1::2]) > 0.9)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **RIVAL_CONSTRAINTS,
        "n_atoms_per_class": [Interval(Integral, 1, None, closed="left")],
        "tie": [POSITIVE],
        "discrimination": [NOT_NEGATIVE],
        "penalty": [POSITIVE],
        "n_iterations": [Interval(Integral, 1, None, closed="left")],
    }

    _needs_many_features = True

    def __init__(
        self,
        *,
        n_atoms_per_class: int = 15,
        tie: float = 0.05,
        discrimination: float = 0.003,
        penalty: float = 1e-4,
        n_iterations: int = 20,
        calibrate: bool = True,
        normalize: bool = True,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_atoms_per_class = n_atoms_per_class
        self.tie = tie
        self.discrimination = discrimination
        self.penalty = penalty
        self.n_iterations = n_iterations
        self.calibrate = calibrate
        self.normalize = normalize
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _learn(
        self, X: Floats, class_of_row: Classes, n_classes: int, seed: int, n_threads: int
    ) -> DPLModel:
        settings = DPLSettings(**self._own_settings())
        return learn_dpl(X, class_of_row, n_classes, settings, seed, n_threads)
