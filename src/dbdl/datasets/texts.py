"""From the bytes of a table of text, or of a spreadsheet, to its cells with their line numbers.

Encodings, separators and headers are found from the content: nobody who exports a table knows them.
"""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import re
import sys
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbdl._columns import is_unnamed
from dbdl._files import DataError, reading
from dbdl._warnings import warn_caller
from dbdl.datasets.cells import is_missing, is_number, read_numbers
from dbdl.datasets.dataset import needing

#: Separators; where several cut all lines into equally many cells, the first is the one.
DELIMITERS = "\t;,"
#: The path that stands for standard input.
STDIN = "-"
#: A row of fewer numbers may rise or fall from cell to cell by chance; of six, one row in 360 does.
FEWEST_NAMES = 6
#: Lines that show the separator.
HEAD = 50
_GZIP, _ZIP, _PARQUET = b"\x1f\x8b", b"PK\x03\x04", b"PAR1"
#: A first line by which Excel is told the separator.
_SEPARATOR_LINE = re.compile(r"sep=(.)\r?\n", re.IGNORECASE)

#: Number of a line and its cells.
Line = tuple[int, list[str]]


def content_of(path: Path) -> bytes:
    """Return the bytes of a file, or of standard input for the path ``-``."""
    return sys.stdin.buffer.read() if str(path) == STDIN else path.read_bytes()


def ending_of_content(content: bytes) -> str:
    """Return the ending that a file with this content has; a text that is separated is .csv."""
    if content.startswith(_GZIP):
        return ".csv.gz"
    if content.startswith(_ZIP):
        return ".xlsx"
    return ".parquet" if content.startswith(_PARQUET) else ".csv"


def lines_of_text(path: Path, content: bytes) -> tuple[list[Line], str]:
    """Return the cells of each line that is not empty, and the separator between cells."""
    if content.startswith(_GZIP):
        with reading(path, "compressed table"):
            content = gzip.decompress(content)
    text = _decoded(path, content)
    named = _SEPARATOR_LINE.match(text)
    delimiter, first = (_delimiter(text), 0) if named is None else (named[1], 1)
    body = text if named is None else text[named.end() :]
    reader = csv.reader(io.StringIO(body, newline=""), delimiter=delimiter)
    try:
        # a quoted cell may have several lines: a row goes by the first of them
        starts = itertools.chain([0], (reader.line_num for _ in itertools.count()))
        rows = [
            (start + first + 1, cells)
            for start, cells in zip(starts, reader, strict=False)
            if any(map(str.strip, cells))
        ]
    except csv.Error as error:
        raise DataError(f"{path} is not a table of text ({error})") from error
    if not rows:
        raise DataError(f"{path} is empty; expected one row per sample")
    return rows, delimiter


def _decoded(path: Path, content: bytes) -> str:
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        encodings = ["utf-16"]
    else:
        encodings = ["utf-8-sig", "cp1252", "latin-1"]
    for encoding in encodings:
        try:
            text = content.decode(encoding)
        except UnicodeDecodeError:
            continue
        if "\0" in text:
            break
        if encoding in ("cp1252", "latin-1"):
            warn_caller(f"{path} is not a text in UTF-8; it was read as Latin-1")
        return text
    raise DataError(f"{path} is not a table of text; save it as .csv in UTF-8")


def _delimiter(text: str) -> str:
    """Return the separator that cuts the first lines into equally many cells."""
    head = list(itertools.islice(io.StringIO(text, newline=""), HEAD))

    def widths(delimiter: str) -> Counter[int]:
        try:
            rows = [row for row in csv.reader(head, delimiter=delimiter) if any(row)]
        except csv.Error:
            return Counter()
        return Counter(map(len, rows[:-1] or rows))  # the last may be cut off inside quotes

    found = {delimiter: widths(delimiter) for delimiter in DELIMITERS}
    for delimiter, counts in found.items():
        if len(counts) == 1 and max(counts) > 1:
            return delimiter
    first = next((line for line in head if line.strip()), "")
    return max(reversed(DELIMITERS), key=first.count)


def lines_of_workbook(path: Path, content: bytes) -> tuple[list[Line], str]:
    """Return the cells of the first sheet of a workbook as texts; they have no separator."""
    with needing("openpyxl", f"{path} is a workbook", "save the sheet as .csv"):
        import openpyxl
    with reading(path, "workbook (.xlsx)"):
        book = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True)
        names = book.sheetnames
        sheet = book.worksheets[0]
        rows = [
            (line, list(map(_as_text, cells)))
            for line, cells in enumerate(sheet.iter_rows(values_only=True), start=1)
        ]
    if len(names) > 1:
        warn_caller(f"{path} has {len(names)} sheets; the first, {names[0]!r}, was read")
    rows = [(line, cells) for line, cells in rows if any(cells)]
    if not rows:
        raise DataError(f"{path}: the first sheet is empty; expected one row per sample")
    width = max(len(cells) for _, cells in rows)
    return [(line, cells + [""] * (width - len(cells))) for line, cells in rows], ","


def _as_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime | date | time):
        return value.isoformat(" ") if isinstance(value, datetime) else value.isoformat()
    return str(value)


