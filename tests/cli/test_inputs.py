"""Models from the words of a command."""

import pytest
from sklearn.svm import LinearSVC

from dbdl import methods
from dbdl.cli.errors import UserError
from dbdl.cli.inputs import check_probabilities, make_model


@pytest.mark.parametrize("method", ["DBDL", "DBDL (paper)"])
def test_settings_of_the_model_can_be_set(method):
    model = make_model(method, ["n_sweeps=2", "model__noise_precision=1e4"], seed=3, jobs=1)
    assert (model.n_sweeps, model.model.noise_precision, model.random_state) == (2, 1e4, 3)


@pytest.mark.parametrize(
    ("method", "words"),
    [("DBDL", "'nope' for estimator ModelSettings"), ("CRC", "CRC has no parameter 'model__nope'")],
)
def test_settings_that_no_model_has_are_refused(method, words):
    with pytest.raises(UserError, match=words):
        make_model(method, ["model__nope=3"], seed=0, jobs=1)


def test_methods_without_probabilities_are_named_as_the_user_knows_them():
    others = "or fit another method: all but ridge, linear SVM and RBF SVM have them"
    for name in ("ridge", "linear SVM", "RBF SVM"):
        with pytest.raises(
            UserError, match=f"^{name} gives no probabilities; leave -p out, {others}"
        ):
            check_probabilities(methods()[name](), "-p")
    with pytest.raises(UserError, match=r"^CRC gives no .*, or fit it with --set calibrate=true"):
        check_probabilities(methods()["CRC"](calibrate=False), "-p")
    with pytest.raises(UserError, match=r"^LinearSVC gives no .* of a method that has them, such"):
        check_probabilities(LinearSVC(), "-p")
    check_probabilities(methods()["CRC"](), "-p")
