"""What a backend does: a handful of verbs over blocks of samples.

The model's mathematics and the sampler know nothing of how rows are stored or walked. They ask a
backend to place the data, to start and sweep the codes, and to hand back sums over samples. A
GPU or a cluster fits behind the same verbs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from dbdl._arrays import unit_rows
from dbdl._threads import block_slices, run_blocks
from dbdl.coding.coder import Paths, PreparedAtoms
from dbdl.coding.omp import Rule, encode
from dbdl.draws import Key, logit_betas
from dbdl.model import conditionals
from dbdl.model.codes import Scan
from dbdl.model.conditionals import AtomPosterior
from dbdl.model.joint import log_large_terms
from dbdl.model.priors import AtomPrior, Priors
from dbdl.model.record import ArrayRecord
from dbdl.model.ridge import ridge, scaled_ridge
from dbdl.model.state import Codes, Floats, Parameters
from dbdl.model.statistics import SUM_ROWS, AtomSums, UsageSums, tree_sum


class DeviceMemoryError(MemoryError):
    """The memory of a device is used up.

    Attributes
    ----------
    n_entries : int
        Rows times atoms that would fit.
    """

    def __init__(self, message: str, n_entries: int) -> None:
        super().__init__(message)
        self.n_entries = n_entries


#: Chains that share a GPU or a cluster: while one waits for the host, the others use it.
LANES_OF_A_DEVICE = 5

ALL_ZERO = "every row of X is zero: there is nothing to learn. Check how X was made."


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


class Backend(Protocol):
    """The verbs.

    Codes, atoms, sums for the atoms and selection probabilities are the backend's own arrays,
    wherever they live: the sampler only hands them back. `UsageSums` are NumPy's.
    """

    #: "cpu" or "cuda".
    device_kind: ClassVar[str]

    @property
    def n_threads(self) -> int:
        """Number of threads that the backend uses."""

    @property
    def n_lanes(self) -> int:
        """Number of chains that are learned at the same time."""

    def place(self, X: Any, class_of_row: NDArray[np.int64]) -> Data:
        """Put rows (n_samples, n_features) and their class numbers (n_samples,) in place."""

    def hold(self, data: Data) -> Data:
        """Put NumPy rows where the backend's arrays live."""

    def rows(self, data: Data, numbers: NDArray[np.int64]) -> Any:
        """Return some of the rows by number, as the backend's array."""

    def labels(self, data: Data) -> Data:
        """Return the labels of the rows (1 at the class, 0 elsewhere) in place of the rows."""

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

    def atoms_posterior(self, sums: AtomSums, prior: AtomPrior) -> AtomPosterior:
        """All atoms given codes and noise precision (eq. 8); may take the sums over."""

    def mean_atoms(self, posterior: AtomPosterior) -> Any:
        """Posterior mean of the atoms (n_atoms, n_features)."""

    def unit_atoms(self, atoms: Any, like: Any) -> tuple[Floats, NDArray[np.float64]]:
        """Atoms of unit norm in the dtype of ``like``, and the norms they had, on the host."""

    def norm_square(self, atoms: Any) -> NDArray[np.float64]:
        """Squared norms of the atoms (n_atoms,), on the host."""

    def draw_selection(
        self,
        key: Key,
        number: int,
        data: Data,
        sums: UsageSums,
        births: NDArray[np.int64],
        priors: Priors,
    ) -> Any:
        """Draw the logits of the selection probabilities (eq. 11), (n_classes, n_atoms)."""

    def log_large_terms(
        self, parameters: Parameters, sums: UsageSums, data: Data, priors: Priors
    ) -> float:
        """Log density of usage, selection probabilities and atoms: what needs large arrays."""

    def keep(self, codes: Any, kept: NDArray[np.intp], n_atoms: int) -> Any:
        """Codes over the atoms in ``kept`` alone."""

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

    def lane(self, alone: bool = False) -> AbstractContextManager[Any]:
        """Give the calls inside a lane of their own, so that chains overlap.

        ``alone`` waits for the lanes that others have taken, and has others wait.
        """

    def put(self, array: Floats) -> Any:
        """Put an array where the backend's arrays live."""

    def to_host(self, array: Any) -> Floats:
        """Return one of the backend's arrays as NumPy's."""

    def codes_to_host(self, codes: Any) -> Codes:
        """Return codes as NumPy arrays."""

    def codes_from_host(self, data: Data, codes: Codes, n_atoms: int) -> Any:
        """Put NumPy codes where the backend's arrays live."""


