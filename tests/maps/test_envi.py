"""ENVI cubes: every layout is read as GDAL reads it, and mistakes are refused in words."""

import numpy as np
import pytest
from envi_files import ORDER, some_values, write_cube

from dbdl.maps import Georeference, read_cube
from dbdl.maps.cube import DataError
from dbdl.maps.envi import DTYPES, map_info_of, write_envi

MAP_INFO = "{UTM, 2, 3, 500000, 5200000, 10, 20, 34, North, WGS-84, units=Meters}"


@pytest.mark.parametrize("interleave", ORDER)
@pytest.mark.parametrize("byte_order", [0, 1])
@pytest.mark.parametrize("number", DTYPES)
def test_every_layout_has_the_values_that_were_written(tmp_path, interleave, byte_order, number):
    values = some_values(DTYPES[number])
    options = {"interleave": interleave, "byte_order": byte_order, "offset": 11}
    cube = read_cube(write_cube(tmp_path, values, **options))
    assert cube.shape == values.shape
    np.testing.assert_array_equal(cube.lines(0, 5), values)
    np.testing.assert_array_equal(cube.read(1, 3)[0], values[1:3])
    assert cube.lines(0, 1).dtype == values.dtype  # in the byte order of this machine


@pytest.mark.parametrize("interleave", ORDER)
def test_gdal_reads_the_same_values_and_the_same_place(tmp_path, interleave):
    rasterio = pytest.importorskip("rasterio")
    # where pixels are turned, GDAL does not turn the way to a reference pixel other than the first
    for info in (MAP_INFO, MAP_INFO.replace("2, 3", "1, 1").replace("}", ", rotation=30.0}")):
        header = write_cube(tmp_path, some_values(), interleave=interleave, map_info=info)
        cube = read_cube(header)
        with rasterio.open(tmp_path / "scene.img") as file:
            np.testing.assert_array_equal(cube.lines(0, 5), np.moveaxis(file.read(), 0, -1))
            np.testing.assert_allclose(cube.georeference.transform, file.transform[:6], atol=1e-6)


def test_the_centre_of_the_reference_pixel_lies_where_map_info_says(tmp_path):
    info = MAP_INFO.replace("2, 3", "2.5, 3.5")  # the centre of the pixel in row 3, column 2
    place = read_cube(write_cube(tmp_path, some_values(), map_info=info)).georeference
    assert place.centres(2, 1) == (500000, 5200000)
    rows, columns = place.pixels(*place.centres([0, 2, 4], [3, 1, 0]))
    assert (rows.tolist(), columns.tolist()) == ([0, 2, 4], [3, 1, 0])


def test_a_place_is_written_as_it_was_read():
    place = Georeference((8.0, -3.0, 100.0, -6.0, -16.0, 900.0))
    text = map_info_of(place)
    from dbdl.maps.envi import read_georeference

    again = read_georeference({"map info": text}, "header")
    np.testing.assert_allclose(again.transform, place.transform)
    with pytest.raises(DataError, match="sheared"):
        map_info_of(Georeference((8.0, 1.0, 0.0, 0.0, -8.0, 0.0)))


def test_wavelengths_are_in_nanometres_whatever_their_unit(tmp_path):
    fields = {"wavelength": "{0.45, 0.55, 0.65}", "wavelength_units": "Micrometers"}
    cube = read_cube(write_cube(tmp_path, some_values(), **fields))
    assert cube.wavelengths == pytest.approx((450, 550, 650))
    assert cube.band_names == ("450 nm", "550 nm", "650 nm")
    fields["wavelength_units"] = "Wavenumber"
    assert read_cube(write_cube(tmp_path, some_values(), **fields)).wavelengths is None


def test_bad_bands_are_left_out(tmp_path):
    fields = {"bbl": "{1, 0, 1}", "wavelength": "{450, 550, 650}"}
    values = some_values()
    cube = read_cube(write_cube(tmp_path, values, **fields))
    assert cube.wavelengths == (450, 650)
    np.testing.assert_array_equal(cube.lines(2, 4), values[2:4][..., [0, 2]])


def test_pixels_with_the_ignored_value_or_without_numbers_hold_no_data(tmp_path):
    values = some_values(np.float32)
    values[0, 0, 1], values[4, 3, 0] = np.nan, -9999
    header = write_cube(tmp_path, values, data_ignore_value=-9999)
    spectra, has_data = read_cube(header).read(0, 5)
    assert (~has_data).sum() == 2 and not has_data[0, 0] and not has_data[4, 3]
    assert not spectra[~has_data].any()
    assert (~read_cube(header, ignore_value=None).read(0, 5)[1]).sum() == 1


