"""Users' files are read, or refused with a clear message."""

from __future__ import annotations

import builtins
import io
from functools import cache

import numpy as np
import pytest
from layouts import columns_and_one_hot, write_classes
from PIL import Image
from scipy.io import savemat

from dbdl.datasets import DataError, DataNotFoundError, load

NAMES = np.array(["cat", "dog", "cat", "cow", "dog", "cow"])
NUMBERS = np.array([1, 2, 1, 3, 2, 3])


@cache
def numbers():
    """Six rows of features, for the labels above."""
    return np.random.default_rng(0).standard_normal((6, 3))


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def table(header="a,b,c,kind", rows=None, labels=NAMES, delimiter=","):
    rows = numbers() if rows is None else rows
    lines = [header] if header else []
    lines += [",".join([*map(repr, map(float, row)), str(y)]) for row, y in zip(rows, labels)]  # noqa: B905
    return "\n".join(lines).replace(",", delimiter) + "\n"


# ------------------------------------------------------------------------------------------- npz


@pytest.mark.parametrize("names", [("X", "y"), ("features", "labels"), ("data", "target")])
def test_npz_by_usual_names(tmp_path, names):
    X = numbers()
    np.savez(tmp_path / "my.npz", **{names[0]: X, names[1]: NAMES})
    found = load(tmp_path / "my.npz")
    np.testing.assert_array_equal(found.X, X)
    np.testing.assert_array_equal(found.y, NAMES)
    assert list(found.classes) == ["cat", "cow", "dog"] and found.name == "my"


def test_npz_with_its_own_split_images_and_names_of_classes(tmp_path):
    X = numbers()
    np.savez(
        tmp_path / "a.npz", X_train=X[:4], y_train=NUMBERS[:4], X_test=X[4:], y_test=NUMBERS[4:]
    )
    found = load(tmp_path / "a.npz")
    np.testing.assert_array_equal(found.is_test, [0, 0, 0, 0, 1, 1])
    images = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    np.savez(tmp_path / "b.npz", X=images, y=[1, 0], classes=["zero", "one"], groups=[7, 8])
    found = load(tmp_path / "b.npz")
    assert found.image_shape == (3, 4) and found.feature_kind == "pixels"
    assert list(found.y) == ["one", "zero"] and list(found.groups) == [7, 8]
    assert found.X.dtype == np.float32


def test_one_hot_labels_and_whole_floats_become_numbers(tmp_path):
    X = numbers()
    np.savez(tmp_path / "a.npz", X=X, y=np.eye(4)[NUMBERS])
    np.testing.assert_array_equal(load(tmp_path / "a.npz").y, NUMBERS)
    np.savez(tmp_path / "a.npz", X=X, y=NUMBERS[:, np.newaxis].astype(float))
    np.testing.assert_array_equal(load(tmp_path / "a.npz").y, NUMBERS)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (lambda X: {"y": NAMES}, r"no array X .* it holds y \(6,\)"),
        (lambda X: {"X": X}, r"no array y"),
        (lambda X: {"X": X[:5], "y": NAMES}, r"shape \(5, 3\), but there are 6 labels"),
        (lambda X: {"X": NAMES, "y": NAMES}, "expected numbers"),
        (lambda X: {"X": X, "y": X[:, 0]}, "whole numbers or names"),
        (lambda X: {"X": X, "y": X}, "one-hot"),
        (lambda X: {"X": X.ravel(), "y": NAMES}, r"shape \(18,\)"),
        (
            lambda X: {"X": np.where(X[2, 1] == X, np.inf, X), "y": NAMES},
            "row 3, column 2 is inf",
        ),
        (lambda X: {"X": np.array([{}, {}]), "y": [0, 1]}, "could run code; save plain arrays of"),
        (lambda X: {"X_train": X, "X_test": X}, "no y_train"),
    ],
)
def test_npz_that_cannot_be_used_says_why(tmp_path, arrays, message):
    np.savez(tmp_path / "bad.npz", **arrays(numbers()))
    with pytest.raises(DataError, match=message):
        load(tmp_path / "bad.npz")


