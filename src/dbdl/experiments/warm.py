"""Compile before a clock starts: every method is fitted once on tiny problems of the same kind.

Kernels are compiled for a type of number when they are first called, which takes far longer than
most fits. A clock that runs meanwhile measures the compiler.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dbdl._arrays import Array
from dbdl.registry import Method

#: Size of the tiny problems: classes, different rows of each class, copies of each.
N_CLASSES, N_DIFFERENT, N_COPIES = 3, 4, 3
#: Parameters that make a fit longer but call no other kernel, and values that are enough here.
ENOUGH = {"n_sweeps": 3, "n_chains": 1, "n_members": 1, "n_iterations": 3}


#: Name, settings and type of rows of each method that this process has warmed up.
_DONE: set[tuple[str, str, str]] = set()


def tiny_problems(n_features: int, dtype: DTypeLike) -> Iterator[tuple[Array, NDArray[np.int64]]]:
    """Yield rows (n_samples, n_features) and their classes: all different, then with copies.

    Atoms that are drawn from different rows meet in the codes of the other rows. Where rows are
    copies of atoms, hardly any meet, and other kernels draw the atoms.
    """
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(N_CLASSES), N_DIFFERENT * N_COPIES)
    centres = rng.random((N_CLASSES, n_features))
    rows = (100 * (centres[y] + rng.random((len(y), n_features)))).astype(dtype)
    yield rows, y
    yield np.repeat(rows[::N_COPIES], N_COPIES, axis=0), y


def warm_up(
    make: Callable[..., Any], settings: Mapping[str, Any], n_features: int, dtype: DTypeLike
) -> None:
    """Fit a classifier on tiny problems and ask it for answers.

    ``make(**settings)`` gives a fresh estimator. Settings, features and type are those that it will
    be timed with.
    """
    for X, y in tiny_problems(n_features, dtype):
        model = make(**settings)
        given = model.get_params()
        some = {k: given[k] or enough for k, enough in ENOUGH.items() if k in given}
        model.set_params(**{k: min(value, ENOUGH[k]) for k, value in some.items()})
        model.fit(X, y).predict(X)
        if hasattr(model, "predict_proba"):
            model.predict_proba(X)


def warm_up_once(method: Method, settings: Mapping[str, Any], rows: Array) -> None:
    """Warm a method up, unless this process has done so with these settings and type of rows.

    Errors are ignored: the fit that is timed will raise them again.
    """
    deciding = {name: value for name, value in settings.items() if name != "random_state"}
    key = (method.name, repr(sorted(deciding.items())), rows.dtype.str)
    if key in _DONE:
        return
    _DONE.add(key)
    with warnings.catch_warnings(), suppress(Exception):
        warnings.simplefilter("ignore")
        warm_up(method, deciding, rows.shape[1], rows.dtype)


def in_words(names: Sequence[str]) -> str:
    """Say what is being done, for those who wait."""
    return (
        "before any clock starts, the kernels of each method are compiled on tiny problems: "
        f"{', '.join(dict.fromkeys(names))}"
    )
