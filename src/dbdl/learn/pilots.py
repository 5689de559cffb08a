"""Choices made by pilot chains, on rows that they never saw.

Three quarters of the training rows start as atoms themselves, so training rows re-encoded over the
dictionary say nothing about new rows. Pilot chains leave a part of the rows out entirely; those
rows choose the coder and its number of non-zeros, which decides more than any other parameter, the
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
from dbdl.learn.held_out import Fold, HeldOutChoice, Scores, choose_coder, stratified_folds
from dbdl.learn.journal import Choice, Journal
from dbdl.learn.members import learn_with_labels
from dbdl.learn.problem import Problem
from dbdl.rows.lazy import LazyRows
from dbdl.sampler.run import ChainJournal

Classes = NDArray[np.int64]

#: Pilot chains: sweeps, folds, and rows at most. They are as long as the chains they choose for:
#: atoms go on changing, and short chains choose fewer non-zeros than long ones need.
PILOT_SWEEPS = 35
PILOT_FOLDS = 5
PILOT_ROWS = 4000
#: Pilot chains per fold at most: two that share a fold say enough.
PILOT_CHAINS = 2
#: Folds that are left out where there are more rows than that.
FEW_ROWS, FOLDS_OF_MANY_ROWS = 600, 2


@dataclass(frozen=True)
class Pilot:
    """One pilot chain: which fold it leaves out, and its number among the chains of the fold."""

    number: int
    fold: Fold
    chain: int


#: Learns a pilot's rows; returns atoms, and label atoms for each coder.
LearnPilot = Callable[[Pilot, Backend, ChainJournal], tuple[PreparedAtoms, list[Scores]]]


def pilots_of(problem: Problem) -> list[Pilot]:
    """List the pilot chains of a problem; none where no row can be left out."""
    n_chains = min(problem.n_chains, PILOT_CHAINS)
    folds = enumerate(_folds(problem))
    return [Pilot(f * PILOT_CHAINS + c, fold, c) for f, fold in folds for c in range(n_chains)]


def _folds(problem: Problem) -> list[Fold]:
    key = make_key(problem.seed)
    folds = stratified_folds(key, problem.class_of_row, PILOT_FOLDS, PILOT_ROWS)
    few = len(problem.class_of_row) <= FEW_ROWS
    return list(islice(folds, None if few else FOLDS_OF_MANY_ROWS))


def choose(
    problem: Problem,
    coders: Sequence[Coder],
    weights: Sequence[float],
    crew: Crew,
    journal: Journal,
) -> Choice:
    """Choose coder, temperature and weight of the labels on rows that no pilot chain saw."""
    if journal.choice is not None:
        return journal.choice
    if isinstance(problem.X, LazyRows):
        problem = replace(problem, X=problem.X.remember(_pilot_rows(problem)))
    found = [
        _try_coders(problem.with_label_weight(weight), coders, crew, journal, number)
        for number, weight in enumerate(weights)
    ]
    losses = [np.inf if one is None else one.log_loss[one.best] for one in found]
    best = int(np.argmin(losses))
    choice = Choice.of(coders, found[best], weights[best])
    journal.keep_choice(choice)
    return choice


def pilot_settings(problem: Problem) -> Problem:
    """Return the problem with the sweeps of pilot chains."""
    n_sweeps = min(problem.settings.n_sweeps, PILOT_SWEEPS)
    return replace(problem, settings=replace(problem.settings, n_sweeps=n_sweeps))


def _try_coders(
    problem: Problem, coders: Sequence[Coder], crew: Crew, journal: Journal, round_number: int
) -> HeldOutChoice | None:
    pilots = pilots_of(problem)
    first = round_number * len(pilots)
    learn = partial(_learn_pilot, pilot_settings(problem), coders)
    scored = score_left_out_rows(problem, pilots, coders, learn, crew, journal, first)
    return None if scored is None else choose_coder(coders, *scored)


def _learn_pilot(
    problem: Problem,
    coders: Sequence[Coder],
    pilot: Pilot,
    backend: Backend,
    journal: ChainJournal,
) -> tuple[PreparedAtoms, list[Scores]]:
    key = make_key(problem.seed, 1 + pilot.number)
    learned = learn_with_labels(key, problem.of_rows(pilot.fold.learn), backend, journal)
    journal.keep(learned.chain.chain, backend)
    return learned.prepared, learned.label_atoms(coders)


def _pilot_rows(problem: Problem) -> NDArray[np.int64]:
    """Return the numbers of all rows that pilot chains see or score."""
    parts = [rows for fold in _folds(problem) for rows in fold]
    return np.unique(np.concatenate(parts)) if parts else np.empty(0, dtype=np.int64)


def score_left_out_rows(
    problem: Problem,
    pilots: Sequence[Pilot],
    coders: Sequence[Coder],
    learn: LearnPilot,
    crew: Crew,
    journal: Journal,
    first: int = 0,
) -> tuple[list[Scores], Classes] | None:
    """Scores (n_rows, n_classes) of rows by chains that never saw them, for each coder.

    The journal knows the pilots by their place in the list, counted from ``first``. Returns the
    scores and the classes of these rows, or None where no row can be left out.
    """
    if not pilots:
        return None

    def score(place: int, backend: Backend) -> list[Scores]:
        pilot = pilots[place]
        atoms, label_atoms = learn(
            pilot, backend, journal.pilot(first + place, len(pilot.fold.learn))
        )
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
