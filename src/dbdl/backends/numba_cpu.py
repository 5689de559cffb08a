"""The fast backend for one machine: Gram space, sparse codes, compiled blocks of rows.

Three facts make it fast. Given the atoms, a pass over one row's usage and strengths (eqs. 9 and
10) needs only the correlations of the row's residual with the atoms and the Gram matrix: an entry
that changes costs one row update, all others a comparison. The atom-by-atom draw of the
dictionary (eq. 8) is a Gauss-Seidel pass with noise, done here in blocks of atoms by matrix
products. And everything the global step needs is a sum over rows.

Work is cut into blocks of a fixed size and every draw is addressed, so the result has the same
bits for any number of threads.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.sparse import csr_matrix

from dbdl._compile import CONTRACTED, inlined, kernel
from dbdl._products import block_product, row_squares
from dbdl._threads import block_slices, even_slices, run_blocks
from dbdl.backends.base import Data, HostBackend
from dbdl.coding.omp import encode, gram_matrix
from dbdl.draws import (
    PLACES_OF_A_DRAW,
    Key,
    Site,
    fill_logit_bounds,
    fill_normals,
    normal,
    quartered_logit,
)
from dbdl.model.codes import Scan
from dbdl.model.conditionals import AtomPosterior
from dbdl.model.state import Codes, Floats, Parameters
from dbdl.model.statistics import AtomSums, UsageSums, tree_sum

#: Rows swept together at most: one product with the atoms, then row by row.
SWEEP_ROWS = 512
#: Atoms drawn together by one product, and features of one task at most; features share the
#: address of a draw in pairs.
ATOM_BLOCK = 192
FEATURE_TILE = 750
FEATURES_OF_A_DRAW = 2
#: Share of pairs of atoms that meet in a row up to which the atoms are drawn by sparse sums (at 0.2
#: products are as fast). One task has so many numbers, to stay near the second level cache, but
#: no fewer features than the second figure.
SPARSE_SHARE = 0.15
SPARSE_TILE = 2**18
LEAST_SPARSE_WIDTH = 32
#: Rows of the Gram matrix computed by one product.
GRAM_ROWS = 256
#: Atoms summed by one task.
SUM_ATOMS = 64
#: Features of a sparse sum taken together: what they need of all rows stays in cache.
SUM_FEATURES = 256
#: Entries of a mostly empty row that are skipped together.
STRETCH = 16
#: Atoms looked at together when searching for the next one that could be switched on.
LOOK_AHEAD = 64

# Of one type, so that what draws is compiled once.
_ATOM, _USAGE, _STRENGTH, _PRIOR = (
    np.int64(site) for site in (Site.ATOM, Site.USAGE, Site.STRENGTH, Site.PRIOR_STRENGTH)
)


@dataclass(frozen=True)
class NumbaBackend(HostBackend):
    """Compiled blocks on ``n_threads`` threads."""

    def start(self, data: Data, atoms: Floats, n_nonzero: int) -> Codes:
        """Codes of the rows by matching pursuit."""
        gram = gram_matrix(atoms, self.n_threads)
        pursuit = encode(data.X, atoms, gram, (n_nonzero,), "forward", None, self.n_threads)
        codes = pursuit.to_csr([0], len(atoms))
        return Codes(codes.indptr.astype(np.int64), codes.indices.astype(np.int32), codes.data)

    def sweep(
        self, key: Key, number: int, data: Data, codes: Codes, parameters: Parameters, scan: Scan
    ) -> tuple[Codes, UsageSums]:
        """Draw every row's usage and strengths (eqs. 9 and 10)."""
        parameters = _in_one_layout(parameters)
        atoms = parameters.atoms
        gram = _upper_gram(atoms, self.n_threads)
        norm_square = gram.diagonal().astype(np.float64)
        offset, gain = _search_bound(parameters, norm_square, scan)

        def sweep_rows(rows: slice) -> tuple[NDArray[np.int64], NDArray[np.int32], Floats, Floats]:
            residual = _residuals(data.X[rows], codes, rows, atoms)
            residual_square = row_squares(residual)
            listed = np.zeros(len(residual), dtype=np.int64)
            # room for every entry: memory that is not written to costs nothing
            atom = np.empty(len(residual) * len(atoms), dtype=np.int32)
            strength = np.empty(len(atom), dtype=residual.dtype)
            _sweep_rows(
                key,
                number,
                data.offset + rows.start,
                data.class_of_row[rows],
                codes.row_start[rows.start : rows.stop + 1],
                codes.atom,
                codes.strength,
                block_product(residual, atoms.T),
                gram,
                parameters.births,
                parameters.selection_logit,
                parameters.strength_precision,
                parameters.noise_precision,
                offset,
                gain,
                scan == "paper",
                np.empty((PLACES_OF_A_DRAW, len(atoms)), dtype=np.float32),
                listed,
                atom,
                strength,
                residual_square,
            )
            n_listed = int(listed.sum())
            return listed, atom[:n_listed].copy(), strength[:n_listed].copy(), residual_square

        parts = run_blocks(sweep_rows, _sweep_slices(len(data.X), self.block_rows), self.n_threads)
        listed, atom, strength, residual_square = (
            np.concatenate(arrays) for arrays in zip(*parts, strict=True)
        )
        codes = Codes(np.concatenate([[0], np.cumsum(listed)]), atom, strength)
        return codes, self._usage_sums(data, codes, residual_square, len(atoms))

    def usage(self, data: Data, codes: Codes, parameters: Parameters) -> UsageSums:
        """Sums of given codes."""
        parameters = _in_one_layout(parameters)

        def squares(rows: slice) -> NDArray[np.float64]:
            return row_squares(_residuals(data.X[rows], codes, rows, parameters.atoms))

        blocks = block_slices(len(data.X), SWEEP_ROWS)
        residual_square = np.concatenate(run_blocks(squares, blocks, self.n_threads))
        return self._usage_sums(data, codes, residual_square, parameters.n_atoms)

    def _usage_sums(
        self, data: Data, codes: Codes, residual_square: NDArray[np.float64], n_atoms: int
    ) -> UsageSums:
        blocks = block_slices(len(data.X), self.block_rows)

        def block(number: int) -> UsageSums:
            rows = blocks[number]
            sums = UsageSums(
                np.zeros((data.n_classes, n_atoms), dtype=np.int64),
                np.zeros(n_atoms),
                np.zeros(data.n_classes),
                np.zeros(data.n_classes),
            )
            _add_usage(
                codes.row_start[rows.start : rows.stop + 1],
                codes.atom,
                codes.strength,
                data.class_of_row[rows],
                residual_square[rows],
                sums.count,
                sums.energy,
                sums.strength_square,
                sums.residual_square,
            )
            return sums

        return tree_sum(block, len(blocks))

    def gather(
        self, data: Data, codes: Codes, n_atoms: int, class_weight: NDArray[np.float64]
    ) -> AtomSums:
        """Sums for the draw of the atoms."""
        row_weight = class_weight[data.class_of_row]
        blocks = block_slices(len(data.X), self.block_rows)
        total = tree_sum(
            lambda number: self._gather_rows(blocks[number], data, codes, n_atoms, row_weight),
            len(blocks),
        )
        stripes = block_slices(n_atoms, SUM_ATOMS)
        run_blocks(lambda rows: _mirror(total.gram, rows.start, rows.stop), stripes, self.n_threads)
        return total

    def _gather_rows(
        self, rows: slice, data: Data, codes: Codes, n_atoms: int, row_weight: Floats
    ) -> AtomSums:
        """Sums over some rows, the Gram part on and below its diagonal."""
        row_start = codes.row_start[rows.start : rows.stop + 1]
        by_atom = _by_atom(row_start, codes, row_weight[rows], n_atoms)
        sums = AtomSums(np.zeros((n_atoms, n_atoms)), np.zeros((n_atoms, data.X.shape[1])))

        def gather_atoms(atoms: slice) -> None:
            _gather_block(
                atoms.start,
                atoms.stop,
                *by_atom,
                data.X[rows],
                row_start,
                codes.atom,
                codes.strength,
                sums.gram,
                sums.cross,
            )

        run_blocks(gather_atoms, block_slices(n_atoms, SUM_ATOMS), self.n_threads)
        return sums

    def draw_atoms(
        self,
        key: Key,
        number: int,
        posterior: AtomPosterior,
        atoms: Floats,
        births: NDArray[np.int64],
    ) -> Floats:
        """Draw the atoms one after another, each given the newest others (eq. 8).

        With the joint precision split into diagonal D, strictly lower L and upper U part, that is
        (D + L) new = natural_mean - U old + sqrt(D) noise, whatever the blocks. Where few atoms
        meet in a row, so that the precision is mostly zeros, these are left out.
        """
        precision, natural_mean = posterior
        n_nonzero = int(np.count_nonzero(precision))
        draw: _DrawBlock
        if n_nonzero <= SPARSE_SHARE * precision.size:
            draw = _SparseDraw.prepare(precision, n_nonzero)
            width = max(SPARSE_TILE // len(atoms), LEAST_SPARSE_WIDTH)
        else:
            draw = _DenseDraw.prepare(precision)
            width = FEATURE_TILE
        scale = np.sqrt(precision.diagonal())[:, np.newaxis]
        drawn = np.empty(atoms.shape, atoms.dtype)

        def draw_tile(features: slice) -> None:
            tile = np.array(atoms[:, features], dtype=np.float64, order="C")  # a copy always
            for block in block_slices(len(atoms), ATOM_BLOCK):
                target = np.empty((block.stop - block.start, tile.shape[1]))
                fill_normals(key, _ATOM, births[block], number, features.start, target)
                target *= scale[block]
                target += natural_mean[block, features]
                draw.solve(precision, block, target, tile)
            drawn[:, features] = tile

        tiles = even_slices(atoms.shape[1], width, FEATURES_OF_A_DRAW)
        run_blocks(draw_tile, tiles, self.n_threads)
        return drawn


class _DrawBlock(Protocol):
    """A block of atoms, drawn one after another given the others."""

    def solve(self, precision: Floats, block: slice, target: Floats, tile: Floats) -> None:
        """Solve ``precision @ tile = target`` for the atoms of the block, in ``tile``, in turn."""


@dataclass(frozen=True)
class _DenseDraw:
    """By products of matrices: each block is one step with the inverse of its lower triangle."""

    inverses: list[Floats]

    @staticmethod
    def prepare(precision: Floats) -> _DenseDraw:
        def invert(block: slice) -> Floats:
            own = np.tril(precision[block, block])
            return np.ascontiguousarray(solve_triangular(own, np.eye(len(own)), lower=True))

        return _DenseDraw(run_blocks(invert, block_slices(len(precision), ATOM_BLOCK)))

    def solve(self, precision: Floats, block: slice, target: Floats, tile: Floats) -> None:
        target -= block_product(precision[block], tile)
        tile[block] += block_product(self.inverses[block.start // ATOM_BLOCK], target)


@dataclass(frozen=True)
class _SparseDraw:
    """By sums over the atoms that meet in a row, atom by atom."""

    start: NDArray[np.int64]
    other: NDArray[np.int32]
    value: Floats

    @staticmethod
    def prepare(precision: Floats, n_nonzero: int) -> _SparseDraw:
        start = np.empty(len(precision) + 1, dtype=np.int64)
        other, value = np.empty(n_nonzero, dtype=np.int32), np.empty(n_nonzero)
        _list_off_diagonal(precision, start, other, value)
        return _SparseDraw(start, other, value)

    def solve(self, precision: Floats, block: slice, target: Floats, tile: Floats) -> None:
        diagonal = precision.diagonal()[block].copy()
        _solve_sparse(block.start, diagonal, self.start, self.other, self.value, target, tile)


def _in_one_layout(parameters: Parameters) -> Parameters:
    """Return parameters whose large arrays are in the order of C, as kernels are compiled for."""
    return replace(
        parameters,
        atoms=np.ascontiguousarray(parameters.atoms),
        selection_logit=np.ascontiguousarray(parameters.selection_logit),
    )


def _sweep_slices(n_rows: int, block_rows: int) -> list[slice]:
    """Cut rows to sweep them.

    No slice crosses the blocks that are summed: rows may be parted between blocks, and each part
    still does the same products.
    """
    return [
        slice(block.start + part.start, block.start + part.stop)
        for block in block_slices(n_rows, block_rows)
        for part in even_slices(block.stop - block.start, SWEEP_ROWS, PLACES_OF_A_DRAW)
    ]


def _upper_gram(atoms: Floats, n_threads: int) -> Floats:
    """Inner products of the atoms on and above the diagonal: a row's pass only looks ahead."""
    gram = np.empty((len(atoms), len(atoms)), dtype=atoms.dtype)

    def fill(rows: slice) -> None:
        block_product(atoms[rows], atoms[rows.start :].T, out=gram[rows, rows.start :])

    run_blocks(fill, block_slices(len(atoms), GRAM_ROWS), n_threads)
    return gram


def _search_bound(
    parameters: Parameters, norm_square: NDArray[np.float64], scan: Scan
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Offset and gain, each (n_classes, n_atoms), of ``offset + gain * match**2``.

    With strengths integrated out this is the log-odds of eq. 9; with the paper's scan it is the
    log-odds at the strength most in favour, so a bound. An unused entry stays unused where it
    lies below the logit of the entry's uniform: nothing else need be drawn for it.
    """
    noise = parameters.noise_precision[:, np.newaxis]
    if scan == "paper":
        gain = np.divide(
            0.5 * noise,
            norm_square,
            where=norm_square > 0,
            out=np.zeros_like(parameters.selection_logit),
        )
        return parameters.selection_logit, gain
    precision = parameters.strength_precision[:, np.newaxis] + noise * norm_square
    offset = parameters.selection_logit + 0.5 * np.log(
        parameters.strength_precision[:, np.newaxis] / precision
    )
    return offset, 0.5 * noise**2 / precision


def _residuals(X: Floats, codes: Codes, rows: slice, atoms: Floats) -> Floats:
    """Residuals x - code @ atoms of some rows (eq. 7)."""
    residual = X.copy()
    row_start = codes.row_start[rows.start : rows.stop + 1]
    own = slice(row_start[0], row_start[-1])
    _add_codes(residual, row_start - own.start, codes.atom[own], -codes.strength[own], atoms)
    return residual


def _by_atom(
    row_start: NDArray[np.int64], codes: Codes, weight: Floats, n_atoms: int
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
    """List entries by atom: (start of each atom, rows in order, weight * strength)."""
    entries = slice(row_start[0], row_start[-1])
    by_row = csr_matrix(
        (codes.strength[entries], codes.atom[entries], row_start - row_start[0]),
        shape=(len(row_start) - 1, n_atoms),
    )
    by_atom = by_row.tocsc()
    row = by_atom.indices.astype(np.int32, copy=False)
    return by_atom.indptr.astype(np.int64), row, weight[row] * by_atom.data


# -------------------------------------------------------------------------------------- kernels


@kernel(CONTRACTED)
def _add_codes(block, row_start, atom, strength, atoms):
    """Add code @ atoms to the rows of ``block``, in place."""
    for left in range(0, block.shape[1], SUM_FEATURES):
        for i in range(len(row_start) - 1):
            own = slice(row_start[i], row_start[i + 1])
            _add_rows(block[i, left : left + SUM_FEATURES], strength[own], atom[own], atoms, left)


@inlined(CONTRACTED)
def _add_rows(total, factor, row, table, left):
    """Add ``factor @ table[row]`` to ``total``, for the features from ``left`` on."""
    right = left + len(total)
    n_whole = len(row) - len(row) % 4
    for n in range(0, n_whole, 4):  # four rows a pass: a fourth of the loads and stores of total
        f0, f1, f2, f3 = factor[n], factor[n + 1], factor[n + 2], factor[n + 3]
        t0, t1 = table[row[n], left:right], table[row[n + 1], left:right]
        t2, t3 = table[row[n + 2], left:right], table[row[n + 3], left:right]
        for j in range(len(total)):
            total[j] += f0 * t0[j] + f1 * t1[j] + f2 * t2[j] + f3 * t3[j]
    for n in range(n_whole, len(row)):
        f0, t0 = factor[n], table[row[n], left:right]
        for j in range(len(total)):
            total[j] += f0 * t0[j]


@kernel(CONTRACTED)
def _sweep_rows(
    key,
    number,
    first_row,
    class_of_row,
    row_start,
    atom,
    strength,
    matches,
    gram,
    births,
    selection_logit,
    strength_precision,
    noise_precision,
    offset,
    gain,
    paper_scan,
    bounds,
    listed,
    out_atom,
    out_strength,
    residual_square,
):
    """Sweep rows: fills the entries listed per row, their atoms and strengths, the residuals.

    ``matches`` are of every atom with the row's residual, and ``bounds`` room for four rows of
    numbers below their uniforms' logits.
    """
    n_atoms = gram.shape[0]
    n_out = 0
    for i in range(len(class_of_row)):
        c = class_of_row[i]
        match, row_offset, row_gain = matches[i], offset[c], gain[c]
        noise, prior = noise_precision[c], strength_precision[c]
        square = residual_square[i]
        if i % 4 == 0:
            fill_logit_bounds(key, _USAGE, first_row + i, births, number, bounds)
        lowest = bounds[i % 4]
        entry, n_before, k = row_start[i], n_out, np.int64(0)
        while True:
            in_use = atom[entry] if entry < row_start[i + 1] else n_atoms
            k = _next_above(k, in_use, row_offset, row_gain, match, lowest)
            if k == n_atoms:
                break
            old = np.float64(0.0)
            if k == in_use:
                old = np.float64(strength[entry])
                entry += 1
            norm_square = np.float64(gram[k, k])
            own_match = match[k] + norm_square * old
            if paper_scan:
                s = old
                if old == 0.0:
                    s = normal(key, _PRIOR, first_row + i, births[k], number) / sqrt(prior)
                log_odds = selection_logit[c, k] - 0.5 * noise * s * (
                    norm_square * s - 2.0 * own_match
                )
            else:
                log_odds = row_offset[k] + row_gain[k] * own_match * own_match
            new = np.float64(0.0)
            if quartered_logit(key, _USAGE, first_row + i, births[k], number) < log_odds:
                precision = prior + noise * norm_square
                out_atom[n_out] = k
                out_strength[n_out] = noise * own_match / precision + normal(
                    key, _STRENGTH, first_row + i, births[k], number
                ) / sqrt(precision)
                new = np.float64(out_strength[n_out])
                n_out += 1
            change = new - old
            if change != 0.0:
                square += change * (norm_square * change - 2.0 * match[k])
                # over slices from 0 numba needs no test for negative indices
                rest, row = match[k + 1 :], gram[k, k + 1 :]
                for j in range(len(rest)):
                    rest[j] -= change * row[j]
            k += 1
        listed[i] = n_out - n_before
        residual_square[i] = max(square, 0.0)


@inlined(CONTRACTED)
def _next_above(start, stop, offset, gain, match, lowest):
    """Find the first k in start..stop with offset + gain * match**2 above; ``stop`` if none is.

    Whole stretches are looked at together, past ``stop`` if need be: an unfinished one is slow.
    """
    for first in range(start, stop, LOOK_AHEAD):
        last = min(first + LOOK_AHEAD, len(match))
        some_offset, some_gain = offset[first:last], gain[first:last]
        some_match, some_lowest = match[first:last], lowest[first:last]
        n_above = 0  # counted, since a branch ends vector code
        for k in range(last - first):
            square = some_match[k] * some_match[k]
            n_above += some_offset[k] + some_gain[k] * square > some_lowest[k]
        if n_above > 0:
            for k in range(first, min(last, stop)):
                if offset[k] + gain[k] * (match[k] * match[k]) > lowest[k]:
                    return k
    return stop


@kernel(CONTRACTED)
def _add_usage(
    row_start, atom, strength, class_of_row, residual_square, count, energy, own_square, residual
):
    """Add some rows to the fields of `UsageSums`."""
    for i in range(len(class_of_row)):
        c = class_of_row[i]
        residual[c] += residual_square[i]
        for entry in range(row_start[i], row_start[i + 1]):
            square = np.float64(strength[entry]) * np.float64(strength[entry])
            count[c, atom[entry]] += 1
            energy[atom[entry]] += square
            own_square[c] += square


@kernel(CONTRACTED)
def _gather_block(first, last, start, row, value, X, row_start, atom, strength, gram, cross):
    """Sum the rows of `AtomSums` for atoms first..last, up to the diagonal of the Gram part."""
    for left in range(0, X.shape[1], SUM_FEATURES):
        for k in range(first, last):
            own = slice(start[k], start[k + 1])
            _add_rows(cross[k, left : left + SUM_FEATURES], value[own], row[own], X, left)
    for k in range(first, last):
        for place in range(start[k], start[k + 1]):
            i = row[place]
            for entry in range(row_start[i], row_start[i + 1]):
                if atom[entry] > k:
                    break
                gram[k, atom[entry]] += value[place] * strength[entry]


@kernel()
def _mirror(gram, first, last):
    """Copy rows first..last of the lower triangle to the upper, in squares that stay in cache."""
    for left in range(0, last, STRETCH):
        for k in range(first, last):
            part = gram[k, left : min(left + STRETCH, k)]
            n_nonzero = 0  # counted, since a branch ends vector code
            for j in range(len(part)):
                n_nonzero += part[j] != 0.0
            if n_nonzero > 0:
                for j in range(len(part)):
                    gram[left + j, k] = part[j]


@kernel()
def _list_off_diagonal(precision, start, column, value):
    """List what is not zero beside the diagonal: start of each row, columns, negated values."""
    n = len(precision)
    n_listed = 0
    for k in range(n):
        start[k] = n_listed
        for left in range(0, n, STRETCH):
            part = precision[k, left : left + STRETCH]
            n_nonzero = 0
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
    """Put the solution for the atoms from ``first`` on into ``tile``, one after another."""
    for i in range(len(diagonal)):
        k = first + i
        own = slice(start[k], start[k + 1])
        _add_rows(target[i], value[own], other[own], tile, np.int64(0))
        row, solved = target[i], tile[k]
        for j in range(len(row)):
            solved[j] = row[j] / diagonal[i]
