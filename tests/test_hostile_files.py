"""Files from others are refused by name before a kernel sees them, or are harmless."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tracemalloc
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hostile import kept_fit, quick, rows
from sealed import add_entry, entries_of, sign, write_entries
from sklearn.decomposition import PCA

import dbdl
from dbdl.coding import Forward, LassoPath, Orthogonal
from dbdl.learn.members import Member
from dbdl.learn.refusals import UnseenRows
from dbdl.learn.sizes import SizeCurve
from dbdl.persistence import ModelFileError, load, read_columns, read_versions, save
from dbdl.rivals.ksvd import KSVD, KSVDModel
from dbdl.rivals.src import SRCModel
from dbdl.rivals.training_rows import TrainingRowsModel
from dbdl.sampler.checkpoint import CheckpointError, read_archive, write_archive

METHODS = dbdl.methods()
OWN_METHODS = {n: m for n, m in METHODS.items() if m.make.__module__.startswith("dbdl.")}
HOSTILE = Path(__file__).parent / "hostile.py"


@pytest.fixture(scope="module")
def model():
    X, Y, _ = rows()
    return quick(dbdl.DBDLClassifier).fit(X, Y)


@pytest.fixture
def path(model, tmp_path):
    return save(model, tmp_path / "model.skops")


def as_npy(array):
    content = io.BytesIO()
    np.save(content, array)
    return content.getvalue()


# --------------------------------------------------------------------------------- caches


def with_cache(record, name, value, monkeypatch):
    """Let a record write a cache into its file, as nobody's would."""
    fields = type(record).__getstate__
    monkeypatch.setattr(type(record), "__getstate__", lambda self: {**fields(self), name: value})


@pytest.mark.parametrize("size", [1, 3, 500])
def test_prepared_atoms_of_another_size_in_a_file_are_not_read(model, tmp_path, monkeypatch, size):
    _, _, X_NEW = rows()
    with monkeypatch.context() as patch:
        with_cache(model.chains_[0], "prepared", np.full((size, size), 1e300), patch)
        path = save(model, tmp_path / "model.skops")
    again = load(path)
    assert all("prepared" not in vars(chain) for chain in again.chains_)
    expected = model.decision_function(X_NEW)
    assert again.decision_function(X_NEW).tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    ("name", "kind", "cache"),
    [
        ("SRC", SRCModel, "gram"),
        ("SRC", SRCModel, "factor"),
        ("SRC (OMP)", SRCModel, "gram"),
        ("training rows", TrainingRowsModel, "gram"),
        ("K-SVD", KSVDModel, "gram"),
    ],
)
def test_caches_of_rivals_are_neither_read_nor_written(name, kind, cache, tmp_path, monkeypatch):
    X, Y, X_NEW = rows()
    fitted = quick(dbdl.methods()[name]).fit(X, Y)
    expected = fitted.decision_function(X_NEW)
    plain = save(fitted, tmp_path / "plain.skops")
    assert f'"{cache}"' not in entries_of(plain)["schema.json"].decode()
    with monkeypatch.context() as patch:
        with_cache(fitted.model_, cache, np.full((2, 2), 1e300), patch)
        path = save(fitted, tmp_path / "model.skops")
    assert isinstance(fitted.model_, kind)
    assert load(path).decision_function(X_NEW).tobytes() == expected.tobytes()


def test_a_loaded_model_that_was_used_can_be_copied_and_saved_again(path, tmp_path):
    _, _, X_NEW = rows()
    model = load(path)
    expected = model.decision_function(X_NEW)
    again = load(save(model, tmp_path / "again.skops"))
    assert again.decision_function(X_NEW).tobytes() == expected.tobytes()


# --------------------------------------------------------------------------- values in model files


def save_changed(model, record, name, value, path, monkeypatch):
    """Save a model with another value in one record."""
    with monkeypatch.context() as patch:
        patch.setitem(vars(record), name, value)
        return save(model, path)


