"""The fast backend for one machine: Gram space, sparse codes, compiled blocks of rows.

Given the atoms, a pass over one row's usage and strengths (eqs. 9 and 10) needs only the Gram
matrix and the correlations of the row's residual with the atoms: an entry that changes costs one
row update, all others a comparison. Everything the global step needs is a sum over rows.

Work is cut into blocks of a fixed size and every draw is addressed, so the result has the same
bits for any number of threads.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbdl._compile import CONTRACTED, inlined, kernel
from dbdl._products import block_product, row_squares
from dbdl._threads import block_slices, even_slices, run_blocks
from dbdl.backends.base import Data
from dbdl.backends.host import STRETCH, HostBackend, add_rows
from dbdl.coding.omp import encode, gram_matrix
from dbdl.draws import PLACES_OF_A_DRAW, Key, Site, fill_logit_bounds, normal, quartered_logit
from dbdl.model.codes import Scan
from dbdl.model.state import Codes, Doubles, Floats, Parameters
from dbdl.model.statistics import AtomSums, UsageSums, tree_sum

#: Most rows swept together: one product with the atoms, then row by row.
SWEEP_ROWS = 512
#: Rows of the Gram matrix computed by one product.
GRAM_ROWS = 256
#: Atoms summed by one task.
SUM_ATOMS = 64
#: Features summed together in a sparse sum: these columns of all rows stay in cache.
SUM_FEATURES = 256
#: Atoms checked together when searching for the next one that could be switched on.
LOOK_AHEAD = 64

# One type, so that drawing is compiled once.
_USAGE, _STRENGTH, _PRIOR = map(np.int64, (Site.USAGE, Site.STRENGTH, Site.PRIOR_STRENGTH))


@dataclass(frozen=True)
class NumbaBackend(HostBackend):
    """Compiled blocks on ``n_threads`` threads.

    Examples
    --------
    >>> from dbdl.backends import NumbaBackend
    >>> NumbaBackend(n_threads=2).n_lanes  # one chain per thread
    2
    """

    def start(self, data: Data, atoms: Floats, n_nonzero: int) -> Codes:
        gram = gram_matrix(atoms, self.n_threads)
        pursuit = encode(data.X, atoms, gram, (n_nonzero,), "forward", None, self.n_threads)
        return Codes.from_sparse(pursuit.to_csr([0], len(atoms)))

    def sweep(
        self, key: Key, number: int, data: Data, codes: Codes, parameters: Parameters, scan: Scan
    ) -> tuple[Codes, UsageSums]:
        parameters = _in_one_layout(parameters)
        atoms = parameters.atoms
        gram = _upper_gram(atoms, self.n_threads)
        norm_square = gram.diagonal().astype(np.float64)
        offset, gain = _search_bound(parameters, norm_square, scan)

        def sweep_rows(rows: slice) -> tuple[NDArray[np.int64], NDArray[np.int32], Floats, Floats]:
            residual = _residuals(data.X[rows], codes, rows, atoms)
            residual_square = row_squares(residual)
            listed = np.zeros(len(residual), dtype=np.int64)
            # space for every entry: memory that is not written to costs nothing
            atom = np.empty(len(residual) * len(atoms), dtype=np.int32)
            strength = np.empty(len(atom), dtype=residual.dtype)
            bounds = np.empty((PLACES_OF_A_DRAW, len(atoms)), dtype=np.float32)
            _sweep_rows(
                key, number, data.offset + rows.start, data.class_of_row[rows],
                codes.row_start[rows.start : rows.stop + 1], codes.atom, codes.strength,
                block_product(residual, atoms.T), gram, parameters.births,
                parameters.selection_logit, parameters.strength_precision,
                parameters.noise_precision, offset, gain, scan == "paper", bounds,
                listed, atom, strength, residual_square,
            )  # fmt: skip
            n_listed = int(listed.sum())
            return listed, atom[:n_listed].copy(), strength[:n_listed].copy(), residual_square

        parts = run_blocks(sweep_rows, _sweep_slices(len(data.X), self.block_rows), self.n_threads)
        together = map(np.concatenate, zip(*parts, strict=True))
        listed, atom, strength, residual_square = together
        codes = Codes(np.concatenate([[0], np.cumsum(listed)]), atom, strength)
        return codes, self._usage_sums(data, codes, residual_square, len(atoms))

    def usage(self, data: Data, codes: Codes, parameters: Parameters) -> UsageSums:
        parameters = _in_one_layout(parameters)

        def squares(rows: slice) -> Doubles:
            return row_squares(_residuals(data.X[rows], codes, rows, parameters.atoms))

        blocks = block_slices(len(data.X), SWEEP_ROWS)
        residual_square = np.concatenate(run_blocks(squares, blocks, self.n_threads))
        return self._usage_sums(data, codes, residual_square, parameters.n_atoms)

    def _usage_sums(
        self, data: Data, codes: Codes, residual_square: Doubles, n_atoms: int
    ) -> UsageSums:
        blocks = block_slices(len(data.X), self.block_rows)

        def block(index: int) -> UsageSums:
            rows = blocks[index]
            if data.sample_weight is not None:
                return _weighted_usage(rows, data, codes, residual_square, n_atoms)
            count = np.zeros((data.n_classes, n_atoms), dtype=np.int64)
            sums = (count, np.zeros(n_atoms), np.zeros(data.n_classes), np.zeros(data.n_classes))
            row_start = codes.row_start[rows.start : rows.stop + 1]
            classes, residuals = data.class_of_row[rows], residual_square[rows]
            _add_usage(row_start, codes.atom, codes.strength, classes, residuals, *sums)
            return UsageSums(*sums)

        return tree_sum(block, len(blocks))

    def gather(
        self, data: Data, codes: Codes, n_atoms: int, precision_of_class: Doubles
    ) -> AtomSums:
        row_weight = data.row_weight(precision_of_class)
        blocks = block_slices(len(data.X), self.block_rows)

        def block(index: int) -> AtomSums:
            return self._gather_rows(blocks[index], data, codes, n_atoms, row_weight)

        total, stripes = tree_sum(block, len(blocks)), block_slices(n_atoms, SUM_ATOMS)
        run_blocks(lambda rows: _mirror(total.gram, rows.start, rows.stop), stripes, self.n_threads)
        return total

    def _gather_rows(
        self, rows: slice, data: Data, codes: Codes, n_atoms: int, row_weight: Floats
    ) -> AtomSums:
        """Sums over some rows; only the lower half of the Gram part is filled."""
        row_start = codes.row_start[rows.start : rows.stop + 1]
        by_atom = _by_atom(codes.of_rows(rows), row_weight[rows], n_atoms)
        by_row = (data.X[rows], row_start, codes.atom, codes.strength)
        sums = AtomSums.none(n_atoms, data.n_features)

        def gather_atoms(atoms: slice) -> None:
            _gather_block(atoms.start, atoms.stop, *by_atom, *by_row, sums.gram, sums.cross)

        run_blocks(gather_atoms, block_slices(n_atoms, SUM_ATOMS), self.n_threads)
        return sums


def _weighted_usage(
    rows: slice, data: Data, codes: Codes, residual_square: Doubles, n_atoms: int
) -> UsageSums:
    """Sums over some rows with weights; NumPy adds them up in the order of the rows."""
    assert data.sample_weight is not None
    n_classes, own = data.n_classes, codes.of_rows(rows)
    classes, weight = data.class_of_row[rows], data.sample_weight[rows]
    own_class, own_weight = (np.repeat(x, np.diff(own.row_start)) for x in (classes, weight))
    square = own_weight * own.strength.astype(np.float64) ** 2
    count = np.bincount(own_class * n_atoms + own.atom, own_weight, n_classes * n_atoms)
    by = ((own.atom, square, n_atoms), (own_class, square, n_classes))
    by_row = (classes, weight * residual_square[rows], n_classes)
    sums: list[Any] = [np.bincount(*values) for values in (*by, by_row)]
    return UsageSums(count.reshape(n_classes, n_atoms), *sums)


def _in_one_layout(parameters: Parameters) -> Parameters:
    """Return parameters with large arrays in C order, for which kernels are compiled."""
    atoms = np.ascontiguousarray(parameters.atoms)
    logit = np.ascontiguousarray(parameters.selection_logit)
    return replace(parameters, atoms=atoms, selection_logit=logit)


def _sweep_slices(n_rows: int, block_rows: int) -> list[slice]:
    """Cut rows into slices to sweep.

    No slice crosses the blocks that are summed. Rows may be split between blocks, and each part
    still computes the same products.
    """
    return [
        slice(block.start + part.start, block.start + part.stop)
        for block in block_slices(n_rows, block_rows)
        for part in even_slices(block.stop - block.start, SWEEP_ROWS, PLACES_OF_A_DRAW)
    ]


def _upper_gram(atoms: Floats, n_threads: int) -> Floats:
    """Upper half of the atoms' Gram matrix: a pass over a row only updates later atoms."""
    gram = np.empty((len(atoms), len(atoms)), dtype=atoms.dtype)

    def fill(rows: slice) -> None:
        block_product(atoms[rows], atoms[rows.start :].T, out=gram[rows, rows.start :])

    run_blocks(fill, block_slices(len(atoms), GRAM_ROWS), n_threads)
    return gram