def test_a_header_may_have_comments_several_lines_and_odd_spaces(tmp_path):
    header = write_cube(tmp_path, some_values())
    text = header.read_text() + "; bands = 7\nWavelength  = {450,\n 550 ,\n650}\r\n"
    header.write_text(text)
    assert read_cube(header).wavelengths == (450, 550, 650)


def test_a_cube_is_found_by_its_numbers_and_by_a_double_ending(tmp_path):
    header = write_cube(tmp_path, some_values())
    assert read_cube(tmp_path / "scene.img").shape == (5, 4, 3)
    header.rename(tmp_path / "scene.img.hdr")
    assert read_cube(tmp_path / "scene.img.hdr").shape == (5, 4, 3)
    assert read_cube(tmp_path / "scene.img").shape == (5, 4, 3)


def test_what_is_written_is_read_again(tmp_path):
    values = some_values(np.float64)
    blocks = (values[start : start + 2] for start in range(0, 5, 2))
    write_envi(tmp_path / "new.hdr", blocks, values.shape, values.dtype, {"map info": MAP_INFO})
    cube = read_cube(tmp_path / "new.hdr")
    np.testing.assert_array_equal(cube.lines(0, 5), values)
    assert cube.georeference.map_info == MAP_INFO[1:-1]


def test_a_write_that_fails_leaves_nothing_behind(tmp_path):
    def blocks():
        yield np.zeros((1, 4, 3))
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_envi(tmp_path / "new.hdr", blocks(), (5, 4, 3), np.dtype(float), {})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lines": 6}, "has 120 bytes, but scene.hdr describes 144"),
        ({"lines": "many"}, "expected a whole number"),
        ({"interleave": "bsx"}, "expected bsq, bil or bip"),
        ({"data type": 6}, "complex numbers"),
        ({"data type": 77}, "unknown"),
        ({"byte order": 2}, "expected 0 or 1"),
        ({"file compression": 1}, "compressed"),
        ({"bbl": "{1, 0}"}, "bbl marks 2 bands"),
        ({"bbl": "{0, 0, 0}"}, "every band as bad"),
        ({"map info": "{UTM, 1, 1}"}, "map info"),
        ({"data ignore value": "none"}, "expected a number"),
    ],
)
def test_a_wrong_header_is_refused_in_words(tmp_path, change, message):
    header = write_cube(tmp_path, some_values())
    lines = header.read_text().splitlines()
    kept = [line for line in lines if line.split(" =")[0] not in change]
    header.write_text("\n".join([*kept, *(f"{k} = {v}" for k, v in change.items())]))
    with pytest.raises(DataError, match=message):
        read_cube(header)


def test_missing_files_are_named(tmp_path):
    header = write_cube(tmp_path, some_values())
    (tmp_path / "scene.img").rename(tmp_path / "elsewhere.img")
    with pytest.raises(DataError, match=r"no file of numbers beside it.*scene\.img"):
        read_cube(header)
    with pytest.raises(DataError, match="there is no ENVI header"):
        read_cube(tmp_path / "elsewhere.img")
    with pytest.raises(DataError, match="there is no file"):
        read_cube(tmp_path / "other.hdr")
    header.write_text("samples = 3")
    with pytest.raises(DataError, match="not an ENVI header"):
        read_cube(header)
    header.write_text("ENVI\nsamples = 3")
    with pytest.raises(DataError, match="does not say 'lines'"):
        read_cube(header)
    with pytest.raises(DataError, match=r"cannot read \.zip as a cube"):
        read_cube(tmp_path / "scene.zip")
    with pytest.raises(TypeError, match="a path or a DataArray"):
        read_cube(np.zeros((2, 2, 2)))


def test_damaged_headers_are_read_or_refused_in_words(tmp_path):
    fields = {
        "wavelength": "{450, 550, 650}", "bbl": "{1, 1, 0}", "data_ignore_value": -1,
        "map_info": "{UTM, 1, 1, 0, 9, 10, 20, 34, North, WGS-84, rotation=3}",
    }  # fmt: skip
    header = write_cube(tmp_path, some_values(), **fields)
    whole, rng = header.read_bytes(), np.random.default_rng(0)
    for _ in range(400):
        text = bytearray(whole)
        for _ in range(rng.integers(1, 4)):
            place = int(rng.integers(len(text)))
            text[place : place + int(rng.integers(0, 6))] = rng.bytes(int(rng.integers(0, 3)))
        header.write_bytes(bytes(text))
        try:
            cube = read_cube(header)
            cube.read(0, cube.shape[0])
        except DataError:
            pass
