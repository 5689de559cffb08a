"""The base of all estimators: validation of rows and labels, and predictions from scores."""

from __future__ import annotations

from numbers import Integral
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_matrix, issparse
from scipy.special import log_softmax
from sklearn.base import ClassifierMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils._param_validation import Interval
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_is_fitted

from dbdl._arrays import SAFE_EXPONENT, Array, as_labels, only_numbers, refuse_huge, validate_rows
from dbdl._arrays import unit_rows as unit_rows
from dbdl._loaded import CheckedEstimator
from dbdl.backends.base import ALL_ZERO
from dbdl.estimators._lazy import by_blocks
from dbdl.estimators._refusals import RefusalMixin
from dbdl.learn.held_out import to_probabilities
from dbdl.model.settings import NOT_NEGATIVE as NOT_NEGATIVE
from dbdl.model.settings import POSITIVE as POSITIVE
from dbdl.model.state import Classes, Doubles, Floats
from dbdl.model.trust import Length, Positive, RecordError, Scope
from dbdl.rows.readers import is_dask

TOO_SMALL = (
    "X has values of at most {largest:.2g} in absolute value, whose squares underflow to zero. "
    "Scale X, or use normalize=True."
)

#: Constraints of ``n_jobs``: a number of threads, or -1 for all processors, as in joblib.
N_JOBS: list[Any] = [
    None,
    Interval(Integral, 1, None, closed="left"),
    Interval(Integral, None, -1, closed="right"),
]


class RowEstimator(CheckedEstimator):
    """Estimator of rows that may be scaled to unit norm: validation and the seed.

    Subclasses have the parameters ``normalize`` and ``random_state``. Those that fill missing
    values say so by ``_fills_gaps``.
    """

    _fills_gaps: ClassVar[bool] = False

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._fills_gaps
        return tags

    def _check_fitted(self, scope: Scope) -> None:
        """Check the number of features and their names, if they have names."""
        self._check_attributes(scope, "n_features_in_")
        names = vars(self).get("feature_names_in_")
        if names is not None and np.shape(names) != (scope.sizes["n_features"],):
            raise RecordError(
                f"feature_names_in_ has shape {np.shape(names)} for {scope.sizes['n_features']} "
                "features"
            )

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

    def _rows(self, X: ArrayLike, *, reset: bool) -> Floats:
        """Validated rows in C order, scaled to unit norm if requested."""
        return self._scaled(validate_rows(self, X, reset=reset, gaps=self._fills_gaps))

    def _labelled_rows(
        self, X: ArrayLike, y: ArrayLike, *, reset: bool = True
    ) -> tuple[Floats, Array]:
        """Rows to learn from, like `_rows`, and their labels."""
        rows, labels = validate_rows(self, X, as_labels(y), reset=reset, gaps=self._fills_gaps)
        return self._scaled(rows), labels

    def _check_not_all_zero(self, X: Floats) -> None:
        largest = float(np.abs(X).max(initial=0))
        if largest == 0:
            raise ValueError(ALL_ZERO)
        if largest < 2.0 ** -SAFE_EXPONENT[X.dtype.name]:
            raise ValueError(TOO_SMALL.format(largest=largest))

    def _scaled(self, X: Floats) -> Floats:
        return unit_rows(X) if self.normalize else refuse_huge(X)


