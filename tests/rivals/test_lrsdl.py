"""LRSDL: objective, gradient, sums, shared atoms and decisions against their definitions."""

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
from scipy.optimize import minimize

from dbdl.rivals._atoms import start_atoms, update_atoms
from dbdl.rivals._base import Lesson
from dbdl.rivals.fddl import FDDLClassifier, FisherCodes
from dbdl.rivals.lrsdl import LowRankCodes, LRSDLClassifier, low_rank_atoms

SETTINGS = {
    "n_atoms_per_class": 4,
    "n_shared_atoms": 3,
    "penalty": 0.01,
    "fisher": 0.1,
    "low_rank": 0.05,
    "n_iterations": 10,
}


def slow_objective(X, y, codes, atoms, blocks, shared, penalty, fisher, low_rank):
    """The problem of the docstring, class by class."""
    own = slice(0, shared.start)
    total, overall = penalty * np.abs(codes).sum(), codes[:, own].mean(axis=0)
    for c, block in enumerate(blocks):
        code = codes[y == c]
        rows = X[y == c] - code[:, shared] @ atoms[shared]
        total += np.sum((rows - code[:, own] @ atoms[own]) ** 2)
        total += np.sum((rows - code[:, block] @ atoms[block]) ** 2)
        for j, other in enumerate(blocks):
            if j != c:
                total += np.sum((code[:, other] @ atoms[other]) ** 2)
        code = code[:, own]
        mean = code.mean(axis=0)
        total += fisher * (np.sum((code - mean) ** 2) - len(code) * np.sum((mean - overall) ** 2))
    common = codes[:, shared]
    total += fisher * (np.sum(codes[:, own] ** 2) + np.sum((common - common.mean(axis=0)) ** 2))
    return total + low_rank * np.linalg.norm(atoms[shared], "nuc")


def make_codes(fisher=0.3, penalty=0.2, low_rank=0.4):
    X, y, n_classes = random_rows()
    X, y = X[np.argsort(y, kind="stable")], np.sort(y)
    rng = np.random.default_rng(1)
    own, blocks = start_atoms(Lesson(X, y, n_classes), 3, "rows", rng)
    common = rng.standard_normal((2, X.shape[1]))
    atoms = np.vstack([own, 0.8 * common / np.linalg.norm(common, axis=1, keepdims=True)])
    codes = rng.standard_normal((len(X), len(atoms)))
    fisher_codes = FisherCodes(X, y, n_classes, blocks, fisher, penalty)
    return LowRankCodes(fisher_codes, slice(len(own), len(atoms)), low_rank), codes, atoms


def test_the_objective_is_the_problem_of_the_docstring():
    problem, codes, atoms = make_codes()
    given = problem.fisher_codes
    expected = slow_objective(
        given.X, given.class_of_row, codes, atoms, given.blocks, problem.shared, 0.2, 0.3, 0.4
    )
    np.testing.assert_allclose(problem.objective(codes, atoms), expected)


def test_the_gradient_of_the_codes_is_that_of_finite_differences():
    problem, codes, atoms = make_codes(penalty=0.0)
    image = np.empty_like(codes)
    problem.product(atoms)(codes, image)
    expected = numerical_gradient(lambda a: problem.objective(a, atoms), codes)
    np.testing.assert_allclose(2 * (image - problem.linear(atoms)), expected, atol=1e-6)


def test_the_sums_hold_all_that_the_atoms_of_classes_see():
    problem, codes, atoms = make_codes()
    own, given = slice(0, problem.shared.start), problem.without_shared(codes, atoms)
    others = atoms.copy()
    others[own] = np.random.default_rng(2).standard_normal(atoms[own].shape)
    others[own] /= np.linalg.norm(others[own], axis=1, keepdims=True)
    sums = given.sums(codes[:, own])
    change = atoms_objective(others[own], *sums, given.blocks)
    change -= atoms_objective(atoms[own], *sums, given.blocks)
    expected = problem.objective(codes, others) - problem.objective(codes, atoms)
    np.testing.assert_allclose(2 * change, expected)


def shared_objective(atoms, gram, cross, penalty):
    squares = 0.5 * np.vdot(gram @ atoms, atoms) - np.vdot(cross, atoms)
    return squares + penalty * np.linalg.norm(atoms, "nuc")


