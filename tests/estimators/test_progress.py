"""Callbacks and verbose output report every sweep of every chain, and no other chain is run."""

from __future__ import annotations

import numpy as np
import pytest
from cones import make_cones

import dbdl.learn.members
from dbdl import BetaProcessDictionary, DBDLClassifier
from dbdl.coding import Forward
from dbdl.views import AUTOMATIC

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
            self.records.setdefault(context.parent.task_id, []).append(metadata)

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
        told = [[record[name] for record in watch.records[c]] for c in range(2)]
        np.testing.assert_array_equal(told, getattr(model.trace_, name))


@pytest.mark.parametrize(
    "settings",
    [
        {"coder": Forward(3)},
        {"coder": Forward(3), "calibrate": False},
        {"coder": "forward", "calibrate": False},
        {"classifier": "joint", "n_sweeps": 2},
        {"classifier": "recoded", "n_sweeps": 2},
        {"n_chains": 1},
        {"n_chains": None, "n_sweeps": 1, "coder": Forward(3)},
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
    n_chains = model.n_chains or 3 * len(AUTOMATIC)
    assert watch.names() == {"chain": n_chains} and watch.n_subtasks[0] == n_chains
    assert len(learned) == len(model.chains_) == n_chains
    assert all(told == events(model.n_sweeps) for told in watch.chains.values())


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
