"""Pictures as small arrays of palette numbers: atoms, curves and heat maps, and PNG files of them.

A picture is an array of numbers 0..255 and a palette of 256 colours. Colours fade into
transparency where there is nothing to show, so that the same picture reads on a light and on a
dark page.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
Pixels = NDArray[np.uint8]

#: Blue for what is there, orange for what is negative or wrong: told apart by the colour-blind.
BLUE = (46, 117, 204)
ORANGE = (222, 110, 40)
#: Height and width of an atom that is drawn as a curve.
CURVE_SIZE = (64, 192)
#: Larger images are averaged down to this many pixels a side.
MOST_PIXELS = 64
#: Atoms count as images without a sign if negative values hold less of their energy than this.
NEGATIVE_SHARE = 0.05
#: Grey levels of an atom's picture; the eye tells fewer apart, and fewer make smaller files.
N_LEVELS = 64


def _fading(colour: tuple[int, int, int], alpha: NDArray[np.float64]) -> Pixels:
    colours = np.tile(np.array(colour, dtype=np.uint8), (len(alpha), 1))
    return np.column_stack([colours, np.round(255 * alpha).astype(np.uint8)])


#: Palettes of shape (256, 4), red, green, blue and opacity.
HEAT: Pixels = _fading(BLUE, np.linspace(0, 1, 256))
GREY: Pixels = np.column_stack([np.tile(np.arange(256)[:, None], 3), np.full(256, 255)]).astype(
    np.uint8
)
#: 128 is nothing; below it negative values, above it positive ones.
SIGNED: Pixels = np.vstack(
    [
        _fading(ORANGE, np.append(1.0, np.linspace(1, 0, 128)[:127])),
        _fading(BLUE, np.linspace(0, 1, 128)),
    ]
)


class Pictures(NamedTuple):
    """Pictures of one size and one palette.

    Attributes
    ----------
    numbers : ndarray of shape (n_pictures, height, width)
    palette : ndarray of shape (256, 4)
    """

    numbers: Pixels
    palette: Pixels

    @property
    def rgba(self) -> Pixels:
        """Pixels of shape (n_pictures, height, width, 4)."""
        return self.palette[self.numbers]


def check_image_shape(image_shape: tuple[int, int], n_features: int) -> None:
    """Refuse a shape that does not have as many pixels as there are features."""
    sides = image_shape if isinstance(image_shape, Sequence) else ()
    whole = all(isinstance(side, Integral) and side > 0 for side in sides)
    if len(sides) != 2 or not whole or np.prod(sides) != n_features:
        raise ValueError(
            f"image_shape={image_shape} does not fit {n_features} features. Expected (height, "
            f"width) with height × width = {n_features}; omit it where features are not pixels."
        )


def draw_rows(
    rows: Floats,
    image_shape: tuple[int, int] | None = None,
    order: str = "C",
    signed: bool | None = None,
) -> Pictures:
    """Draw rows of features (atoms or samples) as images or, without a shape, as curves.

    Every row has its own contrast. Values without a sign are drawn from black to
    white, others in blue (positive) and orange (negative).

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_features)
    image_shape : (int, int), optional
        Height and width.
    order : {"C", "F"}, default="C"
        Order of the pixels in a row of features.
    signed : bool, optional
        Found from the values where it is None.
    """
    if image_shape is None:
        return Pictures(np.stack([curve_pixels(row) for row in rows]), HEAT)
    check_image_shape(image_shape, rows.shape[1])
    if order not in ("C", "F"):
        raise ValueError(f"order={order!r} is unknown; expected 'C' (row by row) or 'F'")
    images = _shrink(np.stack([row.reshape(image_shape, order=order) for row in rows]))
    shares = np.clip(images / _contrast(images), -1, 1)
    if is_signed(rows) if signed is None else signed:
        return Pictures(np.round(128 + 127 * _levels(shares)).astype(np.uint8), SIGNED)
    return Pictures(np.round(255 * _levels(np.clip(shares, 0, 1))).astype(np.uint8), GREY)


def _contrast(images: Floats) -> Floats:
    """Value that is drawn at full strength, (n_images, 1, 1).

    A high quantile rather than the largest value: a highlight of a few pixels would leave the
    rest of a face in the dark. But no less than a third of the largest, for sparse images.
    """
    size = np.abs(images)
    largest = size.max(axis=(1, 2), keepdims=True)
    scale = np.maximum(np.quantile(size, 0.99, axis=(1, 2), keepdims=True), largest / 3)
    contrast: Floats = np.where(scale > 0, scale, 1.0)
    return contrast


def is_signed(rows: Floats) -> bool:
    """Whether negative values hold a part of the rows' energy that is worth a colour."""
    energy = float(np.square(rows, dtype=np.float64).sum())
    negative = float(np.square(np.minimum(rows, 0), dtype=np.float64).sum())
    return negative > NEGATIVE_SHARE * energy


