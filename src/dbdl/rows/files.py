"""Open a file of rows that need not fit in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbdl.rows.readers import Hdf5Rows, NpyRows, ParquetRows, Reader, ZarrRows

FORMATS = ".npy, .h5 or .hdf5, .zarr and .parquet"


def open_rows(path: str | Path, *, rows: str = "X", label: str = "y") -> tuple[Reader, Any]:
    """Open rows that are read in parts, and their labels.

    Parameters
    ----------
    path : str or path
        ``.npy``; ``.h5`` or ``.hdf5``; ``.zarr``; ``.parquet``.
    rows : str, default="X"
        Name of the two-dimensional dataset of an HDF5 or zarr file.
    label : str, default="y"
        Name of the dataset or column that holds the labels.

    Returns
    -------
    X : reader
        Rows for `fit`, `predict`, ...; nothing is read yet.
    y : ndarray of shape (n_samples,) or None
        Labels, in memory; None where the file has none.

    Examples
    --------
    >>> from dbdl import DBDLClassifier, open_rows
    >>> X, y = open_rows("spectra.parquet", label="species")  # doctest: +SKIP
    >>> model = DBDLClassifier(n_initial_atoms=1000).fit(X, y)  # doctest: +SKIP
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist")
    suffix = path.suffix.lower()
    if suffix == ".npy":
        return _open_npy(path), None
    if suffix in (".h5", ".hdf5"):
        return _open_hdf5(path, rows, label)
    if suffix == ".zarr":
        return _open_zarr(path, rows, label)
    if suffix == ".parquet":
        return _open_parquet(path, label)
    raise ValueError(f"{path}: rows can be read in parts from {FORMATS} alone")


def _open_npy(path: Path) -> NpyRows:
    try:
        array = np.load(path, mmap_mode="r")
    except ValueError as error:
        raise ValueError(f"{path} is no file of numpy.save, or holds objects: {error}") from error
    if array.ndim != 2:
        raise ValueError(f"{path} holds an array of shape {array.shape}; expected rows x features")
    fortran = not array.flags.c_contiguous
    return NpyRows(str(path.absolute()), array.dtype, array.shape, array.offset, fortran)


def _open_hdf5(path: Path, rows: str, label: str) -> tuple[Hdf5Rows, Any]:
    _need("h5py", path)
    import h5py

    with h5py.File(path, "r") as file:
        _find(file, rows, path)
        y = _labels(file, label)
    return Hdf5Rows(str(path.absolute()), rows), y


def _open_zarr(path: Path, rows: str, label: str) -> tuple[ZarrRows, Any]:
    _need("zarr", path)
    import zarr

    found = zarr.open(str(path), mode="r")
    if hasattr(found, "shape"):
        return ZarrRows(found), None
    _find(found, rows, path)
    return ZarrRows(found[rows]), _labels(found, label)


def _open_parquet(path: Path, label: str) -> tuple[ParquetRows, Any]:
    _need("pyarrow", path)
    import pyarrow.parquet as parquet

    names = parquet.ParquetFile(path).schema_arrow.names
    y = None
    if label in names:
        y = parquet.read_table(path, columns=[label]).column(0).to_numpy()
    reader = ParquetRows(str(path.absolute()), tuple(n for n in names if n != label))
    if reader.dtype.kind not in "fiub":
        raise ValueError(
            f"{path} has columns that are no numbers; name the one that holds the labels with "
            f"label=..., columns: {', '.join(names[:10])}"
        )
    return reader, y


def _labels(group: Any, name: str) -> NDArray[Any] | None:
    """Return the labels in a group of HDF5 or zarr, words as words; None where there are none."""
    if name not in group:
        return None
    y = np.asarray(group[name][...]).ravel()
    if y.dtype.kind in "SO":
        y = np.array([v.decode() if isinstance(v, bytes) else str(v) for v in y.tolist()])
    return y


def _find(group: Any, name: str, path: Path) -> None:
    if name not in group:
        there = ", ".join(sorted(group)) or "nothing"
        raise ValueError(f"{path} has no dataset {name!r}; it has {there}. Name it with rows=...")


def _need(package: str, path: Path) -> None:
    from importlib.util import find_spec

    if find_spec(package) is None:
        raise ModuleNotFoundError(
            f"{path} needs {package}, which is not installed: pip install 'dbdl[files]'"
        )
