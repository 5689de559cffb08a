"""The Gibbs sampler: ``init`` and ``step`` over an immutable state.

A step draws atoms (eq. 8), usage and strengths (9, 10), selection probabilities (11), strength
precisions (12) and the noise precision (13), in the paper's order. It is exact Gibbs at a fixed
number of atoms; atoms are dropped between steps, by a separate function.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dbdl.backends.base import Backend, Data
from dbdl.draws import Key, Site, gammas
from dbdl.model import conditionals
from dbdl.model.codes import Scan
from dbdl.model.joint import log_joint
from dbdl.model.priors import Priors
from dbdl.model.prune import atoms_to_keep
from dbdl.model.state import Doubles, Floats, Parameters, State
from dbdl.model.statistics import UsageSums

#: A Gamma distribution with a smaller shape is vague: its draws are 0 to machine precision.
SMALLEST_PROPER_SHAPE = 1e-3

#: A smaller draw of a precision comes from a Gamma distribution that is all but vague.
SMALLEST_PRECISION = 1e-30


@dataclass(frozen=True)
class Options:
    """How a step is done.

    Attributes
    ----------
    scan : {"collapsed", "paper"}
        Usage with the strength integrated out, or given the strength (exactly eq. 9).
    sample_noise : bool
        Draw the noise precision (eq. 13) or fix it.
    noise_per_class : bool
        One noise precision per class (the paper's footnote) or one for all.
    sample_selection : bool
        Draw the selection probabilities (eq. 11) or fix them, as for the label atoms.
    strengths_counted : {"used", "all"}
        Strengths that inform their precision (eq. 12): those of used atoms, or all, as in the
        paper, with the unused ones drawn from their prior.
    """

    scan: Scan = "collapsed"
    sample_noise: bool = True
    noise_per_class: bool = False
    sample_selection: bool = True
    strengths_counted: Literal["used", "all"] = "used"


@dataclass(frozen=True)
class Info:
    """Diagnostics of one step."""

    sums: UsageSums
    log_joint: float


def init(
    key: Key,
    data: Data,
    atoms: Floats,
    priors: Priors,
    backend: Backend,
    *,
    n_nonzero: int,
    strength_precision: float = 1.0,
    noise_precision: float = 1e6,
    selection: Literal["counts", "half"] = "counts",
) -> tuple[State, UsageSums]:
    """Start a chain: codes by matching pursuit, selection probabilities drawn from their counts.

    The paper starts every selection probability at 0.5 (``selection="half"``). The first sweep then
    switches hundreds of unrelated entries on, with tiny strengths. Drawing the probabilities from
    the counts of the initial codes avoids this.
    """
    codes = backend.start(data, atoms, n_nonzero)
    parameters = Parameters(
        atoms=atoms,
        selection_logit=backend.put(np.zeros((data.n_classes, len(atoms)))),
        strength_precision=np.full(data.n_classes, strength_precision),
        noise_precision=np.full(data.n_classes, noise_precision),
        births=np.arange(len(atoms)),
    )
    sums = backend.usage(data, codes, parameters)
    if selection == "counts":
        logit = backend.draw_selection(key, 0, data, sums, parameters.births, priors)
        parameters = replace(parameters, selection_logit=logit)
    return State(parameters, codes, sweep=0), sums


def step(
    key: Key, state: State, data: Data, priors: Priors, options: Options, backend: Backend
) -> tuple[State, Info]:
    """One exact Gibbs step: every variable given all others."""
    now, number = state.parameters, state.sweep + 1
    sums = backend.gather(data, state.codes, now.n_atoms, now.noise_precision)
    posterior = priors.atoms.posterior(sums, backend)
    now = replace(now, atoms=backend.draw_atoms(key, number, posterior, now.atoms, now.births))
    del sums, posterior  # the sweep reuses their memory
    codes, usage = backend.sweep(key, number, data, state.codes, now, options.scan)
    total, all_rows = with_seen(data, usage, priors)
    if options.sample_selection:
        logit = backend.draw_selection(key, number, all_rows, total, now.births, priors)
        now = replace(now, selection_logit=logit)
    precisions = _Precisions(key, number, data, usage, priors, options)
    now = replace(now, strength_precision=precisions.of_strengths(now))
    if options.sample_noise:
        now = replace(now, noise_precision=precisions.of_noise(now))
    per_class, terms = options.noise_per_class, backend.log_large_terms
    density = log_joint(
        now, usage, data.n_rows, priors, noise_per_class=per_class, log_large_terms=terms
    )
    return State(now, codes, number), Info(usage, density)


def with_seen(data: Data, sums: UsageSums, priors: Priors) -> tuple[UsageSums, Data]:
    """Sums over a batch and the rows seen before it, and the data with all rows counted."""
    if priors.seen is None:
        return sums, data
    return priors.with_seen(sums), replace(data, n_rows=priors.n_rows(data.n_rows))


def drop(
    state: State, sums: UsageSums, priors: Priors, backend: Backend, least_energy: float = 0.0
) -> tuple[State, Priors]:
    """Drop atoms that no row uses or that the data hardly informs; not part of a Gibbs step.

    Earlier rows (``priors.seen``) count too. See `dbdl.model.prune.atoms_to_keep` for the rule.
    """
    parameters = state.parameters
    norm_square = backend.norm_square(parameters.atoms)
    kept = atoms_to_keep(priors.with_seen(sums), norm_square, least_energy)
    if len(kept) == parameters.n_atoms:
        return state, priors
    codes = backend.keep(state.codes, kept, parameters.n_atoms)
    return State(parameters.keep(kept), codes, state.sweep), priors.keep(kept)


@dataclass(frozen=True)
class _Precisions:
    """Draws of the precisions given the sums of a sweep."""

    key: Key
    number: int
    data: Data
    sums: UsageSums
    priors: Priors
    options: Options

    def of_strengths(self, now: Parameters) -> Doubles:
        """Draw each class's strength precision (eq. 12)."""
        data, priors, before = self.data, self.priors, now.strength_precision
        n_strengths = priors.n_strengths(self.sums)
        square = priors.with_seen(self.sums).strength_square
        if self.options.strengths_counted == "all":
            # Only those of this batch: those of earlier rows are integrated out.
            n_unused = data.n_rows * now.n_atoms - self.sums.n_strengths
            # The squares of n draws from N(0, 1 / precision) sum to a Gamma(n / 2) variate.
            site, some = Site.INACTIVE_STRENGTHS, n_unused > 0
            unused = self._gammas(site, some, 0.5 * n_unused, 0.5 * before)
            n_strengths, square = n_strengths + n_unused, square + unused
        posterior = conditionals.strength_precision_posterior(n_strengths, square, priors)
        # A class without used atoms, or with nearly forgotten rows, does not inform its strengths.
        # Under a vague prior the draw would be 0, so the value stays.
        informed = posterior.shape > SMALLEST_PROPER_SHAPE
        drawn = self._gammas(Site.STRENGTH_PRECISION, informed, *posterior)
        return np.where(drawn < SMALLEST_PRECISION, before, drawn)

    def of_noise(self, now: Parameters) -> Doubles:
        """Draw the noise precision (eq. 13), shared by all classes or one per class."""
        data, priors = self.data, self.priors
        n_values = (priors.n_rows(data.n_rows) * now.atoms.shape[1]).astype(np.float64)
        square, places = priors.with_seen(self.sums).residual_square, data.first_row
        if not self.options.noise_per_class:
            # Summed by first rows, so that the order of the classes does not change the rounding.
            square = square[np.argsort(data.first_row)].sum(keepdims=True)
            n_values, places = n_values.sum(keepdims=True), np.zeros(1, dtype=np.int64)
        shape, rate = conditionals.noise_precision_posterior(n_values, square, priors)
        drawn = gammas(self.key, Site.NOISE_PRECISION, places, self.number, shape) / rate
        # Rows whose weights all but vanish do not inform the noise either.
        vague = (shape <= SMALLEST_PROPER_SHAPE) | (drawn < SMALLEST_PRECISION)
        drawn = np.where(vague, now.noise_precision[: len(drawn)], drawn)
        return np.broadcast_to(drawn, data.n_classes).copy()

    def _gammas(self, site: Site, some: NDArray[np.bool_], shape: Floats, rate: Floats) -> Doubles:
        """Draw Gamma variates for some of the classes; 0 for the others."""
        drawn, places = np.zeros(len(some)), self.data.first_row[some]
        drawn[some] = gammas(self.key, site, places, self.number, shape[some]) / rate[some]
        return drawn
