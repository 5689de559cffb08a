"""Thresholds of refusals and prediction sets keep what they promise."""

import re
import warnings

import numpy as np
import pytest
from scipy.special import bdtr

from dbdl.learn import refusals
from dbdl.learn.refusals import UnseenRows, highest_refused, thinned
from dbdl.model.trust import RecordError, check


def rows_of(true, top, correct):
    return UnseenRows(np.asarray(true), np.asarray(top), np.asarray(correct, dtype=bool))


def all_correct(n_rows):
    probability = np.linspace(0.5, 1.0, n_rows)
    return rows_of(probability, probability, np.ones(n_rows))


@pytest.mark.parametrize(("n_rows", "coverage"), [(30, 0.9), (9, 0.9), (57, 0.6), (40, 0.95)])
def test_sets_of_continuous_scores_cover_exactly_the_promised_share(n_rows, coverage):
    # A class with a uniform probability u is in the set if u >= threshold: so often are true ones.
    draws = np.random.default_rng(0).random((2000, n_rows))
    covered = [1 - rows_of(u, np.ones(n_rows), u > 1).threshold_of_sets(coverage) for u in draws]
    promised = np.ceil(coverage * (n_rows + 1) - 1e-9) / (n_rows + 1)
    assert coverage <= promised
    assert abs(np.mean(covered) - promised) < 4 * np.std(covered) / np.sqrt(len(covered))


def test_sets_of_too_few_rows_have_every_class():
    assert all_correct(8).threshold_of_sets(0.9) == 0.0
    assert all_correct(9).threshold_of_sets(0.9) == 0.5


@pytest.mark.parametrize("coverage", [1e-300, 1e-9, 1 - 1e-16])
def test_extreme_coverages_have_a_threshold(coverage):
    assert 0 <= all_correct(20).threshold_of_sets(coverage) <= 1


def share_of_broken_promises(rate_at, error_above, max_error, confidence, n_rows=400, n_draws=1000):
    """How often rows above the threshold are wrong more often than promised."""
    rng, broken = np.random.default_rng(1), 0
    for _ in range(n_draws):
        top = rng.random(n_rows)
        rows = rows_of(top, top, rng.random(n_rows) >= rate_at(top))
        threshold = rows.threshold_of_acceptance(max_error, confidence)
        broken += threshold < 1 and error_above(max(threshold, 0.0)) > max_error
    return broken / n_draws


@pytest.mark.parametrize(
    ("rate_at", "error_above"),
    [
        (lambda top: 0.101, lambda t: 0.101),  # no threshold keeps the promise
        (lambda top: 0.4 * (top < 0.5), lambda t: 0.4 * max(0.5 - t, 0) / (1 - t)),
    ],
    ids=["alike", "sure rows are right"],
)
def test_the_error_rate_of_accepted_rows_is_kept_with_the_promised_confidence(rate_at, error_above):
    share = share_of_broken_promises(rate_at, error_above, max_error=0.1, confidence=0.8)
    assert share < 0.2 + 3 * np.sqrt(0.2 * 0.8 / 1000)


def test_the_promise_would_be_broken_if_the_choice_did_not_count(monkeypatch):
    # 400 rows are 10 tests, each made as if it were the only one
    monkeypatch.setattr(refusals, "bdtr", lambda *counts: bdtr(*counts) / 10)
    alike = share_of_broken_promises(lambda _: 0.101, lambda _: 0.101, 0.1, 0.8)
    assert alike > 0.3


def test_as_many_rows_as_possible_are_accepted():
    assert all_correct(58).threshold_of_acceptance(0.05, 0.95) == np.inf
    assert all_correct(59).threshold_of_acceptance(0.05, 0.95) == -np.inf
    top = np.linspace(0, 1, 1000)
    found = rows_of(top, top, top > 0.3).threshold_of_acceptance(0.05, 0.95)
    assert 0.2 < found < 0.4


def test_rows_that_tie_with_the_threshold_are_refused():
    top = np.repeat([0.5, 0.9], [400, 200])
    found = rows_of(top, top, top > 0.5).threshold_of_acceptance(0.05, 0.95)
    assert found == 0.5
    assert rows_of(top, np.full(600, 0.9), top > 0.5).threshold_of_acceptance(0.05, 0.95) == np.inf


