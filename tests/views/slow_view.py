"""Views once more, slow and by the book: loops over rows and classes, and eigenvectors."""

import numpy as np
from sklearn.covariance import ledoit_wolf


class SlowView:
    """A view learned by loops; `apply` maps one row after the other."""

    def __init__(self, recipe, X, class_of_row):
        self.recipe = recipe
        rows = np.array([self.begin(row) for row in np.asarray(X, dtype=np.float64)])
        n_rows, n_features = rows.shape
        of_class = {c: rows[class_of_row == c].mean(axis=0) for c in set(class_of_row.tolist())}
        self.mean, self.deviation = np.zeros(n_features), np.ones(n_features)
        self.matrix, self.size = np.eye(n_features), 1.0
        if recipe.centred:
            self.mean = sum(rows) / n_rows
        if recipe.scale == "total":
            self.deviation = np.sqrt(sum((row - rows.mean(axis=0)) ** 2 for row in rows) / n_rows)
        residuals = np.array(
            [row - of_class[c] for row, c in zip(rows, class_of_row.tolist(), strict=True)]
        )
        if recipe.scale == "within":
            self.deviation = np.sqrt(sum(row**2 for row in residuals) / n_rows)
        if recipe.power > 0:
            covariance, self.shrinkage = ledoit_wolf(
                residuals / self.deviation, assume_centered=True
            )
            values, vectors = np.linalg.eigh(covariance)
            self.matrix = sum(
                value**-recipe.power * np.outer(vector, vector)
                for value, vector in zip(values, vectors.T, strict=True)
            )
        self.size = np.sqrt(np.mean([self.mapped(row) @ self.mapped(row) for row in rows]))

    def begin(self, row):
        return row / np.linalg.norm(row) if self.recipe.unit else row

    def mapped(self, row):
        return self.matrix @ ((row - self.mean) / self.deviation)

    def finish(self, row):
        mapped = self.mapped(self.begin(row))
        if self.recipe.constant:
            mapped = np.append(mapped, self.size)
        return mapped / np.linalg.norm(mapped)

    def apply(self, X):
        return np.array([self.finish(row) for row in np.asarray(X, dtype=np.float64)])
