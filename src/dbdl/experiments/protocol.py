"""Splits of a data set into rows to learn from and rows to test on.

Every method sees the same splits: a split is drawn from a seed that is made of names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import (
    LeaveOneGroupOut,
    LeaveOneOut,
    StratifiedGroupKFold,
    StratifiedKFold,
)

from dbdl._arrays import Array


class Split(NamedTuple):
    """Row numbers, ascending."""

    train: NDArray[np.int64]
    test: NDArray[np.int64]


@dataclass(frozen=True)
class Protocol:
    """A way to split; exactly one of the first four is set."""

    #: Rows of each class to learn from, drawn at random: a share below 1, or a number.
    per_class: float | None = None
    folds: int | None = None  #: Stratified folds of a cross-validation; each is a split.
    leave_one_out: bool = False  #: Each row, or group where the data set has groups, is a split.
    own: bool = False  #: The split that the data set came with.
    n_splits: int = 10  #: Random splits, for ``per_class``.
    whole_groups: bool = False  #: Folds of whole groups, such as the blocks of a scene.

    def __post_init__(self) -> None:
        ways = [self.per_class is not None, self.folds is not None, self.leave_one_out, self.own]
        if sum(ways) != 1:
            expected = "exactly one of per_class, folds, leave_one_out and own"
            raise ValueError(f"{sum(ways)} ways to split are given. Expected {expected}.")
        _check_number("n_splits", self.n_splits, 1)
        if self.folds is not None:
            _check_number("folds", self.folds, 2)
        if self.per_class is not None and not _is_share(self.per_class):
            _check_number("per_class", self.per_class, 1, "a share between 0 and 1, or ")

    def splits(
        self,
        y: Array,
        seed: int,
        *,
        groups: Array | None = None,
        own: Split | None = None,
    ) -> Iterator[Split]:
        """Yield the splits of rows with labels ``y`` (n_samples,)."""
        if self.own:
            if own is None:
                raise ValueError("the data set has no split of its own; use per_class or folds")
            yield own
        elif self.folds is not None and self.whole_groups:
            yield from group_folds(y, groups, self.folds, seed)
        elif self.folds is not None:
            folds = StratifiedKFold(self.folds, shuffle=True, random_state=seed)
            yield from (Split(*fold) for fold in folds.split(y, y))
        elif self.leave_one_out:
            leave = LeaveOneOut() if groups is None else LeaveOneGroupOut()
            yield from (Split(*part) for part in leave.split(y, y, groups))
        else:
            assert self.per_class is not None
            for number in range(self.n_splits):
                yield random_split(y, self.per_class, np.random.default_rng([seed, number]))


def _is_share(value: Any) -> bool:
    return isinstance(value, Real) and 0 < float(value) < 1


def _check_number(name: str, value: Any, least: int, other: str = "") -> None:
    """Refuse what is not a whole number of at least ``least``; ``other`` is allowed as well."""
    is_whole = isinstance(value, Real) and not isinstance(value, bool) and float(value).is_integer()
    if not is_whole or value < least:
        raise ValueError(f"{name} is {value!r}. Expected {other}a whole number from {least}.")


def random_split(y: Array, per_class: float, rng: np.random.Generator) -> Split:
    """Draw rows of each class to learn from; a class with too few rows keeps one to test on."""
    chosen = np.zeros(len(y), dtype=bool)
    for label in np.unique(y):
        rows = rng.permutation(np.flatnonzero(y == label))
        n = round(per_class * len(rows)) if per_class < 1 else int(per_class)
        chosen[rows[: max(1, min(n, len(rows) - 1))]] = True
    return Split(np.flatnonzero(chosen), np.flatnonzero(~chosen))


class FoldError(ValueError):
    """All rows of a class, ``label``, are in one fold."""

    def __init__(self, label: str) -> None:
        self.label = label
        super().__init__(
            f"all rows of class {label!r} are in the groups of one fold, where it cannot be "
            "learned. Use smaller groups (for a scene: more blocks), fewer folds, or leave the "
            "class out."
        )


def group_folds(y: Array, groups: Array | None, n_folds: int, seed: int) -> list[Split]:
    """Folds of whole groups, with nearly equal shares of the classes.

    Rows of one group, such as the pixels of a block of a scene, are alike: a row is not a fair test
    if other rows of its group were learned from. Every fold must have every class to learn from.
    """
    if groups is None:
        raise ValueError("the data set has no groups; use folds of rows")
    n_groups = len(np.unique(groups))
    if n_groups < n_folds:
        raise ValueError(f"{n_groups} groups are too few for {n_folds} folds; use fewer folds")
    folds = StratifiedGroupKFold(n_folds, shuffle=True, random_state=seed)
    found = [Split(*fold) for fold in folds.split(y, y, groups)]
    for fold in found:
        absent = np.setdiff1d(np.unique(y), y[fold.train])
        if len(absent):
            raise FoldError(str(absent[0]))
    return found


def seed_of(*names: object) -> int:
    """Return a seed that depends on names alone, the same on every machine and in every run."""
    digest = hashlib.sha256("\x1f".join(map(str, names)).encode()).digest()
    return int.from_bytes(digest[:4], "little") >> 1
