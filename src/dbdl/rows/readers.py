"""Readers: raw rows out of files and collections, some at a time.

A reader can be sent to another process: it carries the name of its file, never its content.
"""

from __future__ import annotations

import sys
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dbdl._arrow import number_dtype, numbers_of
from dbdl._files import reading

NPY, HDF5, ZARR, PARQUET = "file of numpy.save", "HDF5 file", "zarr folder", "parquet file"

#: A memory-mapped array of fewer bytes is read at once.
SMALL_MEMMAP = 1 << 28


class Reader(Protocol):
    """Rows of a file or a collection."""

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of features."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Kind of number in the file."""

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Return the rows start..stop (excluded)."""

    def take(self, numbers: NDArray[np.int64]) -> NDArray[Any]:
        """Return rows by their numbers, in any order."""


class _TakesInOrder:
    """For readers that can only go forward: rows are read in order and then put in place."""

    def take(self: Any, numbers: NDArray[np.int64]) -> NDArray[Any]:
        """Return rows by their numbers, in any order."""
        ascending, place = np.unique(numbers, return_inverse=True)
        return self._take_ascending(ascending)[place]


@dataclass(frozen=True)
class NpyRows:
    """A memory-mapped array in a file."""

    path: str
    dtype: np.dtype[Any]
    shape: tuple[int, int]
    offset: int
    fortran: bool = False

    @cached_property
    def _map(self) -> np.memmap[Any, Any]:
        order: Any = "F" if self.fortran else "C"
        return np.memmap(self.path, self.dtype, "r", self.offset, self.shape, order)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_map"}

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Return some rows; read rather than mapped, since mapped pages count as memory."""
        if self.fortran:
            return np.array(self._map[start:stop])
        row_bytes = self.shape[1] * self.dtype.itemsize
        with reading(self.path, NPY):
            rows = np.fromfile(
                self.path,
                self.dtype,
                (stop - start) * self.shape[1],
                offset=self.offset + start * row_bytes,
            )
            return rows.reshape(stop - start, self.shape[1])

    def take(self, numbers: NDArray[np.int64]) -> NDArray[Any]:
        """Return rows by their numbers."""
        return np.array(self._map[numbers])


@dataclass(frozen=True)
class Hdf5Rows(_TakesInOrder):
    """A two-dimensional dataset of an HDF5 file."""

    path: str
    name: str

    @cached_property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of features."""
        with self._file() as file:
            return tuple(file[self.name].shape)

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """Kind of number."""
        with self._file() as file:
            return file[self.name].dtype

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Return some rows."""
        with reading(self.path, HDF5), self._file() as file:
            return file[self.name][start:stop]

    def _take_ascending(self, numbers: NDArray[np.int64]) -> NDArray[Any]:
        with reading(self.path, HDF5), self._file() as file:
            return file[self.name][numbers]

    def _file(self) -> Any:
        """Open the file; it is closed again between reads, so that others may write to it."""
        import h5py

        return h5py.File(self.path, "r")


