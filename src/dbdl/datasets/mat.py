"""MATLAB files: version 5 by SciPy, version 7.3 (which is HDF5) by h5py.

The LC-KSVD authors share features with samples in columns and one-hot labels.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbdl._files import reading
from dbdl.datasets.dataset import DataError, from_one_hot

HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
# MATLAB writes a header of its own before the HDF5 part.
HDF5_STARTS = (0, 512)
#: Names of the LC-KSVD authors, in lower case, and the usual ones: a whole data set, or one split.
LCKSVD_NAMES = (
    {"featuremat": "X", "labelmat": "y"},
    {
        "training_feats": "X_train",
        "h_train": "y_train",
        "testing_feats": "X_test",
        "h_test": "y_test",
    },
)


def read_mat(path: Path) -> dict[str, NDArray[Any]]:
    """Numeric arrays of a MATLAB file by name, as MATLAB shows them."""
    return _read_hdf5(path) if _is_hdf5(path) else _read_version_5(path)


def turn_lcksvd(arrays: dict[str, NDArray[Any]], path: Path) -> dict[str, NDArray[Any]]:
    """Return arrays of the LC-KSVD authors as rows and class numbers, others as they are.

    Class numbers count from 1, as the authors' do.
    """
    by_name = {name.lower(): array.T for name, array in arrays.items()}
    for names in LCKSVD_NAMES:
        if set(names) <= set(by_name):
            return {
                new: from_one_hot(by_name[old], str(path)) + 1 if new[0] == "y" else by_name[old]
                for old, new in names.items()
            }
    return arrays


def _is_hdf5(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(HDF5_STARTS[-1] + len(HDF5_SIGNATURE))
    return any(head[start:].startswith(HDF5_SIGNATURE) for start in HDF5_STARTS)


def _read_version_5(path: Path) -> dict[str, NDArray[Any]]:
    from scipy.io import loadmat

    with reading(path, "MATLAB file"):
        found = loadmat(path)
    arrays = {
        name: np.asarray(value.toarray() if hasattr(value, "toarray") else value)
        for name, value in found.items()
        if not name.startswith("__")
    }
    return {name: array for name, array in arrays.items() if array.dtype.kind in "fiubUc"}


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
