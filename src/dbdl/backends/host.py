"""The base of backends with NumPy arrays: the verbs over atoms.

The atom-by-atom draw of the dictionary (eq. 8) is a Gauss-Seidel pass with noise, computed here in
blocks of atoms by matrix products. Work is cut into blocks of a fixed size and every draw is
addressed, so the result has the same bits for any number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.sparse import csr_matrix

from dbdl._arrays import unit_rows
from dbdl._compile import CONTRACTED, inlined, kernel
from dbdl._products import block_product
from dbdl._threads import block_slices, even_slices, run_blocks
from dbdl.backends.base import Births, Data, in_memory, label_rows, number_rows, sum_of_squares
from dbdl.coding.coder import Paths, PreparedAtoms
from dbdl.coding.omp import Rule, encode
from dbdl.draws import Key, Site, fill_normals, logit_betas
from dbdl.model.atom_priors import AtomPosterior, HostArrays
from dbdl.model.conditionals import selection_posterior
from dbdl.model.joint import log_large_terms
from dbdl.model.priors import Priors
from dbdl.model.ridge import ridge, scaled_ridge
from dbdl.model.state import Classes, Codes, Doubles, Floats, Parameters
from dbdl.model.statistics import SUM_ROWS, UsageSums, Weights
from dbdl.views import Fitted, LabelledRows, Recipe

#: Atoms drawn by one product, and the most features per task; pairs of features share the address
#: of a draw.
ATOM_BLOCK = 192
FEATURE_TILE = 750
FEATURES_OF_A_DRAW = 2
#: Atoms are drawn by sparse sums if at most this share of pairs of atoms meet in a row (at 0.2,
#: products are as fast). One task has at most `SPARSE_TILE` values, which stay near the second
#: level cache, but at least `LEAST_SPARSE_WIDTH` features.
SPARSE_SHARE = 0.15
SPARSE_TILE = 2**18
LEAST_SPARSE_WIDTH = 32
#: Entries of a mostly empty row that are skipped together.
STRETCH = 16

_ATOM = np.int64(Site.ATOM)  # one type, so that drawing is compiled once

#: Draws the atoms of a block in turn, for a tile of some features: solves
#: ``precision @ tile = target`` for the atoms of the block, in place of ``tile``.
Solve = Callable[[slice, slice, Floats, Floats], None]


@dataclass(frozen=True)
class HostBackend(HostArrays):
    """The verbs over atoms, and those over rows that are trivial for NumPy arrays."""

    device_kind: ClassVar[str] = "cpu"

    n_threads: int = 1
    #: Rows summed together, a multiple of 32; results depend on it only by rounding.
    block_rows: int = SUM_ROWS

    @property
    def n_lanes(self) -> int:
        return self.n_threads  # one chain per thread

    # ------------------------------------------------------------------------- moving arrays

    def place(self, X: Any, class_of_row: Classes, sample_weight: Weights = None) -> Data:
        data = number_rows(in_memory(X), class_of_row, sample_weight)
        return self.hold(replace(data, square=sum_of_squares(data.X, self.block_rows)))

    def hold(self, data: Data) -> Data:
        return data

    def rows(self, data: Data, indices: NDArray[np.int64]) -> Floats:
        return data.X[indices]

    def labels(self, data: Data) -> Data:
        return self.hold(label_rows(data))

    def keep(self, codes: Any, kept: NDArray[np.intp], n_atoms: int) -> Any:
        return codes.keep(kept, n_atoms)

    def codes_to_host(self, codes: Any) -> Codes:
        return codes

    def codes_from_host(self, data: Data, codes: Codes, n_atoms: int) -> Any:
        return codes

    def lane(self, alone: bool = False) -> AbstractContextManager[Any]:
        return nullcontext()  # threads overlap anyway

    # -------------------------------------------------------------------------------- the views

    def fit_view(self, recipe: Recipe, rows: LabelledRows) -> Fitted:
        return recipe.fit(rows)

    def see(self, view: Any, rows: LabelledRows) -> Any:
        return rows.through(view)

    def see_new(self, view: Any, X: Floats) -> Floats:
        seen: Floats = view.apply(X, self.n_threads)
        return seen

    # -------------------------------------------------------------------------------- the atoms

    def draw_atoms(
        self, key: Key, number: int, posterior: AtomPosterior, atoms: Floats, births: Births
    ) -> Floats:
        """Draw the atoms in turn, each given the latest draws of the others (eq. 8).

        With the joint precision split into diagonal D, strictly lower L and upper U part, that is
        (D + L) new = natural_mean - U old + sqrt(D) noise, for any blocks. If few atoms meet in a
        row, the precision is mostly zeros, and these are skipped.
        """
        precision, natural_mean, by_feature = posterior
        solve, width = _block_solver(posterior, self.n_threads)
        diagonal = precision.diagonal()[:, np.newaxis]
        scale = np.sqrt(diagonal if by_feature is None else diagonal + by_feature)
        drawn = np.empty(atoms.shape, atoms.dtype)

        def draw_tile(features: slice) -> None:
            tile = np.array(atoms[:, features], dtype=np.float64, order="C")  # always a copy
            for block in block_slices(len(atoms), ATOM_BLOCK):
                target = np.empty((block.stop - block.start, tile.shape[1]))
                fill_normals(key, _ATOM, births[block], number, features.start, target)
                target *= scale[block] if by_feature is None else scale[block, features]
                target += natural_mean[block, features]
                solve(block, features, target, tile)
            drawn[:, features] = tile

        tiles = even_slices(atoms.shape[1], width, FEATURES_OF_A_DRAW)
        run_blocks(draw_tile, tiles, self.n_threads)
        return drawn

    def mean_atoms(self, posterior: AtomPosterior) -> Floats:
        return posterior.mean()

    def unit_atoms(self, atoms: Floats, like: Floats) -> tuple[Floats, Doubles]:
        wide = atoms.astype(np.float64, copy=False)
        unit = unit_rows(wide)
        norm = np.einsum("kj,kj->k", unit, wide)  # the square of a small norm would underflow
        norm[~wide.any(axis=1)] = 1.0
        return unit.astype(like.dtype, order="C"), norm

    def norm_square(self, atoms: Floats) -> Doubles:
        return np.einsum("kj,kj->k", atoms, atoms, dtype=np.float64)

    def draw_selection(
        self, key: Key, number: int, data: Data, sums: UsageSums, births: Births, priors: Priors
    ) -> Doubles:
        posterior = selection_posterior(sums.count, data.n_rows, priors)
        first_row = data.first_row[:, np.newaxis]

        def draw(classes: slice) -> Doubles:
            a, b = posterior.a[classes], posterior.b[classes]
            return logit_betas(key, first_row[classes], births, number, a, b)

        share = -(-data.n_classes // self.n_threads)
        blocks = run_blocks(draw, block_slices(data.n_classes, share), self.n_threads)
        return np.concatenate(blocks)

    def log_large_terms(
        self, parameters: Parameters, sums: UsageSums, n_rows: NDArray[Any], priors: Priors
    ) -> float:
        return log_large_terms(parameters, sums, n_rows, priors)

    # -------------------------------------------------------------------- published atoms and codes

    def pursue(self, X: Floats, atoms: PreparedAtoms, lengths: Sequence[int], rule: Rule) -> Paths:
        gram = atoms.gram(self.n_threads)
        return encode(X, atoms.atoms, gram, lengths, rule, None, self.n_threads)

    def ridge(self, codes: csr_matrix, target: Doubles, penalty: float) -> Doubles:
        return ridge(codes, target, penalty)

    def ridge_labels(self: Any, data: Data, codes: Any, scale: Doubles, penalty: float) -> Doubles:
        sums = self.gather(self.labels(data), codes, len(scale), np.ones(data.n_classes))
        return scaled_ridge(sums, scale, penalty)


# ------------------------------------------------------------------------- drawing blocks of atoms


def _block_solver(posterior: AtomPosterior, n_threads: int) -> tuple[Solve, int]:
    """Return the function that draws a block of atoms, and its number of features per task."""
    precision, _, feature_precision = posterior
    if feature_precision is not None:
        return _solver_by_feature(precision, feature_precision), FEATURE_TILE
    n_nonzero = int(np.count_nonzero(precision != 0))  # three times as fast as counting floats
    if n_nonzero <= SPARSE_SHARE * precision.size:
        width = max(SPARSE_TILE // len(precision), LEAST_SPARSE_WIDTH)
        return _sparse_solver(precision, n_nonzero), width
    return _dense_solver(precision, n_threads), FEATURE_TILE


def _dense_solver(precision: Floats, n_threads: int) -> Solve:
    """Draw by matrix products: each block is one step with the inverse of its lower triangle."""

    def invert(block: slice) -> Floats:
        own, identity = precision[block, block], np.eye(block.stop - block.start, order="F")
        return np.ascontiguousarray(solve_triangular(own, identity, lower=True, overwrite_b=True))

    inverses = run_blocks(invert, block_slices(len(precision), ATOM_BLOCK), n_threads)

    def solve(block: slice, features: slice, target: Floats, tile: Floats) -> None:
        target -= block_product(precision[block], tile)
        tile[block] += block_product(inverses[block.start // ATOM_BLOCK], target)

    return solve


def _sparse_solver(precision: Floats, n_nonzero: int) -> Solve:
    """Draw atom by atom, by sums over the atoms that meet it in a row."""
    start = np.empty(len(precision) + 1, dtype=np.int64)
    other, value = np.empty(n_nonzero, dtype=np.int32), np.empty(n_nonzero)
    _list_off_diagonal(precision, start, other, value)

    def solve(block: slice, features: slice, target: Floats, tile: Floats) -> None:
        diagonal = precision.diagonal()[block].copy()
        _solve_sparse(block.start, diagonal, start, other, value, target, tile)

    return solve


def _solver_by_feature(precision: Floats, feature_precision: Floats) -> Solve:
    """Draw by substitution within a block, if the diagonal differs by feature."""

    def solve(block: slice, features: slice, target: Floats, tile: Floats) -> None:
        own, more = precision[block, block].copy(), feature_precision[features].copy()
        target -= block_product(precision[block], tile)
        target -= more * tile[block]
        _substitute(own, more, target)
        tile[block] += target

    return solve


@inlined(CONTRACTED)
def add_rows(total, factor, row, table, left):
    """Add ``factor @ table[row]`` to ``total``, starting at feature ``left``."""
    right = left + len(total)
    n_whole = len(row) - len(row) % 4
    for n in range(0, n_whole, 4):  # four rows at a time: a fourth of the loads and stores of total
        f0, f1, f2, f3 = factor[n], factor[n + 1], factor[n + 2], factor[n + 3]
        t0, t1 = table[row[n], left:right], table[row[n + 1], left:right]
        t2, t3 = table[row[n + 2], left:right], table[row[n + 3], left:right]
        for j in range(len(total)):
            total[j] += f0 * t0[j] + f1 * t1[j] + f2 * t2[j] + f3 * t3[j]
    for n in range(n_whole, len(row)):
        f0, t0 = factor[n], table[row[n], left:right]
        for j in range(len(total)):
            total[j] += f0 * t0[j]


@kernel()
def _list_off_diagonal(precision, start, column, value):
    """List non-zeros off the diagonal: start of each row, columns, negated values."""
    n = len(precision)
    n_listed = 0
    for k in range(n):
        start[k] = n_listed
        for left in range(0, n, STRETCH):
            part = precision[k, left : left + STRETCH]
            n_nonzero = 0  # counted, since a branch prevents vector code
            for j in range(len(part)):
                n_nonzero += part[j] != 0.0
            if n_nonzero > 0:
                for j in range(len(part)):
                    if part[j] != 0.0 and left + j != k:
                        column[n_listed], value[n_listed] = left + j, -part[j]
                        n_listed += 1
    start[n] = n_listed


@kernel(CONTRACTED)
def _solve_sparse(first, diagonal, start, other, value, target, tile):
    """Write the solution for the atoms from ``first`` on to ``tile``, in turn."""
    for i in range(len(diagonal)):
        k = first + i
        own = slice(start[k], start[k + 1])
        add_rows(target[i], value[own], other[own], tile, np.int64(0))
        row, solved = target[i], tile[k]
        for j in range(len(row)):
            solved[j] = row[j] / diagonal[i]


@kernel(CONTRACTED)
def _substitute(precision, feature_precision, target):
    """Solve with the lower triangle, whose diagonal differs by feature, in place of ``target``."""
    for k in range(len(precision)):
        row = target[k]
        for i in range(k):
            factor, before = precision[k, i], target[i]
            for j in range(len(row)):
                row[j] -= factor * before[j]
        for j in range(len(row)):
            row[j] /= precision[k, k] + feature_precision[j]
