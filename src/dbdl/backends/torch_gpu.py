"""The backend for one GPU: PyTorch for matrix products, Triton for the sequential work in a row.

Data, atoms, codes and their Gram matrices stay on the device for the whole chain; a sweep returns
the sums that the draws of the precisions need. Codes are dense there: a GPU multiplies them faster
than it would sort them.

Every product whose rounding could change a decision is computed in the dtype of the data without
TF32, whose error in the log-odds is 2 at a noise precision of 1e6. The sums for the atoms are in
float64, which a data-centre GPU multiplies as fast as float32. Draws are made at the addresses of
`dbdl.draws`, so chains on the GPU and on the CPU use the same random words.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
import triton
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.special import betaln
from torch import Tensor

from dbdl._threads import block_slices
from dbdl.backends import triton_kernels as kernels
from dbdl.backends.base import (
    LANES_OF_A_DEVICE,
    Births,
    Data,
    DeviceMemoryError,
    in_memory,
    number_rows,
)
from dbdl.backends.host import HostBackend
from dbdl.backends.torch_views import DeviceRows, can_map, map_rows, to_numpy
from dbdl.coding.coder import PreparedAtoms
from dbdl.coding.omp import DEPENDENCE, NOISE, Rule
from dbdl.draws import Key, Site
from dbdl.model.atom_priors import AtomPosterior
from dbdl.model.codes import Scan
from dbdl.model.definite import solve_definite
from dbdl.model.priors import Priors
from dbdl.model.state import Classes, Codes, Doubles, Floats, Parameters
from dbdl.model.statistics import AtomSums, UsageSums, Weights
from dbdl.views import Fitted, LabelledRows, OwnView, Recipe

#: Pairs of features, or atoms, that one program draws.
DRAW_BLOCK = 256
#: Memory of a chain per row and atom, measured at 200,000 rows and 2,000 atoms in float32.
BYTES_AN_ENTRY = 20
#: Atoms that one program of a sweep processes. Short windows leave more of the work to matrix
#: products; long ones take fewer launches, which matters if there are few rows.
SHORT_WINDOW, LONG_WINDOW, MANY_ROWS = 128, 256, 16_384
#: Atoms drawn by one product, and the size of the triangles inverted by substitution.
ATOM_BLOCK, TRIANGLE = 384, 48
#: Most features of a row that one program processes.
FEATURE_TILE = 4096
#: Share of non-zeros above which a matrix product computes residuals faster than look-ups.
DENSE_CODES = 0.03
#: Rows whose codes are summed together: intermediate arrays take memory.
ROWS_TOGETHER = 16_384
#: Most bytes of work space for matching pursuit on the device.
PURSUIT_BYTES = 4 << 30


@dataclass(frozen=True)
class DeviceData(Data):
    """Rows and class indices on the device."""

    class_on_device: Any = None
    one_hot: Any = None  # (n_classes, n_samples), float32: counts below 2**24 are exact
    weight_on_device: Any = None

    def row_weight(self, precision_of_class: Tensor) -> Tensor:
        """Weight of each row in a sum (n_samples,): the precision of its class times its own."""
        weight = precision_of_class[self.class_on_device]
        return weight if self.weight_on_device is None else weight * self.weight_on_device

    @property
    def weighted_one_hot(self) -> Tensor:
        """Weights of the rows of each class (n_classes, n_samples), in float64 if there are any."""
        if self.weight_on_device is None:
            return self.one_hot
        return self.one_hot.double() * self.weight_on_device


class DeviceSums(UsageSums):
    """Sums on the host; the counts stay on the device until they are needed."""

    count_on_device: Tensor

    def __init__(self, count: Tensor, energy: Tensor, squares: Tensor) -> None:
        """Copy all but the counts to the host; ``squares`` are of strengths and residuals."""
        wide = count.double()
        small = torch.cat([wide.sum(dim=0), wide.sum(dim=1), energy, squares.flatten()])
        n_classes, n_atoms = count.shape
        ends = np.cumsum([n_atoms, n_classes, n_atoms, n_classes])
        uses, n_strengths, energies, *both = np.split(small.cpu().numpy(), ends)
        kind = np.float64 if count.dtype == torch.float64 else np.int64  # weighted, or whole
        whole = {"uses": uses.astype(kind), "n_strengths": n_strengths.astype(kind)}
        sums = {"energy": energies, "strength_square": both[0], "residual_square": both[1]}
        vars(self).update(whole, **sums, count_on_device=count)

    @cached_property
    def count(self) -> NDArray[Any]:
        weighted = self.count_on_device.dtype == torch.float64
        count = self.count_on_device if weighted else self.count_on_device.long()
        return count.cpu().numpy()


@dataclass(frozen=True)
class TorchBackend(HostBackend):
    """Chains on one PyTorch device: "cuda", "cuda:1"; "cpu" is for Triton's interpreter."""

    device_kind: ClassVar[str] = "cuda"

    device: str = "cuda"

    @property
    def n_lanes(self) -> int:
        return max(self.n_threads, LANES_OF_A_DEVICE)

    # -------------------------------------------------------------------------- moving arrays

    def put(self, array: NDArray[Any] | Tensor) -> Tensor:
        if isinstance(array, Tensor):  # rows that a view has mapped
            return array
        # Not blocking: PyTorch reads a NumPy array before this returns.
        here = torch.from_numpy(np.ascontiguousarray(array))
        return here.to(self.device, copy=True, non_blocking=True)

    def to_host(self, array: Tensor) -> NDArray[Any]:
        return to_numpy(array)

    def dot(self, one: Tensor, other: Tensor) -> float:
        return float(torch.dot(one.double().flatten(), other.double().flatten()))

    def place(self, X: Any, class_of_row: Classes, sample_weight: Weights = None) -> DeviceData:
        X = X if isinstance(X, Tensor) else in_memory(X)
        data = self.hold(number_rows(X, class_of_row, sample_weight))
        return replace(data, square=float(sum_of_squares(data.X, 1).sum()))

    def hold(self, data: Data) -> DeviceData:
        classes = self.put(data.class_of_row)
        one_hot = torch.nn.functional.one_hot(classes, data.n_classes).T.float().contiguous()
        placed = vars(data) | {"X": self.put(data.X)}
        weight = None if data.sample_weight is None else self.put(data.sample_weight)
        return DeviceData(
            **placed, class_on_device=classes, one_hot=one_hot, weight_on_device=weight
        )

    def rows(self, data: Any, indices: NDArray[np.int64]) -> Tensor:
        return data.X[self.put(indices)]

    def labels(self, data: Any) -> DeviceData:
        labels = data.one_hot.T.to(data.X.dtype).contiguous()  # kernels read along rows
        return replace(data, X=labels, square=float(data.n_samples))

    def codes_to_host(self, codes: Tensor) -> Codes:
        used = codes != 0
        row_start = np.concatenate([[0], np.cumsum(self.to_host(used.sum(dim=1)))])
        atom = self.to_host(used.nonzero()[:, 1].to(torch.int32))
        return Codes(row_start.astype(np.int64), atom, self.to_host(codes[used]))

    def codes_from_host(self, data: Any, codes: Codes, n_atoms: int) -> Tensor:
        return self._dense(codes.row_start, codes.atom, codes.strength, n_atoms, data.X.dtype)

    def keep(self, codes: Tensor, kept: NDArray[np.intp], n_atoms: int) -> Tensor:
        return codes[:, self.put(kept)].contiguous()

    def lane(self, alone: bool = False) -> AbstractContextManager[Any]:
        return _lane(self.device, alone) if self.device.startswith("cuda") else nullcontext()

    def _here(self) -> AbstractContextManager[Any]:
        """Launch kernels on this device, even outside its lanes."""
        on_gpu = self.device.startswith("cuda")
        return torch.cuda.device(self.device) if on_gpu else nullcontext()

    # -------------------------------------------------------------------------------- the views

    def fit_view(self, recipe: Recipe, rows: LabelledRows) -> Fitted:
        if isinstance(recipe, OwnView):
            return recipe.fit(rows)
        with self._here(), exact_products():
            here: Any = DeviceRows.of(rows, self.device)
            return recipe.fit(here)

    def see(self, view: Any, rows: LabelledRows) -> Any:
        if not can_map(view):
            return rows.through(view)
        with self._here(), exact_products():
            return map_rows(view, self.put(rows.X))

    def see_new(self, view: Any, X: Floats) -> Floats:
        if not can_map(view):
            return super().see_new(view, X)
        with self._here(), exact_products():
            return self.to_host(map_rows(view, self.put(X)))

    # -------------------------------------------------------------------------------- the codes

    def start(self, data: Any, atoms: Tensor, n_nonzero: int) -> Tensor:
        with exact_products():
            gram = atoms @ atoms.T
        return pursue(data.X, atoms, gram, [n_nonzero], "forward").codes([0], len(atoms))

    def sweep(
        self, key: Key, number: int, data: Any, codes: Tensor, parameters: Parameters, scan: Scan
    ) -> tuple[Tensor, UsageSums]:
        atoms: Any = parameters.atoms
        residual, square = residuals(data.X, codes, atoms)
        codes, n_atoms = codes.clone(), len(atoms)
        window = SHORT_WINDOW if len(codes) >= MANY_ROWS else LONG_WINDOW
        changes = codes.new_empty(len(codes), window)
        births = self.put(parameters.births)
        by_class = (parameters.strength_precision, parameters.noise_precision)
        precisions = [self.put(array) for array in by_class]
        with exact_products():
            gram = atoms @ atoms.T
            matches = residual @ atoms.T
            for first in range(0, n_atoms, window):
                kernels.sweep_window[(len(codes),)](
                    *key, number, matches, codes, changes, gram, births, data.class_on_device,
                    parameters.selection_logit, *precisions, square, n_atoms, first, data.offset,
                    USAGE=int(Site.USAGE), STRENGTH=int(Site.STRENGTH),
                    PRIOR=int(Site.PRIOR_STRENGTH), PAPER=scan == "paper", WINDOW=window,
                    num_warps=kernels.n_warps(window),
                )  # fmt: skip
                behind = first + window
                if behind < n_atoms:
                    matches[:, behind:].addmm_(changes, gram[first:behind, behind:], alpha=-1)
        del residual, matches, changes  # the sums need the memory
        return codes, self._sums(data, codes, square)

    def usage(self, data: Any, codes: Tensor, parameters: Parameters) -> UsageSums:
        atoms: Any = parameters.atoms
        return self._sums(data, codes, residuals(data.X, codes, atoms)[1])

    def _sums(self, data: Any, codes: Tensor, square: Tensor) -> UsageSums:
        of_class, weight = data.weighted_one_hot, data.weight_on_device
        count = of_class.new_zeros(data.n_classes, codes.shape[1])
        with exact_products():
            for rows in block_slices(len(codes), ROWS_TOGETHER):
                count.addmm_(of_class[:, rows], (codes[rows] != 0).to(count.dtype))
        by_class = torch.stack([sum_of_squares(codes, 1), square]) @ of_class.double().T
        return DeviceSums(count, sum_of_squares(codes, 0, weight), by_class)

    def gather(
        self, data: Any, codes: Tensor, n_atoms: int, precision_of_class: Doubles
    ) -> AtomSums:
        X: Any = data.X
        weight = data.row_weight(self.put(precision_of_class))[:, None]
        gram, cross = (
            torch.zeros(n_atoms, width, dtype=torch.float64, device=X.device)
            for width in (n_atoms, X.shape[1])
        )
        for rows in block_slices(len(X), ROWS_TOGETHER):
            wide = codes[rows].double()
            weighted = (wide * weight[rows]).T
            gram.addmm_(weighted, wide)
            cross.addmm_(weighted, X[rows].double())
        return AtomSums(gram, cross)

    # -------------------------------------------------------------------------------- the atoms

    def draw_atoms(
        self, key: Key, number: int, posterior: AtomPosterior, atoms: Tensor, births: Births
    ) -> Tensor:
        """Draw the atoms in turn, each given the latest draws of the others (eq. 8).

        (D + L) new = natural_mean - U old + sqrt(D) noise, as on the CPU, block by block: one
        product with all current atoms, and one with the inverse of the block's triangle.
        """
        precision, natural_mean, feature_precision = posterior
        n_atoms, n_features = atoms.shape
        right = torch.empty(n_atoms, n_features, dtype=torch.float64, device=atoms.device)
        n_blocks = triton.cdiv(n_features, 2 * DRAW_BLOCK)
        kernels.fill_normals[(n_atoms, n_blocks)](
            *key, number, self.put(births), right, n_features, SITE=int(Site.ATOM), BLOCK=DRAW_BLOCK
        )
        diagonal = precision.diagonal()[:, None]
        if feature_precision is not None:
            diagonal = diagonal + feature_precision
        right *= diagonal.sqrt()
        right += natural_mean
        drawn = atoms.to(torch.float64, copy=True)
        if feature_precision is not None:
            return _draw_by_substitution(precision, diagonal, right, drawn).to(atoms.dtype)
        inverse = inverse_lower_blocks(precision)
        for block, rows in zip(inverse, block_slices(n_atoms, ATOM_BLOCK), strict=True):
            height = rows.stop - rows.start
            change = torch.addmm(right[rows], precision[rows], drawn, alpha=-1)
            drawn[rows] += block[:height, :height] @ change
        return drawn.to(atoms.dtype)

    def mean_atoms(self, posterior: AtomPosterior) -> Tensor:
        precision, natural_mean, feature_precision = posterior
        if feature_precision is None:
            return self._solve_definite(precision, natural_mean)
        value, vector = torch.linalg.eigh(precision)
        return vector @ ((vector.T @ natural_mean) / (value[:, None] + feature_precision))

    def unit_atoms(self, atoms: Tensor, like: Tensor) -> tuple[Floats, Doubles]:
        wide = atoms.double()
        largest = wide.abs().amax(dim=1, keepdim=True)
        largest[largest == 0] = 1.0
        part = wide / largest  # the square of a small norm would underflow
        norm = part.norm(dim=1, keepdim=True)
        norm[norm == 0] = 1.0
        return self.to_host((part / norm).to(like.dtype)), self.to_host((norm * largest)[:, 0])

    def norm_square(self, atoms: Tensor) -> Doubles:
        return self.to_host(sum_of_squares(atoms, 1))

    # ---------------------------------------------------------------- probabilities and density

    def draw_selection(
        self, key: Key, number: int, data: Any, sums: UsageSums, births: Births, priors: Priors
    ) -> Tensor:
        n_classes, n_atoms = data.n_classes, len(births)
        logit = torch.empty(n_classes, n_atoms, dtype=torch.float64, device=self.device)
        prior = [np.broadcast_to(part, (n_classes, 1)) for part in (priors.beta_a, priors.beta_b)]
        kernels.draw_selection[(n_classes, triton.cdiv(n_atoms, DRAW_BLOCK))](
            *key, number, self.put(data.first_row), self.put(births), self._count(sums),
            self.put(data.n_rows), self.put(np.hstack(prior)), logit,
            n_atoms, SITE_A=int(Site.SELECTION), SITE_B=int(Site.NOT_SELECTION), BLOCK=DRAW_BLOCK,
        )  # fmt: skip
        return logit

    def log_large_terms(
        self, parameters: Parameters, sums: UsageSums, n_rows: NDArray[Any], priors: Priors
    ) -> float:
        logit: Any = parameters.selection_logit
        count = self._count(sums).double()
        prior_a, prior_b = (self.put(np.asarray(p)) for p in (priors.beta_a, priors.beta_b))
        a = prior_a + count
        b = prior_b + (self.put(n_rows)[:, None] - count).clamp(min=0)  # rounding of weights
        log_p = torch.nn.functional.logsigmoid(logit)
        selection = float((a * log_p + b * (log_p - logit)).sum())
        selection -= logit.numel() * float(np.mean(betaln(priors.beta_a, priors.beta_b)))
        return selection + priors.atoms.log_density(parameters.atoms, self)

    def _count(self, sums: UsageSums) -> Tensor:
        here = getattr(sums, "count_on_device", None)
        return self.put(sums.count) if here is None else here

    # -------------------------------------------------------------------- published atoms and codes

    def pursue(
        self, X: Floats, atoms: PreparedAtoms, lengths: Sequence[int], rule: Rule
    ) -> DevicePursuit:
        with self._here(), exact_products():
            dictionary = self.put(atoms.atoms)
            return pursue(self.put(X), dictionary, dictionary @ dictionary.T, lengths, rule)

    def ridge(self, codes: csr_matrix, target: Doubles, penalty: float) -> Doubles:
        dense = self._dense(codes.indptr, codes.indices, codes.data, codes.shape[1], torch.float64)
        return self._solve_ridge(dense, self.put(target), penalty)

    def ridge_labels(self, data: Any, codes: Tensor, scale: Doubles, penalty: float) -> Doubles:
        scaled, labels = codes.double() * self.put(scale), data.one_hot.T.double()
        if data.weight_on_device is not None:
            root = data.weight_on_device.sqrt()[:, None]
            scaled, labels = root * scaled, root * labels
        return self._solve_ridge(scaled, labels, penalty)

    def _solve_ridge(self, codes: Tensor, target: Tensor, penalty: float) -> Doubles:
        """Solve by the smaller of the two Gram matrices."""
        few_atoms = codes.shape[1] <= codes.shape[0]
        gram = codes.T @ codes if few_atoms else codes @ codes.T
        gram.diagonal().add_(penalty)
        right = codes.T @ target if few_atoms else target
        solved = self._solve_definite(gram, right)
        return self.to_host(solved if few_atoms else codes.T @ solved)

    def _solve_definite(self, matrix: Tensor, right: Tensor) -> Tensor:
        """Solve by Cholesky; on the host where rounding has made the matrix singular."""
        factor, failed = torch.linalg.cholesky_ex(matrix)
        if failed:
            return self.put(solve_definite(self.to_host(matrix), self.to_host(right)))
        return torch.cholesky_solve(right, factor)

    def _dense(
        self, row_start: Any, atom: Any, strength: Any, n_atoms: int, dtype: torch.dtype
    ) -> Tensor:
        """Put sparse codes on the device as a dense array."""
        n_rows = len(row_start) - 1
        dense = torch.zeros(n_rows, n_atoms, dtype=dtype, device=self.device)
        rows = np.repeat(np.arange(n_rows), np.diff(row_start))
        place = self.put(rows), self.put(atom.astype(np.int64))
        return dense.index_put_(place, self.put(strength).to(dtype))


