"""Open a cube: ENVI, GeoTIFF, or an array of xarray."""

from __future__ import annotations

import os
from collections.abc import Hashable
from pathlib import Path
from typing import Any

from dbdl._files import checked_path
from dbdl.maps.cube import Cube, DataError
from dbdl.maps.data_array import cube_of_array, is_data_array
from dbdl.maps.envi import DATA_ENDINGS, read_envi
from dbdl.maps.geotiff import read_geotiff

GEOTIFF_ENDINGS = (".tif", ".tiff")
ENVI_ENDINGS = (".hdr", *DATA_ENDINGS)


def read_cube(
    source: Any, *, bands: Hashable | None = None, ignore_value: float | str | None = "stored"
) -> Cube:
    """Open a cube without reading its numbers.

    Parameters
    ----------
    source : str, path-like, DataArray or Cube
        An ENVI header (``.hdr``) or the file of numbers beside it, a GeoTIFF (``.tif``, needs
        ``dbdl[maps]``), or an array of xarray, in memory or of Dask.
    bands : hashable, optional
        Name of the dimension of bands of a `DataArray`. By default it is the one that is called
        band, wavelength or the like.
    ignore_value : float or None, default="stored"
        Pixels with this value in any band hold no data. "stored" means the value that the file or
        array names as its own; None means that there is none. Values that are not finite never
        count as data.

    Returns
    -------
    cube : Cube

    Raises
    ------
    DataError
        If a file is absent, cut off, or not what it should be. The message says what to do.

    Examples
    --------
    >>> import tempfile
    >>> from dbdl.maps import make_scene, read_cube
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     files = make_scene((20, 30), n_bands=12).write(folder)
    ...     read_cube(files.scene)
    Cube('scene': 20 lines, 30 samples, 12 bands)
    """
    if isinstance(source, Cube):
        return source
    if is_data_array(source):
        return cube_of_array(source, bands, ignore_value)
    if bands is not None:
        raise DataError("bands= names a dimension of a DataArray; leave it out for a file")
    if not isinstance(source, str | os.PathLike):
        raise TypeError(
            f"a cube is a path or a DataArray, got {type(source).__name__}; for a plain array use "
            "xarray.DataArray(array, dims=('y', 'x', 'band'))"
        )
    path = checked_path(source).expanduser()
    return _reader(path)(path, ignore_value)


def is_cube_file(path: str | Path) -> bool:
    """Whether a name is that of a cube: its ending says so, or an ENVI header lies beside it.

    Examples
    --------
    >>> from dbdl.maps import is_cube_file
    >>> is_cube_file("scene.hdr"), is_cube_file("table.csv")
    (True, False)
    """
    path = Path(path)
    ending = path.suffix.lower()
    if ending in (".hdr", ".bsq", ".bil", ".bip", *GEOTIFF_ENDINGS):
        return True
    if ending not in ENVI_ENDINGS or not path.is_file():
        return False
    headers = (path.with_suffix(".hdr"), path.with_name(f"{path.name}.hdr"))
    return any(header.is_file() for header in headers)


def _reader(path: Path) -> Any:
    ending = path.suffix.lower()
    if ending not in (*GEOTIFF_ENDINGS, *ENVI_ENDINGS):
        raise DataError(
            f"{path}: cannot read {ending} as a cube; expected an ENVI header (.hdr), a file of "
            "numbers beside one, or a GeoTIFF (.tif)"
        )
    if not path.is_file():
        raise DataError(f"there is no file {path}")
    return read_geotiff if ending in GEOTIFF_ENDINGS else read_envi
