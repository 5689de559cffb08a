"""LDL: objective, weights, gradient, sums and decisions against their definitions."""

import numpy as np
import pytest
from class_atoms_problem import (
    assert_never_rises,
    lasso_slowly,
    learn,
    numerical_gradient,
    random_rows,
    some_faces,
)
from scipy.optimize import minimize

from dbdl.rivals._atoms import update_atoms
from dbdl.rivals.ldl import (
    LatentCodes,
    LDLClassifier,
    first_weights,
    minimise_on_simplex,
    project_on_simplex,
    shared_weights,
)

SETTINGS = {
    "n_atoms_per_class": 4,
    "penalty": 0.01,
    "scatter": 0.05,
    "incoherence": 0.01,
    "other_weight": 0.2,
    "n_iterations": 10,
}


def slow_objective(problem, codes, atoms, weights):
    """The problem of the docstring, pair by pair."""
    total = 0.0
    for rows, code, own in zip(problem.rows, codes, weights, strict=True):
        total += np.sum((rows - code @ np.diag(own) @ atoms) ** 2)
        total += problem.penalty * np.abs(code).sum()
        total += problem.scatter * np.sum((code - code.mean(axis=0)) ** 2)
    for c, own in enumerate(weights):
        for j, other in enumerate(weights):
            for k, atom in enumerate(atoms):
                for m, second in enumerate(atoms):
                    if j != c and m != k:
                        total += problem.incoherence * own[k] * (atom @ second) ** 2 * other[m]
    return total


def make_codes(n_atoms=7):
    X, y, n_classes = random_rows()
    rng = np.random.default_rng(1)
    atoms = rng.standard_normal((n_atoms, X.shape[1]))
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    rows = [X[y == c] for c in range(n_classes)]
    codes = [rng.standard_normal((len(own), n_atoms)) for own in rows]
    weights = rng.random((n_classes, n_atoms))
    return LatentCodes(rows, penalty=0.3, scatter=0.4, incoherence=0.2), codes, atoms, weights


def test_the_objective_is_the_problem_of_the_docstring():
    problem, codes, atoms, weights = make_codes()
    expected = slow_objective(problem, codes, atoms, weights)
    np.testing.assert_allclose(problem.objective(codes, atoms, weights), expected)


def test_the_codes_of_a_class_are_the_minimum():
    problem, codes, atoms, weights = make_codes()
    smooth = LatentCodes(problem.rows, 0.0, problem.scatter, problem.incoherence)

    def objective(code):
        return smooth.objective([code, *codes[1:]], atoms, weights)

    found = codes[0]
    for _ in range(40):
        found = problem.code_class(0, atoms, atoms @ atoms.T, weights[0], found)
    gradient = numerical_gradient(objective, found)
    used = found != 0
    np.testing.assert_allclose(gradient[used], -0.3 * np.sign(found[used]), atol=1e-3)
    assert np.abs(gradient[~used]).max(initial=0) < 0.301


def test_atoms_without_a_weight_get_no_code():
    problem, codes, atoms, weights = make_codes()
    weights[1, [2, 5]] = 0
    found = problem.code_class(1, atoms, atoms @ atoms.T, weights[1], codes[1])
    assert not found[:, [2, 5]].any() and found.any()


def test_the_update_of_the_weights_keeps_their_sums_and_lowers_the_objective():
    problem, codes, atoms, weights = make_codes()
    found = problem.update_weights(codes, atoms, weights)
    np.testing.assert_allclose(found.sum(axis=1), weights.sum(axis=1))
    assert found.min() >= 0
    before, after = (problem.objective(codes, atoms, w) for w in (weights, found))
    assert after < before


def test_weights_of_a_class_are_a_minimum_on_the_simplex():
    rng = np.random.default_rng(0)
    root = rng.standard_normal((9, 6))
    quadratic, linear, start = root.T @ root, rng.standard_normal(6), np.full(6, 0.5)
    found = start
    for _ in range(200):
        found = minimise_on_simplex(quadratic, linear, found)
    other = minimize(
        lambda w: 0.5 * w @ quadratic @ w - linear @ w,
        start,
        bounds=[(0, None)] * 6,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 3.0},
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    np.testing.assert_allclose(found, other.x, atol=1e-5)


