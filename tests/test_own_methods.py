"""Methods of one's own: registered, made, found by their address, and refused with a reason."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dbdl
from dbdl.experiments.protocol import Protocol
from dbdl.experiments.rows import LabelledRows
from dbdl.experiments.run import run_table
from dbdl.experiments.spec import Entry, Table
from dbdl.own_methods import import_method
from dbdl.registry import name_of


def test_a_registered_class_is_compared_and_its_grid_is_searched():
    X, y = load_iris(return_X_y=True)
    dbdl.register("bayes", GaussianNB, grid={"var_smoothing": [1e-9, 1.0]}, paper="Bayes 1763")
    table = Table("t", "t", "", {"c": Protocol(folds=2)}, (Entry("bayes"),))
    records = run_table(table, LabelledRows(X, y), None)
    assert all(r["accuracy"] > 0.9 and r["chosen"]["var_smoothing"] == 1e-9 for r in records)
    assert dbdl.methods()["bayes"].paper == "Bayes 1763"
    assert dbdl.methods()["bayes"].in_a_line == "Gaussian Naive Bayes (GaussianNB)"


def test_pipelines_and_functions_are_made_afresh_with_settings():
    pipeline = make_pipeline(StandardScaler(), NearestCentroid())
    method = dbdl.register("scaled", pipeline, grid={"nearestcentroid__shrink_threshold": [1, 2]})
    made = method(nearestcentroid__shrink_threshold=2)
    assert made[-1].shrink_threshold == 2 and pipeline[-1].shrink_threshold is None
    method = dbdl.register("made", lambda **given: NearestCentroid(**given), about="By hand.")
    assert method(shrink_threshold=3).shrink_threshold == 3 and method.in_a_line == "By hand"


def test_estimators_go_by_the_names_of_their_methods():
    for name, method in dbdl.methods().items():
        assert name_of(method()) == name
    assert name_of(dbdl.methods()["RBF SVM"](C=3.0)) == "RBF SVM"
    assert name_of(dbdl.methods()["SRC (OMP)"](n_nonzero=3)) == "SRC (OMP)"
    assert name_of(GaussianNB()) == "GaussianNB"
    dbdl.register("bayes", GaussianNB)
    assert name_of(GaussianNB(var_smoothing=1.0)) == "bayes"


def test_a_name_of_ones_own_is_replaced_and_one_of_the_package_is_not():
    dbdl.register("mine", GaussianNB)
    dbdl.register("mine", NearestCentroid)
    assert isinstance(dbdl.methods()["mine"](), NearestCentroid)
    with pytest.raises(ValueError, match="'DBDL' is a method of dbdl"):
        dbdl.register("dbdl", GaussianNB)


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        (("", GaussianNB), {}, "expected a name"),
        (("a,b", GaussianNB), {}, "without commas"),
        (("m", 3), {}, "3 is a int. Expected a class"),
        (("m", dict), {}, "which has no fit"),
        (("m", GaussianNB), {"grid": {"nope": [1]}}, "no parameter 'nope', which its grid names"),
        (("m", GaussianNB), {"grid": {"priors": []}}, "no values of 'priors'"),
        (("m", GaussianNB), {"settings": {"nope": 1}}, "cannot be made without arguments"),
    ],
)
def test_what_could_not_be_compared_is_refused_and_not_kept(arguments, options, words):
    with pytest.raises(ValueError, match=words):
        dbdl.register(*arguments, **options)
    assert "m" not in dbdl.methods()


def test_an_address_leads_to_a_class_and_a_name_may_be_given():
    assert import_method("sklearn.naive_bayes:GaussianNB").name == "GaussianNB"
    assert import_method("sklearn.naive_bayes:GaussianNB", "bayes").name == "bayes"
    assert isinstance(dbdl.methods()["bayes"](), GaussianNB)


def test_methods_of_the_package_say_in_a_line_what_they_do():
    lines = {name: method.in_a_line for name, method in dbdl.methods().items()}
    assert all(10 < len(line) < 130 and not line.endswith(".") for line in lines.values()), lines
    assert np.unique([method.code for method in dbdl.methods().values()]).tolist() == [""]
