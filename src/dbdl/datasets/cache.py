"""Features kept on disk under a hash of everything that they depend on.

The key is made of the content and the names of the files, the extractor's name, version and
parameters. Changed input has another key, so nothing is ever out of date. Files are written whole
or not at all, so that a kill does no harm, and two processes may write the same key.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs
from numpy.typing import NDArray

from dbdl._files import checked_path, remove_stale, write_atomically
from dbdl._warnings import warn_caller

logger = logging.getLogger("dbdl")

VARIABLE = "DBDL_CACHE"

# From here on, making features takes so long that it is announced.
MANY_FILES = 500
_SECONDS_OF_A_DAY = 86400


def cache_folder(folder: str | Path | None = None) -> Path:
    """Return the folder of cached features: the argument, DBDL_CACHE, or the system's own place."""
    if folder is None:
        folder = os.environ.get(VARIABLE) or platformdirs.user_cache_path("dbdl", appauthor=False)
    return checked_path(folder).expanduser()


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
    """Return an array from the cache, or compute and keep it; a failure is not kept.

    The recipe is all that the array depends on besides the files, as JSON can hold it: the
    extractor's name, version and parameters. Files come in order, with the names they count under.
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
        place.mkdir(parents=True, exist_ok=True)
        remove_stale(place, _SECONDS_OF_A_DAY)
        write_atomically(path, lambda file: np.savez(file, array=array))
    except OSError as error:
        warn_caller(
            f"the features could not be kept in {place} ({error}) and will be computed again next "
            f"time; pass cache=, or set {VARIABLE}, to a folder that can be written",
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
