"""Every registered method keeps the same contract."""

from __future__ import annotations

import pickle
from functools import cache

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import ParameterGrid
from sklearn.utils.estimator_checks import parametrize_with_checks

import dbdl
from dbdl.estimators._rows import unit_rows

METHODS = dbdl.methods()
RIVALS = {n: m for n, m in METHODS.items() if m.make.__module__.startswith("dbdl.rivals")}
every_method = pytest.mark.parametrize("name", METHODS)
every_rival = pytest.mark.parametrize("name", RIVALS)


def make_problem(n_train=20, n_test=10, n_classes=4):
    """Some digits of some classes: few rows, but real ones; classes interleaved.

    The defaults of the K-SVD family were looked at on these rows, test rows too: a score here says
    that a method works, not how well.
    """
    X, y = load_digits(return_X_y=True)
    rows = np.array([np.flatnonzero(y == c)[: n_train + n_test] for c in range(n_classes)]).T
    train, test = rows[:n_train].ravel(), rows[n_train:].ravel()
    return X[train], y[train], X[test], y[test]


@cache
def learned():
    """Rows to learn from and their classes; `new` has others."""
    return make_problem()[:2]


@cache
def new():
    return make_problem()[2:]


def fit(name, rows=None, labels=None, **settings):
    X, Y = learned()
    rows, labels = X if rows is None else rows, Y if labels is None else labels
    settings = {"random_state": 0, **settings}
    return RIVALS[name](**settings).fit(rows, labels)


@pytest.mark.filterwarnings("ignore::UserWarning")
@parametrize_with_checks(
    [make(calibrate=False) for make in dict.fromkeys(m.make for m in RIVALS.values())]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@every_method
def test_digits_are_told_apart(name):
    # the paper's 50 non-zeros are hardly sparse for 64 features
    X, Y = learned()
    X_NEW, Y_NEW = new()
    least = 0.6 if name == "DBDL (paper)" else 0.85
    assert METHODS[name]().fit(X, Y).score(X_NEW, Y_NEW) > least


@every_method
def test_grid_and_size_name_parameters_of_the_method(name):
    method = METHODS[name]
    assert set(method.grid) <= set(method().get_params())
    assert method.size is None or method.size in method().get_params()
    assert all(method(**settings) is not None for settings in ParameterGrid(dict(method.grid)))


@every_rival
def test_docstring_states_problem_rule_and_source(name):
    text = RIVALS[name].make.__doc__
    for part in ("math::", "References\n", "Parameters\n", "Attributes\n", "Examples\n"):
        assert part in text, part


@every_rival
def test_probabilities_follow_the_scores_and_sum_to_one(name):
    X_NEW, _ = new()
    model = fit(name)
    probability = model.predict_proba(X_NEW)
    np.testing.assert_allclose(probability.sum(axis=1), 1)
    np.testing.assert_array_equal(probability.argmax(1), model.decision_function(X_NEW).argmax(1))
    assert 0 < model.temperature_ < np.inf


@every_rival
def test_without_calibration_there_are_no_probabilities_and_the_error_says_why(name):
    model = fit(name, calibrate=False)
    with pytest.raises(AttributeError, match="predict_proba"):
        _ = model.predict_proba
    assert not hasattr(model, "predict_proba")


@every_rival
def test_same_seed_same_answer_for_any_number_of_threads(name):
    X_NEW, _ = new()
    expected = fit(name, n_jobs=1).decision_function(X_NEW)
    for n_jobs in (2, 3):
        scores = fit(name, n_jobs=n_jobs).decision_function(X_NEW)
        np.testing.assert_array_equal(scores, expected)


@every_rival
def test_a_query_alone_scores_as_in_a_batch(name):
    X_NEW, _ = new()
    model = fit(name, calibrate=False)
    batch = model.decision_function(X_NEW)
    alone = np.vstack([model.decision_function(x[np.newaxis]) for x in X_NEW])
    np.testing.assert_allclose(alone, batch, rtol=1e-9, atol=1e-9)


@every_rival
def test_published_atoms_are_finite_and_of_the_right_shape(name):
    X, _ = learned()
    model = fit(name, calibrate=False)
    assert model.atoms_.shape == (model.n_atoms_, X.shape[1])
    assert model.components_ is model.atoms_
    assert np.isfinite(model.atoms_).all() and np.isfinite(model.objective_).all()


@every_rival
def test_size_is_what_was_asked_for(name):
    if RIVALS[name].size is None:
        pytest.skip("its size cannot be set")
    model = fit(name, calibrate=False, **{RIVALS[name].size: 5})
    assert model.n_atoms_ >= 5 * 4
    assert len(np.unique(np.round(unit_rows(model.atoms_), 12), axis=0)) == model.n_atoms_


@every_rival
def test_two_classes_have_one_column_of_scores(name):
    X, Y = learned()
    X_NEW, _ = new()
    two = Y < 2
    model = fit(name, X[two], Y[two])
    scores = model.decision_function(X_NEW)
    assert scores.shape == (len(X_NEW),)
    np.testing.assert_array_equal(model.predict(X_NEW), (scores > 0).astype(int))


@every_rival
def test_float32_stays_float32_and_agrees(name):
    X, _ = learned()
    X_NEW, _ = new()
    model = fit(name, X.astype(np.float32))
    assert model.atoms_.dtype == np.float32
    agreement = model.predict(X_NEW.astype(np.float32)) == fit(name).predict(X_NEW)
    assert agreement.mean() > 0.9


@every_rival
def test_pickle_and_clone(name):
    X_NEW, _ = new()
    model = fit(name)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.decision_function(X_NEW), model.decision_function(X_NEW))
    assert not hasattr(clone(model), "model_")


