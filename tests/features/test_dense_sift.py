"""Dense SIFT against a slow version and against OpenCV's, and its treatment of images."""

from __future__ import annotations

import time

import numpy as np
import pytest
from pictures import smooth_noise, stripes
from PIL import Image
from scipy.ndimage import gaussian_filter
from sklearn.base import clone
from slow_sift import describe_patch

from dbdl.features import DenseSIFT, dense_sift
from dbdl.features.dense_sift import VERSION, cell_weights, grid_centers

# OpenCV rounds descriptors to multiples of 1/512 and cuts them at 255/512. Half a step is 0.98e-3;
# the rest is its approximate arc tangent.
OPENCV_STEP = 1 / 512
OPENCV_TOLERANCE = 1.5e-3

GOLDEN = [
    0.25214698910713196,
    0.06072799861431122,
    0.004881000146269798,
    0.0,
    0.0,
    0.0,
    0.00813599955290556,
    0.07367999851703644,
]


def opencv_descriptors(image, centers, smoothing=1.0, patch_size=16):
    """OpenCV's descriptors on the same grid: upright, no octaves, the same smoothing."""
    cv2 = pytest.importorskip("cv2", reason="needs OpenCV, an independent SIFT")
    # it takes images to be smoothed by 0.5 already, and cells to be three half-sizes wide
    sift = cv2.SIFT_create(sigma=float(np.hypot(smoothing, 0.5)))
    size = 2 * (patch_size / 4) / 3
    points = [cv2.KeyPoint(float(c), float(r), size, 0.0) for r, c in centers]
    kept, values = sift.compute(image, points)
    assert len(kept) == len(points)
    return values * OPENCV_STEP


@pytest.mark.parametrize("patch_size", [8, 16, 20])
def test_agrees_with_the_slow_descriptor(patch_size):
    image = smooth_noise(40, 44)
    found = dense_sift(image, patch_size=patch_size, smoothing=1.0, least_contrast=0)
    smooth = gaussian_filter(image / 255, 1.0, mode="mirror")
    for i in range(0, len(found.values), 5):
        expected = describe_patch(smooth, *found.centers[i], patch_size)
        np.testing.assert_allclose(found.values[i], expected, atol=2e-5)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("smoothing", [1.0, 1.6])
def test_agrees_with_opencv_on_noise(seed, smoothing):
    image = smooth_noise(120, 150, seed)
    found = dense_sift(image, smoothing=smoothing, least_contrast=0)
    expected = opencv_descriptors(image, found.centers, smoothing)
    cut = np.minimum(found.values, 255 * OPENCV_STEP)
    np.testing.assert_allclose(cut, expected, atol=OPENCV_TOLERANCE)


def test_agrees_with_opencv_on_every_patch_with_contrast_of_real_scenes(data_dir):
    paths = sorted((data_dir / "scene15_images").glob("*/*.jpg"))[::10]
    if not paths:
        pytest.skip("needs real data: no scene15_images in the folder that DBDL_DATA names")
    for path in paths:
        found = dense_sift(path)
        image = np.asarray(Image.open(path).convert("L"))
        expected = opencv_descriptors(image, found.centers)
        kept = found.values.any(axis=1)
        assert kept.mean() > 0.5
        cut = np.minimum(found.values[kept], 255 * OPENCV_STEP)
        np.testing.assert_allclose(cut, expected[kept], atol=OPENCV_TOLERANCE)


def test_the_numbers_are_those_of_version_two():
    # If this fails on purpose, raise VERSION in dense_sift.py: it is a part of the cache's key.
    r, c = np.mgrid[:24, :26]
    values = dense_sift(0.5 + 0.4 * np.sin(r / 3) * np.cos(c / 5)).values
    np.testing.assert_allclose(values[2, 40:48], GOLDEN, atol=1e-5)
    assert VERSION == 2


def test_descriptors_have_unit_norm_and_flat_patches_are_zero():
    image = np.full((60, 60), 100, dtype=np.uint8)
    image[:, 40:] = smooth_noise(60, 20)
    found = dense_sift(image)
    norm = np.linalg.norm(found.values, axis=1)
    flat = found.centers[:, 1] < 20
    assert (norm[flat] == 0).all()
    np.testing.assert_allclose(norm[found.centers[:, 1] > 40], 1, rtol=1e-5)
    assert found.values.min() >= 0


def test_brightness_and_contrast_of_an_image_do_not_matter():
    image = smooth_noise() / 255
    expected = dense_sift(image, least_contrast=0).values
    changed = dense_sift(0.5 * image + 0.3, least_contrast=0).values
    np.testing.assert_allclose(changed, expected, atol=1e-4)


