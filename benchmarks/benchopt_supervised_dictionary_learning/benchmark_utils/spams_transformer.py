"""`spams.trainDL` and `spams.omp` as a transformer of scikit-learn's kind."""

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin


class SpamsDictionary(TransformerMixin, BaseEstimator):
    """Learn atoms online; code rows by matching pursuit. SPAMS takes columns, and no seed."""

    def __init__(self, n_atoms, n_nonzero=8, n_iter=200):
        self.n_atoms, self.n_nonzero, self.n_iter = n_atoms, n_nonzero, n_iter

    def fit(self, X, y=None):
        from spams import trainDL

        options = {"lambda1": 0.1, "iter": self.n_iter, "numThreads": 1, "verbose": False}
        self.atoms_ = trainDL(np.asfortranarray(X.T), K=self.n_atoms, **options)
        return self

    def transform(self, X):
        from spams import omp

        return omp(np.asfortranarray(X.T), self.atoms_, L=self.n_nonzero, numThreads=1).toarray().T
