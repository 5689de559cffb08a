"""Models are the same, bit by bit, after being saved and loaded; unsafe files are refused."""

from __future__ import annotations

import json
import os
import pickle

import numpy as np
import pytest
import skops.io
from sealed import add_entry, entries_of, write_entries
from sklearn.base import BaseEstimator
from sklearn.datasets import load_digits, load_iris
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler

import dbdl
from dbdl.coding import Forward
from dbdl.persistence import ModelFileError, load, read_versions, save, untrusted_types
from dbdl.views import AUTOMATIC, VIEWS, FittedOwnView, View

METHODS = dbdl.methods()
QUICK = {"n_sweeps": 3, "n_chains": 2, "n_iterations": 3, "random_state": 0}


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(n_class=4, return_X_y=True)
    return X[:80], y[:80], X[80:120]


@pytest.fixture(scope="module")
def model(digits):
    X, y, _ = digits
    return dbdl.DBDLClassifier(n_sweeps=3, n_chains=2, random_state=0).fit(X, y)


@pytest.fixture
def path(model, tmp_path):
    return save(model, tmp_path / "model.skops")


def quick(method):
    known = method().get_params()
    return method(**{name: value for name, value in QUICK.items() if name in known})


def settings_of(model):
    """All parameters; of a classifier within a classifier, its parameters instead of itself."""
    found = model.get_params()
    return {name: value for name, value in found.items() if not isinstance(value, BaseEstimator)}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", [name for name, m in METHODS.items() if m.can_be_saved])
def test_every_method_predicts_the_same_bits_after_loading(name, digits, tmp_path):
    X, y, X_new = digits
    fitted = quick(METHODS[name]).fit(X, y)
    again = load(save(fitted, tmp_path / "model.skops"))
    assert type(again) is type(fitted)
    assert settings_of(again) == settings_of(fitted)
    for verb in ("predict", "decision_function", "predict_proba"):
        if hasattr(fitted, verb):
            expected, result = getattr(fitted, verb)(X_new), getattr(again, verb)(X_new)
            assert result.dtype == expected.dtype
            assert result.tobytes() == expected.tobytes()


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", [name for name, m in METHODS.items() if m.can_be_saved])
def test_every_method_of_few_features_can_be_saved(name, tmp_path):
    X, y = load_iris(return_X_y=True)
    fitted = quick(METHODS[name]).fit(X[::3], y[::3])
    again = load(save(fitted, tmp_path / "model.skops"))
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))


def test_the_trees_of_boosting_are_refused_because_nothing_checks_them_on_loading(digits, tmp_path):
    X, y, _ = digits
    fitted = METHODS["boosting"](max_iter=2).fit(X, y)
    with pytest.raises(ModelFileError, match=r"would be refused on loading: .*TreePredictor"):
        save(fitted, tmp_path / "model.skops")


def test_the_dictionary_codes_the_same_bits_after_loading(digits, tmp_path):
    X, _, X_new = digits
    fitted = dbdl.BetaProcessDictionary(n_sweeps=3, random_state=0).fit(X)
    again = load(save(fitted, tmp_path / "dictionary.skops"))
    assert again.transform(X_new).toarray().tobytes() == fitted.transform(X_new).toarray().tobytes()


def test_what_was_learned_is_all_there_after_loading(model, path):
    again = load(path)
    assert again.held_out_.coder == model.held_out_.coder
    np.testing.assert_array_equal(again.held_out_.view_log_loss, model.held_out_.view_log_loss)
    np.testing.assert_array_equal(again.trace_.n_atoms, model.trace_.n_atoms)
    np.testing.assert_array_equal(again.chains_[1].atoms, model.chains_[1].atoms)


ONE_OF_EACH = [*AUTOMATIC, *VIEWS, View(centred=True, scale="within", power=0.7, constant=True)]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_every_view_maps_the_same_bits_after_loading(digits, tmp_path, dtype):
    X, y, X_new = digits
    fitted = dbdl.DBDLClassifier(
        n_sweeps=2, n_chains=len(ONE_OF_EACH), views=ONE_OF_EACH, coder=Forward(2), random_state=0
    ).fit(X.astype(dtype), y)
    again = load(save(fitted, tmp_path / "model.skops"))
    assert again.views == ONE_OF_EACH
    for chain, other in zip(fitted.chains_, again.chains_, strict=True):
        rows = X_new.astype(dtype)
        assert chain.view.recipe == other.view.recipe
        assert (chain.weight, chain.coder) == (other.weight, other.coder)
        assert chain.view.apply(rows).tobytes() == other.view.apply(rows).tobytes()
        assert chain.restored_atoms.tobytes() == other.restored_atoms.tobytes()
    codes = fitted.transform(X_new)
    assert fitted.inverse_transform(codes).tobytes() == again.inverse_transform(codes).tobytes()


