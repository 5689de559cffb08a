"""DLSI: objective, atoms and rule against their definitions."""

import numpy as np
import pytest
from class_atoms_problem import assert_never_rises, learn, random_rows, some_faces
from sklearn.linear_model import Lasso

from dbdl.rivals.dlsi import ClassCodes, DLSIClassifier

SETTINGS = {"n_atoms_per_class": 4, "penalty": 0.01, "incoherence": 0.05, "n_iterations": 12}


@pytest.mark.parametrize("start", ["rows", "pca"])
@pytest.mark.parametrize("incoherence", [0.0, 0.05, 5.0])
def test_the_objective_never_rises_on_random_rows(start, incoherence):
    settings = {**SETTINGS, "incoherence": incoherence, "start": start}
    model = learn(DLSIClassifier, random_rows(), **settings)
    assert_never_rises(model.objective)
    np.testing.assert_allclose(np.linalg.norm(model.atoms, axis=1), 1)


@pytest.mark.parametrize("start", ["rows", "pca"])
def test_the_objective_never_rises_on_faces(yaleb, start):
    model = learn(DLSIClassifier, some_faces(yaleb), **SETTINGS, start=start)
    assert_never_rises(model.objective, tolerance=1e-6)  # float32


def test_the_objective_is_the_problem_of_the_docstring():
    X, y, n_classes = random_rows()
    rng = np.random.default_rng(1)
    blocks = [slice(0, 2), slice(2, 5), slice(5, 6)]
    atoms = rng.standard_normal((6, X.shape[1]))
    rows = [X[y == c] for c in range(n_classes)]
    codes = [rng.standard_normal((len(r), b.stop - b.start)) for r, b in zip(rows, blocks)]  # noqa: B905
    expected = 0.0
    for c in range(n_classes):
        own = atoms[blocks[c]]
        expected += 0.5 * np.sum((rows[c] - codes[c] @ own) ** 2) + 0.3 * np.abs(codes[c]).sum()
        for j in range(n_classes):
            if j != c:
                expected += 0.5 * 0.2 * np.sum((own @ atoms[blocks[j]].T) ** 2)
    found = ClassCodes(rows, blocks, penalty=0.3, incoherence=0.2).objective(codes, atoms)
    np.testing.assert_allclose(found, expected)


def test_incoherence_keeps_the_atoms_of_classes_apart():
    X, y, n_classes = random_rows()
    overlap = []
    for incoherence in (0.0, 5.0):
        settings = {**SETTINGS, "incoherence": incoherence, "n_iterations": 60}
        atoms = learn(DLSIClassifier, (X, y, n_classes), **settings).atoms
        overlap.append(np.sum((atoms[:4] @ atoms[4:].T) ** 2))
    assert overlap[1] < 0.5 * overlap[0]


def test_scores_are_minus_the_least_loss_over_the_atoms_of_a_class():
    X, y, n_classes = random_rows()
    model = learn(DLSIClassifier, (X, y, n_classes), **SETTINGS)
    solver = Lasso(alpha=0.01 / X.shape[1], fit_intercept=False, tol=1e-10, max_iter=100_000)
    for x, scores in zip(X[:4], model.scores(X[:4]), strict=True):
        for c, block in enumerate(model.blocks):
            own = model.atoms[block]
            code = solver.fit(own.T, x).coef_
            loss = 0.5 * np.sum((x - code @ own) ** 2) + 0.01 * np.abs(code).sum()
            np.testing.assert_allclose(scores[c], -loss, rtol=1e-6)


def test_faces_are_recognised(yaleb):
    X, y, _ = some_faces(yaleb, n_rows=40)
    model = DLSIClassifier(calibrate=False, random_state=0).fit(X[::2], y[::2])
    assert model.score(X[1::2], y[1::2]) > 0.9
