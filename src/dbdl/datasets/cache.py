"""Features kept on disk under the hash of all that they depend on.

The key is made of the content and the names of the files, the extractor's name, version and
parameters. Changed input has another key, so nothing is ever out of date. A file is written
under a temporary name and renamed when it is whole, so that a kill leaves no half a file under
a valid name, and two processes may write the same key.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbdl._files import UNFINISHED, checked_path, write_atomically

logger = logging.getLogger("dbdl")

VARIABLE = "DBDL_CACHE"

# From here on, making features takes so long that it is announced.
MANY_FILES = 500
_SECONDS_OF_A_DAY = 86400


def cache_folder(folder: str | Path | None = None) -> Path:
    """Return the folder of cached features: the argument, DBDL_CACHE, or the system's own place."""
    if folder is not None:
        return checked_path(folder).expanduser()
    if os.environ.get(VARIABLE):
        return Path(os.environ[VARIABLE]).expanduser()
    return _system_cache() / "dbdl"


def _system_cache() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def content_key(recipe: Mapping[str, Any], files: Iterable[tuple[str, Path]]) -> str:
    """Hash of a recipe and of files, each with the name it counts under."""
    total = hashlib.sha256(json.dumps(recipe, sort_keys=True).encode())
    for name, path in files:
        with path.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        total.update(json.dumps([name, content]).encode())
    return total.hexdigest()[:40]


def cached(
    recipe: Mapping[str, Any],
    files: Iterable[tuple[str, Path]],
    compute: Callable[[], NDArray[Any]],
    folder: str | Path | None = None,
) -> NDArray[Any]:
    """Return an array from the cache, or compute and keep it.

    Parameters
    ----------
    recipe : mapping
        All that the array depends on besides the files, as JSON can hold it: the extractor's
        name, version and parameters.
    files : iterable of (str, Path)
        Input files, in order, each with the name that it counts under.
    compute : callable
        Makes the array. A failure is passed on, and not kept.
    folder : path, optional
        See `cache_folder`.

    Returns
    -------
    array : ndarray
    """
    place = cache_folder(folder)
    inputs = list(files)
    path = place / f"{content_key(recipe, inputs)}.npz"
    found = _read(path)
    if found is not None:
        return found
    if len(inputs) >= MANY_FILES:
        logger.warning("dbdl: reading %d files, once; the result is kept in %s", len(inputs), place)
    array = compute()
    try:
        _write(path, array)
    except OSError as error:
        warnings.warn(
            f"the features could not be kept in {place} ({error}) and will be computed again next "
            f"time; pass cache=, or set {VARIABLE}, to a folder that can be written",
            UserWarning,
            stacklevel=2,
        )
    return array


def _read(path: Path) -> NDArray[Any] | None:
    try:
        with np.load(path, allow_pickle=False) as file:
            return file["array"]
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None
    except Exception as error:  # arbitrary bytes can fail in any way
        logger.warning("dbdl: %s is damaged (%s) and will be made again", path, error)
        return None


def _write(path: Path, array: NDArray[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    _sweep_out(path.parent)
    write_atomically(path, lambda file: np.savez(file, array=array))


def _sweep_out(folder: Path) -> None:
    """Remove what killed processes left; a younger file may be another process's work."""
    for path in folder.glob(f"{UNFINISHED}*"):
        try:
            if time.time() - path.stat().st_mtime > _SECONDS_OF_A_DAY:
                path.unlink()
        except FileNotFoundError:
            pass  # another process was faster