def test_damaged_and_foreign_files_say_so(tmp_path):
    X = numbers()
    np.savez(tmp_path / "whole.npz", X=X, y=NAMES)
    content = (tmp_path / "whole.npz").read_bytes()
    for suffix in (".npz", ".mat", ".parquet"):
        for damaged in (content[: len(content) // 2], b"", b"text, and not that"):
            path = tmp_path / f"damaged{suffix}"
            path.write_bytes(damaged)
            with pytest.raises(DataError, match="damaged") as refusal:
                load(path)
            assert "pickle" not in str(refusal.value)


# ------------------------------------------------------------------------------------------- csv


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_csv_takes_the_last_column_for_the_label(tmp_path, delimiter):
    X = numbers()
    found = load(write(tmp_path / "my.csv", table(delimiter=delimiter)))
    np.testing.assert_array_equal(found.X, X)
    np.testing.assert_array_equal(found.y, NAMES)
    assert found.feature_names == ("a", "b", "c")


@pytest.mark.parametrize("header", [None, "0,1,2,label", "a,b,c,kind", "1990,1991,1992,kind"])
def test_csv_headers_are_seen(tmp_path, header):
    X = numbers()
    found = load(write(tmp_path / "my.csv", table(header, labels=NUMBERS)))
    np.testing.assert_array_equal(found.X, X)
    np.testing.assert_array_equal(found.y, NUMBERS)


@pytest.mark.parametrize("columns", [["a", "b", "c"], None])
def test_csv_as_pandas_writes_it_loses_its_row_numbers(tmp_path, columns):
    X = numbers()
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=columns).assign(kind=NAMES)
    frame.to_csv(tmp_path / "my.csv")
    with pytest.warns(UserWarning, match="left out column '': a first column without a name"):
        found = load(tmp_path / "my.csv")
    np.testing.assert_allclose(found.X, X)
    np.testing.assert_array_equal(found.y, NAMES)


def test_csv_label_by_name(tmp_path):
    X = numbers()
    text = "kind,a,b\n" + "".join(f"{y},{x[0]},{x[1]}\n" for x, y in zip(X, NAMES))  # noqa: B905
    path = write(tmp_path / "my.csv", text)
    found = load(path, label="kind")
    np.testing.assert_array_equal(found.X, X[:, :2])
    np.testing.assert_array_equal(found.y, NAMES)
    with pytest.raises(DataError, match=r"no column 'sort': its columns are kind, a, b"):
        load(path, label="sort")


def test_csv_without_labels(tmp_path):
    path = write(tmp_path / "my.csv", "a,b\n1,2\n3,4\n")
    found = load(path, labelled=False)
    assert found.y is None and found.X.shape == (2, 2) and len(found.classes) == 0
    assert load(path, labelled=False, label="kind").X.shape == (2, 2)
    assert load(path, labelled=False, label="b").X.shape == (2, 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b,kind\n1,2,x\n3,oops,y\n", r"b: line 3: 'oops' is not a number"),
        ("1,2,x\n3,oops,y\n", r"2: line 2: 'oops' is not a number"),
        ("1,oops,x\n3,4,y\n", r"2: line 1: 'oops' is not a number"),
        ("a,b,kind\n1,2,\n", "line 2 has no label"),
        ("a,b,kind\n1,2,x\n\n1,2\n", r"line 4: 2 cells, but the first line has 3"),
        ("a,b,kind\n", "no rows"),
        ("", "empty"),
        ("x\ny\n", "one column. Expected .* separated by commas, semicolons or tabs"),
        ("1,2,0.5\n3,4,0.7\n", "whole numbers or names"),
        ("a,b,kind\n1,inf,x\n", r"line 2, column 2 \('b'\) is inf, and 1 of 2 values is infinite"),
    ],
)
def test_csv_that_cannot_be_used_says_where_and_why(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        load(write(tmp_path / "bad.csv", text))


def test_dates_of_a_parquet_file_are_shown_as_text(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    days = pyarrow.array([0, 1], pyarrow.timestamp("s"))
    parquet.write_table(
        pyarrow.table({"x": [1.0, 2.0], "day": days, "k": ["a", "b"]}), tmp_path / "d.parquet"
    )
    with pytest.raises(DataError, match=r"\(row 1: '1970-01-01"):
        load(tmp_path / "d.parquet")


def test_another_separator_is_named_where_a_column_is_not_found(tmp_path):
    with pytest.raises(DataError, match=r"'a\|b\|kind'. Expected .* semicolons or tabs"):
        load(write(tmp_path / "bars.csv", "a|b|kind\n1|2|x\n3|4|y\n"), label="kind")


def test_csv_that_is_no_text_is_refused(tmp_path):
    (tmp_path / "bad.csv").write_bytes(bytes(range(256)))
    with pytest.raises(DataError, match="UTF-8"):
        load(tmp_path / "bad.csv")


# --------------------------------------------------------------------------------------- parquet


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (np.array([1e20, 2e20, 3, 4, 5, 6]), "but one is 1e.20"),
        (np.array([2**64 - 1, 2**64 - 2, 3, 4, 5, 6], dtype=np.uint64), "too large; write names"),
    ],
)
def test_labels_that_no_whole_number_holds_are_refused(tmp_path, y, words):
    np.savez(tmp_path / "my.npz", X=numbers(), y=y)
    with pytest.raises(DataError, match=words):
        load(tmp_path / "my.npz")


