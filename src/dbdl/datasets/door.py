"""The one way in: a data set by name or by path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import index
from pathlib import Path
from typing import Any

from dbdl._columns import Columns, checked_names, columns_by_name
from dbdl._files import checked_path
from dbdl.datasets.catalogue import SCIKIT_LEARN, read_scikit_learn, sources
from dbdl.datasets.dataset import DataError, DataNotFoundError, Dataset, Options
from dbdl.datasets.formats import TABLES, ending, read_file
from dbdl.datasets.texts import STDIN

TABLES_ARE = f"tables are {', '.join(TABLES)}"


def load(
    name_or_path: str | Path = "digits",
    *,
    features: str | None = None,
    settings: Mapping[str, Any] | None = None,
    label: str | None = None,
    labelled: bool = True,
    image_shape: tuple[int, int] | None = None,
    folder: str | Path | None = None,
    cache: str | Path | None = None,
    n_jobs: int | None = None,
    columns: Sequence[str] | Columns | None = None,
    drop: Sequence[str] = (),
    ids: str | None = None,
) -> Dataset:
    """Load a data set.

    Parameters
    ----------
    name_or_path : str or path, default="digits"
        ``"digits"``, ``"wine"``, ``"iris"`` or ``"breast_cancer"``, which come with scikit-learn; a
        name of `sources`; or a path: an ``.npz``, ``.csv``, ``.csv.gz``, ``.xlsx``, ``.parquet``
        or ``.mat`` file, or a folder that holds one folder of images per class; ``"-"`` reads a
        table, or one image, from standard input. One image, or a folder of images, may be read
        without labels.
    features : str, optional
        Kind of features: ``"pixels"``, ``"random faces"``, ``"spatial pyramid"``; by default the
        paper's for a data set of `sources`, and pixels for a folder of images.
    settings : mapping, optional
        Parameters of the extractor: those of `RandomFaces`, or those of `SpatialPyramid` and
        `DenseSIFT` and ``n_components`` for the PCA after them (by default 3000, or as many as
        there are images; None for no PCA). Codebook and PCA see all images, but no labels.
    label : str, optional
        Name of the column or array that holds the labels. By default the last column of a table,
        and the array ``y``.
    labelled : bool, default=True
        Whether there have to be labels. If not, a table has no label column unless ``label``
        names one.
    image_shape : tuple of int, optional
        Height and width: images are resized to it, and rows of a file are read as such images.
    folder : path, optional
        Folder that holds the data sets of `sources`, or the file of one; by default what the
        environment variable DBDL_DATA names.
    cache : path, optional
        Folder in which features made of images are kept; by default what the environment
        variable DBDL_CACHE names, or a folder in the system's place for caches.
    n_jobs : int, optional
        Number of threads for features made of images.
    columns : sequence of str or Columns, optional
        Names of the columns of a table to use as features, in this order; or the columns that a
        model was fitted on, as `dbdl.persistence.read_columns` returns them, which may be found
        by their places as well. By default all columns but the label, a first column without a
        name, a stored index, consecutive whole numbers, ids, and texts that are hardly ever the
        same, or always; a warning says which were left out.
    drop : sequence of str, default=()
        Names of columns of a table to leave out.
    ids : str, optional
        Name of the column of a table that names the rows. It is not a feature.

    Returns
    -------
    dataset : Dataset

    Raises
    ------
    DataNotFoundError
        Where the data is not there. The message says which files, where to get them, and where
        to put them.
    DataError
        Where data was found, but cannot be used as it is.
    TypeError
        Where an argument is of another kind.

    Examples
    --------
    >>> from dbdl.datasets import load
    >>> load("digits")
    Dataset('digits': 1797 rows of 64 pixels, 10 classes)
    """
    path = checked_path(name_or_path).expanduser()
    for name, value, kind, expected in (
        ("features", features, str, "text"),
        ("label", label, str, "text"),
        ("ids", ids, str, "text"),
        ("settings", settings, Mapping, "parameters by name, as {'n_words': 256},"),
    ):
        if value is not None and not isinstance(value, kind):
            given = type(value).__name__
            raise TypeError(f"{name}={value!r}: expected {expected} or None, got {given}")
    if features is not None:  # a command line has dashes for blanks
        features = features.replace("-", " ").replace("_", " ").lower()
    shape, known = _checked_shape(image_shape), _checked_columns(columns, path)
    dropped = checked_names("drop", drop)
    if (dropped or ids is not None) and not _is_table(path):
        raise DataError(
            f"{path} is not a table, so it has no columns for --drop and --id (in Python, drop= "
            f"and ids=); {TABLES_ARE}"
        )
    options = Options(
        features, settings or {}, cache, n_jobs, label, labelled, shape, known, dropped, ids
    )
    if str(name_or_path) in SCIKIT_LEARN:
        return read_scikit_learn(str(name_or_path), options.features)
    source = sources().get(str(name_or_path))
    if source is not None:
        return source.load(None if folder is None else checked_path(folder), options)
    if not path.exists() and str(path) != STDIN:
        names = ", ".join([*SCIKIT_LEARN, *sources()])
        raise DataNotFoundError(
            f"there is no file or folder {str(name_or_path)!r}, and no data set of that name; the "
            f"data sets are {names}"
        )
    return read_file(path, options)


def _checked_shape(shape: Any) -> tuple[int, int] | None:
    if shape is None:
        return None
    try:
        height, width = map(index, shape)
    except (TypeError, ValueError):
        height = width = 0
    if height < 1 or width < 1:
        raise DataError(f"image_shape={shape!r}: expected height and width, two whole numbers")
    return height, width


def _checked_columns(columns: Sequence[str] | Columns | None, path: Path) -> Columns | None:
    if columns is None or isinstance(columns, Columns):
        return columns
    found = columns_by_name(columns)
    if not _is_table(path):
        raise DataError(
            f"{path} is not a table, so it has no columns for --columns (in Python, columns=); "
            f"{TABLES_ARE}"
        )
    return found


def _is_table(path: Path) -> bool:
    return ending(path) in TABLES or str(path) == STDIN