def _search_bound(
    parameters: Parameters, norm_square: Doubles, scan: Scan
) -> tuple[Doubles, Doubles]:
    """Offset and gain, each (n_classes, n_atoms), of ``offset + gain * match**2``.

    With strengths integrated out this is the log-odds of eq. 9. With the paper's scan it is an
    upper bound: the log-odds at the most favourable strength. If it is below the logit of the
    entry's uniform, an unused entry stays unused, and nothing else has to be drawn for it.
    """
    noise = parameters.noise_precision[:, np.newaxis]
    if scan == "paper":
        gain = np.zeros_like(parameters.selection_logit)
        np.divide(0.5 * noise, norm_square, where=norm_square > 0, out=gain)
        return parameters.selection_logit, gain
    prior = parameters.strength_precision[:, np.newaxis]
    precision = prior + noise * norm_square
    offset = parameters.selection_logit + 0.5 * np.log(prior / precision)
    return offset, 0.5 * noise**2 / precision


def _residuals(X: Floats, codes: Codes, rows: slice, atoms: Floats) -> Floats:
    """Residuals x - code @ atoms of some rows (eq. 7)."""
    residual, own = X.copy(), codes.of_rows(rows)
    _add_codes(residual, own.row_start, own.atom, -own.strength, atoms)
    return residual