@pytest.mark.parametrize("name", OWN_METHODS)
def test_atoms_that_are_not_numbers_are_refused_in_every_method(name, tmp_path, monkeypatch):
    X, Y, _ = rows()
    fitted = quick(OWN_METHODS[name]).fit(X, Y)
    record = fitted.chains_[0] if hasattr(fitted, "chains_") else fitted.model_
    bad = record.atoms.copy()
    bad[1, 2] = np.nan
    path = save_changed(fitted, record, "atoms", bad, tmp_path / "model.skops", monkeypatch)
    with pytest.raises(ModelFileError, match=r"model\.skops was not loaded: .*atoms has entries"):
        load(path)


@pytest.mark.parametrize(
    ("part", "change", "words"),
    [
        ("atoms", lambda a: a[:, 1:], "atoms have 64 features, but the view gives 65"),
        ("atoms", lambda a: a[0], r"expected \(n_atoms, n_features\) with"),
        ("atoms", lambda a: a.astype(">f8"), "has dtype >f8"),
        ("atoms", lambda a: a.astype(np.float32), "several dtypes"),
        ("atoms", lambda a: a[:0], "is empty"),
        ("label_atoms", lambda a: a[1:], "label_atoms has shape"),
        ("label_atoms", lambda a: a[:, :1], "n_labels = 3"),
        ("selection_probability", lambda a: a.T, "selection_probability has shape"),
        ("selection_probability", lambda a: -a, "has entries below 0"),
        ("trace", lambda a: None, "trace is of type NoneType, expected Trace"),
        ("n_initial_atoms", lambda a: -1, "n_initial_atoms is -1"),
        ("weight", lambda a: -0.1, r"weight is -0\.1, expected 0 to 1"),
        ("weight", lambda a: float("nan"), "weight is nan"),
        ("weight", lambda a: float("inf"), "weight is inf"),
        ("coder", lambda a: Forward(0), "coder.n_nonzero is 0"),
        ("coder", lambda a: LassoPath(2.5), "coder.n_nonzero is of type float"),
        ("coder", lambda a: Orthogonal(2, path_average=1), "coder.path_average is of type int"),
        ("coder", lambda a: "backward", "coder is of type str"),
        ("coder", lambda a: None, "coder is of type NoneType"),
        ("view", lambda a: None, "view is of type NoneType"),
        ("view", lambda a: a.recipe, "view is of type View"),
    ],
)
def test_chains_that_do_not_fit_are_refused(model, tmp_path, monkeypatch, part, change, words):
    chain = model.chains_[0]  # of a linear view
    bad = change(getattr(chain, part))
    path = save_changed(model, chain, part, bad, tmp_path / "model.skops", monkeypatch)
    with pytest.raises(ModelFileError, match=words):
        load(path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("atoms_", np.ones((2, 2))),
        ("components_", np.ones((2, 2))),
        ("temperature_", 0.0),
        ("temperature_", float("nan")),
        ("bend_", -1.0),
        ("bend_", float("nan")),
        ("classes_", np.array([0, 0, 1])),
        ("classes_", np.array([2, 1, 0])),
        ("size_curve_", 3),
        ("chains_", []),
        ("predict", "mine"),
        ("n_sweeps", -3),
    ],
)
def test_attributes_that_no_fit_sets_are_refused(model, tmp_path, monkeypatch, name, value):
    path = save_changed(model, model, name, value, tmp_path / "model.skops", monkeypatch)
    with pytest.raises(ModelFileError, match=rf"model\.skops .*{name}"):
        load(path)


@pytest.mark.parametrize("value", [-1.0, "many", None])
def test_settings_of_the_model_out_of_range_are_refused(model, tmp_path, monkeypatch, value):
    bad = dbdl.ModelSettings(noise_precision=value)
    path = save_changed(model, model, "model", bad, tmp_path / "model.skops", monkeypatch)
    with pytest.raises(ModelFileError, match=r"model\.skops .*noise_precision.* of ModelSettings"):
        load(path)


