"""Rows of a reader, read in parts and prepared as an estimator needs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dbdl._arrays import Array
from dbdl.model.state import Floats
from dbdl.rows.readers import DaskRows, Reader, SomeRows, reader_of

#: Rows that are coded or looked at together when all are walked through.
WALK_ROWS = 8192


class RowMap(Protocol):
    """A map of rows, such as a view."""

    @property
    def n_features(self) -> int:
        """Number of features of the mapped rows."""

    def apply(self, X: Floats) -> Floats:
        """Return the mapped rows."""


@dataclass(frozen=True)
class Preparation:
    """The conversion of raw rows that an estimator asks for.

    Examples
    --------
    >>> import numpy as np
    >>> from dbdl.rows import Preparation
    >>> Preparation(np.dtype(np.float32))(np.eye(2)).dtype
    dtype('float32')
    """

    dtype: np.dtype[Any]  # float32 or float64
    view: RowMap | None = None  # applied to the rows at the end

    def __call__(self, raw: Array, number: int | NDArray[np.int64] = 0) -> Floats:
        """Return rows (n_rows, n_features) ready to use.

        ``number`` is that of the first row, or of each row; messages name it.
        """
        rows: Floats = np.ascontiguousarray(raw, dtype=self.dtype)
        if not np.isfinite(rows).all():
            bad = int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
            where = number[bad] if isinstance(number, np.ndarray) else number + bad
            raise ValueError(
                f"Input X contains NaN or infinity, first in row {where}. Missing values (NaN) are "
                "filled for rows in memory only. Leave such rows out, or fill the gaps first."
            )
        return rows if self.view is None else self.view.apply(rows)


@dataclass(frozen=True)
class LazyRows:
    """Rows (n_samples, n_features) that are read and prepared when they are asked for.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> from dbdl.rows import lazy_rows, open_rows
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "rows.npy")
    ...     np.save(path, np.ones((5, 3)))
    ...     X, _ = open_rows(path)
    ...     lazy_rows(X).shape
    (5, 3)
    """

    reader: Reader
    prepare: Preparation

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of features."""
        n_rows, n_features = self.reader.shape
        view = self.prepare.view
        return n_rows, n_features if view is None else view.n_features

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
            raw, number = self.reader.read(start, stop), self.reader.number_of(slice(start, stop))
        else:
            raw, number = self.reader.take(rows), self.reader.number_of(rows)
        return self.prepare(raw, number)

    def only(self, numbers: NDArray[np.int64]) -> LazyRows:
        """Return the rows with these ascending numbers, still to be read."""
        if len(numbers) == len(self):
            return self
        return replace(self, reader=SomeRows.of(self.reader, numbers))

    def cut(self, rows: slice) -> tuple[LazyRows, slice]:
        """Return the source of some rows, and where they are in it, to be sent elsewhere.

        A source of some rows has a list of their numbers, of which only a part is sent.
        """
        if not isinstance(self.reader, SomeRows):
            return self, rows
        n_rows = rows.stop - rows.start
        return self.only(np.arange(rows.start, rows.stop)), slice(0, n_rows)

    def through(self, view: RowMap) -> LazyRows:
        """Return the rows as a view shows them."""
        return replace(self, prepare=replace(self.prepare, view=view))

    def each_block(
        self, function: Callable[..., Any], blocks: Sequence[slice], values: Sequence[Any]
    ) -> list[Any]:
        """Apply a function to each block of rows and its value, on the machine that has them."""
        pairs = zip(blocks, values, strict=True)
        if self.collection is None:
            return [function(self[rows], value) for rows, value in pairs]
        from dask.base import compute
        from dask.delayed import delayed

        apply, raw, number_of = delayed(_apply), self.collection, self.reader.number_of
        parts = ((raw[rows], number_of(rows), value) for rows, value in pairs)
        return list(compute(*(apply(function, self.prepare, *part) for part in parts)))


def _apply(
    function: Callable[..., Any], prepare: Preparation, raw: Any, number: Any, value: Any
) -> Any:
    return function(prepare(np.asarray(raw), number), value)


def lazy_rows(X: Any) -> LazyRows | None:
    """Return rows that are better read in parts, or None for all other rows.

    These are memory-mapped arrays (of more than 256 MiB), HDF5 and zarr datasets, Dask
    collections, and the readers of `open_rows`.

    Examples
    --------
    >>> import numpy as np
    >>> from dbdl.rows import lazy_rows
    >>> lazy_rows(np.eye(3)) is None  # rows in memory
    True
    """
    reader = reader_of(X)
    if reader is None:
        return None
    if len(reader.shape) != 2:
        raise ValueError(
            f"Expected 2D array, got an array of shape {reader.shape} instead. Reshape your data: "
            "one row per sample, one column per feature."
        )
    if reader.shape[0] == 0:
        raise ValueError(
            f"Found array with 0 sample(s) (shape={reader.shape}) while a minimum of 1 is required."
        )
    if reader.dtype.kind not in "fiub":
        raise ValueError(f"X holds {reader.dtype}, which is no kind of number; convert it first.")
    narrow = reader.dtype == np.float32
    return LazyRows(reader, Preparation(np.dtype(np.float32 if narrow else np.float64)))


def in_memory(X: Any) -> Any:
    """Return rows in memory: those of a reader are all read, with the names of their columns."""
    reader = reader_of(X)
    if reader is None:
        return X
    rows, columns = reader.read(0, reader.shape[0]), getattr(reader, "columns", None)
    if columns is None or find_spec("pandas") is None:
        return rows
    import pandas as pd

    return pd.DataFrame(rows, columns=list(columns))
