"""Shared by the solvers: how a solver runs, and a classifier on the codes of a dictionary."""

from benchopt import BaseSolver
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer


class ClassifierSolver(BaseSolver):
    """Fit a classifier once; a solver says how to make it."""

    def make(self, n_classes, seed):
        """Return a classifier with scikit-learn's interface."""
        raise NotImplementedError

    def n_atoms(self, model):
        """Return how many atoms the fitted model has."""
        raise NotImplementedError

    def set_objective(self, X, y):
        self.X, self.y = X, y
        self.n_classes = len(set(y))
        self.seed = self.get_seed(use_repetition=True) % 2**31

    def run(self, _):
        self.model = self.make(self.n_classes, self.seed).fit(self.X, self.y)

    def get_result(self):
        return {"model": self.model, "n_atoms": self.n_atoms(self.model)}


def logistic_on(transformer):
    """Return logistic regression on the codes of unit rows; training rows choose its penalty."""
    grid = {"C": [1, 10, 100, 1000]}
    return make_pipeline(
        Normalizer(), transformer, GridSearchCV(LogisticRegression(max_iter=5000), grid, cv=3)
    )
