"""A chain from labelled rows to a dictionary."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dbdl._threads import single_threaded_blas
from dbdl.backends.base import Backend, Data
from dbdl.draws import Key
from dbdl.model.atom_priors import IsotropicPrior
from dbdl.model.codes import Scan
from dbdl.model.priors import Priors
from dbdl.model.state import Floats, State
from dbdl.rows.lazy import LazyRows
from dbdl.sampler.gibbs import Options, drop, init
from dbdl.sampler.posterior import Dictionary, publish
from dbdl.sampler.run import Chain, Snapshot, SweepRecord, run
from dbdl.sampler.start import rows_with_replacement, rows_without_replacement

#: Atoms a chain starts with at most when their number follows from the number of rows.
MOST_INITIAL_ATOMS = 5000


@dataclass(frozen=True)
class ChainSettings:
    """Everything that decides a chain but its data and its key; see `dbdl.DBDLClassifier`.

    The last two are for the paper read to the letter: every selection probability starting at
    0.5, and copies of atoms kept.
    """

    n_sweeps: int = 35
    initial_ratio: float = 1.5
    n_initial_atoms: int | None = None
    n_start_nonzero: int = 10
    scan: Scan = "collapsed"
    noise_precision: float = 1e6
    sample_noise: bool = True
    noise_per_class: bool = False
    strength_precision: float = 1.0
    atom_precision: float | None = None
    usage_a: float | None = None
    usage_b: float | None = None
    hyper_prior: float = 1e-6
    strengths_counted: Literal["used", "all"] = "used"
    least_energy: float = 0.05
    beta_size: Literal["start", "current"] = "start"
    n_atom_draws: int = 0
    start_selection: Literal["counts", "half"] = "counts"
    keep_copies: bool = False

    @property
    def options(self) -> Options:
        """How a step is done."""
        return Options(
            scan=self.scan,
            sample_noise=self.sample_noise,
            noise_per_class=self.noise_per_class,
            strengths_counted=self.strengths_counted,
        )

    def n_start(self, n_rows: int) -> int:
        """Return the number of atoms drawn at the start: K of the Beta process."""
        if self.n_initial_atoms is not None:
            return max(self.n_initial_atoms, 2)
        return max(min(round(self.initial_ratio * n_rows), MOST_INITIAL_ATOMS), 2)

    def prior_of_atoms(self, n_features: int) -> IsotropicPrior:
        """Prior of the atoms before any row is seen."""
        precision = float(n_features) if self.atom_precision is None else self.atom_precision
        return IsotropicPrior(precision)

    def priors(self, data: Data) -> Priors:
        """Priors for given data: what is not set follows the paper's section 5."""
        half_smallest_class = float(data.n_rows.min()) / 2
        return Priors(
            usage_a=half_smallest_class if self.usage_a is None else self.usage_a,
            usage_b=half_smallest_class if self.usage_b is None else self.usage_b,
            n_atoms=self.n_start(data.n_samples),
            strength_shape=self.hyper_prior,
            strength_rate=self.hyper_prior,
            noise_shape=self.hyper_prior,
            noise_rate=self.hyper_prior,
            atoms=self.prior_of_atoms(data.n_features),
        )


@dataclass(frozen=True)
class LearnedChain:
    """A chain at its end.

    Attributes
    ----------
    dictionary : Dictionary
        Published atoms, training codes and selection probabilities.
    chain : Chain
        Last state, priors and trace.
    data : Data
        The rows it was learned from.
    n_initial_atoms : int
        Atoms drawn at the start, copies included.
    """

    dictionary: Dictionary
    chain: Chain
    data: Data
    n_initial_atoms: int


def learn_chain(
    key: Key,
    X: Floats | LazyRows,
    class_of_row: NDArray[np.int64],
    settings: ChainSettings,
    backend: Backend,
    on_sweep: Callable[[SweepRecord], None] | None = None,
    *,
    resume: Snapshot | None = None,
    on_snapshot: Callable[[Snapshot], None] | None = None,
    snapshot_every: int = 1,
) -> LearnedChain:
    """Run one chain on rows (n_samples, n_features) and publish its dictionary.

    A chain that goes on from a snapshot (see `dbdl.sampler.run.run`) ends with the bits of a
    chain that was never stopped.
    """
    with single_threaded_blas():
        return _learn_chain(
            key, X, class_of_row, settings, backend, on_sweep, resume, on_snapshot, snapshot_every
        )


def _learn_chain(
    key: Key,
    X: Floats | LazyRows,
    class_of_row: NDArray[np.int64],
    settings: ChainSettings,
    backend: Backend,
    on_sweep: Callable[[SweepRecord], None] | None,
    resume: Snapshot | None,
    on_snapshot: Callable[[Snapshot], None] | None,
    snapshot_every: int,
) -> LearnedChain:
    data = backend.place(X, class_of_row)
    draw_rows = (
        rows_with_replacement if settings.n_initial_atoms is None else rows_without_replacement
    )
    rows = draw_rows(key, data, settings.n_start(data.n_samples))
    if resume is None:
        state, priors = _start(key, data, rows, settings, backend)
    else:
        state, priors = resume.state(data, backend), resume.priors
    return run_and_publish(
        key,
        state,
        data,
        priors,
        settings,
        backend,
        row_square=data.square / data.n_samples,
        n_initial_atoms=len(rows),
        on_sweep=on_sweep,
        resume=resume,
        on_snapshot=on_snapshot,
        snapshot_every=snapshot_every,
    )


def run_and_publish(
    key: Key,
    state: State,
    data: Data,
    priors: Priors,
    settings: ChainSettings,
    backend: Backend,
    *,
    row_square: float,
    n_initial_atoms: int,
    **following: Any,
) -> LearnedChain:
    """Run a chain from a state and publish its dictionary.

    ``row_square`` is the mean squared norm of a row, of which atoms have to explain a part;
    ``following`` are the callbacks and the snapshot of `dbdl.sampler.run.run`.
    """
    chain = run(
        key,
        state,
        data,
        priors,
        settings.options,
        backend,
        settings.n_sweeps,
        least_energy=settings.least_energy * row_square,
        after_drop=_follow_number_of_atoms if settings.beta_size == "current" else None,
        **following,
    )
    dictionary = publish(key, chain.state, data, chain.priors, backend, settings.n_atom_draws)
    return LearnedChain(dictionary, chain, data, n_initial_atoms)


def _start(
    key: Key, data: Data, rows: NDArray[np.int64], settings: ChainSettings, backend: Backend
) -> tuple[State, Priors]:
    """State before the first sweep: some of the rows as atoms."""
    priors = settings.priors(data)
    if not settings.keep_copies:
        # Matching pursuit never chooses a copy once its twin is chosen, so copies would be
        # dropped before the first sweep: they are left out at once.
        rows = np.unique(rows)
    state, sums = init(
        key,
        data,
        backend.rows(data, rows),
        priors,
        backend,
        n_nonzero=min(settings.n_start_nonzero, len(rows), data.n_features),
        strength_precision=settings.strength_precision,
        noise_precision=settings.noise_precision,
        selection=settings.start_selection,
    )
    if not settings.keep_copies:
        state, priors = drop(state, sums, priors, backend)
    return state, priors


def _follow_number_of_atoms(priors: Priors, n_atoms: int) -> Priors:
    """K in the Beta prior follows the number of atoms that are left."""
    return replace(priors, n_atoms=max(n_atoms, 2))
