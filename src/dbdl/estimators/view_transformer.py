"""A view as a transformer of scikit-learn: the maps of our chains, for any other estimator."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin, _fit_context
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_is_fitted

from dbdl._arrays import Array, as_labels, only_numbers, validate_rows
from dbdl._loaded import CheckedEstimator
from dbdl._parameters import Declared
from dbdl._threads import resolve_n_jobs, single_threaded_blas
from dbdl.estimators._rows import N_JOBS
from dbdl.estimators._whole import whole_or_not_at_all
from dbdl.model.state import Floats
from dbdl.model.trust import RecordError, Scope
from dbdl.views import Fitted, KernelView, LabelledRows, Recipe, View, make_views


class ViewTransformer(
    Declared, ClassNamePrefixFeaturesOutMixin, TransformerMixin, CheckedEstimator
):
    """Map rows as a chain of `DBDLClassifier` sees them.

    A view is learned from rows and their classes. Rows are centred, standardised, whitened within
    classes, or compared with training rows by a kernel, and scaled to unit norm. In a pipeline it
    is learned inside each fold of a cross-validation. This matters: a view that saw the held-out
    rows makes them look too easy.

    Parameters
    ----------
    view : str, View or KernelView, default="unit half-whitened + constant"
        Name of a view, or its recipe from `dbdl.views`.
    n_jobs : int, default=None
        Number of threads; None uses all that are free. Any number gives the same bits.

    Attributes
    ----------
    view_ : FittedView or FittedKernelView
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from dbdl import ViewTransformer
    >>> X, y = load_wine(return_X_y=True)
    >>> whitened = ViewTransformer("scaled and whitened + constant")
    >>> model = make_pipeline(whitened, KNeighborsClassifier(1)).fit(X[::2], y[::2])
    >>> bool(model.score(X[1::2], y[1::2]) > 0.9)
    True
    """

    view: str | View | KernelView = field(default="unit half-whitened + constant", kw_only=False)
    n_jobs: Annotated[int | None, *N_JOBS] = field(default=None, kw_only=False)

    _learned: ClassVar[tuple[str, ...]] = ("view_",)

    view_: Fitted = field(init=False)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _check_fitted(self, scope: Scope) -> None:
        """Check the view."""
        self._check_attributes(scope, "n_features_in_")
        scope.sizes["n_features_in"] = scope.sizes.pop("n_features")
        self._check_attributes(scope, "view_")
        if np.shape(vars(self).get("feature_names_in_", ())) not in ((0,), (self.n_features_in_,)):
            raise RecordError(f"feature_names_in_ are not the names of {self.n_features_in_}")

    def _recipe(self) -> Recipe:
        views = make_views(self.view)
        if len(views) > 1:
            raise ValueError(
                f"view={self.view!r} names {len(views)} views. Expected one, such as "
                "'unit whitened + constant'."
            )
        return views[0]

    @whole_or_not_at_all
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Learn the view from rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), default=None
            Classes of the rows. Without them all rows are one class, and "within classes" means
            around the mean of all rows.

        Returns
        -------
        self
        """
        if y is None:
            rows = validate_rows(self, X)
            class_of_row = np.zeros(len(rows), dtype=np.int64)
        else:
            rows, labels = validate_rows(self, X, as_labels(y))
            check_classification_targets(labels)
            class_of_row = np.unique(labels, return_inverse=True)[1]
        n_threads = resolve_n_jobs(self.n_jobs)
        labelled = LabelledRows(rows, class_of_row, int(class_of_row.max()) + 1, n_threads)
        with single_threaded_blas():
            self.view_ = self._recipe().fit(labelled)
        return self

    def transform(self, X: ArrayLike) -> Floats:
        """Return rows (n_samples, n_features) as the view shows them: (n_samples, n_features_out).

        They have unit norm. A row has the same bits alone and in a batch.
        """
        check_is_fitted(self)
        rows = validate_rows(self, X, reset=False)
        with single_threaded_blas():
            return self.view_.apply(rows, resolve_n_jobs(self.n_jobs))

    def inverse_transform(self, X: ArrayLike) -> Array:
        """Return rows of the original features from rows of the view.

        A view that scales rows to unit norm first, or has no constant coordinate, does not know the
        size of a row: it is taken to be the mean size of the training rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features_out)

        Returns
        -------
        rows : ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        rows = check_array(only_numbers(X, "X"), dtype=[np.float64, np.float32], input_name="X")
        if rows.shape[1] != self.view_.n_features:
            raise ValueError(
                f"X has {rows.shape[1]} features, but the view has {self.view_.n_features}. "
                "Expected rows as returned by transform."
            )
        return self.view_.restore(rows)

    @property
    def _n_features_out(self) -> int:
        return self.view_.n_features
