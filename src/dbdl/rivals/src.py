"""Sparse representation classification (Wright et al., PAMI 2009): the training rows are atoms."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from scipy.sparse import csr_matrix

from dbdl._compile import REORDERED, kernel
from dbdl._parameters import AnyWeight, PositiveCount
from dbdl._products import row_products, row_squares
from dbdl._threads import block_slices, run_blocks
from dbdl.coding.lasso import SharedFactor, lasso
from dbdl.coding.omp import ROWS, gram_matrix
from dbdl.model.state import Floats
from dbdl.model.trust import AtLeastOne, NotNegative
from dbdl.rivals._base import Lesson, RowsClassifier, RowsModel, Scores
from dbdl.rivals._ksvd import code_rows

SparseCoder = Literal["lasso", "omp"]


@dataclass(frozen=True)
class SRCModel(RowsModel):
    """Training rows, and how to code a row."""

    coder: SparseCoder
    tolerance: NotNegative
    n_nonzero: AtLeastOne

    def find_gram(self, n_threads: int = 1) -> Floats:
        """Inner products of the rows; in float64 for the lasso."""
        rows = self.atoms.astype(np.float64) if self.coder == "lasso" else self.atoms
        return gram_matrix(rows, n_threads)

    @cached_property
    def factor(self) -> SharedFactor | None:
        """For queries that the rows cannot meet; found once for all of them."""
        return SharedFactor.of(self.gram, self.atoms.shape[1])

    def code(self, X: Floats, n_threads: int = 1) -> csr_matrix:
        """Codes (n_samples, n_atoms) of rows."""
        if self.coder == "lasso":
            gram, factor, tol = self.gram, self.factor, self.tolerance
            return lasso(X, self.atoms, tol=tol, gram=gram, factor=factor, n_threads=n_threads)
        return code_rows(X, self.atoms, self.n_nonzero, n_threads=n_threads, gram=self.gram)

    def scores(self, X: Floats, n_threads: int = 1) -> Scores:
        """Minus the norm of what the class's part of the code leaves of the row."""
        return -self.residuals(X, self.code(X, n_threads), n_threads)

    def residuals(self, X: Floats, codes: csr_matrix, n_threads: int = 1) -> Scores:
        """Norms (n_samples, n_classes) of ``x - code_c @ atoms_c`` for every row and class c.

        In Gram space, ``|x|^2 - 2 code_c . (atoms_c @ x) + code_c gram_cc code_c``: only the
        non-zeros of a code cost anything, whatever the number of classes. Sums in float64.
        """
        squares, gram = np.empty((len(X), self.n_classes)), self.gram

        def fill(rows: slice) -> None:
            part = codes[rows]
            squares[rows] = row_squares(X[rows])[:, np.newaxis]
            _add_residuals(
                row_products(X[rows], self.atoms), gram, part.data, part.indices, part.indptr,
                self.class_of_atom, squares[rows],
            )  # fmt: skip

        run_blocks(fill, block_slices(len(X), ROWS), n_threads)
        return np.sqrt(squares)


@kernel(REORDERED, allocates=True)
def _add_residuals(
    correlations: Any, gram: Any, data: Any, atom: Any, start: Any, class_of_atom: Any,
    squares: Any,
) -> None:  # fmt: skip
    n_classes = squares.shape[1]
    for i in range(squares.shape[0]):
        # entries class by class, so that each meets only those of its class
        class_start = np.zeros(n_classes + 1, np.int64)
        for a in range(start[i], start[i + 1]):
            class_start[class_of_atom[atom[a]] + 1] += 1
        for c in range(n_classes):
            class_start[c + 1] += class_start[c]
        entry = np.empty(start[i + 1] - start[i], np.int64)
        place = class_start[:-1].copy()
        for a in range(start[i], start[i + 1]):
            c = class_of_atom[atom[a]]
            entry[place[c]] = a
            place[c] += 1
        for c in range(n_classes):
            for n in range(class_start[c], class_start[c + 1]):
                a = entry[n]
                k = atom[a]
                total = np.float64(data[a]) * gram[k, k] - 2 * np.float64(correlations[i, k])
                for m in range(class_start[c], n):
                    b = entry[m]
                    total += 2 * np.float64(data[b]) * gram[k, atom[b]]
                squares[i, c] += data[a] * total
            squares[i, c] = max(squares[i, c], 0.0)


class SRCClassifier(RowsClassifier):
    r"""Sparse representation classification (SRC).

    The training rows :math:`D` are the atoms. With ``coder="lasso"`` a row :math:`x` has the code

    .. math:: \alpha = \arg\min_a \|a\|_1 \quad\text{subject to}\quad
              \|x - a D\|_2 \le \varepsilon

    solved exactly, by following the path of the lasso until the residual has the norm
    :math:`\varepsilon` (:func:`dbdl.coding.lasso`). With ``coder="omp"`` orthogonal matching
    pursuit chooses ``n_nonzero`` rows. The row belongs to the class with the least residual
    :math:`\|x - \alpha_c D_c\|_2`, where :math:`\alpha_c` is the part of the code over the rows
    :math:`D_c` of the class.

    Learning only stores the rows and their Gram matrix. The cost is at test time, where all queries
    share that matrix.

    The DBDL paper (section 5) sets :math:`\varepsilon` to 0.05 on Extended YaleB and to 1e-6 on AR,
    Caltech-101, Scene-15 and UCF, solved with SPAMS. It is the *norm* of the residual of a row of
    unit norm; SPAMS' solver takes the square. Where the rows cannot meet it (fewer rows than
    features) the code has the least residual, from a factor of the Gram matrix that all queries
    share.

    Parameters
    ----------
    coder : {"lasso", "omp"}, default="lasso"
        How a row is coded, see above.
    tolerance : float, default=0.05
        :math:`\varepsilon`, a norm; for the lasso.
    n_nonzero : int, default=30
        Non-zeros of a code, for matching pursuit.

    References
    ----------
    J. Wright, A. Y. Yang, A. Ganesh, S. S. Sastry and Y. Ma, "Robust face recognition via sparse
    representation", IEEE Trans. Pattern Analysis and Machine Intelligence 31, 2009.
    """

    coder: SparseCoder = "lasso"
    tolerance: AnyWeight = 0.05
    n_nonzero: PositiveCount = 30

    _needs_many_features = True
    _example = "tolerance=0.2, calibrate=False"

    def _learn(self, lesson: Lesson) -> SRCModel:
        model = SRCModel.of(lesson, self.coder, self.tolerance, self.n_nonzero)
        return model.with_gram(lesson.n_threads)
