"""Coders, weights and the temperature are chosen on rows that members never saw."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone

from dbdl import DBDLClassifier
from dbdl.backends.crew import Crew
from dbdl.coding import Forward, LassoPath, Orthogonal, PosteriorMean
from dbdl.learn import choice as choice_module
from dbdl.learn.chain import ChainSettings
from dbdl.learn.choice import (
    MOST_GROWTH,
    N_PARTS,
    WEIGHT_PENALTY,
    Candidates,
    Group,
    LeftOut,
    choose,
    choose_by_scores,
    coders_of_views,
    dealt,
    ensemble_results,
    fit_weights,
    group_by_rows,
    growth,
    left_out_by,
    pool,
    weighted_by_others,
    without_rows,
)
from dbdl.learn.held_out import (
    Figures,
    HeldOutChoice,
    accuracy_of,
    choose_coder,
    fit_sharpness,
    log_loss,
)
from dbdl.learn.journal import Journal
from dbdl.learn.link import Link, bent
from dbdl.learn.members import learn_members
from dbdl.learn.problem import LabelSettings, Problem
from dbdl.views import make_views

QUICK = {"n_sweeps": 3, "n_chains": 2, "random_state": 0}
CODERS = (Forward(1), Forward(2))


def chance_rows(n_rows=160, n_features=12, n_classes=2, seed=0):
    """Rows that say nothing of their labels: no method does better than chance on new ones."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_features))
    return X / np.linalg.norm(X, axis=1, keepdims=True), np.arange(n_rows) % n_classes


def most_by_chance(n_rows, chance=0.5):
    """An accuracy that guesses hardly ever reach."""
    return chance + 4.5 * np.sqrt(chance * (1 - chance) / n_rows)


# ------------------------------------------------------------- rows left out are never learned from


@pytest.mark.parametrize("kind", ["ridge", "recoded", "gibbs", "joint"])
def test_labels_that_follow_no_rule_are_guessed_by_chance_on_rows_left_out(kind):
    # Rows that were learned from are atoms of their own and would nearly all be right, and a view
    # whose covariance within classes had seen them would tell the classes apart.
    X, y = chance_rows()
    views = make_views(["plain", "unit whitened + constant"])
    problem = Problem(X, y, 2, ChainSettings(n_sweeps=3), LabelSettings(kind), 20, views=views)
    coders = [Forward(1), Orthogonal(3)]
    members = learn_members(problem, problem.shares(), coders, Crew(), Journal())
    choice = choose(members, y, Candidates(coders)).held_out
    assert choice.n_rows == 2 * 160  # every row is left out by two members
    assert (choice.accuracy < most_by_chance(160)).all()
    # and no sharpness makes guesses much better than saying that both classes are as likely
    assert choice.log_loss.min() > 0.9 * np.log(2)


def test_a_row_is_never_scored_by_a_member_that_saw_it():
    X, y = chance_rows(60)
    problem = Problem(X, y, 2, ChainSettings(n_sweeps=2), LabelSettings(), 5)
    members = learn_members(problem, problem.shares(), CODERS, Crew(), Journal())
    for member, left_out in zip(members, left_out_by(members), strict=True):
        assert not np.isin(left_out.rows, member.share.fold.learn).any()
        assert all(scores.shape == (len(left_out.rows), 2) for scores in left_out.scores)


def test_a_classifier_is_not_sure_of_labels_that_follow_no_rule():
    X, y = chance_rows(200)
    model = DBDLClassifier(n_nonzero=2, **{**QUICK, "n_chains": 8}).fit(X[:160], y[:160])
    assert model.held_out_.accuracy.max() < most_by_chance(64)  # of four folds
    assert model.predict_proba(X[160:]).max(axis=1).mean() < 0.75


