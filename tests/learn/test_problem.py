"""Each member has a share: a view, rows to learn from, and rows that it leaves out."""

from dataclasses import replace

import numpy as np
import pytest

from dbdl.draws import make_key
from dbdl.learn.chain import ChainSettings
from dbdl.learn.problem import (
    FIRST_CHAIN,
    LEAST_CHAINS,
    LabelSettings,
    Problem,
    automatic_rounds,
)
from dbdl.views import VIEWS as NAMES
from dbdl.views import View, make_views

VIEWS = make_views([*NAMES, "plain + constant"])  # eight of them


def make_problem(n_rows=100, n_chains=8, n_classes=2, views=VIEWS, **settings):
    y = np.arange(n_rows) % n_classes
    X = np.random.default_rng(0).standard_normal((n_rows, 3))
    problem = Problem(X, y, n_classes, ChainSettings(), LabelSettings(), n_chains, 0, views)
    return replace(problem, **settings)


def folds_of(shares):
    """The different sets of rows that are left out."""
    return {share.fold.held_out.tobytes(): share.fold for share in shares}.values()


@pytest.mark.parametrize("n_rows", [100, 1000])
@pytest.mark.parametrize("n_chains", [1, 2, 5, 8, 24])
def test_every_member_leaves_out_a_tenth_of_the_rows_and_learns_from_the_others(n_rows, n_chains):
    shares = make_problem(n_rows, n_chains).shares()
    assert [share.number for share in shares] == list(range(n_chains))
    for share in shares:
        assert len(share.fold.held_out) == n_rows // 10
        both = np.sort(np.concatenate(share.fold))
        np.testing.assert_array_equal(both, np.arange(n_rows))


def test_members_take_the_views_in_turn():
    shares = make_problem(n_chains=20).shares()
    assert [share.view_number for share in shares] == [n % 8 for n in range(20)]
    assert all(share.view == VIEWS[share.view_number] for share in shares)


def test_all_rows_of_a_small_problem_are_left_out_by_some_member():
    shares = make_problem(100, 24).shares()
    left_out = np.concatenate([fold.held_out for fold in folds_of(shares)])
    np.testing.assert_array_equal(np.sort(left_out), np.arange(100))


@pytest.mark.parametrize(("n_rows", "n_folds"), [(600, [10, 4, 1]), (601, [2, 2, 1])])
def test_with_many_rows_two_folds_are_left_out_in_turn(n_rows, n_folds):
    for n_chains, expected in zip((24, 8, 3), n_folds, strict=True):  # each by two members or more
        assert len(folds_of(make_problem(n_rows, n_chains).shares())) == expected


@pytest.mark.parametrize(
    ("n_rows", "n_chains", "n_views"),
    [
        (100, 2, 8),
        (100, 5, 8),
        (100, 24, 8),
        (1000, 8, 8),
        (100, 16, 8),
        (1000, 4, 2),
        (100, 8, 2),
        (1000, 8, 4),
        (1000, 8, 2),
    ],
)
def test_every_row_left_out_is_scored_by_members_of_different_views(n_rows, n_chains, n_views):
    shares = make_problem(n_rows, n_chains, views=VIEWS[:n_views]).shares()
    for fold in folds_of(shares):
        own = [share for share in shares if share.fold.held_out is fold.held_out]
        assert len({share.view_number for share in own}) == min(len(own), n_views) >= 2


def test_no_fold_has_more_than_2000_rows():
    shares = make_problem(50_000, 2).shares()
    assert all(1900 < len(share.fold.held_out) <= 2000 for share in shares)


@pytest.mark.parametrize(
    "settings",
    [{"leaves_out": False}, {"class_of_row": np.zeros(100, dtype=np.int64), "n_classes": 1}],
    ids=["nothing to choose", "one class"],
)
def test_where_nothing_is_to_be_chosen_members_learn_from_all_rows(settings):
    for share in make_problem(**settings).shares():
        np.testing.assert_array_equal(share.fold.learn, np.arange(100))
        assert not len(share.fold.held_out)


def test_classes_of_one_row_each_are_never_left_out():
    for share in make_problem(5, 8, n_classes=5).shares():
        np.testing.assert_array_equal(share.fold.learn, np.arange(5))


def test_folds_follow_from_the_seed_and_the_classes_alone():
    one, same = make_problem(), make_problem(n_classes=2)
    other = replace(one, seed=1)
    names = replace(one, class_of_row=1 - one.class_of_row)  # the same classes by other numbers
    folds = [np.concatenate([s.fold.held_out for s in p.shares()]) for p in (one, same, names)]
    for found in folds[1:]:
        np.testing.assert_array_equal(found, folds[0])
    assert not np.array_equal(other.shares()[0].fold.held_out, one.shares()[0].fold.held_out)


def test_members_take_the_weights_of_joint_labels_in_turn():
    labels = LabelSettings("joint", weights=(0.01, 0.1, 1.0))
    problem = make_problem(n_chains=5, labels=labels)
    assert [s.label_weight for s in problem.shares()] == [0.01, 0.1, 1.0, 0.01, 0.1]
    own = problem.of_member(problem.rows_of(np.arange(4)), problem.settings, 0.1)
    assert own.labels == LabelSettings("joint", weights=(0.1,)) and len(own.X) == 4


