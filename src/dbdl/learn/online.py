"""Learning batch by batch: the posterior after a batch is the prior of the next.

A chain remembers sums over the rows it has seen: of the codes for the atoms (a joint precision and
natural mean), usage counts per class, squared strengths and residuals, and the products of codes
and labels. Their size depends only on the numbers of atoms and classes, so the cost of a batch does
not grow with the rows seen. Codes of earlier rows, and the precisions that weight them, are fixed.

Rows of a batch that the dictionary explains badly become new atoms. Atoms that no row uses, or that
all rows together hardly inform, are dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from dbdl.backends.base import Backend, Data, parameters_to_host
from dbdl.coding import Coder, Forward, PreparedAtoms
from dbdl.draws import PLACES_OF_A_DRAW, Key
from dbdl.learn.chain import MOST_INITIAL_ATOMS, ChainSettings, LearnedChain, end_chain
from dbdl.learn.labels import one_hot, root_weighted
from dbdl.learn.members import (
    code_prior,
    faults_of_view,
)
from dbdl.model.atom_priors import AtomPrior, JointPrior
from dbdl.model.priors import Priors
from dbdl.model.record import Record
from dbdl.model.state import Floats, Parameters, State
from dbdl.model.statistics import AtomSums, SeenSums
from dbdl.model.trust import AtLeastOne, Count, Length, NotNegative, Number, Positive, whole
from dbdl.sampler.gibbs import drop, with_seen
from dbdl.sampler.posterior import Dictionary
from dbdl.sampler.run import SILENT, ChainJournal, run
from dbdl.views import Fitted

#: A row is explained badly if matching pursuit over the present atoms leaves more than this
#: fraction of its squared norm. Chosen on held-out training rows: docs/online.md.
BADLY_EXPLAINED = 0.01
#: Fraction of ``n_sweeps`` for batches after the first, but at least `LEAST_SWEEPS`. Every batch
#: draws the old atoms again. With 35 sweeps in each batch, rows of Extended YaleB used 15 atoms
#: instead of 9, and a fifth of the atoms was dropped.
LATER_SWEEPS = 0.5
LEAST_SWEEPS = 3
#: Once a chain has the most atoms it may have, the fraction that a batch may replace.
TURNOVER = 0.1
#: Most rows that can be indexed.
MOST_ROWS = 2**53


@dataclass(frozen=True)
class OnlineChain(Record):
    """The memory of one chain.

    Attributes
    ----------
    parameters : Parameters
        Last draws, on the host.
    sweep : int
        Number of the last sweep.
    priors : Priors
        Priors of the next batch: the atoms' joint posterior, and the sums over all rows seen.
    label_sums : AtomSums or None
        codes.T @ codes (n_atoms, n_atoms) and codes.T @ labels (n_atoms, n_classes) over all
        rows seen; None without labels.
    dictionary : Dictionary
        The published dictionary.
    n_offered : int
        Number of rows that were candidates for atoms, including copies.
    n_births : int
        Number of atoms born so far.
    n_rows, square : int, float
        Number of rows that the chain has learned from, and the sum of their squared norms.
    view : FittedView, FittedKernelView or FittedOwnView
        The view of the first batch, through which all rows are seen.
    """

    parameters: Parameters
    sweep: Count
    priors: Priors
    label_sums: AtomSums | None
    dictionary: Dictionary
    n_offered: Count
    n_births: AtLeastOne
    n_rows: AtLeastOne
    square: NotNegative
    view: Fitted

    def faults(self) -> Iterator[str]:
        """Report missing sums, and classes or births that disagree."""
        if self.priors.seen is None or not isinstance(self.priors.atoms, JointPrior):
            yield "priors do not contain the sums over the rows seen"
        n_classes = len(self.parameters.noise_precision)
        if self.label_sums is not None and self.label_sums.cross.shape[1] != n_classes:
            n_columns = self.label_sums.cross.shape[1]
            yield f"label_sums.cross has {n_columns} columns for {n_classes} classes"
        if self.parameters.births[-1] >= self.n_births:
            yield f"an atom has birth {self.parameters.births[-1]} of {self.n_births} births"
        yield from faults_of_view(self.view, self.parameters.atoms)


@dataclass(frozen=True)
class OnlineState(Record):
    """The memory of an ensemble.

    Attributes
    ----------
    seed : int
    labels : ndarray of shape (n_classes,)
        Classes in the order of their first appearance, which gives their indices.
    first_row : ndarray of shape (n_classes,)
        Index of each class's first row.
    n_rows : int
        Number of rows seen.
    n_numbers : int
        Number of row indices used so far, a multiple of `dbdl.draws.PLACES_OF_A_DRAW`.
    chains : list of OnlineChain
        Empty before the first batch.
    unit_weight : float
        Mean weight of the rows of the first batch; a row of this weight counts once.
    """

    seed: Count
    labels: Annotated[NDArray, Length("n_classes")]
    first_row: Annotated[NDArray[np.int64], whole("n_classes")]
    n_rows: Annotated[int, Number(least=1, most=MOST_ROWS)]
    n_numbers: Annotated[int, Number(least=1, most=MOST_ROWS)]
    chains: list[OnlineChain]
    unit_weight: Positive = 1.0

    def faults(self) -> Iterator[str]:
        """Report rows, classes and chains that disagree."""
        if self.n_numbers % PLACES_OF_A_DRAW or self.n_numbers < self.n_rows:
            yield f"n_numbers is {self.n_numbers} for {self.n_rows} rows"
        if self.first_row.max(initial=0) >= self.n_numbers:
            yield f"first_row has the number {self.first_row.max()} of {self.n_numbers}"
        if self.labels.ndim != 1 or len(set(self.labels.tolist())) != len(self.labels):
            yield "labels are not distinct"
        if not len(self.labels) or not self.chains:
            yield "labels or chains are missing"


# --------------------------------------------------------------------------------- one chain


def absorb(priors: Priors, state: State, data: Data, backend: Backend) -> Priors:
    """Turn the posterior given the rows, their codes and the noise precision into priors.

    Selection probabilities, strength and noise precisions have the posteriors of eqs. 11 to 13
    with the sums of these rows; the atoms have the joint posterior of eq. 8. ``data`` are on the
    backend.
    """
    now = state.parameters
    sums = backend.gather(data, state.codes, now.n_atoms, now.noise_precision)
    posterior = priors.atoms.posterior(sums, backend)
    atoms = priors.atoms.carry(posterior.each(backend.to_host))
    seen = SeenSums.of(backend.usage(data, state.codes, now), data.n_rows)
    return replace(priors, atoms=atoms, seen=seen if priors.seen is None else priors.seen + seen)


def forget(chain: OnlineChain, factor: float, first: AtomPrior) -> OnlineChain:
    """Weight everything learned so far by ``factor``; the first prior stays."""
    if factor == 1.0:
        return chain
    assert chain.priors.seen is not None
    priors = replace(
        chain.priors,
        atoms=chain.priors.atoms.forget(factor, first),
        seen=chain.priors.seen.times(factor),
    )
    labels = None if chain.label_sums is None else chain.label_sums.times(factor)
    return replace(chain, priors=priors, label_sums=labels)


def most_atoms(settings: ChainSettings) -> int:
    """Most atoms that a chain may have, after any number of batches."""
    return settings.n_initial_atoms or MOST_INITIAL_ATOMS


def later_sweeps(n_sweeps: int) -> int:
    """Number of sweeps of a batch after the first."""
    return max(int(LATER_SWEEPS * n_sweeps), min(LEAST_SWEEPS, n_sweeps))


def badly_explained_rows(
    key: Key, number: int, data: Data, known: OnlineChain, settings: ChainSettings, backend: Backend
) -> tuple[NDArray[np.int64], int]:
    """Rows of a batch that become atoms, ascending, and the number of candidates.

    The candidates are drawn class by class, as at the start of a chain; chains differ by the rows
    they leave out. Candidates that matching pursuit over the present atoms explains well are not
    needed. If too many remain, the worst explained are taken.
    """
    n_rows, atoms = data.n_samples, known.dictionary.atoms
    n_offered = settings.n_start(n_rows)
    if settings.n_initial_atoms is not None:
        n_offered = min(settings.n_initial_atoms, n_rows)
    offered = settings.draw_start(key, data, n_offered, number)
    rows = np.unique(offered)
    X = data.X[rows]
    length = min(settings.n_start_nonzero, *atoms.shape)
    codes = Forward(length).encode(X, PreparedAtoms(atoms), backend)
    left = np.square(X - codes @ atoms, dtype=np.float64).sum(axis=1)
    energy = np.square(X, dtype=np.float64).sum(axis=1)
    bad = left > BADLY_EXPLAINED * energy
    room = max(most_atoms(settings) - len(atoms), int(np.ceil(TURNOVER * most_atoms(settings))))
    worst = np.argsort(-left[bad], kind="stable")[:room]
    return np.sort(rows[bad][worst]), len(offered)


def make_room(chain: OnlineChain, n_new: int, most: int) -> OnlineChain:
    """Drop the atoms that explain the least of all rows seen, to make room for ``n_new`` atoms.

    The most used atom of each class stays as long as others can be dropped.
    """
    n_atoms = chain.parameters.n_atoms
    n_dropped = n_atoms + n_new - most
    if n_dropped <= 0:
        return chain
    seen = chain.priors.seen
    assert seen is not None
    worth = seen.energy * chain.dictionary.scale**2
    wanted = np.zeros(n_atoms, dtype=bool)
    wanted[seen.count.argmax(axis=1)] = True
    dropped = np.lexsort((worth, wanted))[: min(n_dropped, n_atoms - 2)]
    return keep(chain, np.setdiff1d(np.arange(n_atoms), dropped))


def keep(chain: OnlineChain, kept: NDArray[np.intp]) -> OnlineChain:
    """Integrate out all atoms but those in ``kept``."""
    known = chain.dictionary
    return replace(
        chain,
        parameters=chain.parameters.keep(kept),
        priors=chain.priors.keep(kept),
        label_sums=_keep_label_sums(chain.label_sums, kept),
        dictionary=Dictionary(
            known.atoms[kept], known.selection_probability[:, kept], known.scale[kept]
        ),
    )


def _keep_label_sums(sums: AtomSums | None, kept: NDArray[np.intp]) -> AtomSums | None:
    return None if sums is None else AtomSums(sums.gram[np.ix_(kept, kept)], sums.cross[kept])


def continue_chain(
    key: Key,
    known: OnlineChain,
    batch: Data,
    settings: ChainSettings,
    backend: Backend,
    journal: ChainJournal = SILENT,
) -> LearnedChain:
    """Learn a batch, with the posterior after the last one as the prior.

    Returns the chain like `dbdl.learn.chain.learn_chain`; its priors contain the sums over earlier
    rows.
    """
    number = known.sweep + 1  # the start of a batch has separate draws
    rows, n_offered = badly_explained_rows(key, number, batch, known, settings, backend)
    known = make_room(known, len(rows), most_atoms(settings))
    data, new_atoms = backend.hold(batch), batch.X[rows]
    row_square = (known.square + batch.square) / (known.n_rows + batch.n_samples)
    state, priors = _start_batch(key, number, known, new_atoms, data, settings, backend)
    chain = run(
        key, state, data, priors, settings.options, backend, later_sweeps(settings.n_sweeps),
        journal, least_energy=settings.least_energy * row_square,
        follow_size=settings.beta_size == "current",
    )  # fmt: skip
    return end_chain(key, chain, data, settings, backend, known.n_offered + n_offered)


def _start_batch(
    key: Key,
    number: int,
    known: OnlineChain,
    new_atoms: Floats,
    data: Data,
    settings: ChainSettings,
    backend: Backend,
) -> tuple[State, Priors]:
    """Code a batch by matching pursuit over the old and the new atoms.

    As at the start of a chain, selection probabilities are drawn from the counts of all rows, and
    new atoms that no row uses are dropped.
    """
    before, n_new = known.parameters, len(new_atoms)
    n_classes, n_atoms = data.n_classes, before.n_atoms + n_new
    n_new_classes = n_classes - len(before.strength_precision)
    mean = (known.dictionary.atoms * known.dictionary.scale[:, np.newaxis]).astype(new_atoms.dtype)
    atoms = backend.put(np.concatenate([mean, new_atoms]))
    parameters = Parameters(
        atoms=atoms,
        selection_logit=backend.put(np.zeros((n_classes, n_atoms))),
        strength_precision=np.pad(
            before.strength_precision,
            (0, n_new_classes),
            constant_values=settings.strength_precision,
        ),
        noise_precision=np.pad(before.noise_precision, (0, n_new_classes), mode="edge"),
        births=np.concatenate([before.births, known.n_births + np.arange(n_new)]),
    )
    assert known.priors.seen is not None
    priors = replace(
        known.priors,
        atoms=known.priors.atoms.grow(n_new, settings.prior_of_atoms(data.n_features)),
        seen=known.priors.seen.grow(n_classes, n_atoms),
    )
    n_nonzero = min(settings.n_start_nonzero, n_atoms, data.n_features)
    codes = backend.start(data, atoms, n_nonzero)
    sums = backend.usage(data, codes, parameters)
    total, all_rows = with_seen(data, sums, priors)
    logit = backend.draw_selection(key, number, all_rows, total, parameters.births, priors)
    state = State(replace(parameters, selection_logit=logit), codes, number)
    return drop(state, sums, priors, backend)


def remember(
    learned: LearnedChain,
    known: OnlineChain | None,
    view: Fitted,
    settings: ChainSettings,
    backend: Backend,
) -> OnlineChain:
    """Return the memory of a chain after a batch, still without sums of labels."""
    state = learned.chain.state
    now = state.parameters
    n_births = int(now.births.max()) + 1
    return OnlineChain(
        parameters=parameters_to_host(now, backend),
        sweep=state.sweep + settings.n_atom_draws,
        priors=absorb(learned.chain.priors, state, learned.data, backend),
        label_sums=None,
        dictionary=learned.dictionary,
        n_offered=learned.n_initial_atoms,
        n_births=n_births if known is None else max(n_births, known.n_births),
        n_rows=learned.data.n_samples + (0 if known is None else known.n_rows),
        square=learned.data.square + (0.0 if known is None else known.square),
        view=view,
    )


# ------------------------------------------------------------------------------------ labels


def label_sums(
    learned: LearnedChain, known: OnlineChain | None, coder: Coder | None, backend: Backend
) -> AtomSums:
    """Products of codes with codes and labels over all rows seen, including the batch.

    Codes are those of the chain or, with a coder, of the rows recoded over the published atoms.
    """
    data, n_atoms = learned.data, len(learned.dictionary.atoms)
    if coder is None:
        weights, codes = np.ones(data.n_classes), learned.chain.state.codes
        sums = backend.gather(backend.labels(data), codes, n_atoms, weights)
        own = AtomSums(backend.to_host(sums.gram), backend.to_host(sums.cross))
    else:
        atoms = PreparedAtoms(learned.dictionary.atoms, code_prior(learned, learned.dictionary))
        codes = coder.encode(backend.to_host(data.X), atoms, backend).astype(np.float64)
        labels = one_hot(data.class_of_row, data.n_classes)
        codes, labels = root_weighted(codes, labels, data.sample_weight)
        own = AtomSums((codes.T @ codes).toarray(), codes.T @ labels)
    if known is None:
        return own
    births = learned.chain.state.parameters.births
    kept = np.flatnonzero(np.isin(known.parameters.births, births))
    before = _keep_label_sums(known.label_sums, kept)
    assert before is not None
    place = np.searchsorted(births, known.parameters.births[kept])
    own.gram[np.ix_(place, place)] += before.gram
    own.cross[place, : before.cross.shape[1]] += before.cross
    return own
