"""Handwritten digits, 8 by 8 pixels: 1797 rows, 10 classes."""

from benchopt import BaseDataset
from sklearn.datasets import load_digits


class Dataset(BaseDataset):
    name = "digits"

    def get_data(self):
        X, y = load_digits(return_X_y=True)
        return {"X": X, "y": y}