def test_chains_have_keys_of_their_own_behind_that_of_the_folds():
    problem = make_problem(seed=7)
    assert problem.key(2) == make_key(7, FIRST_CHAIN + 2)
    assert len({str(key) for key in (make_key(7), *map(problem.key, range(9)))}) == 10


# ------------------------------------------------------------------------------------ two rounds


@pytest.mark.parametrize(
    ("n_rows", "n_views", "expected"),
    [
        (600, 8, (2, 6)),
        (601, 8, (1, 4)),
        (3000, 8, (1, 4)),
        (3001, 8, (1, 2)),
        (100, 1, (5, 6)),
        (5000, 1, (5, 5)),
        (5000, 3, (2, 2)),
        (5000, 12, (1, 2)),
    ],
)
def test_fewer_rows_have_more_chains_per_view_and_there_are_at_least_five(
    n_rows, n_views, expected
):
    assert automatic_rounds(n_rows, n_views) == expected


def in_rounds(n_rows, n_views=8, **settings):
    """A problem whose number of chains is not given."""
    rounds, views = automatic_rounds(n_rows, n_views), VIEWS[:n_views]
    problem = make_problem(n_rows, rounds.first * n_views, views=views, rounds=rounds)
    return replace(problem, **settings)


@pytest.mark.parametrize("n_rows", [100, 1000, 5000])
@pytest.mark.parametrize("n_views", [1, 3, 8])
def test_the_second_round_gives_chosen_views_their_further_chains(n_rows, n_views):
    problem = in_rounds(n_rows, n_views)
    first, both = problem.rounds
    every = problem.further_shares(range(n_views))
    numbers = [share.number for share in (*problem.shares(), *every)]
    assert numbers == list(range(both * n_views)) and len(every) == problem.n_further
    chosen = problem.further_shares({n_views - 1})
    assert [share.view_number for share in chosen] == [n_views - 1] * (both - first)
    assert {share.number for share in chosen} <= {share.number for share in every}


@pytest.mark.parametrize("n_rows", [100, 1000])
@pytest.mark.parametrize("n_views", [2, 5, 8])
def test_chains_of_a_view_leave_out_different_rows_in_both_rounds(n_rows, n_views):
    problem = in_rounds(n_rows, n_views)
    shares = [*problem.shares(), *problem.further_shares(range(n_views))]
    for view in range(n_views):
        own = [share for share in shares if share.view_number == view]
        assert len(folds_of(own)) == len(own) == problem.rounds.both


def test_views_of_many_rows_are_compared_on_the_same_rows():
    problem = in_rounds(1000)
    assert len(folds_of(problem.shares())) == 1
    left_out = problem.shares()[0].fold.held_out
    later = problem.further_shares(range(8))
    assert not any(np.isin(left_out, share.fold.held_out).any() for share in later)


def test_without_rows_that_are_left_out_there_is_one_round():
    assert in_rounds(100, leaves_out=False).further_shares(range(8)) == []
    assert make_problem().further_shares(range(8)) == []  # nor with a number of chains


def test_with_fewer_views_there_are_fewer_chains_unless_their_number_is_given():
    assert len(in_rounds(100).with_views(VIEWS[:3]).shares()) == 6
    assert len(make_problem(n_chains=7).with_views(VIEWS[:3]).shares()) == 7


def test_no_two_chains_have_one_number_whatever_number_of_views_their_sizes_have():
    sizes = (2, 3, None)
    numbers = [
        number
        for size_number, n_views in enumerate((7, 7, 3))
        for number in in_rounds(
            100, n_views, sizes=sizes, size_number=size_number
        ).sweeps_of_chains()
    ]
    assert len(set(numbers)) == len(numbers) == 6 * (7 + 7 + 3)


def test_fewer_views_have_at_least_five_chains_too():
    problem = in_rounds(1000).with_views(VIEWS[:2])
    assert problem.n_chains >= LEAST_CHAINS
    assert {share.view_number for share in problem.shares()} == {0, 1}


def test_more_views_all_have_a_chain():
    problem = in_rounds(1000, n_views=6).with_views(VIEWS[:8])
    assert {share.view_number for share in problem.shares()} == set(range(8))


def test_rows_of_a_share_are_those_that_it_names_as_they_are():
    problem = make_problem()
    rows = problem.rows_of(np.array([3, 7, 50]))
    np.testing.assert_array_equal(rows.X, problem.X[[3, 7, 50]])
    np.testing.assert_array_equal(rows.class_of_row, problem.class_of_row[[3, 7, 50]])
    assert problem.rows_of(np.arange(100)).X is problem.X  # not copied


def test_a_problem_without_views_is_the_paper_s():
    problem = Problem(np.ones((4, 2)), np.arange(4) % 2, 2, ChainSettings(), LabelSettings())
    assert problem.views == (View(),)
