"""Records that come from a file are checked here, once, before anything computes with them.

Kernels trust their arrays: an atom number out of range reads or writes memory that is not theirs.
So a record says beside each field what its value has to be (``atoms: Atoms``), and `check` compares
the two. Sizes have names, and a name stands for one number throughout a record and the records
inside it: that is how shapes agree with one another. What relates several fields is found by the
record's own `faults`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from dbdl.model.record import Record

Floats = NDArray[np.floating[Any]]


class RecordError(ValueError):
    """A record is not what its fields say; the message names the field and what was expected."""


@dataclass
class Scope:
    """What is known of a record so far.

    Attributes
    ----------
    sizes : dict of str to int
        By name.
    dtype : dtype or None
        Of the rows, and so of atoms and strengths.
    """

    sizes: dict[str, int] = field(default_factory=dict)
    dtype: np.dtype[Any] | None = None

    def inner(self) -> Scope:
        """Return a scope that knows as much, and what it learns stays its own."""
        return Scope(dict(self.sizes), self.dtype)

    def bind(self, name: str, size: int) -> bool:
        """Take note of a size; False where it was another, or cannot be one."""
        return size >= 0 and self.sizes.setdefault(name, size) == size


# ------------------------------------------------------------------------------ what values may be


@dataclass(frozen=True)
class Array:
    """An array of given dtypes whose axes have named sizes.

    Attributes
    ----------
    shape : tuple of str
        Names of sizes; ``n_samples+1`` is one more.
    dtypes : tuple of type
    of_rows : bool
        Whether it has the dtype of the rows.
    finite : bool
        Whether infinities and NaN are refused.
    least : float or None
        Least entry allowed.
    below : str or None
        Name of a size that every entry is below.
    ascending : bool
        Whether each entry is larger than the one before it.
    some : bool
        Whether it must have entries.
    """

    shape: tuple[str, ...]
    dtypes: tuple[type[Any], ...]
    of_rows: bool = False
    finite: bool = True
    least: float | None = None
    below: str | None = None
    ascending: bool = False
    some: bool = False

    def check(self, value: NDArray[Any], name: str, scope: Scope) -> None:
        """Raise `RecordError` where the array is not as it has to be."""
        allowed = [np.dtype(kind) for kind in self.dtypes]
        if self.of_rows and scope.dtype is not None:
            allowed = [scope.dtype]
        if value.dtype not in allowed:
            kinds = " or ".join(map(str, allowed))
            raise RecordError(f"{name} has dtype {value.dtype}, expected {kinds}")
        if self.of_rows:
            scope.dtype = value.dtype
        self._check_shape(value, name, scope)
        if self.some and not value.size:
            raise RecordError(f"{name} is empty")
        if value.size:
            self._check_entries(value, name, scope)

    def _check_shape(self, value: NDArray[Any], name: str, scope: Scope) -> None:
        fits = value.ndim == len(self.shape)
        for axis, size in zip(self.shape, value.shape, strict=False):
            size_name, _, more = axis.partition("+")
            fits = fits and scope.bind(size_name, size - int(more or 0))
        if not fits:
            expected = ", ".join(self.shape)
            known = {axis.partition("+")[0] for axis in self.shape} & set(scope.sizes)
            where = ", ".join(f"{size} = {scope.sizes[size]}" for size in sorted(known))
            raise RecordError(f"{name} has shape {value.shape}, expected ({expected}) with {where}")

    def _check_entries(self, value: NDArray[Any], name: str, scope: Scope) -> None:
        if self.finite and not np.isfinite(value).all():
            raise RecordError(f"{name} has entries that are NaN or infinite")
        if self.least is not None and not value.min() >= self.least:
            raise RecordError(f"{name} has entries below {self.least:g}")
        if self.below is not None and not value.max() < scope.sizes.get(self.below, 0):
            raise RecordError(
                f"{name} has the entry {value.max()}, expected entries below {self.below} = "
                f"{scope.sizes.get(self.below, 0)}"
            )
        if self.ascending and not (value[1:] > value[:-1]).all():
            raise RecordError(f"{name} is not ascending")


@dataclass(frozen=True)
class Number:
    """A number in a range; NaN is in none."""

    least: float = -np.inf
    most: float = np.finfo(np.float64).max
    above: float = -np.inf

    def check(self, value: Any, name: str, scope: Scope) -> None:
        """Raise `RecordError` where the number is out of its range."""
        if not (value >= self.least and value <= self.most and value > self.above):
            least = f"more than {self.above:g}" if self.above > self.least else f"{self.least:g}"
            raise RecordError(f"{name} is {value}, expected {least} to {self.most:g}")


@dataclass(frozen=True)
class Size:
    """A number that is a size."""

    name: str

    def check(self, value: int, name: str, scope: Scope) -> None:
        """Raise `RecordError` where the size was another."""
        if not scope.bind(self.name, int(value)):
            raise RecordError(f"{name} is {value}, expected {scope.sizes.get(self.name)}")


@dataclass(frozen=True)
class Block:
    """A slice of the atoms."""

    def check(self, value: slice, name: str, scope: Scope) -> None:
        """Raise `RecordError` where the slice leaves the atoms."""
        ends = (value.start, value.stop)
        whole = all(isinstance(end, Integral) for end in ends) and value.step is None
        if not whole or not 0 <= ends[0] <= ends[1] <= scope.sizes["n_atoms"]:
            raise RecordError(
                f"{name} is {value}, expected a slice of {scope.sizes['n_atoms']} atoms"
            )


@dataclass(frozen=True)
class Length:
    """A sequence whose length is a size."""

    name: str

    def check(self, value: Sequence[Any], name: str, scope: Scope) -> None:
        """Raise `RecordError` where there are more or fewer."""
        if not scope.bind(self.name, len(value)):
            raise RecordError(f"{name} has {len(value)} parts, expected {scope.sizes[self.name]}")


def reals(*shape: str, **limits: Any) -> Array:
    """Array of float64 or float32."""
    return Array(shape, (np.float64, np.float32), **limits)


def of_rows(*shape: str, **limits: Any) -> Array:
    """Array in the dtype of the rows, float64 or float32."""
    return reals(*shape, of_rows=True, **limits)


def whole(*shape: str, **limits: Any) -> Array:
    """Array of whole numbers, none negative."""
    return Array(shape, (np.int64, np.int32), least=0, **limits)


def counts(*shape: str) -> Array:
    """Array of sums that are not negative: whole numbers, or not once some were forgotten."""
    return Array(shape, (np.int64, np.float64, np.float32), least=0)


Count = Annotated[int, Number(least=0, most=2**31 - 1)]
AtLeastOne = Annotated[int, Number(least=1, most=2**31 - 1)]
Positive = Annotated[float, Number(above=0.0)]
NotNegative = Annotated[float, Number(least=0.0, most=np.inf)]

Atoms = Annotated[Floats, of_rows("n_atoms", "n_features", some=True)]
LabelAtoms = Annotated[NDArray[np.float64], reals("n_atoms", "n_classes")]
ClassOfAtom = Annotated[NDArray[np.int64], whole("n_atoms", below="n_classes")]
Projection = Annotated[Floats, reals("n_features", "n_atoms")]
ByClass = Annotated[Floats, reals("n_classes", "n_atoms")]
Objective = Annotated[NDArray[np.float64], reals("n_iterations", finite=False)]
NClasses = Annotated[int, Size("n_classes")]
AtomBlock = Annotated[slice, Block()]
AtomBlocks = Annotated[tuple[AtomBlock, ...], Length("n_classes")]


# --------------------------------------------------------------------------------------- comparing


def check(hint: Any, value: Any, name: str, scope: Scope | None = None) -> None:
    """Compare a value from a file with a type that says what it has to be.

    Parameters
    ----------
    hint : type
        A dataclass or named tuple whose fields are annotated by the types above, one of those
        types, or a container or union of such.
    value : object
    name : str
        What messages call it.
    scope : Scope, optional
        What is known already; learns the sizes that are found.

    Raises
    ------
    RecordError
        At the first thing that is not as it has to be.
    """
    scope = Scope() if scope is None else scope
    origin = get_origin(hint)
    if hint is Any:
        return
    if origin is Annotated:
        base, *rules = get_args(hint)
        check(base, value, name, scope)
        for rule in rules:
            rule.check(value, name, scope)
    elif origin in (Union, UnionType):
        check(_alternative(hint, value), value, name, scope)
    elif origin is Literal:
        if not isinstance(value, str | int) or value not in get_args(hint):
            raise RecordError(f"{name} is {value!r}, expected one of {get_args(hint)}")
    elif not _is_of(hint, value):
        raise RecordError(f"{name} is of type {type(value).__name__}, expected {_words(hint)}")
    elif origin in (tuple, list):
        for number, part in enumerate(value):
            check(get_args(hint)[0], part, f"{name}[{number}]", scope.inner())
    elif is_dataclass(hint) or _is_named_tuple(hint):
        _check_record(value, name, scope)


def _check_record(record: Any, name: str, scope: Scope) -> None:
    kind: Any = type(record)
    hints, title = _hints(kind), kind.__name__
    names = kind._fields if _is_named_tuple(kind) else [part.name for part in fields(kind)]
    caches = isinstance(record, Record)  # none of them from a file
    if is_dataclass(kind) and not caches and (strange := sorted(set(vars(record)) - set(names))):
        raise RecordError(f"{name} has {strange[0]!r}, which a {title} does not have")
    for part in names:
        if not hasattr(record, part):
            raise RecordError(f"{name} has no {part!r}, which every {title} has")
        check(hints[part], getattr(record, part), f"{name}.{part}", scope)
    for fault in getattr(record, "faults", tuple)():
        raise RecordError(f"{name}: {fault}")


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def _is_named_tuple(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_fields")


def _alternative(hint: Any, value: Any) -> Any:
    """Return the part of a union that a value is compared with: that of its type, or the first."""
    parts = get_args(hint)
    literals = [part for part in parts if get_origin(part) is Literal]
    if len(literals) == len(parts):
        return Literal[tuple(word for part in parts for word in get_args(part))]
    return next((part for part in parts if _is_of(part, value)), parts[0])


#: Types of plain values. Of arrays and containers no subclass will do: it may have other ways.
_PLAIN: dict[Any, tuple[type[Any], ...]] = {
    int: (Integral,),
    float: (Real,),
    bool: (bool, np.bool_),
    NoneType: (NoneType,),
    str: (str,),
    slice: (slice,),
}


def _class_of(hint: Any) -> Any:
    """Return the class behind a type: ndarray for NDArray, which NumPy 2.5 has as an alias."""
    kind = get_origin(hint) or hint
    while hasattr(kind, "__value__"):
        kind = get_origin(kind.__value__) or kind.__value__
    return kind


def _is_of(hint: Any, value: Any) -> bool:
    """Whether a value has the type that a hint asks for, its parts left aside."""
    if get_origin(hint) is Annotated:
        return _is_of(get_args(hint)[0], value)
    kind = _class_of(hint)
    if kind is np.ndarray:
        return type(value) in (np.ndarray, np.memmap)  # joblib may map the arrays of a pickle
    if isinstance(kind, type) and issubclass(kind, Record):
        return isinstance(value, kind)  # a family of records, each checked by its own fields
    if kind not in _PLAIN:
        return type(value) is kind
    if not isinstance(value, _PLAIN[kind]) or isinstance(value, bool | np.bool_) != (kind is bool):
        return False
    return kind is not float or not isinstance(value, Integral) or abs(int(value)) <= 2**53


def _words(hint: Any) -> str:
    kind = _class_of(hint)
    return str(getattr(kind, "__name__", kind))
