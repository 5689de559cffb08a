"""Refusals, prediction sets and densities of the estimators."""

from copy import copy

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

import dbdl
from dbdl.persistence import load, save

QUICK = {"n_sweeps": 3, "n_chains": 2, "coder": "forward", "random_state": 0}


@pytest.fixture(scope="module")
def parts():
    """Rows to learn from, rows to measure on, and rows to test on, with labels that are words."""
    X, y = load_digits(return_X_y=True)
    y = np.array([f"digit {c}" for c in y])
    X_train, X_rest, y_train, y_rest = train_test_split(X, y, train_size=300, random_state=0)
    X_unseen, X_test, y_unseen, y_test = train_test_split(X_rest, y_rest, random_state=0)
    return (X_train, y_train), (X_unseen, y_unseen), (X_test, y_test)


@pytest.fixture(scope="module")
def model(parts):
    train, unseen, _ = parts
    return dbdl.DBDLClassifier(views="plain", **QUICK).fit(*train).fit_refusals(*unseen)


def test_sets_cover_new_rows_and_most_have_one_class(model, parts):
    X, y = parts[2]
    sets = model.predict_set(X, coverage=0.95)
    assert sets.shape == (len(X), 10)
    assert sets.dtype == bool
    covered = sets[np.arange(len(y)), np.searchsorted(model.classes_, y)].mean()
    assert 0.91 < covered < 0.99
    assert sets.sum(axis=1).mean() < 3


def test_a_larger_coverage_needs_larger_sets(model, parts):
    X = parts[2][0]
    small, large = model.predict_set(X, coverage=0.5), model.predict_set(X, coverage=0.99)
    assert (small <= large).all()
    assert small.sum() < large.sum()
    assert model.predict_set(X, coverage=1 - 1e-9).all()


def test_accepted_rows_keep_the_error_rate_and_many_are_accepted(model, parts):
    X, y = parts[2]
    refused = model.refuse(X, max_error=0.02)
    wrong = model.predict(X) != y
    assert wrong[~refused].mean() <= 0.02 < wrong.mean()
    assert refused.mean() < 0.5
    assert (model.refuse(X, max_error=0.05) <= refused).all()
    assert set(model.predict(X)) <= set(model.classes_)


def test_rows_below_a_probability_are_refused_without_measuring(parts):
    train, _, (X, _) = parts
    model = dbdl.DBDLClassifier(**QUICK).fit(*train)
    expected = model.predict_proba(X).max(axis=1) < 0.9
    assert_array_equal(model.refuse(X, min_probability=0.9), expected)
    assert expected.any()
    for ask in (model.predict_set, lambda X: model.refuse(X, max_error=0.1)):
        with pytest.raises(NotFittedError, match="fit_refusals"):
            ask(X)


def test_predictions_stay_as_they_are(model, parts):
    train, _, (X, _) = parts
    plain = dbdl.DBDLClassifier(views="plain", **QUICK).fit(*train)
    assert plain.predict_proba(X).tobytes() == model.predict_proba(X).tobytes()


def test_too_few_rows_refuse_everything_and_give_every_class(parts):
    train, (X_unseen, y_unseen), (X, _) = parts
    model = dbdl.DBDLClassifier(**QUICK).fit(*train).fit_refusals(X_unseen[:8], y_unseen[:8])
    assert model.predict_set(X, coverage=0.9).all()
    with pytest.warns(UserWarning, match=r"Every row is refused: at most 0\.05 "):
        assert model.refuse(X, max_error=0.05).all()


def test_learning_again_forgets_what_was_measured(parts):
    train, unseen, (X, _) = parts
    model = dbdl.DBDLClassifier(**QUICK).partial_fit(*train).fit_refusals(*unseen)
    assert model.predict_set(X).any()
    model.partial_fit(X[:20], parts[2][1][:20])
    assert not hasattr(model, "refusals_")
    model.fit_refusals(*unseen).fit(*train)
    assert not hasattr(model, "refusals_")


def test_what_was_measured_is_saved_with_the_model(model, parts, tmp_path):
    X = parts[2][0]
    again = load(save(model, tmp_path / "model.skops"))
    assert_array_equal(again.predict_set(X), model.predict_set(X))
    assert_array_equal(again.refuse(X, max_error=0.02), model.refuse(X, max_error=0.02))
    assert again.score_samples(X).tobytes() == model.score_samples(X).tobytes()


def test_rows_are_coded_once_and_judged_by_their_predictions(model, parts, monkeypatch):
    (X, y), calls = parts[1], []
    codes = dbdl.DBDLClassifier._codes
    monkeypatch.setattr(
        dbdl.DBDLClassifier, "_codes", lambda self, X: calls.append(1) or codes(self, X)
    )
    found = copy(model).fit_refusals(X, y).refusals_
    assert len(calls) == 1
    assert_array_equal(found.correct, model.predict(X) == y)
    assert_array_equal(found.top_probability, model.predict_proba(X).max(axis=1))


