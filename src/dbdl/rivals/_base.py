"""Base of the rivals: a classifier that learns a model of labelled rows.

A method has a `Model`, which holds atoms and scores new rows, and a class that holds its parameters
and learns the model. This base validates, scales rows, numbers the classes, and fits a temperature
for the probabilities.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Protocol, Self, get_type_hints

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix
from sklearn.base import _fit_context
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from dbdl._parameters import Declared, Seed
from dbdl._threads import resolve_n_jobs, single_threaded_blas
from dbdl.coding.omp import gram_matrix
from dbdl.draws import make_key
from dbdl.estimators._rows import N_JOBS, ScoreClassifier
from dbdl.estimators._whole import whole_or_not_at_all
from dbdl.learn.held_out import Fold, fit_sharpness, stratified_folds
from dbdl.learn.labels import ridge_label_atoms
from dbdl.model.record import Record
from dbdl.model.state import Classes, Doubles, Floats
from dbdl.model.trust import (
    Atoms,
    ClassOfAtom,
    LabelAtoms,
    NClasses,
    Objective,
    RecordError,
    Scope,
    check,
)
from dbdl.rows.copies import first_copies

Scores = Doubles

#: The temperature is fitted on one part of this many, held out of a second fit.
CALIBRATION_PARTS = 5

#: Last section of the docstring of every rival.
EXAMPLES = """
Examples
--------
>>> from sklearn.datasets import load_digits
>>> from {module} import {name}
>>> X, y = load_digits(return_X_y=True)
>>> model = {name}({arguments}).fit(X[::2], y[::2])
>>> bool(model.score(X[1::2], y[1::2]) > 0.85)
True
"""


@dataclass(frozen=True)
class Lesson:
    """Labelled rows to learn from, and the seed and threads to learn with."""

    X: Floats  # (n_samples, n_features)
    class_of_row: Classes  # (n_samples,), numbers below n_classes; every class has a row
    n_classes: int
    seed: int = 0
    n_threads: int = 1

    def rng(self, *address: int) -> np.random.Generator:
        """Return the generator of the seed, or of an address below it."""
        return np.random.default_rng([self.seed, *address] if address else self.seed)

    def of_rows(self, rows: Any) -> Lesson:
        """Return the lesson of some of the rows: a mask or their numbers."""
        return replace(self, X=self.X[rows], class_of_row=self.class_of_row[rows])

    def cut(self, n_folds: int, wanted: int) -> list[Fold]:
        """Cut the rows into folds, each with all copies of its rows."""
        copies = first_copies(self.X)
        return stratified_folds(make_key(self.seed), self.class_of_row, n_folds, wanted, copies)

    def by_class(self) -> list[Floats]:
        """Return the rows of each class."""
        return [self.X[self.class_of_row == c] for c in range(self.n_classes)]

    def label_atoms(self, codes: csr_matrix, penalty: float) -> Doubles:
        """Ridge regression of the labels on the codes of the rows, (n_atoms, n_classes)."""
        return ridge_label_atoms(codes, self.class_of_row, self.n_classes, penalty)


# ---------------------------------------------------------------------------------------- models


class Scorer(Protocol):
    """Scores rows."""

    def scores(self, X: Floats, n_threads: int = 1) -> Scores:
        """Score rows (n_samples, n_classes): the higher, the more likely."""


class Model(Scorer, Protocol):
    """The result of learning: atoms that score rows."""

    @property
    def atoms(self) -> Floats:
        """Atoms (n_atoms, n_features)."""

    @property
    def objective(self) -> Doubles:
        """Objective after each iteration; empty for a method without iterations."""


class UnlearnedModel(Record):
    """Model of a method without iterations: its objective is empty."""

    objective = np.empty(0)


@dataclass(frozen=True)
class RowsModel(UnlearnedModel):
    """Training rows as atoms."""

    atoms: Atoms
    class_of_atom: ClassOfAtom
    n_classes: NClasses

    @classmethod
    def of(cls, lesson: Lesson, *others: Any) -> Self:
        """Return the model of the rows to learn from, with the other fields of a subclass."""
        return cls(lesson.X, lesson.class_of_row, lesson.n_classes, *others)

    @property
    def blocks(self) -> list[NDArray[np.bool_]]:
        """Mask of the rows of each class."""
        return [self.class_of_atom == c for c in range(self.n_classes)]

    @cached_property
    def gram(self) -> Floats:
        """Inner products of the rows, found once for all queries."""
        return self.find_gram()

    def find_gram(self, n_threads: int = 1) -> Floats:
        """Inner products of the rows, (n_atoms, n_atoms)."""
        return gram_matrix(self.atoms, n_threads)

    def with_gram(self, n_threads: int) -> Self:
        """Find the inner products now, on several threads."""
        vars(self)["gram"] = self.find_gram(n_threads)
        return self


@dataclass(frozen=True)
class LabelAtomsModel(Record):
    """Atoms, and the linear map from codes to scores: label atoms (n_atoms, n_classes)."""

    atoms: Atoms
    label_atoms: LabelAtoms
    objective: Objective

    @abstractmethod
    def encode(self, X: Floats, n_threads: int = 1) -> csr_matrix:
        """Codes of rows (n_samples, n_atoms)."""

    def scores(self, X: Floats, n_threads: int = 1) -> Scores:
        """Codes times label atoms."""
        return self.encode(X, n_threads) @ self.label_atoms


# ------------------------------------------------------------------------------------ classifiers


class RowParameters(Declared):
    """Parameters of every estimator of rows.

    Parameters
    ----------
    normalize : bool, default=True
        Scale rows to unit norm.
    n_jobs : int, default=None
        Number of threads; None uses all that are free. Any number gives the same bits.
    random_state : int, RandomState instance or None, default=None
        Seed of everything that is drawn.

    Attributes
    ----------
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
    """

    normalize: bool = True
    n_jobs: Annotated[int | None, *N_JOBS] = None
    random_state: Seed = None


def _is_calibrated(estimator: Any) -> bool:
    if not estimator.calibrate:
        raise AttributeError(
            f"{type(estimator).__name__} gives probabilities only with calibrate=True, which fits "
            "their temperature on held-out rows by a second fit"
        )
    return True


class RivalClassifier(RowParameters, ScoreClassifier):
    """Base of the rivals: a subclass declares its parameters and has `_learn`.

    Parameters
    ----------
    n_atoms_per_class : int, default=15
        Atoms of each class; a class with fewer rows has as many as rows.
    n_iterations : int, default=15
        Rounds of updating atoms and codes.
    calibrate : bool, default=True
        Fit a temperature for `predict_proba` on held-out rows, by a second fit.
    random_state : int, RandomState instance or None, default=None
        Seed of the first atoms, where they are drawn, and of the choice of the rows that are held
        out for the temperature.

    Attributes
    ----------
    atoms_, components_ : ndarray of shape (n_atoms, n_features)
        Atoms of unit norm.
    classes_ : ndarray of shape (n_classes,)
        Labels of the classes, in order.
    n_atoms_ : int
    model_ : object
        Record of what was learned; its method ``scores`` scores rows.
    objective_ : ndarray of shape (n_iterations,)
        The objective above after each iteration.
    temperature_ : float
        Scores are divided by it for the probabilities; set with ``calibrate=True``.
    refusals_ : UnseenRows
        Answers to the rows of `fit_refusals`, for `refuse` and `predict_set`; not set by `fit`.
    """

    calibrate: bool = True

    #: Residuals tell classes apart. In few dimensions the atoms of every class span all rows.
    _needs_many_features: ClassVar[bool] = False
    _learned: ClassVar[tuple[str, ...]] = ("model_",)
    #: Arguments in the example of the docstring; set by every method.
    _example: ClassVar[str]

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        if cls.__doc__ and "_example" in vars(cls):
            names = {"module": cls.__module__, "name": cls.__name__, "arguments": cls._example}
            cls.__doc__ += EXAMPLES.format(**names)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = self._needs_many_features
        return tags

    @abstractmethod
    def _learn(self, lesson: Lesson) -> Model:
        """Learn a model of labelled rows."""

    def _publish(self, model: Model) -> None:
        """Set the attributes that follow from the model."""
        self.model_ = model
        self.atoms_ = self.components_ = model.atoms
        self.n_atoms_ = len(self.atoms_)
        self.objective_ = model.objective

    def _check_fitted(self, scope: Scope) -> None:
        """Check the model, which says in its fields what it has to be."""
        super()._check_fitted(scope)
        kind = get_type_hints(type(self)._learn)["return"]
        if not isinstance(self.model_, kind):
            raise RecordError(f"model_ is a {type(self.model_).__name__}, expected {kind.__name__}")
        check(type(self.model_), self.model_, "model_", scope)
        if "temperature_" in vars(self):
            self._check_attributes(scope, "temperature_")
        self._publish(self.model_)

    def _lesson(self, X: ArrayLike, y: ArrayLike) -> Lesson:
        """Return validated rows with their classes; sets ``classes_``."""
        rows, class_of_row = self._rows_and_classes(X, y)
        n_threads = resolve_n_jobs(self.n_jobs)
        return Lesson(rows, class_of_row, len(self.classes_), self._seed(), n_threads)

    @whole_or_not_at_all
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from rows (n_samples, n_features) with class labels of any kind (n_samples,)."""
        lesson = self._lesson(X, y)
        with single_threaded_blas():
            self._publish(self._learn(lesson))
            if self.calibrate:
                self.temperature_ = fit_temperature(self._learn, lesson)
        return self

    def decision_function(self, X: ArrayLike) -> Scores:
        """Score rows (n_samples, n_features): the higher, the more likely the class.

        Scores have the shape (n_samples, n_classes). With two classes it is (n_samples,), and
        positive scores speak for ``classes_[1]``.
        """
        check_is_fitted(self)
        rows = self._rows(X, reset=False).astype(self.atoms_.dtype, copy=False)
        with single_threaded_blas():
            scores = self.model_.scores(rows, resolve_n_jobs(self.n_jobs))
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    predict_proba = available_if(_is_calibrated)(ScoreClassifier.predict_proba)
    predict_log_proba = available_if(_is_calibrated)(ScoreClassifier.predict_log_proba)


class RowsClassifier(RivalClassifier):
    """Base of the rivals whose atoms are training rows.

    Parameters
    ----------
    random_state : int, RandomState instance or None, default=None
        Decides which rows are held out for the temperature.

    Attributes
    ----------
    atoms_, components_ : ndarray of shape (n_atoms, n_features)
        The training rows without those of zeros.
    objective_ : ndarray of shape (0,)
        Empty: nothing is iterated.
    """

    def _lesson(self, X: ArrayLike, y: ArrayLike) -> Lesson:
        """Leave out rows of zeros, which code nothing."""
        lesson = super()._lesson(X, y)
        some = lesson.X.any(axis=1)
        return lesson if some.all() else lesson.of_rows(some)


def fit_temperature(learn: Callable[[Lesson], Scorer], lesson: Lesson) -> float:
    """Temperature of the softmax, fitted on rows that a second fit leaves out, or 1 without any."""
    folds = lesson.cut(CALIBRATION_PARTS, 1)
    if not folds:
        return 1.0
    held_out = lesson.of_rows(folds[0].held_out)
    scores = learn(lesson.of_rows(folds[0].learn)).scores(held_out.X, lesson.n_threads)
    return 1.0 / fit_sharpness(scores, held_out.class_of_row)
