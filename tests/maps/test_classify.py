"""Class maps: the answers are those of the model, by blocks of any size, on Dask and in files."""

import tracemalloc

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.svm import LinearSVC

from dbdl import DBDLClassifier
from dbdl.learn.link import bent
from dbdl.maps import classify_cube, draw_map, labelled_pixels, make_scene, read_cube, write_map
from dbdl.maps.colours import NO_DATA, REFUSED, class_colours
from dbdl.maps.cube import Cube, DataError
from dbdl.maps.windows import neighbours, smoothed

SHAPE = (24, 30)


@pytest.fixture(scope="module")
def scene():
    return make_scene(SHAPE, n_bands=16, n_classes=4, noise=0.05)


@pytest.fixture(scope="module")
def pixels(scene):
    return labelled_pixels(scene.cube, scene.truth, per_class=30)


@pytest.fixture(scope="module")
def lda(pixels):
    return LinearDiscriminantAnalysis().fit(pixels.X, pixels.y)


@pytest.fixture(scope="module")
def dbdl(pixels):
    model = DBDLClassifier(n_chains=2, n_sweeps=3, views=["plain", "whitened"], random_state=0)
    return model.fit(pixels.X, pixels.y)


def same_maps(one, other):
    for name in ("numbers", "confidence", "refused"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_a_map_has_the_classes_and_probabilities_of_the_model(scene, dbdl):
    found = classify_cube(dbdl, scene.cube)
    rows = scene.spectra.reshape(-1, 16)
    np.testing.assert_array_equal(found.numbers.ravel(), dbdl.predict(rows))
    probability = dbdl.predict_proba(rows).max(axis=1)
    np.testing.assert_array_equal(found.confidence.ravel(), probability.astype(np.float32))
    assert np.mean(found.numbers == scene.truth) > 0.8
    assert not found.refused.any()


@pytest.mark.parametrize("together", ["scores", "codes"])
@pytest.mark.parametrize("window", [1, 3, 5])
def test_a_map_does_not_depend_on_the_blocks(scene, dbdl, window, together):
    options = {"window": window, "together": together, "min_probability": 0.7}
    whole = classify_cube(dbdl, scene.cube, **options)
    for n_lines in (1, 7):
        same_maps(classify_cube(dbdl, scene.cube, n_lines=n_lines, **options), whole)


def test_labels_that_are_names_are_numbered_in_order(scene, pixels):
    names = np.array(scene.names)[pixels.y - 1]
    model = LinearDiscriminantAnalysis().fit(pixels.X, names)
    found = classify_cube(model, scene.cube)
    assert found.values == (1, 2, 3, 4) and found.names == tuple(sorted(scene.names))
    assert sum(found.counts().values()) == scene.truth.size
    known = {name: int((np.array(scene.names)[scene.truth - 1] == name).sum()) for name in names}
    assert all(abs(found.counts()[name] - n) < 0.3 * n for name, n in known.items())


def test_pixels_without_data_have_no_class(scene, lda):
    spectra = scene.spectra.copy()
    spectra[3, 4, 5] = np.nan
    spectra[10:12, :, 0] = -1
    cube = Cube("scene", spectra.shape, lambda a, b: spectra[a:b], spectra.dtype, ignore_value=-1)
    gaps = np.zeros(SHAPE, bool)
    gaps[3, 4], gaps[10:12] = True, True
    for window in (1, 3):
        found = classify_cube(lda, cube, window=window, min_probability=0.5, n_lines=2)
        np.testing.assert_array_equal(found.numbers == 0, gaps)
        np.testing.assert_array_equal(np.isnan(found.confidence), gaps)
        assert not found.refused[gaps].any()


def test_refused_pixels_are_those_that_the_model_refuses(scene, dbdl, pixels):
    rows = scene.spectra.reshape(-1, 16)
    found = classify_cube(dbdl, scene.cube, min_probability=0.8)
    refused = dbdl.refuse(rows, min_probability=0.8)
    assert 0 < refused.sum() < len(refused)
    np.testing.assert_array_equal(found.refused.ravel(), refused)
    assert set(np.unique(found.shown)) == {1, 2, 3, 4, 5} and found.refused_value == 5
    with pytest.raises(DataError, match="has not measured when to refuse"):
        classify_cube(dbdl, scene.cube, max_error=0.1)
    dbdl.fit_refusals(rows, scene.truth.ravel())
    limits = (0.3, 0.2, 0.15, 0.1, 0.07, 0.05, 0.03, 0.02)
    shares = [dbdl.refuse(rows, max_error=limit).mean() for limit in limits]
    limit = next(one for one, share in zip(limits, shares, strict=True) if 0 < share < 1)
    found = classify_cube(dbdl, scene.cube, max_error=limit)
    np.testing.assert_array_equal(found.refused.ravel(), dbdl.refuse(rows, max_error=limit))
    del dbdl.refusals_


def test_a_classifier_without_probabilities_maps_without_confidence(scene, pixels, tmp_path):
    model = LinearSVC().fit(pixels.X, pixels.y)
    found = classify_cube(model, scene.cube)
    assert found.confidence is None
    np.testing.assert_array_equal(
        found.numbers.ravel(), model.predict(scene.spectra.reshape(-1, 16))
    )
    files = write_map(found, tmp_path / "map.hdr")
    assert files.confidence is None and files.refused is None
    with pytest.raises(DataError, match="gives no probabilities"):
        classify_cube(model, scene.cube, window=3)


# ----------------------------------------------------------------------------------- windows


def test_the_mean_of_scores_is_that_of_the_pixels_in_the_window(scene, dbdl):
    scores = dbdl.decision_function(scene.spectra.reshape(-1, 16)).reshape(*SHAPE, -1)
    found = classify_cube(dbdl, scene.cube, window=3)
    for row, column in ((0, 0), (5, 7), (23, 29)):
        part = scores[max(0, row - 1) : row + 2, max(0, column - 1) : column + 2]
        mean = bent(part.mean(axis=(0, 1)), dbdl.bend_) / dbdl.temperature_
        share = np.exp(mean - mean.max())
        assert found.numbers[row, column] == mean.argmax() + 1
        assert found.confidence[row, column] == pytest.approx((share / share.sum()).max(), rel=1e-5)


def test_neighbours_are_those_inside_the_scene_that_hold_data():
    has_data = np.ones((3, 4), bool)
    has_data[1, 2] = False
    found = neighbours(has_data, 3)
    assert found.shape == (3, 4, 9)
    assert found[0, 0][0] == 0 and set(found[0, 0]) == {0, 1, 4, 5, -1}
    assert set(found[1, 1]) == {0, 1, 2, 4, 5, 8, 9, 10, -1}
    assert found[1, 2][0] == -1


def test_a_window_wider_than_the_scene_takes_all_its_pixels_with_data():
    probability = np.random.default_rng(0).dirichlet((1, 1, 1), (2, 3))
    has_data = np.array([[True, False, True], [False, False, True]])
    mean = np.exp(np.log(probability[has_data]).mean(axis=0))
    found = smoothed(probability, has_data, 9)
    np.testing.assert_allclose(found, np.broadcast_to(mean / mean.sum(), found.shape))
    found = smoothed(probability, np.ones((2, 3), bool), 9)
    np.testing.assert_allclose(found, np.broadcast_to(found[0, 0], found.shape))


def test_a_window_of_one_pixel_coded_together_is_the_pixel_alone(scene, dbdl):
    """Windows that hold one pixel with data have its own answer by orthogonal pursuit."""
    from dbdl.coding import Orthogonal
    from dbdl.maps.windows import coded_together

    has_data = np.zeros(SHAPE, bool)
    has_data[::3, ::3] = True
    found = coded_together(dbdl, scene.spectra, has_data, 3, slice(None))[has_data]
    scores = 0
    for chain in dbdl.chains_:
        rows = chain.view.apply(scene.spectra[has_data])
        coder = Orthogonal(chain.coder.n_nonzero)
        codes = coder.encode(rows, chain.prepared, dbdl._backend())
        scores = scores + chain.weight * (codes @ chain.label_atoms)
    scores = bent(scores, dbdl.bend_)
    expected = np.exp((scores - scores.max(axis=1, keepdims=True)) / dbdl.temperature_)
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found, expected, atol=1e-4)


