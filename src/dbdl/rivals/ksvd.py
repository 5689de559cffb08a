"""K-SVD (Aharon, Elad and Bruckstein, 2006): a dictionary, and a ridge classifier on its codes."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Real
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_matrix
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin, _fit_context
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from dbdl._parameters import PositiveCount, PositiveWeight
from dbdl._threads import resolve_n_jobs
from dbdl._warnings import warn_caller
from dbdl.coding.omp import Rule, gram_matrix
from dbdl.estimators._rows import RowEstimator, as_asked, check_codes, decode
from dbdl.estimators._whole import whole_or_not_at_all
from dbdl.model.state import Floats
from dbdl.model.trust import AtLeastOne, Atoms, Scope
from dbdl.rivals._atoms import distinct_rows
from dbdl.rivals._base import LabelAtomsModel, Lesson, RivalClassifier, RowParameters
from dbdl.rivals._ksvd import LEAST_USE, SAME_ATOM, Learning, Update, code_rows, learn_ksvd

#: Non-zeros of a code by default: as on YaleB (504 features) in the paper and in that of LC-KSVD,
#: but at most this share of the features. In few dimensions 30 would code anything. The share was
#: chosen on the digits of tests/rivals/test_every_method.py, test rows included.
N_NONZERO = 30
MOST_OF_FEATURES = 0.25


class KSVDParameters(RowParameters):
    """Parameters that K-SVD and its offspring share.

    Parameters
    ----------
    n_nonzero : int, default=None
        :math:`t`, the non-zeros of a code; at most as many as atoms or features. None takes 30,
        or a quarter of the features where that is less.
    n_iterations : int, default=50
        Rounds of coding and updating.
    update : {"approximate", "exact"}, default="approximate"
        Update of an atom and its coefficients: by a step of the power iteration, or by the
        singular vectors. The approximate one is faster and learns as well.
    rule : {"orthogonal", "forward"}, default="orthogonal"
        Rule of matching pursuit, see `dbdl.coding.omp`.
    """

    n_nonzero: PositiveCount | None = None
    n_iterations: PositiveCount = 50
    update: Update = "approximate"
    rule: Rule = "orthogonal"

    def _learning(self, n_features: int, least_use: float, same_atom: float) -> Learning:
        n_nonzero = self.n_nonzero
        if n_nonzero is None:
            n_nonzero = min(N_NONZERO, int(np.ceil(MOST_OF_FEATURES * n_features)))
        return Learning(n_nonzero, self.n_iterations, self.update, self.rule, least_use, same_atom)


def warn_if_clipped(n_nonzero: int | None, n_atoms: int, n_features: int) -> None:
    """Warn where more non-zeros were asked for than there are atoms or features."""
    most = min(n_atoms, n_features)
    if n_nonzero is not None and n_nonzero > most:
        warn_caller(
            f"n_nonzero={n_nonzero} is more than the {n_atoms} atoms or the {n_features} features "
            f"of X; {most} is used. Set n_nonzero to at most {most}.",
        )


# ------------------------------------------------------------------------------------ dictionary


class KSVD(ClassNamePrefixFeaturesOutMixin, TransformerMixin, KSVDParameters, RowEstimator):
    r"""Dictionary learning by K-SVD, without labels.

    .. math:: \min_{D, A} \|X - A D\|_F^2, \quad \|a_i\|_0 \le t, \quad \|d_k\| = 1

    is solved in turns: rows are coded by matching pursuit over the atoms, then each atom is updated
    together with its coefficients. Atoms that hardly any row uses, or that nearly equal another,
    are replaced by the worst-coded rows.

    Parameters
    ----------
    n_atoms : int, default=100
        Number of atoms; at most as many as X has rows of different directions, from which the
        atoms start.
    least_use : float, default=0.25
        Atoms used by less than this part of the mean number of uses are replaced; 0 replaces only
        those that no row uses.
    same_atom : float, default=0.95
        Of two atoms with a larger absolute cosine the one less used is replaced; 1 keeps both.
    sparse_output : bool, default=True
        Whether `transform` returns a sparse matrix. If `set_output` asks for data frames, codes are
        dense in any case.
    random_state : int, RandomState instance or None, default=None
        Decides which rows the atoms start from.

    Attributes
    ----------
    atoms_, components_ : ndarray of shape (n_atoms, n_features)
        Atoms of unit norm.
    n_atoms_ : int
    n_nonzero_ : int
        Non-zeros of a code.
    objective_ : ndarray of shape (n_iterations,)
        Squared error after each iteration. Matching pursuit is greedy and replaced atoms start
        anew, so it need not fall at each.

    References
    ----------
    M. Aharon, M. Elad and A. Bruckstein, "K-SVD: an algorithm for designing overcomplete
    dictionaries for sparse representation", IEEE Transactions on Signal Processing, 2006.

    R. Rubinstein, M. Zibulevsky and M. Elad, "Efficient implementation of the K-SVD algorithm
    using batch orthogonal matching pursuit", Technion, 2008.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dbdl.rivals.ksvd import KSVD
    >>> X, _ = load_digits(return_X_y=True)
    >>> model = KSVD(n_atoms=80, n_nonzero=5, random_state=0).fit(X)
    >>> model.transform(X[:3]).shape
    (3, 80)
    """

    n_atoms: PositiveCount = field(default=100, kw_only=False)
    least_use: Annotated[float, Interval(Real, 0, 1, closed="left")] = LEAST_USE
    same_atom: Annotated[float, Interval(Real, 0, 1, closed="right")] = SAME_ATOM
    sparse_output: bool = True

    _learned: ClassVar[tuple[str, ...]] = ("atoms_",)

    atoms_: Atoms = field(init=False)
    n_nonzero_: AtLeastOne = field(init=False)

    @whole_or_not_at_all
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: None = None) -> Self:
        """Learn a dictionary of rows (n_samples, n_features); y is not used."""
        rows = self._rows(X, reset=True)
        self._check_not_all_zero(rows)
        start = distinct_rows(rows, self.n_atoms, np.random.default_rng(self._seed()))
        warn_if_clipped(self.n_nonzero, *start.shape)
        learning = self._learning(rows.shape[1], self.least_use, self.same_atom)
        learned = learn_ksvd(rows, start, learning, resolve_n_jobs(self.n_jobs))
        self.objective_ = learned.objective
        self._publish(learned.atoms)
        self.n_nonzero_ = min(learning.n_nonzero, *self.atoms_.shape)
        return self

    def _publish(self, atoms: Floats) -> None:
        """Set the attributes that follow from the atoms."""
        self.atoms_ = self.components_ = atoms
        self.n_atoms_ = self._n_features_out = len(atoms)

    def _check_fitted(self, scope: Scope) -> None:
        """Check the atoms and the length of codes."""
        super()._check_fitted(scope)
        self._check_attributes(scope, "atoms_", "n_nonzero_")
        self._publish(self.atoms_)

    def transform(self, X: ArrayLike) -> Any:
        """Codes (n_samples, n_atoms) of rows over the atoms, with up to ``n_nonzero_`` non-zeros.

        They are an ndarray with ``sparse_output=False``, and a data frame if `set_output` asked for
        one.
        """
        check_is_fitted(self)
        rows = self._rows(X, reset=False).astype(self.atoms_.dtype, copy=False)
        n_threads = resolve_n_jobs(self.n_jobs)
        codes = code_rows(rows, self.atoms_, self.n_nonzero_, self.rule, n_threads)
        return as_asked(self, codes)

    def inverse_transform(self, X: ArrayLike | csr_matrix) -> Floats:
        """Rows (n_samples, n_features) that codes of `transform` stand for.

        They are approximations of the rows, of unit norm where ``normalize`` is set.
        """
        check_is_fitted(self)
        return decode(check_codes(X, len(self.atoms_)), self.atoms_)


# ------------------------------------------------------------------------------------ classifiers


@dataclass(frozen=True)
class KSVDModel(LabelAtomsModel):
    """Atoms of unit norm, how to code a row over them, and label atoms."""

    n_nonzero: AtLeastOne  # at most the numbers of atoms and features
    rule: Rule  # of matching pursuit

    @cached_property
    def gram(self) -> Floats:
        """Inner products of the atoms, found once for all queries."""
        return gram_matrix(self.atoms)

    def encode(self, X: Floats, n_threads: int = 1) -> csr_matrix:
        """Codes of rows by matching pursuit."""
        return code_rows(X, self.atoms, self.n_nonzero, self.rule, n_threads, self.gram)


class LabelledKSVD(KSVDParameters, RivalClassifier):
    """Base of K-SVD with labels and its offspring.

    Only atoms that no row uses or that are nearly equal are replaced: an atom of few rows may be
    what tells a small class apart. On YaleB with labels appended, replacing atoms as eagerly as
    `KSVD` does cost 3 points on held-out rows.

    Parameters
    ----------
    n_atoms_per_class : int, default=15
        Atoms that start from each class; a class with fewer different rows brings as many as it
        has.
    penalty : float, default=0.1
        Of the ridge regression of the labels on the codes, for rows of unit norm.

    Attributes
    ----------
    objective_ : ndarray of shape (n_iterations,)
        The objective above after each iteration. Matching pursuit is greedy and replaced atoms
        start anew, so it need not fall at each.
    """

    n_atoms_per_class: PositiveCount = field(default=15, kw_only=False)
    penalty: PositiveWeight = 0.1

    def _learn(self, lesson: Lesson) -> KSVDModel:
        learning = self._learning(lesson.X.shape[1], least_use=0.0, same_atom=0.99)
        model = self._learn_from(lesson, learning)
        warn_if_clipped(self.n_nonzero, *model.atoms.shape)
        return model

    @abstractmethod
    def _learn_from(self, lesson: Lesson, learning: Learning) -> KSVDModel:
        """Learn atoms and label atoms."""


class KSVDClassifier(LabelledKSVD):
    r"""K-SVD without labels, then ridge regression of the labels on the codes.

    .. math::
        \min_{D, A} \|X - A D\|_F^2, \quad \|a_i\|_0 \le t, \quad \|d_k\| = 1; \qquad
        \min_W \|H - A W\|_F^2 + \lambda \|W\|_F^2

    with the labels :math:`H` one-hot. The dictionary is learned as by `KSVD`, from rows
    of each class to start with; :math:`A` in the second problem are the codes of the training rows
    by matching pursuit over the final atoms, as those of a new row :math:`x` will be, which belongs
    to the class with the largest entry of :math:`\alpha(x) W`.

    The baseline "K-SVD" of the DBDL paper (Section 6; W by its Eq. 4): 600 atoms and 30 non-zeros
    on Extended YaleB, 1500 and 50 on AR, as many atoms as training rows and 50 non-zeros on
    Caltech-101.

    Parameters
    ----------
    penalty : float, default=0.1
        :math:`\lambda`, for rows of unit norm; the one of `RandomRowsClassifier` and of DBDL.

    Attributes
    ----------
    objective_ : ndarray of shape (n_iterations,)
        Squared error after each iteration.

    References
    ----------
    M. Aharon, M. Elad and A. Bruckstein, "K-SVD: an algorithm for designing overcomplete
    dictionaries for sparse representation", IEEE Transactions on Signal Processing, 2006.
    """

    _example = "n_nonzero=10, random_state=0"

    def _learn_from(self, lesson: Lesson, learning: Learning) -> KSVDModel:
        rng, n_threads = lesson.rng(), lesson.n_threads
        start = [distinct_rows(own, self.n_atoms_per_class, rng) for own in lesson.by_class()]
        learned = learn_ksvd(lesson.X, np.vstack(start), learning, n_threads)
        atoms = learned.atoms
        codes = learning.code(lesson.X, atoms, n_threads)
        label_atoms = lesson.label_atoms(codes, self.penalty)
        n_nonzero = min(learning.n_nonzero, *atoms.shape)
        return KSVDModel(atoms, label_atoms, learned.objective, n_nonzero, learning.rule)
