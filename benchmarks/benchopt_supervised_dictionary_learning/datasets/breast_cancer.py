"""Measurements of cell nuclei: 569 rows, 30 features, 2 classes; standardised."""

from benchopt import BaseDataset
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale


class Dataset(BaseDataset):
    name = "breast_cancer"

    def get_data(self):
        X, y = load_breast_cancer(return_X_y=True)
        return {"X": scale(X), "y": y}
