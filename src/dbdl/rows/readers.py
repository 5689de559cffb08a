"""Readers: raw rows out of files and collections, some at a time.

A reader can be sent to another process: it carries the name of its file, never its content.
"""

from __future__ import annotations

import mmap
import sys
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dbdl._arrays import Array
from dbdl._arrow import number_dtype, numbers_of
from dbdl._files import reading
from dbdl.model.record import Record

#: A memory-mapped array of fewer bytes is read at once.
SMALL_MEMMAP = 1 << 28
#: Rows are read one after the other, and some passed over, up to this many rows per row wanted:
#: files are slow to read, and need more memory, row by row.
MOST_PASSED_OVER = 4

Rows = slice | NDArray[np.int64]


@dataclass(frozen=True)
class Reader(Record):
    """Rows (n_samples, n_features) of a file or a collection; a subclass defines `_rows`."""

    kind: ClassVar[str]  # of file, in words

    shape: tuple[int, int]
    dtype: np.dtype[Any]

    def read(self, start: int, stop: int) -> Array:
        """Return the rows from start to stop (excluded)."""
        return self._rows(slice(start, stop))

    def take(self, numbers: NDArray[np.int64]) -> Array:
        """Return rows by their numbers, in any order."""
        if (numbers[1:] > numbers[:-1]).all():
            return self._rows(numbers)
        ascending, place = np.unique(numbers, return_inverse=True)
        return self._rows(ascending)[place]

    def number_of(self, rows: Rows) -> int | NDArray[np.int64]:
        """Return the number of the first row of a slice, or of each row, for messages."""
        return int(rows.start) if isinstance(rows, slice) else rows

    def _rows(self, rows: Rows) -> Array:
        """Return rows by a slice, or by numbers that ascend."""
        raise NotImplementedError


@dataclass(frozen=True)
class NpyRows(Reader):
    """A memory-mapped array in a file."""

    kind = "file of numpy.save"

    path: str
    offset: int
    fortran: bool = False

    @classmethod
    def of(cls, array: np.memmap[Any, Any], path: str | Path) -> NpyRows:
        """Return a reader of a whole memory-mapped array."""
        fortran = not array.flags.c_contiguous
        return cls(array.shape, array.dtype, str(Path(path).absolute()), array.offset, fortran)

    @cached_property
    def _map(self) -> np.memmap[Any, Any]:
        order: Any = "F" if self.fortran else "C"
        return np.memmap(self.path, self.dtype, "r", self.offset, self.shape, order)

    def _rows(self, rows: Rows) -> Array:
        with reading(self.path, self.kind):
            if self.fortran or not isinstance(rows, slice):
                return np.array(self._map[rows])
            # read rather than mapped, since mapped pages count as memory
            n_rows, n_features = rows.stop - rows.start, self.shape[1]
            offset = self.offset + rows.start * n_features * self.dtype.itemsize
            found = np.fromfile(self.path, self.dtype, n_rows * n_features, offset=offset)
            return found.reshape(n_rows, n_features)


@dataclass(frozen=True)
class Hdf5Rows(Reader):
    """A two-dimensional dataset of an HDF5 file."""

    kind = "HDF5 file"

    path: str
    name: str

    @classmethod
    def of(cls, dataset: Any) -> Hdf5Rows:
        """Return a reader of an h5py dataset."""
        path = str(Path(dataset.file.filename).absolute())
        return cls(tuple(dataset.shape), dataset.dtype, path, dataset.name)

    def _rows(self, rows: Rows) -> Array:
        import h5py

        # closed again between reads, so that others may write to it
        with reading(self.path, self.kind), h5py.File(self.path, "r") as file:
            return file[self.name][rows]


@dataclass(frozen=True)
class ZarrRows(Reader):
    """A two-dimensional zarr array, which knows its store."""

    kind = "zarr folder"

    array: Any

    @classmethod
    def of(cls, array: Any) -> ZarrRows:
        """Return a reader of a zarr array."""
        return cls(tuple(array.shape), np.dtype(array.dtype), array)

    def _rows(self, rows: Rows) -> Array:
        with reading(str(self.array.store), self.kind):
            return np.asarray(self.array.oindex[rows])


@dataclass(frozen=True)
class ParquetRows(Reader):
    """Columns of numbers of a parquet file, read by its groups of rows."""

    kind = "parquet file"

    path: str
    columns: tuple[str, ...]

    @classmethod
    def of(cls, file: Any, path: str | Path, columns: tuple[str, ...]) -> ParquetRows:
        """Return a reader of some columns of an open parquet file."""
        kinds = (number_dtype(file.schema_arrow.field(name).type) for name in columns)
        dtype = np.result_type(*(kind or np.dtype(object) for kind in kinds))
        shape = (file.metadata.num_rows, len(columns))
        return cls(shape, dtype, str(Path(path).absolute()), columns)

    @cached_property
    def _file(self) -> Any:
        import pyarrow.parquet as parquet

        return parquet.ParquetFile(self.path, memory_map=True)

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        """First row of each group, and the number of all rows."""
        meta = self._file.metadata
        sizes = [meta.row_group(i).num_rows for i in range(meta.num_row_groups)]
        return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    def _rows(self, rows: Rows) -> Array:
        numbers = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
        parts = [np.empty((0, len(self.columns)), dtype=self.dtype)]
        with reading(self.path, self.kind):
            group_of_row = np.searchsorted(self._starts, numbers, side="right") - 1
            for group in np.unique(group_of_row).tolist():  # the other groups are not read
                own = numbers[group_of_row == group] - self._starts[group]
                table = self._file.read_row_group(group, columns=list(self.columns))
                table = table.slice(own[0], own[-1] - own[0] + 1)
                columns = [numbers_of(table.column(name)) for name in self.columns]
                parts.append(np.column_stack(columns)[own - own[0]])
        return np.concatenate(parts)


