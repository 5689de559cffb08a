"""The problem that a fit solves: rows, their classes, settings and the seed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dbdl.backends.crew import ProblemSize
from dbdl.draws import Key, make_key
from dbdl.learn.chain import ChainSettings
from dbdl.learn.held_out import Fold, stratified_folds
from dbdl.missing.filler import has_gaps
from dbdl.missing.gaps import COMPLETE, Complete, Gaps
from dbdl.model.state import Floats
from dbdl.model.statistics import Weights, some_weights
from dbdl.rows.lazy import LazyRows
from dbdl.views import LabelledRows, Recipe, View, atoms_per_row

LabelKind = Literal["none", "ridge", "recoded", "gibbs", "joint"]

#: Number of the first chain's key; the first key of all belongs to the folds.
FIRST_CHAIN = 1000
#: A member leaves out one of this many folds, or of more if the folds would have more rows than
#: `MOST_LEFT_OUT`. With five folds the accuracy was 0.6 to 1.0 points lower on faces, spectra
#: and objects: docs/design.md.
N_FOLDS = 10
MOST_LEFT_OUT = 2000
#: Up to this many rows, every view has this many chains, and all folds are left out by some of
#: them, so that more rows are scored. With more rows, four folds are left out in turn.
FEW_ROWS, CHAINS_OF_FEW_ROWS, FOLDS_OF_MANY_ROWS = 600, 2, 4
#: Fewest atoms per class of a chain with few atoms.
LEAST_PER_CLASS = 2
#: Least number of chains, for fewer views.
LEAST_CHAINS = 5


def automatic_chains(n_rows: int, n_views: int) -> int:
    """Return the number of chains for a number of rows and views."""
    return max(n_views, LEAST_CHAINS) * (CHAINS_OF_FEW_ROWS if n_rows <= FEW_ROWS else 1)


@dataclass(frozen=True)
class LabelSettings:
    """How label atoms are found; see `dbdl.DBDLClassifier`. "none" means without labels."""

    kind: LabelKind = "ridge"
    penalty: float = 0.1
    weights: tuple[float, ...] = (1.0,)  # of joint labels; members take them in turn


@dataclass(frozen=True)
class Share:
    """The share of one member: its view, the rows it learns from, and those that it leaves out.

    A view with another length scale of smooth atoms has another number.
    """

    number: int
    view_number: int
    view: Recipe
    fold: Fold
    label_weight: float
    length_scale: float | None = None

    @property
    def has_few_atoms(self) -> bool:
        """Whether the view asks for few atoms."""
        return atoms_per_row(self.view) is not None


@dataclass(frozen=True)
class Problem:
    """Everything that determines what is learned."""

    X: Floats | LazyRows  # (n_samples, n_features), maybe read in parts
    class_of_row: NDArray[np.int64]  # (n_samples,), class indices below ``n_classes``
    n_classes: int
    settings: ChainSettings
    labels: LabelSettings
    n_chains: int = 1
    seed: int = 0
    views: tuple[Recipe, ...] = (View(),)  # members take them in turn
    leaves_out: bool = True  # members leave out rows, on which choices are made
    sample_weight: Weights = None  # (n_samples,); None if every row counts once
    first_number: int = 0  # of the chains, which are numbered through if several sizes are learned
    gaps: Complete = COMPLETE  # of one member: the missing entries of its rows

    @property
    def size(self) -> ProblemSize | None:
        """Size for the memory of a device; None for rows that are read in parts."""
        if not isinstance(self.X, np.ndarray):
            return None
        n_rows, n_features = self.X.shape
        row_bytes = (n_features + 1) * self.X.itemsize  # a view may append a coordinate
        return ProblemSize(n_rows, self.settings.n_start(n_rows), row_bytes)

    def key(self, number: int) -> Key:
        """Key of the random draws of a chain."""
        return make_key(self.seed, FIRST_CHAIN + number)

    def shares(self) -> list[Share]:
        """List the shares of the members. Members of one fold differ by their views.

        So every row that is left out is scored by members of different views, if there are several
        members.
        """
        folds, weights = self._folds(), self.labels.weights
        views = self._views_with_length_scales()
        in_step = len(folds) % len(views) == 0  # a fold would meet the same view each time

        def share(number: int) -> Share:
            view_number, weight = number % len(views), weights[number % len(weights)]
            turn = number // len(folds) if in_step else 0
            fold = folds[(number + turn) % len(folds)]
            view, scale = views[view_number]
            return Share(self.first_number + number, view_number, view, fold, weight, scale)

        return [share(number) for number in range(self.n_chains)]

    def _views_with_length_scales(self) -> list[tuple[Recipe, float | None]]:
        """Pair each view with each length scale; neighbours differ in both."""
        scales = self.settings.length_scales
        return [
            (view, scales[(number + turn) % len(scales)])
            for turn in range(len(scales))
            for number, view in enumerate(self.views)
        ]

    def _folds(self) -> list[Fold]:
        n_rows = len(self.class_of_row)
        everything = Fold(np.arange(n_rows), np.empty(0, dtype=np.int64))
        if not self.leaves_out or self.n_classes < 2:
            return [everything]
        n_folds = max(N_FOLDS, -(-n_rows // MOST_LEFT_OUT))
        most = N_FOLDS if n_rows <= FEW_ROWS else FOLDS_OF_MANY_ROWS
        wanted = max(min(self.n_chains // 2, most), 1)
        folds = stratified_folds(make_key(self.seed), self.class_of_row, n_folds, wanted)
        return folds or [everything]

    def rows_of(self, rows: NDArray[np.int64]) -> LabelledRows:
        """Return some of the rows, as they are."""
        X: Any = self.X
        if len(rows) < len(self.class_of_row):
            X = X.only(rows) if isinstance(X, LazyRows) else X[rows]
        weight = some_weights(self.sample_weight, rows)
        return LabelledRows(X, self.class_of_row[rows], self.n_classes, sample_weight=weight)

    def settings_of(self, share: Share) -> ChainSettings:
        """Return the settings of a member, whose view may ask for few atoms."""
        per_row = atoms_per_row(share.view)
        if per_row is None:
            return self.settings
        n_initial = max(round(per_row * len(share.fold.learn)), LEAST_PER_CLASS * self.n_classes)
        return replace(self.settings, n_initial_atoms=n_initial)

    def gaps_of(self, rows: LabelledRows) -> Complete:
        """Learn from some of the rows how to fill gaps, if any of all rows have some."""
        return Gaps.of(rows) if has_gaps(self.X) else COMPLETE

    def of_member(
        self, rows: LabelledRows, X: Any, label_weight: float, gaps: Complete = COMPLETE
    ) -> Problem:
        """Return the problem of one member, which sees its rows as ``X``."""
        return replace(
            self,
            X=X,
            class_of_row=rows.class_of_row,
            sample_weight=rows.sample_weight,
            labels=replace(self.labels, weights=(label_weight,)),
            gaps=gaps,
        )