class ScoreClassifier(RefusalMixin, ClassifierMixin, RowEstimator):
    """Classifier by the highest score, with probabilities by a softmax with fitted temperature.

    Subclasses set ``classes_`` (by `_rows_and_classes`) and ``temperature_``, and define
    `decision_function`.
    """

    classes_: Annotated[Array, Length("n_classes")]
    temperature_: Positive

    def _check_fitted(self, scope: Scope) -> None:
        """Check that classes are distinct and sorted."""
        self._check_attributes(scope, "classes_")
        try:
            in_order = np.array_equal(np.unique(self.classes_), self.classes_)
        except TypeError:  # labels that have no order
            in_order = False
        if not in_order or not len(self.classes_):
            raise RecordError(f"classes_ are not distinct and in order: {self.classes_}")
        if "refusals_" in vars(self):
            self._check_attributes(Scope(), "refusals_")
        super()._check_fitted(scope)

    def _labelled_rows(
        self, X: ArrayLike, y: ArrayLike, *, reset: bool = True
    ) -> tuple[Any, Array]:
        """Rows to learn from; refusals of the model before are forgotten."""
        self.__dict__.pop("refusals_", None)
        return super()._labelled_rows(X, y, reset=reset)

    def _rows_and_classes(self, X: ArrayLike, y: ArrayLike) -> tuple[Floats, Classes]:
        """Rows to learn from and their class indices; sets ``classes_``."""
        rows, labels = self._labelled_rows(X, y)
        check_classification_targets(labels)
        return rows, self._class_of_row(rows, labels)

    def _class_of_row(self, rows: Any, labels: Array, of_rows: str = "") -> Classes:
        """Class indices of rows to learn from, named by ``of_rows``; sets ``classes_``."""
        self._check_not_all_zero(rows)
        classes, class_of_row = np.unique(labels, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(
                f"{type(self).__name__} needs samples of at least 2 classes, but y has 1 class"
                f"{of_rows}: {str(classes[0])!r}. For rows without labels use "
                "BetaProcessDictionary."
            )
        self.classes_ = classes
        return class_of_row

    @by_blocks
    def predict(self, X: ArrayLike) -> Array:
        """Return the class with the highest score for each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        y : ndarray of shape (n_samples,)
        """
        index = self._decided(self._scores(X))
        return self.classes_[index]

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the fraction of rows whose class is predicted correctly.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            True classes.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        accuracy : float
        """
        return float(super().score(X, as_labels(y), sample_weight))

    @by_blocks
    def predict_proba(self, X: ArrayLike) -> Doubles:
        """Class probabilities: softmax of the scores with a temperature fitted on held-out rows.

        `DBDLClassifier` bends scores of three or more classes first where that fits these rows
        better (``bend_``).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
        """
        return self._probabilities(self._scores(X))

    @by_blocks
    def predict_log_proba(self, X: ArrayLike) -> Doubles:
        """Logarithms (n_samples, n_classes) of the probabilities that `predict_proba` returns.

        They are finite even if a probability is 0 in floats.
        """
        return self._log_probabilities(self._scores(X))

    @by_blocks
    def _scores(self, X: ArrayLike) -> Doubles:
        """Return the scores of `decision_function`."""
        check_is_fitted(self)
        return self.decision_function(X)

    def _decided(self, scores: Doubles) -> Classes:
        """Return the index of the class with the highest score for each row."""
        # After partial_fit there may be only one class so far.
        binary = scores.ndim == 1 and len(self.classes_) == 2
        return (scores > 0).astype(int) if binary else scores.reshape(len(scores), -1).argmax(1)

    def _probabilities(self, scores: Doubles) -> Doubles:
        """Return the class probabilities of rows with these scores."""
        return to_probabilities(*self._sharpened(scores))

    def _log_probabilities(self, scores: Doubles) -> Doubles:
        """Return the logarithms of the class probabilities of rows with these scores."""
        scores, sharpness = self._sharpened(scores)
        return log_softmax(sharpness * scores, axis=1)

    def _sharpened(self, scores: Doubles) -> tuple[Doubles, float]:
        """Return scores (n_samples, n_classes), and the factor before their softmax."""
        if len(self.classes_) == 1:
            return np.zeros((len(scores), 1)), 1.0
        if scores.ndim == 1:
            scores = np.column_stack([np.zeros(len(scores)), scores])
        return scores, 1.0 / self.temperature_


def as_asked(estimator: Any, codes: Any) -> Any:
    """Return sparse codes as they are, or dense where the estimator was asked for that.

    ``sparse_output=False`` asks for it, and so does `set_output`: data frames are dense.
    """
    if estimator.sparse_output and _get_output_config("transform", estimator)["dense"] == "default":
        return codes
    return codes.map_blocks(csr_matrix.toarray) if is_dask(codes) else codes.toarray()


def check_codes(codes: Any, n_atoms: int) -> Any:
    """Return codes (n_samples, n_atoms), which messages call X, as an array or a CSR matrix."""
    numbers, floats = only_numbers(codes, "X"), [np.float64, np.float32]
    codes = check_array(numbers, accept_sparse="csr", dtype=floats, input_name="X")
    if codes.shape[1] != n_atoms:
        raise ValueError(
            f"X, the codes, has {codes.shape[1]} columns, but there are {n_atoms} atoms; pass "
            "codes as returned by transform"
        )
    return codes


def decode(codes: Any, atoms: Floats) -> Floats:
    """Reconstruct rows from checked codes (n_samples, n_atoms)."""
    with np.errstate(over="ignore", invalid="ignore"):
        rows = codes @ atoms
    rows = rows.toarray() if issparse(rows) else rows
    most = 2.0 ** (SAFE_EXPONENT[rows.dtype.name] + 20)  # rows themselves are 2^20 times smaller
    if not np.abs(rows).max(initial=0) <= most:
        raise ValueError(
            "X holds codes so large that their products with the atoms overflow. Expected codes as "
            "returned by transform. Look for extreme values."
        )
    return rows
