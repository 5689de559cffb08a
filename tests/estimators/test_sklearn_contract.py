"""Both estimators keep scikit-learn's contract, the classifier with every automatic view."""

from __future__ import annotations

import pytest
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from dbdl import BetaProcessDictionary, DBDLClassifier
from dbdl.views import AUTOMATIC

assert DBDLClassifier().views == "auto"


@pytest.mark.filterwarnings("ignore::UserWarning")
@parametrize_with_checks(
    [
        DBDLClassifier(n_sweeps=4, n_chains=len(AUTOMATIC)),
        DBDLClassifier(n_sweeps=4, n_chains=2, views=["whitened", StandardScaler()]),
        BetaProcessDictionary(n_sweeps=5),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
