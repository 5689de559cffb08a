"""From a data set to the rows that an experiment splits, the same for every method."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbdl._arrays import unit_rows
from dbdl.datasets import DataError, Dataset
from dbdl.experiments.protocol import Split


@dataclass(frozen=True)
class LabelledRows:
    """Rows of a data set as an experiment needs them."""

    X: NDArray[Any]  #: Of shape (n_samples, n_features).
    y: NDArray[Any]  #: Of shape (n_samples,).
    groups: NDArray[Any] | None = None  #: Rows of one group stay on one side of a split.
    own: Split | None = None  #: The split that the data set came with.

    @cached_property
    def fingerprint(self) -> str:
        """Short hash of rows and labels: results of other rows are not reused."""
        total = hashlib.sha256(repr((self.X.shape, self.X.dtype.str, self.y.dtype.str)).encode())
        total.update(np.ascontiguousarray(self.X).data)
        total.update(np.ascontiguousarray(self.y).tobytes())
        return total.hexdigest()[:16]


def labelled_rows(data: Dataset, unit: bool) -> LabelledRows:
    """Return the rows of a data set, scaled to unit norm for every method where ``unit``.

    Rows of unit norm are the paper's protocol; they are float32, scaled in float64. Rows that are
    left as they are, are scaled by each method itself: to unit norm by the dictionary methods, and
    in one of two ways by the plain ones (`dbdl.rivals._scaled_rows`).
    """
    if data.y is None:
        raise DataError(f"{data.name} has no labels, which an experiment needs")
    X = unit_rows(data.X.astype(np.float64)).astype(np.float32) if unit else data.X
    own = None
    if data.is_test is not None:
        own = Split(np.flatnonzero(~data.is_test), np.flatnonzero(data.is_test))
    return LabelledRows(X, data.y, data.groups, own)
