"""Labels of pixels: a raster of class numbers (0 = unlabelled), or a table of points."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbdl._files import checked_path, reading
from dbdl._warnings import warn_caller
from dbdl.datasets.cells import NO_LABEL, labels_of_texts
from dbdl.datasets.dataset import clean_labels
from dbdl.datasets.texts import Line, content_of, lines_of_text, split_header
from dbdl.maps.cube import Array, Cube, DataError
from dbdl.maps.data_array import is_data_array
from dbdl.maps.envi import find_header, read_header, values_of
from dbdl.maps.reading import ENVI_ENDINGS, GEOTIFF_ENDINGS, read_cube

#: Headings of a table of points, in lower case.
POINT_HEADINGS = {
    "row": ("row", "line"),
    "column": ("column", "col", "sample"),
    "x": ("x", "easting", "lon", "longitude"),
    "y": ("y", "northing", "lat", "latitude"),
    "label": ("label", "class", "labels", "name", "target"),
}


@dataclass(frozen=True, eq=False)
class Truth:
    """Known classes of some pixels.

    Attributes
    ----------
    numbers : ndarray of shape (n_lines, n_samples), int32
        ``c + 1`` for pixels of ``classes[c]``, 0 for those without a label.
    classes : ndarray of shape (n_classes,)
        Labels that occur, sorted: whole numbers or names.

    Examples
    --------
    >>> import numpy as np
    >>> from dbdl.maps import Truth
    >>> truth = Truth(np.array([[0, 1], [2, 1]]), np.array(["maize", "wheat"]))
    >>> truth.n_labelled, truth.labels(*truth.places).tolist()
    (3, ['maize', 'wheat', 'maize'])
    """

    numbers: NDArray[np.int32]
    classes: NDArray[Any]

    @property
    def n_labelled(self) -> int:
        """Number of labelled pixels."""
        return int(np.count_nonzero(self.numbers))

    @property
    def places(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Rows and columns, from 0, of the labelled pixels, line by line."""
        rows, columns = np.nonzero(self.numbers)
        return rows, columns

    def labels(self, rows: Array, columns: Array) -> NDArray[Any]:
        """Labels of labelled pixels."""
        return self.classes[self.numbers[rows, columns] - 1]


def read_truth(source: Any, cube: Cube, *, array: str | None = None) -> Truth:
    """Read the labels of the pixels of a cube.

    Parameters
    ----------
    source : str, path-like, array-like of shape (n_lines, n_samples), DataArray or Truth
        A raster of whole numbers, where 0 means unlabelled: ENVI (whose class names become the
        labels), GeoTIFF, ``.npy`` or ``.mat``. Or a table of points, ``.csv``: its headings are
        ``row``, ``column`` (which count from 1) and ``label``, or ``x``, ``y`` (in map coordinates)
        and ``label``.
    cube : Cube
    array : str, optional
        Name of the array in a ``.mat`` file; by default the one of the right shape.

    Returns
    -------
    truth : Truth

    Raises
    ------
    DataError
        If labels cannot be read, or are those of another scene. The message says what to do.

    Examples
    --------
    >>> from dbdl.maps import make_scene, read_truth
    >>> scene = make_scene((20, 30), n_bands=12, n_classes=3)
    >>> read_truth(scene.truth, scene.cube).classes.tolist()
    [1, 2, 3]
    """
    if isinstance(source, Truth):
        return _checked(source, cube, "the truth")
    if not isinstance(source, str | os.PathLike):
        values = source.values if is_data_array(source) else source
        return truth_of_raster(np.asarray(values), cube, "the truth")
    path = checked_path(source).expanduser()
    ending = path.suffix.lower()
    if ending not in READERS:
        raise DataError(
            f"{path}: cannot read {ending or 'a file without ending'} as labels of pixels; "
            "expected an ENVI header (.hdr), .tif, .npy, .mat or a .csv of points"
        )
    if not path.is_file():
        raise DataError(f"there is no file {path}")
    return READERS[ending](path, cube, array)


