"""The public names of the package, and the page of the site that lists them.

A name is public if the ``__all__`` of a room has it, or if it is the class of a rival. A new room,
a new name and a new rival are listed without any change here.
"""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

import dbdl
from dbdl.registry import PACKAGED

#: Rooms in the order of the page, with the words before their tables. The others follow.
ROOMS = {
    "dbdl": "Estimators, their settings, and the table of all methods.",
    "dbdl.coding": "How a row becomes a sparse code over given atoms. Coders are the objects that "
    "the parameter `coder` takes; the functions do the same for arrays.",
    "dbdl.views": "Maps through which chains see the rows (:doc:`/design`).",
    "dbdl.persistence": "Models in files, without pickle.",
    "dbdl.datasets": "Data sets known by name, and your own files (:doc:`/data`).",
    "dbdl.maps": "Cubes of spectra, and class maps of them (:doc:`/maps`).",
    "dbdl.features": "Features of images (:doc:`/data`).",
    "dbdl.plotting": "Displays as in scikit-learn: computed by `from_estimator`, drawn by `plot`.",
    "dbdl.report": "Pages of HTML about a model and about results.",
    "dbdl.rows": "Rows that are read in parts (:doc:`/scale`).",
    "dbdl.backends": "Where the sweeps run. For developers (:doc:`/contributing`).",
}
#: Modules whose public names are those that they define: they are no packages.
WITHOUT_LIST = ("dbdl.persistence",)
#: Rooms that are not for import: the command line has its own page.
LEFT_OUT = ("dbdl.cli",)


@dataclass(frozen=True)
class Name:
    """A public name: where it is imported from, and its object."""

    room: str
    name: str
    value: Any

    @property
    def path(self) -> str:
        """Full name, as in an import."""
        return f"{self.room}.{self.name}"

    @property
    def has_page(self) -> bool:
        """Whether it is a class or a function; constants and types are listed with their room."""
        return inspect.isclass(self.value) or inspect.isroutine(self.value)

    @property
    def example_is_due(self) -> bool:
        """Whether its docstring should have an example: it can be called as it is."""
        abstract = inspect.isabstract(self.value) or getattr(self.value, "_is_protocol", False)
        return self.has_page and not abstract

    @property
    def summary(self) -> str:
        """First line of its docstring."""
        return (inspect.getdoc(self.value) or "").partition("\n")[0]


def rooms() -> list[str]:
    """Return the public rooms: those of the table, then any other with a list of names."""
    found = [
        f"dbdl.{module.name}"
        for module in pkgutil.iter_modules(dbdl.__path__)
        if not module.name.startswith("_") and module.name != "registry"
    ]
    others = [
        room for room in found if room not in (*ROOMS, *LEFT_OUT) and _has_list(import_module(room))
    ]
    return [*ROOMS, *others]


def _has_list(module: ModuleType) -> bool:
    return hasattr(module, "__all__")


def names_of(room: str) -> list[Name]:
    """Return the public names of a room."""
    module = import_module(room)
    if room in WITHOUT_LIST:
        names = [
            name
            for name, value in vars(module).items()
            if not name.startswith("_") and getattr(value, "__module__", None) == room
        ]
    else:
        names = list(module.__all__)
    return [Name(room, name, getattr(module, name)) for name in names]


def rivals() -> list[Name]:
    """Return the classifiers of `dbdl.rivals` that the table of methods names."""
    kinds = {type(method()) for method in PACKAGED}
    own = [kind for kind in kinds if kind.__module__.startswith("dbdl.rivals.")]
    names = [Name(kind.__module__, kind.__name__, kind) for kind in own]
    return sorted((n for n in names if "._" not in n.path), key=lambda name: name.path)


def public_names() -> list[Name]:
    """Return every public name once: under the first room that has it."""
    seen: set[int] = set()
    unique = []
    for name in [*(name for room in rooms() for name in names_of(room)), *rivals()]:
        if not name.has_page or id(name.value) not in seen:
            unique.append(name)
            seen.add(id(name.value))
    return unique


def reference_page() -> str:
    """Return the page, in reStructuredText, with a table per room."""
    names = public_names()
    lines = [
        *_heading("API reference", "="),
        "Every public name, by the module that it is imported from.",
        "",
    ]
    for room in rooms():
        own = [name for name in names if name.room == room]
        words = ROOMS.get(room) or (import_module(room).__doc__ or "").partition("\n")[0]
        lines += [*_heading(room, "-"), words, "", *_table(own)]
    lines += [
        *_heading("dbdl.rivals", "-"),
        "The methods that DBDL is compared with (:doc:`/methods`).",
        "",
    ]
    lines += _table([name for name in names if name.room.startswith("dbdl.rivals.")])
    return "\n".join(lines)


def _heading(text: str, line: str) -> list[str]:
    return [text, line * len(text), ""]


def _table(names: list[Name]) -> Iterator[str]:
    pages = [name for name in names if name.has_page]
    if pages:
        yield from (".. autosummary::", "   :toctree: .", "   :nosignatures:", "")
        yield from (f"   {name.path}" for name in pages)
        yield ""
    for name in names:
        if not name.has_page:
            yield from (f".. autodata:: {name.path}", "")