def test_parquet_as_pandas_writes_it(tmp_path):
    X = numbers()
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame(X, columns=["a", "b", "c"]).assign(kind=NAMES)
    frame.index = list("uvwxyz")
    frame.to_parquet(tmp_path / "my.parquet")
    with pytest.warns(
        UserWarning, match="left out column '__index_level_0__': stored as the index"
    ):
        found = load(tmp_path / "my.parquet")
    np.testing.assert_array_equal(found.X, X)
    np.testing.assert_array_equal(found.y, NAMES)
    assert found.feature_names == ("a", "b", "c")
    moved = frame.reset_index(drop=True)[["kind", "a", "b"]]
    moved.to_parquet(tmp_path / "my.parquet")
    with pytest.raises(DataError, match="whole numbers or names"):
        load(tmp_path / "my.parquet")
    np.testing.assert_array_equal(load(tmp_path / "my.parquet", label="kind").y, NAMES)


def test_an_empty_cell_of_parquet_is_a_missing_value(tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame({"a": pandas.array([1, None], dtype="Int64"), "kind": ["x", "y"]})
    frame.to_parquet(tmp_path / "my.parquet")
    np.testing.assert_array_equal(load(tmp_path / "my.parquet").X, [[1], [np.nan]])


# ------------------------------------------------------------------------------------------- mat


def save_cell(file, cell):
    """Write a cell of MATLAB 7.3, texts as codes of UTF-16, and return a reference to it."""
    if isinstance(cell, str):
        codes = np.frombuffer(cell.encode("utf-16-le"), "<u2") if cell else np.zeros(2, "<u8")
        item = file.create_dataset(f"#refs#/{len(file.get('#refs#', ()))}", data=codes[:, None])
        item.attrs["MATLAB_class"] = np.bytes_("char")
        if not cell:
            item.attrs["MATLAB_empty"] = 1
    else:
        item = file.create_dataset(f"#refs#/{len(file.get('#refs#', ()))}", data=cell)
        item.attrs["MATLAB_class"] = np.bytes_("double")
    return item.ref


def save_mat73(path, arrays):
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, array in arrays.items():
            array = np.asarray(array)
            if array.dtype == object:
                array = np.vectorize(lambda cell: save_cell(file, cell), [object])(array)
                file.create_dataset(name, data=array.T, dtype=h5py.ref_dtype)
            else:
                file[name] = array.T  # MATLAB's order of axes
    with path.open("r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file".ljust(512))


@pytest.mark.parametrize("save", [savemat, save_mat73], ids=["version 5", "version 7.3"])
def test_mat_of_the_lcksvd_authors_and_of_others(tmp_path, save):
    X = numbers()
    features, one_hot = columns_and_one_hot()
    path = tmp_path / "my.mat"
    save(path, {"featureMat": features, "labelMat": one_hot})
    found = load(path)
    np.testing.assert_array_equal(found.X, features.T)
    np.testing.assert_array_equal(found.y, [1, 2, 3, 1, 2, 3])
    save(path, {"fea": X, "gnd": NUMBERS[:, np.newaxis]})
    found = load(path)
    np.testing.assert_array_equal(found.X, X)
    np.testing.assert_array_equal(found.y, NUMBERS)
    save(path, {"X": X.T, "y": NUMBERS[np.newaxis]})
    np.testing.assert_array_equal(load(path).X, X)
    split = {"training_feats": features[:, :4], "H_train": one_hot[:, :4]}
    save(path, {**split, "testing_feats": features[:, 4:], "H_test": one_hot[:, 4:]})
    found = load(path)
    np.testing.assert_array_equal(found.X, features.T)
    np.testing.assert_array_equal(found.is_test, [0, 0, 0, 0, 1, 1])


@pytest.mark.parametrize(
    "names",
    [("tr_dat", "trls", "tt_dat", "ttls"), ("Y_train", "label_train", "Y_test", "label_test")],
)
def test_mat_of_other_authors_with_samples_in_columns(tmp_path, names):
    X = numbers()
    parts = X[:4].T, NUMBERS[np.newaxis, :4], X[4:].T, NUMBERS[np.newaxis, 4:]
    savemat(tmp_path / "my.mat", dict(zip(names, parts, strict=True)))
    found = load(tmp_path / "my.mat")
    np.testing.assert_array_equal(found.X, X)
    np.testing.assert_array_equal(found.y, NUMBERS)
    assert found.is_test.sum() == 2


@pytest.mark.parametrize("save", [savemat, save_mat73], ids=["version 5", "version 7.3"])
@pytest.mark.parametrize("shape", [(6, 1), (1, 6)], ids=str)
def test_labels_in_a_cell_array_of_matlab_are_texts(tmp_path, save, shape):
    names = ["Kuh", "Bär", "Kuh", "dog", "Bär", "dog"]
    path, y = tmp_path / "my.mat", np.array(names, dtype=object).reshape(shape)
    mixed = np.array(["a", 3.0], dtype=object)
    save(path, {"X": numbers(), "y": y, "mixed": mixed, "none": np.empty((0, 0))})
    found = load(path)
    assert found.y.tolist() == names and found.X.tolist() == numbers().tolist()
    save(path, {"X": numbers(), "y": NUMBERS - 1, "classes": np.array(["cow", "dog", ""], object)})
    assert load(path).y.tolist() == ["cow", "dog", "cow", "", "dog", ""]
    save(path, {"X": numbers(), "y": mixed})
    with pytest.raises(DataError, match=r"no array y for the labels; it holds X \(6, 3\)"):
        load(path)


def test_mat_with_labels_that_are_not_one_hot_is_refused(tmp_path):
    features, one_hot = columns_and_one_hot()
    savemat(tmp_path / "my.mat", {"featureMat": features, "labelMat": one_hot + 1})
    with pytest.raises(DataError, match="exactly one entry"):
        load(tmp_path / "my.mat")


@pytest.mark.parametrize(
    ("suffix", "module"),
    [(".mat", "h5py"), (".parquet", "pyarrow.parquet"), (".xlsx", "openpyxl")],
)
def test_an_absent_extra_says_how_to_install_it(tmp_path, monkeypatch, suffix, module):
    path = tmp_path / f"my{suffix}"
    path.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(600))
    original = builtins.__import__

    def refuse(name, *rest, **more):
        if name == module:
            raise ImportError(name)
        return original(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(DataError, match="pip install " + module.partition(".")[0]):
        load(path)


# ---------------------------------------------------------------------------------------- folder


def test_a_folder_of_images_by_class_gives_pixels(tmp_path):
    root = write_classes(tmp_path / "pets", ["cat", "dog"], n_images=3)
    (root / "notes.txt").write_text("no class")
    (root / "cat" / ".hidden.jpg").write_text("no image")
    found = load(root)
    assert found.X.shape == (6, 1024) and found.image_shape == (32, 32)
    assert list(found.y) == ["cat"] * 3 + ["dog"] * 3 and found.name == "pets"
    assert 0 <= found.X.min() < found.X.max() <= 1
    assert load(root, image_shape=(5, 7)).X.shape == (6, 35)


def test_small_images_of_one_size_stay_as_they_are(tmp_path):
    grey = np.arange(12, dtype=np.uint8).reshape(3, 4)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        Image.fromarray(grey).save(tmp_path / name / "1.png")
    found = load(tmp_path)
    assert found.image_shape == (3, 4)
    np.testing.assert_allclose(found.X[0] * 255, np.arange(12), rtol=1e-6)


def test_the_sides_of_small_images_are_those_of_the_image_turned_upright(tmp_path):
    exif = Image.Exif()
    exif[274] = 6  # to be turned by a quarter
    grey = np.arange(12, dtype=np.uint8).reshape(3, 4)
    for ending in ("png", "jpg", "tif"):
        for name in ("a", "b"):
            (tmp_path / ending / name).mkdir(parents=True)
            Image.fromarray(grey).save(tmp_path / ending / name / f"1.{ending}", exif=exif)
        assert load(tmp_path / ending).image_shape == (4, 3)
    path = tmp_path / "png" / "a" / "1.png"
    np.testing.assert_allclose(load(path, labelled=False).X * 255, [np.rot90(grey, -1).ravel()])


def test_images_of_several_frames_are_said(tmp_path, monkeypatch):
    frames = [Image.fromarray(np.full((3, 4), level, np.uint8)) for level in (51, 255)]
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        frames[0].save(tmp_path / name / "1.tif")
        frames[0].save(tmp_path / name / "2.tif", save_all=True, append_images=frames[1:])
        # an animation
        frames[0].save(tmp_path / name / "3.gif", save_all=True, append_images=frames[1:])
    with pytest.warns(UserWarning) as said:
        assert load(tmp_path).n_samples == 6
    told = "2 images have several frames, of which the first was read (a/2.tif, b/2.tif)"
    assert [str(one.message) for one in said] == [f"{tmp_path}: {told}"]
    with pytest.warns(UserWarning, match=r"2\.tif has 2 frames; the first was read"):
        found = load(tmp_path / "a" / "2.tif", labelled=False)
    np.testing.assert_allclose(found.X, 0.2)
    content = (tmp_path / "a" / "2.tif").read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    with pytest.warns(UserWarning, match="^standard input has 2 frames; the first was read"):
        load("-", labelled=False)


def test_loose_images_need_class_folders_unless_unlabelled(tmp_path):
    write_classes(tmp_path, ["pets"], n_images=2)
    loose = tmp_path / "pets"
    with pytest.raises(DataError, match="folder named after the class"):
        load(loose)
    found = load(loose, labelled=False)
    assert found.y is None and found.X.shape == (2, 1024)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="no images"):
        load(tmp_path / "empty")


