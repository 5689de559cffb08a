"""GeoTIFF cubes and maps, against rasterio itself."""

import sys

import numpy as np
import pytest
from envi_files import some_values

from dbdl.maps import Georeference, read_cube
from dbdl.maps.cube import DataError
from dbdl.maps.geotiff import utm_zone, write_geotiff

rasterio = pytest.importorskip("rasterio")
PLACE = Georeference((10.0, 0.0, 500000.0, 0.0, -10.0, 5200000.0))


def write_tif(path, values, **options):
    lines, samples, bands = values.shape
    with rasterio.open(
        path, "w", driver="GTiff", height=lines, width=samples, count=bands, dtype=values.dtype,
        transform=rasterio.Affine(*PLACE.transform), crs="EPSG:32634", **options,
    ) as file:  # fmt: skip
        file.write(np.moveaxis(values, -1, 0))
        for band in range(bands):
            file.update_tags(band + 1, wavelength=str(400 + band), wavelength_units="nm")
    return path


def test_a_geotiff_has_its_values_place_wavelengths_and_gaps(tmp_path):
    values = some_values()
    values[1, 2] = -1
    cube = read_cube(write_tif(tmp_path / "scene.tif", values, nodata=-1))
    np.testing.assert_array_equal(cube.lines(1, 4), values[1:4])
    assert cube.georeference.transform == PLACE.transform
    assert utm_zone(cube.georeference) == (34, "North")
    assert cube.wavelengths == (400, 401, 402)
    has_data = cube.read(0, 5)[1]
    assert not has_data[1, 2] and has_data.sum() == 19


def test_lines_of_tall_tiles_are_unpacked_once(tmp_path, monkeypatch):
    values = some_values(shape=(70, 40, 3))
    options = {"tiled": True, "blockxsize": 16, "blockysize": 32}
    cube = read_cube(write_tif(tmp_path / "scene.tif", values, **options))
    read, seen = type(cube.lines)._read, []

    def note(self, start, stop):
        seen.append((start, stop))
        return read(self, start, stop)

    monkeypatch.setattr(type(cube.lines), "_read", note)
    for start in range(0, 70, 5):  # with two lines around them, as a window of 5 needs
        first, last = max(0, start - 2), min(70, start + 7)
        np.testing.assert_array_equal(cube.lines(first, last), values[first:last])
    assert seen == [(0, 32), (32, 64), (64, 70)]


def test_a_damaged_file_is_refused(tmp_path):
    path = tmp_path / "scene.tif"
    path.write_bytes(b"II*\0 nothing")
    with pytest.raises(DataError, match="damaged or not a GeoTIFF"):
        read_cube(path)


def test_without_rasterio_the_message_says_what_to_install(tmp_path, monkeypatch):
    path = write_tif(tmp_path / "scene.tif", some_values())
    monkeypatch.setitem(sys.modules, "rasterio", None)
    with pytest.raises(DataError, match="pip install rasterio"):
        read_cube(path)


def test_a_raster_keeps_its_place_and_colours(tmp_path):
    numbers = np.arange(20, dtype=np.uint8).reshape(5, 4)
    place = Georeference(PLACE.transform, map_info="UTM, 1, 1, 0, 0, 1, 1, 34, North, WGS-84")
    colours = {n: (n, 2 * n, 3 * n, 255) for n in range(256 // 3)}
    path = write_geotiff(tmp_path / "new.tif", numbers, place, nodata=0, colours=colours)
    with rasterio.open(path) as file:
        np.testing.assert_array_equal(file.read(1), numbers)
        assert file.transform[:6] == PLACE.transform and file.nodata == 0
        assert file.crs.to_epsg() == 32634
        assert file.colormap(1)[7] == (7, 14, 21, 255)
