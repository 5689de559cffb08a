"""Choices made by pilot chains on held-out rows.

Three quarters of the training rows are initial atoms themselves, so coding training rows over the
dictionary says nothing about new rows. Pilot chains never see the rows of one fold. These held-out
rows decide the coder and its number of non-zeros, which matters more than any other parameter, the
weight of joint labels, and the temperature of the probabilities.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from dbdl.backends import Backend
from dbdl.backends.crew import Crew
from dbdl.coding import Coder, PreparedAtoms, encode_each
from dbdl.draws import make_key
from dbdl.learn.checkpoints import Choice
from dbdl.learn.held_out import Fold, HeldOutChoice, Scores, choose_coder, stratified_folds
from dbdl.learn.journal import Journal
from dbdl.learn.members import learn_with_labels
from dbdl.learn.problem import Problem
from dbdl.rows.lazy import LazyRows
from dbdl.sampler.run import ChainJournal

Classes = NDArray[np.int64]

#: Most sweeps, folds and rows of pilot chains. They are as long as the chains they choose for:
#: atoms keep changing, and short chains choose fewer non-zeros than long ones need.
PILOT_SWEEPS = 35
PILOT_FOLDS = 5
PILOT_ROWS = 4000
#: Most pilot chains per fold: two are enough.
PILOT_CHAINS = 2
#: With more rows than this, only this many folds are held out.
FEW_ROWS, FOLDS_OF_MANY_ROWS = 600, 2


@dataclass(frozen=True)
class Pilot:
    """One pilot chain: its number, its fold, and its index among the chains of the fold."""

    number: int
    fold: Fold
    chain: int


#: Learns the rows of a pilot; returns atoms, and label atoms for each coder.
LearnPilot = Callable[[Pilot, Backend, ChainJournal], tuple[PreparedAtoms, list[Scores]]]


def pilots_of(problem: Problem) -> list[Pilot]:
    """List the pilot chains of a problem; none if no row can be held out."""
    n_chains = min(problem.n_chains, PILOT_CHAINS)
    folds = enumerate(_folds(problem))
    return [Pilot(f * PILOT_CHAINS + c, fold, c) for f, fold in folds for c in range(n_chains)]


def _folds(problem: Problem) -> list[Fold]:
    key = make_key(problem.seed)
    folds = stratified_folds(key, problem.class_of_row, PILOT_FOLDS, PILOT_ROWS)
    few = len(problem.class_of_row) <= FEW_ROWS
    return list(islice(folds, None if few else FOLDS_OF_MANY_ROWS))


@dataclass(frozen=True)
class Candidates:
    """The candidates among which held-out rows choose."""

    coders: Sequence[Coder]
    label_weights: Sequence[float] = (1.0,)  # of labels learned jointly with the atoms
    calibrate: bool = True  # whether the temperature is fitted

    @property
    def is_open(self) -> bool:
        """Whether there is anything to choose or to fit."""
        return self.calibrate or len(self.coders) > 1 or len(self.label_weights) > 1

    def pilots(self, problem: Problem) -> list[Pilot]:
        """List the pilot chains for one weight of the labels; none if nothing is open."""
        return pilots_of(problem) if self.is_open and problem.n_classes > 1 else []

    def n_pilots(self, problem: Problem) -> int:
        """Number of pilot chains for all weights of the labels."""
        return len(self.label_weights) * len(self.pilots(problem))

    def choice(self, held_out: HeldOutChoice | None, label_weight: float = 1.0) -> Choice:
        """Return the choice that held-out rows make, if there are any."""
        choice = Choice.of(self.coders, held_out, label_weight)
        return choice if self.calibrate else replace(choice, temperature=1.0)


def choose(problem: Problem, candidates: Candidates, crew: Crew, journal: Journal) -> Choice:
    """Choose coder, temperature and weight of the labels on held-out rows."""
    if journal.choice is not None:
        return journal.choice
    coders, weights = candidates.coders, candidates.label_weights
    pilots, choices = candidates.pilots(problem), []
    if not pilots:
        return candidates.choice(None, weights[0])
    if isinstance(problem.X, LazyRows):
        seen = np.unique(np.concatenate([rows for pilot in pilots for rows in pilot.fold]))
        problem = replace(problem, X=problem.X.remember(seen))
    for number, weight in enumerate(weights):
        learn = partial(_learn_pilot, pilot_settings(problem.with_label_weight(weight)), coders)
        scored = score_left_out_rows(
            problem, pilots, coders, learn, crew, journal, number * len(pilots)
        )
        choices.append(candidates.choice(choose_coder(coders, *scored), weight))
    best = min(choices, key=Choice.loss)
    journal.keep_choice(best)
    return best


def pilot_settings(problem: Problem) -> Problem:
    """Return the problem with the number of sweeps of pilot chains."""
    n_sweeps = min(problem.settings.n_sweeps, PILOT_SWEEPS)
    return replace(problem, settings=replace(problem.settings, n_sweeps=n_sweeps))


def _learn_pilot(
    problem: Problem, coders: Sequence[Coder], pilot: Pilot, backend: Backend, journal: ChainJournal
) -> tuple[PreparedAtoms, list[Scores]]:
    key = problem.pilot_key(pilot.number)
    learned = learn_with_labels(key, problem.of_rows(pilot.fold.learn), backend, journal)
    journal.keep(learned.chain.chain, backend)
    return learned.prepared, learned.label_atoms(coders)


def score_left_out_rows(
    problem: Problem,
    pilots: Sequence[Pilot],
    coders: Sequence[Coder],
    learn: LearnPilot,
    crew: Crew,
    journal: Journal,
    first: int = 0,
) -> tuple[list[Scores], Classes]:
    """Score held-out rows by pilot chains, for each coder.

    In the journal, the pilots are numbered from ``first`` on. Returns the scores
    (n_rows, n_classes) by each coder, and the classes of these rows.
    """

    def score(index: int, backend: Backend) -> list[Scores]:
        pilot = pilots[index]
        own_journal = journal.pilot(first + index, len(pilot.fold.learn))
        atoms, label_atoms = learn(pilot, backend, own_journal)
        codes = encode_each(problem.X[pilot.fold.held_out], atoms, coders, backend)
        return [c @ w for c, w in zip(codes, label_atoms, strict=True)]

    results = crew.here().map(score, range(len(pilots)))
    n_chains = 1 + max(pilot.chain for pilot in pilots)
    folds = [pilot.fold.held_out for pilot in pilots if pilot.chain == 0]
    rows, starts = np.concatenate(folds), np.cumsum([0, *map(len, folds)])
    scores = [np.zeros((len(rows), problem.n_classes)) for _ in coders]
    for pilot, parts in zip(pilots, results, strict=True):
        fold = pilot.number // PILOT_CHAINS
        for total, part in zip(scores, parts, strict=True):
            total[starts[fold] : starts[fold + 1]] += part / n_chains
    return scores, problem.class_of_row[rows]
