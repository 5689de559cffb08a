"""Rows made of image files: pixels, random faces, spatial pyramids; the last two are cached."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA

from dbdl._columns import some
from dbdl._files import reading
from dbdl._warnings import warn_caller
from dbdl.datasets.cache import cached
from dbdl.datasets.dataset import DataError, Dataset, Options, make_dataset
from dbdl.features import DenseSIFT, RandomFaces, SpatialPyramid, read_grey
from dbdl.features.dense_sift import VERSION as SIFT_VERSION
from dbdl.features.images import VERSION as IMAGES_VERSION
from dbdl.features.images import decode_grey, open_image, turn_upright
from dbdl.features.random_faces import VERSION as RANDOM_FACES_VERSION
from dbdl.features.spatial_pyramid import VERSION as PYRAMID_VERSION

SUFFIXES = frozenset({".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff"})

# How files of images begin: PNG, JPEG, GIF, TIFF, BMP, and the netpbm formats.
STARTS = (
    rb"\x89PNG", rb"\xff\xd8\xff", rb"GIF8[79]a", rb"II\*\0|MM\0\*", rb"(?s)BM.{4}\0\0\0\0",
    rb"P[1-6]\s+(#[^\n]*\n\s*)*\d+\s+\d+\s",
)  # fmt: skip

# The paper reduces spatial pyramids to this many numbers by PCA.
N_COMPONENTS = 3000

# Images that are held in memory as pixels at a time.
BATCH = 256

# Images of any size become squares of this side, unless all have one size with no more pixels.
SIDE = 32

#: What the names of rows of images are called.
FILE = "file"

#: Names that count in the key of the cache, and paths.
Files = list[tuple[str, Path]]


def is_image(path: Path) -> bool:
    """Whether the name is that of an image; hidden files are not images."""
    return path.suffix.lower() in SUFFIXES and not path.name.startswith(".")


def list_images(
    folder: Path, keep: Callable[[Path], bool] = is_image
) -> tuple[list[Path], NDArray[Any]]:
    """Images of a folder of class folders, and the class folder of each, sorted by name."""
    paths = sorted(
        path
        for class_folder in folder.iterdir()
        if class_folder.is_dir() and not class_folder.name.startswith(".")
        for path in class_folder.rglob("*")
        if keep(path) and path.is_file()
    )
    return paths, np.array([path.relative_to(folder).parts[0] for path in paths], dtype=str)


def dataset_of_images(
    paths: Sequence[Path], y: NDArray[Any] | None, folder: Path, options: Options
) -> Dataset:
    """Make rows of images by ``options.features``; y has shape (n_images,), or is None.

    The folder gives the data set its name; in the key of the cache, file names count from there.
    """
    name, features = folder.resolve().name, options.features
    if features not in _EXTRACTORS:
        there = ", ".join(map(repr, _EXTRACTORS))
        raise DataError(f"{name}: images have no features {features!r}; there are {there}")
    shape = None
    if features == "pixels":
        shape = options.image_shape or _usual_shape(paths)
        options = replace(options, image_shape=shape)
    files = [(path.relative_to(folder).as_posix(), path) for path in paths]
    try:
        X = _EXTRACTORS[features](files, dict(options.settings), options)
    except DataError:
        raise
    except ValueError as error:  # an image or a parameter that an extractor refuses, and names
        raise DataError(str(error)) from error
    _note_frames(files, folder)
    ids = np.array([name for name, _ in files])
    details = {"feature_kind": features, "image_shape": shape, "ids": ids, "id_name": FILE}
    return make_dataset(X, y, name, **details)


def is_content_of_image(content: bytes) -> bool:
    """Whether bytes begin as a file of an image does, and no table."""
    return any(re.match(start, content) is not None for start in STARTS)


def dataset_of_content(content: bytes, name: str, options: Options) -> Dataset:
    """Make a row of the pixels of an image, given as the bytes of its file."""
    if options.settings or options.features not in (None, "pixels"):
        raise DataError(f"{name} is an image, of which only pixels are read; save it as a file")
    try:
        grey = decode_grey(content, name)
        shape = options.image_shape or _usual_side(grey.shape[0], grey.shape[1])
        grey = decode_grey(content, name, shape)
    except ValueError as error:
        raise DataError(str(error)) from error
    _note_frames([(name, io.BytesIO(content))])
    row = grey.reshape(1, -1)
    return make_dataset(row, None, name, feature_kind="pixels", image_shape=shape)


def _pixels(files: Files, settings: dict[str, Any], options: Options) -> NDArray[Any]:
    for name in settings:
        raise DataError(f"unknown setting {name!r}: pixels have no parameters but image_shape")
    return read_pixels([path for _, path in files], options.image_shape)


def read_pixels(paths: Sequence[Path], shape: tuple[int, int] | None) -> NDArray[np.float32]:
    """Rows of grey levels, (n_images, height * width); all of one size where no shape is given."""
    images = [read_grey(path, shape=shape) for path in paths]
    for path, image in zip(paths, images, strict=True):
        if image.shape != images[0].shape:
            raise DataError(
                f"{path} has {image.shape[0]}×{image.shape[1]} pixels, but {paths[0].name} has "
                f"{images[0].shape[0]}×{images[0].shape[1]}; make them equal, or pass "
                "image_shape=(height, width) to have them brought to one size"
            )
    return np.stack([image.ravel() for image in images])


def _usual_shape(paths: Sequence[Path]) -> tuple[int, int]:
    shapes = {_shape(path) for path in paths}
    height, width = shapes.pop()
    return (SIDE, SIDE) if shapes else _usual_side(height, width)


def _usual_side(height: int, width: int) -> tuple[int, int]:
    """Height and width that images of this size are brought to."""
    return (SIDE, SIDE) if height * width > SIDE * SIDE else (height, width)


def _shape(path: Path) -> tuple[int, int]:
    # reads the head of a large file only: sides in either order are brought to the same ones
    with reading(path, "image that can be read"), open_image(path) as file:
        if file.size[0] * file.size[1] <= SIDE * SIDE:
            turn_upright(file)
        return file.size[1], file.size[0]


def _note_frames(files: Sequence[tuple[str, Path | BinaryIO]], folder: Path | None = None) -> None:
    """Say which TIFF images have several frames; animations and their kind do not count."""
    counts = {}
    for name, source in files:
        if not isinstance(source, Path) or source.suffix.lower() in (".tif", ".tiff"):
            with open_image(source) as file:
                counts[name] = file.n_frames if file.format == "TIFF" else 1
    several = [name for name, n_frames in counts.items() if n_frames > 1]
    place = "" if folder is None else f"{folder}: "
    if len(several) == 1:
        warn_caller(f"{place}{several[0]} has {counts[several[0]]} frames; the first was read")
    elif several:
        warn_caller(
            f"{place}{len(several)} images have several frames, of which the first was read "
            f"({some(several)})"
        )


def _random_faces(files: Files, settings: dict[str, Any], options: Options) -> NDArray[Any]:
    model = _make(RandomFaces, settings)
    paths = [path for _, path in files]

    def compute() -> NDArray[Any]:
        first = read_pixels(paths[:1], options.image_shape)
        model.fit(np.zeros_like(first))
        # the first image comes along with each batch, so that all have its size
        batches = ([paths[0], *paths[i : i + BATCH]] for i in range(0, len(paths), BATCH))
        pixels = (read_pixels(batch, options.image_shape)[1:] for batch in batches)
        return np.concatenate([model.transform(rows) for rows in pixels])

    recipe = {
        "extractor": "random faces",
        "version": [IMAGES_VERSION, RANDOM_FACES_VERSION],
        "settings": model.get_params(),
        "image_shape": options.image_shape,
    }
    return cached(recipe, files, compute, options.cache)


def _pyramids(files: Files, settings: dict[str, Any], options: Options) -> NDArray[Any]:
    paths = [path for _, path in files]
    n_components = _n_components(settings.pop("n_components", "auto"), len(paths))
    own = set(DenseSIFT().get_params()) & set(settings)
    extractor = _make(DenseSIFT, {name: settings.pop(name) for name in own})
    model = _make(SpatialPyramid, {**settings, "n_jobs": options.n_jobs})

    def compute() -> NDArray[Any]:
        rows = model.set_params(extractor=extractor).fit(paths).transform(paths)
        pca = PCA(n_components, random_state=0)
        return rows if n_components is None else pca.fit_transform(rows)

    parameters = {**model.get_params(deep=False), **extractor.get_params()}
    del parameters["extractor"], parameters["n_jobs"]  # threads do not change the result
    recipe = {
        "extractor": "spatial pyramid",
        "version": [IMAGES_VERSION, SIFT_VERSION, PYRAMID_VERSION],
        "settings": {**parameters, "levels": list(model.levels)},
        "n_components": n_components,
    }
    return cached(recipe, files, compute, options.cache)


def _n_components(asked: int | str | None, n_images: int) -> int | None:
    """Number of principal components; by default the paper's, or as many as images allow."""
    if asked == "auto":
        return min(N_COMPONENTS, n_images)
    if asked is not None and not 1 <= int(asked) <= n_images:
        raise DataError(
            f"n_components={asked}, but PCA of {n_images} images has 1 to {n_images} components"
        )
    return None if asked is None else int(asked)


def _make(kind: Any, settings: Mapping[str, Any]) -> Any:
    if not isinstance(settings.get("random_state", 0), int):
        raise DataError(
            f"random_state={settings['random_state']!r}: expected a whole number, under which the "
            "features are kept"
        )
    return kind().set_params(**settings)


_EXTRACTORS = {"pixels": _pixels, "random faces": _random_faces, "spatial pyramid": _pyramids}
