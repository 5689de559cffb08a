"""Tables: ``.csv`` and ``.parquet``, one row a sample, one column with the labels."""

from __future__ import annotations

import csv
import itertools
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbdl.datasets.record import DataError, Dataset, make_dataset
from dbdl.datasets.source import Options

DELIMITERS = ",;\t"


def read_csv(path: Path, options: Options) -> Dataset:
    """Read a table of text; the delimiter is a comma, a semicolon or a tab.

    The first line is a header where none of its cells but the last is a number, where it counts
    0, 1, 2, ... as pandas does, where a label is asked for by name, where its last cell is the
    only one of that column which is no number, or where its cells ascend (wavelengths) and the
    last is a word that does not come again, unlike the labels below it. A first column without
    name that counts the rows, as pandas writes it, is left out.
    """
    rows = _cells(path)
    names = _header([cells for _, cells in rows], options.label)
    body = rows if names is None else rows[1:]
    if not body:
        raise DataError(f"{path} has a header, but no rows")
    n_columns = len(rows[0][1])
    _check_widths(body, n_columns, path)
    label = _label_number(names, n_columns, options, path)
    shown = names or [str(j + 1) for j in range(n_columns)]
    first = 1 if names is not None and names[0] == "" and _counts_rows(body) else 0
    features = [j for j in range(first, n_columns) if j != label]
    if not features:
        raise DataError(f"{path} has one column; expected features and a label, split by commas")
    X = np.empty((len(body), len(features)))
    for column, j in enumerate(features):
        X[:, column] = _numbers([(line, cells[j]) for line, cells in body], shown[j], path)
    y = None if label is None else parse_labels([cells[label] for _, cells in body], path)
    feature_names = tuple(shown[j] for j in features) if names is not None else None
    label_name = None if names is None or label is None else names[label]
    return _dataset(X, y, path, options, feature_names, label_name)


def read_parquet(path: Path, options: Options) -> Dataset:
    """Read a table of columns."""
    try:
        import pyarrow.parquet as parquet
        from pyarrow import ArrowException
    except ImportError as error:
        raise DataError(
            f"{path} is a parquet file, which needs pyarrow: pip install 'dbdl[files]', or save "
            "the table as .csv"
        ) from error
    try:
        table = parquet.read_table(path)
    except (ArrowException, OSError) as error:
        raise DataError(f"{path} is not a whole parquet file ({error})") from error
    # pandas keeps its row names in a column of this kind
    names = [name for name in table.column_names if not name.startswith("__index_level_")]
    if not names or table.num_rows == 0:
        raise DataError(f"{path} holds an empty table")
    label = _label_number(names, len(names), options, path)
    features = [name for j, name in enumerate(names) if j != label]
    if not features:
        raise DataError(f"{path} has one column; expected features and a label")
    X = np.column_stack([_column(table.column(name), name, path) for name in features])
    y = None if label is None else _labels_of_column(table.column(names[label]), path)
    label_name = None if label is None else names[label]
    return _dataset(X, y, path, options, tuple(features), label_name)


def parse_labels(cells: Sequence[str], path: Path) -> NDArray[Any]:
    """Labels as whole numbers where all are, else as they are written."""
    stripped = [cell.strip() for cell in cells]
    for i, cell in enumerate(stripped):
        if not cell:
            raise DataError(f"{path}: sample {i + 1} has no label; fill it in or leave out the row")
    try:
        return np.array([int(cell) for cell in stripped], dtype=np.int64)
    except (ValueError, OverflowError):
        pass
    if all(_is_number(cell) for cell in stripped):
        return np.array([float(cell) for cell in stripped])  # the record says if they are no labels
    return np.array(stripped)


def _dataset(
    X: NDArray[Any],
    y: NDArray[Any] | None,
    path: Path,
    options: Options,
    names: tuple[str, ...] | None,
    label_name: str | None,
) -> Dataset:
    return make_dataset(
        X,
        y,
        path.stem,
        feature_kind="pixels" if options.image_shape else "features",
        image_shape=options.image_shape,
        feature_names=names,
        label_name=label_name,
    )


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
        raise DataError(f"{path} is empty; expected one row a sample")
    return rows


def _header(rows: list[list[str]], label: str | None) -> list[str] | None:
    names = [cell.strip() for cell in rows[0]]
    inner = names[:-1] or names
    words = not any(_is_number(name) for name in inner)
    named = inner[1:] if inner[0] == "" else inner
    counts = len(named) > 1 and named == [str(j) for j in range(len(named))]
    lasts = [cells[-1] for cells in rows]
    only_word = not _is_number(lasts[0]) and len(lasts) > 1 and all(map(_is_number, lasts[1:]))
    named_last = _is_ascending(inner) and lasts.count(lasts[0]) == 1 and _recur(lasts[1:])
    return names if words or counts or only_word or named_last or label in names else None


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


def _counts_rows(body: list[tuple[int, list[str]]]) -> bool:
    return [cells[0].strip() for _, cells in body] == [str(i) for i in range(len(body))]


def _check_widths(body: list[tuple[int, list[str]]], n_columns: int, path: Path) -> None:
    for line, cells in body:
        if len(cells) != n_columns:
            raise DataError(
                f"{path}, line {line}: {len(cells)} cells, but the first line has {n_columns}"
            )


def _label_number(
    names: list[str] | None, n_columns: int, options: Options, path: Path
) -> int | None:
    """Number of the label's column: by name, else the last; None where there need be none."""
    if options.label is None:
        return n_columns - 1 if options.labelled else None
    if names is not None and options.label in names:
        return names.index(options.label)
    if not options.labelled:
        return None
    known = "it has no header" if names is None else f"its columns are {_some(names)}"
    raise DataError(f"{path} has no column {options.label!r}: {known}")


def _some(names: Sequence[str], most: int = 12) -> str:
    return ", ".join(names[:most]) + (f", ... ({len(names)} in all)" if len(names) > most else "")


def _numbers(cells: list[tuple[int, str]], name: str, path: Path) -> list[float]:
    try:
        return [float(cell) for _, cell in cells]
    except ValueError:
        line, cell = next((line, cell) for line, cell in cells if not _is_number(cell))
        held = f"{cell!r} is not a number" if cell.strip() else "the cell is empty"
        raise DataError(
            f"{path}, line {line}, column {name}: {held}; features are numbers. If this column "
            "holds the labels, say so with label="
        ) from None


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _column(column: Any, name: str, path: Path) -> NDArray[Any]:
    if column.null_count:
        row = int(np.argmax(np.asarray(column.is_null()))) + 1
        raise DataError(f"{path}, row {row}, column {name}: the cell is empty; fill it in")
    values = column.to_numpy()
    if values.dtype.kind in "fiub":
        return values
    for i, value in enumerate(values):
        if not _is_number(str(value)):
            raise DataError(
                f"{path}, row {i + 1}, column {name}: {value!r} is not a number; features are "
                "numbers. If this column holds the labels, say so with label="
            )
    return np.array([float(value) for value in values])


def _labels_of_column(column: Any, path: Path) -> NDArray[Any]:
    if column.null_count:
        row = int(np.argmax(np.asarray(column.is_null()))) + 1
        raise DataError(f"{path}: sample {row} has no label; fill it in or leave out the row")
    values = column.to_numpy()
    return values if values.dtype.kind in "fiub" else np.array([str(value) for value in values])
