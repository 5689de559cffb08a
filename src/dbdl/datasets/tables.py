"""Tables: ``.csv`` and ``.parquet``, one row per sample, one column with the labels."""

from __future__ import annotations

import csv
import itertools
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbdl._arrow import index_names, labels_of, look_at_column, number_dtype, numbers_of
from dbdl._columns import (
    Cells,
    Columns,
    Table,
    choose_features,
    find_features,
    is_unnamed,
    look_at_numbers,
    look_at_texts,
    some,
)
from dbdl._extras import how_to_install
from dbdl._files import reading
from dbdl.datasets.dataset import DataError, Dataset, Options, make_dataset

DELIMITERS = ",;\t"
# Rows of a column that are looked at first: they describe nearly all columns.
HEAD = 1000


def read_csv(path: Path, options: Options) -> Dataset:
    """Read a table of text; the delimiter is a comma, a semicolon or a tab.

    The first line is a header where none of its cells but the last is a number, where it counts
    0, 1, 2, ... as pandas does, where a label is asked for by name, where its last cell is the
    only one of that column that is not a number, or where its cells ascend (wavelengths) and the
    last is a word that does not come again, unlike the labels below it. Columns that number or
    name the rows are left out, see `dbdl._columns`.
    """
    rows = _cells(path)
    names = _header([cells for _, cells in rows], options)
    body = rows if names is None else rows[1:]
    if not body:
        raise DataError(f"{path} has a header, but no rows")
    n_columns = len(rows[0][1])
    for line, cells in body:
        if len(cells) != n_columns:
            raise DataError(
                f"{path}, line {line}: {len(cells)} cells, but the first line has {n_columns}"
            )
    shown = names or [str(j + 1) for j in range(n_columns)]
    return _dataset(_TextTable(path, shown, has_header=names is not None, body=body), options)


def read_parquet(path: Path, options: Options) -> Dataset:
    """Read a table of columns; those that number or name the rows are left out as in a ``.csv``."""
    try:
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise DataError(
            f"{path} is a parquet file, which needs pyarrow: {how_to_install('pyarrow')}, or save "
            "the table as .csv"
        ) from error
    with reading(path, "parquet file"):
        # as one file: a folder named year=2020 above it is not a column
        found = parquet.ParquetFile(path).read()
        index = index_names(found.schema)
    if found.num_rows == 0 or found.num_columns == 0:
        raise DataError(f"{path} holds an empty table")
    return _dataset(_ArrowTable(path, found.column_names, index, table=found), options)


def _dataset(table: _TextTable | _ArrowTable, options: Options) -> Dataset:
    """Choose columns of a table and read them."""
    features, label = _choose(table, options)
    names = table.names if table.has_header else None
    return make_dataset(
        np.column_stack([table.numbers(j) for j in features]),
        None if label is None else table.labels(label),
        table.path.stem,
        feature_kind="pixels" if options.image_shape else "features",
        image_shape=options.image_shape,
        feature_names=None if names is None else tuple(names[j] for j in features),
        label_name=None if names is None or label is None else names[label],
        column_roles=table.roles(features, label),
    )


def _choose(table: Table, options: Options) -> tuple[list[int], int | None]:
    """Return the numbers of the columns of the features and of the labels."""
    if options.columns is None:
        label = _label_number(table, options)
        return choose_features(table, label), label
    asked = None if options.label is None else _label_number(table, options)
    features, label = find_features(table, options.columns, asked, labelled=options.labelled)
    if label is None and options.labelled:
        raise DataError(f"{table.path} has no column of labels; name it with label=")
    return features, label


def _cells(path: Path) -> list[tuple[int, list[str]]]:
    """Cells of each line that is not empty, with the line's number."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            first = file.readline()
            delimiter = max(DELIMITERS, key=first.count)
            file.seek(0)
            reader = csv.reader(file, delimiter=delimiter)
            rows = [(reader.line_num, cells) for cells in reader if any(map(str.strip, cells))]
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not a text in UTF-8; save it as such") from error
    except csv.Error as error:
        raise DataError(f"{path} is not a table of text ({error})") from error
    if not rows:
        raise DataError(f"{path} is empty; expected one row per sample")
    return rows


def _header(rows: list[list[str]], options: Options) -> list[str] | None:
    names = [cell.strip() for cell in rows[0]]
    inner = names[:-1] or names
    words = not any(_is_number(name) for name in inner)
    named = list(itertools.dropwhile(is_unnamed, inner))
    counts = len(named) > 1 and named == [str(j) for j in range(len(named))]
    lasts = [cells[-1] for cells in rows]
    only_word = not _is_number(lasts[0]) and len(lasts) > 1 and all(map(_is_number, lasts[1:]))
    named_last = _is_ascending(named) and lasts.count(lasts[0]) == 1 and _recur(lasts[1:])
    found = words or counts or only_word or named_last or _are_known(names, options)
    return names if found else None


def _are_known(names: list[str], options: Options) -> bool:
    """Whether names are those of the label that is asked for, or of a model's columns."""
    columns = options.columns or Columns()
    features = columns.features is not None and set(columns.features) <= set(names)
    return features or bool({options.label, columns.label} & set(names))


