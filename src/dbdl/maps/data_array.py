"""Cubes in xarray: any `DataArray` with a dimension of bands, in memory or of Dask.

xarray is never imported to read: a `DataArray` is known by its methods.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from dbdl.maps.cube import Array, Cube, DataError, Georeference
from dbdl.maps.envi import in_nanometres

#: Names of the dimension of bands, and of the dimensions of lines and samples, in lower case.
BAND_NAMES = (
    "band", "bands", "wavelength", "wavelengths", "wl", "lambda", "channel", "channels", "spectral",
    "feature", "features",
)  # fmt: skip
LINE_NAMES = ("y", "lat", "latitude", "northing", "row", "rows", "line", "lines")
SAMPLE_NAMES = ("x", "lon", "longitude", "easting", "col", "column", "columns", "sample", "samples")


def is_data_array(source: object) -> bool:
    """Whether an object is an xarray `DataArray`."""
    return hasattr(source, "dims") and hasattr(source, "isel") and hasattr(source, "transpose")


def dimensions(array: Any, bands: Hashable | None = None) -> tuple[Hashable, Hashable, Hashable]:
    """Return the names of the dimensions of lines, samples and bands."""
    dims = list(array.dims)
    if len(dims) != 3:
        raise DataError(
            f"the array has the dimensions {tuple(dims)}; expected three: lines, samples and bands"
        )
    if bands is None:
        named = [dim for dim in dims if str(dim).lower() in BAND_NAMES]
        places = [dim for dim in dims if str(dim).lower() in (*LINE_NAMES, *SAMPLE_NAMES)]
        left = named if named else [dim for dim in dims if dim not in places]
        if len(left) != 1:
            raise DataError(
                f"which of the dimensions {tuple(dims)} are the bands? Say so: bands='name'"
            )
        bands = left[0]
    elif bands not in dims:
        raise DataError(f"bands={bands!r} is not a dimension; the array has {tuple(dims)}")
    line, sample = (dim for dim in dims if dim != bands)
    if str(line).lower() in SAMPLE_NAMES and str(sample).lower() in LINE_NAMES:
        line, sample = sample, line
    return line, sample, bands


def cube_of_array(
    array: Any, bands: Hashable | None = None, ignore_value: float | str | None = "stored"
) -> Cube:
    """Return a `DataArray` as a cube; of a Dask array, lines are computed when they are read."""
    line, sample, band = dimensions(array, bands)
    ordered = array.transpose(line, sample, band)
    if ordered.dtype.kind not in "fiub":
        raise DataError(f"the array holds {ordered.dtype}; expected real numbers")

    def lines(start: int, stop: int) -> Array:
        return np.asarray(ordered.isel({line: slice(start, stop)}).data)

    name = "scene" if array.name is None else str(array.name)
    shape = (int(ordered.shape[0]), int(ordered.shape[1]), int(ordered.shape[2]))
    if ignore_value == "stored":
        ignore_value = array.attrs.get("_FillValue", array.attrs.get("nodata"))
    return Cube(
        name,
        shape,
        lines,
        ordered.dtype,
        _wavelengths(ordered, band),
        _place(ordered, line, sample),
        None if ignore_value is None else float(ignore_value),
    )


def _wavelengths(array: Any, band: Hashable) -> tuple[float, ...] | None:
    """Return the wavelengths of a coordinate of the bands that is named so or has such a unit."""
    for name, values in array.coords.items():
        units = str(values.attrs.get("units", ""))
        named = str(name).lower() in ("wavelength", "wavelengths", "wl", "lambda")
        if values.dims == (band,) and values.dtype.kind in "fiu" and (named or units):
            return in_nanometres([float(value) for value in values.values], units)
    return None


def _place(array: Any, line: Hashable, sample: Hashable) -> Georeference | None:
    """Return the place of evenly spaced coordinates of lines and samples."""
    if line not in array.coords or sample not in array.coords:
        return None
    steps, firsts = [], []
    for dim in (sample, line):
        values = array.coords[dim].values
        if values.dtype.kind not in "fiu" or len(values) < 2:
            return None
        step = (float(values[-1]) - float(values[0])) / (len(values) - 1)
        if step == 0 or not np.allclose(np.diff(values.astype(float)), step, rtol=1e-4):
            return None
        steps.append(step)
        firsts.append(float(values[0]) - step / 2)
    crs = getattr(array.coords.get("spatial_ref"), "attrs", {}).get("crs_wkt")
    return Georeference((steps[0], 0.0, firsts[0], 0.0, steps[1], firsts[1]), crs)