def own_accuracy(model, before):
    """Accuracy on the rows of the last batch, taken out of the pooled one."""
    n_before, n_rows = before.n_rows / 2, model.held_out_.n_rows
    own = model.held_out_.accuracy * n_rows - before.accuracy * n_before
    return own / (n_rows - n_before)


def test_a_batch_is_scored_by_members_that_have_not_learned_it():
    X, y = chance_rows(240)
    model = DBDLClassifier(n_nonzero=2, **QUICK)
    before = model.partial_fit(X[:80], y[:80]).held_out_
    model.partial_fit(X[80:], y[80:])
    assert model.held_out_.n_rows == 2 * 160 + before.n_rows / 2
    assert own_accuracy(model, before).max() < most_by_chance(160)


def test_rows_of_new_classes_are_scored_by_members_that_never_saw_them():
    X, y = chance_rows(640, n_classes=4)
    model = DBDLClassifier(n_nonzero=2, **QUICK)
    old = y[:80] < 2
    before = model.partial_fit(X[:80][old], y[:80][old]).held_out_
    model.partial_fit(X[80:], y[80:])
    assert model.held_out_.n_rows == 2 * 56 + before.n_rows / 2  # a tenth for each member
    assert own_accuracy(model, before).max() < most_by_chance(56, 0.25)


# ------------------------------------------------------------------------------------ no choice


def test_without_rows_left_out_the_sparsest_coder_is_taken_and_members_count_alike():
    choice = without_rows(Candidates([LassoPath(4), Forward(2), PosteriorMean(2)]), 4)
    assert choice.coders == (Forward(2),) * 4
    np.testing.assert_array_equal(choice.weights, [0.25] * 4)
    assert (choice.temperature, choice.held_out) == (1.0, None)


@pytest.mark.parametrize(
    ("candidates", "is_open"),
    [
        (Candidates(CODERS[:1], calibrate=False), False),
        (Candidates(CODERS[:1]), True),
        (Candidates(CODERS, calibrate=False), True),
    ],
)
def test_something_is_to_be_chosen_if_there_are_coders_or_a_temperature(candidates, is_open):
    assert candidates.is_open == is_open


# ------------------------------------------------------------------- members with made-up scores


def made_up(n_rows=400, n_classes=3, strengths=(1.0, 1.0, 0.0), n_folds=1, seed=0):
    """Members of one view each; each member's scores tell the class by its strength, plus noise."""
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=n_rows)
    members = []
    for number, strength in enumerate(strengths):
        rows = np.arange(number % n_folds, n_rows, n_folds)
        scores = strength * np.eye(n_classes)[y[rows]]
        scores = [scores + rng.standard_normal(scores.shape) for _ in CODERS]
        members.append(LeftOut(rows, scores, number))
    return members, y


def test_weights_are_not_negative_and_add_up_to_one():
    for seed in range(5):
        strengths = np.random.default_rng(seed).uniform(-1, 2, 6)
        members, y = made_up(strengths=strengths, n_folds=2, seed=seed)
        weights = choose_by_scores(members, y, Candidates(CODERS)).weights
        assert weights.min() >= 0 and weights.sum() == pytest.approx(1, abs=1e-12)


def test_a_useless_view_has_almost_no_weight():
    members, y = made_up(4000, strengths=(1.0, 1.0, 0.0))
    weights = choose_by_scores(members, y, Candidates(CODERS)).weights
    assert weights[2] < 0.02 and weights[:2].min() > 0.4


def test_a_better_view_has_more_weight():
    members, y = made_up(4000, strengths=(0.5, 1.0, 2.0))
    assert (np.diff(choose_by_scores(members, y, Candidates(CODERS)).weights) > 0.02).all()


def test_with_few_rows_members_count_nearly_alike():
    def farthest_from_equal(n_rows, seed):
        members, y = made_up(n_rows, strengths=(1.0, 0.5, 0.0, 1.0), seed=seed)
        return np.abs(choose_by_scores(members, y, Candidates(CODERS)).weights - 0.25).max()

    few, many = ([farthest_from_equal(n, seed) for seed in range(10)] for n in (3, 300))
    assert np.mean(few) < 0.15 and np.mean(few) < 0.7 * np.mean(many)


