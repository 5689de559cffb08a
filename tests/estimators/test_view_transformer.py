"""A view as a transformer of scikit-learn."""

from functools import cache

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from dbdl import DBDLClassifier, ViewTransformer
from dbdl.coding import LassoPath
from dbdl.persistence import load, save
from dbdl.views import AUTOMATIC, View

NAMES = ("plain", "standardised + constant", "unit whitened + constant", "kernel of plain")
every_view = pytest.mark.parametrize("view", NAMES)


@cache
def wine():
    return load_wine(return_X_y=True)


@parametrize_with_checks([ViewTransformer(), ViewTransformer("kernel of plain + constant")])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@every_view
def test_rows_are_those_that_a_chain_sees(view):
    X, y = wine()
    rows = ViewTransformer(view).fit(X, y).transform(X)
    settings = {"n_chains": 1, "n_sweeps": 2, "calibrate": False, "coder": LassoPath(5)}
    [chain] = DBDLClassifier(views=view, random_state=0, **settings).fit(X, y).chains_
    np.testing.assert_array_equal(rows, chain.view.apply(X))
    assert np.linalg.norm(rows, axis=1) == pytest.approx(1)


def test_whitening_makes_the_noise_within_classes_white():
    X, y = wine()
    recipe = View(centred=True, scale="within", power=0.5, constant=True)
    model = ViewTransformer(recipe).fit(X, y)
    rows = model.transform(X)
    rows = rows[:, :-1] / rows[:, -1:]  # as they were before they were scaled to unit norm
    noise = rows - np.array([rows[y == c].mean(axis=0) for c in range(3)])[y]
    spread = np.linalg.eigvalsh(noise.T @ noise)
    assert spread[-1] / spread[0] < 3  # of the shrunken covariance; of the rows themselves 1e7


def test_without_classes_all_rows_are_one_class():
    X, _ = wine()
    alone = ViewTransformer("whitened").fit(X).transform(X)
    np.testing.assert_array_equal(
        alone, ViewTransformer("whitened").fit(X, np.zeros(len(X), int)).transform(X)
    )


@every_view
def test_the_way_back_gives_rows_in_their_directions(view):
    X, y = wine()
    model = ViewTransformer(view).fit(X, y)
    again = model.inverse_transform(model.transform(X))
    cosine = (again * X).sum(axis=1) / np.linalg.norm(again, axis=1) / np.linalg.norm(X, axis=1)
    assert again.shape == X.shape and cosine.min() > (0.9 if "kernel" in view else 0.999)


def test_in_a_pipeline_measurements_are_told_apart():
    X, y = wine()
    model = make_pipeline(ViewTransformer("scaled and half-whitened + constant"), RidgeClassifier())
    assert cross_val_score(model, X, y).mean() > 0.95


@every_view
def test_a_model_file_gives_the_same_bits(view, tmp_path):
    X, y = wine()
    model = ViewTransformer(view).fit(X, y)
    again = load(save(model, tmp_path / "view.skops"))
    np.testing.assert_array_equal(again.transform(X), model.transform(X))
    assert len(model.get_feature_names_out()) == model.transform(X).shape[1]


def test_a_view_that_is_not_one_view_is_refused():
    X, y = wine()
    with pytest.raises(ValueError, match=f"names {len(AUTOMATIC)} views"):
        ViewTransformer("auto").fit(X, y)
    with pytest.raises(ValueError, match="there is no view 'odd'"):
        ViewTransformer("odd").fit(X, y)
    with pytest.raises(ValueError, match="'view' parameter"):
        ViewTransformer(["plain", "centred"]).fit(X, y)
    with pytest.raises(ValueError, match="the view has 13"):
        ViewTransformer("plain").fit(X, y).inverse_transform(X[:, :4])
