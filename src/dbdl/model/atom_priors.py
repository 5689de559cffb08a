"""Gaussian priors of the atoms (paper, section 4.1), and the posterior that each leads to (eq. 8).

A prior does its own work: it adds itself to the sums over rows, has a density, can be drawn from,
and adapts when atoms are dropped, new ones join, or earlier rows are forgotten. A new prior is a
class with the methods of `AtomPrior` and an entry in `KnownAtomPrior` of `dbdl.model.priors`;
nothing else depends on which prior is in use.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, eigh, solve_triangular

from dbdl.model.definite import solve_definite
from dbdl.model.record import Record
from dbdl.model.statistics import AtomSums
from dbdl.model.trust import TINY, Floats, Positive, doubles, reals

LOG_2PI = float(np.log(2.0 * np.pi))


class AtomPosterior(NamedTuple):
    """Joint posterior of all atoms given the codes; the features are independent.

    Attributes
    ----------
    precision : array of shape (n_atoms, n_atoms)
        Shared by all features.
    natural_mean : array of shape (n_atoms, n_features)
        Precision times mean.
    feature_precision : None or array of shape (n_features,)
        Added to the diagonal of ``precision``, separately for each feature.
    """

    precision: Any
    natural_mean: Any
    feature_precision: Any = None

    def each(self, function: Callable[[Any], Any]) -> AtomPosterior:
        """Apply a function to each array."""
        return AtomPosterior(*(None if array is None else function(array) for array in self))

    def mean(self) -> Floats:
        """Posterior mean of the atoms, for NumPy arrays."""
        if self.feature_precision is None:
            return solve_definite(self.precision, self.natural_mean)
        value, vector = eigh(self.precision, check_finite=False)
        inner = (vector.T @ self.natural_mean) / (value[:, np.newaxis] + self.feature_precision)
        return vector @ inner


class Arrays(Protocol):
    """The part of a backend that priors use: access to its arrays."""

    def put(self, array: NDArray[Any]) -> Any:
        """Put a NumPy array where the backend's arrays live."""

    def to_host(self, array: Any) -> NDArray[Any]:
        """Return one of the backend's arrays as a NumPy array."""

    def dot(self, one: Any, other: Any) -> float:
        """Inner product of two of the backend's arrays, in float64."""


class HostArrays:
    """NumPy arrays, which need not be moved."""

    def put(self, array: NDArray[Any]) -> Any:
        return array

    def to_host(self, array: Any) -> NDArray[Any]:
        return array

    def dot(self, one: Any, other: Any) -> float:
        wide = (array.astype(np.float64, copy=False) for array in (one, other))
        return float(np.vdot(*wide))


HOST = HostArrays()


class AtomPrior(Protocol):
    """Gaussian prior of all atoms together; the features are independent."""

    def posterior(self, sums: AtomSums, arrays: Arrays = HOST) -> AtomPosterior:
        """All atoms given codes and noise precision: eq. 8 for every k at once.

        The prior is added to the arrays of ``sums`` in place, since copies of them would be among
        the largest arrays of a chain. ``arrays`` gives access to them.
        """

    def log_density(self, atoms: Any, arrays: Arrays = HOST) -> float:
        """Log density of atoms (n_atoms, n_features)."""

    def draw(self, rng: np.random.Generator, n_atoms: int, n_features: int) -> Floats:
        """Draw atoms (n_atoms, n_features)."""

    def carry(self, posterior: AtomPosterior) -> AtomPrior:
        """Turn the posterior under this prior (NumPy arrays) into the next prior."""

    def keep(self, kept: NDArray[np.intp]) -> AtomPrior:
        """Prior of the atoms in ``kept``; the others are integrated out."""

    def grow(self, n_new: int, new: AtomPrior) -> AtomPrior:
        """Prior of these atoms followed by ``n_new`` atoms with the prior ``new``."""

    def forget(self, factor: float, first: AtomPrior) -> AtomPrior:
        """Weight everything learned beyond the ``first`` prior by ``factor``."""


class IndependentPrior(Record):
    """Base of priors of independent atoms: the prior of any number of them is the same."""

    def keep(self, kept: NDArray[np.intp]) -> Self:
        return self

    def grow(self, n_new: int, new: AtomPrior) -> Self:
        return self

    def forget(self, factor: float, first: AtomPrior) -> Self:
        return self  # nothing was learned


@dataclass(frozen=True)
class IsotropicPrior(IndependentPrior):
    """The paper's prior: each atom independently from N(0, I / precision)."""

    precision: Positive

    def posterior(self, sums: AtomSums, arrays: Arrays = HOST) -> AtomPosterior:
        sums.gram.ravel()[:: len(sums.gram) + 1] += self.precision  # a view: sums are in C order
        return AtomPosterior(sums.gram, sums.cross)

    def log_density(self, atoms: Any, arrays: Arrays = HOST) -> float:
        log_determinant = len(atoms) * np.log(self.precision)
        return _log_normal(atoms, log_determinant, self.precision * arrays.dot(atoms, atoms))

    def draw(self, rng: np.random.Generator, n_atoms: int, n_features: int) -> Floats:
        return rng.standard_normal((n_atoms, n_features)) / np.sqrt(self.precision)

    def carry(self, posterior: AtomPosterior) -> JointPrior:
        return JointPrior(posterior.precision, posterior.natural_mean)


