"""A small fitted classifier for the tests of the report."""

from __future__ import annotations

from functools import cache

import numpy as np
from sklearn.datasets import load_digits

from dbdl import DBDLClassifier


@cache
def digits(n_classes=4, n_train=80, n_test=100):
    """Rows to learn from and to test on, classes interleaved as they come."""
    X, y = load_digits(n_class=n_classes, return_X_y=True)
    return X[:n_train], y[:n_train], X[n_train : n_train + n_test], y[n_train : n_train + n_test]


@cache
def fitted(n_classes=4, n_chains=2, **settings):
    """A classifier of few sweeps: good, but with a few mistakes to show."""
    X, y, _, _ = digits(n_classes)
    return DBDLClassifier(n_sweeps=4, n_chains=n_chains, random_state=0, **settings).fit(X, y)


def with_mistakes(y, n=7):
    """Labels of which some are not what the rows show, so that there are mistakes to draw."""
    y = y.copy()
    y[:n] = np.roll(np.unique(y), 1)[np.searchsorted(np.unique(y), y[:n])]
    return y
