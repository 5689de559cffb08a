"""Both estimators keep scikit-learn's contract, the classifier with every automatic view."""

from __future__ import annotations

import pytest
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from dbdl import BetaProcessDictionary, DBDLClassifier
from dbdl.views import AUTOMATIC

assert DBDLClassifier().views == "auto"

#: Checks that fail, and why. Two copies of a row have two codes, where a row of weight 2 has one;
#: the sums given the codes are equal (tests/backends/test_weighted_sums.py).
EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": "a row of weight 2 has one code, two rows two",
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@parametrize_with_checks(
    [
        DBDLClassifier(n_sweeps=4, n_chains=len(AUTOMATIC)),
        DBDLClassifier(n_sweeps=4, n_chains=2, views=["whitened", StandardScaler()]),
        BetaProcessDictionary(n_sweeps=5),
    ],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES,
    xfail_strict=True,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
