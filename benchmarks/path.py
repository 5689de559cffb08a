"""The path from ``fit`` to ``step``: the live stack at the first sweep of a chain.

    python -m benchmarks.path

Prints one line for each function of dbdl on the stack, from ``fit`` to the backend's sweep.
"""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

from sklearn.datasets import load_iris

import dbdl
from dbdl.backends.numba_cpu import NumbaBackend

PACKAGE = Path(dbdl.__file__).parent


class Seen(BaseException):
    """Ends the fit once the stack is known."""


def stack_of(model: Any) -> list[str]:
    """Return "file:function" from ``fit`` down to the first sweep."""
    found: list[str] = []

    def look(*_: Any, **__: Any) -> None:
        for frame in traceback.extract_stack()[:-1]:
            path = Path(frame.filename)
            if PACKAGE in path.parents:
                found.append(f"{path.relative_to(PACKAGE)}:{frame.name}")
        raise Seen

    original, NumbaBackend.sweep = NumbaBackend.sweep, look  # type: ignore[method-assign]
    try:
        model.fit(*load_iris(return_X_y=True))
    except Seen:
        pass
    finally:
        NumbaBackend.sweep = original  # type: ignore[method-assign]
    # from fit itself on: what stands before it are decorators
    return found[next(i for i, name in enumerate(found) if name.endswith(":fit")) :]


def main() -> None:
    """Print the stack of the first chain of a default fit."""
    model = dbdl.DBDLClassifier(n_sweeps=1, random_state=0, n_jobs=1)
    model.fit(*load_iris(return_X_y=True))  # kernels are compiled by a chain of their own
    stack = stack_of(model)
    for name in stack:
        print(name)
    n_frames = next(i for i, name in enumerate(stack) if name.endswith(":step"))
    print(f"{n_frames} frames from fit to step")


if __name__ == "__main__":
    main()
