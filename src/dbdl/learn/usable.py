"""A guard against views that ruin the rows, before any chain is learned in them.

A view may blow up features that are noise: dividing the principal components of images by their
standard deviations is one case. A chain in such a view would get almost no weight, and would be
learned for nothing. Nearest neighbours show such a view at once.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbdl._products import block_product
from dbdl.backends import Backend
from dbdl.backends.crew import Crew
from dbdl.draws import make_key
from dbdl.learn.problem import N_FOLDS, Problem
from dbdl.model.statistics import some_weights
from dbdl.views import LabelledRows, Recipe, Shared, evenly_spread

#: Rows that the guard looks at: neighbours, and rows that are asked for them.
MOST_NEIGHBOURS, MOST_ROWS, LEAST_ROWS = 600, 300, 50
#: A view is left out if its share of rows with a neighbour of their class is below this fraction of
#: the best view's share.
LEAST_SHARE = 0.5


def usable_views(problem: Problem, crew: Crew, views: tuple[Recipe, ...]) -> tuple[Recipe, ...]:
    """Return the views in which neighbours of a row often have its class.

    Views are fitted to some of the rows, and the neighbours of others are looked up. All views are
    returned if there are too few rows to tell. The rows do not depend on the seed of the fit, which
    may be that of an earlier one.
    """
    folds = problem.cut(make_key(0), N_FOLDS, 1)
    if len(views) < 2 or not folds or len(folds[0].held_out) < LEAST_ROWS:
        return views
    fold = folds[0]
    learn = fold.learn[evenly_spread(len(fold.learn), MOST_NEIGHBOURS)]
    held_out = fold.held_out[evenly_spread(len(fold.held_out), MOST_ROWS)]
    known, asked = (_in_memory(problem, rows) for rows in (learn, held_out))
    gaps = problem.gaps_of(known)
    known = gaps.filled(known)._replace(shared=Shared())
    asked = asked._replace(X=gaps.fill(asked.X))
    share = np.array(crew.here().map(partial(_share_of_same_class, known, asked), views))
    return tuple(
        view for view, own in zip(views, share, strict=True) if own >= LEAST_SHARE * share.max()
    )


def _in_memory(problem: Problem, rows: NDArray[np.int64]) -> LabelledRows:
    X: Any = problem.X[rows]
    weight = some_weights(problem.sample_weight, rows)
    return LabelledRows(X, problem.class_of_row[rows], problem.n_classes, sample_weight=weight)


def _share_of_same_class(
    known: LabelledRows, asked: LabelledRows, view: Recipe, backend: Backend
) -> float:
    """Share of rows whose nearest neighbour, by the angle, has the same class."""
    fitted = backend.fit_view(view, known)
    seen, neighbours = (backend.see_new(fitted, rows.X) for rows in (asked, known))
    cosines = block_product(seen, np.ascontiguousarray(neighbours.T))
    nearest = cosines.argmax(axis=1)
    same = known.class_of_row[nearest] == asked.class_of_row
    return float(np.average(same, weights=asked.sample_weight))
