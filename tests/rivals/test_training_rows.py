"""Training rows as atoms: the rows that are drawn, and scores by their definition."""

from functools import cache

import numpy as np
import pytest
from sklearn.datasets import load_digits

from dbdl.coding import Orthogonal, omp
from dbdl.learn.labels import ridge_label_atoms
from dbdl.rivals.training_rows import Draw, RandomRowsClassifier, TrainingRowsClassifier


@cache
def digits():
    return load_digits(return_X_y=True)


def rows_to_learn():
    """Rows to learn from, and their classes."""
    return [part[:400] for part in digits()]


def new_rows():
    return [part[400:800] for part in digits()]


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_scores_of_all_rows_are_sums_of_coefficients_per_class():
    X_TRAIN, Y_TRAIN = rows_to_learn()
    X_TEST, Y_TEST = new_rows()
    model = TrainingRowsClassifier(n_nonzero=5, calibrate=False).fit(X_TRAIN, Y_TRAIN)
    codes = omp(unit(X_TEST), unit(X_TRAIN), 5).toarray()
    expected = np.array([codes[:, np.equal(Y_TRAIN, c)].sum(axis=1) for c in range(10)]).T
    np.testing.assert_allclose(model.decision_function(X_TEST), expected, atol=1e-9)
    assert model.score(X_TEST, Y_TEST) > 0.9


def test_scores_of_random_rows_are_those_of_ridge_on_their_codes():
    X_TRAIN, Y_TRAIN = rows_to_learn()
    X_TEST, _ = new_rows()
    model = RandomRowsClassifier(
        n_atoms_per_class=8, n_nonzero=5, coder="forward", calibrate=False, random_state=0
    ).fit(X_TRAIN, Y_TRAIN)
    assert len(model.atoms_) == 80
    training = omp(unit(X_TRAIN), model.atoms_, 5, rule="forward")
    new = omp(unit(X_TEST), model.atoms_, 5, rule="forward")
    expected = new @ ridge_label_atoms(training, Y_TRAIN, 10, 0.1)
    np.testing.assert_allclose(model.decision_function(X_TEST), expected, atol=1e-9)


def test_bagged_scores_are_the_mean_over_members_and_more_accurate_than_one():
    X_TRAIN, Y_TRAIN = rows_to_learn()
    X_TEST, Y_TEST = new_rows()
    settings = {"n_atoms_per_class": 5, "n_nonzero": 5, "calibrate": False, "coder": "forward"}
    bag = RandomRowsClassifier(n_members=6, random_state=0, **settings).fit(X_TRAIN, Y_TRAIN)
    assert len({tuple(rows) for rows in bag.model_.members}) == 6
    one = [
        RandomRowsClassifier(random_state=seed, **settings)
        .fit(X_TRAIN, Y_TRAIN)
        .score(X_TEST, Y_TEST)
        for seed in range(6)
    ]
    assert bag.score(X_TEST, Y_TEST) > np.mean(one)
    members = []
    for rows, label_atoms in zip(bag.model_.members, bag.model_.label_atoms, strict=True):
        codes = omp(unit(X_TEST), bag.atoms_[rows], 5, rule="forward")
        members.append(codes @ label_atoms)
    np.testing.assert_allclose(bag.decision_function(X_TEST), np.mean(members, axis=0), atol=1e-9)


def test_draws_take_the_number_asked_for_of_each_class_or_all_it_has():
    classes = np.repeat([0, 1, 2], [50, 4, 1])
    rows = Draw(10).rows(np.random.default_rng(0), classes, 3)
    np.testing.assert_array_equal(np.bincount(classes[rows]), [10, 4, 1])
    assert len(np.unique(rows)) == 15


def test_draws_with_replacement_hold_the_part_of_the_rows_that_dbdl_starts_with():
    classes = np.repeat(np.arange(10), 200)
    rows = Draw(1, 1.5).rows(np.random.default_rng(0), classes, 10)
    assert len(rows) / 2000 == pytest.approx(1 - np.exp(-1.5), abs=0.03)
    assert Draw(1, 0.1).rows(np.random.default_rng(0), np.array([0, 1]), 2).tolist() == [0, 1]


def test_number_of_non_zeros_is_chosen_on_held_out_rows():
    X_TRAIN, Y_TRAIN = rows_to_learn()
    model = RandomRowsClassifier(n_atoms_per_class=10, calibrate=False, random_state=0)
    model.fit(X_TRAIN, Y_TRAIN)
    held_out = model.model_.held_out
    assert held_out.n_rows == len(X_TRAIN)
    assert model.model_.coder == held_out.coder == held_out.coders[held_out.log_loss.argmin()]
    assert 1 < model.model_.coder.n_nonzero < 28
    fixed = model.set_params(n_nonzero=3, coder="orthogonal").fit(X_TRAIN, Y_TRAIN).model_
    assert fixed.held_out is None and fixed.coder == Orthogonal(3)