def truth_of_raster(
    raster: Array,
    cube: Cube,
    name: str,
    class_names: Sequence[str] = (),
    ignore_value: float | None = None,
) -> Truth:
    """Return the labels in a raster (n_lines, n_samples) of whole numbers."""
    raster = raster[..., 0] if raster.ndim == 3 and raster.shape[2] == 1 else raster
    _check_shape(raster.shape, cube, name)
    if raster.dtype.kind not in "fiub":
        raise DataError(f"{name} holds {raster.dtype}; expected whole numbers")
    labelled = np.isfinite(raster) & (raster != 0)
    if ignore_value is not None:
        labelled &= raster != ignore_value
    found = raster[labelled]
    if not np.array_equal(found, np.round(found)) or (found < 0).any():
        odd = found[(found != np.round(found)) | (found < 0)][0]
        raise DataError(
            f"{name} holds {odd}; expected whole numbers from 0 on, where 0 means unlabelled"
        )
    labels: Array = found.astype(np.int64)
    if class_names:
        if labels.size and labels.max() >= len(class_names):
            raise DataError(
                f"{name} has class {labels.max()}, but names of {len(class_names)} classes only "
                "(0 is the first)"
            )
        labels = np.array(class_names)[labels]
    return _truth(labels, labelled, name)


def truth_of_points(
    rows: Array, columns: Array, labels: Array, cube: Cube, name: str = "the points"
) -> Truth:
    """Return the labels of points; rows and columns count from 0."""
    lines, samples = cube.shape[:2]
    outside = (rows < 0) | (rows >= lines) | (columns < 0) | (columns >= samples)
    if outside.any():
        i = int(outside.argmax())
        raise DataError(
            f"{name}: point {i + 1} is in row {rows[i] + 1}, column {columns[i] + 1}, and "
            f"{outside.sum()} of {len(rows)} points are outside of the scene, which has rows 1 to "
            f"{lines} and columns 1 to {samples}"
        )
    cleaned = clean_labels(labels, name)
    classes, number = np.unique(cleaned, return_inverse=True)
    numbers = np.zeros((lines, samples), np.int32)
    numbers[rows, columns] = number + 1
    other = numbers[rows, columns] != number + 1
    if other.any():
        i = int(other.argmax())
        raise DataError(
            f"{name}: the pixel in row {rows[i] + 1}, column {columns[i] + 1} has two labels, "
            f"{str(cleaned[i])!r} and {str(classes[numbers[rows[i], columns[i]] - 1])!r}"
        )
    return Truth(numbers, classes)


def _truth(labels: Array, labelled: NDArray[np.bool_], name: str) -> Truth:
    if not labels.size:
        raise DataError(f"{name} labels no pixel: all its values are 0")
    classes, number = np.unique(labels, return_inverse=True)
    numbers = np.zeros(labelled.shape, np.int32)
    numbers[labelled] = number + 1
    return Truth(numbers, classes)


def _checked(truth: Truth, cube: Cube, name: str) -> Truth:
    _check_shape(truth.numbers.shape, cube, name)
    return truth


def _check_shape(shape: tuple[int, ...], cube: Cube, name: str) -> None:
    if tuple(shape) != cube.shape[:2]:
        raise DataError(
            f"{name} has the shape {tuple(shape)}, but {cube.name} has {cube.shape[0]} lines of "
            f"{cube.shape[1]} samples; expected a label for each of its pixels"
        )


# -------------------------------------------------------------------------------------- files


def _read_raster(path: Path, cube: Cube, array: str | None) -> Truth:
    raster = read_cube(path)
    if raster.shape[2] != 1:
        raise DataError(f"{path} has {raster.shape[2]} bands; expected labels in a single one")
    _check_shape(raster.shape[:2], cube, str(path))
    names: list[str] = []
    if path.suffix.lower() not in GEOTIFF_ENDINGS:
        names = values_of(read_header(find_header(path)).get("class names", ""))
    stored = raster.lines(0, raster.shape[0])
    return truth_of_raster(stored, cube, str(path), names, raster.ignore_value)


def _read_npy(path: Path, cube: Cube, array: str | None) -> Truth:
    with reading(path, ".npy file of numbers"):
        found = np.load(path, allow_pickle=False)
    return truth_of_raster(found, cube, str(path))


