"""A sweep over the usage and strengths of one row."""

from functools import cache

import numpy as np
import pytest
from scipy.special import expit, logit

from dbdl.model.codes import sweep_row
from dbdl.model.conditionals import strength_posterior, usage_log_odds, usage_log_odds_collapsed


@cache
def row_and_atoms():
    """Four atoms, a row, and the code of the row at the start."""
    rng = np.random.default_rng(0)
    return rng.standard_normal((4, 6)), rng.standard_normal(6), np.array([0.0, 0.7, 0.0, -0.4])


def sweep(scan, selection_logit, *, uniform=0.5, normal=0.0, prior_normal=0.0, atoms=None):
    """A sweep over a row, with the same number for every atom where one is given."""
    all_atoms, x, start = row_and_atoms()
    atoms = all_atoms if atoms is None else atoms
    n = len(atoms)
    uniform, normal, prior_normal = (
        np.full(n, value) if np.ndim(value) == 0 else value[:n]
        for value in (uniform, normal, prior_normal)
    )
    logit = np.full(n, selection_logit)
    return sweep_row(x, start[:n], atoms, logit, 1.5, 2.0, scan, uniform, normal, prior_normal)


@pytest.mark.parametrize("scan", ["paper", "collapsed"])
def test_an_atom_that_is_never_selected_is_never_used(scan):
    normal = np.random.default_rng(1).standard_normal(4)
    code = sweep(scan, -1e4, uniform=np.full(4, 2.0**-54), prior_normal=normal)
    np.testing.assert_array_equal(code, 0.0)


@pytest.mark.parametrize("scan", ["paper", "collapsed"])
def test_atoms_that_are_always_selected_take_their_posterior_mean_one_after_another(scan):
    ATOMS, X, START = row_and_atoms()
    code = sweep(scan, 1e4, uniform=np.full(4, 1 - 2.0**-53))
    # Gauss-Seidel on the normal equations, from the code at the start.
    gram, expected = ATOMS @ ATOMS.T, START.copy()
    for k in range(4):
        others = gram[k] @ expected - gram[k, k] * expected[k]
        expected[k] = 2.0 * (ATOMS[k] @ X - others) / (1.5 + 2.0 * gram[k, k])
    np.testing.assert_allclose(code, expected, rtol=1e-12)


def test_usage_flips_where_the_uniform_crosses_the_conditional_probability():
    ATOMS, X, _ = row_and_atoms()
    atoms = ATOMS[:1]
    match, square = float(atoms[0] @ X), float(atoms[0] @ atoms[0])
    prior_normal = np.full(4, 0.3)
    collapsed = usage_log_odds_collapsed(match, square, -1.0, 1.5, 2.0)
    given = usage_log_odds(match, square, 0.3 / np.sqrt(1.5), -1.0, 2.0)
    for scan, log_odds in (("collapsed", collapsed), ("paper", given)):
        p = expit(log_odds)
        for u, used in ((p * (1 - 1e-9), True), (p * (1 + 1e-9), False)):
            code = sweep(scan, -1.0, uniform=np.full(4, u), prior_normal=prior_normal, atoms=atoms)
            assert (code[0] != 0) == used, (scan, logit(u), log_odds)


def test_the_paper_s_scan_asks_with_the_current_strength_of_a_used_atom():
    # The second atom alone, used with strength 0.7: its prior draw must not matter.
    ATOMS, X, _ = row_and_atoms()
    atoms = np.vstack([np.zeros(6), ATOMS[1]])
    first = sweep("paper", -2.0, prior_normal=np.array([0.0, -9.0]), atoms=atoms)
    second = sweep("paper", -2.0, prior_normal=np.array([0.0, 9.0]), atoms=atoms)
    np.testing.assert_array_equal(first, second)
    log_odds = usage_log_odds(ATOMS[1] @ X, ATOMS[1] @ ATOMS[1], 0.7, -2.0, 2.0)
    assert (first[1] != 0) == (log_odds > 0)


def test_a_strength_is_its_mean_and_noise_of_its_standard_deviation():
    ATOMS, X, _ = row_and_atoms()
    normal = np.array([1.25])
    code = sweep("collapsed", 1e4, normal=normal, atoms=ATOMS[:1])
    mean, precision = strength_posterior(ATOMS[0] @ X, ATOMS[0] @ ATOMS[0], 1.5, 2.0)
    assert code[0] == pytest.approx(mean + 1.25 / np.sqrt(precision), rel=1e-14)


def test_a_sweep_does_not_change_its_input():
    _, _, START = row_and_atoms()
    before = START.copy()
    sweep("collapsed", 1.0)
    np.testing.assert_array_equal(before, START)
