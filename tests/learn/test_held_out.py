"""Folds leave out every row once; the best coder is chosen, and scores are calibrated."""

from dataclasses import replace

import numpy as np
import pytest

from dbdl.coding import Forward
from dbdl.draws import make_key
from dbdl.learn.held_out import (
    HeldOutChoice,
    choose_coder,
    fit_sharpness,
    log_loss,
    log_losses,
    sample_of_classes,
    stratified_folds,
    to_probabilities,
)
from dbdl.model.trust import RecordError, check
from dbdl.rows.copies import first_copies

# -------------------------------------------------------------------------------- what is left out


@pytest.mark.parametrize("n_folds", [2, 5])
@pytest.mark.parametrize("n_rows", [(30, 30), (2, 11, 40), (1, 6, 9)])
def test_a_fold_is_learned_from_or_left_out_and_every_row_is_left_out_once(n_rows, n_folds):
    class_of_row = np.random.default_rng(0).permutation(np.repeat(np.arange(len(n_rows)), n_rows))
    times = np.zeros(len(class_of_row), dtype=int)
    for fold in stratified_folds(make_key(1), class_of_row, n_folds, wanted=n_folds):
        assert not np.isin(fold.held_out, fold.learn).any()
        both = np.sort(np.concatenate(fold))
        np.testing.assert_array_equal(both, np.arange(len(class_of_row)))
        times[fold.held_out] += 1
        # every class that is scored is learned from
        assert np.isin(class_of_row[fold.held_out], class_of_row[fold.learn]).all()
    alone = np.bincount(class_of_row)[class_of_row] == 1
    np.testing.assert_array_equal(times, ~alone)


def test_the_first_folds_are_returned_and_have_a_part_of_each_class():
    class_of_row = np.repeat([0, 1], [900, 100])
    every = stratified_folds(make_key(1), class_of_row, 10, wanted=10)
    some = stratified_folds(make_key(1), class_of_row, 10, wanted=3)
    assert (len(every), len(some)) == (10, 3)
    for one, other in zip(some, every, strict=False):
        np.testing.assert_array_equal(one.held_out, other.held_out)
        np.testing.assert_array_equal(np.bincount(class_of_row[one.held_out]), [90, 10])


def test_folds_that_leave_out_nothing_are_not_made():
    folds = stratified_folds(make_key(1), np.array([0, 0, 1, 1, 2]), 10, wanted=10)
    assert len(folds) == 4 and all(len(fold.held_out) == 1 for fold in folds)
    assert stratified_folds(make_key(1), np.arange(5), 10, wanted=10) == []


