"""Priors refuse meaningless values; dropping atoms integrates them out."""

import numpy as np
import pytest
from tiny_model import joint_prior

from dbdl.model.atom_priors import IsotropicPrior
from dbdl.model.priors import KnownAtomPrior, Priors


def test_one_atom_is_refused_since_its_beta_prior_would_be_improper():
    with pytest.raises(ValueError, match="n_atoms >= 2"):
        Priors(usage_a=1.0, usage_b=1.0, n_atoms=1)


@pytest.mark.parametrize(
    "name",
    ["usage_a", "usage_b", "strength_shape", "strength_rate", "noise_shape", "noise_rate"],
)
@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf"), 0, -3, np.float32(-1)])
def test_parameters_must_be_positive_and_finite(name, value):
    values = {"usage_a": 1.0, "usage_b": 1.0, "n_atoms": 4, name: value}
    with pytest.raises(ValueError, match=f"{name} must be positive and finite"):
        Priors(**values)


def test_the_beta_prior_has_the_paper_s_parameters():
    priors = Priors(usage_a=3.0, usage_b=8.0, n_atoms=4)
    assert priors.beta_a == 3.0 / 4
    assert priors.beta_b == 8.0 * 3 / 4


def test_dropping_atoms_leaves_the_beta_prior_of_the_others_alone():
    priors = Priors(usage_a=3.0, usage_b=8.0, n_atoms=4)
    kept = priors.keep(np.array([0, 2]))
    assert (kept.beta_a, kept.beta_b) == (priors.beta_a, priors.beta_b)


@pytest.mark.parametrize("kept", [[0, 2], [1], [0, 1, 2, 3], [3, 4]])
def test_keeping_atoms_marginalises_a_joint_prior(kept):
    kept = np.array(kept)
    prior = joint_prior(np.random.default_rng(0), n_atoms=5, n_features=3)
    part = prior.keep(kept)
    covariance = np.linalg.inv(prior.precision)
    np.testing.assert_allclose(
        np.linalg.inv(part.precision), covariance[np.ix_(kept, kept)], rtol=1e-9
    )
    np.testing.assert_allclose(
        np.linalg.solve(part.precision, part.natural_mean),
        (covariance @ prior.natural_mean)[kept],
        rtol=1e-9,
    )


def test_keeping_all_atoms_changes_nothing():
    prior = joint_prior(np.random.default_rng(0), n_atoms=5, n_features=3)
    same = prior.keep(np.arange(5))
    np.testing.assert_array_equal(same.precision, prior.precision)
    np.testing.assert_array_equal(same.natural_mean, prior.natural_mean)


def test_an_isotropic_prior_is_that_of_any_number_of_atoms():
    prior = IsotropicPrior(2.0)
    assert prior.keep(np.array([1, 3])) is prior
    assert prior.grow(3, prior) is prior
    assert prior.forget(0.5, prior) is prior


def test_keeping_in_two_steps_is_keeping_at_once():
    prior = joint_prior(np.random.default_rng(3), n_atoms=6, n_features=2)
    twice = prior.keep(np.array([0, 2, 3, 5])).keep(np.array([1, 3]))
    once = prior.keep(np.array([2, 5]))
    np.testing.assert_allclose(twice.precision, once.precision, rtol=1e-9)
    np.testing.assert_allclose(twice.natural_mean, once.natural_mean, rtol=1e-9)


def test_new_atoms_have_the_prior_of_their_own_and_leave_the_others_alone():
    prior = joint_prior(np.random.default_rng(0), n_atoms=4, n_features=3)
    grown = prior.grow(2, IsotropicPrior(7.0))
    for kept, precision, mean in (
        (np.arange(4), prior.precision, prior.natural_mean),
        (np.array([4, 5]), 7.0 * np.eye(2), np.zeros((2, 3))),
    ):
        part = grown.keep(kept)
        np.testing.assert_allclose(part.precision, precision, rtol=1e-12)
        np.testing.assert_allclose(part.natural_mean, mean, rtol=1e-12)
    assert not grown.precision[:4, 4:].any() and not grown.precision[4:, :4].any()


def test_forgetting_all_leaves_the_first_prior_and_forgetting_nothing_all():
    prior, first = joint_prior(np.random.default_rng(0), 4, 3), IsotropicPrior(7.0)
    np.testing.assert_allclose(prior.forget(0.0, first).precision, 7.0 * np.eye(4))
    np.testing.assert_allclose(prior.forget(0.0, first).natural_mean, 0.0)
    np.testing.assert_array_equal(prior.forget(1.0, first).precision, prior.precision)
    np.testing.assert_array_equal(prior.forget(1.0, first).natural_mean, prior.natural_mean)


@pytest.mark.parametrize(
    "prior", [IsotropicPrior(2.0), joint_prior(np.random.default_rng(0), 4, 3)]
)
def test_the_density_of_a_marginal_follows_from_that_of_the_whole(prior):
    kept, atoms = np.array([0, 2]), np.random.default_rng(1).standard_normal((4, 3))
    anew = prior.keep(kept).log_density(atoms[kept])
    prior.log_density(atoms)  # what it finds once is handed on
    assert prior.keep(kept).log_density(atoms[kept]) == pytest.approx(anew, rel=1e-10)
    assert isinstance(prior, KnownAtomPrior)