@dataclass(frozen=True)
class ZarrRows:
    """A two-dimensional array of zarr, which knows its store."""

    array: Any

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of features."""
        return tuple(self.array.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Kind of number."""
        return np.dtype(self.array.dtype)

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Return some rows."""
        with reading(str(self.array.store), ZARR):
            return np.asarray(self.array[start:stop])

    def take(self, numbers: NDArray[np.int64]) -> NDArray[Any]:
        """Return rows by their numbers."""
        with reading(str(self.array.store), ZARR):
            return np.asarray(self.array.oindex[numbers])


@dataclass(frozen=True)
class ParquetRows(_TakesInOrder):
    """Columns of numbers of a parquet file, read by its groups of rows."""

    path: str
    columns: tuple[str, ...]

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

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "columns": self.columns}

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of features."""
        return int(self._starts[-1]), len(self.columns)

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """Kind of number that holds all columns."""
        schema = self._file.schema_arrow
        kinds = (number_dtype(schema.field(name).type) for name in self.columns)
        return np.result_type(*(kind or np.dtype(object) for kind in kinds))

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Return some rows: the groups that hold them are read, the others are not."""
        first = int(np.searchsorted(self._starts, start, side="right")) - 1
        parts = []
        for group in range(first, len(self._starts) - 1):
            begin = int(self._starts[group])
            if begin >= stop:
                break
            with reading(self.path, PARQUET):
                table = self._file.read_row_group(group, columns=list(self.columns))
            own = table.slice(max(start - begin, 0), stop - max(start, begin))
            parts.append(np.column_stack([numbers_of(own.column(name)) for name in self.columns]))
        return np.concatenate(parts) if parts else np.empty((0, len(self.columns)))

    def _take_ascending(self, numbers: NDArray[np.int64]) -> NDArray[Any]:
        group = np.searchsorted(self._starts, numbers, side="right") - 1
        parts = []
        for g in np.unique(group):
            start, stop = self._starts[g], self._starts[g + 1]
            parts.append(self.read(int(start), int(stop))[numbers[group == g] - start])
        return np.concatenate(parts)


@dataclass(frozen=True)
class DaskRows:
    """A Dask array: one chunk of columns, rows in chunks; the names of columns if it had any."""

    array: Any
    columns: tuple[str, ...] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of features."""
        return tuple(int(n) for n in self.array.shape)  # type: ignore[return-value]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Kind of number."""
        return np.dtype(self.array.dtype)

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Compute some rows."""
        return np.asarray(self.array[start:stop].compute())

    def take(self, numbers: NDArray[np.int64]) -> NDArray[Any]:
        """Compute rows by their numbers."""
        return np.asarray(self.array[numbers].compute())


def is_dask(X: Any) -> bool:
    """Whether X is a Dask collection; Dask is not imported to find out."""
    return "dask" in sys.modules and hasattr(X, "__dask_graph__") and hasattr(X, "dask")


def dask_array(X: Any) -> Any:
    """Return a Dask array of known lengths for a Dask array or data frame."""
    array = dask_columns_in_one_chunk(X)
    return copy(array).compute_chunk_sizes() if np.isnan(array.shape[0]) else array


def dask_columns_in_one_chunk(X: Any) -> Any:
    """Return a Dask array, its lengths known or not, whose chunks hold whole rows."""
    array = X.to_dask_array() if hasattr(X, "to_dask_array") else X
    return array.rechunk({1: -1}) if array.ndim == 2 and array.numblocks[1] > 1 else array


def reader_of(X: Any) -> Reader | None:
    """Return a reader for what is better read in parts; None for all else."""
    if isinstance(X, (NpyRows, Hdf5Rows, ZarrRows, ParquetRows)):
        return X
    if isinstance(X, np.memmap) and X.nbytes > SMALL_MEMMAP and X.filename is not None:
        return _of_memmap(X)
    if is_dask(X):
        return DaskRows(dask_array(X), _names(X))
    kind = type(X)
    if kind.__module__.startswith("h5py.") and kind.__name__ == "Dataset":
        return Hdf5Rows(X.file.filename, X.name)
    if kind.__module__.startswith("zarr.") and kind.__name__ == "Array":
        return ZarrRows(X)
    return None


def _names(X: Any) -> tuple[str, ...] | None:
    """Return the names of the columns of a data frame if all are words, as scikit-learn does."""
    names = tuple(getattr(X, "columns", ()))
    return names if names and all(isinstance(name, str) for name in names) else None


def _of_memmap(X: Any) -> NpyRows | None:
    """Return a reader of a whole memory-mapped array; a view of one has no offset of its own."""
    contiguous = X.flags.c_contiguous or X.flags.f_contiguous
    if X.ndim != 2 or X._mmap is None or not contiguous or not _is_whole(X):
        return None
    if X.mode == "c":  # what was written to it is not in the file
        return None
    fortran = not X.flags.c_contiguous
    return NpyRows(str(Path(str(X.filename)).absolute()), X.dtype, X.shape, X.offset, fortran)


def _is_whole(X: Any) -> bool:
    """Whether X starts where its map does: a slice keeps the offset of what it was cut from."""
    import mmap

    start = np.frombuffer(X._mmap, dtype=np.uint8).__array_interface__["data"][0]
    return X.__array_interface__["data"][0] - start == X.offset % mmap.ALLOCATIONGRANULARITY