def _draw_by_substitution(
    precision: Tensor, diagonal: Tensor, right: Tensor, drawn: Tensor
) -> Tensor:
    """Draw atoms one by one, if the diagonal (n_atoms, n_features) differs by feature."""
    for k in range(len(drawn)):
        others = precision[k] @ drawn - precision[k, k] * drawn[k]
        drawn[k] = (right[k] - others) / diagonal[k]
    return drawn


def inverse_lower_blocks(precision: Tensor) -> Tensor:
    """Inverses of the lower triangles of the diagonal blocks of `ATOM_BLOCK` atoms, stacked.

    Small triangles are inverted by substitution, larger ones from their halves: the inverse of
    [[A, 0], [C, B]] is [[A', 0], [-B' C A', B']].
    """
    blocks = _diagonal_blocks(precision)
    inverse = torch.zeros_like(blocks)
    identity = torch.eye(TRIANGLE, dtype=precision.dtype, device=precision.device)
    triangles = _along_diagonal(blocks, TRIANGLE)
    _along_diagonal(inverse, TRIANGLE).copy_(
        torch.linalg.solve_triangular(triangles, identity.expand_as(triangles), upper=False)
    )
    half = TRIANGLE
    while half < ATOM_BLOCK:
        known, given = (_along_diagonal(array, 2 * half) for array in (inverse, blocks))
        corner = known[:, half:, half:] @ given[:, half:, :half] @ known[:, :half, :half]
        torch.neg(corner, out=known[:, half:, :half])
        half *= 2
    return inverse[:, :ATOM_BLOCK]


