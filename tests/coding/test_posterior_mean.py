"""The posterior mean of a code, against a slow version and against the exact mean."""

from itertools import product

import numpy as np
import pytest

from dbdl.backends import NumbaBackend
from dbdl.coding import CodePrior, Forward, PosteriorMean, PreparedAtoms
from dbdl.coding.posterior_mean import BURN_IN, _key_of
from dbdl.draws import Site, normal, uniforms
from dbdl.model.codes import sweep_row


def code_slowly(x, start, atoms, prior, n_sweeps):
    """Mean of the codes of a row after every sweep but the first few, as the model sweeps rows."""
    key, logit = _key_of(x), np.log(prior.probability / (1 - prior.probability))
    code, total = start, np.zeros(len(atoms))
    n_skipped, births = int(BURN_IN * n_sweeps), np.arange(len(atoms))
    for sweep in range(n_sweeps):
        uniform = uniforms(key, Site.USAGE, 0, births, sweep)
        noise = np.array([normal(key, int(Site.STRENGTH), 0, k, sweep) for k in births])
        code = sweep_row(
            x, code, atoms, logit, prior.precision[0], prior.noise_precision, "collapsed",
            uniform, noise, noise,
        )  # fmt: skip
        if sweep >= n_skipped:
            total += code
    return total / (n_sweeps - n_skipped)


@pytest.mark.parametrize("n_sweeps", [1, 4, 30])
def test_codes_are_the_means_of_the_model_s_own_sweeps(n_sweeps):
    rng = np.random.default_rng(0)
    atoms, X = rng.standard_normal((9, 6)), rng.standard_normal((5, 6))
    prior = CodePrior(rng.uniform(0.05, 0.6, 9), np.full(9, 1.7), 30.0)
    found = PosteriorMean(6, n_sweeps).encode(X, PreparedAtoms(atoms, prior), NumbaBackend())
    start = Forward(6).encode(X, PreparedAtoms(atoms), NumbaBackend()).toarray()
    for i, x in enumerate(X):
        mean = code_slowly(x, start[i], atoms, prior, n_sweeps)
        mean[np.argsort(-np.abs(mean))[6:]] = 0.0  # the largest are kept
        np.testing.assert_allclose(found[i].toarray()[0], mean, rtol=1e-8, atol=1e-10)


def exact_mean(x, atoms, prior):
    """Mean of a code by going through all ways to use the atoms."""
    means, weights = [], []
    for usage in product((False, True), repeat=len(atoms)):
        used = np.array(usage)
        own = atoms[used]
        covariance = np.eye(len(x)) / prior.noise_precision
        covariance += own.T @ (own / prior.precision[used, None])
        _, log_determinant = np.linalg.slogdet(covariance)
        log_weight = np.log(np.where(used, prior.probability, 1 - prior.probability)).sum()
        log_weight -= 0.5 * (log_determinant + x @ np.linalg.solve(covariance, x))
        precision = np.diag(prior.precision[used]) + prior.noise_precision * own @ own.T
        mean = np.zeros(len(atoms))
        mean[used] = np.linalg.solve(precision, prior.noise_precision * own @ x)
        means.append(mean)
        weights.append(log_weight)
    weights = np.exp(np.array(weights) - max(weights))
    return weights @ means / weights.sum()


def test_of_many_sweeps_the_code_is_the_exact_posterior_mean():
    rng = np.random.default_rng(1)
    atoms, X = rng.standard_normal((3, 4)), rng.standard_normal((6, 4))
    prior = CodePrior(np.array([0.2, 0.5, 0.7]), np.array([0.5, 1.0, 4.0]), 3.0)
    expected = np.array([exact_mean(x, atoms, prior) for x in X])
    coder = PosteriorMean(3, n_sweeps=100_000)
    found = coder.encode(X, PreparedAtoms(atoms, prior), NumbaBackend()).toarray()
    np.testing.assert_allclose(found, expected, atol=0.02)
    without = np.array(
        [exact_mean(x, atoms, CodePrior(prior.probability, np.ones(3), 3.0)) for x in X]
    )
    assert np.abs(without - expected).max() > 0.1  # every part of the prior matters


def test_atoms_without_a_prior_are_refused_and_the_way_out_is_named():
    X = np.eye(3)
    with pytest.raises(ValueError, match=r"no prior for codes.*Use another coder"):
        PosteriorMean(2).encode(X, PreparedAtoms(X), NumbaBackend())


@pytest.mark.parametrize("probability", [0.0, 1.0])
def test_atoms_that_are_never_or_always_used_are_as_good_as_that(probability):
    rng = np.random.default_rng(0)
    atoms, X = rng.standard_normal((3, 4)), rng.standard_normal((2, 4))
    prior = CodePrior(np.array([probability, 0.5, 0.5]), np.ones(3), 1.0)
    codes = PosteriorMean(3).encode(X, PreparedAtoms(atoms, prior), NumbaBackend()).toarray()
    assert (codes[:, 0] != 0).all() == bool(probability)


def test_equal_rows_have_equal_codes_and_others_other_draws():
    rng = np.random.default_rng(0)
    atoms, x = rng.standard_normal((5, 4)), rng.standard_normal(4)
    prior = CodePrior(np.full(5, 0.5), np.ones(5), 1.0)
    X = np.array([x, x + 0.0, np.nextafter(x, 9), x])
    codes = PosteriorMean(4).encode(X, PreparedAtoms(atoms, prior), NumbaBackend()).toarray()
    assert codes[0].tobytes() == codes[1].tobytes() == codes[3].tobytes()
    assert np.abs(codes[2] - codes[0]).max() > 1e-3
