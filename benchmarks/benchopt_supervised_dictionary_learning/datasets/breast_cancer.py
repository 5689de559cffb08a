"""Measurements of cell nuclei: 569 rows, 30 features, 2 classes."""

from benchopt import BaseDataset
from sklearn.datasets import load_breast_cancer


class Dataset(BaseDataset):
    name = "breast_cancer"

    def get_data(self):
        X, y = load_breast_cancer(return_X_y=True)
        return {"X": X, "y": y, "standardise": True}
