"""FDDL: objective, gradient, sums and decisions against their definitions."""

import numpy as np
import pytest
from class_atoms_problem import (
    assert_never_rises,
    atoms_objective,
    lasso_slowly,
    learn,
    numerical_gradient,
    random_rows,
    some_faces,
)

from dbdl.rivals._atoms import start_atoms
from dbdl.rivals._base import Lesson
from dbdl.rivals.fddl import FDDLClassifier, FisherCodes

SETTINGS = {"n_atoms_per_class": 4, "penalty": 0.01, "fisher": 0.1, "n_iterations": 10}


def slow_objective(X, y, codes, atoms, blocks, penalty, fisher):
    """The problem of the docstring, class by class."""
    total, overall = penalty * np.abs(codes).sum(), codes.mean(axis=0)
    for c, own in enumerate(blocks):
        rows, code = X[y == c], codes[y == c]
        total += np.sum((rows - code @ atoms) ** 2)
        total += np.sum((rows - code[:, own] @ atoms[own]) ** 2)
        for j, other in enumerate(blocks):
            if j != c:
                total += np.sum((code[:, other] @ atoms[other]) ** 2)
        mean = code.mean(axis=0)
        total += fisher * (np.sum((code - mean) ** 2) - len(code) * np.sum((mean - overall) ** 2))
    return total + fisher * np.sum(codes**2)


def make_codes(fisher=0.3, penalty=0.2, n_atoms=3):
    X, y, n_classes = random_rows()
    X, y = X[np.argsort(y, kind="stable")], np.sort(y)
    rng = np.random.default_rng(1)
    atoms, blocks = start_atoms(Lesson(X, y, n_classes), n_atoms, "rows", rng)
    codes = rng.standard_normal((len(X), len(atoms)))
    return FisherCodes(X, y, n_classes, blocks, fisher, penalty), codes, atoms


def test_the_objective_is_the_problem_of_the_docstring():
    problem, codes, atoms = make_codes()
    expected = slow_objective(
        problem.X, problem.class_of_row, codes, atoms, problem.blocks, 0.2, problem.fisher
    )
    np.testing.assert_allclose(problem.objective(codes, atoms), expected)


def test_the_gradient_of_the_codes_is_that_of_finite_differences():
    problem, codes, atoms = make_codes(penalty=0.0)
    image = np.empty_like(codes)
    problem.product(atoms)(codes, image)
    expected = numerical_gradient(lambda a: problem.objective(a, atoms), codes)
    np.testing.assert_allclose(2 * (image - problem.linear(atoms)), expected, atol=1e-6)


def test_the_codes_are_a_convex_problem_for_any_weight():
    problem, codes, atoms = make_codes(fisher=50.0)
    product = problem.product(atoms)
    columns = []
    for i in range(codes.size):
        probe, image = np.zeros_like(codes), np.empty_like(codes)
        probe.flat[i] = 1
        product(probe, image)
        columns.append(image.ravel())
    matrix = np.array(columns)
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-10)
    assert np.linalg.eigvalsh(matrix)[0] > -1e-9


def test_the_sums_hold_all_that_the_atoms_see():
    problem, codes, atoms = make_codes()
    rng = np.random.default_rng(2)
    others = rng.standard_normal(atoms.shape)
    others /= np.linalg.norm(others, axis=1, keepdims=True)
    sums = problem.sums(codes)
    change = atoms_objective(others, *sums, problem.blocks)
    change -= atoms_objective(atoms, *sums, problem.blocks)
    expected = problem.objective(codes, others) - problem.objective(codes, atoms)
    np.testing.assert_allclose(2 * change, expected)


@pytest.mark.parametrize("start", ["rows", "pca"])
@pytest.mark.parametrize("fisher", [0.0, 0.1, 10.0])
def test_the_objective_never_rises_on_random_rows(start, fisher):
    settings = {**SETTINGS, "fisher": fisher, "start": start}
    model = learn(FDDLClassifier, random_rows(), **settings)
    assert_never_rises(model.objective)
    np.testing.assert_allclose(np.linalg.norm(model.atoms, axis=1), 1)


@pytest.mark.parametrize("start", ["rows", "pca"])
def test_the_objective_never_rises_on_faces(yaleb, start):
    model = learn(FDDLClassifier, some_faces(yaleb), **SETTINGS, start=start)
    assert_never_rises(model.objective, tolerance=1e-6)  # float32


def test_global_scores_are_class_residuals_and_distances_to_mean_codes():
    X, y, n_classes = random_rows()
    settings = {**SETTINGS, "test_penalty": 0.05, "mean_weight": 0.4}
    model = learn(FDDLClassifier, (X, y, n_classes), **settings)
    for x, scores in zip(X[:3], model.scores(X[:3]), strict=True):
        smooth = lambda a, x=x: np.sum((x - a @ model.atoms) ** 2)  # noqa: E731
        code, _ = lasso_slowly(smooth, len(model.atoms), 0.05)
        for c, own in enumerate(model.blocks):
            loss = np.sum((x - code[own] @ model.atoms[own]) ** 2)
            loss += 0.4 * np.sum((code - model.mean_codes[c]) ** 2)
            np.testing.assert_allclose(scores[c], -loss, atol=1e-4)


def test_local_scores_are_the_least_loss_over_the_atoms_of_a_class():
    X, y, n_classes = random_rows()
    settings = {**SETTINGS, "decision": "local", "test_penalty": 0.05, "mean_weight": 0.4}
    model = learn(FDDLClassifier, (X, y, n_classes), **settings)
    for x, scores in zip(X[:3], model.scores(X[:3]), strict=True):
        for c, block in enumerate(model.blocks):
            own, mean = model.atoms[block], model.mean_codes[c, block]

            def smooth(a, x=x, own=own, mean=mean):
                return np.sum((x - a @ own) ** 2) + 0.4 * np.sum((a - mean) ** 2)

            _, loss = lasso_slowly(smooth, len(own), 0.05)
            np.testing.assert_allclose(scores[c], -loss, rtol=1e-5)


def test_mean_codes_are_those_of_the_classes_whatever_the_order_of_the_rows():
    X, y, n_classes = random_rows()
    shuffled = np.argsort(y, kind="stable")
    settings = {**SETTINGS, "start": "pca"}
    found = learn(FDDLClassifier, (X, y, n_classes), **settings)
    again = learn(FDDLClassifier, (X[shuffled], y[shuffled], n_classes), **settings)
    np.testing.assert_array_equal(found.mean_codes, again.mean_codes)
    strength = np.array([[np.abs(m[b]).sum() for b in found.blocks] for m in found.mean_codes])
    np.testing.assert_array_equal(strength.argmax(axis=1), np.arange(n_classes))


@pytest.mark.parametrize("decision", ["global", "local"])
def test_faces_are_recognised(yaleb, decision):
    X, y, _ = some_faces(yaleb, n_rows=40)
    model = FDDLClassifier(calibrate=False, decision=decision, random_state=0).fit(X[::2], y[::2])
    assert model.score(X[1::2], y[1::2]) > 0.9
