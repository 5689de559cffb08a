"""The problem that a fit solves: rows, their classes, settings and the seed."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

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
#: and objects: docs/defaults.md.
N_FOLDS = 10
MOST_LEFT_OUT = 2000
#: Up to this many rows count as few, and as a medium number.
FEW_ROWS, MEDIUM_ROWS = 600, 3000
#: Folds that a given number of chains leaves out in turn, with more than `FEW_ROWS`.
FOLDS_OF_MANY_ROWS = 2
#: Fewest atoms per class of a chain with few atoms.
LEAST_PER_CLASS = 2
#: Least number of chains, for fewer views.
LEAST_CHAINS = 5


class Rounds(NamedTuple):
    """Chains per view where their number is not given.

    In the first round all views have chains. Those that earn a weight have more in the second.
    Fewer rows have more chains: their fits are short, and each row that is left out counts.
    """

    first: int
    both: int


def automatic_rounds(n_rows: int, n_views: int) -> Rounds:
    """Return the chains per view for a number of rows and views."""
    few, medium = n_rows <= FEW_ROWS, n_rows <= MEDIUM_ROWS
    found = Rounds(2, 6) if few else Rounds(1, 4) if medium else Rounds(1, 2)
    least = -(-LEAST_CHAINS // n_views)
    return Rounds(max(found.first, least), max(found.both, least))


@dataclass(frozen=True)
class LabelSettings:
    """How label atoms are found; see `dbdl.DBDLClassifier`. "none" means without labels."""

    kind: LabelKind = "ridge"
    penalty: float = 0.1
    weights: tuple[float, ...] = (1.0,)  # of joint labels; members take them in turn


@dataclass(frozen=True)
class Share:
    """The share of one member: its view, the rows it learns from, and those that it leaves out.

    Its number is its place among the members of one size, of which each has its own random draws.
    A view with another length scale of smooth atoms counts as another view.
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
    """Everything that determines the result of a fit."""

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
    rounds: Rounds | None = None  # if the number of chains is not given; ``n_chains`` of the first
    sizes: tuple[int | None, ...] = (None,)  # numbers of initial atoms to try; None: the default
    size_number: int = 0  # of the size of these chains among them
    gaps: Complete = COMPLETE  # of one member: the missing entries of its rows
    copy_of: NDArray[np.int64] | None = None  # the first row equal to each; None if all differ

    @property
    def memory_size(self) -> ProblemSize | None:
        """Size for the memory of a device; None for rows that are read in parts."""
        if not isinstance(self.X, np.ndarray):
            return None
        n_rows, n_features = self.X.shape
        # A view may append a coordinate. Kernel views have more: parts of their rows are smaller.
        row_bytes = (n_features + 1) * self.X.itemsize
        return ProblemSize(n_rows, self.settings.n_start(n_rows), row_bytes)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Float32 or float64. Rows on a device have a dtype of another package."""
        return np.dtype(str(self.X.dtype).rpartition(".")[-1])

    @property
    def atoms_per_row(self) -> float:
        """Initial atoms of a chain per row."""
        n_rows = len(self.class_of_row)
        return self.settings.n_start(n_rows) / n_rows

    def key(self, number: int) -> Key:
        """Key of the random draws of a chain."""
        return make_key(self.seed, FIRST_CHAIN + number)

    def with_views(self, views: tuple[Recipe, ...]) -> Problem:
        """Return the problem with other views, and the chains for them unless they are given."""
        problem = replace(self, views=views)
        if self.rounds is None:
            return problem
        rounds = automatic_rounds(len(self.class_of_row), problem.n_views)
        return replace(problem, rounds=rounds, n_chains=rounds.first * problem.n_views)

    def shares(self) -> list[Share]:
        """List the shares of the members; of the first round if there are two.

        Every row that is left out is scored by members of different views, if there are several
        members.
        """
        share_at = self._share_at()
        return [share_at(number) for number in range(self.n_chains)]

    def numbers_of(self, shares: Iterable[Share]) -> list[int]:
        """Return the numbers of chains among those of all sizes, for progress and checkpoints.

        Sizes take turns, because they may have different numbers of chains.
        """
        return [self._number_of_all_sizes(share.number) for share in shares]

    def _number_of_all_sizes(self, number: int) -> int:
        return number * len(self.sizes) + self.size_number

    def sweeps_of_chains(self) -> dict[int, int]:
        """Return the number of sweeps of each chain of both rounds, by its number of all sizes."""
        numbers = map(self._number_of_all_sizes, range(self.n_chains + self.n_further))
        return dict.fromkeys(numbers, self.settings.n_sweeps)

    def further_shares(self, views: Container[int]) -> list[Share]:
        """List the shares of the second round, for some of the views by their numbers."""
        share_at = self._share_at()
        numbers = range(self.n_chains, self.n_chains + self.n_further)
        shares = [share_at(number) for number in numbers]
        return [share for share in shares if share.view_number in views]

    @property
    def n_views(self) -> int:
        """Number of views, each with every length scale."""
        return len(self.views) * len(self.settings.length_scales)

    @property
    def n_further(self) -> int:
        """Most chains of the second round."""
        if self.rounds is None or not self.leaves_out:
            return 0
        return max(self.rounds.both * self.n_views - self.n_chains, 0)

    def _share_at(self) -> Callable[[int], Share]:
        """Return a function that makes the share of a number; views take turns."""
        folds, weights = self._folds(), self.labels.weights
        views = self._views_with_length_scales()
        # Views are compared best on the same rows. Few rows are all scored instead.
        same_rows = self.rounds is not None and not self._has_few_rows
        cycle = math.lcm(len(views), len(folds))  # then a view would meet the same folds again

        def share_at(number: int) -> Share:
            turn, view_number = divmod(number, len(views))
            fold = folds[(turn if same_rows else number + number // cycle) % len(folds)]
            view, scale = views[view_number]
            return Share(number, view_number, view, fold, weights[number % len(weights)], scale)

        return share_at

    def _views_with_length_scales(self) -> list[tuple[Recipe, float | None]]:
        """Pair each view with each length scale; neighbours differ in both."""
        scales = self.settings.length_scales
        return [
            (view, scales[(number + turn) % len(scales)])
            for turn in range(len(scales))
            for number, view in enumerate(self.views)
        ]

    @property
    def _has_few_rows(self) -> bool:
        return len(self.class_of_row) <= FEW_ROWS

    def _folds(self) -> list[Fold]:
        n_rows = len(self.class_of_row)
        if not self.leaves_out or self.n_classes < 2:
            return [Fold.of_all(n_rows)]
        n_folds = max(N_FOLDS, -(-n_rows // MOST_LEFT_OUT))
        if self.rounds is None:
            most = N_FOLDS if self._has_few_rows else FOLDS_OF_MANY_ROWS
            wanted = max(min(self.n_chains // 2, most), 1)
        else:
            wanted = N_FOLDS if self._has_few_rows else self.rounds.both
        folds = self.cut(make_key(self.seed), n_folds, wanted)
        return folds or [Fold.of_all(n_rows)]

    def cut(self, key: Key, n_folds: int, wanted: int) -> list[Fold]:
        """Cut the rows into folds, each with all copies of its rows."""
        return stratified_folds(key, self.class_of_row, n_folds, wanted, self.copy_of)

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
        self,
        rows: LabelledRows,
        settings: ChainSettings,
        label_weight: float,
        gaps: Complete = COMPLETE,
    ) -> Problem:
        """Return the problem of one member, with its rows as its chain sees them."""
        return replace(
            self,
            X=rows.X,
            class_of_row=rows.class_of_row,
            sample_weight=rows.sample_weight,
            settings=settings,
            labels=replace(self.labels, weights=(label_weight,)),
            gaps=gaps,
            copy_of=None,
        )