@pytest.mark.parametrize(
    ("name", "value"),
    [("length_scale", -1.0), ("coordinates", ((1.0,), (1.0, 2.0))), ("kernel", 3)],
)
def test_a_prior_of_atoms_out_of_range_is_refused(model, tmp_path, monkeypatch, name, value):
    prior = dbdl.SmoothAtoms(1.0)
    vars(prior)[name] = value
    bad = dbdl.ModelSettings(atom_prior=prior)
    path = save_changed(model, model, "model", bad, tmp_path / "model.skops", monkeypatch)
    with pytest.raises(ModelFileError, match=rf"model\.skops .*atom_prior.*{name}"):
        load(path)


def test_a_curve_of_sizes_is_checked(model, tmp_path, monkeypatch):
    one = np.ones(1)
    curve = SizeCurve(np.array([5]), one, one, one, one, 0)
    for bad, words in (
        (replace(curve, chosen=1), "chosen is 1, but there are 1 sizes"),
        (replace(curve, accuracy=-one), "accuracy has entries below 0"),
        (replace(curve, log_loss=np.ones(2)), "log_loss has shape"),
    ):
        path = save_changed(model, model, "size_curve_", bad, tmp_path / "m.skops", monkeypatch)
        with pytest.raises(ModelFileError, match=f"size_curve_.*{words}"):
            load(path)
    assert load(save_changed(model, model, "size_curve_", curve, path, monkeypatch))


def test_rows_that_refusals_were_measured_on_are_checked(model, tmp_path, monkeypatch):
    half, right = np.full(3, 0.5), np.ones(3, dtype=bool)
    for bad, words in (
        (UnseenRows(half, half[:2], right), "top_probability has shape"),
        (UnseenRows(half, 3 * half, right), "top_probability has entries above 1"),
        (UnseenRows(half, half, right.astype(int)), "correct has dtype int64"),
        (UnseenRows(half[:0], half[:0], right[:0]), "true_probability is empty"),
        (None, "is of type NoneType"),
    ):
        path = save_changed(model, model, "refusals_", bad, tmp_path / "m.skops", monkeypatch)
        with pytest.raises(ModelFileError, match=f"refusals_.*{words}"):
            load(path)


def test_another_number_of_features_is_refused(model, tmp_path, monkeypatch):
    path = save_changed(model, model, "n_features_in_", 63, tmp_path / "model.skops", monkeypatch)
    with pytest.raises(ModelFileError, match=r"view.*mean has shape .* n_features_in = 63"):
        load(path)


@pytest.mark.parametrize(
    "name", ["n_features_in_", "classes_", "temperature_", "bend_", "held_out_", "size_curve_"]
)
def test_a_fitted_model_without_what_it_needs_is_refused(model, tmp_path, monkeypatch, name):
    with monkeypatch.context() as patch:
        patch.delitem(vars(model), name)
        path = save(model, tmp_path / "model.skops")
    with pytest.raises(ModelFileError, match=f"is fitted, but has no {name}"):
        load(path)


def test_arrays_that_follow_from_the_chains_are_not_believed(model, tmp_path, monkeypatch):
    bad = np.full((2, 2), np.inf)
    for name in ("label_atoms_", "selection_probability_"):
        path = save_changed(model, model, name, bad, tmp_path / "model.skops", monkeypatch)
        assert getattr(load(path), name).tobytes() == getattr(model, name).tobytes()


@pytest.fixture(scope="module")
def whitened():
    X, Y, _ = rows()
    return quick(dbdl.DBDLClassifier, views=["scaled and whitened + constant", "plain"]).fit(X, Y)


def with_entry(array, place, value):
    array = array.copy()
    array[place] = value
    return array


