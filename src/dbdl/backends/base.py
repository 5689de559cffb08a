"""The verbs of a backend: over rows and codes, and over atoms.

The model's mathematics and the sampler do not depend on how rows are stored or processed. They ask
a backend to place the data, to start and sweep the codes, and to return sums over samples
(`RowVerbs`); and to draw and publish the global parameters (`AtomVerbs`). A GPU or a cluster
implements the same verbs. Each verb is documented here, once.
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
from dbdl.model.state import Classes, Codes, Doubles, Floats, Parameters
from dbdl.model.statistics import AtomSums, UsageSums, Weights, tree_sum
from dbdl.views import Fitted, LabelledRows, Recipe

Births = NDArray[np.int64]

#: Number of chains that share a GPU or a cluster: while one waits for the host, others use it.
LANES_OF_A_DEVICE = 5

ALL_ZERO = "every row of X is zero: there is nothing to learn. Check how X was computed."


class DeviceMemoryError(MemoryError):
    """A device is out of memory; ``n_entries`` rows times atoms would fit."""

    def __init__(self, message: str, n_entries: int) -> None:
        super().__init__(message)
        self.n_entries = n_entries


@dataclass(frozen=True)
class Data(ArrayRecord):
    """Labelled rows in the form that a backend needs.

    Attributes
    ----------
    X : ndarray of shape (n_samples, n_features)
    class_of_row : ndarray of shape (n_samples,)
        Class indices 0, 1, ...
    n_rows : ndarray of shape (n_classes,)
        Number of rows per class, a row of weight w counted w times.
    first_row : ndarray of shape (n_classes,)
        Index of each class's first row. It addresses the random draws of the class, so that the
        names and the order of the classes do not matter.
    square : float
        Sum of the squared norms of all rows, each counted once.
    sample_weight : ndarray of shape (n_samples,) or None
        Positive weights of the rows in all sums; None if every row counts once.
    offset : int
        Index of the first of these rows among all rows, a multiple of 4: random draws are
        addressed by the index among all rows.
    """

    X: Floats
    class_of_row: Classes
    n_rows: NDArray[Any]
    first_row: NDArray[np.int64]
    square: float
    offset: int = 0
    sample_weight: Weights = None

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
        """Number of features."""
        return int(self.X.shape[1])

    def open(self, backend: RowVerbs) -> Data:
        """Return the rows themselves, where `dbdl.backends.sharded.Part` reads them first."""
        return self

    def row_weight(self, precision_of_class: Any) -> Any:
        """Weight of each row in a sum (n_samples,): the precision of its class times its own."""
        weight = precision_of_class[self.class_of_row]
        return weight if self.sample_weight is None else weight * self.sample_weight


class RowVerbs(Protocol):
    """Verbs over rows. Data and codes are in the backend's own form."""

    def place(self, X: Any, class_of_row: Classes, sample_weight: Weights = None) -> Data:
        """Take rows (n_samples, n_features), their class indices and weights (n_samples,)."""

    def hold(self, data: Data) -> Data:
        """Move placed NumPy rows to where the backend's arrays live."""

    def rows(self, data: Data, indices: NDArray[np.int64]) -> Any:
        """Return the rows with these ascending indices, as the backend's array."""

    def labels(self, data: Data) -> Data:
        """Return data with the labels (1 at the class, 0 elsewhere) in place of the rows."""

    def start(self, data: Data, atoms: Any, n_nonzero: int) -> Any:
        """Initial codes of a chain, by matching pursuit."""

    def sweep(
        self, key: Key, number: int, data: Data, codes: Any, parameters: Parameters, scan: Scan
    ) -> tuple[Any, UsageSums]:
        """Draw every row's usage and strengths (eqs. 9 and 10); return new codes and their sums."""

    def usage(self, data: Data, codes: Any, parameters: Parameters) -> UsageSums:
        """Sums of given codes, as a sweep returns them: NumPy arrays."""

    def gather(self, data: Data, codes: Any, n_atoms: int, precision_of_class: Doubles) -> AtomSums:
        """Sums for the draw of the atoms, in C order, rows weighted by `Data.row_weight`.

        ``precision_of_class`` (n_classes,) are the noise precisions.
        """

    def keep(self, codes: Any, kept: NDArray[np.intp], n_atoms: int) -> Any:
        """Codes over the atoms in ``kept``."""

    def codes_to_host(self, codes: Any) -> Codes:
        """Return codes as NumPy arrays."""

    def codes_from_host(self, data: Data, codes: Codes, n_atoms: int) -> Any:
        """Move NumPy codes to where the backend's arrays live."""


