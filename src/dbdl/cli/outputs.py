"""Checks of the files that a command will write, before hours are spent on their content."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from dbdl.cli.errors import UserError
from dbdl.datasets import sources
from dbdl.datasets.catalogue import SCIKIT_LEARN
from dbdl.datasets.image_rows import is_image
from dbdl.experiments.run import read_records


class Kind(NamedTuple):
    """A kind of output: its name in the plural, and the endings of its files, the usual first."""

    name: str
    endings: tuple[str, ...]


MODELS = Kind("models", (".skops",))
PREDICTIONS = Kind("tables of predictions", (".csv", ".parquet", ".json"))
PAGES = Kind("pages", (".html", ".htm"))
PICTURES = Kind("pictures", (".png", ".svg", ".pdf"))
EXPLANATIONS = Kind("explanations", (*PICTURES.endings, ".csv", *PAGES.endings))
RESULTS = Kind("files of results", (".jsonl",))
MAPS = Kind("maps", (".hdr", ".tif", ".tiff"))
MAP_NUMBERS = Kind("numbers of maps", (".img",))


def check_outputs(
    inputs: Iterable[str | Path | None], outputs: Mapping[Kind, Sequence[Path | None]]
) -> None:
    """Refuse outputs that cannot or should not be written.

    These are files in folders that are absent or may not be written to, files that are read
    (``inputs``: paths or names of data sets), and those whose ending promises another format.
    """
    read = [path for path in map(_path_of, inputs) if path is not None]
    written: set[str] = set()
    for kind, paths in outputs.items():
        for path in filter(None, paths):
            _check_writable(path)
            _check_not_read(path, read)
            check_ending(path, kind)
            if (place := os.path.realpath(path)) in written:
                raise UserError(f"{path} is given for two outputs; give each its own name")
            written.add(place)


def _path_of(data: str | Path | None) -> Path | None:
    """Return the file or folder that data are read from, if it exists."""
    if data is None or str(data) in SCIKIT_LEARN:
        return None
    source = sources().get(str(data))
    found = None if source is None else source.find()
    path = Path(data).expanduser() if found is None else found[1]
    return path if path.exists() else None


def _check_writable(path: Path) -> None:
    folder = path.absolute().parent
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder}; make it first")
    if path.is_dir():
        raise UserError(f"{path} is a folder; give the name of a file")
    # a file is written beside its place and then moved there; a device or a pipe is not
    places = [path] if path.exists() and not path.is_file() else [folder, path]
    if not all(os.access(place, os.W_OK) for place in places if place.exists()):
        raise UserError(f"{path} cannot be written: permission denied")


def _check_not_read(path: Path, inputs: Sequence[Path]) -> None:
    for read in inputs:
        if path.exists() and path.samefile(read):
            raise UserError(f"{path} is read by this command and would be lost; give another name")
        if read.is_dir() and is_image(path) and read.resolve() in path.resolve().parents:
            raise UserError(
                f"{path} is in {read}, whose images are read: it would count as one of them; give "
                "another folder"
            )


def check_ending(path: Path, kind: Kind) -> None:
    """Refuse the ending of another format; a file may have none, unless it tells the format."""
    name, endings = kind
    named_by_ending = (PICTURES, EXPLANATIONS, MAPS)
    if path.suffix.lower() in endings or (not path.suffix and kind not in named_by_ending):
        return
    raise UserError(f"{path}: {name} end in {', '.join(endings)}, as {path.stem}{endings[0]} does")


def check_results(path: Path | None) -> None:
    """Refuse to append results to a file of something else."""
    if path is None or not path.exists() or path.stat().st_size == 0:
        return
    if next(read_records(path), None) is None:
        raise UserError(f"{path} is not a file of results; give the name of a new file")


def make_folder(folder: Path) -> None:
    """Make a folder for outputs, unless it exists."""
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file; give the name of a folder")
    folder.mkdir(parents=True, exist_ok=True)


@contextmanager
def new_folder(folder: Path | None) -> Iterator[None]:
    """Make a folder for outputs, and remove it if what is done inside fails: nothing is written."""
    is_new = folder is not None and not folder.exists()
    if folder is not None:
        make_folder(folder)
    try:
        yield
    except BaseException:
        if is_new and folder is not None:
            folder.rmdir()
        raise
