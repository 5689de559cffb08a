"""Files of images as grey levels: depths, directions and transparency, as Pillow writes them."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from dbdl.features import read_grey

#: Number of the field of EXIF that says how to turn an image.
ORIENTATION = 274
JPEG = {"jpg": {"quality": 100}}
RAMP = np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4)


def save(path, array, **options):
    Image.fromarray(array).save(path, **options)
    return path


def test_floats_between_0_and_1_are_levels_as_they_are(tmp_path):
    np.testing.assert_array_equal(read_grey(save(tmp_path / "a.tif", RAMP)), RAMP)


def test_whole_numbers_are_parts_of_the_largest_of_8_or_16_bits(tmp_path):
    eight = (np.arange(12) * 23).astype(np.uint8).reshape(3, 4)
    for ending in ("png", "tif", "bmp"):
        found = read_grey(save(tmp_path / f"a.{ending}", eight))
        np.testing.assert_array_equal(found, eight.astype(np.float32) / np.float32(255))
    sixteen = (np.arange(12) * 5957).astype(np.uint16).reshape(3, 4)
    expected = sixteen.astype(np.float32) / np.float32(65535)
    for ending in ("png", "tif", "pgm"):
        np.testing.assert_array_equal(read_grey(save(tmp_path / f"b.{ending}", sixteen)), expected)
    wide = save(tmp_path / "c.tif", sixteen.astype(np.int32))  # 16 bits, held in 32
    np.testing.assert_array_equal(read_grey(wide), expected)


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        (RAMP * 255, "a.tif holds floating-point grey levels from 0 to 255; expected 0 to 1, or 8"),
        (RAMP - 0.5, "floating-point grey levels from -0.5 to 0.5"),
        (np.where(RAMP > 0.5, np.nan, RAMP), "some are NaN or infinity; expected 0 to 1"),
        (np.where(RAMP > 0.5, np.inf, RAMP), "some are NaN or infinity"),
        (np.array([[300, 70000]], np.int32), "grey levels from 300 to 70000; expected 8 or 16 bit"),
        (np.array([[-2, 7]], np.int32), "holds grey levels from -2 to 7; expected 8 or 16 bits"),
    ],
)
def test_levels_of_no_known_scale_are_refused_and_not_clipped(tmp_path, levels, message):
    with pytest.raises(ValueError, match=message):
        read_grey(save(tmp_path / "a.tif", levels))


@pytest.mark.parametrize("ending", ["png", "tif", "jpg"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_images_are_turned_upright(tmp_path, ending, orientation):
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    level = np.kron([[255, 0, 0], [64, 128, 0]], np.ones((8, 8))).astype(np.uint8)
    path = save(tmp_path / f"a.{ending}", level, exif=exif, **JPEG.get(ending, {}))
    turns = [
        level, level[:, ::-1], level[::-1, ::-1], level[::-1],
        level.T, np.rot90(level, -1), level[::-1, ::-1].T, np.rot90(level),
    ]  # fmt: skip
    np.testing.assert_allclose(read_grey(path) * 255, turns[orientation - 1], atol=2)


def test_a_damaged_description_does_not_damage_the_image(tmp_path):
    eight = np.eye(8, dtype=np.uint8) * 255
    path = save(tmp_path / "a.png", eight, exif=b"Exif\0\0no TIFF")
    np.testing.assert_array_equal(read_grey(path), np.eye(8))


def test_transparent_images_are_put_on_white(tmp_path):
    drawn = np.kron(np.eye(4), np.ones((2, 2))).astype(np.uint8) * 255
    colourless = np.dstack([np.zeros((8, 8, 3), np.uint8), drawn])
    expected = 1 - drawn / np.float32(255)
    np.testing.assert_array_equal(read_grey(save(tmp_path / "a.png", colourless)), expected)
    np.testing.assert_array_equal(read_grey(colourless), expected)
    grey_and_opacity = Image.fromarray(colourless[:, :, 2:])
    grey_and_opacity.save(tmp_path / "b.png")
    np.testing.assert_array_equal(read_grey(tmp_path / "b.png"), expected)
    palette = Image.fromarray(drawn).convert("P")
    palette.save(tmp_path / "c.gif", transparency=0)  # the black colour
    assert read_grey(tmp_path / "c.gif").min() > 0.99


def test_opaque_images_are_the_same_with_an_opacity_and_without(tmp_path):
    colour = np.random.default_rng(0).integers(0, 256, (8, 8, 3)).astype(np.uint8)
    opaque = np.dstack([colour, np.full((8, 8), 255, np.uint8)])
    from_files = [
        read_grey(save(tmp_path / f"{name}.png", array))
        for name, array in (("a", colour), ("b", opaque))
    ]
    np.testing.assert_array_equal(*from_files)
    np.testing.assert_array_equal(read_grey(opaque), read_grey(colour))