# ----------------------------------------------------------------------------------- mistakes


def test_mistakes_are_refused_in_words(scene, lda):
    narrow = make_scene(SHAPE, n_bands=15, n_classes=4).cube
    for options, message in (
        ({"cube": narrow}, "has 15 bands, but the model was fitted on 16"),
        ({"window": 2}, "odd number of pixels"),
        ({"window": 0}, "odd number of pixels"),
        ({"window": 3, "together": "atoms"}, "'scores' or 'codes'"),
        ({"window": 3, "together": "codes"}, "needs the atoms of a DBDLClassifier"),
        ({"min_probability": 1.5}, "above 0 and below 1"),
        ({"min_probability": 0.5, "max_error": 0.1}, "either"),
        ({"window": 3, "max_error": 0.1}, "does not hold for windows"),
    ):
        with pytest.raises(DataError, match=message):
            classify_cube(lda, **{"cube": scene.cube, **options})


# ------------------------------------------------------------------------------ xarray and Dask


@pytest.mark.parametrize("window", [1, 3])
def test_arrays_of_xarray_and_dask_give_the_map_of_the_cube(scene, lda, window):
    xarray, dask = pytest.importorskip("xarray"), pytest.importorskip("dask.array")
    spectra = scene.spectra.copy()
    spectra[2, 3] = np.nan
    cube = Cube("scene", spectra.shape, lambda a, b: spectra[a:b], spectra.dtype)
    expected = classify_cube(lda, cube, window=window, min_probability=0.7)
    coords = {"y": np.arange(24.0)[::-1], "x": np.arange(30.0), "place": "somewhere"}
    array = xarray.DataArray(spectra, coords, ("y", "x", "band")).transpose("band", "y", "x")
    lazy = array.copy(data=dask.from_array(array.values, chunks=(5, 7, 11)))
    for given in (array, lazy):
        found = classify_cube(lda, given, window=window, min_probability=0.7)
        assert hasattr(found["class"].data, "dask") == (given is lazy)
        np.testing.assert_array_equal(found["class"], expected.numbers)
        np.testing.assert_array_equal(found["confidence"], expected.confidence)
        np.testing.assert_array_equal(found["refused"], expected.refused)
        np.testing.assert_array_equal(found["y"], coords["y"])
        assert found["place"].item() == "somewhere"
        assert found["class"].attrs["flag_values"] == [1, 2, 3, 4]


