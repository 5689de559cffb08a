"""Weights of rows and of classes in both estimators."""

import warnings

import numpy as np
import pytest
from cones import make_cones
from sklearn import config_context
from sklearn.ensemble import AdaBoostClassifier
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.class_weight import compute_sample_weight

import dbdl
from dbdl import BetaProcessDictionary, DBDLClassifier
from dbdl.coding import Forward
from dbdl.persistence import load, save
from dbdl.views import AUTOMATIC_LINEAR

FIT = {"n_sweeps": 2, "n_chains": 2, "random_state": 0}


@pytest.fixture(scope="module")
def rows():
    X, y = make_cones(n_rows=20)
    return X, y, np.random.default_rng(0).gamma(1.0, size=len(y))


def learn(X, y, weight=None, **settings):
    return DBDLClassifier(**{**FIT, **settings}).fit(X, y, weight)


def assert_same(found, expected):
    np.testing.assert_array_equal(found.atoms_, expected.atoms_)
    np.testing.assert_array_equal(found.label_atoms_, expected.label_atoms_)
    assert found.temperature_ == expected.temperature_


# ------------------------------------------------------------------------------------ the scale


def test_equal_weights_are_no_weights_to_the_last_bit(rows):
    X, y, _ = rows
    expected = learn(X, y)
    for weight in (np.ones(len(y)), np.full(len(y), 1 / len(y)), [3] * len(y), 0.1):
        assert_same(learn(X, y, weight), expected)


def test_only_the_ratios_of_weights_matter(rows):
    X, y, weight = rows
    expected = learn(X, y, weight)
    for scale in (2.0**-1000, 2.0**-40, 2.0**1000):
        assert_same(learn(X, y, scale * weight), expected)
    assert np.abs(expected.label_atoms_[:5] - learn(X, y).label_atoms_[:5]).max() > 1e-3


def test_weights_that_differ_by_hundreds_of_orders_still_fit(rows):
    X, y, weight = rows
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = learn(X, y, weight**300)
    assert np.isfinite(model.decision_function(X)).all()


@pytest.mark.parametrize("classifier", ["ridge", "recoded", "gibbs", "joint"])
def test_a_row_of_weight_zero_is_a_row_that_is_not_there(rows, classifier):
    X, y, weight = rows
    weight = np.where(np.arange(len(y)) % 3, weight, 0.0)
    some = weight > 0
    found = learn(X, y, weight, classifier=classifier)
    assert_same(found, learn(X[some], y[some], weight[some], classifier=classifier))


def test_a_class_without_positive_weights_is_not_learned(rows):
    X, y, weight = rows
    weight = np.where(y == y[0], 0.0, weight)
    assert y[0] not in learn(X, y, weight).classes_
    only = np.where(y == y[0], 1.0, 0.0)
    with pytest.raises(ValueError, match="y has 1 class with a positive weight"):
        learn(X, y, only)


def test_heavier_rows_are_explained_better(rows):
    X, y, _ = rows
    heavy = np.arange(len(y)) % 2 == 0
    weight = np.where(heavy, 50.0, 1.0)

    def errors(**fit):
        model = BetaProcessDictionary(n_initial_atoms=3, n_sweeps=10, random_state=0, n_nonzero=1)
        model.fit(X, **fit)
        left = X / np.linalg.norm(X, axis=1, keepdims=True)
        left = left - model.inverse_transform(model.transform(left))
        return (left**2).sum(axis=1)

    weighted, plain = errors(sample_weight=weight), errors()
    assert weighted[heavy].mean() < plain[heavy].mean()


