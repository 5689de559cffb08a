"""The loop over sweeps records every sweep and tells the journal."""

import numpy as np
import pytest
from noting_journal import NotingJournal

from dbdl.backends import NumbaBackend
from dbdl.draws import make_key
from dbdl.learn.chain import ChainSettings, learn_chain
from dbdl.sampler.run import SweepRecord, Trace, effective_number


@pytest.fixture(scope="module")
def told():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 6))
    journal = NotingJournal()
    settings = ChainSettings(n_sweeps=4, noise_precision=10.0)
    chain = learn_chain(make_key(0), X, np.arange(30) % 2, settings, NumbaBackend(), journal)
    return chain.chain.trace, journal.told


@pytest.mark.parametrize("name", SweepRecord._fields)
def test_every_diagnostic_has_a_value_for_each_sweep(told, name):
    trace, records = told
    values = getattr(trace, name)
    assert values.shape == (4,) and np.isfinite(values).all()
    assert values.tolist() == [getattr(record, name) for record in records]


def test_a_trace_and_its_records_are_one_another(told):
    trace, records = told
    assert trace.records() == records
    again = Trace.from_records(records)
    assert all(np.array_equal(getattr(again, n), getattr(trace, n)) for n in SweepRecord._fields)


def test_atoms_that_are_used_alike_count_in_full_and_one_alone_counts_once():
    assert effective_number(np.array([5, 5, 5, 0])) == pytest.approx(3)
    assert effective_number(np.array([0, 9, 0])) == pytest.approx(1)
    assert effective_number(np.array([98, 1, 1])) < 1.2
