"""Definition of a table: data set, protocol, methods with their settings, the paper's numbers.

Each table of the package has a TOML file in the folder `tables`. Users write files of their own,
which may name data files and classifiers of their own.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, Self

from dbdl.coding import Coder
from dbdl.datasets import sources
from dbdl.datasets.catalogue import SCIKIT_LEARN
from dbdl.experiments.protocol import Protocol
from dbdl.own_methods import import_method
from dbdl.registry import methods

#: How settings were found, for the reader of a table: with `nothing_chosen`, or without.
NOTHING_CHOSEN = (
    "Nothing was searched (--quick): every method has fixed settings, and so has DBDL, which codes "
    "new rows by the lasso's path up to 14 non-zeros. It fits the weights of its chains on "
    "rows that they leave out, as always. Without --quick the settings of every method are chosen "
    "on training rows."
)
CHOSEN = (
    "Settings that are not given were chosen on training rows. Grids (dbdl methods) are searched "
    "by cross-validation, and fit s leaves that out. DBDL and random rows choose their "
    "coders inside fit, on held-out training rows, and fit s counts that."
)

_TABLES = files("dbdl.experiments") / "tables"


class SpecError(ValueError):
    """A table's file says something that cannot be run."""


@dataclass(frozen=True)
class Entry:
    """One method of a table, with the numbers that the paper prints."""

    method: str  #: Its name in `dbdl.methods`.
    #: Given by the paper; the others are chosen on training rows from the method's grid.
    settings: Mapping[str, Any] = field(default_factory=dict)
    accuracy: tuple[float, ...] = ()  #: In %, one for each column of the table, or none.
    spread: tuple[float, ...] = ()  #: Standard deviations of these.
    milliseconds: float | None = None  #: Time for one query.
    fit_seconds: float | None = None  #: Time for learning.


@dataclass(frozen=True)
class Table:
    """A table of methods on one data set."""

    name: str
    title: str
    dataset: str  #: A name or a file that `dbdl.datasets.load` knows.
    columns: Mapping[str, Protocol]  #: How rows are split, by the label of the column.
    entries: tuple[Entry, ...]
    note: str = ""  #: For the reader who compares.
    #: Whether every method is given rows of unit norm, as in the paper. If not, rows are left as
    #: they are, and each method scales them itself.
    unit_rows: bool = False
    label: str | None = None  #: Column of the labels, in a file of the user's own.

    @classmethod
    def from_toml(cls, text: str, source: str) -> Self:
        """Read a table; with ``others = true`` all methods that it does not name come last.

        Methods that run only where a table names them stay out. A method that is the user's own has
        an ``estimator``, such as ``my_methods:NearestMean``. Name and title are by default those of
        the file. Every mistake is named with its source.
        """
        try:
            given = tomllib.loads(text)
            given.setdefault("name", Path(source).stem)
            given.setdefault("title", given["name"])
            _check_complete(given)
            known = {f.name for f in fields(cls)} - {"entries"}
            _check_keys(given, known | {"methods", "others"})
            entries = [_entry(value) for value in given.pop("methods")]
            if given.pop("others", False):
                named = {entry.method for entry in entries}
                unnamed = [m for m in methods().values() if m.name not in named]
                entries += [Entry(m.name) for m in unnamed if not m.only_where_named]
            given["columns"] = {name: _column(name, way) for name, way in given["columns"].items()}
            _check_printed(entries, len(given["columns"]))
            return cls(**given, entries=tuple(entries))
        except (tomllib.TOMLDecodeError, KeyError, TypeError, ValueError) as error:
            raise SpecError(f"{source}: {error}") from error


def _check_complete(given: Mapping[str, Any]) -> None:
    kinds = {"name": str, "title": str, "dataset": str, "columns": dict, "methods": list}
    for key, kind in kinds.items():
        if not given.get(key):
            raise ValueError(f"there is no {key!r}, which a table needs; {_SHAPE}")
        if not isinstance(given[key], kind):
            raise ValueError(f"{key!r} is {given[key]!r}; {_SHAPE}")


