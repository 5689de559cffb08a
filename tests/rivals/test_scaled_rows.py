"""Rows scaled for the classifiers of scikit-learn."""

from functools import cache

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import dbdl
from dbdl.experiments.measure import Part, choose_settings
from dbdl.rivals._scaled_rows import ScaledRowsClassifier

PLAIN = {n: m for n, m in dbdl.methods().items() if isinstance(m(), ScaledRowsClassifier)}


@cache
def wine():
    return load_wine(return_X_y=True)


@parametrize_with_checks(
    [ScaledRowsClassifier(RidgeClassifier(), scaling=scaling) for scaling in ("unit", "standard")]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scaling", ["unit", "standard"])
def test_the_mean_squared_norm_is_one_for_both_scalings_and_the_type_stays(scaling, dtype):
    X, Y = wine()
    model = ScaledRowsClassifier(KNeighborsClassifier(), scaling=scaling).fit(X.astype(dtype), Y)
    scaled = model.classifier_._fit_X
    assert scaled.dtype == dtype
    np.testing.assert_allclose(np.mean(np.sum(scaled**2, axis=1)), 1, rtol=1e-4)


@pytest.mark.parametrize(
    ("scaling", "scaler"), [("unit", Normalizer()), ("standard", StandardScaler())]
)
def test_the_nearest_row_is_that_of_a_pipeline_of_scikit_learn(scaling, scaler):
    X, Y = wine()
    nearest = KNeighborsClassifier(1)
    ours = ScaledRowsClassifier(nearest, scaling=scaling).fit(X[::2], Y[::2])
    theirs = make_pipeline(scaler, nearest).fit(X[::2], Y[::2])
    np.testing.assert_array_equal(ours.predict(X[1::2]), theirs.predict(X[1::2]))


def test_the_scaling_is_learned_from_the_training_rows_alone():
    X, Y = wine()
    model = ScaledRowsClassifier(RidgeClassifier()).fit(X[:90], Y[:90])
    np.testing.assert_allclose(model.scaler_.mean_, X[:90].mean(axis=0))
    alone = [model.decision_function(x[np.newaxis])[0] for x in X[90:95]]
    np.testing.assert_allclose(alone, model.decision_function(X[90:])[:5])


def test_parameters_of_the_classifier_have_their_own_names():
    X, Y = wine()
    model = ScaledRowsClassifier(LogisticRegression()).set_params(C=7.0, scaling="unit")
    again = clone(model)
    for found in (model, again):
        assert found.get_params()["C"] == found.classifier.C == 7.0
        assert found.get_params()["scaling"] == "unit"
    assert again.classifier is not model.classifier
    with pytest.raises(ValueError, match="Invalid parameter 'sise'"):
        model.set_params(sise=3)
    with pytest.raises(ValueError, match="scaling"):
        model.set_params(scaling="odd").fit(X, Y)


def test_a_search_tries_scalings_and_settings_together():
    X, Y = wine()
    grid = {"scaling": ["unit", "standard"], "n_neighbors": [1, 5]}
    search = GridSearchCV(ScaledRowsClassifier(KNeighborsClassifier()), grid).fit(X, Y)
    assert len(search.cv_results_["params"]) == 4
    assert search.best_params_["scaling"] == "standard" and search.best_score_ > 0.9


def test_verbs_are_those_of_the_classifier():
    X, Y = wine()
    ridge, logistic = (ScaledRowsClassifier(c) for c in (RidgeClassifier(), LogisticRegression()))
    assert not hasattr(ridge, "predict_proba") and hasattr(ridge, "decision_function")
    probability = logistic.fit(X, Y).predict_proba(X)
    np.testing.assert_allclose(probability.sum(axis=1), 1)


@pytest.mark.parametrize("name", PLAIN)
def test_every_plain_method_may_choose_its_scaling_and_chooses_well_on_measurements(name):
    X, Y = wine()
    grid = dict(PLAIN[name].grid)
    assert set(grid.pop("scaling")) == {"unit", "standard"}
    given = {key: values[len(values) // 2] for key, values in grid.items()}
    assert choose_settings(PLAIN[name], given, Part(X, Y), 0) == {"scaling": "standard"}


def test_every_method_of_scikit_learn_but_boosting_is_a_plain_one():
    expected = ["ridge", "linear SVM", "logistic", "1-NN", "shrunken LDA", "RBF SVM"]
    assert list(PLAIN) == expected
