"""An interrupted fit leaves the model exactly as it was, and can be repeated."""

from __future__ import annotations

import dataclasses
from functools import cache

import numpy as np
import pytest
from cones import make_cones
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler

import dbdl.sampler.run
from dbdl import BetaProcessDictionary, DBDLClassifier
from dbdl.rivals.crc import CRCClassifier
from dbdl.rivals.ksvd import KSVD

FIRST, SECOND = slice(0, 60), slice(60, 120)


@cache
def cones():
    return make_cones(n_classes=4, n_rows=30, n_features=20)


def make(**settings):
    return DBDLClassifier(**{"n_sweeps": 4, "n_chains": 2, "random_state": 0, **settings})


def bits(value):
    """All that a value holds, caches too, as something that can be compared."""
    if isinstance(value, np.ndarray):
        return (value.dtype.str, value.shape, value.flags.c_contiguous, value.tobytes())
    if isinstance(value, np.random.RandomState):
        return bits(value.get_state(legacy=False))
    if dataclasses.is_dataclass(value):
        return (type(value).__name__, bits(vars(value)))
    if isinstance(value, dict):
        return {name: bits(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [bits(part) for part in value]
    return repr(value)


@pytest.fixture
def interrupt(monkeypatch):
    """A function that has a chain interrupted at its n-th sweep from now on."""

    def set_up(n_sweeps, error=KeyboardInterrupt):
        left, step = [n_sweeps], dbdl.sampler.run.step

        def step_or_stop(*arguments):
            left[0] -= 1
            if left[0] == 0:
                raise error("stopped")
            return step(*arguments)

        monkeypatch.setattr(dbdl.sampler.run, "step", step_or_stop)

    yield set_up
    monkeypatch.undo()


def learn(model, rows):
    """Give a batch to a model, with its labels if it takes them."""
    X, Y = cones()
    model.partial_fit(X[rows], *([Y[rows]] if isinstance(model, DBDLClassifier) else []))
    return model


MODELS = {
    "classifier": make,
    "own view": lambda **settings: make(views=["plain", StandardScaler()], **settings),
    "recoded": lambda **settings: make(classifier="recoded", **settings),
    "forgetful": lambda **settings: make(forgetting=0.5, n_initial_atoms=15, **settings),
    "dictionary": lambda **settings: BetaProcessDictionary(n_sweeps=4, random_state=0, **settings),
}


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, ZeroDivisionError])
@pytest.mark.parametrize("name", MODELS)
def test_an_interrupted_batch_leaves_the_model_as_it_was(
    name, error, n_jobs, interrupt, monkeypatch
):
    model, same = (learn(MODELS[name](n_jobs=n_jobs), FIRST) for _ in range(2))
    before = bits(vars(model))
    interrupt(2, error)
    with pytest.raises(error, match="stopped"):
        learn(model, SECOND)
    assert bits(vars(model)) == before
    monkeypatch.undo()
    assert bits(vars(learn(model, SECOND))) == bits(vars(learn(same, SECOND)))


def test_a_batch_with_new_classes_is_undone_too(interrupt, monkeypatch):
    X, Y = cones()
    model = make().partial_fit(X[Y < 2], Y[Y < 2])
    before = bits(vars(model))
    interrupt(2)
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(X[Y >= 2], Y[Y >= 2], classes=[0, 1, 2, 3, 9])
    assert bits(vars(model)) == before
    monkeypatch.undo()
    model.partial_fit(X[Y >= 2], Y[Y >= 2])
    same = make().partial_fit(X[Y < 2], Y[Y < 2]).partial_fit(X[Y >= 2], Y[Y >= 2])
    assert bits(vars(model)) == bits(vars(same))