@dataclass(frozen=True)
class DaskRows(Reader):
    """A Dask array: one chunk of columns, rows in chunks; the names of columns if it had any."""

    array: Any
    columns: tuple[str, ...] | None = None
    numbers: NDArray[np.int64] | None = None  # among all rows, if some are left out

    @classmethod
    def of(cls, X: Any) -> DaskRows:
        """Return a reader of a Dask array or data frame; lengths are computed if necessary."""
        array = dask_columns_in_one_chunk(X)
        if np.isnan(array.shape[0]):
            array = copy(array).compute_chunk_sizes()
        # names of columns count if all are words, as in scikit-learn
        names = tuple(getattr(X, "columns", ()))
        named = names and all(isinstance(name, str) for name in names)
        shape: Any = tuple(map(int, array.shape))
        return cls(shape, np.dtype(array.dtype), array, names if named else None)

    def number_of(self, rows: Rows) -> int | NDArray[np.int64]:
        """Return the numbers of rows among all rows."""
        return super().number_of(rows) if self.numbers is None else self.numbers[rows]

    def _rows(self, rows: Rows) -> Array:
        return np.asarray(self.array[rows].compute())


@dataclass(frozen=True)
class SomeRows(Reader):
    """Some of the rows of another reader."""

    source: Reader
    numbers: NDArray[np.int64]  # ascending

    @classmethod
    def of(cls, source: Reader, numbers: NDArray[np.int64]) -> Reader:
        """Return a reader of the rows with these numbers; those of a collection stay there."""
        shape = (len(numbers), source.shape[1])
        if isinstance(source, DaskRows):
            among_all: Any = source.number_of(numbers)
            return replace(source, shape=shape, array=source.array[numbers], numbers=among_all)
        if isinstance(source, SomeRows):
            numbers, source = source.numbers[numbers], source.source
        return cls(shape, source.dtype, source, numbers)

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Names of the columns, if the file has names."""
        return getattr(self.source, "columns", None)

    def number_of(self, rows: Rows) -> int | NDArray[np.int64]:
        """Return the numbers of rows among all rows."""
        return self.numbers[rows]

    def _rows(self, rows: Rows) -> Array:
        numbers = self.numbers[rows]
        first, last = (int(numbers[0]), int(numbers[-1]) + 1) if len(numbers) else (0, 0)
        if last - first > MOST_PASSED_OVER * len(numbers):
            return self.source.take(numbers)
        return self.source.read(first, last)[numbers - first]


def is_dask(X: Any) -> bool:
    """Whether X is a Dask collection; Dask is not imported to find out."""
    return "dask" in sys.modules and hasattr(X, "__dask_graph__") and hasattr(X, "dask")


def dask_columns_in_one_chunk(X: Any) -> Any:
    """Return a Dask array, its lengths known or not, whose chunks hold whole rows."""
    array = X.to_dask_array() if hasattr(X, "to_dask_array") else X
    return array.rechunk({1: -1}) if array.ndim == 2 and array.numblocks[1] > 1 else array


def reader_of(X: Any) -> Reader | None:
    """Return a reader for rows that are better read in parts; None for all other rows."""
    if isinstance(X, Reader):
        return X
    if isinstance(X, np.memmap) and X.nbytes > SMALL_MEMMAP and X.filename is not None:
        return NpyRows.of(X, str(X.filename)) if _is_whole_map(X) else None
    if is_dask(X):
        return DaskRows.of(X)
    library, name = type(X).__module__.partition(".")[0], type(X).__name__
    if (library, name) == ("h5py", "Dataset"):
        return Hdf5Rows.of(X)
    return ZarrRows.of(X) if (library, name) == ("zarr", "Array") else None


def _is_whole_map(X: Any) -> bool:
    """Whether a memory-mapped array is all of its map, with the values of its file.

    A slice keeps the offset of the array it was cut from, so its start is compared with the map's.
    Changes of a map of mode "c" are not in the file.
    """
    contiguous = X.flags.c_contiguous or X.flags.f_contiguous
    if X.ndim != 2 or X._mmap is None or not contiguous or X.mode == "c":
        return False
    start = np.frombuffer(X._mmap, dtype=np.uint8).__array_interface__["data"][0]
    return bool(X.__array_interface__["data"][0] - start == X.offset % mmap.ALLOCATIONGRANULARITY)
