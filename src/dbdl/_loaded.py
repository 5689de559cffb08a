"""Estimators that come from a file: their state is checked as it is restored."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, get_type_hints

from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import validate_parameter_constraints

from dbdl.model.trust import RecordError, Scope, Size, check


class CheckedEstimator(BaseEstimator):
    """Estimator that, once fitted, is checked when skops or pickle restore its state.

    A subclass names in ``_learned`` the attributes that show that it is fitted, annotates those to
    check with the types of `dbdl.model.trust`, and checks them in `_check_fitted`. Attributes that
    follow from others are computed again there, and not trusted.
    """

    _learned: ClassVar[tuple[str, ...]]

    n_features_in_: Annotated[int, Size("n_features")]

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if not any(name in vars(self) for name in self._learned):
            return
        kind, name = type(self), type(self).__name__
        for attribute in vars(self):
            if hasattr(kind, attribute):
                raise RecordError(f"{name} has an attribute {attribute!r} that hides its own")
        # An older version may not have had all of them.
        known = {key: vars(self)[key] for key in self._get_param_names() if key in vars(self)}
        validate_parameter_constraints(kind._parameter_constraints, known, name)
        self._check_fitted(Scope())

    def _check_fitted(self, scope: Scope) -> None:
        """Check learned attributes, and compute again those that follow from them."""
        raise NotImplementedError

    def _check_attributes(self, scope: Scope, *names: str) -> None:
        """Compare attributes with the annotations of the class."""
        hints = get_type_hints(type(self), include_extras=True)
        for name in names:
            if name not in vars(self):
                raise RecordError(f"{type(self).__name__} is fitted, but has no {name}")
            check(hints[name], vars(self)[name], name, scope)
