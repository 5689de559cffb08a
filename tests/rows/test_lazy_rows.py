"""Rows that are read in parts are the rows of the file, and lead to the same model as in memory."""

import pickle
import warnings

import numpy as np
import pytest

from dbdl import DBDLClassifier, ModelSettings, open_rows
from dbdl.datasets import DataError, load
from dbdl.rows import lazy_rows, readers
from dbdl.views import LabelledRows, view_named

FIT = {"n_sweeps": 2, "n_chains": 1, "n_initial_atoms": 30, "n_nonzero": 3, "random_state": 0}


def labelled_rows(n_rows=9000, n_features=6, dtype=np.float32):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, n_rows)
    X = rng.standard_normal((3, n_features))[y] + 0.4 * rng.standard_normal((n_rows, n_features))
    return X.astype(dtype), np.array(["ash", "elm", "oak"])[y]


def write_npy(folder, X, y):
    np.save(folder / "rows.npy", X)
    return folder / "rows.npy"


def write_fortran(folder, X, y):
    np.save(folder / "rows.npy", np.asfortranarray(X))
    return folder / "rows.npy"


def write_hdf5(folder, X, y):
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "rows.h5", "w") as file:
        file["X"], file["y"] = X, y.astype("S")
    return folder / "rows.h5"


def write_zarr(folder, X, y):
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group(str(folder / "rows.zarr"), mode="w")
    array = group.create_array("X", shape=X.shape, dtype=X.dtype, chunks=(1000, X.shape[1]))
    array[:] = X
    return folder / "rows.zarr"


def write_parquet(folder, X, y):
    pytest.importorskip("pyarrow")
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=[f"band {i}" for i in range(X.shape[1])])
    frame.assign(y=y).to_parquet(folder / "rows.parquet", row_group_size=1234)
    return folder / "rows.parquet"


every_format = pytest.mark.parametrize(
    "write", [write_npy, write_fortran, write_hdf5, write_zarr, write_parquet]
)


@every_format
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_of_a_file_are_read_by_slices_and_by_numbers(tmp_path, write, dtype):
    X, y = labelled_rows(dtype=dtype)
    reader, labels = open_rows(write(tmp_path, X, y))
    assert reader.shape == X.shape
    assert reader.dtype == dtype
    if labels is not None:
        np.testing.assert_array_equal(labels, y)
    sent = pickle.loads(pickle.dumps(reader))
    for rows in (reader, sent):
        np.testing.assert_array_equal(rows.read(1200, 2500), X[1200:2500])
        np.testing.assert_array_equal(rows.read(8990, 9000), X[8990:])
        numbers = np.array([8999, 3, 1234, 1233, 3])
        np.testing.assert_array_equal(rows.take(numbers), X[numbers])
    assert len(pickle.dumps(reader)) < 5000  # its name travels, not its content


@every_format
def test_learning_from_a_file_gives_the_bits_of_learning_from_memory(tmp_path, write):
    X, y = labelled_rows()
    reader, _ = open_rows(write(tmp_path, X, y))
    here, there = (DBDLClassifier(**FIT).fit(rows, y) for rows in (X, reader))
    for name in ("atoms_", "label_atoms_", "selection_probability_"):
        np.testing.assert_array_equal(getattr(there, name), getattr(here, name), err_msg=name)
    np.testing.assert_array_equal(there.predict(reader), here.predict(X))
    np.testing.assert_array_equal(there.predict_proba(reader), here.predict_proba(X))
    assert (there.transform(reader) != here.transform(X)).nnz == 0
    if write is write_parquet:
        assert there.feature_names_in_[0] == "band 0"


