"""Collaborative representation (Zhang, Yang and Feng, ICCV 2011): ridge codes over all rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dbdl.estimators._rows import POSITIVE
from dbdl.model.record import Record
from dbdl.model.ridge import solve_ridge
from dbdl.model.state import Floats
from dbdl.model.trust import Atoms, ClassOfAtom, NClasses, Objective, Projection
from dbdl.rivals._base import RIVAL_CONSTRAINTS, Classes, RivalClassifier
from dbdl.rivals._class_codes import squared_class_residuals

#: Keeps the rule finite for a class whose rows take no part in a code.
SMALLEST_NORM = 1e-12


@dataclass(frozen=True)
class CRCModel(Record):
    """Training rows, and the matrix that turns a row into its code."""

    atoms: Atoms
    class_of_atom: ClassOfAtom
    n_classes: NClasses
    projection: Projection  # (n_features, n_atoms)
    objective: Objective

    def scores(self, X: Floats, n_threads: int = 1) -> NDArray[np.float64]:
        """Minus the class residual over the norm of the class's part of the code."""
        codes = X @ self.projection
        blocks = [self.class_of_atom == c for c in range(self.n_classes)]
        residual = np.sqrt(squared_class_residuals(X, codes, self.atoms, blocks))
        strength = np.column_stack([np.linalg.norm(codes[:, own], axis=1) for own in blocks])
        return -residual / (strength + SMALLEST_NORM)


def learn_crc(X: Floats, class_of_row: Classes, n_classes: int, penalty: float) -> CRCModel:
    """Solve for the projection once: all queries share it."""
    rows = X.astype(np.float64)
    codes_of_unit_vectors = solve_ridge(rows @ rows.T, rows, penalty)
    return CRCModel(
        X, class_of_row, n_classes, codes_of_unit_vectors.T.astype(X.dtype), np.empty(0)
    )


class CRCClassifier(RivalClassifier):
    r"""Collaborative representation with regularised least squares (CRC-RLS).

    The training rows :math:`D` are the atoms. A row :math:`x` has the code

    .. math:: \alpha = \arg\min_a \|x - a D\|^2 + \lambda \|a\|^2 = x D^T (D D^T + \lambda I)^{-1}

    and belongs to the class with the least :math:`\|x - \alpha_c D_c\| / \|\alpha_c\|`, where
    :math:`\alpha_c` is the part of the code over the rows :math:`D_c` of the class.

    Not among the methods of the DBDL paper: an honest table needs it, since it takes milliseconds.

    Parameters
    ----------
    penalty : float, default=0.001
        :math:`\lambda`, for rows of unit norm. Its authors use 0.001 N / 700 for N training rows.
    calibrate : bool, default=True
        Fit a temperature for `predict_proba` on held-out rows, by a second fit.
    normalize : bool, default=True
        Scale rows to unit norm.
    n_jobs : int, default=None
        Threads.
    random_state : int, RandomState instance or None, default=None
        Decides which rows are held out for the temperature.

    Attributes
    ----------
    atoms_, components_ : ndarray of shape (n_atoms, n_features)
        The training rows, those of zeros left out.
    classes_ : ndarray of shape (n_classes,)
    n_atoms_ : int
    model_ : CRCModel
    objective_ : ndarray of shape (0,)
        Nothing is iterated.
    temperature_ : float
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    References
    ----------
    L. Zhang, M. Yang and X. Feng, "Sparse representation or collaborative representation: which
    helps face recognition?", ICCV 2011.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dbdl.rivals.crc import CRCClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> bool(CRCClassifier(random_state=0).fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.9)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **RIVAL_CONSTRAINTS,
        "penalty": [POSITIVE],
    }

    _needs_many_features = True
    _has_rows_as_atoms = True

    def __init__(
        self,
        *,
        penalty: float = 0.001,
        calibrate: bool = True,
        normalize: bool = True,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.penalty = penalty
        self.calibrate = calibrate
        self.normalize = normalize
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _learn(
        self, X: Floats, class_of_row: Classes, n_classes: int, seed: int, n_threads: int
    ) -> CRCModel:
        return learn_crc(X, class_of_row, n_classes, self.penalty)
