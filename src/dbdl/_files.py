"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

_umask_lock = threading.Lock()


def write_atomically(
    path: str | os.PathLike[str], content: bytes | Callable[[BinaryIO], object]
) -> Path:
    """Write a file under a temporary name beside its place, then move it there.

    A reader never sees half a file, and a failed write leaves what was there before. The content
    is on the disk before the name is, so a machine that loses its power has one or the other.

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
        Where the folder is absent or may not be written to, the disk is full, or the path is a
        folder.
    """
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder; give the name of a file")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {target.parent}; make it first")
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "w+b") as file:
            if callable(content):
                content(file)
            else:
                file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~_umask())  # mkstemp makes files that only their owner can read
        os.replace(name, target)
        _sync_folder(target.parent)
    except BaseException:  # an interrupt too must not leave a file behind
        Path(name).unlink(missing_ok=True)
        raise
    return target


def reason(error: OSError) -> str:
    """Return what went wrong without the path, for messages that name it already."""
    return error.strerror or str(error)


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