@pytest.mark.parametrize(
    ("part", "change", "words"),
    [
        ("mean", lambda a: a[1:], r"mean has shape \(63,\), expected \(n_features_in\) with"),
        ("mean", lambda a: a[np.newaxis], "mean has shape"),
        ("mean", lambda a: with_entry(a, 5, np.nan), "mean has entries that are NaN"),
        ("mean", lambda a: with_entry(a, 5, 1e200), "mean has entries outside -2 to 2"),
        ("mean", lambda a: a.astype(np.float32), "mean has dtype float32, expected float64"),
        ("scale", lambda a: a[1:], "scale has shape"),
        ("scale", lambda a: with_entry(a, 5, np.inf), "scale has entries that are NaN or inf"),
        ("scale", lambda a: with_entry(a, 5, 0.0), "scale has entries below"),
        ("scale", lambda a: -a, "scale has entries below"),
        ("matrix", lambda a: a[:, 1:], "matrix has shape"),
        ("matrix", lambda a: a[0], "matrix has shape"),
        ("matrix", lambda a: a[:0, :0], "matrix has shape"),
        ("matrix", lambda a: a.astype(np.float32), "matrix has dtype float32"),
        ("matrix", lambda a: a.astype(">f8"), "matrix has dtype >f8"),
        ("matrix", lambda a: with_entry(a, (3, 3), np.nan), "matrix has entries that are NaN"),
        ("matrix", lambda a: with_entry(a, (3, 4), 7.0), "matrix is not symmetric"),
        ("matrix", lambda a: -a, "matrix is not positive definite"),
        ("matrix", lambda a: 0 * a, "matrix is not positive definite"),
        ("matrix", lambda a: "mine", "matrix is of type str"),
        ("size", lambda a: -1.0, "size is -1"),
        ("size", lambda a: 0.0, "size is 0"),
        ("size", lambda a: float("nan"), "size is nan"),
        ("length", lambda a: 0.0, "length is 0"),
        ("length", lambda a: float("inf"), "length is inf"),
        ("exponent", lambda a: 10**6, "exponent is 1000000"),
        ("exponent", lambda a: 0.5, "exponent is of type float"),
        ("recipe", lambda a: None, "recipe is of type NoneType"),
        ("recipe", lambda a: replace(a, power=7.0), "recipe.power is 7"),
        ("recipe", lambda a: replace(a, scale="most"), "recipe.scale is 'most'"),
        ("recipe", lambda a: replace(a, constant=1), "recipe.constant is of type int"),
        ("recipe", lambda a: replace(a, constant=False), "but the view gives 64"),
    ],
)
def test_views_that_no_rows_give_are_refused(whitened, tmp_path, monkeypatch, part, change, words):
    view = whitened.chains_[0].view
    bad = change(getattr(view, part))
    path = save_changed(whitened, view, part, bad, tmp_path / "model.skops", monkeypatch)
    with pytest.raises(ModelFileError, match=rf"model\.skops was not loaded: chains_.*{words}"):
        load(path)


def test_views_that_partial_fit_remembers_are_checked_too(tmp_path, monkeypatch):
    X, Y, _ = rows()
    views = "unit half-whitened + constant"
    fitted = quick(dbdl.DBDLClassifier, views=views).partial_fit(X, Y)
    chain = fitted.online_.chains[0]
    path = tmp_path / "model.skops"
    save_changed(
        fitted, chain, "view", replace(chain.view, matrix=None, size=-1.0), path, monkeypatch
    )
    with pytest.raises(ModelFileError, match=r"online_.*view.size is -1"):
        load(path)
    plain = replace(chain.view, recipe=replace(chain.view.recipe, constant=False))
    save_changed(fitted, chain, "view", plain, path, monkeypatch)
    with pytest.raises(ModelFileError, match=r"online_.*have 65 features, but the view gives"):
        load(path)


def test_a_matrix_in_another_order_maps_rows_alike(whitened, tmp_path, monkeypatch):
    _, _, X_NEW = rows()
    expected, view = whitened.decision_function(X_NEW), whitened.chains_[0].view
    fortran = np.asfortranarray(view.matrix)
    path = save_changed(whitened, view, "matrix", fortran, tmp_path / "model.skops", monkeypatch)
    assert load(path).decision_function(X_NEW).tobytes() == expected.tobytes()


