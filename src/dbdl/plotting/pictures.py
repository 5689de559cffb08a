"""Atoms and samples as small pictures: images or curves.

A picture is an array of numbers 0..255 and a palette of 256 colours. Colours fade into
transparency where there is nothing to show, so that the same picture can be read on a light and
on a dark page.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter

Floats = NDArray[np.floating[Any]]
Pixels = NDArray[np.uint8]

#: Blue for positive or correct, orange for negative or wrong: colour-blind readers can tell them
#: apart.
BLUE = (46, 117, 204)
ORANGE = (222, 110, 40)
#: Height and width of an atom that is drawn as a curve.
CURVE_SIZE = (64, 192)
#: Larger images are averaged down to this many pixels per side.
MOST_PIXELS = 64
#: Atoms are drawn as unsigned if negative values hold less of their energy than this.
NEGATIVE_SHARE = 0.05
#: Grey levels of an atom's picture. The eye hardly sees more, and fewer make smaller files.
N_LEVELS = 64


def _fading(colour: tuple[int, int, int], alpha: Floats) -> Pixels:
    colours = np.tile(np.array(colour, dtype=np.uint8), (len(alpha), 1))
    return np.column_stack([colours, np.round(255 * alpha).astype(np.uint8)])


#: Palettes of shape (256, 4): red, green, blue and opacity.
HEAT: Pixels = _fading(BLUE, np.linspace(0, 1, 256))
GREY: Pixels = np.array([(level, level, level, 255) for level in range(256)], dtype=np.uint8)
#: 128 is zero; smaller numbers are negative values and larger ones positive values.
_STRENGTH = np.linspace(0, 1, 128)
SIGNED: Pixels = np.vstack(
    [_fading(ORANGE, np.append(1.0, _STRENGTH[:0:-1])), _fading(BLUE, _STRENGTH)]
)


class Pictures(NamedTuple):
    """Pictures of one size and one palette: numbers (n_pictures, height, width)."""

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

    Every row of (n_rows, n_features) has its own contrast. Unsigned rows are drawn from black to
    white, signed rows in blue (positive) and orange (negative); by default `is_signed` decides.
    ``image_shape`` is height and width, and ``order`` that of the pixels in a row, "C" or "F".
    Missing values are drawn as zeros.
    """
    rows = np.where(np.isnan(rows), 0, rows)
    if image_shape is None:
        return Pictures(np.stack([curve_pixels(row) for row in rows]), HEAT)
    check_image_shape(image_shape, rows.shape[1])
    if order not in ("C", "F"):
        raise ValueError(f"order={order!r} is unknown; expected 'C' (row by row) or 'F'")
    signed = is_signed(rows) if signed is None else signed
    rows = rows if signed else np.maximum(rows, 0)
    images = _shrink(np.stack([row.reshape(image_shape, order=order) for row in rows]))
    shares = np.clip(images / _contrast(images), -1, 1)
    levels = np.round(shares * (N_LEVELS - 1)) / (N_LEVELS - 1)
    numbers = 128 + 127 * levels if signed else 255 * levels
    return Pictures(np.round(numbers).astype(np.uint8), SIGNED if signed else GREY)


def _contrast(images: Floats) -> Floats:
    """Value that is drawn at full strength, (n_images, 1, 1).

    A high quantile rather than the largest value: a highlight of a few pixels would leave the
    rest of a face in the dark. At least a third of the largest value, for sparse images.
    """
    size = np.abs(images)
    largest = size.max(axis=(1, 2), keepdims=True)
    scale = np.maximum(np.quantile(size, 0.99, axis=(1, 2), keepdims=True), largest / 3)
    return np.where(scale > 0, scale, 1.0)


def is_signed(rows: Floats) -> bool:
    """Whether negative values hold enough of the rows' energy to deserve a colour."""
    energy = float(np.square(rows, dtype=np.float64).sum())
    negative = float(np.square(np.minimum(rows, 0), dtype=np.float64).sum())
    return negative > NEGATIVE_SHARE * energy


def _shrink(images: Floats) -> Floats:
    """Average blocks of pixels until no side is longer than `MOST_PIXELS`."""
    factor = -(-max(images.shape[1:]) // MOST_PIXELS)
    pictures = map(Image.fromarray, images.astype(np.float32))
    return np.stack([np.asarray(picture.reduce(factor)) for picture in pictures])


def curve_pixels(values: Floats, size: tuple[int, int] = CURVE_SIZE) -> Pixels:
    """Draw values as a curve around a zero line, (height, width), for the palette `HEAT`."""
    height, width = size
    low, high = min(float(values.min()), 0.0), max(float(values.max()), 0.0)
    scale = (height - 3) / ((high - low) or 1.0)
    values = values if len(values) > 1 else np.repeat(values, 2)
    x = np.arange(len(values)) * width / (len(values) - 1)
    y = np.round(scale * (high - values)) + 1
    picture = Image.new("L", (width, height))
    ImageDraw.Draw(picture).line(np.column_stack([x, y]).ravel().tolist(), fill=255)
    pixels = np.zeros(size, dtype=np.uint8)
    pixels[round(scale * high) + 1] = 60
    pixels[np.asarray(picture.filter(ImageFilter.MaxFilter(3))) > 0] = 110  # a soft edge
    return np.maximum(pixels, np.asarray(picture))
