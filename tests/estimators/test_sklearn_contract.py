"""Both estimators keep scikit-learn's contract."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from dbdl import BetaProcessDictionary, DBDLClassifier


@pytest.mark.filterwarnings("ignore::UserWarning")
@parametrize_with_checks(
    [DBDLClassifier(n_sweeps=5, n_chains=2), BetaProcessDictionary(n_sweeps=5)]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
