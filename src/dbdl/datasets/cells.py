"""The cells of a column of text: numbers in any country's spelling, categories, dates, gaps.

A column has one kind, found from all its cells. Numbers may have a decimal comma and signs between
thousands; ``1,234`` alone may be either. The size of the numbers that a model learned from then
decides, if it is known and near to one of the two, and else the other columns of the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from dbdl._columns import Cells, look_at_numbers, look_at_texts, size_of
from dbdl.datasets.dataset import Array

#: Cells without a value, in lower case: as programs and people write them.
MISSING = frozenset(
    {
        "", "na", "n/a", "nan", "-nan", "null", "none", "nil", "<na>", "#na", "#n/a", "?", "-",
        "--", ".", "#div/0!", "#value!", "#ref!", "#num!", "#name?", "#null!", "\N{EN DASH}",
    }
)  # fmt: skip
#: Labels that are not there. Fewer words than for features: a class may be called "none" or "-".
NO_LABEL = frozenset({"", "na", "n/a", "nan", "null", "<na>", "#na", "#n/a", "?"})
#: A label that is a code, not a number.
LEADING_ZERO = re.compile(r"0\d+")
#: Numbers are of the size that a model knows if their median is that within this factor. The two
#: readings of 1,234 are 1000 times apart, so that no more than one of them is.
NEAR = 10
TRUTH = {"true": 1.0, "false": 0.0}
#: More categories than these would need as many features, nearly all of them zero.
MOST_CATEGORIES = 200

_GAP = " '\N{RIGHT SINGLE QUOTATION MARK}\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}"
_EXPONENT = r"(?:[eE][+-]?\d+)?"
#: Numbers with signs between thousands, and with a decimal comma; others are read by Python.
_SPELLINGS = {
    ".": re.compile(rf"[+-]?[1-9]\d{{0,2}}(?:[,{_GAP}]\d{{3}})+(?:\.\d*)?{_EXPONENT}"),
    ",": re.compile(rf"[+-]?(?:[1-9]\d{{0,2}}(?:[.{_GAP}]\d{{3}})+|\d*)(?:,\d*)?{_EXPONENT}"),
}
_BETWEEN_THOUSANDS = {
    decimal: str.maketrans("", "", sign + _GAP) for decimal, sign in ((".", ","), (",", "."))
}
_MONTH = r"(?:jan|feb|mar|apr|may|mai|jun|jul|aug|sep|oct|okt|nov|dec|dez)[a-zä]*\.?"
_TIME = r"\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?\s*(?:am|pm|z|[+-]\d{2}:?\d{2})?"
_DAY = "|".join(
    (
        r"\d{4}([-/.])\d{1,2}\1\d{1,2}",
        r"\d{1,2}([-/.])\d{1,2}\2\d{2,4}",
        rf"\d{{1,2}}\.?[ -]{_MONTH}[ -]\d{{2,4}}",
        rf"{_MONTH}[ -](?:\d{{1,2}}(?:st|nd|rd|th)?,? )?\d{{2,4}}",
    )
)
#: A number with a sign or a unit beside it: 12%, 3.5 mm, $4, <0.1.
MEASURE = re.compile(r"[<>~≤≥]?\s*[€$£]?\s*[+-]?\d+(?:[.,]\d+)*\s*(?:%|[a-zA-Zµ°€$£/²³]{1,5})?")
DATE = re.compile(rf"(?:{_DAY})(?:[ T]{_TIME})?|{_TIME}", re.IGNORECASE)


class Kind(Enum):
    """What a column holds; only the first two can be learned from."""

    NUMBERS = "n"
    CATEGORIES = "c"
    DATES = "dates"
    MIXED = "numbers and texts"
    SIGNS = "decimal points and commas"
    UNITS = "numbers with units"
    TOO_MANY = "too many categories"
    OTHER = "something else"


#: What to say of columns that cannot be learned from.
ADVICE = {
    Kind.DATES: "dates; make numbers of them, such as the month or the days since an event",
    Kind.MIXED: "numbers, but also texts; write NA for values that are not known",
    Kind.SIGNS: "some numbers have a decimal point and others a comma",
    Kind.UNITS: "numbers with a unit or a sign beside them; leave only the numbers",
    Kind.TOO_MANY: f"more than {MOST_CATEGORIES} different texts, too many for categories",
    Kind.OTHER: "neither numbers nor texts",
}


#: Columns of these kinds are refused without a further look.
REFUSED_AT_ONCE = (Kind.DATES, Kind.MIXED, Kind.SIGNS, Kind.UNITS, Kind.OTHER)


def is_missing(cell: str) -> bool:
    """Whether a cell has no value."""
    return cell.strip().lower() in MISSING


def number(cell: str, decimal: str = ".") -> float:
    """Return the number in a cell, NaN where it is missing.

    1_000, which Python reads as a number, is a name. ``decimal`` is the sign before the decimals.
    """
    if decimal == ".":
        try:
            if "_" not in cell:
                return float(cell)
        except ValueError:
            pass
    cell = cell.strip()
    if cell.lower() in MISSING:
        return np.nan
    spelled = _SPELLINGS[decimal].fullmatch(cell)
    if spelled is None or not any(map(str.isdigit, cell)):
        raise ValueError(cell)
    return float(cell.translate(_BETWEEN_THOUSANDS[decimal]).replace(",", "."))


def is_number(cell: str) -> bool:
    """Whether a cell with a value is a number, in any spelling; Na (sodium) may be a name."""
    return not is_missing(cell) and any(_reads(cell, decimal) for decimal in ".,")


def labels_of_texts(labels: Sequence[str], usual: Callable[[], str] = lambda: ".") -> Array:
    """Return whole numbers where all labels are, else labels as written: 007 and 7 are two classes.

    So are numbers of more than 64 bits. Numbers with decimals become floats, which `clean_labels`
    takes or refuses.
    """
    as_written = np.array(labels)
    if not all(map(is_number, labels)) or any(map(LEADING_ZERO.fullmatch, labels)):
        return as_written
    try:
        return np.array([int(label) for label in labels], dtype=np.int64)
    except OverflowError:
        return as_written
    except ValueError:
        return read_column(labels, usual).values


def _reads(cell: str, decimal: str) -> bool:
    try:
        number(cell, decimal)
    except ValueError:
        return False
    return True


def read_numbers(cells: Sequence[str], decimal: str = ".") -> NDArray[np.float64] | None:
    """Return the numbers of a column, NaN for missing ones; None if a cell is not a number."""
    try:
        return np.array([number(cell, decimal) for cell in cells], dtype=np.float64)
    except ValueError:
        return None


def read_truths(cells: Sequence[str]) -> NDArray[np.float64] | None:
    """Return 1 for true and 0 for false; None where the column holds anything else."""
    try:
        truths = (np.nan if is_missing(cell) else TRUTH[cell.strip().lower()] for cell in cells)
        return np.array(list(truths))
    except KeyError:
        return None


def read_texts(cells: Sequence[str]) -> Array:
    """Return texts as an array of objects, NaN where they are missing."""
    texts = np.empty(len(cells), dtype=object)
    texts[:] = [np.nan if is_missing(cell) else cell.strip() for cell in cells]
    return texts


@dataclass(frozen=True, eq=False)
class Column:
    """The cells of a column, read."""

    kind: Kind
    values: Array  # float64, or texts; of shape (n_rows,), NaN where they are missing
    odd: tuple[int, ...] = ()  # rows whose cells do not belong into a column of its kind
    unsure: str = ""  # the decimal sign that was taken, where 1,234 may be read in two ways
    is_as_fitted: bool = False  # whether it was taken since a model has learned such numbers

    def look(self) -> Cells:
        """Describe the values that are there, of a column that may be learned from."""
        if self.kind in REFUSED_AT_ONCE:
            return Cells.PLAIN
        there = self.values[~is_gap(self.values)]
        if not len(there):
            return Cells.EMPTY
        if self.kind is Kind.NUMBERS:
            return look_at_numbers(self.values)
        return look_at_texts(there.tolist())


def is_gap(values: Array) -> NDArray[np.bool_]:
    """Return which values (n_rows,) are missing; NaN alone is not equal to itself."""
    return np.asarray(values != values, dtype=bool)


def decimal_of(cells: Sequence[str]) -> str:
    """Return the decimal signs with which all cells of a column are numbers: ``.``, ``,`` or both.

    Cells without either sign say nothing, so that a column of them has an empty answer.
    """
    telling = _telling(cells)
    if not telling:
        return ""
    return "".join(d for d in ".," if all(_reads(cell, d) for cell in telling))


def _telling(cells: Sequence[str]) -> list[str]:
    return [cell for cell in cells if ("," in cell or "." in cell) and not is_missing(cell)]


def usual_decimal(columns: Iterable[Sequence[str]], separator: str) -> str:
    """Return the decimal sign of a file, from the columns in which there is no doubt.

    Where there is none, numbers with a comma have it before the decimals unless it separates cells.
    """
    signs = set(map(decimal_of, columns))
    if "," in signs or "." in signs:
        return "." if "." in signs else ","
    return "." if separator == "," else ",."


def read_column(
    cells: Sequence[str], usual: Callable[[], str] = lambda: ".", size: float | None = None
) -> Column:
    """Read a column whose kind is not known.

    ``usual`` returns the answer of `usual_decimal`, and ``size`` is the `size_of` the numbers that
    a model has learned from.
    """
    points = read_numbers(cells, ".")
    signs = decimal_of(cells) if points is None or not _are_plain(cells) else "."
    if points is not None and signs != ".,":
        return Column(Kind.NUMBERS, points)
    has_comma = any("," in cell for cell in cells)
    told = signs if len(signs) == 1 else usual()
    decimal = told if told != ",." else "," if has_comma else "."
    unsure = signs == ".," and (has_comma or decimal == ",")
    fitted = ""
    if signs == ".," and (has_comma or told != "."):
        fitted = _decimal_by_size(cells, size)
    if fitted:
        unsure, decimal = fitted != decimal, fitted
    numbers = points if decimal == "." and points is not None else read_numbers(cells, decimal)
    if numbers is not None:
        return Column(Kind.NUMBERS, numbers, (), decimal if unsure else "", bool(fitted))
    return _read_words(cells)


def _decimal_by_size(cells: Sequence[str], size: float | None) -> str:
    """Return the decimal sign with which cells that have two readings are of the size, or none."""
    for decimal in ".,":
        own = size_of(np.array([number(cell, decimal) for cell in _telling(cells)]))
        if size is not None and own is not None and size / NEAR < own < size * NEAR:
            return decimal
    return ""


def _are_plain(cells: Sequence[str]) -> bool:
    """Whether one of the cells, and with it the column, cannot have points between thousands."""
    return any("." in cell and not _reads(cell, ",") for cell in cells)


def _read_words(cells: Sequence[str]) -> Column:
    """Read a column that does not hold numbers alone."""
    if (truths := read_truths(cells)) is not None:
        return Column(Kind.NUMBERS, truths)
    texts = read_texts(cells)
    there = [i for i, text in enumerate(texts) if isinstance(text, str)]
    dates = [i for i in there if DATE.fullmatch(texts[i])]
    if 2 * len(dates) > len(there):
        return Column(Kind.DATES, texts, tuple(dates))
    words = [i for i in there if not is_number(texts[i])]
    if not words:
        commas = [i for i in there if decimal_of([texts[i]]) == ","]
        points = [i for i in there if decimal_of([texts[i]]) == "."]
        return Column(Kind.SIGNS, texts, tuple(points if len(points) < len(commas) else commas))
    if 2 * len(words) <= len(there):
        return Column(Kind.MIXED, texts, tuple(words))
    found = kind_of_texts(texts)
    measures = [i for i in words if MEASURE.fullmatch(texts[i])]
    if 2 * len(measures) > len(there) and found.look() is not Cells.PLAIN:
        return Column(Kind.UNITS, texts, tuple(measures))
    return found


def kind_of_texts(texts: Array) -> Column:
    """Return a column of texts: categories, unless they are too many."""
    n_different = len({text for text in texts if isinstance(text, str)})
    return Column(Kind.TOO_MANY if n_different > MOST_CATEGORIES else Kind.CATEGORIES, texts)


def read_column_as(
    kind: Kind,
    cells: Sequence[str],
    usual: Callable[[], str] = lambda: ".",
    size: float | None = None,
) -> Column:
    """Read a column as the numbers, of a size, or the categories that a model knows."""
    if kind is Kind.CATEGORIES:
        return Column(kind, read_texts(cells))
    found = read_column(cells, usual, size)
    if found.kind in (kind, Kind.SIGNS):
        return found
    words = [i for i, cell in enumerate(cells) if not is_missing(cell) and not is_number(cell)]
    return Column(Kind.MIXED, found.values, tuple(words))
