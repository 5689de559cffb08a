"""The Gaussian process over the features of an atom."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, Matern

from dbdl import ModelSettings, SmoothAtoms
from dbdl.model.smooth_atoms import KERNELS

THEIRS = {
    "squared exponential": RBF,
    "matern 3/2": lambda scale: Matern(scale, nu=1.5),
    "matern 5/2": lambda scale: Matern(scale, nu=2.5),
}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("n_dimensions", [1, 2])
def test_kernels_are_those_of_scikit_learn(kernel, n_dimensions):
    points = np.random.default_rng(0).random((6, n_dimensions))
    prior = SmoothAtoms(0.3, kernel, points, nugget=1e-12)
    found = prior.covariance(6, 0.3)
    np.testing.assert_allclose(found, THEIRS[kernel](0.3)(points), rtol=1e-9)


def test_the_nugget_is_the_share_of_white_noise():
    whole, part = (SmoothAtoms(2, nugget=share).covariance(5, 2) for share in (1e-12, 0.25))
    np.testing.assert_allclose(part, 0.75 * whole + 0.25 * np.eye(5))


def test_features_are_numbered_if_they_have_no_coordinates():
    found = SmoothAtoms(2).covariance(5, 2)
    np.testing.assert_array_equal(found, SmoothAtoms(2, coordinates=range(5)).covariance(5, 2))


def test_priors_are_values_that_scikit_learn_can_copy():
    points = np.arange(6.0).reshape(3, 2)
    prior = SmoothAtoms([1, 2], "matern 3/2", points)
    assert prior == SmoothAtoms((1.0, 2.0), "matern 3/2", points.tolist())
    assert clone(ModelSettings(atom_prior=prior)).atom_prior == prior
    assert hash(prior) == hash(SmoothAtoms(np.array([1.0, 2.0]), "matern 3/2", points))
    assert (prior.length_scales, SmoothAtoms(3).length_scales) == ((1.0, 2.0), (3,))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"length_scale": 0}, "length_scale is 0"),
        ({"length_scale": np.nan}, "length_scale is nan"),
        ({"length_scale": True}, "length_scale is of type bool"),
        ({"length_scale": "long"}, "has 'long', expected numbers"),
        ({"length_scale": []}, r"shape \(0,\)"),
        ({"length_scale": [1, -1]}, r"length_scale\[1\] is -1"),
        ({"length_scale": [[1]]}, r"shape \(1, 1\)"),
        ({"kernel": "matern"}, "kernel is 'matern', expected one of"),
        ({"coordinates": [0, np.inf]}, r"coordinates\[1\]\[0\] is inf"),
        ({"coordinates": ["a", "b"]}, "expected numbers"),
        ({"coordinates": np.zeros((2, 2, 2))}, r"shape \(2, 2, 2\)"),
        ({"nugget": 0.0}, "nugget is 0.0"),
        ({"nugget": 1.5}, "nugget is 1.5"),
    ],
)
def test_bad_arguments_are_refused_by_name(arguments, message):
    with pytest.raises(ValueError, match=f"SmoothAtoms.*{message}"):
        SmoothAtoms(**{"length_scale": 1.0} | arguments)


def test_a_prior_from_elsewhere_is_checked_before_it_is_used():
    prior = SmoothAtoms(1.0)
    object.__setattr__(prior, "length_scale", -1.0)
    with pytest.raises(ValueError, match=r"atom_prior.length_scale is -1"):
        ModelSettings(atom_prior=prior)._validate_params()
