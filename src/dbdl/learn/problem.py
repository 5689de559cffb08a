"""The problem that a fit solves: rows, their classes, settings and the seed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dbdl.backends.crew import ProblemSize
from dbdl.draws import Key, make_key
from dbdl.learn.chain import ChainSettings
from dbdl.model.state import Floats
from dbdl.rows.lazy import LazyRows, SomeRows

LabelKind = Literal["none", "ridge", "recoded", "gibbs", "joint"]

#: Number of the first chain's key; smaller ones belong to folds and pilot chains.
FIRST_CHAIN = 1000


@dataclass(frozen=True)
class LabelSettings:
    """How label atoms are found; see `dbdl.DBDLClassifier`. "none" means without labels."""

    kind: LabelKind = "ridge"
    penalty: float = 0.1
    weight: float = 1.0


@dataclass(frozen=True)
class Problem:
    """Everything that determines what is learned."""

    X: Floats | LazyRows | SomeRows  # (n_samples, n_features), maybe read in parts
    class_of_row: NDArray[np.int64]  # (n_samples,), class indices below ``n_classes``
    n_classes: int
    settings: ChainSettings
    labels: LabelSettings
    n_chains: int = 1
    seed: int = 0

    @property
    def size(self) -> ProblemSize | None:
        """Size for the memory of a device; None for rows that are read in parts."""
        if not isinstance(self.X, np.ndarray):
            return None
        n_rows, n_features = self.X.shape
        return ProblemSize(n_rows, self.settings.n_start(n_rows), n_features * self.X.itemsize)

    def key(self, number: int) -> Key:
        """Key of the random draws of a chain."""
        return make_key(self.seed, FIRST_CHAIN + number)

    def pilot_key(self, number: int) -> Key:
        """Return the key of a pilot chain; the first key belongs to the folds."""
        return make_key(self.seed, 1 + number)

    def of_rows(self, rows: NDArray[np.int64]) -> Problem:
        """Return the problem of learning from some of the rows, in memory."""
        return replace(self, X=self.X[rows], class_of_row=self.class_of_row[rows])

    def with_label_weight(self, weight: float) -> Problem:
        """Return the problem with another weight of the labels."""
        return replace(self, labels=replace(self.labels, weight=weight))
