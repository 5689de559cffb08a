"""Parameters of a classifier behind a map of the rows, under their own names."""

from __future__ import annotations

from typing import Any, Self


class Behind:
    """Mixin of an estimator with a ``classifier``, whose parameters it shows as its own.

    A search may then try them together with those of the map.
    """

    classifier: Any

    def _own_params(self) -> dict[str, Any]:
        names = self._get_param_names()  # type: ignore[attr-defined]
        return {name: getattr(self, name) for name in names}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return its own parameters, and those of the classifier where ``deep``."""
        own = self._own_params()
        return {**self.classifier.get_params(), **own} if deep else own

    def set_params(self, **params: Any) -> Self:
        """Set parameters of its own or of the classifier, by their names."""
        for name in set(self._own_params()) & set(params):
            setattr(self, name, params.pop(name))
        if params:
            self.classifier.set_params(**params)
        return self
