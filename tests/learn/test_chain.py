"""The start of a chain: the rows that become atoms, and the first state."""

import numpy as np
import pytest

from dbdl.backends import NumbaBackend
from dbdl.draws import make_key
from dbdl.learn.chain import MOST_INITIAL_ATOMS, ChainSettings, learn_chain

KEY = make_key(3)


def make_rows(n_rows=40, n_features=8):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, n_features))
    return X / np.linalg.norm(X, axis=1, keepdims=True), np.arange(n_rows) % 2


def start(X, y, **settings):
    """A chain before its first sweep."""
    return learn_chain(KEY, X, y, ChainSettings(n_sweeps=0, **settings), NumbaBackend())


def test_a_chain_starts_at_different_rows_of_its_data():
    X, y = make_rows()
    learned = start(X, y)
    atoms = learned.chain.state.parameters.atoms
    assert learned.n_initial_atoms == 60  # 1.5 per row, copies among them
    assert len(np.unique(atoms, axis=0)) == len(atoms) < 40
    assert all((atom == X).all(axis=1).any() for atom in atoms)


def test_copies_stay_where_they_are_asked_for():
    X, y = make_rows()
    parameters = start(X, y, keep_copies=True).chain.state.parameters
    assert parameters.n_atoms == 60 > len(np.unique(parameters.atoms, axis=0))


def test_first_codes_are_sparse_and_explain_rows():
    X, y = make_rows()
    for n in (1, 3):
        state = start(X, y, n_start_nonzero=n, n_initial_atoms=40).chain.state
        codes = state.codes.to_dense(state.parameters.n_atoms)
        assert (np.count_nonzero(codes, axis=1) == n).sum() + (
            codes.max(axis=1) > 0.999
        ).sum() >= 40
        assert np.count_nonzero(codes, axis=1).max() <= n
        assert np.square(X - codes @ state.parameters.atoms).sum() < len(X)


@pytest.mark.parametrize(
    ("settings", "n_rows", "expected"),
    [
        ({}, 100, 150),
        ({"initial_ratio": 0.5}, 100, 50),
        ({}, 10**6, MOST_INITIAL_ATOMS),
        ({"n_initial_atoms": 9000}, 10**6, 9000),
        ({"initial_ratio": 0.001}, 10, 2),
    ],
    ids=str,
)
def test_the_number_of_atoms_at_the_start(settings, n_rows, expected):
    assert ChainSettings(**settings).n_start(n_rows) == expected


def test_priors_follow_the_smallest_class_and_the_number_of_features():
    X, y = make_rows()
    data = NumbaBackend().place(X, np.r_[y[:30], np.zeros(10, dtype=int)])
    priors = ChainSettings().priors(data)
    assert (priors.usage_a, priors.usage_b, priors.atoms.precision) == (7.5, 7.5, 8.0)
    own = ChainSettings(usage_a=2.0, usage_b=3.0, atom_precision=5.0, hyper_prior=0.5).priors(data)
    assert (own.usage_a, own.usage_b, own.atoms.precision) == (2.0, 3.0, 5.0)
    assert own.noise_shape == own.noise_rate == own.strength_shape == own.strength_rate == 0.5
