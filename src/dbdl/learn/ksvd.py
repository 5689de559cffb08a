r"""K-SVD (Aharon, Elad and Bruckstein, 2006): atoms and codes by turns, ``X ~ codes @ atoms``.

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
from dbdl.coding.omp import Selection, encode, gram_matrix
from dbdl.model.state import Floats

Update = Literal["approximate", "exact"]
Array = NDArray[Any]

#: Atoms used by less than this part of the mean number of uses are replaced, and one of two whose
#: absolute cosine is larger than this. In 20 planted problems (50 atoms of dimension 20, 1500 rows
#: of 3 non-zeros, 80 iterations) 98 % to 100 % of the atoms were found; with 0.1 and 0.99, 86 % to
#: 100 % in 12 of them: an atom got stuck between two true ones, while another had hardly a row.
LEAST_USE = 0.25
SAME_ATOM = 0.95

#: Squared residuals up to this part of the squared row are rounding: such a row makes no new atom.
NOTHING_LEFT = {"float64": 1e-20, "float32": 1e-10}


@dataclass(frozen=True)
class KSVD:
    """What K-SVD learned.

    Attributes
    ----------
    atoms : ndarray of shape (n_atoms, n_features)
        Atoms of unit norm.
    codes : csr_matrix of shape (n_samples, n_atoms)
        Codes as the last update of the atoms left them.
    objective : ndarray of shape (n_iterations,)
        Squared error after each iteration. Matching pursuit is greedy and replaced atoms start
        anew, so it need not fall from one iteration to the next.
    """

    atoms: Floats
    codes: csr_matrix
    objective: NDArray[np.float64]


def learn_ksvd(
    X: Floats,
    atoms: Floats,
    n_nonzero: int,
    n_iterations: int,
    update: Update = "approximate",
    selection: Selection = "orthogonal",
    least_use: float = LEAST_USE,
    same_atom: float = SAME_ATOM,
    n_threads: int = 1,
) -> KSVD:
    """Learn a dictionary from where ``atoms`` start.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Rows, float32 or float64, C-contiguous.
    atoms : ndarray of shape (n_atoms, n_features)
        Atoms to start from, of any norm but zero; see `distinct_rows`.
    n_nonzero : int
        Non-zeros of a code; clipped to the numbers of atoms and features.
    n_iterations : int
        Rounds of coding and updating, at least one.
    update : {"approximate", "exact"}, default="approximate"
        How an atom and its coefficients are updated.
    selection : {"orthogonal", "forward"}, default="orthogonal"
        Rule of matching pursuit.
    least_use : float, default=0.25
        Atoms used by less than this part of the mean number of uses are replaced; 0 replaces
        those alone that no row uses.
    same_atom : float, default=0.95
        Of two atoms with a larger absolute cosine the one less used is replaced; 1 keeps both.
    n_threads : int, default=1
        Threads; any number gives the same bits.

    Returns
    -------
    KSVD
    """
    atoms = _unit(atoms.astype(X.dtype))
    n_nonzero = min(n_nonzero, *atoms.shape)
    update_atoms = update_exactly if update == "exact" else update_approximately
    untried: NDArray[np.bool_] = np.any(X, axis=1)
    objective = np.empty(int(n_iterations))
    with single_threaded_blas():
        for iteration in range(n_iterations):
            codes = code_rows(X, atoms, n_nonzero, selection, n_threads)
            by_atom = codes.tocsc()
            residual = X - codes @ atoms
            update_atoms(atoms, by_atom, residual)
            objective[iteration] = np.sum(np.square(residual, dtype=np.float64))
            if iteration + 1 < n_iterations:  # what replaces an atom has to be coded and updated
                gone = superfluous_atoms(atoms, np.diff(by_atom.indptr), least_use, same_atom)
                replace_atoms(X, atoms, gone, residual, untried, same_atom)
    return KSVD(atoms, by_atom.tocsr(), objective)


def code_rows(
    X: Floats,
    atoms: Floats,
    n_nonzero: int,
    selection: Selection = "orthogonal",
    n_threads: int = 1,
    gram: Floats | None = None,
) -> csr_matrix:
    """Codes of rows by matching pursuit, ``n_nonzero`` clipped to atoms and features."""
    if gram is None:
        gram = gram_matrix(atoms, n_threads)
    pursuit = encode(X, atoms, gram, [min(n_nonzero, *atoms.shape)], selection, None, n_threads)
    return pursuit.to_csr([0], len(atoms))


def distinct_rows(X: Floats, n_atoms: int, rng: np.random.Generator) -> Floats:
    """Choose different rows at random, of unit norm.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    n_atoms : int
        How many; there are fewer where X has fewer rows that differ in direction.
    rng : Generator

    Returns
    -------
    atoms : ndarray of shape (at most n_atoms, n_features)
    """
    rows = _unit(X[X.any(axis=1)])
    _, first = np.unique(rows, axis=0, return_index=True)
    return rows[rng.permutation(np.sort(first))[:n_atoms]]


def _unit(atoms: Floats) -> Floats:
    norm = np.linalg.norm(atoms.astype(np.float64), axis=1, keepdims=True)
    unit: Floats = np.ascontiguousarray((atoms / norm).astype(atoms.dtype))
    return unit


# ------------------------------------------------------------------------------- update of atoms


def update_approximately(atoms: Floats, codes: csc_matrix, residual: Floats) -> None:
    """Update each atom, then its coefficients, in place.

    Parameters
    ----------
    atoms : ndarray of shape (n_atoms, n_features)
    codes : csc_matrix of shape (n_samples, n_atoms)
        By atom; the places of the non-zeros stay.
    residual : ndarray of shape (n_samples, n_features)
        ``X - codes @ atoms``, before and after.
    """
    _update_all(atoms, codes.indptr, codes.indices, codes.data, residual)


def update_exactly(atoms: Floats, codes: csc_matrix, residual: Floats) -> None:
    """Update each atom together with its coefficients, in place: as `update_approximately`."""
    for k in range(len(atoms)):
        own = slice(codes.indptr[k], codes.indptr[k + 1])
        if own.start == own.stop:
            continue
        rows = codes.indices[own]
        error = residual[rows] + np.outer(codes.data[own], atoms[k])
        direction = first_right_singular_vector(error)
        if direction is None:  # nothing left: as good as it is
            continue
        direction *= np.copysign(1, direction @ atoms[k])
        atoms[k] = direction
        codes.data[own] = error @ atoms[k]
        residual[rows] = error - np.outer(codes.data[own], atoms[k])


def first_right_singular_vector(rows: Floats) -> NDArray[np.float64] | None:
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
    """Numbers of the atoms that hardly a row uses, or the same as one that is used more.

    Parameters
    ----------
    atoms : ndarray of shape (n_atoms, n_features)
    n_uses : ndarray of shape (n_atoms,)
        Number of rows that use each atom.
    least_use, same_atom : float
        As for `learn_ksvd`.
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

    Parameters
    ----------
    X, residual : ndarray of shape (n_samples, n_features)
    atoms : ndarray of shape (n_atoms, n_features)
        Changed in place.
    gone : ndarray of int
        Numbers of the atoms to replace.
    untried : ndarray of shape (n_samples,), bool
        Rows that may become atoms; changed in place.
    same_atom : float
        Of rows with a larger absolute cosine only one is taken in the same round.

    Returns
    -------
    n_replaced : int
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
