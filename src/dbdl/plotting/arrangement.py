"""What the pictures show and in which order, for displays in notebooks and for the report alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbdl.sampler.run import Trace

Floats = NDArray[np.floating[Any]]
Numbers = NDArray[np.int64]


def owner_of_atoms(probability: Floats) -> Numbers:
    """Return for each atom the class that uses it most; ``probability`` (n_classes, n_atoms)."""
    owner: Numbers = probability.argmax(axis=0)
    return owner


def order_by_owner(probability: Floats) -> Numbers:
    """Atom numbers, class by class of the owner, the most probable first within a class."""
    order: Numbers = np.lexsort((-probability.max(axis=0), owner_of_atoms(probability)))
    return order


def best_atoms_in_turn(probability: Floats, n_atoms: int) -> list[tuple[int, int]]:
    """Pairs (class, atom): the most probable atoms of each class, as many for every class."""
    n_classes = len(probability)
    each = -(-n_atoms // n_classes)
    best = np.argsort(-probability, axis=1, kind="stable")[:, :each]
    return [(c, int(k)) for c in range(n_classes) for k in best[c]][:n_atoms]


def spread_classes(n_classes: int, n_shown: int) -> Numbers:
    """Class numbers spread evenly over all."""
    at = np.linspace(0, n_classes - 1, min(n_shown, n_classes))
    chosen: Numbers = np.unique(at.astype(np.int64))
    return chosen


@dataclass(frozen=True)
class TracePanel:
    """One quantity of a trace, ready to be drawn.

    Attributes
    ----------
    field, title : str
    is_log : bool
        Whether it is read on a logarithmic scale.
    sweeps : ndarray of shape (n_points,)
        From 0, the start, where the quantity is known there, else from 1.
    lines : ndarray of shape (n_chains, n_points)
    """

    field: str
    title: str
    is_log: bool
    sweeps: Numbers
    lines: Floats


_PANELS = (
    ("n_atoms", "number of atoms", False),
    ("mean_nonzero", "atoms used a row", False),
    ("noise_precision", "noise precision", True),
    ("strength_precision", "strength precision", True),
    ("residual_square", "squared residual a row", True),
    ("log_joint", "log joint density", False),
)


def trace_panels(trace: Trace, n_initial_atoms: list[int]) -> list[TracePanel]:
    """Return the panels of a trace; the number of atoms starts at those drawn, at sweep 0.

    Parameters
    ----------
    trace : Trace
        Fields of shape (n_sweeps,) or (n_chains, n_sweeps).
    n_initial_atoms : list of int
        Of each chain.
    """
    panels = []
    for field, title, is_log in _PANELS:
        lines = np.atleast_2d(getattr(trace, field))
        first = 1
        if field == "n_atoms":
            lines, first = np.column_stack([n_initial_atoms, lines]), 0
        sweeps = np.arange(first, first + lines.shape[1])
        panels.append(TracePanel(field, title, is_log, sweeps, lines))
    return panels
