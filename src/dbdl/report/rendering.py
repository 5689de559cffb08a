"""Pages from the templates of this package, in which every value is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import dbdl
from dbdl.report.charts import minus, tick_label


def percent(share: float, digits: int = 1) -> str:
    """Return a share as a percentage."""
    return f"{100 * share:.{digits}f} %"


def signed(value: float, digits: int = 3) -> str:
    """Return a number with its sign; zero has none."""
    return minus(f"{value:+.{digits}f}") if round(value, digits) else f"{0:.{digits}f}"


def marked(element: str, text: object) -> Markup:
    """Return text, escaped, within an HTML element such as ``b``."""
    return Markup(f"<{element}>{{}}</{element}>").format(text)


class Cell(NamedTuple):
    """A table's cell.

    Attributes
    ----------
    text : str
    value : float or str
        The column is sorted by it.
    picture : str
        Position on the sheet of samples of a picture that stands before the text, if any.
    bar : float, optional
        Length of a bar before the text: from -1 (to the left) to 1.
    """

    text: str
    value: float | str = ""
    picture: str = ""
    bar: float | None = None

    @property
    def is_number(self) -> bool:
        """Whether the cell is set as a number, as empty cells are too."""
        return not isinstance(self.value, str) or not self.value


def number_cell(value: float, form: str = "d") -> Cell:
    """Return a number; an empty cell where it is not finite."""
    return Cell(minus(format(value, form)), float(value)) if np.isfinite(value) else Cell("")


class Table(NamedTuple):
    """A table whose rows start with their heading.

    The page's script turns the headings of columns into buttons that sort.
    """

    caption: str
    headings: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    is_sortable: bool = True

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
    environment.filters.update(percent=percent, signed=signed, tick=tick_label)
    return environment


def render(template: str, **values: Any) -> bytes:
    """Return a page that contains everything it needs."""
    today = f"{datetime.now(UTC):%d %B %Y}"
    page = _environment().get_template(template)
    return page.render(version=dbdl.__version__, today=today, **values).encode()
