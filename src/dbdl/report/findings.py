"""A classifier's answers on test rows as numbers: accuracy, confusion, calibration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix
from scipy.stats import binomtest
from sklearn.metrics import confusion_matrix
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

from dbdl.estimators.classifier import DBDLClassifier
from dbdl.experiments.measure import N_BINS, probability_figures
from dbdl.learn.held_out import to_probabilities

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


@dataclass(frozen=True)
class Findings:
    """A fitted classifier and its answers on test rows.

    Attributes
    ----------
    model : DBDLClassifier
    names : list of str
        Names of the classes, in the order of ``classes_``.
    rows : ndarray of shape (n_samples, n_features)
        Test rows as passed to the classifier.
    true : ndarray of shape (n_samples,)
        Class numbers.
    codes : csr_matrix of shape (n_samples, n_atoms)
    """

    model: DBDLClassifier
    names: list[str]
    rows: NDArray[Any]
    true: Classes
    codes: csr_matrix

    @cached_property
    def label_atoms(self) -> Floats:
        """Label atoms (n_atoms, n_classes): ``codes @ label_atoms`` are the scores.

        Two classes share one column of the model's ``label_atoms_``; here each has half of it.
        """
        shared: Floats = self.model.label_atoms_
        return shared if shared.shape[1] > 1 else np.hstack([-shared / 2, shared / 2])

    @cached_property
    def scores(self) -> Floats:
        """Scores (n_samples, n_classes)."""
        return self.codes @ self.label_atoms

    @cached_property
    def probability(self) -> Floats:
        """Probabilities (n_samples, n_classes)."""
        return to_probabilities(self.scores, 1.0 / self.model.temperature_)

    @cached_property
    def confidence(self) -> Floats:
        """The highest probability of each row (n_samples,)."""
        return np.max(self.probability, axis=1)

    @cached_property
    def predicted(self) -> Classes:
        """Class numbers (n_samples,)."""
        return np.argmax(self.scores, axis=1)

    @cached_property
    def correct(self) -> NDArray[np.bool_]:
        """Whether each row is classified correctly (n_samples,)."""
        return np.equal(self.true, self.predicted)

    @property
    def accuracy(self) -> float:
        """Share of rows that are classified correctly."""
        return float(self.correct.mean())

    @property
    def interval(self) -> tuple[float, float]:
        """Interval of the accuracy."""
        return share_interval(int(self.correct.sum()), len(self.true))

    @cached_property
    def confusion(self) -> Classes:
        """Counts (n_classes, n_classes); rows are true classes."""
        return confusion_matrix(self.true, self.predicted, labels=np.arange(len(self.names)))

    @cached_property
    def _probability_figures(self) -> dict[str, float]:
        return probability_figures(self.probability, np.arange(len(self.names)), self.true)

    @property
    def log_loss(self) -> float:
        """Mean negative log probability of the true class."""
        return self._probability_figures["log_loss"]

    @property
    def calibration_error(self) -> float:
        """Mean gap between confidence and accuracy over bins of confidence."""
        return self._probability_figures["calibration_error"]

    @cached_property
    def first_atoms(self) -> Classes:
        """Number of the first atom of each chain among all atoms, and the number of all atoms."""
        return np.cumsum([0, *(len(chain.atoms) for chain in self.model.chains_)])

    @property
    def chain_accuracy(self) -> list[float]:
        """Accuracy of each chain on its own."""
        chains = zip(self.model.chains_, self.first_atoms, self.first_atoms[1:], strict=False)
        scores = [self.codes[:, start:end] @ chain.label_atoms for chain, start, end in chains]
        return [float((own.argmax(axis=1) == self.true).mean()) for own in scores]

    def bins(self) -> list[Bin]:
        """Return the bins of the reliability diagram that contain rows."""
        number = np.minimum((self.confidence * N_BINS).astype(int), N_BINS - 1)
        return [self._bin(b, number == b) for b in np.unique(number)]

    def _bin(self, number: int, own: NDArray[np.bool_]) -> Bin:
        n_correct, n = int(self.correct[own].sum()), int(own.sum())
        confidence, interval = float(self.confidence[own].mean()), share_interval(n_correct, n)
        low, high = number / N_BINS, (number + 1) / N_BINS
        return Bin(low, high, n, confidence, n_correct / n, interval)


def share_interval(n_correct: int, n: int) -> tuple[float, float]:
    """Return the Wilson interval of a share, which stays within 0 and 1 for few rows too."""
    if n == 0:
        return (0.0, 1.0)
    low, high = binomtest(n_correct, n).proportion_ci(LEVEL, method="wilson")
    return float(low), float(high)


def last_step(model: Any, X: ArrayLike) -> tuple[DBDLClassifier, Any]:
    """Return a classifier and its rows; for a pipeline, its last step and the rows it gets."""
    if isinstance(model, Pipeline):
        X = model[:-1].transform(X) if len(model.steps) > 1 else X
        model = model[-1]
    if not isinstance(model, DBDLClassifier):
        raise TypeError(
            f"a report needs a DBDLClassifier, alone or at the end of a pipeline, but model is a "
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
    """Encode test rows and check their labels.

    Parameters
    ----------
    model : DBDLClassifier
        Fitted.
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
        Labels that the model has seen.
    class_names : sequence or mapping, optional
        Names in the order of ``classes_``, or by label.
    """
    rows, labels = np.asarray(X), column_or_1d(y)
    check_consistent_length(rows, labels)
    true = _class_numbers(labels, model.classes_)
    names = names_of_classes(model.classes_, class_names)
    return Findings(model, names, rows, true, model.transform(X))


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