def test_other_features_of_any_folder_of_images(tmp_path):
    root = write_classes(tmp_path / "pets", ["cat", "dog"], n_images=4)
    settings = {"n_words": 16, "step": 8, "n_components": 5}
    found = load(root, features="spatial-pyramid", settings=settings, cache=tmp_path / "cache")
    assert found.X.shape == (8, 5) and found.feature_kind == "spatial pyramid"
    with pytest.raises(DataError, match="image_shape"):
        load(root, features="random faces", cache=tmp_path / "cache")
    faces = load(
        root,
        features="random faces",
        settings={"n_components": 9},
        image_shape=(20, 16),
        cache=tmp_path / "cache",
    )
    assert faces.X.shape == (8, 9)
    np.testing.assert_allclose(np.linalg.norm(faces.X, axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"features": "colours"}, "no features 'colours'; there are 'pixels'"),
        ({"features": "spatial pyramid", "settings": {"words": 3}}, "Invalid parameter 'words'"),
        ({"features": "spatial pyramid", "settings": {"n_components": 99}}, "PCA of 4 images"),
        ({"features": "random faces", "settings": {"random_state": None}}, "whole number"),
        ({"settings": {"n_words": 3}}, "unknown setting 'n_words'"),
    ],
)
def test_wishes_that_cannot_be_met_are_refused(tmp_path, options, message):
    root = write_classes(tmp_path / "pets", ["cat", "dog"], n_images=2)
    with pytest.raises(DataError, match=message):
        load(root, cache=tmp_path / "cache", **options)