def _diagonal_blocks(precision: Tensor) -> Tensor:
    """Blocks (n_blocks, ATOM_BLOCK + 1, ATOM_BLOCK) along the diagonal; the last row is padding.

    With that row, the squares along the diagonals of all blocks are evenly spaced in memory. The
    last block is padded with ones on the diagonal.
    """
    n, size = len(precision), ATOM_BLOCK
    n_whole, n_left = divmod(n, size)
    blocks = precision.new_zeros(triton.cdiv(n, size), size + 1, size)
    whole = precision.as_strided((n_whole, size, size), (size * (n + 1), n, 1))
    blocks[:n_whole, :size] = whole
    if n_left:
        blocks[-1].fill_diagonal_(1.0)
        blocks[-1, :n_left, :n_left] = precision[-n_left:, -n_left:]
    return blocks


def _along_diagonal(blocks: Tensor, width: int) -> Tensor:
    """Squares of ``width`` along the diagonals of `_diagonal_blocks`, as a view."""
    n_blocks, rows, size = blocks.shape
    return blocks.as_strided((n_blocks * size // width, width, width), (width * rows, size, 1))


def sum_of_squares(array: Tensor, dim: int, weight: Tensor | None = None) -> Tensor:
    """Sums of squares along a dimension of a matrix, in float64, in parts to save memory.

    Rows may have weights in sums along dimension 0.
    """
    squares = (part.double().square() for part in array.split(ROWS_TOGETHER))
    if weight is not None:
        pairs = zip(weight.split(ROWS_TOGETHER), squares, strict=True)
        return torch.stack([own @ part for own, part in pairs]).sum(dim=0)
    parts = [part.sum(dim=dim) for part in squares]
    return torch.cat(parts) if dim == 1 else torch.stack(parts).sum(dim=0)


def residuals(X: Tensor, codes: Tensor, atoms: Tensor) -> tuple[Tensor, Tensor]:
    """Residuals x - code @ atoms (eq. 7), and their squared norms in float64."""
    if int(codes.count_nonzero()) > DENSE_CODES * codes.numel():
        with exact_products():
            left = torch.addmm(X, codes, atoms, alpha=-1)
        return left, sum_of_squares(left, 1)
    n_rows, n_features = X.shape
    left = X.clone()
    width = min(triton.next_power_of_2(n_features), FEATURE_TILE)
    n_tiles = triton.cdiv(n_features, width)
    squares = torch.empty(n_tiles, n_rows, dtype=torch.float64, device=X.device)
    block, n_warps = kernels.block_and_warps(min(len(atoms), FEATURE_TILE))
    kernels.subtract_codes[(n_rows, n_tiles)](
        codes, atoms, left, squares, len(atoms), n_features,
        BLOCK_ATOMS=block, BLOCK_FEATURES=max(width, 16), num_warps=n_warps,
    )  # fmt: skip
    return left, squares.sum(dim=0)


_lock = threading.Lock()
_lanes_of_device: dict[int, _Lanes] = {}
_n_exact = 0
_precision_before = "highest"


class _Lanes:
    """Streams of a device, used by several chains in parallel or by one alone."""

    def __init__(self, device: int) -> None:
        self._device = device
        self._idle: list[Any] = []
        self._n_taken, self._n_alone = 0, 0
        self._changed = threading.Condition()
        # PyTorch loads its linear algebra at the first call, and fails if two threads make it.
        one = torch.ones(1, 1, device=device)
        torch.linalg.cholesky(one)
        torch.linalg.solve_triangular(one, one, upper=False)

    @contextmanager
    def take(self, alone: bool) -> Iterator[Any]:
        """Lend a stream; streams are reused, since PyTorch caches memory per stream."""
        with self._changed:
            self._n_alone += alone
        try:
            with self._changed:
                self._changed.wait_for(lambda: (self._n_taken if alone else self._n_alone) == 0)
                stream = self._idle.pop() if self._idle else torch.cuda.Stream(self._device)
                self._n_taken += 1
            try:
                yield stream
            finally:
                with self._changed:
                    self._idle.append(stream)
                    self._n_taken -= 1
        finally:
            with self._changed:
                self._n_alone -= alone
                self._changed.notify_all()


def _lanes(device: str) -> _Lanes:
    index = torch.device(device).index
    index = torch.cuda.current_device() if index is None else index
    with _lock:
        if index not in _lanes_of_device:
            _lanes_of_device[index] = _Lanes(index)
        return _lanes_of_device[index]


@contextmanager
def _lane(device: str, alone: bool) -> Iterator[None]:
    with _lanes(device).take(alone) as stream:
        before = torch.cuda.memory_allocated(device)
        try:
            with torch.cuda.stream(stream):
                yield
        except torch.cuda.OutOfMemoryError as error:
            # The error keeps the memory of this work in use, which is free once it is handled.
            free, total = torch.cuda.mem_get_info(device)
            free += torch.cuda.memory_reserved(device) - before
            raise DeviceMemoryError(
                what_would_fit(device, free, total), free // BYTES_AN_ENTRY
            ) from error


def what_would_fit(device: str, free: int, total: int) -> str:
    """Say that a device is out of memory, and which size would fit (arguments in bytes)."""
    n_entries = free // BYTES_AN_ENTRY
    return (
        f"{device} has too little memory: {free / 2**30:.1f} of {total / 2**30:.1f} GiB free. A "
        f"chain needs about {BYTES_AN_ENTRY} bytes for each row and atom in float32, so about "
        f"{n_entries:,} rows x atoms would fit: {n_entries // 1000:,} rows with 1000 atoms. "
        "Use fewer rows, a smaller n_initial_atoms, n_chains=1, or device='cpu'."
    )


@contextmanager
def exact_products() -> Iterator[None]:
    """Multiply float32 in full precision: TF32 would change decisions."""
    global _n_exact, _precision_before
    with _lock:  # the setting is global: the last to leave restores it
        if _n_exact == 0:
            _precision_before = torch.get_float32_matmul_precision()
            torch.set_float32_matmul_precision("highest")
        _n_exact += 1
    try:
        yield
    finally:
        with _lock:
            _n_exact -= 1
            if _n_exact == 0:
                torch.set_float32_matmul_precision(_precision_before)


# ------------------------------------------------------------------------------- matching pursuit


@dataclass(frozen=True)
class DevicePursuit:
    """Codes of rows along their greedy paths, for each requested length."""

    lengths: tuple[int, ...]
    order: Tensor  # (n_rows, n_nonzero), int32: atoms in the order of choice
    n_chosen: Tensor  # (n_rows,)
    coefficients: Tensor  # (n_lengths, n_rows, n_nonzero), of the chosen atoms

    def codes(self, which: Sequence[int], n_atoms: int) -> Tensor:
        """Dense codes (n_rows, n_atoms) on the device: the mean over path lengths."""
        coefficients = self._mean(which)
        codes = coefficients.new_zeros(len(coefficients), n_atoms)
        return codes.scatter_add_(1, self.order.long(), coefficients)

    def to_csr(self, which: Sequence[int], n_atoms: int) -> csr_matrix:
        """Codes (n_rows, n_atoms) on the host, columns sorted: the mean over path lengths."""
        atom, place, n_chosen, coefficients = self._sorted
        longest = max(self.lengths[i] for i in which)
        chosen = place < np.minimum(n_chosen, longest)[:, np.newaxis]
        mean = sum(coefficients[i] for i in which) / len(which)
        row_start = np.concatenate([[0], np.cumsum(chosen.sum(axis=1))])
        return csr_matrix((mean[chosen], atom[chosen], row_start), (len(atom), n_atoms))

    @cached_property
    def _sorted(self) -> tuple[NDArray[Any], ...]:
        """Atoms by number, their places on the path, path lengths, and coefficients: on the host.

        All lengths are copied at once, because each copy waits for the device.
        """
        atom, place = torch.sort(self.order, dim=1)
        value = torch.gather(self.coefficients, 2, place.expand_as(self.coefficients))
        found = atom, place.int(), self.n_chosen, value
        return tuple(map(to_numpy, found))

    def _mean(self, which: Sequence[int]) -> Tensor:
        return sum(self.coefficients[i] for i in which) / len(which)


def pursue(
    X: Tensor, atoms: Tensor, gram: Tensor, lengths: Sequence[int], rule: Rule
) -> DevicePursuit:
    """Greedy paths of rows, in parts that are halved until they fit the device."""
    row_bytes = max(lengths) * (len(atoms) + max(lengths)) * X.element_size()
    n_rows = max(PURSUIT_BYTES // row_bytes, 1)
    parts = [_pursue(X[:0], atoms, gram, lengths, rule)]
    first = 0
    while first < len(X):
        try:
            parts.append(_pursue(X[first : first + n_rows], atoms, gram, lengths, rule))
            first += n_rows
        except torch.cuda.OutOfMemoryError:
            if n_rows == 1:
                raise
            n_rows = (n_rows + 1) // 2
    return DevicePursuit(
        tuple(lengths),
        torch.cat([part.order for part in parts]),
        torch.cat([part.n_chosen for part in parts]),
        torch.cat([part.coefficients for part in parts], dim=1),
    )


def _pursue(
    X: Tensor, atoms: Tensor, gram: Tensor, lengths: Sequence[int], rule: Rule
) -> DevicePursuit:
    n_rows, n_atoms, n_nonzero = len(X), len(atoms), max(lengths)
    order = X.new_zeros(n_rows, n_nonzero, dtype=torch.int32)
    n_chosen = X.new_zeros(n_rows, dtype=torch.int32)
    coefficients = X.new_zeros(len(lengths), n_rows, n_nonzero)
    if n_rows == 0:
        return DevicePursuit(tuple(lengths), order, n_chosen, coefficients)
    # The chosen atoms are made orthogonal in turn: weights of the row on these directions, and the
    # atoms themselves in these directions, a lower triangle.
    weights = X.new_zeros(n_rows, n_nonzero)
    factor = torch.eye(n_nonzero, dtype=X.dtype, device=X.device).repeat(n_rows, 1, 1)
    with exact_products():
        correlations = X @ atoms.T
    block, n_warps = kernels.block_and_warps(n_atoms)
    dtype = torch.finfo(X.dtype)
    kernels.pursue_rows[(n_rows,)](
        correlations, X.square().sum(dim=1), gram, gram.diagonal().contiguous(),
        X.new_empty(n_rows, n_nonzero, n_atoms), order, weights, factor, n_chosen, n_atoms,
        n_nonzero, DEPENDENCE[dtype.dtype], NOISE * dtype.eps * X.shape[1] ** 0.5,
        FORWARD=rule == "forward", BLOCK=block, num_warps=n_warps,
    )  # fmt: skip
    for found, n in zip(coefficients, lengths, strict=True):
        upper = factor[:, :n, :n].transpose(1, 2)
        solved = torch.linalg.solve_triangular(upper, weights[:, :n, None], upper=True)
        found[:, :n] = solved[:, :, 0]
    return DevicePursuit(tuple(lengths), order, n_chosen, coefficients)
