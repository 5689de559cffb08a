"""Images as grey levels between 0 and 1, from arrays or from files."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from numbers import Integral
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse

from dbdl._arrays import only_numbers

Grey: TypeAlias = NDArray[np.float32]
#: A path, or an array (height, width) or (height, width, 3): uint8, or floats between 0 and 1.
ImageLike: TypeAlias = str | Path | ArrayLike

# Floats beyond this are not grey levels, even in an image that was centred or stretched.
LARGEST_LEVEL = 1e6

#: Raised when files are read into other levels: a part of the cache's key.
VERSION = 3

#: Largest level of an image of 16 bits; Pillow holds it with 16 or 32.
LARGEST_OF_16_BITS = 65535

# Luma of ITU-R BT.601, which Pillow uses for files as well.
LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)


def read_grey(
    image: ImageLike, longest_side: int | None = None, shape: tuple[int, int] | None = None
) -> Grey:
    """Return an image as grey levels.

    Parameters
    ----------
    image : path or array-like of shape (height, width) or (height, width, 3)
        Arrays hold uint8, or floats between 0 and 1; files 8 or 16 bits, or such floats. A fourth
        channel is the opacity: transparent images are put on white. Of a file with several frames
        the first is read.
    longest_side : int, optional
        A larger image is made smaller to this many pixels, in proportion.
    shape : tuple of int, optional
        Height and width that the image is brought to, not in proportion.

    Returns
    -------
    grey : ndarray of shape (height, width), float32
        Levels between 0 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> from dbdl.features import read_grey
    >>> read_grey(np.full((40, 20, 3), 255, dtype=np.uint8), longest_side=10).shape
    (10, 5)
    """
    if isinstance(image, str | Path):
        grey = _decoded(Path(image), str(Path(image)))
    else:
        grey = _from_array(image)
    if longest_side is not None and not (isinstance(longest_side, Integral) and longest_side > 0):
        raise ValueError(f"longest_side is {longest_side!r}. Expected None or a number of pixels.")
    if longest_side is not None and max(grey.shape) > longest_side:
        scale = longest_side / max(grey.shape)
        shape = (max(1, round(grey.shape[0] * scale)), max(1, round(grey.shape[1] * scale)))
    return grey if shape is None or shape == grey.shape else _resize(grey, shape)


def decode_grey(content: bytes, name: str, shape: tuple[int, int] | None = None) -> Grey:
    """Return grey levels of an image, given as the bytes of its file; as `read_grey`.

    Messages call it by the name.
    """
    grey = _decoded(io.BytesIO(content), name)
    return grey if shape is None or shape == grey.shape else _resize(grey, shape)


def check_images(images: object) -> Sequence[ImageLike]:
    """Return the images as a sequence, or say what was expected."""
    if isinstance(images, str | Path | bytes):
        raise TypeError(
            f"expected a list of images or of paths to images, got the single {images!r}; pass "
            "a list with one element, or the files that a folder holds"
        )
    if isinstance(images, np.ndarray) and images.ndim == 2 and images.dtype.kind not in "OUS":
        raise ValueError(
            f"expected a list of images, got one array of shape {images.shape}; pass [image] for "
            "one image, or reshape rows of pixels to (n_images, height, width)"
        )
    if not isinstance(images, Iterable):
        raise TypeError(f"expected a list of images or of paths, got {type(images).__name__}")
    found = images if isinstance(images, Sequence | np.ndarray) else list(images)
    if len(found) == 0:
        raise ValueError("expected at least one image, got an empty list")
    return found  # type: ignore[return-value]


def _decoded(source: Path | BinaryIO, name: str) -> Grey:
    from PIL import UnidentifiedImageError

    try:
        with open_image(source) as file:
            turn_upright(file)
            # Pillow's conversion would clip floats and numbers of 16 bits at 255
            stored = np.asarray(file if file.mode[0] in "FI" else _on_white(file).convert("L"))
    except (FileNotFoundError, PermissionError):
        raise
    except IsADirectoryError as error:
        raise ValueError(f"{name} is a folder; pass the images that it holds") from error
    except UnidentifiedImageError as error:
        raise ValueError(
            f"{name} is not an image that can be read; remove it, or replace it by a whole one"
        ) from error
    except Exception as error:  # arbitrary bytes can fail in any way inside a decoder
        raise ValueError(f"{name} is damaged ({error}); replace it by a whole one") from error
    return _levels_of_file(stored, name)


@contextmanager
def open_image(source: Path | BinaryIO) -> Iterator[Any]:
    """Open an image with Pillow, which reads its head only."""
    from PIL import Image

    # by its name, Pillow 13.0 maps a plain TIFF into memory and mistakes its sides if it is turned
    stream = source.open("rb") if isinstance(source, Path) else nullcontext(source)
    with stream as content, Image.open(content) as file:
        yield file


def turn_upright(file: Any) -> None:
    """Load an open image of Pillow and turn it as its file asks for, as photographs do (EXIF)."""
    from PIL import ImageOps

    file.load()
    with suppress(Exception):  # a damaged description of a whole image
        ImageOps.exif_transpose(file, in_place=True)


def _on_white(file: Any) -> Any:
    """Return a loaded image without transparency: it shows white, as on paper."""
    if file.mode[-1] not in "Aa" and "transparency" not in file.info:
        return file
    from PIL import Image

    picture = file.convert("RGBA")
    white = Image.new("RGBA", picture.size, "white")
    white.alpha_composite(picture)
    return white


def _levels_of_file(stored: NDArray[Any], name: str) -> Grey:
    """Grey levels of what a file holds: 8 or 16 bits, or floats between 0 and 1."""
    if stored.dtype == np.uint8:
        return stored.astype(np.float32) / np.float32(255)
    is_float = stored.dtype.kind == "f"
    largest = 1 if is_float else LARGEST_OF_16_BITS
    lowest, highest = stored.min(), stored.max()
    if not np.isfinite([lowest, highest]).all():  # NaN is both
        raise ValueError(
            f"{name} holds floating-point grey levels, of which some are NaN or infinity; expected "
            "0 to 1: replace these, and save it again"
        )
    if lowest < 0 or highest > largest:
        raise ValueError(
            f"{name} holds {'floating-point ' * is_float}grey levels from {lowest:.6g} to "
            f"{highest:.6g}; expected {'0 to 1, or ' * is_float}8 or 16 bits: rescale and save it "
            "again"
        )
    return stored.astype(np.float32) / np.float32(largest)


def _from_array(image: ArrayLike) -> Grey:
    if issparse(image):
        raise ValueError("the image is a sparse matrix. Expected a dense array. Call .toarray().")
    array = np.asarray(only_numbers(image, "the image"))
    n_channels = array.shape[2] if array.ndim == 3 else 1
    if array.ndim not in (2, 3) or n_channels not in (1, 3, 4) or array.size == 0:
        raise ValueError(
            f"an image has the shape (height, width) or (height, width, 3), this has {array.shape}"
        )
    if array.dtype == object:
        array = array.astype(np.float64)
    if n_channels == 1:
        return _levels(array.reshape(array.shape[:2]))
    grey: Grey = _levels(array[:, :, :3]) @ LUMA
    if n_channels == 3:
        return grey
    opacity = np.clip(_levels(array[:, :, 3]), 0, 1)
    return grey * opacity + (1 - opacity)


def _levels(array: NDArray[np.generic]) -> Grey:
    if array.dtype == np.uint8:
        return array.astype(np.float32) / np.float32(255)
    if array.dtype.kind not in "fb":
        raise ValueError(
            f"an image holds uint8, or floats between 0 and 1; this holds {array.dtype}. Divide by "
            "its largest possible value"
        )
    if not np.isfinite(array).all():
        raise ValueError("an image has NaN or infinity; replace or leave out those pixels")
    if np.abs(array.astype(np.float64)).max() > LARGEST_LEVEL:
        raise ValueError(
            f"an image holds floats between 0 and 1; this has values beyond {LARGEST_LEVEL:.0e}. "
            "Divide by its largest possible value"
        )
    return array.astype(np.float32)


def _resize(grey: Grey, shape: tuple[int, int]) -> Grey:
    from PIL import Image

    height, width = shape
    # the filter widens as the image shrinks, so that nothing aliases
    small = Image.fromarray(grey).resize((width, height), Image.Resampling.BICUBIC)
    return np.clip(np.asarray(small, dtype=np.float32), 0, 1)
