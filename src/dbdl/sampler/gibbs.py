"""The Gibbs sampler: ``init`` and ``step`` over an immutable state.

A step draws atoms (eq. 8), usage and strengths (9, 10), selection probabilities (11), strength
precisions (12) and the noise precision (13), in the paper's order. It is exact Gibbs at a fixed
number of atoms; dropping atoms is a function of its own between steps.
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
from dbdl.model.joint import log_small_terms
from dbdl.model.priors import Priors
from dbdl.model.prune import atoms_to_keep
from dbdl.model.state import Floats, Parameters, State
from dbdl.model.statistics import UsageSums

#: A Gamma prior with a smaller shape says nothing: its draws are 0 to machine precision.
SMALLEST_PROPER_SHAPE = 1e-3

#: A smaller draw of a precision is one of a Gamma distribution that says next to nothing.
SMALLEST_PRECISION = 1e-30


@dataclass(frozen=True)
class Options:
    """How a step is done.

    Attributes
    ----------
    scan : {"collapsed", "paper"}
        Usage with the strength integrated out, or given the strength (eq. 9 to the letter).
    sample_noise : bool
        Draw the noise precision (eq. 13) or hold it.
    noise_per_class : bool
        One noise precision for each class (the paper's footnote) or one for all.
    sample_selection : bool
        Draw the selection probabilities (eq. 11) or hold them, as for the label atoms.
    strengths_counted : {"used", "all"}
        Strengths that inform their precision (eq. 12): those of used atoms, or all, the unused
        ones drawn from their prior, as the paper has it.
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

    The paper starts every selection probability at 0.5 (``selection="half"``); its first sweep
    then switches hundreds of unrelated entries on, with tiny strengths. Drawing them from the
    counts of the first codes before the first sweep avoids it.
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
    posterior = backend.atoms_posterior(sums, priors.atoms)
    now = replace(now, atoms=backend.draw_atoms(key, number, posterior, now.atoms, now.births))
    del sums, posterior  # their memory is used again by the sweep
    codes, usage = backend.sweep(key, number, data, state.codes, now, options.scan)
    total, all_rows = with_seen(data, usage, priors)
    if options.sample_selection:
        logit = backend.draw_selection(key, number, all_rows, total, now.births, priors)
        now = replace(now, selection_logit=logit)
    now = replace(
        now,
        strength_precision=_draw_strength_precision(key, number, data, usage, now, priors, options),
    )
    if options.sample_noise:
        now = replace(
            now,
            noise_precision=_draw_noise_precision(key, number, data, usage, now, priors, options),
        )
    density = backend.log_large_terms(now, total, all_rows, priors) + log_small_terms(
        now, usage, data.n_rows, priors, noise_per_class=options.noise_per_class
    )
    return State(now, codes, number), Info(usage, density)


def with_seen(data: Data, sums: UsageSums, priors: Priors) -> tuple[UsageSums, Data]:
    """Sums and numbers of rows of a batch with those of the rows seen before it."""
    if priors.seen is None:
        return sums, data
    return priors.with_seen(sums), replace(data, n_rows=priors.n_rows(data.n_rows))


def drop(
    state: State, sums: UsageSums, priors: Priors, backend: Backend, least_energy: float = 0.0
) -> tuple[State, Priors]:
    """Drop the atoms that nobody uses or the data hardly informs; not part of a Gibbs step.

    Rows seen before (``priors.seen``) count. See `dbdl.model.prune.atoms_to_keep` for the rule.
    """
    parameters = state.parameters
    norm_square = backend.norm_square(parameters.atoms)
    kept = atoms_to_keep(priors.with_seen(sums), norm_square, least_energy)
    if len(kept) == parameters.n_atoms:
        return state, priors
    codes = backend.keep(state.codes, kept, parameters.n_atoms)
    return State(parameters.keep(kept), codes, state.sweep), priors.keep(kept)


def _draw_gammas(
    key: Key, site: Site, places: NDArray[np.int64], number: int, shape: Floats, rate: Floats
) -> NDArray[np.float64]:
    return gammas(key, site, places, number, shape) / rate


def _draw_strength_precision(
    key: Key,
    number: int,
    data: Data,
    sums: UsageSums,
    now: Parameters,
    priors: Priors,
    options: Options,
) -> NDArray[np.float64]:
    """Draw each class's strength precision (eq. 12)."""
    n_strengths = priors.n_strengths(sums)
    square = priors.with_seen(sums).strength_square
    if options.strengths_counted == "all":
        # Of this batch: those of rows seen before are integrated out.
        n_unused = data.n_rows * now.n_atoms - sums.n_strengths
        # The squares of n draws from N(0, 1 / precision) sum to a Gamma(n / 2) variate.
        some = n_unused > 0
        unused = np.zeros(data.n_classes)
        unused[some] = _draw_gammas(
            key,
            Site.INACTIVE_STRENGTHS,
            data.first_row[some],
            number,
            0.5 * n_unused[some],
            0.5 * now.strength_precision[some],
        )
        n_strengths, square = n_strengths + n_unused, square + unused
    shape, rate = conditionals.strength_precision_posterior(n_strengths, square, priors)
    # A class without a used atom, or whose rows are nearly forgotten, says nothing about its
    # strengths: under a vague prior the draw would be 0, so the value stays.
    told = shape > SMALLEST_PROPER_SHAPE
    drawn = now.strength_precision.copy()
    drawn[told] = _draw_gammas(
        key, Site.STRENGTH_PRECISION, data.first_row[told], number, shape[told], rate[told]
    )
    return np.where(drawn < SMALLEST_PRECISION, now.strength_precision, drawn)


def _draw_noise_precision(
    key: Key,
    number: int,
    data: Data,
    sums: UsageSums,
    now: Parameters,
    priors: Priors,
    options: Options,
) -> NDArray[np.float64]:
    """Draw the noise precision (eq. 13), shared by all classes or one per class."""
    n_values = (priors.n_rows(data.n_rows) * now.atoms.shape[1]).astype(np.float64)
    residual_square = priors.with_seen(sums).residual_square
    if options.noise_per_class:
        posterior = conditionals.noise_precision_posterior(n_values, residual_square, priors)
        places = data.first_row
    else:
        # Summed in the order of first rows: the order of the classes must not change the rounding.
        square = residual_square[np.argsort(data.first_row)].sum(keepdims=True)
        posterior = conditionals.noise_precision_posterior(
            n_values.sum(keepdims=True), square, priors
        )
        places = np.zeros(1, dtype=np.int64)
    drawn = _draw_gammas(key, Site.NOISE_PRECISION, places, number, *posterior)
    return np.broadcast_to(drawn, data.n_classes).copy()
