"""A classifier's answers on test rows as numbers: accuracy, confusion, calibration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix, issparse
from scipy.stats import binomtest
from sklearn.base import is_classifier
from sklearn.metrics import confusion_matrix
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

from dbdl.estimators.classifier import DBDLClassifier
from dbdl.experiments.measure import N_BINS, UNBALANCED, class_ratio, probability_figures
from dbdl.learn.held_out import by_class, to_probabilities
from dbdl.learn.link import bent

Floats = NDArray[np.float64]
Classes = NDArray[np.int64]

#: Confidence of the intervals.
LEVEL = 0.95


class Bin(NamedTuple):
    """Rows whose highest probability lies between two bounds."""

    low: float
    high: float
    n_rows: int
    confidence: float
    accuracy: float
    interval: tuple[float, float]


class Answers:
    """A classifier's answers on test rows: class numbers, and probabilities where there are any.

    ``names`` are those of the classes, in the order of ``classes_``; ``true`` and ``predicted``
    (n_samples,) are class numbers, and ``probability`` (n_samples, n_classes). Without
    probabilities, ``confidence`` (n_samples,), the log-loss and the calibration error are NaN.
    """

    def __init__(
        self, names: list[str], true: Classes, predicted: Classes, probability: Floats | None
    ) -> None:
        self.names, self.true, self.predicted = names, true, predicted
        classes = np.arange(len(names))
        self.has_probabilities = probability is not None
        self.probability = np.full((len(true), 1), np.nan) if probability is None else probability
        self.confidence = self.probability.max(axis=1)
        self.correct = self.predicted == true
        self.accuracy = float(self.correct.mean())
        means = by_class(true, self.predicted)
        self.balanced_accuracy, self.macro_f1 = means["balanced_accuracy"], means["macro_f1"]
        self.is_unbalanced = class_ratio(true) >= UNBALANCED
        self.interval = share_interval(int(self.correct.sum()), len(true))
        #: Share of the most frequent class of the test rows: what always naming it would reach.
        self.majority = float(np.bincount(true).max() / len(true))
        # counts (n_classes, n_classes); rows are true classes
        self.confusion: Classes = confusion_matrix(true, self.predicted, labels=classes)
        figures = dict.fromkeys(("log_loss", "calibration_error", "calibration_floor"), np.nan)
        if probability is not None:
            figures = probability_figures(probability, classes, true)
        self.log_loss, self.calibration_error = figures["log_loss"], figures["calibration_error"]
        #: The calibration error that perfect probabilities would have on as many rows, by chance.
        self.calibration_floor = figures["calibration_floor"]

    def bins(self) -> list[Bin]:
        """Return the bins of the reliability diagram that contain rows."""
        number, found = np.minimum((self.confidence * N_BINS).astype(int), N_BINS - 1), []
        for b in np.unique(number).tolist():
            correct, confidence = self.correct[number == b], self.confidence[number == b]
            n_correct, n, mean = int(correct.sum()), len(correct), float(confidence.mean())
            interval = share_interval(n_correct, n)
            found.append(Bin(b / N_BINS, (b + 1) / N_BINS, n, mean, n_correct / n, interval))
        return found


class Findings(Answers):
    """The answers of a `DBDLClassifier` on test rows (n_samples, n_features), with their codes.

    ``scores`` have shape (n_samples, n_classes).
    """

    def __init__(self, model: Any, names: list[str], rows: ArrayLike, true: Classes) -> None:
        self.model, self.rows = model, np.asarray(rows)
        self.codes = _sparse(model.transform(rows))
        # two classes share one column of the model's label atoms; here each has half of it
        shared: Floats = model.label_atoms_
        self.label_atoms = shared if shared.shape[1] > 1 else np.hstack([-shared / 2, shared / 2])
        self.scores: Floats = self.codes @ self.label_atoms
        probability = to_probabilities(bent(self.scores, model.bend_), 1.0 / model.temperature_)
        super().__init__(names, true, self.scores.argmax(axis=1), probability)
        ends = pairwise(np.cumsum([0, *(len(chain.atoms) for chain in model.chains_)]))
        self.chain_accuracy = [  # of each chain on its own
            float(((self.codes[:, a:b] @ chain.label_atoms).argmax(axis=1) == true).mean())
            for chain, (a, b) in zip(model.chains_, ends, strict=True)
        ]


def _sparse(codes: Any) -> csr_matrix:
    """Return codes that may be in an array or a data frame, if the model was asked for that."""
    return codes if issparse(codes) else csr_matrix(np.asarray(codes))


def share_interval(n_correct: int, n: int) -> tuple[float, float]:
    """Return the Wilson interval of a share, which stays within 0 and 1 for few rows too."""
    if n == 0:
        return (0.0, 1.0)
    low, high = binomtest(n_correct, n).proportion_ci(LEVEL, method="wilson")
    return float(low), float(high)


def last_step(model: Any, X: ArrayLike) -> tuple[Any, Any]:
    """Return a classifier and its rows; for a pipeline, its last step and the rows it gets."""
    if isinstance(model, Pipeline):
        X = model[:-1].transform(X) if len(model.steps) > 1 else X
        model = model[-1]
    if not is_classifier(model):
        raise TypeError(
            f"a report needs a classifier, alone or at the end of a pipeline, but model is a "
            f"{type(model).__name__}"
        )
    check_is_fitted(model)
    return model, X


def examine(
    model: DBDLClassifier,
    X: ArrayLike,
    y: ArrayLike,
    class_names: Sequence[object] | Mapping[Any, object] | None = None,
) -> Findings:
    """Classify test rows (n_samples, n_features) and compare the answers with their labels.

    The model has seen these labels. Names are in the order of ``classes_``, or by label.
    """
    names, true = _names_and_classes(model, X, y, class_names)
    return Findings(model, names, X, true)


def examine_answers(
    model: Any,
    X: ArrayLike,
    y: ArrayLike,
    class_names: Sequence[object] | Mapping[Any, object] | None = None,
) -> Answers:
    """Do as `examine` for any classifier, from its predictions and its probabilities, if any."""
    names, true = _names_and_classes(model, X, y, class_names)
    predicted = _class_numbers(column_or_1d(model.predict(X)), model.classes_)
    probability = model.predict_proba(X) if hasattr(model, "predict_proba") else None
    return Answers(names, true, predicted, probability)


def _names_and_classes(
    model: Any,
    X: ArrayLike,
    y: ArrayLike,
    class_names: Sequence[object] | Mapping[Any, object] | None,
) -> tuple[list[str], Classes]:
    labels = column_or_1d(y)
    check_consistent_length(X, labels)
    true = _class_numbers(labels, model.classes_)
    return names_of_classes(model.classes_, class_names), true


def names_of_classes(
    classes: NDArray[Any], given: Sequence[object] | Mapping[Any, object] | None
) -> list[str]:
    """Return a name for each class: the given one, or the label itself."""
    if given is None:
        return [str(label) for label in classes]
    if isinstance(given, Mapping):
        return [str(given.get(label, label)) for label in classes.tolist()]
    if len(given) != len(classes):
        raise ValueError(
            f"class_names has {len(given)} names, but the model has {len(classes)} classes. "
            f"Expected one name per class in the order of classes_: {classes.tolist()[:10]}..."
        )
    return [str(name) for name in given]


def _class_numbers(labels: NDArray[Any], classes: NDArray[Any]) -> Classes:
    if len(labels) == 0:
        raise ValueError("there are no test rows; a report needs at least one")
    number = {label: c for c, label in enumerate(classes.tolist())}
    unknown = sorted({str(label) for label in labels.tolist() if label not in number})
    if unknown:
        raise ValueError(
            f"y_test has labels that the model never saw: {', '.join(unknown[:5])}. Expected "
            f"labels such as {', '.join(map(str, classes[:5]))}; leave other rows out."
        )
    return np.array([number[label] for label in labels.tolist()], dtype=np.int64)