# ------------------------------------------------------------------------- transformers as views


@pytest.fixture(scope="module")
def own():
    X, Y, _ = rows()
    return quick(dbdl.DBDLClassifier, views=[PCA(20), "plain"]).fit(X, Y)


@pytest.mark.parametrize(
    ("part", "change", "words"),
    [
        ("n_features", lambda a: 21, "n_features is 21, expected 20"),
        ("n_features", lambda a: -1, "n_features is -1"),
        ("n_features", lambda a: None, "n_features is of type NoneType"),
        ("normalize", lambda a: 1, "normalize is of type int"),
        ("transformer", lambda a: None, "transformer is of type NoneType, without transform"),
        ("transformer", lambda a: [a], "transformer is of type list, without transform"),
    ],
)
def test_own_views_that_do_not_fit_are_refused(own, tmp_path, monkeypatch, part, change, words):
    view = own.chains_[0].view
    bad = change(getattr(view, part))
    path = save_changed(own, view, part, bad, tmp_path / "model.skops", monkeypatch)
    with pytest.raises(ModelFileError, match=rf"model\.skops was not loaded: .*{words}"):
        load(path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda a: a[:-1], r"shape \(20, 19\).*Expected finite numbers of shape \(20, 20\)"),
        (lambda a: np.concatenate([a, a]), r"shape \(20, 40\)"),
        (lambda a: with_entry(a, (0, 0), np.nan), "not finite"),
    ],
)
def test_what_a_changed_transformer_gives_is_looked_at_before_a_kernel_sees_it(
    own, tmp_path, monkeypatch, change, words
):
    """Its inside is for scikit-learn to check, and as safe as skops makes it."""
    _, _, X_NEW = rows()
    transformer = own.chains_[0].view.transformer
    bad = change(transformer.components_)
    path = save_changed(own, transformer, "components_", bad, tmp_path / "m.skops", monkeypatch)
    model = load(path)
    with pytest.raises(ValueError, match=rf"the view PCA.*{words}"):
        model.decision_function(X_NEW)


def test_class_numbers_out_of_range_are_refused(tmp_path, monkeypatch):
    X, Y, _ = rows()
    fitted = quick(dbdl.methods()["SRC (OMP)"]).fit(X, Y)
    bad = np.full_like(fitted.model_.class_of_atom, 10**6)
    path = tmp_path / "model.skops"
    save_changed(fitted, fitted.model_, "class_of_atom", bad, path, monkeypatch)
    with pytest.raises(ModelFileError, match=r"class_of_atom has the entry 1000000, expected"):
        load(path)


def test_a_dictionary_is_checked_too(tmp_path, monkeypatch):
    X, _, _ = rows()
    fitted = KSVD(5, n_iterations=2, random_state=0).fit(X)
    bad = fitted.atoms_[:, :-1]
    path = save_changed(fitted, fitted, "atoms_", bad, tmp_path / "model.skops", monkeypatch)
    with pytest.raises(ModelFileError, match="atoms_ has shape"):
        load(path)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("n_numbers", 7, "n_numbers is 7"),
        ("labels", np.array([0, 0, 1]), "labels are not distinct"),
        ("labels", np.array([0, 1]), "first_row has shape"),
        ("first_row", np.array([0, 1, 10**9]), "first_row has the number"),
        ("chains", [], "chains are missing"),
        ("seed", -1, "seed is -1"),
        ("unit_weight", 0.0, "unit_weight is 0"),
        ("unit_weight", np.nan, "unit_weight is nan"),
    ],
)
def test_what_partial_fit_remembers_is_checked(tmp_path, monkeypatch, name, value, words):
    X, Y, _ = rows()
    fitted = quick(dbdl.DBDLClassifier, n_initial_atoms=20).partial_fit(X, Y)
    path = tmp_path / "model.skops"
    save_changed(fitted, fitted.online_, name, value, path, monkeypatch)
    with pytest.raises(ModelFileError, match=words):
        load(path)


