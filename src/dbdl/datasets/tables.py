"""Tables: ``.csv``, ``.xlsx`` and ``.parquet``, one row per sample, one column with the labels.

A column is typed by its cells: numbers or categories, which can be learned from; dates and mixtures
are refused, all of them in one message. Missing cells are NaN.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbdl._arrow import decoded, index_names, labels_of, number_dtype, numbers_of, texts_of
from dbdl._columns import (
    SEPARATED,
    Cells,
    Columns,
    Notes,
    Table,
    choose_features,
    find_features,
    listing,
    refuse_no_features,
    some,
    some_columns,
    spelled_out,
    warn_of,
)
from dbdl._files import reading
from dbdl._warnings import warn_caller
from dbdl.datasets.cells import (
    ADVICE,
    NO_LABEL,
    Column,
    Kind,
    kind_of_texts,
    labels_of_texts,
    number,
    read_column,
    read_column_as,
    usual_decimal,
)
from dbdl.datasets.dataset import Array, DataError, Dataset, Options, make_dataset, needing
from dbdl.datasets.texts import (
    Line,
    content_of,
    ending_of_content,
    lines_of_text,
    lines_of_workbook,
    split_header,
)

# Problems of columns, and rows without labels, that a message shows.
MOST_SHOWN = 12


def read_csv(path: Path, options: Options) -> Dataset:
    """Read a table of text; the delimiter is a comma, a semicolon or a tab.

    The first line is a header if one of these is true:

    - none of its cells is a number, except maybe the last;
    - its cells count 0, 1, 2, ..., as pandas writes them;
    - one of its cells is the name of a column that was asked for;
    - its last cell is the only one of that column that is not a number;
    - its cells rise or fall (wavelengths), and the last is a word that does not come again, unlike
      the labels below it;
    - it has six or more numbers, which rise or fall as those of no other line do, and lie outside
      of the range of all of them; a warning says so;
    - most of its cells are words, and one of them stands above numbers.

    Columns that number or name the rows are left out, see `dbdl._columns`.
    """
    return _dataset_of_lines(path, *lines_of_text(path, content_of(path)), options)


def read_workbook(path: Path, options: Options) -> Dataset:
    """Read the first sheet of a workbook, like a ``.csv``."""
    return _dataset_of_lines(path, *lines_of_workbook(path, content_of(path)), options)


def read_parquet(path: Path, options: Options) -> Dataset:
    """Read a table of columns; those that number or name the rows are left out as in a ``.csv``."""
    return _dataset_of_parquet(path, path, options)


def read_content(content: bytes, shown: Path, options: Options) -> Dataset:
    """Read a table from its bytes, which say which kind of table it is."""
    ending = ending_of_content(content)
    if ending == ".parquet":
        return _dataset_of_parquet(shown, io.BytesIO(content), options)
    read = lines_of_workbook if ending == ".xlsx" else lines_of_text
    return _dataset_of_lines(shown, *read(shown, content), options)


def _dataset_of_lines(path: Path, lines: list[Line], separator: str, options: Options) -> Dataset:

    def are_known(cells: Collection[str]) -> bool:
        asked = _spelled_out(options, cells)
        columns = asked.columns or Columns()
        features = columns.features is not None and set(columns.features) <= set(cells)
        return features or bool({asked.label, asked.ids, *asked.drop, columns.label} & set(cells))

    names, body = split_header(path, lines, are_known)
    shown = names or [str(j + 1) for j in range(len(body[0][1]))]
    details: dict[str, Any] = {"has_header": names is not None, "separator": separator}
    return _dataset(_TextTable(path, shown, body=body, **details), options)


def _dataset_of_parquet(path: Path, file: Any, options: Options) -> Dataset:
    with needing("pyarrow", f"{path} is a parquet file", "save the table as .csv"):
        import pyarrow.parquet as parquet
    with reading(path, "parquet file"):
        # as one file: a folder named year=2020 above it is not a column
        found = parquet.ParquetFile(file).read()
        index = index_names(found.schema)
    if found.num_rows == 0 or found.num_columns == 0:
        raise DataError(f"{path} holds an empty table")
    return _dataset(_ArrowTable(path, found.column_names, index, table=found), options)


# -------------------------------------------------------------------------------- choosing columns


@dataclass(frozen=True)
class _Choice:
    """Numbers of the columns to read, and notes on the others."""

    features: list[int]
    label: int | None
    ids: int | None
    notes: Notes = field(default_factory=dict)


def _dataset(table: _AnyTable, options: Options) -> Dataset:
    """Choose columns of a table and read them."""
    options = _spelled_out(options, table.names)
    chosen = _choose(table, options)
    columns = _read(table, chosen.features, options.columns)
    has_texts = any(column.kind is Kind.CATEGORIES for column in columns)
    names = table.names if table.has_header else None
    found = make_dataset(
        _stack([column.values for column in columns], has_texts),
        None if chosen.label is None else table.labels(chosen.label),
        Path(table.path.name.removesuffix(".gz")).stem,
        feature_kind="pixels" if options.image_shape else "features",
        image_shape=options.image_shape,
        feature_names=None if names is None else tuple(names[j] for j in chosen.features),
        label_name=None if names is None or chosen.label is None else names[chosen.label],
        column_roles=table.roles(chosen.features, chosen.label),
        column_kinds="".join(column.kind.value for column in columns),
        ids=None if chosen.ids is None else table.ids(chosen.ids),
        id_name=None if chosen.ids is None else table.names[chosen.ids],
        lines=table.lines,
        left_out={
            name: why
            for (done, why), group in chosen.notes.items()
            for name in group
            if done == "left out"
        },
    )
    warn_of(table, chosen.notes)
    return _labelled(found, table) if options.labelled else found


def _spelled_out(options: Options, known: Collection[str]) -> Options:
    """Return options with names of columns one by one, as far as they come in lists."""
    columns = options.columns
    if columns is not None and columns.features is not None:
        columns = replace(columns, features=spelled_out(columns.features, known))
    return replace(options, drop=spelled_out(options.drop, known), columns=columns)


def _labelled(found: Dataset, table: _AnyTable) -> Dataset:
    """Return the rows that have labels; the others are left out with a warning."""
    known = found.is_labelled
    if known.all() or found.y is None:
        return found
    missing = np.flatnonzero(~known)
    places = some([table.place(int(row)) for row in missing], MOST_SHOWN)
    if len(missing) == len(known):
        raise DataError(f"{table.path}: {places} has no label; fill in the column of the labels")
    warn_caller(
        f"{table.path}: no label in {len(missing)} of {len(known)} rows, which are left out "
        f"({places})"
    )
    return found.with_labels()


def _choose(table: _AnyTable, options: Options) -> _Choice:
    """Choose the columns of the features, the labels and the ids."""
    dropped = _numbers(table, options.drop)
    ids = None if options.ids is None else _numbers(table, [options.ids])[0]
    known = options.columns
    if known is not None and ids is None:
        ids = None if known.ids is None else table.number(known.ids)
    aside = {*dropped} if ids is None else {*dropped, ids}
    if known is None:
        label = _label_number(table, options, aside)
        features, notes = choose_features(table, label, aside)
        if not features:
            warn_of(table, notes)
            refuse_no_features(table)
        if ids is not None and ids not in dropped:
            notes = {why: [n for n in g if n != table.names[ids]] for why, g in notes.items()}
        return _Choice(features, label, ids, {why: group for why, group in notes.items() if group})
    asked = None if options.label is None else _label_number(table, options, aside)
    features, label = find_features(table, known, asked, labelled=options.labelled)
    if label is None and options.labelled:
        raise DataError(
            f"{table.path} has no column of labels; name it with --label (in Python, label=...)"
        )
    return _Choice(features, label, ids)


def _numbers(table: Table, names: Sequence[str]) -> list[int]:
    """Return the numbers of columns by name; those that are not there are all named."""
    found = [table.number(name) for name in names]
    absent = [repr(name) for name, j in zip(names, found, strict=True) if j is None]
    if absent:
        raise DataError(
            f"{table.path} has no column{'s' * (len(absent) > 1)} {some(absent)}: "
            f"{_known_columns(table)}"
        )
    return [j for j in found if j is not None]


def _known_columns(table: Table) -> str:
    if table.has_header and len(table.names) == 1:
        return f"its only column is {table.names[0]!r}. {SEPARATED}"
    if table.has_header:
        return f"its columns are {some_columns(table.names)}"
    return f"it has no header, and its columns go by their numbers, 1 to {len(table.names)}"


def _label_number(table: Table, options: Options, aside: Collection[int]) -> int | None:
    """Number of the label's column: by name, else the last; None where there need be none."""
    if options.label is None:
        data = [j for j in table.data_columns if j not in aside]
        return data[-1] if options.labelled and data else None
    if options.labelled:
        return _numbers(table, [options.label])[0]
    return table.number(options.label)


