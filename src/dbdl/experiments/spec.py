"""What a table is: data set, protocol, methods with their settings, and the paper's numbers.

One TOML file for each table, in the folder `tables`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Set
from dataclasses import dataclass, field, fields, replace
from importlib.resources import files
from typing import Any, Self

from dbdl.experiments.protocol import Protocol
from dbdl.registry import methods


class SpecError(ValueError):
    """A table's file says something that cannot be run."""


@dataclass(frozen=True)
class Entry:
    """One method of a table.

    Attributes
    ----------
    method : str
        Its name in `dbdl.methods`.
    settings : mapping
        Given by the paper; what is not given is chosen on training rows from the method's grid.
    accuracy, spread : tuple of float
        Printed in the paper, in %, one for each column of the table; empty where it has none.
    milliseconds, fit_seconds : float, optional
        Time for one query and for learning, printed in the paper.
    """

    method: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    accuracy: tuple[float, ...] = ()
    spread: tuple[float, ...] = ()
    milliseconds: float | None = None
    fit_seconds: float | None = None


@dataclass(frozen=True)
class Table:
    """A table of methods on one data set.

    Attributes
    ----------
    name, title : str
    dataset : str
        A name or a file that `dbdl.datasets.load` knows.
    columns : mapping of str to Protocol
        How rows are split, by the label of the column.
    entries : tuple of Entry
        Those that the file names, and with ``others = true`` all other methods after them.
    note : str
        What a reader must know to compare.
    unit_rows : bool
        Whether every method is given rows of unit norm, as in the paper. If not, rows are left as
        they are, and each dictionary method scales them itself.
    """

    name: str
    title: str
    dataset: str
    columns: Mapping[str, Protocol]
    entries: tuple[Entry, ...]
    note: str = ""
    unit_rows: bool = False

    @classmethod
    def from_toml(cls, text: str, source: str) -> Self:
        """Read a table; every mistake is named with its source."""
        try:
            raw = tomllib.loads(text)
            _check_keys(raw, _KEYS)
            entries = tuple(_entry(value) for value in raw["methods"])
            if raw.get("others", False):
                named = {entry.method for entry in entries}
                entries += tuple(Entry(name) for name in methods() if name not in named)
            return cls(
                name=raw["name"],
                title=raw["title"],
                dataset=raw["dataset"],
                columns={label: Protocol(**value) for label, value in raw["columns"].items()},
                entries=entries,
                note=raw.get("note", ""),
                unit_rows=raw.get("unit_rows", False),
            )
        except (tomllib.TOMLDecodeError, KeyError, TypeError, ValueError) as error:
            raise SpecError(f"{source}: {type(error).__name__}: {error}") from error


#: How settings were found, for the reader of a table: with `nothing_chosen`, or without.
NOTHING_CHOSEN = (
    "Nothing was searched (--quick): every method has fixed settings, and so has DBDL, which codes "
    "new rows with at most 10 non-zeros by forward selection. Without --quick the settings of "
    "every method are chosen on training rows."
)
CHOSEN = (
    "Settings that are not given were chosen on training rows. Grids (dbdl methods) are searched "
    "by cross-validation, and fit s leaves that out. DBDL and random rows choose their coder "
    "inside fit, on held-out training rows, and fit s counts that."
)


def nothing_chosen(table: Table, n_features: int) -> Table:
    """Return the table with a fixed value for all that a method would choose inside `fit`.

    Parameters
    ----------
    table : Table
        Settings that it gives stay.
    n_features : int
        Of the rows; a code has no more non-zeros.
    """
    return replace(table, entries=tuple(_fixed(entry, n_features) for entry in table.entries))


def _fixed(entry: Entry, n_features: int) -> Entry:
    fixed = dict(methods()[entry.method].fixed)
    if "n_nonzero" in fixed:
        fixed["n_nonzero"] = min(fixed["n_nonzero"], n_features)
    return replace(entry, settings={**fixed, **entry.settings})


def with_search_note(table: Table, quick: bool) -> Table:
    """Return the table with a note that says how settings were found."""
    notes = (table.note.strip(), NOTHING_CHOSEN if quick else CHOSEN)
    return replace(table, note=" ".join(filter(None, notes)))


_KEYS = {"methods", "others", *(f.name for f in fields(Table))} - {"entries"}


def _entry(raw: dict[str, Any]) -> Entry:
    _check_keys(raw, {f.name for f in fields(Entry)})
    if raw["method"] not in methods():
        raise ValueError(f"unknown method {raw['method']!r}; there are {', '.join(methods())}")
    for name in ("accuracy", "spread"):
        raw[name] = tuple(raw.get(name, ()))
    return Entry(**raw)


def _check_keys(raw: Mapping[str, Any], known: Set[str]) -> None:
    if unknown := set(raw) - known:
        raise ValueError(f"unknown keys {sorted(unknown)}; there are {sorted(known)}")


def table_names() -> list[str]:
    """Return the names of the tables that come with the package."""
    folder = files("dbdl.experiments") / "tables"
    return sorted(p.name.removesuffix(".toml") for p in folder.iterdir() if p.name[-5:] == ".toml")


def load_table(name: str) -> Table:
    """Return a table that comes with the package."""
    if name not in table_names():
        raise SpecError(f"unknown table {name!r}; there are {', '.join(table_names())}")
    file = files("dbdl.experiments") / "tables" / f"{name}.toml"
    return Table.from_toml(file.read_text(encoding="utf-8"), f"{name}.toml")
