"""Pages from the templates of this package, in which every value is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import dbdl
from dbdl.report.charts import Scale, minus


def percent(share: float, digits: int = 1) -> str:
    """Return a share as a percentage."""
    return f"{100 * share:.{digits}f} %"


def signed(value: float, digits: int = 3) -> str:
    """Return a number with its sign; zero has none."""
    return minus(f"{value:+.{digits}f}") if round(value, digits) else f"{0:.{digits}f}"


def range_in_words(numbers: Iterable[float], to: str = " to ") -> str:
    """Return the least and the largest number, or the one that all are."""
    numbers = list(numbers)
    return to.join(f"{number:g}" for number in sorted({min(numbers), max(numbers)}))


def marked(element: str, text: object) -> Markup:
    """Return text, escaped, within an HTML element such as ``b``."""
    return Markup(f"<{element}>{{}}</{element}>").format(text)


class Cell(NamedTuple):
    """A table's cell: its text, and the value that the column is sorted by."""

    text: str
    value: float | str = ""

    @property
    def is_number(self) -> bool:
        """Whether the cell is set as a number, as empty cells are too."""
        return not isinstance(self.value, str) or not self.value


def number_cell(value: float, form: str = "d") -> Cell:
    """Return a number; an empty cell where it is not finite."""
    return Cell(minus(format(value, form)), float(value)) if np.isfinite(value) else Cell("")


class Table(NamedTuple):
    """A table that the page's script sorts by any column; each row starts with its heading."""

    caption: str
    headings: Sequence[str]
    rows: Sequence[Sequence[Cell]]

    @property
    def numeric(self) -> list[bool]:
        """Whether each column contains numbers alone."""
        columns = range(len(self.headings))
        return [i > 0 and all(row[i].is_number for row in self.rows) for i in columns]


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("dbdl.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    environment.filters.update(percent=percent, signed=signed, range=range_in_words)
    environment.globals.update(Scale=Scale, version=dbdl.__version__)
    return environment


def render(template: str, **values: Any) -> bytes:
    """Return a page that contains everything it needs."""
    today = f"{datetime.now(UTC):%d %B %Y}"
    page = _environment().get_template(template)
    return page.render(today=today, **values).encode()
