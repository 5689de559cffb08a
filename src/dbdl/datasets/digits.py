"""scikit-learn's digits: 1797 images of 8×8 pixels, ten classes; always available."""

from __future__ import annotations

from sklearn.datasets import load_digits

from dbdl.datasets.dataset import Dataset, make_dataset


def read_digits() -> Dataset:
    """Return the digits."""
    X, y = load_digits(return_X_y=True)
    return make_dataset(X, y, "digits", feature_kind="pixels", image_shape=(8, 8))