@pytest.mark.parametrize("features", ["pixels", "random faces", "spatial pyramid"])
def test_an_image_that_cannot_be_used_is_named(tmp_path, features):
    root = write_classes(tmp_path / "pets", ["cat", "dog"], n_images=2)
    (root / "dog" / "image_0002.jpg").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"image_0002\.jpg"):
        load(root, features=features, cache=tmp_path / "cache")


def test_an_image_smaller_than_a_patch_is_named(tmp_path):
    root = write_classes(tmp_path / "pets", ["cat", "dog"], n_images=2)
    Image.fromarray(np.zeros((9, 50), dtype=np.uint8)).save(root / "dog" / "image_0002.jpg")
    with pytest.raises(DataError, match=r"image_0002\.jpg has 9×50 pixels, smaller than a patch"):
        load(root, features="spatial pyramid", cache=tmp_path / "cache")


# ------------------------------------------------------------------------------------------ paths


def test_unknown_names_and_endings_say_what_there_is(tmp_path):
    X = numbers()
    with pytest.raises(DataNotFoundError, match=r"digits, wine, iris, breast_cancer, yaleb, ar"):
        load(tmp_path / "absent.csv")
    with pytest.raises(DataError, match=r"cannot read \.xls; .*\.npz, \.csv"):
        load(write(tmp_path / "my.xls", "x"))
    np.savez(tmp_path / "my.npz", X=X, y=NAMES)
    with pytest.raises(DataError, match="settings are for folders of images"):
        load(tmp_path / "my.npz", settings={"n_words": 3})
    with pytest.raises(DataError, match="4 pixels, but rows have 3"):
        load(tmp_path / "my.npz", image_shape=(2, 2))
    assert load(str(tmp_path / "my.npz"), image_shape=(3, 1)).image_shape == (3, 1)


