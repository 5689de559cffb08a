"""Codes come as asked: sparse, dense, or as data frames; log probabilities stay finite."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import issparse
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import dbdl

X, Y = load_digits(n_class=3, return_X_y=True)
KINDS = {
    "classifier": lambda **given: dbdl.DBDLClassifier(
        n_sweeps=2, n_chains=2, coder="forward", random_state=0, **given
    ),
    "dictionary": lambda **given: dbdl.BetaProcessDictionary(n_sweeps=2, random_state=0, **given),
    "K-SVD": lambda **given: dbdl.KSVD(20, n_iterations=2, random_state=0, **given),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


@every_kind
def test_codes_are_sparse_unless_something_else_is_asked_for(kind):
    pd = pytest.importorskip("pandas")
    model = KINDS[kind]().fit(X[:80], Y[:80])
    codes = model.transform(X[80:90])
    assert issparse(codes)
    dense = KINDS[kind](sparse_output=False).fit(X[:80], Y[:80]).transform(X[80:90])
    np.testing.assert_array_equal(dense, codes.toarray())
    rows = pd.DataFrame(X[80:90], index=range(7, 17))
    frame = model.set_output(transform="pandas").transform(rows.to_numpy())
    assert list(frame.columns) == list(model.get_feature_names_out())
    np.testing.assert_array_equal(frame.to_numpy(), codes.toarray())


def test_predictions_and_reports_do_not_depend_on_the_output_of_transform(tmp_path):
    pytest.importorskip("pandas")
    from dbdl.report import write_report

    model = KINDS["classifier"]().fit(X[:80], Y[:80])
    expected = model.decision_function(X[80:])
    assert write_report(model, X[80:160], Y[80:160], tmp_path / "a.html")
    model.set_output(transform="pandas")
    np.testing.assert_array_equal(model.decision_function(X[80:]), expected)
    assert write_report(model, X[80:160], Y[80:160], tmp_path / "b.html")
    assert (tmp_path / "a.html").read_text("utf-8") == (tmp_path / "b.html").read_text("utf-8")


def test_ksvd_is_a_step_of_a_pipeline():
    model = make_pipeline(dbdl.KSVD(30, n_iterations=5, random_state=0), LogisticRegression(C=100))
    assert model.fit(X[:300], Y[:300]).score(X[300:], Y[300:]) > 0.95


@pytest.mark.parametrize("name", ["DBDL 1 chain", "CRC", "K-SVD", "logistic", "1-NN"])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.filterwarnings("ignore:divide by zero")  # 1-NN has probabilities of 0
def test_log_probabilities_are_those_of_predict_proba(name, n_classes):
    own = Y[:120] < n_classes
    model = dbdl.methods()[name]().fit(X[:120][own], Y[:120][own])
    expected = np.log(model.predict_proba(X[120:]))
    found = model.predict_log_proba(X[120:])
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


def test_log_probabilities_stay_finite_where_probabilities_vanish():
    model = KINDS["classifier"]().fit(X[:80], Y[:80])
    model.temperature_ = 1e-5
    assert (model.predict_proba(X[80:]) == 0).any()
    assert np.isfinite(model.predict_log_proba(X[80:])).all()


def test_without_calibration_rivals_have_no_log_probabilities():
    model = dbdl.methods()["CRC"](calibrate=False).fit(X[:80], Y[:80])
    assert not hasattr(model, "predict_log_proba")
