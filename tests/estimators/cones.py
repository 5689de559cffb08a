"""A small problem: the rows of each class lie near a cone of its own.

These are cones, not subspaces: a linear score of a code changes its sign with the row, so no method
of this kind can give a row and its negative the same class.
"""

from __future__ import annotations

import numpy as np


def make_cones(n_classes=3, n_rows=20, n_features=12, dimension=3, noise=0.02, seed=0):
    """Rows (n_classes * n_rows, n_features) and labels, classes interleaved.

    The first rows for a larger ``n_rows`` are, up to noise, those for a smaller one.
    """
    rng = np.random.default_rng(seed)
    bases = rng.standard_normal((n_classes, dimension, n_features))
    y = np.tile(np.arange(n_classes), n_rows)
    strengths = rng.random((len(y), dimension))
    X = np.einsum("id,idf->if", strengths, bases[y])
    return X + noise * rng.standard_normal(X.shape), y