def test_draws_and_scores_of_sweeps_are_those_of_rows_in_memory(tmp_path):
    callback = pytest.importorskip("sklearn.callback", reason="came with scikit-learn 1.9")
    X, y = labelled_rows()
    reader, _ = open_rows(write_npy(tmp_path, X, y))
    found = []
    for rows in (X, reader):
        monitor = callback.ScoringMonitor(scoring="accuracy")
        settings = {**FIT, "n_draws": 2, "model": ModelSettings(keep_atom_draws=True)}
        model = DBDLClassifier(**settings).set_callbacks(monitor).fit(rows, y)
        scores = [line["accuracy"] for line in monitor.get_logs().data]
        found.append((model.chains_[0].draws, scores, model.posterior_proba(rows)))
    (here, scores, probability), (there, other_scores, other_probability) = found
    np.testing.assert_array_equal(there.atoms, here.atoms)
    np.testing.assert_array_equal(other_probability, probability)
    assert other_scores == scores and len(scores) > 2


def test_open_datasets_of_hdf5_and_zarr_and_large_maps_are_read_in_parts(tmp_path, monkeypatch):
    h5py, zarr = pytest.importorskip("h5py"), pytest.importorskip("zarr")
    X, y = labelled_rows()
    with h5py.File(write_hdf5(tmp_path, X, y)) as file:
        assert isinstance(lazy_rows(file["X"]).reader, readers.Hdf5Rows)
    array = zarr.open(str(write_zarr(tmp_path, X, y)), mode="r")["X"]
    assert isinstance(lazy_rows(array).reader, readers.ZarrRows)
    mapped = np.load(write_npy(tmp_path, X, y), mmap_mode="r")
    assert lazy_rows(mapped) is None  # small enough to be read at once
    monkeypatch.setattr(readers, "SMALL_MEMMAP", 1000)
    np.testing.assert_array_equal(lazy_rows(mapped)[5:9], X[5:9])
    for view in (mapped[100:], mapped[:, 1:], mapped[::2]):  # where they start is not known
        assert lazy_rows(view) is None


def test_rows_are_mapped_and_looked_at_as_they_are_read(tmp_path):
    X, y = labelled_rows()
    X[4321, 2] = np.inf
    rows = lazy_rows(open_rows(write_npy(tmp_path, X, y))[0])
    np.testing.assert_array_equal(rows[:4000], X[:4000])
    known = LabelledRows(X[:4000], np.zeros(4000, dtype=np.int64), 1)
    view = view_named("whitened + constant").fit(known)
    mapped = rows.through(view)
    assert mapped.shape == (9000, 7) and mapped.dtype == X.dtype
    np.testing.assert_array_equal(mapped[:4000], view.apply(X[:4000]))
    with pytest.raises(ValueError, match="NaN or infinity, first in row 4321"):
        rows[4000:5000]
    with pytest.raises(ValueError, match="NaN or infinity"):
        DBDLClassifier(**FIT).fit(open_rows(tmp_path / "rows.npy")[0], y)


@every_format
def test_some_rows_of_a_file_are_read_like_all_of_them(tmp_path, write):
    X, y = labelled_rows()
    rows = lazy_rows(open_rows(write(tmp_path, X, y))[0])
    numbers = np.flatnonzero(np.arange(len(X)) % 10 != 3)
    some = rows.only(numbers)
    assert some.shape == (len(numbers), X.shape[1]) and some.dtype == X.dtype
    for part in (some, pickle.loads(pickle.dumps(some))):
        np.testing.assert_array_equal(part[1000:3000], X[numbers[1000:3000]])
        few = np.array([8000, 3, 1234, 3])
        np.testing.assert_array_equal(part[few], X[numbers[few]])
        far = part.only(np.array([5, 4000, 8000]))
        np.testing.assert_array_equal(far[:], X[numbers[[5, 4000, 8000]]])
        source, where = part.cut(slice(2000, 2050))
        np.testing.assert_array_equal(source[where], X[numbers[2000:2050]])
        assert len(pickle.dumps(source)) < 5000
    assert rows.only(np.arange(len(X))) is rows
    if write is write_parquet:
        assert some.reader.columns[0] == "band 0"


