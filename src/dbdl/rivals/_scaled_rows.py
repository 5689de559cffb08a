"""Rows scaled for the methods of scikit-learn, which do not scale rows themselves."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin, _fit_context
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted, validate_data

from dbdl.estimators._rows import unit_rows
from dbdl.rivals._parameters import Declared

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
        rows: NDArray[Any] = validate_data(self, X, dtype=(np.float64, np.float32), reset=reset)
        return rows
