"""Thinned draws of the second half of a chain, for intervals and posterior predictive checks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from dbdl.backends.base import Backend
from dbdl.model.record import Record
from dbdl.model.state import Doubles, Parameters, State
from dbdl.model.trust import Array, reals, whole

Single = NDArray[np.float32]


def _singles(*shape: str, least: float | None = None) -> Array:
    return Array(shape, (np.float32,), least=least)


@dataclass(frozen=True)
class KeptDraws(Record):
    """Draws of the parameters after some sweeps, for the atoms that exist at the end.

    Draws of atoms that were dropped later are dropped with them.

    Attributes
    ----------
    sweep : ndarray of shape (n_draws,)
        Numbers of the sweeps, from 1.
    strength_precision, noise_precision : ndarray of shape (n_draws, n_classes)
    births : ndarray of shape (n_atoms,)
        Number given to each atom when it was born, by which draws of one atom are found.
    scale : ndarray of shape (n_atoms,)
        Norms of the published atoms before they were scaled to unit norm; 1 while a chain runs.
    selection_probability : ndarray of shape (n_draws, n_classes, n_atoms)
        In float32.
    atoms : ndarray of shape (n_draws, n_atoms, n_features) or None
        In float32, if requested.
    """

    sweep: Annotated[NDArray[np.int64], whole("n_draws", ascending=True)]
    strength_precision: Annotated[Doubles, reals("n_draws", "n_classes", least=0)]
    noise_precision: Annotated[Doubles, reals("n_draws", "n_classes", least=0)]
    births: Annotated[NDArray[np.int64], whole("n_atoms", ascending=True)]
    scale: Annotated[Doubles, reals("n_atoms", least=0)]
    selection_probability: Annotated[Single, _singles("n_draws", "n_classes", "n_atoms", least=0)]
    atoms: Annotated[Single, _singles("n_draws", "n_atoms", "n_features")] | None

    def faults(self) -> Iterator[str]:
        """Report probabilities above 1."""
        if (self.selection_probability > 1).any():
            yield "selection_probability has entries above 1"

    @property
    def n_draws(self) -> int:
        """Number of draws."""
        return len(self.sweep)

    @classmethod
    def of(cls, number: int, now: Parameters, backend: Backend, with_atoms: bool) -> KeptDraws:
        """Return the draw after a sweep."""
        logit = np.asarray(backend.to_host(now.selection_logit), dtype=np.float64)
        return cls(
            sweep=np.array([number]),
            strength_precision=now.strength_precision[np.newaxis],
            noise_precision=now.noise_precision[np.newaxis],
            births=now.births,
            scale=np.ones(now.n_atoms),
            selection_probability=expit(logit).astype(np.float32)[np.newaxis],
            atoms=backend.to_host(now.atoms).astype(np.float32)[np.newaxis] if with_atoms else None,
        )

    @classmethod
    def stack(cls, draws: Sequence[KeptDraws], births: NDArray[np.int64]) -> KeptDraws:
        """Stack draws of the atoms with these births, which all draws have."""
        own = [draw.keep(np.searchsorted(draw.births, births)) for draw in draws]
        names = [name for name in BY_DRAW if getattr(own[0], name) is not None]
        parts = {name: np.concatenate([getattr(draw, name) for draw in own]) for name in names}
        return replace(own[0], **parts)

    def each(self) -> list[KeptDraws]:
        """Undo `stack`."""
        names = [name for name in BY_DRAW if getattr(self, name) is not None]
        singles = (slice(d, d + 1) for d in range(self.n_draws))
        return [replace(self, **{n: getattr(self, n)[one] for n in names}) for one in singles]

    def keep(self, kept: NDArray[Any]) -> KeptDraws:
        """Draws of some of the atoms, by index or by a mask."""
        return replace(
            self,
            births=self.births[kept],
            scale=self.scale[kept],
            selection_probability=self.selection_probability[:, :, kept],
            atoms=None if self.atoms is None else self.atoms[:, kept],
        )

    def published(self, scale: Doubles, n_features: int) -> KeptDraws:
        """Draws of the first features of the atoms, with the norms of the published ones."""
        atoms = None if self.atoms is None else self.atoms[:, :, :n_features]
        return replace(self, scale=scale, atoms=atoms)


#: Fields with one entry per draw.
BY_DRAW = ("sweep", "strength_precision", "noise_precision", "selection_probability", "atoms")


def kept_sweeps(n_sweeps: int, n_draws: int) -> range:
    """Return the sweeps that are kept once ``n_sweeps`` are done: at most ``n_draws``.

    They are the multiples of a stride in the second half. The stride is the smallest power of two
    that leaves few enough, so every sweep that is kept later was kept all along. A chain that is
    resumed, or ends early, therefore has the same draws as one of that length.
    """
    half, stride = n_sweeps // 2, 1
    while n_sweeps // stride - half // stride > n_draws:
        stride *= 2
    return range((half // stride + 1) * stride, n_sweeps + 1, stride)


class DrawKeeper:
    """Collects the draws of a chain while it runs; with ``n_draws=0`` it does nothing."""

    def __init__(self, n_draws: int, with_atoms: bool, before: KeptDraws | None = None) -> None:
        self._n_draws, self._with_atoms = n_draws, with_atoms
        self._draws = [] if before is None else before.each()

    def take(self, number: int, state: State, backend: Backend) -> None:
        """Keep the draw after a sweep, if it is among the kept ones, and drop those that are not.

        Fewer draws are kept while a chain is short, so that memory never exceeds that of
        ``n_draws``.
        """
        if not self._n_draws:
            return
        wanted = kept_sweeps(number, self._n_draws)
        self._draws = [draw for draw in self._draws if draw.sweep[0] in wanted]
        if number in wanted:
            self._draws.append(KeptDraws.of(number, state.parameters, backend, self._with_atoms))

    def kept(self, state: State) -> KeptDraws | None:
        """Return the draws of the atoms that exist now; None if there are none."""
        if not self._draws:
            return None
        return KeptDraws.stack(self._draws, state.parameters.births)