# ---------------------------------------------------------------------------------- bad weights


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (lambda n: np.ones(n - 1), r"shape \(59,\).*one weight per row: \(60,\)"),
        (lambda n: np.ones((n, 1)), r"shape \(60, 1\)"),
        (lambda n: np.r_[1.0, -1.0, np.ones(n - 2)], r"is -1.0 in row 1\. Expected finite"),
        (lambda n: np.r_[np.nan, np.ones(n - 1)], r"is nan in row 0"),
        (lambda n: np.r_[np.ones(n - 1), np.inf], r"is inf in row 59"),
        (np.zeros, "sample_weight of every row is zero"),
        (lambda n: ["a"] * n, "sample_weight"),
    ],
    ids=["too few", "two dimensions", "negative", "NaN", "infinite", "all zero", "strings"],
)
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize("make", [DBDLClassifier, BetaProcessDictionary])
def test_bad_weights_are_refused_with_the_reason(rows, make, method, weight, message):
    X, y, _ = rows
    with pytest.raises(ValueError, match=message):
        getattr(make(), method)(X, y, sample_weight=weight(len(y)))


# --------------------------------------------------------------------------------- class weights


def test_class_weights_multiply_the_weights_of_rows(rows):
    X, y, weight = rows
    X, y, weight = X[4:], y[4:], weight[4:]
    of_class = dict(zip(np.unique(y), (1.0, 2.5, 0.5), strict=False))
    for class_weight in ("balanced", of_class):
        expected = weight * compute_sample_weight(class_weight, y)
        assert_same(learn(X, y, weight, class_weight=class_weight), learn(X, y, expected))
    assert_same(learn(X, y, class_weight=dict.fromkeys(of_class, 1.0)), learn(X, y))


def test_balanced_classes_that_are_balanced_are_no_weights(rows):
    X, y, _ = rows
    assert len(set(np.unique(y, return_counts=True)[1])) == 1
    assert_same(learn(X, y, class_weight="balanced"), learn(X, y))


def test_bad_class_weights_are_refused_with_the_reason(rows):
    X, y, _ = rows
    with pytest.raises(ValueError, match=r"class_weight gives class .* the weight -1\.0"):
        learn(X, y, class_weight=dict.fromkeys(np.unique(y), -1.0))
    with pytest.raises(ValueError, match="of every row is zero"):
        learn(X, y, class_weight=dict.fromkeys(np.unique(y), 0.0))
    with pytest.raises(ValueError, match="class_weight"):
        learn(X, y, class_weight="even")
    with pytest.raises(ValueError, match=r"partial_fit with class_weight='balanced'.*dict"):
        DBDLClassifier(class_weight="balanced").partial_fit(X, y)


# -------------------------------------------------------------------------------------- batches


def test_the_first_batch_is_learned_as_by_fit(rows):
    X, y, weight = rows
    settings = {**FIT, "views": AUTOMATIC_LINEAR}
    model = DBDLClassifier(**settings).partial_fit(X, y, sample_weight=weight)
    assert_same(model, DBDLClassifier(**settings).fit(X, y, sample_weight=weight))
    assert model.online_.unit_weight == pytest.approx(weight.mean())
    dictionary = BetaProcessDictionary(n_sweeps=2, random_state=0)
    first = dictionary.partial_fit(X, sample_weight=weight).atoms_
    np.testing.assert_array_equal(first, dictionary.fit(X, sample_weight=weight).atoms_)


def test_weights_of_later_batches_are_on_the_scale_of_the_first(rows):
    X, y, weight = rows
    first, rest = slice(0, 30), slice(30, None)

    def learn_batches(scale, second):
        model = DBDLClassifier(**FIT)
        model.partial_fit(X[first], y[first], sample_weight=scale * weight[first])
        return model.partial_fit(X[rest], y[rest], sample_weight=scale * second * weight[rest])

    expected = learn_batches(1.0, 1.0)
    assert_same(learn_batches(2.0**20, 1.0), expected)
    seen = expected.online_.chains[0].priors.seen.n_rows.sum()
    twice = learn_batches(1.0, 2.0).online_.chains[0].priors.seen.n_rows.sum()
    assert twice > seen + 0.9 * weight[rest].sum() / weight[first].mean()
    with pytest.raises(ValueError, match="times the mean weight of the first batch"):
        learn_batches(1.0, 1e200)