# ------------------------------------------------------------------------------------- bad input


@every_rival
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_not_finite_are_refused(name, value):
    X, _ = learned()
    bad = X.copy()
    bad[3, 4] = value
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        fit(name, bad)
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        fit(name, calibrate=False).predict(bad)


@every_rival
def test_one_class_all_zero_rows_and_wrong_widths_are_refused(name):
    X, _ = learned()
    with pytest.raises(ValueError, match="at least 2 classes"):
        fit(name, labels=np.zeros(len(X)))
    with pytest.raises(ValueError, match="every row of X is zero"):
        fit(name, np.zeros_like(X))
    with pytest.raises(ValueError, match="64 features"):
        fit(name, calibrate=False).predict(X[:, :5])


@every_rival
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_unusual_rows_and_labels_are_learned(name):
    X, Y = learned()
    one_sample = Y.copy()
    one_sample[0] = 7
    zero_rows = np.vstack([X, np.zeros((2, 64))]), np.concatenate([Y, [0, 1]])
    duplicates = np.repeat(X, 2, axis=0), np.repeat(Y, 2)
    constant = np.hstack([X, np.full((len(X), 1), 3.0)])
    strings = np.array(["alpha", "beta", "gamma", "delta"])[Y]
    for rows, labels in [(X, one_sample), zero_rows, duplicates, (constant, Y), (X, strings)]:
        model = fit(name, rows, labels)
        assert (model.predict(rows) == labels).mean() > 0.85
        assert np.isfinite(model.predict_proba(rows)).all()


@every_rival
def test_every_class_with_one_sample_is_learned(name):
    X, Y = learned()
    model = fit(name, X[:4], Y[:4])
    np.testing.assert_array_equal(model.predict(X[:4]), Y[:4])


@every_rival
@pytest.mark.parametrize("exponent", [-300, 300])
def test_scale_does_not_matter(name, exponent):
    X, _ = learned()
    X_NEW, _ = new()
    scale = 2.0**exponent  # a power of two, so that the same rows come out of the scaling
    scaled = fit(name, X * scale, calibrate=False).decision_function(X_NEW * scale)
    np.testing.assert_array_equal(scaled, fit(name, calibrate=False).decision_function(X_NEW))


@every_rival
def test_layout_and_flags_of_the_arrays_do_not_matter_and_input_is_kept(name):
    X, _ = learned()
    X_NEW, _ = new()
    expected = fit(name, calibrate=False).decision_function(X_NEW)
    before, frozen = X.copy(), X.copy()
    frozen.flags.writeable = False
    for rows in (np.asfortranarray(X), frozen):
        model = fit(name, rows, calibrate=False)
        np.testing.assert_array_equal(model.decision_function(X_NEW), expected)
    fit(name, normalize=False, calibrate=False)
    np.testing.assert_array_equal(X, before)
