"""Accuracy against the size of the dictionary (paper, figure 2).

The other settings stay at their defaults, 30 non-zeros for faces as in the LC-KSVD
paper, while the number of atoms per class grows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from dbdl.experiments.measure import common_settings
from dbdl.experiments.protocol import Split
from dbdl.experiments.rows import LabelledRows
from dbdl.registry import methods

#: The methods of the figure.
METHODS = ("K-SVD", "D-KSVD", "LC-KSVD1")


class SizeCurve(NamedTuple):
    """One method's line."""

    method: str
    n_atoms: list[int]
    accuracy: list[list[float]]  #: In %, for each size one list over the splits.

    @property
    def mean(self) -> list[float]:
        """Mean over the splits, for each size."""
        return [float(np.mean(values)) for values in self.accuracy]


def sizes_that_fit(n_rows_of_smallest_class: int, n_sizes: int) -> list[int]:
    """Numbers of atoms per class, evenly spread up to the rows of the smallest class."""
    most = max(n_rows_of_smallest_class, 1)
    return sorted({max(1, round(most * i / n_sizes)) for i in range(1, n_sizes + 1)})


def accuracy_by_size(
    data: LabelledRows,
    splits: Sequence[Split],
    *,
    only: Sequence[str] = METHODS,
    n_sizes: int = 7,
    seed: int = 0,
    on_fit: Callable[[int, int, str], None] | None = None,
) -> list[SizeCurve]:
    """Fit each method at each size on each split.

    The methods named in ``only`` have a parameter ``n_atoms_per_class``. Sizes are evenly spread up
    to the training rows of the smallest class. ``on_fit`` is called with the number of fits done
    and in all, and the accuracy found, in words.
    """
    smallest = min(np.unique(data.y[s.train], return_counts=True)[1].min() for s in splits)
    sizes = sizes_that_fit(int(smallest), n_sizes)
    n_classes = len(np.unique(data.y))
    n_fits, n_done = len(only) * len(sizes) * len(splits), 0
    curves = [SizeCurve(name, [n_classes * size for size in sizes], []) for name in only]
    for curve, size in product(curves, sizes):
        method = methods()[curve.method]
        settings = {**common_settings(method, seed, -1), "calibrate": False}
        curve.accuracy.append([])
        for train, test in splits:
            model = method(**settings, n_atoms_per_class=size).fit(data.X[train], data.y[train])
            accuracy = 100 * float(model.score(data.X[test], data.y[test]))
            curve.accuracy[-1].append(accuracy)
            n_done += 1
            if on_fit is not None:
                found = f"{curve.method}, {size} atoms per class: {accuracy:.2f} %"
                on_fit(n_done, n_fits, found)
    return curves