def test_members_with_few_atoms_have_to_earn_their_weight():
    for seed in range(5):
        members, y = made_up(8, strengths=(1.0, 1.0, 1.0, 1.0), seed=seed)
        few = [m._replace(has_few_atoms=m.view == 3) for m in members]
        alike, pulled = (choose_by_scores(m, y, Candidates(CODERS)).weights for m in (members, few))
        assert pulled[3] < alike[3]
        better, true = made_up(2000, strengths=(0.2, 0.2, 0.2, 2.0), seed=seed)
        better = [m._replace(has_few_atoms=m.view == 3) for m in better]
        assert choose_by_scores(better, true, Candidates(CODERS)).weights.argmax() == 3
        all_few = [m._replace(has_few_atoms=True) for m in members]
        weights = choose_by_scores(all_few, y, Candidates(CODERS)).weights
        np.testing.assert_array_equal(weights, alike)


def test_members_of_one_view_have_the_same_coder_and_weight():
    members, y = made_up(strengths=(1.0, 0.2, 1.5, 0.1), n_folds=2)
    members = [member._replace(view=number % 2) for number, member in enumerate(members)]
    choice = choose_by_scores(members, y, Candidates(CODERS))
    np.testing.assert_array_equal(choice.weights[:2], choice.weights[2:])
    assert choice.coders[:2] == choice.coders[2:]


def test_each_view_with_many_rows_has_the_coder_that_is_best_for_it():
    members, y = made_up(4000, strengths=(1.0, 1.0))
    useless = np.random.default_rng(1).standard_normal(members[0].scores[0].shape)
    first = members[0]._replace(scores=[members[0].scores[0], useless])
    second = members[1]._replace(scores=[useless, members[1].scores[1]])
    for pair, best in (([first, second], CODERS), ([second, first], CODERS[::-1])):
        pair = [member._replace(view=number) for number, member in enumerate(pair)]
        assert choose_by_scores(pair, y, Candidates(CODERS)).coders == best
        shared = choose_by_scores(pair, y, Candidates(CODERS, shared=True)).coders
        assert shared[0] == shared[1]


def test_the_weighted_members_are_no_worse_than_equal_ones():
    members, y = made_up(2000, strengths=(0.2, 1.0, 0.0, 1.0))
    choice = choose_by_scores(members, y, Candidates(CODERS))
    scores = [m.scores[CODERS.index(c)] for m, c in zip(members, choice.coders, strict=True)]
    weighted, equal = np.tensordot(choice.weights, scores, 1), np.mean(scores, axis=0)
    best = log_loss(equal, y, fit_sharpness(equal, y))
    assert log_loss(weighted, y, 1 / choice.temperature) < 0.99 * best


def test_the_temperature_fits_the_rows_that_all_members_left_out():
    members, y = made_up(4000, strengths=(1.0, 1.5, 0.5))
    choice = choose_by_scores(members, y, Candidates(CODERS))
    scores = [m.scores[CODERS.index(c)] for m, c in zip(members, choice.coders, strict=True)]
    expected = 1 / fit_sharpness(np.tensordot(choice.weights, scores, 1), y)
    assert choice.temperature == pytest.approx(expected, rel=2e-3)
    assert choose_by_scores(members, y, Candidates(CODERS, calibrate=False)).temperature == 1.0


def test_scores_on_another_scale_have_another_temperature_and_the_same_weights():
    members, y = made_up(1000, strengths=(1.0, 0.5, 1.5))
    scaled = [m._replace(scores=[8.0 * s for s in m.scores]) for m in members]
    one, other = (choose_by_scores(m, y, Candidates(CODERS)) for m in (members, scaled))
    np.testing.assert_allclose(other.weights, one.weights, rtol=1e-3)
    assert other.temperature == pytest.approx(8.0 * one.temperature, rel=1e-3)
    assert other.coders == one.coders


