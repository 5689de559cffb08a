"""Pictures inside the page: PNG files as addresses, and many pictures on one sheet."""

from __future__ import annotations

import base64
import io
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from dbdl.plotting.pictures import Floats, Pictures, Pixels


def png(numbers: Pixels, palette: Pixels) -> bytes:
    """Return a PNG file of palette numbers (height, width); ``palette`` (256, 4) has opacity."""
    image = Image.frombytes("P", numbers.shape[::-1], numbers.tobytes())
    image.putpalette(palette[:, :3].tobytes())
    file = io.BytesIO()
    image.save(file, "PNG", transparency=palette[:, 3].tobytes())
    return file.getvalue()


def data_uri(numbers: Pixels, palette: Pixels) -> str:
    """Return a PNG as an address that contains the file itself."""
    return "data:image/png;base64," + base64.b64encode(png(numbers, palette)).decode()


class Sheet(NamedTuple):
    """Pictures side by side in one image, ``n_columns`` per line."""

    numbers: Pixels
    palette: Pixels
    n_columns: int
    n_lines: int

    def place(self, number: int) -> tuple[int, int]:
        """Column and line of a picture."""
        return number % self.n_columns, number // self.n_columns

    def position(self, number: int) -> str:
        """CSS position of a picture, which holds at any size."""
        column, line = self.place(number)
        x, y = column / max(self.n_columns - 1, 1), line / max(self.n_lines - 1, 1)
        return f"{100 * x:.4g}% {100 * y:.4g}%"

    @property
    def uri(self) -> str:
        """The image as an address."""
        return data_uri(self.numbers, self.palette)


def lay_out(pictures: Pictures, n_columns: int = 32) -> Sheet:
    """Put pictures on one sheet, line by line."""
    n, height, width = pictures.numbers.shape
    n_columns = min(n_columns, n)
    n_lines = -(-n // n_columns)
    numbers = np.pad(pictures.numbers, ((0, n_lines * n_columns - n), (0, 0), (0, 0)))
    grid = numbers.reshape(n_lines, n_columns, height, width).swapaxes(1, 2)
    whole = grid.reshape(n_lines * height, n_columns * width)
    return Sheet(whole, pictures.palette, n_columns, n_lines)


def heat_pixels(values: Floats, largest: float) -> Pixels:
    """Numbers of the palette `HEAT` for values from 0 to ``largest``.

    The square root opens up the low end, where most selection probabilities are.
    """
    share = np.clip(values / (largest or 1.0), 0, 1)
    return np.round(255 * np.sqrt(share)).astype(np.uint8)


def confusion_pixels(counts: NDArray[np.int64]) -> Pixels:
    """Numbers of the palette `SIGNED` for a confusion matrix: correct blue, mistakes orange.

    A count is shown as its share of the row. A single mistake among many rows stays visible.
    """
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    strength = np.where(counts > 0, 0.45 + 0.55 * np.sqrt(share), 0.0)
    return np.round(128 + 127 * (2 * np.eye(len(counts)) - 1) * strength).astype(np.uint8)
