"""A prior of the atoms whose precision differs per feature: all that a new prior has to do."""

from dataclasses import dataclass

import numpy as np
from scipy import stats

from dbdl.model.atom_priors import HOST, AtomPosterior


@dataclass(frozen=True)
class DiagonalPrior:
    """Each atom from N(mean, 1 / precision), on its own; both of shape (n_features,)."""

    precision: np.ndarray
    mean: np.ndarray

    def posterior(self, sums, arrays=HOST):
        natural_mean = sums.cross
        natural_mean += arrays.put(self.precision * self.mean)
        return AtomPosterior(sums.gram, natural_mean, arrays.put(self.precision))

    def log_density(self, atoms, arrays=HOST):
        return stats.norm.logpdf(arrays.to_host(atoms), self.mean, self.precision**-0.5).sum()

    def draw(self, rng, n_atoms, n_features):
        return rng.normal(self.mean, self.precision**-0.5, (n_atoms, n_features))

    def carry(self, posterior):
        raise ValueError("a prior that differs by feature cannot be carried to the next batch")

    def keep(self, kept):
        return self

    def grow(self, n_new, new):
        return self

    def forget(self, factor, first):
        return self


def diagonal_prior(rng, n_features):
    return DiagonalPrior(rng.gamma(3.0, 1.0, n_features), rng.standard_normal(n_features))