class AtomVerbs(Arrays, Protocol):
    """Verbs over atoms and selection probabilities, which are the backend's arrays."""

    def draw_atoms(
        self, key: Key, number: int, posterior: AtomPosterior, atoms: Any, births: Births
    ) -> Any:
        """Draw the atoms in turn, each given the latest draws of the others (eq. 8)."""

    def mean_atoms(self, posterior: AtomPosterior) -> Any:
        """Posterior mean of the atoms (n_atoms, n_features)."""

    def unit_atoms(self, atoms: Any, like: Any) -> tuple[Floats, Doubles]:
        """NumPy atoms of unit norm in the dtype of ``like``, and their norms before scaling."""

    def norm_square(self, atoms: Any) -> Doubles:
        """Squared norms of the atoms (n_atoms,) as a NumPy array."""

    def draw_selection(
        self, key: Key, number: int, data: Data, sums: UsageSums, births: Births, priors: Priors
    ) -> Any:
        """Draw the logits of the selection probabilities (eq. 11), (n_classes, n_atoms)."""

    def log_large_terms(
        self, parameters: Parameters, sums: UsageSums, n_rows: NDArray[Any], priors: Priors
    ) -> float:
        """Log density of usage, selection probabilities and atoms (`dbdl.model.joint`)."""


class ViewVerbs(Protocol):
    """Verbs over views, which `dbdl.views` describes."""

    def fit_view(self, recipe: Recipe, rows: LabelledRows) -> Fitted:
        """Learn a view from rows."""

    def see(self, view: Any, rows: LabelledRows) -> Any:
        """Rows to learn from as a view shows them, for `RowVerbs.place`."""

    def see_new(self, view: Any, X: Floats) -> Floats:
        """New rows (n_samples, n_features) in memory as a view shows them, in memory too."""


class Backend(RowVerbs, AtomVerbs, ViewVerbs, Protocol):
    """All verbs, including those over published atoms and codes."""

    #: "cpu" or "cuda".
    device_kind: ClassVar[str]

    @property
    def n_threads(self) -> int:
        """Number of threads that the backend uses."""

    @property
    def n_lanes(self) -> int:
        """Number of chains that are learned at the same time."""

    def lane(self, alone: bool = False) -> AbstractContextManager[Any]:
        """Run the calls inside in a separate lane, so that chains overlap.

        ``alone`` waits until all other lanes are free, and keeps others waiting.
        """

    def pursue(self, X: Floats, atoms: PreparedAtoms, lengths: Sequence[int], rule: Rule) -> Paths:
        """Greedy paths of new rows over published atoms, like `dbdl.coding.omp.encode`."""

    def ridge(self, codes: csr_matrix, target: Doubles, penalty: float) -> Doubles:
        """Ridge regression on published codes, like `dbdl.model.ridge.ridge`."""

    def ridge_labels(self, data: Data, codes: Any, scale: Doubles, penalty: float) -> Doubles:
        """Ridge regression of the labels on ``codes * scale``: (n_atoms, n_classes)."""


def parameters_to_host(parameters: Parameters, backend: Backend) -> Parameters:
    """Return parameters with NumPy arrays."""
    atoms, logit = map(backend.to_host, (parameters.atoms, parameters.selection_logit))
    return replace(parameters, atoms=atoms, selection_logit=np.asarray(logit, np.float64))


def parameters_from_host(parameters: Parameters, backend: Backend) -> Parameters:
    """Return parameters with the large arrays moved to where the backend's live."""
    atoms, logit = map(backend.put, (parameters.atoms, parameters.selection_logit))
    return replace(parameters, atoms=atoms, selection_logit=logit)


def number_rows(X: Any, class_of_row: Classes, sample_weight: Weights) -> Data:
    """Count the rows of each class; the sum of the squared norms is not known yet."""
    class_of_row = np.ascontiguousarray(class_of_row, dtype=np.int64)
    classes, first_row, n_rows = np.unique(class_of_row, return_index=True, return_counts=True)
    if not np.array_equal(classes, np.arange(len(classes))):
        raise ValueError(
            f"class indices must be 0, 1, ... without a gap, got {classes}; make them with "
            "np.unique(y, return_inverse=True)"
        )
    if sample_weight is not None:
        n_rows = np.bincount(class_of_row, weights=sample_weight)
    return Data(X, class_of_row, n_rows, first_row, np.nan, sample_weight=sample_weight)


def in_memory(X: Floats) -> Floats:
    """Return rows in the layout that kernels are compiled for."""
    return np.require(X, requirements=["C", "A", "W"])


def label_rows(data: Data) -> Data:
    """Replace rows by labels (1 at the class, 0 elsewhere) of the same dtype."""
    labels = np.eye(data.n_classes, dtype=data.X.dtype)[data.class_of_row]
    return replace(data, X=labels, square=float(data.n_samples))


def sum_of_squares(X: Floats, block_rows: int) -> float:
    """Sum of the squared norms of all rows, block by block along the tree."""
    blocks = block_slices(len(X), block_rows)

    def block(index: int) -> float:
        rows = X[blocks[index]]
        return float(np.einsum("ij,ij->", rows, rows, dtype=np.float64))

    return tree_sum(block, len(blocks))
