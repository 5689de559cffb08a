"""Checks of the input of the public coders: clear messages, and arrays that kernels can take."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse

from dbdl._arrays import Array, as_numbers
from dbdl._warnings import warn_caller


def as_matrix(values: ArrayLike, name: str) -> Array:
    """A two-dimensional float32 or float64 array; other numbers become float64."""
    if issparse(values):
        raise ValueError(f"{name} is a sparse matrix. Expected a dense array. Call .toarray().")
    array = as_numbers(values, name)
    if array.ndim != 2:
        raise ValueError(
            f"{name} has {array.ndim} dimensions. Expected 2, with one row per sample or atom. "
            "Reshape a single row by values.reshape(1, -1)."
        )
    if name != "X" and 0 in array.shape:
        raise ValueError(
            f"{name} has shape {array.shape}. Expected at least one atom and one feature."
        )
    return array


def as_matrices(X: ArrayLike, atoms: ArrayLike) -> tuple[Array, Array]:
    """Rows and atoms as two matrices with the same number of features."""
    rows, dictionary = as_matrix(X, "X"), as_matrix(atoms, "atoms")
    if rows.shape[1] != dictionary.shape[1]:
        raise ValueError(
            f"X has {rows.shape[1]} features and atoms have {dictionary.shape[1]}. Expected the "
            "same number: rows are samples in X and atoms in atoms. Transpose the one that holds "
            "them as columns."
        )
    return rows, dictionary


def aligned(array: Array, dtype: np.dtype[Any]) -> Array:
    with np.errstate(over="ignore"):  # overflow gives infinity, which is refused
        return np.require(array, dtype, ["C_CONTIGUOUS", "ALIGNED"])


def check_finite(array: Array, name: str) -> None:
    if not np.isfinite(array).all():
        raise ValueError(
            f"{name} contains NaN or infinity. Expected finite numbers. Drop or impute those "
            "values first."
        )


def is_number(value: Any) -> bool:
    """Whether a value is a real number; True and False are not."""
    return isinstance(value, Real) and not isinstance(value, bool)


def check_choices(rule: str, tol: float | None) -> None:
    if rule not in ("orthogonal", "forward"):
        raise ValueError(
            f"rule is {rule!r}. Expected 'orthogonal' (textbook) or 'forward' (lowers "
            "the residual most). Choose one of the two."
        )
    if tol is not None and not (is_number(tol) and tol >= 0):
        raise ValueError(
            f"tol is {tol!r}. Expected None or a residual norm of 0 or more. Pass None to use "
            "n_nonzero alone."
        )


def as_lengths(n_nonzero: Any) -> list[Any]:
    """Several numbers of non-zeros as a list."""
    if isinstance(n_nonzero, str | bytes | dict) or not isinstance(n_nonzero, Iterable):
        raise ValueError(
            f"n_nonzero is {n_nonzero!r}. Expected several numbers of non-zeros, such as [50]."
        )
    return list(n_nonzero)


def check_lengths(lengths: Sequence[int], most: int) -> list[int]:
    """Numbers of non-zeros, clipped to the largest that the dictionary allows."""
    if not lengths:
        raise ValueError(
            "n_nonzero is empty. Expected at least one number of non-zeros, such as [50]."
        )
    for length in lengths:
        check_length(length)
    if max(lengths) > most:
        warn_caller(
            f"n_nonzero={max(lengths)} was asked for; {most} is used: a code cannot have more "
            "non-zeros than there are atoms or features.",
        )
    return [min(int(length), most) for length in lengths]


def check_length(length: Any) -> None:
    """Refuse a number of non-zeros that is not a whole number of 1 or more."""
    if isinstance(length, bool | np.bool_) or not isinstance(length, Integral):
        raise ValueError(
            f"n_nonzero is {length!r}. Expected a whole number of 1 or more. Convert it to int."
        )
    if length < 1:
        raise ValueError(
            f"n_nonzero is {length}. Expected 1 or more. Pass the largest number of atoms per row."
        )


def check_n_jobs(n_jobs: Any) -> int | None:
    """Refuse an invalid number of threads."""
    if n_jobs is None:
        return None
    if isinstance(n_jobs, bool | np.bool_) or not isinstance(n_jobs, Integral) or n_jobs == 0:
        raise ValueError(
            f"n_jobs is {n_jobs!r}. Expected None, a number of threads of 1 or more, or -1 for one "
            "thread per processor."
        )
    return int(n_jobs)


def check_gram(gram: Array, n_atoms: int) -> Array:
    if gram.shape != (n_atoms, n_atoms):
        raise ValueError(
            f"gram has shape {gram.shape}. Expected ({n_atoms}, {n_atoms}), one row and column "
            "per atom. Pass atoms @ atoms.T, or None to have it computed."
        )
    diagonal = np.diagonal(gram)
    if not (np.isfinite(diagonal).all() and (diagonal >= 0).all()):
        raise ValueError(
            "The diagonal of gram has negative or infinite entries. Expected the squared norms of "
            "the atoms. Pass atoms @ atoms.T of finite atoms."
        )
    return gram


def check_rule(penalty: float | None, tol: float | None, n_nonzero: int | None) -> None:
    if [penalty, tol, n_nonzero].count(None) != 2:
        raise ValueError(
            f"penalty is {penalty!r}, tol is {tol!r} and n_nonzero is {n_nonzero!r}. Expected "
            "exactly one of them. Pass the weight of the absolute coefficients, the norm of the "
            "residual, or the number of non-zeros."
        )
    if n_nonzero is not None:
        check_length(n_nonzero)
    value, name = (tol, "tol") if penalty is None else (penalty, "penalty")
    if value is not None and not (is_number(value) and 0 <= value < np.inf):
        raise ValueError(f"{name} is {value!r}. Expected a finite number of 0 or more.")