def split_header(
    path: Path, lines: list[Line], are_known: Callable[[Collection[str]], bool]
) -> tuple[list[str] | None, list[Line]]:
    """Return the names in the first line, where it is a header, and the lines of rows.

    ``are_known`` says whether cells are names of columns that are asked for. Columns without a name
    and without values, as spreadsheets leave behind, are taken out.
    """
    n_columns = len(lines[0][1])
    if ragged := [(n, len(cells)) for n, cells in lines if len(cells) != n_columns]:
        more = f", and {len(ragged)} lines differ from it" if len(ragged) > 1 else ""
        raise DataError(
            f"{path}, line {ragged[0][0]}: {ragged[0][1]} cells, but the first line has "
            f"{n_columns}{more}; put cells that hold the separator in quotes"
        )
    first = [cell.strip() for cell in lines[0][1]]
    is_header = are_known(first) or _is_header([cells for _, cells in lines])
    is_header = is_header or _is_header_of_numbers(path, lines)
    names = first if is_header else None
    body = lines if names is None else lines[1:]
    if not body:
        raise DataError(f"{path} has a header, but no rows")
    if names is not None and not all(names):
        kept = [j for j, name in enumerate(names) if name or any(row[j].strip() for _, row in body)]
        names = [names[j] for j in kept]
        body = [(n, [cells[j] for j in kept]) for n, cells in body]
    return names, body


def _is_header(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first line names the columns."""
    names = [cell.strip() for cell in rows[0]]
    inner = names[:-1] or names
    measured = is_number(names[-1]) and not names[-1].isdigit()  # no name of a column
    words = not measured and not any(is_number(name) for name in inner)
    named = list(itertools.dropwhile(is_unnamed, inner))
    counts = len(named) > 1 and named == [str(j) for j in range(len(named))]
    lasts = [cells[-1] for cells in rows]
    named_last = _is_ordered(named) and lasts.count(lasts[0]) == 1 and _recur(lasts[1:])
    return words or counts or _is_only_word(lasts) or named_last or _are_mostly_words(rows)


def _is_header_of_numbers(path: Path, lines: list[Line]) -> bool:
    """Whether the numbers of the first line can only be names, as wavelengths are; said either way.

    They rise or fall from cell to cell, as those of no other line do, and none of them lies in the
    range of the numbers below. If only the first is true, a warning asks.
    """
    rows = [cells for _, cells in lines]
    places = [j for j, cell in enumerate(rows[0]) if is_number(cell)]
    labelled = places[:-1] if places and places[-1] == len(rows[0]) - 1 else []
    for chosen in (places, labelled):
        if len(chosen) < FEWEST_NAMES or len(rows) < 2:
            continue
        numbers = _numbers_below_ordered([[cells[j] for j in chosen] for cells in rows])
        if numbers is None or _are_ordered(numbers[1:]).any():
            continue
        names, below = numbers[0], numbers[1:][np.isfinite(numbers[1:])]
        is_apart = (
            (names < below.min(initial=np.inf)) | (names > below.max(initial=-np.inf))
        ).all()
        line, shown = lines[0][0], ", ".join(rows[0][j].strip() for j in chosen[:2])
        if is_apart and len(below):
            warn_caller(
                f"{path}: line {line} ({shown}, ...) was taken for the header, since its numbers "
                "are in order and lie outside of those below; if it is a row, write a line of "
                "names above it"
            )
            return True
        warn_caller(
            f"{path}: no header was found, so line {line} ({shown}, ...) was read as a row; if "
            "its numbers name the columns, write a letter before each"
        )
        return False
    return False


def _numbers_below_ordered(rows: Sequence[Sequence[str]]) -> NDArray[np.float64] | None:
    """Return cells as numbers with decimal points, or else commas, if the first line is in order.

    None if it is not, or a cell is not a number.
    """
    for decimal in ".,":
        first = read_numbers(rows[0], decimal)
        if first is None or not _are_ordered(first):
            continue
        others = [read_numbers(cells, decimal) for cells in rows]
        if all(numbers is not None for numbers in others):
            return np.array(others)
    return None


def _are_ordered(numbers: NDArray[np.float64]) -> Any:
    """Whether numbers rise or fall along the last axis."""
    directions = np.sign(np.diff(numbers))
    return np.abs(directions.sum(axis=-1)) == numbers.shape[-1] - 1


def _is_only_word(cells: Sequence[str]) -> bool:
    """Whether the first cell of a column is a word, and all others are numbers or missing."""
    others = [cell for cell in cells[1:] if not is_missing(cell)]
    return not is_number(cells[0]) and bool(others) and all(map(is_number, others))


def _are_mostly_words(rows: Sequence[Sequence[str]]) -> bool:
    """Whether most cells of the first line are words, one of them above nothing but numbers."""
    words = [j for j, c in enumerate(rows[0]) if not is_missing(c) and not is_number(c)]
    mostly = 2 * len(words) > len(rows[0]) and len(rows) > 2
    return mostly and any(_is_only_word([cells[j] for cells in rows]) for j in words)


def _is_ordered(cells: Sequence[str]) -> bool:
    """Whether cells are numbers that rise, or fall, as wavelengths do that name columns."""
    try:
        values = np.array([float(cell) for cell in cells])
    except ValueError:
        return False
    return len(cells) > 1 and bool(_are_ordered(values))


def _recur(labels: Sequence[str]) -> bool:
    """Whether every label occurs more than once, and all are words."""
    counts = Counter(labels)
    return bool(counts) and min(counts.values()) > 1 and not any(map(is_number, counts))