@pytest.mark.parametrize("batch", ["known classes", "new classes"])
def test_a_batch_interrupted_while_its_rows_are_scored_is_undone_too(batch, monkeypatch):
    X, Y = cones()
    first, rows = Y < 2, SECOND if batch == "known classes" else Y >= 2
    model, same = (make().partial_fit(X[first], Y[first]) for _ in range(2))
    before = bits(vars(model))

    def fail(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("dbdl.learn.batches.score_rows", fail)
        learn(model, rows)
    assert bits(vars(model)) == before
    assert bits(vars(learn(model, rows))) == bits(vars(learn(same, rows)))


@pytest.mark.parametrize("name", MODELS)
def test_an_interrupted_first_batch_leaves_nothing_behind(name, interrupt, monkeypatch):
    model = MODELS[name]()
    before = bits(vars(model))
    interrupt(3)
    with pytest.raises(KeyboardInterrupt):
        learn(model, FIRST)
    assert bits(vars(model)) == before == bits(vars(clone(model)))
    monkeypatch.undo()
    assert bits(vars(learn(model, FIRST))) == bits(vars(learn(MODELS[name](), FIRST)))


def test_an_error_while_results_are_set_is_undone_too(monkeypatch):
    model = learn(make(), FIRST)
    before = bits(vars(model))

    def fail(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("dbdl.estimators.classifier.Trace.stack", fail)
    with pytest.raises(KeyboardInterrupt):
        learn(model, SECOND)
    assert bits(vars(model)) == before


def test_an_interrupted_fit_leaves_a_fitted_model_usable(interrupt):
    X, Y = cones()
    model = make().fit(X[Y < 2], Y[Y < 2])
    predicted, before = model.predict(X), bits(vars(model))
    interrupt(3)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    assert bits(vars(model)) == before
    np.testing.assert_array_equal(model.predict(X), predicted)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_interrupted_warm_start_goes_on_from_where_it_was(n_jobs, interrupt, monkeypatch):
    X, Y = cones()
    model = make(warm_start=True, n_jobs=n_jobs).fit(X, Y).set_params(n_sweeps=7)
    before = bits(vars(model))
    interrupt(2)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    assert bits(vars(model)) == before
    monkeypatch.undo()
    same = make(warm_start=True, n_jobs=n_jobs).fit(X, Y).set_params(n_sweeps=7).fit(X, Y)
    assert bits(vars(model.fit(X, Y))) == bits(vars(same))


def test_a_random_state_that_was_drawn_from_is_put_back(interrupt, monkeypatch):
    X, Y = cones()
    model, same = (make(random_state=np.random.RandomState(3)) for _ in range(2))
    before = bits(vars(model))
    for verb in (model.partial_fit, model.fit):
        interrupt(2)
        with pytest.raises(KeyboardInterrupt):
            verb(X, Y)
        assert bits(vars(model)) == before
    monkeypatch.undo()
    assert bits(vars(model.partial_fit(X, Y))) == bits(vars(same.partial_fit(X, Y)))


def test_callbacks_are_told_of_the_end_of_an_interrupted_batch(interrupt):
    pytest.importorskip("sklearn.callback", reason="scikit-learn 1.9 has callbacks")

    class Watch:
        ended = 0

        def setup(self, estimator, context):
            pass

        def on_fit_task_begin(self, estimator, context, **_):
            pass

        def on_fit_task_end(self, estimator, context, **_):
            pass

        def teardown(self, estimator, context):
            self.ended += 1

    watch = Watch()
    model = learn(make(), FIRST)
    before = bits(vars(model))
    model.set_callbacks(watch)
    interrupt(2)
    with pytest.raises(KeyboardInterrupt):
        learn(model, SECOND)
    assert watch.ended == 1
    model.set_callbacks()
    assert bits(vars(model)) == before


def test_a_callback_that_interrupts_a_chain_leaves_the_model_as_it_was():
    pytest.importorskip("sklearn.callback", reason="scikit-learn 1.9 has callbacks")

    class Stop:
        def setup(self, estimator, context):
            pass

        def on_fit_task_begin(self, estimator, context, **_):
            pass

        def on_fit_task_end(self, estimator, context, **_):
            raise KeyboardInterrupt

        def teardown(self, estimator, context):
            pass

    model = learn(make(), FIRST)
    before = bits(vars(model))
    model.set_callbacks(Stop())
    with pytest.raises(KeyboardInterrupt):
        learn(model, SECOND)
    assert bits(vars(model.set_callbacks())) == before


@pytest.mark.parametrize("rival", [CRCClassifier(), KSVD(5, random_state=0)], ids=repr)
def test_rivals_are_left_as_they_were_too(rival, monkeypatch):
    X, Y = cones()
    model = clone(rival).fit(X[:, :10], Y)
    before = bits(vars(model))

    def fail(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("dbdl.rivals.crc.solve_ridge", fail)
    monkeypatch.setattr("dbdl.rivals.ksvd.learn_ksvd", fail)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y % 2)
    assert bits(vars(model)) == before
