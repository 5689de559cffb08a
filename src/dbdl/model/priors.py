"""The prior distributions of the model (paper, section 4.1 and eq. 6)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class AtomPrior:
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

    precision: float | Floats
    natural_mean: Floats | None = None

    def keep(self, kept: NDArray[np.intp]) -> AtomPrior:
        """Prior of the atoms in ``kept`` alone: the others are integrated out."""
        if not isinstance(self.precision, np.ndarray):
            mean = None if self.natural_mean is None else self.natural_mean[kept]
            return AtomPrior(self.precision, mean)
        dropped = np.setdiff1d(np.arange(len(self.precision)), kept)
        link = np.linalg.solve(
            self.precision[np.ix_(dropped, dropped)], self.precision[np.ix_(dropped, kept)]
        ).T
        precision = (
            self.precision[np.ix_(kept, kept)] - link @ self.precision[np.ix_(dropped, kept)]
        )
        mean = self.natural_mean
        if mean is not None:
            mean = mean[kept] - link @ mean[dropped]
        return AtomPrior(precision, mean)


@dataclass(frozen=True)
class Priors:
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
    """

    usage_a: float
    usage_b: float
    n_atoms: int
    strength_shape: float = 1e-6
    strength_rate: float = 1e-6
    noise_shape: float = 1e-6
    noise_rate: float = 1e-6
    atoms: AtomPrior = field(default_factory=lambda: AtomPrior(1.0))

    def __post_init__(self) -> None:
        if self.n_atoms < 2:
            raise ValueError(
                f"the Beta process needs n_atoms >= 2, got {self.n_atoms}: with one atom the "
                "second parameter b_o (K - 1) / K of its Beta prior is 0"
            )
        for name, value in vars(self).items():
            if name != "atoms" and not (np.isfinite(value) and value > 0):
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
        return replace(self, atoms=self.atoms.keep(kept))
