"""Callbacks and verbose output report every sweep of every chain, and no other chain is run."""

from __future__ import annotations

import numpy as np
import pytest
from cones import make_cones

import dbdl.learn.members
from dbdl import BetaProcessDictionary, DBDLClassifier
from dbdl.coding import Forward
from dbdl.views import AUTOMATIC, MORE_FOR_FEW_ROWS

QUICK = {"n_sweeps": 6, "n_chains": 2, "random_state": 0}


class Watch:
    """Notes what scikit-learn's callbacks are told of chains: (name, number) -> events."""

    def __init__(self):
        self.chains, self.records, self.n_subtasks, self.ended = {}, {}, [], []

    def setup(self, estimator, context): ...
    def teardown(self, estimator, context): ...

    def on_fit_task_begin(self, estimator, context, *, X=None, y=None, metadata=None):
        self.note("begin", context)

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, metadata=None):
        self.ended.append(context.task_name)
        self.note("end", context)
        if context.task_name == "sweep":
            self.records.setdefault(context.parent.task_id, []).append(context.record)

    def note(self, event, context):
        if context.task_name == "fit":
            self.n_subtasks.append(context.max_subtasks)
            return
        chain = context if context.task_name != "sweep" else context.parent
        own = self.chains.setdefault((chain.task_name, chain.task_id), [])
        own.append((event, context.task_id if context is not chain else None))

    def names(self):
        """How many chains of each name there were."""
        found = [name for name, _ in self.chains]
        return {name: found.count(name) for name in found}


def watched(model, verb="fit", rows=None):
    """What is told of a fit."""
    pytest.importorskip("sklearn.callback", reason="callbacks came with scikit-learn 1.9")
    watch = Watch()
    rows = make_cones() if rows is None else rows
    getattr(model.set_callbacks(watch), verb)(*rows)
    return watch


def events(n_sweeps):
    """What is told of one chain."""
    sweeps = [(event, number) for number in range(n_sweeps) for event in ("begin", "end")]
    return [("begin", None), *sweeps, ("end", None)]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_callbacks_see_every_sweep_of_every_chain(n_jobs):
    model = DBDLClassifier(n_nonzero=3, n_jobs=n_jobs, **QUICK)
    watch = watched(model)
    assert watch.names() == {"chain": 2}
    assert all(told == events(6) for told in watch.chains.values())
    assert watch.n_subtasks == [2] * 2  # all of them were counted at the start
    assert watch.ended[-1] == "fit"
    for name in ("n_atoms", "log_joint", "noise_precision"):
        told = [[getattr(record, name) for record in watch.records[c]] for c in range(2)]
        np.testing.assert_array_equal(told, getattr(model.trace_, name))


@pytest.mark.parametrize(
    "settings",
    [
        {"coder": Forward(3)},
        {"coder": Forward(3), "calibrate": False},
        {"coder": "forward", "calibrate": False},
        {"classifier": "joint", "n_sweeps": 2},
        {"classifier": "recoded", "n_sweeps": 2},
        {"n_chains": 1, "views": "plain"},
    ],
    ids=" ".join,
)
def test_as_many_chains_are_announced_as_are_run_and_none_is_thrown_away(settings, monkeypatch):
    learned = []
    learn = dbdl.learn.members.learn_chain
    monkeypatch.setattr(
        "dbdl.learn.members.learn_chain", lambda *given: (learned.append(1), learn(*given))[1]
    )
    model = DBDLClassifier(**{**QUICK, **settings})
    watch = watched(model)
    n_chains = model.n_chains
    assert watch.names() == {"chain": n_chains} and watch.n_subtasks[0] == n_chains
    assert len(learned) == len(model.chains_) == n_chains
    assert all(told == events(model.n_sweeps) for told in watch.chains.values())


def test_trials_of_views_are_not_announced_as_chains():
    watch = watched(DBDLClassifier(**QUICK | {"n_chains": 1}))
    assert watch.names() == {"chain": 1} and watch.n_subtasks == [1] * 2
    assert all(told == events(6) for told in watch.chains.values())


def test_chains_of_views_that_earn_no_weight_are_counted_as_ended():
    model = DBDLClassifier(**{**QUICK, "n_chains": None, "n_sweeps": 2, "coder": Forward(3)})
    watch = watched(model)
    n_announced = 6 * len(AUTOMATIC + MORE_FOR_FEW_ROWS)
    assert watch.names() == {"chain": n_announced} and watch.n_subtasks[0] == n_announced
    learned = [told for told in watch.chains.values() if told == events(2)]
    skipped = [told for told in watch.chains.values() if told == events(0)]
    assert len(learned) + len(skipped) == n_announced
    assert len(skipped) > 0 and len(learned) > len(model.chains_)


