"""Why a row got its class: the record that `DBDLClassifier.explain` returns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dbdl.model.record import Record

Doubles = NDArray[np.float64]

#: Features that the sentence names for and against the predicted class.
N_FOR, N_AGAINST = 3, 1
#: Training rows that the sentence names.
N_ROWS = 3
#: Probabilities above this, and below what is left of 100, are not given in figures.
MOST_PERCENT = 99.9
#: Differences of scores below this are rounding.
LEVEL = 1e-12


class FeatureShare(NamedTuple):
    """The share of one feature."""

    number: int
    name: str
    value: float  # as the model sees it: filled if it is missing
    baseline: float
    share: float
    is_missing: bool

    def __str__(self) -> str:
        if self.is_missing:
            return f"{self.name} (missing, filled with {self.value:.4g})"
        average = f" (average {self.baseline:.4g})" if self.baseline else ""
        return f"{self.name} = {self.value:.4g}{average}"


class NearRow(NamedTuple):
    """A training row near an atom."""

    row: int  # its index in X_train
    label: Any  # None if y_train is not known
    cosine: float  # of the angle between the row and the atom, in the view of the chain


class AtomShare(NamedTuple):
    """The share of one atom."""

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
        The part of the shares that is not from slopes but from jumps of the score where the atoms
        change on the way from the baseline to the row. It is spread over the features.
    values : ndarray of shape (n_features,)
        The row. Missing values are filled, as the model fills them.
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
    values: Doubles
    missing: NDArray[np.bool_]
    baseline: Doubles
    feature_names: tuple[str, ...]
    classes: NDArray[Any]
    atoms: tuple[AtomShare, ...]

    @cached_property
    def features(self) -> tuple[FeatureShare, ...]:
        """The features and their shares, with the largest share first."""
        order = np.argsort(-np.abs(self.shares), kind="stable").tolist()
        return tuple(
            FeatureShare(
                j,
                self.feature_names[j],
                float(self.values[j]),
                float(self.baseline[j]),
                float(self.shares[j]),
                bool(self.missing[j]),
            )
            for j in order
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
        """The explanation in words."""
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
            named = _listed([f"{part} adds {part.share:+.2g}" for part in worst])
            parts.append(f"For {against}: {named}.")
        others = self.shares.sum() - sum(part.share for part in best + worst)
        n_others = len(self.shares) - len(best) - len(worst)
        if n_others:
            parts.append(f"The other {n_others} features together add {others:+.2g}.")
        whose = "the average row" if self.baseline.any() else "a row of zeros"
        parts.append(f"For {whose} the scores differ by {self.constant:+.2g}.")
        if self.training_rows:
            named = _listed([_row_in_words(row) for row in self.training_rows[:N_ROWS]])
            parts.append(f"The atoms that decided are most like {named}.")
        return " ".join(parts)

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


def _row_in_words(row: RowShare) -> str:
    label = "" if row.label is None else f" ({row.label})"
    return f"training row {row.row}{label}"


def _listed(words: list[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
