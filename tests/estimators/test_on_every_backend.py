"""The estimators learn and code the same on every backend of the table, up to rounding."""

import sys
from pathlib import Path

import numpy as np
import pytest
from cones import make_cones

from dbdl import BetaProcessDictionary, DBDLClassifier, ModelSettings, SmoothAtoms
from dbdl.backends.sharded import ShardedBackend
from dbdl.coding import Forward

sys.path.append(str(Path(__file__).parents[1] / "backends"))

from enrolled import every_backend

MODEL = ModelSettings(noise_precision=1e3)
#: With all that a user may know of the features and the classes.
INFORMED = ModelSettings(
    noise_precision=[1e3, 2e3, 3e3],
    noise_per_class=True,
    usage_a=[2.0, 3.0, 4.0],
    atom_prior=SmoothAtoms(1.0),
)
#: Rounding: logarithms of a GPU differ in their last bits, and a chain carries that on.
CLOSE = {"cpu": 1e-6, "cuda": 1e-3}

FIT = {"n_sweeps": 2, "n_chains": 1, "coder": Forward(3), "model": MODEL, "random_state": 0}


@pytest.fixture
def on(monkeypatch):
    """A function that lets estimators learn and code on a given backend."""

    def use(backend):
        for module in ("dbdl.backends.crew", "dbdl.estimators._base"):
            monkeypatch.setattr(f"{module}.make_backend", lambda *_, **__: backend)

    return use


@pytest.fixture(scope="module")
def rows():
    return make_cones(n_rows=12)


@every_backend
@pytest.mark.parametrize(
    ("classifier", "view"),
    [
        ("ridge", "auto"),
        ("recoded", "unit standardised + constant"),
        ("gibbs", "plain"),
        ("joint", "plain + constant"),
    ],
)
@pytest.mark.parametrize("model", [MODEL, INFORMED], ids=["defaults", "informed"])
def test_a_fit_scores_rows_as_the_default_backend_does(backend, on, rows, classifier, view, model):
    X, y = rows
    settings = {**FIT, "classifier": classifier, "views": view, "model": model}
    if model is INFORMED:
        settings["initial_atoms"] = X[:8]
    expected = DBDLClassifier(**settings).fit(X, y)
    on(backend)
    found = DBDLClassifier(**settings).fit(X, y)
    assert found.atoms_.shape == expected.atoms_.shape
    np.testing.assert_allclose(found.atoms_, expected.atoms_, atol=CLOSE[backend.device_kind])
    np.testing.assert_allclose(
        found.decision_function(X),
        expected.decision_function(X),
        atol=10 * CLOSE[backend.device_kind],
    )
    assert found.temperature_ == pytest.approx(
        expected.temperature_, rel=100 * CLOSE[backend.device_kind]
    )


@every_backend
def test_a_dictionary_codes_and_judges_rows_as_that_of_the_default_backend_does(backend, on, rows):
    settings = {name: value for name, value in FIT.items() if name != "n_chains"}
    expected = BetaProcessDictionary(**settings).fit(rows[0])
    on(backend)
    found = BetaProcessDictionary(**settings).fit(rows[0])
    np.testing.assert_allclose(found.atoms_, expected.atoms_, atol=CLOSE[backend.device_kind])
    codes, other = (model.transform(rows[0]).toarray() for model in (expected, found))
    np.testing.assert_allclose(other, codes, atol=10 * CLOSE[backend.device_kind])
    density, other = (model.score_samples(rows[0]) for model in (expected, found))
    close = MODEL.noise_precision * CLOSE[backend.device_kind]  # which multiplies squares
    np.testing.assert_allclose(other, density, atol=close)


@every_backend
def test_batches_are_learned_alike(backend, on, rows):
    if isinstance(backend, ShardedBackend):
        pytest.skip("the rows of a batch are in memory")
    X, y = rows

    def learn():
        return DBDLClassifier(**FIT).partial_fit(X[::2], y[::2]).partial_fit(X[1::2], y[1::2])

    expected = learn()
    on(backend)
    np.testing.assert_allclose(learn().atoms_, expected.atoms_, atol=CLOSE[backend.device_kind])


@every_backend
def test_draws_and_the_estimators_of_sweeps_are_those_of_the_default_backend(backend, on, rows):
    pytest.importorskip("sklearn.callback", reason="callbacks came with scikit-learn 1.9")
    X, y = rows
    model = ModelSettings(noise_precision=1e3, keep_atom_draws=True)
    settings = {**FIT, "n_sweeps": 4, "n_draws": 2, "model": model}

    class Scores:
        def setup(self, estimator, context):
            self.found = []

        def teardown(self, estimator, context): ...
        def on_fit_task_begin(self, estimator, context): ...
        def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
            self.found.append(fitted_estimator.decision_function(X))
            return context.task_name == "sweep" and context.task_id == 2

    def learn():
        scores = Scores()
        found = DBDLClassifier(**settings).set_callbacks(scores).fit(X, y)
        return found.chains_[0].draws, np.array(scores.found), found.posterior_proba(X)

    draws, scores, probability = learn()
    on(backend)
    other_draws, other_scores, other_probability = learn()
    close = CLOSE[backend.device_kind]
    np.testing.assert_array_equal(other_draws.sweep, [2, 3])  # ended after three sweeps
    np.testing.assert_allclose(other_draws.atoms, draws.atoms, atol=close)
    np.testing.assert_allclose(other_draws.noise_precision, draws.noise_precision, rtol=close)
    np.testing.assert_allclose(
        other_draws.selection_probability, draws.selection_probability, atol=10 * close
    )
    np.testing.assert_allclose(other_scores, scores, atol=10 * close)
    np.testing.assert_allclose(other_probability, probability, atol=100 * close)
