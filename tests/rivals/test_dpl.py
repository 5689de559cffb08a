"""Dictionary pairs: every step is a minimum, and the objective is that of the docstring."""

import os
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from dbdl.rivals.dpl import (
    DPLClassifier,
    learn_pair,
    projection_of_codes,
    update_atoms_in_ball,
    update_codes,
)


@cache
def digits():
    return load_digits(return_X_y=True)


SETTINGS = DPLClassifier(n_atoms_per_class=6, tie=0.1, discrimination=0.02, penalty=0.01)


def objective(rows, others, atoms, projection, codes, settings=SETTINGS):
    """Term by term, as the docstring of the classifier has it."""
    return (
        np.square(rows - codes @ atoms).sum()
        + settings.tie * np.square(rows @ projection - codes).sum()
        + settings.discrimination * np.square(others @ projection).sum()
        + settings.penalty * np.square(projection).sum()
    )


def make_problem(seed=0):
    rng = np.random.default_rng(seed)
    rows, others = rng.standard_normal((12, 20)), rng.standard_normal((30, 20))
    atoms = rng.standard_normal((6, 20)) / 6
    return rng, rows, others, atoms, rng.standard_normal((20, 6)), rng.standard_normal((12, 6))


def assert_minimum(value, at, rng):
    """No small step from ``at`` lowers ``value``."""
    best = value(at)
    for _ in range(20):
        assert value(at + 1e-4 * rng.standard_normal(at.shape)) >= best


def test_codes_and_projection_are_minima():
    rng, rows, others, atoms, projection, codes = make_problem()
    new = update_codes(rows, atoms, rows @ projection, SETTINGS.tie)
    assert_minimum(lambda a: objective(rows, others, atoms, projection, a), new, rng)
    new = projection_of_codes(rows, others.T @ others, SETTINGS) @ codes
    assert_minimum(lambda p: objective(rows, others, atoms, p, codes), new, rng)


def test_atoms_stay_in_the_ball_and_come_to_the_constrained_minimum():
    _, rows, _, atoms, _, codes = make_problem()
    gram, cross = codes.T @ codes, codes.T @ rows
    before = np.square(rows - codes @ atoms).sum()
    for _ in range(200):
        atoms = update_atoms_in_ball(atoms, gram, cross)
        after = np.square(rows - codes @ atoms).sum()
        assert after <= before + 1e-9
        before = after
    # at the minimum the gradient vanishes inside the ball and points straight out on its edge
    norm, pull = np.linalg.norm(atoms, axis=1), cross - gram @ atoms
    assert (norm <= 1 + 1e-12).all() and (norm > 1 - 1e-9).any()
    outward = np.einsum("ij,ij->i", pull, atoms)
    assert (outward > -1e-7).all()
    along = np.where(norm > 1 - 1e-9, outward, 0)[:, np.newaxis] * atoms
    np.testing.assert_allclose(pull, along, atol=1e-6)


def test_trace_is_the_objective_of_the_docstring():
    _, rows, others, _, _, _ = make_problem()
    settings = DPLClassifier(n_atoms_per_class=6, n_iterations=1)
    pair = learn_pair(rows, others.T @ others, settings, np.random.default_rng(3))
    rng = np.random.default_rng(3)
    first = [rng.standard_normal((6, 20)) for _ in range(2)]
    atoms, start = (a / np.linalg.norm(a, axis=1, keepdims=True) for a in first)
    codes = update_codes(rows, atoms, rows @ start.T, settings.tie)
    expected = objective(rows, others, pair.atoms, pair.projection, codes, settings)
    assert pair.objective[0] == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(3))
def test_objective_does_not_increase_on_random_rows(seed):
    _, rows, others, *_ = make_problem(seed)
    pair = learn_pair(rows, others.T @ others, SETTINGS, np.random.default_rng(seed))
    assert (np.diff(pair.objective) <= 1e-9 * pair.objective[0]).all()


def assert_learns(rows, labels, new, new_labels, least):
    model = DPLClassifier(calibrate=False, random_state=0).fit(rows, labels)
    assert len(model.objective_) == 20
    assert (np.diff(model.objective_) <= 1e-9 * model.objective_[0]).all()
    assert model.objective_[-1] < model.objective_[0]
    assert (np.linalg.norm(model.atoms_, axis=1) <= 1 + 1e-6).all()
    assert model.score(new, new_labels) > least


def test_objective_does_not_increase_on_digits():
    X, Y = digits()
    assert_learns(X[:600], Y[:600], X[600:1200], Y[600:1200], 0.85)


def test_objective_does_not_increase_on_faces():
    path = Path(os.environ.get("DBDL_DATA", "")) / "extended_yaleb_randomfaces504.npz"
    if not path.exists():
        pytest.skip("set DBDL_DATA to the folder that holds the faces")
    with np.load(path) as arrays:
        faces, people = arrays["X"].astype(float), arrays["y"].ravel()
    some = np.isin(people, np.unique(people)[:6])
    faces, people = faces[some], people[some]
    assert_learns(faces[::2], people[::2], faces[1::2], people[1::2], 0.9)


def test_it_agrees_with_another_library():
    """dictlearn keeps atoms at norm one by alternating directions, and draws another start."""
    peer = pytest.importorskip("dictlearn.classification")
    X, Y = digits()
    rows = X[:900] / np.linalg.norm(X[:900], axis=1, keepdims=True)
    new = X[900:] / np.linalg.norm(X[900:], axis=1, keepdims=True)
    settings = {"tau": 0.05, "theta": 0.003, "gamma": 1e-4, "max_iter": 20, "random_state": 0}
    theirs = peer.DPLClassifier(15, **settings).fit(rows, Y[:900])
    ours = DPLClassifier(calibrate=False, random_state=0).fit(rows, Y[:900])
    assert np.mean(ours.predict(new) == theirs.predict(new)) > 0.97
    residual = -theirs.decision_function(new)  # squared there
    scores = -np.square(ours.decision_function(new))
    assert np.corrcoef(-residual.ravel(), scores.ravel())[0, 1] > 0.99
