"""The one loop: steps, drops between them, and a record of each sweep."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dbdl.backends.base import Backend, Data
from dbdl.draws import Key
from dbdl.model.priors import Priors
from dbdl.model.state import State
from dbdl.sampler.gibbs import Info, Options, drop, step


class SweepRecord(NamedTuple):
    """What is remembered of one sweep."""

    n_atoms: int
    effective_atoms: float
    mean_nonzero: float
    noise_precision: float
    strength_precision: float
    residual_square: float
    log_joint: float


@dataclass(frozen=True)
class Trace:
    """Records of all sweeps, each an array of shape (n_sweeps,).

    Attributes
    ----------
    n_atoms : atoms left after the sweep.
    effective_atoms : exponential of the entropy of the atoms' shares of all uses.
    mean_nonzero : atoms used by a row, on average.
    noise_precision, strength_precision : mean over classes.
    residual_square : squared residual of a row, on average.
    log_joint : log joint density before atoms are dropped.
    """

    n_atoms: NDArray[np.int64]
    effective_atoms: NDArray[np.float64]
    mean_nonzero: NDArray[np.float64]
    noise_precision: NDArray[np.float64]
    strength_precision: NDArray[np.float64]
    residual_square: NDArray[np.float64]
    log_joint: NDArray[np.float64]

    @classmethod
    def from_records(cls, records: list[SweepRecord]) -> Self:
        """Turn one record a sweep into one array a quantity."""
        return cls(*(np.array([getattr(r, f.name) for r in records]) for f in fields(cls)))

    @classmethod
    def stack(cls, traces: list[Self]) -> Self:
        """Put the traces of several chains together: arrays of shape (n_chains, n_sweeps)."""
        return cls(*(np.stack([getattr(t, f.name) for t in traces]) for f in fields(cls)))


class Chain(NamedTuple):
    """End of a run: the state, the priors of the atoms that are left, and the trace."""

    state: State
    priors: Priors
    trace: Trace


def run(
    key: Key,
    state: State,
    data: Data,
    priors: Priors,
    options: Options,
    backend: Backend,
    n_sweeps: int,
    *,
    least_energy: float = 0.0,
    drop_unused: bool = True,
    after_drop: Callable[[Priors, int], Priors] | None = None,
    on_sweep: Callable[[SweepRecord], None] | None = None,
) -> Chain:
    """Run ``n_sweeps`` steps, dropping atoms after each.

    Parameters
    ----------
    key : Key
    state, priors : State, Priors
        From `dbdl.sampler.gibbs.init`.
    data, options, backend : Data, Options, Backend
    n_sweeps : int
    least_energy : float
        Atoms that explain less of the data's squared norm are dropped too.
    drop_unused : bool
        False holds the number of atoms: the chain is then exact Gibbs throughout.
    after_drop : callable, optional
        Called with priors and number of atoms after a drop, returns the priors to go on with.
    on_sweep : callable, optional
        Called with each sweep's record.
    """
    records = []
    for _ in range(n_sweeps):
        state, info = step(key, state, data, priors, options, backend)
        if drop_unused:
            state, priors = drop(state, info.sums, priors, backend, least_energy)
            if after_drop is not None:
                priors = after_drop(priors, state.parameters.n_atoms)
        records.append(_record(state, info, data))
        if on_sweep is not None:
            on_sweep(records[-1])
    return Chain(state, priors, Trace.from_records(records))


def effective_number(count: NDArray[np.int64]) -> float:
    """Exponential of the entropy of the atoms' shares of all uses; ``count`` (classes, atoms)."""
    uses = count.sum(axis=0)
    share = uses[uses > 0] / max(uses.sum(), 1)
    return float(np.exp(-(share * np.log(share)).sum()))


def _record(state: State, info: Info, data: Data) -> SweepRecord:
    n_rows = data.n_samples
    return SweepRecord(
        n_atoms=state.parameters.n_atoms,
        effective_atoms=effective_number(info.sums.count),
        mean_nonzero=float(info.sums.count.sum()) / n_rows,
        noise_precision=float(state.parameters.noise_precision.mean()),
        strength_precision=float(state.parameters.strength_precision.mean()),
        residual_square=float(info.sums.residual_square.sum()) / n_rows,
        log_joint=info.log_joint,
    )
