"""Folds of rows that are held out, log-loss, and the temperature of probabilities."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from dbdl._threads import run_blocks
from dbdl.coding import Coder
from dbdl.draws import Key, Site, uniforms
from dbdl.model.record import Record
from dbdl.model.state import Classes
from dbdl.model.statistics import Weights
from dbdl.model.trust import Count, Length, NotNegative, Number, Positive, reals

#: The inverse of a smaller sharpness, a temperature, would overflow.
LEAST_SHARPNESS = 1e-300
#: Bounds of the log of the sharpness of scores whose standard deviation is 1.
LOG_SHARPNESS = (-6.0, 8.0)
#: Newton's method ends with a step of the log as small as this: the error is about its square.
CLOSE = 1e-3

SCORES_OVERFLOW = (
    "The scores of rows overflow, so no temperature fits them. Expected label atoms in proportion "
    "to the rows. Scale X, or fit the model again if it comes from a file."
)

Scores = NDArray[np.float64]


class Fold(NamedTuple):
    """Indices of the rows to learn from and of the rows held out."""

    learn: NDArray[np.int64]
    held_out: NDArray[np.int64]

    @classmethod
    def of_all(cls, n_rows: int) -> Self:
        """Return a fold that holds out no row."""
        return cls(np.arange(n_rows), np.empty(0, dtype=np.int64))

    @property
    def name(self) -> bytes:
        """A name that folds of the same rows have in common."""
        return self.held_out.tobytes()


def stratified_folds(
    key: Key,
    class_of_row: Classes,
    n_folds: int,
    wanted: int,
    copy_of: NDArray[np.int64] | None = None,
) -> list[Fold]:
    """Cut rows into folds class by class, and return the first that are ``wanted``.

    If there are copies, ``copy_of`` (n_samples,) has the number of the first row that equals each
    row, and they are in its fold. The only row of a class is never held out, nor are its copies.
    Folds without a row are left out.
    """
    fold_of_row = np.empty(len(class_of_row), dtype=np.int64)
    offset = 0
    for own in _shuffled_classes(key, class_of_row):
        if copy_of is not None:
            own = own[copy_of[own] == own]
        fold_of_row[own] = (np.arange(len(own)) + offset) % n_folds if len(own) > 1 else -1
        offset += len(own)
    if copy_of is not None:
        fold_of_row = fold_of_row[copy_of]
        for c in np.unique(class_of_row):  # rows of two classes may be copies of each other
            own = class_of_row == c
            if np.ptp(fold_of_row[own]) == 0:
                fold_of_row[np.isin(copy_of, copy_of[own])] = -1
    present = np.unique(fold_of_row[fold_of_row >= 0])[:wanted]
    return [
        Fold(np.flatnonzero(fold_of_row != fold), np.flatnonzero(fold_of_row == fold))
        for fold in present
    ]


def sample_of_classes(key: Key, class_of_row: Classes, most: int) -> NDArray[np.int64]:
    """Draw rows, the same share of each class and at least one: about ``most``, or all rows."""
    share = min(most / len(class_of_row), 1.0)
    drawn = [own[: math.ceil(share * len(own))] for own in _shuffled_classes(key, class_of_row)]
    return np.sort(np.concatenate(drawn))


def _shuffled_classes(key: Key, class_of_row: Classes) -> Iterator[NDArray[np.int64]]:
    """Yield the rows of each class in random order; classes by their first rows."""
    draw = uniforms(key, Site.FOLD, np.arange(len(class_of_row)), 0)
    classes, first = np.unique(class_of_row, return_index=True)
    for c in classes[np.argsort(first)]:
        own = np.flatnonzero(class_of_row == c)
        yield own[np.argsort(draw[own], kind="stable")]


def log_loss(
    scores: Scores, class_of_row: Classes, sharpness: float, sample_weight: Weights = None
) -> float:
    """Mean of -log softmax(sharpness * scores) at the true classes."""
    below = _below_largest(scores)
    true = below[np.arange(len(below)), class_of_row]
    true_mean = float(np.average(true, weights=sample_weight))
    return _mean_log_sum(below, sharpness, sample_weight) - sharpness * true_mean


def log_losses(scores: Scores, class_of_row: Classes, sharpness: float) -> Scores:
    """-log softmax(sharpness * scores) of each row at its true class, (n_rows,)."""
    logs = log_probabilities(sharpness * scores)
    return -logs[np.arange(len(logs)), class_of_row]


def log_probabilities(scores: Scores) -> Scores:
    """Logarithm of the softmax of scores (n_rows, n_classes); quicker than SciPy for few rows."""
    below = _below_largest(scores)
    logs: Scores = below - np.log(np.exp(below).sum(axis=1, keepdims=True))
    return logs


def _below_largest(scores: Scores) -> Scores:
    """Scores minus the largest of their row, so that exponentials do not overflow."""
    return scores - scores.max(axis=1, keepdims=True)


def _mean_log_sum(below: Scores, sharpness: float, sample_weight: Weights) -> float:
    """Mean over rows of log sum exp(sharpness * below)."""
    return _mean_of_rows(np.log(_row_sums(np.exp(sharpness * below))), sample_weight)


def _row_sums(values: Scores) -> Scores:
    sums: Scores = np.einsum("ic->i", values)  # faster than `sum` along short rows
    return sums


def _mean_of_rows(values: Scores, sample_weight: Weights) -> float:
    return float(np.average(values, weights=sample_weight))


def total_weight(n_rows: int, sample_weight: Weights) -> float:
    """Number of rows, a row of weight w counted w times."""
    return float(n_rows) if sample_weight is None else float(sample_weight.sum())


def accuracy_of(scores: Scores, class_of_row: Classes, sample_weight: Weights) -> float:
    """Share of rows whose largest score is that of their class."""
    return float(np.average(scores.argmax(axis=1) == class_of_row, weights=sample_weight))


def by_class(
    true: NDArray[Any], predicted: NDArray[Any], sample_weight: Weights = None
) -> dict[str, float]:
    """Balanced accuracy and macro F1: means over classes, each counted alike."""
    from sklearn.metrics import balanced_accuracy_score, f1_score  # slow to import

    with warnings.catch_warnings():  # a predicted class may have no row here
        warnings.simplefilter("ignore")
        balanced = balanced_accuracy_score(true, predicted, sample_weight=sample_weight)
        f1 = f1_score(
            true, predicted, average="macro", sample_weight=sample_weight, zero_division=0
        )
    return {"balanced_accuracy": float(balanced), "macro_f1": float(f1)}


def fit_sharpness(
    scores: Scores,
    class_of_row: Classes,
    sample_weight: Weights = None,
    start: float | None = None,
) -> float:
    """Inverse temperature of the softmax with the least log-loss.

    The labels are smoothed as if one more row with a random label had been seen. Otherwise the
    sharpness would be infinite if all rows are classified correctly. ``start`` is a guess, such as
    the sharpness of similar scores.
    """
    smoothing = 1.0 / (total_weight(len(scores), sample_weight) + 1.0)
    with np.errstate(over="ignore", invalid="ignore"):
        spread = float(scores.std()) or 1.0
    if not np.isfinite(spread):
        raise ValueError(SCORES_OVERFLOW)
    below = _below_largest(scores) / spread
    true = below[np.arange(len(below)), class_of_row]
    labelled = (1 - smoothing) * true + smoothing * _row_sums(below) / below.shape[1]
    wanted = -_mean_of_rows(labelled, sample_weight)
    guess = 0.0 if start is None else float(np.log(start) + np.log(spread))
    return float(np.exp(_log_sharpness(below, wanted, sample_weight, guess))) / spread


def _log_sharpness(below: Scores, wanted: float, sample_weight: Weights, guess: float) -> float:
    """Solve for the log of the sharpness at which scores are expected to be as wanted.

    At the least log-loss, scores are expected to be as far below the largest of their row as those
    of the labels are. The log of this gap is almost a line in the log of the sharpness, so that
    Newton's method takes few steps. Bisection takes over where it leaves the bracket.
    """
    low, high = LOG_SHARPNESS
    now = min(max(guess, low), high)
    while high - low > CLOSE:
        gap, slope = _expected_gap(below, float(np.exp(now)), sample_weight)
        low, high = (now, high) if gap > wanted else (low, now)
        step = np.log(gap / wanted) * gap / slope if slope > 0 < gap and wanted > 0 else np.inf
        before, now = now, now + step
        if not low <= now <= high:
            now = (low + high) / 2
        elif abs(now - before) < CLOSE:
            break
    return now


def _expected_gap(below: Scores, sharpness: float, sample_weight: Weights) -> tuple[float, float]:
    """How far scores are expected to be below the largest of their row, and how fast that falls.

    The second is minus the derivative by the log of the sharpness.
    """
    share = np.multiply(below, sharpness)
    np.exp(share, out=share)
    total = _row_sums(share)
    share *= below
    mean = _row_sums(share) / total
    square = np.einsum("ic,ic->i", share, below) / total
    variance = _mean_of_rows(square - mean**2, sample_weight)
    return -_mean_of_rows(mean, sample_weight), sharpness * variance


def to_probabilities(scores: Scores, sharpness: float) -> Scores:
    """Softmax of the sharpened scores, (n_samples, n_classes)."""
    return softmax(sharpness * scores, axis=1)


class Figures(NamedTuple):
    """Results of an ensemble on rows left out."""

    accuracy: float
    log_loss: float
    balanced_accuracy: float
    macro_f1: float

    def pooled(self, before: Figures | None, share: float) -> Figures:
        """Mean with earlier results, if there are any; these here have a share below 1."""
        if before is None:
            return self
        pairs = zip(self, before, strict=True)
        return Figures(*(share * now + (1 - share) * old for now, old in pairs))


@dataclass(frozen=True)
class HeldOutChoice(Record):
    """Accuracy and log-loss of every coder on the held-out rows, and the best of them.

    Rows that several members of an ensemble left out count once for each of them. Rows with weights
    have them here too, except in ``n_rows``.

    Attributes
    ----------
    coders : tuple of Coder
        Coders tried.
    accuracy, log_loss : ndarray of shape (n_coders,)
        On the held-out rows; the log-loss after fitting the sharpness.
    best : int
        Index of the chosen coder, which has the least log-loss.
    sharpness : float
        Inverse temperature for the chosen coder.
    n_rows : int
        Number of held-out rows.
    every_sharpness : ndarray of shape (n_coders,)
        Inverse temperature for each coder.
    view_log_loss, view_sharpness : ndarray of shape (n_views, n_coders)
        The same for the members of each view.
    ensemble_accuracy, ensemble_log_loss, ensemble_balanced_accuracy, ensemble_macro_f1 : float \