def copies_of(n_single, n_rows, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.permutation(np.repeat(rng.standard_normal((n_single, 2)), 4, axis=0))[:n_rows]
    return X, first_copies(X)


@pytest.mark.parametrize("n_classes", [2, 8])
def test_copies_of_a_row_are_left_out_together(n_classes):
    X, copy_of = copies_of(40, 150)
    # even where rows of two classes are copies of each other
    class_of_row = np.random.default_rng(1).integers(n_classes, size=150)
    folds = stratified_folds(make_key(1), class_of_row, 10, 10, copy_of)
    assert len(folds) == 10
    for fold in folds:
        assert not {row.tobytes() for row in X[fold.held_out]} & {
            r.tobytes() for r in X[fold.learn]
        }
        assert len(np.unique(class_of_row[fold.learn])) == n_classes


def test_no_class_is_left_out_with_all_its_copies():
    copy_of = np.array([0, 0, 2, 2, 4, 5, 6, 2])  # row 7, of class 2, equals rows of class 1
    class_of_row = np.array([0, 0, 1, 1, 0, 1, 1, 2])
    for fold in stratified_folds(make_key(1), class_of_row, 4, 4, copy_of):
        assert set(class_of_row[fold.learn]) == {0, 1, 2}


def test_names_of_classes_do_not_matter_for_what_is_left_out():
    class_of_row = np.random.default_rng(0).integers(3, size=50)
    new_name = np.array([1, 2, 0])
    assert (np.diff(np.unique(class_of_row, return_index=True)[1]) < 0).any()  # by first rows
    for draw in (
        lambda classes: stratified_folds(make_key(1), classes, 5, wanted=1)[0].held_out,
        lambda classes: sample_of_classes(make_key(1), classes, 20),
    ):
        np.testing.assert_array_equal(draw(class_of_row), draw(new_name[class_of_row]))


def test_a_sample_has_the_same_share_of_each_class_in_the_order_of_the_rows():
    class_of_row = np.random.default_rng(0).permutation(np.repeat([0, 1, 2], [600, 99, 1]))
    drawn = sample_of_classes(make_key(1), class_of_row, 70)
    np.testing.assert_array_equal(np.bincount(class_of_row[drawn]), [60, 10, 1])
    assert (np.diff(drawn) > 0).all()
    own = np.flatnonzero(class_of_row == 0)
    assert 0.3 < np.isin(drawn, own[:300]).sum() / 60 < 0.7  # rows anywhere
    np.testing.assert_array_equal(sample_of_classes(make_key(1), class_of_row, 800), np.arange(700))


def test_losses_of_rows_add_up_to_the_log_loss():
    rng = np.random.default_rng(0)
    scores, y = 300 * rng.standard_normal((40, 3)), np.arange(40) % 3
    losses = log_losses(scores, y, 2.0)
    assert losses.shape == (40,)
    assert losses.mean() == pytest.approx(log_loss(scores, y, 2.0))
    assert losses[0] == pytest.approx(log_loss(scores[:1], y[:1], 2.0))


# ------------------------------------------------------------------------------- what is chosen


def test_the_coder_with_the_least_loss_is_chosen():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    noise = rng.standard_normal((60, 3))
    scores = [noise, np.eye(3)[y] + 0.3 * noise, 0.3 * np.eye(3)[y] + noise]
    coders = [Forward(n) for n in (1, 2, 3)]
    choice = choose_coder(coders, [scores], [y])
    assert choice.best == 1 and choice.coder == coders[1]
    assert choice.sharpness == choice.every_sharpness[1]
    for number, part in enumerate(scores):
        loss = log_loss(part, y, choice.every_sharpness[number])
        assert choice.log_loss[number] == loss
        assert choice.accuracy[number] == (part.argmax(axis=1) == y).mean()


def test_members_of_each_view_have_results_of_their_own_and_all_rows_count_for_the_whole():
    rng = np.random.default_rng(0)
    classes = [rng.integers(3, size=n) for n in (40, 70)]
    views = [[rng.standard_normal((len(y), 3)) for _ in range(2)] for y in classes]
    coders = [Forward(1), Forward(2)]
    choice = choose_coder(coders, views, classes)
    assert choice.n_rows == 110
    for number, (scores, y) in enumerate(zip(views, classes, strict=True)):
        alone = choose_coder(coders, [scores], [y])
        np.testing.assert_array_equal(choice.view_log_loss[number], alone.view_log_loss[0])
        np.testing.assert_array_equal(choice.view_sharpness[number], alone.view_sharpness[0])
    pooled = [np.concatenate(parts) for parts in zip(*views, strict=True)]
    whole = choose_coder(coders, [pooled], [np.concatenate(classes)])
    # the search for the sharpness starts from those of the views
    np.testing.assert_allclose(choice.log_loss, whole.log_loss, rtol=1e-9)
    np.testing.assert_array_equal(choice.accuracy, whole.accuracy)


def test_of_equal_losses_the_first_coder_is_chosen():
    y = np.arange(30) % 3
    wrong, right = np.eye(3)[(y + 1) % 3], np.eye(3)[y]
    coders = [Forward(n) for n in (1, 2, 3, 4)]
    assert choose_coder(coders, [[wrong, right, right, right]], [y]).best == 1


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


@pytest.mark.parametrize("start", [None, 1e-3, 7.0, 1e9])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_sharpness_has_the_least_smoothed_log_loss_from_any_start(start, weighted):
    rng = np.random.default_rng(1)
    scores, y = rng.standard_normal((60, 4)), rng.integers(4, size=60)
    scores[np.arange(60), y] += 1.0
    weight = rng.random(60) + 0.5 if weighted else None
    smoothing = 1.0 / ((60.0 if weight is None else weight.sum()) + 1.0)
    target = np.full(scores.shape, smoothing / 4)
    target[np.arange(60), y] += 1 - smoothing
    found = fit_sharpness(scores, y, weight, start)
    # at the least loss, the expected score is that of the labels
    gap = ((to_probabilities(scores, found) - target) * scores).sum(axis=1)
    further = ((to_probabilities(scores, found * (1 + 2e-6)) - target) * scores).sum(axis=1)
    error = 2e-6 * np.average(gap, weights=weight) / np.average(further - gap, weights=weight)
    assert abs(error) < 1e-6


@pytest.mark.parametrize("y", [[1, 2, 0], [0, 1, 2]])
def test_scores_that_say_nothing_have_a_finite_sharpness(y):
    for scores in (np.eye(3), -np.eye(3), np.ones((3, 3)), np.arange(9.0).reshape(3, 3)):
        sharpness = fit_sharpness(scores, np.array(y))
        assert np.exp(-7) < sharpness * (scores.std() or 1.0) < np.exp(9)


@pytest.mark.parametrize("sharpness", [0.0, 1e-310, np.nan])
def test_a_sharpness_without_a_temperature_is_refused(sharpness):
    scores, y = np.eye(3)[[0, 1, 2, 0]], np.array([0, 1, 2, 1])
    choice = choose_coder([Forward(1), Forward(2)], [[scores, scores]], [y])
    check(HeldOutChoice, choice, "choice")
    for name, value in (
        ("every_sharpness", np.array([1.0, sharpness])),
        ("view_sharpness", np.array([[1.0, sharpness]])),
    ):
        with pytest.raises(RecordError, match=f"{name} has entries"):
            check(HeldOutChoice, replace(choice, **{name: value}), "choice")


def test_scores_that_overflow_are_a_clear_error():
    scores = np.array([[1e300, -1e300], [-1e300, 1e300]])
    with pytest.raises(ValueError, match="scores of rows overflow"):
        fit_sharpness(scores, np.array([0, 1]))