def test_chains_of_every_size_are_announced_and_told():
    model = DBDLClassifier(n_initial_atoms="auto", coder=Forward(3), **QUICK)
    watch = watched(model, rows=make_cones(n_rows=40))
    n_sizes = len(model.size_curve_.accuracy)
    assert n_sizes > 2 and watch.names() == {"chain": 2 * n_sizes}
    assert watch.n_subtasks[0] == 2 * n_sizes
    assert all(told == events(6) for told in watch.chains.values())


def test_classes_of_one_row_each_are_no_exception():
    X, y = make_cones()
    assert watched(DBDLClassifier(**QUICK), rows=(X[:3], y[:3])).names() == {"chain": 2}


def test_the_sweeps_of_every_batch_are_told():
    X, y = make_cones(n_classes=4, n_rows=30)
    model = DBDLClassifier(**QUICK)
    first = watched(model, "partial_fit", (X[y < 2], y[y < 2]))
    assert first.names() == {"chain": 2}
    assert all(told == events(6) for told in first.chains.values())
    # The same classes, which are scored before they are learned, new ones, and a few rows.
    for rows in ((X[y < 2], y[y < 2]), (X, y), (X[:5], y[:5] + 4)):
        later = watched(model, "partial_fit", rows)
        assert later.names() == {"chain": 2}
        assert all(told == events(3) for told in later.chains.values())


def test_the_sweeps_of_a_dictionary_are_told():
    watch = watched(BetaProcessDictionary(n_sweeps=4, random_state=0))
    assert watch.chains == {("chain", 0): events(4)}


@pytest.mark.parametrize("verbose", [1, 2])
def test_verbose_numbers_the_sweeps_of_every_chain_from_one_on(capsys, verbose):
    DBDLClassifier(n_nonzero=3, verbose=verbose, **{**QUICK, "n_sweeps": 12}).fit(*make_cones())
    lines = capsys.readouterr().out.splitlines()
    numbers = range(1, 13) if verbose == 2 else range(2, 13, 2)
    titles = ["chain 1/2", "chain 2/2"]
    for title in titles:
        own = [line for line in lines if line.startswith(f"{title} ")]
        assert [line.split()[3] for line in own] == [f"{n}/12" for n in numbers]
        assert all("atoms" in line for line in own)
    assert len(lines) == len(titles) * len(numbers)


# ------------------------------------------------------------ fitted estimators, stopping early


class Scores(Watch):
    """Notes the fitted estimators of every task, and their accuracy on new rows."""

    def __init__(self, X, y, stop_after=None):
        super().__init__()
        self.X, self.y, self.stop_after = X, y, stop_after
        self.estimators = {}

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, fitted_estimator=None):
        path = (context.task_id,) if context.task_name == "chain" else ()
        if context.task_name == "sweep":
            path = (context.parent.task_id, context.task_id)
        self.estimators[path] = (fitted_estimator, fitted_estimator.score(self.X, self.y))
        assert len(X) == len(y)
        return context.task_name == "sweep" and context.task_id + 1 == self.stop_after


def scored(model, stop_after=None):
    pytest.importorskip("sklearn.callback", reason="callbacks came with scikit-learn 1.9")
    watch, rows = Scores(*make_cones(seed=1), stop_after), make_cones()
    return model.set_callbacks(watch).fit(*rows), watch


@pytest.mark.parametrize("classifier", ["ridge", "recoded", "gibbs", "joint"])
def test_the_estimator_of_a_sweep_is_that_of_a_fit_with_so_many_sweeps_and_one_chain(classifier):
    settings = {
        **QUICK,
        "n_chains": 1,
        "n_sweeps": 4,
        "classifier": classifier,
        "coder": Forward(3),
    }
    if classifier == "gibbs":  # its label atoms need n_sweeps too
        settings["n_sweeps"] = 2
    model, watch = scored(DBDLClassifier(**settings))
    X, _ = make_cones(seed=1)
    for number in range(settings["n_sweeps"]):
        short = DBDLClassifier(**{**settings, "n_sweeps": number + 1}).fit(*make_cones())
        found, accuracy = watch.estimators[(0, number)]
        if classifier != "gibbs" or number == 1:
            np.testing.assert_array_equal(found.predict_proba(X), short.predict_proba(X))
        assert found.trace_.n_atoms.shape == (1, number + 1)
        assert 0 <= accuracy <= 1
    np.testing.assert_array_equal(watch.estimators[()][0].predict(X), model.predict(X))


