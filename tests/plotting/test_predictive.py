"""Posterior predictive checks."""

from __future__ import annotations

import matplotlib
import numpy as np
import pytest
from sklearn.datasets import load_digits

from dbdl import BetaProcessDictionary, DBDLClassifier, ModelSettings
from dbdl.plotting import PredictiveCheckDisplay

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def _close():
    yield
    matplotlib.pyplot.close("all")


@pytest.fixture(scope="module")
def rows():
    X, y = load_digits(n_class=3, return_X_y=True)
    return X[:100], y[:100], X[100:140], y[100:140]


def fitted(X, y, **settings):
    given = {"n_sweeps": 10, "n_draws": 3, "model": ModelSettings(keep_atom_draws=True)}
    model = DBDLClassifier(n_chains=1, views="plain", random_state=0, **{**given, **settings})
    return model.fit(X, y)


def test_new_digits_need_more_atoms_than_rows_of_the_model(rows):
    X, y, X_new, y_new = rows
    display = PredictiveCheckDisplay.from_estimator(fitted(X, y), X_new, y_new)
    residual, needed = display.statistics
    assert residual.observed.shape == needed.replicated.shape == (3, 40)
    assert needed.observed.mean() > needed.replicated.mean() and needed.share_above == 0
    texts = [ax.get_title() for ax in display.figure_.axes]
    assert "replicated larger in 0 % of draws" in texts[1]


def test_rows_of_the_model_itself_pass_the_check(rows):
    X, y, _, _ = rows
    model = fitted(X, y, normalize=False, n_nonzero=5)
    draws, rng = model.chains_[0].draws, np.random.default_rng(7)
    classes = np.arange(200) % 3
    used = rng.random((200, draws.atoms.shape[1])) < draws.selection_probability[-1][classes]
    strength = rng.standard_normal(used.shape) / np.sqrt(
        draws.strength_precision[-1][classes, None]
    )
    noise = rng.standard_normal((200, 64)) / np.sqrt(draws.noise_precision[-1][classes, None])
    made = (used * strength) @ draws.atoms[-1] + noise
    display = PredictiveCheckDisplay.from_estimator(model, made, classes)
    for statistic in display.statistics:
        observed, replicated = statistic.observed[-1].mean(), statistic.replicated[-1].mean()
        assert observed == pytest.approx(replicated, rel=0.2)


def test_a_dictionary_needs_no_classes(rows):
    settings = ModelSettings(keep_atom_draws=True)
    model = BetaProcessDictionary(n_sweeps=6, n_draws=2, model=settings, random_state=0)
    model.fit(rows[0])
    assert len(PredictiveCheckDisplay.from_estimator(model, rows[2]).statistics) == 2


def test_gaps_are_filled_first(rows):
    X, y, X_new, y_new = rows
    gappy = X_new.copy()
    gappy[::3, 20:30] = np.nan
    model = fitted(X, y)
    found = PredictiveCheckDisplay.from_estimator(model, gappy, y_new).statistics[0].observed
    expected = PredictiveCheckDisplay.from_estimator(model, X_new, y_new).statistics[0].observed
    assert np.isfinite(found).all()
    np.testing.assert_array_equal(found[:, 1::3], expected[:, 1::3])


def test_missing_draws_and_wrong_classes_are_refused(rows):
    X, y, X_new, y_new = rows
    with pytest.raises(ValueError, match="n_draws=20"):
        PredictiveCheckDisplay.from_estimator(fitted(X, y, n_draws=0), X_new, y_new)
    model = fitted(X, y)
    for wrong in (None, y_new[:3], y_new + 7):
        with pytest.raises(ValueError, match="y has the shape"):
            PredictiveCheckDisplay.from_estimator(model, X_new, wrong)
