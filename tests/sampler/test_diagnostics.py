"""R-hat and effective sample sizes: known answers, and those of ArviZ where it is installed."""

from __future__ import annotations

import numpy as np
import pytest

from dbdl.sampler.diagnostics import (
    autocovariance,
    bulk_effective_size,
    diagnose,
    effective_size,
    kept_values,
    r_hat,
    standard_error,
    tail_effective_size,
)
from dbdl.sampler.run import SweepRecord, Trace

MEASURES = (r_hat, bulk_effective_size, tail_effective_size, effective_size, standard_error)


def autoregressive(correlation, shape, seed=0):
    """Chains whose value is ``correlation`` times the one before, plus noise; variance 1."""
    noise = np.random.default_rng(seed).standard_normal(shape)
    values = noise.copy()
    for t in range(1, shape[1]):
        values[:, t] = correlation * values[:, t - 1]
        values[:, t] += np.sqrt(1 - correlation**2) * noise[:, t]
    return values


@pytest.mark.parametrize("seed", range(3))
def test_independent_draws_have_r_hat_one_and_as_many_effective_draws(seed):
    values = np.random.default_rng(seed).standard_normal((4, 1000))
    assert r_hat(values) < 1.01
    for size in (bulk_effective_size, tail_effective_size, effective_size):
        assert 0.8 * 4000 < size(values) < 1.3 * 4000
    assert standard_error(values) == pytest.approx(1 / np.sqrt(4000), rel=0.15)


@pytest.mark.parametrize("correlation", [-0.5, 0.3, 0.8, 0.95])
def test_autoregressive_chains_have_the_effective_size_of_theory(correlation):
    values = autoregressive(correlation, (4, 20000))
    expected = values.size * (1 - correlation) / (1 + correlation)
    assert effective_size(values) == pytest.approx(expected, rel=0.12)
    assert bulk_effective_size(values) == pytest.approx(expected, rel=0.12)
    assert r_hat(values) < 1.01


def test_shifted_chains_and_chains_of_another_width_have_a_large_r_hat():
    values = np.random.default_rng(0).standard_normal((4, 500))
    assert r_hat(values + 3 * np.arange(4)[:, np.newaxis]) > 2
    assert r_hat(values * np.array([1, 1, 1, 5])[:, np.newaxis]) > 1.1  # by folding
    assert bulk_effective_size(values + 3 * np.arange(4)[:, np.newaxis]) < 10


def test_a_drift_of_a_single_chain_is_seen_by_its_halves():
    assert r_hat(np.linspace(0, 5, 200)[np.newaxis] + autoregressive(0, (1, 200))) > 1.5


@pytest.mark.parametrize("n_draws", range(2, 40))
def test_chains_that_stay_apart_never_seem_to_be_many_draws(n_draws):
    values = autoregressive(0, (4, n_draws)) + 100 * np.arange(4)[:, np.newaxis]
    for size in (bulk_effective_size(values), effective_size(values)):
        assert np.isnan(size) if n_draws < 16 else size < values.size / 5


def test_draws_without_a_variance_are_judged_by_their_ranks():
    values = np.random.default_rng(0).standard_cauchy((4, 1000))
    assert r_hat(values) < 1.01 and 3000 < bulk_effective_size(values) < 5000


def test_a_constant_and_a_few_values_say_nothing():
    for values in (np.ones((2, 50)), np.arange(6.0)[np.newaxis], np.ones((1, 1))):
        assert all(np.isnan(measure(values)) for measure in MEASURES)


def test_autocovariances_are_the_sums_of_products():
    values = autoregressive(0.5, (2, 9))
    centred = values - values.mean(axis=1, keepdims=True)
    slow = [[(c[: 9 - lag] * c[lag:]).sum() / 9 for lag in range(9)] for c in centred]
    np.testing.assert_allclose(autocovariance(values), slow, atol=1e-12)


def test_the_figures_are_those_of_arviz():
    stats = pytest.importorskip("arviz_stats.base").array_stats
    rng, axes = np.random.default_rng(0), {"chain_axis": 0, "draw_axis": 1}
    for trial in range(40):
        shape = (rng.integers(2, 6), rng.integers(16, 200))
        values = autoregressive(rng.uniform(-0.5, 0.99), shape, seed=trial)
        expected = (
            stats.rhat(values, **axes),
            stats.ess(values, method="bulk", **axes),
            stats.ess(values, method="tail", prob=(0.05, 0.95), **axes),
            stats.ess(values, method="mean", **axes),
            stats.mcse(values, method="mean", **axes),
        )
        found = [measure(values) for measure in MEASURES]
        np.testing.assert_allclose(found, np.array(expected, dtype=float), rtol=1e-6)


def trace(values):
    return Trace.from_records([SweepRecord(5, *[float(value)] * 6) for value in values])


def test_only_chains_of_one_view_are_compared_without_the_first_half():
    values = autoregressive(0, (4, 100))
    values[:, :50] += 1000  # burn-in
    values[2:] += 50  # another view
    found = diagnose([trace(chain) for chain in values], ["a", "a", "b", "b"])
    lines = [line for line in found.lines if line.quantity == "log_joint"]
    assert [(line.view, line.n_chains, line.n_sweeps) for line in lines] == [
        ("a", 2, 50), ("b", 2, 50),
    ]  # fmt: skip
    assert all(line.r_hat < 1.1 for line in lines)
    assert lines[1].mean == pytest.approx(50, abs=1)
    together = diagnose([trace(chain) for chain in values], ["a"] * 4)
    assert together.worst_r_hat > 1.5 and not together.has_converged


def test_long_chains_that_agree_have_converged():
    found = diagnose([trace(chain) for chain in autoregressive(0, (4, 2000))], ["a"] * 4)
    assert found.has_converged and found.worst_r_hat < 1.01 and found.least_effective > 400


@pytest.mark.parametrize(
    "other", [np.arange(8.0), np.zeros(1), np.full(2000, np.nan)], ids=["few", "one", "nan"]
)
def test_a_view_that_cannot_be_judged_has_not_converged(other):
    chains, views = [trace(chain) for chain in autoregressive(0, (4, 2000))], ["a"] * 4
    found = diagnose([*chains, trace(other)], [*views, "b"])
    assert not found.has_converged and np.isnan(found.worst_r_hat)
    assert "nan" not in repr(found) and ("need chains of 32 sweeps" in repr(found)) == (
        len(other) < 99
    )
    constant = diagnose([*chains, trace(np.ones(2000))], [*views, "b"])
    assert constant.has_converged


def test_the_table_names_every_quantity_and_says_what_a_single_chain_means():
    text = repr(diagnose([trace(range(20))], ["plain"]))
    assert all(name in text for name in (*SweepRecord._fields, "R-hat", "bulk", "tail", "plain"))
    assert "two halves of the chain" in text and "nan" not in text


def test_chains_of_different_lengths_are_compared_over_the_last_sweeps_of_both():
    values = kept_values([trace(range(20)), trace(range(100, 108))], "log_joint")
    np.testing.assert_array_equal(values, [[16, 17, 18, 19], [104, 105, 106, 107]])
