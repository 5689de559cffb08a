"""Labelled pixels of a cube as rows to learn from, in blocks of the scene.

Pixels side by side are alike, so a pixel beside those that a model learned from is no test of it.
Blocks cut the scene into a grid, and all pixels of a block belong on one side of a split
(``Protocol(folds=5, whole_groups=True)``).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbdl._warnings import warn_caller
from dbdl.datasets import Dataset
from dbdl.datasets.dataset import make_dataset
from dbdl.maps.cube import Cube, DataError, Floats
from dbdl.maps.reading import read_cube
from dbdl.maps.truth import read_truth


def labelled_pixels(
    cube: Any,
    truth: Any,
    *,
    per_class: int | None = None,
    n_blocks: int | None = None,
    random_state: int = 0,
) -> Dataset:
    """Read the spectra of labelled pixels.

    Parameters
    ----------
    cube : Cube, str, path-like or DataArray
        As for `read_cube`.
    truth : Truth, str, path-like or array-like
        As for `read_truth`.
    per_class : int, optional
        Most pixels of each class, drawn at random. By default all of them.
    n_blocks : int, optional
        Cut the scene into a grid of ``n_blocks × n_blocks``, whose cells are the ``groups`` of the
        pixels.
    random_state : int, default=0

    Returns
    -------
    dataset : Dataset
        Rows are spectra, line by line; pixels without data are left out with a warning.

    Examples
    --------
    >>> from dbdl.maps import labelled_pixels, make_scene
    >>> scene = make_scene((30, 40), n_bands=20, n_classes=3)
    >>> labelled_pixels(scene.cube, scene.truth, per_class=10)
    Dataset('scene': 30 rows of 20 spectra, 3 classes)
    """
    cube = read_cube(cube)
    labels = read_truth(truth, cube)
    rows, columns = labels.places
    if per_class is not None:
        kept = draw_per_class(labels.numbers[rows, columns], per_class, random_state)
        rows, columns = rows[kept], columns[kept]
    X, has_data = read_pixels(cube, rows, columns)
    if not has_data.all():
        warn_caller(
            f"{cube.name}: {int((~has_data).sum())} of {len(rows)} labelled pixels left out, since "
            "there is no data"
        )
        X, rows, columns = X[has_data], rows[has_data], columns[has_data]
    if not len(X):
        raise DataError(f"no labelled pixel of {cube.name} holds data")
    groups = None if n_blocks is None else block_of_pixel(rows, columns, cube.shape, n_blocks)
    return make_dataset(
        X,
        labels.labels(rows, columns),
        cube.name,
        feature_kind="spectra",
        feature_names=cube.band_names,
        groups=groups,
    )


def read_pixels(
    cube: Cube, rows: NDArray[np.intp], columns: NDArray[np.intp]
) -> tuple[Floats, NDArray[np.bool_]]:
    """Spectra (n_pixels, n_bands) of pixels in the order of their rows, and which hold data."""
    parts: list[Floats] = []
    known: list[NDArray[np.bool_]] = []
    for block in cube.blocks():
        inside = slice(*np.searchsorted(rows, (block.start, block.stop)))
        if inside.start == inside.stop:
            continue
        spectra, has_data = cube.read(block.start, block.stop)
        places = rows[inside] - block.start, columns[inside]
        parts.append(spectra[places])
        known.append(has_data[places])
    if not parts:
        return np.empty((0, cube.shape[2])), np.empty(0, bool)
    return np.concatenate(parts), np.concatenate(known)


def draw_per_class(
    numbers: NDArray[np.int32], per_class: int, random_state: int
) -> NDArray[np.intp]:
    """Return at most ``per_class`` indices of each class, ascending."""
    kept = []
    for number in np.unique(numbers):
        own = np.flatnonzero(numbers == number)
        rng = np.random.default_rng([random_state, int(number)])
        kept.append(own if len(own) <= per_class else rng.choice(own, per_class, replace=False))
    return np.sort(np.concatenate(kept))


def block_of_pixel(
    rows: NDArray[np.intp], columns: NDArray[np.intp], shape: tuple[int, ...], n_blocks: int
) -> NDArray[np.int64]:
    """Number of the cell of a grid of ``n_blocks × n_blocks`` that each pixel lies in."""
    if not 2 <= n_blocks <= min(shape[:2]):
        raise DataError(
            f"{n_blocks} blocks per side of a scene of {shape[0]} × {shape[1]} pixels; expected 2 "
            f"to {min(shape[:2])}"
        )
    return np.asarray(rows * n_blocks // shape[0] * n_blocks + columns * n_blocks // shape[1])
