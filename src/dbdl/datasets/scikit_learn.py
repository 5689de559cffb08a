"""Small data sets that come with scikit-learn: always available."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

from dbdl.datasets.dataset import DataError, Dataset, make_dataset

#: The reader of each, and what is known of its rows.
READERS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "digits": (load_digits, {"feature_kind": "pixels", "image_shape": (8, 8)}),
    "wine": (load_wine, {"feature_kind": "measurements"}),
    "iris": (load_iris, {"feature_kind": "measurements"}),
    "breast_cancer": (load_breast_cancer, {"feature_kind": "measurements"}),
}


def read_scikit_learn(name: str, features: str | None = None) -> Dataset:
    """Return a data set by name; it has one kind of features."""
    read, details = READERS[name]
    if features not in (None, details["feature_kind"]):
        raise DataError(
            f"{name} has no features {features!r}; there are {details['feature_kind']!r}"
        )
    X, y = read(return_X_y=True)
    return make_dataset(X, y, name, **details)
