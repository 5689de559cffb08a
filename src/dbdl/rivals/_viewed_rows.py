"""A rival behind one of our views: how much of our accuracy is due to the view alone."""

from __future__ import annotations

from dataclasses import field, replace
from typing import Annotated, Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import _fit_context, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from dbdl._parameters import Declared
from dbdl.backends.base import ALL_ZERO
from dbdl.estimators._rows import ScoreClassifier
from dbdl.estimators._whole import whole_or_not_at_all
from dbdl.estimators.view_transformer import ViewTransformer
from dbdl.model.state import Floats
from dbdl.model.trust import RecordError, Scope
from dbdl.rivals._base import Lesson, RivalClassifier, Scores, fit_temperature
from dbdl.rivals._behind import Behind

ViewOrName = Annotated[Any, *ViewTransformer._parameter_constraints["view"]]


class Viewed(NamedTuple):
    """A view, and a rival that was learned behind it."""

    view: ViewTransformer
    rival: Any

    def scores(self, X: Floats, n_threads: int = 1) -> Scores:
        """Scores (n_samples, n_classes) of the rival, with its own number of threads."""
        scores: Scores = self.rival.decision_function(self.view.transform(X))
        return np.column_stack([np.zeros(len(scores)), scores]) if scores.ndim == 1 else scores


class ViewedRowsClassifier(Declared, Behind, ScoreClassifier):
    """A rival that sees rows through a view, learned from the rows to learn from.

    Its parameters are those of the rival, under their own names, and ``view``: a search may try
    them together. With ``calibrate`` the temperature of the probabilities is fitted on rows that
    neither the view nor the rival saw.

    Parameters
    ----------
    classifier : RivalClassifier
    view : str, View or KernelView, default="unit half-whitened + constant"

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    classifier_ : RivalClassifier
        The fitted one. Its atoms are in the space of the view.
    view_transformer_ : ViewTransformer
    temperature_ : float
        Set with ``calibrate=True``.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from dbdl.rivals._viewed_rows import ViewedRowsClassifier
    >>> from dbdl.rivals.crc import CRCClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> model = ViewedRowsClassifier(CRCClassifier(), "scaled and half-whitened + constant")
    >>> bool(model.fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.9)
    True
    """

    classifier: Annotated[Any, RivalClassifier] = field(kw_only=False)
    view: ViewOrName = field(default="unit half-whitened + constant", kw_only=False)

    _learned: ClassVar[tuple[str, ...]] = ("classifier_",)

    classifier_: Any = field(init=False)
    view_transformer_: Any = field(init=False)

    @property
    def calibrate(self) -> bool:
        """Whether a temperature is fitted."""
        return bool(self.classifier.calibrate)

    @property
    def n_atoms_(self) -> int:
        """Number of atoms of the rival."""
        return int(self.classifier_.n_atoms_)

    def _check_fitted(self, scope: Scope) -> None:
        """Check that the parts belong together; each of them has been checked as it was read."""
        super()._check_fitted(scope)
        kinds = {"classifier_": RivalClassifier, "view_transformer_": ViewTransformer}
        for name, kind in kinds.items():
            if not isinstance(vars(self).get(name), kind):
                raise RecordError(f"{name} is not a {kind.__name__}")
        if "temperature_" in vars(self):
            self._check_attributes(scope, "temperature_")
        if self.view_transformer_.n_features_in_ != self.n_features_in_:
            raise RecordError("view_transformer_ has another number of features")
        if not np.array_equal(self.classifier_.classes_, np.arange(len(self.classes_))):
            raise RecordError("classifier_ has other classes")

    def _scaled(self, X: Floats) -> Floats:
        return X  # the view scales rows

    def _check_not_all_zero(self, X: Floats) -> None:
        if not X.any():
            raise ValueError(ALL_ZERO)

    @whole_or_not_at_all
    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn the view from rows (n_samples, n_features) and their classes, then the rival."""
        lesson = Lesson(*self._rows_and_classes(X, y), len(self.classes_))
        self.__dict__.pop("temperature_", None)
        self.view_transformer_, self.classifier_ = self._learn(lesson)
        if self.calibrate:
            seeded = replace(lesson, seed=self.classifier._seed())
            self.temperature_ = fit_temperature(self._learn, seeded)
        return self

    def _learn(self, lesson: Lesson) -> Viewed:
        X, classes = lesson.X, lesson.class_of_row
        view = ViewTransformer(self.view, n_jobs=self.classifier.n_jobs).fit(X, classes)
        rival = clone(self.classifier).set_params(calibrate=False)
        return Viewed(view, rival.fit(view.transform(X), classes))

    def decision_function(self, X: ArrayLike) -> Scores:
        """Scores of the rival, of shape (n_samples, n_classes), or (n_samples,) for two classes."""
        check_is_fitted(self)
        rows = self.view_transformer_.transform(self._rows(X, reset=False))
        return self.classifier_.decision_function(rows)

    predict_proba = available_if(lambda self: self.calibrate)(ScoreClassifier.predict_proba)
    predict_log_proba = available_if(lambda self: self.calibrate)(ScoreClassifier.predict_log_proba)
