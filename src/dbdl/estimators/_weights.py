"""Weights of rows: checked, multiplied by those of their classes, and put on a common scale."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.class_weight import compute_class_weight

from dbdl._arrays import Array, as_numbers
from dbdl.model.state import Classes
from dbdl.model.statistics import Weights
from dbdl.rows.lazy import LazyRows
from dbdl.rows.readers import is_dask
from dbdl.views import LabelledRows

ClassWeight = Mapping[Any, float] | str | None

#: Smallest and largest weight in use, relative to the mean: sums of their products are in range.
LEAST, MOST = 1e-100, 1e100

ALL_ZERO = "{} of every row is zero, so no row is left. Expected a positive weight for some row."


class WeightedRows(NamedTuple):
    """Rows of positive weight, their labels, and their weights; None if every row counts once."""

    X: Any
    labels: Array
    sample_weight: Weights

    def only_positive(self, name: str) -> WeightedRows:
        """Remove rows of weight zero; ``name`` says which weights they are."""
        weight = self.sample_weight
        if weight is None or (weight > 0).all():
            return self
        kept = np.flatnonzero(weight)
        if not len(kept):
            raise ValueError(ALL_ZERO.format(name))
        X = self.X.only(kept) if isinstance(self.X, LazyRows) else self.X[kept]
        return WeightedRows(X, self.labels[kept], weight[kept])

    def by_class(self, class_weight: ClassWeight, classes: Array) -> WeightedRows:
        """Multiply the weights by those of the classes, as scikit-learn understands them."""
        if class_weight is None:
            return self
        if isinstance(class_weight, Mapping):
            as_numbers(list(class_weight.values()), "class_weight")
        of_class = compute_class_weight(class_weight, classes=classes, y=self.labels)
        bad = np.flatnonzero(~(np.isfinite(of_class) & (of_class >= 0)))
        if len(bad):
            raise ValueError(
                f"class_weight gives class {classes[bad[0]].item()!r} the weight "
                f"{of_class[bad[0]]}. Expected finite weights that are not negative."
            )
        weight = of_class[np.searchsorted(classes, self.labels)]
        if self.sample_weight is not None:
            weight = weight * self.sample_weight
        return self._replace(sample_weight=weight).only_positive("class_weight times sample_weight")

    def in_units(self, unit: float) -> WeightedRows:
        """Divide weights by ``unit``; weights that are all one are left out."""
        if self.sample_weight is None and unit == 1.0:
            return self
        weight = np.ones(len(self.labels)) if self.sample_weight is None else self.sample_weight
        with np.errstate(over="ignore"):
            weight = np.maximum(weight / unit, LEAST)
        if weight.max() > MOST:
            raise ValueError(
                f"sample_weight has a weight more than {MOST:g} times the mean weight of the first "
                "batch. Expected weights on the same scale."
            )
        return self._replace(sample_weight=None if (weight == 1.0).all() else weight)

    def with_classes(self, class_of_row: Classes, n_classes: int) -> LabelledRows:
        """Return the rows with their class indices; the mean weight becomes 1."""
        weight = self.in_units(self.mean_weight).sample_weight
        return LabelledRows(self.X, class_of_row, n_classes, sample_weight=weight)

    @property
    def mean_weight(self) -> float:
        """Mean of the weights, exact if all are equal."""
        weight = self.sample_weight
        if weight is None or (weight == weight[0]).all():
            return 1.0 if weight is None else float(weight[0])
        return float(weight.max() * (weight / weight.max()).mean())


def check_weights(sample_weight: Any, n_rows: int) -> Weights:
    """Return weights (n_samples,), some of them positive; None if there are none."""
    if sample_weight is None:
        return None
    known = sample_weight.compute() if is_dask(sample_weight) else sample_weight
    weight = as_numbers(known, "sample_weight").astype(np.float64)
    if weight.ndim == 0:
        weight = np.full(n_rows, float(weight))
    if weight.shape != (n_rows,):
        raise ValueError(
            f"sample_weight has shape {weight.shape}. Expected one weight per row: ({n_rows},)."
        )
    bad = np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))
    if len(bad):
        raise ValueError(
            f"sample_weight is {weight[bad[0]]} in row {bad[0]}. Expected finite weights that are "
            "not negative; a row of weight 0 is left out."
        )
    if not weight.any():
        raise ValueError(ALL_ZERO.format("sample_weight"))
    return weight


def weigh(X: Any, labels: Array, sample_weight: Any) -> WeightedRows:
    """Return the rows of positive weight, after a check of the weights."""
    weight = check_weights(sample_weight, len(labels))
    return WeightedRows(X, labels, weight).only_positive("sample_weight")