def test_asking_for_the_estimator_of_every_sweep_changes_no_bit():
    watched_model, watch = scored(DBDLClassifier(**QUICK))
    plain = DBDLClassifier(**QUICK).fit(*make_cones())
    np.testing.assert_array_equal(watched_model.atoms_, plain.atoms_)
    np.testing.assert_array_equal(watched_model.label_atoms_, plain.label_atoms_)
    assert set(watch.estimators) == {(), (0,), (1,), *((c, s) for c in (0, 1) for s in range(6))}


def test_a_second_fit_on_other_classes_gives_estimators_of_its_own():
    model, _ = scored(DBDLClassifier(**QUICK))
    X, y = make_cones(n_classes=4, n_rows=30)
    watch = Scores(X, y)
    model.set_callbacks(watch).fit(X, y)
    assert all(len(found.classes_) == 4 for found, _ in watch.estimators.values())


def test_the_scoring_monitor_of_scikit_learn_records_every_task():
    callback = pytest.importorskip("sklearn.callback", reason="came with scikit-learn 1.9")
    monitor = callback.ScoringMonitor(scoring="accuracy")
    model = DBDLClassifier(**QUICK).set_callbacks(monitor).fit(*make_cones())
    lines = {line["task_id_path"]: line for line in monitor.get_logs().data}
    assert len(lines) == 1 + 2 + 2 * 6
    assert all(0 <= line["accuracy"] <= 1 for line in lines.values())
    assert lines[(0,)]["accuracy"] == model.score(*make_cones())


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_callback_ends_chains_whose_sweeps_so_far_are_published(n_jobs):
    model, watch = scored(DBDLClassifier(n_jobs=n_jobs, **QUICK), stop_after=3)
    short = DBDLClassifier(**{**QUICK, "n_sweeps": 3}).fit(*make_cones())
    assert [len(chain.trace.n_atoms) for chain in model.chains_] == [3, 3]
    np.testing.assert_array_equal(model.atoms_, short.atoms_)
    np.testing.assert_array_equal(model.label_atoms_, short.label_atoms_)
    assert {(0,), (1,), ()} <= set(watch.estimators)  # chains and the fit were ended


def test_chains_of_different_lengths_have_one_trace_which_repeats_last_records():
    class Once(Watch):
        def on_fit_task_end(self, estimator, context, *, X=None, y=None):
            return (
                context.task_name == "sweep"
                and context.parent.task_id == 0
                and context.task_id == 1
            )

    pytest.importorskip("sklearn.callback", reason="callbacks came with scikit-learn 1.9")
    model = DBDLClassifier(**QUICK).set_callbacks(Once()).fit(*make_cones())
    assert [len(chain.trace.n_atoms) for chain in model.chains_] == [2, 6]
    assert model.trace_.log_joint.shape == (2, 6)
    assert (model.trace_.log_joint[0, 2:] == model.trace_.log_joint[0, 1]).all()
    assert repr(model.diagnostics_)


def test_a_stopped_fit_is_resumed_by_the_next_one(tmp_path):
    settings = {**QUICK, "checkpoint": tmp_path}
    scored(DBDLClassifier(**settings), stop_after=3)
    resumed = DBDLClassifier(**settings).fit(*make_cones())
    whole = DBDLClassifier(**QUICK).fit(*make_cones())
    assert resumed.trace_.n_atoms.shape == (2, 6)
    np.testing.assert_array_equal(resumed.atoms_, whole.atoms_)


def test_a_chain_that_is_stopped_while_earlier_sweeps_are_told_has_these_and_no_more(tmp_path):
    settings = {**QUICK, "checkpoint": tmp_path}
    scored(DBDLClassifier(**settings), stop_after=3)

    class Stop(Watch):
        def on_fit_task_end(self, estimator, context, *, X=None, y=None, metadata=None):
            super().on_fit_task_end(estimator, context)
            return context.task_name == "sweep" and context.task_id >= 1

    watch = Stop()
    again = DBDLClassifier(**settings).set_callbacks(watch).fit(*make_cones())
    assert again.trace_.n_atoms.shape == (2, 3)
    assert all(told == events(2) for told in watch.chains.values())


def test_batches_can_be_stopped_and_end_with_a_fitted_estimator():
    pytest.importorskip("sklearn.callback", reason="callbacks came with scikit-learn 1.9")
    found = []

    class Stop(Watch):
        def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
            found.append((context.task_name, fitted_estimator))
            return context.task_name == "sweep"

    model = DBDLClassifier(**QUICK).set_callbacks(Stop())
    for _ in range(2):
        found.clear()
        model.partial_fit(*make_cones())
        assert model.trace_.n_atoms.shape == (2, 1)
        assert found[-1][0] == "fit" and found[-1][1].predict(make_cones()[0]).shape
    assert [estimator for name, estimator in found if name == "sweep"] == [None, None]