def test_rows_of_weight_zero_measure_nothing_and_equal_weights_change_nothing(model, parts):
    X, y = parts[1]
    weight = np.where(np.arange(len(y)) % 3 == 0, 0.0, 2.5)
    weighted = copy(model).fit_refusals(X, y, weight).refusals_
    alone = copy(model).fit_refusals(X[weight > 0], y[weight > 0]).refusals_
    for name in ("true_probability", "top_probability", "correct"):
        assert_array_equal(getattr(weighted, name), getattr(alone, name))
    for bad, words in ((-1.0, "sample_weight is -1"), (0.0, "of every row is zero")):
        with pytest.raises(ValueError, match=words):
            copy(model).fit_refusals(X, y, np.full(len(y), bad))


def test_rivals_refuse_too(parts):
    train, unseen, (X, y) = parts
    make = dbdl.methods()["CRC"].make
    rival = make(random_state=0).fit(*train).fit_refusals(*unseen)
    sets = rival.predict_set(X)
    assert 0.86 < sets[np.arange(len(y)), np.searchsorted(rival.classes_, y)].mean() < 0.94
    with pytest.raises(AttributeError, match="predict_proba"):
        make(calibrate=False).fit(*train).fit_refusals(*unseen)


def test_rows_that_are_read_in_parts_get_the_same_answers(model, parts, tmp_path):
    dask = pytest.importorskip("dask.array")
    _, (X_unseen, y_unseen), (X, _) = parts
    np.save(tmp_path / "rows.npy", X)
    measured = dbdl.DBDLClassifier(views="plain", **QUICK).fit(*parts[0])
    lazy_y = dask.from_array(y_unseen, chunks=90)
    measured.fit_refusals(dask.from_array(X_unseen, chunks=(100, -1)), lazy_y)
    assert measured.refusals_.true_probability.tobytes() == (
        model.refusals_.true_probability.tobytes()
    )
    for rows in (dbdl.open_rows(tmp_path / "rows.npy")[0], dask.from_array(X, chunks=(50, -1))):
        assert_array_equal(model.predict_set(rows), model.predict_set(X))
        assert_array_equal(model.refuse(rows, max_error=0.02), model.refuse(X, max_error=0.02))
        assert_array_equal(model.score_samples(rows), model.score_samples(X))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda m, X: m.refuse(X), "max_error=None and min_probability=None. Expected one"),
        (lambda m, X: m.refuse(X, max_error=0.1, min_probability=0.5), "Expected one of them"),
        (
            lambda m, X: m.refuse(X, max_error=1.0),
            "max_error=1.0. Expected a number above 0 and below 1, such as 0.05",
        ),
        (lambda m, X: m.refuse(X, max_error=True), "max_error=True"),
        (lambda m, X: m.refuse(X, max_error=0.1, confidence=np.nan), "confidence=nan"),
        (lambda m, X: m.refuse(X, min_probability=0.5, confidence=0.9), "Leave confidence out"),
        (lambda m, X: m.refuse(X, min_probability="high"), "min_probability='high'"),
        (
            lambda m, X: m.predict_set(X, coverage=90),
            "coverage=90. Expected a number above 0",
        ),
        (lambda m, X: m.fit_refusals(X, ["digit 3"] * (len(X) - 1) + ["digit 11"]), "digit 11"),
        (lambda m, X: m.fit_refusals(X, np.arange(len(X)) % 10), "y has labels that are not"),
        (lambda m, X: m.fit_refusals(X, ["digit 3"]), "inconsistent numbers of samples"),
        (lambda m, X: m.fit_refusals(X, None), "y"),
    ],
)
def test_requests_that_cannot_be_met_are_refused(model, parts, call, words):
    before = model.refusals_
    with pytest.raises(ValueError, match=words):
        call(model, parts[2][0][:5])
    assert model.refusals_ is before


# ------------------------------------------------------------------------------- densities


@pytest.fixture(scope="module")
def known_digits():
    """Digits 0 to 7: rows to learn from with their labels, others like them, and outliers."""
    X, y = load_digits(return_X_y=True)
    known = y < 8
    X_train, X_test, y_train, _ = train_test_split(X[known], y[known], random_state=0)
    noise = np.random.default_rng(0).uniform(0, 16, (100, 64))
    return X_train, y_train, X_test, {"8 and 9": X[~known], "noise": noise}


@pytest.mark.parametrize(
    ("make", "least"),
    [(dbdl.BetaProcessDictionary, 0.92), (dbdl.DBDLClassifier, 0.94)],
    ids=["dictionary", "classifier"],
)
def test_outliers_have_lower_densities(known_digits, make, least):
    X, y, X_test, outliers = known_digits
    settings = {k: v for k, v in QUICK.items() if k in make().get_params()}
    found = make(**settings).fit(X, y)
    normal = found.score_samples(X_test)
    assert normal.shape == (len(X_test),)
    areas = {}
    for name, rows in outliers.items():
        is_normal = np.repeat([True, False], [len(normal), len(rows)])
        areas[name] = roc_auc_score(is_normal, np.concatenate([normal, found.score_samples(rows)]))
    assert areas["noise"] > 0.99
    assert areas["8 and 9"] > least


def test_a_density_is_the_mean_over_chains_and_the_same_alone(model, parts):
    X = parts[2][0][:7]
    found = model.score_samples(X)
    backend = model._backend()
    each = [chain.log_evidence(X, backend, unit=True) for chain in model.chains_]
    np.testing.assert_allclose(found, np.mean(each, axis=0))
    assert [model.score_samples(x[np.newaxis])[0] for x in X] == found.tolist()
