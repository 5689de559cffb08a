"""The journal of a fit: its identity, the files that it keeps, and how a fit is resumed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from dbdl.backends import NumbaBackend
from dbdl.backends.crew import Crew
from dbdl.coding import Forward
from dbdl.learn.chain import ChainSettings
from dbdl.learn.checkpoints import (
    Identity,
    block_fingerprint,
    differences,
    fingerprint,
    join_fingerprints,
)
from dbdl.learn.journal import Journal, open_journal
from dbdl.learn.members import learn_members
from dbdl.learn.problem import LabelSettings, Problem
from dbdl.model.statistics import SUM_ROWS
from dbdl.sampler.checkpoint import CheckpointError, to_arrays
from dbdl.views import VIEWS, View, make_views

CODERS = [Forward(1), Forward(3)]


def make_problem(n_sweeps=4, n_chains=2, seed=5):
    rng = np.random.default_rng(0)
    y = np.arange(30) % 2
    X = rng.standard_normal((2, 6))[y] + 0.3 * rng.standard_normal((30, 6))
    settings, views = ChainSettings(n_sweeps=n_sweeps), make_views(["plain", "standardised"])
    return Problem(X, y, 2, settings, LabelSettings(), n_chains, seed, views)


def learn(problem, crew, journal):
    return learn_members(problem, problem.shares(), CODERS, crew, journal)


class Told:
    """Counts the sweeps that a journal passes on: number of the chain -> records."""

    def __init__(self):
        self.records = {}

    def __call__(self, number, record, member):
        self.records.setdefault(number, []).append(record)
        return False

    def counts(self):
        return {chain: len(records) for chain, records in self.records.items()}


def open_at(path, problem, follow=None, *, warm_start=False, seed_given=True, **changed):
    parameters = {"n_sweeps": problem.settings.n_sweeps, "n_chains": problem.n_chains, **changed}
    return open_journal(
        problem,
        Identity.of("Estimator", parameters, problem),
        follow or Told(),
        seed_given=seed_given,
        memory=None,
        path=path,
        every=2,
        warm_start=warm_start,
    )


def same_bits(one, other):
    """Whether the arrays of two records have the same bits."""
    one, other = to_arrays(one), to_arrays(other)
    plain = [name for name, array in one.items() if array.dtype != object]
    return one.keys() == other.keys() and all(
        one[name].tobytes() == other[name].tobytes() for name in plain
    )


class NoChains(Crew):
    """A crew whose backends code rows and run no chain."""

    def map(self, work, items):
        class Coding(NumbaBackend):
            def place(self, X, class_of_row):
                raise AssertionError("a chain that was saved is learned again")

        return [work(item, Coding()) for item in items]


# ---------------------------------------------------------------------------- what is told and kept


def test_a_journal_that_keeps_nothing_passes_every_sweep_on():
    told, problem = Told(), make_problem()
    journal = Journal(told)
    members = learn(problem, Crew(), journal)
    assert told.counts() == {0: 4, 1: 4}
    assert told.records[1] == members[1].atoms.trace.records()
    assert journal.memory() is None


def test_chains_that_are_saved_are_not_learned_again(tmp_path):
    problem = make_problem()
    expected = learn(problem, Crew(), open_at(tmp_path / "fit", problem))
    told = Told()
    found = learn(problem, NoChains(), open_at(tmp_path / "fit", problem, told))
    for one, other in zip(found, expected, strict=True):
        assert same_bits(one.atoms, other.atoms)
        assert same_bits(one.view, other.view)  # learned again
        np.testing.assert_array_equal(one.scores, other.scores)
    assert told.counts() == {0: 4, 1: 4}  # told all the same


def test_a_folder_has_the_identity_of_the_fit_and_a_file_for_each_chain(tmp_path):
    learn(make_problem(), Crew(), open_at(tmp_path / "fit", make_problem()))
    names = sorted(path.name for path in (tmp_path / "fit").iterdir())
    assert names == ["chain-000.npz", "chain-001.npz", "fit.npz"]


def test_a_chain_is_resumed_from_its_last_snapshot(tmp_path):
    problem = make_problem()
    expected, _ = learn(problem, Crew(), Journal())

    class Stop(Exception):
        pass

    def stop(number, record, member):
        told.append(record)
        if len(told) == 3:
            raise Stop

    told = []
    with pytest.raises(Stop):
        learn(problem, Crew(), open_at(tmp_path / "fit", problem, stop))
    journal = open_at(tmp_path / "fit", problem)
    # The journal of a chain is asked for with the rows that the chain learns from.
    rows = problem.shares()[0].fold.learn
    own_problem = problem.of_member(problem.rows_of(rows), problem.settings, 1.0)
    own = journal.chain(0, own_problem)
    assert own.resumed.sweep == 2 and own.member is None
    assert journal.chain(1, own_problem).resumed is None
    found, _ = learn(problem, Crew(), journal)
    assert same_bits(found.atoms, expected.atoms)


def test_a_chain_of_other_rows_is_refused(tmp_path):
    problem = make_problem()
    learn(problem, Crew(), open_at(tmp_path / "fit", problem))
    with pytest.raises(CheckpointError, match=r"expected .*n_samples = 30"):
        open_at(tmp_path / "fit", problem).chain(0, problem)


def test_the_folds_are_those_of_the_seed_that_is_kept(tmp_path):
    problem = make_problem(seed=5)
    open_at(tmp_path / "fit", problem)
    other = open_at(tmp_path / "fit", replace(problem, seed=9), seed_given=False)
    assert other.identity.seed == other.problem.seed == 5
    np.testing.assert_array_equal(
        other.problem.shares()[0].fold.held_out, problem.shares()[0].fold.held_out
    )
    with pytest.raises(CheckpointError, match="random_state gives another seed"):
        open_at(tmp_path / "fit", replace(problem, seed=9))


# ------------------------------------------------------------------------------- what decides a fit


def test_differences_are_named():
    problem = make_problem()
    one = Identity.of("Estimator", {"n_sweeps": 4, "penalty": 0.1}, problem)
    assert differences(one, one) == []
    other = Identity.of("Estimator", {"n_sweeps": 4, "penalty": 0.2}, replace(problem, seed=6))
    assert differences(one, other) == [
        "penalty was 0.1 and is 0.2", "random_state gives another seed",
    ]  # fmt: skip
    rows = replace(problem, X=problem.X[::-1])
    assert "other data" in differences(one, Identity.of("Estimator", one.parameters, rows))[0]
    assert differences(one, replace(one, estimator="Other")) == [
        "it is of a Estimator, not of a Other"
    ]


def test_settings_that_leave_the_result_alone_are_no_part_of_an_identity():
    problem = make_problem()
    plain, other = (
        Identity.of("Estimator", {"n_sweeps": 4, **more}, problem)
        for more in ({}, {"n_jobs": 3, "verbose": 2, "checkpoint": "x", "warm_start": True})
    )
    assert plain == other and plain.key() == other.key()


def test_the_name_of_the_chains_of_a_fit_hangs_on_all_but_the_number_of_sweeps():
    problem = make_problem()
    one = Identity.of("Estimator", {"n_sweeps": 4, "penalty": 1}, problem)
    assert one.with_sweeps(9).key() == one.key()
    same = Identity.of("Estimator", {"n_sweeps": 4, "penalty": 1.0}, problem)
    assert same.key() == one.key()
    others = [
        replace(one, seed=1),
        replace(one, data="x"),
        replace(one, estimator="Other"),
        Identity.of("Estimator", {"n_sweeps": 4, "penalty": 2}, problem),
        Identity.of("Estimator", {"n_sweeps": 4, "penalty": Forward(1)}, problem),
        Identity.of("Estimator", {"n_sweeps": 4, "penalty": Forward(1, True)}, problem),
        Identity.of("Estimator", {"n_sweeps": 4, "penalty": 1, "views": "plain"}, problem),
        *(
            Identity.of("Estimator", {"n_sweeps": 4, "penalty": 1, "views": [view]}, problem)
            for view in VIEWS.values()
        ),
    ]
    assert len({identity.key() for identity in (one, *others)}) == 8 + len(VIEWS)


def test_views_of_an_identity_survive_its_file(tmp_path):
    problem, views = make_problem(), ["plain", View(centred=True, power=0.3)]
    open_at(tmp_path / "fit", problem, views=views)
    open_at(tmp_path / "fit", problem, views=tuple(views))
    with pytest.raises(CheckpointError, match=r"views was .*0\.3.* and is .*0\.4"):
        open_at(tmp_path / "fit", problem, views=["plain", View(centred=True, power=0.4)])


def test_a_transformer_cannot_be_part_of_an_identity():
    # A fit can only be resumed if its views can be learned again with the same bits.
    with pytest.raises(ValueError, match=r"StandardScaler\(\).*cannot be resumed.*views by name"):
        Identity.of("Estimator", {"n_sweeps": 4, "views": StandardScaler()}, make_problem())


# ------------------------------------------------------------------------------------ fingerprint


class Source:
    """Rows that are read slice by slice."""

    def __init__(self, rows):
        self.rows, self.shape, self.dtype, self.asked = rows, rows.shape, rows.dtype, []

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, rows):
        self.asked.append(rows)
        return self.rows[rows]


def test_a_fingerprint_is_made_of_blocks_wherever_they_are():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((2 * SUM_ROWS + 5, 3))
    classes = rng.integers(0, 4, len(rows))
    whole = fingerprint(rows, classes)
    source = Source(rows)
    assert fingerprint(source, classes) == whole
    assert all(isinstance(asked, slice) for asked in source.asked) and len(source.asked) == 3
    assert fingerprint(np.asfortranarray(rows), classes.astype(np.int32)) == whole
    cut = [slice(0, SUM_ROWS), slice(SUM_ROWS, 2 * SUM_ROWS), slice(2 * SUM_ROWS, None)]
    parts = [block_fingerprint(rows[part], classes[part]) for part in cut]
    assert join_fingerprints(parts) == whole


def test_a_fingerprint_sees_every_change():
    rows, classes = np.arange(12.0).reshape(4, 3), np.array([0, 1, 0, 1])
    other = rows.copy()
    other[3, 2] = np.nextafter(11.0, 12.0)
    found = {
        fingerprint(rows, classes),
        fingerprint(other, classes),
        fingerprint(rows[::-1], classes),
        fingerprint(rows.reshape(4, 3).astype(np.float32), classes),
        fingerprint(rows, classes[::-1]),
        fingerprint(rows[:3], classes[:3]),
        fingerprint(rows.view(np.int64), classes),
        fingerprint(rows, classes, np.ones(len(rows))),
        fingerprint(rows, classes, np.arange(1.0, len(rows) + 1)),
    }
    assert len(found) == 9
