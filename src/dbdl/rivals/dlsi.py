"""Dictionaries of classes with structured incoherence (Ramirez, Sprechmann and Sapiro, 2010)."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions

from dbdl._threads import run_blocks
from dbdl.coding.lasso import lasso
from dbdl.estimators._rows import NOT_NEGATIVE
from dbdl.model.record import Record
from dbdl.model.state import Floats
from dbdl.model.trust import AtomBlocks, Atoms, NotNegative, Objective
from dbdl.rivals._atoms import Start, pairwise_overlap, start_atoms, update_atoms
from dbdl.rivals._base import RIVAL_CONSTRAINTS, Classes, RivalClassifier
from dbdl.rivals._class_codes import lasso_loss, total_square


@dataclass(frozen=True)
class DLSIModel(Record):
    """Atoms of every class, one block each."""

    atoms: Atoms
    blocks: AtomBlocks
    penalty: NotNegative
    objective: Objective

    def scores(self, X: Floats, n_threads: int = 1) -> NDArray[np.float64]:
        """Minus the least loss over the atoms of each class."""

        def loss(block: slice) -> NDArray[np.float64]:
            return lasso_loss(X, self.atoms[block], self.penalty)

        return -np.column_stack(run_blocks(loss, self.blocks, n_threads))


def learn_dlsi(
    X: Floats,
    class_of_row: Classes,
    n_classes: int,
    *,
    n_atoms_per_class: int,
    penalty: float,
    incoherence: float,
    n_iterations: int,
    start: Start = "pca",
    seed: int = 0,
    n_threads: int = 1,
) -> DLSIModel:
    """Alternate codes of every class (exact) and atoms (one pass).

    See `DLSIClassifier` for the problem.
    """
    rng = np.random.default_rng(seed)
    atoms, blocks = start_atoms(X, class_of_row, n_classes, n_atoms_per_class, start, rng)
    rows = [X[class_of_row == c] for c in range(n_classes)]

    def code(c: int) -> Floats:
        codes: Floats = lasso(rows[c], atoms[blocks[c]], penalty=penalty).toarray()
        return codes

    codes = run_blocks(code, range(n_classes), n_threads)
    trace = []
    for _ in range(n_iterations):
        gram, cross = _class_sums(rows, codes, blocks)
        atoms = update_atoms(atoms, gram, cross, blocks, incoherence=2 * incoherence)
        codes = run_blocks(code, range(n_classes), n_threads)
        trace.append(dlsi_objective(rows, codes, atoms, blocks, penalty, incoherence))
    return DLSIModel(atoms, tuple(blocks), penalty, np.array(trace))


def _class_sums(
    rows: list[Floats], codes: list[Floats], blocks: list[slice]
) -> tuple[Floats, Floats]:
    """Sums of all classes in one: their codes meet no atoms of other classes."""
    n_atoms = blocks[-1].stop
    gram = np.zeros((n_atoms, n_atoms), dtype=rows[0].dtype)
    cross = np.empty((n_atoms, rows[0].shape[1]), dtype=rows[0].dtype)
    for own, code, block in zip(rows, codes, blocks, strict=True):
        gram[block, block] = code.T @ code
        cross[block] = code.T @ own
    return gram, cross


def dlsi_objective(
    rows: list[Floats],
    codes: list[Floats],
    atoms: Floats,
    blocks: list[slice],
    penalty: float,
    incoherence: float,
) -> float:
    """Objective of `DLSIClassifier`; ``rows`` and ``codes`` class by class."""
    value = 0.0
    for own, code, block in zip(rows, codes, blocks, strict=True):
        value += 0.5 * total_square(own - code @ atoms[block])
        value += penalty * float(np.abs(code).sum(dtype=np.float64))
    overlap = (atoms @ atoms.T).astype(np.float64)
    return value + incoherence * pairwise_overlap(overlap, blocks)


class DLSIClassifier(RivalClassifier):
    r"""Dictionary learning with structured incoherence (DLSI).

    Every class :math:`c` has atoms :math:`D_c` of unit norm for its rows :math:`X_c`, and atoms
    of different classes are kept apart:

    .. math::

        \min_{D, A} \sum_c \tfrac12 \|X_c - A_c D_c\|_F^2 + \lambda \|A_c\|_1
        + \tfrac{\eta}{2} \sum_c \sum_{j \ne c} \|D_c D_j^T\|_F^2

    which is half the problem of the paper with half its :math:`\lambda`. Codes and atoms take
    turns: the codes are lasso solutions, the atoms are updated one by one on the sphere, the
    incoherence by a bound that touches it at the old atom, so that the objective never rises.

    A row :math:`x` belongs to the class with the least
    :math:`\min_a \tfrac12 \|x - a D_c\|^2 + \lambda \|a\|_1`.

    The DBDL paper cites figures of this method for action recognition and names no settings. The
    paper's extension that ignores atoms shared by classes is left out.

    Parameters
    ----------
    n_atoms_per_class : int, default=15
        A class with fewer rows gets as many atoms as it has rows.
    penalty : float, default=0.001
        :math:`\lambda`, in learning and in coding new rows, for rows of unit norm.
    incoherence : float, default=0.001
        :math:`\eta`.
    n_iterations : int, default=15
    start : {"pca", "rows"}, default="pca"
        First atoms: principal directions (not centred) of the class, or rows of it at random.
    calibrate : bool, default=True
        Fit a temperature for `predict_proba` on held-out rows, by a second fit.
    normalize : bool, default=True
        Scale rows to unit norm.
    n_jobs : int, default=None
        Threads.
    random_state : int, RandomState instance or None, default=None
        Decides the first atoms with ``start="rows"``, and which rows are held out for the
        temperature.

    Attributes
    ----------
    atoms_, components_ : ndarray of shape (n_atoms, n_features)
        Of unit norm, class after class.
    classes_ : ndarray of shape (n_classes,)
    n_atoms_ : int
    model_ : DLSIModel
    objective_ : ndarray of shape (n_iterations,)
    temperature_ : float
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    References
    ----------
    I. Ramirez, P. Sprechmann and G. Sapiro, "Classification and clustering via dictionary learning
    with structured incoherence and shared features", CVPR 2010.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dbdl.rivals.dlsi import DLSIClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = DLSIClassifier(random_state=0).fit(X[::2], y[::2])
    >>> bool(model.score(X[1::2], y[1::2]) > 0.9)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **RIVAL_CONSTRAINTS,
        "n_atoms_per_class": [Interval(Integral, 1, None, closed="left")],
        "penalty": [NOT_NEGATIVE],
        "incoherence": [NOT_NEGATIVE],
        "n_iterations": [Interval(Integral, 0, None, closed="left")],
        "start": [StrOptions({"pca", "rows"})],
    }

    _needs_many_features = True

    def __init__(
        self,
        *,
        n_atoms_per_class: int = 15,
        penalty: float = 0.001,
        incoherence: float = 0.001,
        n_iterations: int = 15,
        start: Start = "pca",
        calibrate: bool = True,
        normalize: bool = True,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_atoms_per_class = n_atoms_per_class
        self.penalty = penalty
        self.incoherence = incoherence
        self.n_iterations = n_iterations
        self.start = start
        self.calibrate = calibrate
        self.normalize = normalize
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _learn(
        self, X: Floats, class_of_row: Classes, n_classes: int, seed: int, n_threads: int
    ) -> DLSIModel:
        return learn_dlsi(
            X, class_of_row, n_classes, **self._own_settings(), seed=seed, n_threads=n_threads
        )
