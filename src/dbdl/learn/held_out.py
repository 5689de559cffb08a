"""Choices made on rows that a dictionary never saw, and calibrated probabilities.

Three quarters of the training rows start as atoms themselves, so training rows re-encoded over
the dictionary say nothing about new rows. Pilot chains leave a part of the rows out
entirely; those rows choose the number of non-zeros, which decides more than any other
parameter, the rule that finds them, and the temperature of the probabilities. A greedy path holds
the codes of every smaller number of non-zeros, so one pass scores them all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Annotated, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import softmax

from dbdl.coding.omp import Selection
from dbdl.draws import Key, Site, uniforms
from dbdl.model.record import Record
from dbdl.model.trust import AtLeastOne, Count, Length, Positive, reals

Scores = NDArray[np.float64]
Classes = NDArray[np.int64]

#: Numbers of non-zeros that are tried, at nearly equal ratios, up to half the features.
LENGTHS: tuple[int, ...] = (1, 2, 3, 4, 5, 7, 10, 14, 20, 28, 40, 56, 80, 112)
#: A mean along the path starts at this part of its length.
PATH_START = 0.25
#: How the atoms of a code are found: by a rule of matching pursuit, or along the lasso's path.
Rule = Selection | Literal["lasso"]
#: Rules of matching pursuit, and all that are tried.
GREEDY: tuple[Rule, ...] = ("forward", "orthogonal")
SELECTIONS: tuple[Rule, ...] = (*GREEDY, "lasso")


def lengths_for(n_features: int) -> list[int]:
    """Numbers of non-zeros worth trying: up to half the features, and up to 4 of few features."""
    most = max(n_features // 2, min(n_features, 4))
    return [n for n in LENGTHS if n <= most]


class Coder(NamedTuple):
    """A rule that selects atoms, its number of non-zeros, and whether its path is averaged.

    The last atoms of a greedy path have the least certain coefficients. The mean of the codes
    along the path, from a quarter of its length on, shrinks them towards zero, at no cost. The
    lasso shrinks all coefficients by itself.
    """

    selection: Rule
    n_nonzero: AtLeastOne
    path_average: bool = False

    @property
    def lengths(self) -> tuple[int, ...]:
        """Numbers of non-zeros along the path whose codes are averaged."""
        if not self.path_average:
            return (self.n_nonzero,)
        start = PATH_START * self.n_nonzero
        return (*(n for n in LENGTHS if start <= n < self.n_nonzero), self.n_nonzero)

    def __str__(self) -> str:
        if self.selection == "lasso":
            return "the lasso's path"
        return f"{self.selection} pursuit{', averaged along its path' * self.path_average}"


def every_coder(
    lengths: Sequence[int],
    selections: Sequence[Rule] = SELECTIONS,
    path_averages: Sequence[bool] = (False, True),
) -> list[Coder]:
    """Return all coders that may be chosen; of equal losses the first is taken.

    Codes along the lasso's path change slowly, and each length costs a path of its own: beside
    other rules every second length is tried.
    """
    greedy = [rule for rule in selections if rule in GREEDY]
    coders = [Coder(*choice) for choice in product(greedy, lengths, path_averages)]
    if "lasso" in selections and False in path_averages:
        every = 2 if greedy and len(lengths) > 1 else 1
        coders += [Coder("lasso", n) for n in lengths[every - 1 :: every]]
    return coders


class Fold(NamedTuple):
    """Row numbers to learn from and row numbers left out."""

    learn: NDArray[np.int64]
    held_out: NDArray[np.int64]


def stratified_folds(
    key: Key, class_of_row: Classes, n_folds: int, most_rows: int
) -> Iterator[Fold]:
    """Cut rows into folds class by class; a row alone in its class is never left out.

    Of more than ``most_rows`` rows, a part in proportion takes part.
    """
    rank = np.empty(len(class_of_row), dtype=np.int64)
    draw = uniforms(key, Site.FOLD, np.arange(len(class_of_row)), 0)
    share = min(1.0, most_rows / len(class_of_row))
    taking_part = np.zeros(len(class_of_row), dtype=bool)
    fold_of_row = np.empty(len(class_of_row), dtype=np.int64)
    offset = 0
    for c in _classes_by_first_row(class_of_row):
        own = np.flatnonzero(class_of_row == c)
        rank[own[np.argsort(draw[own], kind="stable")]] = np.arange(len(own))
        taking_part[own] = rank[own] < max(int(np.ceil(share * len(own))), min(2, len(own)))
        fold_of_row[own] = (rank[own] + offset) % n_folds if len(own) > 1 else -1
        offset += len(own)
    for fold in range(n_folds):
        held_out = taking_part & (fold_of_row == fold)
        if held_out.any():
            yield Fold(np.flatnonzero(taking_part & ~held_out), np.flatnonzero(held_out))


def _classes_by_first_row(class_of_row: Classes) -> Classes:
    classes, first = np.unique(class_of_row, return_index=True)
    return classes[np.argsort(first)]


def log_loss(scores: Scores, class_of_row: Classes, sharpness: float) -> float:
    """Mean of -log softmax(sharpness * scores) at the true classes."""
    below = _below_largest(scores)
    true = below[np.arange(len(below)), class_of_row]
    return _mean_log_sum(below, sharpness) - sharpness * float(true.mean())


def _below_largest(scores: Scores) -> Scores:
    """Scores less the largest of their row: no exponential of these overflows."""
    below: Scores = scores - scores.max(axis=1, keepdims=True)
    return below


def _mean_log_sum(below: Scores, sharpness: float) -> float:
    """Mean over rows of log sum exp(sharpness * below)."""
    return float(np.log(np.exp(sharpness * below).sum(axis=1)).mean())


def fit_sharpness(scores: Scores, class_of_row: Classes) -> float:
    """Inverse temperature of the softmax with the least log-loss.

    The labels are smoothed as if one row more had been seen with a label at random: rows that
    are all classified right would otherwise ask for an infinite sharpness.
    """
    smoothing = 1.0 / (len(scores) + 1.0)
    spread = float(scores.std()) or 1.0
    below = _below_largest(scores)
    true = float(below[np.arange(len(below)), class_of_row].mean())
    labelled = (1 - smoothing) * true + smoothing * float(below.mean())

    def loss(log_sharpness: float) -> float:
        sharpness = np.exp(log_sharpness) / spread
        return _mean_log_sum(below, sharpness) - sharpness * labelled

    best = minimize_scalar(loss, bounds=(-6.0, 8.0), method="bounded")
    return float(np.exp(best.x)) / spread


def to_probabilities(scores: Scores, sharpness: float) -> Scores:
    """Softmax of the sharpened scores, (n_samples, n_classes)."""
    probabilities: Scores = softmax(sharpness * scores, axis=1)
    return probabilities


@dataclass(frozen=True)
class HeldOutChoice(Record):
    """What the held-out rows said.

    Attributes
    ----------
    coders : tuple of Coder
        Coders tried.
    accuracy, log_loss : ndarray of shape (n_coders,)
        On the held-out rows; the log-loss after fitting the sharpness.
    best : int
        Number of the chosen coder: the one with the least log-loss.
    sharpness : float
        Inverse temperature for the chosen coder.
    n_rows : int
        Number of held-out rows.
    every_sharpness : ndarray of shape (n_coders,)
        Inverse temperature for each coder.
    """

    coders: Annotated[tuple[Coder, ...], Length("n_coders")]
    accuracy: Annotated[NDArray[np.float64], reals("n_coders")]
    log_loss: Annotated[NDArray[np.float64], reals("n_coders")]
    best: Count
    sharpness: Positive
    n_rows: Count
    every_sharpness: Annotated[NDArray[np.float64], reals("n_coders", least=0)]

    def faults(self) -> Iterator[str]:
        """Say where the best coder is not one of them."""
        if self.best >= len(self.coders):
            yield f"best is {self.best}, but there are {len(self.coders)} coders"

    @property
    def coder(self) -> Coder:
        """The chosen coder."""
        return self.coders[self.best]


def choose(coders: Sequence[Coder], scores: list[Scores], class_of_row: Classes) -> HeldOutChoice:
    """Choose among coders by the log-loss of held-out scores, one array each."""
    sharpness = [fit_sharpness(s, class_of_row) for s in scores]
    losses = np.array(
        [log_loss(s, class_of_row, b) for s, b in zip(scores, sharpness, strict=True)]
    )
    best = int(np.argmin(losses))
    return HeldOutChoice(
        coders=tuple(coders),
        accuracy=np.array([(s.argmax(axis=1) == class_of_row).mean() for s in scores]),
        log_loss=losses,
        best=best,
        sharpness=sharpness[best],
        n_rows=len(class_of_row),
        every_sharpness=np.array(sharpness),
    )
