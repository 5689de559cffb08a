"""Pictures inside the page are PNG files, and a sheet holds each of them in its place."""

from __future__ import annotations

import io

import numpy as np
import pytest
from matplotlib.image import imread

from dbdl.plotting.pictures import GREY, HEAT, SIGNED, draw_rows
from dbdl.report.inline import confusion_pixels, heat_pixels, lay_out, png


@pytest.mark.parametrize("palette", [HEAT, GREY, SIGNED], ids=["heat", "grey", "signed"])
@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (64, 5)])
def test_an_independent_reader_finds_the_pixels_of_a_png(palette, shape):
    index = np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)
    read = np.round(255 * imread(io.BytesIO(png(index, palette)), format="png"))
    if read.ndim == 2:  # a reader may fold an opaque grey palette
        read = np.dstack([read, read, read, np.full(shape, 255)])
    if read.shape[-1] == 3:
        read = np.dstack([read, np.full(shape, 255)])
    np.testing.assert_array_equal(read, palette[index])


def test_heat_grows_with_the_value():
    pixels = heat_pixels(np.array([[0.0, 0.01, 0.5, 1.0]]), 1.0)[0]
    assert pixels[0] == 0 and pixels[-1] == 255 and (np.diff(pixels.astype(int)) > 0).all()
    assert not heat_pixels(np.zeros((2, 2)), 0.0).any()


def test_one_mistake_among_a_thousand_rows_is_visible_and_not_blue():
    pixels = SIGNED[confusion_pixels(np.array([[999, 1], [0, 0]]))].astype(int)
    right, wrong = pixels[0]
    assert wrong[3] > 60 and wrong[0] > wrong[2] and right[2] > right[0]
    assert pixels[1, 0, 3] == 0 and pixels[1, 1, 3] == 0


def test_a_sheet_holds_every_picture_at_its_place():
    pictures = draw_rows(np.random.default_rng(0).random((7, 12)), (3, 4))
    sheet = lay_out(pictures, n_columns=3)
    for number, picture in enumerate(pictures.numbers):
        column, line = sheet.place(number)
        found = sheet.numbers[3 * line : 3 * line + 3, 4 * column : 4 * column + 4]
        np.testing.assert_array_equal(found, picture)