def _levels(shares: Floats) -> Floats:
    levels: Floats = np.round(shares * (N_LEVELS - 1)) / (N_LEVELS - 1)
    return levels


def _shrink(images: Floats) -> Floats:
    """Average blocks of pixels until no side is longer than `MOST_PIXELS`."""
    factor = -(-max(images.shape[1:]) // MOST_PIXELS)
    if factor <= 1:
        return images
    for axis in (1, 2):
        starts = np.arange(0, images.shape[axis], factor)
        sizes = np.diff(np.append(starts, images.shape[axis]))
        shape = [1, 1, 1]
        shape[axis] = len(sizes)
        images = np.add.reduceat(images, starts, axis=axis) / sizes.reshape(shape)
    return images


def curve_pixels(values: Floats, size: tuple[int, int] = CURVE_SIZE) -> Pixels:
    """Draw values as a curve around a zero line, (height, width), for the palette `HEAT`.

    Where several values share a column, the column is filled from the least to the largest.
    """
    height, width = size
    low, high = min(float(values.min()), 0.0), max(float(values.max()), 0.0)
    span = (high - low) or 1.0
    n_steps = max(len(values) - 1, 1)
    # every value is one of the points, so that no spike is lost; four points a column leave no gaps
    at = np.linspace(0, n_steps, n_steps * -(-4 * width // n_steps) + 1)
    curve = np.interp(at, np.arange(len(values)), values)
    row = np.round((height - 3) * (high - curve) / span).astype(int) + 1
    starts = np.searchsorted(at, np.arange(width) * n_steps / width)
    joined = np.maximum(starts - 1, 0)  # the last point of the column before joins the pieces
    top = np.minimum(np.minimum.reduceat(row, starts), row[joined])
    bottom = np.maximum(np.maximum.reduceat(row, starts), row[joined])
    pixels = np.zeros(size, dtype=np.uint8)
    pixels[round((height - 3) * high / span) + 1] = 60
    lines = np.arange(height)[:, np.newaxis]
    pixels[(lines >= top - 1) & (lines <= bottom + 1)] = 130
    pixels[(lines >= top) & (lines <= bottom)] = 255
    return pixels


def heat_pixels(values: Floats, largest: float) -> Pixels:
    """Numbers of `HEAT` for values from 0 to ``largest``; small ones stay visible.

    The square root opens up the low end, where most selection probabilities are.
    """
    share = np.clip(values / (largest or 1.0), 0, 1)
    pixels: Pixels = np.round(255 * np.sqrt(share)).astype(np.uint8)
    return pixels


def confusion_pixels(counts: NDArray[np.int64]) -> Pixels:
    """Numbers of `SIGNED` for a confusion matrix: right answers blue, wrong ones orange.

    A count is shown as its share of the row; a single mistake among many rows stays visible.
    """
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    strength = np.where(counts > 0, 0.45 + 0.55 * np.sqrt(share), 0.0)
    sign = np.where(np.eye(len(counts)) > 0, 1, -1)
    pixels: Pixels = np.round(128 + 127 * sign * strength).astype(np.uint8)
    return pixels


class Sheet(NamedTuple):
    """Pictures side by side in one image, ``n_columns`` in a line."""

    numbers: Pixels
    palette: Pixels
    n_columns: int
    n_lines: int

    def place(self, number: int) -> tuple[int, int]:
        """Column and line of a picture."""
        return number % self.n_columns, number // self.n_columns


def lay_out(pictures: Pictures, n_columns: int = 32) -> Sheet:
    """Put pictures on one sheet, line by line."""
    n, height, width = pictures.numbers.shape
    n_columns = max(1, min(n_columns, n))
    n_lines = max(1, -(-n // n_columns))
    index = np.zeros((n_lines * n_columns, height, width), dtype=np.uint8)
    index[:n] = pictures.numbers
    index = index.reshape(n_lines, n_columns, height, width).swapaxes(1, 2)
    whole = index.reshape(n_lines * height, n_columns * width)
    return Sheet(whole, pictures.palette, n_columns, n_lines)


def png(index: Pixels, palette: Pixels) -> bytes:
    """Return a PNG file (ISO 15948, colour type 3) of palette numbers (height, width)."""
    height, width = index.shape
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    no_filter = np.zeros((height, 1), dtype=np.uint8)  # each line starts with its filter's number
    lines = np.hstack([no_filter, index]).tobytes()
    chunks = [
        _chunk(b"IHDR", header),
        _chunk(b"PLTE", palette[:, :3].tobytes()),
        _chunk(b"tRNS", palette[:, 3].tobytes()),
        _chunk(b"IDAT", zlib.compress(lines, 6)),
        _chunk(b"IEND", b""),
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def _chunk(kind: bytes, content: bytes) -> bytes:
    check = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", check)


def data_uri(index: Pixels, palette: Pixels) -> str:
    """Return a PNG as an address that holds the file itself."""
    return "data:image/png;base64," + base64.b64encode(png(index, palette)).decode()
