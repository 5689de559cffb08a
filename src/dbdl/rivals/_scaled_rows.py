"""Rows scaled for the classifiers of scikit-learn, which do not scale rows themselves."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    OneToOneFeatureMixin,
    TransformerMixin,
    _fit_context,
    clone,
)
from sklearn.preprocessing import StandardScaler
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from dbdl._parameters import Declared
from dbdl.estimators._rows import unit_rows

Scaling = Literal["unit", "standard"]


class ScaledRows(Declared, OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Scale rows to unit norm, or each feature to mean zero and equal variance.

    Unit norm suits rows whose direction matters, such as images; standard scaling suits tables of
    measurements in different units. Standardised rows are divided by the root of the number of
    features, so that their mean squared norm is one as well: penalties and widths of kernels mean
    the same for both.

    Parameters
    ----------
    scaling : {"unit", "standard"}, default="standard"

    Attributes
    ----------
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
    scaler_ : StandardScaler
        Set with ``scaling="standard"``.

    Examples
    --------
    >>> from dbdl.rivals._scaled_rows import ScaledRows
    >>> ScaledRows(scaling="unit").fit_transform([[3.0, 4.0], [0.0, 2.0]])
    array([[0.6, 0.8],
           [0. , 1. ]])
    """

    scaling: Scaling = "standard"

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Learn means and variances of features, where they are needed."""
        rows = self._validated(X, reset=True)
        if self.scaling == "standard":
            self.scaler_ = StandardScaler().fit(rows)
        return self

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """Return the scaled rows, (n_samples, n_features)."""
        check_is_fitted(self, "n_features_in_")
        rows = self._validated(X, reset=False)
        if self.scaling == "unit":
            return unit_rows(rows)
        scaled: NDArray[Any] = self.scaler_.transform(rows)
        return scaled / scaled.dtype.type(np.sqrt(rows.shape[1]))

    def _validated(self, X: ArrayLike, reset: bool) -> NDArray[Any]:
        return validate_data(self, X, dtype=(np.float64, np.float32), reset=reset)


def _can(verb: str) -> Any:
    return available_if(lambda self: hasattr(getattr(self, "classifier_", self.classifier), verb))


class ScaledRowsClassifier(ClassifierMixin, BaseEstimator):
    """A classifier that sees its rows through `ScaledRows`.

    Its parameters are those of the classifier, under their own names, and ``scaling``: a search may
    try them together.

    Parameters
    ----------
    classifier : estimator
        Of scikit-learn.
    scaling : {"unit", "standard"}, default="standard"
        As for `ScaledRows`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    classifier_ : estimator
        The fitted one.
    n_features_in_ : int
    scaled_rows_ : ScaledRows

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

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return its own two parameters, and those of the classifier where ``deep``."""
        own = {"classifier": self.classifier, "scaling": self.scaling}
        return {**self.classifier.get_params(), **own} if deep else own

    def set_params(self, **params: Any) -> Self:
        """Set parameters of its own or of the classifier, by their names."""
        for name in {"classifier", "scaling"} & set(params):
            setattr(self, name, params.pop(name))
        self.classifier.set_params(**params)
        return self

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn the scaling from rows (n_samples, n_features), and the classifier after it."""
        self.scaled_rows_ = ScaledRows(scaling=self.scaling).fit(X)
        self.n_features_in_ = self.scaled_rows_.n_features_in_
        self.classifier_ = clone(self.classifier).fit(self.scaled_rows_.transform(X), y)
        self.classes_ = self.classifier_.classes_
        return self

    def _ask(self, verb: str, X: ArrayLike) -> NDArray[Any]:
        check_is_fitted(self, "classifier_")
        return getattr(self.classifier_, verb)(self.scaled_rows_.transform(X))

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
