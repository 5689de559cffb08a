"""Files that are written completely or not at all, and messages on those that cannot be read."""

from __future__ import annotations

import io
import os
import stat
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

#: Start of the name of a file that is not complete yet.
UNFINISHED = ".unfinished-"
#: Characters of a library's message that are passed on.
LONGEST_REASON = 200


class DataError(ValueError):
    r"""Data that was found, but cannot be used as it is; the message says what to do.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from dbdl.datasets import DataError, load
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "table.csv")
    ...     _ = path.write_text("length,kind\n1.5,a\nlong,b\n")
    ...     try:
    ...         load(path)
    ...     except DataError:
    ...         print("one of the cells is not a number, and the message says which")
    one of the cells is not a number, and the message says which
    """


def checked_path(path: object) -> Path:
    """Return a text or a path as a path; refuse anything else."""
    if not isinstance(path, str | os.PathLike) or isinstance(name := os.fspath(path), bytes):
        shown = repr(path)[:60]
        raise TypeError(f"expected a path as text, got {shown} ({type(path).__name__})")
    if not name:
        raise ValueError("the path is empty; give the name of a file or folder")
    if "\0" in name:
        raise ValueError(f"the path {name!r} holds a null byte, which no file name can")
    return Path(name)


@contextmanager
def reading(path: str | os.PathLike[str], kind: str) -> Iterator[None]:
    """Turn any error of a library over a damaged file of a kind into a `DataError`."""
    try:
        yield
    except (DataError, FileNotFoundError, PermissionError):
        raise
    except MemoryError as error:
        raise DataError(
            f"{path} needs more memory than there is, or is damaged ({_short(error)})"
        ) from error
    except Exception as error:  # arbitrary bytes can fail in any way inside a library
        article = "an" if kind[0].lower() in "aeiou" else "a"
        # NumPy advises to unpickle what it cannot read, which would run code of the file
        why = "" if "allow_pickle" in str(error) else f" ({_short(error)})"
        raise DataError(
            f"{path} is damaged or not {article} {kind}{why}; get it again, or write it again"
        ) from error


def reason(error: OSError) -> str:
    """Return what went wrong without the path, for messages that name it already."""
    return error.strerror or str(error)


def _short(error: BaseException) -> str:
    """Return a library's message on one line, shortened if it is long."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= LONGEST_REASON else f"{text[:LONGEST_REASON]}..."


def write_atomically(
    path: str | os.PathLike[str], content: bytes | Callable[[BinaryIO], object]
) -> Path:
    """Write a file under a temporary name beside its place, then move it there.

    A reader never sees half a file, and a failed write leaves the old file as it was. The content
    reaches the disk before the name does, so that after a power cut either the old file is there or
    the new one. A link stays a link: the file that it leads to is replaced. A new file has the
    permissions of the one that it replaces. A pipe or a device (``/dev/null``) is written to
    directly. A callable is given the open file and writes to it; it may also read and seek.

    Raises OSError if the folder is absent or may not be written to, the disk is full, the file that
    is there may not be written to, or the path is a folder.
    """
    given = checked_path(path)
    if given.exists() and not os.access(given, os.W_OK):
        raise PermissionError(f"{given} may not be written to: permission denied")
    if given.is_dir():
        raise IsADirectoryError(f"{given} is a folder; give the name of a file")
    target = Path(os.path.realpath(given))
    if given.exists() and not given.is_file():
        memory = io.BytesIO()
        _fill(memory, content)
        given.write_bytes(memory.getvalue())
    elif target.parent.is_dir():
        _replace(target, content)
    else:
        raise FileNotFoundError(f"there is no folder {target.parent}; make it first")
    return given


def _fill(file: BinaryIO, content: bytes | Callable[[BinaryIO], object]) -> None:
    if callable(content):
        content(file)
    else:
        file.write(content)


def _replace(target: Path, content: bytes | Callable[[BinaryIO], object]) -> None:
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
    unfinished = target.with_name(f"{UNFINISHED}{uuid.uuid4().hex}")

    def create(name: str, flags: int) -> int:  # a private file is private from the start
        return os.open(name, flags, 0o666 if mode is None else mode)

    try:
        with open(unfinished, "x+b", opener=create) as file:
            _fill(file, content)
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            unfinished.chmod(mode)  # the process's mask may have taken something away
        os.replace(unfinished, target)
    except BaseException:  # an interrupt too must not leave a file behind
        unfinished.unlink(missing_ok=True)
        raise
    if os.name != "nt":  # Windows opens no folders
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)  # brings the name to the disk
        finally:
            os.close(folder)


def remove_stale(folder: Path, seconds: float) -> None:
    """Remove unfinished files that are older than some seconds: those of processes killed."""
    for path in folder.glob(f"{UNFINISHED}*"):
        with suppress(FileNotFoundError):  # another process was faster
            if time.time() - path.stat().st_mtime > seconds:
                path.unlink()
