"""Chemical measurements of wines: 178 rows, 13 features, 3 classes."""

from benchopt import BaseDataset
from sklearn.datasets import load_wine


class Dataset(BaseDataset):
    name = "wine"

    def get_data(self):
        X, y = load_wine(return_X_y=True)
        return {"X": X, "y": y, "standardise": True}
