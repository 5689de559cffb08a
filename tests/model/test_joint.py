"""The joint density against one written out term by term, and draws from the prior."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit
from tiny_model import ATOM_PRIORS, CLASS_OF_ROW, N_ATOMS, N_CLASSES, N_FEATURES, make_tiny_model

from dbdl.model.joint import draw_data, draw_from_prior
from dbdl.model.priors import Priors
from dbdl.model.statistics import AtomSums


def log_joint_term_by_term(model):
    """Eq. 6 and its hyper-priors, one scalar density after another.

    The strengths of unused atoms integrate to one; the density of a selection probability p is
    taken with respect to its logit, which multiplies it by p (1 - p).
    """
    now, priors = model.parameters, model.priors
    total = 0.0
    for i, c in enumerate(CLASS_OF_ROW):
        mean = model.codes[i] @ now.atoms
        total += stats.norm.logpdf(model.X[i], mean, now.noise_precision[c] ** -0.5).sum()
        for k in range(N_ATOMS):
            used, p = model.codes[i, k] != 0, expit(now.selection_logit[c, k])
            total += stats.bernoulli.logpmf(used, p)
            if used:
                scale = now.strength_precision[c] ** -0.5
                total += stats.norm.logpdf(model.codes[i, k], 0.0, scale)
    for c in range(N_CLASSES):
        total += stats.gamma.logpdf(
            now.strength_precision[c], priors.strength_shape, scale=1 / priors.strength_rate
        )
        for p in expit(now.selection_logit[c]):
            a = priors.usage_a / N_ATOMS
            b = priors.usage_b * (N_ATOMS - 1) / N_ATOMS
            total += stats.beta.logpdf(p, a, b) + np.log(p * (1 - p))
    for noise in now.noise_precision if model.noise_per_class else now.noise_precision[:1]:
        total += stats.gamma.logpdf(noise, priors.noise_shape, scale=1 / priors.noise_rate)
    return total + log_atoms_term_by_term(now.atoms, priors.atoms)


def log_atoms_term_by_term(atoms, prior):
    return sum(
        stats.multivariate_normal.logpdf(feature, *moments)
        for feature, moments in zip(atoms.T, moments_by_feature(prior), strict=True)
    )


def moments_by_feature(prior):
    """Mean (n_atoms,) and covariance (n_atoms, n_atoms) of each feature."""
    precision, natural_mean, by_feature = prior.posterior(AtomSums.none(N_ATOMS, N_FEATURES))
    by_feature = np.zeros(N_FEATURES) if by_feature is None else by_feature
    for natural, more in zip(natural_mean.T, by_feature, strict=True):
        covariance = np.linalg.inv(precision + more * np.eye(N_ATOMS))
        yield covariance @ natural, covariance


@pytest.mark.parametrize("prior", ATOM_PRIORS)
@pytest.mark.parametrize("noise_per_class", [False, True])
@pytest.mark.parametrize("seed", [0, 1])
def test_log_joint_is_the_sum_of_all_log_densities(seed, noise_per_class, prior):
    model = make_tiny_model(seed, noise_per_class=noise_per_class, prior=prior)
    assert model.log_joint() == pytest.approx(log_joint_term_by_term(model), rel=1e-12)


def test_log_joint_counts_a_class_without_used_atoms():
    model = make_tiny_model(3)
    model = replace(model, codes=model.codes * (CLASS_OF_ROW == 0)[:, np.newaxis])
    assert model.log_joint() == pytest.approx(log_joint_term_by_term(model), rel=1e-12)


def test_log_joint_is_finite_where_selection_probabilities_underflow():
    model = make_tiny_model(0)
    model = replace(model, codes=np.zeros_like(model.codes))
    extreme = model.with_(selection_logit=np.full((N_CLASSES, N_ATOMS), -5e3))
    assert np.isfinite(extreme.log_joint())


@pytest.mark.parametrize("name", ATOM_PRIORS)
def test_draws_of_atoms_have_the_mean_and_covariance_of_their_prior_and_its_density(name):
    rng = np.random.default_rng(5)
    prior = ATOM_PRIORS[name](rng)
    drawn = np.array([prior.draw(rng, N_ATOMS, N_FEATURES) for _ in range(4_000)])
    for feature, (mean, covariance) in enumerate(moments_by_feature(prior)):
        centred, scale = drawn[:, :, feature] - mean, np.sqrt(np.diag(covariance))
        assert np.abs(centred.mean(axis=0) / scale).max() < 4.5 / np.sqrt(len(drawn))
        found = centred.T @ centred / len(drawn)
        assert np.abs((found - covariance) / np.outer(scale, scale)).max() < 0.1
    assert prior.log_density(drawn[0]) == pytest.approx(log_atoms_term_by_term(drawn[0], prior))


@pytest.mark.parametrize("noise_per_class", [False, True])
def test_draws_from_the_prior_hold_one_noise_precision_or_one_a_class(noise_per_class):
    priors = Priors(1.0, 2.0, N_ATOMS, 3.0, 3.0, 3.0, 3.0)
    rng = np.random.default_rng(0)
    draw = draw_from_prior(rng, CLASS_OF_ROW, N_FEATURES, priors, noise_per_class=noise_per_class)
    assert draw.parameters.noise_precision.shape == (N_CLASSES,)
    assert len(np.unique(draw.parameters.noise_precision)) == (2 if noise_per_class else 1)


def test_data_have_the_mean_and_the_noise_of_their_class():
    model = make_tiny_model(0, noise_per_class=True)
    rng = np.random.default_rng(1)
    residual = np.array(
        [
            draw_data(rng, CLASS_OF_ROW, model.parameters, model.codes)
            - model.codes @ model.parameters.atoms
            for _ in range(2_000)
        ]
    )
    for c, noise in enumerate(model.parameters.noise_precision):
        values = residual[:, model.data.class_of_row == c].ravel() * np.sqrt(noise)
        assert stats.kstest(values, "norm").pvalue > 1e-3
