"""Rows that are copies of other rows, as in a table that was oversampled.

A copy of a row that was learned from is no fair test. So copies of a row are left out together.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dbdl._arrays import Array
from dbdl._threads import block_slices
from dbdl.model.state import Floats
from dbdl.rows.lazy import WALK_ROWS, LazyRows

#: Rows whose sums are computed at once: products of 64 bits take twice the memory of float32.
HASHED_ROWS = 512


def first_copies(X: Array | LazyRows) -> NDArray[np.int64] | None:
    """Return for each row the number of the first row that equals it, or None if all rows differ.

    Rows (n_samples, n_features) are in memory, numbers or objects, or are read in parts. They are
    compared by sums of 64 bits, which are equal by chance for one pair of rows in 10^9 or fewer.

    Examples
    --------
    >>> import numpy as np
    >>> from dbdl.rows.copies import first_copies
    >>> first_copies(np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0]]))
    array([0, 1, 0])
    >>> first_copies(np.eye(3)) is None
    True
    """
    if isinstance(X, LazyRows):
        blocks = block_slices(len(X), WALK_ROWS)
        names = np.concatenate(X.each_block(_name_block, blocks, [None] * len(blocks)))
    elif X.dtype == object:
        names = np.array([repr(row) for row in X.tolist()])
    else:
        names = _name_rows(X)
    _, first, copy_of = np.unique(names, return_index=True, return_inverse=True)
    return first[copy_of] if len(first) < len(names) else None


def _name_block(rows: Floats, _: None) -> NDArray[np.uint64]:
    return _name_rows(rows)


def _name_rows(X: Array) -> NDArray[np.uint64]:
    """Sums of the words of each row, times odd random numbers, modulo 2^64."""
    dtype = X.dtype if X.dtype in (np.float32, np.float64) else np.dtype(np.float64)
    n_words = X.shape[1] * dtype.itemsize // 4
    rng = np.random.default_rng(0)
    weights = rng.integers(2**64, size=n_words, dtype=np.uint64) | np.uint64(1)
    names = np.empty(len(X), dtype=np.uint64)
    for rows in block_slices(len(X), HASHED_ROWS):
        block = np.ascontiguousarray(X[rows], dtype) + dtype.type(0)  # -0.0 becomes 0.0
        names[rows] = block.view(np.uint32).astype(np.uint64) @ weights
    return names