def test_the_sums_hold_all_that_the_shared_atoms_see():
    problem, codes, atoms = make_codes()
    others = atoms.copy()
    others[problem.shared] = np.random.default_rng(2).standard_normal((2, atoms.shape[1]))
    sums = problem.shared_sums(codes, atoms)
    change = shared_objective(others[problem.shared], *sums, 0.4 / 2)
    change -= shared_objective(atoms[problem.shared], *sums, 0.4 / 2)
    expected = problem.objective(codes, others) - problem.objective(codes, atoms)
    np.testing.assert_allclose(2 * change, expected)


def solve_slowly(gram, cross, penalty):
    """The shared atoms as a product of factors, half of whose squares are the nuclear norm."""
    n, width = cross.shape

    def factors(v):
        return v[: n * n].reshape(n, n), v[n * n :].reshape(n, width)

    def objective(v):
        left, right = factors(v)
        atoms = left @ right
        squares = 0.5 * np.vdot(gram @ atoms, atoms) - np.vdot(cross, atoms)
        return squares + 0.5 * penalty * np.sum(v**2)

    def room(v):
        left, right = factors(v)
        return 1 - np.sum((left @ right) ** 2, axis=1)

    start = np.random.default_rng(0).standard_normal(n * (n + width)) / n
    options = {"maxiter": 2000, "ftol": 1e-14}
    constraint = {"type": "ineq", "fun": room}
    found = minimize(objective, start, constraints=constraint, method="SLSQP", options=options)
    return found.fun


@pytest.mark.parametrize("penalty", [0.0, 0.1, 1.0, 4.0, 100.0])
@pytest.mark.parametrize("strength", [0.3, 5.0])
def test_shared_atoms_are_the_minimum_within_their_balls(penalty, strength):
    rng = np.random.default_rng(0)
    codes, rows = rng.standard_normal((9, 3)), strength * rng.standard_normal((9, 5))
    gram, cross = codes.T @ codes, codes.T @ rows
    start = np.eye(3, 5)
    atoms = low_rank_atoms(start, gram, cross, penalty)
    assert np.linalg.norm(atoms, axis=1).max() <= 1 + 1e-12
    least = solve_slowly(gram, cross, penalty)
    value = shared_objective(atoms, gram, cross, penalty)
    assert abs(value - least) <= 1e-5 * max(abs(least), 1e-2)


def test_a_heavier_penalty_lowers_the_rank_of_the_shared_atoms_until_none_is_left():
    rng = np.random.default_rng(0)
    codes, rows = rng.standard_normal((9, 4)), rng.standard_normal((9, 6))
    sums = codes.T @ codes, codes.T @ rows
    ranks = [
        np.linalg.matrix_rank(low_rank_atoms(np.eye(4, 6), *sums, penalty), tol=1e-6)
        for penalty in (0.0, 2.0, 5.0, 100.0)
    ]
    assert ranks[0] == 4 and ranks[-1] == 0
    assert (np.diff(ranks) <= 0).all() and len(set(ranks)) > 2


def test_shared_atoms_never_get_worse():
    rng = np.random.default_rng(0)
    codes, rows = rng.standard_normal((9, 3)), rng.standard_normal((9, 5))
    sums = codes.T @ codes, codes.T @ rows
    best = low_rank_atoms(np.eye(3, 5), *sums, 0.5)
    again = low_rank_atoms(best, *sums, 0.5)
    assert shared_objective(again, *sums, 0.5) <= shared_objective(best, *sums, 0.5)


@pytest.mark.parametrize("start", ["rows", "pca"])
@pytest.mark.parametrize("fisher", [0.0, 0.1, 10.0])
@pytest.mark.parametrize("low_rank", [0.0, 0.05, 2.0])
def test_the_objective_never_rises_on_random_rows(start, fisher, low_rank):
    settings = {**SETTINGS, "fisher": fisher, "low_rank": low_rank, "start": start}
    model = learn(LRSDLClassifier, random_rows(), **settings)
    assert_never_rises(model.objective)
    norm = np.linalg.norm(model.atoms, axis=1)
    np.testing.assert_allclose(norm[: model.shared.start], 1)
    assert norm.max() <= 1 + 1e-9


