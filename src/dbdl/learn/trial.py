"""The view of a single chain, chosen by short trials.

Several chains see the rows through different views, and weights make up for a view that does not
suit the rows. One chain cannot make up for its view. So each view is tried with chains of one sweep
on some of the rows, and other rows are asked. The first view is taken whose log-loss is not clearly
above the least: by no more than one standard error of the difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, product

import numpy as np
from numpy.typing import NDArray

from dbdl.backends.crew import Crew
from dbdl.draws import make_key
from dbdl.learn.choice import Candidates, LeftOut, left_out_by, score_coders
from dbdl.learn.held_out import Fold, log_losses, sample_of_classes
from dbdl.learn.journal import Journal
from dbdl.learn.members import learn_members
from dbdl.learn.problem import LEAST_PER_CLASS, Problem, Share
from dbdl.model.statistics import some_weights
from dbdl.views import Recipe

Rows = NDArray[np.int64]  # numbers of rows

#: Most rows that a trial learns from, and most that it asks.
MOST_LEARNED, MOST_ASKED = 600, 300
#: Few rows are asked fold by fold, until this many have been asked.
N_FOLDS, LEAST_ASKED = 5, 150
#: Longer codes take most of the time, and hardly change which view is best.
MOST_NONZERO = 20


def best_view(problem: Problem, candidates: Candidates, crew: Crew) -> Recipe:
    """Return the view that suits the rows; the first if there are too few rows to tell.

    The chains of the trials have the seed of the fit, and the rows do not depend on it.
    """
    views = problem.views
    if len(views) < 2 or problem.n_classes < 2 or not (folds := _folds(problem)):
        return views[0]
    short = [coder for coder in candidates.coders if coder.n_nonzero <= MOST_NONZERO]
    candidates = replace(candidates, coders=short or [candidates.sparsest])
    rows = np.unique(np.concatenate([part for fold in folds for part in fold]))
    small = _with_rows(problem, rows, len(folds[0].learn))
    every = product((_within(rows, fold) for fold in folds), enumerate(views))
    scale, weight = problem.settings.length_scales[0], problem.labels.weights[0]
    shares = [
        Share(number, view_number, view, fold, weight, scale)
        for number, (fold, (view_number, view)) in enumerate(every)
    ]
    members = learn_members(small, shares, candidates.coders, crew.here(), Journal())
    asked = left_out_by(members)
    of_view = [[member for member in asked if member.view == k] for k in range(len(views))]
    return views[first_good(of_view, small, candidates)]


def first_good(
    of_view: Sequence[Sequence[LeftOut]], problem: Problem, candidates: Candidates
) -> int:
    """Number of the first view whose loss is within one standard error of the least."""
    classes, weights = problem.class_of_row, problem.sample_weight
    found = score_coders(of_view, classes, candidates, weights)
    coder = found.view_log_loss.argmin(axis=1)
    sharpness = found.view_sharpness[np.arange(len(of_view)), coder]
    asked = np.concatenate([member.rows for member in of_view[0]])
    losses = np.stack([
        log_losses(np.concatenate([m.scores[k] for m in own]), classes[asked], b)
        for own, k, b in zip(of_view, coder, sharpness, strict=True)
    ])  # fmt: skip
    weight = some_weights(weights, asked)
    best = int(np.average(losses, axis=1, weights=weight).argmin())
    excess = losses - losses[best]
    mean = np.average(excess, axis=1, weights=weight)
    spread = np.average((excess - mean[:, np.newaxis]) ** 2, axis=1, weights=weight)
    return int((mean <= np.sqrt(spread / len(asked))).argmax())


def _folds(problem: Problem) -> list[Fold]:
    """Rows to learn from and rows to ask, in as many folds as it takes to ask enough."""
    key, classes = make_key(0), problem.class_of_row
    folds = [
        Fold(
            fold.learn[sample_of_classes(key, classes[fold.learn], MOST_LEARNED)],
            fold.held_out[sample_of_classes(key, classes[fold.held_out], MOST_ASKED)],
        )
        for fold in problem.cut(key, N_FOLDS, N_FOLDS)
    ]
    asked = list(accumulate(len(fold.held_out) for fold in folds))
    return folds[: 1 + sum(n < LEAST_ASKED for n in asked)]


def _with_rows(problem: Problem, rows: Rows, n_learned: int) -> Problem:
    """Return the problem of some rows, in memory, with as many atoms per row and one sweep."""
    settings, share = problem.settings, n_learned / len(problem.class_of_row)
    n_initial = settings.n_initial_atoms
    if n_initial is not None:
        least = max(LEAST_PER_CLASS * problem.n_classes, settings.n_given)
        n_initial = min(max(round(share * n_initial), least), n_initial)
    return replace(
        problem,
        X=problem.X[rows],
        class_of_row=problem.class_of_row[rows],
        sample_weight=some_weights(problem.sample_weight, rows),
        copy_of=None,
        settings=replace(settings, n_sweeps=1, n_initial_atoms=n_initial, n_draws=0),
    )


def _within(rows: Rows, fold: Fold) -> Fold:
    """Return a fold whose rows are numbered among some of all rows, which are sorted."""
    return Fold(*(np.searchsorted(rows, part) for part in fold))
