"""The prior distributions of the model (paper, section 4.1 and eq. 6)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from dbdl.model.atom_priors import DiagonalPrior, IsotropicPrior, JointPrior
from dbdl.model.record import Record
from dbdl.model.statistics import SeenSums, UsageSums
from dbdl.model.trust import TINY, Doubles, Floats, Number, Positive, doubles

Usage = Positive | Annotated[Doubles, doubles("n_classes", least=TINY)]

#: Every prior of the atoms that a file may contain.
KnownAtomPrior = IsotropicPrior | DiagonalPrior | JointPrior


@dataclass(frozen=True)
class Priors(Record):
    """All hyper-parameters of the model, with the paper's symbols in brackets.

    Attributes
    ----------
    usage_a, usage_b : float or ndarray of shape (n_classes,)
        Parameters of the Beta process [a_o, b_o], of all classes or of each.
    n_atoms : int
        Number of atoms in the Beta process's finite form [K in Beta(a_o/K, b_o(K-1)/K)].
    strength_shape, strength_rate : float
        Gamma prior of the strengths' precision [c_o, d_o].
    noise_shape, noise_rate : float
        Gamma prior of the noise precision [e_o, f_o].
    atoms : AtomPrior
        Prior of the atoms [mu_ko = 0, Lambda_ko = lambda_ko I].
    seen : SeenSums or None
        Sums over earlier rows, whose codes are fixed. They turn the priors of selection
        probabilities and precisions into the posteriors given those rows, so that draws are given
        all rows. (For the atoms, ``atoms`` is that posterior.)
    """

    usage_a: Usage
    usage_b: Usage
    n_atoms: Annotated[int, Number(least=2, most=2**31 - 1)]
    strength_shape: Positive = 1e-6
    strength_rate: Positive = 1e-6
    noise_shape: Positive = 1e-6
    noise_rate: Positive = 1e-6
    atoms: KnownAtomPrior = field(default_factory=lambda: IsotropicPrior(1.0))
    seen: SeenSums | None = None

    def __post_init__(self) -> None:
        if self.n_atoms < 2:
            raise ValueError(
                f"the Beta process needs n_atoms >= 2, got {self.n_atoms}: with one atom the "
                "second parameter b_o (K - 1) / K of its Beta prior is 0"
            )
        for name, value in vars(self).items():
            if name not in ("atoms", "seen") and not np.all(np.isfinite(value) & (value > 0)):
                raise ValueError(f"{name} must be positive and finite, got {value}")

    @property
    def beta_a(self) -> Any:
        """First parameter of each selection probability's Beta prior, a_o / K.

        A number, or an array (n_classes, 1).
        """
        return _column(self.usage_a / self.n_atoms)

    @property
    def beta_b(self) -> Any:
        """Second parameter of each selection probability's Beta prior, b_o (K - 1) / K."""
        return _column(self.usage_b * (self.n_atoms - 1) / self.n_atoms)

    def keep(self, kept: NDArray[np.intp]) -> Priors:
        """Priors of the atoms in ``kept``; K in the Beta prior does not change."""
        seen = None if self.seen is None else self.seen.keep(kept)
        return replace(self, atoms=self.atoms.keep(kept), seen=seen)

    def with_seen(self, sums: UsageSums) -> UsageSums:
        """Sums over a batch and all earlier rows."""
        return sums if self.seen is None else self.seen.with_batch(sums)

    def n_strengths(self, sums: UsageSums) -> Floats:
        """Number of strengths of used atoms in a batch and in earlier rows, (n_classes,)."""
        own = sums.n_strengths.astype(np.float64)
        return own if self.seen is None else self.seen.n_strengths + own

    def n_rows(self, n_rows: NDArray[np.int64]) -> Any:
        """Number of rows per class in a batch and before it."""
        return n_rows if self.seen is None else self.seen.n_rows + n_rows


def _column(value: Any) -> Any:
    return value[:, np.newaxis] if isinstance(value, np.ndarray) else value
