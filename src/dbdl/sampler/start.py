"""The initial atoms of a chain: training rows, drawn class by class.

The paper draws 1.5 rows per training row with replacement. Copies count in K of the Beta process,
but are dropped before the first sweep, where the paper keeps them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dbdl.backends.base import Data
from dbdl.draws import Key, Site, uniforms
from dbdl.model.trust import Doubles

Rows = NDArray[np.int64]


def share_by_class(n_atoms: int, data: Data) -> NDArray[np.int64]:
    """Share ``n_atoms`` among classes in proportion to their rows.

    A class with rows gets at least one. Remainders go to the classes with the largest fractions.
    Ties go to the class whose first row comes first, so that the names of the classes do not
    matter.
    """
    n_rows = np.bincount(data.class_of_row, minlength=data.n_classes)  # whatever their weights
    exact = n_atoms * n_rows / n_rows.sum()
    share = np.maximum(np.floor(exact).astype(np.int64), n_rows > 0)
    missing = max(n_atoms - int(share.sum()), 0)
    order = np.lexsort((data.first_row, -(exact - np.floor(exact))))
    share[order[:missing]] += 1
    return share


def rows_with_replacement(key: Key, data: Data, n_atoms: int, sweep: int = 0) -> Rows:
    """Draw ``n_atoms`` rows with replacement, as the paper does; ascending, copies included.

    ``sweep`` is the number of the sweep before which they are drawn.
    """
    chosen = []
    for c, share in enumerate(share_by_class(n_atoms, data)):
        own = np.flatnonzero(data.class_of_row == c)
        draws = _uniforms(key, data.first_row[c], int(share), sweep)
        chosen.append(own[(draws * len(own)).astype(np.int64)])
    return np.sort(np.concatenate(chosen))


def rows_without_replacement(key: Key, data: Data, n_atoms: int, sweep: int = 0) -> Rows:
    """Draw ``n_atoms`` distinct rows (all rows if there are no more), ascending."""
    chosen = []
    for c, share in enumerate(share_by_class(n_atoms, data)):
        own = np.flatnonzero(data.class_of_row == c)
        order = np.argsort(_uniforms(key, data.first_row[c], len(own), sweep), kind="stable")
        chosen.append(own[order[: min(int(share), len(own))]])
    return np.sort(np.concatenate(chosen))


def _uniforms(key: Key, place: int, n: int, sweep: int) -> Doubles:
    return uniforms(key, Site.START_ATOM, place, np.arange(n), sweep)
