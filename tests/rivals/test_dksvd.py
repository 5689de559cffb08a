"""D-KSVD and LC-KSVD: appended labels, one joint K-SVD, and the conversion back to D, T and W."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from sklearn.datasets import load_digits

from dbdl.estimators._rows import unit_rows
from dbdl.learn.labels import one_hot, ridge_label_atoms
from dbdl.rivals._base import Lesson
from dbdl.rivals._ksvd import Learning, learn_ksvd
from dbdl.rivals.dksvd import DKSVDClassifier, split_joint_atoms
from dbdl.rivals.lcksvd import LCKSVDClassifier

SETTINGS = {"n_nonzero": 6, "n_iterations": 5, "penalty": 0.1}
LEARNING = Learning(n_nonzero=6, n_iterations=5, least_use=0.0, same_atom=0.99)


@cache
def digits():
    """Rows of four digits and their classes, to learn from and new ones."""
    rows, labels = load_digits(n_class=4, return_X_y=True)
    return unit_rows(rows[:160]), labels[:160], unit_rows(rows[160:400]), labels[160:400]


def learn_dksvd(label_weight):
    X, Y = digits()[:2]
    model = DKSVDClassifier(5, label_weight=label_weight, **SETTINGS)
    return model._learn(Lesson(X, Y, 4))


def learn_lcksvd(consistency_weight, label_weight, seed=0, variant=2):
    X, Y = digits()[:2]
    weights = {"consistency_weight": consistency_weight, "label_weight": label_weight}
    model = LCKSVDClassifier(5, variant=variant, **weights, **SETTINGS)
    return model._learn(Lesson(X, Y, 4, seed))


def learn_class_atoms(n_atoms_per_class):
    X, Y = digits()[:2]
    return DKSVDClassifier(n_atoms_per_class)._class_atoms(Lesson(X, Y, 4), LEARNING)


def learn_lcksvd_with_all_columns(consistency_weight, label_weight, penalty):
    """The problem as it is written: rows [x, sqrt(v) q, sqrt(k) h], atoms [d, sqrt(v) t, ...]."""
    X, Y = digits()[:2]
    atoms, class_of_atom = learn_class_atoms(5)
    H = one_hot(Y, 4)
    Q = (Y[:, np.newaxis] == class_of_atom).astype(float)
    codes = LEARNING.code(X, atoms).toarray()
    square = codes.T @ codes + penalty * np.eye(len(atoms))
    T, W = np.linalg.solve(square, codes.T @ Q), np.linalg.solve(square, codes.T @ H)
    v, k = np.sqrt(consistency_weight), np.sqrt(label_weight)
    learned = learn_ksvd(np.hstack([X, v * Q, k * H]), np.hstack([atoms, v * T, k * W]), LEARNING)
    D, T, W = np.split(learned.atoms, [64, 64 + len(atoms)], axis=1)
    norm = np.linalg.norm(D, axis=1, keepdims=True)
    return D / norm, T / (v * norm), W / (k * norm), learned


@pytest.mark.parametrize("weights", [(1e-4, 1e-4), (0.01, 0.2), (0.3, 1e-3)])
def test_lcksvd_is_the_problem_as_it_is_written(weights):
    model = learn_lcksvd(*weights)
    D, T, W, learned = learn_lcksvd_with_all_columns(*weights, 0.1)
    np.testing.assert_allclose(model.atoms, D, atol=1e-8)
    np.testing.assert_allclose(model.label_atoms, W, atol=1e-6)
    np.testing.assert_allclose(model.consistency_atoms, T, atol=1e-6)
    np.testing.assert_allclose(model.objective, learned.objective, rtol=1e-9)


def test_dksvd_is_lcksvd2_without_consistency():
    plain = learn_dksvd(0.01)
    almost = learn_lcksvd(1e-30, 0.01)
    np.testing.assert_allclose(almost.atoms, plain.atoms, atol=1e-12)
    np.testing.assert_allclose(almost.label_atoms, plain.label_atoms, atol=1e-10)


def test_scores_do_not_change_when_the_parts_are_scaled_to_unit_atoms():
    rng = np.random.default_rng(0)
    root = np.array([0.5, 2.0, 1.0])
    joint = unit_rows(rng.standard_normal((7, 10 + 3)))
    codes = rng.standard_normal((4, 7))
    atoms, label_atoms = split_joint_atoms(joint, 10, root)
    norm = np.linalg.norm(joint[:, :10], axis=1)
    np.testing.assert_allclose(np.linalg.norm(atoms, axis=1), 1)
    np.testing.assert_allclose((codes * norm) @ atoms, codes @ joint[:, :10])
    np.testing.assert_allclose((codes * norm) @ label_atoms, codes @ joint[:, 10:] / root)


def test_variant_1_scores_by_ridge_on_the_codes_of_the_final_atoms():
    X, Y = digits()[:2]
    model = learn_lcksvd(0.01, 0.5, variant=1)
    expected = ridge_label_atoms(model.encode(X), Y, 4, 0.1)
    np.testing.assert_array_equal(model.label_atoms, expected)
    without = learn_lcksvd(0.01, 0.0, variant=1)
    np.testing.assert_array_equal(without.atoms, model.atoms)


def test_labels_pull_codes_towards_atoms_of_their_class():
    X, Y = digits()[:2]

    def share_of_own_atoms(weight, seed):
        model = learn_lcksvd(weight, weight, seed)
        strength = np.abs(model.encode(X).toarray())
        return strength[Y[:, np.newaxis] == model.class_of_atom].sum() / strength.sum()

    pulled, free = (np.mean([share_of_own_atoms(w, s) for s in range(3)]) for w in (0.05, 1e-12))
    assert pulled > free + 0.01 > 0.25  # a quarter would be chance


def test_class_atoms_belong_to_the_span_of_their_class():
    X, Y = digits()[:2]
    atoms, class_of_atom = learn_class_atoms(3)
    assert class_of_atom.tolist() == np.repeat(np.arange(4), 3).tolist()
    for c in range(4):
        basis = np.linalg.svd(X[c == Y], full_matrices=False)
        span = basis[2][basis[1] > 1e-9]
        own = atoms[class_of_atom == c]
        np.testing.assert_allclose(own @ span.T @ span, own, atol=1e-9)


@pytest.mark.parametrize(
    "model",
    [DKSVDClassifier(random_state=0), LCKSVDClassifier(random_state=0, variant=1)],
    ids=["D-KSVD", "LC-KSVD1"],
)
def test_a_class_of_zero_rows_is_learned(model):
    X, Y = digits()[:2]
    X_NEW, Y_NEW = digits()[2:]
    rows = np.vstack([X, np.zeros((3, 64))])
    labels = np.r_[Y, [9, 9, 9]]
    model.set_params(calibrate=False, n_iterations=3).fit(rows, labels)
    assert np.isfinite(model.decision_function(rows)).all()
    assert (model.predict(X_NEW) == Y_NEW).mean() > 0.85


def test_every_default_learns_real_faces(yaleb):
    faces, y = yaleb
    few = np.flatnonzero(y < np.unique(y)[8])
    train, test = few[::2], few[1::2]
    for model in (DKSVDClassifier(random_state=0), LCKSVDClassifier(random_state=0)):
        model.set_params(calibrate=False, n_iterations=10).fit(faces[train], y[train])
        assert model.score(faces[test], y[test]) > 0.9
