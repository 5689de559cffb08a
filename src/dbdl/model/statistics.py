"""Sums over samples, through which data and codes enter the global draws.

`AtomSums` are for the atoms (eq. 8), and `UsageSums` for selection probabilities (eq. 11) and for
the precisions of strengths (eq. 12) and of the noise (eq. 13).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Annotated, Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from dbdl.model.record import ArrayRecord
from dbdl.model.trust import Doubles, Floats, counts, reals

Numbers = NDArray[Any]
#: Positive weights of rows (n_samples,) in all sums; None if every row counts once.
Weights = Doubles | None

#: Counts that are forgotten in part are rounded.
ROUNDING = 1e-6


def some_weights(weights: Weights, rows: Any) -> Weights:
    """Weights of some of the rows."""
    return None if weights is None else weights[rows]


class _Sums(ArrayRecord):
    """Sums over rows; those over two sets of rows are added field by field."""

    def __add__(self, other: Self) -> Self:
        return type(self)(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))  # type: ignore[arg-type]

    def times(self, factor: float) -> Self:
        """Multiply all sums by a factor."""
        return type(self)(*(factor * getattr(self, f.name) for f in fields(self)))  # type: ignore[arg-type]


@dataclass(frozen=True)
class AtomSums(_Sums):
    """Sums for the draw of the atoms (eq. 8), rows weighted by noise precision and own weight.

    Attributes
    ----------
    gram : ndarray of shape (n_atoms, n_atoms)
        codes.T @ weight @ codes
    cross : ndarray of shape (n_atoms, n_features)
        codes.T @ weight @ X
    """

    gram: Annotated[Floats, reals("n_atoms", "n_atoms")]
    cross: Annotated[Floats, reals("n_atoms", "n_targets")]

    @staticmethod
    def none(n_atoms: int, n_features: int) -> AtomSums:
        """Sums over no rows."""
        return AtomSums(np.zeros((n_atoms, n_atoms)), np.zeros((n_atoms, n_features)))


@dataclass(frozen=True)
class UsageSums(_Sums):
    """Sums for the draws of selection probabilities and precisions (eqs. 11 to 13).

    In all of them a row of weight w counts w times.

    Attributes
    ----------
    count : ndarray of shape (n_classes, n_atoms)
        Number of rows of the class that use the atom: whole numbers unless rows have weights.
    energy : ndarray of shape (n_atoms,)
        Squared strengths of the rows that use the atom.
    strength_square : ndarray of shape (n_classes,)
        Squared strengths over the used atoms of the class's rows.
    residual_square : ndarray of shape (n_classes,)
        Squared residuals of the class's rows.
    """

    count: Numbers
    energy: Floats
    strength_square: Floats
    residual_square: Floats

    @cached_property
    def n_strengths(self) -> Numbers:
        """Number of strengths of used atoms, (n_classes,)."""
        return np.asarray(self.count.sum(axis=1))

    @cached_property
    def uses(self) -> Numbers:
        """Number of rows that use the atom, (n_atoms,)."""
        return np.asarray(self.count.sum(axis=0))


@dataclass(frozen=True)
class SeenSums(_Sums):
    """Sums over rows of earlier batches, whose codes are fixed; those of a new batch are added.

    Rows that are partly forgotten count in part, so the counts need not be whole.

    Attributes
    ----------
    n_rows : ndarray of shape (n_classes,)
        Number of rows per class.
    count, energy, strength_square : ndarray
        As in `UsageSums`; ``strength_square`` is over all strengths in ``n_strengths``.
    n_strengths : ndarray of shape (n_classes,)
        Number of strengths of used atoms, including atoms that were dropped later: their strengths
        still inform the precision.
    residual_square : ndarray of shape (n_classes,)
        Squared residuals of the class's rows, over the atoms as they were then.
    """

    n_rows: Annotated[Numbers, counts("n_classes")]
    count: Annotated[Numbers, counts("n_classes", "n_atoms")]
    energy: Annotated[Floats, counts("n_atoms")]
    n_strengths: Annotated[Numbers, counts("n_classes")]
    strength_square: Annotated[Floats, counts("n_classes")]
    residual_square: Annotated[Floats, counts("n_classes")]

    def faults(self) -> Iterator[str]:
        """Yield a fault if more rows of a class use an atom than the class has."""
        if (self.count > (1 + ROUNDING) * self.n_rows[:, np.newaxis]).any():
            yield "count is larger than n_rows"

    @staticmethod
    def none(n_classes: int, n_atoms: int) -> SeenSums:
        """Sums over no rows."""
        shapes = (n_classes, (n_classes, n_atoms), n_atoms, n_classes, n_classes, n_classes)
        return SeenSums(*(np.zeros(shape) for shape in shapes))

    @staticmethod
    def of(sums: UsageSums, n_rows: Numbers) -> SeenSums:
        """Sums over a batch as sums over earlier rows."""
        names = [field.name for field in fields(SeenSums)][1:]
        return SeenSums(n_rows, *(getattr(sums, name) for name in names))

    def keep(self, kept: NDArray[np.intp]) -> SeenSums:
        """Sums over the atoms in ``kept``."""
        return replace(self, count=self.count[:, kept], energy=self.energy[kept])

    def grow(self, n_classes: int, n_atoms: int) -> SeenSums:
        """Append new classes and new atoms, for which no row was seen."""
        classes, atoms = (0, n_classes - len(self.n_rows)), (0, n_atoms - len(self.energy))
        count, energy = np.pad(self.count, (classes, atoms)), np.pad(self.energy, atoms)
        names = ("n_rows", "n_strengths", "strength_square", "residual_square")
        by_class = {name: np.pad(getattr(self, name), classes) for name in names}
        return replace(self, count=count, energy=energy, **by_class)

    def with_batch(self, sums: UsageSums) -> UsageSums:
        """Sums over a batch and all rows before it, for the present atoms."""
        names = [field.name for field in fields(UsageSums)]
        return UsageSums(*(getattr(self, name) + getattr(sums, name) for name in names))


#: Rows summed together at the leaves of the tree. It is large, since each partial sum has
#: (n_atoms, n_atoms) entries.
SUM_ROWS = 8192

Sums = TypeVar("Sums", AtomSums, UsageSums, float)


def left_half(n_parts: int) -> int:
    """Return the number of parts in the left half of a tree over ``n_parts``."""
    return (n_parts + 1) // 2


def tree_sum(part: Callable[[int], Sums], n_parts: int) -> Sums:
    """Add ``part(0)``, ``part(1)``, ... along a binary tree, with few of them in memory at a time.

    The tree halves its parts again and again. Its shape depends only on their count, and so does
    the shape of the tree below any node. A shard with the rows below a node can therefore add them
    up alone, and the total has the same bits.
    """
    if n_parts < 1:
        raise ValueError(f"there are {n_parts} parts to add; expected at least one")
    if n_parts == 1:
        return part(0)
    middle = left_half(n_parts)
    left = tree_sum(part, middle)
    return left + tree_sum(lambda index: part(middle + index), n_parts - middle)
