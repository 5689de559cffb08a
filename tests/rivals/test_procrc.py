"""ProCRC: codes by their definition, and its own rule."""

import numpy as np
import pytest
from class_atoms_problem import learn, numerical_gradient, random_rows, some_faces

from dbdl.rivals.crc import CRCClassifier
from dbdl.rivals.procrc import ProCRCClassifier

SETTINGS = {"penalty": 0.03, "agreement": 0.7}


def slow_objective(code, x, atoms, class_of_atom, n_classes, penalty, agreement):
    """The problem of the docstring, class by class."""
    whole = code @ atoms
    total = np.sum((x - whole) ** 2) + penalty * np.sum(code**2)
    for c in range(n_classes):
        own = class_of_atom == c
        total += agreement / n_classes * np.sum((whole - code[own] @ atoms[own]) ** 2)
    return total


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_the_gradient_of_the_objective_is_zero_at_the_codes(n_classes):
    X, y, _ = problem = random_rows(n_classes)
    model = learn(ProCRCClassifier, problem, **SETTINGS)
    for x in np.random.default_rng(1).standard_normal((3, X.shape[1])):

        def objective(code, x=x):
            return slow_objective(code, x, X, y, n_classes, 0.03, 0.7)

        gradient = numerical_gradient(objective, x @ model.projection)
        np.testing.assert_allclose(gradient, 0, atol=1e-7)


def test_the_codes_are_those_of_a_dense_least_squares_problem():
    X, y, n_classes = problem = random_rows()
    model = learn(ProCRCClassifier, problem, **SETTINGS)
    without = [np.sqrt(0.7 / n_classes) * X * (y != c)[:, np.newaxis] for c in range(n_classes)]
    system = np.hstack([X, np.sqrt(0.03) * np.eye(len(X)), *without]).T
    x = np.random.default_rng(1).standard_normal(X.shape[1])
    target = np.concatenate([x, np.zeros(len(system) - len(x))])
    np.testing.assert_allclose(
        x @ model.projection, np.linalg.lstsq(system, target, rcond=None)[0], atol=1e-10
    )


def test_scores_are_distances_to_the_whole_reconstruction():
    X, y, n_classes = problem = random_rows()
    model = learn(ProCRCClassifier, problem, **SETTINGS)
    for x, scores in zip(X[:4], model.scores(X[:4]), strict=True):
        code = x @ model.projection
        parts = np.array([code[y == c] @ X[y == c] for c in range(n_classes)])
        distance = np.linalg.norm(code @ X - parts, axis=1)
        np.testing.assert_allclose(scores, -distance)


def test_without_agreement_the_codes_are_those_of_crc():
    problem = random_rows()
    ours = learn(ProCRCClassifier, problem, penalty=0.03, agreement=0.0)
    theirs = learn(CRCClassifier, problem, penalty=0.03)
    np.testing.assert_allclose(ours.projection, theirs.projection, atol=1e-12)


def test_faces_are_recognised(yaleb):
    X, y, _ = some_faces(yaleb, n_rows=40)
    model = ProCRCClassifier(calibrate=False).fit(X[::2], y[::2])
    assert model.score(X[1::2], y[1::2]) > 0.9
