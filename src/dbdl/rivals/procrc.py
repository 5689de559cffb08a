"""Probabilistic collaborative representation (ProCRC: Cai, Zhang, Zuo and Feng, CVPR 2016)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dbdl._parameters import AnyWeight, PositiveWeight
from dbdl.model.ridge import solve_ridge
from dbdl.model.state import Classes, Doubles, Floats
from dbdl.model.trust import Projection
from dbdl.rivals._base import Lesson, RowsClassifier, RowsModel, Scores
from dbdl.rivals._class_atoms import squared_class_residuals


@dataclass(frozen=True)
class ProCRCModel(RowsModel):
    """Training rows, and the matrix that turns a row into its code."""

    projection: Projection  # (n_features, n_atoms)

    def scores(self, X: Floats, n_threads: int = 1) -> Scores:
        """Minus the distance from the whole reconstruction to that of each class."""
        codes = X @ self.projection
        return -np.sqrt(squared_class_residuals(codes @ self.atoms, codes, self.atoms, self.blocks))


def quadratic_of_codes(
    gram: Doubles, class_of_row: Classes, n_classes: int, agreement: float
) -> Doubles:
    """Matrix of the squares in a code but for the penalty, (n_samples, n_samples).

    A class leaves that part of the reconstruction which comes from all other classes. So a pair
    of rows takes part once for each class that neither of them belongs to: K - 1 classes where
    both are of one class, K - 2 where they are not.
    """
    same = class_of_row[:, np.newaxis] == class_of_row
    return gram * (1 + agreement * (n_classes - 2 + same) / n_classes)


class ProCRCClassifier(RowsClassifier):
    r"""Probabilistic collaborative representation (ProCRC).

    The training rows :math:`D` of :math:`K` classes are the atoms. A row :math:`x` has the code

    .. math:: \alpha = \arg\min_a \|x - a D\|^2 + \lambda \|a\|^2
              + \frac{\gamma}{K} \sum_c \|a D - a_c D_c\|^2

    with :math:`a_c` the part of the code over the rows :math:`D_c` of class :math:`c`. The last
    term asks every class to explain the whole reconstruction by itself. The code is linear in the
    row, so all queries share one matrix. The row belongs to the class with the least
    :math:`\|\alpha D - \alpha_c D_c\|`.

    With :math:`\gamma = 0` the code is that of `CRCClassifier`, whose rule differs: it compares
    with the row, and divides by the size of the part of the code.

    Not among the methods of the DBDL paper. The variant of its authors with an l1 loss, for rows
    with gross errors, is not here.

    Parameters
    ----------
    penalty : float, default=0.01
        :math:`\lambda`, for rows of unit norm.
    agreement : float, default=10.0
        :math:`\gamma`, how closely each class should follow the whole reconstruction.

    References
    ----------
    S. Cai, L. Zhang, W. Zuo and X. Feng, "A probabilistic collaborative representation based
    approach for pattern classification", CVPR 2016.
    """

    penalty: PositiveWeight = 0.01
    agreement: AnyWeight = 10.0

    _needs_many_features = True
    _example = "random_state=0"

    def _learn(self, lesson: Lesson) -> ProCRCModel:
        rows, classes = lesson.X.astype(np.float64), lesson.class_of_row
        quadratic = quadratic_of_codes(rows @ rows.T, classes, lesson.n_classes, self.agreement)
        # codes of the unit vectors: all queries share them
        projection = solve_ridge(quadratic, rows, self.penalty).T.astype(lesson.X.dtype)
        return ProCRCModel.of(lesson, projection)