def test_a_member_with_large_scores_does_not_drown_the_others():
    members, y = made_up(2000, strengths=(1.0, 1.0))
    loud = [members[0], members[1]._replace(scores=[100.0 * s for s in members[1].scores])]
    choice = choose_by_scores(loud, y, Candidates(CODERS))
    assert choice.weights[0] == pytest.approx(100 * choice.weights[1], rel=0.2)


# ----------------------------------------------------------------------------------- the coders


def two_coders(n_rows, losses, sharpness=None):
    """Results of so many rows for two coders and the views given."""
    losses = np.array(losses)
    sharpness = np.ones_like(losses) if sharpness is None else np.array(sharpness)
    mean = losses.mean(axis=0)
    return HeldOutChoice(
        CODERS, np.full(2, 0.5), mean, int(mean.argmin()), 1.0, n_rows, np.ones(2), losses,
        sharpness,
    )  # fmt: skip


LOSSES = [[0.5, 0.2], [0.2, 0.3], [0.6, 0.2]]  # the second view prefers the first coder


@pytest.mark.parametrize(("n_rows", "expected"), [(3, [1, 1, 1]), (30_000, [1, 0, 1])])
def test_a_view_with_few_rows_has_the_coder_of_all_and_with_many_its_own(n_rows, expected):
    index, _ = coders_of_views(two_coders(n_rows, LOSSES), shared=False)
    np.testing.assert_array_equal(index, expected)


def test_a_shared_coder_is_that_of_all_rows():
    index, _ = coders_of_views(two_coders(30_000, LOSSES), shared=True)
    np.testing.assert_array_equal(index, [1, 1, 1])


@pytest.mark.parametrize(("n_rows", "expected"), [(2, 1.0), (200, 3.0), (2_000_000, 9.0)])
def test_the_sharpness_of_a_view_is_drawn_to_that_of_all_rows(n_rows, expected):
    # 200 rows of two views are 100 each, which count as much as those of all members together.
    held_out = two_coders(n_rows, [[0.5, 0.2]] * 2, [[9.0, 9.0]] * 2)
    _, sharpness = coders_of_views(held_out, shared=False)
    np.testing.assert_allclose(sharpness, expected, rtol=0.03)


# ----------------------------------------------------------------------- groups and the sharpness


def test_members_are_grouped_by_the_rows_that_they_left_out():
    members, y = made_up(60, strengths=(1.0,) * 5, n_folds=2)
    groups = group_by_rows(members, [m.scores[0] for m in members], y)
    assert [group.members.tolist() for group in groups] == [[0, 2, 4], [1, 3]]
    for first, group in enumerate(groups):
        np.testing.assert_array_equal(group.class_of_row, y[first::2])
        np.testing.assert_array_equal(group.scores[1], members[first + 2].scores[0])


def noisy_groups(n_members, n_few, noise, n_rows=3000, seed=0):
    """Groups of few members with calibrated scores: the same for all, plus noise of each."""
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n_rows)
    common = np.eye(3)[y] + 0.7 * rng.standard_normal((n_rows, 3))
    own = common + noise * rng.standard_normal((n_members, n_rows, 3))
    own *= fit_sharpness(own.reshape(-1, 3), np.tile(y, n_members))
    half = n_rows // 2
    members = np.arange(n_members)
    few = [
        Group(members[:n_few], own[:n_few, :half], y[:half]),
        Group(members[-n_few:], own[-n_few:, half:], y[half:]),
    ]
    return few, Group(members, own, y)


def totals(groups, weights):
    """Weighted scores of the rows of all groups."""
    return np.concatenate([group.total(weights) for group in groups])


