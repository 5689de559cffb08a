"""Files that are written whole or not at all, and words for those that cannot be read."""

from __future__ import annotations

import io
import os
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

#: Start of the name of a file that is not whole yet.
UNFINISHED = ".unfinished-"
#: Characters of a library's message that are passed on.
LONGEST_REASON = 200

_umask_lock = threading.Lock()


class DataError(ValueError):
    """Data that was found, but cannot be used as it is; the message says what to do."""


def checked_path(path: object) -> Path:
    """Return a path for a text or a path; anything else is refused in words."""
    if not isinstance(path, str | os.PathLike) or isinstance(name := os.fspath(path), bytes):
        shown = repr(path)[:60]
        raise TypeError(f"expected a path as text, got {shown} ({type(path).__name__})")
    if not name:
        raise ValueError("the path is empty; give the name of a file")
    if "\0" in name:
        raise ValueError(f"the path {name!r} holds a null byte, which no file name can")
    return Path(name)


@contextmanager
def reading(path: str | os.PathLike[str], kind: str) -> Iterator[None]:
    """Turn whatever a library raises over a damaged file into a `DataError`.

    Parameters
    ----------
    path : str or path-like
    kind : str
        Kind of file in words, for the message: "parquet file".
    """
    try:
        yield
    except (DataError, FileNotFoundError, PermissionError):
        raise
    except MemoryError as error:
        raise DataError(
            f"{path} needs more memory than there is, or is damaged ({_short(error)})"
        ) from error
    except Exception as error:  # arbitrary bytes can fail in any way inside a library
        raise DataError(
            f"{path} is damaged or not a {kind} ({_short(error)}); get it again, or write it again"
        ) from error


def write_atomically(
    path: str | os.PathLike[str], content: bytes | Callable[[BinaryIO], object]
) -> Path:
    """Write a file under a temporary name beside its place, then move it there.

    A reader never sees half a file, and a failed write leaves the old file as it was. The content
    is on the disk before the name is, so after a power cut there is one or the other. A link stays
    a link: the file that it leads to is replaced. A new file has the permissions of the one that it
    replaces. A pipe or a device (``/dev/null``) is written to directly.

    Parameters
    ----------
    path : str or path-like
        In a folder that exists.
    content : bytes or callable
        A callable is given the open file, which it may read and move about in, and writes to it.

    Returns
    -------
    path : Path

    Raises
    ------
    OSError
        Where the folder is absent or may not be written to, the disk is full, the file that is
        there may not be written to, or the path is a folder.
    """
    given = checked_path(path)
    if given.exists() and not os.access(given, os.W_OK):
        raise PermissionError(f"{given} may not be written to: permission denied")
    if given.is_dir():
        raise IsADirectoryError(f"{given} is a folder; give the name of a file")
    if given.exists() and not given.is_file():
        memory = io.BytesIO()
        _fill(memory, content)
        given.write_bytes(memory.getvalue())
        return given
    target = Path(os.path.realpath(given))
    if not target.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {target.parent}; make it first")
    _replace(target, content)
    return given


def _replace(target: Path, content: bytes | Callable[[BinaryIO], object]) -> None:
    mode = _mode(target)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=UNFINISHED)
    try:
        with os.fdopen(handle, "w+b") as file:
            _fill(file, content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, mode)  # mkstemp makes files that only their owner can read
        os.replace(name, target)
        _sync_folder(target.parent)
    except BaseException:  # an interrupt too must not leave a file behind
        Path(name).unlink(missing_ok=True)
        raise


def _mode(target: Path) -> int:
    """Return the permissions of a file that is there, or those of a new one."""
    try:
        return stat.S_IMODE(target.stat().st_mode)
    except FileNotFoundError:
        return 0o666 & ~_umask()


def _fill(file: BinaryIO, content: bytes | Callable[[BinaryIO], object]) -> None:
    if callable(content):
        content(file)
    else:
        file.write(content)


def remove_stale(folder: Path, seconds: float) -> None:
    """Remove unfinished files that are older than some seconds: those of processes killed."""
    for path in folder.glob(f"{UNFINISHED}*"):
        try:
            if time.time() - path.stat().st_mtime > seconds:
                path.unlink()
        except FileNotFoundError:
            pass  # another process was faster


def reason(error: OSError) -> str:
    """Return what went wrong without the path, for messages that name it already."""
    return error.strerror or str(error)


def _short(error: BaseException) -> str:
    """Return a library's message on one line of bearable length."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= LONGEST_REASON else f"{text[:LONGEST_REASON]}..."


def _sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk, where the system can."""
    if os.name == "nt":  # Windows opens no folders
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _umask() -> int:
    """Return the process's mask for new files; it can only be read by setting it.

    One thread at a time: of two, the second would take the other's for the process's own.
    """
    with _umask_lock:
        mask = os.umask(0o022)
        os.umask(mask)
    return mask
