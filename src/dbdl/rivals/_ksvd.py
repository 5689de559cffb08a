r"""K-SVD (Aharon, Elad and Bruckstein, 2006): atoms and codes in turn, ``X ~ codes @ atoms``.

.. math:: \min_{D, A} \|X - A D\|_F^2 \quad \text{with at most } t \text{ non-zeros in a row of } A

and atoms of unit norm. Each iteration codes the rows by matching pursuit, then goes through the
atoms. With the other atoms and the places of the non-zeros held, the rows ``I`` that use atom ``k``
leave the error ``E = R[I] + codes[I, k] atoms[k]``, and the best ``codes[I, k] atoms[k]`` is its
rank-one part:

- ``"exact"``: the first singular vectors of ``E``, from the smaller of its two Gram matrices;
- ``"approximate"`` (Rubinstein, Zibulevsky and Elad, 2008): the best atom for the codes as they
  are, then the best codes for that atom; one step of the power iteration towards the exact one.

Neither lets the objective rise. The residual ``R`` is kept, so an atom costs two passes over the
rows that use it. Atoms are visited one after another by one thread, since each needs the newest
others; matching pursuit, which is most of the work, runs on all threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.sparse import csc_matrix, csr_matrix

from dbdl._compile import REORDERED, inlined, kernel
from dbdl._threads import single_threaded_blas
from dbdl.coding.omp import Rule, encode, gram_matrix
from dbdl.model.state import Doubles, Floats
from dbdl.rivals._atoms import as_atoms

Update = Literal["approximate", "exact"]
Array = NDArray[Any]

#: Atoms used by less than this part of the mean number of uses are replaced, and one of two whose
#: absolute cosine is larger than this. In 20 planted problems (50 atoms of dimension 20, 1500 rows
#: of 3 non-zeros, 80 iterations) 98 % to 100 % of the atoms were found; with 0.1 and 0.99, 86 % to
#: 100 % in 12 of them: an atom got stuck between two true ones, while another was hardly used.
LEAST_USE = 0.25
SAME_ATOM = 0.95

#: Squared residuals up to this part of the squared row are rounding: such a row makes no new atom.
NOTHING_LEFT = {"float64": 1e-20, "float32": 1e-10}


@dataclass(frozen=True)
class Learning:
    """How a dictionary is learned; `dbdl.rivals.ksvd.KSVD` explains the fields."""

    n_nonzero: int  # clipped to the numbers of atoms and features
    n_iterations: int  # at least one
    update: Update = "approximate"
    rule: Rule = "orthogonal"
    least_use: float = LEAST_USE
    same_atom: float = SAME_ATOM

    def code(self, X: Floats, atoms: Floats, n_threads: int = 1) -> csr_matrix:
        """Codes (n_samples, n_atoms) of rows by matching pursuit."""
        return code_rows(X, atoms, self.n_nonzero, self.rule, n_threads)


@dataclass(frozen=True)
class Learned:
    """Atoms that K-SVD learned, and the codes of the rows."""

    atoms: Floats  # (n_atoms, n_features), of unit norm
    codes: csr_matrix  # (n_samples, n_atoms), as the last update of the atoms left them
    objective: Doubles  # squared error after each iteration


def learn_ksvd(X: Floats, atoms: Floats, learning: Learning, n_threads: int = 1) -> Learned:
    """Learn a dictionary of C-contiguous rows from atoms of any norm but zero to start from."""
    atoms = as_atoms(atoms.astype(X.dtype))
    update_atoms = update_exactly if learning.update == "exact" else update_approximately
    untried: NDArray[np.bool_] = np.any(X, axis=1)
    objective = np.empty(int(learning.n_iterations))
    with single_threaded_blas():
        for iteration in range(learning.n_iterations):
            codes = learning.code(X, atoms, n_threads)
            by_atom = codes.tocsc()
            residual = X - codes @ atoms
            update_atoms(atoms, by_atom, residual)
            objective[iteration] = np.sum(np.square(residual, dtype=np.float64))
            if iteration + 1 < learning.n_iterations:  # a new atom has to be coded and updated
                n_uses = np.diff(by_atom.indptr)
                gone = superfluous_atoms(atoms, n_uses, learning.least_use, learning.same_atom)
                replace_atoms(X, atoms, gone, residual, untried, learning.same_atom)
    return Learned(atoms, by_atom.tocsr(), objective)


def code_rows(
    X: Floats,
    atoms: Floats,
    n_nonzero: int,
    rule: Rule = "orthogonal",
    n_threads: int = 1,
    gram: Floats | None = None,
) -> csr_matrix:
    """Codes of rows by matching pursuit, ``n_nonzero`` clipped to atoms and features."""
    if gram is None:
        gram = gram_matrix(atoms, n_threads)
    pursuit = encode(X, atoms, gram, [min(n_nonzero, *atoms.shape)], rule, None, n_threads)
    return pursuit.to_csr([0], len(atoms))


# ------------------------------------------------------------------------------- update of atoms


def update_approximately(atoms: Floats, codes: csc_matrix, residual: Floats) -> None:
    """Update each atom, then its coefficients, in place; the places of the non-zeros stay.

    The residual (n_samples, n_features) is ``X - codes @ atoms``, before and after.
    """
    _update_all(atoms, codes.indptr, codes.indices, codes.data, residual)


def update_exactly(atoms: Floats, codes: csc_matrix, residual: Floats) -> None:
    """Update each atom together with its coefficients, in place: as `update_approximately`."""
    for k in np.flatnonzero(np.diff(codes.indptr)):
        own = slice(codes.indptr[k], codes.indptr[k + 1])
        rows = codes.indices[own]
        error = residual[rows] + np.outer(codes.data[own], atoms[k])
        direction = first_right_singular_vector(error)
        if direction is None:  # nothing left: as good as it is
            continue
        direction *= np.copysign(1, direction @ atoms[k])
        atoms[k] = direction
        codes.data[own] = error @ atoms[k]
        residual[rows] = error - np.outer(codes.data[own], atoms[k])


def first_right_singular_vector(rows: Floats) -> Doubles | None:
    """Unit vector on which the rows have the most energy; None for rows of zeros."""
    rows = rows.astype(np.float64)
    n, m = rows.shape
    gram = rows @ rows.T if n < m else rows.T @ rows
    last = len(gram) - 1
    vector = eigh(gram, subset_by_index=(last, last), check_finite=False)[1][:, 0]
    if n < m:
        vector = vector @ rows
    norm = np.linalg.norm(vector) if gram.any() else 0.0
    return vector / norm if norm > 0 else None


@kernel(REORDERED, allocates=True)
def _update_all(
    atoms: Array, atom_start: Array, row_of_entry: Array, strength: Array, residual: Array
) -> None:
    direction = np.empty(atoms.shape[1], atoms.dtype)
    for k in range(atoms.shape[0]):
        start, stop = atom_start[k], atom_start[k + 1]
        atom = atoms[k]
        if not _best_atom(
            atom, row_of_entry[start:stop], strength[start:stop], residual, direction
        ):
            continue
        overlap = _dot(atom, direction)
        for j in range(start, stop):
            row, old = residual[row_of_entry[j]], strength[j]
            new = _dot(row, direction) + old * overlap
            for f in range(row.shape[0]):
                row[f] += old * atom[f] - new * direction[f]
            strength[j] = new
        atom[:] = direction


@inlined(REORDERED)
def _best_atom(
    atom: Array, rows: Array, strength: Array, residual: Array, direction: Array
) -> bool:
    """Write the unit vector along E' codes[I, k] to ``direction``; False where that is zero."""
    square = strength.dtype.type(0)
    for j in range(rows.shape[0]):
        square += strength[j] * strength[j]
    for f in range(atom.shape[0]):
        direction[f] = square * atom[f]
    for j in range(rows.shape[0]):
        row, own = residual[rows[j]], strength[j]
        for f in range(row.shape[0]):
            direction[f] += own * row[f]
    norm = np.sqrt(_dot(direction, direction))
    if not norm > 0:  # no row uses the atom
        return False
    for f in range(atom.shape[0]):
        direction[f] /= norm
    return True


