"""Checks of what the public coders are given: clear messages, and arrays that kernels can take."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse

Array = NDArray[Any]


def as_matrix(values: ArrayLike, name: str) -> Array:
    """A two-dimensional float32 or float64 array; other numbers become float64."""
    if issparse(values):
        raise ValueError(f"{name} is a sparse matrix. Expected a dense array. Call .toarray().")
    try:
        array = np.asarray(values)
        if array.dtype != np.float32:
            array = array.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} does not convert to real numbers ({error}). Expected a two-dimensional "
            "numeric array. Convert it first."
        ) from error
    if array.ndim != 2:
        raise ValueError(
            f"{name} has {array.ndim} dimensions. Expected 2, one row a sample or atom. A single "
            "row wants the shape (1, n_features): values.reshape(1, -1)."
        )
    if name != "X" and 0 in array.shape:
        raise ValueError(
            f"{name} has shape {array.shape}. Expected at least one atom and one feature. Pass a "
            "dictionary that is not empty."
        )
    return array


def aligned(array: Array, dtype: np.dtype[Any]) -> Array:
    return np.require(array, dtype, ["C_CONTIGUOUS", "ALIGNED"])


def check_finite(array: Array, name: str) -> None:
    if not np.isfinite(array).all():
        raise ValueError(
            f"{name} contains NaN or infinity. Expected finite numbers. Drop or impute those "
            "values first."
        )


def check_choices(selection: str, tol: float | None) -> None:
    if selection not in ("orthogonal", "forward"):
        raise ValueError(
            f"selection is {selection!r}. Expected 'orthogonal' (textbook) or 'forward' (lowers "
            "the residual most). Choose one of the two."
        )
    if tol is not None and not tol >= 0:
        raise ValueError(
            f"tol is {tol!r}. Expected None or a residual norm of 0 or more. Pass None to use "
            "n_nonzero alone."
        )


def check_lengths(lengths: Sequence[int], most: int) -> list[int]:
    """Numbers of non-zeros, clipped to what the dictionary allows."""
    if not lengths:
        raise ValueError(
            "n_nonzero is empty. Expected at least one number of non-zeros. Pass [50], say."
        )
    for length in lengths:
        if isinstance(length, (bool, np.bool_)) or not isinstance(length, (int, np.integer)):
            raise ValueError(
                f"n_nonzero is {length!r}. Expected a whole number of 1 or more. Convert it to int."
            )
        if length < 1:
            raise ValueError(
                f"n_nonzero is {length}. Expected 1 or more. Pass the most atoms a row may use."
            )
    if max(lengths) > most:
        warnings.warn(
            f"n_nonzero={max(lengths)} was asked for; {most} is used, the smaller of the numbers "
            "of atoms and features.",
            UserWarning,
            stacklevel=4,
        )
    return [min(int(length), most) for length in lengths]


def check_gram(gram: Array, n_atoms: int) -> Array:
    if gram.shape != (n_atoms, n_atoms):
        raise ValueError(
            f"gram has shape {gram.shape}. Expected ({n_atoms}, {n_atoms}), one row and column an "
            "atom. Pass atoms @ atoms.T, or None to have it computed."
        )
    diagonal = np.diagonal(gram)
    if not (np.isfinite(diagonal).all() and (diagonal >= 0).all()):
        raise ValueError(
            "The diagonal of gram is not made of finite numbers of 0 or more. Expected the "
            "squared norms of the atoms. Pass atoms @ atoms.T of finite atoms."
        )
    return gram


def check_rule(penalty: float | None, tol: float | None, n_nonzero: int | None) -> None:
    if [penalty, tol, n_nonzero].count(None) != 2:
        raise ValueError(
            f"penalty is {penalty!r}, tol is {tol!r} and n_nonzero is {n_nonzero!r}. Expected "
            "exactly one of them. Pass the weight of the absolute coefficients, the norm of the "
            "residual, or the number of non-zeros."
        )
    if n_nonzero is not None and (not isinstance(n_nonzero, Integral) or n_nonzero < 1):
        raise ValueError(f"n_nonzero is {n_nonzero!r}. Expected a whole number of 1 or more.")
    value, name = (tol, "tol") if penalty is None else (penalty, "penalty")
    if value is not None and not 0 <= value < np.inf:
        raise ValueError(f"{name} is {value!r}. Expected a finite number of 0 or more.")
