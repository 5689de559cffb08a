"""Parameters of estimators: each is declared once, with its constraint and its default.

A class declares a parameter by an annotation and a default, as a dataclass does::

    class CRCClassifier(Declared, BaseEstimator):
        penalty: PositiveWeight = 0.001

`Declared` makes the rest from that: the explicit ``__init__`` that scikit-learn asks for, the table
of constraints, and those entries of the docstring that a base class has written already.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from dataclasses import Field, field, make_dataclass
from typing import (
    Annotated,
    Any,
    ClassVar,
    TypeVar,
    dataclass_transform,
    get_type_hints,
)

import numpy as np

from dbdl.model.settings import AnyCount as AnyCount
from dbdl.model.settings import AnyWeight as AnyWeight
from dbdl.model.settings import PositiveCount as PositiveCount
from dbdl.model.settings import PositiveWeight as PositiveWeight
from dbdl.model.settings import constraints

T = TypeVar("T")

Seed = Annotated[int | np.random.RandomState | None, "random_state"]


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
class Declared:
    """Base of estimators whose parameters are annotations.

    Names that begin or end with an underscore are not parameters: ``atoms_: Atoms =
    field(init=False)`` declares an attribute that `fit` sets. Parameters are given by name;
    ``field(default=..., kw_only=False)`` declares one that may be given without.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]]
    #: Parameters that a class declares itself, and the entries of its own docstring by section.
    _own_parameters: ClassVar[dict[str, Field[Any]]] = {}
    _own_entries: ClassVar[dict[str, dict[str, str]]] = {}

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        names = [name for name in inspect.get_annotations(cls) if name.strip("_") == name]
        cls._own_parameters = {name: _as_field(vars(cls)[name]) for name in names}
        for name, value in list(vars(cls).items()):  # none may look as if it hid a class attribute
            if name in names or isinstance(value, Field):
                delattr(cls, name)
        bases = [base for base in cls.__mro__ if issubclass(base, Declared)]
        parameters = _merged(base._own_parameters for base in bases)
        parameters = dict(sorted(parameters.items(), key=lambda item: item[1].kw_only is True))
        plain, exact = get_type_hints(cls), get_type_hints(cls, include_extras=True)
        cls._parameter_constraints = {name: constraints(exact[name]) for name in parameters}
        parts = [(name, plain[name], value) for name, value in parameters.items()]
        cls.__init__ = make_dataclass(cls.__name__, parts).__init__  # type: ignore[method-assign, misc]
        if cls.__doc__:
            cls.__doc__ = _with_inherited_entries(cls, bases, parameters)


def _merged(parts: Iterable[dict[str, T]]) -> dict[str, T]:
    """Join dictionaries; of equal names the first wins."""
    found: dict[str, T] = {}
    for part in parts:
        found |= {name: value for name, value in part.items() if name not in found}
    return found


def _as_field(default: Any) -> Field[Any]:
    return default if isinstance(default, Field) else field(default=default, kw_only=True)


# ------------------------------------------------------------------------------------ docstrings


def _with_inherited_entries(
    cls: type[Declared], bases: list[type[Declared]], parameters: dict[str, Field[Any]]
) -> str:
    """Docstring in which parameters and attributes have the text that a base class gave them."""
    parts = re.split(r"^(\w[\w ]*)\n-{3,}\n", inspect.cleandoc(cls.__doc__ or ""), flags=re.M)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    cls._own_entries = {title: _entries(text) for title, text in sections.items()}
    text, attributes = (
        _merged(base._own_entries.get(title, {}) for base in bases)
        for title in ("Parameters", "Attributes")
    )
    known = [name for name in parameters if name in text]
    first = {
        "Parameters": "".join(_entry(text[name], parameters[name].default) for name in known),
        "Attributes": "".join(attributes.values()),
    }
    written = {title: f"{entries}\n" for title, entries in first.items() if entries}
    for title, section in {**written, **sections, **written}.items():
        parts[0] += f"{title}\n{'-' * len(title)}\n{section}"
    return parts[0].rstrip() + "\n"


def _entries(section: str) -> dict[str, str]:
    """Entries of a section by the names that they begin with."""
    entries = re.split(r"^(?=\S)", section.rstrip() + "\n", flags=re.M)
    return {entry.partition(" :")[0]: entry for entry in entries if entry.strip()}


def _entry(entry: str, default: Any) -> str:
    """Entry of a parameter with the default that it has in a class."""
    words = f'"{default}"' if isinstance(default, str) else repr(default)
    return re.sub(r"default=.*", f"default={words}", entry, count=1)
