"""A view by a scikit-learn transformer of the user's own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from dbdl._arrays import refuse_huge, unit_rows
from dbdl.model.record import Record
from dbdl.model.state import Floats
from dbdl.model.trust import Size
from dbdl.rows.lazy import LazyRows
from dbdl.views.sums import LabelledRows


def name_of(transformer: Any) -> str:
    """Return the transformer's description on one line."""
    return " ".join(repr(transformer).split())


@dataclass(frozen=True)
class OwnView:
    """The recipe of a view by a transformer, which is copied and fitted for each member.

    Examples
    --------
    >>> from sklearn.decomposition import PCA
    >>> from dbdl.views import OwnView
    >>> OwnView(PCA(2)).name
    'PCA(n_components=2)'
    """

    transformer: Any
    normalize: bool = True

    @property
    def name(self) -> str:
        """The transformer in one line."""
        return name_of(self.transformer)

    def fit(self, rows: LabelledRows) -> FittedOwnView:
        """Fit a copy of the transformer to rows, class indices, and weights if it takes them."""
        if isinstance(rows.X, LazyRows):
            raise ValueError(
                f"the view {self.transformer!r} needs all rows in memory. For rows that are read "
                "in parts or are on a cluster, use views by name, such as views='auto'."
            )
        weights = {}
        if rows.sample_weight is not None and has_fit_parameter(self.transformer, "sample_weight"):
            weights = {"sample_weight": rows.sample_weight}
        fitted = clone(self.transformer).fit(rows.X, rows.class_of_row, **weights)
        mapped = transformed(fitted, rows.X[:1])
        return FittedOwnView(fitted, mapped.shape[1], self.normalize)


@dataclass(frozen=True)
class FittedOwnView(Record):
    """A fitted transformer.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.decomposition import PCA
    >>> from dbdl.views import LabelledRows, OwnView
    >>> X = np.random.default_rng(0).standard_normal((20, 3))
    >>> OwnView(PCA(2)).fit(LabelledRows(X, np.arange(20) % 2, 2)).apply(X).shape
    (20, 2)
    """

    transformer: Any
    n_features: Annotated[int, Size("n_features")]
    normalize: bool

    def faults(self) -> Iterator[str]:
        """Report an object that cannot map rows."""
        if not callable(getattr(self.transformer, "transform", None)):
            yield f"transformer is of type {type(self.transformer).__name__}, without transform"

    def apply(self, X: Floats, n_threads: int = 1) -> Floats:
        """Rows (n_samples, n_features) as the transformer maps them, scaled to unit norm."""
        rows = transformed(self.transformer, X, self.n_features)
        return unit_rows(rows) if self.normalize else refuse_huge(rows)

    @property
    def name(self) -> str:
        """The transformer in one line."""
        return name_of(self.transformer)

    def restore(self, rows: Floats) -> Floats:
        """Rows (n_samples, n_features_in) by the transformer's `inverse_transform`."""
        if not has_way_back(self.transformer):
            raise ValueError(
                f"the view {self.transformer!r} has no inverse_transform, so nothing can be mapped "
                "back to the features of X. Use another transformer (a FunctionTransformer needs "
                "inverse_func), or views by name."
            )
        return np.asarray(self.transformer.inverse_transform(rows), dtype=rows.dtype)

    #: Atoms are mapped back like rows.
    restore_atoms = restore


def has_way_back(transformer: Any) -> bool:
    """Whether a transformer has an `inverse_transform` that undoes what it does.

    That of a `FunctionTransformer` without ``inverse_func`` leaves rows as they are.
    """
    from sklearn.pipeline import Pipeline  # slow to import
    from sklearn.preprocessing import FunctionTransformer

    if isinstance(transformer, Pipeline):
        return all(has_way_back(step) for _, step in transformer.steps if step != "passthrough")
    if isinstance(transformer, FunctionTransformer):
        return transformer.func is None or transformer.inverse_func is not None
    return hasattr(transformer, "inverse_transform")


def transformed(transformer: Any, X: Floats, n_features: int | None = None) -> Floats:
    """Rows as a transformer maps them, of a known width if given, which kernels trust.

    Sparse rows are made dense.
    """
    mapped = transformer.transform(X)
    rows = np.asarray(mapped.toarray() if issparse(mapped) else mapped)
    fits = rows.ndim == 2 and len(rows) == len(X) and rows.shape[1] == (n_features or rows.shape[1])
    if not fits or rows.dtype.kind not in "fiub" or not np.isfinite(rows).all():
        expected = f"({len(X)}, {n_features or 'n_features'})"
        raise ValueError(
            f"the view {transformer!r} gives an array of shape {rows.shape} and dtype "
            f"{rows.dtype}, or values that are not finite. Expected finite numbers of shape "
            f"{expected}, one row per row. Use another transformer."
        )
    return np.ascontiguousarray(rows, dtype=X.dtype)