def test_each_update_of_a_step_lowers_the_objective():
    problem, codes, atoms = make_codes()
    own = slice(0, problem.shared.start)
    given = problem.without_shared(codes, atoms)
    values = [problem.objective(codes, atoms)]
    atoms[own] = update_atoms(atoms[own], *given.sums(codes[:, own]), given.blocks)
    values.append(problem.objective(codes, atoms))
    sums = problem.shared_sums(codes, atoms)
    atoms[problem.shared] = low_rank_atoms(atoms[problem.shared], *sums, problem.low_rank / 2)
    values.append(problem.objective(codes, atoms))
    values.append(problem.objective(problem.code(atoms, codes).codes, atoms))
    assert (np.diff(values) < 0).all()


def test_the_objective_never_rises_on_faces(yaleb):
    model = learn(LRSDLClassifier, some_faces(yaleb), **SETTINGS)
    assert_never_rises(model.objective, tolerance=1e-6)  # float32


def test_without_shared_atoms_it_is_fddl():
    problem = random_rows()
    shared = {"n_atoms_per_class": 4, "penalty": 0.01, "fisher": 0.1, "mean_weight": 0.4}
    ours = learn(LRSDLClassifier, problem, n_shared_atoms=0, **shared)
    theirs = learn(FDDLClassifier, problem, **shared)
    np.testing.assert_allclose(ours.atoms, theirs.atoms, atol=1e-9)
    np.testing.assert_allclose(ours.objective, theirs.objective)
    np.testing.assert_allclose(ours.scores(problem[0]), theirs.scores(problem[0]), atol=1e-8)


def test_shared_atoms_that_became_zero_are_dropped():
    settings = {**SETTINGS, "low_rank": 1e3}
    model = learn(LRSDLClassifier, random_rows(), **settings)
    assert len(model.atoms) == 12 and model.shared == slice(12, 12)
    assert model.mean_codes.shape == (3, 12)


def test_scores_are_class_residuals_without_the_shared_part_and_distances_to_mean_codes():
    X, y, n_classes = random_rows()
    settings = {**SETTINGS, "test_penalty": 0.05, "mean_weight": 0.4}
    model = learn(LRSDLClassifier, (X, y, n_classes), **settings)
    own, shared = slice(0, model.shared.start), model.shared
    assert shared.stop - shared.start > 0
    mean = model.mean_codes[0, shared]
    for x, scores in zip(X[:3], model.scores(X[:3]), strict=True):

        def smooth(a, x=x):
            return np.sum((x - a @ model.atoms) ** 2) + 0.1 * np.sum((a[shared] - mean) ** 2)

        code, _ = lasso_slowly(smooth, len(model.atoms), 0.05)
        left = x - code[shared] @ model.atoms[shared]
        for c, block in enumerate(model.blocks):
            loss = np.sum((left - code[block] @ model.atoms[block]) ** 2)
            loss += 0.4 * np.sum((code[own] - model.mean_codes[c, own]) ** 2)
            np.testing.assert_allclose(scores[c], -loss, atol=1e-4)


def test_what_all_classes_have_in_common_goes_into_the_shared_atoms():
    X, y, n_classes = random_rows(n_features=30)
    rng = np.random.default_rng(3)
    common = rng.standard_normal(30)
    common /= np.linalg.norm(common)
    X = X + 2 * common  # the same in every row
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    settings = {"n_atoms_per_class": 4, "penalty": 0.01, "fisher": 0.1}
    model = learn(LRSDLClassifier, (X, y, n_classes), **settings, n_shared_atoms=1)
    atom = model.atoms[model.shared][0]
    assert abs(atom @ common) > 0.85 * np.linalg.norm(atom)
    alone = learn(LRSDLClassifier, (X, y, n_classes), **settings, n_shared_atoms=0)
    left, before = (np.mean((m.atoms[:12] @ common) ** 2) for m in (model, alone))
    assert left < 0.9 * before


def test_faces_are_recognised(yaleb):
    X, y, _ = some_faces(yaleb, n_rows=40)
    model = LRSDLClassifier(calibrate=False, random_state=0).fit(X[::2], y[::2])
    assert model.score(X[1::2], y[1::2]) > 0.9
