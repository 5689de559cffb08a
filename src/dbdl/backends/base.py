"""The verbs of a backend: over rows and codes, and over atoms.

The model's mathematics and the sampler know nothing of how rows are stored or walked. They ask a
backend to place the data, to start and sweep the codes, and to hand back sums over samples
(`RowVerbs`); and to draw and publish the global parameters (`AtomVerbs`). A GPU or a cluster fits
behind the same verbs. Each verb is documented here, once.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from dbdl._threads import block_slices
from dbdl.coding.coder import Paths, PreparedAtoms
from dbdl.coding.omp import Rule
from dbdl.draws import Key
from dbdl.model.atom_priors import Arrays, AtomPosterior
from dbdl.model.codes import Scan
from dbdl.model.priors import Priors
from dbdl.model.record import ArrayRecord
from dbdl.model.state import Codes, Floats, Parameters
from dbdl.model.statistics import AtomSums, UsageSums, tree_sum

Births = NDArray[np.int64]

#: Chains that share a GPU or a cluster: while one waits for the host, the others use it.
LANES_OF_A_DEVICE = 5

ALL_ZERO = "every row of X is zero: there is nothing to learn. Check how X was made."


class DeviceMemoryError(MemoryError):
    """The memory of a device is used up; ``n_entries`` rows times atoms would fit."""

    def __init__(self, message: str, n_entries: int) -> None:
        super().__init__(message)
        self.n_entries = n_entries


@dataclass(frozen=True)
class Data(ArrayRecord):
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
    square : float
        Squared norms of all rows, summed.
    offset : int
        Number of the first of these rows, a multiple of 4: the rows may be a part of many, whose
        random draws are addressed by their numbers.
    """

    X: Floats
    class_of_row: NDArray[np.int64]
    n_rows: NDArray[np.int64]
    first_row: NDArray[np.int64]
    square: float
    offset: int = 0

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.n_rows)

    @property
    def n_samples(self) -> int:
        """Number of rows."""
        return len(self.class_of_row)

    @property
    def n_features(self) -> int:
        """Number of features of a row."""
        return int(self.X.shape[1])

    def open(self, backend: RowVerbs) -> Data:
        """Return the rows, which are in place; `dbdl.backends.sharded.Part` reads its rows."""
        return self

    def row_weight(self, class_weight: Any) -> Any:
        """Weight of each row in a sum (n_samples,): a weight per row would be multiplied here."""
        return class_weight[self.class_of_row]


class RowVerbs(Protocol):
    """Verbs over rows. Data and codes are the backend's own, wherever they live."""

    def place(self, X: Any, class_of_row: NDArray[np.int64]) -> Data:
        """Put rows (n_samples, n_features) and their class numbers (n_samples,) in place."""

    def hold(self, data: Data) -> Data:
        """Put NumPy rows whose classes are numbered where the backend's arrays live."""

    def rows(self, data: Data, numbers: NDArray[np.int64]) -> Any:
        """Return some of the rows by number, as the backend's array."""

    def labels(self, data: Data) -> Data:
        """Return the labels of the rows (1 at the class, 0 elsewhere) in place of the rows."""

    def start(self, data: Data, atoms: Any, n_nonzero: int) -> Any:
        """Codes of the rows by matching pursuit: where a chain starts."""

    def sweep(
        self, key: Key, number: int, data: Data, codes: Any, parameters: Parameters, scan: Scan
    ) -> tuple[Any, UsageSums]:
        """Draw every row's usage and strengths (eqs. 9 and 10); new codes and their sums."""

    def usage(self, data: Data, codes: Any, parameters: Parameters) -> UsageSums:
        """Sums of given codes, as a sweep returns them: NumPy arrays."""

    def gather(
        self, data: Data, codes: Any, n_atoms: int, class_weight: NDArray[np.float64]
    ) -> AtomSums:
        """Sums for the draw of the atoms, in C order, rows weighted by `Data.row_weight`."""

    def keep(self, codes: Any, kept: NDArray[np.intp], n_atoms: int) -> Any:
        """Codes over the atoms in ``kept`` alone."""

    def codes_to_host(self, codes: Any) -> Codes:
        """Return codes as NumPy arrays."""

    def codes_from_host(self, data: Data, codes: Codes, n_atoms: int) -> Any:
        """Put NumPy codes where the backend's arrays live."""


