"""Rows and atoms of any scale: coded near one and scaled back, by powers of two, which is exact.

Squares of numbers beyond 1e154 overflow, and those of numbers under 1e-162 vanish. Rows and atoms
on such scales are brought near one first. For all others, the only cost is to find the largest
entries.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, vstack

from dbdl._arrays import SAFE_EXPONENT, Array, exponents, times_powers, unsafe

Exponents = NDArray[np.int64]
#: Codes of rows that were multiplied by ``2^-exponent``, for each number of non-zeros.
CodeRows = Callable[[Array, int], list[csr_matrix]]

CODES_OVERFLOW = (
    "The codes of X overflow: rows are so much larger than atoms that coefficients are not finite. "
    "Scale X and atoms, for example to rows of norm one (normalize=True where there is such a "
    "parameter)."
)

#: No penalty or tolerance needs to be larger for rows near one.
PLENTY = 1e100


def unsafe_exponents(X: Array) -> Exponents | None:
    """Exponents of rows whose squares overflow or vanish, 0 for others; None if all are safe."""
    found = exponents(X)
    bad = unsafe(found, X.dtype)
    return np.where(bad, found, 0) if bad.any() else None


def unsafe_atoms(atoms: Array, gram: Array | None = None) -> Exponents | None:
    """The same for atoms; with a Gram matrix, few of them have to be inspected."""
    if gram is not None and has_safe_diagonal(gram, atoms):
        return None
    return unsafe_exponents(atoms)


def has_safe_diagonal(gram: Array, atoms: Array) -> bool:
    """Whether a Gram matrix shows that no atom overflows or vanishes when squared.

    Inspecting all atoms would slow down a single query, so only those whose squares are zero are.
    """
    square = np.diagonal(gram)
    most = 4.0 ** SAFE_EXPONENT[atoms.dtype.name]
    smallest = square.min()
    if smallest == 0:
        vanished = square == 0
        if atoms[vanished].any():
            return False
        smallest = square[~vanished].min(initial=1.0)
    return 1.0 / most <= float(smallest) and float(square.max()) <= most


def with_safe_atoms(atoms: Array, gram: Array | None = None) -> tuple[Array, int, bool]:
    """Scale all atoms (float64) by one power of two, which preserves the ratios of their norms.

    Atoms that are negligible beside the largest are set to zero. Returns the atoms, the exponent
    (they were multiplied by ``2**-exponent``), and whether they differ from those given.
    """
    if gram is not None and has_safe_diagonal(gram, atoms):
        return atoms, 0, False
    found = exponents(atoms)
    largest = int(found[atoms.any(axis=1)].max(initial=-(2**20)))
    if largest == -(2**20) or not unsafe(found, atoms.dtype).any():
        return atoms, 0, False
    common = largest if unsafe(np.array(largest), atoms.dtype) else 0
    scaled = times_powers(atoms, np.full(len(atoms), -common))
    scaled[unsafe(found - common, atoms.dtype)] = 0.0
    return scaled, common, True


def by_scale(
    code: CodeRows,
    X: Array,
    row_exponents: Exponents | None,
    atom_exponents: Exponents | None = None,
    *,
    scale_back: bool = True,
) -> list[csr_matrix]:
    """Code rows, those on unsafe scales in groups of one exponent, and scale the codes back.

    ``code`` codes rows over the atoms, which were multiplied by ``2**-atom_exponents`` before.
    ``row_exponents`` (n_samples,) is None if all rows are coded as they are. ``scale_back`` is
    False if rows and atoms have the same scale, so that codes do not change.
    """
    if row_exponents is None:
        return [_scale_back(codes, 0, atom_exponents) for codes in code(X, 0)]
    groups = [np.flatnonzero(row_exponents == e) for e in np.unique(row_exponents)]
    parts = []
    for own in groups:
        exponent = int(row_exponents[own[0]])
        found = code(times_powers(X[own], -row_exponents[own]), exponent)
        back = exponent if scale_back else 0
        parts.append([_scale_back(codes, back, atom_exponents) for codes in found])
    place = np.argsort(np.concatenate(groups))
    return [vstack(part, format="csr")[place] for part in zip(*parts, strict=True)]


def _scale_back(
    codes: csr_matrix, row_exponent: int, atom_exponents: Exponents | None
) -> csr_matrix:
    if row_exponent == 0 and atom_exponents is None:
        return codes
    power = row_exponent - (0 if atom_exponents is None else atom_exponents[codes.indices])
    with np.errstate(over="ignore", under="ignore"):
        data = np.ldexp(codes.data, power)
    return refuse_overflow(csr_matrix((data, codes.indices, codes.indptr), shape=codes.shape))


def refuse_overflow(codes: csr_matrix) -> csr_matrix:
    """Refuse codes that are not finite."""
    if not np.isfinite(codes.data).all():
        raise ValueError(CODES_OVERFLOW)
    return codes


def in_dtype(codes: csr_matrix, dtype: np.dtype[Any]) -> csr_matrix:
    """Codes in another dtype; refused if they overflow there."""
    if codes.dtype == dtype:
        return codes
    with np.errstate(over="ignore", under="ignore"):
        return refuse_overflow(codes.astype(dtype))


def scaled_number(value: float | None, exponent: int) -> float | None:
    """A penalty or tolerance times the power of two by which rows were scaled."""
    if value is None or exponent == 0:
        return value
    with np.errstate(over="ignore", under="ignore"):
        return float(min(np.ldexp(float(value), exponent), PLENTY))
