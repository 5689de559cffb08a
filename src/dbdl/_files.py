"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_atomically(path: str | os.PathLike[str], content: bytes) -> Path:
    """Write a file under a temporary name beside its place, then move it there.

    A reader never sees half a file, and a failed write leaves what was there before.

    Parameters
    ----------
    path : str or path-like
        In a folder that exists.
    content : bytes

    Returns
    -------
    path : Path

    Raises
    ------
    OSError
        Where the folder is absent or may not be written to, or the path is a folder.
    """
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder; give the name of a file")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {target.parent}; make it first")
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~_umask())  # mkstemp makes files that only their owner can read
        os.replace(name, target)
    except BaseException:  # an interrupt too must not leave a file behind
        Path(name).unlink(missing_ok=True)
        raise
    return target


def _umask() -> int:
    """Return the process's mask for new files; it can only be read by setting it."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
