"""Cubes: lines × samples × bands of numbers, read by blocks of lines, and where they lie."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dbdl._files import DataError as DataError
from dbdl._threads import block_slices

Array = NDArray[Any]
Floats = NDArray[np.floating[Any]]

#: Pixels that are read and classified together, or one line where that has more. A block of 8192
#: pixels of 200 bands takes 6 MiB in float32; larger blocks are not faster.
BLOCK_PIXELS = 8192


@dataclass(frozen=True)
class Georeference:
    """Where the pixels of a raster lie on a map.

    Attributes
    ----------
    transform : tuple of six float
        ``(a, b, c, d, e, f)``: the corner between lines and samples at (line, sample) lies at
        ``x = a * sample + b * line + c`` and ``y = d * sample + e * line + f``. The upper left
        corner of the raster is (0, 0), and the centre of the first pixel (0.5, 0.5).
    crs : str, optional
        The projection as well-known text (WKT).
    map_info : str, optional
        The ENVI field that the transform came from, which is written to ENVI files as it is.

    Examples
    --------
    >>> from dbdl.maps import Georeference
    >>> place = Georeference((10.0, 0.0, 500000.0, 0.0, -10.0, 5200000.0))
    >>> [float(value) for value in place.centres(0, 2)]
    [500025.0, 5199995.0]
    """

    transform: tuple[float, float, float, float, float, float]
    crs: str | None = None
    map_info: str | None = None

    def centres(self, rows: ArrayLike, columns: ArrayLike) -> tuple[Floats, Floats]:
        """Map coordinates x and y of the centres of pixels, whose indices start at 0."""
        a, b, c, d, e, f = self.transform
        line, sample = np.asarray(rows) + 0.5, np.asarray(columns) + 0.5
        return a * sample + b * line + c, d * sample + e * line + f

    def pixels(self, x: ArrayLike, y: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows and columns, from 0, of the pixels that hold points in map coordinates."""
        a, b, c, d, e, f = self.transform
        dx, dy = np.asarray(x, dtype=float) - c, np.asarray(y, dtype=float) - f
        area = a * e - b * d
        sample, line = (e * dx - b * dy) / area, (a * dy - d * dx) / area
        return np.floor(line).astype(np.int64), np.floor(sample).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Cube:
    """Spectra of the pixels of a scene, still to be read.

    Attributes
    ----------
    name : str
    shape : tuple of int
        Number of lines, samples (pixels of a line) and bands.
    lines : callable
        Returns the lines from ``start`` to ``stop`` as they are stored, of shape
        (n_lines, n_samples, n_bands).
    dtype : dtype
        Of the stored numbers.
    wavelengths : tuple of float, optional
        Of the bands, in nanometres.
    georeference : Georeference, optional
    ignore_value : float, optional
        A pixel with this value in any band holds no data, and so does one with a value that is not
        finite.
    files : tuple of Path
        The files that are read.

    Examples
    --------
    >>> from dbdl.maps import make_scene
    >>> cube = make_scene((20, 30), n_bands=12).cube
    >>> spectra, has_data = cube.read(0, 5)
    >>> spectra.shape, bool(has_data.all())
    ((5, 30, 12), True)
    """

    name: str
    shape: tuple[int, int, int]
    lines: Callable[[int, int], Array]
    dtype: np.dtype[Any]
    wavelengths: tuple[float, ...] | None = None
    georeference: Georeference | None = None
    ignore_value: float | None = None
    files: tuple[Path, ...] = ()

    def __repr__(self) -> str:
        lines, samples, bands = self.shape
        return f"Cube({self.name!r}: {lines} lines, {samples} samples, {bands} bands)"

    @property
    def band_names(self) -> tuple[str, ...] | None:
        """Names of the bands by their wavelengths, if these are known and different."""
        if self.wavelengths is None:
            return None
        names = tuple(f"{wavelength:.6g} nm" for wavelength in self.wavelengths)
        return names if len(set(names)) == len(names) else None

    def read(self, start: int, stop: int) -> tuple[Floats, NDArray[np.bool_]]:
        """Read lines, and say which of their pixels hold data.

        Returns
        -------
        spectra : ndarray of shape (n_lines, n_samples, n_bands), float32 or float64
            Zero in pixels without data.
        has_data : ndarray of shape (n_lines, n_samples), bool
        """
        return spectra_and_gaps(self.lines(start, stop), self.ignore_value)

    def blocks(self, n_lines: int | None = None) -> Iterator[slice]:
        """Yield slices of lines that are read together."""
        if n_lines is None:
            n_lines = max(1, BLOCK_PIXELS // self.shape[1])
        yield from block_slices(self.shape[0], n_lines)


def spectra_and_gaps(stored: Array, ignore_value: float | None) -> tuple[Floats, NDArray[np.bool_]]:
    """Numbers to calculate with (..., n_bands), and the pixels (...) that hold data."""
    # float32 holds float32 and whole numbers of two bytes exactly
    short = stored.dtype.itemsize <= 2 or stored.dtype == np.float32
    has_data = np.asarray(np.isfinite(stored).all(axis=-1))
    if ignore_value is not None and not np.isnan(ignore_value):
        has_data &= (stored != ignore_value).all(axis=-1)
    spectra: Floats = stored.astype(np.float32 if short else np.float64)
    spectra[~has_data] = 0
    return spectra, has_data
