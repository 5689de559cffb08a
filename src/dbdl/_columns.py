"""Columns of a table: which of them are features, and which only number or name its rows.

A feature is a column of numbers or of categories. pandas writes the names of rows as a column: into
a ``.csv`` as a first one without a name, into a ``.parquet`` as one that the file describes as an
index. In a table that is sorted by class such a column gives the class away, so it is left out, and
so is any column that counts the rows. The same rule holds for tables that are read at once
(`dbdl.datasets.load`) and in parts (`dbdl.open_rows`).
"""

from __future__ import annotations

import csv
import io
import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from dbdl._files import DataError
from dbdl._warnings import warn_caller

#: A column with fewer rows than this may count up by chance. With 64 columns of values up to 16,
#: one in four tables of three rows has such a column, but only one in a thousand of five rows.
FEWEST_ROWS = 5
#: Names of columns that have none: as pandas writes them, and as it reads and writes them again.
NO_NAME = re.compile(r"(Unnamed: \d+(\.\d+)*)?")
#: Names of columns of ids, such as ``id``, ``patient_id``, ``caseId`` and ``UUID``.
ID_NAME = re.compile(r"(?i:(.*[\W_])?(id|uuid|guid)|index|key)|.*[a-z](ID|Id)")
#: With at least this many rows, texts that hardly ever occur twice are not categories.
ENOUGH_ROWS = 20
#: Name under which pandas stores an index without a name.
STORED_INDEX = re.compile(r"__index_level_\d+__")
#: What to say of a table with one column.
SEPARATED = (
    "Expected columns of features and one of labels, separated by commas, semicolons or tabs"
)


class Cells(Enum):
    """The cells of a column, taken together."""

    PLAIN = auto()
    TOO_FEW = auto()  # too few rows to say more
    COUNT_ROWS = auto()  # consecutive whole numbers
    NUMBER_ROWS = auto()  # a different whole number in every row
    NAME_ROWS = auto()  # a different text in every row
    EMPTY = auto()  # no values
    ONE_TEXT = auto()  # the same text in every row
    MANY_TEXTS = auto()  # hardly any text comes twice


#: Such columns number or name the rows, and are not features.
OF_ROWS = (Cells.COUNT_ROWS, Cells.NAME_ROWS)
#: Notes on columns that are left out, or that perhaps should be.
UNNAMED_COLUMN = ("left out", "a first column without a name holds the names of rows")
INDEX_COLUMN = ("left out", "stored as the index of the rows")
ID_COLUMN = ("left out", "a different whole number in every row, and the name of an id")
DROPPED_COLUMN = ("left out", "as asked")
NOTES = {
    Cells.COUNT_ROWS: ("left out", "consecutive whole numbers only number the rows"),
    Cells.NAME_ROWS: ("left out", "a different text in every row"),
    Cells.EMPTY: ("left out", "no values"),
    Cells.ONE_TEXT: ("left out", "the same text in every row"),
    Cells.MANY_TEXTS: ("left out", "hardly any text comes twice"),
    Cells.NUMBER_ROWS: (
        "used", "a different whole number in every row; remove it if it only numbers the rows"
    ),
}  # fmt: skip


class LeftOutWarning(UserWarning):
    """Columns of a table are not learned from."""


def size_of(values: NDArray[np.float64]) -> float | None:
    """Return the median of the absolute values (n_rows,) that are not zero; None without any."""
    there = np.abs(values[np.isfinite(values) & (values != 0)])
    return float(np.median(there)) if len(there) else None


def is_unnamed(name: str) -> bool:
    """Whether a column of this name has none."""
    return NO_NAME.fullmatch(name) is not None


def look_at_numbers(values: NDArray[Any]) -> Cells:
    """Describe the numbers (n_rows,) of a column."""
    if len(values) < FEWEST_ROWS:
        return Cells.TOO_FEW
    kind = values.dtype.kind
    # NaN is not equal to itself
    if kind not in "iuf" or (kind == "f" and not np.array_equal(values, np.floor(values))):
        return Cells.PLAIN
    if (values[1:] > values[:-1]).all() and values[-1] - values[0] == len(values) - 1:
        return Cells.COUNT_ROWS
    return Cells.NUMBER_ROWS if len(np.unique(values)) == len(values) else Cells.PLAIN


def look_at_texts(texts: Sequence[str]) -> Cells:
    """Describe the texts of a column; none of them is a number."""
    if len(texts) < FEWEST_ROWS:
        return Cells.TOO_FEW
    n_different = len(set(texts))
    if n_different == len(texts):
        return Cells.NAME_ROWS
    if n_different == 1:
        return Cells.ONE_TEXT
    many = len(texts) >= ENOUGH_ROWS and 2 * n_different > len(texts)
    return Cells.MANY_TEXTS if many else Cells.PLAIN


def as_texts(values: Iterable[Any]) -> NDArray[Any]:
    """Return labels as texts; bytes are taken for UTF-8."""
    texts = (v.decode(errors="replace") if isinstance(v, bytes) else str(v) for v in values)
    return np.array(list(texts))


