"""A chain publishes unit atoms and the norms they had, from the mean or from draws."""

from dataclasses import replace

import numpy as np
import pytest

from dbdl.backends.numba_cpu import NumbaBackend
from dbdl.backends.reference import ReferenceBackend
from dbdl.draws import make_key
from dbdl.model.atom_priors import IsotropicPrior
from dbdl.model.joint import draw_data
from dbdl.model.priors import Priors
from dbdl.model.state import Codes, Parameters, State
from dbdl.sampler.posterior import publish

KEY = make_key(5)
N_ATOMS, N_FEATURES = 6, 8
PRIORS = Priors(usage_a=3.0, usage_b=5.0, n_atoms=9, atoms=IsotropicPrior(float(N_FEATURES)))

both_backends = pytest.mark.parametrize(
    "backend", [NumbaBackend(), ReferenceBackend()], ids=["numba", "reference"]
)


def make_state(backend, noise_precision=50.0):
    rng = np.random.default_rng(0)
    class_of_row = np.arange(30) % 3
    parameters = Parameters(
        atoms=3.0 * rng.standard_normal((N_ATOMS, N_FEATURES)),
        selection_logit=np.zeros((3, N_ATOMS)),
        strength_precision=np.ones(3),
        noise_precision=np.full(3, noise_precision),
        births=np.array([0, 1, 3, 4, 7, 8]),
    )
    shape = (len(class_of_row), N_ATOMS)
    codes = rng.standard_normal(shape) * (rng.random(shape) < 0.5)
    X = draw_data(rng, class_of_row, parameters, codes)
    return State(parameters, Codes.from_dense(codes), sweep=4), backend.place(X, class_of_row)


def posterior_of(state, data, backend):
    now = state.parameters
    sums = backend.gather(data, state.codes, now.n_atoms, now.noise_precision)
    return PRIORS.atoms.posterior(sums, backend)


def unscaled(dictionary):
    return dictionary.atoms * dictionary.scale[:, np.newaxis]


@both_backends
@pytest.mark.parametrize("n_draws", [1, 2, 3, 7])
def test_the_mean_of_draws_is_the_sum_of_all_of_them_over_their_number(backend, n_draws):
    state, data = make_state(backend)
    posterior, now = posterior_of(state, data, backend), state.parameters
    drawn, total = now.atoms, np.zeros_like(now.atoms)
    for draw in range(n_draws):  # each from the one before, after the last sweep of the chain
        drawn = backend.draw_atoms(KEY, state.sweep + 1 + draw, posterior, drawn, now.births)
        total += drawn
    published = publish(KEY, state, data, PRIORS, backend, n_draws)
    np.testing.assert_allclose(np.linalg.norm(published.atoms, axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(unscaled(published), total / n_draws, rtol=1e-9, atol=1e-12)


@both_backends
def test_without_draws_the_posterior_mean_is_published(backend):
    state, data = make_state(backend)
    posterior = posterior_of(state, data, backend)
    expected = np.linalg.solve(posterior.precision, posterior.natural_mean)
    found = publish(KEY, state, data, PRIORS, backend)
    np.testing.assert_allclose(unscaled(found), expected, rtol=1e-9, atol=1e-12)


@both_backends
def test_selection_probabilities_are_the_means_of_their_beta_distributions(backend):
    state, data = make_state(backend)
    used = state.codes.to_dense(N_ATOMS) != 0
    count = np.array([used[data.class_of_row == c].sum(axis=0) for c in range(3)])
    found = publish(KEY, state, data, PRIORS, backend).selection_probability
    expected = (PRIORS.beta_a + count) / (PRIORS.beta_a + PRIORS.beta_b + 10)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@both_backends
def test_an_atom_that_no_row_uses_is_published_as_zero_if_others_are_used(backend):
    state, data = make_state(backend)
    codes = state.codes.to_dense(N_ATOMS)
    codes[:, 2] = 0.0
    found = publish(KEY, replace(state, codes=Codes.from_dense(codes)), data, PRIORS, backend)
    assert not found.atoms[2].any()
    np.testing.assert_allclose(np.linalg.norm(np.delete(found.atoms, 2, axis=0), axis=1), 1.0)


@both_backends
def test_where_no_row_uses_any_atom_the_last_draws_are_published(backend):
    state, data = make_state(backend)
    state = replace(state, codes=Codes.from_dense(np.zeros((30, N_ATOMS))))
    found = publish(KEY, state, data, PRIORS, backend)
    np.testing.assert_allclose(unscaled(found), state.parameters.atoms, rtol=1e-12)
