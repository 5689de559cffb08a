"""Both estimators keep scikit-learn's contract, the classifier with every automatic view."""

from __future__ import annotations

import pytest
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from dbdl import BetaProcessDictionary, DBDLClassifier
from dbdl.views import AUTOMATIC

assert DBDLClassifier().views == "auto"

#: Checks that fail, and why. The sums given the codes are equal: test_weighted_sums.py.
EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": "a row of weight 2 has one code, two rows two",
}
#: The same for views without a constant coordinate.
WITHOUT_INTERCEPT = {
    **EXPECTED_FAILURES,
    "check_class_weight_classifiers": "a row and its negative have opposite scores",
}


def expected_failures(estimator):
    automatic = getattr(estimator, "views", "auto") == "auto"
    return EXPECTED_FAILURES if automatic else WITHOUT_INTERCEPT


@pytest.mark.filterwarnings("ignore::UserWarning")
@parametrize_with_checks(
    [
        DBDLClassifier(n_sweeps=4, n_chains=len(AUTOMATIC)),
        DBDLClassifier(n_sweeps=4, n_chains=2, views=["whitened", StandardScaler()]),
        BetaProcessDictionary(n_sweeps=5),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
