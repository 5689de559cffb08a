"""Open a file of rows that need not fit in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from dbdl._arrays import Array
from dbdl._arrow import index_names, labels_of, look_at_column, number_dtype
from dbdl._columns import (
    Cells,
    Table,
    as_texts,
    choose_features,
    columns_by_name,
    find_features,
    refuse_no_features,
    some,
    warn_of,
)
from dbdl._extras import how_to_install
from dbdl._files import DataError, checked_path, reading
from dbdl.rows.readers import Hdf5Rows, NpyRows, ParquetRows, Reader, ZarrRows

FORMATS = ".npy, .h5 or .hdf5, .zarr and .parquet"
#: Rows of a parquet file that are looked at first: they describe nearly all columns.
HEAD = 1 << 16


def open_rows(
    path: str | Path, *, rows: str = "X", label: str = "y", columns: Sequence[str] | None = None
) -> tuple[Reader, Any]:
    """Open rows that are read in parts, and their labels.

    Parameters
    ----------
    path : str or path
        ``.npy``; ``.h5`` or ``.hdf5``; ``.zarr``; ``.parquet``.
    rows : str, default="X"
        Name of the two-dimensional dataset of an HDF5 or zarr file.
    label : str, default="y"
        Name of the dataset or column that holds the labels.
    columns : sequence of str, optional
        Columns of a parquet file to use, in this order, such as ``model.feature_names_in_``. By
        default all but the label and those that number or name the rows: a first column without a
        name, a stored index, consecutive whole numbers, and a different text in every row. A
        warning says which were left out.

    Returns
    -------
    X : reader
        Rows for `fit`, `predict`, ...; none of them is kept in memory.
    y : ndarray of shape (n_samples,) or None
        Labels, in memory; None where the file has none.

    Raises
    ------
    DataError
        A ValueError: the file is damaged, holds no rows of numbers, or has a column name twice.
    FileNotFoundError
        There is no such file.

    Examples
    --------
    >>> from dbdl import DBDLClassifier, open_rows
    >>> X, y = open_rows("spectra.parquet", label="species")  # doctest: +SKIP
    >>> model = DBDLClassifier(n_initial_atoms=1000).fit(X, y)  # doctest: +SKIP
    """
    path = checked_path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist")
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        return _open_parquet(path, label, columns)
    if columns is not None:
        raise DataError(f"{path} has no columns by name; columns= is for .parquet files")
    if suffix == ".npy":
        with reading(path, f"{NpyRows.kind}, or holds Python objects"):
            array: Any = np.load(path, mmap_mode="r")
        _check_numbers(array, path)
        return NpyRows.of(array, path), None
    if suffix in (".h5", ".hdf5"):
        return _open_hdf5(path, rows, label)
    if suffix == ".zarr":
        return _open_zarr(path, rows, label)
    raise DataError(f"{path}: rows can be read in parts only from {FORMATS}")


def _open_hdf5(path: Path, rows: str, label: str) -> tuple[Hdf5Rows, Any]:
    _need("h5py", path)
    import h5py

    with reading(path, Hdf5Rows.kind), h5py.File(path, "r") as file:
        return Hdf5Rows.of(_find(file, rows, path)), _labels(file, label)


def _open_zarr(path: Path, rows: str, label: str) -> tuple[ZarrRows, Any]:
    _need("zarr", path)
    import zarr

    with reading(path, ZarrRows.kind):
        try:
            found = zarr.open(str(path), mode="r")
        except FileNotFoundError as error:  # the path exists, so it is not that
            raise ValueError(f"it has no description: {error}") from error
        if hasattr(found, "shape"):
            _check_numbers(found, path)
            return ZarrRows.of(found), None
        return ZarrRows.of(_find(found, rows, path)), _labels(found, label)


def _open_parquet(path: Path, label: str, columns: Sequence[str] | None) -> tuple[ParquetRows, Any]:
    _need("pyarrow", path)
    import pyarrow.parquet as parquet

    with reading(path, ParquetRows.kind), parquet.ParquetFile(path) as file:
        schema = file.schema_arrow
        table = _ParquetTable(path, schema.names, index_names(schema), file=file)
        number = table.number(label)
        if columns is None:
            features, notes = choose_features(table, number)
            warn_of(table, notes)
            if not features:
                refuse_no_features(table)
        else:
            features, _ = find_features(table, columns_by_name(columns), number)
        names = tuple(schema.names[j] for j in features)
        words = [name for name in names if number_dtype(schema.field(name).type) is None]
        if words:
            raise DataError(
                f"{path} has columns that are not numbers; name the one that holds the labels with "
                f"label=..., and remove the others: {some(words)}"
            )
        y = None if number is None else labels_of(file.read([label]).column(label), path)
        return ParquetRows.of(file, path, names), y


@dataclass(frozen=True, kw_only=True)
class _ParquetTable(Table):
    file: Any  # pyarrow.parquet.ParquetFile

    def look(self, j: int) -> Cells:
        n_rows, name = self.file.metadata.num_rows, self.names[j]
        if n_rows == 0:
            return Cells.TOO_FEW
        head = next(self.file.iter_batches(HEAD, columns=[name])).column(0)
        found = look_at_column(head)
        if found in (Cells.PLAIN, Cells.NAME_ROWS) or len(head) == n_rows:
            return found
        return look_at_column(self.file.read([name]).column(0))


def _find(group: Any, name: str, path: Path) -> Any:
    """Return a two-dimensional dataset of numbers by its name."""
    if name not in group:
        there = ", ".join(sorted(group)) or "nothing"
        raise DataError(f"{path} has no dataset {name!r}; it has {there}. Name it with rows=...")
    _check_numbers(group[name], f"{path}, {name!r}")
    return group[name]


def _check_numbers(array: Any, place: str | Path) -> None:
    """Refuse anything but a two-dimensional array of numbers."""
    if not hasattr(array, "shape") or not hasattr(array, "dtype"):
        raise DataError(f"{place} is a group, not a dataset. Name the dataset with rows=...")
    if len(array.shape) != 2:
        raise DataError(
            f"{place} holds an array of shape {tuple(array.shape)}; expected rows x features"
        )
    if array.dtype.kind not in "fiub":
        raise DataError(
            f"{place} holds {array.dtype}, which is no kind of number that can be learned from; "
            "save the rows as real numbers"
        )


def _labels(group: Any, name: str) -> Array | None:
    """Return the labels in an HDF5 or zarr group, words as texts; None where there are none."""
    if name not in group:
        return None
    y = np.asarray(group[name][...]).ravel()
    return as_texts(y.tolist()) if y.dtype.kind in "SO" else y


def _need(package: str, path: Path) -> None:
    if find_spec(package) is None:
        raise ModuleNotFoundError(
            f"{path} needs {package}, which is not installed: {how_to_install(package)}"
        )