class AtomVerbs(Arrays, Protocol):
    """Verbs over atoms and selection probabilities, which are arrays of the backend's own."""

    def draw_atoms(
        self, key: Key, number: int, posterior: AtomPosterior, atoms: Any, births: Births
    ) -> Any:
        """Draw the atoms one after another, each given the newest others (eq. 8)."""

    def mean_atoms(self, posterior: AtomPosterior) -> Any:
        """Posterior mean of the atoms (n_atoms, n_features)."""

    def unit_atoms(self, atoms: Any, like: Any) -> tuple[Floats, NDArray[np.float64]]:
        """Atoms of unit norm in the dtype of ``like``, and the norms they had: NumPy arrays."""

    def norm_square(self, atoms: Any) -> NDArray[np.float64]:
        """Squared norms of the atoms (n_atoms,), a NumPy array."""

    def draw_selection(
        self, key: Key, number: int, data: Data, sums: UsageSums, births: Births, priors: Priors
    ) -> Any:
        """Draw the logits of the selection probabilities (eq. 11), (n_classes, n_atoms)."""

    def log_large_terms(
        self, parameters: Parameters, sums: UsageSums, n_rows: NDArray[Any], priors: Priors
    ) -> float:
        """Log density of usage, selection probabilities and atoms (`dbdl.model.joint`)."""


class Backend(RowVerbs, AtomVerbs, Protocol):
    """All verbs, and those over published atoms and codes."""

    #: "cpu" or "cuda".
    device_kind: ClassVar[str]

    @property
    def n_threads(self) -> int:
        """Number of threads that the backend uses."""

    @property
    def n_lanes(self) -> int:
        """Number of chains that are learned at the same time."""

    def lane(self, alone: bool = False) -> AbstractContextManager[Any]:
        """Give the calls inside a lane of their own, so that chains overlap.

        ``alone`` waits for the lanes that others have taken, and has others wait.
        """

    def pursue(self, X: Floats, atoms: PreparedAtoms, lengths: Sequence[int], rule: Rule) -> Paths:
        """Greedy paths of new rows over published atoms, as `dbdl.coding.omp.encode`."""

    def ridge(
        self, codes: csr_matrix, target: NDArray[np.float64], penalty: float
    ) -> NDArray[np.float64]:
        """Ridge regression on published codes, as `dbdl.model.ridge.ridge`."""

    def ridge_labels(
        self, data: Data, codes: Any, scale: NDArray[np.float64], penalty: float
    ) -> NDArray[np.float64]:
        """Ridge regression of the labels on ``codes * scale``: (n_atoms, n_classes)."""


def parameters_to_host(parameters: Parameters, backend: Backend) -> Parameters:
    """Return parameters with NumPy arrays."""
    atoms, logit = map(backend.to_host, (parameters.atoms, parameters.selection_logit))
    return replace(parameters, atoms=atoms, selection_logit=np.asarray(logit, np.float64))


def parameters_from_host(parameters: Parameters, backend: Backend) -> Parameters:
    """Return parameters whose large arrays are where the backend's live."""
    atoms, logit = map(backend.put, (parameters.atoms, parameters.selection_logit))
    return replace(parameters, atoms=atoms, selection_logit=logit)


def number_rows(X: Any, class_of_row: NDArray[np.int64]) -> Data:
    """Rows with their classes counted; the sum of their squared norms is not known yet."""
    class_of_row = np.ascontiguousarray(class_of_row, dtype=np.int64)
    classes, first_row, n_rows = np.unique(class_of_row, return_index=True, return_counts=True)
    if not np.array_equal(classes, np.arange(len(classes))):
        raise ValueError(
            f"class numbers must be 0, 1, ... without a gap, got {classes}; number them with "
            "np.unique(y, return_inverse=True)"
        )
    return Data(X, class_of_row, n_rows, first_row, np.nan)


def in_memory(X: Floats) -> Floats:
    """Return rows in the layout that kernels are compiled for."""
    return np.require(X, requirements=["C", "A", "W"])


def label_rows(data: Data) -> Data:
    """Labels in place of rows: 1 at the class, 0 elsewhere, in the dtype of the rows."""
    labels = np.eye(data.n_classes, dtype=data.X.dtype)[data.class_of_row]
    return replace(data, X=labels, square=float(data.n_samples))


def sum_of_squares(X: Floats, block_rows: int) -> float:
    """Squared norms of all rows, summed block by block along the tree of all sums over rows."""
    blocks = block_slices(len(X), block_rows)

    def block(number: int) -> float:
        rows = X[blocks[number]]
        return float(np.einsum("ij,ij->", rows, rows, dtype=np.float64))

    return tree_sum(block, len(blocks))
