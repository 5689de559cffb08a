"""A generated scene of known truth: smooth spectra, regions, mixed pixels at borders, noise.

What makes real scenes hard is put in on purpose. Classes share most of their spectrum. Within a
class, spectra vary smoothly over the scene, so that a pixel resembles its neighbours more than
distant pixels of its class: random pixels of such a scene are no honest test (`dbdl.maps.pixels`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter, gaussian_filter1d

from dbdl._files import checked_path
from dbdl.maps.cube import Cube, Georeference
from dbdl.maps.envi import as_list, place_fields, write_envi

NAMES = (
    "water", "meadow", "forest", "wheat", "bare soil", "asphalt", "roof", "maize", "reed",
    "orchard", "gravel", "heath", "sand", "vineyard", "peat", "concrete",
)  # fmt: skip
#: The scene lies in UTM zone 34 north, with pixels of 10 m.
PLACE = Georeference(
    (10.0, 0.0, 500000.0, 0.0, -10.0, 5200000.0),
    map_info="UTM, 1, 1, 500000.0, 5200000.0, 10.0, 10.0, 34, North, WGS-84, units=Meters",
)
#: Number of spectral directions in which a class varies over the scene.
N_DIRECTIONS = 3


class SceneFiles(NamedTuple):
    """Headers of a scene and of its truth."""

    scene: Path
    truth: Path


@dataclass(frozen=True, eq=False)
class Scene:
    """A scene of known truth.

    Attributes
    ----------
    spectra : ndarray of shape (n_lines, n_samples, n_bands), float32
    truth : ndarray of shape (n_lines, n_samples), int32
        ``c + 1`` for pixels that hold most of class ``c``.
    names : tuple of str
        Names of the classes.
    wavelengths : tuple of float
        In nanometres.
    abundance : ndarray of shape (n_lines, n_samples, n_classes), float32
        Share of each class in each pixel.

    Examples
    --------
    >>> from dbdl.maps import make_scene
    >>> scene = make_scene((20, 30), n_bands=12)
    >>> scene.cube
    Cube('scene': 20 lines, 30 samples, 12 bands)
    """

    spectra: NDArray[np.float32]
    truth: NDArray[np.int32]
    names: tuple[str, ...]
    wavelengths: tuple[float, ...]
    abundance: NDArray[np.float32]

    @property
    def cube(self) -> Cube:
        """The spectra as a cube in memory."""
        lines, samples, bands = self.spectra.shape
        return Cube(
            "scene",
            (lines, samples, bands),
            lambda start, stop: self.spectra[start:stop],
            self.spectra.dtype,
            self.wavelengths,
            PLACE,
        )

    def write(self, folder: str | Path) -> SceneFiles:
        """Write ``scene.hdr`` and ``truth.hdr`` with their numbers (``.img``) into a folder."""
        place = checked_path(folder)
        fields = place_fields(PLACE)
        more = {"wavelength units": "Nanometers", "wavelength": as_list(self.wavelengths)}
        files = SceneFiles(place / "scene.hdr", place / "truth.hdr")
        shape = self.cube.shape
        write_envi(files.scene, [self.spectra], shape, self.spectra.dtype, fields | more)
        named = {
            "file type": "ENVI Classification",
            "classes": str(len(self.names) + 1),
            "class names": as_list(("Unclassified", *self.names)),
        }
        labels = self.truth[..., np.newaxis].astype(np.uint8)
        write_envi(files.truth, [labels], (*shape[:2], 1), labels.dtype, fields | named)
        return files


def make_scene(
    shape: tuple[int, int] = (96, 96),
    *,
    n_bands: int = 60,
    n_classes: int = 6,
    region_size: float = 6.0,
    mixing: float = 0.8,
    contrast: float = 0.12,
    variation: float = 0.08,
    noise: float = 0.03,
    random_state: int = 0,
) -> Scene:
    """Generate a scene whose classes are known.

    Parameters
    ----------
    shape : tuple of int, default=(96, 96)
        Lines and samples.
    n_bands : int, default=60
        Between 400 and 2400 nm.
    n_classes : int, default=6
        At most 16.
    region_size : float, default=6.0
        Width in pixels of the filter that smooths the regions.
    mixing : float, default=0.8
        Width in pixels of the filter that mixes classes at the borders of regions.
    contrast : float, default=0.12
        Size of the differences between classes; spectra are of size 1.
    variation : float, default=0.08
        Size of the differences within a class, which change smoothly over the scene.
    noise : float, default=0.03
        Standard deviation of the noise of every value.
    random_state : int, default=0
        The same number gives the same scene.

    Returns
    -------
    scene : Scene

    Examples
    --------
    >>> from dbdl.maps import make_scene
    >>> scene = make_scene((40, 50), n_bands=30, n_classes=4)
    >>> scene.spectra.shape, scene.names
    ((40, 50, 30), ('water', 'meadow', 'forest', 'wheat'))
    """
    if not 2 <= n_classes <= len(NAMES):
        raise ValueError(f"n_classes={n_classes}. Expected 2 to {len(NAMES)}.")
    if min(shape) < 2 or n_bands < 4:
        raise ValueError(
            f"shape={shape} with {n_bands} bands. Expected at least 2 × 2 pixels and 4 bands."
        )
    rng = np.random.default_rng(random_state)
    fields = _smooth_fields(rng, n_classes, shape, region_size)
    pure = np.eye(n_classes)[fields.argmax(axis=0)]
    abundance = gaussian_filter(pure, (mixing, mixing, 0)) if mixing else pure
    abundance /= abundance.sum(axis=2, keepdims=True)
    base = 1.0 + 0.5 * _smooth_curves(rng, 1, n_bands, n_bands / 6)[0]
    spectra = base + contrast * _smooth_curves(rng, n_classes, n_bands, n_bands / 12)
    scene = abundance @ spectra
    for _ in range(N_DIRECTIONS):
        curves = _smooth_curves(rng, n_classes, n_bands, n_bands / 12)
        strength = _smooth_fields(rng, 1, shape, 2 * region_size)[0]
        scene += variation * strength[..., np.newaxis] * (abundance @ curves)
    light = 1.0 + 0.15 * _smooth_fields(rng, 1, shape, 2 * region_size)[0]
    scene = scene * light[..., np.newaxis] + noise * rng.standard_normal(scene.shape)
    return Scene(
        scene.astype(np.float32),
        (abundance.argmax(axis=2) + 1).astype(np.int32),
        NAMES[:n_classes],
        tuple(np.round(np.linspace(400.0, 2400.0, n_bands), 1).tolist()),
        abundance.astype(np.float32),
    )


def _smooth_fields(
    rng: np.random.Generator, count: int, shape: tuple[int, int], size: float
) -> NDArray[np.float64]:
    """Smooth random surfaces (count, n_lines, n_samples) of mean 0 and variance 1."""
    fields = rng.standard_normal((count, *shape))
    smooth = np.stack([gaussian_filter(field, size, mode="reflect") for field in fields])
    centred = smooth - smooth.mean(axis=(1, 2), keepdims=True)
    return centred / centred.std(axis=(1, 2), keepdims=True)


def _smooth_curves(
    rng: np.random.Generator, count: int, n_bands: int, size: float
) -> NDArray[np.float64]:
    """Smooth random curves (count, n_bands), scaled to a standard deviation of 1."""
    curves = gaussian_filter1d(rng.standard_normal((count, n_bands)), size, axis=1, mode="reflect")
    centred = curves - curves.mean(axis=1, keepdims=True)
    return centred / centred.std(axis=1, keepdims=True)