@pytest.mark.parametrize("path", [3, None, b"digits", ["digits"], np.array(["digits"])])
def test_what_is_no_path_is_named(path):
    with pytest.raises(TypeError, match="expected a path as text, got"):
        load(path)


def test_a_path_without_characters_or_with_a_null_byte_is_refused(tmp_path):
    with pytest.raises(ValueError, match="null byte"):
        load(f"{tmp_path}/a\0b.csv")
    with pytest.raises(ValueError, match="null byte"):
        load("yaleb", folder=f"{tmp_path}/a\0b")
    with pytest.raises(ValueError, match="the path is empty"):
        load("")


@pytest.mark.parametrize(
    ("option", "error"),
    [
        ({"features": 3}, TypeError),
        ({"label": 3}, TypeError),
        ({"settings": 3}, TypeError),
        ({"columns": "a"}, TypeError),
        ({"columns": [1, 2]}, TypeError),
        ({"columns": ["a"]}, DataError),
        ({"image_shape": 3}, DataError),
        ({"image_shape": (0, 3)}, DataError),
        ({"image_shape": ("a", "b")}, DataError),
    ],
)
def test_an_option_of_another_kind_is_named(tmp_path, option, error):
    X = numbers()
    np.savez(tmp_path / "my.npz", X=X, y=NAMES)
    with pytest.raises(error, match=f"{next(iter(option))}="):
        load(tmp_path / "my.npz", **option)


# -------------------------------------------------------------------- columns that are no features


def lines(*columns):
    return "\n".join(",".join(map(str, row)) for row in zip(*columns, strict=True)) + "\n"


KIND = ["kind", *NAMES]


@cache
def two_columns():
    return ["a", *numbers()[:, 0]], ["b", *numbers()[:, 1]]


@pytest.mark.parametrize(
    ("column", "why"),
    [
        (["", *"uvwxyz"], "without a name"),
        (["Unnamed: 0", 0.5, -2.25, 1.75, 0.25, 3.5, -0.75], "without a name"),
        (["number", *range(6)], "consecutive whole numbers"),
        (["number", *range(-3, 3)], "consecutive whole numbers"),
        (["number", 7.0, 8.0, 9.0, 10.0, 11.0, 12.0], "consecutive whole numbers"),
        (["name", *"uvwxyz"], "a different text in every row"),
    ],
)
def test_a_column_that_numbers_or_names_the_rows_is_left_out_with_a_note(tmp_path, column, why):
    FIRST, SECOND = two_columns()
    path = write(tmp_path / "my.csv", lines(column, FIRST, SECOND, KIND))
    with pytest.warns(UserWarning, match=f"left out column '{column[0]}': .*{why}"):
        found = load(path)
    assert found.feature_names == ("a", "b") and found.column_roles == "offl"
    np.testing.assert_array_equal(found.y, NAMES)


def test_levels_of_an_index_are_all_left_out(tmp_path):
    X = numbers()
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    index = pandas.MultiIndex.from_product([["u", "v"], [3, 5, 8]])
    frame = pandas.DataFrame(X, columns=list("abc"), index=index).assign(kind=NAMES)
    frame.to_csv(tmp_path / "my.csv")
    frame.to_parquet(tmp_path / "my.parquet")
    frame.rename_axis(["site", "plot"]).to_parquet(tmp_path / "named.parquet")
    for name in ("my.csv", "my.parquet", "named.parquet"):
        with pytest.warns(UserWarning, match="left out columns"):
            assert load(tmp_path / name).feature_names == ("a", "b", "c")
    frame.drop(columns="kind").rename_axis(["site", "plot"]).to_parquet(tmp_path / "my.parquet")
    with pytest.warns(UserWarning, match="left out column 'plot'"):
        found = load(tmp_path / "my.parquet", label="site")
    assert list(found.classes) == ["u", "v"] and found.feature_names[-1] == "c"