def test_what_warm_start_remembers_has_to_fit_the_data(tmp_path, monkeypatch):
    X, Y, _ = rows()
    fitted = quick(dbdl.DBDLClassifier, n_initial_atoms=20, warm_start=True).fit(X, Y)
    codes = fitted._memory.snapshots[0].codes
    n_kept = codes.row_start[-3]
    for name, value in (
        ("row_start", codes.row_start[:-2]), ("atom", codes.atom[:n_kept]),
        ("strength", codes.strength[:n_kept]),
    ):  # fmt: skip
        monkeypatch.setitem(vars(codes), name, value)
    again = load(save(fitted, tmp_path / "model.skops"))  # whole in itself, but of fewer rows
    with pytest.raises(ValueError, match="do not fit the data: snapshot 0"):
        again.set_params(n_sweeps=5).fit(X, Y)


# ------------------------------------------------------------------------------------------- sizes


def test_a_small_file_that_unpacks_to_much_is_refused_unread(path):
    entries = entries_of(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
        with archive.open("zeros.npy", "w") as entry:
            for _ in range(200):
                entry.write(bytes(1 << 20))
    sign(path)
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError, match=r"model\.skops .* would unpack to"):
            load(path)
        for read in (read_versions, read_columns):
            with pytest.raises(ModelFileError, match="would unpack to"):
                read(path)
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
    finally:
        tracemalloc.stop()


def test_an_archive_inside_the_archive_counts_too(path):
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data.npy", as_npy(np.zeros(12 << 20)))
    write_entries(path, {**entries_of(path), "matrix.npz": inner.getvalue()})
    with pytest.raises(ModelFileError, match="would unpack to"):
        load(path)


def test_compressed_files_are_read(model, path):
    _, _, X_NEW = rows()
    write_entries(path, entries_of(path), zipfile.ZIP_DEFLATED)
    expected = model.decision_function(X_NEW)
    assert load(path).decision_function(X_NEW).tobytes() == expected.tobytes()


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_compressions_that_grow_at_one_blow_are_refused(path, compression):
    write_entries(path, entries_of(path), compression)
    with pytest.raises(ModelFileError, match="in an unknown way"):
        load(path)


@pytest.mark.parametrize(
    "shape", ["(10**13,)", "(1000000000000,)", "(-1,)", "(2, 3, 4)", "(0, 7)", "'x'", "(1e3,)"]
)
def test_an_array_that_claims_another_shape_is_refused(path, shape):
    entries = entries_of(path)
    name = next(name for name in entries if name.endswith(".npy"))
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}"
    header = text.ljust(117).encode() + b"\n"
    magic = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little")
    write_entries(path, {**entries, name: magic + header + bytes(80)})
    with pytest.raises(ModelFileError, match=rf"{name} (claims|has a damaged header)"):
        load(path)


