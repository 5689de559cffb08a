"""Refusals and prediction sets, for every classifier with probabilities."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_consistent_length, column_or_1d

from dbdl._arrays import Array, as_labels
from dbdl.estimators._weights import check_weights
from dbdl.estimators._whole import whole_or_not_at_all
from dbdl.learn.refusals import CONFIDENCE, UnseenRows, highest_refused, thinned
from dbdl.rows.readers import is_dask


class RefusalMixin:
    """Refusals and prediction sets, measured on rows that were in no fit."""

    classes_: Array
    refusals_: UnseenRows
    predict_proba: Any
    _scores: Callable[[Any], Any]
    _decided: Callable[[Array], NDArray[np.int64]]
    _probabilities: Callable[[Array], NDArray[np.float64]]

    @whole_or_not_at_all
    def fit_refusals(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Measure on new rows when to refuse an answer, for `refuse` and `predict_set`.

        Predictions and probabilities stay as they are. Another `fit` or `partial_fit` forgets these
        rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows that were neither in `fit` nor in any choice of parameters. A few hundred are
            enough; with too few, every row is refused and every class is in a set.
        y : array-like of shape (n_samples,)
            Their labels, which must be among ``classes_``.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights that make these rows like the new ones, where some kinds of rows are more
            frequent here than there. A row is kept with a probability of its weight over the
            largest weight. The promises hold for the rows that are kept, so weights that differ
            much leave few of them. Draws depend on nothing but the number of the row.

        Returns
        -------
        self : estimator
        """
        _ = self.predict_proba  # a classifier without probabilities says so
        scores = np.asarray(self._scores(X))
        probability, decided = self._probabilities(scores), self._decided(scores)
        labels = column_or_1d(as_labels(np.asarray(y) if is_dask(y) else y))
        check_consistent_length(probability, labels)
        index = {label: c for c, label in enumerate(self.classes_.tolist())}
        if unknown := set(labels.tolist()) - set(index):
            raise ValueError(
                f"y has labels that are not among classes_: {sorted(map(str, unknown))[:5]}. "
                f"Expected the labels that {type(self).__name__} was fitted on. Leave such rows "
                "out, or fit it again with rows of these classes."
            )
        class_of_row = np.array([index[label] for label in labels.tolist()])
        true = probability[np.arange(len(labels)), class_of_row]
        kept = thinned(len(labels), check_weights(sample_weight, len(labels)))
        self.refusals_ = UnseenRows(
            true[kept], probability[kept].max(axis=1), (decided == class_of_row)[kept]
        )
        return self

    def refuse(
        self,
        X: ArrayLike,
        *,
        max_error: float | None = None,
        min_probability: float | None = None,
        confidence: float | None = None,
    ) -> NDArray[np.bool_]:
        """Say which rows should get no answer, because `predict` is too often wrong on such rows.

        Give either ``max_error`` or ``min_probability``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        max_error : float, default=None
            Largest error rate among the rows that are not refused. It holds, with the given
            ``confidence`` over the rows of `fit_refusals`, for new rows from the same distribution.
            If they are too few, or no threshold passes, every row is refused with a warning: 59
            rows are enough for 0.05 if none is wrong, a few hundred otherwise.
        min_probability : float, default=None
            Refuse rows whose most probable class is less probable than this. Promises nothing, and
            needs no `fit_refusals`.
        confidence : float, default=None
            Probability with which ``max_error`` holds; None means 0.95.

        Returns
        -------
        refused : ndarray of bool of shape (n_samples,)
        """
        if (max_error is None) == (min_probability is None):
            raise ValueError(
                f"max_error={max_error} and min_probability={min_probability}. Expected one of "
                "them, such as refuse(X, max_error=0.05)."
            )
        if max_error is None:
            if confidence is not None:
                raise ValueError(
                    f"confidence={confidence} with min_probability, which promises nothing. Leave "
                    "confidence out, or use max_error."
                )
            least = _share(min_probability, "min_probability")
            return self.predict_proba(X).max(axis=1) < least
        max_error = _share(max_error, "max_error", 0.05)
        confidence = _share(CONFIDENCE if confidence is None else confidence, "confidence")
        threshold = highest_refused(self._measured(), max_error, confidence)
        return self.predict_proba(X).max(axis=1) <= threshold

    def predict_set(self, X: ArrayLike, coverage: float = 0.9) -> NDArray[np.bool_]:
        """Return the classes that a row may have, as sets that contain the true one often enough.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        coverage : float, default=0.9
            Least probability that a set contains the true class, on average over new rows and over
            the rows of `fit_refusals`, if both come from the same distribution. It need not hold
            for each class separately.

        Returns
        -------
        in_set : ndarray of bool of shape (n_samples, n_classes)
            Columns follow ``classes_``. A set may be empty: then no class is as probable as true
            classes usually are.
        """
        threshold = self._measured().threshold_of_sets(_share(coverage, "coverage"))
        return self.predict_proba(X) >= threshold

    def _measured(self) -> UnseenRows:
        if "refusals_" not in vars(self):
            raise NotFittedError(
                f"This {type(self).__name__} has not measured when to refuse. Call fit_refusals(X, "
                "y) with rows that were not in fit. Only refuse(X, min_probability=...) needs none."
            )
        return self.refusals_


def _share(value: Any, name: str, example: float = 0.9) -> float:
    """Return a number above 0 and below 1; a message names the example."""
    number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else np.nan
    if not 0 < number < 1:
        raise ValueError(
            f"{name}={value!r}. Expected a number above 0 and below 1, such as {example}."
        )
    return number
