"""Steps and draws of missing entries leave the joint distribution unchanged, and errors show."""

from functools import cache

import numpy as np
import pytest
from geweke import (
    CLASS_OF_ROW,
    N_ATOMS,
    N_FEATURES,
    Sampler,
    draw_by_steps,
    draw_from_the_prior,
    largest,
    z_scores,
)

from dbdl.backends.numba_cpu import NumbaBackend
from dbdl.missing import gaps as missing_gaps
from dbdl.missing.gaps import DrawnGaps
from dbdl.model.atom_priors import IsotropicPrior
from dbdl.model.priors import Priors
from dbdl.sampler.gibbs import Options

MISSING = np.array([[1, 1, 0], [0, 0, 1], [1, 1, 1], [0, 0, 0], [0, 1, 1], [1, 0, 1]], dtype=bool)
DIRECTIONS = np.array([[1.0, 0.6, -0.3], [0.4, 2.0, 0.1], [0.0, 0.5, 0.7]])


@cache
def problem():
    priors = Priors(
        usage_a=3.0,
        usage_b=3.0,
        n_atoms=N_ATOMS,
        strength_shape=5.0,
        strength_rate=5.0,
        noise_shape=5.0,
        noise_rate=5.0,
        atoms=IsotropicPrior(1.0),
    )
    return priors, draw_from_the_prior(priors, True, 8_000, seed=0)


def scores(directions, n_steps, seed):
    priors, independent = problem()
    backend, options = NumbaBackend(), Options("collapsed", noise_per_class=True)

    def redraw(key, state, X):
        data = backend.place(X, CLASS_OF_ROW)
        return DrawnGaps(X, MISSING, directions).draw(key, state, data, backend).X

    return z_scores(
        independent,
        draw_by_steps(Sampler(priors, options, backend), n_steps, seed, redraw),
    )


@pytest.mark.slow
@pytest.mark.parametrize("directions", [None, DIRECTIONS], ids=["plain", "whitened"])
def test_draws_of_missing_entries_leave_the_joint_distribution_in_place(directions):
    assert MISSING.shape == (len(CLASS_OF_ROW), N_FEATURES)
    found = scores(directions, n_steps=3_000, seed=11)
    score, name = largest(found)
    assert score < 4.0, name
    assert np.mean(np.square(list(found.values()))) < 3.0


def mean_alone(*arguments):
    return np.zeros((len(arguments[2]), arguments[4]))


def without_solving(precision, gradient, missing, inverses=None):
    return np.where(missing, gradient, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "error"), [("normals", mean_alone), ("solve_gaps", without_solving)]
)
def test_an_error_in_the_draws_would_show(monkeypatch, name, error):
    monkeypatch.setattr(missing_gaps, name, error)
    assert largest(scores(DIRECTIONS, n_steps=1_000, seed=12))[0] > 8.0
