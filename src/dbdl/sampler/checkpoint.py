"""Checkpoint files: records of arrays, complete or refused, without pickle.

A file is an archive of `dbdl._archives`, which is an ``.npz`` file that NumPy can read too. Every
record is checked before it is returned, since kernels will trust it.
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

#: Raise the format if files change, or if a resumed chain would differ from an uninterrupted one.
KIND = {"marker": "dbdl checkpoint", "format": 1}

Arrays = Mapping[str, NDArray[Any]]
RecordType = TypeVar("RecordType")


class CheckpointError(ValueError):
    """A checkpoint cannot be written, read or resumed from; the message says what to do.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_iris
    >>> from dbdl import CheckpointError, DBDLClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model = DBDLClassifier(n_chains=1, n_sweeps=2, checkpoint=folder, random_state=0)
    ...     _ = model.fit(X, y)
    ...     try:
    ...         model.fit(X[::2], y[::2])
    ...     except CheckpointError:
    ...         print("these are other rows than those of the checkpoint")
    these are other rows than those of the checkpoint
    """


def to_arrays(record: Any, prefix: str = "") -> dict[str, NDArray[Any]]:
    """Fields of a dataclass as arrays by name; nested ones are named ``outer.inner``.

    Numbers become zero-dimensional arrays; None is left out.
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
    """Undo `to_arrays` for a dataclass; the names under ``prefix`` must be exactly its fields.

    The record is checked by `dbdl.model.trust.check` with the given ``scope``. Raises
    `CheckpointError` if names or arrays contradict the fields of the dataclass.
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
    if kinds and own:  # of several kinds, the first with all the fields that are present
        have = (kind for kind in kinds if own <= {field.name for field in fields(kind)})
        return _record(next(have, kinds[0]), arrays, start)
    array = arrays.get(name)
    return array.item() if array is not None and array.ndim == 0 else array


def write_archive(path: Path, about: Mapping[str, Any], arrays: Arrays) -> None:
    """Write a checkpoint completely or not at all; raises OSError on failure."""
    _archives.write_archive(path, {**KIND, **about}, arrays)


def read_archive(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the description and the arrays that `write_archive` wrote.

    Raises `CheckpointError` if the file cannot be read, is damaged, or is not a checkpoint.
    """
    with _opened(path) as file, _archives.open_archive(file, KIND) as (about, archive):
        return about, _archives.read_arrays(archive)


def check_archive(path: Path) -> None:
    """Raise `CheckpointError` if a file cannot be read, was cut off or damaged."""
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
    except Exception as error:  # a file from elsewhere may fail in any way
        raise CheckpointError(f"{path} is not a {KIND['marker']} ({error}).") from error
