"""Arguments of a caller as rows of numbers and as labels: all public functions convert them here.

scikit-learn's `validate_data` checks shapes, names and finite values, but it takes bytes, strings
and dates for numbers if it can, and ignores masks. Here only numbers are numbers. Each refusal says
what was wrong, what was expected, and what to do.
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

#: The content of arrays of these kinds (`dtype.kind`), in words.
KINDS = {
    "S": "bytes", "U": "strings", "T": "strings", "M": "dates", "m": "durations", "V": "records",
}  # fmt: skip


def only_numbers(values: Any, name: str) -> Any:
    """Refuse values that are not real numbers; return the rest as an array, or a frame as it is.

    Messages name the argument by ``name``. Sparse and dask arrays are left to the caller. The array
    may hold any kind of real number but none wider than float64, or objects that are all numbers.
    """
    if issparse(values) or hasattr(values, "__dask_graph__"):
        return values
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(values, pandas.DataFrame):
        return _numbers_of_frame(values, name)
    array = _refuse_other_kinds(_to_array(values, name), name)
    # a frame of another library has names that scikit-learn looks at
    return values if hasattr(values, "columns") else array


def as_numbers(values: Any, name: str) -> Array:
    """Array of real numbers of any shape: float32 stays float32, all else becomes float64."""
    array = np.asarray(only_numbers(values, name))
    return array if array.dtype == np.float32 else array.astype(np.float64, copy=False)


def validate_rows(
    estimator: Any, X: Any, y: Any = "no_validation", *, reset: bool = True, gaps: bool = False
) -> Any:
    """Rows (n_samples, n_features) as scikit-learn's `validate_data` checks them, C-contiguous.

    They are float32 or float64. If labels are given, these (n_samples,) are returned too. With
    ``reset`` the estimator records the number and the names of the features; without it they are
    compared with those on record. With ``gaps`` rows may have missing values (NaN).
    """
    numbers, floats = only_numbers(X, "X"), [np.float64, np.float32]
    # it adds all values up to see whether they are finite
    with np.errstate(over="ignore", invalid="ignore"):
        return validate_data(
            estimator, numbers, y, reset=reset, dtype=floats, order="C",
            ensure_all_finite="allow-nan" if gaps else True,
        )  # fmt: skip


def as_labels(values: Any, name: str = "y") -> Any:
    """Refuse labels that are missing, of several kinds, or neither numbers nor strings.

    Returns an array of one dimension or more (scikit-learn checks that), where numbers that came as
    objects are numbers. None is left to the caller.
    """
    if values is None:
        return None
    if issparse(values):
        raise ValueError(f"{name} is a sparse matrix. Expected one label per row. Pass an array.")
    labels = _as_given(values, _to_array(values, name))
    kind = labels.dtype.kind
    if labels.ndim == 0:
        raise ValueError(f"{name} is a single value. Expected one label per row. Pass a list.")
    if kind in "cV":
        what = "complex numbers" if kind == "c" else "records"
        raise ValueError(
            f"{'Complex data not supported: ' * (kind == 'c')}{name} holds {what}. Expected one "
            "label per row: numbers or strings. Convert them."
        )
    is_missing = np.vectorize(_is_missing, [bool]) if kind == "O" else np.isnan
    if kind in "OfmM" and (gaps := is_missing(labels).ravel()).any():
        raise ValueError(
            f"{name} has a missing label, first in row {int(gaps.argmax())}. Input {name} contains "
            "NaN or None. Leave such rows out, or name a class for them."
        )
    return _labels_of_objects(labels, name) if kind == "O" else labels


def _as_given(values: Any, labels: Array) -> Array:
    """Labels of a list as objects, if NumPy has made strings of NaN or numbers among strings."""
    if labels.dtype.kind != "U" or not isinstance(values, list | tuple):
        return labels
    given = np.array(values, dtype=object)
    return labels if all(isinstance(value, str) for value in given.flat) else given


def _labels_of_objects(labels: Array, name: str) -> Array:
    """Labels that came as objects: strings stay, numbers become numbers."""
    values = labels.ravel().tolist()
    kinds = {_kind_of_label(value): value for value in values}
    if len(kinds) > 1:
        (first, one), (second, other) = list(kinds.items())[:2]
        raise ValueError(
            f"{name} holds labels of several kinds: {_short(one)} ({first}) and {_short(other)} "
            f"({second}). Expected one kind. Convert them, to strings say."
        )
    kind = next(iter(kinds), "string")
    if kind not in ("number", "string"):
        raise TypeError(
            f"{name} holds labels of the type {kind}: {_short(values[0])}. Expected numbers or "
            "strings. Convert them, to strings say."
        )
    return np.array(values).reshape(labels.shape) if kind == "number" else labels


def _kind_of_label(value: Any) -> str:
    if isinstance(value, str):
        return "string"
    return "number" if isinstance(value, Real | np.bool_) else type(value).__name__


# ----------------------------------------------------------------------------------- numbers


def _to_array(values: Any, name: str) -> Array:
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise ValueError(
            f"{name} is a masked array with masked values. Expected a value in every place. Fill "
            f"them first, with {name}.filled(...), or leave their rows out."
        )
    if hasattr(values, "collect") and not hasattr(values, "__array__"):
        raise TypeError(
            f"{name} is a {type(values).__name__}, which has no values before it is collected. "
            f"Expected an array or a data frame. Call {name}.collect() first."
        )
    if _is_pair_of_open_rows(values):
        raise TypeError(
            f"{name} is the pair that open_rows returns. Expected its rows or its labels. Unpack "
            "it: X, y = open_rows(...)."
        )
    # a generator or a file can be read only once
    once = isinstance(values, Iterable) and not hasattr(values, "__len__")
    if isinstance(values, dict | set | frozenset | str | bytes) or (
        once and not hasattr(values, "__array__")
    ):
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


def _is_pair_of_open_rows(values: Any) -> bool:
    """Whether values are a reader of rows and their labels, or None."""
    is_pair = isinstance(values, tuple) and len(values) == 2
    return is_pair and all(hasattr(values[0], name) for name in ("read", "shape", "dtype"))


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
            "real and imaginary parts as separate features."
        )
    if kind == "O":
        _refuse_other_objects(array, name)
    if kind == "f" and array.dtype.itemsize > 8:
        with np.errstate(over="ignore"):  # too large for float64: an infinity, refused as one
            return array.astype(np.float64)
    return array


def _refuse_other_objects(array: Array, name: str) -> None:
    """Refuse an array of objects if one is not a number; numbers that are not finite stay."""
    for place, value in np.ndenumerate(array):
        if isinstance(value, Real | Decimal | np.bool_):
            continue
        where = f"{name}[{', '.join(map(str, place))}]" if place else name
        if _is_missing(value):
            raise ValueError(
                f"{where} is {value!r}: {name} has missing values. Expected numbers. Write "
                f"missing values as NaN: numpy.where(pandas.isna({name}), numpy.nan, {name})"
                ".astype(float)."
            )
        raise TypeError(
            f"{where} is of the type {type(value).__name__}: {_short(value)}. Values of this "
            "argument must be real numbers: convert strings and dates to numbers first."
        )


def _numbers_of_frame(frame: Any, name: str) -> Any:
    """Return a frame whose columns all hold numbers, those of pandas' own types as float64."""
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()][0]
        raise ValueError(
            f"{name} has two columns with the name {twice!r}. Expected a name for each column. "
            "Rename or drop one of them."
        )
    own_types = []
    for column, dtype in frame.dtypes.items():
        what = f"column {column!r} of {name}"
        if str(dtype) == "category":
            raise ValueError(
                f"{what} holds categories. Expected numbers. Encode them first, for example as one "
                "column per category."
            )
        if getattr(dtype, "kind", "O") not in "fiub":
            values = np.asarray(frame[column])
            # objects are named by the code that shows them
            _refuse_other_kinds(values, f"{name}[{column!r}]" if values.dtype == object else what)
        elif not isinstance(dtype, np.dtype):
            own_types.append(column)
    return frame.astype(dict.fromkeys(own_types, np.float64)) if own_types else frame


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
    return np.abs(exponent) > SAFE_EXPONENT[dtype.name]


