"""Rows scaled for the classifiers of scikit-learn, which do not scale rows themselves."""

from __future__ import annotations

from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.preprocessing import StandardScaler
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from dbdl.estimators._rows import unit_rows
from dbdl.rivals._behind import Behind

Scaling = Literal["unit", "standard"]


def _can(verb: str) -> Any:
    return available_if(lambda self: hasattr(getattr(self, "classifier_", self.classifier), verb))


class ScaledRowsClassifier(Behind, ClassifierMixin, BaseEstimator):
    """A classifier that sees rows of unit norm, or features of mean zero and equal variance.

    Unit norm suits rows whose direction matters, such as images; standard scaling suits tables of
    measurements in different units. Standardised rows are divided by the root of the number of
    features, so that their mean squared norm is one as well: penalties and widths of kernels mean
    the same for both.

    Its parameters are those of the classifier, under their own names, and ``scaling``: a search may
    try them together.

    Parameters
    ----------
    classifier : estimator
        Of scikit-learn.
    scaling : {"unit", "standard"}, default="standard"

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    classifier_ : estimator
        The fitted one.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
    scaler_ : StandardScaler
        Set with ``scaling="standard"``.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from dbdl.rivals._scaled_rows import ScaledRowsClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> model = ScaledRowsClassifier(KNeighborsClassifier()).set_params(n_neighbors=3)
    >>> bool(model.fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.9)
    True
    """

    def __init__(self, classifier: Any, scaling: Scaling = "standard") -> None:
        self.classifier = classifier
        self.scaling = scaling

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn the scaling from rows (n_samples, n_features), and the classifier after it."""
        if self.scaling not in get_args(Scaling):
            raise ValueError(f"scaling={self.scaling!r}: expected 'unit' or 'standard'")
        rows = self._validated(X, reset=True)
        if self.scaling == "standard":
            self.scaler_ = StandardScaler().fit(rows)
        self.classifier_ = clone(self.classifier).fit(self._scaled(rows), y)
        self.classes_ = self.classifier_.classes_
        return self

    def _validated(self, X: ArrayLike, reset: bool) -> NDArray[Any]:
        return validate_data(self, X, dtype=(np.float64, np.float32), reset=reset)

    def _scaled(self, rows: NDArray[Any]) -> NDArray[Any]:
        if self.scaling == "unit":
            return unit_rows(rows)
        return self.scaler_.transform(rows) / rows.dtype.type(np.sqrt(rows.shape[1]))

    def _ask(self, verb: str, X: ArrayLike) -> NDArray[Any]:
        check_is_fitted(self, "classifier_")
        return getattr(self.classifier_, verb)(self._scaled(self._validated(X, reset=False)))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the class of each row, (n_samples,)."""
        return self._ask("predict", X)

    @_can("decision_function")
    def decision_function(self, X: ArrayLike) -> NDArray[Any]:
        """Return the scores of the classifier, where it has any."""
        return self._ask("decision_function", X)

    @_can("predict_proba")
    def predict_proba(self, X: ArrayLike) -> NDArray[Any]:
        """Return the probabilities of the classifier, where it has any."""
        return self._ask("predict_proba", X)

    @_can("predict_proba")
    def predict_log_proba(self, X: ArrayLike) -> NDArray[Any]:
        """Return the logarithms of the probabilities, where the classifier has any."""
        if hasattr(self.classifier, "predict_log_proba"):
            return self._ask("predict_log_proba", X)
        with np.errstate(divide="ignore"):
            return np.log(self._ask("predict_proba", X))