@dataclass(frozen=True)
class HostBackend:
    """What backends share whose arrays are NumPy's: all that is not over the samples.

    Attributes
    ----------
    n_threads : int
    block_rows : int
        Rows summed together, a multiple of 32; results depend on it, by rounding alone.
    """

    device_kind: ClassVar[str] = "cpu"

    n_threads: int = 1
    block_rows: int = SUM_ROWS

    @property
    def n_lanes(self) -> int:
        """Number of chains that are learned at the same time: one per thread."""
        return self.n_threads

    def place(self, X: Floats, class_of_row: NDArray[np.int64]) -> Data:
        """Put rows and their class numbers in place."""
        return self.hold(
            place_rows(X, class_of_row, lambda rows: sum_of_squares(rows, self.block_rows))
        )

    def hold(self, data: Data) -> Data:
        """Return the rows: they are where they should be."""
        return data

    def rows(self, data: Data, numbers: NDArray[np.int64]) -> Floats:
        """Return some of the rows by number."""
        return data.X[numbers]

    def labels(self, data: Data) -> Data:
        """Return the labels of the rows in place of the rows."""
        return self.hold(label_rows(data))

    def atoms_posterior(self, sums: AtomSums, prior: AtomPrior) -> AtomPosterior:
        """All atoms given codes and noise precision (eq. 8); takes the sums over."""
        return conditionals.atoms_posterior(sums, prior)

    def mean_atoms(self, posterior: AtomPosterior) -> Floats:
        """Posterior mean of the atoms."""
        return posterior.mean()

    def unit_atoms(self, atoms: Floats, like: Floats) -> tuple[Floats, NDArray[np.float64]]:
        """Atoms of unit norm in the dtype of ``like``, and the norms they had."""
        wide = atoms.astype(np.float64, copy=False)
        unit = unit_rows(wide)
        norm = np.einsum("kj,kj->k", unit, wide)  # the square of a small norm would vanish
        norm[~wide.any(axis=1)] = 1.0
        return unit.astype(like.dtype, order="C"), norm

    def norm_square(self, atoms: Floats) -> NDArray[np.float64]:
        """Squared norms of the atoms."""
        square: NDArray[np.float64] = np.einsum("kj,kj->k", atoms, atoms, dtype=np.float64)
        return square

    def draw_selection(
        self,
        key: Key,
        number: int,
        data: Data,
        sums: UsageSums,
        births: NDArray[np.int64],
        priors: Priors,
    ) -> NDArray[np.float64]:
        """Draw the logits of the selection probabilities (eq. 11), (n_classes, n_atoms)."""
        posterior = conditionals.selection_posterior(sums.count, data.n_rows, priors)
        first_row = data.first_row[:, np.newaxis]

        def draw(classes: slice) -> NDArray[np.float64]:
            a, b = posterior.a[classes], posterior.b[classes]
            return logit_betas(key, first_row[classes], births, number, a, b)

        share = -(-data.n_classes // self.n_threads)
        blocks = run_blocks(draw, block_slices(data.n_classes, share), self.n_threads)
        return np.concatenate(blocks)

    def log_large_terms(
        self, parameters: Parameters, sums: UsageSums, data: Data, priors: Priors
    ) -> float:
        """Log density of usage, selection probabilities and atoms."""
        return log_large_terms(parameters, sums, data.n_rows, priors)

    def keep(self, codes: Any, kept: NDArray[np.intp], n_atoms: int) -> Any:
        """Codes over the atoms in ``kept`` alone."""
        return codes.keep(kept, n_atoms)

    def pursue(self, X: Floats, atoms: PreparedAtoms, lengths: Sequence[int], rule: Rule) -> Paths:
        """Greedy paths of new rows over published atoms."""
        return encode(X, atoms.atoms, atoms.gram, lengths, rule, None, self.n_threads)

    def ridge(
        self, codes: csr_matrix, target: NDArray[np.float64], penalty: float
    ) -> NDArray[np.float64]:
        """Ridge regression on published codes."""
        return ridge(codes, target, penalty)

    def ridge_labels(
        self: Any, data: Data, codes: Any, scale: NDArray[np.float64], penalty: float
    ) -> NDArray[np.float64]:
        """Ridge regression of the labels on ``codes * scale``, from sums over the rows."""
        sums = self.gather(self.labels(data), codes, len(scale), np.ones(data.n_classes))
        return scaled_ridge(sums, scale, penalty)

    def lane(self, alone: bool = False) -> AbstractContextManager[Any]:
        """Do nothing: threads overlap as they are."""
        return nullcontext()

    def put(self, array: Floats) -> Floats:
        """Return the array: it is where it should be."""
        return array

    def to_host(self, array: Floats) -> Floats:
        """Return the array: it is NumPy's."""
        return array

    def codes_to_host(self, codes: Codes) -> Codes:
        """Return the codes: they are NumPy's."""
        return codes

    def codes_from_host(self, data: Data, codes: Codes, n_atoms: int) -> Any:
        """Return the codes: they are where they should be."""
        return codes


def parameters_to_host(parameters: Parameters, backend: Backend) -> Parameters:
    """Return parameters with NumPy's arrays."""
    return replace(
        parameters,
        atoms=backend.to_host(parameters.atoms),
        selection_logit=np.asarray(backend.to_host(parameters.selection_logit), np.float64),
    )


def parameters_from_host(parameters: Parameters, backend: Backend) -> Parameters:
    """Return parameters whose large arrays are where the backend's live."""
    return replace(
        parameters,
        atoms=backend.put(parameters.atoms),
        selection_logit=backend.put(parameters.selection_logit),
    )


def place_rows(
    X: Floats, class_of_row: NDArray[np.int64], square: Callable[[Floats], float]
) -> Data:
    """Rows in memory, in the order of C; ``square`` sums their squared norms."""
    class_of_row = np.ascontiguousarray(class_of_row, dtype=np.int64)
    classes, first_row, n_rows = np.unique(class_of_row, return_index=True, return_counts=True)
    if not np.array_equal(classes, np.arange(len(classes))):
        raise ValueError(
            f"class numbers must be 0, 1, ... without a gap, got {classes}; number them with "
            "np.unique(y, return_inverse=True)"
        )
    X = np.require(X, requirements=["C", "A", "W"])  # kernels are compiled for such arrays
    return Data(X, class_of_row, n_rows, first_row, square(X))


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
