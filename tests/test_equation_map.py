"""The map from the paper's equations to the code is true."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "equations.md"
ROWS = re.findall(r"^\| ([\d, ]+|[\d.]+) \| [^|]+ \| (.+) \|$", PAGE.read_text(), re.MULTILINE)
NAMES = sorted({name for _, cell in ROWS for name in re.findall(r"`(dbdl\.[\w.]+)`", cell)})


def find(name):
    """The object of a dotted name: the longest importable module, then attributes."""
    parts = name.split(".")
    for n in range(len(parts), 0, -1):
        try:
            found = import_module(".".join(parts[:n]))
        except ModuleNotFoundError:
            continue
        for part in parts[n:]:
            found = getattr(found, part)
        return found
    raise AssertionError(name)


@pytest.mark.parametrize("name", NAMES)
def test_every_name_on_the_map_exists(name):
    assert find(name).__doc__


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (number, name)
        for numbers, cell in ROWS
        for number in re.findall(r"\d+", numbers)
        for name in re.findall(r"`(dbdl\.model\.conditionals\.\w+)`", cell)
    ],
)
def test_each_conditional_names_its_equation(number, name):
    assert re.search(rf"eqs?\. (\d+ and )?{number}\b", find(name).__doc__)
