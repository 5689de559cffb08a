"""The prior distributions of the model (paper, section 4.1 and eq. 6)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular

from dbdl.model.record import Record
from dbdl.model.statistics import SeenSums, UsageSums
from dbdl.model.trust import Number, Positive, reals

Floats = NDArray[np.floating[Any]]


class PriorTerms(NamedTuple):
    """Log determinant of a joint precision, and mean times natural mean, summed."""

    log_determinant: float
    mean_square: float


@dataclass(frozen=True)
class AtomPrior(Record):
    """Gaussian prior of all atoms together: a joint precision and a natural mean.

    The paper's prior, each atom from N(0, I / atom_precision), is ``AtomPrior(atom_precision)``.
    The joint form is what makes a posterior usable as the next prior without loss.

    Attributes
    ----------
    precision : float or ndarray of shape (n_atoms, n_atoms)
        Precision shared by all features; a number stands for that multiple of the identity.
    natural_mean : None or ndarray of shape (n_atoms, n_features)
        Precision times mean; None stands for zero.
    """

    precision: Positive | Annotated[Floats, reals("n_atoms", "n_atoms")]
    natural_mean: Annotated[Floats, reals("n_atoms", "n_features")] | None = None

    @cached_property
    def terms(self) -> PriorTerms:
        """What the density needs of a precision that is an array: found once, at n_atoms^3."""
        factor = cholesky(self.precision, lower=True, check_finite=False)
        determinant = 2.0 * float(np.log(np.diagonal(factor)).sum())
        if self.natural_mean is None:
            return PriorTerms(determinant, 0.0)
        half = solve_triangular(factor, self.natural_mean, lower=True, check_finite=False)
        return PriorTerms(determinant, float(np.vdot(half, half)))

    def grow(self, n_new: int, precision: float) -> AtomPrior:
        """Prior of these atoms and, behind them, of new ones from N(0, I / precision)."""
        assert isinstance(self.precision, np.ndarray)
        n_atoms = len(self.precision)
        grown = np.pad(self.precision, (0, n_new))
        grown[range(n_atoms, n_atoms + n_new), range(n_atoms, n_atoms + n_new)] = precision
        mean = self.natural_mean
        return AtomPrior(grown, None if mean is None else np.pad(mean, ((0, n_new), (0, 0))))

    def forget(self, factor: float, precision: float) -> AtomPrior:
        """Let what was learned beyond N(0, I / precision) count ``factor`` times."""
        assert isinstance(self.precision, np.ndarray)
        weaker = factor * self.precision
        weaker.flat[:: len(weaker) + 1] += (1.0 - factor) * precision
        return AtomPrior(weaker, None if self.natural_mean is None else factor * self.natural_mean)

    def keep(self, kept: NDArray[np.intp]) -> AtomPrior:
        """Prior of the atoms in ``kept`` alone: the others are integrated out."""
        if not isinstance(self.precision, np.ndarray):
            mean = None if self.natural_mean is None else self.natural_mean[kept]
            return AtomPrior(self.precision, mean)
        dropped = np.setdiff1d(np.arange(len(self.precision)), kept)
        own, across = self.precision[np.ix_(dropped, dropped)], self.precision[dropped][:, kept]
        link = np.linalg.solve(own, across).T
        precision = self.precision[np.ix_(kept, kept)] - link @ across
        mean = own_mean = self.natural_mean
        if mean is not None:
            own_mean = mean[dropped]
            mean = mean[kept] - link @ own_mean
        marginal = AtomPrior(precision, mean)
        if "terms" in vars(self):  # those of a marginal follow from those of the whole
            part = AtomPrior(own, own_mean)
            marginal.__dict__["terms"] = PriorTerms(
                self.terms.log_determinant - part.terms.log_determinant,
                self.terms.mean_square - part.terms.mean_square,
            )
        return marginal


@dataclass(frozen=True)
class Priors(Record):
    """Every number the model starts from; the paper's symbol in brackets.

    Attributes
    ----------
    usage_a, usage_b : float
        Parameters of the Beta process [a_o, b_o].
    n_atoms : int
        Number of atoms in the Beta process's finite form [K in Beta(a_o/K, b_o(K-1)/K)].
    strength_shape, strength_rate : float
        Gamma prior of the strengths' precision [c_o, d_o].
    noise_shape, noise_rate : float
        Gamma prior of the noise precision [e_o, f_o].
    atoms : AtomPrior
        Prior of the atoms [mu_ko = 0, Lambda_ko = lambda_ko I].
    seen : SeenSums or None
        Sums over earlier rows whose codes are held. They turn the priors of selection
        probabilities and precisions into the posteriors that those rows led to: what is drawn is
        drawn given all rows. (What they say of the atoms is in ``atoms``.)
    """

    usage_a: Positive
    usage_b: Positive
    n_atoms: Annotated[int, Number(least=2, most=2**31 - 1)]
    strength_shape: Positive = 1e-6
    strength_rate: Positive = 1e-6
    noise_shape: Positive = 1e-6
    noise_rate: Positive = 1e-6
    atoms: AtomPrior = field(default_factory=lambda: AtomPrior(1.0))
    seen: SeenSums | None = None

    def __post_init__(self) -> None:
        if self.n_atoms < 2:
            raise ValueError(
                f"the Beta process needs n_atoms >= 2, got {self.n_atoms}: with one atom the "
                "second parameter b_o (K - 1) / K of its Beta prior is 0"
            )
        for name, value in vars(self).items():
            if name not in ("atoms", "seen") and not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} must be positive and finite, got {value}")

    @property
    def beta_a(self) -> float:
        """First parameter of each selection probability's Beta prior, a_o / K."""
        return self.usage_a / self.n_atoms

    @property
    def beta_b(self) -> float:
        """Second parameter of each selection probability's Beta prior, b_o (K - 1) / K."""
        return self.usage_b * (self.n_atoms - 1) / self.n_atoms

    def keep(self, kept: NDArray[np.intp]) -> Priors:
        """Priors after dropping all atoms but ``kept``; K in the Beta prior stays as it was."""
        seen = None if self.seen is None else self.seen.keep(kept)
        return replace(self, atoms=self.atoms.keep(kept), seen=seen)

    def with_seen(self, sums: UsageSums) -> UsageSums:
        """Sums of a batch and of the rows seen before it."""
        return sums if self.seen is None else self.seen.with_batch(sums)

    def n_strengths(self, sums: UsageSums) -> Floats:
        """Strengths of used atoms in a batch and before it, (n_classes,)."""
        own = sums.n_strengths.astype(np.float64)
        return own if self.seen is None else self.seen.n_strengths + own

    def n_rows(self, n_rows: NDArray[np.int64]) -> Any:
        """Rows of each class in a batch and before it."""
        return n_rows if self.seen is None else self.seen.n_rows + n_rows
