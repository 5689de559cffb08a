"""Atoms of unit norm given sums over codes: the update that the learned rivals share.

Minimises over atoms (n_atoms, n_features) of unit norm

    1/2 tr(gram @ atoms @ atoms.T) - tr(cross @ atoms.T)
        + 1/2 sum over pairs k < l of incoherence[k, l] (atoms_k . atoms_l)^2

with ``gram = codes.T @ codes`` and ``cross = codes.T @ X``: half the squared residual of
``X ~ codes @ atoms`` but for a constant. Atoms are updated one after another, each given the
newest others (block coordinate descent; Mairal, Bach, Ponce and Sapiro 2010). On the sphere the
first line is linear in one atom, so each update is its exact minimum, and the objective cannot
rise.

The incoherence of an atom is d M d with M the weighted sum of outer products of other atoms.
On the sphere that is d (M - bound I) d plus a constant, with any bound of the largest eigenvalue
of M; this form is concave and lies under its tangent at the old atom, so the minimum of the
tangent does not raise the objective, either.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dbdl._compile import kernel
from dbdl.estimators._rows import unit_rows
from dbdl.model.state import Doubles, Floats
from dbdl.rivals._base import Lesson

Array = NDArray[Any]
Start = Literal["rows", "pca"]

#: A pull on an atom below this has no direction but rounding: the atom stays.
NO_PULL = {"float64": 1e-12, "float32": 1e-6}


def update_atoms(
    atoms: Floats,
    gram: Floats,
    cross: Floats,
    blocks: Sequence[slice],
    incoherence: float | Floats = 0.0,
) -> Floats:
    """One pass over all atoms (n_atoms, n_features), block by block; returns new ones.

    ``blocks`` are the atoms of each class, for example. Atoms in one block do not repel each other.
    ``incoherence`` is the weight of all pairs of atoms in different blocks, or of each pair
    (n_atoms, n_atoms), not negative and symmetric. Weights within a block are ignored.
    """
    atoms = np.array(atoms, order="C")
    overlap = atoms @ atoms.T if np.any(incoherence) else None
    for block in blocks:
        own = atoms[block]
        pull = cross[block] - gram[block] @ atoms
        if overlap is not None:
            weights = incoherence[block] if isinstance(incoherence, np.ndarray) else incoherence
            pull += _repulsion(atoms, overlap, weights, block)
        own_gram = np.ascontiguousarray(gram[block, block])
        _update_block(own, own_gram, pull, NO_PULL[atoms.dtype.name])
        if overlap is not None:
            overlap[block] = own @ atoms.T
            overlap[:, block] = overlap[block].T
    return atoms


def _repulsion(atoms: Floats, overlap: Floats, weights: float | Floats, block: slice) -> Floats:
    """Minus the gradient at each atom of a block of d (M - bound I) d / 2."""
    from_others = weights * overlap[block]
    from_others[:, block] = 0
    # the largest sum of absolute values of a row bounds every eigenvalue
    bound = np.abs(overlap).sum(axis=1).max() * np.max(weights, axis=-1, keepdims=True)
    return bound.astype(atoms.dtype) * atoms[block] - from_others @ atoms


@kernel()
def _update_block(atoms: Array, gram: Array, pull: Array, floor: float) -> None:
    """Atoms of a block one by one; ``pull`` is minus the gradient, and is kept up to date."""
    n_atoms = atoms.shape[0]
    for k in range(n_atoms):
        atom, force = atoms[k], pull[k]
        own = gram[k, k]
        square = 0.0
        for f in range(atom.shape[0]):
            force[f] += own * atom[f]  # without the atom itself
            square += np.float64(force[f]) * force[f]
        norm = np.sqrt(square)
        if not norm > floor:
            continue
        scale = atom.dtype.type(1.0 / norm)
        for f in range(atom.shape[0]):
            change = force[f] * scale - atom[f]
            atom[f] = force[f] * scale
            force[f] = change
        for j in range(k + 1, n_atoms):
            weight, other = gram[j, k], pull[j]
            if weight != 0:
                for f in range(atom.shape[0]):
                    other[f] -= weight * force[f]


def pairwise_overlap(overlap: Doubles, blocks: Sequence[slice]) -> float:
    """Sum over pairs of blocks of the squared products of their atoms, each pair once."""
    own = sum(float(np.sum(overlap[b, b] ** 2)) for b in blocks)
    return 0.5 * (float(np.sum(overlap**2)) - own)


# ----------------------------------------------------------------------------------------- start


def start_atoms(
    lesson: Lesson, n_atoms_per_class: int, start: Start, rng: np.random.Generator,
    n_shared: int = 0,
) -> tuple[Floats, list[slice]]:  # fmt: skip
    """First atoms, of unit norm, and the block of each class among them; shared ones come last.

    A class with fewer rows than ``n_atoms_per_class`` gets as many atoms as it has rows. Shared
    atoms are the strongest directions of all rows, which are common to them.
    """
    rows, X = lesson.by_class(), lesson.X
    parts = [choose_atoms(own, min(n_atoms_per_class, len(own)), start, rng) for own in rows]
    ends = np.cumsum([0, *map(len, parts)]).tolist()
    shared = choose_atoms(X, min(n_shared, len(X)), "pca", rng) if n_shared else X[:0]
    return np.vstack([*parts, shared]), [slice(a, b) for a, b in pairwise(ends)]


def choose_atoms(rows: Floats, n_atoms: int, start: Start, rng: np.random.Generator) -> Floats:
    """Atoms (n_atoms, n_features) of unit norm from rows: some of them, or their directions.

    ``"rows"`` takes distinct rows at random, ``"pca"`` the first right singular vectors. Where
    there are not enough of them, random directions make up for the rest.
    """
    # scaled first: rows of any scale may come here
    found = distinct_rows(unit_rows(rows), n_atoms, rng) if start == "rows" else _directions(rows)
    found = found[:n_atoms]
    missing = rng.standard_normal((n_atoms - len(found), rows.shape[1]))
    return np.ascontiguousarray(np.vstack([found, unit_rows(missing)]).astype(rows.dtype))


def distinct_rows(X: Floats, n_atoms: int, rng: np.random.Generator) -> Floats:
    """Choose at most ``n_atoms`` rows at random, scaled to unit norm, of different directions."""
    rows = as_atoms(X[X.any(axis=1)])
    _, first = np.unique(rows, axis=0, return_index=True)
    return rows[rng.permutation(np.sort(first))[:n_atoms]]


def as_atoms(rows: Floats) -> Floats:
    """Rows scaled to unit norm; none of them may be zero or on a scale of its own."""
    norm = np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
    return np.ascontiguousarray((rows / norm).astype(rows.dtype))


def _directions(rows: Floats) -> Floats:
    """Right singular vectors, the strongest first, each turned to where most rows are."""
    _, strength, directions = np.linalg.svd(rows.astype(np.float64), full_matrices=False)
    found = directions[strength > 1e-6 * max(strength[0], np.finfo(float).tiny)]
    found = found * np.where(found @ rows.sum(axis=0) < 0, -1.0, 1.0)[:, np.newaxis]
    return found.astype(rows.dtype)
