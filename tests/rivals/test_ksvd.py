"""K-SVD: a planted dictionary is found, updates never raise the objective, atoms are replaced."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.utils.estimator_checks import parametrize_with_checks

from dbdl.coding.omp import omp
from dbdl.learn.labels import ridge_label_atoms
from dbdl.rivals._atoms import distinct_rows
from dbdl.rivals._ksvd import (
    Learning,
    code_rows,
    first_right_singular_vector,
    learn_ksvd,
    replace_atoms,
    superfluous_atoms,
    update_approximately,
    update_exactly,
)
from dbdl.rivals.ksvd import KSVD, KSVDClassifier

UPDATES = {"approximate": update_approximately, "exact": update_exactly}
every_update = pytest.mark.parametrize("update", UPDATES)


def plant(seed, n_rows=1500, n_atoms=50, n_features=20, n_nonzero=3, decibel=20.0):
    """Rows of few atoms each with noise, and the atoms."""
    rng = np.random.default_rng(seed)
    atoms = rng.standard_normal((n_atoms, n_features))
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    codes = np.zeros((n_rows, n_atoms))
    for code in codes:
        code[rng.choice(n_atoms, n_nonzero, replace=False)] = rng.standard_normal(n_nonzero)
    rows = codes @ atoms
    noise = rng.standard_normal(rows.shape)
    noise *= 10 ** (-decibel / 20) * np.linalg.norm(rows) / np.linalg.norm(noise)
    return rows + noise, atoms, rng


def error(X, codes, atoms):
    return np.sum((X - codes @ atoms) ** 2)


def update_one_slowly(X, atoms, codes, k, update):
    """The definition, dense: error without atom k on the rows that use it, its rank-one part."""
    rows = np.flatnonzero(codes[:, k])
    if not len(rows):
        return
    left = X[rows] - codes[rows] @ atoms + np.outer(codes[rows, k], atoms[k])
    if update == "exact":
        atom = np.linalg.svd(left)[2][0]
        atom *= np.sign(atom @ atoms[k])
    else:
        atom = codes[rows, k] @ left
        atom /= np.linalg.norm(atom)
    atoms[k], codes[rows, k] = atom, left @ atom


# ------------------------------------------------------------------------------------ the updates


@every_update
def test_updates_are_those_of_the_slow_definition(update):
    X, _, rng = plant(0, n_rows=120, n_atoms=30)
    atoms = distinct_rows(X, 30, rng)
    codes = code_rows(X, atoms, 3)
    expected_atoms, expected_codes = atoms.copy(), codes.toarray()
    for k in range(30):
        update_one_slowly(X, expected_atoms, expected_codes, k, update)
    by_atom, residual = codes.tocsc(), X - codes @ atoms
    UPDATES[update](atoms, by_atom, residual)
    np.testing.assert_allclose(atoms, expected_atoms, atol=1e-9)
    np.testing.assert_allclose(by_atom.toarray(), expected_codes, atol=1e-9)
    np.testing.assert_allclose(residual, X - by_atom @ atoms, atol=1e-9)


@every_update
def test_no_update_of_an_atom_raises_the_objective(update):
    X, _, rng = plant(1, n_rows=200, n_atoms=30)
    atoms = distinct_rows(X, 30, rng)
    codes = code_rows(X, atoms, 3)
    before = error(X, codes, atoms)
    for k in range(30):
        alone = codes.tolil()
        alone[:, np.arange(30) != k] = 0
        others = X - (codes - alone.tocsr()) @ atoms
        own, part = atoms[[k]], alone[:, [k]].tocsc()
        residual = others - part @ own
        UPDATES[update](own, part, residual)
        atoms[k] = own[0]
        codes = codes.tolil()
        codes[:, [k]] = part
        codes = csr_matrix(codes)
        after = error(X, codes, atoms)
        assert after <= before * (1 + 1e-12)
        before = after


def test_the_exact_update_of_one_atom_is_at_least_as_good_as_the_approximate():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 12))
    start = distinct_rows(X, 1, rng)
    errors = {}
    for update, apply in UPDATES.items():
        atoms, codes = start.copy(), csr_matrix(X @ start.T).tocsc()
        residual = X - codes @ atoms
        apply(atoms, codes, residual)
        errors[update] = np.sum(residual**2)
    assert errors["exact"] < errors["approximate"]
    np.testing.assert_allclose(errors["exact"], np.sum(np.linalg.svd(X)[1][1:] ** 2))


def test_many_approximate_updates_reach_the_exact_one():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 12)) + 3 * np.outer(rng.standard_normal(40), np.ones(12))
    atoms = distinct_rows(X, 1, rng)
    codes = csr_matrix(X @ atoms.T).tocsc()
    residual = X - codes @ atoms
    for _ in range(100):
        update_approximately(atoms, codes, residual)
    assert abs(atoms[0] @ first_right_singular_vector(X)) > 1 - 1e-12


@pytest.mark.parametrize("shape", [(5, 12), (12, 5)])
def test_the_singular_vector_is_that_of_lapack(shape):
    rows = np.random.default_rng(0).standard_normal(shape)
    assert abs(first_right_singular_vector(rows) @ np.linalg.svd(rows)[2][0]) > 1 - 1e-12
    assert first_right_singular_vector(np.zeros(shape)) is None


# -------------------------------------------------------------------------------------- learning


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 4])
def test_a_planted_dictionary_is_recovered(seed):
    X, truth, rng = plant(seed)
    learned = learn_ksvd(X, distinct_rows(X, 50, rng), Learning(3, 80))
    found = np.abs(truth @ learned.atoms.T).max(axis=1) > 0.99
    assert found.mean() >= 0.95


def test_a_planted_dictionary_is_recovered_by_the_exact_update_too():
    X, truth, rng = plant(0)
    learned = learn_ksvd(X, distinct_rows(X, 50, rng), Learning(3, 80, "exact"))
    assert (np.abs(truth @ learned.atoms.T).max(axis=1) > 0.99).mean() >= 0.95


@every_update
def test_the_trace_is_the_error_of_what_is_returned(update):
    X, _, rng = plant(0, n_rows=200)
    learned = learn_ksvd(X, distinct_rows(X, 50, rng), Learning(3, 7, update))
    assert learned.objective.shape == (7,)
    np.testing.assert_allclose(learned.objective[-1], error(X, learned.codes, learned.atoms))
    np.testing.assert_allclose(np.linalg.norm(learned.atoms, axis=1), 1)
    assert np.diff(learned.codes.indptr).max() <= 3


@every_update
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_any_number_of_threads_gives_the_same_bits(update, dtype):
    X, _, rng = plant(0, n_rows=300)
    X = X.astype(dtype)
    start = distinct_rows(X, 50, rng)
    one, three = (learn_ksvd(X, start, Learning(3, 5, update), n) for n in (1, 3))
    np.testing.assert_array_equal(one.atoms, three.atoms)
    assert one.atoms.dtype == dtype


# ----------------------------------------------------------------------------------- replacement


def test_unused_and_rare_atoms_are_superfluous():
    atoms = np.eye(4)
    assert superfluous_atoms(atoms, np.array([10, 0, 10, 1]), 0.0).tolist() == [1]
    assert superfluous_atoms(atoms, np.array([10, 0, 10, 1]), 0.25).tolist() == [1, 3]


def test_of_equal_atoms_the_one_used_most_stays():
    atoms = np.array([[1.0, 0.0], [-1.0, 0.01], [0.0, 1.0], [1.0, 0.0]])
    assert superfluous_atoms(atoms, np.array([3, 5, 1, 5]), 0.0).tolist() == [0, 3]


def test_worst_coded_rows_take_the_place_of_atoms_and_none_twice():
    X = np.diag([1.0, 2.0, 3.0, 4.0])
    X = np.vstack([X, X[3]])  # a copy of the worst
    residual, untried = X.copy(), np.ones(5, dtype=bool)
    residual[0] = 0
    atoms = np.full((3, 4), 0.5)
    assert replace_atoms(X, atoms, np.array([0, 2]), residual, untried) == 2
    np.testing.assert_array_equal(atoms, [[0, 0, 0, 1], [0.5] * 4, [0, 0, 1, 0]])
    assert untried.tolist() == [True, True, False, False, True]


def test_rows_coded_exactly_replace_nothing():
    X = np.eye(3)
    atoms = np.eye(3)[:2]
    residual = 1e-12 * X
    assert replace_atoms(X, atoms, np.array([0]), residual, np.ones(3, dtype=bool)) == 0


def test_dead_and_duplicate_atoms_come_back_to_life():
    X, _, rng = plant(0, n_rows=400)
    start = distinct_rows(X, 50, rng)
    start[1] = start[0]
    learned = learn_ksvd(X, start, Learning(3, 10))
    cosine = np.abs(learned.atoms @ learned.atoms.T) - np.eye(50)
    assert cosine.max() < 0.99
    assert np.diff(learned.codes.tocsc().indptr).min() > 0


def test_a_start_has_no_zero_rows_and_no_copies():
    X = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0], [0.0, 3.0]])
    atoms = distinct_rows(X, 10, np.random.default_rng(0))
    assert sorted(atoms.round(6).tolist()) == [[0, 1], [0.707107, 0.707107]]


# ------------------------------------------------------------------------- the reference on YaleB


def test_ridge_gives_the_label_atoms_of_the_reference(reference):
    _, codes, label_atoms, y = reference
    _, class_of_row = np.unique(y, return_inverse=True)
    ours = ridge_label_atoms(csr_matrix(codes), class_of_row.astype(np.int64), 38, penalty=1.0)
    np.testing.assert_allclose(ours, label_atoms, rtol=0, atol=1e-10)


def test_codes_over_the_atoms_of_the_reference_have_30_nonzeros(reference, yaleb):
    atoms = reference[0]
    rows = yaleb[0][::20].astype(np.float64)
    codes = omp(rows, atoms, n_nonzero=30)
    assert (np.diff(codes.indptr) == 30).all()
    assert (np.abs(codes.data) > 0).all()


# ------------------------------------------------------------------------------------ estimators


@pytest.mark.filterwarnings("ignore::UserWarning")
@parametrize_with_checks([KSVD(n_atoms=20, n_iterations=5)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_rows_come_back_from_their_codes():
    X, _, _ = plant(0, n_rows=400)
    model = KSVD(50, n_nonzero=3, random_state=0).fit(X)
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    rows = model.inverse_transform(model.transform(X))
    assert np.mean((rows - unit) ** 2) < 0.1 * np.mean(unit**2)
    assert model.n_atoms_ == 50 and model.n_nonzero_ == 3
    with pytest.raises(ValueError, match="50 atoms"):
        model.inverse_transform(np.zeros((1, 3)))


def test_more_nonzeros_than_features_are_clipped_with_a_word_but_the_default_is_silent(recwarn):
    X, _, _ = plant(0, n_rows=60)
    assert KSVD(10, n_iterations=2).fit(X).n_nonzero_ == 5
    assert not recwarn.list
    with pytest.warns(UserWarning, match="n_nonzero=40 is more than the 10 atoms"):
        assert KSVD(10, n_nonzero=40, n_iterations=2).fit(X).n_nonzero_ == 10


def test_a_class_with_few_rows_brings_as_many_atoms_as_it_has():
    X, _, _ = plant(0, n_rows=60)
    y = np.r_[np.zeros(3), np.ones(57)]
    model = KSVDClassifier(n_atoms_per_class=5, n_iterations=2, calibrate=False).fit(X, y)
    assert model.n_atoms_ == 8
