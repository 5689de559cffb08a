"""Choices are made on rows that nobody learned from, and say what those rows said."""

import numpy as np
import pytest

from dbdl import DBDLClassifier
from dbdl.draws import make_key
from dbdl.learn.chain import ChainSettings
from dbdl.learn.ensemble import LabelSettings, Task, choose_on_held_out_rows, score_left_out_rows
from dbdl.learn.held_out import (
    Coder,
    choose,
    fit_sharpness,
    log_loss,
    stratified_folds,
    to_probabilities,
)

QUICK = {"n_sweeps": 3, "n_chains": 1, "random_state": 0}


def chance_rows(n_rows=160, n_features=12, n_classes=2, seed=0):
    """Rows that say nothing of their labels: no method does better than chance on new ones."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_features))
    return X / np.linalg.norm(X, axis=1, keepdims=True), np.arange(n_rows) % n_classes


def make_task(X, y, n_chains=1, kind="ridge"):
    settings = ChainSettings(n_sweeps=3)
    return Task(0, X, y, int(y.max()) + 1, settings, LabelSettings(kind), n_chains)


# -------------------------------------------------------------------------------- what is left out


@pytest.mark.parametrize("n_folds", [2, 5])
@pytest.mark.parametrize("n_rows", [(30, 30), (2, 11, 40), (1, 6, 9)])
def test_a_fold_is_learned_from_or_left_out_and_every_row_is_left_out_once(n_rows, n_folds):
    class_of_row = np.random.default_rng(0).permutation(np.repeat(np.arange(len(n_rows)), n_rows))
    times = np.zeros(len(class_of_row), dtype=int)
    for fold in stratified_folds(make_key(1), class_of_row, n_folds, most_rows=10_000):
        assert not np.isin(fold.held_out, fold.learn).any()
        both = np.sort(np.concatenate(fold))
        np.testing.assert_array_equal(both, np.arange(len(class_of_row)))
        times[fold.held_out] += 1
        # every class that is scored is learned from
        assert np.isin(class_of_row[fold.held_out], class_of_row[fold.learn]).all()
    alone = np.bincount(class_of_row)[class_of_row] == 1
    np.testing.assert_array_equal(times, ~alone)


def test_of_many_rows_a_part_of_each_class_takes_part():
    class_of_row = np.repeat([0, 1], [900, 100])
    for fold in stratified_folds(make_key(1), class_of_row, 5, most_rows=200):
        assert not np.isin(fold.held_out, fold.learn).any()
        counts = np.bincount(class_of_row[np.concatenate(fold)])
        np.testing.assert_array_equal(counts, [180, 20])


def test_chains_that_score_a_row_are_never_given_it():
    X, y = chance_rows(60)
    coders, given = [Coder("forward", 2)], []

    def learn(key, chain, rows, backend):
        given.append(rows)
        # a label atom for each row, found by the row alone: scores show who was learned from
        return X[rows], [np.eye(2)[y[rows]]]

    scores, classes = score_left_out_rows(make_task(X, y, n_chains=2), coders, learn, 1)
    assert len(classes) == len(scores[0]) == 60
    assert len(given) == 10  # two chains for each of five folds
    left_out = [np.setdiff1d(np.arange(60), rows) for rows in given[::2]]
    np.testing.assert_array_equal(np.sort(np.concatenate(left_out)), np.arange(60))
    np.testing.assert_array_equal(classes, y[np.concatenate(left_out)])


@pytest.mark.parametrize("kind", ["ridge", "recoded", "gibbs", "joint"])
def test_labels_that_follow_no_rule_are_guessed_by_chance_on_rows_left_out(kind):
    # Right by chance: 80 of 160 with a standard deviation of 6.3. Rows that were learned from are
    # atoms of their own and would nearly all be right.
    X, y = chance_rows()
    choice = choose_on_held_out_rows(
        make_task(X, y, kind=kind), [Coder("forward", 1), Coder("orthogonal", 3)], 1
    )
    assert choice.n_rows == 160
    assert (choice.accuracy < 0.5 + 4.5 * 0.5 / np.sqrt(160)).all()
    # and no sharpness makes guesses much better than saying that both classes are as likely
    assert choice.log_loss.min() > 0.9 * np.log(2)


def test_a_classifier_is_not_sure_of_labels_that_follow_no_rule():
    X, y = chance_rows(200)
    model = DBDLClassifier(n_nonzero=2, **QUICK).fit(X[:160], y[:160])
    assert model.held_out_.accuracy.max() < 0.5 + 4.5 * 0.5 / np.sqrt(160)
    probability = model.predict_proba(X[160:]).max(axis=1)
    assert probability.mean() < 0.75


def test_a_batch_is_scored_before_it_is_learned():
    X, y = chance_rows(240)
    model = DBDLClassifier(n_nonzero=2, **QUICK)
    model.partial_fit(X[:80], y[:80])
    first = model.held_out_.accuracy
    model.partial_fit(X[80:], y[80:])
    # the first batch counts 40 rows beside the 160 of the second
    own = (model.held_out_.accuracy * 200 - first * 40) / 160
    assert own.max() < 0.5 + 4.5 * 0.5 / np.sqrt(160)


def test_rows_of_new_classes_are_scored_by_chains_that_never_saw_them():
    X, y = chance_rows(240, n_classes=4)
    model = DBDLClassifier(n_nonzero=2, **QUICK)
    old = y[:80] < 2
    model.partial_fit(X[:80][old], y[:80][old])
    first, n_first = model.held_out_.accuracy, old.sum() / 2
    model.partial_fit(X[80:], y[80:])
    n_rows = model.held_out_.n_rows
    own = (model.held_out_.accuracy * n_rows - first * n_first) / (n_rows - n_first)
    assert n_rows == n_first + 160
    assert own.max() < 0.25 + 4.5 * np.sqrt(0.25 * 0.75 / 160)


# ------------------------------------------------------------------------------- what is chosen


def test_the_coder_with_the_least_loss_is_chosen():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    noise = rng.standard_normal((60, 3))
    scores = [noise, np.eye(3)[y] + 0.3 * noise, 0.3 * np.eye(3)[y] + noise]
    coders = [Coder("forward", n) for n in (1, 2, 3)]
    choice = choose(coders, scores, y)
    assert choice.best == 1 and choice.coder == coders[1]
    assert choice.sharpness == choice.every_sharpness[1]
    for number, part in enumerate(scores):
        loss = log_loss(part, y, choice.every_sharpness[number])
        assert choice.log_loss[number] == loss
        assert choice.accuracy[number] == (part.argmax(axis=1) == y).mean()


def test_of_equal_losses_the_first_coder_is_chosen():
    y = np.arange(30) % 3
    wrong, right = np.eye(3)[(y + 1) % 3], np.eye(3)[y]
    coders = [Coder("forward", n) for n in (1, 2, 3, 4)]
    assert choose(coders, [wrong, right, right, right], y).best == 1


@pytest.mark.parametrize(
    ("n_nonzero", "lengths"),
    [
        (1, (1,)),
        (4, (1, 2, 3, 4)),
        (10, (3, 4, 5, 7, 10)),
        (20, (5, 7, 10, 14, 20)),
        (30, (10, 14, 20, 28, 30)),
    ],
)
def test_a_path_is_averaged_from_a_quarter_of_its_length_on(n_nonzero, lengths):
    assert Coder("forward", n_nonzero, path_average=True).lengths == lengths
    assert Coder("forward", n_nonzero).lengths == (n_nonzero,)


def test_the_log_loss_is_the_mean_of_minus_the_logarithm_of_the_probability():
    rng = np.random.default_rng(0)
    scores, y = rng.standard_normal((40, 5)), rng.integers(5, size=40)
    probability = to_probabilities(scores, 1.7)
    np.testing.assert_allclose(probability.sum(axis=1), 1.0, rtol=1e-12)
    expected = -np.log(probability[np.arange(40), y]).mean()
    assert log_loss(scores, y, 1.7) == pytest.approx(expected, rel=1e-12)


# ---------------------------------------------------------------------------------- calibration


@pytest.mark.parametrize("sharpness", [0.2, 1.0, 5.0])
def test_the_sharpness_behind_labels_is_found_whatever_the_scale_of_the_scores(sharpness):
    rng = np.random.default_rng(0)
    scores = rng.standard_normal((20_000, 3))
    probability = to_probabilities(scores, 2.0)
    y = (rng.random(len(scores))[:, np.newaxis] > probability.cumsum(axis=1)).sum(axis=1)
    found = fit_sharpness(scores * 2.0 / sharpness, y)
    assert found == pytest.approx(sharpness, rel=0.05)


def test_the_sharpness_of_rows_that_are_all_right_is_that_with_one_more_row_at_random():
    # Two classes, ahead by 1: the loss log(1 + e^-b) + s b / 2 with s = 1 / (n + 1) is least
    # where e^-b / (1 + e^-b) = s / 2.
    for n in (4, 20, 100):
        y = np.arange(n) % 2
        smoothed = 0.5 / (n + 1)
        expected = np.log((1 - smoothed) / smoothed)
        assert fit_sharpness(np.eye(2)[y], y) == pytest.approx(expected, rel=1e-3)


def test_the_temperature_is_one_over_the_chosen_sharpness():
    X, y = chance_rows(60)
    model = DBDLClassifier(n_nonzero=2, **QUICK).fit(X, y)
    assert model.temperature_ == 1.0 / model.held_out_.sharpness
