"""Spatial pyramids: words, regions and pooling, against explicit sums."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from pictures import smooth_noise, stripes
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from dbdl.coding.llc import llc
from dbdl.features import DenseSIFT, LocalDescriptors, SpatialPyramid


@cache
def images():
    return [smooth_noise(60 + 7 * i, 80 - 5 * i, i) for i in range(4)]


def fit(**parameters):
    IMAGES = images()
    return SpatialPyramid(**{"n_words": 12, "normalize": False, **parameters}).fit(IMAGES)


def codes_and_places(model, image):
    """Dense codes (n_patches, n_words), and row and column of each patch as parts of the image."""
    described = DenseSIFT().describe(image)
    if model.coding == "hard":
        distance = ((described.values[:, None] - model.words_[None]) ** 2).sum(axis=2)
        codes = np.eye(model.n_words)[distance.argmin(axis=1)]
    else:
        codes = llc(described.values, model.words_, model.n_neighbors).toarray()
    return codes, described.centers / np.array(described.image_shape)


@pytest.mark.parametrize("coding", ["hard", "llc"])
@pytest.mark.parametrize("levels", [(0, 1, 2), (1,), (2, 0)])
def test_rows_are_codes_pooled_over_each_region(coding, levels):
    IMAGES = images()
    model = fit(coding=coding, levels=levels)
    [row] = model.transform(IMAGES[:1])
    codes, place = codes_and_places(model, IMAGES[0])
    expected = []
    for level in levels:
        side = 2**level
        for r in range(side):
            for c in range(side):
                inside = (np.floor(place * side) == (r, c)).all(axis=1)
                part = codes[inside]
                pooled = part.mean(axis=0) if coding == "hard" else np.maximum(part.max(axis=0), 0)
                expected.append(pooled)
    np.testing.assert_allclose(row, np.concatenate(expected), atol=1e-6)


def test_rows_have_21_regions_of_1024_words_by_default():
    IMAGES = images()
    model = SpatialPyramid(n_sampled=1500).fit([smooth_noise(100, 100, i) for i in range(10)])
    rows = model.transform(IMAGES[:2])
    assert rows.shape == (2, 21 * 1024) and rows.dtype == np.float32
    assert len(model.get_feature_names_out()) == 21 * 1024
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize("coding", ["hard", "llc"])
def test_any_number_of_threads_gives_the_same_bits_and_images_do_not_see_each_other(coding):
    IMAGES = images()
    model = fit(coding=coding)
    expected = model.transform(IMAGES)
    for n_jobs in (2, 3):
        np.testing.assert_array_equal(model.set_params(n_jobs=n_jobs).transform(IMAGES), expected)
    np.testing.assert_array_equal(model.transform(IMAGES[2:3])[0], expected[2])


def test_the_same_seed_gives_the_same_words_for_any_number_of_threads():
    words = fit(n_sampled=200).words_
    np.testing.assert_allclose(fit(n_sampled=200, n_jobs=2).words_, words, atol=1e-5)
    assert not np.allclose(fit(n_sampled=200, random_state=1).words_, words, atol=1e-3)


def test_descriptors_made_before_count_as_images():
    IMAGES = images()
    described = DenseSIFT().transform(IMAGES)
    model = SpatialPyramid(n_words=12).fit(described)
    np.testing.assert_array_equal(model.transform(described), model.transform(IMAGES))


def test_regions_without_patches_are_zero():
    model = fit(coding="hard")
    described = LocalDescriptors(model.words_[:1], np.array([[3, 4]]), (40, 40))
    [row] = model.transform([described])
    regions = row.reshape(21, 12)
    assert regions[0, 0] == regions[1, 0] == regions[5, 0] == 1 and regions.sum() == 3


def test_textures_are_told_apart_in_a_pipeline_with_pca():
    angles = np.repeat([0.0, 0.8, 1.6, 2.4], 6)
    images = [stripes(angle=angle, seed=i) for i, angle in enumerate(angles)]
    model = make_pipeline(SpatialPyramid(20), PCA(6), KNeighborsClassifier(1))
    names = angles.astype(str)
    assert clone(model).fit(images[::2], names[::2]).score(images[1::2], names[1::2]) == 1


def test_too_few_descriptors_and_bad_parameters_are_refused():
    with pytest.raises(ValueError, match=r"only .* descriptors"):
        SpatialPyramid().fit([smooth_noise(20, 20)])
    with pytest.raises(ValueError, match="levels"):
        fit(levels=(0, -1))
    with pytest.raises(ValueError, match="coding"):
        fit(coding="soft")
