"""Sums over samples: all that the global draws need to know about data and codes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]


class _Addable:
    """Sums of two sets of rows add up field by field."""

    def __add__(self, other: Self) -> Self:
        return type(self)(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))  # type: ignore[arg-type]


@dataclass(frozen=True)
class AtomSums(_Addable):
    """Sums for the draw of the atoms (eq. 8), each row weighted by its noise precision.

    Attributes
    ----------
    gram : ndarray of shape (n_atoms, n_atoms)
        codes.T @ weight @ codes
    cross : ndarray of shape (n_atoms, n_features)
        codes.T @ weight @ X
    """

    gram: Floats
    cross: Floats


@dataclass(frozen=True)
class UsageSums(_Addable):
    """Sums for the draws of selection probabilities and precisions (eqs. 11 to 13).

    Attributes
    ----------
    count : ndarray of shape (n_classes, n_atoms)
        Rows of the class that use the atom.
    energy : ndarray of shape (n_atoms,)
        Squared strengths of the rows that use the atom.
    strength_square : ndarray of shape (n_classes,)
        Squared strengths over the used atoms of the class's rows.
    residual_square : ndarray of shape (n_classes,)
        Squared residuals of the class's rows.
    """

    count: NDArray[np.int64]
    energy: Floats
    strength_square: Floats
    residual_square: Floats


Sums = TypeVar("Sums", AtomSums, UsageSums)


def tree_sum(parts: Iterable[Sums]) -> Sums:
    """Add ``parts`` along a binary tree over their order, holding few of them at a time.

    The tree depends on the number of parts alone, so any grouping of whole subtrees (threads,
    shards) rounds in the same way.
    """
    pending: list[tuple[int, Sums]] = []
    for part in parts:
        level, total = 0, part
        while pending and pending[-1][0] == level:
            total = pending.pop()[1] + total
            level += 1
        pending.append((level, total))
    total = pending.pop()[1]
    while pending:
        total = pending.pop()[1] + total
    return total
