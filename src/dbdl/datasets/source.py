"""A data set of the table: the files that it may come as, and how each is read."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dbdl._columns import Columns
from dbdl.datasets.record import DataError, DataNotFoundError, Dataset

VARIABLE = "DBDL_DATA"


@dataclass(frozen=True)
class Options:
    """How to read: what the caller of `load` asked for.

    Attributes
    ----------
    features : str, optional
        Kind of features; the form's own where None.
    settings : mapping
        Parameters of the extractor.
    cache : path, optional
        Folder of cached features.
    n_jobs : int, optional
        Number of threads of the extractor.
    label : str, optional
        Name of the column or array that holds the labels.
    labelled : bool
        Whether labels are needed.
    image_shape : tuple of int, optional
        Height and width of images.
    columns : Columns, optional
        Columns of a table to use; by default all that do not number or name the rows.
    """

    features: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    cache: str | Path | None = None
    n_jobs: int | None = None
    label: str | None = None
    labelled: bool = True
    image_shape: tuple[int, int] | None = None
    columns: Columns | None = None


@dataclass(frozen=True)
class Form:
    """One file or folder that a data set may come as.

    Attributes
    ----------
    file : str
        Its name in the data folder.
    features : tuple of str
        Kinds of features that can be had from it, the usual one first.
    read : callable
        Takes the path and `Options` (with ``features`` set), gives a `Dataset`.
    about : str
        What it is, in a few words.
    """

    file: str
    features: tuple[str, ...]
    read: Callable[[Path, Options], Dataset]
    about: str


@dataclass(frozen=True)
class Source:
    """A data set under the name that `load` takes.

    Attributes
    ----------
    name : str
    title : str
    forms : tuple of Form
        In the order in which they are looked for.
    obtain : str
        Where to get it.
    """

    name: str
    title: str
    forms: tuple[Form, ...]
    obtain: str

    @property
    def features(self) -> tuple[str, ...]:
        """Kinds of features that the data set can be had with."""
        return tuple(dict.fromkeys(kind for form in self.forms for kind in form.features))

    def find(
        self, folder: str | Path | None = None, features: str | None = None
    ) -> tuple[Form, Path] | None:
        """Return the first form that is there, with its path; None where there is none.

        Parameters
        ----------
        folder : path, optional
            Where to look: a folder that holds the file, or the file itself. By default the
            folder that DBDL_DATA names.
        features : str, optional
            Only forms that this kind of features can be had from.
        """
        place = data_folder(folder)
        if place is None:
            return None
        for form in self.forms:
            if features is not None and features not in form.features:
                continue
            path = place if place.name == form.file else place / form.file
            if path.exists():
                return form, path
        return None

    def load(self, folder: str | Path | None, options: Options) -> Dataset:
        """Read the data set, or say what is missing."""
        if options.features is not None and options.features not in self.features:
            raise DataError(
                f"{self.title} has no features {options.features!r}; there are "
                + ", ".join(map(repr, self.features))
            )
        found = self.find(folder, options.features)
        if found is None:
            raise DataNotFoundError(self._absent(folder, options.features))
        form, path = found
        kind = options.features or form.features[0]
        return form.read(path, _with_features(options, kind))

    def _absent(self, folder: str | Path | None, features: str | None) -> str:
        place = data_folder(folder)
        forms = [form for form in self.forms if features is None or features in form.features]
        width = max(len(form.file) for form in forms)
        looked = (
            f"there is no folder to look in: {VARIABLE} is not set"
            if place is None
            else f"none of these is in {place}"
            if place.is_dir()
            else f"there is no folder {place}"
        )
        return "\n".join(
            [
                f"{self.title} was not found: {looked}. Any one of these will do:",
                *(f"  {form.file:<{width}}  {form.about}" for form in forms),
                f"Where to get it: {self.obtain}",
                f"Put it in a folder of your choice, and set {VARIABLE} to that folder"
                " (or pass folder=).",
            ]
        )


def data_folder(folder: str | Path | None = None) -> Path | None:
    """Return the folder of the data sets: the argument, or what DBDL_DATA names, or None."""
    if folder is not None:
        return Path(folder).expanduser()
    name = os.environ.get(VARIABLE)
    return Path(name).expanduser() if name else None


def _with_features(options: Options, kind: str) -> Options:
    return Options(**{**options.__dict__, "features": kind})
