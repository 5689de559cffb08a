"""A data set of the catalogue: the files that it may come as, and how each is read."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dbdl.datasets.dataset import DataError, DataNotFoundError, Dataset, Options
from dbdl.datasets.formats import read_file

VARIABLE = "DBDL_DATA"


@dataclass(frozen=True)
class Form:
    """One file or folder that a data set may come as.

    Attributes
    ----------
    file : str
        Its name in the data folder.
    features : tuple of str
        Kinds of features that it gives, the usual one first.
    about : str
        Its contents, in a few words.
    read : callable, default=read_file
        Takes the path and `Options` (with ``features`` set), gives a `Dataset`.
    settings : mapping
        The data set's own parameters of each extractor, by kind of features.

    Examples
    --------
    >>> from dbdl.datasets import sources
    >>> [form.file for form in sources()["coil20"].forms]
    ['coil20_32x32.npz', 'COIL20.mat']
    """

    file: str
    features: tuple[str, ...]
    about: str
    read: Callable[[Path, Options], Dataset] = read_file
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Source:
    """A data set under the name that `load` takes.

    Attributes
    ----------
    name, title : str
    forms : tuple of Form
        In the order in which they are looked for.
    obtain : str
        Where to get it.

    Examples
    --------
    >>> from dbdl.datasets import sources
    >>> sources()["yaleb"].features
    ('random faces', 'pixels')
    """

    name: str
    title: str
    forms: tuple[Form, ...]
    obtain: str

    @property
    def features(self) -> tuple[str, ...]:
        """Kinds of features that the data set may have."""
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
            Only forms that give this kind of features.
        """
        place = data_folder(folder)
        if place is None:
            return None
        for form in self._forms(features):
            path = place if place.name == form.file else place / form.file
            if path.exists():
                return form, path
        return None

    def load(self, folder: str | Path | None, options: Options) -> Dataset:
        """Read the data set, or say what is missing."""
        if options.features is not None and options.features not in self.features:
            there = ", ".join(map(repr, self.features))
            raise DataError(f"{self.title} has no features {options.features!r}; there are {there}")
        found = self.find(folder, options.features)
        if found is None:
            raise DataNotFoundError(self._absent(folder, options.features))
        form, path = found
        kind = options.features or form.features[0]
        settings = {**form.settings.get(kind, {}), **options.settings}
        dataset = form.read(path, replace(options, features=kind, settings=settings))
        return replace(dataset, name=self.name, feature_kind=kind)

    def _forms(self, features: str | None) -> list[Form]:
        return [form for form in self.forms if features is None or features in form.features]

    def _absent(self, folder: str | Path | None, features: str | None) -> str:
        place, forms = data_folder(folder), self._forms(features)
        if place is None:
            looked = f"there is no folder to look in: {VARIABLE} is not set"
        elif place.is_dir():
            looked = f"none of these is in {place}"
        else:
            looked = f"there is no folder {place}"
        width = max(len(form.file) for form in forms)
        files = "".join(f"  {form.file:<{width}}  {form.about}\n" for form in forms)
        return (
            f"{self.title} was not found: {looked}. Any one of these will do:\n{files}"
            f"Where to get it: {self.obtain}\n"
            f"Put it in any folder, and set {VARIABLE} to that folder (or pass folder=)."
        )


def data_folder(folder: str | Path | None = None) -> Path | None:
    """Return the folder of the data sets: the argument, or what DBDL_DATA names, or None."""
    name = folder or os.environ.get(VARIABLE)
    return Path(name).expanduser() if name else None