def _read(table: _AnyTable, features: list[int], known: Columns | None) -> list[Column]:
    """Read the columns of the features; the problems of all of them are said at once."""
    kinds = None if known is None else known.kinds
    sizes = (known and known.sizes) or [None] * len(features)
    if kinds is None:
        columns = [table.column(j) for j in features]
    else:
        table = table.only(features)
        asked = zip(features, map(Kind, kinds), sizes, strict=True)
        columns = [table.column_as(j, kind, size) for j, kind, size in asked]
    pairs = list(zip(features, columns, strict=True))
    problems = {j: column for j, column in pairs if column.kind in ADVICE}
    if problems:
        raise DataError(_in_words(table, problems, known))
    unsure = [place for place, column in enumerate(columns) if column.unsure]
    for is_as_fitted in (True, False):
        chosen = [place for place in unsure if columns[place].is_as_fitted is is_as_fitted]
        if chosen:
            names, first = [table.names[features[place]] for place in chosen], chosen[0]
            shown, size = table.example(features[first]), sizes[first]
            warn_caller(
                f"{table.path}: in column{'s' * (len(names) > 1)} {some_columns(names)}, {shown!r} "
                f"was read as {number(shown, columns[first].unsure):.16g}"
                + _beside_fitted(size, is_as_fitted=is_as_fitted)
            )
    return columns


