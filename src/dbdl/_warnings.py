"""Warnings at the user's line, however deep inside the package they arise."""

from __future__ import annotations

import sys
import warnings

#: Packages with frames between the user's code and the place that warns.
INNER_PACKAGES = ("dbdl", "sklearn", "contextlib")


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line that called this package, outside all decorators."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] not in INNER_PACKAGES:
            break
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
