"""Pieces of HTML: text, tables, sheets of pictures, whole pages.

Everything that comes from outside is escaped here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import NamedTuple

import numpy as np

from dbdl.plotting.pictures import Sheet


def text(value: object) -> str:
    """Return a value as HTML text, also within attributes."""
    return escape(str(value), quote=True)


def percent(share: float, digits: int = 1) -> str:
    """Return a share as a percentage."""
    return f"{100 * share:.{digits}f} %"


def signed(value: float, digits: int = 3) -> str:
    """Return a number with its sign, a true minus among them; zero has none."""
    if round(value, digits) == 0:
        return f"{0:.{digits}f}"
    return f"{value:+.{digits}f}".replace("-", "−")


def json_script(name: str, value: object) -> str:
    """Return data for the page's script; no text in it can end the element."""
    content = json.dumps(value, separators=(",", ":"), allow_nan=False)
    content = content.replace("<", "\\u003c").replace("\u2028", "").replace("\u2029", "")
    return f'<script type="application/json" id="{name}">{content}</script>'


# ----------------------------------------------------------------------------------------- tables


class Cell(NamedTuple):
    """A table's cell: what is shown (HTML), and what it is sorted by."""

    html: str
    value: float | str = ""


def number_cell(value: float, form: str = ".2f") -> Cell:
    """Return a number; empty where it is not finite."""
    if not np.isfinite(value):
        return Cell("", "")
    return Cell(format(value, form).replace("-", "−"), float(value))


def table(
    caption: str, headings: Sequence[str], rows: Iterable[Sequence[Cell]], sortable: bool = True
) -> str:
    """Return a table with one heading a column; the first cell of a row heads it.

    Sortable headings become buttons once the script runs.
    """
    kind = ' class="sortable"' if sortable else ""
    rows = list(rows)
    numeric = [i > 0 and all(_is_number(row[i]) for row in rows) for i in range(len(headings))]
    head = "".join(
        f'<th scope="col"{_NUMBER * is_number}>{text(heading)}</th>'
        for heading, is_number in zip(headings, numeric, strict=True)
    )
    body = []
    for row in rows:
        first, *rest = row
        cells = f'<th scope="row" data-value="{text(first.value)}">{first.html}</th>'
        for cell in rest:
            kind_of_cell = _NUMBER * _is_number(cell)
            cells += f'<td{kind_of_cell} data-value="{text(cell.value)}">{cell.html}</td>'
        body.append(f"<tr>{cells}</tr>")
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{text(caption)}">'
        f"<table{kind}><caption>{text(caption)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
    )


_NUMBER = ' class="number"'


def _is_number(cell: Cell) -> bool:
    """Whether a cell is set as a number; an empty one goes with numbers too."""
    return not isinstance(cell.value, str) or not cell.value


def folded(summary: str, content: str) -> str:
    """Return content behind a line that opens it."""
    return f"<details><summary>{text(summary)}</summary>{content}</details>"


# ----------------------------------------------------------------------------------------- sheets


def sheet_style(name: str, uri: str, sheet: Sheet) -> str:
    """Return the CSS that gives elements of class ``name`` the sheet as background."""
    return (
        f".{name}{{background-image:url({uri});"
        f"background-size:{100 * sheet.n_columns}% {100 * sheet.n_lines}%}}"
    )


def sheet_position(sheet: Sheet, number: int) -> str:
    """Return the CSS position of one picture of a sheet; it holds at any size."""
    column, line = sheet.place(number)
    x = 100 * column / max(sheet.n_columns - 1, 1)
    y = 100 * line / max(sheet.n_lines - 1, 1)
    return f"{x:.4g}% {y:.4g}%"


# -------------------------------------------------------------------------------------- whole pages


def svg(width: int, height: int, label: str, content: str, attributes: str = "") -> str:
    """Return a drawing with a description for those who do not see it."""
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{text(label)}" '
        f"{attributes}>{content}</svg>"
    )


def head(title: str, subtitle: str, names: Mapping[str, str]) -> str:
    """Return the top of a page: title, switch of the theme, links to the sections."""
    links = "".join(f'<li><a href="#{key}">{text(name)}</a></li>' for key, name in names.items())
    return (
        '<a class="skip" href="#main">Skip to the content</a>'
        f'<header><div class="top"><div><h1>{text(title)}</h1><p class="soft">{text(subtitle)}</p>'
        '</div><button id="theme" type="button" hidden>Theme: system</button></div>'
        f'<nav aria-label="Sections"><ul>{links}</ul></nav></header>'
    )


def footer(content: str = "") -> str:
    """Return the end of a page: who wrote it, and what else there is to say."""
    import dbdl

    return (
        f'<footer class="soft">{content}<p>Written by dbdl {dbdl.__version__}. Discriminative '
        "Bayesian dictionary learning: Akhtar, Shafait and Mian, IEEE Transactions on Pattern "
        "Analysis and Machine Intelligence, 2016.</p></footer>"
    )


def asset(name: str) -> str:
    """Return the text of a file that comes with the package."""
    return (files("dbdl.report") / "assets" / name).read_text(encoding="utf-8")


def document(title: str, styles: str, body: str, scripts: str) -> str:
    """Return a whole page with our style and script in it and nothing to fetch."""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; \
style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<title>{text(title)}</title>
<link rel="icon" href="data:,">
<style>
{asset("page.css")}
{styles}
</style>
</head>
<body>
{body}
{scripts}
<script>
{asset("page.js")}
</script>
</body>
</html>
"""
