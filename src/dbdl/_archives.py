"""Zip archives that others wrote: nothing is unpacked before its size is known.

A few bytes of a zip archive can unpack to gigabytes, and the header of an array can claim any
shape. The directory of the archive and the headers of the arrays in it are read first, and an
archive that would grow beyond measure, or whose arrays are not as large as they claim, is refused.
"""

from __future__ import annotations

import io
import math
import os
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, BinaryIO

import numpy as np

#: Bytes that an archive may unpack to: so many of any, and so many times its own size. Our own
#: archives are not compressed; arrays of zeros in those of others may well be.
ALWAYS_ALLOWED = 1 << 26
MOST_GROWTH = 20
#: Other compressions turn a block of a few bytes into gigabytes at one blow.
KNOWN_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)

_MAGIC_LENGTH = 8


class ArchiveError(ValueError):
    """An archive is refused; the message says why."""


@contextmanager
def open_archive(file: BinaryIO) -> Iterator[zipfile.ZipFile]:
    """Open an archive whose sizes are known to be harmless.

    Raises
    ------
    ArchiveError
        Where it is no zip archive, or one that is refused unread.
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    try:
        archive = zipfile.ZipFile(file)
        _check_directory(archive, ALWAYS_ALLOWED + MOST_GROWTH * size)
    except ArchiveError:
        raise
    except Exception as error:  # zipfile meets arbitrary bytes
        raise ArchiveError(str(error)) from error
    with archive:
        yield archive


def _check_directory(archive: zipfile.ZipFile, most: int) -> int:
    """Check the sizes of all entries; returns those that are left of ``most`` bytes."""
    entries = archive.infolist()
    for name, times in Counter(entry.filename for entry in entries).most_common(1):
        if times > 1:
            raise ArchiveError(f"it holds {name} {times} times")
    for entry in entries:
        if entry.compress_type not in KNOWN_COMPRESSIONS or entry.flag_bits & 1:
            raise ArchiveError(f"{entry.filename} is compressed or encrypted in an unknown way")
    total = sum(entry.file_size for entry in entries)
    if total > most:
        raise ArchiveError(
            f"it would unpack to {total:,} bytes, more than the {most:,} that an archive of its "
            "size may"
        )
    left = most - total
    for entry in entries:
        left = _check_entry(archive, entry, left)
    return left


def _check_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, most: int) -> int:
    """Check the header of an array, or the directory of an archive inside the archive."""
    with archive.open(entry) as content:
        start = content.read(_MAGIC_LENGTH)
        if start.startswith(b"PK"):  # arrays of arrays: NumPy's npz, which SciPy's matrices are
            with zipfile.ZipFile(io.BytesIO(start + content.read())) as inner:
                return _check_directory(inner, most)
        if start.startswith(np.lib.format.MAGIC_PREFIX):
            _check_header(start, content, entry)
    return most


def _check_header(start: bytes, content: IO[bytes], entry: zipfile.ZipInfo) -> None:
    """Compare the shape that an array claims with the bytes that are there."""
    name = entry.filename
    readers: dict[Any, Any] = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    try:
        reader = readers[np.lib.format.read_magic(io.BytesIO(start))]
        shape, _, dtype = reader(content)
    except Exception as error:  # a header is any text
        raise ArchiveError(f"{name} has a damaged header ({error})") from error
    if dtype.hasobject:
        raise ArchiveError(f"{name} holds Python objects")
    n_entries = math.prod(shape)
    n_bytes = n_entries * dtype.itemsize
    there = entry.file_size - content.tell()
    hollow = dtype.itemsize == 0 and n_entries > 0  # read as if entries had one byte
    if min(shape, default=0) < 0 or hollow or n_bytes != there:
        raise ArchiveError(
            f"{name} claims to be an array of shape {shape} and dtype {dtype}, {n_bytes:,} bytes, "
            f"but has {there:,}"
        )
