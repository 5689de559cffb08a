"""Compile before a clock starts: every method is fitted once on tiny problems of the same kind.

Kernels are compiled for a type of number when they are first called, which takes far longer than
most fits. A clock that runs meanwhile measures the compiler.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dbdl.registry import Method

#: Size of the tiny problems: classes, different rows of each class, copies of each.
N_CLASSES, N_DIFFERENT, N_COPIES = 3, 4, 3
#: Parameters that make a fit longer and call no other kernel, and how much of them is enough here.
ENOUGH = {"n_sweeps": 3, "n_chains": 1, "n_members": 1, "n_iterations": 3}


class Warm(NamedTuple):
    """A method with its settings on rows of a type: what a warm-up is good for."""

    method: str
    settings: str
    dtype: str


#: What this process has warmed up.
_DONE: set[Warm] = set()


def tiny_problems(
    n_features: int, dtype: DTypeLike
) -> Iterator[tuple[NDArray[Any], NDArray[np.int64]]]:
    """Yield rows (n_samples, n_features) and their classes: all different, then with copies.

    Atoms that are drawn from different rows meet in the codes of the rows that are no atoms. Where
    rows are copies of atoms, hardly any meet, and other kernels draw the atoms.
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

    Parameters
    ----------
    make : callable
        Gives a fresh estimator when called with settings.
    settings : mapping
        Those that the estimator will be timed with.
    n_features : int
        Of the rows that it will be timed on.
    dtype : dtype
        Of these rows.
    """
    for X, y in tiny_problems(n_features, dtype):
        model = make(**settings)
        given = model.get_params()
        model.set_params(**{k: min(given[k], enough) for k, enough in ENOUGH.items() if k in given})
        model.fit(X, y).predict(X)
        if hasattr(model, "predict_proba"):
            model.predict_proba(X)


def warm_up_once(method: Method, settings: Mapping[str, Any], rows: NDArray[Any]) -> None:
    """Warm a method up, unless this process has done so with these settings and type of rows.

    What goes wrong is passed over: the fit that is timed will say it.
    """
    deciding = {name: value for name, value in settings.items() if name != "random_state"}
    warm = Warm(method.name, repr(sorted(deciding.items())), rows.dtype.str)
    if warm in _DONE:
        return
    _DONE.add(warm)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            warm_up(method, deciding, rows.shape[1], rows.dtype)
        except Exception:  # of any kind: no figure depends on it
            return


def in_words(names: Sequence[str]) -> str:
    """Say what is being done, for those who wait."""
    return (
        "before any clock starts, what each method needs is compiled on tiny problems: "
        f"{', '.join(dict.fromkeys(names))}"
    )
