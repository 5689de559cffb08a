"""Whitening: powers of a shrunken covariance matrix.

The empirical covariance is shrunk towards a multiple of the identity by the rule of Ledoit and Wolf
(2004), which needs no parameter: the less the rows tell about the covariance, the more it is
shrunk.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh

from dbdl._products import block_product
from dbdl.model.state import Doubles
from dbdl.model.statistics import Weights


class Spectrum(NamedTuple):
    """Eigenvalues (n,) and eigenvectors (n, n_features) of an empirical covariance.

    If there are fewer of them than features, all other eigenvalues are 0.
    """

    values: Doubles
    vectors: Doubles
    fourth: float  # mean of the fourth powers of the norms of the residuals
    n_rows: float  # a row of weight w counted w times

    def power(self, exponent: float, least: float) -> Doubles:
        """Power of the shrunken covariance matrix (n_features, n_features).

        Eigenvalues below ``least`` times the largest are raised to that, so that rounding errors
        are not amplified.
        """
        rest, gain = self.gains(exponent, least)
        matrix = block_product(np.ascontiguousarray(self.vectors.T) * gain, self.vectors)
        matrix[np.diag_indices(len(matrix))] += rest
        return (matrix + matrix.T) / 2

    def gains(self, exponent: float, least: float) -> tuple[float, Doubles]:
        """Power of the eigenvalue of all other directions, and by how much these (n,) exceed it."""
        mean = float(self.values.sum()) / self.n_features
        if mean <= 0:  # all rows of a class are equal
            return 1.0, np.zeros_like(self.values)
        share = self.shrinkage()
        values = (1 - share) * self.values + share * mean
        rest = max(share * mean, least * float(values.max()))
        return rest**exponent, np.maximum(values, rest) ** exponent - rest**exponent

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self.vectors.shape[1])

    def shrinkage(self) -> float:
        """Weight of the identity in the shrunken covariance, between 0 and 1."""
        square, mean = float(self.values @ self.values), float(self.values.sum()) / self.n_features
        distance = square - self.n_features * mean**2
        noise = (self.fourth - square) / self.n_rows
        return 1.0 if distance <= 0 else min(max(noise, 0.0) / distance, 1.0)


def spectrum_of_products(products: Doubles, fourth: float, n_rows: float) -> Spectrum:
    """Spectrum of a covariance matrix (n_features, n_features)."""
    values, vectors = eigh(products)
    return Spectrum(np.maximum(values, 0.0), np.ascontiguousarray(vectors.T), fourth, n_rows)


def spectrum_of_rows(residuals: Doubles, sample_weight: Weights = None) -> Spectrum:
    """The same for fewer rows than features, by their inner products."""
    fourth = float(np.average((residuals**2).sum(axis=1) ** 2, weights=sample_weight))
    n_rows: float = len(residuals)
    if sample_weight is not None:
        n_rows = float(sample_weight.sum())
        residuals = residuals * np.sqrt(sample_weight)[:, np.newaxis]
    values, vectors = eigh(block_product(residuals, np.ascontiguousarray(residuals.T)) / n_rows)
    some = values > np.finfo(np.float64).eps * len(residuals) * max(float(values[-1]), 0.0)
    values, vectors = values[some], vectors[:, some]
    directions = block_product(np.ascontiguousarray(vectors.T), residuals)
    directions /= np.sqrt(n_rows * values)[:, np.newaxis]
    return Spectrum(values, directions, fourth, n_rows)