def _read_mat(path: Path, cube: Cube, array: str | None) -> Truth:
    from scipy.io import loadmat

    with reading(path, "MATLAB file"):
        held = {name: np.asarray(v) for name, v in loadmat(path).items() if name[:2] != "__"}
    there = ", ".join(f"{name} {value.shape}" for name, value in held.items()) or "no arrays"
    if array is not None and array not in held:
        raise DataError(f"{path} has no array {array}; it holds {there}")
    fitting = [array] if array else [n for n, v in held.items() if v.shape == cube.shape[:2]]
    if len(fitting) != 1:
        raise DataError(
            f"{path} has {len(fitting)} arrays of the scene's shape {cube.shape[:2]}; it holds "
            f"{there}. Expected one array of labels, or its name."
        )
    return truth_of_raster(held[str(fitting[0])], cube, f"{path}: {fitting[0]}")


def _read_points(path: Path, cube: Cube, array: str | None) -> Truth:
    """Read a table of points, like any other table: see `dbdl.datasets.texts`."""
    headings, lines = _table_of_points(path)
    where = {
        kind: next((headings.index(name) for name in names if name in headings), -1)
        for kind, names in POINT_HEADINGS.items()
    }
    by_pixel, by_map = min(where["row"], where["column"]) >= 0, min(where["x"], where["y"]) >= 0
    if where["label"] < 0 or not (by_pixel or by_map):
        raise DataError(
            f"{path} has the headings {', '.join(headings)}; expected row, column and label (rows "
            "and columns count from 1), or x, y and label in map coordinates"
        )
    lines = _labelled(lines, where["label"], path)
    first, second = ("row", "column") if by_pixel else ("x", "y")
    one, other = (
        _numbers(lines, where[kind], headings[where[kind]], path) for kind in (first, second)
    )
    labels = labels_of_texts([cells[where["label"]].strip() for _, cells in lines])
    if by_pixel:
        if not np.array_equal(one, np.round(one)) or not np.array_equal(other, np.round(other)):
            raise DataError(f"{path}: rows and columns are whole numbers; use x and y otherwise")
        return truth_of_points(
            one.astype(np.int64) - 1, other.astype(np.int64) - 1, labels, cube, str(path)
        )
    if cube.georeference is None:
        raise DataError(
            f"{path} has map coordinates, but {cube.name} does not say where it lies; use row and "
            "column"
        )
    return truth_of_points(*cube.georeference.pixels(one, other), labels, cube, str(path))


def _table_of_points(path: Path) -> tuple[list[str], list[Line]]:
    """Return the headings in lower case, and the lines below them."""
    with reading(path, "table of points"):
        content = content_of(path)
    lines, _ = lines_of_text(path, content)
    names, body = split_header(path, lines, lambda cells: True)
    return [name.lower() for name in names or ()], body


def _labelled(lines: list[Line], place: int, path: Path) -> list[Line]:
    """Return the lines with a label; the others are left out with a warning."""
    known = [(n, cells) for n, cells in lines if cells[place].strip().lower() not in NO_LABEL]
    if not known:
        raise DataError(f"{path}: no point has a label; fill in the column of the labels")
    if len(known) < len(lines):
        n_gaps = len(lines) - len(known)
        warn_caller(f"{path}: no label for {n_gaps} of {len(lines)} points, which are left out")
    return known


def _numbers(lines: Sequence[Line], place: int, name: str, path: Path) -> NDArray[np.float64]:
    """Return the numbers of a column, with decimal points or commas."""
    values = []
    for n, cells in lines:
        text = cells[place].strip()
        try:
            value = float(text.replace(",", "."))
        except ValueError as error:
            raise DataError(f"{path}, line {n}: {name} is {text!r}; expected a number") from error
        if not np.isfinite(value):
            raise DataError(f"{path}, line {n}: {name} is not finite")
        values.append(value)
    return np.array(values)


READERS = {
    **dict.fromkeys((*GEOTIFF_ENDINGS, *(e for e in ENVI_ENDINGS if e)), _read_raster),
    ".npy": _read_npy,
    ".mat": _read_mat,
    ".csv": _read_points,
}
