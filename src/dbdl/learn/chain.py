"""Learning one chain: from labelled rows to a dictionary."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dbdl.backends.base import Backend, Data
from dbdl.draws import Key
from dbdl.missing.gaps import COMPLETE, Complete
from dbdl.model.atom_priors import DiagonalPrior, IsotropicPrior
from dbdl.model.priors import Priors
from dbdl.model.settings import ModelSettings
from dbdl.model.state import Floats, State
from dbdl.model.statistics import Weights
from dbdl.rows.lazy import LazyRows
from dbdl.sampler.gibbs import Options, drop, init
from dbdl.sampler.posterior import Dictionary, publish
from dbdl.sampler.run import SILENT, Chain, ChainJournal, run
from dbdl.sampler.start import rows_with_replacement, rows_without_replacement
from dbdl.views import FEW_ATOMS

#: Most initial atoms of a chain if their number follows from the number of rows.
MOST_INITIAL_ATOMS = 5000


#: Number of sweeps if there are many atoms per row, and if there are few. A chain with many atoms
#: starts close to where it stays. One with few atoms has more to learn: docs/defaults.md.
SWEEPS, SWEEPS_OF_FEW_ATOMS = 6, 16


def automatic_sweeps(atoms_per_row: float) -> int:
    """Return the number of sweeps if it is not given.

    Examples
    --------
    >>> from dbdl.learn.chain import automatic_sweeps
    >>> automatic_sweeps(0.1), automatic_sweeps(1.5)
    (16, 6)
    """
    return SWEEPS_OF_FEW_ATOMS if atoms_per_row <= FEW_ATOMS else SWEEPS


@dataclass(repr=False, kw_only=True)
class ChainSettings(ModelSettings):
    """All settings of a chain: the model, and the numbers of sweeps, initial atoms and draws."""

    n_sweeps: int = SWEEPS
    n_initial_atoms: int | None = None
    n_draws: int = 0
    #: Of smooth atoms, in the basis of the chain (n_features,).
    feature_precision: Floats | None = None
    #: Atoms that the user gave (n_given, n_features): first in the space of the rows, then in that
    #: of the chain.
    initial_atoms: Floats | None = None

    @property
    def options(self) -> Options:
        """Options of a step."""
        return Options(
            scan=self.scan,
            sample_noise=self.sample_noise,
            noise_per_class=self.noise_per_class,
            strengths_counted=self.strengths_counted,
        )

    def n_start(self, n_rows: int) -> int:
        """Return the number of initial atoms, K of the Beta process."""
        if self.n_initial_atoms is not None:
            return max(self.n_initial_atoms, 2)
        if self.initial_atoms is not None:
            return max(len(self.initial_atoms), 2)
        return max(min(round(self.initial_ratio * n_rows), MOST_INITIAL_ATOMS), 2)

    def n_distinct(self, n_rows: int) -> int:
        """Return the expected number of distinct rows among the initial atoms."""
        n_start = self.n_start(n_rows)
        if self.n_initial_atoms is not None:
            return min(n_start, n_rows)
        return max(round(n_rows * (1 - (1 - 1 / n_rows) ** n_start)), 2)

    @property
    def n_given(self) -> int:
        """Number of initial atoms that the user gave."""
        return 0 if self.initial_atoms is None else len(self.initial_atoms)

    def draw_start(self, key: Key, data: Data, n_atoms: int, sweep: int = 0) -> NDArray[np.int64]:
        """Draw the rows that are candidates for new atoms before a sweep."""
        if n_atoms == 0:
            return np.empty(0, dtype=np.int64)
        draw = rows_with_replacement if self.n_initial_atoms is None else rows_without_replacement
        return draw(key, data, n_atoms, sweep)

    def prior_of_atoms(self, n_features: int) -> IsotropicPrior | DiagonalPrior:
        """Prior of the atoms before any row is seen."""
        if self.feature_precision is not None:
            return DiagonalPrior(self.feature_precision)
        precision = float(n_features) if self.atom_precision is None else self.atom_precision
        return IsotropicPrior(precision)

    def priors(self, data: Data) -> Priors:
        """Priors for given data, by default those of the paper's section 5.

        A class counts at least as one row, however small its weights are.
        """
        half_smallest_class = max(float(data.n_rows.min()), 1.0) / 2
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
    """A finished chain, its published dictionary, and the rows it was learned from."""

    dictionary: Dictionary
    chain: Chain
    data: Data
    n_initial_atoms: int  # including copies


def learn_chain(
    key: Key,
    X: Floats | LazyRows,
    class_of_row: NDArray[np.int64],
    settings: ChainSettings,
    backend: Backend,
    journal: ChainJournal = SILENT,
    sample_weight: Weights = None,
    gaps: Complete = COMPLETE,
) -> LearnedChain:
    """Run one chain on rows (n_samples, n_features) and publish its dictionary.

    ``gaps`` are the missing entries of the rows, which hold their first fill. A chain that the
    journal resumes has the same bits as an uninterrupted one.
    """
    data = backend.place(X, class_of_row, sample_weight)
    n_drawn = settings.n_start(data.n_samples) - settings.n_given
    rows = settings.draw_start(key, data, n_drawn)
    if journal.resumed is None:
        state, priors = _start(key, data, rows, settings, backend)
    else:
        state, priors = journal.resumed.state(data, backend), journal.resumed.priors

    def ended(chain: Chain) -> LearnedChain:
        drawn = gaps.draw(key, chain.state, data, backend)
        n_initial = settings.n_given + len(rows)
        return end_chain(key, chain, drawn, settings, backend, n_initial)

    journal.begin(ended)
    chain = run(
        key, state, data, priors, settings.options, backend, settings.n_sweeps, journal,
        least_energy=settings.least_energy * (data.square / data.n_samples),
        follow_size=settings.beta_size == "current",
        n_draws=settings.n_draws, keep_atoms=settings.keep_atom_draws, gaps=gaps,
    )  # fmt: skip
    return ended(chain)


def end_chain(
    key: Key,
    chain: Chain,
    data: Data,
    settings: ChainSettings,
    backend: Backend,
    n_initial_atoms: int,
) -> LearnedChain:
    """Publish the dictionary of a finished chain."""
    dictionary = publish(key, chain.state, data, chain.priors, backend, settings.n_atom_draws)
    return LearnedChain(dictionary, chain, data, n_initial_atoms)


def _start(
    key: Key, data: Data, rows: NDArray[np.int64], settings: ChainSettings, backend: Backend
) -> tuple[State, Priors]:
    """State before the first sweep, with given atoms and some of the rows as atoms."""
    priors = settings.priors(data)
    if not settings.keep_copies:
        # Matching pursuit never chooses two copies of an atom, so all but one would be dropped
        # before the first sweep anyway.
        rows = np.unique(rows)
    atoms = settings.initial_atoms
    if atoms is None:
        atoms = backend.rows(data, rows)
    else:
        drawn = [backend.to_host(backend.rows(data, rows))] if len(rows) else []
        atoms = backend.put(np.concatenate([atoms, *drawn]))
    state, sums = init(
        key,
        data,
        atoms,
        priors,
        backend,
        n_nonzero=min(settings.n_start_nonzero, len(atoms), data.n_features),
        strength_precision=settings.strength_precision,
        noise_precision=settings.noise_precision,
        selection=settings.start_selection,
    )
    if not settings.keep_copies:
        state, priors = drop(state, sums, priors, backend)
    return state, priors