def test_a_dict_may_name_classes_that_come_later(rows):
    X, y, _ = rows
    of_class = {c: 1.0 + i for i, c in enumerate(np.unique(y))}
    early = y != np.unique(y)[-1]
    model = DBDLClassifier(class_weight=of_class, **FIT)
    model.partial_fit(X[early], y[early], classes=np.unique(y))
    assert len(model.partial_fit(X, y).online_.labels) == len(of_class)


# --------------------------------------------------------------------------- with scikit-learn


def test_weights_are_routed_by_scikit_learn(rows):
    X, y, weight = rows
    with config_context(enable_metadata_routing=True):
        model = DBDLClassifier(**FIT).set_fit_request(sample_weight=True)
        model.set_score_request(sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        piped = make_pipeline(scaler, model).fit(X, y, sample_weight=weight)
        scaled = StandardScaler().fit_transform(X)
        assert_same(piped[-1], learn(scaled, y, weight))
        search = GridSearchCV(model, {"penalty": [0.1, 1.0]}, cv=2)
        search.fit(X, y, sample_weight=weight)
        assert_same(search.best_estimator_, learn(X, y, weight, **search.best_params_))
        found = cross_validate(model, X, y, cv=2, params={"sample_weight": weight})
        assert np.isfinite(found["test_score"]).all()


def test_the_score_is_weighted(rows):
    X, y, weight = rows
    model = learn(X[::2], y[::2])
    right = model.predict(X) == y
    assert model.score(X, y, weight) == pytest.approx(np.average(right, weights=weight))


def test_a_classifier_can_be_boosted(rows):
    X, y, _ = rows
    boosted = AdaBoostClassifier(DBDLClassifier(n_sweeps=2, n_chains=1), n_estimators=3)
    assert boosted.set_params(random_state=0).fit(X, y).score(X, y) > 0.9


def test_a_transformer_of_the_user_gets_the_weights_if_it_takes_them(rows):
    X, y, weight = rows
    model = learn(X, y, weight, views=StandardScaler(), calibrate=False, coder=Forward(2))
    expected = StandardScaler().fit(X, sample_weight=weight).mean_
    np.testing.assert_allclose(model.chains_[0].view.transformer.mean_, expected)


# ------------------------------------------------------------------------ files, rows elsewhere


def test_a_fit_is_resumed_with_the_same_weights_only(rows, tmp_path):
    X, y, weight = rows
    expected = learn(X, y, weight)
    kept = {"checkpoint": tmp_path / "kept"}
    assert_same(learn(X, y, weight, **kept), expected)
    assert_same(learn(X, y, weight, **kept), expected)
    with pytest.raises(dbdl.CheckpointError, match="the weights are other data"):
        learn(X, y, weight[::-1], **kept)
    with pytest.raises(dbdl.CheckpointError, match="the weights are other data"):
        learn(X, y, **kept)


def test_a_model_with_class_weights_is_saved(rows, tmp_path):
    X, y, _ = rows
    X, y = X[4:], y[4:]
    of_class = {c.item(): 1.0 + i for i, c in enumerate(np.unique(y))}
    model = learn(X, y, class_weight=of_class)
    again = load(save(model, tmp_path / "model.skops"))
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    assert again.get_params()["class_weight"] == of_class


def test_rows_that_are_read_in_parts_have_weights_too(rows, tmp_path):
    X, y, weight = rows
    weight = np.where(np.arange(len(y)) % 4, weight, 0.0)
    np.save(tmp_path / "X.npy", X)
    found = learn(dbdl.open_rows(tmp_path / "X.npy")[0], y, weight)
    assert_same(found, learn(X, y, weight))


def test_rows_of_a_dask_array_have_weights_too(rows):
    da = pytest.importorskip("dask.array")
    X, y, weight = rows
    found = learn(da.from_array(X, chunks=(20, -1)), y, da.from_array(weight, chunks=7))
    np.testing.assert_allclose(found.atoms_, learn(X, y, weight).atoms_)