def _beside_fitted(size: float | None, *, is_as_fitted: bool) -> str:
    """Compare numbers that may be read in two ways with those that a model learned from."""
    if size is None:
        return ""
    if is_as_fitted:
        return ", the size of the numbers that the model learned from"
    return (
        f", but the model learned from numbers of about {size:.3g} there: look whether the sign is "
        "one before decimals or between thousands, and whether the unit is the same"
    )


def _in_words(table: _AnyTable, problems: dict[int, Column], known: Columns | None) -> str:
    names = [table.names[j] for j in problems]
    said = [f"  {table.names[j]}: {_problem(table, j, column)}" for j, column in problems.items()]
    if len(said) > MOST_SHOWN:
        said = [*said[:MOST_SHOWN], f"  ... and {len(said) - MOST_SHOWN} more"]
    several = len(names) > 1
    head = f"{table.path}: {len(names)} column{'s' * several} cannot be used:\n"
    return head + "\n".join(said) + "\n" + _advice(names, known)


def _advice(names: list[str], known: Columns | None) -> str:
    """Say what to do about columns that cannot be used."""
    them = "them" if len(names) > 1 else "it"
    if known is None or known.kinds is None:
        return (
            f"Mend {them}, or leave {them} out: --drop {listing(names)} (in Python, drop={names})"
        )
    if known.features is None:
        return (
            f"Mend {them}, or take {them} out of the file: the model does not know the names of "
            "its features, so it takes every column for one."
        )
    return "Mend the cells: the model was fitted on numbers in these columns."


def _problem(table: _AnyTable, j: int, column: Column) -> str:
    """Say what is wrong with a column, and show the first cell of it."""
    if column.kind is Kind.OTHER or not column.odd:
        return ADVICE[column.kind]
    row = column.odd[0]
    shown = f"{table.place(row)}: {str(column.values[row])!r}"
    others = f" and {len(column.odd) - 1} more" if len(column.odd) > 1 else ""
    if column.kind is Kind.MIXED:
        return f"{shown} is not a number{others}; write NA for values that are not known"
    return f"{ADVICE[column.kind]} ({shown})"


def _stack(columns: list[Array], has_texts: bool) -> Array:
    """Return columns as an array of numbers, or of objects where some hold texts."""
    if not has_texts:
        return np.column_stack(columns)
    stacked = np.empty((len(columns[0]), len(columns)), dtype=object)
    for j, values in enumerate(columns):
        stacked[:, j] = values
    return stacked


# ------------------------------------------------------------------------------- tables of one kind


