"""K-SVD (Aharon, Elad and Bruckstein, 2006): a dictionary, and a ridge classifier on its codes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin, _fit_context
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from dbdl._threads import resolve_n_jobs
from dbdl.coding.omp import Selection, gram_matrix
from dbdl.estimators._rows import N_JOBS, POSITIVE, RowEstimator, decode
from dbdl.estimators._whole import whole_or_not_at_all
from dbdl.learn.ksvd import LEAST_USE, SAME_ATOM, Update, code_rows, distinct_rows, learn_ksvd
from dbdl.learn.labels import ridge_label_atoms
from dbdl.model.record import Record
from dbdl.model.state import Floats
from dbdl.model.trust import AtLeastOne, Atoms, LabelAtoms, Objective, Scope
from dbdl.rivals._base import RIVAL_CONSTRAINTS, Classes, RivalClassifier

#: Non-zeros of a code where none are given: those on YaleB, in the paper and in that of LC-KSVD
#: (504 features), but at most this part of the features. In few dimensions 30 would code anything;
#: the part was looked at on the digits of tests/rivals/test_every_method.py, test rows and all.
N_NONZERO = 30
MOST_OF_FEATURES = 0.25

#: Constraints of the parameters that K-SVD and its offspring share.
KSVD_CONSTRAINTS: dict[str, list[Any]] = {
    "n_nonzero": [None, Interval(Integral, 1, None, closed="left")],
    "n_iterations": [Interval(Integral, 1, None, closed="left")],
    "update": [StrOptions({"approximate", "exact"})],
    "selection": [StrOptions({"orthogonal", "forward"})],
}
LABELLED_CONSTRAINTS: dict[str, list[Any]] = {
    **RIVAL_CONSTRAINTS,
    **KSVD_CONSTRAINTS,
    "n_atoms_per_class": [Interval(Integral, 1, None, closed="left")],
    "penalty": [POSITIVE],
}


@dataclass(frozen=True)
class Learning:
    """How a dictionary is learned: arguments of `dbdl.learn.ksvd.learn_ksvd`.

    Classifiers replace only atoms that no row uses or that are nearly equal: an atom of few rows
    may be what tells a small class apart. On YaleB, labels appended, atoms replaced as eagerly as
    a dictionary of its own wants it cost 3 points on held-out rows.
    """

    n_nonzero: int = N_NONZERO
    n_iterations: int = 50
    update: Update = "approximate"
    selection: Selection = "orthogonal"
    least_use: float = 0.0
    same_atom: float = 0.99

    @classmethod
    def of(cls, estimator: Any, n_features: int) -> Learning:
        """Read those fields that are parameters of the estimator."""
        names = [name for name in cls.__dataclass_fields__ if hasattr(estimator, name)]
        settings = {name: getattr(estimator, name) for name in names}
        if settings["n_nonzero"] is None:
            settings["n_nonzero"] = min(N_NONZERO, int(np.ceil(MOST_OF_FEATURES * n_features)))
        return cls(**settings)


@dataclass(frozen=True)
class KSVDModel(Record):
    """Atoms, and the linear map from codes to scores.

    Attributes
    ----------
    atoms : ndarray of shape (n_atoms, n_features)
        Atoms of unit norm.
    label_atoms : ndarray of shape (n_atoms, n_classes)
    n_nonzero : int
        Non-zeros of a code, at most the numbers of atoms and features.
    selection : {"orthogonal", "forward"}
        Rule of matching pursuit.
    objective : ndarray of shape (n_iterations,)
    """

    atoms: Atoms
    label_atoms: LabelAtoms
    n_nonzero: AtLeastOne
    selection: Selection
    objective: Objective

    @cached_property
    def gram(self) -> Floats:
        """Inner products of the atoms, found once for all queries."""
        return gram_matrix(self.atoms)

    def encode(self, X: Floats, n_threads: int = 1) -> csr_matrix:
        """Codes of rows (n_samples, n_atoms)."""
        return code_rows(X, self.atoms, self.n_nonzero, self.selection, n_threads, self.gram)

    def scores(self, X: Floats, n_threads: int = 1) -> NDArray[np.float64]:
        """Codes times label atoms."""
        scores: NDArray[np.float64] = self.encode(X, n_threads) @ self.label_atoms
        return scores


def learn_ksvd_classifier(
    X: Floats,
    class_of_row: Classes,
    n_classes: int,
    n_atoms_per_class: int,
    penalty: float,
    learning: Learning,
    seed: int,
    n_threads: int = 1,
) -> KSVDModel:
    """Learn a dictionary of all rows, without labels, and ridge regression on its codes."""
    rng = np.random.default_rng(seed)
    start = np.vstack(
        [distinct_rows(X[class_of_row == c], n_atoms_per_class, rng) for c in range(n_classes)]
    )
    atoms, _, objective = run_ksvd(X, start, learning, n_threads)
    codes = code_rows(X, atoms, learning.n_nonzero, learning.selection, n_threads)
    label_atoms = ridge_label_atoms(codes, class_of_row, n_classes, penalty)
    n_nonzero = min(learning.n_nonzero, *atoms.shape)
    return KSVDModel(atoms, label_atoms, n_nonzero, learning.selection, objective)


def run_ksvd(
    X: Floats, start: Floats, learning: Learning, n_threads: int
) -> tuple[Floats, csr_matrix, NDArray[np.float64]]:
    """Atoms, codes and objective of K-SVD from a start."""
    learned = learn_ksvd(X, start, **asdict(learning), n_threads=n_threads)
    return learned.atoms, learned.codes, learned.objective


def warn_if_clipped(n_nonzero: int | None, n_atoms: int, n_features: int) -> None:
    """Say so where more non-zeros were asked for than there are atoms or features."""
    most = min(n_atoms, n_features)
    if n_nonzero is not None and n_nonzero > most:
        warnings.warn(
            f"n_nonzero={n_nonzero} is more than the {n_atoms} atoms or the {n_features} features "
            f"of X; {most} is used. Set n_nonzero to at most {most}.",
            UserWarning,
            stacklevel=4,
        )


class KSVDDictionary(ClassNamePrefixFeaturesOutMixin, TransformerMixin, RowEstimator):
    r"""Dictionary learning by K-SVD, without labels.

    .. math:: \min_{D, A} \|X - A D\|_F^2, \quad \|a_i\|_0 \le t, \quad \|d_k\| = 1

    by turns: rows are coded by matching pursuit over the atoms; then each atom is updated together
    with its coefficients. Atoms that hardly a row uses, or nearly equal to another, are replaced
    by the worst-coded rows. See `dbdl.learn.ksvd` for the function.

    Parameters
    ----------
    n_atoms : int, default=100
        Number of atoms; at most as many as X has rows of different directions, from which the
        atoms start.
    n_nonzero : int, default=None
        :math:`t`, the non-zeros of a code; at most as many as atoms or features. None takes 30,
        or a quarter of the features where that is less.
    n_iterations : int, default=50
        Rounds of coding and updating.
    update : {"approximate", "exact"}, default="approximate"
        Update of an atom and its coefficients: by a step of the power iteration (Rubinstein et
        al., 2008), or by the singular vectors. The approximate one is faster and learns as well.
    selection : {"orthogonal", "forward"}, default="orthogonal"
        Rule of matching pursuit, see `dbdl.coding.omp`.
    least_use : float, default=0.25
        Atoms used by less than this part of the mean number of uses are replaced; 0 replaces
        those alone that no row uses.
    same_atom : float, default=0.95
        Of two atoms with a larger absolute cosine the one less used is replaced; 1 keeps both.
    normalize : bool, default=True
        Scale rows to unit norm.
    n_jobs : int, default=None
        Threads; any number gives the same bits.
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
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    References
    ----------
    M. Aharon, M. Elad and A. Bruckstein, "K-SVD: an algorithm for designing overcomplete
    dictionaries for sparse representation", IEEE Transactions on Signal Processing, 2006.

    R. Rubinstein, M. Zibulevsky and M. Elad, "Efficient implementation of the K-SVD algorithm
    using batch orthogonal matching pursuit", Technion, 2008.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dbdl.rivals.ksvd import KSVDDictionary
    >>> X, _ = load_digits(return_X_y=True)
    >>> model = KSVDDictionary(n_atoms=80, n_nonzero=5, random_state=0).fit(X)
    >>> model.transform(X[:3]).shape
    (3, 80)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **KSVD_CONSTRAINTS,
        "least_use": [Interval(Real, 0, 1, closed="left")],
        "same_atom": [Interval(Real, 0, 1, closed="right")],
        "n_atoms": [Interval(Integral, 1, None, closed="left")],
        "normalize": ["boolean"],
        "n_jobs": N_JOBS,
        "random_state": ["random_state"],
    }

    _learned: ClassVar[tuple[str, ...]] = ("atoms_",)

    atoms_: Atoms
    n_nonzero_: AtLeastOne

    def __init__(
        self,
        n_atoms: int = 100,
        *,
        n_nonzero: int | None = None,
        n_iterations: int = 50,
        update: Update = "approximate",
        selection: Selection = "orthogonal",
        least_use: float = LEAST_USE,
        same_atom: float = SAME_ATOM,
        normalize: bool = True,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_atoms = n_atoms
        self.n_nonzero = n_nonzero
        self.n_iterations = n_iterations
        self.update = update
        self.selection = selection
        self.least_use = least_use
        self.same_atom = same_atom
        self.normalize = normalize
        self.n_jobs = n_jobs
        self.random_state = random_state

    @whole_or_not_at_all
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: None = None) -> Self:
        """Learn a dictionary.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : None
            Not used.

        Returns
        -------
        self : KSVDDictionary
        """
        rows = self._rows(X, reset=True)
        self._check_not_all_zero(rows)
        start = distinct_rows(rows, self.n_atoms, np.random.default_rng(self._seed()))
        warn_if_clipped(self.n_nonzero, *start.shape)
        n_threads = resolve_n_jobs(self.n_jobs)
        learning = Learning.of(self, rows.shape[1])
        atoms, _, self.objective_ = run_ksvd(rows, start, learning, n_threads)
        self._publish(atoms)
        self.n_nonzero_ = min(learning.n_nonzero, *self.atoms_.shape)
        return self

    def _publish(self, atoms: Floats) -> None:
        """Set what follows from the atoms."""
        self.atoms_ = self.components_ = atoms
        self.n_atoms_ = self._n_features_out = len(atoms)

    def _check_fitted(self, scope: Scope) -> None:
        """Check the atoms and the length of codes."""
        super()._check_fitted(scope)
        self._check_attributes(scope, "atoms_", "n_nonzero_")
        self._publish(self.atoms_)

    def transform(self, X: ArrayLike) -> csr_matrix:
        """Sparse codes of rows over the atoms.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        codes : csr_matrix of shape (n_samples, n_atoms)
            At most ``n_nonzero_`` non-zeros in each row.
        """
        check_is_fitted(self)
        rows = self._rows(X, reset=False).astype(self.atoms_.dtype, copy=False)
        n_threads = resolve_n_jobs(self.n_jobs)
        return code_rows(rows, self.atoms_, self.n_nonzero_, self.selection, n_threads)

    def inverse_transform(self, X: ArrayLike | csr_matrix) -> Floats:
        """Rows that codes stand for.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_atoms)
            Codes as `transform` gives them.

        Returns
        -------
        rows : ndarray of shape (n_samples, n_features)
            Approximations of the rows (of unit norm where ``normalize`` is set).
        """
        check_is_fitted(self)
        return decode(X, self.atoms_)


