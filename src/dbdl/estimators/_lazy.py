"""Methods of an estimator on rows that are not in memory.

For a Dask collection they return a Dask array, computed lazily block by block. Other rows are read
and processed in parts.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar

import numpy as np
from scipy.sparse import csr_matrix, issparse, vstack
from sklearn.utils.validation import _check_feature_names, check_is_fitted

from dbdl._threads import block_slices
from dbdl.rows.lazy import WALK_ROWS
from dbdl.rows.readers import dask_columns_in_one_chunk, is_dask, reader_of

Method = TypeVar("Method", bound=Callable[..., Any])


def by_blocks(method: Method) -> Method:
    """Let a method whose only argument is rows take rows that are not in memory."""

    @wraps(method)
    def wrapper(self: Any, X: Any) -> Any:
        if is_dask(X):
            check_is_fitted(self)
            if hasattr(X, "columns"):
                _check_feature_names(self, X._meta, reset=False)
            return _lazily(self, method.__name__, dask_columns_in_one_chunk(X))
        reader = reader_of(X)
        if reader is None:
            return method(self, X)
        check_is_fitted(self)
        check_names(self, getattr(reader, "columns", None))
        blocks = block_slices(reader.shape[0], WALK_ROWS)
        read = (reader.read(rows.start, rows.stop) for rows in blocks)
        parts = [_apply(rows, self, method.__name__, None) for rows in read]
        return vstack(parts, format="csr") if issparse(parts[0]) else np.concatenate(parts)

    return wrapper  # type: ignore[return-value]


def _lazily(model: Any, name: str, rows: Any) -> Any:
    """Return a Dask array of the method's results for each block of rows."""
    from dask.delayed import delayed

    one_row = np.ones((1, model.n_features_in_), dtype=rows.dtype)
    example = _apply(one_row, model, name, None)
    shape: dict[str, Any] = {"drop_axis": 1}
    if example.ndim == 2:
        shape = {"chunks": (rows.chunks[0], (example.shape[1],))}
    empty, dtype = example[:0], example.dtype
    meta = csr_matrix((0, 0), dtype=dtype) if issparse(example) else empty
    lazy = delayed(model, pure=False, traverse=False)
    return rows.map_blocks(
        _apply, model=lazy, method=name, empty=empty, dtype=dtype, meta=meta, **shape
    )


def check_names(model: Any, columns: Sequence[str] | None) -> None:
    """Refuse rows of a file whose columns differ from those of the training rows."""
    fitted = getattr(model, "feature_names_in_", None)
    if columns is None or fitted is None or list(columns) == list(fitted):
        return
    first = next((pair for pair in zip(columns, fitted, strict=False) if pair[0] != pair[1]), None)
    what = "their number differs" if first is None else f"{first[0]!r} is where {first[1]!r} was"
    raise ValueError(
        f"The columns of X are not those of the rows that {type(model).__name__} was fitted on: "
        f"{what}. Pass the same columns in the same order."
    )


def _apply(block: Any, model: Any, method: str, empty: Any) -> Any:
    """Apply a method to a block; a block without rows gives ``empty``."""
    if empty is not None and len(block) == 0:
        return empty
    with warnings.catch_warnings():  # names were checked before the rows were cut into blocks
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        return getattr(model, method)(np.asarray(block))
