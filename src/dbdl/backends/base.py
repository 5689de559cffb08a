"""What a backend does: a handful of verbs over blocks of samples.

The model's mathematics and the sampler know nothing of how rows are stored or walked. They ask a
backend to place the data, to start and sweep the codes, and to hand back sums over samples. A
GPU or a cluster fits behind the same verbs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dbdl.draws import Key
from dbdl.model.codes import Scan
from dbdl.model.conditionals import AtomPosterior
from dbdl.model.state import Floats, Parameters
from dbdl.model.statistics import AtomSums, UsageSums


@dataclass(frozen=True)
class Data:
    """Labelled rows, placed where a backend wants them.

    Attributes
    ----------
    X : ndarray of shape (n_samples, n_features)
    class_of_row : ndarray of shape (n_samples,)
        Class numbers 0, 1, ...
    n_rows : ndarray of shape (n_classes,)
        Rows of each class.
    first_row : ndarray of shape (n_classes,)
        Number of each class's first row: the address of the class's random draws, so that the
        names of the classes and their order do not matter.
    """

    X: Floats
    class_of_row: NDArray[np.int64]
    n_rows: NDArray[np.int64]
    first_row: NDArray[np.int64]

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.n_rows)


class Backend(Protocol):
    """The verbs. ``codes`` are the backend's own: the sampler only hands them back."""

    @property
    def n_threads(self) -> int:
        """Number of threads that the backend uses."""

    def place(self, X: Floats, class_of_row: NDArray[np.int64]) -> Data:
        """Put rows (n_samples, n_features) and their class numbers (n_samples,) in place."""

    def start(self, data: Data, atoms: Floats, n_nonzero: int) -> Any:
        """Codes of the rows by matching pursuit: where a chain starts."""

    def sweep(
        self, key: Key, number: int, data: Data, codes: Any, parameters: Parameters, scan: Scan
    ) -> tuple[Any, UsageSums]:
        """Draw every row's usage and strengths (eqs. 9 and 10); new codes and their sums."""

    def usage(self, data: Data, codes: Any, parameters: Parameters) -> UsageSums:
        """Sums of given codes, as a sweep returns them."""

    def gather(
        self, data: Data, codes: Any, n_atoms: int, class_weight: NDArray[np.float64]
    ) -> AtomSums:
        """Sums for the draw of the atoms, each row weighted by its class's weight."""

    def draw_atoms(
        self,
        key: Key,
        number: int,
        posterior: AtomPosterior,
        atoms: Floats,
        births: NDArray[np.int64],
    ) -> Floats:
        """Draw the atoms one after another, each given the newest others (eq. 8)."""

    def keep(self, codes: Any, kept: NDArray[np.intp], n_atoms: int) -> Any:
        """Codes over the atoms in ``kept`` alone."""


def place_rows(X: Floats, class_of_row: NDArray[np.int64]) -> Data:
    """Rows in memory, in the order of C."""
    class_of_row = np.ascontiguousarray(class_of_row, dtype=np.int64)
    classes, first_row, n_rows = np.unique(class_of_row, return_index=True, return_counts=True)
    if not np.array_equal(classes, np.arange(len(classes))):
        raise ValueError(
            f"class numbers must be 0, 1, ... without a gap, got {classes}; number them with "
            "np.unique(y, return_inverse=True)"
        )
    return Data(np.ascontiguousarray(X), class_of_row, n_rows, first_row)
