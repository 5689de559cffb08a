"""Kept draws: which sweeps, and of which atoms."""

from __future__ import annotations

import numpy as np
import pytest
from noting_journal import NotingJournal

from dbdl.backends import make_backend
from dbdl.draws import make_key
from dbdl.learn.chain import ChainSettings, learn_chain
from dbdl.sampler.kept_draws import KeptDraws, kept_sweeps
from dbdl.sampler.run import ChainJournal


@pytest.mark.parametrize("n_draws", [1, 2, 3, 7, 20])
def test_kept_sweeps_are_few_in_the_second_half_and_were_kept_all_along(n_draws):
    before = set()
    for n_sweeps in range(1, 200):
        kept = set(kept_sweeps(n_sweeps, n_draws))
        assert len(kept) <= n_draws and all(n_sweeps // 2 < sweep <= n_sweeps for sweep in kept)
        assert kept <= before | {n_sweeps}
        assert n_sweeps < 2 * n_draws or len(kept) >= n_draws // 2
        before = kept


def rows():
    rng, y = np.random.default_rng(0), np.repeat(np.arange(3), 12)
    X = rng.standard_normal((3, 6))[y] + 0.4 * rng.standard_normal((36, 6))
    return X / np.linalg.norm(X, axis=1, keepdims=True), y


#: Drops atoms during most of the sweeps.
SETTINGS = {
    "n_sweeps": 14, "n_draws": 4, "keep_atom_draws": True, "noise_precision": 30.0,
    "least_energy": 0.5,
}  # fmt: skip


class States(ChainJournal):
    """Notes the parameters after every sweep."""

    def __init__(self):
        self.parameters = []

    def tell(self, record, now=None):
        self.parameters.append(now().state.parameters)
        return False


def learned(journal, **settings):
    given = ChainSettings(**{**SETTINGS, **settings})
    return learn_chain(make_key(0, 1), *rows(), given, make_backend("cpu", 1), journal).chain


def test_draws_are_those_of_the_sweeps_for_the_atoms_that_are_left():
    states = States()
    chain = learned(states)
    last = chain.state.parameters
    assert states.parameters[7].n_atoms > last.n_atoms  # some were dropped in the second half
    draws = chain.draws
    np.testing.assert_array_equal(draws.sweep, [8, 10, 12, 14])
    np.testing.assert_array_equal(draws.births, last.births)
    for d, sweep in enumerate(draws.sweep):
        then = states.parameters[sweep - 1]
        own = np.searchsorted(then.births, last.births)
        np.testing.assert_array_equal(draws.noise_precision[d], then.noise_precision)
        np.testing.assert_array_equal(draws.strength_precision[d], then.strength_precision)
        np.testing.assert_array_equal(draws.atoms[d], then.atoms[own].astype(np.float32))
        probability = 1 / (1 + np.exp(-then.selection_logit[:, own]))
        np.testing.assert_allclose(draws.selection_probability[d], probability, rtol=1e-5)


def test_keeping_draws_changes_no_bit_of_the_chain():
    with_draws, without = learned(States()), learned(States(), n_draws=0)
    assert without.draws is None
    np.testing.assert_array_equal(with_draws.trace.log_joint, without.trace.log_joint)
    np.testing.assert_array_equal(with_draws.state.parameters.atoms, without.state.parameters.atoms)


@pytest.mark.parametrize("sweep", range(1, 14))
def test_a_chain_that_is_resumed_anywhere_has_the_same_draws(sweep):
    first = NotingJournal()
    whole = learned(first).draws
    again = learned(NotingJournal(first.snapshots[sweep])).draws
    for name in ("sweep", "births", "noise_precision", "selection_probability", "atoms"):
        np.testing.assert_array_equal(getattr(again, name), getattr(whole, name))


def test_more_sweeps_keep_the_draws_of_one_longer_chain():
    first = NotingJournal(every=14)
    learned(first, n_sweeps=15)
    longer = learned(NotingJournal(first.snapshots[14]), n_sweeps=23).draws
    whole = learned(NotingJournal(), n_sweeps=23).draws
    np.testing.assert_array_equal(longer.sweep, whole.sweep)
    np.testing.assert_array_equal(longer.atoms, whole.atoms)


def test_draws_are_cut_and_joined_without_loss():
    draws = learned(States()).draws
    again = KeptDraws.stack(draws.each(), draws.births)
    np.testing.assert_array_equal(again.atoms, draws.atoms)
    np.testing.assert_array_equal(again.strength_precision, draws.strength_precision)
