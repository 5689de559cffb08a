"""What the rivals share: a classifier around a plain function that learns a model.

A method is a function from labelled rows to a `Model`, which has atoms and scores new rows. The
class around it holds parameters, validates, and fits a temperature for the probabilities.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Protocol, Self, get_type_hints

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import _fit_context
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from dbdl._threads import resolve_n_jobs, single_threaded_blas
from dbdl.draws import make_key
from dbdl.estimators._rows import N_JOBS, ScoreClassifier
from dbdl.estimators._whole import whole_or_not_at_all
from dbdl.learn.held_out import fit_sharpness, stratified_folds
from dbdl.model.state import Floats
from dbdl.model.trust import RecordError, Scope, check

Classes = NDArray[np.int64]

#: The temperature is fitted on one part of this many, held out of a second fit.
CALIBRATION_PARTS = 5


class Model(Protocol):
    """What a method learns.

    Attributes
    ----------
    atoms : ndarray of shape (n_atoms, n_features)
    objective : ndarray of shape (n_iterations,)
        Objective after each iteration; empty for a method without iterations.
    """

    @property
    def atoms(self) -> Floats: ...

    @property
    def objective(self) -> NDArray[np.float64]: ...

    def scores(self, X: Floats, n_threads: int = 1) -> NDArray[np.float64]:
        """Score rows (n_samples, n_classes): the higher, the more likely."""


#: Constraints of the parameters that every rival has.
RIVAL_CONSTRAINTS: dict[str, list[Any]] = {
    "calibrate": ["boolean"],
    "normalize": ["boolean"],
    "n_jobs": N_JOBS,
    "random_state": ["random_state"],
}


def _is_calibrated(estimator: Any) -> bool:
    if not estimator.calibrate:
        raise AttributeError(
            f"{type(estimator).__name__} gives probabilities only with calibrate=True, which fits "
            "their temperature on held-out rows by a second fit"
        )
    return True


class RivalClassifier(ScoreClassifier):
    """Base of the rivals.

    A subclass has its parameters, those of `RIVAL_CONSTRAINTS` among them, and `_learn`.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = RIVAL_CONSTRAINTS
    #: Told apart by class residuals: in few dimensions the atoms of every class span all rows.
    _needs_many_features: ClassVar[bool] = False
    _learned: ClassVar[tuple[str, ...]] = ("model_",)
    #: Its atoms are rows: those of zeros, which code nothing, are left out.
    _has_rows_as_atoms: ClassVar[bool] = False

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = self._needs_many_features
        return tags

    @abstractmethod
    def _learn(
        self, X: Floats, class_of_row: Classes, n_classes: int, seed: int, n_threads: int
    ) -> Model:
        """Learn from rows and class numbers; every class has a row."""

    def _publish(self, model: Model) -> None:
        """Set what follows from the model."""
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

    def _own_settings(self) -> dict[str, Any]:
        """Return the parameters that only this method has, by name."""
        parameters = self.get_params(deep=False)
        return {name: v for name, v in parameters.items() if name not in RIVAL_CONSTRAINTS}

    @whole_or_not_at_all
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from labelled rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Class labels of any kind.

        Returns
        -------
        self
        """
        rows, class_of_row = self._rows_and_classes(X, y)
        if self._has_rows_as_atoms and not (some := rows.any(axis=1)).all():
            rows, class_of_row = rows[some], class_of_row[some]
        n_classes, seed = len(self.classes_), self._seed()
        n_threads = resolve_n_jobs(self.n_jobs)

        def learn(X: Floats, class_of_row: Classes) -> Model:
            with single_threaded_blas():
                return self._learn(X, class_of_row, n_classes, seed, n_threads)

        self._publish(learn(rows, class_of_row))
        if self.calibrate:
            self.temperature_ = fit_temperature(learn, rows, class_of_row, seed, n_threads)
        return self

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Scores of rows: the higher, the more likely the class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        scores : ndarray of shape (n_samples, n_classes), or (n_samples,) for two classes
            With two classes, positive scores speak for ``classes_[1]``.
        """
        check_is_fitted(self)
        rows = self._rows(X, reset=False).astype(self.atoms_.dtype, copy=False)
        with single_threaded_blas():
            scores = self.model_.scores(rows, resolve_n_jobs(self.n_jobs))
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    predict_proba = available_if(_is_calibrated)(ScoreClassifier.predict_proba)


def fit_temperature(
    learn: Callable[[Floats, Classes], Model],
    X: Floats,
    class_of_row: Classes,
    seed: int,
    n_threads: int,
) -> float:
    """Temperature of the softmax, fitted on rows that a second fit did not see.

    Returns 1 where every class has a single row, so that none can be left out.
    """
    fold = next(stratified_folds(make_key(seed), class_of_row, CALIBRATION_PARTS, len(X)), None)
    if fold is None:
        return 1.0
    model = learn(X[fold.learn], class_of_row[fold.learn])
    with single_threaded_blas():
        scores = model.scores(X[fold.held_out], n_threads)
    return 1.0 / fit_sharpness(scores, class_of_row[fold.held_out])
