"""Splits for the benchmarks beyond the tables: sizes, details, devices.

The rows, and their number per class, are those of the first column of a table of `dbdl reproduce`.
A missing data set is skipped with a message.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dbdl.datasets import DataNotFoundError, load
from dbdl.experiments.protocol import random_split
from dbdl.experiments.rows import LabelledRows, labelled_rows
from dbdl.experiments.spec import Table, load_table


@dataclass(frozen=True)
class Split:
    """Rows to learn from and rows to test on."""

    X_train: np.ndarray
    y_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def rows_of(table: Table) -> LabelledRows | None:
    """Rows of a table's data set; None, with a message, where it is not there."""
    try:
        return labelled_rows(load(table.dataset), table.unit_rows)
    except DataNotFoundError as error:
        print(f"{table.name} is skipped: {error}", file=sys.stderr)
        return None


def splits(name: str, n_splits: int) -> Iterator[Split]:
    """Random splits, class by class, the same for every method: seeds 0, 1, ..."""
    table = load_table(name)
    rows = rows_of(table)
    if rows is None:
        return
    protocol = next(iter(table.columns.values()))
    parts = [rows.own] if protocol.own else []
    if protocol.per_class is not None:
        rngs = map(np.random.default_rng, range(n_splits))
        parts = [random_split(rows.y, protocol.per_class, rng) for rng in rngs]
    for train, test in parts:
        yield Split(rows.X[train], rows.y[train], rows.X[test], rows.y[test])
