"""DL-COPAR: objective, gradient, sums and decisions against their definitions."""

from dataclasses import replace

import numpy as np
import pytest
from class_atoms_problem import (
    assert_never_rises,
    atoms_objective,
    learn,
    numerical_gradient,
    random_rows,
    some_faces,
)
from sklearn.linear_model import Lasso

from dbdl.rivals.copar import CoparClassifier, SharedCodes

SETTINGS = {
    "n_atoms_per_class": 4,
    "n_shared_atoms": 2,
    "penalty": 0.01,
    "incoherence": 0.05,
    "n_iterations": 10,
}


def slow_objective(rows, codes, atoms, blocks, shared, penalty, incoherence):
    """The problem of the docstring, class by class and pair by pair."""
    total = 0.0
    for c, (X, code) in enumerate(zip(rows, codes, strict=True)):
        own = blocks[c]
        total += np.sum((X - code @ atoms) ** 2) + penalty * np.abs(code).sum()
        particular = X - code[:, own] @ atoms[own]
        total += np.sum((particular - code[:, shared] @ atoms[shared]) ** 2)
        for j, other in enumerate(blocks):
            if j != c:
                total += np.sum(code[:, other] ** 2)
    everything = [*blocks, shared]
    for i, a in enumerate(everything):
        for j, b in enumerate(everything):
            if i != j:
                total += incoherence * np.sum((atoms[a] @ atoms[b].T) ** 2)
    return total


def make_codes(n_shared=2):
    X, y, n_classes = random_rows()
    rng = np.random.default_rng(1)
    blocks, shared = [slice(0, 2), slice(2, 5), slice(5, 6)], slice(6, 6 + n_shared)
    atoms = rng.standard_normal((shared.stop, X.shape[1]))
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    rows = [X[y == c] for c in range(n_classes)]
    codes = [rng.standard_normal((len(own), shared.stop)) for own in rows]
    return SharedCodes(rows, blocks, shared, 0.3, incoherence=0.7), codes, atoms


@pytest.mark.parametrize("n_shared", [0, 2])
def test_the_objective_is_the_problem_of_the_docstring(n_shared):
    problem, codes, atoms = make_codes(n_shared)
    expected = slow_objective(problem.rows, codes, atoms, problem.blocks, problem.shared, 0.3, 0.7)
    np.testing.assert_allclose(problem.objective(codes, atoms), expected)


@pytest.mark.parametrize("c", [0, 1, 2])
def test_the_gradient_of_the_codes_is_that_of_finite_differences(c):
    problem, codes, atoms = make_codes()
    smooth = replace(problem, penalty=0.0, incoherence=0.0)

    def objective(code):
        return smooth.objective([*codes[:c], code, *codes[c + 1 :]], atoms)

    gradient = codes[c] @ problem.quadratic(c, atoms @ atoms.T) - problem.linear(c, atoms)
    np.testing.assert_allclose(2 * gradient, numerical_gradient(objective, codes[c]), atol=1e-6)


def test_the_sums_hold_all_that_the_atoms_see():
    problem, codes, atoms = make_codes()
    others = np.random.default_rng(2).standard_normal(atoms.shape)
    others /= np.linalg.norm(others, axis=1, keepdims=True)
    sums, blocks = problem.sums(codes), [*problem.blocks, problem.shared]
    change = atoms_objective(others, *sums, blocks, incoherence=2 * 0.7)
    change -= atoms_objective(atoms, *sums, blocks, incoherence=2 * 0.7)
    expected = problem.objective(codes, others) - problem.objective(codes, atoms)
    np.testing.assert_allclose(2 * change, expected)


@pytest.mark.parametrize("start", ["rows", "pca"])
@pytest.mark.parametrize("incoherence", [0.0, 0.05, 5.0])
@pytest.mark.parametrize("n_shared_atoms", [0, 2])
def test_the_objective_never_rises_on_random_rows(start, incoherence, n_shared_atoms):
    settings = {**SETTINGS, "incoherence": incoherence, "n_shared_atoms": n_shared_atoms}
    model = learn(CoparClassifier, random_rows(), **settings, start=start)
    assert_never_rises(model.objective)
    np.testing.assert_allclose(np.linalg.norm(model.atoms, axis=1), 1)
    assert len(model.atoms) == 3 * 4 + n_shared_atoms


@pytest.mark.parametrize("start", ["rows", "pca"])
def test_the_objective_never_rises_on_faces(yaleb, start):
    model = learn(CoparClassifier, some_faces(yaleb), **SETTINGS, start=start)
    assert_never_rises(model.objective, tolerance=1e-6)  # float32


def code_slowly(x, atoms, penalty):
    """min ||x - a atoms||^2 + penalty ||a||_1 by scikit-learn."""
    solver = Lasso(alpha=penalty / 2 / len(x), fit_intercept=False, tol=1e-12, max_iter=10**6)
    return solver.fit(atoms.T, x).coef_


def test_local_scores_are_the_least_loss_over_class_and_shared_atoms():
    X, y, n_classes = random_rows()
    model = learn(CoparClassifier, (X, y, n_classes), **SETTINGS, test_penalty=0.05)
    for x, scores in zip(X[:4], model.scores(X[:4]), strict=True):
        for c, own in enumerate(model.blocks):
            atoms = np.vstack([model.atoms[own], model.atoms[model.shared]])
            code = code_slowly(x, atoms, 0.05)
            loss = np.sum((x - code @ atoms) ** 2) + 0.05 * np.abs(code).sum()
            np.testing.assert_allclose(scores[c], -loss, rtol=1e-6)


def test_global_scores_are_class_residuals_without_the_shared_part():
    X, y, n_classes = random_rows()
    settings = {**SETTINGS, "decision": "global", "test_penalty": 0.05}
    model = learn(CoparClassifier, (X, y, n_classes), **settings)
    for x, scores in zip(X[:4], model.scores(X[:4]), strict=True):
        code = code_slowly(x, model.atoms, 0.05)
        particular = x - code[model.shared] @ model.atoms[model.shared]
        for c, own in enumerate(model.blocks):
            loss = np.sum((particular - code[own] @ model.atoms[own]) ** 2)
            np.testing.assert_allclose(scores[c], -loss, atol=1e-5)


def test_rows_of_a_class_lean_on_their_own_and_the_shared_atoms():
    X, y, n_classes = random_rows()
    model = learn(CoparClassifier, (X, y, n_classes), **SETTINGS)
    problem = SharedCodes(
        [X[y == c] for c in range(n_classes)], list(model.blocks), model.shared, 0.01, 0.05
    )
    gram = model.atoms @ model.atoms.T
    for c in range(n_classes):
        empty = np.zeros((len(problem.rows[c]), len(gram)))
        codes = problem.code_class(c, model.atoms, gram, empty).codes
        strength = np.abs(codes).sum(axis=0)
        assert strength[problem.others(c)].sum() < 0.1 * strength.sum()


@pytest.mark.parametrize("decision", ["local", "global"])
def test_faces_are_recognised(yaleb, decision):
    X, y, _ = some_faces(yaleb, n_rows=40)
    settings = {"calibrate": False, "decision": decision, "test_penalty": 0.01, "random_state": 0}
    model = CoparClassifier(**settings).fit(X[::2], y[::2])
    assert model.score(X[1::2], y[1::2]) > 0.9
