"""Sparsity augmented collaborative representation (SA-CRC: Akhtar, Shafait and Mian 2017)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dbdl._parameters import PositiveCount, PositiveWeight
from dbdl.model.state import Doubles, Floats
from dbdl.model.trust import AtLeastOne, Projection
from dbdl.rivals._base import Lesson, RowsClassifier, RowsModel, Scores
from dbdl.rivals._ksvd import code_rows
from dbdl.rivals.crc import collaborative_projection


@dataclass(frozen=True)
class SACRCModel(RowsModel):
    """Training rows, the matrix of the dense codes, and the length of the sparse ones."""

    projection: Projection  # (n_features, n_atoms)
    n_nonzero: AtLeastOne

    def code(self, X: Floats, n_threads: int = 1) -> Doubles:
        """Dense plus sparse codes (n_samples, n_atoms), of unit norm; zero for rows of zeros."""
        codes = (X @ self.projection).astype(np.float64)
        sparse = code_rows(X, self.atoms, self.n_nonzero, n_threads=n_threads, gram=self.gram)
        codes += sparse.toarray()
        norm = np.linalg.norm(codes, axis=1, keepdims=True)
        return codes / np.where(norm > 0, norm, 1.0)

    def scores(self, X: Floats, n_threads: int = 1) -> Scores:
        """Sum of the coefficients of each class."""
        return self.code(X, n_threads) @ np.eye(self.n_classes)[self.class_of_atom]


class SACRCClassifier(RowsClassifier):
    r"""Sparsity augmented collaborative representation (SA-CRC).

    The training rows :math:`D` are the atoms. A row :math:`x` has a dense code over all of them,
    and a sparse one from orthogonal matching pursuit:

    .. math:: \check\alpha = \arg\min_a \|x - a D\|^2 + \lambda \|a\|^2, \qquad
              \hat\alpha = \arg\min_a \|x - a D\|^2
              \quad\text{subject to}\quad \|a\|_0 \le k.

    Their sum, scaled to unit norm, is the code
    :math:`\alpha = (\check\alpha + \hat\alpha) / \|\check\alpha + \hat\alpha\|`. With :math:`L` the
    binary matrix of the labels of the training rows, the row belongs to the class with the largest
    sum of coefficients, the largest entry of :math:`\alpha L`. No residuals are computed.

    Learning stores the rows, their Gram matrix and the matrix of the dense codes.

    By the authors of the DBDL paper, and later than it.

    Parameters
    ----------
    penalty : float, default=0.01
        :math:`\lambda`, for rows of unit norm.
    n_nonzero : int, default=30
        :math:`k`, non-zeros of the sparse code; at most the number of rows or of features.

    References
    ----------
    N. Akhtar, F. Shafait and A. Mian, "Efficient classification with sparsity augmented
    collaborative representation", Pattern Recognition 65, 2017.
    """

    penalty: PositiveWeight = 0.01
    n_nonzero: PositiveCount = 30

    _needs_many_features = True
    _example = "random_state=0"

    def _learn(self, lesson: Lesson) -> SACRCModel:
        projection = collaborative_projection(lesson.X, self.penalty)
        return SACRCModel.of(lesson, projection, self.n_nonzero).with_gram(lesson.n_threads)