def test_arrays_of_objects_are_refused_unread(path):
    content = io.BytesIO()
    np.save(content, np.array([{}], dtype=object), allow_pickle=True)
    write_entries(path, {**entries_of(path), "more.npy": content.getvalue()})
    with pytest.raises(ModelFileError, match=r"more\.npy holds Python objects"):
        load(path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_an_entry_that_is_there_twice_is_refused(path):
    add_entry(path, "about.json", "{}")
    with pytest.raises(ModelFileError, match=r"it holds about\.json 2 times"):
        load(path)


# ------------------------------------------------------------------------------------- checkpoints


@pytest.fixture(scope="module")
def whole_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kept")
    kept_fit(folder / "fit")
    return {path.name: path.read_bytes() for path in (folder / "fit").iterdir()}


@pytest.fixture
def folder(whole_folder, tmp_path):
    for name, content in whole_folder.items():
        (tmp_path / name).write_bytes(content)
    return tmp_path


def change_chain(folder, file="chain-000.npz", **changes):
    """Write a chain again with other arrays; the checksum is that of the new file."""
    path = folder / file
    about, arrays = read_archive(path)
    for name, change in changes.items():
        key = name.replace("__", ".")
        arrays[key] = np.asarray(change(arrays[key]))
    write_archive(path, about, arrays)


#: Run where a kernel may end the process.
GO_ON = """
import sys
sys.path[:0] = [sys.argv[1]]
from hostile import kept_fit
from dbdl import CheckpointError
try:
    kept_fit(sys.argv[2], n_sweeps=5)
except CheckpointError as error:
    print("refused:", error)
"""


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"snapshot__codes__atom": lambda a: a + 10**6}, "codes.atom has the entry"),
        ({"snapshot__codes__atom": lambda a: a - 10**6}, "codes.atom has entries below 0"),
        ({"snapshot__codes__row_start": lambda a: a[:5]}, "codes.row_start has shape"),
        ({"snapshot__codes__row_start": lambda a: a * 10**9}, "row_start does not lead"),
        ({"snapshot__parameters__atoms": lambda a: a * np.nan}, "atoms has entries that are NaN"),
    ],
    ids=["atom numbers too large", "negative", "few row starts", "far row starts", "not numbers"],
)
def test_a_hostile_checkpoint_is_refused_before_a_kernel_meets_it(folder, changes, words):
    change_chain(folder, **changes)
    done = subprocess.run(
        [sys.executable, "-c", GO_ON, str(HOSTILE.parent), str(folder)],
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.startswith("refused:")
    assert words in done.stdout and str(folder / "chain-000.npz") in done.stdout


def reverse_rows(codes):
    return codes[::-1].copy()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"snapshot__codes__atom": reverse_rows}, "atom is not ascending within each row"),
        ({"snapshot__codes__row_start": lambda a: a.astype(np.int32)}, "has dtype int32"),
        ({"snapshot__codes__strength": lambda a: a[:-1]}, "strength has shape"),
        ({"snapshot__codes__strength": lambda a: a * 1e300}, "their squares overflow"),
        ({"snapshot__codes__strength": lambda a: a.astype(np.float32)}, "expected float64"),
        ({"snapshot__parameters__births": reverse_rows}, "births is not ascending"),
        ({"snapshot__parameters__noise_precision": lambda a: a[:1]}, "n_classes = 3"),
        ({"snapshot__parameters__selection_logit": lambda a: a * np.inf}, "NaN or infinite"),
        ({"snapshot__sweep": lambda a: 2}, "sweep is 2, but trace has 3 sweeps"),
        ({"snapshot__priors__usage_a": lambda a: np.nan}, "usage_a"),
        ({"snapshot__priors__atoms__precision": lambda a: np.eye(2)}, "precision"),
        ({"snapshot__trace__log_joint": lambda a: a[1:]}, "log_joint has shape"),
        ({"member__atoms": lambda a: a[:, 1:]}, r"member.atoms has shape"),
        ({"member__label_atoms": lambda a: a[:, :0]}, "n_labels = 3"),
    ],
    ids=lambda case: next(iter(case)) if isinstance(case, dict) else "",
)
def test_every_part_of_a_chain_is_checked(folder, changes, words):
    change_chain(folder, **changes)
    with pytest.raises(CheckpointError, match=rf"chain-000\.npz is damaged.*{words}"):
        kept_fit(folder, n_sweeps=5)


