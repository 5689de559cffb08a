"""The order of atoms and the panels of a trace, for displays in notebooks and for the report."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dbdl.sampler.run import Trace

Floats = NDArray[np.floating[Any]]
Numbers = NDArray[np.int64]


def order_by_owner(probability: Floats) -> Numbers:
    """Atom numbers grouped by the class that uses them most, its most probable atom first.

    ``probability`` has shape (n_classes, n_atoms).
    """
    return np.lexsort((-probability.max(axis=0), probability.argmax(axis=0)))


def best_atoms_in_turn(probability: Floats, n_atoms: int) -> list[tuple[int, int]]:
    """Pairs (class, atom): the most probable atoms of each class, equally many per class."""
    n_classes = len(probability)
    each = -(-n_atoms // n_classes)
    best = np.argsort(-probability, axis=1, kind="stable")[:, :each]
    return [(c, int(k)) for c in range(n_classes) for k in best[c]][:n_atoms]


def spread_evenly(n: int, n_shown: int) -> Numbers:
    """At most ``n_shown`` of the numbers 0..n-1, spread evenly from the first to the last."""
    return np.unique(np.linspace(0, n - 1, min(n_shown, n)).astype(np.int64))


class TracePanel(NamedTuple):
    """One quantity of a trace, ready to be drawn."""

    field: str
    title: str
    is_log: bool  # whether it is drawn on a logarithmic scale
    sweeps: Numbers  # (n_points,), from 0 where the quantity is known before the first sweep
    lines: Floats  # (n_chains, n_points)


_PANELS = (
    ("n_atoms", "number of atoms", False),
    ("mean_nonzero", "atoms used per row", False),
    ("noise_precision", "noise precision", True),
    ("strength_precision", "strength precision", True),
    ("residual_square", "squared residual per row", True),
    ("log_joint", "log joint density", False),
)


def trace_panels(trace: Trace, n_initial_atoms: list[int]) -> list[TracePanel]:
    """Return the panels of a trace with fields of shape (n_sweeps,) or (n_chains, n_sweeps).

    ``n_initial_atoms`` are the atoms that each chain started from: the value at sweep 0.
    """
    panels = []
    for field, title, is_log in _PANELS:
        lines, first = np.atleast_2d(getattr(trace, field)), 1
        if field == "n_atoms":
            lines, first = np.column_stack([n_initial_atoms, lines]), 0
        sweeps = np.arange(first, first + lines.shape[1])
        panels.append(TracePanel(field, title, is_log, sweeps, lines))
    return panels
