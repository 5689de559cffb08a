"""The one loop: steps, drops between them, and a record of each sweep."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dbdl.backends.base import Backend, Data, parameters_from_host, parameters_to_host
from dbdl.draws import Key
from dbdl.missing.gaps import COMPLETE, Complete
from dbdl.model.priors import Priors
from dbdl.model.record import Record
from dbdl.model.state import Codes, Doubles, Parameters, State
from dbdl.model.trust import Count, reals, whole
from dbdl.sampler.gibbs import Info, Options, drop, step
from dbdl.sampler.kept_draws import DrawKeeper, KeptDraws

#: One value per sweep; nothing is computed from them, so they need not be finite.
Sweeps = Annotated[Doubles, reals("n_sweeps", finite=False)]


class SweepRecord(NamedTuple):
    """Record of one sweep."""

    n_atoms: int
    effective_atoms: float
    mean_nonzero: float
    noise_precision: float
    strength_precision: float
    residual_square: float
    log_joint: float


@dataclass(frozen=True)
class Trace(Record):
    """Records of all sweeps as arrays of shape (n_sweeps,).

    Attributes
    ----------
    n_atoms : number of atoms after the sweep.
    effective_atoms : exponential of the entropy of the atoms' shares of all uses.
    mean_nonzero : mean number of atoms used per row, weighted as the rows are.
    noise_precision, strength_precision : mean over classes.
    residual_square : mean squared residual per row, weighted too.
    log_joint : log joint density before atoms are dropped.
    """

    n_atoms: Annotated[NDArray[np.int64], whole("n_sweeps")]
    effective_atoms: Sweeps
    mean_nonzero: Sweeps
    noise_precision: Sweeps
    strength_precision: Sweeps
    residual_square: Sweeps
    log_joint: Sweeps

    @classmethod
    def from_records(cls, records: Sequence[SweepRecord]) -> Self:
        """Turn one record per sweep into one array per field."""
        return cls(*(np.array([getattr(r, f.name) for r in records]) for f in fields(cls)))

    def records(self) -> list[SweepRecord]:
        """Undo `from_records`, for the trace of one chain."""
        columns = (getattr(self, name).tolist() for name in SweepRecord._fields)
        return [SweepRecord(*values) for values in zip(*columns, strict=True)]

    @classmethod
    def stack(cls, traces: list[Self]) -> Self:
        """Stack the traces of several chains into arrays of shape (n_chains, n_sweeps).

        A chain that a callback ended early repeats its last record.
        """
        longest = max(len(trace.n_atoms) for trace in traces)

        def stacked(name: str) -> NDArray:
            lines = [getattr(trace, name) for trace in traces]
            return np.stack([np.pad(v, (0, longest - len(v)), mode="edge") for v in lines])

        return cls(*(stacked(f.name) for f in fields(cls)))


class Chain(NamedTuple):
    """Result of a run: the state, the priors of the remaining atoms, the trace and the draws."""

    state: State
    priors: Priors
    trace: Trace
    draws: KeptDraws | None = None


@dataclass(frozen=True)
class Snapshot(Record):
    """Everything needed to resume a chain, as NumPy arrays for any backend.

    Draws are addressed by the number of the sweep, so a resumed chain makes the same draws as an
    uninterrupted one.
    """

    parameters: Parameters
    codes: Codes
    sweep: Count  # number of the last sweep
    priors: Priors  # of the remaining atoms
    trace: Trace  # records of the sweeps so far
    draws: KeptDraws | None = field(default=None, kw_only=True)  # of the remaining atoms

    def faults(self) -> Iterator[str]:
        """Report a number of sweeps that differs from that of their records."""
        if self.sweep != len(self.trace.n_atoms):
            yield f"sweep is {self.sweep}, but trace has {len(self.trace.n_atoms)} sweeps"
        if self.draws is not None and not np.array_equal(self.draws.births, self.parameters.births):
            yield "draws are of other atoms than parameters"

    @classmethod
    def take(cls, chain: Chain, backend: Backend) -> Self:
        """Copy the state of a chain to the host."""
        state, priors, trace, draws = chain
        parameters = parameters_to_host(state.parameters, backend)
        codes = backend.codes_to_host(state.codes)
        return cls(parameters, codes, state.sweep, priors, trace, draws=draws)

    def state(self, data: Data, backend: Backend) -> State:
        """Put the state where the backend's arrays live."""
        parameters = parameters_from_host(self.parameters, backend)
        codes = backend.codes_from_host(data, self.codes, self.parameters.n_atoms)
        return State(parameters, codes, self.sweep)