@dataclass(frozen=True)
class DiagonalPrior(IndependentPrior):
    """Each atom independently from N(0, diag(1 / feature_precision)).

    In the basis of its covariance's eigenvectors, any Gaussian prior of independent atoms with mean
    0 has this form.
    """

    feature_precision: Annotated[Floats, doubles("n_features", least=TINY)]

    def posterior(self, sums: AtomSums, arrays: Arrays = HOST) -> AtomPosterior:
        return AtomPosterior(sums.gram, sums.cross, arrays.put(self.feature_precision))

    def log_density(self, atoms: Any, arrays: Arrays = HOST) -> float:
        log_determinant = float(np.log(self.feature_precision).mean()) * len(atoms)
        square = arrays.dot(atoms, atoms * arrays.put(self.feature_precision))
        return _log_normal(atoms, log_determinant, square)

    def draw(self, rng: np.random.Generator, n_atoms: int, n_features: int) -> Floats:
        return rng.standard_normal((n_atoms, n_features)) / np.sqrt(self.feature_precision)

    def carry(self, posterior: AtomPosterior) -> JointPrior:
        raise ValueError("a precision per feature cannot be carried to the next batch")


@dataclass(frozen=True)
class JointPrior(Record):
    """Prior of dependent atoms: the posterior given earlier rows.

    It has the joint form of `AtomPosterior`, so that a posterior becomes the next prior without
    loss.
    """

    precision: Annotated[Floats, reals("n_atoms", "n_atoms")]
    natural_mean: Annotated[Floats, reals("n_atoms", "n_features")]

    def posterior(self, sums: AtomSums, arrays: Arrays = HOST) -> AtomPosterior:
        precision, natural_mean = sums.gram, sums.cross
        precision += arrays.put(self.precision)
        natural_mean += arrays.put(self.natural_mean)
        return AtomPosterior(precision, natural_mean)

    @cached_property
    def terms(self) -> tuple[float, float]:
        """Log determinant of the precision, and mean times natural mean (n_atoms^3 work)."""
        factor = cholesky(self.precision, lower=True, check_finite=False)
        half = solve_triangular(factor, self.natural_mean, lower=True, check_finite=False)
        return 2.0 * float(np.log(np.diagonal(factor)).sum()), float(np.vdot(half, half))

    def log_density(self, atoms: Any, arrays: Arrays = HOST) -> float:
        here = arrays.to_host(atoms).astype(np.float64, copy=False)
        log_determinant, mean_square = self.terms
        square = float(np.vdot(here, self.precision @ here)) + mean_square
        square -= 2.0 * float(np.vdot(here, self.natural_mean))
        return _log_normal(here, log_determinant, square)

    def draw(self, rng: np.random.Generator, n_atoms: int, n_features: int) -> Floats:
        noise = rng.standard_normal((n_atoms, n_features))
        atoms: Floats = np.linalg.solve(np.linalg.cholesky(self.precision).T, noise)
        return atoms + np.linalg.solve(self.precision, self.natural_mean)

    def carry(self, posterior: AtomPosterior) -> JointPrior:
        return JointPrior(posterior.precision, posterior.natural_mean)

    def keep(self, kept: NDArray[np.intp]) -> JointPrior:
        dropped = np.setdiff1d(np.arange(len(self.precision)), kept)
        own, across = self.precision[np.ix_(dropped, dropped)], self.precision[dropped][:, kept]
        link, mean = np.linalg.solve(own, across).T, self.natural_mean
        precision = self.precision[np.ix_(kept, kept)] - link @ across
        marginal = JointPrior(precision, mean[kept] - link @ mean[dropped])
        if "terms" in vars(self):  # the terms of a marginal follow from those of the joint prior
            part = JointPrior(own, mean[dropped]).terms
            vars(marginal)["terms"] = tuple(np.subtract(self.terms, part).tolist())
        return marginal

    def grow(self, n_new: int, new: AtomPrior) -> JointPrior:
        n_atoms, n_features = self.natural_mean.shape
        added = new.posterior(AtomSums.none(n_new, n_features))
        precision = np.pad(self.precision, (0, n_new))
        precision[n_atoms:, n_atoms:] = added.precision
        return JointPrior(precision, np.concatenate([self.natural_mean, added.natural_mean]))

    def forget(self, factor: float, first: AtomPrior) -> JointPrior:
        precision, natural_mean, _ = first.posterior(AtomSums.none(*self.natural_mean.shape))
        precision *= 1.0 - factor
        precision += factor * self.precision
        return JointPrior(precision, factor * self.natural_mean + (1.0 - factor) * natural_mean)


def _log_normal(atoms: Any, log_determinant: float, square: float) -> float:
    """Log density of atoms from the determinant of their precision and their squared distance."""
    n_atoms, n_features = atoms.shape
    return float(0.5 * (n_features * (log_determinant - n_atoms * LOG_2PI) - square))