@dataclass(frozen=True, kw_only=True)
class _TextTable(Table):
    body: list[Line]  # number of the line and its cells, for each row
    separator: str = ","
    telling: Sequence[int] | None = None  # columns that show the decimal sign; all where None
    _read: dict[int, Column] = field(default_factory=dict)  # columns that have been read

    def cells(self, j: int) -> list[str]:
        return [cells[j] for _, cells in self.body]

    @cached_property
    def lines(self) -> NDArray[np.int64]:
        return np.array([line for line, _ in self.body])

    def place(self, row: int) -> str:
        return f"line {self.body[row][0]}"

    def example(self, j: int) -> str:
        return _first_with_sign(self.cells(j))

    @cached_property
    def _usual(self) -> str:
        telling = range(len(self.names)) if self.telling is None else self.telling
        return usual_decimal(map(self.cells, telling), self.separator)

    def usual(self) -> str:
        """Return the decimal sign of the file, which is looked for once, and only if needed."""
        return self._usual

    def column(self, j: int) -> Column:
        if j not in self._read:
            self._read[j] = read_column(self.cells(j), self.usual)
        return self._read[j]

    def only(self, features: Sequence[int]) -> _TextTable:
        """Return the table as a model sees it, where no other column shows the decimal sign."""
        return replace(self, telling=features, _read={})

    def column_as(self, j: int, kind: Kind, size: float | None) -> Column:
        return read_column_as(kind, self.cells(j), self.usual, size)

    def look(self, j: int) -> Cells:
        return self.column(j).look()

    def ids(self, j: int) -> Array:
        return np.array([cell.strip() for cell in self.cells(j)])

    def labels(self, j: int) -> Array:
        labels = [cell.strip() for cell in self.cells(j)]
        known = [label for label in labels if label.lower() not in NO_LABEL]
        return _with_gaps(
            labels_of_texts(known, self.usual), [label.lower() in NO_LABEL for label in labels]
        )


@dataclass(frozen=True, kw_only=True)
class _ArrowTable(Table):
    table: Any  # pyarrow.Table
    lines: None = None

    def place(self, row: int) -> str:
        return f"row {row + 1}"

    def example(self, j: int) -> str:
        return _first_with_sign(self._texts(self.column(j)))

    @staticmethod
    def _texts(column: Column) -> list[str]:
        texts = [str(value) for value in column.values]
        return ["" if text == "nan" else text for text in texts]

    def look(self, j: int) -> Cells:
        return self.column(j).look()

    def column(self, j: int) -> Column:
        column = decoded(self.table.column(j))
        if number_dtype(column.type) is not None or column.null_count == len(column):
            return Column(Kind.NUMBERS, numbers_of(column))
        texts = texts_of(column)
        if texts is not None:
            return kind_of_texts(texts)
        return Column(_kind_of_type(column.type), column.to_numpy(), (0,))

    def only(self, features: Sequence[int]) -> _ArrowTable:
        return self

    def column_as(self, j: int, kind: Kind, size: float | None) -> Column:
        found = self.column(j)
        if kind is Kind.NUMBERS and found.kind is not kind:
            return read_column_as(kind, self._texts(found), size=size)
        if kind is Kind.CATEGORIES and found.kind not in (kind, Kind.TOO_MANY):
            return Column(Kind.OTHER, found.values)
        return Column(kind, found.values)

    def ids(self, j: int) -> Array:
        return np.array(self.table.column(j).to_pylist())

    def labels(self, j: int) -> Array:
        column = self.table.column(j)
        gaps = np.asarray(column.is_null(nan_is_null=True))
        values = labels_of(column.filter(~gaps), self.path)
        return _with_gaps(values.astype(str) if values.dtype == bool else values, gaps)


_AnyTable = _TextTable | _ArrowTable


def _first_with_sign(cells: Sequence[str]) -> str:
    return next(cell.strip() for cell in cells if {",", "."} & set(cell))


def _kind_of_type(arrow_type: Any) -> Kind:
    from pyarrow import types

    return Kind.DATES if types.is_temporal(arrow_type) else Kind.OTHER


def _with_gaps(known: Array, gaps: Sequence[bool] | NDArray[np.bool_]) -> Array:
    """Return labels with None where there are gaps."""
    missing = np.asarray(gaps)
    if not missing.any():
        return known
    labels = np.full(len(missing), None, dtype=object)
    labels[~missing] = known.tolist()
    return labels