def times_powers(X: Array, exponent: NDArray[np.int64] | int) -> Array:
    """Rows times powers of two (n_rows,), or all times one: exact unless they overflow or vanish.

    Powers that are numbers of their kind are multiplied by, which has the same bits: both round the
    exact product once.
    """
    exponent = np.asarray(exponent)[..., np.newaxis]
    with np.errstate(over="ignore", under="ignore"):
        if np.abs(exponent).max(initial=0) <= LARGEST_EXPONENT[X.dtype.name]:
            return X * np.ldexp(X.dtype.type(1), exponent)
        scaled: Array = np.ldexp(X, exponent)
    return scaled


def near_one(X: Array) -> Array:
    """Rows, multiplied by a power of two if their squares would overflow or vanish."""
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
    return np.ascontiguousarray(scaled / norm)


def clipped_to(values: Array, dtype: Any) -> Array:
    """Values as numbers of ``dtype``; those that are too large for it become nearly its largest."""
    most = 0.99 * float(np.finfo(dtype).max)
    return np.clip(values, -most, most).astype(dtype)


def refuse_huge(X: Array) -> Array:
    """Refuse rows whose squares overflow."""
    most = 2.0 ** SAFE_EXPONENT[X.dtype.name]
    largest = float(np.abs(X).max(initial=0))
    if largest > most:
        raise ValueError(TOO_LARGE.format(largest=largest, most=most))
    return X