_SHAPE = (
    'expected dataset = "my.csv", a table such as [columns."half of each class"] with '
    "per_class = 0.5, and one [[methods]] or more"
)


def _entry(given: dict[str, Any]) -> Entry:
    known = {f.name for f in fields(Entry)}
    _check_keys(given, known | {"estimator"})
    if (address := given.pop("estimator", None)) is not None:
        given["method"] = import_method(address, given.get("method")).name
    if "method" not in given:
        raise ValueError("one of the methods has neither a 'method' nor an 'estimator'")
    if given["method"] not in methods():
        raise ValueError(f"unknown method {given['method']!r}; there are {', '.join(methods())}")
    printed = {name: tuple(given.get(name, ())) for name in ("accuracy", "spread")}
    return Entry(**{**given, **printed})


def _column(name: str, given: Any) -> Protocol:
    if not isinstance(given, dict):
        raise ValueError(f"column {name!r} is {given!r}; {_SHAPE}")
    try:
        _check_keys(given, {f.name for f in fields(Protocol)})
        return Protocol(**given)
    except ValueError as error:
        raise ValueError(f"column {name!r}: {error}") from error


def _check_printed(entries: Sequence[Entry], n_columns: int) -> None:
    for entry in entries:
        for name in ("accuracy", "spread"):
            if (n := len(getattr(entry, name))) not in (0, n_columns):
                raise ValueError(
                    f"{name} of {entry.method!r} has {n} numbers, but the table has {n_columns} "
                    f"column{'s' * (n_columns > 1)}; expected one for each, or none"
                )


def _check_keys(given: Mapping[str, Any], known: set[str]) -> None:
    if unknown := set(given) - known:
        raise ValueError(f"unknown keys {sorted(unknown)}; there are {sorted(known)}")


def table_names() -> list[str]:
    """Return the names of the tables that come with the package."""
    names = (file.name for file in _TABLES.iterdir())
    return sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml"))


def load_table(name: str) -> Table:
    """Return a table that comes with the package, or one of the user's own from a TOML file."""
    if name in table_names():
        text = (_TABLES / f"{name}.toml").read_text(encoding="utf-8")
        return Table.from_toml(text, f"{name}.toml")
    if not name.endswith(".toml"):
        raise SpecError(
            f"unknown table {name!r}; there are {', '.join(table_names())}. A table of your own is "
            "a file that ends in .toml."
        )
    return _own_table(Path(name))


def _own_table(path: Path) -> Table:
    """Return a table whose data file is beside it, unless the path of that file is absolute."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise SpecError(f"there is no file {path}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"{path} cannot be read: {error}") from error
    table = Table.from_toml(text, str(path))
    if table.dataset in SCIKIT_LEARN or table.dataset in sources():
        return table
    return replace(table, dataset=str(path.parent / Path(table.dataset).expanduser()))


def nothing_chosen(table: Table) -> Table:
    """Return the table with a fixed value for each setting that a method would choose in `fit`.

    Settings that it gives stay; a number of non-zeros is given to the fixed coder.
    """

    def fixed(entry: Entry) -> Entry:
        settings = {**methods()[entry.method].fixed, **entry.settings}
        if isinstance(settings.get("coder"), Coder) and "n_nonzero" in settings:
            settings["coder"] = replace(settings["coder"], n_nonzero=settings.pop("n_nonzero"))
        return replace(entry, settings=settings)

    return replace(table, entries=tuple(map(fixed, table.entries)))


def with_search_note(table: Table, quick: bool) -> Table:
    """Return the table with a note that says how settings were found."""
    notes = (table.note.strip(), NOTHING_CHOSEN if quick else CHOSEN)
    return replace(table, note=" ".join(filter(None, notes)))
