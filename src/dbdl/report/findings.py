"""What a classifier does on test rows, as numbers: accuracy, confusion, calibration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix
from scipy.stats import norm
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

from dbdl.estimators.classifier import DBDLClassifier
from dbdl.experiments.measure import N_BINS, probability_figures
from dbdl.learn.held_out import to_probabilities
from dbdl.learn.members import Member

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
    """What is seen on the test rows.

    Attributes
    ----------
    names : list of str
        Of the classes, in the order of ``classes_``.
    rows : ndarray of shape (n_samples, n_features)
        Test rows as the classifier got them.
    true, predicted : ndarray of shape (n_samples,)
        Class numbers.
    codes : csr_matrix of shape (n_samples, n_atoms)
    label_atoms : ndarray of shape (n_atoms, n_classes)
        ``codes @ label_atoms`` are the scores; for two classes half of `label_atoms_` each.
    scores, probability : ndarray of shape (n_samples, n_classes)
    chain_accuracy : list of float
        Of each chain on its own.
    log_loss, calibration_error : float
    """

    names: list[str]
    rows: NDArray[Any]
    true: Classes
    predicted: Classes
    codes: csr_matrix
    label_atoms: Floats
    scores: Floats
    probability: Floats
    chain_accuracy: list[float]
    log_loss: float
    calibration_error: float

    @property
    def correct(self) -> NDArray[np.bool_]:
        """Whether each row is classified right."""
        right: NDArray[np.bool_] = self.true == self.predicted
        return right

    @property
    def accuracy(self) -> float:
        """Share of rows classified right."""
        return float(self.correct.mean())

    @property
    def confusion(self) -> Classes:
        """Counts of shape (n_classes, n_classes): true classes are rows."""
        n = len(self.names)
        return np.bincount(n * self.true + self.predicted, minlength=n * n).reshape(n, n)

    def bins(self) -> list[Bin]:
        """Return the bins of the reliability diagram that have rows."""
        confidence = self.probability.max(axis=1)
        number = np.minimum((confidence * N_BINS).astype(int), N_BINS - 1)
        found = []
        for b in np.unique(number):
            own = number == b
            n_right = int(self.correct[own].sum())
            n = int(own.sum())
            found.append(
                Bin(
                    b / N_BINS,
                    (b + 1) / N_BINS,
                    n,
                    float(confidence[own].mean()),
                    n_right / n,
                    share_interval(n_right, n),
                )
            )
        return found


def size_in_words(chains: Sequence[Member]) -> str:
    """Say where the number of atoms comes from: the rows drawn, and what was left out of them."""
    kept = [(c.n_initial_atoms, int(np.ravel(c.trace.n_atoms)[0]), len(c.atoms)) for c in chains]
    drawn, first, last = np.array(kept).T
    dropped = first - last
    later = f"{_range(dropped)} in these sweeps" if dropped.any() else "none in these sweeps"
    return (
        f"A chain draws training rows as its first atoms, {_range(drawn)} here (the number at "
        f"sweep 0). Copies of a row, and rows that no first code uses, are left out at once, which "
        f"leaves {_range(first)}. A sweep drops an atom that explains next to nothing: {later}. So "
        "the number of atoms is mostly that of the different rows drawn; it is not inferred."
    )


def gain_in_words(accuracy: float, unlearned: float) -> str:
    """Say what learning adds to random training rows on the same test rows."""
    gain = round(100 * (accuracy - unlearned), 2)
    if gain > 0:
        return f"random training rows as atoms: learning adds {gain:.2f} points"
    return "random training rows as atoms: learning adds nothing here"


def _range(numbers: NDArray[np.int64]) -> str:
    low, high = int(numbers.min()), int(numbers.max())
    return f"{low}" if low == high else f"{low} to {high}"


def share_interval(n_right: int, n: int) -> tuple[float, float]:
    """Return the Wilson interval of a share; it stays within 0 and 1 also for few rows."""
    if n == 0:
        return (0.0, 1.0)
    z = float(norm.ppf(0.5 + LEVEL / 2))
    centre = (n_right + z * z / 2) / (n + z * z)
    half = z / (n + z * z) * np.sqrt(n_right * (n - n_right) / n + z * z / 4)
    return float(max(centre - half, 0.0)), float(min(centre + half, 1.0))


def last_step(model: Any, X: ArrayLike) -> tuple[DBDLClassifier, Any]:
    """Return the classifier and its rows; of a pipeline the last step and what reaches it."""
    if isinstance(model, Pipeline) and len(model.steps) > 1:
        X, model = model[:-1].transform(X), model[-1]
    elif isinstance(model, Pipeline):
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
    """Classify test rows and compare with their labels.

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
    rows = np.asarray(X)
    labels = column_or_1d(y)
    check_consistent_length(rows, labels)
    true = _class_numbers(labels, model.classes_)
    codes = model.transform(X)
    label_atoms = both_classes(model.label_atoms_)
    scores = codes @ label_atoms
    predicted = scores.argmax(axis=1)
    probability = to_probabilities(scores, 1.0 / model.temperature_)
    figures = probability_figures(probability, np.arange(len(model.classes_)), true)
    return Findings(
        names=names_of_classes(model.classes_, class_names),
        rows=rows,
        true=true,
        predicted=predicted,
        codes=codes,
        label_atoms=label_atoms,
        scores=scores,
        probability=probability,
        chain_accuracy=_chain_accuracy(model, codes, true),
        **figures,
    )


def both_classes(label_atoms: Floats) -> Floats:
    """Return label atoms with a column for each class, also where two classes share one."""
    if label_atoms.shape[1] > 1:
        return label_atoms
    return np.hstack([-label_atoms / 2, label_atoms / 2])


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
            f"Expected one name a class in the order of classes_: {classes.tolist()[:10]}..."
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


def _chain_accuracy(model: DBDLClassifier, codes: csr_matrix, true: Classes) -> list[float]:
    accuracies, start = [], 0
    for chain in model.chains_:
        own = codes[:, start : start + len(chain.atoms)]
        start += len(chain.atoms)
        accuracies.append(float(((own @ chain.label_atoms).argmax(axis=1) == true).mean()))
    return accuracies
