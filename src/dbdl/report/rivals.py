"""What a page can show of a classifier that is not DBDL: its name, its atoms and its settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from dbdl._arrays import unit_rows
from dbdl.plotting.pictures import SIGNED, Pictures
from dbdl.registry import Method, methods
from dbdl.report.atoms import MOST_ATOMS, largest_features
from dbdl.report.inline import lay_out


def method_of(model: Any) -> Method | None:
    """Return the method that makes such estimators with such settings; None if there is none."""
    fitting = []
    for method in methods().values():
        made = method()
        given = made.get_params(deep=False)
        if type(made) is not type(model):
            continue
        if type(given.get("classifier")) is not type(getattr(model, "classifier", None)):
            continue
        settings = model.get_params()
        agree = sum(settings.get(name) == value for name, value in method.settings.items())
        if agree == len(method.settings):
            fitting.append((agree, method))
    return max(fitting, key=lambda pair: pair[0], default=(0, None))[1]


def method_name(model: Any) -> str:
    """Return the name of a method in tables, or that of the estimator's class."""
    method = method_of(model)
    return type(model).__name__ if method is None else method.name


def about_method(model: Any) -> str:
    """Say what a method does and where it comes from; empty where that is not known."""
    method = method_of(model)
    if method is None:
        return ""
    return ". ".join(filter(None, (method.in_a_line.capitalize(), method.paper)))


def gallery(
    model: Any, draw: Callable[[Any], Pictures], feature_names: Sequence[str] | None
) -> dict[str, Any] | None:
    """Return pictures of the atoms; None for a method without atoms in the space of the rows."""
    found = getattr(model, "atoms_", None)
    if found is None or np.ndim(found) != 2 or np.shape(found)[1] != model.n_features_in_:
        return None
    atoms = unit_rows(np.asarray(found, dtype=np.float64))
    shown = np.unique(np.linspace(0, len(atoms) - 1, min(len(atoms), MOST_ATOMS)).astype(int))
    owner = getattr(getattr(model, "model_", None), "class_of_atom", None)
    names = [str(label) for label in model.classes_]
    sheet = lay_out(draw(atoms[shown]))
    cells = [
        {
            "number": int(k),
            "at": sheet.position(place),
            "class": "" if owner is None or len(owner) != len(atoms) else names[int(owner[k])],
            "features": [] if feature_names is None else largest_features(atoms[k], feature_names),
        }
        for place, k in enumerate(shown)
    ]
    return {
        "sheet": sheet,
        "atoms": cells,
        "n_atoms": len(atoms),
        "is_signed": sheet.palette is SIGNED,
    }


def settings(model: Any) -> list[tuple[str, str, bool]]:
    """Return the names and values of parameters, and whether they differ from the defaults."""
    try:
        default = type(model)().get_params()
    except TypeError:  # an estimator that needs arguments has no defaults
        default = model.get_params()
    return [
        (name, str(value), str(value) != str(default.get(name)))
        for name, value in model.get_params().items()
        if not hasattr(value, "get_params") and not isinstance(value, Pipeline)
    ]