class ChainJournal:
    """Follows one chain. The base class does nothing; others report, save and resume.

    Attributes
    ----------
    resumed : Snapshot or None
        The snapshot from which the chain is resumed.
    """

    resumed: Snapshot | None = None

    def begin(self, ended: Callable[[Chain], Any]) -> None:
        """Take note of the function that publishes the chain, as if it had ended."""

    def tell(self, record: SweepRecord, now: Callable[[], Chain] | None = None) -> bool:
        """Report a sweep; True ends the chain.

        ``now`` returns the chain so far. It is None for sweeps before the snapshot.
        """
        return False

    def is_due(self, sweep: int) -> bool:
        """Whether a snapshot should be saved after this sweep."""
        return False

    def keep(self, chain: Chain, backend: Backend) -> None:
        """Save a snapshot of a chain."""


SILENT = ChainJournal()


def run(
    key: Key,
    state: State,
    data: Data,
    priors: Priors,
    options: Options,
    backend: Backend,
    n_sweeps: int,
    journal: ChainJournal = SILENT,
    *,
    gaps: Complete = COMPLETE,
    least_energy: float = 0.0,
    drop_unused: bool = True,
    follow_size: bool = False,
    n_draws: int = 0,
    keep_atoms: bool = False,
) -> Chain:
    """Run ``n_sweeps`` steps, dropping atoms after each.

    Parameters
    ----------
    key : Key
    state, priors : State, Priors
        From `dbdl.sampler.gibbs.init`, or from the snapshot that the journal resumes.
    data, options, backend : Data, Options, Backend
    n_sweeps : int
        Total number of sweeps, including those before the snapshot.
    journal : ChainJournal
        Receives the record of each sweep, including those before the snapshot, and saves snapshots
        when they are due, except after the last sweep, whose state is returned. It may end the
        chain after any sweep.
    gaps : Complete
        Draws the missing entries of the rows before each step.
    least_energy : float
        Atoms that explain less of the data's squared norm are dropped too.
    drop_unused : bool
        False fixes the number of atoms: the chain is then exact Gibbs throughout.
    follow_size : bool
        Whether K in the Beta prior is the current number of atoms.
    n_draws, keep_atoms : int, bool
        Most draws of the parameters to keep, and whether those of the atoms are kept too.
    """
    resumed = journal.resumed
    records = [] if resumed is None else resumed.trace.records()
    keeper = DrawKeeper(n_draws, keep_atoms, None if resumed is None else resumed.draws)

    def now() -> Chain:
        return Chain(state, priors, Trace.from_records(records), keeper.kept(state))

    stops = [journal.tell(record) for record in records]
    for done in range(len(records) + 1, 0 if any(stops) else n_sweeps + 1):
        rows = gaps.draw(key, state, data, backend)
        state, info = step(key, state, rows, priors, options, backend)
        if drop_unused:
            state, priors = drop(state, info.sums, priors, backend, least_energy)
            if follow_size:
                priors = replace(priors, n_atoms=max(state.parameters.n_atoms, 2))
        records.append(_record(state, info, data))
        keeper.take(done, state, backend)
        if journal.tell(records[-1], now):
            break
        if done < n_sweeps and journal.is_due(done):
            journal.keep(now(), backend)
    return now()


def effective_number(uses: NDArray[Any]) -> float:
    """Exponential of the entropy of the atoms' shares of all uses (n_atoms,)."""
    share = uses[uses > 0] / uses.sum()
    return float(np.exp(-(share * np.log(share)).sum()))


def _record(state: State, info: Info, data: Data) -> SweepRecord:
    n_rows = data.n_rows.sum()
    return SweepRecord(
        n_atoms=state.parameters.n_atoms,
        effective_atoms=effective_number(info.sums.uses),
        mean_nonzero=float(info.sums.uses.sum()) / n_rows,
        noise_precision=float(state.parameters.noise_precision.mean()),
        strength_precision=float(state.parameters.strength_precision.mean()),
        residual_square=float(info.sums.residual_square.sum()) / n_rows,
        log_joint=info.log_joint,
    )
