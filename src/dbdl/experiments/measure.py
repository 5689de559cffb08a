"""One cell of a table: a method fitted on the rows of one split and tested on the others.

Settings that are not given are chosen from the method's grid by cross-validation on the rows to
learn from. Nothing is chosen on test rows.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binned_statistic
from sklearn.dummy import DummyClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, StratifiedKFold

from dbdl._arrays import Array
from dbdl.backends import NumbaBackend
from dbdl.coding import Coder, encode_each
from dbdl.estimators.classifier import DBDLClassifier
from dbdl.learn.held_out import by_class
from dbdl.registry import Method

#: Folds of the cross-validation that chooses settings, and bins of the calibration error.
N_FOLDS = 3
N_BINS = 15
#: Draws of outcomes that give the calibration error of perfectly calibrated probabilities.
N_FLOOR_DRAWS = 100
#: Probabilities below this count as this in a log-loss.
LEAST_PROBABILITY = 1e-15
#: Classes are unbalanced if the largest has at least this many times the rows of the smallest:
#: then balanced accuracy and macro F1 are shown beside the accuracy.
UNBALANCED = 2.0


class Part(NamedTuple):
    """Rows (n_samples, n_features), their labels, and the names of their features if any."""

    X: Array
    y: Array
    names: tuple[str, ...] | None = None


def class_ratio(y: Array) -> float:
    """Rows of the largest class per row of the smallest."""
    counts = np.unique(y, return_counts=True)[1]
    return float(counts.max() / counts.min())


def common_settings(method: Method, seed: int, n_jobs: int) -> dict[str, Any]:
    """Return the seed and the number of threads, where the method knows them."""
    known = method().get_params()
    wanted = {"random_state": seed, "n_jobs": n_jobs}
    return {name: value for name, value in wanted.items() if name in known}


def choose_settings(
    method: Method, given: Mapping[str, Any], train: Part, seed: int
) -> dict[str, Any]:
    """Return the settings of the method's grid that are not given, by cross-validation."""
    grid = {name: values for name, values in method.grid.items() if name not in given}
    n_folds = min(N_FOLDS, int(np.unique(train.y, return_counts=True)[1].min()))
    if not grid:
        return {}
    if n_folds < 2:  # a class with one row: nothing can be held out of every class
        return {name: values[len(values) // 2] for name, values in grid.items()}
    estimator = method(**given)
    if hasattr(estimator, "calibrate"):
        estimator.set_params(calibrate=False)
    folds = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
    search = GridSearchCV(estimator, grid, cv=folds, refit=False, error_score="raise")
    return dict(search.fit(train.X, train.y).best_params_)


def majority_figures(train: Array, test: Array) -> dict[str, float]:
    """Return accuracies on test labels of the most frequent label to learn from."""
    predicted = DummyClassifier(strategy="most_frequent").fit(train, train).predict(test)
    return {"accuracy": float(np.mean(predicted == test)), **by_class(test, predicted)}


def measure(method: Method, settings: Mapping[str, Any], train: Part, test: Part) -> dict[str, Any]:
    """Fit, and measure on the test rows.

    Seconds are those of this fit alone: not those of a search before it, nor, where
    `dbdl.experiments.warm.warm_up_once` was called, those of compilation. ``n_atoms`` is that of
    one dictionary, 0 for a method without. If DBDL chose among coders, the figures name the one
    that its chains use most, and the one that would have been best on the test rows. Probabilities
    that were not calibrated are not measured.
    """
    model = method(**settings)
    start = time.perf_counter()
    model.fit(train.X, train.y)
    fit_seconds = time.perf_counter() - start
    start = time.perf_counter()
    predicted = model.predict(test.X)
    figures: dict[str, Any] = {
        "accuracy": float(np.mean(predicted == test.y)),
        **by_class(test.y, predicted),
        "fit_seconds": fit_seconds,
        "query_milliseconds": 1e3 * (time.perf_counter() - start) / len(test.y),
        "n_atoms": _atoms_of_one_dictionary(model),
    }
    if hasattr(model, "predict_proba") and getattr(model, "calibrate", True):
        figures |= probability_figures(model.predict_proba(test.X), model.classes_, test.y)
    choice = model.held_out_ if isinstance(model, DBDLClassifier) else None
    if choice is not None and len(choice.coders) > 1:
        figures["coder"] = most_used_coder(model).label
        best, figures["best_accuracy"] = hindsight(model, choice.coders, test)
        figures["best_coder"] = best.label
    return figures


def _atoms_of_one_dictionary(model: Any) -> int:
    """Return the atoms of one chain, or of one of several sets of rows, which may share rows."""
    members = getattr(getattr(model, "model_", None), "members", None)
    if members is not None:
        return round(float(np.mean([len(member) for member in members])))
    n_atoms: int = getattr(model, "n_atoms_", 0)
    return n_atoms // len(getattr(model, "chains_", (model,)))


def most_used_coder(model: DBDLClassifier) -> Coder:
    """Return the coder of the chains that have the largest weight together."""
    weights: dict[Coder, float] = {}
    for chain in model.chains_:
        weights[chain.coder] = weights.get(chain.coder, 0.0) + chain.weight
    return max(weights, key=lambda coder: weights[coder])


def probability_figures(
    probability: NDArray[np.float64], classes: Array, y: Array
) -> dict[str, float]:
    """Return log-loss and expected calibration error of probabilities (n_samples, n_classes).

    ``calibration_floor`` is the part of the calibration error that is due to chance. A label that
    was not learned has probability 0; probabilities are cut off at 1e-15.
    """
    labels = np.union1d(classes, y)
    every = np.full((len(y), len(labels)), LEAST_PROBABILITY)
    every[:, np.searchsorted(labels, classes)] = probability.clip(LEAST_PROBABILITY, 1)
    every /= every.sum(axis=1, keepdims=True)  # sums of float32 may be a little off
    confidence = probability.max(axis=1)
    correct = classes[probability.argmax(axis=1)] == y
    return {
        "log_loss": float(log_loss(y, every, labels=labels)),
        "calibration_error": calibration_error(confidence, correct),
        "calibration_floor": calibration_floor(confidence),
    }


def calibration_error(confidence: NDArray[np.float64], correct: NDArray[np.bool_]) -> float:
    """Mean gap between confidence and accuracy over bins of equal width, weighted by size."""
    gaps = binned_statistic(confidence, confidence - correct, "sum", N_BINS, (0, 1)).statistic
    return float(np.abs(gaps).sum() / len(correct))


def calibration_floor(confidence: NDArray[np.float64]) -> float:
    """Mean calibration error of predictions that are right as often as their confidence says.

    It is above 0, since a finite number of rows is right more or less often than expected.
    """
    rng = np.random.default_rng(0)
    draws = (rng.random(len(confidence)) < confidence for _ in range(N_FLOOR_DRAWS))
    return float(np.mean([calibration_error(confidence, correct) for correct in draws]))


def hindsight(model: DBDLClassifier, coders: Sequence[Coder], test: Part) -> tuple[Coder, float]:
    """Return the coder that, used by all members, would have been best on the test rows."""
    every: list[Any] = [0.0] * len(coders)
    for chain in model.chains_:
        rows = chain.view.apply(np.ascontiguousarray(test.X, dtype=chain.atoms.dtype))
        codes = encode_each(rows, chain.prepared, coders, NumbaBackend())
        every = [
            e + chain.weight * (c @ chain.label_atoms) for e, c in zip(every, codes, strict=True)
        ]
    accuracy = [np.mean(model.classes_[scores.argmax(axis=1)] == test.y) for scores in every]
    return coders[int(np.argmax(accuracy))], float(max(accuracy))
