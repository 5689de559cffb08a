"""The journal of a fit: its identity, the files that it keeps, and how a fit is resumed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dbdl.backends.crew import Crew
from dbdl.coding import FAMILIES, Forward, LassoPath, PosteriorMean
from dbdl.learn.chain import ChainSettings
from dbdl.learn.checkpoints import (
    CheckpointFolder,
    Choice,
    Identity,
    block_fingerprint,
    differences,
    fingerprint,
    join_fingerprints,
)
from dbdl.learn.held_out import choose_coder
from dbdl.learn.journal import Journal, open_journal
from dbdl.learn.members import learn_members
from dbdl.learn.pilots import Candidates, choose, pilots_of
from dbdl.learn.problem import LabelSettings, Problem
from dbdl.model.statistics import SUM_ROWS
from dbdl.sampler.checkpoint import CheckpointError, to_arrays

CODERS = [Forward(1), Forward(3)]


def make_problem(n_sweeps=4, n_chains=2, seed=5):
    rng = np.random.default_rng(0)
    y = np.arange(30) % 2
    X = rng.standard_normal((2, 6))[y] + 0.3 * rng.standard_normal((30, 6))
    settings = ChainSettings(n_sweeps=n_sweeps)
    return Problem(X, y, 2, settings, LabelSettings(), n_chains, seed)


class Told:
    """Counts the sweeps that a journal passes on: (kind, number) -> records."""

    def __init__(self):
        self.records = {}

    def __call__(self, kind, number, record):
        self.records.setdefault((kind, number), []).append(record)

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
        pilot_sweeps=3,
    )


def same_bits(one, other):
    """Whether the arrays of two records have the same bits."""
    one, other = to_arrays(one), to_arrays(other)
    plain = [name for name, array in one.items() if array.dtype != object]
    return one.keys() == other.keys() and all(
        one[name].tobytes() == other[name].tobytes() for name in plain
    )


class Nobody(Crew):
    """A crew that must not work: whoever is asked to learn something has no backend."""

    def map(self, work, items):
        return [work(item, None) for item in items]


# ---------------------------------------------------------------------------- what is told and kept


def test_a_journal_that_keeps_nothing_passes_every_sweep_on():
    told, problem = Told(), make_problem()
    journal = Journal(told)
    choice = choose(problem, Candidates(CODERS), Crew(), journal)
    members = learn_members(problem, choice, Crew(), journal)
    pilots = {("pilot", n): 4 for n in range(len(pilots_of(problem)))}
    assert told.counts() == {**pilots, ("chain", 0): 4, ("chain", 1): 4}
    assert told.records["chain", 1] == members[1].trace.records()
    assert journal.choice is None and journal.memory() is None


def test_what_is_kept_is_returned_by_nobody_s_work(tmp_path):
    problem = make_problem()
    journal = open_at(tmp_path / "fit", problem)
    choice = choose(problem, Candidates(CODERS), Crew(), journal)
    expected = learn_members(problem, choice, Crew(), journal)
    told = Told()
    again = open_at(tmp_path / "fit", problem, told)
    assert again.choice == choose(problem, Candidates(CODERS), Nobody(), again)
    assert same_bits(again.choice.held_out, choice.held_out)
    assert (again.choice.coder, again.choice.temperature) == (choice.coder, choice.temperature)
    found = learn_members(problem, choice, Nobody(), again)
    assert all(same_bits(one, other) for one, other in zip(found, expected, strict=True))
    assert told.counts() == {("chain", 0): 4, ("chain", 1): 4}  # told all the same


def test_a_chain_is_resumed_from_its_last_snapshot(tmp_path):
    problem = make_problem()
    (expected, _) = learn_members(problem, Choice.of([Forward(2)], None), Crew(), Journal())

    class Stop(Exception):
        pass

    def stop(kind, number, record):
        told.append(record)
        if len(told) == 3:
            raise Stop

    told = []
    with pytest.raises(Stop):
        learn_members(
            problem, Choice.of([Forward(2)], None), Crew(), open_at(tmp_path / "fit", problem, stop)
        )
    journal = open_at(tmp_path / "fit", problem)
    own = journal.chain(0)
    assert own.resumed.sweep == 2 and own.member is None
    assert journal.chain(1).resumed is None
    found, _ = learn_members(problem, Choice.of([Forward(2)], None), Crew(), journal)
    assert same_bits(found, expected)


def test_pilot_chains_are_kept_until_the_choice_is_made(tmp_path):
    problem, seen = make_problem(n_chains=1), []

    def look(kind, number, record):
        seen.append(sorted(path.stem for path in (tmp_path / "fit").glob("pilot-*.npz")))

    journal = open_at(tmp_path / "fit", problem, look)
    choose(problem, Candidates(CODERS), Crew(), journal)
    # After the second of four sweeps of the third of five pilot chains it has a file.
    assert seen[4 * 2 + 2] == ["pilot-000", "pilot-001", "pilot-002"]
    assert [path.name for path in (tmp_path / "fit").iterdir()] == ["fit.npz"]


def test_the_folds_of_pilot_chains_are_those_of_the_seed_that_is_kept(tmp_path):
    problem = make_problem(seed=5)
    open_at(tmp_path / "fit", problem)
    other = open_at(tmp_path / "fit", replace(problem, seed=9), seed_given=False)
    assert other.identity.seed == 5
    with pytest.raises(CheckpointError, match="random_state gives another seed"):
        open_at(tmp_path / "fit", replace(problem, seed=9))


@pytest.mark.parametrize("coder", [family(4) for family in FAMILIES.values()], ids=str)
def test_a_choice_survives_its_file_whatever_the_coder(tmp_path, coder):
    y = np.arange(12) % 2
    held_out = choose_coder([coder, Forward(2, True)], [np.eye(2)[y], np.eye(2)[1 - y]], y)
    folder, problem = CheckpointFolder(tmp_path), make_problem()
    identity = Identity.of("Estimator", {"n_sweeps": 4, "coder": [coder, "forward"]}, problem)
    for choice in (Choice.of([coder], held_out, 0.1), Choice.of([coder], None)):
        folder.write_fit(identity, choice)
        again, found = folder.read_fit()
        assert again == identity and found.coder == coder
        assert (found.temperature, found.label_weight) == (choice.temperature, choice.label_weight)
        assert (found.held_out is None) == (choice.held_out is None)
        if found.held_out is not None:
            assert found.held_out.coders == held_out.coders
            assert same_bits(found.held_out, held_out)


def test_without_held_out_rows_the_sparsest_coder_is_taken():
    choice = Choice.of([LassoPath(4), Forward(2), PosteriorMean(2)], None, 0.5)
    assert (choice.coder, choice.temperature, choice.label_weight) == (Forward(2), 1.0, 0.5)


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
    ]
    assert len({identity.key() for identity in (one, *others)}) == 7


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
    }
    assert len(found) == 7
