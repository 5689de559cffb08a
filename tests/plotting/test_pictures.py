"""Pictures show the values of the arrays."""

from __future__ import annotations

import numpy as np
import pytest

from dbdl.plotting.arrangement import best_atoms_in_turn, order_by_owner, spread_evenly
from dbdl.plotting.pictures import GREY, curve_pixels, draw_rows


def test_rows_without_a_sign_go_from_black_to_white():
    pictures = draw_rows(np.array([[0.0, 1.0, 2.0, 4.0], [0.0, 0.0, 0.0, 0.0]]), (2, 2))
    assert pictures.palette is GREY
    assert pictures.numbers[0].ravel().tolist() == sorted(pictures.numbers[0].ravel())
    assert (pictures.numbers[0, 0, 0], pictures.numbers[0, 1, 1]) == (0, 255)
    assert not pictures.numbers[1].any()


def test_signs_have_colours_of_their_own_and_zero_is_transparent():
    pixels = draw_rows(np.array([[-3.0, 0.0, 3.0, 0.0]]), (1, 4)).rgba[0, 0]
    orange, nothing, blue, _ = pixels.astype(int)
    assert orange[0] > orange[2] and orange[3] == 255
    assert blue[2] > blue[0] and blue[3] == 255
    assert nothing[3] == 0


def test_pixels_are_read_in_the_order_asked_for():
    row = np.arange(6.0)[np.newaxis]
    by_column = draw_rows(row, (2, 3), order="F").numbers[0]
    np.testing.assert_array_equal(by_column, draw_rows(row, (3, 2)).numbers[0].T)
    with pytest.raises(ValueError, match="'K' is unknown"):
        draw_rows(row, (2, 3), order="K")


def test_large_images_are_averaged_down_and_keep_their_mean():
    image = np.random.default_rng(0).random((192, 168))
    pictures = draw_rows(image.reshape(1, -1), (192, 168))
    assert pictures.numbers.shape == (1, 64, 56)
    means = image.reshape(64, 3, 56, 3).mean(axis=(1, 3))
    expected = 255 * np.minimum(means / np.quantile(means, 0.99), 1)
    np.testing.assert_allclose(pictures.numbers[0], expected, atol=3)


def test_a_highlight_does_not_leave_the_rest_of_an_image_dark():
    image = np.full((20, 20), 0.2)
    image[3, 3] = 1.0
    pixels = draw_rows(image.reshape(1, -1), (20, 20)).numbers[0]
    assert pixels[0, 0] > 0.5 * 255 and pixels[3, 3] == 255


def test_a_curve_rises_where_the_values_do():
    pixels = curve_pixels(np.linspace(-1, 1, 50), (32, 40)) == 255
    tops = pixels.argmax(axis=0)
    assert pixels.any(axis=0).all()
    assert (np.diff(tops) <= 0).all() and tops[0] > 25 and tops[-1] < 4


def test_a_spike_between_columns_is_not_lost():
    values = np.zeros(5000)
    values[1234] = 1.0
    drawn = curve_pixels(values, (32, 100)) == 255
    assert drawn[1].nonzero()[0].tolist() == [24]
    assert curve_pixels(np.array([2.0]), (32, 100)).any()


def test_atoms_are_ordered_by_the_class_that_uses_them_most():
    probability = np.array([[0.9, 0.1, 0.2, 0.5], [0.1, 0.8, 0.9, 0.4]])
    assert order_by_owner(probability).tolist() == [0, 3, 2, 1]
    assert best_atoms_in_turn(probability, 3) == [(0, 0), (0, 3), (1, 2)]
    assert spread_evenly(38, 3).tolist() == [0, 18, 37]
    assert spread_evenly(2, 6).tolist() == [0, 1]
