"""Every data set of the catalogue is read from its own layout."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from layouts import (
    columns_and_one_hot,
    write_ar,
    write_banked,
    write_classes,
    write_yaleb,
)
from PIL import Image
from scipy.io import savemat

from dbdl.datasets import DataError, DataNotFoundError, load, sources

SOURCES = sources()
every_source = pytest.mark.parametrize("name", SOURCES)
PAPER = ("yaleb", "ar", "caltech101", "scene15", "ucf_sports")
SMALL = {"n_words": 12, "step": 8}


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DBDL_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("DBDL_DATA", raising=False)


def test_digits_are_always_there():
    found = load()
    assert found.X.shape == (1797, 64) and found.image_shape == (8, 8)
    assert list(found.classes) == list(range(10))
    with pytest.raises(DataError, match="no features"):
        load("digits", features="random faces")


@pytest.mark.parametrize(
    ("name", "shape", "n_classes"),
    [("wine", (178, 13), 3), ("iris", (150, 4), 3), ("breast_cancer", (569, 30), 2)],
)
def test_tables_of_scikit_learn_are_always_there(name, shape, n_classes):
    found = load(name)
    assert found.X.shape == shape and list(found.classes) == list(range(n_classes))
    assert found.feature_kind == "measurements" and found.image_shape is None
    with pytest.raises(DataError, match="no features 'pixels'"):
        load(name, features="pixels")


def test_a_record_cannot_be_changed_by_accident():
    with pytest.raises(dataclasses.FrozenInstanceError):
        load().name = "other"


@every_source
def test_absent_data_says_which_files_whence_and_where_to(name, tmp_path, monkeypatch):
    source = SOURCES[name]
    with pytest.raises(DataNotFoundError) as caught:
        load(name)
    assert "DBDL_DATA is not set" in str(caught.value)
    monkeypatch.setenv("DBDL_DATA", str(tmp_path))
    with pytest.raises(DataNotFoundError) as caught:
        load(name)
    text = str(caught.value)
    for part in (*(form.file for form in source.forms), source.obtain, str(tmp_path), "DBDL_DATA"):
        assert part in text
    assert source.find() is None
    with pytest.raises(DataNotFoundError, match="there is no folder"):
        load(name, folder=tmp_path / "absent")


@every_source
def test_empty_folders_and_unknown_features_are_refused(name, tmp_path):
    for form in SOURCES[name].forms:
        if "." not in form.file:
            (tmp_path / form.file).mkdir()
            with pytest.raises(DataError, match="expected"):
                load(name, folder=tmp_path / form.file)
    with pytest.raises(DataError, match="has no features 'smells'; there are"):
        load(name, features="smells")


@pytest.mark.parametrize("name", PAPER)
def test_features_of_the_lcksvd_authors_are_read_where_they_exist(name, tmp_path):
    features, one_hot = columns_and_one_hot()
    forms = [form for form in SOURCES[name].forms if form.file.endswith(".mat")]
    assert forms
    savemat(tmp_path / forms[0].file, {"featureMat": features, "labelMat": one_hot})
    found = load(name, folder=tmp_path)
    np.testing.assert_array_equal(found.X, features.T)
    assert (found.name, found.feature_kind) == (name, forms[0].features[0])
    with pytest.raises(DataError, match="no use"):
        load(name, folder=tmp_path, settings={"n_components": 3})


def test_yaleb_leaves_out_ambient_and_damaged_images(tmp_path):
    write_yaleb(tmp_path)
    found = load("yaleb", folder=tmp_path, features="pixels", image_shape=(24, 21))
    assert found.X.shape == (18, 24 * 21)
    assert list(found.classes) == ["yaleB01", "yaleB02", "yaleB03"]


def test_yaleb_makes_504_random_faces_once(tmp_path, monkeypatch):
    root = write_yaleb(tmp_path)
    monkeypatch.setenv("DBDL_DATA", str(tmp_path))
    first = load("yaleb")
    assert first.X.shape == (18, 504) and first.feature_kind == "random faces"
    [kept] = (tmp_path / "cache").iterdir()
    before = kept.stat().st_mtime_ns
    np.testing.assert_array_equal(load("yaleb", folder=root).X, first.X)
    assert kept.stat().st_mtime_ns == before
    assert load("yaleb", settings={"n_components": 30}).X.shape == (18, 30)
    assert len(list((tmp_path / "cache").iterdir())) == 2


def test_random_faces_do_not_depend_on_the_other_images(tmp_path):
    write_yaleb(tmp_path)
    all_of_them = load("yaleb", folder=tmp_path)
    for path in (tmp_path / "CroppedYale" / "yaleB01").glob("*"):
        path.unlink()
    fewer = load("yaleb", folder=tmp_path)
    np.testing.assert_allclose(fewer.X, all_of_them.X[6:], rtol=1e-4, atol=1e-6)


def test_a_crop_of_another_size_is_named(tmp_path):
    root = write_yaleb(tmp_path)
    odd = root / "yaleB02" / "yaleB02_P00A+000E+00.pgm"
    Image.fromarray(np.zeros((5, 5), dtype=np.uint8)).save(odd)
    with pytest.raises(DataError, match=r"yaleB02_P00A\+000E\+00.pgm has 5×5 pixels"):
        load("yaleb", folder=tmp_path)


@pytest.mark.parametrize(
    ("name", "file"), [("yaleb", "extended_yaleb_32x32.npz"), ("coil20", "coil20_32x32.npz")]
)
def test_pixels_in_the_order_of_columns_are_turned_upright(tmp_path, name, file):
    image = np.zeros((32, 32), dtype=np.uint8)
    image[3, 20] = 9  # row 3, column 20
    np.savez(tmp_path / file, X=image.T.reshape(1, -1), y=[1])
    found = load(name, features="pixels", folder=tmp_path)
    assert found.X[0].reshape(found.image_shape)[3, 20] == 9
    with pytest.raises(DataError, match="32×32 pixels, not of 16×16"):
        load(name, features="pixels", folder=tmp_path, image_shape=(16, 16))


def test_usps_keeps_its_own_split(tmp_path):
    X = np.zeros((3, 256), dtype=np.float32)
    np.savez(tmp_path / "usps_16x16.npz", X_train=X, y_train=[0, 1, 2], X_test=X[:1], y_test=[2])
    found = load("usps", folder=tmp_path)
    assert found.image_shape == (16, 16) and list(found.is_test) == [0, 0, 0, 1]


def test_every_shared_data_set_has_its_shape(data_dir):
    shapes = {"yaleb": (2414, 504), "scene15": (4485, 3000), "usps": (9298, 256)}
    shapes |= {"coil20": (1440, 1024), "botswana": (3248, 145)}
    for name, shape in shapes.items():
        if SOURCES[name].find(data_dir) is None:
            pytest.skip(f"needs real data: {name} is not in the folder that DBDL_DATA names")
        found = load(name, folder=data_dir)
        assert (found.X.shape, found.name) == (shape, name)


def test_ar_takes_people_for_classes_and_has_540_random_faces(tmp_path):
    write_ar(tmp_path)
    found = load("ar", folder=tmp_path)
    assert found.X.shape == (20, 540)
    assert list(found.classes) == ["M-001", "M-002", "W-001", "W-002"]


def test_caltech101_has_its_background_class(tmp_path):
    names = ["BACKGROUND_Google", "accordion", "airplanes"]
    write_classes(tmp_path / "101_ObjectCategories", names)
    found = load("caltech101", folder=tmp_path, settings=SMALL)
    assert list(found.classes) == names and found.feature_kind == "spatial pyramid"
    assert found.X.shape == (15, 15)  # as many components as images
    whole = load("caltech101", folder=tmp_path, settings={**SMALL, "n_components": None})
    assert whole.X.shape == (15, 21 * 12)


@pytest.mark.parametrize("root", ["scene_categories", "15-Scene", "scene15_images"])
def test_scene15_in_any_of_its_folders(tmp_path, root):
    write_classes(tmp_path / root, ["bedroom", "CALsuburb", "MITcoast"])
    for coding in ("llc", "hard"):
        found = load("scene15", folder=tmp_path, settings={**SMALL, "coding": coding}, n_jobs=2)
        assert found.X.shape == (15, 15)
        assert list(found.classes) == ["CALsuburb", "MITcoast", "bedroom"]
    assert load("scene15", folder=tmp_path, features="pixels").image_shape == (32, 32)


def test_ucf_sports_reads_the_action_banks_own_files(tmp_path):
    names = ["dive", "golf", "hswing"]
    root = write_banked(tmp_path / "ucf_sports_actionbank", names)
    found = load("ucf_sports", folder=tmp_path)
    assert found.X.shape == (9, 20) and list(found.classes) == names
    assert found.feature_kind == "action bank"
    for name in names:  # the same files in one folder an action
        (root / name).mkdir()
        for path in root.glob(f"{name}*.gz"):
            path.rename(root / name / path.name)
    again = load("ucf_sports", folder=tmp_path)
    np.testing.assert_array_equal(again.X, found.X)
    np.testing.assert_array_equal(again.y, found.y)


def test_ucf_sports_names_damaged_and_odd_files(tmp_path):
    root = write_banked(tmp_path / "ucf_sports_actionbank", ["dive"])
    (root / "golf00_banked.npy.gz").write_bytes(b"damaged")
    with pytest.raises(DataError, match="golf00"):
        load("ucf_sports", folder=tmp_path)
    write_banked(root, ["golf"], n_videos=1, n_features=7)
    with pytest.raises(DataError, match="holds 7 numbers"):
        load("ucf_sports", folder=tmp_path)