def test_a_bad_row_is_named_by_its_number_in_the_file_even_if_some_rows_are_left_out(tmp_path):
    X, y = labelled_rows()
    X[4321, 2] = np.nan
    rows = lazy_rows(open_rows(write_npy(tmp_path, X, y))[0]).only(np.arange(1000, 9000))
    with pytest.raises(ValueError, match="first in row 4321"):
        rows[:]
    with pytest.raises(ValueError, match="first in row 4321"):
        rows[np.array([3, 3321])]


def test_what_is_wrong_with_a_file_is_said(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        open_rows(tmp_path / "none.npy")
    (tmp_path / "rows.txt").write_text("1 2")
    with pytest.raises(ValueError, match=r"\.npy, \.h5"):
        open_rows(tmp_path / "rows.txt")
    np.save(tmp_path / "flat.npy", np.zeros(3))
    with pytest.raises(ValueError, match="expected rows x features"):
        open_rows(tmp_path / "flat.npy")
    X, y = labelled_rows(100)
    with pytest.raises(ValueError, match="no dataset 'rows'; it has X, y"):
        open_rows(write_hdf5(tmp_path, X, y), rows="rows")
    with pytest.raises(ValueError, match="not numbers; name the one that holds the labels"):
        open_rows(write_parquet(tmp_path, X, y), label="class")
    np.save(tmp_path / "words.npy", np.array([["a", "b"]]))
    with pytest.raises(ValueError, match="no kind of number"):
        DBDLClassifier().fit(open_rows(tmp_path / "words.npy")[0], [1])


def test_labels_of_another_length_are_refused(tmp_path):
    X, y = labelled_rows(100)
    reader, _ = open_rows(write_npy(tmp_path, X, y))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        DBDLClassifier().fit(reader, y[:50])
    with pytest.raises(ValueError, match="at least 2 classes"):
        DBDLClassifier().fit(reader, np.zeros(100))


def test_columns_of_a_file_in_another_order_are_refused(tmp_path):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    X, y = labelled_rows(300)
    frame = pd.DataFrame(X, columns=list("abcdef"))
    frame.to_parquet(tmp_path / "rows.parquet")
    frame[list("fedcba")].to_parquet(tmp_path / "turned.parquet")
    rows, turned = (
        open_rows(tmp_path / "rows.parquet")[0],
        open_rows(tmp_path / "turned.parquet")[0],
    )
    model = DBDLClassifier(**FIT).fit(rows, y)
    assert list(model.feature_names_in_) == list("abcdef")
    np.testing.assert_array_equal(model.predict(rows), model.predict(frame))
    with pytest.raises(ValueError, match="'f' is where 'a' was"):
        model.predict(turned)
    online = DBDLClassifier(**FIT).partial_fit(rows, y)
    assert list(online.feature_names_in_) == list("abcdef")
    with pytest.raises(ValueError, match="feature names should match"):
        online.partial_fit(turned, y)


def test_numbers_written_to_a_private_map_are_learned(tmp_path, monkeypatch):
    monkeypatch.setattr(readers, "SMALL_MEMMAP", 0)
    X, _ = labelled_rows(50)
    path = write_npy(tmp_path, X, None)
    private = np.load(path, mmap_mode="c")
    private += 1
    assert readers.reader_of(private) is None
    assert readers.reader_of(np.load(path, mmap_mode="r")) is not None


def test_a_bad_row_is_named_by_its_number_among_all(tmp_path):
    X, _ = labelled_rows(100)
    X[77, 2] = np.nan
    rows = lazy_rows(open_rows(write_npy(tmp_path, X, None))[0])
    with pytest.raises(ValueError, match="first in row 77"):
        rows[np.array([3, 50, 77])]


def test_no_rows_and_no_labels_are_refused(tmp_path):
    X, y = labelled_rows(100)
    rows, no_labels = open_rows(write_npy(tmp_path, X, None))
    with pytest.raises(ValueError, match="requires y to be passed"):
        DBDLClassifier(**FIT).fit(rows, no_labels)
    rows, _ = open_rows(write_npy(tmp_path, X[:0], None))
    with pytest.raises(ValueError, match=r"Found array with 0 sample\(s\)"):
        DBDLClassifier(**FIT).fit(rows, y[:0])


def test_labels_may_be_any_words_and_the_file_is_let_go_of(tmp_path):
    h5py = pytest.importorskip("h5py")
    words = np.array(["K\u00e4fer", "M\u00fccke", "Wespe"], dtype=object)
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file["X"] = np.eye(3)
        file.create_dataset("y", data=words, dtype=h5py.string_dtype())
    rows, y = open_rows(tmp_path / "rows.h5")
    assert list(y) == list(words)
    np.testing.assert_array_equal(rows.read(0, 3), np.eye(3))
    with h5py.File(tmp_path / "rows.h5", "a") as file:
        file["more"] = 1


# ------------------------------------------------------------------ columns that are no features


def indexed_parquet(folder, n_rows=3000):
    """A file of a shuffled frame sorted by class, so that its index is stored."""
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    X, y = labelled_rows(n_rows)
    frame = pd.DataFrame(X, columns=list("abcdef")).assign(y=y).sort_values("y")
    frame.to_parquet(folder / "rows.parquet", row_group_size=700)
    return folder / "rows.parquet", frame


def test_a_stored_index_is_no_feature(tmp_path):
    path, frame = indexed_parquet(tmp_path)
    with pytest.warns(UserWarning, match="left out column '__index_level_0__'"):
        rows, y = open_rows(path)
    assert rows.columns == tuple("abcdef") and list(y) == list(frame["y"])
    np.testing.assert_array_equal(rows.read(0, len(frame)), frame[list("abcdef")])
    frame.rename_axis("sample").to_parquet(path)
    with pytest.warns(UserWarning, match="left out column 'sample': stored as the index"):
        assert open_rows(path)[0].columns == tuple("abcdef")


@pytest.mark.parametrize(
    ("name", "values", "kept"),
    [
        ("Unnamed: 0", lambda n: np.zeros(n), False),
        ("number", lambda n: np.arange(n) + 5, False),
        ("number", lambda n: np.arange(n, dtype=np.float32), False),
        ("number", lambda n: np.arange(n, dtype=np.uint16), False),
        ("name", lambda n: [f"row {i}" for i in range(n)], False),
        ("number", lambda n: np.arange(n)[::-1], True),
        ("number", lambda n: np.append(np.arange(n - 1), n), True),
        ("length", lambda n: np.append(np.arange(n - 1), 0), True),
    ],
)
def test_columns_are_left_out_as_they_are_from_tables_in_memory(tmp_path, name, values, kept):
    path, frame = indexed_parquet(tmp_path)
    frame.insert(0, name, values(len(frame)))
    frame.to_parquet(path, index=False, row_group_size=700)
    with warnings.catch_warnings(record=True) as of_rows:
        warnings.simplefilter("always")
        rows, _ = open_rows(path)
    with warnings.catch_warnings(record=True) as of_load:
        warnings.simplefilter("always")
        table = load(path)
    assert rows.columns == table.feature_names
    assert (name in rows.columns) is kept
    assert [str(w.message) for w in of_rows] == [str(w.message) for w in of_load]
    assert len(of_rows) == (name != "length")


def test_columns_by_name_are_used_in_their_order(tmp_path):
    path, frame = indexed_parquet(tmp_path)
    rows, y = open_rows(path, columns=["f", "__index_level_0__"])
    assert rows.columns == ("f", "__index_level_0__") and y is not None
    np.testing.assert_array_equal(rows.read(0, 10)[:, 1], frame.index[:10])
    with pytest.raises(ValueError, match="no column 'g'"):
        open_rows(path, columns=["g"])
    np.save(tmp_path / "rows.npy", np.eye(3))
    with pytest.raises(ValueError, match=r"columns= is for \.parquet files"):
        open_rows(tmp_path / "rows.npy", columns=["a"])


def test_two_columns_of_one_name_are_refused(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow

    table = pyarrow.Table.from_arrays([pyarrow.array([0.5, 1.5])] * 2, ["a", "a"])
    parquet.write_table(table, tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match="2 columns have the name 'a'"):
        open_rows(tmp_path / "rows.parquet")


# ------------------------------------------------------------------------------------- bad files


@pytest.mark.parametrize("path", [3, None, b"rows.npy", ["rows.npy"]])
def test_what_is_no_path_is_named(path):
    with pytest.raises(TypeError, match="expected a path as text, got"):
        open_rows(path)


def test_a_path_without_characters_or_with_a_null_byte_is_refused(tmp_path):
    with pytest.raises(ValueError, match="null byte"):
        open_rows(f"{tmp_path}/a\0b.npy")
    with pytest.raises(ValueError, match="the path is empty"):
        open_rows("")


@pytest.mark.parametrize("write", [write_npy, write_hdf5, write_zarr])
@pytest.mark.parametrize(
    "X",
    [np.ones((6, 2)) * 1j, np.array([[b"1", b"2"]] * 6), np.ones((6, 2), dtype="f4,f4")],
    ids=["complex", "bytes", "records"],
)
def test_rows_that_are_no_numbers_are_refused_when_they_are_opened(tmp_path, write, X):
    with pytest.raises(ValueError, match="no kind of number"):
        open_rows(write(tmp_path, X, np.array(["a", "b", "c"] * 2)))


@pytest.mark.parametrize("write", [write_npy, write_zarr])
def test_rows_of_words_are_refused_when_they_are_opened(tmp_path, write):
    with pytest.raises(ValueError, match="no kind of number"):
        open_rows(write(tmp_path, np.array([["1", "2"]] * 6), None))


def test_columns_of_dates_words_and_categories_are_refused(tmp_path):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    for column in (
        pd.to_datetime(["2020-01-01"] * 3),
        ["1", "2", "1"],
        pd.Categorical(list("xyx")),
    ):
        frame = pd.DataFrame({"a": [0.5, 1.5, 2.5], "b": column})
        frame.to_parquet(tmp_path / "rows.parquet")
        with pytest.raises(ValueError, match=r"columns that are not numbers.*: b$"):
            open_rows(tmp_path / "rows.parquet")
    frame.assign(y=["x", None, "y"], b=1.5).to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match="sample 2 has no label"):
        open_rows(tmp_path / "rows.parquet")


def test_a_group_and_an_array_of_one_axis_are_no_rows(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file["X/inner"], file["flat"] = np.eye(3), np.ones(3)
    with pytest.raises(ValueError, match="'X' is a group, not a dataset"):
        open_rows(tmp_path / "rows.h5")
    with pytest.raises(ValueError, match="expected rows x features"):
        open_rows(tmp_path / "rows.h5", rows="flat")


def files_of(path):
    return sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]


@every_format
def test_files_with_any_bytes_changed_are_read_or_refused_in_words(tmp_path, write):
    X, y = labelled_rows(300)
    path, rng, refused = write(tmp_path, X, y), np.random.default_rng(0), 0
    contents = {file: file.read_bytes() for file in files_of(path)}
    for i in range(120):
        file = files_of(path)[rng.integers(len(contents))]
        changed = bytearray(contents[file])
        for place in rng.integers(0, len(changed), 5):
            changed[place] = rng.integers(0, 256)
        file.write_bytes(changed if i % 2 else contents[file][: rng.integers(len(changed))])
        try:
            rows, _ = open_rows(path)
            rows.read(0, rows.shape[0])
            rows.take(np.array([5, 3]))
        except DataError:
            refused += 1
        file.write_bytes(contents[file])
    assert refused >= 40