def test_the_projection_is_the_nearest_point():
    rng = np.random.default_rng(0)
    for _ in range(20):
        values = rng.standard_normal(5)
        found = project_on_simplex(values, 2.0)
        np.testing.assert_allclose(found.sum(), 2.0)
        others = 2.0 * rng.dirichlet(np.ones(5), size=200)
        assert np.linalg.norm(found - values) <= np.linalg.norm(others - values, axis=1).min()


def test_first_weights_lean_to_the_atoms_of_the_class():
    weights = first_weights([slice(0, 2), slice(2, 5)], 0.1)
    np.testing.assert_allclose(weights.sum(axis=1), [2, 3])
    np.testing.assert_allclose(weights[0, 2:] / weights[0, 0], 0.1)


def test_the_update_of_the_atoms_lowers_the_whole_objective():
    problem, codes, atoms, weights = make_codes()
    blocks = [slice(k, k + 1) for k in range(len(atoms))]
    pairs = 2 * problem.incoherence * shared_weights(weights)
    values = [problem.objective(codes, atoms, weights)]
    for _ in range(20):
        atoms = update_atoms(atoms, *problem.sums(codes, weights), blocks, pairs)
        values.append(problem.objective(codes, atoms, weights))
    assert np.diff(values).max() <= 1e-10 * values[-1] and values[-1] < values[0]


@pytest.mark.parametrize("start", ["rows", "pca"])
@pytest.mark.parametrize("incoherence", [0.0, 0.01, 1.0])
def test_the_objective_never_rises_on_random_rows(start, incoherence):
    settings = {**SETTINGS, "incoherence": incoherence, "start": start}
    model = learn(LDLClassifier, random_rows(), **settings)
    assert_never_rises(model.objective)
    np.testing.assert_allclose(np.linalg.norm(model.atoms, axis=1), 1)
    np.testing.assert_allclose(model.weights.sum(axis=1), 4)


@pytest.mark.parametrize("start", ["rows", "pca"])
def test_the_objective_never_rises_on_faces(yaleb, start):
    model = learn(LDLClassifier, some_faces(yaleb), **SETTINGS, start=start)
    assert_never_rises(model.objective, tolerance=1e-6)  # float32


def test_scores_are_those_of_the_decisions():
    X, y, n_classes = random_rows()
    settings = {**SETTINGS, "test_penalty": 0.05, "mean_weight": 0.4}
    by_class = learn(LDLClassifier, (X, y, n_classes), **settings, decision="local")
    over_all = learn(LDLClassifier, (X, y, n_classes), **settings, decision="global")
    atoms, n = by_class.atoms, len(by_class.atoms)
    for x, local, overall in zip(
        X[:2], by_class.scores(X[:2]), over_all.scores(X[:2]), strict=True
    ):
        code, _ = lasso_slowly(lambda a, x=x: np.sum((x - a @ atoms) ** 2), n, 0.05)
        for c, (own, mean) in enumerate(zip(by_class.weights, by_class.mean_codes, strict=True)):

            def smooth(a, x=x, own=own, mean=mean):
                return np.sum((x - (a * own) @ atoms) ** 2) + 0.4 * np.sum((a - mean) ** 2)

            np.testing.assert_allclose(-local[c], lasso_slowly(smooth, n, 0.05)[1], rtol=1e-4)
            residual = np.sum((x - (code * own) @ atoms) ** 2)
            np.testing.assert_allclose(-overall[c], residual, atol=1e-4)


@pytest.mark.parametrize("decision", ["global", "local"])
def test_faces_are_recognised(yaleb, decision):
    X, y, _ = some_faces(yaleb, n_rows=40)
    model = LDLClassifier(calibrate=False, decision=decision, random_state=0).fit(X[::2], y[::2])
    assert model.score(X[1::2], y[1::2]) > 0.9
