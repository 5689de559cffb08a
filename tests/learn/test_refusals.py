"""Thresholds of refusals and prediction sets keep what they promise."""

import numpy as np
import pytest
from scipy.special import bdtr

from dbdl.learn import refusals
from dbdl.learn.refusals import UnseenRows
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
