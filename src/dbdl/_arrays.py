"""Rows of numbers and labels out of what a caller passes: the one conversion, for every door.

NumPy takes bytes and strings for numbers where it can and drops masks and imaginary parts; what it,
pandas and polars cannot convert ends in messages of their own. Here only numbers are numbers, and
what is refused is said in one form: what was wrong, what was expected, what to do.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils.validation import validate_data

Array = NDArray[Any]

#: What arrays of these kinds (`dtype.kind`) hold, in words.
KINDS = {
    "S": "bytes",
    "U": "strings",
    "T": "strings",
    "M": "dates",
    "m": "durations",
    "V": "records",
}

NUMERIC = "fiub"


def only_numbers(values: Any, name: str) -> Any:
    """Refuse what does not hold real numbers; the rest as an array, or a frame as it is.

    Parameters
    ----------
    values : array-like
        Of any number of dimensions. Sparse matrices are left to the caller.
    name : str
        Of the argument, for messages.

    Returns
    -------
    values : ndarray or data frame
        The array may hold any kind of real number but one wider than float64, or objects that all
        are numbers.
    """
    if issparse(values) or hasattr(values, "__dask_graph__"):
        return values
    if _is_pandas(values):
        return _numbers_of_frame(values, name)
    array = _to_array(values, name)
    if hasattr(values, "columns"):  # a frame of another library, which has names to be looked at
        _refuse_other_kinds(array, name)
        return values
    return _refuse_other_kinds(array, name)


def as_numbers(values: Any, name: str) -> Array:
    """Array of real numbers of any shape: float32 stays float32, all else becomes float64."""
    array = np.asarray(only_numbers(values, name))
    return array if array.dtype == np.float32 else array.astype(np.float64, copy=False)


def validate_rows(estimator: Any, X: Any, y: Any = "no_validation", *, reset: bool = True) -> Any:
    """Rows of an estimator as scikit-learn's `validate_data` checks them, in the order of C.

    Parameters
    ----------
    estimator : estimator
        Is told the number and the names of the features, or compares them.
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,), optional
    reset : bool, default=True
        Whether rows are there to be learned from.

    Returns
    -------
    rows : ndarray of shape (n_samples, n_features), float32 or float64
    labels : ndarray of shape (n_samples,)
        Where labels were given.
    """
    kinds = [np.float64, np.float32]
    numbers = only_numbers(X, "X")
    # it adds all values up to see whether they are finite
    with np.errstate(over="ignore", invalid="ignore"):
        return validate_data(estimator, numbers, y, reset=reset, dtype=kinds, order="C")


def as_labels(values: Any, name: str = "y") -> Any:
    """Refuse labels that are missing, of several kinds, or of none that can be told apart.

    Parameters
    ----------
    values : array-like
        None is left to the caller.
    name : str, default="y"
        Of the argument, for messages.

    Returns
    -------
    labels : ndarray
        Of one dimension or more: scikit-learn's own check says what it thinks of that.
    """
    if values is None:
        return None
    if issparse(values):
        raise ValueError(f"{name} is a sparse matrix. Expected one label per row. Pass an array.")
    labels = _to_array(values, name)
    if labels.ndim == 0:
        raise ValueError(f"{name} is a single value. Expected one label per row. Pass a list.")
    if labels.dtype.kind == "c":
        raise ValueError(
            f"Complex data not supported: {name} holds complex numbers. Expected one label per "
            "row: numbers or strings. Convert them."
        )
    if labels.dtype.kind == "V":
        raise ValueError(
            f"{name} holds records. Expected one label per row: numbers or strings. Pass one field."
        )
    if labels.dtype.kind in "fmM" and (gaps := np.isnan(labels).ravel()).any():
        raise ValueError(_missing(name, int(gaps.argmax())))
    return _labels_of_objects(labels, name) if labels.dtype == object else labels


# ----------------------------------------------------------------------------------- numbers


def _to_array(values: Any, name: str) -> Array:
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise ValueError(
            f"{name} is a masked array with masked values. Expected a value in every place. Fill "
            f"them first, with {name}.filled(...), or leave their rows out."
        )
    if isinstance(values, dict | set | frozenset | str | bytes) or _is_used_up(values):
        raise ValueError(
            f"{name} is of the type {type(values).__name__}. Expected an array, a data frame or a "
            "list of rows. Convert it first."
        )
    try:
        return np.asarray(values)
    except Exception as error:  # whatever the library that holds the values raises
        raise ValueError(
            f"{name} does not convert to an array ({error}). Expected rows of one length that hold "
            "numbers. Look for rows that are shorter or longer than others."
        ) from error


def _is_used_up(values: Any) -> bool:
    """Whether values can be gone through but once: a generator, a file."""
    known = hasattr(values, "__len__") or hasattr(values, "__array__")
    return isinstance(values, Iterable) and not known


def _refuse_other_kinds(array: Array, name: str) -> Array:
    kind = array.dtype.kind
    if kind in KINDS:
        raise ValueError(
            f"{name} holds {KINDS[kind]} (dtype {array.dtype}). Expected numbers. Where they stand "
            "for numbers, convert them first: .astype(float)."
        )
    if kind == "c":
        raise ValueError(
            f"Complex data not supported: {name} holds complex numbers. Expected real ones. Pass "
            "real and imaginary parts as features of their own."
        )
    if kind == "O":
        _refuse_other_objects(array, name)
    if kind == "f" and array.dtype.itemsize > 8:
        with np.errstate(over="ignore"):  # too large for float64: an infinity, refused as one
            return array.astype(np.float64)
    return array


def _refuse_other_objects(array: Array, name: str) -> None:
    """Refuse an array of objects if one is not a number; numbers that are not finite stay."""
    for place, value in zip(np.ndindex(array.shape), array.flat, strict=True):
        if isinstance(value, Real | Decimal | np.bool_):
            continue
        where = f"{name}[{', '.join(map(str, place))}]" if place else name
        if _is_missing(value):
            raise ValueError(
                f"{where} is {value!r}: {name} has missing values. Expected numbers. Leave such "
                "rows out, or fill the gaps first."
            )
        raise TypeError(
            f"{where} is of the type {type(value).__name__}: {_short(value)}. Values of this "
            "argument must be real numbers: convert strings and dates to numbers first."
        )


def _is_pandas(values: Any) -> bool:
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(values, pandas.DataFrame)


def _numbers_of_frame(frame: Any, name: str) -> Any:
    """Return a frame whose columns all hold numbers, those of pandas' own kinds as NumPy's."""
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()][0]
        raise ValueError(
            f"{name} has two columns with the name {twice!r}. Expected a name for each column. "
            "Rename or drop one of them."
        )
    converted = {}
    for column, dtype in frame.dtypes.items():
        kind = getattr(dtype, "kind", "O")
        if isinstance(dtype, np.dtype) and kind in NUMERIC:
            continue
        what = f"column {column!r} of {name}"
        if not isinstance(dtype, np.dtype) and kind in NUMERIC and str(dtype) != "category":
            converted[column] = frame[column].to_numpy(dtype=np.float64, na_value=np.nan)
            continue
        _refuse_other_kinds(np.asarray(frame[column]), what)
        if str(dtype) == "category":
            raise ValueError(
                f"{what} holds categories. Expected numbers. Encode them first, one column per "
                "category say."
            )
    if not converted:
        return frame
    frame = frame.copy(deep=False)
    for column, values in converted.items():
        frame[column] = values
    return frame


# ------------------------------------------------------------------------------------ labels


def _labels_of_objects(labels: Array, name: str) -> Array:
    """Labels that came as objects: strings stay, numbers become numbers."""
    values = labels.ravel().tolist()
    for row, value in enumerate(values):
        if _is_missing(value):
            raise ValueError(_missing(name, row))
    kinds = {_kind_of_label(value): value for value in values}
    if len(kinds) > 1:
        (first, one), (second, other) = list(kinds.items())[:2]
        raise ValueError(
            f"{name} holds labels of several kinds: {_short(one)} ({first}) and {_short(other)} "
            f"({second}). Expected one kind. Convert them, to strings say."
        )
    kind = next(iter(kinds), "string")
    if kind == "number":
        return np.array(values).reshape(labels.shape)
    if kind == "string":
        return labels
    raise TypeError(
        f"{name} holds labels of the type {kind}: {_short(values[0])}. Expected numbers or "
        "strings. Convert them, to strings say."
    )


def _kind_of_label(value: Any) -> str:
    if isinstance(value, str):
        return "string"
    return "number" if isinstance(value, Real | np.bool_) else type(value).__name__


def _missing(name: str, row: int) -> str:
    return (
        f"{name} has a missing label, first in row {row}. Input {name} contains NaN or None. Leave "
        "such rows out, or name a class for them."
    )


def _is_missing(value: Any) -> bool:
    """Whether a value stands for nothing: None, NaN, pandas' NA or NaT."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float) and math.isnan(value)


