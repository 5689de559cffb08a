"""Pages from the templates of this package, in which every value is escaped."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cache
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

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


def number(value: float, form: str = "d") -> str:
    """Return a formatted number; nothing where it is not finite."""
    return minus(format(value, form)) if np.isfinite(value) else ""


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
    filters = (percent, signed, range_in_words, number)
    environment.filters.update({function.__name__: function for function in filters})
    environment.globals.update(Scale=Scale, version=dbdl.__version__)
    return environment


def render(template: str, **values: Any) -> bytes:
    """Return a page that contains everything it needs."""
    today = f"{datetime.now(UTC):%d %B %Y}"
    page = _environment().get_template(template)
    return page.render(today=today, **values).encode()