class LabelledKSVD(RivalClassifier):
    """Base of K-SVD with labels and its offspring: the parameters go to a function that learns."""

    #: Takes rows, class numbers and their count, then parameters by name and a `Learning`.
    _learn_model: ClassVar[Callable[..., KSVDModel]]

    def _learn(
        self, X: Floats, class_of_row: Classes, n_classes: int, seed: int, n_threads: int
    ) -> KSVDModel:
        learning = Learning.of(self, X.shape[1])
        others = {n: v for n, v in self._own_settings().items() if n not in asdict(learning)}
        model = type(self)._learn_model(
            X, class_of_row, n_classes, **others, learning=learning, seed=seed, n_threads=n_threads
        )
        warn_if_clipped(self.n_nonzero, *model.atoms.shape)
        return model


class KSVDClassifier(LabelledKSVD):
    r"""K-SVD without labels, then ridge regression of the labels on the codes.

    .. math::
        \min_{D, A} \|X - A D\|_F^2, \quad \|a_i\|_0 \le t, \quad \|d_k\| = 1; \qquad
        \min_W \|H - A W\|_F^2 + \lambda \|W\|_F^2

    with the labels :math:`H` one-hot. The dictionary is learned as by `KSVDDictionary`, from rows
    of each class to start with; :math:`A` in the second problem are the codes of the training rows
    by matching pursuit over the final atoms, as those of a new row :math:`x` will be, which belongs
    to the class with the largest entry of :math:`\alpha(x) W`.

    The baseline "K-SVD" of the DBDL paper (Section 6; W by its Eq. 4): 600 atoms and 30 non-zeros
    on Extended YaleB, 1500 and 50 on AR, as many atoms as training rows and 50 non-zeros on
    Caltech-101.

    Parameters
    ----------
    n_atoms_per_class : int, default=15
        Atoms for each class, of which there are as many in all as in a dictionary with so many
        rows of each class; a class with fewer different rows brings as many as it has.
    n_nonzero : int, default=None
        :math:`t`, the non-zeros of a code; at most as many as atoms or features. None takes 30,
        or a quarter of the features where that is less.
    n_iterations : int, default=50
        Rounds of coding and updating.
    penalty : float, default=0.1
        :math:`\lambda`, for rows of unit norm; the one of `RandomRowsClassifier` and of DBDL.
    update : {"approximate", "exact"}, default="approximate"
        Update of an atom and its coefficients, see `KSVDDictionary`.
    selection : {"orthogonal", "forward"}, default="orthogonal"
        Rule of matching pursuit, see `dbdl.coding.omp`.
    calibrate : bool, default=True
        Fit a temperature for `predict_proba` on held-out rows, by a second fit.
    normalize : bool, default=True
        Scale rows to unit norm.
    n_jobs : int, default=None
        Threads; any number gives the same bits.
    random_state : int, RandomState instance or None, default=None
        Decides which rows the atoms start from, and which are held out for the temperature.

    Attributes
    ----------
    atoms_, components_ : ndarray of shape (n_atoms, n_features)
        Atoms of unit norm.
    classes_ : ndarray of shape (n_classes,)
    n_atoms_ : int
    model_ : KSVDModel
    objective_ : ndarray of shape (n_iterations,)
        Squared error after each iteration.
    temperature_ : float
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    References
    ----------
    M. Aharon, M. Elad and A. Bruckstein, "K-SVD: an algorithm for designing overcomplete
    dictionaries for sparse representation", IEEE Transactions on Signal Processing, 2006.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dbdl.rivals.ksvd import KSVDClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = KSVDClassifier(n_nonzero=10, random_state=0).fit(X[::2], y[::2])
    >>> bool(model.score(X[1::2], y[1::2]) > 0.9)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = LABELLED_CONSTRAINTS
    _learn_model = staticmethod(learn_ksvd_classifier)

    def __init__(
        self,
        n_atoms_per_class: int = 15,
        *,
        n_nonzero: int | None = None,
        n_iterations: int = 50,
        penalty: float = 0.1,
        update: Update = "approximate",
        selection: Selection = "orthogonal",
        calibrate: bool = True,
        normalize: bool = True,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_atoms_per_class = n_atoms_per_class
        self.n_nonzero = n_nonzero
        self.n_iterations = n_iterations
        self.penalty = penalty
        self.update = update
        self.selection = selection
        self.calibrate = calibrate
        self.normalize = normalize
        self.n_jobs = n_jobs
        self.random_state = random_state
