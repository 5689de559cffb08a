"""Methods of the user's own, compared like those of the package for as long as the process runs."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from sklearn.base import ClassifierMixin, clone

from dbdl.registry import OWN, PACKAGED, Method


def register(
    name: str,
    estimator: Callable[..., ClassifierMixin] | ClassifierMixin,
    *,
    grid: Mapping[str, Iterable[Any]] | None = None,
    settings: Mapping[str, Any] | None = None,
    paper: str = "",
    about: str = "",
) -> Method:
    """Add a classifier of your own to the methods that are compared.

    It stays for as long as the process runs. ``dbdl compare data.csv --estimator module:Class``
    registers a class from the command line.

    Parameters
    ----------
    name : str
        The name that tables print. A name that was registered before is replaced.
    estimator : class, callable or estimator
        A class with scikit-learn's interface, a function that takes its parameters and returns an
        estimator, or an estimator that is not fitted, such as a pipeline.
    grid : mapping of str to iterable, optional
        Settings worth trying: chosen by cross-validation on training rows.
    settings : mapping, optional
        Parameters that define the method under this name.
    paper : str, optional
        Where the method comes from.
    about : str, optional
        What it does, in one line; by default the first line of its docstring.

    Returns
    -------
    method : Method
        Called with parameters, it gives a fresh estimator.

    Examples
    --------
    >>> import dbdl
    >>> from sklearn.neighbors import NearestCentroid
    >>> grid = {"shrink_threshold": [0.1, 1]}
    >>> nearest = dbdl.register("nearest mean", NearestCentroid, grid=grid)
    >>> nearest(shrink_threshold=1)
    NearestCentroid(shrink_threshold=1)
    >>> "nearest mean" in dbdl.methods()
    True
    """
    if not isinstance(name, str) or not name.strip() or "," in name:
        raise ValueError(f"name={name!r}: expected a name of at least one letter, without commas")
    taken = {method.name.lower(): method.name for method in PACKAGED}
    if name.lower() in taken:
        raise ValueError(f"{taken[name.lower()]!r} is a method of dbdl. Choose another name.")
    is_estimator = hasattr(estimator, "get_params") and not isinstance(estimator, type)
    if not is_estimator and not callable(estimator):
        raise ValueError(
            f"{name}: {estimator!r} is a {type(estimator).__name__}. Expected a class, a function "
            "that returns an estimator, or an estimator."
        )
    make: Any = partial(_fresh, estimator) if is_estimator else estimator
    if is_estimator:
        about = about or (inspect.getdoc(type(estimator)) or "").partition("\n")[0]
    tried = {setting: tuple(values) for setting, values in (grid or {}).items()}
    method = Method(name, make, paper, dict(settings or {}), tried, about=about)
    _check(method)
    OWN.pop(name, None)
    OWN[name] = method
    return method


def _fresh(estimator: Any, **settings: Any) -> Any:
    """Return an estimator that is not fitted, with other settings."""
    return clone(estimator).set_params(**settings)


def _check(method: Method) -> None:
    """Refuse a method that could not be compared."""
    try:
        made: Any = method()
    except Exception as error:  # whatever the user's own code raises
        raise ValueError(
            f"{method.name} cannot be made without arguments ({type(error).__name__}: {error}). "
            "Give its parameters default values, or pass settings=."
        ) from error
    if absent := [verb for verb in ("fit", "predict", "get_params") if not hasattr(made, verb)]:
        raise ValueError(
            f"{method.name} makes a {type(made).__name__}, which has no {absent[0]}. Expected "
            "scikit-learn's interface; inherit from BaseEstimator and ClassifierMixin."
        )
    known = made.get_params()
    for setting, values in method.grid.items():
        if setting not in known:
            raise ValueError(
                f"{method.name} has no parameter {setting!r}, which its grid names; it has "
                f"{', '.join(sorted(known)) or 'none'}"
            )
        if not values:
            raise ValueError(f"the grid of {method.name} has no values of {setting!r}")


def import_method(address: str, name: str | None = None) -> Method:
    """Register the classifier at an address such as ``package.module:Class``, and return it.

    The module is looked for where Python looks, and in the current folder. It may call `register`
    itself, to name its methods and to give grids: then that method is returned. The object may also
    be a `Method`, a function or an estimator.
    """
    module_name, colon, attribute = address.partition(":")
    if not module_name or not colon or not attribute:
        raise ValueError(
            f"{address!r}: expected package.module:Class, as in my_methods:NearestMean"
        )
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.append(os.getcwd())
    try:
        found: Any = importlib.import_module(module_name)
        for part in attribute.split("."):
            found = getattr(found, part)
    except ModuleNotFoundError as error:
        raise ValueError(
            f"{address}: there is no module {error.name!r}, neither installed nor in {os.getcwd()}"
        ) from error
    except AttributeError as error:
        raise ValueError(f"{address}: {error}") from error
    except Exception as error:  # whatever the user's own code raises
        what = f"{type(error).__name__}: {error}"
        raise ValueError(f"{address} cannot be imported: {what}") from error
    registered = [m for m in OWN.values() if found is m or m.make is found]
    if registered and name in (None, registered[-1].name):
        return registered[-1]
    if isinstance(found, Method):
        _check(found)
        return register(
            name or found.name, found.make, grid=found.grid, settings=found.settings,
            paper=found.paper, about=found.about,
        )  # fmt: skip
    return register(name or attribute.rpartition(".")[2], found)