def test_nothing_is_computed_before_a_lazy_map_is_asked_for(scene, lda):
    xarray, dask = pytest.importorskip("xarray"), pytest.importorskip("dask.array")
    seen = []

    def note(block):
        seen.append(block.shape)
        return block

    data = dask.from_array(scene.spectra, chunks=(8, 30, 16)).map_blocks(
        note, dtype=np.float32, meta=np.empty((0, 0, 0), np.float32)
    )
    found = classify_cube(lda, xarray.DataArray(data, dims=("y", "x", "band")))
    assert not seen
    found["class"][:8].compute()
    assert seen == [(8, 30, 16)]


def test_the_bands_of_an_array_are_found_by_name_or_given(scene):
    xarray = pytest.importorskip("xarray")
    for dims in (("row", "col", "wavelength"), ("y", "x", "depth"), ("a", "b", "band")):
        assert read_cube(xarray.DataArray(scene.spectra, dims=dims)).shape == (24, 30, 16)
    turned = xarray.DataArray(scene.spectra, dims=("x", "y", "band"))
    assert read_cube(turned).shape == (30, 24, 16)
    unnamed = xarray.DataArray(scene.spectra, dims=("a", "b", "c"))
    assert read_cube(unnamed, bands="c").shape == (24, 30, 16)
    for given, options, message in (
        (unnamed, {}, "which of the dimensions"),
        (unnamed, {"bands": "d"}, "not a dimension"),
        (unnamed[0], {}, "expected three"),
    ):
        with pytest.raises(DataError, match=message):
            read_cube(given, **options)


def test_coordinates_of_an_array_are_the_centres_of_its_pixels(scene):
    xarray = pytest.importorskip("xarray")
    coords = {"x": 100 + 10.0 * np.arange(30), "y": 900 - 20.0 * np.arange(24)}
    coords["wavelength"] = ("band", np.linspace(0.4, 2.4, 16), {"units": "um"})
    cube = read_cube(xarray.DataArray(scene.spectra, coords, ("y", "x", "band")))
    assert cube.georeference.transform == (10, 0, 95, 0, -20, 910)
    assert cube.wavelengths[0] == pytest.approx(400)


# ------------------------------------------------------------------------------------- outputs


@pytest.mark.parametrize("ending", [".hdr", ".tif"])
def test_files_of_a_map_hold_it_where_the_scene_lies(scene, lda, tmp_path, ending):
    rasterio = pytest.importorskip("rasterio")
    found = classify_cube(lda, scene.cube, min_probability=0.7)
    files = write_map(found, tmp_path / f"map{ending}")
    parts = (found.shown, found.confidence, found.refused)
    for file, expected in zip(files, parts, strict=True):
        path = file.with_suffix(".img") if ending == ".hdr" else file
        with rasterio.open(path) as written:
            np.testing.assert_array_equal(written.read(1), expected)
            assert written.transform[:6] == pytest.approx(scene.cube.georeference.transform)
            assert written.crs.to_epsg() == 32634
        np.testing.assert_array_equal(read_cube(file).lines(0, 24)[..., 0], expected)
    if ending == ".hdr":
        assert "class names = {Unclassified, 1, 2, 3, 4, refused}" in files.classes.read_text()


