"""Columns of Arrow tables and parquet files as NumPy arrays; for callers that have pyarrow."""

from __future__ import annotations

import json
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbdl._columns import Cells, as_texts, look_at_numbers, look_at_texts
from dbdl._files import DataError


def index_names(schema: Any) -> frozenset[str]:
    """Return the names of the columns in which pandas (or Dask) stored the names of rows."""
    described = (schema.metadata or {}).get(b"pandas")
    if described is None:
        return frozenset()
    found = json.loads(described).get("index_columns", ())
    return frozenset(name for name in found if isinstance(name, str))  # a range is not a column


def number_dtype(kind: Any) -> np.dtype[Any] | None:
    """Return the NumPy type for an Arrow type of numbers; None for any other."""
    from pyarrow import types

    if types.is_dictionary(kind):
        return number_dtype(kind.value_type)
    if types.is_decimal(kind):
        return np.dtype(np.float64)
    if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind):
        return np.dtype(kind.to_pandas_dtype())
    return None


def numbers_of(column: Any) -> NDArray[Any]:
    """Return the numbers of a column; an empty cell is NaN."""
    values = decoded(column).to_numpy()
    return values if values.dtype.kind in "fiub" else values.astype(np.float64)


def texts_of(column: Any) -> NDArray[Any] | None:
    """Return the texts of a column, NaN for an empty cell; None where it has no texts."""
    from pyarrow import types

    tests = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
    if not any(is_kind(column.type) for is_kind in tests):
        return None
    texts = np.empty(len(column), dtype=object)
    texts[:] = column.to_pylist()
    gaps = np.asarray(column.is_null())
    texts[~gaps] = as_texts(texts[~gaps]).astype(object)
    texts[gaps] = np.nan
    return texts


def labels_of(column: Any, path: str | PathLike[str]) -> NDArray[Any]:
    """Return the labels in a column: numbers as they are, else texts; none may be empty."""
    if column.null_count:
        row = int(np.argmax(np.asarray(column.is_null()))) + 1
        raise DataError(f"{path}: sample {row} has no label; fill it in or leave out the row")
    values = decoded(column).to_numpy()
    return values if values.dtype.kind in "fiub" else as_texts(values)


def look_at_column(column: Any) -> Cells:
    """Describe the cells of a column."""
    from pyarrow import types

    if column.null_count:
        return Cells.PLAIN
    if number_dtype(column.type) is not None:
        return look_at_numbers(numbers_of(column))
    if types.is_string(column.type) or types.is_large_string(column.type):
        return look_at_texts(column.to_pylist())
    return Cells.PLAIN


def decoded(column: Any) -> Any:
    """Return a column with the values that its categories stand for."""
    from pyarrow import types

    return column.cast(column.type.value_type) if types.is_dictionary(column.type) else column
