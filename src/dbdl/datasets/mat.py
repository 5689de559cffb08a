"""MATLAB files: version 5 by SciPy, version 7.3 (which is HDF5) by h5py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbdl._files import reading
from dbdl.datasets.record import DataError

HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
# MATLAB writes a header of its own before the HDF5 part.
HDF5_STARTS = (0, 512)


def read_mat(path: Path) -> dict[str, NDArray[Any]]:
    """Numeric arrays of a MATLAB file by name, as MATLAB shows them."""
    return _read_hdf5(path) if _is_hdf5(path) else _read_version_5(path)


def _is_hdf5(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(HDF5_STARTS[-1] + len(HDF5_SIGNATURE))
    return any(head[start:].startswith(HDF5_SIGNATURE) for start in HDF5_STARTS)


def _read_version_5(path: Path) -> dict[str, NDArray[Any]]:
    from scipy.io import loadmat

    with reading(path, "MATLAB file"):
        found = loadmat(path)
    arrays = {name: value for name, value in found.items() if not name.startswith("__")}
    dense = {
        name: value.toarray() if hasattr(value, "toarray") else value
        for name, value in arrays.items()
    }
    return {
        name: value for name, value in dense.items() if np.asarray(value).dtype.kind in "fiubUc"
    }


def _read_hdf5(path: Path) -> dict[str, NDArray[Any]]:
    try:
        import h5py
    except ImportError as error:
        raise DataError(
            f"{path} is a MATLAB file of version 7.3, which needs h5py: pip install 'dbdl[files]', "
            "or save it with MATLAB's save(..., '-v7')"
        ) from error
    with reading(path, "MATLAB file"), h5py.File(path, "r") as file:
        # HDF5 counts axes in the order of rows, MATLAB in the order of columns
        return {
            name: np.asarray(item).T
            for name, item in file.items()
            if isinstance(item, h5py.Dataset) and item.dtype.kind in "fiub"
        }
