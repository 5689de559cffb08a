"""Rivals behind a view."""

from functools import cache

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.linear_model import RidgeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

import dbdl
from dbdl.experiments.measure import Part, choose_settings, measure
from dbdl.rivals import _base as base
from dbdl.rivals._viewed_rows import ViewedRowsClassifier
from dbdl.rivals.crc import CRCClassifier
from dbdl.rivals.llc import LLCClassifier

VIEWED = {n: m for n, m in dbdl.methods().items() if isinstance(m(), ViewedRowsClassifier)}
every_viewed = pytest.mark.parametrize("name", VIEWED)


@cache
def wine():
    return load_wine(return_X_y=True)


@pytest.mark.filterwarnings("ignore::UserWarning")
@parametrize_with_checks([ViewedRowsClassifier(LLCClassifier(calibrate=False))])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_which_rivals_are_compared_in_a_view():
    assert list(VIEWED) == ["CRC (whitened)", "SRC (OMP whitened)", "LLC (whitened)",
                            "DPL (whitened)"]  # fmt: skip


@every_viewed
def test_it_searches_all_that_its_plain_twin_searches_and_the_view(name):
    twin = dbdl.methods()[name.replace(" (whitened)", "").replace(" whitened", "")]
    grid = dict(VIEWED[name].grid)
    assert len(grid.pop("view")) > 1 and grid == dict(twin.grid)
    assert VIEWED[name]().classifier.get_params() == twin().get_params()
    assert VIEWED[name].size == twin.size


@every_viewed
def test_measurements_are_better_told_apart_than_by_its_plain_twin(name):
    X, y = wine()
    twin = dbdl.methods()[name.replace(" (whitened)", "").replace(" whitened", "")]
    accuracy = VIEWED[name](random_state=0).fit(X[::2], y[::2]).score(X[1::2], y[1::2])
    assert accuracy > twin(random_state=0).fit(X[::2], y[::2]).score(X[1::2], y[1::2])


@every_viewed
def test_scores_are_those_of_the_rival_on_rows_of_a_view_that_saw_the_training_rows_only(name):
    X, y = wine()
    model = VIEWED[name](random_state=0).fit(X[::2], y[::2])
    view = dbdl.ViewTransformer(model.view).fit(X[::2], y[::2])
    rival = clone(model.classifier).fit(view.transform(X[::2]), y[::2])
    expected = rival.decision_function(view.transform(X[1::2]))
    np.testing.assert_array_equal(model.decision_function(X[1::2]), expected)
    assert model.n_atoms_ == rival.n_atoms_


def test_the_temperature_is_that_of_rows_which_neither_view_nor_rival_saw(monkeypatch):
    X, y = wine()
    seen, held_out = [], []
    learn, sharpness = ViewedRowsClassifier._learn, base.fit_sharpness

    def noting_learn(self, lesson):
        seen.append(lesson.X)
        return learn(self, lesson)

    def noting_sharpness(scores, class_of_row):
        held_out.append(scores)
        return sharpness(scores, class_of_row)

    monkeypatch.setattr(ViewedRowsClassifier, "_learn", noting_learn)
    monkeypatch.setattr(base, "fit_sharpness", noting_sharpness)
    ViewedRowsClassifier(CRCClassifier(random_state=0)).fit(X, y)
    [every, some], [scores] = seen, held_out
    assert len(every) == len(X) == len(some) + len(scores)
    left = np.array([x for x in X if not (some == x).all(axis=1).any()])
    second = ViewedRowsClassifier(CRCClassifier(random_state=0, calibrate=False))
    labels = [y[(x == X).all(axis=1).argmax()] for x in some]
    np.testing.assert_array_equal(second.fit(some, labels).decision_function(left), scores)


def test_parameters_have_their_own_names_and_clones_are_separate():
    model = ViewedRowsClassifier(CRCClassifier()).set_params(penalty=0.5, view="plain")
    again = clone(model)
    assert again.get_params()["penalty"] == again.classifier.penalty == 0.5
    assert again.view == "plain" and again.classifier is not model.classifier
    with pytest.raises(ValueError, match="Invalid parameter 'sise'"):
        model.set_params(sise=3)


def test_a_search_chooses_the_view_and_the_cell_is_measured():
    X, y = wine()
    method, rows = VIEWED["CRC (whitened)"], Part(X[::2], y[::2])
    chosen = choose_settings(method, {"random_state": 0, "penalty": 0.01}, rows, 0)
    assert set(chosen) == {"view"}
    figures = measure(method, {**chosen, "penalty": 0.01}, rows, Part(X[1::2], y[1::2]))
    assert figures["accuracy"] > 0.9 and figures["n_atoms"] == 89
    assert figures["log_loss"] < 0.3


def test_without_calibration_there_are_no_probabilities():
    X, y = wine()
    model = ViewedRowsClassifier(CRCClassifier(calibrate=False)).fit(X, y)
    assert not hasattr(model, "predict_proba") and not hasattr(model, "temperature_")


def test_only_rivals_of_the_package_are_taken():
    X, y = wine()
    with pytest.raises(ValueError, match="'classifier' parameter"):
        ViewedRowsClassifier(RidgeClassifier()).fit(X, y)