@dataclass(frozen=True)
class Columns:
    """Columns that a model was fitted on, to find them again in another table.

    Attributes
    ----------
    features : tuple of str or None
        Names, in the model's order; None if they had none.
    label : str or None
        Name of the column of the labels.
    roles : str or None
        One letter for each column of the table, in its order: ``f`` for a feature, ``l`` for the
        label, ``o`` for one that was left out. Finds the columns of a table without names.
    kinds : str or None
        One letter for each feature: ``n`` for numbers, ``c`` for categories; None if all are
        numbers.
    ids : str or None
        Name of the column that names the rows.
    image_shape : tuple of int or None
        Height and width, if rows are images.
    sizes : tuple of float or None
        For each feature, the median of the absolute values that are not zero, or None where there
        are none: by it, ``5,126`` is read as in the rows that the model learned from. None as a
        whole if it is not known.
    """

    features: tuple[str, ...] | None = None
    label: str | None = None
    roles: str | None = None
    kinds: str | None = None
    ids: str | None = None
    image_shape: tuple[int, int] | None = None
    sizes: tuple[float | None, ...] | None = None


def columns_by_name(names: Sequence[str]) -> Columns:
    """Return columns that are found by their names alone, as a user gives them."""
    return Columns(checked_names("columns", names))


class Listing(str):
    """Names of columns in one text, with commas between them, as a command line gives them."""

    __slots__ = ()

    def names(self, known: Collection[str]) -> list[str]:
        """Return the names; a known name may hold commas, and so may any name in double quotes.

        Of several ways to read the text, the longest known names win.
        """
        most = 1 + max((name.count(",") for name in known), default=0)
        pieces, found = next(csv.reader([self]), []), []
        while pieces:
            ways = {n: ",".join(pieces[:n]).strip() for n in range(min(most, len(pieces)), 0, -1)}
            n = next((n for n, name in ways.items() if name in known), 1)
            found.append(ways[n])
            pieces = pieces[n:]
        return found


def listing(names: Iterable[str]) -> str:
    """Return names of columns as a word of a command line, which `Listing` reads."""
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(names)
    return shlex.quote(text.getvalue())


def spelled_out(names: Iterable[str], known: Collection[str]) -> tuple[str, ...]:
    """Return names of columns one by one: a `Listing` is taken apart, others stay as they are."""
    return tuple(
        name
        for text in names
        for name in (text.names(known) if isinstance(text, Listing) else [text])
    )


def checked_names(argument: str, names: Any) -> tuple[str, ...]:
    """Return names of columns; anything but a sequence of texts is refused."""
    if not isinstance(names, str) and np.iterable(names):
        found = tuple(names)
        if all(isinstance(name, str) for name in found):
            return found
    raise TypeError(f"{argument}={names!r}: expected a list of names")


@dataclass(frozen=True)
class Table:
    """A table to choose columns from. A subclass knows their cells."""

    path: Path
    names: Sequence[str]  # the numbers of the columns, from 1, where there is no header
    index: Collection[str] = ()  # columns that the file itself calls an index of its rows
    has_header: bool = True

    def look(self, j: int) -> Cells:
        """Describe the cells of a column by its number."""
        raise NotImplementedError

    def __post_init__(self) -> None:
        counts = Counter(self.names[j] for j in self.data_columns)
        several = [f"{n} columns have the name {name!r}" for name, n in counts.items() if n > 1]
        if several:
            raise DataError(
                f"{self.path}: {some(several)}, so that none of them can be told from the others; "
                "give each column a name of its own"
            )

    @property
    def data_columns(self) -> list[int]:
        """Numbers of the columns whose own name does not say that they hold the names of rows."""
        # a stored index of several levels has several columns
        first = next((j for j, name in enumerate(self.names) if not is_unnamed(name)), 0)
        stored = (name in self.index or STORED_INDEX.fullmatch(name) for name in self.names)
        return [j for j, is_stored in enumerate(stored) if j >= first and not is_stored]

    def number(self, name: str | None) -> int | None:
        """Return the number of the column of a name; None if there is no such column.

        Columns of a table without a header go by their numbers, from 1.
        """
        return next((j for j, own in enumerate(self.names) if own == name), None)

    def roles(self, features: Collection[int], label: int | None) -> str:
        """Return the letters of `Columns.roles`; a stored index comes first, as in a ``.csv``."""
        used, data = set(features), set(self.data_columns)
        order = sorted(range(len(self.names)), key=lambda j: j in data or j == label)
        return "".join("l" if j == label else "f" if j in used else "o" for j in order)


#: Names of columns by their treatment and its reason.
Notes = dict[tuple[str, str], list[str]]


def choose_features(
    table: Table, label: int | None, dropped: Collection[int] = ()
) -> tuple[list[int], Notes]:
    """Return the numbers of the columns to learn from, and notes on others.

    The label and the columns ``dropped`` by the user are not learned from. The notes name columns
    that are left out, or that perhaps should be.
    """
    data = [j for j in table.data_columns if j != label and j not in dropped]
    looks = {j: table.look(j) for j in data}
    notes: Notes = {}
    features = []
    for j, name in enumerate(table.names):
        note = _note(name, looks.get(j), j in dropped)
        if j != label and note is not None:
            notes.setdefault(note, []).append(name)
        if j in looks and (note is None or note[0] == "used"):
            features.append(j)
    return features, notes


