"""The options of a reader, and the record that it returns: rows, labels, and their description."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dbdl._columns import Columns, as_texts, size_of
from dbdl._extras import how_to_install
from dbdl._files import DataError as DataError

Floats = NDArray[np.floating[Any]]
Array = NDArray[Any]

#: Larger whole numbers held as floats may be rounded, so that two labels become one.
MOST_EXACT = 2.0**53


class DataNotFoundError(FileNotFoundError):
    """Data that is not there; the message says which files, where to get and where to put them.

    Examples
    --------
    >>> from dbdl.datasets import DataNotFoundError, load
    >>> try:
    ...     load("no such table.csv")
    ... except DataNotFoundError:
    ...     print("the message says where it was looked for")
    the message says where it was looked for
    """


@contextmanager
def needing(module: str, what: str, otherwise: str) -> Iterator[None]:
    """Turn an import that fails into words: ``what`` needs the module, and how to do without."""
    try:
        yield
    except ImportError as error:
        how = f"{how_to_install(module)}, or {otherwise}"
        raise DataError(f"{what}, which needs {module}: {how}") from error


@dataclass(frozen=True)
class Options:
    """How to read a data set; the parameters of `dbdl.datasets.load` say more.

    Examples
    --------
    >>> from dbdl.datasets import Options
    >>> Options(label="species").labelled
    True
    """

    features: str | None = None  # kind of features; that of the form where None
    settings: Mapping[str, Any] = field(default_factory=dict)  # parameters of the extractor
    cache: str | Path | None = None  # folder of cached features
    n_jobs: int | None = None  # threads of the extractor
    label: str | None = None  # name of the column or array that holds the labels
    labelled: bool = True  # whether labels are needed
    image_shape: tuple[int, int] | None = None  # height and width of images
    columns: Columns | None = None  # columns of a table to use as features
    drop: tuple[str, ...] = ()  # columns of a table to leave out
    ids: str | None = None  # name of the column that names the rows


@dataclass(frozen=True, eq=False)
class Dataset:
    """Labelled rows.

    Attributes
    ----------
    X : ndarray of shape (n_samples, n_features), float32 or float64
        Finite, or NaN where a value is missing. Of a table with categories: objects, with floats
        in columns of numbers and texts in those of categories, see `pipeline_for`.
    y : ndarray of shape (n_samples,), or None
        Labels, whole numbers or strings; None if unlabelled data was asked for. If labels were not
        needed and some are missing, ``y`` is an array of objects with None in these places.
    name : str
    feature_kind : str
        ``"pixels"``, ``"random faces"``, ``"spatial pyramid"``, ``"action bank"``, ``"spectra"``
        or ``"features"``.
    image_shape : tuple of int, optional
        Height and width, where a row is an image read row by row.
    groups : ndarray of shape (n_samples,), optional
        Samples of one group belong on one side of a split.
    is_test : ndarray of shape (n_samples,), bool, optional
        The data set's own test rows, where it comes with a split.
    feature_names : tuple of str, optional
    label_name : str, optional
        Name of the column that the labels came from.
    column_roles : str, optional
        Of a table: which columns were used, see `dbdl.persistence.Columns`.
    column_kinds : str, optional
        Of a table: ``n`` for each feature of numbers, ``c`` for each of categories.
    ids : ndarray of shape (n_samples,), optional
        Names of the rows: from a column of a table, or the files of images.
    id_name : str, optional
        Name of the column of ids; ``"file"`` for images.
    lines : ndarray of shape (n_samples,), int, optional
        Of a table of text: the line in the file on which each row begins.
    left_out : mapping of str to str
        Of a table: columns that were left out, and why.
    classes : ndarray of shape (n_classes,)
        The labels that occur, sorted; empty without labels.

    Examples
    --------
    >>> from dbdl.datasets import load
    >>> data = load("digits")
    >>> data.n_samples, data.n_features, data.image_shape
    (1797, 64, (8, 8))
    >>> data.classes[:3]
    array([0, 1, 2])
    """

    X: Floats
    y: Array | None
    name: str
    feature_kind: str = "features"
    image_shape: tuple[int, int] | None = None
    groups: Array | None = None
    is_test: NDArray[np.bool_] | None = None
    feature_names: tuple[str, ...] | None = None
    label_name: str | None = None
    column_roles: str | None = None
    column_kinds: str | None = None
    ids: Array | None = None
    id_name: str | None = None
    lines: NDArray[np.int64] | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)
    classes: Array = field(init=False)

    def __post_init__(self) -> None:
        known = np.empty(0) if self.y is None else self.y
        known = known_labels(known) if known.dtype == object else known
        object.__setattr__(self, "classes", np.unique(known))

    @property
    def is_labelled(self) -> NDArray[np.bool_]:
        """Which rows (n_samples,) have a label."""
        if self.y is None:
            return np.zeros(len(self.X), dtype=bool)
        return np.array([label is not None for label in self.y.tolist()], dtype=bool)

    @property
    def n_samples(self) -> int:
        """Number of rows."""
        return len(self.X)

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return int(self.X.shape[1])

    @property
    def columns(self) -> Columns:
        """What a model file keeps, so that other tables are read like this one."""
        roles, kinds = self.column_roles, self.column_kinds
        sizes = None if kinds is None else tuple(map(self._size, range(self.n_features), kinds))
        return Columns(
            self.feature_names, self.label_name, roles, kinds, self.id_name, self.image_shape, sizes
        )

    def _size(self, j: int, kind: str) -> float | None:
        return size_of(self.X[:, j].astype(np.float64)) if kind == "n" else None

    def rows(self, chosen: Array) -> Dataset:
        """Return some of the rows, by a mask or by their numbers."""
        known = {name: getattr(self, name) for name in PER_ROW if getattr(self, name) is not None}
        return replace(self, **{name: values[chosen] for name, values in known.items()})

    def with_labels(self) -> Dataset:
        """Return the rows that have a label."""
        if self.y is None:
            return self.rows(np.zeros(self.n_samples, dtype=bool))
        return replace(self.rows(self.is_labelled), y=known_labels(self.y))

    def frame(self) -> Any:
        """Return the features as a pandas DataFrame, with their names.

        Returns
        -------
        frame : DataFrame of shape (n_samples, n_features)
        """
        import pandas as pd

        kinds = self.column_kinds or "n" * self.n_features
        frame = pd.DataFrame(self.X, columns=self.feature_names)
        numbers = [name for name, kind in zip(frame.columns, kinds, strict=True) if kind == "n"]
        return frame.astype(dict.fromkeys(numbers, float)) if "c" in kinds else frame

    def __repr__(self) -> str:
        return (
            f"Dataset({self.name!r}: {self.n_samples} rows of {self.n_features} "
            f"{self.feature_kind}, {len(self.classes)} classes)"
        )


#: Fields of a data set that have an entry per row.
PER_ROW = ("X", "y", "groups", "is_test", "ids", "lines")


def make_dataset(X: ArrayLike, y: ArrayLike | None, name: str, **details: Any) -> Dataset:
    """Check rows and labels and make a record of them; images (n, height, width) are unrolled."""
    rows = np.asarray(X)
    has_texts = "c" in (details.get("column_kinds") or "")
    if rows.dtype.kind not in "fiub" and not has_texts:
        raise DataError(
            f"{name}: the features are {rows.dtype}, expected numbers; convert or leave out what "
            "is not numeric"
        )
    if rows.ndim == 3 and details.get("image_shape") is None:
        details["image_shape"] = (rows.shape[1], rows.shape[2])
        details.setdefault("feature_kind", "pixels")
    rows = rows.reshape(len(rows), -1) if rows.ndim == 3 else rows
    if rows.ndim != 2 or rows.size == 0:
        raise DataError(
            f"{name}: the features have the shape {rows.shape}, expected one row per sample and "
            "at least one column"
        )
    if has_texts:
        is_number = np.array([kind == "n" for kind in details["column_kinds"]])
        numbers = np.where(is_number, rows, 0.0).astype(np.float64)
    else:
        # float32 holds float32 and numbers of two bytes exactly
        short = rows.dtype == np.float32 or rows.dtype.itemsize <= 2
        numbers = rows = np.ascontiguousarray(rows, dtype=np.float32 if short else np.float64)
    _check_finite(numbers, name, details.get("feature_names"), details.get("lines"))
    shape = details.get("image_shape")
    if shape is not None and shape[0] * shape[1] != rows.shape[1]:
        raise DataError(
            f"{name}: image_shape={shape} has {shape[0] * shape[1]} pixels, but rows have "
            f"{rows.shape[1]} features"
        )
    labels = None if y is None else _labels_with_gaps(y, name)
    if labels is not None and len(labels) != len(rows):
        raise DataError(f"{name}: {len(rows)} rows of features, but {len(labels)} labels")
    return Dataset(rows, labels, name, **details)


def _labels_with_gaps(y: ArrayLike, name: str) -> Array:
    """Return labels of which some may be None."""
    labels = np.asarray(y)
    if labels.ndim != 1 or labels.dtype != object or None not in labels.tolist():
        return clean_labels(labels, name)
    gaps = np.array([label is None for label in labels.tolist()])
    if not gaps.all():
        labels = labels.copy()
        labels[~gaps] = clean_labels(known_labels(labels), name).tolist()
    return labels


def known_labels(labels: Array) -> Array:
    """Return those of labels that are not None, as an array of their own type."""
    return np.array([label for label in labels.tolist() if label is not None])


def clean_labels(y: ArrayLike, name: str) -> Array:
    """Return one label per sample: whole numbers or strings.

    One-hot rows become the number of their column. Whole numbers held as floats become integers.
    """
    labels = np.asarray(y)
    if labels.ndim == 2 and 1 in labels.shape:
        labels = labels.ravel()
    if labels.ndim == 2:
        labels = from_one_hot(labels, name)
    if labels.dtype.kind in "SO":
        labels = as_texts(labels.ravel().tolist())
    if labels.dtype.kind == "u" and labels.max(initial=0) > np.iinfo(np.int64).max:
        raise DataError(f"{name}: the label {labels.max()} is too large; write names instead")
    if labels.dtype.kind == "f":
        odd = ~(np.abs(labels) <= MOST_EXACT) | (labels != np.round(labels))
        if odd.any():
            raise DataError(
                f"{name}: labels are whole numbers or names, but one is {labels[odd][0]}; name "
                "the column or array that holds the labels: --label (in Python, label=...). If "
                "these are the labels, write names instead"
            )
        labels = labels.astype(np.int64)
    if labels.ndim != 1 or labels.dtype.kind not in "iubU":
        raise DataError(
            f"{name}: the labels have the shape {labels.shape} and hold {labels.dtype}; expected "
            "one whole number or name per sample"
        )
    return labels.astype(np.int64) if labels.dtype.kind in "iub" else labels


def from_one_hot(labels: Array, name: str) -> NDArray[np.int64]:
    """Return the number of the column that is not zero in each row."""
    if labels.dtype.kind not in "fiub" or not ((labels != 0).sum(axis=1) == 1).all():
        raise DataError(
            f"{name}: the labels have the shape {labels.shape}, but their rows do not have exactly "
            "one entry that is not zero; expected one label per sample, or one-hot rows"
        )
    return np.argmax(labels != 0, axis=1)


def _check_finite(
    rows: Floats, name: str, feature_names: tuple[str, ...] | None, lines: Array | None
) -> None:
    bad = np.isinf(rows)
    if not bad.any():
        return
    i, j = np.argwhere(bad)[0]
    column = f"column {j + 1}" + (f" ({feature_names[j]!r})" if feature_names else "")
    place = f"row {i + 1}" if lines is None else f"line {lines[i]}"
    count = f"{bad.sum()} of {bad.size} values {'is' if bad.sum() == 1 else 'are'} infinite"
    raise DataError(
        f"{name}: {place}, {column} is {rows[i, j]}, and {count}; write NA for values that are not "
        "known, or leave out those rows"
    )
