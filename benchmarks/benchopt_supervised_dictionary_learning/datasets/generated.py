"""Rows that are sparse sums of atoms; each class prefers its own atoms."""

import numpy as np
from benchopt import BaseDataset


class Dataset(BaseDataset):
    name = "generated"
    parameters = {"n_rows": [400], "n_classes": [4], "noise": [0.3]}
    test_parameters = {"n_rows": [80]}

    def get_data(self):
        rng = np.random.default_rng(self.get_seed())
        n_atoms, n_features, n_nonzero = 8 * self.n_classes, 40, 4
        atoms = rng.standard_normal((n_atoms, n_features))
        y = np.arange(self.n_rows) % self.n_classes
        codes = np.zeros((self.n_rows, n_atoms))
        for i, c in enumerate(y):
            likely = np.where(np.arange(n_atoms) // 8 == c, 8.0, 1.0)
            chosen = rng.choice(n_atoms, n_nonzero, replace=False, p=likely / likely.sum())
            codes[i, chosen] = rng.standard_normal(n_nonzero)
        X = codes @ atoms
        X += self.noise * X.std() * rng.standard_normal(X.shape)
        return {"X": X, "y": y}
