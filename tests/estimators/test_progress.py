"""Callbacks and verbose output report every sweep of every chain, including pilot chains."""

from __future__ import annotations

import numpy as np
import pytest
from cones import make_cones

from dbdl import BetaProcessDictionary, DBDLClassifier
from dbdl.coding import Forward

QUICK = {"n_sweeps": 6, "n_chains": 2, "random_state": 0}
N_PILOTS = 10  # two for each of five folds


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
def test_callbacks_see_every_sweep_of_chains_and_pilot_chains(n_jobs):
    model = DBDLClassifier(n_nonzero=3, n_jobs=n_jobs, **QUICK)
    watch = watched(model)
    assert watch.names() == {"pilot chain": N_PILOTS, "chain": 2}
    assert all(told == events(6) for told in watch.chains.values())
    assert watch.n_subtasks == [N_PILOTS + 2] * 2  # all of them were counted at the start
    assert watch.ended[-1] == "fit"
    for name in ("n_atoms", "log_joint", "noise_precision"):
        told = [[record[name] for record in watch.records[N_PILOTS + c]] for c in range(2)]
        np.testing.assert_array_equal(told, getattr(model.trace_, name))


@pytest.mark.parametrize(
    ("settings", "n_pilots"),
    [
        ({"coder": Forward(3)}, N_PILOTS),  # for the temperature
        ({"coder": Forward(3), "calibrate": False}, 0),
        ({"coder": "forward", "calibrate": False}, N_PILOTS),
        ({"classifier": "joint", "n_sweeps": 2}, 3 * N_PILOTS),  # three weights of the labels
        ({"classifier": "joint", "label_weight": 0.1, "n_sweeps": 2}, N_PILOTS),
        ({"n_chains": 1}, N_PILOTS // 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else str(value),
)
def test_as_many_pilot_chains_are_announced_as_are_run(settings, n_pilots):
    model = DBDLClassifier(**{**QUICK, **settings})
    watch = watched(model)
    expected = {"pilot chain": n_pilots, "chain": model.n_chains}
    assert watch.names() == {name: n for name, n in expected.items() if n}
    assert watch.n_subtasks[0] == n_pilots + model.n_chains
    assert all(told == events(model.n_sweeps) for told in watch.chains.values())


def test_classes_of_one_row_each_have_no_pilot_chains():
    X, y = make_cones()
    assert watched(DBDLClassifier(**QUICK), rows=(X[:3], y[:3])).names() == {"chain": 2}


def test_pilot_chains_are_no_longer_than_their_limit(monkeypatch):
    for module in ("learn.pilots", "estimators._base"):
        monkeypatch.setattr(f"dbdl.{module}.PILOT_SWEEPS", 2)
    for (name, _), told in watched(DBDLClassifier(**QUICK)).chains.items():
        assert told == events(2 if name == "pilot chain" else 6)


def test_the_sweeps_of_every_batch_are_told():
    X, y = make_cones(n_classes=4, n_rows=30)
    model = DBDLClassifier(**QUICK)
    first = watched(model, "partial_fit", (X[y < 2], y[y < 2]))
    assert first.names() == {"pilot chain": N_PILOTS, "chain": 2}
    assert all(told == events(6) for told in first.chains.values())
    same = watched(model, "partial_fit", (X[y < 2], y[y < 2]))
    assert same.names() == {"chain": 2}  # these rows are scored before they are learned
    assert all(told == events(3) for told in same.chains.values())
    new = watched(model, "partial_fit", (X, y))
    assert new.names() == {"pilot chain": N_PILOTS, "chain": 2}
    assert all(told == events(3) for told in new.chains.values())
    few = watched(model, "partial_fit", (X[:5], y[:5] + 4))
    assert few.names() == {"chain": 2}


def test_the_sweeps_of_a_dictionary_are_told():
    watch = watched(BetaProcessDictionary(n_sweeps=4, random_state=0))
    assert watch.chains == {("chain", 0): events(4)}


@pytest.mark.parametrize("verbose", [1, 2])
def test_verbose_numbers_the_sweeps_of_every_chain_from_one_on(capsys, verbose):
    DBDLClassifier(n_nonzero=3, verbose=verbose, **{**QUICK, "n_sweeps": 12}).fit(*make_cones())
    lines = capsys.readouterr().out.splitlines()
    numbers = range(1, 13) if verbose == 2 else range(2, 13, 2)
    titles = [f"pilot {n}/{N_PILOTS}" for n in range(1, N_PILOTS + 1)] + ["chain 1/2", "chain 2/2"]
    for title in titles:
        own = [line for line in lines if line.startswith(f"{title} ")]
        assert [line.split()[3] for line in own] == [f"{n}/12" for n in numbers]
        assert all("atoms" in line for line in own)
    assert len(lines) == len(titles) * len(numbers)