def sharpness_of_all(few, n_members):
    """The sharpness of all members by the rows that a few of them left out, and of these few."""
    ones = np.ones(n_members)
    results = ensemble_results(few, ones, totals(few, ones))
    return results.sharpness * growth(results, ones, few, n_members), results.sharpness


@pytest.mark.parametrize("noise", [0.0, 0.3, 0.6])
@pytest.mark.parametrize("n_few", [2, 4])
def test_the_sharpness_of_all_members_follows_from_that_of_a_few(noise, n_few):
    few, whole = noisy_groups(8, n_few, noise)
    expected = fit_sharpness(whole.total(np.ones(8)), whole.class_of_row)
    assert sharpness_of_all(few, 8)[0] == pytest.approx(expected, rel=0.12)


@pytest.mark.parametrize("n_few", [2, 4])
@pytest.mark.parametrize("noise", [0.0, 1.0, 5.0])
@pytest.mark.parametrize("seed", range(3))
def test_the_sharpness_grows_little_from_a_few_members_to_all(n_few, noise, seed):
    few, _ = noisy_groups(40, n_few, noise, n_rows=60, seed=seed)
    found, fitted = sharpness_of_all(few, 40)
    assert fitted <= found <= MOST_GROWTH * fitted * (1 + 1e-12)


def test_single_members_say_nothing_of_the_noise_of_a_mean():
    few, _ = noisy_groups(8, 1, 1.0)
    found, fitted = sharpness_of_all(few, 8)
    assert found == fitted


def test_the_results_of_an_ensemble_are_those_of_the_members_that_left_a_row_out():
    few, _ = noisy_groups(8, 2, 0.6)
    weights = np.linspace(0.5, 1.5, 8)
    scores = np.concatenate([np.tensordot(weights[g.members], g.scores, 1) / 2 for g in few])
    results = ensemble_results(few, weights, scores, bend=0.0)
    classes = np.concatenate([group.class_of_row for group in few])
    assert results.n_rows == len(classes)
    assert results.figures.accuracy == (scores.argmax(axis=1) == classes).mean()
    assert results.sharpness == pytest.approx(fit_sharpness(scores, classes), rel=1e-6)
    expected = pytest.approx(log_loss(scores, classes, results.sharpness))
    assert results.figures.log_loss == results.link.log_loss == expected


@pytest.mark.parametrize("bend", [0.0, 2.0])
def test_the_link_is_between_those_of_weights_chosen_by_the_same_rows_and_by_others(bend):
    few, _ = noisy_groups(8, 2, 0.6)
    weights = np.ones(8)
    classes = np.concatenate([group.class_of_row for group in few])
    by_others = 0.5 * totals(few, weights)
    links = [Link.fit(scores, classes, bend) for scores in (totals(few, weights), by_others)]
    found = ensemble_results(few, weights, by_others, bend).link
    assert found.sharpness == pytest.approx(np.sqrt(links[0].sharpness * links[1].sharpness))
    assert found.log_loss > links[1].log_loss
    assert found.bend == bend
    assert found.log_loss == log_loss(bent(by_others, bend), classes, found.sharpness)


def test_the_slope_of_the_loss_of_weights_is_right():
    """Weights found from any start of the scores lose no less when they are moved."""
    members, y = made_up(200, strengths=(1.0, 0.5, 0.2), n_folds=1)
    groups = group_by_rows(members, [m.scores[0] for m in members], y)
    views = np.arange(3)
    weights = fit_weights(groups, views)

    def loss(moved):
        off, smoothing = moved - moved.mean(), 1 / 201
        logs = groups[0].total(moved)
        logs = logs - np.log(np.exp(logs).sum(axis=1, keepdims=True))
        target = np.full((200, 3), smoothing / 3)
        target[np.arange(200), y] += 1 - smoothing
        return WEIGHT_PENALTY * off @ off - (target * logs).sum()

    for step in np.vstack([np.eye(3), -np.eye(3)]) * 0.01:
        assert loss(np.maximum(weights + step, 0)) >= loss(weights)


