"""Data sets and splits of the accuracy benchmarks.

Real data is found through the environment variable DBDL_DATA; a set that is not there is skipped
with a message. Rows are scaled to unit norm for every method.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from dbdl.estimators._rows import unit_rows


@dataclass(frozen=True)
class Problem:
    """A file, and how many rows of each class to learn from (a share below 1, None: own split)."""

    file: str | None
    per_class: float | None


PROBLEMS = {
    "yaleb": Problem("extended_yaleb_randomfaces504.npz", 0.5),
    "scene15": Problem("scene15_spm3000.npz", 100),
    "botswana": Problem("botswana_spectra145.npz", 30),
    "coil20": Problem("coil20_32x32.npz", 10),
    "usps": Problem("usps_16x16.npz", None),
    "yaleb32": Problem("extended_yaleb_32x32.npz", 0.5),
    "digits": Problem(None, 20),
}


@dataclass(frozen=True)
class Split:
    """Rows to learn from and rows to test on."""

    X_train: np.ndarray
    y_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def load(name: str) -> dict[str, np.ndarray] | None:
    """Arrays of a data set, or None with a message where its file is absent."""
    file = PROBLEMS[name].file
    if file is None:
        X, y = load_digits(return_X_y=True)
        return {"X": X, "y": y}
    path = Path(os.environ.get("DBDL_DATA", ".")) / file
    if not path.exists():
        print(
            f"{name}: {file} not found; set DBDL_DATA to the folder that holds it", file=sys.stderr
        )
        return None
    with np.load(path) as arrays:
        return {key: arrays[key] for key in arrays.files if arrays[key].dtype.kind in "fiu"}


def splits(name: str, n_splits: int) -> Iterator[Split]:
    """Random splits, class by class, the same for every method: seeds 0, 1, ..."""
    arrays = load(name)
    if arrays is None:
        return
    per_class = PROBLEMS[name].per_class
    if per_class is None:
        yield _split(*(arrays[k] for k in ("X_train", "y_train", "X_test", "y_test")))
        return
    X, y = arrays["X"], arrays["y"].ravel()
    for seed in range(n_splits):
        rng = np.random.default_rng(seed)
        chosen = np.zeros(len(y), dtype=bool)
        for label in np.unique(y):
            rows = rng.permutation(np.flatnonzero(y == label))
            n = round(per_class * len(rows)) if per_class < 1 else int(per_class)
            chosen[rows[:n]] = True
        yield _split(X[chosen], y[chosen], X[~chosen], y[~chosen])


def _split(X_train, y_train, X_test, y_test) -> Split:
    return Split(_unit(X_train), y_train.ravel(), _unit(X_test), y_test.ravel())


def _unit(X: np.ndarray) -> np.ndarray:
    return unit_rows(X.astype(np.float64)).astype(np.float32)