def _short(value: Any) -> str:
    words = repr(value)
    return words if len(words) <= 40 else words[:37] + "..."


# ------------------------------------------------------------------------------------ scales

#: Squares, products and sums of numbers between 2^-this and 2^this neither overflow nor vanish.
SAFE_EXPONENT = {"float64": 300, "float32": 50}

#: Powers of two up to this are numbers of their kind, and so are the rows scaled by them.
LARGEST_EXPONENT = {"float64": 1000, "float32": 120}

TOO_LARGE = (
    "X has values of up to {largest:.2g} in absolute value, whose squares overflow. Expected at "
    "most {most:.2g}. Scale X, or use normalize=True."
)


def exponents(X: Array) -> NDArray[np.int64]:
    """Exponents (n_rows,) of the powers of two just above the largest entries; 0 for a zero row."""
    return np.frexp(np.abs(X).max(axis=1, initial=0))[1].astype(np.int64)


def unsafe(exponent: NDArray[np.int64], dtype: np.dtype[Any]) -> NDArray[np.bool_]:
    """Whether squares of numbers with these exponents may overflow or vanish."""
    found: NDArray[np.bool_] = np.abs(exponent) > SAFE_EXPONENT[dtype.name]
    return found


def times_powers(X: Array, exponent: NDArray[np.int64]) -> Array:
    """Rows times powers of two (n_rows,): exact unless the result overflows or vanishes."""
    with np.errstate(over="ignore", under="ignore"):
        scaled: Array = np.ldexp(X, exponent[:, np.newaxis])
    return scaled


def near_one(X: Array) -> Array:
    """Rows, those times a power of two whose squares overflow or vanish."""
    found = exponents(X)
    bad = unsafe(found, X.dtype)
    return times_powers(X, np.where(bad, -found, 0)) if bad.any() else X


def unit_rows(X: Array) -> Array:
    """Rows divided by their norms; zero rows stay. No scale overflows or vanishes.

    A row is brought near one by a power of two before it is squared: that is exact.
    """
    most = LARGEST_EXPONENT[X.dtype.name]
    power = np.ldexp(X.dtype.type(1), np.clip(-exponents(X), -most, most))
    scaled = X * power[:, np.newaxis]
    norm = np.linalg.norm(scaled, axis=1, keepdims=True)
    norm[norm == 0] = 1.0
    unit: Array = np.ascontiguousarray(scaled / norm)
    return unit


def refuse_huge(X: Array) -> Array:
    """Refuse rows whose squares overflow."""
    most = 2.0 ** SAFE_EXPONENT[X.dtype.name]
    largest = float(np.abs(X).max(initial=0))
    if largest > most:
        raise ValueError(TOO_LARGE.format(largest=largest, most=most))
    return X
