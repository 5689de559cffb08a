"""DBDL on real faces, with bounds that a fault in learning, coding or calibration would cross."""

from collections import Counter

import numpy as np
import pytest
from sklearn.model_selection import StratifiedShuffleSplit

from dbdl import DBDLClassifier
from dbdl.views import AUTOMATIC, MORE_FOR_FEW_ROWS

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def faces(yaleb):
    """Half of the faces of each of twelve people to learn from, and the others."""
    X, y = yaleb
    X, y = X[y < np.unique(y)[12]], y[y < np.unique(y)[12]]
    split = StratifiedShuffleSplit(1, train_size=0.5, random_state=0)
    train, test = next(split.split(X, y))
    return X[train], y[train], X[test], y[test]


@pytest.fixture(scope="module")
def model(faces):
    return DBDLClassifier(n_sweeps=15, random_state=0, n_jobs=2).fit(*faces[:2])


def test_faces_are_recognised(faces, model):
    assert model.score(*faces[2:]) > 0.975


def test_views_and_rows_are_shared_out(faces, model):
    """Few rows: six chains for each view that earns a weight, and each leaves out a tenth."""
    n_chains = Counter(chain.view.name for chain in model.chains_)
    assert set(n_chains.values()) == {6} and set(n_chains) < set(AUTOMATIC + MORE_FOR_FEW_ROWS)
    assert model.held_out_.n_rows >= 0.98 * len(model.chains_) / 10 * len(faces[1])


def test_probabilities_of_faces_can_be_trusted(faces, model):
    probability = model.predict_proba(faces[2])
    right = model.predict(faces[2]) == faces[3]
    assert abs(probability.max(axis=1).mean() - right.mean()) < 0.02


def test_atoms_belong_to_people(model):
    """Nearly every atom is used by one person far more often than by the others."""
    probability = np.sort(model.selection_probability_, axis=0)
    assert np.median(probability[-1] / probability[:-1].mean(axis=0)) > 5
