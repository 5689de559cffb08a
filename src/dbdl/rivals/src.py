"""Sparse representation classification (Wright et al., PAMI 2009): the training rows are atoms."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.utils._param_validation import Interval, StrOptions

from dbdl._compile import REORDERED, kernel
from dbdl._products import row_products, row_squares
from dbdl._threads import block_slices, run_blocks
from dbdl.coding.lasso import SharedFactor, lasso
from dbdl.coding.omp import ROWS, encode, gram_matrix
from dbdl.estimators._rows import NOT_NEGATIVE
from dbdl.model.record import Record
from dbdl.model.state import Floats
from dbdl.model.trust import AtLeastOne, Atoms, ClassOfAtom, NClasses, NotNegative, Objective
from dbdl.rivals._base import RIVAL_CONSTRAINTS, Classes, RivalClassifier

Coding = Literal["lasso", "omp"]


@dataclass(frozen=True)
class SRCModel(Record):
    """Training rows, and how to code a row."""

    atoms: Atoms
    class_of_atom: ClassOfAtom
    n_classes: NClasses
    coder: Coding
    tolerance: NotNegative
    n_nonzero: AtLeastOne
    objective: Objective

    @cached_property
    def gram(self) -> Floats:
        """Inner products of the rows, found once for all queries; in float64 for the lasso."""
        return rows_gram(self.atoms, self.coder)

    @cached_property
    def factor(self) -> SharedFactor | None:
        """For queries that the rows cannot meet; found once for all of them."""
        return SharedFactor.of(self.gram, self.atoms.shape[1])

    def code(self, X: Floats, n_threads: int = 1) -> csr_matrix:
        """Codes (n_samples, n_atoms) of rows."""
        if self.coder == "lasso":
            return lasso(
                X,
                self.atoms,
                tol=self.tolerance,
                gram=self.gram,
                factor=self.factor,
                n_threads=n_threads,
            )
        length = min(self.n_nonzero, *self.atoms.shape)
        pursuit = encode(X, self.atoms, self.gram, [length], n_threads=n_threads)
        return pursuit.to_csr([0], len(self.atoms))

    def scores(self, X: Floats, n_threads: int = 1) -> NDArray[np.float64]:
        """Minus the norm of what the class's part of the code leaves of the row."""
        return -sparse_class_residuals(
            X,
            self.code(X, n_threads),
            self.atoms,
            self.gram,
            self.class_of_atom,
            self.n_classes,
            n_threads,
        )


def rows_gram(rows: Floats, coder: Coding, n_threads: int = 1) -> Floats:
    """Inner products of rows in the dtype that the coder needs, (n_rows, n_rows)."""
    return gram_matrix(rows.astype(np.float64) if coder == "lasso" else rows, n_threads)


def sparse_class_residuals(
    X: Floats,
    codes: csr_matrix,
    atoms: Floats,
    gram: Floats,
    class_of_atom: Classes,
    n_classes: int,
    n_threads: int = 1,
) -> NDArray[np.float64]:
    """Norms of ``x - code_c @ atoms_c`` for every row and class c.

    In Gram space, ``|x|^2 - 2 code_c . (atoms_c @ x) + code_c gram_cc code_c``: only the non-zeros
    of a code cost anything, whatever the number of classes. Sums in float64.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    codes : csr_matrix of shape (n_samples, n_atoms)
    atoms : ndarray of shape (n_atoms, n_features)
    gram : ndarray of shape (n_atoms, n_atoms)
    class_of_atom : ndarray of shape (n_atoms,)
    n_classes : int
    n_threads : int, default=1

    Returns
    -------
    residuals : ndarray of shape (n_samples, n_classes)
    """
    squares = np.empty((len(X), n_classes))

    def fill(rows: slice) -> None:
        part = codes[rows]
        squares[rows] = row_squares(X[rows])[:, np.newaxis]
        _add_residuals(
            row_products(X[rows], atoms), gram, part.data, part.indices, part.indptr,
            class_of_atom, squares[rows],
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


def learn_src(
    X: Floats,
    class_of_row: Classes,
    n_classes: int,
    coder: Coding,
    tolerance: float,
    n_nonzero: int,
    n_threads: int = 1,
) -> SRCModel:
    """Keep the rows, and compute their Gram matrix once for all queries."""
    model = SRCModel(X, class_of_row, n_classes, coder, tolerance, n_nonzero, np.empty(0))
    vars(model)["gram"] = rows_gram(X, coder, n_threads)
    return model


class SRCClassifier(RivalClassifier):
    r"""Sparse representation classification (SRC).

    The training rows :math:`D` are the atoms. With ``coder="lasso"`` a row :math:`x` has the code

    .. math:: \alpha = \arg\min_a \|a\|_1 \quad\text{subject to}\quad
              \|x - a D\|_2 \le \varepsilon

    solved exactly, by following the path of the lasso until the residual has the norm
    :math:`\varepsilon` (:func:`dbdl.coding.lasso`). With ``coder="omp"`` orthogonal matching
    pursuit chooses ``n_nonzero`` rows. The row belongs to the class with the least residual
    :math:`\|x - \alpha_c D_c\|_2`, where :math:`\alpha_c` is the part of the code over the rows
    :math:`D_c` of the class.

    Learning is keeping the rows and their Gram matrix; the cost is at test time, where all queries
    share that matrix.

    The DBDL paper (section 5) sets :math:`\varepsilon` to 0.05 on Extended YaleB and to 1e-6 on AR,
    Caltech-101, Scene-15 and UCF, solved with SPAMS. It is the *norm* of the residual of a row of
    unit norm; SPAMS' solver takes the square. Where the rows cannot meet it (fewer rows than
    features) the code has the least residual, from a factor of the Gram matrix that all queries
    share.

    Parameters
    ----------
    coder : {"lasso", "omp"}, default="lasso"
    tolerance : float, default=0.05
        :math:`\varepsilon`, a norm; for the lasso.
    n_nonzero : int, default=30
        Non-zeros of a code, for matching pursuit.
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
    model_ : SRCModel
    objective_ : ndarray of shape (0,)
        Nothing is iterated.
    temperature_ : float
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    References
    ----------
    J. Wright, A. Y. Yang, A. Ganesh, S. S. Sastry and Y. Ma, "Robust face recognition via sparse
    representation", IEEE Trans. Pattern Analysis and Machine Intelligence 31, 2009.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dbdl.rivals.src import SRCClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = SRCClassifier(tolerance=0.2, calibrate=False).fit(X[::4], y[::4])
    >>> bool(model.score(X[1::4], y[1::4]) > 0.9)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **RIVAL_CONSTRAINTS,
        "coder": [StrOptions({"lasso", "omp"})],
        "tolerance": [NOT_NEGATIVE],
        "n_nonzero": [Interval(Integral, 1, None, closed="left")],
    }

    _needs_many_features = True
    _has_rows_as_atoms = True

    def __init__(
        self,
        *,
        coder: Coding = "lasso",
        tolerance: float = 0.05,
        n_nonzero: int = 30,
        calibrate: bool = True,
        normalize: bool = True,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.coder = coder
        self.tolerance = tolerance
        self.n_nonzero = n_nonzero
        self.calibrate = calibrate
        self.normalize = normalize
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _learn(
        self, X: Floats, class_of_row: Classes, n_classes: int, seed: int, n_threads: int
    ) -> SRCModel:
        return learn_src(X, class_of_row, n_classes, **self._own_settings(), n_threads=n_threads)