def _is_ascending(cells: list[str]) -> bool:
    """Whether cells are numbers in ascending order, as wavelengths are that name columns."""
    if len(cells) < 2 or not all(map(_is_number, cells)):
        return False
    values = [float(cell) for cell in cells]
    return all(a < b for a, b in itertools.pairwise(values))


def _recur(labels: list[str]) -> bool:
    """Whether every label occurs more than once, and all are words."""
    counts = Counter(labels)
    return bool(counts) and min(counts.values()) > 1 and not any(map(_is_number, counts))


def _label_number(table: Table, options: Options) -> int | None:
    """Number of the label's column: by name, else the last; None where there need be none."""
    if options.label is None:
        return table.data_columns[-1] if options.labelled and table.data_columns else None
    number = table.number(options.label)
    if number is not None or not options.labelled:
        return number
    known = f"its columns are {some(table.names)}" if table.has_header else "it has no header"
    raise DataError(f"{table.path} has no column {options.label!r}: {known}")


@dataclass(frozen=True, kw_only=True)
class _TextTable(Table):
    body: list[tuple[int, list[str]]]  # number of the line and its cells, for each row

    def look(self, j: int) -> Cells:
        head = self._look(j, HEAD)
        return head if head is Cells.PLAIN or len(self.body) <= HEAD else self._look(j, None)

    def _look(self, j: int, n_rows: int | None) -> Cells:
        cells = [cells[j].strip() for _, cells in self.body[:n_rows]]
        try:
            return look_at_numbers(np.array([_number(cell) for cell in cells]))
        except ValueError:
            return Cells.PLAIN if any(map(_is_number, cells)) else look_at_texts(cells)

    def numbers(self, j: int) -> NDArray[np.float64]:
        try:
            return np.array([_number(cells[j]) for _, cells in self.body])
        except ValueError:
            line, cell = next((n, row[j]) for n, row in self.body if not _is_number(row[j]))
        held = f"{cell!r} is not a number" if cell.strip() else "the cell is empty"
        raise DataError(
            f"{self.path}, line {line}, column {self.names[j]}: {held}; features are numbers. If "
            "this column holds the labels, say so with label="
        )

    def labels(self, j: int) -> NDArray[Any]:
        # whole numbers where all are, else as they are written
        labels = [cells[j].strip() for _, cells in self.body]
        if "" in labels:
            sample = labels.index("") + 1
            raise DataError(
                f"{self.path}: sample {sample} has no label; fill it in or leave out the row"
            )
        if not all(map(_is_number, labels)):
            return np.array(labels)
        try:
            return np.array([int(label) for label in labels], dtype=np.int64)
        except (ValueError, OverflowError):  # `make_dataset` says so if they are not labels
            return np.array([float(label) for label in labels])


def _number(cell: str) -> float:
    """Return the number in a cell; 1_000, which Python reads as one, is a name."""
    if "_" in cell:
        raise ValueError(cell)
    return float(cell)


def _is_number(cell: str) -> bool:
    try:
        _number(cell)
    except ValueError:
        return False
    return True


@dataclass(frozen=True, kw_only=True)
class _ArrowTable(Table):
    table: Any  # pyarrow.Table

    def look(self, j: int) -> Cells:
        column = self.table.column(j)
        head = look_at_column(column.slice(0, HEAD))
        return head if head is Cells.PLAIN or len(column) <= HEAD else look_at_column(column)

    def numbers(self, j: int) -> NDArray[Any]:
        column, name = self.table.column(j), self.table.column_names[j]
        if column.null_count:
            row = int(np.argmax(np.asarray(column.is_null()))) + 1
            raise DataError(f"{self.path}, row {row}, column {name}: the cell is empty; fill it in")
        if number_dtype(column.type) is None:
            raise DataError(
                f"{self.path}, row 1, column {name}: {column[0].as_py()!r} is not a number; the "
                f"column holds {column.type}, and features are numbers. If this column holds the "
                "labels, say so with label="
            )
        return numbers_of(column)

    def labels(self, j: int) -> NDArray[Any]:
        return labels_of(self.table.column(j), self.path)