def _note(name: str, look: Cells | None, dropped: bool) -> tuple[str, str] | None:
    """Return the treatment of a column and its reason; None for a plain feature."""
    if dropped:
        return DROPPED_COLUMN
    if look is None:
        return UNNAMED_COLUMN if is_unnamed(name) else INDEX_COLUMN
    if look is Cells.NUMBER_ROWS and ID_NAME.fullmatch(name):
        return ID_COLUMN
    return NOTES.get(look)


def warn_of(table: Table, notes: Notes) -> None:
    """Warn of columns that are left out, or that perhaps should be; not of those asked for."""
    for (done, why), names in notes.items():
        if (done, why) != DROPPED_COLUMN:
            columns = f"column{'s' * (len(names) > 1)} {some(list(map(repr, names)))}"
            category = LeftOutWarning if done == "left out" else UserWarning
            warn_caller(f"{table.path}: {done} {columns}: {why}", category)


def refuse_no_features(table: Table) -> NoReturn:
    """Say that no column is left to learn from."""
    raise DataError(
        f"{table.path} has no column of features: of its columns, {some_columns(table.names)}, "
        "one is the label, and the others hold nothing to learn from or only number or name the "
        "rows"
        if len(table.names) > 1
        else f"{table.path} has one column. {SEPARATED}"
    )


def find_features(
    table: Table, columns: Columns, label: int | None, *, labelled: bool = False
) -> tuple[list[int], int | None]:
    """Find the columns that a model was fitted on, by their names, or else by their places.

    Returns the numbers of the features, in the model's order, and of the label. ``label`` is its
    number if the user named it, and ``labelled`` says whether there has to be one.
    """
    if label is None:
        label = table.number(columns.label)
    if table.has_header and columns.features is not None:
        features, last = _by_name(table, columns.features), len(table.names) - 1
        return features, last if label is None and labelled and last not in features else label
    if columns.roles is None:
        raise DataError(
            f"{table.path} has no header, so its columns cannot be found by their names"
        )
    return _by_place(table, columns.roles, label)


def _by_name(table: Table, names: Sequence[str]) -> list[int]:
    place = {name: j for j, name in enumerate(table.names)}
    absent = [name for name in names if name not in place]
    if absent:
        several = len(absent) > 1
        raise DataError(
            f"{table.path} has no column{'s' * several} {some(list(map(repr, absent)))}, which "
            f"{'are' if several else 'is one'} of the {len(names)} columns to use; it has "
            f"{some_columns(table.names)}"
        )
    return [place[name] for name in names]


def _by_place(table: Table, fitted: str, label: int | None) -> tuple[list[int], int | None]:
    """Find columns in a table that may have labels or not, and columns to leave out or not."""
    everything = [j for j in table.data_columns if j != label]
    data = [j for j in everything if table.look(j) not in OF_ROWS]
    bare = fitted.replace("o", "")
    ways = _fitting([bare, bare.replace("l", "")], data, label)
    if not ways:
        data = everything
        ways = _fitting([fitted, fitted.replace("l", ""), bare, bare.replace("l", "")], data, label)
    if not ways:
        raise DataError(
            f"{table.path} has {len(data)} columns, but the model was fitted on "
            f"{fitted.count('f')} features"
        )
    way = ways[0] if len(ways) == 1 else _by_content(table, data, ways)
    features = [j for j, role in zip(data, way, strict=True) if role == "f"]
    return features, data[way.index("l")] if "l" in way else label


def _fitting(ways: Sequence[str], data: list[int], label: int | None) -> list[str]:
    """Return those ways to read columns that have a role for each of these columns."""
    unlabelled = (way for way in ways if label is None or "l" not in way)
    return list(dict.fromkeys(way for way in unlabelled if len(way) == len(data)))


def _by_content(table: Table, data: list[int], ways: list[str]) -> str:
    """Choose between labels and a column to leave out: one of them is there, but not both."""
    labelled, unlabelled = sorted(ways, key=lambda way: "o" in way)
    if table.look(data[unlabelled.index("o")]) is Cells.PLAIN:
        return labelled
    raise DataError(
        f"{table.path} has one column more than the model has features. It may be the labels, or "
        "the names of the rows that were left out when the model was fitted; its rows do not tell. "
        "Add a header, or write both columns or neither"
    )


def some_columns(names: Sequence[str], most: int = 12) -> str:
    """Return names of columns as `some` does; a name with a comma is in quotes."""
    return some([repr(name) if "," in name else name for name in names], most)


def some(names: Sequence[str], most: int = 12) -> str:
    """Return names as a list in words, shortened if there are many."""
    n_others = len(names) - most
    return ", ".join(names[:most]) + (f", ... and {n_others} more" if n_others > 0 else "")
