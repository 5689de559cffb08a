"""The one format of models and checkpoints: a zip archive that is read whole, or refused.

An entry ``about.json`` says what the archive is; the others are NumPy arrays, or the entries of a
skops file. The archive's comment is a digest of every byte before it, since zip's own checksums
leave its directory out: a file that was cut off, or in which a bit has turned, is never read.

The digest is not a seal, since whoever writes a file can write its digest. A few bytes of a zip
archive can unpack to gigabytes, and the header of an array can claim any shape. So the directory
of the archive and the headers of its arrays are read first, and an archive that would grow beyond
measure, or whose arrays are not as large as they claim, is refused before anything is unpacked.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from dbdl._files import write_atomically

ABOUT_ENTRY = "about.json"

#: Bytes that an archive may unpack to: so many of any, and so many times its own size. Our own
#: archives are not compressed; arrays of zeros in those of others may well be.
ALWAYS_ALLOWED = 1 << 26
MOST_GROWTH = 20
#: Other compressions turn a block of a few bytes into gigabytes in one step.
KNOWN_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)

_DIGEST_CHARACTERS = 64
_CHUNK = 1 << 20
_MAGIC_LENGTH = 8


class ArchiveError(ValueError):
    """An archive is refused; the message says why."""


# ----------------------------------------------------------------------------------------- writing


def write_archive(
    path: str | os.PathLike[str],
    about: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]] | None = None,
    content: bytes = b"",
) -> Path:
    """Write an archive completely or not at all; raises OSError if that fails.

    ``about`` is anything that JSON can hold, with a ``marker`` and a ``format`` for `open_archive`;
    ``content`` is a zip archive that the rest is added to.
    """

    def write(file: BinaryIO) -> None:
        file.write(content)
        with zipfile.ZipFile(file, "a") as archive:
            archive.writestr(ABOUT_ENTRY, json.dumps(about, indent=1))
            for name, array in (arrays or {}).items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                    np.lib.format.write_array(entry, array, allow_pickle=False)
            archive.comment = b"0" * _DIGEST_CHARACTERS  # the end of the file, see below
        size = file.seek(0, os.SEEK_END) - _DIGEST_CHARACTERS
        digest = _digest(file, size)
        file.seek(size)
        file.write(digest)

    return write_atomically(path, write)


def _digest(file: BinaryIO, size: int) -> bytes:
    """Digest of the first ``size`` bytes, as hexadecimal digits; leaves the file there."""
    total = hashlib.blake2b(digest_size=_DIGEST_CHARACTERS // 2)
    file.seek(0)
    for start in range(0, size, _CHUNK):
        total.update(file.read(min(_CHUNK, size - start)))
    return total.hexdigest().encode()


# ----------------------------------------------------------------------------------------- reading


@contextmanager
def open_archive(
    file: BinaryIO, kind: Mapping[str, Any]
) -> Iterator[tuple[dict[str, Any], zipfile.ZipFile]]:
    """Open an archive that has its digest and whose sizes are known to be harmless.

    ``kind`` is the ``marker`` and ``format`` that it has to have. Raises `ArchiveError` if the
    file is damaged, refused unread, or something else.
    """
    check_digest(file, kind)
    try:
        archive = zipfile.ZipFile(file)
        _check_directory(archive, ALWAYS_ALLOWED + MOST_GROWTH * file.seek(0, os.SEEK_END))
        about = json.loads(archive.read(ABOUT_ENTRY))
    except OSError:
        raise
    except Exception as error:  # zipfile meets arbitrary bytes
        raise ArchiveError(f"is not a {kind['marker']} ({error})") from error
    if not isinstance(about, dict):
        raise ArchiveError(f"is not a {kind['marker']} ({ABOUT_ENTRY} is not a record)")
    if not kind.items() <= about.items():
        raise ArchiveError(
            f"has format {about.get('format')!r} of {about.get('marker')!r}, expected format "
            f"{kind['format']} of {kind['marker']!r}: another version of dbdl wrote it"
        )
    with archive:
        yield about, archive


def read_arrays(archive: zipfile.ZipFile) -> dict[str, NDArray[Any]]:
    """Return all arrays of an archive by name."""
    arrays = {}
    for name in archive.namelist():
        if name != ABOUT_ENTRY:
            with archive.open(name) as entry:
                array = np.lib.format.read_array(entry, allow_pickle=False)
            arrays[name.removesuffix(".npy")] = array
    return arrays


def check_digest(file: BinaryIO, kind: Mapping[str, Any]) -> None:
    """Raise `ArchiveError` if a file was cut off, is damaged or has no digest."""
    size = file.seek(0, os.SEEK_END)
    digest = _digest(file, max(size - _DIGEST_CHARACTERS, 0))
    if file.read() != digest:
        raise ArchiveError(
            f"is cut off, damaged or not a {kind['marker']}: it does not have its checksum"
        )


def _check_directory(archive: zipfile.ZipFile, most: int) -> int:
    """Check the sizes of all entries; return how many of ``most`` bytes they leave."""
    entries = archive.infolist()
    times = Counter(entry.filename for entry in entries)
    for entry in entries:
        if times[entry.filename] > 1:
            raise ArchiveError(f"it holds {entry.filename} {times[entry.filename]} times")
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
        if start.startswith(b"PK"):  # arrays of arrays: NumPy's npz, as SciPy's matrices are stored
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