def groups_of_three_views(n_rows=60):
    """Groups of members in three views, the views of the members, and the classes of all rows."""
    members, y = made_up(n_rows, strengths=(1.0, 0.5, 0.2), n_folds=2)
    groups = group_by_rows(members, [m.scores[0] for m in members], y)
    views = np.array([m.view for m in members])
    return groups, views, np.concatenate([group.class_of_row for group in groups])


def by_others(groups, views, usual=None):
    """Scores of rows by weights that other rows have chosen."""
    return weighted_by_others(groups, views, usual, fit_weights(groups, views, usual))


@pytest.mark.parametrize("usual", [None, np.array([0.0, 0.0, 1.0])])
def test_a_row_is_scored_by_weights_that_it_has_not_chosen(usual):
    groups, views, _ = groups_of_three_views()
    found, parts = by_others(groups, views, usual), dealt(groups)
    part_of_row = np.argmax([np.concatenate(here) for here in parts], axis=0)
    for row in (0, 17, len(part_of_row) - 1):
        others = [g.only(~own) for g, own in zip(groups, parts[part_of_row[row]], strict=True)]
        expected = totals(groups, fit_weights(others, views, usual))[row]
        np.testing.assert_allclose(found[row], expected, rtol=1e-3, atol=1e-4)


def test_every_part_has_its_share_of_each_class_and_of_the_rows():
    groups, _, classes = groups_of_three_views()
    parts = [np.concatenate(here) for here in dealt(groups)]
    assert len(parts) == N_PARTS
    np.testing.assert_array_equal(np.sum(parts, axis=0), 1)
    assert np.ptp([here.sum() for here in parts]) <= 1
    for c in np.unique(classes):
        assert np.ptp([(classes[here] == c).sum() for here in parts]) <= 1