def test_the_index_of_a_table_with_wavelengths_for_names_is_left_out(tmp_path):
    X = numbers()
    columns = (["", *range(6)], ["400", *X[:, 0]], ["410", *X[:, 1]], KIND)
    with pytest.warns(UserWarning, match="without a name"):
        found = load(write(tmp_path / "my.csv", lines(*columns)))
    assert found.feature_names == ("400", "410") and len(found.X) == 6


@pytest.mark.parametrize(
    "values", [[5, 3, 4, 0, 2, 1], [1, 3, 5, 7, 9, 11], [0, 1, 2, 3, 4, 6]], ids=str
)
def test_other_whole_numbers_that_differ_in_every_row_are_used_with_a_note(tmp_path, values):
    FIRST, _ = two_columns()
    path = write(tmp_path / "my.csv", lines(["number", *values], FIRST, KIND))
    with pytest.warns(UserWarning, match="used column 'number': a different whole number"):
        np.testing.assert_array_equal(load(path).X[:, 0], values)


@pytest.mark.parametrize(
    "values", [[0, 1, 2, 3, 4, 4], [0.5, 1.5, 2.5, 3.5, 4.5, 5.5], [0, 1, 2, 3, 4, 5.5]], ids=str
)
def test_measurements_are_used_without_a_word(tmp_path, values, recwarn):
    FIRST, _ = two_columns()
    path = write(tmp_path / "my.csv", lines(["length", *values], FIRST, KIND))
    np.testing.assert_array_equal(load(path).X[:, 0], values)
    assert not recwarn


def test_a_few_rows_may_count_up_by_chance(tmp_path, recwarn):
    path = write(tmp_path / "my.csv", "a,b,kind\n1,5,x\n2,6,y\n3,7,x\n4,8,y\n")
    assert load(path).feature_names == ("a", "b") and not recwarn


def test_columns_by_name_are_used_in_their_order_whatever_they_hold(tmp_path, recwarn):
    X = numbers()
    FIRST, SECOND = two_columns()
    path = write(tmp_path / "my.csv", lines(["number", *range(6)], FIRST, SECOND, KIND))
    found = load(path, columns=["b", "number"])
    np.testing.assert_array_equal(found.X, np.column_stack([X[:, 1], np.arange(6)]))
    np.testing.assert_array_equal(found.y, NAMES)
    assert not recwarn
    with pytest.raises(DataError, match="no column 'c', which is one of the 2 columns to use"):
        load(path, columns=["b", "c"])
    with pytest.raises(DataError, match="no column of labels"):
        load(write(tmp_path / "bare.csv", lines(FIRST, SECOND)), columns=["a", "b"])
    with pytest.raises(DataError, match="no header"):
        load(write(tmp_path / "nameless.csv", lines(FIRST[1:], KIND[1:])), columns=["a"])


def test_a_header_of_numbers_is_known_by_the_columns_that_are_asked_for(tmp_path):
    X = numbers()
    path = write(tmp_path / "my.csv", lines(["410", *X[:, 0]], ["400", *X[:, 1]]))
    found = load(path, labelled=False, columns=["400", "410"])
    np.testing.assert_array_equal(found.X, X[:, [1, 0]])


def test_a_table_of_row_numbers_alone_is_refused(tmp_path):
    path = write(tmp_path / "my.csv", lines(["number", *range(6)], KIND))
    with pytest.warns(UserWarning), pytest.raises(DataError, match="only number or name the rows"):
        load(path)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_two_columns_of_one_name_are_refused(tmp_path, suffix):
    X = numbers()
    FIRST, _ = two_columns()
    path = tmp_path / f"my{suffix}"
    if suffix == ".csv":
        write(path, lines(FIRST, ["a", *X[:, 1]], KIND))
    else:
        parquet = pytest.importorskip("pyarrow.parquet")
        import pyarrow

        arrays = [pyarrow.array(X[:, 0]), pyarrow.array(X[:, 1]), pyarrow.array(NAMES)]
        parquet.write_table(pyarrow.Table.from_arrays(arrays, ["a", "a", "kind"]), path)
    for options in ({}, {"columns": ["a"]}, {"labelled": False}):
        with pytest.raises(DataError, match="2 columns have the name 'a'"):
            load(path, **options)


