"""Checkpoints in files: records of arrays, whole or refused, without pickle.

A file is an ``.npz`` archive that NumPy reads too, with one entry more, ``about.json``, that says
what it is. The archive's comment ends with a digest of every byte before it: zip's own checksums
leave its directory out. A file that was cut off, or in which a bit has turned, is never read. The
digest is no seal: whoever writes a file can write its digest. So a record is checked as well, all
that kernels will trust, before it is handed over.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from dbdl._archives import open_archive
from dbdl._files import reason, write_atomically
from dbdl.model.trust import Scope, check

#: What the file of every checkpoint says it is.
MARKER = "dbdl checkpoint"
#: Raised when files change, or when a chain would go on otherwise than it began.
FORMAT = 1
ABOUT_ENTRY = "about.json"

_DIGEST_CHARACTERS = 64
_CHUNK = 1 << 20

Arrays = Mapping[str, NDArray[Any]]
RecordType = TypeVar("RecordType")


class CheckpointError(ValueError):
    """A checkpoint cannot be written, read or resumed from; the message says what to do."""


# ------------------------------------------------------------------------------- records as arrays


def to_arrays(record: Any, prefix: str = "") -> dict[str, NDArray[Any]]:
    """Fields of a dataclass as arrays by name; those of a nested one as ``outer.inner``.

    Numbers become arrays without dimensions; None is left out.
    """
    return dict(_fields(record, prefix))


def _fields(record: Any, prefix: str) -> Iterator[tuple[str, NDArray[Any]]]:
    for field in fields(record):
        value, name = getattr(record, field.name), f"{prefix}{field.name}"
        if is_dataclass(value):
            yield from _fields(value, f"{name}.")
        elif value is not None:
            yield name, np.asarray(value)


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


# --------------------------------------------------------------------------------------- archives


def write_archive(path: Path, about: Mapping[str, Any], arrays: Arrays) -> None:
    """Write an archive whole or not at all; raises OSError where that fails.

    Parameters
    ----------
    path : Path
    about : mapping
        As JSON can hold it.
    arrays : mapping of str to ndarray
    """
    text = json.dumps({"marker": MARKER, "format": FORMAT, **about}, indent=1)

    def write(file: BinaryIO) -> None:
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr(ABOUT_ENTRY, text)
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                    np.lib.format.write_array(entry, array, allow_pickle=False)
            archive.comment = b"0" * _DIGEST_CHARACTERS  # the end of the file, see below
        size = file.seek(0, os.SEEK_END)
        digest = _digest(file, size - _DIGEST_CHARACTERS)
        file.seek(size - _DIGEST_CHARACTERS)
        file.write(digest)

    write_atomically(path, write)


def read_archive(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read what `write_archive` wrote: what it is about, and its arrays.

    Raises
    ------
    CheckpointError
        Where the file cannot be read, is damaged, or is something else.
    """
    with _open(path) as file:
        try:
            about, arrays = _parse(file)
        except OSError:
            raise
        except Exception as error:  # a file of others may fail in any way
            raise CheckpointError(f"{path} is not a checkpoint of dbdl ({error}).") from error
    if not isinstance(about, dict):
        raise CheckpointError(
            f"{path} is not a checkpoint of dbdl ({ABOUT_ENTRY} is not a record)."
        )
    if about.get("marker") != MARKER or about.get("format") != FORMAT:
        raise CheckpointError(
            f"{path} has format {about.get('format')!r} of {about.get('marker')!r}, expected "
            f"format {FORMAT} of {MARKER!r}: another version of dbdl wrote it."
        )
    return about, arrays


def check_archive(path: Path) -> None:
    """Raise `CheckpointError` where a file cannot be read, was cut off or damaged."""
    with _open(path):
        pass


@contextmanager
def _open(path: Path) -> Iterator[BinaryIO]:
    """Open a file that has its checksum."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            digest = _digest(file, max(size - _DIGEST_CHARACTERS, 0))
            if file.read() != digest:
                raise CheckpointError(
                    f"{path} is cut off, damaged or not a checkpoint of dbdl: it does not have its "
                    "checksum."
                )
            yield file
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {reason(error)}.") from error


def _parse(file: BinaryIO) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    arrays = {}
    with open_archive(file) as archive:
        about = json.loads(archive.read(ABOUT_ENTRY))
        for name in archive.namelist():
            if name != ABOUT_ENTRY:
                with archive.open(name) as entry:
                    array = np.lib.format.read_array(entry, allow_pickle=False)
                arrays[name.removesuffix(".npy")] = array
    return about, arrays


def _digest(file: BinaryIO, size: int) -> bytes:
    """Digest of the first ``size`` bytes, as hexadecimal digits; leaves the file there."""
    total = hashlib.blake2b(digest_size=_DIGEST_CHARACTERS // 2)
    file.seek(0)
    left = size
    while left > 0:
        chunk = file.read(min(_CHUNK, left))
        if not chunk:
            break
        total.update(chunk)
        left -= len(chunk)
    return total.hexdigest().encode()