def test_the_names_of_the_classes_do_not_matter_for_the_parts():
    groups, views, classes = groups_of_three_views()
    assert classes[0] > classes.min()  # the order of first rows is another one
    new_name = np.arange(classes.max() + 1)[::-1]
    renamed = [g._replace(scores=g.scores[:, :, new_name], class_of_row=new_name[g.class_of_row])
               for g in groups]  # fmt: skip
    np.testing.assert_array_equal(dealt(groups)[0][0], dealt(renamed)[0][0])
    expected = by_others(groups, views)[:, new_name]
    np.testing.assert_allclose(by_others(renamed, views), expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("n_rows", [1, 2, 4])
def test_fewer_rows_than_parts_are_scored_by_the_others(n_rows):
    rng = np.random.default_rng(0)
    views = np.arange(3)
    groups = [Group(views, rng.standard_normal((3, n_rows, 2)), np.arange(n_rows) % 2)]
    assert len(dealt(groups)) == n_rows
    found = by_others(groups, views)
    assert found.shape == (n_rows, 2) and np.isfinite(found).all()


def test_parts_keep_the_weights_of_their_rows():
    groups, views, _ = groups_of_three_views()
    some = np.arange(len(groups[0].class_of_row)) % 3 > 0
    weighted = [g._replace(sample_weight=np.arange(1.0, 1 + len(g.class_of_row))) for g in groups]
    np.testing.assert_array_equal(weighted[0].only(some).sample_weight, 1 + np.flatnonzero(some))
    difference = by_others(weighted, views) - by_others(groups, views)
    assert np.abs(difference).max() > 1e-2


def test_views_without_information_seem_to_have_none():
    rng = np.random.default_rng(0)
    y, views = np.arange(100) % 2, np.arange(30)
    scores = rng.standard_normal((30, 100, 2))
    groups = [Group(views, scores, y)]
    weights = fit_weights(groups, views)
    assert accuracy_of(totals(groups, weights), y, None) > 0.6
    assert abs(accuracy_of(by_others(groups, views), y, None) - 0.5) < 0.1


@pytest.mark.parametrize("calibrate", [True, False])
def test_published_results_are_those_of_weights_that_other_rows_have_chosen(monkeypatch, calibrate):
    members, y = made_up(100, strengths=(0.0,) * 3)
    monkeypatch.setattr(choice_module, "weighted_by_others", lambda *_: 9.0 * np.eye(3)[y])
    found = choose_by_scores(members, y, Candidates(CODERS, calibrate=calibrate)).held_out
    assert found.ensemble_accuracy == found.ensemble_balanced_accuracy == 1
    assert found.ensemble_macro_f1 == 1 and found.ensemble_log_loss < 0.1


def test_the_noise_of_the_members_is_that_of_the_published_weights():
    few, _ = noisy_groups(8, 2, 0.6)
    weights = np.linspace(0.5, 1.5, 8)
    own = totals(few, weights)
    classes = np.concatenate([group.class_of_row for group in few])
    other = np.random.default_rng(0).standard_normal(own.shape)
    results = ensemble_results(few, weights, other)
    assert results.sharpness == pytest.approx(fit_sharpness(own, classes))
    assert results.link.sharpness < 0.1 * results.sharpness


def test_candidates_are_judged_on_all_threads_of_a_fit(monkeypatch):
    n_threads = []

    def watched(*given, real=choice_module.choose_coder):
        n_threads.append(given[-1])
        return real(*given)

    monkeypatch.setattr(choice_module, "choose_coder", watched)
    X, y = chance_rows(60)
    model = DBDLClassifier(n_chains=2, n_sweeps=1, n_initial_atoms=6, n_jobs=2, random_state=0)
    model.fit(X, y)
    clone(model).partial_fit(X, y)
    assert n_threads == [2, 2]


# ------------------------------------------------------------------------------------ over batches


def said(n_rows, losses, sharpness, accuracy=(0.5, 0.5)):
    """What so many held-out rows said of two coders, for members of one view."""
    best = int(np.argmin(losses))
    every = np.array(sharpness, dtype=float)
    return HeldOutChoice(
        coders=CODERS,
        accuracy=np.array(accuracy),
        log_loss=np.array(losses),
        best=best,
        sharpness=float(every[best]),
        n_rows=n_rows,
        every_sharpness=every,
        view_log_loss=np.array([losses]),
        view_sharpness=every[np.newaxis],
    )


def test_earlier_batches_count_half_in_the_pooled_choice():
    # 80 rows before count as 40, beside 40 rows now: plain means, of sharpness the geometric one
    pooled, share = pool(
        said(80, (0.2, 1.0), (1.0, 4.0), (1.0, 0.5)), said(40, (0.8, 0.1), (9.0, 16.0), (0.6, 0.9))
    )
    np.testing.assert_allclose(pooled.log_loss, [0.5, 0.55], rtol=1e-12)
    np.testing.assert_allclose(pooled.accuracy, [0.8, 0.7], rtol=1e-12)
    np.testing.assert_allclose(pooled.every_sharpness, [3.0, 8.0], rtol=1e-12)
    np.testing.assert_allclose(pooled.view_log_loss, [[0.5, 0.55]], rtol=1e-12)
    np.testing.assert_allclose(pooled.view_sharpness, [[3.0, 8.0]], rtol=1e-12)
    assert (pooled.n_rows, pooled.best, share) == (80, 0, 0.5)
    assert pooled.sharpness == pooled.every_sharpness[0]


def test_a_batch_outweighs_a_longer_one_before_it_whose_rows_count_half():
    # 60 rows count as 30: the 40 rows now decide, which they would not if all counted in full
    before, now = said(60, (0.2, 0.3), (1.0, 1.0)), said(40, (0.3, 0.2), (1.0, 1.0))
    assert pool(before, now)[0].best == 1


def test_what_a_batch_said_counts_half_again_with_every_batch_after_it():
    first, later = said(64, (1.0, 0.0), (1.0, 1.0)), said(16, (0.0, 0.0), (1.0, 1.0))
    pooled = first
    for _ in range(3):
        pooled, _ = pool(pooled, later)
    # 64 -> 8, and three times 16 count 16 + 8 + 4
    assert pooled.n_rows == 8 + 28
    assert pooled.log_loss[0] == pytest.approx(8 / 36)


def test_of_other_coders_or_views_nothing_is_known():
    one = said(10, (1.0, 2.0), (1.0, 1.0))
    coders = replace(one, coders=(Forward(1), Orthogonal(2)))
    views = replace(one, view_log_loss=np.ones((2, 2)), view_sharpness=np.ones((2, 2)))
    for other in (coders, views):
        assert pool(other, one) == (one, 1.0)


def test_weights_and_the_temperature_are_pooled_too():
    (first, y), (second, z) = made_up(100, seed=0), made_up(300, strengths=(0.0, 1, 2), seed=1)
    candidates = Candidates(CODERS)
    before, now = (choose_by_scores(*given, candidates) for given in ((first, y), (second, z)))
    pooled = choose_by_scores(second, z, candidates, before)
    share = 300 / 350
    lower, upper = np.sort([before.weights, now.weights], axis=0)
    assert ((pooled.weights >= lower - 0.1) & (pooled.weights <= upper + 0.1)).all()
    assert pooled.weights.sum() == pytest.approx(1, abs=1e-12)
    assert abs(pooled.weights - now.weights).max() < abs(before.weights - now.weights).max()
    assert pooled.held_out.n_rows == 3 * 300 + 3 * 100 / 2
    expected = now.temperature**share * before.temperature ** (1 - share)
    assert pooled.temperature == pytest.approx(expected, rel=0.1)


def test_results_of_ensembles_are_pooled_too():
    (first, y), (second, z) = made_up(200, seed=0), made_up(300, seed=1)
    candidates = Candidates(CODERS)
    before = choose_by_scores(first, y, candidates)
    pooled = choose_by_scores(second, z, candidates, before)
    assert before.held_out.ensemble_accuracy == before.accuracy
    assert before.held_out.ensemble_log_loss == before.log_loss
    half, old = Figures(0.5, 0.5, 0.5, 0.5), before.held_out.ensemble
    assert all(0.3 < value < 1 for value in (old.balanced_accuracy, old.macro_f1))
    np.testing.assert_allclose(half.pooled(old, 0.75), 0.75 * 0.5 + 0.25 * np.array(old))
    assert half.pooled(None, 0.75) == half
    assert (before.n_rows, pooled.n_rows) == (200, 300)  # each row once, whatever scores it
    for name in ("accuracy", "log_loss"):  # 200 rows count as 100, beside 300
        expected = 0.75 * getattr(pooled, name) + 0.25 * getattr(before, name)
        assert getattr(pooled.held_out, f"ensemble_{name}") == pytest.approx(expected)


def test_a_choice_before_without_rows_does_not_count():
    members, y = made_up()
    candidates = Candidates(CODERS)
    before = without_rows(candidates, len(members))
    now, found = (choose_by_scores(members, y, candidates, b) for b in (None, before))
    np.testing.assert_array_equal(found.weights, now.weights)
    assert found.temperature == now.temperature


def test_the_results_of_every_candidate_are_those_of_the_rows_left_out():
    members, y = made_up(strengths=(1.0, 0.5), n_folds=2)
    found = choose_by_scores(members, y, Candidates(CODERS)).held_out
    expected = choose_coder(CODERS, [m.scores for m in members], [y[m.rows] for m in members])
    np.testing.assert_array_equal(found.log_loss, expected.log_loss)
    np.testing.assert_array_equal(found.view_log_loss, expected.view_log_loss)
