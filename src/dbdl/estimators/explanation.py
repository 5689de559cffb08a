"""Why a row got its class: the record that `DBDLClassifier.explain` returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dbdl.model.record import Record
from dbdl.model.state import Doubles

#: Features that the sentence names for and against the predicted class.
N_FOR, N_AGAINST = 3, 1
#: Training rows that the sentence names.
N_ROWS = 3
#: Percentages above this, or below 100 minus this, are given as a limit.
MOST_PERCENT = 99.9
#: Differences of scores below this are rounding.
LEVEL = 1e-12


class FeatureShare(NamedTuple):
    """The share of one feature."""

    number: int
    name: str
    value: Any  # as the model sees it: filled if it is missing; a category is a text
    baseline: float  # NaN for a category
    share: float
    is_missing: bool

    @property
    def shown_value(self) -> str:
        """The value in words."""
        if isinstance(self.value, str):
            return "missing" if self.is_missing else self.value
        return f"missing, filled with {self.value:.4g}" if self.is_missing else f"{self.value:.4g}"

    @property
    def shown_baseline(self) -> str:
        """The baseline in words; nothing for a category."""
        return "" if np.isnan(self.baseline) else f"{self.baseline:.4g}"

    def __str__(self) -> str:
        if self.is_missing:
            return f"{self.name} ({self.shown_value})"
        average = f" (average {self.shown_baseline})" * bool(self.baseline == self.baseline != 0)
        return f"{self.name} = {self.shown_value}{average}"


class Others(NamedTuple):
    """Features that are summed up: their number, and their shares for either class."""

    n_features: int
    for_predicted: float
    for_against: float
    predicted: str
    against: str

    @property
    def share(self) -> float:
        """Their share together."""
        return self.for_predicted + self.for_against

    def __str__(self) -> str:
        held = f"{self.for_predicted:+.2g} for {self.predicted}, "
        held += f"{self.for_against:+.2g} for {self.against}"
        return f"{self.n_features} other features ({held})"


class Cell(NamedTuple):
    """A cell of a table."""

    name: str  # of its column
    value: Any
    is_missing: bool


class NearRow(NamedTuple):
    """A training row near an atom."""

    row: int  # its index in X_train
    label: Any  # None if y_train is not known
    cosine: float  # of the angle between the row and the atom, in the view of the chain


class AtomShare(NamedTuple):
    """The share of one atom."""

    number: int  # index in ``atoms_``, which has the atoms of all chains
    chain: int  # index in ``chains_``
    atom: int  # index in the atoms of the chain
    view: str
    owner: Any  # the class that uses the atom most
    selection_probability: Doubles  # (n_classes,)
    coefficient: float  # in the code of the row
    share: float
    nearest: tuple[NearRow, ...]  # the most similar first; empty if X_train is not known


class RowShare(NamedTuple):
    """The shares of all atoms whose nearest training row is this one."""

    row: int
    label: Any
    share: float
    n_atoms: int


@dataclass(frozen=True, eq=False)
class Explanation(Record):
    """Why a row got its class: the score difference between two classes, taken apart.

    ``difference = constant + shares.sum()``, and the shares of the atoms add up to ``difference``
    as well. See ``docs/explanations.md`` for what shares mean and do not mean.

    Attributes
    ----------
    predicted, against : label
        The predicted class, and the class that it is compared with.
    probability, probability_against : float
        Their probabilities.
    difference : float
        Score of the predicted class minus that of the other, of `decision_function`.
    shares : ndarray of shape (n_features,)
        Share of each feature, for the step from the baseline's value to the row's. Positive shares
        speak for the predicted class.
    constant : float
        The difference of the scores for the baseline.
    spread : float
        The part of the shares that comes from jumps of the score, and not from slopes. The score
        jumps where the atoms change on the way from the baseline to the row. This part is spread
        over the features.
    values : ndarray of shape (n_features,)
        The row; texts where a column holds a category. Missing values are filled, as the model
        fills them.
    missing : ndarray of bool of shape (n_features,)
    baseline : ndarray of shape (n_features,)
        The row that it is compared with, by default the mean of the training rows.
    feature_names : tuple of str
        Names of the features, or "feature 0" and so on.
    classes : ndarray of shape (n_classes,)
    atoms : tuple of AtomShare
        The atoms of all chains that the row uses, with the largest share first.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from dbdl import DBDLClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = DBDLClassifier(n_chains=1, n_sweeps=5, random_state=0).fit(X, y)
    >>> why = model.explain(X[0])
    >>> int(why.predicted), len(why.shares)
    (0, 4)
    >>> bool(abs(why.constant + why.shares.sum() - why.difference) < 1e-6)
    True
    """

    predicted: Any
    against: Any
    probability: float
    probability_against: float
    difference: float
    shares: Doubles
    constant: float
    spread: float
    values: NDArray[Any]
    missing: NDArray[np.bool_]
    baseline: Doubles
    feature_names: tuple[str, ...]
    classes: NDArray[Any]
    atoms: tuple[AtomShare, ...]

    @cached_property
    def features(self) -> tuple[FeatureShare, ...]:
        """The features and their shares, with the largest share first."""
        order = np.argsort(-np.abs(self.shares), kind="stable").tolist()
        values, baseline = self.values.tolist(), self.baseline.tolist()
        return tuple(
            FeatureShare(
                j,
                self.feature_names[j],
                values[j],
                baseline[j],
                float(self.shares[j]),
                bool(self.missing[j]),
            )
            for j in order
        )

    def largest(self, n: int) -> tuple[tuple[FeatureShare, ...], Others | None]:
        """Return the features to show, those with the largest shares, and the sum of the others.

        There are ``n`` features, or up to twice as many until the others together have a smaller
        share than the first. `Others` is None if no feature is left.
        """
        n_shown, most = min(n, len(self.features)), min(2 * n, len(self.features))
        others = float(sum(part.share for part in self.features[n_shown:]))
        while n_shown < most and abs(others) > abs(self.features[0].share):
            others -= self.features[n_shown].share
            n_shown += 1
        n_shown += n_shown == len(self.features) - 1  # one alone need not be summed up
        rest = [part.share for part in self.features[n_shown:]]
        held = Others(
            len(rest),
            float(sum(share for share in rest if share > 0)),
            float(sum(share for share in rest if share < 0)),
            str(self.predicted),
            str(self.against),
        )
        return self.features[:n_shown], held if rest else None

    def in_columns(self, column_of_feature: Sequence[int], columns: Sequence[Cell]) -> Explanation:
        """Return the explanation of a row of a table, whose columns became features.

        A category becomes several features of zeros and ones. Its share is the sum of theirs.

        Parameters
        ----------
        column_of_feature : sequence of int
            The column that each feature came from.
        columns : sequence of Cell
            The name and the value of each column; values of categories are texts.
        """
        features_of = [np.flatnonzero(np.equal(column_of_feature, c)) for c in range(len(columns))]
        values, baseline = [], []
        for cell, own in zip(columns, features_of, strict=True):
            is_number = len(own) == 1 and not isinstance(cell.value, str)
            values.append(self.values[own[0]] if is_number else str(cell.value))
            baseline.append(float(self.baseline[own[0]]) if is_number else np.nan)
        return replace(
            self,
            shares=np.array([self.shares[own].sum() for own in features_of]),
            values=np.array(values, dtype=object),
            baseline=np.array(baseline),
            missing=np.array([cell.is_missing for cell in columns]),
            feature_names=tuple(cell.name for cell in columns),
        )

    @cached_property
    def training_rows(self) -> tuple[RowShare, ...]:
        """Training rows behind the atoms, with the largest share first; empty without X_train.

        An atom counts for the training row that is nearest to it in the view of its chain.
        """
        found: dict[int, RowShare] = {}
        for atom in self.atoms:
            for near in atom.nearest[:1]:
                before = found.get(near.row, RowShare(near.row, near.label, 0.0, 0))
                found[near.row] = RowShare(
                    near.row, near.label, before.share + atom.share, before.n_atoms + 1
                )
        return tuple(sorted(found.values(), key=lambda row: -abs(row.share)))

    @property
    def sentence(self) -> str:
        """The explanation in words; training rows are named by their index."""
        return self.in_words(str)

    def in_words(self, name_of_row: Callable[[int], str]) -> str:
        """Return the explanation in words, with names for the indices of training rows."""
        predicted, against = str(self.predicted), str(self.against)
        parts = [
            f"Predicted {predicted} with a probability of {_percent(self.probability)}, before "
            f"{against} with {_percent(self.probability_against)}."
        ]
        if not self.atoms or abs(self.difference) < LEVEL:
            return f"{parts[0]} The scores of the two classes are equal, so nothing speaks for one."
        parts.append(f"The scores differ by {self.difference:.3g}.")
        best = [part for part in self.features if part.share > 0][:N_FOR]
        worst = [part for part in self.features if part.share < 0][:N_AGAINST]
        if best:
            named = _listed([f"{part} adds {part.share:+.2g}" for part in best])
            parts.append(f"For {predicted}: {named}.")
        if worst:
            named = _listed([f"{part} takes away {-part.share:.2g}" for part in worst])
            parts.append(f"Against {predicted}: {named}.")
        others = self.shares.sum() - sum(part.share for part in best + worst)
        n_others = len(self.shares) - len(best) - len(worst)
        if n_others == 1:
            parts.append(f"The other feature adds {others:+.2g}.")
        elif n_others:
            parts.append(f"The other {n_others} features together add {others:+.2g}.")
        parts.append(f"For {self.baseline_in_words} the scores differ by {self.constant:+.2g}.")
        if self.training_rows:
            rows = self.training_rows[:N_ROWS]
            named = _listed([f"{name_of_row(row.row)}{_label_of(row)}" for row in rows])
            is_one = "training row" if len(rows) == 1 else "training rows"
            parts.append(f"The atoms that decided are most like {is_one} {named}.")
        return " ".join(parts)

    @property
    def has_averages(self) -> bool:
        """Whether the row is compared with the average row, and not with a row of zeros."""
        return bool(self.baseline.any())

    @property
    def headings(self) -> tuple[str, ...]:
        """Headings of a table of features, before those of their shares."""
        return ("feature", "value", "average") if self.has_averages else ("feature", "value")

    @property
    def baseline_in_words(self) -> str:
        """The row that the row is compared with."""
        return "the average row" if self.has_averages else "a row of zeros"

    def __str__(self) -> str:
        return self.sentence

    def __repr__(self) -> str:
        return (
            f"Explanation(predicted={self.predicted!r}, against={self.against!r}, "
            f"difference={self.difference:.3g}, n_features={len(self.shares)}, "
            f"n_atoms={len(self.atoms)})"
        )


def _percent(probability: float) -> str:
    share = 100 * probability
    if share > MOST_PERCENT:
        return f"over {MOST_PERCENT} %"
    return f"{share:.1f} %" if share >= 100 - MOST_PERCENT else f"under {100 - MOST_PERCENT:.1f} %"


def _label_of(row: RowShare) -> str:
    return "" if row.label is None else f" ({row.label})"


def _listed(words: list[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
