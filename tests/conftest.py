"""Fixtures for all tests: where the real data sets are, and how to load them.

The data sets cannot be distributed. Set the environment variable DBDL_DATA to the folder that holds
them. Tests of missing data sets are skipped, and say so.
"""

import os
import sys
from pathlib import Path

import numpy as np
import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")  # workers of pytest share the processors


@pytest.fixture(autouse=True)
def methods_of_the_package_only():
    """Methods that a test registers are gone after it."""
    yield
    registry = sys.modules.get("dbdl.registry")
    if registry is not None:
        registry.OWN.clear()


@pytest.fixture(scope="session")
def data_dir():
    """The folder named by DBDL_DATA."""
    name = os.environ.get("DBDL_DATA")
    if not name:
        pytest.skip("needs real data: set DBDL_DATA to the folder that holds it")
    folder = Path(name).resolve()
    if not folder.is_dir():
        pytest.skip(f"needs real data: DBDL_DATA names {name!r}, which is not a folder")
    return folder


def load(data_dir, filename, *names):
    """The named arrays of one npz file, features as float32 (some are stored in 8 or 16 bits)."""
    path = data_dir / filename
    if not path.is_file():
        pytest.skip(f"needs real data: no {filename} in the folder that DBDL_DATA names")
    with np.load(path, allow_pickle=False) as file:
        return tuple(
            file[name].astype(np.float32) if name.startswith("X") else file[name] for name in names
        )


@pytest.fixture(scope="session")
def yaleb(data_dir):
    """Extended YaleB as 504 random-face features: X (2414, 504), y with 38 classes."""
    return load(data_dir, "extended_yaleb_randomfaces504.npz", "X", "y")


@pytest.fixture(scope="session")
def scene15(data_dir):
    """Fifteen Scene as spatial-pyramid features: X (4485, 3000), y with 15 classes."""
    return load(data_dir, "scene15_spm3000.npz", "X", "y")


@pytest.fixture(scope="session")
def coil20(data_dir):
    """COIL-20 objects as pixels: X (1440, 1024), y with 20 classes."""
    return load(data_dir, "coil20_32x32.npz", "X", "y")


@pytest.fixture(scope="session")
def botswana(data_dir):
    """Hyperspectral pixels over Botswana: X (3248, 145), y with 14 classes."""
    return load(data_dir, "botswana_spectra145.npz", "X", "y")


@pytest.fixture(scope="session")
def usps(data_dir):
    """USPS digits in their own split: X_train (7291, 256), y_train, X_test (2007, 256), y_test."""
    return load(data_dir, "usps_16x16.npz", "X_train", "y_train", "X_test", "y_test")


@pytest.fixture(scope="session")
def reference(data_dir):
    """Output of the LC-KSVD authors' code: atoms (570, 504), codes, label atoms, y (1216,)."""
    names = ("atoms", "codes", "label_atoms", "y")
    return load(data_dir, "lcksvd1_reference_yaleb.npz", *names)
