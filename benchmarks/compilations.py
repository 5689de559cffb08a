"""The functions that numba compiles during the first default fit on digits, and the cost of each.

`bench_start` calls `print_first_fit` in a fresh process with an empty cache. It uses only
the classifier of dbdl, so that it can measure other commits too.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any

from numba.core import event

N_ROWS = 1200
N_LARGEST = 10


@dataclass
class Cost:
    """Compilations of one function: how many, and their processor seconds."""

    n_compilations: int = 0
    inclusive: float = 0.0  # with the functions compiled meanwhile, because this one calls them
    exclusive: float = 0.0  # without them


@dataclass
class _Open:
    """A compilation that has begun."""

    name: str
    start: float
    inner: float = 0.0  # seconds of the compilations inside it


class Compilations(event.Listener):
    """Count numba's compilations and their processor seconds.

    A compilation begins and ends inside its caller's, under numba's lock: a stack will do.
    """

    def __init__(self) -> None:
        self.costs: dict[str, Cost] = {}
        self._open: list[_Open] = []

    def on_start(self, event: Any) -> None:
        function = event.data["dispatcher"].py_func
        name = f"{function.__module__}.{function.__qualname__}"
        self._open.append(_Open(name, time.process_time()))

    def on_end(self, event: Any) -> None:
        done = self._open.pop()
        seconds = time.process_time() - done.start
        cost = self.costs.setdefault(done.name, Cost())
        cost.n_compilations += 1
        cost.inclusive += seconds
        cost.exclusive += seconds - done.inner
        if self._open:
            self._open[-1].inner += seconds

    def largest(self) -> list[dict[str, Any]]:
        """Return the functions that cost most by themselves, the dearest first."""
        ranked = sorted(self.costs.items(), key=lambda item: -item[1].exclusive)
        return [{"name": name, **vars(cost)} for name, cost in ranked[:N_LARGEST]]


def print_first_fit(dtype: str) -> None:
    """Fit once and print, as JSON, what it took: for a process that has compiled nothing yet.

    Parameters
    ----------
    dtype : str
        Of the rows: "float64" or "float32".
    """
    from sklearn.datasets import load_digits

    import dbdl

    X, y = load_digits(return_X_y=True)
    X = X.astype(dtype)
    compilations = Compilations()
    with event.install_listener("numba:compile", compilations):
        start = time.process_time()
        dbdl.DBDLClassifier(random_state=0).fit(X[:N_ROWS], y[:N_ROWS])
        seconds = time.process_time() - start
    costs = compilations.costs.values()
    figures = {
        "source": dbdl.__file__,
        "seconds": seconds,
        "compiling": sum(cost.exclusive for cost in costs),
        "n_compilations": sum(cost.n_compilations for cost in costs),
        "largest": compilations.largest(),
    }
    print(json.dumps(figures))