@pytest.mark.parametrize("how", ["skops", "pickle"])
@pytest.mark.parametrize(
    "transformer",
    [PCA(10), StandardScaler(), make_pipeline(StandardScaler(), PCA(5, whiten=True))],
    ids=["PCA", "StandardScaler", "pipeline"],
)
def test_a_transformer_as_a_view_is_saved_with_the_model(digits, tmp_path, transformer, how):
    X, y, X_new = digits
    fitted = dbdl.DBDLClassifier(
        n_sweeps=2, n_chains=3, views=["plain", transformer], random_state=0
    ).fit(X, y)
    assert isinstance(fitted.chains_[1].view, FittedOwnView)
    if how == "skops":
        again = load(save(fitted, tmp_path / "model.skops"))
    else:
        again = pickle.loads(pickle.dumps(fitted))
    expected = fitted.predict_proba(X_new)
    assert again.predict_proba(X_new).tobytes() == expected.tobytes()
    assert again.atoms_.tobytes() == fitted.atoms_.tobytes()
    assert again.fit(X, y).predict_proba(X_new).tobytes() == expected.tobytes()


def test_a_transformer_that_skops_does_not_trust_is_refused_by_name(digits, tmp_path):
    X, y, _ = digits
    fitted = dbdl.DBDLClassifier(n_sweeps=2, n_chains=1, views=Twice(), random_state=0).fit(X, y)
    with pytest.raises(ModelFileError, match=r"would be refused on loading: \S*Twice"):
        save(fitted, tmp_path / "model.skops")
    assert not list(tmp_path.iterdir())


