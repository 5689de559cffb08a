"""Scores are bent before the softmax where rows left out show that a temperature is not enough."""

import numpy as np
import pytest
from scipy.special import softmax

from dbdl.experiments.measure import calibration_error, calibration_floor
from dbdl.learn.choice import Candidates, choose_by_scores
from dbdl.learn.held_out import log_loss, to_probabilities
from dbdl.learn.link import STRONG_EVIDENCE, Link, bent, choose_link
from tests.learn.test_choice import CODERS, LeftOut

N_CLASSES = 10


def drawn_from(probability, rng):
    """Classes of rows, drawn with the probabilities of each row."""
    return (probability.cumsum(axis=1) > rng.random((len(probability), 1))).argmax(axis=1)


def near_probabilities(n_rows, seed=0):
    """Scores that are class probabilities and a little noise, as those of a ridge regression."""
    rng = np.random.default_rng(seed)
    probability = softmax(2.0 * rng.standard_normal((n_rows, N_CLASSES)), axis=1)
    scores = probability + 0.01 * rng.standard_normal(probability.shape)
    return scores, drawn_from(probability, rng)


def logarithms(n_rows, seed=0):
    """Scores that are logarithms of probabilities."""
    rng = np.random.default_rng(seed)
    scores = rng.standard_normal((n_rows, N_CLASSES))
    return scores, drawn_from(softmax(2.0 * scores, axis=1), rng)


def test_bent_scores_have_the_order_of_the_scores_and_their_slope_at_zero():
    scores = np.linspace(-3.0, 3.0, 1001)
    for bend in (1e-3, 0.5, 20.0):
        assert (np.diff(bent(scores, bend)) > 0).all()
        assert bent(np.array(1e-9), bend) == pytest.approx(1e-9)
        np.testing.assert_allclose(bent(-scores, bend), -bent(scores, bend))
    assert bent(scores, 0.0) is scores


def test_scores_near_probabilities_are_bent_and_their_probabilities_are_right():
    link = choose_link(*near_probabilities(400))
    scores, classes = near_probabilities(4000, seed=1)
    straight = Link.fit(*near_probabilities(400), 0.0)
    errors, losses = [], []
    for way in (straight, link):
        probability = to_probabilities(bent(scores, way.bend), way.sharpness)
        confidence, correct = probability.max(axis=1), probability.argmax(axis=1) == classes
        errors.append(calibration_error(confidence, correct) - calibration_floor(confidence))
        losses.append(log_loss(bent(scores, way.bend), classes, way.sharpness))
    assert link.bend > 0
    assert errors[0] > 0.02 > 0.01 > errors[1]
    assert losses[1] < 0.95 * losses[0]


def test_scores_that_are_logarithms_of_probabilities_are_not_bent():
    for seed in range(5):
        assert choose_link(*logarithms(300, seed)).bend == 0.0


def test_a_bend_without_strong_evidence_is_not_chosen():
    scores, classes = near_probabilities(400)
    for n_rows in (20, 400):
        own = scores[:n_rows], classes[:n_rows]
        gain = Link.fit(*own, 0.0).log_loss - choose_link(*own).log_loss
        assert gain == 0.0 or 2 * n_rows * gain > np.log(n_rows) + STRONG_EVIDENCE


def test_the_bend_follows_the_scale_of_the_scores():
    scores, classes = near_probabilities(400)
    one, other = choose_link(scores, classes), choose_link(8.0 * scores, classes)
    assert other.bend == pytest.approx(one.bend / 8.0)
    assert other.log_loss == pytest.approx(one.log_loss, rel=1e-4)


def test_scores_of_two_classes_are_not_bent():
    scores, classes = near_probabilities(2000)
    some = classes < 2
    assert choose_link(scores[some][:, :2], classes[some]).bend == 0.0


def test_a_row_of_weight_two_counts_twice():
    scores, classes = near_probabilities(300)
    weight = np.where(np.arange(300) < 100, 2.0, 1.0)
    twice = np.concatenate([np.arange(100), np.arange(300)])
    found = choose_link(scores, classes, weight)
    expected = choose_link(scores[twice], classes[twice])
    assert found.log_loss == pytest.approx(expected.log_loss, rel=1e-2)
    assert found.bend > 0 and expected.bend > 0


def members_of(scores, classes):
    """Two members of one view whose halves of the rows have these scores."""
    halves = np.array_split(np.arange(len(classes)), 2)
    return [LeftOut(rows, [scores[rows]] * len(CODERS), 0) for rows in halves]


def test_the_bend_of_an_ensemble_belongs_to_the_scores_that_are_published():
    scores, classes = near_probabilities(400)
    choice = choose_by_scores(members_of(scores, classes), classes, Candidates(CODERS))
    link = choose_link(scores, classes)
    assert choice.bend == pytest.approx(link.bend, rel=1e-6)
    assert choice.temperature == pytest.approx(1.0 / link.sharpness, rel=1e-2)
    assert choice.held_out.ensemble_log_loss == pytest.approx(link.log_loss, rel=1e-2)


def test_probabilities_that_are_not_calibrated_are_not_bent():
    scores, classes = near_probabilities(400)
    candidates = Candidates(CODERS, calibrate=False)
    assert choose_by_scores(members_of(scores, classes), classes, candidates).bend == 0.0


def test_a_later_batch_keeps_the_bend():
    candidates = Candidates(CODERS)
    scores, classes = near_probabilities(400)
    first = choose_by_scores(members_of(scores, classes), classes, candidates)
    scores, classes = logarithms(400)
    later = choose_by_scores(members_of(scores, classes), classes, candidates, first)
    assert later.bend == pytest.approx(first.bend)