@inlined(REORDERED)
def _dot(a: Array, b: Array) -> Any:
    total = a.dtype.type(0)
    for f in range(a.shape[0]):
        total += a[f] * b[f]
    return total


# -------------------------------------------------------------------------- replacement of atoms


def superfluous_atoms(
    atoms: Floats,
    n_uses: NDArray[np.integer],
    least_use: float = LEAST_USE,
    same_atom: float = SAME_ATOM,
) -> NDArray[np.intp]:
    """Numbers of the atoms that hardly any row uses, or that equal one that is used more.

    ``n_uses`` (n_atoms,) counts the rows that use each atom; see `Learning` for the others.
    """
    same = np.abs(gram_matrix(atoms)) > same_atom
    order = np.argsort(-n_uses, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    superfluous = (n_uses == 0) | (n_uses < least_use * n_uses.mean())
    for k in order:  # an atom that goes itself displaces no other
        if not superfluous[k]:
            superfluous |= same[k] & (rank > rank[k])
    return np.flatnonzero(superfluous)


def replace_atoms(
    X: Floats,
    atoms: Floats,
    gone: NDArray[np.intp],
    residual: Floats,
    untried: NDArray[np.bool_],
    same_atom: float = SAME_ATOM,
) -> int:
    """Put the worst-coded rows in the place of atoms.

    No row is tried twice: a row that no dictionary codes well would come back for ever, while
    others wait. Where no row is left, or all others are coded exactly, atoms stay as they are.
    Of rows with an absolute cosine above ``same_atom`` only one is taken in the same round.
    ``atoms`` and ``untried`` (n_samples,), which says what rows may become atoms, are changed in
    place. Returns the number of atoms that were replaced.
    """
    if not len(gone):
        return 0
    left = np.sum(np.square(residual, dtype=np.float64), axis=1)
    energy = np.sum(np.square(X, dtype=np.float64), axis=1)
    left[~untried | (left <= NOTHING_LEFT[X.dtype.name] * energy)] = 0
    for number, k in enumerate(gone):
        worst = int(left.argmax())
        if left[worst] == 0:
            return number
        atoms[k] = X[worst] / np.sqrt(energy[worst])
        untried[worst] = False
        left[np.square(X @ atoms[k]) > same_atom**2 * energy] = 0
        left[worst] = 0
    return len(gone)
