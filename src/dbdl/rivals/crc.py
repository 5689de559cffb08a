"""Collaborative representation (Zhang, Yang and Feng, ICCV 2011): ridge codes over all rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dbdl._parameters import PositiveWeight
from dbdl.model.ridge import solve_ridge
from dbdl.model.state import Floats
from dbdl.model.trust import Projection
from dbdl.rivals._base import Lesson, RowsClassifier, RowsModel, Scores
from dbdl.rivals._class_atoms import squared_class_residuals

#: Keeps scores finite for a class whose rows take no part in a code.
SMALLEST_NORM = 1e-12


@dataclass(frozen=True)
class CRCModel(RowsModel):
    """Training rows, and the matrix that turns a row into its code."""

    projection: Projection  # (n_features, n_atoms)

    def scores(self, X: Floats, n_threads: int = 1) -> Scores:
        """Minus the class residual over the norm of the class's part of the code."""
        codes = X @ self.projection
        residual = np.sqrt(squared_class_residuals(X, codes, self.atoms, self.blocks))
        strength = np.column_stack([np.linalg.norm(codes[:, own], axis=1) for own in self.blocks])
        return -residual / (strength + SMALLEST_NORM)


class CRCClassifier(RowsClassifier):
    r"""Collaborative representation with regularised least squares (CRC-RLS).

    The training rows :math:`D` are the atoms. A row :math:`x` has the code

    .. math:: \alpha = \arg\min_a \|x - a D\|^2 + \lambda \|a\|^2 = x D^T (D D^T + \lambda I)^{-1}

    and belongs to the class with the least :math:`\|x - \alpha_c D_c\| / \|\alpha_c\|`, where
    :math:`\alpha_c` is the part of the code over the rows :math:`D_c` of the class.

    Not among the methods of the DBDL paper, but worth comparing with: it takes milliseconds.

    Parameters
    ----------
    penalty : float, default=0.001
        :math:`\lambda`, for rows of unit norm. Its authors use 0.001 N / 700 for N training rows.

    References
    ----------
    L. Zhang, M. Yang and X. Feng, "Sparse representation or collaborative representation: which
    helps face recognition?", ICCV 2011.
    """

    penalty: PositiveWeight = 0.001

    _needs_many_features = True
    _example = "random_state=0"

    def _learn(self, lesson: Lesson) -> CRCModel:
        return CRCModel.of(lesson, collaborative_projection(lesson.X, self.penalty))


def collaborative_projection(X: Floats, penalty: float) -> Floats:
    """Codes of the unit vectors over training rows (n_features, n_samples): all queries share them.

    ``x @ projection`` is the ridge code of a row x.
    """
    rows = X.astype(np.float64)
    return solve_ridge(rows @ rows.T, rows, penalty).T.astype(X.dtype)
