"""Rows of a reader, prepared as an estimator wants them whenever some are asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbdl._arrays import refuse_huge, unit_rows
from dbdl.model.state import Floats
from dbdl.rows.readers import DaskRows, Reader, reader_of

#: Rows that are coded or looked at together when all are walked through.
WALK_ROWS = 8192


@dataclass(frozen=True)
class Preparation:
    """What an estimator does to rows before it looks at them.

    Attributes
    ----------
    dtype : dtype
        Float32 or float64.
    normalize : bool
        Scale rows to unit norm.
    """

    dtype: np.dtype[Any]
    normalize: bool

    def __call__(self, raw: NDArray[Any], number: int | NDArray[np.int64] = 0) -> Floats:
        """Return rows (n_rows, n_features) ready to use.

        ``number`` is that of the first row, or of each; it is for messages.
        """
        rows: Floats = np.ascontiguousarray(raw, dtype=self.dtype)
        if not np.isfinite(rows).all():
            bad = int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
            where = number[bad] if isinstance(number, np.ndarray) else number + bad
            raise ValueError(
                f"Input X contains NaN or infinity, first in row {where}. Leave such rows out, or "
                "fill the gaps first."
            )
        return unit_rows(rows) if self.normalize else refuse_huge(rows)


@dataclass(frozen=True)
class LazyRows:
    """Rows (n_samples, n_features) that are read and prepared when they are asked for.

    Attributes
    ----------
    reader : Reader
        Where they come from.
    prepare : Preparation
    """

    reader: Reader
    prepare: Preparation

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of features."""
        return self.reader.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Float32 or float64."""
        return self.prepare.dtype

    @property
    def collection(self) -> Any:
        """The Dask array behind the rows; None for rows of a file."""
        return self.reader.array if isinstance(self.reader, DaskRows) else None

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | NDArray[np.int64]) -> Floats:
        """Rows by a slice (of step 1) or by their numbers."""
        if isinstance(rows, slice):
            start, stop, _ = rows.indices(len(self))
            return self.prepare(self.reader.read(start, stop), start)
        return self.prepare(self.reader.take(rows), rows)

    def remember(self, numbers: NDArray[np.int64]) -> SomeRows:
        """Read some rows (numbers ascending), to be asked for again."""
        return SomeRows(numbers, self[numbers], self.shape)

    def each_block(
        self, function: Callable[..., Any], blocks: Sequence[slice], values: Sequence[Any]
    ) -> list[Any]:
        """Apply a function to blocks of rows and a value each, where the rows are."""
        pairs = zip(blocks, values, strict=True)
        if self.collection is None:
            return [function(self[rows], value) for rows, value in pairs]
        from dask.base import compute
        from dask.delayed import delayed

        tasks = [
            delayed(_apply)(function, self.prepare, self.collection[rows], rows.start, value)
            for rows, value in pairs
        ]
        return list(compute(*tasks))


@dataclass(frozen=True)
class SomeRows:
    """Rows of which some are in memory, by their numbers among all.

    Attributes
    ----------
    numbers : ndarray of shape (n_rows,)
        Ascending.
    rows : ndarray of shape (n_rows, n_features)
    shape : tuple of int
        Of all rows.
    """

    numbers: NDArray[np.int64]
    rows: Floats
    shape: tuple[int, int]

    def __getitem__(self, numbers: NDArray[np.int64]) -> Floats:
        """Return rows by their numbers."""
        return self.rows[np.searchsorted(self.numbers, numbers)]


def _apply(
    function: Callable[..., Any], prepare: Preparation, raw: Any, first_row: int, value: Any
) -> Any:
    return function(prepare(np.asarray(raw), first_row), value)


def lazy_rows(X: Any, *, normalize: bool) -> LazyRows | None:
    """Return rows that are better read in parts, or None for all else.

    These are memory-mapped arrays (of more than 256 MiB), datasets of HDF5 and zarr, Dask
    collections, and what `open_rows` returns.
    """
    reader = reader_of(X)
    if reader is None:
        return None
    if len(reader.shape) != 2:
        raise ValueError(
            f"Expected 2D array, got an array of shape {reader.shape} instead. Reshape your data: "
            "one row a sample, one column a feature."
        )
    if reader.shape[0] == 0:
        raise ValueError(
            f"Found array with 0 sample(s) (shape={reader.shape}) while a minimum of 1 is required."
        )
    if reader.dtype.kind not in "fiub":
        raise ValueError(f"X holds {reader.dtype}, which is no kind of number; convert it first.")
    narrow = reader.dtype == np.float32
    return LazyRows(reader, Preparation(np.dtype(np.float32 if narrow else np.float64), normalize))


def in_memory(X: Any) -> Any:
    """Return rows as they are, but read if they would be read in parts, with their names."""
    reader = reader_of(X)
    if reader is None:
        return X
    rows, columns = reader.read(0, reader.shape[0]), getattr(reader, "columns", None)
    if columns is None or find_spec("pandas") is None:
        return rows
    import pandas as pd

    return pd.DataFrame(rows, columns=list(columns))
