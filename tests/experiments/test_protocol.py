"""Splits depend only on names, and no row is in both the training and the test set."""

from __future__ import annotations

import numpy as np
import pytest

from dbdl.experiments.protocol import Protocol, Split, random_split, seed_of


def labels():
    """Labels of three classes of 10, 7 and 4 rows."""
    return np.repeat(["a", "b", "c"], [10, 7, 4])


def test_a_seed_depends_on_its_names_and_on_nothing_else():
    assert seed_of("yaleb", "half", 3) == seed_of("yaleb", "half", 3) == 1387959045
    assert len({seed_of("yaleb", "half", n) for n in range(1000)}) == 1000
    assert seed_of("ab", "c") != seed_of("a", "bc")


@pytest.mark.parametrize(
    "protocol",
    [
        Protocol(per_class=0.5, n_splits=4),
        Protocol(per_class=3, n_splits=4),
        Protocol(folds=4),
        Protocol(leave_one_out=True),
    ],
)
def test_every_row_is_learned_from_or_tested_on_never_both(protocol):
    Y = labels()
    for train, test in protocol.splits(Y, seed=5):
        assert np.array_equal(np.sort(np.concatenate([train, test])), np.arange(len(Y)))
        assert set(Y[train]) == set(Y)


def test_a_share_and_a_number_of_rows_of_each_class_are_learned_from():
    Y = labels()
    count = {name: np.unique(Y[rows], return_counts=True)[1] for name, rows in (
        ("half", random_split(Y, 0.5, np.random.default_rng(0)).train),
        ("three", random_split(Y, 3, np.random.default_rng(0)).train),
        ("too many", random_split(Y, 8, np.random.default_rng(0)).train),
    )}  # fmt: skip
    np.testing.assert_array_equal(count["half"], [5, 4, 2])
    np.testing.assert_array_equal(count["three"], [3, 3, 3])
    np.testing.assert_array_equal(count["too many"], [8, 6, 3])  # one is left to test on


def test_splits_differ_from_each_other_and_not_from_run_to_run():
    Y = labels()
    protocol = Protocol(per_class=0.5, n_splits=3)
    first, again = list(protocol.splits(Y, 1)), list(protocol.splits(Y, 1))
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a.train, b.train)
    assert not np.array_equal(first[0].train, first[1].train)


def test_fewer_splits_are_the_first_of_more():
    Y = labels()
    few, many = (list(Protocol(per_class=2, n_splits=n).splits(Y, 1)) for n in (2, 5))
    for a, b in zip(few, many, strict=False):
        np.testing.assert_array_equal(a.train, b.train)


def test_groups_are_left_out_together():
    Y = labels()
    groups = np.arange(len(Y)) // 2
    for train, test in Protocol(leave_one_out=True).splits(Y, 0, groups=groups):
        assert not set(groups[train]) & set(groups[test])


def test_the_data_set_s_own_split_is_taken_or_asked_for():
    Y = labels()
    own = Split(np.arange(15), np.arange(15, 21))
    assert list(Protocol(own=True).splits(Y, 0, own=own)) == [own]
    with pytest.raises(ValueError, match="no split of its own"):
        list(Protocol(own=True).splits(Y, 0))


@pytest.mark.parametrize("ways", [{}, {"per_class": 3, "folds": 2}])
def test_exactly_one_way_to_split_is_given(ways):
    with pytest.raises(ValueError, match="exactly one of per_class"):
        Protocol(**ways)


@pytest.mark.parametrize(
    "ways", [{"per_class": 1.5}, {"per_class": 0}, {"per_class": "half"}, {"folds": 1},
             {"folds": True}, {"per_class": 2, "n_splits": 0}]
)  # fmt: skip
def test_a_number_of_rows_folds_or_splits_that_cannot_be_is_refused(ways):
    with pytest.raises(ValueError, match=r"Expected .*a whole number from"):
        Protocol(**ways)
