"""Feature files of the LC-KSVD authors: MATLAB arrays with samples in columns, one-hot labels.

``featureMat`` (n_features, n_samples) and ``labelMat`` (n_classes, n_samples) hold a whole data
set; ``training_feats``, ``testing_feats``, ``H_train`` and ``H_test`` one split of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbdl.datasets.record import DataError, Dataset, make_dataset

FEATURES, LABELS = "featuremat", "labelmat"
SPLIT = ("training_feats", "h_train", "testing_feats", "h_test")


def is_lcksvd(arrays: Mapping[str, Any]) -> bool:
    """Whether arrays have the names of these files."""
    names = {name.lower() for name in arrays}
    return {FEATURES, LABELS} <= names or set(SPLIT) <= names


def to_dataset(arrays: Mapping[str, NDArray[Any]], name: str, kind: str = "features") -> Dataset:
    """Turn the arrays of a file into rows; class numbers count from 1, as the authors'."""
    by_name = {key.lower(): value for key, value in arrays.items()}
    if FEATURES in by_name:
        return make_dataset(
            np.asarray(by_name[FEATURES]).T,
            _numbers(by_name[LABELS], name),
            name,
            feature_kind=kind,
        )
    train, train_labels, test, test_labels = (by_name[key] for key in SPLIT)
    is_test = np.repeat([False, True], [train.shape[1], test.shape[1]])
    labels = np.concatenate([_numbers(train_labels, name), _numbers(test_labels, name)])
    rows = np.concatenate([train.T, test.T])
    return make_dataset(rows, labels, name, feature_kind=kind, is_test=is_test)


def _numbers(labels: NDArray[Any], name: str) -> NDArray[np.int64]:
    dense = np.asarray(labels.todense() if hasattr(labels, "todense") else labels)
    if dense.ndim != 2 or not ((dense != 0).sum(axis=0) == 1).all():
        raise DataError(
            f"{name}: the labels have the shape {dense.shape}; expected one column a sample with "
            "exactly one entry that is not zero"
        )
    return np.argmax(dense != 0, axis=0) + 1