@pytest.mark.parametrize("max_error", [5e-324, 1e-300, 1 - 1e-16])
def test_extreme_error_rates_have_a_threshold(max_error):
    assert not np.isnan(all_correct(50).threshold_of_acceptance(max_error, 1 - 1e-16))


@pytest.mark.parametrize(
    ("true", "top", "words"),
    [
        ([0.5], [1.5], "above 1"),
        ([0.9], [0.5], "above top"),
        ([], [], "empty"),
        ([-1], [1], "below 0"),
    ],
)
def test_probabilities_that_cannot_be_are_refused_from_a_file(true, top, words):
    bad = rows_of(np.array(true, dtype=float), np.array(top, dtype=float), np.ones(len(true)))
    with pytest.raises(RecordError, match=words):
        check(UnseenRows, bad, "refusals_")


# ---------------------------------------------------------------------------------------- weights


def test_rows_without_weights_or_with_equal_ones_are_all_kept():
    np.testing.assert_array_equal(thinned(9, None), np.arange(9))
    np.testing.assert_array_equal(thinned(9, np.full(9, 0.1)), np.arange(9))


def test_rows_are_kept_in_proportion_to_their_weights():
    weight = np.tile([0.0, 0.25, 1.0, 2.0], 5000)
    share = np.bincount(thinned(len(weight), weight) % 4, minlength=4) / 5000
    np.testing.assert_allclose(share, [0, 0.125, 0.5, 1], atol=0.02)
    assert share[0] == 0 and share[3] == 1


def test_weighted_rows_keep_both_promises_for_the_distribution_that_weights_stand_for():
    """Hard rows are three times as frequent among new rows; unweighted rows break the promise."""
    rng, broken, coverage = np.random.default_rng(2), {True: 0, False: 0}, {True: [], False: []}
    for first in range(300):
        hard = rng.random(1200) < 0.2
        new_hard = np.full(4000, False)
        new_hard[: int(4000 * 0.6 / 1.4)] = True  # odds times three
        top, true, correct = draw_answers(hard, rng)
        new_top, new_true, new_correct = draw_answers(new_hard, rng)
        weight = np.roll(np.where(hard, 3.0, 1.0), first)
        rolled = [np.roll(values, first) for values in (true, top, correct)]  # other draws
        for weighted in (True, False):
            kept = thinned(1200, weight if weighted else None)
            rows = rows_of(*(values[kept] for values in rolled))
            accepted = new_top > rows.threshold_of_acceptance(0.1, 0.9)
            wrong = 1 - new_correct[accepted].mean() if accepted.any() else 0.0
            broken[weighted] += wrong > 0.11  # 0.1, and some noise of the new rows
            coverage[weighted].append(np.mean(new_true >= rows.threshold_of_sets(0.8)))
    assert broken[True] < 0.1 * 300 < broken[False]
    assert np.mean(coverage[True]) > 0.795 and np.mean(coverage[False]) < 0.78


def draw_answers(hard, rng):
    """Probabilities and successes: hard rows are wrong more often than they say."""
    top = rng.uniform(0.5, 1.0, len(hard))
    correct = rng.random(len(hard)) < np.where(hard, 0.65, 0.98)
    return top, np.where(correct, top, 1 - top), correct


def test_a_promise_that_cannot_be_kept_says_which_one_could():
    rows = all_correct(40)
    with pytest.warns(UserWarning, match=r"^Every row is refused: at most 0\.01 ") as warned:
        assert highest_refused(rows, 0.01, 0.95) == np.inf
    (said,) = (str(warning.message) for warning in warned)
    assert "measured on 40 rows, of which 0 got a wrong answer" in said
    assert "at least 299 rows are needed" in said
    possible = float(re.search(r"can promise is about ([\d.]+\d)", said)[1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert highest_refused(rows, possible, 0.95) < np.inf
    with pytest.warns(UserWarning):
        highest_refused(rows, possible - 0.01, 0.95)
