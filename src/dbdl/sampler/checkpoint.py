"""Checkpoints in files: records of arrays, whole or refused, without pickle.

A file is an archive of `dbdl._archives`, which is an ``.npz`` file that NumPy reads too. Every
record is checked, all that kernels will trust, before it is handed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from dbdl import _archives
from dbdl._files import reason
from dbdl.model.trust import Scope, check

#: The format is raised when files change, or when a resumed chain would differ from a whole one.
KIND = {"marker": "dbdl checkpoint", "format": 1}

Arrays = Mapping[str, NDArray[Any]]
RecordType = TypeVar("RecordType")


class CheckpointError(ValueError):
    """A checkpoint cannot be written, read or resumed from; the message says what to do."""


def to_arrays(record: Any, prefix: str = "") -> dict[str, NDArray[Any]]:
    """Fields of a dataclass as arrays by name; those of a nested one as ``outer.inner``.

    Numbers become arrays without dimensions; None is left out.
    """
    arrays: dict[str, NDArray[Any]] = {}
    for field in fields(record):
        value, name = getattr(record, field.name), f"{prefix}{field.name}"
        if is_dataclass(value):
            arrays |= to_arrays(value, f"{name}.")
        elif value is not None:
            arrays[name] = np.asarray(value)
    return arrays


def from_arrays(
    kind: type[RecordType], arrays: Arrays, prefix: str = "", scope: Scope | None = None
) -> RecordType:
    """Undo `to_arrays` for a dataclass; the names under ``prefix`` must be its own, no others.

    The record is checked: see `dbdl.model.trust.check`, whose ``scope`` is what it has to fit.

    Raises
    ------
    CheckpointError
        Where the names are not those of the dataclass, or the arrays are not what it holds.
    """
    own = {name for name in arrays if name.startswith(prefix)}
    try:
        record = _record(kind, arrays, prefix)
        if own != set(to_arrays(record, prefix)):
            raise CheckpointError(
                f"the entries {', '.join(sorted(own))} are not of a {kind.__name__}"
            )
        check(kind, record, prefix.rstrip(".") or kind.__name__.lower(), scope)
    except (ValueError, TypeError) as error:
        raise CheckpointError(str(error)) from error
    return record


def _record(kind: Any, arrays: Arrays, prefix: str) -> Any:
    hints = get_type_hints(kind)
    return kind(**{f.name: _value(hints[f.name], arrays, prefix + f.name) for f in fields(kind)})


def _value(hint: Any, arrays: Arrays, name: str) -> Any:
    kinds: list[Any] = [kind for kind in (hint, *get_args(hint)) if is_dataclass(kind)]
    start = f"{name}."
    own = {other[len(start) :].split(".")[0] for other in arrays if other.startswith(start)}
    if kinds and own:  # of several kinds, the first that has all the fields that are there
        have = (kind for kind in kinds if own <= {field.name for field in fields(kind)})
        return _record(next(have, kinds[0]), arrays, start)
    array = arrays.get(name)
    return array.item() if array is not None and array.ndim == 0 else array


def write_archive(path: Path, about: Mapping[str, Any], arrays: Arrays) -> None:
    """Write a checkpoint whole or not at all; raises OSError where that fails."""
    _archives.write_archive(path, {**KIND, **about}, arrays)


def read_archive(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the description and the arrays that `write_archive` wrote.

    Raises
    ------
    CheckpointError
        Where the file cannot be read, is damaged, or is something else.
    """
    with _opened(path) as file, _archives.open_archive(file, KIND) as (about, archive):
        return about, _archives.read_arrays(archive)


def check_archive(path: Path) -> None:
    """Raise `CheckpointError` where a file cannot be read, was cut off or damaged."""
    with _opened(path) as file:
        _archives.check_digest(file, KIND)


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    try:
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {reason(error)}.") from error
    except _archives.ArchiveError as error:
        raise CheckpointError(f"{path} {error}.") from error
    except Exception as error:  # the file of a stranger may fail in any way
        raise CheckpointError(f"{path} is not a {KIND['marker']} ({error}).") from error
