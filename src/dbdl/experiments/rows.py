"""From a data set to the rows that an experiment splits, the same for every method."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dbdl._arrays import Array, unit_rows
from dbdl.datasets import DataError, Dataset
from dbdl.datasets.preparation import as_numbers, preparation_for
from dbdl.experiments.measure import Part
from dbdl.experiments.protocol import Split


@dataclass(frozen=True)
class LabelledRows:
    """Rows of a data set as an experiment needs them."""

    X: Array  #: Of shape (n_samples, n_features).
    y: Array  #: Of shape (n_samples,).
    groups: Array | None = None  #: Rows of one group stay on one side of a split.
    own: Split | None = None  #: The split that the data set came with.
    kinds: str | None = None  #: ``n`` or ``c`` for each column, numbers or categories.
    names: tuple[str, ...] | None = None  #: Names of the columns.

    @cached_property
    def fingerprint(self) -> str:
        """Short hash of rows and labels: results of other rows are not reused."""
        total = hashlib.sha256(repr((self.X.shape, self.X.dtype.str, self.y.dtype.str)).encode())
        if self.X.dtype == object:  # whose bytes are addresses
            total.update(repr(self.X.tolist()).encode())
        else:
            total.update(np.ascontiguousarray(self.X).data)
        total.update(np.ascontiguousarray(self.y).tobytes())
        return total.hexdigest()[:16]


def labelled_rows(data: Dataset, unit: bool) -> LabelledRows:
    """Return the rows of a data set, scaled to unit norm for every method where ``unit``.

    Rows of unit norm are the paper's protocol; they are float32, scaled in float64. Otherwise each
    method scales the rows itself: dictionary methods to unit norm, and plain methods in one of two
    ways (`dbdl.rivals._scaled_rows`).
    """
    if data.y is None:
        raise DataError(f"{data.name} has no labels, which an experiment needs")
    if unit and (data.X.dtype == object or np.isnan(data.X).any()):
        raise DataError(
            f"{data.name} has categories or missing values, which rows of unit norm cannot have"
        )
    X = unit_rows(data.X.astype(np.float64)).astype(np.float32) if unit else data.X
    own = None
    if data.is_test is not None:
        own = Split(np.flatnonzero(~data.is_test), np.flatnonzero(data.is_test))
    return LabelledRows(X, data.y, data.groups, own, data.column_kinds, data.feature_names)


def parts(data: LabelledRows, split: Split, estimator: Any) -> tuple[Part, Part]:
    """Return the rows to learn from and to test on, as the numbers that an estimator takes.

    What turns columns into numbers is learned from the rows to learn from alone: see
    `dbdl.datasets.preparation`.
    """
    train, test = (Part(data.X[rows], data.y[rows], data.names) for rows in split)
    preparation = preparation_for(train.X, data.kinds, estimator, test.X)
    if preparation is None:
        return train, test
    preparation.fit(train.X)
    names = tuple(preparation.get_feature_names_out(data.names))
    train, test = (Part(as_numbers(preparation.transform(p.X)), p.y, names) for p in (train, test))
    return train, test