or None
        Results of an ensemble with the coders that were chosen: each row is scored by the members
        that left it out, with weights that other rows have chosen. Balanced accuracy and macro F1
        are means over classes. None if the scores above are not those of single members.
    """

    coders: Annotated[tuple[Coder, ...], Length("n_coders")]
    accuracy: Annotated[NDArray[np.float64], reals("n_coders")]
    log_loss: Annotated[NDArray[np.float64], reals("n_coders")]
    best: Count
    sharpness: Positive
    n_rows: Count
    every_sharpness: Annotated[NDArray[np.float64], reals("n_coders", least=LEAST_SHARPNESS)]
    view_log_loss: Annotated[NDArray[np.float64], reals("n_views", "n_coders")]
    view_sharpness: Annotated[
        NDArray[np.float64], reals("n_views", "n_coders", least=LEAST_SHARPNESS)
    ]
    ensemble_accuracy: Annotated[float, Number(least=0, most=1)] | None = None
    ensemble_log_loss: NotNegative | None = None
    ensemble_balanced_accuracy: Annotated[float, Number(least=0, most=1)] | None = None
    ensemble_macro_f1: Annotated[float, Number(least=0, most=1)] | None = None

    def faults(self) -> Iterator[str]:
        """Report an index of the best coder that is out of range, and results of no view."""
        if self.best >= len(self.coders):
            yield f"best is {self.best}, but there are {len(self.coders)} coders"
        if not len(self.view_log_loss):
            yield "view_log_loss has no view"

    @property
    def coder(self) -> Coder:
        """The chosen coder."""
        return self.coders[self.best]

    @property
    def ensemble(self) -> Figures | None:
        """Results of the ensemble."""
        found = (
            self.ensemble_accuracy, self.ensemble_log_loss, self.ensemble_balanced_accuracy,
            self.ensemble_macro_f1,
        )  # fmt: skip
        return None if None in found else Figures(*found)  # type: ignore[arg-type]

    def with_ensemble(self, figures: Figures) -> HeldOutChoice:
        """Return the results of the coders with those of the ensemble."""
        return replace(
            self,
            ensemble_accuracy=figures.accuracy,
            ensemble_log_loss=figures.log_loss,
            ensemble_balanced_accuracy=figures.balanced_accuracy,
            ensemble_macro_f1=figures.macro_f1,
        )


def choose_coder(
    coders: Sequence[Coder],
    views: Sequence[Sequence[Scores]],
    classes: Sequence[Classes],
    weights: Sequence[Weights] | None = None,
    n_threads: int = 1,
) -> HeldOutChoice:
    """Choose among coders by the log-loss of held-out scores.

    Each view has one array (n_rows, n_classes) of scores per coder, and the classes of its rows;
    maybe also their weights.
    """
    weights = [None] * len(views) if weights is None else weights
    parts = list(zip(views, classes, weights, strict=True))
    own = run_blocks(lambda part: _losses(*part), parts, n_threads)
    class_of_row, weight = np.concatenate(classes), join_weights(weights)

    def of_all(k: int) -> tuple[float, float, float]:
        """Sharpness, log-loss and accuracy of a coder on the rows of all views."""
        scores = np.concatenate([every[k] for every in views])
        guess = float(np.median([sharpness[k] for _, sharpness in own]))
        sharpness = fit_sharpness(scores, class_of_row, weight, guess)
        loss = log_loss(scores, class_of_row, sharpness, weight)
        return sharpness, loss, accuracy_of(scores, class_of_row, weight)

    results = run_blocks(of_all, range(len(coders)), n_threads)
    sharpness, losses, accuracy = np.array(results).T
    best = int(np.argmin(losses))
    return HeldOutChoice(
        coders=tuple(coders),
        accuracy=accuracy,
        log_loss=losses,
        best=best,
        sharpness=float(sharpness[best]),
        n_rows=len(class_of_row),
        every_sharpness=sharpness,
        view_log_loss=np.array([losses for losses, _ in own]),
        view_sharpness=np.array([sharpness for _, sharpness in own]),
    )


def join_weights(parts: Sequence[Weights]) -> Weights:
    """Weights of several sets of rows, all with weights or all without."""
    known = [part for part in parts if part is not None]
    return np.concatenate(known) if known else None


def _losses(
    scores: Sequence[Scores], class_of_row: Classes, sample_weight: Weights
) -> tuple[Scores, Scores]:
    """Log-loss by each coder after fitting the sharpness, and the sharpness."""
    sharpness: list[float] = []
    for own in scores:
        start = sharpness[-1] if sharpness else None  # coders differ little from the one before
        sharpness.append(fit_sharpness(own, class_of_row, sample_weight, start))
    losses = [
        log_loss(s, class_of_row, b, sample_weight) for s, b in zip(scores, sharpness, strict=True)
    ]
    return np.array(losses), np.array(sharpness)
