"""GeoTIFF rasters, by rasterio, which is imported when the first one is read or written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from dbdl._extras import how_to_install
from dbdl._files import reading, write_atomically
from dbdl.maps.cube import Array, Cube, DataError, Georeference
from dbdl.maps.envi import in_nanometres

#: Megabytes that GDAL may keep of what it has read; by default it is a share of all memory.
CACHE_MEGABYTES = 64


def _rasterio(path: Path | str) -> Any:
    try:
        import rasterio
    except ImportError as error:
        raise DataError(
            f"{path}: GeoTIFF needs rasterio: {how_to_install('rasterio')}, or use ENVI (.hdr)"
        ) from error
    return rasterio


def _environment(rasterio: Any) -> Any:
    return rasterio.Env(GDAL_CACHEMAX=CACHE_MEGABYTES)


def read_geotiff(path: Path, ignore_value: float | str | None = "stored") -> Cube:
    """Open a GeoTIFF as a cube; its no-data value and the wavelengths in its tags are kept.

    Scales and offsets are not applied.
    """
    rasterio = _rasterio(path)
    with reading(path, "GeoTIFF"), _environment(rasterio), rasterio.open(path) as file:
        dtypes = [np.dtype(name) for name in file.dtypes]
        dtype = np.result_type(*dtypes)
        if dtype.kind not in "fiub":
            raise DataError(f"{path} holds {dtype}; expected real numbers")
        stored = file.nodata
        shape = (file.height, file.width, file.count)
        wavelengths, place = _wavelengths(file), _place(file)
        lines = _Lines(path, file.block_shapes[0][0], file.height)
    if ignore_value == "stored":
        ignore_value = stored
    ignored = None if ignore_value is None else float(ignore_value)
    return Cube(path.stem, shape, lines, dtype, wavelengths, place, ignored, (path,))


class _Lines:
    """Reads lines of a file; of one with tall tiles, the rows of tiles in use are kept.

    Otherwise the same tiles would be unpacked for each block of lines.
    """

    def __init__(self, path: Path, tile_height: int, n_lines: int) -> None:
        self.path, self.tile_height, self.n_lines = path, tile_height, n_lines
        self.kept: dict[int, Array] = {}

    def __call__(self, start: int, stop: int) -> Array:
        height = self.tile_height
        if stop - start >= height or start >= stop:
            return self._read(start, stop)
        wanted = range(start // height, -(-stop // height))
        self.kept = {row: tiles for row, tiles in self.kept.items() if row in wanted}
        for row in wanted:
            if row not in self.kept:
                end = min((row + 1) * height, self.n_lines)
                self.kept[row] = self._read(row * height, end)
        first = wanted.start * height
        together = [self.kept[row] for row in wanted]
        lines = together[0] if len(together) == 1 else np.concatenate(together)
        return lines[start - first : stop - first]

    def _read(self, start: int, stop: int) -> Array:
        rasterio = _rasterio(self.path)
        with (
            reading(self.path, "GeoTIFF"),
            _environment(rasterio),
            rasterio.open(self.path) as file,
        ):
            window = rasterio.windows.Window(0, start, file.width, stop - start)
            return np.ascontiguousarray(np.moveaxis(file.read(window=window), 0, -1))


def _wavelengths(file: Any) -> tuple[float, ...] | None:
    """Return the wavelengths in the tags of the bands, where every band has one."""
    tags = [file.tags(band) for band in file.indexes]
    central = [file.tags(band, ns="IMAGERY").get("CENTRAL_WAVELENGTH_UM") for band in file.indexes]
    try:
        if all(central):
            return in_nanometres([float(value) for value in central], "micrometers")
        units = tags[0].get("wavelength_units", "")
        return in_nanometres([float(tag["wavelength"]) for tag in tags], units)
    except (KeyError, ValueError):
        return None


def _place(file: Any) -> Georeference | None:
    if file.crs is None and file.transform.is_identity:
        return None
    crs = None if file.crs is None else file.crs.to_wkt()
    a, b, c, d, e, f = map(float, file.transform[:6])
    return Georeference((a, b, c, d, e, f), crs)


def utm_zone(place: Georeference | None) -> tuple[int, str] | None:
    """Return zone and hemisphere of a place in UTM coordinates on WGS 84, None for others."""
    if place is None or place.crs is None:
        return None
    try:
        code = _rasterio("map").crs.CRS.from_wkt(place.crs).to_epsg() or 0
    except DataError:  # without rasterio the projection is written as text alone
        return None
    zone = code % 100
    half = {326: "North", 327: "South"}.get(code // 100)
    return (zone, half) if half is not None and 1 <= zone <= 60 else None


def as_esri(place: Georeference | None) -> Georeference | None:
    """Return a place whose projection is in ESRI's words, which ENVI reads, where rasterio can."""
    if place is None or not place.crs:
        return place
    try:
        crs = _rasterio("map").crs.CRS.from_wkt(place.crs)
    except DataError:
        return place
    return replace(place, crs=crs.to_wkt(version="WKT1_ESRI"))


def _crs_of(place: Georeference, rasterio: Any) -> Any:
    """Return rasterio's projection of a place: its text, or the UTM zone in ``map info``."""
    if place.crs:
        return rasterio.crs.CRS.from_wkt(place.crs)
    items = [item.strip() for item in (place.map_info or "").split(",")]
    if items[0].upper() == "UTM" and len(items) > 9 and "WGS" in items[9].upper():
        first = 32700 if items[8].lower().startswith("s") else 32600
        return rasterio.crs.CRS.from_epsg(first + int(items[7]))
    return None


def write_geotiff(
    path: Path,
    raster: Array,
    place: Georeference | None,
    *,
    nodata: float | None = None,
    colours: Mapping[int, Sequence[int]] | None = None,
    tags: Mapping[str, str] | None = None,
    descriptions: Iterable[str] = (),
) -> Path:
    """Write a raster (lines, samples) or (lines, samples, bands), whole or not at all."""
    rasterio = _rasterio(path)
    bands = np.atleast_3d(raster)
    options: dict[str, Any] = {"compress": "deflate", "nodata": nodata}
    if place is not None:
        options["transform"] = rasterio.transform.Affine(*place.transform)
        options["crs"] = _crs_of(place, rasterio)

    def fill(file: BinaryIO) -> None:
        lines, samples, count = bands.shape
        with rasterio.MemoryFile() as memory:
            with memory.open(
                driver="GTiff", height=lines, width=samples, count=count, dtype=bands.dtype,
                **options,
            ) as written:  # fmt: skip
                written.write(np.moveaxis(bands, -1, 0))
                if colours and bands.dtype == np.uint8:
                    written.write_colormap(1, {n: tuple(c) for n, c in colours.items()})
                written.update_tags(**(tags or {}))
                for band, words in enumerate(descriptions, 1):
                    written.set_band_description(band, words)
            file.write(memory.getbuffer())

    return write_atomically(path, fill)