def test_names_with_a_low_line_are_no_numbers(tmp_path):
    path = write(tmp_path / "my.csv", "a,b,kind\n1,2,1_2\n3,4,12\n")
    assert list(load(path).y) == ["1_2", "12"]
    with pytest.raises(DataError, match="'1_2' is not a number"):
        load(write(tmp_path / "my.csv", "a,b,kind\n1_2,2,x\n3,4,y\n5,6,y\n"))


def test_text_and_categories_of_text_in_parquet_are_categories(tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    for column in (["1", "2", "1"], pandas.Categorical(["1", "2", "1"]), [b"1", b"2", b"1"]):
        frame = pandas.DataFrame({"a": column, "b": [0.5, 1.5, 2.5], "kind": ["x", "y", "x"]})
        frame.to_parquet(tmp_path / "my.parquet")
        found = load(tmp_path / "my.parquet")
        assert found.column_kinds == "cn" and found.X[:, 0].tolist() == ["1", "2", "1"]
    frame["a"] = pandas.Categorical([4, 5, 4])
    frame.to_parquet(tmp_path / "my.parquet")
    np.testing.assert_array_equal(load(tmp_path / "my.parquet").X[:, 0], [4, 5, 4])


def test_complex_numbers_and_bytes_are_no_features_and_any_bytes_are_labels(tmp_path):
    X = numbers()
    savemat(tmp_path / "my.mat", {"X": X + 1j, "y": NUMBERS})
    with pytest.raises(DataError, match="complex128, expected numbers"):
        load(tmp_path / "my.mat")
    np.savez(tmp_path / "my.npz", X=X.astype("S"), y=NUMBERS)
    with pytest.raises(DataError, match="expected numbers"):
        load(tmp_path / "my.npz")
    words = ["Käfer".encode(), b"bee", b"\xff\xfe"]
    np.savez(tmp_path / "my.npz", X=X[:3], y=words)
    assert list(load(tmp_path / "my.npz").y)[:2] == ["Käfer", "bee"]


def damaged(content, n_changes=60):
    """The same bytes with some of them changed, or cut off."""
    rng = np.random.default_rng(0)
    for _ in range(n_changes):
        changed = bytearray(content)
        for place in rng.integers(0, len(content), 3):
            changed[place] = rng.integers(0, 256)
        yield bytes(changed)
        yield content[: rng.integers(0, len(content))]


@pytest.mark.parametrize("suffix", [".npz", ".parquet", ".mat", ".png"])
@pytest.mark.filterwarnings("ignore")
def test_files_with_any_bytes_changed_are_read_or_refused_in_words(tmp_path, suffix):
    X = numbers()
    path = tmp_path / "cat" / f"my{suffix}"
    path.parent.mkdir()
    if suffix == ".npz":
        np.savez_compressed(path, X=X, y=NAMES)
    elif suffix == ".parquet":
        pandas = pytest.importorskip("pandas")
        pytest.importorskip("pyarrow")
        pandas.DataFrame(X, columns=list("abc")).assign(kind=NAMES).to_parquet(path)
    elif suffix == ".mat":
        savemat(path, {"X": X, "y": NUMBERS}, do_compression=True)
    else:
        Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8)).save(path)
    refused = 0
    for content in damaged(path.read_bytes()):
        path.write_bytes(content)
        try:
            load(tmp_path if suffix == ".png" else path)
        except DataError:
            refused += 1
    assert refused > 60


def test_folders_of_classes_without_images_are_refused(tmp_path):
    for name in ("cat", "dog"):
        (tmp_path / "pets" / name).mkdir(parents=True)
    for labelled in (True, False):
        with pytest.raises(DataError, match="holds no images"):
            load(tmp_path / "pets", labelled=labelled)
    write_classes(tmp_path / "pets", ["cat"], n_images=3)
    with pytest.warns(UserWarning, match="no images in dog, which is not a class then"):
        assert list(load(tmp_path / "pets").classes) == ["cat"]


def test_a_folder_in_place_of_an_image_is_named(tmp_path):
    from dbdl.features import DenseSIFT

    with pytest.raises(ValueError, match="is a folder; pass the images that it holds"):
        DenseSIFT().fit_transform([tmp_path])