@pytest.mark.parametrize(
    ("part", "change", "words"),
    [
        ("codes__atom", lambda a: a + 10**6, "codes.atom has the entry"),
        ("codes__row_start", lambda a: a[:-2], r"n_samples = 54"),
        ("parameters__atoms", lambda a: a[:, 1:], "atoms has shape"),
    ],
)
def test_a_chain_that_was_stopped_is_checked_too(tmp_path, monkeypatch, part, change, words):
    replace, files = os.replace, []

    def stop(source, target):
        files.append(target)
        if len(files) > 2:  # the fit, and the first chain before its end
            raise KeyboardInterrupt
        replace(source, target)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(os, "replace", stop)
        kept_fit(tmp_path / "fit", checkpoint_every=1)
    change_chain(tmp_path / "fit", **{f"snapshot__{part}": change})
    with pytest.raises(CheckpointError, match=rf"chain-000\.npz is damaged.*{words}"):
        kept_fit(tmp_path / "fit")


def test_a_chain_of_other_rows_is_refused(folder):
    """Whole in itself, but not of the rows of the fit: its kernels would run past their end."""
    n_kept = read_archive(folder / "chain-000.npz")[1]["snapshot.codes.row_start"][-3]
    change_chain(
        folder,
        snapshot__codes__row_start=lambda a: a[:-2],
        snapshot__codes__atom=lambda a: a[:n_kept],
        snapshot__codes__strength=lambda a: a[:n_kept],
    )
    with pytest.raises(CheckpointError, match=r"n_samples = 54"):
        kept_fit(folder, n_sweeps=5)


@pytest.mark.parametrize("change", ["{}", "[]", "3", '{"choice": null}'])
def test_a_fit_file_about_something_else_is_refused(folder, change):
    path = folder / "fit.npz"
    about, arrays = read_archive(path)
    write_archive(path, {**about, "identity": json.loads(change)}, arrays)
    with pytest.raises(CheckpointError, match=r"fit\.npz is damaged"):
        kept_fit(folder, n_sweeps=5)


def test_a_choice_in_a_file_is_not_believed(folder):
    """Choices are made again by the rows that chains left out."""
    expected = kept_fit(folder)
    path = folder / "fit.npz"
    about, arrays = read_archive(path)
    choice = {"coder": ["forward", {"n_nonzero": 0}], "temperature": -1.0, "weights": [9.0, -8.0]}
    write_archive(path, {**about, "choice": choice}, arrays)
    found = kept_fit(folder)
    assert found.temperature_ == expected.temperature_
    assert found.label_atoms_.tobytes() == expected.label_atoms_.tobytes()


def test_a_checkpoint_that_unpacks_to_much_is_refused_unread(folder):
    path = folder / "chain-000.npz"
    zeros = {"zeros.npy": as_npy(np.zeros(12 << 20))}
    write_entries(path, {**entries_of(path), **zeros}, zipfile.ZIP_DEFLATED)
    with pytest.raises(CheckpointError, match=r"chain-000\.npz .*would unpack to"):
        kept_fit(folder, n_sweeps=5)


# ---------------------------------------------------------------------------------- one by one


def tamper(name, most):
    """Change so many values one by one, in a process of its own; how many ended in which way."""
    done = subprocess.run(
        [sys.executable, str(HOSTILE), name, "--most", str(most)],
        capture_output=True, text=True, timeout=3000, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    words = done.stdout.rsplit(name, 1)[1].split()
    return {end: int(n) for end, n in (word.split("=") for word in words)}


KINDS = ["DBDL 1 chain", "views", "refusals", "draws", "checkpoint"]


@pytest.mark.parametrize("name", KINDS)
def test_a_value_that_was_changed_is_refused_or_does_no_harm(name):
    assert tamper(name, 25)["refused"] > 5


@pytest.mark.release
@pytest.mark.parametrize(
    "name",
    [
        *OWN_METHODS,
        "dictionary",
        "stream",
        "warm",
        "smooth",
        "views",
        "own",
        "refusals",
        "draws",
        "gaps",
        "checkpoint",
    ],
)
def test_any_value_that_was_changed_is_refused_or_does_no_harm(name):
    assert tamper(name, 400)["refused"] > 50


def test_members_are_records_whose_state_is_their_fields(model):
    assert set(model.chains_[0].__getstate__()) == set(Member.__dataclass_fields__)
