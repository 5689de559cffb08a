"""From the columns of a table to rows of numbers: a `ColumnTransformer` before the classifier.

Each category becomes a column of zeros and ones, and so do missing cells if the rows of the fit had
some. A category that the fit has not seen has zeros in all of these columns. Missing numbers stay
NaN for methods that take them; for other methods they are replaced by the mean of the feature. All
of this is learned from the rows of the fit alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder

from dbdl.datasets.cells import is_gap
from dbdl.datasets.dataset import Array, Dataset

#: Names of the steps of a pipeline.
COLUMNS, MODEL = "columns", "model"


def takes_gaps(estimator: Any) -> bool:
    """Whether an estimator says by its tags that it takes rows with missing values."""
    tags = getattr(estimator, "__sklearn_tags__", None)
    return tags is not None and bool(tags().input_tags.allow_nan)


def preparation_for(
    X: Array, kinds: str | None, estimator: Any, later: Array | None = None
) -> ColumnTransformer | None:
    """Return the transformer that turns rows into numbers; None if there is nothing to do.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_columns)
        Rows to learn from: numbers, or objects. A column of numbers without a value is left out.
    kinds : str or None
        ``n`` or ``c`` for each column; None for numbers only.
    estimator : estimator
        That will see the rows.
    later : ndarray of shape (n_others, n_columns) or None
        Rows that will be prepared too. Only whether they have missing values matters: rows to learn
        from may have none.

    Returns
    -------
    preparation : ColumnTransformer or None
        Not fitted.
    """
    kinds = kinds or "n" * X.shape[1]
    numbers = [j for j, kind in enumerate(kinds) if kind == "n"]
    categories = [j for j, kind in enumerate(kinds) if kind == "c"]
    gaps = np.column_stack([is_gap(X[:, j]) for j in range(X.shape[1])])
    empty = [j for j in numbers if gaps[:, j].all()]
    fills = not takes_gaps(estimator)
    some = gaps.any() or (later is not None and is_gap(later).any())
    if not categories and not empty and not (fills and some):
        return None
    numbers = [j for j in numbers if j not in empty]
    steps = (
        ("numbers", SimpleImputer() if fills else "passthrough", numbers),
        ("categories", OneHotEncoder(handle_unknown="ignore", sparse_output=False), categories),
        ("empty", "drop", empty),
    )
    return ColumnTransformer(
        [step for step in steps if step[2]],
        verbose_feature_names_out="{feature_name}",
        sparse_threshold=0,
    )


def as_numbers(rows: Any) -> NDArray[np.float64]:
    """Return prepared rows as numbers; those that were only passed on are still objects."""
    return np.ascontiguousarray(rows, dtype=np.float64)


def pipeline_for(dataset: Dataset, estimator: Any) -> Any:
    """Return an estimator for the columns of a table.

    Parameters
    ----------
    dataset : Dataset
        As `load` returns it.
    estimator : estimator
        A classifier of numbers.

    Returns
    -------
    estimator : estimator
        A `Pipeline` with a `ColumnTransformer` before the estimator, where the data set has
        categories, or missing values that the estimator does not take; else the estimator itself.
        Not fitted.

    Examples
    --------
    >>> from dbdl import DBDLClassifier
    >>> from dbdl.datasets import load, pipeline_for
    >>> data = load("iris")
    >>> pipeline_for(data, DBDLClassifier(n_chains=1))
    DBDLClassifier(n_chains=1)
    """
    preparation = preparation_for(dataset.X, dataset.column_kinds, estimator)
    if preparation is None:
        return estimator
    return Pipeline([(COLUMNS, preparation), (MODEL, estimator)])


def remember_names(estimator: Any, names: Sequence[str] | None) -> None:
    """Give a fitted estimator the names of its features, as if it had been fitted on a frame.

    Without pandas there are no frames. A `ColumnTransformer` finds columns by these names, in any
    order, and so do the steps inside it.
    """
    if names is None:
        return
    estimator.feature_names_in_ = np.asarray(names, dtype=object)
    for _, step, columns in getattr(estimator, "transformers_", ()):
        if hasattr(step, "n_features_in_"):
            step.feature_names_in_ = estimator.feature_names_in_[columns]