def test_a_scene_of_geotiff_is_mapped_to_envi_in_the_same_projection(scene, lda, tmp_path):
    rasterio = pytest.importorskip("rasterio")
    from dbdl.maps.geotiff import write_geotiff

    path = write_geotiff(tmp_path / "scene.tif", scene.spectra, scene.cube.georeference)
    found = classify_cube(lda, path)
    write_map(found, tmp_path / "map.hdr")
    with rasterio.open(tmp_path / "map.img") as written:
        assert written.crs.to_epsg() == 32634
        assert written.transform[:6] == pytest.approx(scene.cube.georeference.transform)


def test_a_map_in_xarray_has_coordinates(scene, lda):
    pytest.importorskip("xarray")
    found = classify_cube(lda, scene.cube).to_xarray()
    assert found["x"].values[:2].tolist() == [500005, 500015]
    assert found["y"].values[:2].tolist() == [5199995, 5199985]


def test_a_picture_shows_each_class_in_its_colour(scene, lda, tmp_path):
    from PIL import Image

    found = classify_cube(lda, scene.cube, min_probability=0.7)
    truth = scene.truth
    path = draw_map(found, tmp_path / "map.png", cube=scene.cube, truth=truth)
    picture = np.asarray(Image.open(path).convert("RGB"))
    third = picture.shape[1] // 3  # the map is the last of three panels
    for number, colour in enumerate([*class_colours(4).tolist(), REFUSED], 1):
        drawn = (picture[:, -third:] == colour).all(axis=2).mean()
        assert drawn == pytest.approx(np.mean(found.shown == number), rel=0.4, abs=0.01)
    with pytest.raises(DataError, match="but the map has the shape"):
        draw_map(found, path, cube=make_scene((9, 9)).cube)


def test_colours_are_far_from_each_other():
    colours = np.array([*class_colours(20).tolist(), NO_DATA, REFUSED], float)
    distance = np.linalg.norm(colours[:, None] - colours, axis=2)
    assert distance[~np.eye(22, dtype=bool)].min() > 40
    np.testing.assert_array_equal(class_colours(12), class_colours(20)[:12])


def test_memory_stays_bounded_by_blocks(lda, tmp_path):
    lines, samples, bands = 400, 300, 16
    path = tmp_path / "scene.img"
    np.memmap(path, np.float32, "w+", shape=(bands, lines, samples))[:] = 0.5
    (tmp_path / "scene.hdr").write_text(
        f"ENVI\nlines = {lines}\nsamples = {samples}\nbands = {bands}\ndata type = 4\n"
    )
    cube = read_cube(tmp_path / "scene.hdr")
    tracemalloc.start()
    classify_cube(lda, cube, n_lines=4)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    map_size, cube_size = 7 * lines * samples, 4 * lines * samples * bands
    assert peak < 1.5 * map_size + 1e6 < cube_size / 3


# ------------------------------------------------------------------------------------ the scene


def test_the_same_seed_gives_the_same_scene():
    one, two, other = (make_scene((12, 14), n_bands=8, random_state=s) for s in (3, 3, 4))
    np.testing.assert_array_equal(one.spectra, two.spectra)
    assert not np.array_equal(one.spectra, other.spectra)


def test_borders_are_mixed_and_the_truth_is_the_larger_share(scene):
    np.testing.assert_array_equal(scene.abundance.argmax(axis=2) + 1, scene.truth)
    np.testing.assert_allclose(scene.abundance.sum(axis=2), 1, rtol=1e-5)
    pure = make_scene(SHAPE, n_bands=16, n_classes=4, mixing=0.0)
    assert (scene.abundance.max(axis=2) < 0.9).mean() > 0.05
    assert (pure.abundance.max(axis=2) == 1).all()


def test_a_scene_that_makes_no_sense_is_refused():
    for options in ({"n_classes": 1}, {"n_classes": 17}, {"n_bands": 2}, {"shape": (1, 9)}):
        with pytest.raises(ValueError, match="Expected"):
            make_scene(**options)