class Twice(BaseEstimator):
    """A transformer of somebody else."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return 2 * X


def test_labels_of_any_kind_and_dtypes_survive(digits, tmp_path):
    X, y, X_new = digits
    names = np.array(["null", "eins", "zwei", "drei"])[y]
    fitted = dbdl.DBDLClassifier(n_sweeps=2, n_chains=1, random_state=0)
    fitted.fit(X.astype(np.float32), names)
    again = load(save(fitted, tmp_path / "model.skops"))
    np.testing.assert_array_equal(again.predict(X_new), fitted.predict(X_new))
    assert again.atoms_.dtype == np.float32


def test_pipelines_and_models_that_were_not_fitted_can_be_saved(digits, tmp_path):
    X, y, X_new = digits
    pipeline = make_pipeline(Normalizer(), dbdl.DBDLClassifier(n_sweeps=2, n_chains=1))
    load(save(pipeline, tmp_path / "new.skops")).fit(X, y)
    fitted = load(save(pipeline.fit(X, y), tmp_path / "fitted.skops"))
    np.testing.assert_array_equal(fitted.predict(X_new), pipeline.predict(X_new))


def test_callbacks_are_left_behind(digits, tmp_path):
    callback = pytest.importorskip("sklearn.callback", reason="scikit-learn 1.9 has callbacks")
    X, y, X_new = digits
    fitted = dbdl.DBDLClassifier(n_sweeps=2, n_chains=1).set_callbacks(callback.ProgressBar())
    again = load(save(fitted.fit(X, y), tmp_path / "model.skops"))
    np.testing.assert_array_equal(again.predict(X_new), fitted.predict(X_new))
    assert hasattr(fitted, "_skl_callbacks")


def test_versions_are_recorded(path):
    versions = read_versions(path)
    assert versions["dbdl"] == dbdl.__version__
    assert {"python", "numpy", "scipy", "scikit-learn", "skops"} <= set(versions)


# --------------------------------------------------------------------------------- what is refused


def replace_versions(path, versions):
    """The same archive with other versions in its description."""
    entries = entries_of(path)
    about = {**json.loads(entries["about.json"]), "versions": versions}
    write_entries(path, {**entries, "about.json": json.dumps(about)})


def write_foreign(path, thing):
    """A file as ours, but skops wrote something else."""
    about = {"marker": "dbdl model", "format": 1, "versions": {"dbdl": dbdl.__version__}}
    path.write_bytes(skops.io.dumps(thing))
    add_entry(path, "about.json", json.dumps(about))


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99])
def test_a_file_that_was_cut_off_is_refused(path, share):
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ModelFileError, match="cut off, damaged or not a dbdl model"):
        load(path)


def test_a_file_with_one_wrong_bit_anywhere_is_refused(path):
    content = path.read_bytes()
    for place in range(0, len(content), len(content) // 20):
        damaged = bytearray(content)
        damaged[place] ^= 1 << (place % 8)
        path.write_bytes(damaged)
        with pytest.raises(ModelFileError, match="damaged"):
            load(path)


@pytest.mark.parametrize(
    "content", [b"", b"a,b\n1,2\n", pickle.dumps([1, 2]), bytes(1000)], ids=repr
)
def test_a_foreign_file_is_refused(tmp_path, content):
    path = tmp_path / "foreign.skops"
    path.write_bytes(content[:1000])
    with pytest.raises(
        ModelFileError, match=r"foreign\.skops is cut off, damaged or not a dbdl model"
    ):
        load(path)


def test_another_archive_is_refused(tmp_path):
    path = tmp_path / "arrays.npz"
    np.savez(path, X=np.ones(3))
    with pytest.raises(ModelFileError, match="not a dbdl model"):
        load(path)


def test_a_damaged_description_is_refused(path):
    entries = entries_of(path)
    schema = json.loads(entries["schema.json"])
    del schema["__class__"]
    write_entries(path, {**entries, "schema.json": json.dumps(schema)})
    with pytest.raises(ModelFileError, match="damaged"):
        load(path)


def test_something_else_than_an_estimator_is_refused(path):
    write_foreign(path, {"a": 1})
    with pytest.raises(ModelFileError, match="holds a dict, expected an estimator"):
        load(path)
    with pytest.raises(ModelFileError, match="dict is not an estimator"):
        save({"a": 1}, path)


class Stranger(BaseEstimator):
    """An estimator of somebody else."""


def test_types_of_others_are_refused_by_name_on_loading(path):
    write_foreign(path, make_pipeline(Stranger()))
    with pytest.raises(ModelFileError, match=r"not trusted: \S*Stranger"):
        load(path)


def test_types_of_others_are_refused_by_name_on_saving_and_nothing_is_written(tmp_path):
    with pytest.raises(ModelFileError, match="Stranger"):
        save(make_pipeline(Stranger()), tmp_path / "model.skops")
    with pytest.raises(ModelFileError, match=r"FunctionTransformer|Pipeline"):
        save(make_pipeline(FunctionTransformer(lambda X: X)), tmp_path / "model.skops")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "name",
    [
        "os.system",
        "dbdl.persistence.save",
        "dbdl.learn.held_out.minimize_scalar",  # a function that a trusted room imports
        "dbdl.learn.held_out.choose_coder",  # a function of a trusted room
        "dbdl.learn.members.csr_matrix",  # a class that a trusted room imports
        "dbdl.model.settings.BaseEstimator",  # likewise, and an estimator
        "dbdl.learn.no_such_module.Thing",
        "dbdl.learnt.Thing",
        "dbdl.estimators._progress.FitProgress",  # neither an estimator nor a plain record
        "dbdl.coding.coder.PreparedAtoms",  # likewise
        "dbdl.views.view.cho_factor",
        "dbdl.views.make_views",
        "dbdl.views.own.LazyRows",
    ],
)
def test_only_our_own_estimators_and_records_are_trusted(name):
    assert untrusted_types([name]) == [name]


@pytest.mark.parametrize(
    "name",
    [
        "dbdl.estimators.classifier.DBDLClassifier",
        "dbdl.learn.held_out.HeldOutChoice",
        "dbdl.coding.greedy.Forward",
        "dbdl.coding.posterior_mean.PosteriorMean",
        "dbdl.coding.coder.CodePrior",
        "dbdl.model.settings.ModelSettings",
        "dbdl.sampler.run.Trace",
        "dbdl.rivals.crc.CRCModel",
        "dbdl.learn.members.Member",
        "dbdl.views.view.View",
        "dbdl.views.view.FittedView",
        "dbdl.views.own.FittedOwnView",
    ],
)
def test_our_own_estimators_and_records_are_trusted(name):
    assert untrusted_types([name]) == []


def test_a_newer_major_version_is_refused(path):
    major = int(dbdl.__version__.split(".")[0]) + 1
    replace_versions(path, {"dbdl": f"{major}.0.0"})
    with pytest.raises(ModelFileError, match=rf"written by dbdl {major}\.0\.0, this is dbdl"):
        load(path)


def test_a_newer_minor_version_is_read(path):
    major = dbdl.__version__.split(".")[0]
    replace_versions(path, {"dbdl": f"{major}.999.0"})
    load(path)


@pytest.mark.parametrize("versions", [None, "", [], {}, {"dbdl": "?"}, {"dbdl": 1}], ids=repr)
def test_a_file_that_does_not_name_its_version_is_refused(path, versions):
    replace_versions(path, versions)
    with pytest.raises(ModelFileError, match="does not name its versions"):
        load(path)


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    with pytest.raises(ModelFileError, match=r"nowhere\.skops: No such file"):
        load(tmp_path / "nowhere.skops")
    with pytest.raises(ModelFileError, match="directory"):
        load(tmp_path)


def test_a_path_that_cannot_be_written_is_refused(model, tmp_path):
    with pytest.raises(ModelFileError, match="there is no folder"):
        save(model, tmp_path / "no" / "model.skops")
    with pytest.raises(ModelFileError, match="is a folder"):
        save(model, tmp_path)


def test_a_write_that_fails_keeps_the_old_file_and_leaves_no_other(model, path, monkeypatch):
    before = path.read_bytes()

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(ModelFileError, match="No space left on device"):
        save(model, path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]