def _by_atom(
    codes: Codes, weight: Floats, n_atoms: int
) -> tuple[NDArray[np.int64], NDArray[np.int32], Doubles]:
    """List entries by atom: (start of each atom, rows in order, weight * strength)."""
    start, place = np.zeros(n_atoms + 1, np.int64), np.empty(n_atoms, np.int64)
    row, value = np.empty(len(codes.atom), np.int32), np.empty(len(codes.atom))
    _list_by_atom(codes.row_start, codes.atom, codes.strength, weight, start, place, row, value)
    return start, row, value


# -------------------------------------------------------------------------------------- kernels


@kernel(CONTRACTED)
def _add_codes(block, row_start, atom, strength, atoms):
    """Add code @ atoms to the rows of ``block``, in place."""
    for left in range(0, block.shape[1], SUM_FEATURES):
        for i in range(len(row_start) - 1):
            own, total = slice(row_start[i], row_start[i + 1]), block[i, left : left + SUM_FEATURES]
            add_rows(total, strength[own], atom[own], atoms, left)


@kernel(CONTRACTED)
def _sweep_rows(
    key, number, first_row, class_of_row, row_start, atom, strength, matches, gram, births,
    selection_logit, strength_precision, noise_precision, offset, gain, paper_scan, bounds,
    listed, out_atom, out_strength, residual_square,
):  # fmt: skip
    """Sweep rows: fills the number of entries per row, their atoms and strengths, the residuals.

    ``matches`` are the products of each row's residual with all atoms. ``bounds`` is work space for
    lower bounds of the logits of four rows' uniforms.
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
                # for slices from 0 numba does not test for negative indices
                rest, row = match[k + 1 :], gram[k, k + 1 :]
                for j in range(len(rest)):
                    rest[j] -= change * row[j]
            k += 1
        listed[i] = n_out - n_before
        residual_square[i] = max(square, 0.0)


@inlined(CONTRACTED)
def _next_above(start, stop, offset, gain, match, lowest):
    """Find the first k in start..stop with offset + gain * match**2 > lowest, or ``stop``.

    Whole stretches are checked together, even past ``stop``: partial ones are slow.
    """
    for first in range(start, stop, LOOK_AHEAD):
        last = min(first + LOOK_AHEAD, len(match))
        some_offset, some_gain = offset[first:last], gain[first:last]
        some_match, some_lowest = match[first:last], lowest[first:last]
        n_above = 0  # counted, since a branch prevents vector code
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


@kernel()
def _list_by_atom(row_start, atom, strength, weight, start, place, row, value):
    """Sort entries by atom: count them, then put each at the next place of its atom.

    ``start`` comes as zeros, and ``place`` is work space.
    """
    for entry in range(len(atom)):
        start[atom[entry] + 1] += 1
    for k in range(len(place)):
        place[k] = start[k]
        start[k + 1] += start[k]
    for i in range(len(row_start) - 1):
        for entry in range(row_start[i], row_start[i + 1]):
            k = atom[entry]
            row[place[k]], value[place[k]] = i, weight[i] * strength[entry]
            place[k] += 1


@kernel(CONTRACTED)
def _gather_block(first, last, start, row, value, X, row_start, atom, strength, gram, cross):
    """Sum the rows of `AtomSums` for atoms first..last, up to the diagonal of the Gram part."""
    for left in range(0, X.shape[1], SUM_FEATURES):
        for k in range(first, last):
            own = slice(start[k], start[k + 1])
            add_rows(cross[k, left : left + SUM_FEATURES], value[own], row[own], X, left)
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
            n_nonzero = 0  # counted, since a branch prevents vector code
            for j in range(len(part)):
                n_nonzero += part[j] != 0.0
            if n_nonzero > 0:
                for j in range(len(part)):
                    gram[left + j, k] = part[j]
