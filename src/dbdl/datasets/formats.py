"""Anybody's data: ``.npz``, tables, ``.mat``, an image, or a folder of images by class."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dbdl._columns import some
from dbdl._files import reading
from dbdl._warnings import warn_caller
from dbdl.datasets.dataset import (
    Array,
    DataError,
    DataNotFoundError,
    Dataset,
    Options,
    clean_labels,
    from_one_hot,
    make_dataset,
    needing,
)
from dbdl.datasets.image_rows import (
    dataset_of_content,
    dataset_of_images,
    is_content_of_image,
    is_image,
    list_images,
)
from dbdl.datasets.tables import read_content, read_csv, read_parquet, read_workbook
from dbdl.datasets.texts import STDIN, content_of

# Names that features and labels go under, the plainest first; compared in lower case.
FEATURE_NAMES = ("x", "features", "feature", "feats", "fea", "data")
SPLIT_NAMES = (
    ("x_train", "y_train", "x_test", "y_test"),
    ("tr_dat", "trls", "tt_dat", "ttls"),  # as the authors of SRC, CRC and FDDL share their data
    ("y_train", "label_train", "y_test", "label_test"),  # as DICTOL does: Y are features
)
LABEL_NAMES = ("y", "labels", "label", "target", "targets", "gnd", "class")
#: What to do with images to learn from them.
TO_LEARN = (
    "to learn, put the images of each class in a folder named after the class, and give the folder "
    "that holds these"
)
# MATLAB files of version 7.3 are HDF5; MATLAB writes a header of its own before that part.
HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
HDF5_STARTS = (0, 512)
#: Names of the LC-KSVD authors, in lower case, and the usual ones: a whole data set, or one split.
#: Their samples are columns, and their labels one-hot.
LCKSVD_NAMES = (
    {"featuremat": "X", "labelmat": "y"},
    {"training_feats": "X_train", "h_train": "y_train",
     "testing_feats": "X_test", "h_test": "y_test"},
)  # fmt: skip


def read_file(path: Path, options: Options) -> Dataset:
    """Read a file by its ending, a folder of images, or a table or image from standard input."""
    if str(path) == STDIN:
        return read_stdin(options)
    if path.is_dir():
        return read_folder(path, options)
    if is_image(path) and path.is_file():
        return read_image(path, options)
    reader = READERS.get(ending(path))
    if reader is None:
        hint = "; save it as .xlsx or .csv" if path.suffix.lower() in OLD_WORKBOOKS else ""
        raise DataError(
            f"{path}: cannot read {path.suffix or 'a file without ending'}{hint}; there are "
            f"readers for {', '.join(READERS)}, and for images and a folder of images by class"
        )
    if not path.is_file():
        raise DataNotFoundError(f"there is no file {path}")
    if options.settings:
        raise DataError(
            f"{path} holds ready-made features, so the setting {sorted(options.settings)[0]!r} has "
            "no use; settings are for folders of images"
        )
    return reader(path, options)


def ending(path: Path) -> str:
    """Return the ending by which a file is read, in lower case, as .csv or .csv.gz."""
    suffix = path.suffix.lower()
    return "".join(path.suffixes[-2:]).lower() if suffix == ".gz" else suffix


def pixels_by_columns(height: int, width: int) -> Callable[[Path, Options], Dataset]:
    """Return a reader of pixels in the order of columns; it turns the images upright."""
    shape = (height, width)

    def read(path: Path, options: Options) -> Dataset:
        if options.image_shape not in (None, shape):
            raise DataError(
                f"{path} holds images of {height}×{width} pixels, not of "
                f"{options.image_shape[0]}×{options.image_shape[1]}"
            )
        found = read_file(path, replace(options, image_shape=shape))
        upright = np.swapaxes(found.X.reshape(-1, width, height), 1, 2)
        return replace(found, X=np.ascontiguousarray(upright.reshape(found.X.shape)))

    return read


def read_folder(folder: Path, options: Options, keep: Callable[[Path], bool] = is_image) -> Dataset:
    """Read the images to ``keep`` in a folder that holds one folder of them per class.

    Unlabelled images may lie in the folder itself.
    """
    paths, labels = list_images(folder, keep)
    loose = [path for path in folder.iterdir() if keep(path)]
    options = replace(options, features=options.features or "pixels")
    if loose and not options.labelled:
        return dataset_of_images(sorted([*loose, *paths]), None, folder, options)
    if loose and not paths:
        raise DataError(
            f"{folder} holds images, but no folders of them; put the images of each class in a "
            "folder named after the class"
        )
    if not paths:
        raise DataError(f"{folder} holds no images; expected one folder of images per class")
    inner = {path.name for path in folder.iterdir() if path.is_dir() and path.name[0] != "."}
    if empty := sorted(inner - set(labels)):
        warn_caller(f"{folder}: no images in {some(empty)}, which is not a class then")
    return dataset_of_images(paths, labels, folder, options)


def read_image(path: Path, options: Options) -> Dataset:
    """Read one image, which has no label."""
    if options.labelled:
        raise DataError(f"{path} is one image; {TO_LEARN}")
    options = replace(options, features=options.features or "pixels")
    return dataset_of_images([path], None, path.parent, options)


def read_stdin(options: Options) -> Dataset:
    """Read a table or one image from standard input; its content says what it is."""
    content, shown = content_of(Path(STDIN)), Path("standard input")
    if not is_content_of_image(content):
        return read_content(content, shown, options)
    if options.labelled:
        raise DataError(f"{shown} is one image; {TO_LEARN}")
    if options.drop or options.ids is not None:
        raise DataError(f"{shown} is an image, so it has no columns to drop and no ids")
    return dataset_of_content(content, str(shown), options)


def read_npz(path: Path, options: Options) -> Dataset:
    """Read arrays ``X`` and ``y`` (or the like), or those of a split: ``X_train``, ``y_train``, ...

    Where the labels are the numbers of an array ``classes`` of names, the names become the labels.
    """
    with reading(path, ".npz file"):
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
        except ValueError as error:
            if "allow_pickle" not in str(error) or not zipfile.is_zipfile(path):
                raise
            raise DataError(
                f"{path} holds Python objects, which are not read, since they could run code; "
                "save plain arrays of numbers and of strings"
            ) from error
    return _dataset_of_arrays(arrays, path, options)


def read_mat_file(path: Path, options: Options) -> Dataset:
    """Read a MATLAB file: ``featureMat`` and ``labelMat``, ``fea`` and ``gnd``, ``X`` and ``y``."""
    arrays = _read_hdf5(path) if _is_hdf5(path) else _read_version_5(path)
    if options.label is None:
        arrays = _turn_lcksvd(arrays, path)
    return _dataset_of_arrays(arrays, path, options)


def _turn_lcksvd(arrays: dict[str, Array], path: Path) -> dict[str, Array]:
    """Return arrays of the LC-KSVD authors as rows and classes from 1, others as they are."""
    by_name = {name.lower(): array.T for name, array in arrays.items()}
    for names in LCKSVD_NAMES:
        if set(names) <= set(by_name):
            return {
                new: from_one_hot(by_name[old], str(path)) + 1 if new[0] == "y" else by_name[old]
                for old, new in names.items()
            }
    return arrays


def _is_hdf5(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(HDF5_STARTS[-1] + len(HDF5_SIGNATURE))
    return any(head[start:].startswith(HDF5_SIGNATURE) for start in HDF5_STARTS)


def _read_version_5(path: Path) -> dict[str, Array]:
    from scipy.io import loadmat

    with reading(path, "MATLAB file"):
        found = loadmat(path)
    arrays = {
        name: _texts_of_cells(np.asarray(value.toarray() if hasattr(value, "toarray") else value))
        for name, value in found.items()
        if not name.startswith("__")
    }
    return {name: array for name, array in arrays.items() if array.dtype.kind in "fiubUc"}


def _texts_of_cells(array: Array) -> Array:
    """Return a cell array of texts as an array of these; any other array as it is."""
    cells = array.ravel().tolist() if array.dtype == object else []
    are_texts = (isinstance(c, np.ndarray) and c.dtype.kind == "U" and c.size <= 1 for c in cells)
    if not cells or not all(are_texts):
        return array
    return np.array([str(cell.item()) if cell.size else "" for cell in cells]).reshape(array.shape)


def _read_hdf5(path: Path) -> dict[str, Array]:
    what, otherwise = "is a MATLAB file of version 7.3", "save it with MATLAB's save(..., '-v7')"
    with needing("h5py", f"{path} {what}", otherwise):
        import h5py
    with reading(path, "MATLAB file"), h5py.File(path, "r") as file:
        sets = {name: item for name, item in file.items() if isinstance(item, h5py.Dataset)}
        # HDF5 counts axes in the order of rows, MATLAB in the order of columns
        arrays = {
            name: np.asarray(item if item.dtype != h5py.ref_dtype else _cells_of_hdf5(file, item)).T
            for name, item in sets.items()
        }
    texts = {name: _texts_of_cells(array) for name, array in arrays.items()}
    return {name: array for name, array in texts.items() if array.dtype.kind in "fiubU"}


def _cells_of_hdf5(file: Any, cells: Any) -> Array:
    """Return a cell array as objects: texts, as scipy reads them, or None for anything else."""
    found = np.empty(cells.shape, dtype=object)
    for place, reference in np.ndenumerate(cells[...]):
        cell = file[reference]
        if cell.attrs.get("MATLAB_class") == b"char":
            codes = [] if "MATLAB_empty" in cell.attrs else np.asarray(cell).T.ravel().tolist()
            text = np.array(codes, dtype="<u2").tobytes().decode("utf-16-le", "replace")
            found[place] = np.array([text])
    return found


def _dataset_of_arrays(arrays: Mapping[str, Array], path: Path, options: Options) -> Dataset:
    by_name = {name.lower(): array for name, array in arrays.items()}
    details: dict[str, Any] = {}
    shape = by_name.get("image_shape", np.empty(0))
    if options.image_shape or shape.size == 2:
        details["image_shape"] = options.image_shape or tuple(map(int, shape.ravel()))
        details["feature_kind"] = "pixels"
    for names in SPLIT_NAMES:
        if {names[0], names[2]} <= set(by_name):
            return _dataset_of_split(by_name, names, path, details)
    there = ", ".join(f"{name} {array.shape}" for name, array in arrays.items()) or "no arrays"
    rows = _first(FEATURE_NAMES, by_name)
    if rows is None:
        raise DataError(
            f"{path} has no array X for the features; it holds {there}. Save them under the names "
            "X and y"
        )
    labels = _first((options.label.lower(),) if options.label else LABEL_NAMES, by_name)
    if labels is not None:
        rows, labels = _rows_and_labels(rows, labels, path)
        labels = _named(labels, by_name.get("classes"))
    elif options.labelled:
        wanted = options.label or "y"
        raise DataError(f"{path} has no array {wanted} for the labels; it holds {there}")
    groups = by_name.get("groups")
    if groups is not None and len(groups.ravel()) == len(rows):
        details["groups"] = groups.ravel()
    return make_dataset(rows, labels, path.stem, **details)


def _dataset_of_split(
    by_name: Mapping[str, Array],
    names: tuple[str, str, str, str],
    path: Path,
    details: dict[str, Any],
) -> Dataset:
    missing = [name for name in names if name not in by_name]
    if missing:
        raise DataError(f"{path} has {names[0]} and {names[2]}, but no {missing[0]}")
    x_train, y_train, x_test, y_test = (by_name[name] for name in names)
    train, train_labels = _rows_and_labels(x_train, y_train, path)
    test, test_labels = _rows_and_labels(x_test, y_test, path)
    if train.shape[1:] != test.shape[1:]:
        raise DataError(
            f"{path}: {names[0]} has rows of the shape {train.shape[1:]}, {names[2]} of "
            f"{test.shape[1:]}; both need the same features"
        )
    is_test = np.repeat([False, True], [len(train), len(test)])
    rows = np.concatenate([train, test])
    labels = np.concatenate([train_labels, test_labels])
    return make_dataset(rows, labels, path.stem, is_test=is_test, **details)


def _rows_and_labels(rows: Array, labels: Array, path: Path) -> tuple[Array, Array]:
    """Rows and labels with samples along the first axis, whichever way they came."""
    if labels.ndim == 2 and labels.shape[0] != len(rows) and labels.shape[1] in rows.shape:
        labels = labels.T  # one-hot labels with samples in columns
    found = clean_labels(labels, str(path))
    if rows.ndim == 2 and len(rows) != len(found) == rows.shape[1]:
        rows = rows.T
    if len(rows) != len(found):
        raise DataError(
            f"{path}: the features have the shape {rows.shape}, but there are {len(found)} labels; "
            "expected one row of features per label"
        )
    return rows, found


def _named(labels: Array, names: Array | None) -> Array:
    """Replace the numbers of classes by names, if there is a name for each of them."""
    if names is None or names.dtype.kind not in "US" or labels.dtype.kind != "i":
        return labels
    numbered = names.astype(str).ravel()
    if labels.min() < 0 or labels.max() >= len(numbered):
        return labels
    return numbered[labels]


def _first(names: Iterable[str], by_name: Mapping[str, Array]) -> Array | None:
    return next((by_name[name] for name in names if name in by_name), None)


TABLES = {
    **dict.fromkeys((".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz"), read_csv),
    ".xlsx": read_workbook,
    ".parquet": read_parquet,
}
READERS = {".npz": read_npz, **TABLES, ".mat": read_mat_file}
#: Workbooks that are not read.
OLD_WORKBOOKS = (".xls", ".ods", ".xlsm", ".numbers")
