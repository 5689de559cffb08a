"""Small problems for the methods whose atoms belong to classes: random rows, and faces."""

import numpy as np
from scipy.optimize import minimize

from dbdl.rivals._atoms import pairwise_overlap
from dbdl.rivals._base import Lesson


def learn(kind, problem, **settings):
    """The model that a classifier with such settings learns from rows, classes and their number."""
    return kind(**settings)._learn(Lesson(*problem))


def random_rows(n_classes=3, n_features=12, seed=0, dtype=np.float64):
    """Rows of unit norm, classes of 7, 8, 9 ... rows, interleaved."""
    rng = np.random.default_rng(seed)
    sizes = 7 + np.arange(n_classes)
    y = rng.permutation(np.repeat(np.arange(n_classes), sizes))
    centres = rng.standard_normal((n_classes, n_features))
    X = rng.standard_normal((len(y), n_features)) + centres[y]
    return (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(dtype), y, n_classes


def some_faces(yaleb, n_classes=6, n_rows=20):
    """Faces of some people, float32 rows of unit norm."""
    X, y = yaleb
    y = np.unique(y.ravel(), return_inverse=True)[1]
    rows = np.concatenate([np.flatnonzero(y == c)[:n_rows] for c in range(n_classes)])
    X = X[rows].astype(np.float64)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X.astype(np.float32), y[rows], n_classes


def assert_never_rises(objective, tolerance=1e-9):
    assert len(objective) > 1 and np.isfinite(objective).all()
    assert np.diff(objective).max() <= tolerance * abs(objective[-1]), objective


def numerical_gradient(function, point, width=1e-6):
    gradient = np.empty_like(point)
    for index in np.ndindex(point.shape):
        step = np.zeros_like(point)
        step[index] = width
        gradient[index] = (function(point + step) - function(point - step)) / (2 * width)
    return gradient


def lasso_slowly(smooth, n, penalty):
    """Minimum of a smooth function plus an l1 norm, by positive and negative parts."""
    found = minimize(
        lambda v: smooth(v[:n] - v[n:]) + penalty * v.sum(),
        np.full(2 * n, 0.1),
        bounds=[(0, None)] * (2 * n),
        method="L-BFGS-B",
        options={"maxiter": 10_000, "maxfun": 10**7, "ftol": 1e-15, "gtol": 1e-10},
    )
    return found.x[:n] - found.x[n:], found.fun


def atoms_objective(atoms, gram, cross, blocks, incoherence=0.0):
    """Objective that `update_atoms` lowers, with one weight for all pairs."""
    overlap = atoms @ atoms.T
    value = 0.5 * np.vdot(gram, overlap) - np.sum(cross * atoms)
    return value + 0.5 * incoherence * pairwise_overlap(overlap, blocks)
