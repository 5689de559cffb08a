"""Checks of records that come from a file, made once before anything computes with them.

Kernels trust their arrays: with an atom index out of range they would read or write foreign memory.
Each field of a record is therefore annotated with the values it may have (``atoms: Atoms``), and
`check` compares the two. Sizes have names, and a name stands for one value throughout a record and
the records inside it, so that shapes agree with one another. A record's method `faults` finds
fields that contradict each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from dbdl.model.record import Record

Floats = NDArray[np.floating[Any]]
Doubles = NDArray[np.float64]
Classes = NDArray[np.int64]  # class indices, such as those of rows


class RecordError(ValueError):
    """A record contradicts its annotations; the message names the field and what was expected."""


@dataclass
class Scope:
    """Sizes known by name, and the dtype of the rows, which atoms and strengths share."""

    sizes: dict[str, int] = field(default_factory=dict)
    dtype: np.dtype[Any] | None = None

    def inner(self) -> Scope:
        """Return a copy that can be extended separately."""
        return Scope(dict(self.sizes), self.dtype)

    def bind(self, name: str, size: int) -> bool:
        """Record a size; False if it is negative or differs from the recorded one."""
        return size >= 0 and self.sizes.setdefault(name, size) == size


# ------------------------------------------------------------- rules: each yields a value's faults

#: Squares of larger numbers overflow.
LARGEST = float(np.sqrt(np.finfo(np.float64).max))
#: Least entry of arrays of positive numbers.
TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class Array:
    """An array of given dtypes whose axes have named sizes."""

    shape: tuple[str, ...]  # names of sizes; ``n_samples+1`` means one more
    dtypes: tuple[type[Any], ...]
    of_rows: bool = False  # must have the dtype of the rows
    finite: bool = True  # infinities and NaN are refused
    least: float | None = None  # least entry allowed
    below: str | None = None  # name of a size that every entry must be below
    ascending: bool = False  # each entry is larger than the one before it
    some: bool = False  # must not be empty

    def _faults(self, value: NDArray[Any], scope: Scope) -> Iterator[str]:
        allowed = [np.dtype(kind) for kind in self.dtypes]
        if self.of_rows and scope.dtype is not None:
            allowed = [scope.dtype]
        if value.dtype not in allowed:
            yield f"has dtype {value.dtype}, expected {' or '.join(map(str, allowed))}"
        if self.of_rows:
            scope.dtype = value.dtype
        axes = [axis.partition("+") for axis in self.shape]
        fits = value.ndim == len(axes)
        for (size_name, _, more), size in zip(axes, value.shape, strict=False):
            fits = fits and scope.bind(size_name, size - int(more or 0))
        if not fits:
            known = sorted({size_name for size_name, _, _ in axes} & set(scope.sizes))
            where = ", ".join(f"{size} = {scope.sizes[size]}" for size in known)
            yield f"has shape {value.shape}, expected ({', '.join(self.shape)}) with {where}"
        if value.size:
            yield from self._faults_of_entries(value, scope)
        elif self.some:
            yield "is empty"

    def _faults_of_entries(self, value: NDArray[Any], scope: Scope) -> Iterator[str]:
        if self.finite and not np.isfinite(value).all():
            yield "has entries that are NaN or infinite"
        if self.of_rows and not float(np.abs(value).max()) < LARGEST:
            yield "has entries so large that their squares overflow"
        if self.least is not None and not value.min() >= self.least:
            yield f"has entries below {self.least:g}"
        if self.below is not None and not value.max() < (size := scope.sizes.get(self.below, 0)):
            yield f"has the entry {value.max()}, expected entries below {self.below} = {size}"
        if self.ascending and not (value[1:] > value[:-1]).all():
            yield "is not ascending"


@dataclass(frozen=True)
class Number:
    """A number in a range, which excludes NaN."""

    least: float = -np.inf
    most: float = np.finfo(np.float64).max
    above: float = -np.inf

    def _faults(self, value: Any, scope: Scope) -> Iterator[str]:
        if not (self.least <= value <= self.most and value > self.above):
            least = f"more than {self.above:g}" if self.above > self.least else f"{self.least:g}"
            yield f"is {value}, expected {least} to {self.most:g}"


@dataclass(frozen=True)
class Size:
    """A whole number that is a named size."""

    name: str

    def _faults(self, value: int, scope: Scope) -> Iterator[str]:
        if not scope.bind(self.name, int(value)):
            yield f"is {value}, expected {scope.sizes.get(self.name)}"


@dataclass(frozen=True)
class Length:
    """A sequence whose length is a named size."""

    name: str

    def _faults(self, value: Sequence[Any], scope: Scope) -> Iterator[str]:
        if not scope.bind(self.name, len(value)):
            yield f"has {len(value)} parts, expected {scope.sizes[self.name]}"


@dataclass(frozen=True)
class Apart:
    """A record whose sizes are its own: their names mean nothing outside it."""

    def _faults(self, value: Any, scope: Scope) -> Iterator[str]:
        yield from ()


@dataclass(frozen=True)
class Block:
    """A slice of the atoms."""

    def _faults(self, value: slice, scope: Scope) -> Iterator[str]:
        ends, n_atoms = (value.start, value.stop), scope.sizes["n_atoms"]
        whole = all(isinstance(end, Integral) for end in ends) and value.step is None
        if not whole or not 0 <= ends[0] <= ends[1] <= n_atoms:
            yield f"is {value}, expected a slice of {n_atoms} atoms"


def reals(*shape: str, **limits: Any) -> Array:
    """Array of float64 or float32."""
    return Array(shape, (np.float64, np.float32), **limits)


def doubles(*shape: str, **limits: Any) -> Array:
    """Array of float64."""
    return Array(shape, (np.float64,), **limits)


def of_rows(*shape: str, **limits: Any) -> Array:
    """Array in the dtype of the rows, float64 or float32."""
    return reals(*shape, of_rows=True, **limits)


def whole(*shape: str, **limits: Any) -> Array:
    """Array of whole numbers, none negative."""
    return Array(shape, (np.int64, np.int32), least=0, **limits)


def counts(*shape: str) -> Array:
    """Array of counts or sums, none negative; partly forgotten counts are not whole."""
    return Array(shape, (np.int64, np.float64, np.float32), least=0)


Count = Annotated[int, Number(least=0, most=2**31 - 1)]
AtLeastOne = Annotated[int, Number(least=1, most=2**31 - 1)]
Positive = Annotated[float, Number(above=0.0)]
NotNegative = Annotated[float, Number(least=0.0, most=np.inf)]

Atoms = Annotated[Floats, of_rows("n_atoms", "n_features", some=True)]
LabelAtoms = Annotated[Doubles, reals("n_atoms", "n_classes")]
ClassOfAtom = Annotated[Classes, whole("n_atoms", below="n_classes")]
Projection = Annotated[Floats, reals("n_features", "n_atoms")]
ByClass = Annotated[Floats, reals("n_classes", "n_atoms")]
Objective = Annotated[Doubles, reals("n_iterations", finite=False)]
NClasses = Annotated[int, Size("n_classes")]
AtomBlock = Annotated[slice, Block()]
AtomBlocks = Annotated[tuple[AtomBlock, ...], Length("n_classes")]


# --------------------------------------------------------------------------------------- comparing


def check(hint: Any, value: Any, name: str, scope: Scope | None = None) -> None:
    """Raise `RecordError` at the first part of a value that contradicts its type.

    The type is a dataclass or named tuple with fields annotated by the types above, one of those
    types, or a container or union of them. Sizes that are found are added to the scope.
    """
    scope = Scope() if scope is None else scope
    origin = get_origin(hint)
    if hint is Any:
        return
    if origin is Annotated:
        base, *rules = get_args(hint)
        check(base, value, name, Scope() if Apart() in rules else scope)
        for rule in rules:
            for fault in rule._faults(value, scope):
                raise RecordError(f"{name} {fault}")
    elif origin in (Union, UnionType):
        check(_alternative(hint, value), value, name, scope)
    elif origin is Literal:
        if not isinstance(value, str | int) or value not in get_args(hint):
            raise RecordError(f"{name} is {value!r}, expected one of {get_args(hint)}")
    elif not _is_of(hint, value):
        expected = getattr(_class_of(hint), "__name__", hint)
        raise RecordError(f"{name} is of type {type(value).__name__}, expected {expected}")
    elif origin in (tuple, list):
        for index, part in enumerate(value):
            check(get_args(hint)[0], part, f"{name}[{index}]", scope.inner())
    elif is_dataclass(value) or hasattr(value, "_fields"):
        _check_record(value, name, scope)


def _check_record(record: Any, name: str, scope: Scope) -> None:
    kind: Any = type(record)
    hints, title = _hints(kind), kind.__name__
    names = [part.name for part in fields(kind)] if is_dataclass(kind) else kind._fields
    # a Record may have caches, which never come from a file; a named tuple has no other attributes
    own = () if isinstance(record, Record) else getattr(record, "__dict__", ())
    if strange := sorted(set(own) - set(names)):
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


def _alternative(hint: Any, value: Any) -> Any:
    """Return the part of a union to compare a value with: that of its type, or the first."""
    parts = get_args(hint)
    if all(get_origin(part) is Literal for part in parts):
        return Literal[tuple(word for part in parts for word in get_args(part))]
    return next((part for part in parts if _is_of(part, value)), parts[0])


#: Types of plain values. Subclasses of arrays and containers are refused: they may misbehave.
_PLAIN: dict[Any, Any] = {
    **{kind: kind for kind in (NoneType, str, slice)},
    int: Integral,
    float: Real,
    bool: bool | np.bool_,
}


def _class_of(hint: Any) -> Any:
    """Return the class behind a type: ndarray for NDArray, which NumPy 2.5 has as an alias."""
    kind = get_origin(hint) or hint
    while hasattr(kind, "__value__"):
        kind = get_origin(kind.__value__) or kind.__value__
    return kind


def _is_of(hint: Any, value: Any) -> bool:
    """Whether a value has the type of a hint, apart from the types of its parts."""
    if get_origin(hint) is Annotated:
        return _is_of(get_args(hint)[0], value)
    kind = _class_of(hint)
    if kind is np.ndarray:
        return type(value) in (np.ndarray, np.memmap)  # joblib may map the arrays of a pickle
    if isinstance(kind, type) and issubclass(kind, Record):
        return isinstance(value, kind)  # a subclass is checked by its own fields
    if kind not in _PLAIN:
        return type(value) is kind
    if not isinstance(value, _PLAIN[kind]) or isinstance(value, bool | np.bool_) != (kind is bool):
        return False
    return kind is not float or not isinstance(value, Integral) or abs(int(value)) <= 2**53
