"""Sums over samples: all that the global draws need to know about data and codes."""

from __future__ import annotations

from collections.abc import Callable
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


#: Rows summed together, the leaves of the tree: many, since each part of the tree holds
#: (n_atoms, n_atoms) numbers.
SUM_ROWS = 8192

Sums = TypeVar("Sums", AtomSums, UsageSums, float)


def left_half(n_parts: int) -> int:
    """Return the number of parts in the left half of a tree over ``n_parts``."""
    return (n_parts + 1) // 2


def tree_sum(part: Callable[[int], Sums], n_parts: int) -> Sums:
    """Add ``part(0)``, ``part(1)``, ... along a binary tree, holding few of them at a time.

    The tree halves its parts again and again. Its form depends on their number alone, below any
    of its nodes too: who holds the rows of a node (a shard) adds them up by themselves, and the
    sum of all has the same bits.
    """
    if n_parts == 1:
        return part(0)
    middle = left_half(n_parts)
    left = tree_sum(part, middle)
    return left + tree_sum(lambda number: part(middle + number), n_parts - middle)