def test_a_mirrored_image_has_mirrored_descriptors():
    # a grid that the mirror leaves alone: the middle pixel of a patch sits half a pixel off
    image = smooth_noise(33, 33)
    found = dense_sift(image, least_contrast=0, step=16)
    mirrored = dense_sift(image[:, ::-1], least_contrast=0, step=16)
    columns = {tuple(center): i for i, center in enumerate(mirrored.centers)}
    matched = 0
    for center, values in zip(found.centers, found.values, strict=True):
        i = columns.get((center[0], 32 - center[1]))
        if i is None:
            continue
        turned = mirrored.values[i].reshape(4, 4, 8)[:, ::-1, (4 - np.arange(8)) % 8]
        np.testing.assert_allclose(turned.ravel(), values, atol=1e-4)
        matched += 1
    assert matched


def test_stripes_fill_the_direction_across_them():
    upright = dense_sift(stripes(angle=0)).values.reshape(-1, 8).sum(axis=0)
    level = dense_sift(stripes(angle=np.pi / 2)).values.reshape(-1, 8).sum(axis=0)
    assert set(np.argsort(upright)[-2:]) == {0, 4}
    assert set(np.argsort(level)[-2:]) == {2, 6}


@pytest.mark.parametrize("length", [16, 21, 22, 250, 300])
def test_patches_lie_inside_in_the_middle_with_even_steps(length):
    centers = grid_centers(length, 16, 6)
    before, after = centers[0] - 8, length - (centers[-1] + 8)
    assert before >= 0 and after >= 0 and before + after < 6 and 0 <= after - before <= 1
    assert (np.diff(centers) == 6).all()


def test_an_image_of_300_by_250_has_1920_patches():
    assert dense_sift(np.zeros((250, 300))).values.shape == (1920, 128)


def test_an_image_of_300_by_250_takes_less_than_a_fortieth_of_a_second_of_two_cores():
    # in seconds of the processor, so that other work on the machine does not count
    images = [smooth_noise(250, 300, seed) for seed in range(10)]
    transformer = DenseSIFT(n_jobs=2)
    transformer.transform(images[:1])  # compiles
    start = time.process_time()
    transformer.transform(images)
    assert time.process_time() - start < 2 * len(images) / 40


def test_weights_are_symmetric_and_reach_half_a_cell_beyond_the_patch():
    weights = cell_weights(16)
    assert weights.shape == (4, 19)
    np.testing.assert_allclose(weights, weights[::-1, ::-1])
    assert (weights[:, [0, -1]] > 0).any(axis=0).all()


def test_the_transformer_takes_paths_and_arrays_and_any_number_of_threads(tmp_path):
    images = [smooth_noise(40, 50), smooth_noise(60, 30, 1), smooth_noise(40, 40, 2)]
    Image.fromarray(images[1]).save(tmp_path / "one.png")
    expected = [dense_sift(image) for image in images]
    for n_jobs in (1, 2, 3):
        transformer = clone(DenseSIFT(n_jobs=n_jobs))
        found = transformer.fit_transform([images[0], tmp_path / "one.png", images[2]])
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one.values, other.values)
            assert one.image_shape == other.image_shape


def test_large_images_are_made_smaller_in_proportion():
    [found] = DenseSIFT(longest_side=60).transform([smooth_noise(120, 90)])
    assert found.image_shape == (60, 45)
    [whole] = DenseSIFT(longest_side=None).transform([smooth_noise(120, 90)])
    assert whole.image_shape == (120, 90)


def test_colour_counts_by_its_luma():
    grey = smooth_noise()
    colour = np.repeat(grey[:, :, np.newaxis], 3, axis=2)
    np.testing.assert_allclose(dense_sift(colour).values, dense_sift(grey).values, atol=1e-5)


@pytest.mark.parametrize(
    ("images", "message"),
    [
        ([np.zeros((10, 40))], "smaller than a patch"),
        ([np.zeros((40, 40), dtype=int)], "uint8, or floats"),
        ([np.full((40, 40), np.nan)], "NaN"),
        ([np.zeros(40)], "has the shape"),
        ([], "at least one image"),
        (np.zeros((40, 40)), "list of images"),
    ],
)
def test_bad_images_are_refused_with_a_reason(images, message):
    with pytest.raises(ValueError, match=message):
        DenseSIFT().transform(images)


def test_a_single_path_and_bad_parameters_are_refused(tmp_path):
    with pytest.raises(TypeError, match="list with one element"):
        DenseSIFT().transform("image.jpg")
    with pytest.raises(ValueError, match="multiple of 4"):
        DenseSIFT(patch_size=10).fit()
    with pytest.raises(ValueError, match="step"):
        DenseSIFT(step=0).fit()


def test_damaged_image_files_are_named(tmp_path):
    text = tmp_path / "text.jpg"
    text.write_text("no image")
    Image.fromarray(smooth_noise(200, 200)).save(tmp_path / "whole.jpg")
    half = tmp_path / "half.jpg"
    half.write_bytes((tmp_path / "whole.jpg").read_bytes()[:900])
    for path in (text, half):
        with pytest.raises(ValueError, match=path.name):
            dense_sift(path)
