"""Unusual input gets the right answer, and bad input an error that says what to do."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from cones import make_cones

from dbdl import BetaProcessDictionary, DBDLClassifier, ModelSettings

QUICK = {"n_sweeps": 4, "n_chains": 2, "random_state": 0}


@cache
def cones():
    return make_cones()


@cache
def new_cones():
    return [part[60:] for part in make_cones(n_rows=100)]


def fit(rows=None, labels=None, **settings):
    X, Y = cones()
    rows, labels = X if rows is None else rows, Y if labels is None else labels
    return DBDLClassifier(**{**QUICK, **settings}).fit(rows, labels)


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinite_values_are_refused(value):
    X, _ = cones()
    bad = X.copy()
    bad[3, 4] = value
    with pytest.raises(ValueError, match="infinity"):
        fit(bad)
    with pytest.raises(ValueError, match="infinity"):
        fit().predict(bad)


def test_one_class_is_refused_and_the_way_out_named():
    X, _ = cones()
    with pytest.raises(ValueError, match=r"at least 2 classes.*BetaProcessDictionary"):
        fit(labels=np.zeros(len(X)))


def test_labels_of_a_regression_are_refused():
    X, _ = cones()
    with pytest.raises(ValueError, match="Unknown label type"):
        fit(labels=np.linspace(0, 1, len(X)))


def test_wrong_widths_are_refused():
    X, _ = cones()
    with pytest.raises(ValueError, match="12 features"):
        fit().predict(X[:, :5])


def test_a_class_with_one_sample_is_learned():
    X, Y = cones()
    X_NEW, Y_NEW = new_cones()
    labels = Y.copy()
    labels[0] = 7
    model = fit(labels=labels)
    assert model.predict(X[:1])[0] == 7
    assert model.score(X_NEW, Y_NEW) > 0.8


def test_every_class_with_one_sample_is_nearest_atom():
    X, Y = cones()
    model = fit(X[:3], Y[:3])
    np.testing.assert_array_equal(model.predict(X[:3]), Y[:3])
    assert model.held_out_ is None


@pytest.mark.parametrize("views", ["auto", "plain"])
def test_zero_rows_are_harmless(views):
    X, Y = cones()
    X_NEW, Y_NEW = new_cones()
    rows = np.vstack([X, np.zeros((3, 12))])
    model = fit(rows, np.concatenate([Y, [0, 1, 2]]), n_chains=8, views=views)
    assert np.isfinite(model.atoms_).all() and model.score(X_NEW, Y_NEW) > 0.8
    assert np.isfinite(model.predict_proba(np.zeros((1, 12)))).all()


def test_zero_rows_score_zero_in_the_plain_view():
    model = fit(views="plain")
    assert model.transform(np.zeros((1, 12))).nnz == 0
    np.testing.assert_allclose(model.predict_proba(np.zeros((1, 12))), 1 / 3)


def test_nothing_but_zero_rows_is_refused():
    X, _ = cones()
    with pytest.raises(ValueError, match="every row of X is zero"):
        fit(np.zeros_like(X))


def test_duplicate_rows_are_harmless():
    X, Y = cones()
    X_NEW, Y_NEW = new_cones()
    model = fit(np.repeat(X, 3, axis=0), np.repeat(Y, 3))
    assert np.isfinite(model.atoms_).all() and model.score(X_NEW, Y_NEW) > 0.8


def test_constant_features_are_harmless():
    X, _ = cones()
    X_NEW, Y_NEW = new_cones()

    def constant(rows):
        return np.hstack([rows, np.full((len(rows), 2), 0.1)])

    assert fit(constant(X)).score(constant(X_NEW), Y_NEW) > 0.8


def test_a_single_constant_feature_cannot_separate_but_does_not_fail():
    model = fit(np.ones((20, 1)), np.tile([0, 1], 10))
    assert np.isfinite(model.predict_proba(np.ones((1, 1)))).all()


def test_more_nonzeros_than_features_are_clipped_with_a_warning():
    X_NEW, Y_NEW = new_cones()
    with pytest.warns(UserWarning, match="n_nonzero=50 is more than the 12 features"):
        model = fit(n_nonzero=50)
    assert {chain.coder.n_nonzero for chain in model.chains_} == {12}
    assert model.score(X_NEW, Y_NEW) > 0.5


@pytest.mark.parametrize("exponent", [-600, -100, 100, 600])
def test_scale_does_not_matter(exponent):
    X, _ = cones()
    X_NEW, _ = new_cones()
    scale = 2.0**exponent  # a power of two, so that the same rows come out of the scaling
    np.testing.assert_array_equal(
        fit(X * scale, n_chains=8).decision_function(X_NEW * scale),
        fit(n_chains=8).decision_function(X_NEW),
    )


def test_strings_as_labels():
    _, Y = cones()
    X_NEW, _ = new_cones()
    names = np.array(["alpha", "beta", "gamma"])
    assert set(fit(labels=names[Y]).predict(X_NEW)) <= set(names)


def test_float32_stays_float32_and_agrees():
    X, _ = cones()
    X_NEW, Y_NEW = new_cones()
    model = fit(X.astype(np.float32))
    assert model.atoms_.dtype == np.float32
    assert (model.predict(X_NEW.astype(np.float32)) == fit().predict(X_NEW)).mean() > 0.9
    assert model.predict(X_NEW).shape == Y_NEW.shape  # float64 queries are welcome


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.float16])
def test_other_number_types_are_converted(dtype):
    X, _ = cones()
    rows = (100 + 20 * X / np.abs(X).max()).astype(dtype)
    assert np.isfinite(fit(rows).atoms_).all()


def test_layout_and_flags_of_the_arrays_do_not_matter():
    X, _ = cones()
    X_NEW, _ = new_cones()
    expected = fit().decision_function(X_NEW)
    fortran, frozen, strided = np.asfortranarray(X), X.copy(), np.repeat(X, 2, axis=0)[::2]
    frozen.flags.writeable = False
    for rows in (fortran, frozen, strided):
        np.testing.assert_array_equal(fit(rows).decision_function(X_NEW), expected)


def test_the_input_is_not_changed():
    X, _ = cones()
    before = X.copy()
    fit(normalize=False, model=ModelSettings(noise_precision=1e3))
    fit()
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"n_sweeps": 0}, "n_sweeps"),
        ({"n_chains": 0}, "n_chains"),
        ({"n_chains": "auto"}, "n_chains"),
        ({"views": 3}, "views"),
        ({"n_nonzero": 0}, "n_nonzero"),
        ({"n_nonzero": "all"}, "n_nonzero"),
        ({"model": ModelSettings(initial_ratio=0)}, "initial_ratio"),
        ({"model": ModelSettings(scan="fast")}, "scan"),
        ({"model": ModelSettings(noise_precision=-1)}, "noise_precision"),
        ({"model": {"scan": "paper"}}, "model"),
        ({"calibrate": "yes"}, "calibrate"),
        ({"coder": 3}, "coder"),
        ({"classifier": "svm"}, "classifier"),
        ({"n_initial_atoms": 1}, "n_initial_atoms"),
    ],
)
def test_parameters_out_of_range_are_named(settings, name):
    with pytest.raises(ValueError, match=f"'{name}' parameter"):
        fit(**settings)


def test_few_initial_atoms_still_cover_every_class():
    model = fit(n_initial_atoms=2)
    assert all(len(chain.atoms) >= 2 for chain in model.chains_)


def test_the_unsupervised_estimator_takes_unusual_input_too():
    X, _ = cones()
    for rows in (X.astype(np.float32), np.repeat(X, 2, axis=0), np.vstack([X, np.zeros((2, 12))])):
        model = BetaProcessDictionary(n_sweeps=4, random_state=0).fit(rows)
        assert np.isfinite(model.inverse_transform(model.transform(X))).all()
    with pytest.raises(ValueError, match="NaN"):
        BetaProcessDictionary().fit(np.full((5, 3), np.nan))


def test_a_refused_fit_leaves_the_model_as_it_was():
    X, y = np.random.default_rng(0).standard_normal((60, 6)), np.arange(60) % 3
    model = DBDLClassifier(n_sweeps=2, n_chains=1, n_nonzero=2, random_state=0).fit(X, y)
    before = model.predict(X)
    with pytest.raises(ValueError, match="at least 2 classes"):
        model.fit(X, np.zeros(60))
    np.testing.assert_array_equal(model.predict(X), before)


@pytest.mark.filterwarnings("ignore:overflow")
def test_products_that_overflow_are_refused():
    X, y = np.random.default_rng(0).standard_normal((60, 6)), np.arange(60) % 3
    with pytest.raises(ValueError, match=r"overflow.*normalize=True"):
        DBDLClassifier(n_sweeps=2, n_chains=1, normalize=False).fit(1e200 * X, y)


@pytest.mark.parametrize("verb", ["fit", "partial_fit"])
@pytest.mark.parametrize("make", [DBDLClassifier, BetaProcessDictionary])
def test_a_warning_comes_once_and_names_the_line_that_calls(make, verb):
    X, Y = cones()
    rows = (X, Y) if make is DBDLClassifier else (X,)
    with pytest.warns(UserWarning, match="more than the 12 features") as caught:
        model = getattr(make(n_sweeps=1, n_nonzero=50), verb)(*rows)
    assert [warning.filename for warning in caught] == [__file__]
    model.set_params(n_nonzero=2).fit(*rows)
    with pytest.warns(UserWarning, match="starts anew") as caught:
        model.partial_fit(*rows)
    assert [warning.filename for warning in caught] == [__file__]
    with pytest.warns(UserWarning, match="kept no states") as caught:
        model.set_params(warm_start=True).fit(*rows)
    assert [warning.filename for warning in caught] == [__file__]


@pytest.mark.parametrize("gap", [None, "3"])
def test_objects_in_a_frame_are_named_by_code_that_shows_them(gap):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1.0, 2.0], "my col": pandas.Series([1.0, gap], dtype=object)})
    with pytest.raises((TypeError, ValueError), match=r"^X\['my col'\]\[1\] is ") as found:
        fit(frame, [0, 1])
    advice = "numpy.where(pandas.isna(X['my col']), numpy.nan, X['my col']).astype(float)"
    assert (advice in str(found.value)) == (gap is None)
