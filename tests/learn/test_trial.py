"""A single chain has the view that suits its rows."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_iris

from dbdl import DBDLClassifier
from dbdl.backends.crew import Crew
from dbdl.coding import Forward
from dbdl.estimators import _base, classifier
from dbdl.learn import trial
from dbdl.learn.chain import ChainSettings
from dbdl.learn.choice import Candidates, LeftOut
from dbdl.learn.problem import LabelSettings, Problem
from dbdl.learn.trial import best_view, first_good
from dbdl.views import View, make_views

CANDIDATES = Candidates([Forward(2), Forward(5)])
VIEW = View(constant=True)


def rows_of_two_sizes(n_rows=200):
    """Rows of the same direction whose classes differ by their size alone."""
    rng = np.random.default_rng(0)
    y = np.arange(n_rows) % 2
    X = (1.0 + y)[:, np.newaxis] * np.ones(4) + 0.05 * rng.standard_normal((n_rows, 4))
    return X, y


def make_problem(X, y, views, **settings):
    n_classes = int(y.max()) + 1
    return Problem(X, y, n_classes, ChainSettings(**settings), LabelSettings(), views=views)


def chosen(X, y, names, coders=CANDIDATES.coders, **settings):
    problem = make_problem(X, y, make_views(names), **settings)
    return best_view(problem, Candidates(coders), Crew()).name


def test_a_view_that_cannot_tell_the_classes_apart_is_not_chosen():
    X, y = rows_of_two_sizes()
    names = ["unit standardised + constant", "plain", "standardised + constant"]
    assert chosen(X, y, names) == "standardised + constant"
    assert chosen(X[:60], y[:60], names) == "standardised + constant"  # asked fold by fold


def test_of_views_that_are_equally_good_the_first_is_chosen():
    X, y = rows_of_two_sizes()
    names = ["plain + constant", "few atoms of plain + constant"]
    assert chosen(X, y, names) == names[0]
    assert chosen(X, y, names[::-1]) == names[1]


def test_one_chain_with_automatic_views_sees_the_size_of_rows():
    X, y = rows_of_two_sizes()
    model = DBDLClassifier(n_chains=1, random_state=0).fit(X, y)
    assert model.score(*rows_of_two_sizes(100)) > 0.95
    assert not model.chains_[0].view.name.startswith(("unit ", "kernel of unit "))


def test_a_view_that_the_user_names_is_not_put_to_the_test(monkeypatch):
    monkeypatch.delattr(trial, "learn_members")
    X, y = rows_of_two_sizes()
    model = DBDLClassifier(n_chains=1, views=["plain", "centred"], random_state=0).fit(X, y)
    assert model.chains_[0].view.name == "plain"


def test_several_chains_are_learned_without_trials(monkeypatch):
    monkeypatch.delattr(trial, "learn_members")
    X, y = rows_of_two_sizes()
    DBDLClassifier(n_chains=2, n_sweeps=1, random_state=0).fit(X, y)


@pytest.fixture
def tried(monkeypatch):
    """The problem, coders and share of every chain of the trials, in a list."""
    seen = []

    def watched(problem, shares, coders, *others, real=trial.learn_members):
        seen.extend((problem, coders, share) for share in shares)
        return real(problem, shares, coders, *others)

    monkeypatch.setattr(trial, "learn_members", watched)
    return seen


@pytest.mark.parametrize(("n_rows", "n_folds"), [(40, 5), (300, 3), (5000, 1)])
def test_rows_that_are_asked_were_not_learned(tried, n_rows, n_folds):
    X, y = rows_of_two_sizes(n_rows)
    chosen(X, y, ["plain", "plain + constant"], n_initial_atoms=30, n_draws=2)
    assert len(tried) == 2 * n_folds
    for problem, _, share in tried:
        learn, held_out = share.fold
        assert not np.intersect1d(learn, held_out).size
        assert len(learn) <= 600 and len(held_out) <= 300
        assert np.ptp(np.bincount(problem.class_of_row[learn])) <= 1
        assert problem.settings.n_sweeps == 1 and problem.settings.n_draws == 0
        assert np.isin(problem.X[:, 0], X[:, 0]).all()


def test_a_trial_has_as_many_atoms_per_row_as_the_fit(tried):
    X, y = rows_of_two_sizes(5000)
    for settings, expected in (
        ({"n_initial_atoms": 500}, 60),
        ({"n_initial_atoms": 20}, 4),
        ({"n_initial_atoms": 3}, 3),
        ({"n_initial_atoms": 500, "initial_atoms": X[:90]}, 90),
        ({}, None),
    ):
        tried.clear()
        chosen(X, y, ["plain", "plain + constant"], **settings)
        assert {problem.settings.n_initial_atoms for problem, *_ in tried} == {expected}


def test_long_codes_are_not_tried(tried):
    X, y = rows_of_two_sizes(60)
    for wanted, expected in (
        ([Forward(5), Forward(40)], [Forward(5)]),
        ([Forward(40), Forward(30)], [Forward(30)]),
    ):
        tried.clear()
        chosen(X, y, ["plain", "plain + constant"], coders=wanted)
        assert all(coders == expected for _, coders, _ in tried)


def test_a_trial_keeps_the_weights_of_the_rows(tried):
    X, y = rows_of_two_sizes(60)
    weights = np.linspace(0.5, 1.5, 60)
    problem = replace(make_problem(X, y, make_views(["plain", "centred"])), sample_weight=weights)
    best_view(problem, CANDIDATES, Crew())
    np.testing.assert_array_equal(tried[0][0].sample_weight, weights)


def test_the_rows_of_trials_do_not_depend_on_the_seed(tried):
    X, y = rows_of_two_sizes(5000)
    problem = make_problem(X, y, make_views(["plain", "plain + constant"]))
    for seed in (0, 1):
        best_view(replace(problem, seed=seed), CANDIDATES, Crew())
    np.testing.assert_array_equal(tried[0][0].X, tried[-1][0].X)


def test_trials_of_rows_on_a_cluster_are_made_here():
    problem = make_problem(*rows_of_two_sizes(60), make_views(["plain", "plain + constant"]))
    crew = Crew(engine=object())  # which cannot do anything
    assert best_view(problem, CANDIDATES, crew).name == "plain + constant"


def test_one_view_is_not_tried(monkeypatch):
    monkeypatch.delattr(trial, "learn_members")
    assert chosen(*rows_of_two_sizes(), ["centred"]) == "centred"


def test_rows_of_one_class_are_not_tried(monkeypatch):
    monkeypatch.delattr(trial, "learn_members")
    X, y = rows_of_two_sizes()
    DBDLClassifier(n_chains=1, n_sweeps=1, random_state=0).partial_fit(X[::2], y[::2])


def test_later_batches_keep_the_view_of_the_first(tried):
    X, y = rows_of_two_sizes()
    model = DBDLClassifier(n_chains=1, n_sweeps=1, random_state=0).partial_fit(X[:120], y[:120])
    n_tried, view = len(tried), model.chains_[0].view
    assert n_tried > 0 and model.partial_fit(X[120:], y[120:]).score(X, y) > 0.95
    assert len(tried) == n_tried and model.chains_[0].view is view


# ------------------------------------------------------------------------------- the first good


def first_of(*strengths, n_rows=400, weights=None, n_folds=1):
    """The first good view; of each view, how far the true class is ahead, by coder and by row."""
    y = np.arange(n_rows) % 2
    noise = np.random.default_rng(0).standard_normal((2, n_rows, 2))
    of_view = []
    for number, by_coder in enumerate(strengths):
        scores = [
            np.broadcast_to(strength, n_rows)[:, np.newaxis] * np.eye(2)[y] + own
            for strength, own in zip(by_coder, noise, strict=True)
        ]
        rows = [np.arange(fold, n_rows, n_folds) for fold in range(n_folds)]
        of_view.append([LeftOut(own, [s[own] for s in scores], number) for own in rows])
    problem = Problem(np.ones((n_rows, 1)), y, 2, ChainSettings(), LabelSettings())
    return first_good(of_view, replace(problem, sample_weight=weights), CANDIDATES)


def test_a_view_is_judged_by_its_best_coder():
    assert first_of((0, 5), (1, 1)) == 0
    assert first_of((1, 1), (0, 5)) == first_of((1, 1), (0, 5), n_folds=3) == 1


def test_a_view_that_is_a_little_worse_by_chance_is_taken_if_it_is_the_first():
    assert first_of((2, 2), (2.01, 2)) == 0
    assert first_of((2, 2), (2.5, 2)) == 1


def test_the_size_of_scores_does_not_matter():
    rng, y = np.random.default_rng(0), np.arange(100) % 2
    good, poor = (a * np.eye(2)[y] + rng.standard_normal((100, 2)) for a in (4, 1))
    problem = Problem(np.ones((100, 1)), y, 2, ChainSettings(), LabelSettings())
    of_view = [
        [LeftOut(np.arange(100), [scores] * 2, view)]
        for view, scores in enumerate((poor, 1e-3 * good))
    ]
    assert first_good(of_view, problem, CANDIDATES) == 1


def test_rows_count_by_their_weights():
    first_half = np.arange(400) < 200
    here, there = np.where(first_half, 4.0, 0.0), np.where(first_half, 0.0, 3.0)
    assert first_of((here, here), (there, there)) == 0
    weights = np.where(first_half, 0.1, 1.9)
    assert first_of((here, here), (there, there), weights=weights) == 1


# ---------------------------------------------------------------------------- in an estimator


def test_a_fit_is_resumed_in_the_view_of_its_own_trials(tmp_path):
    X, y = load_iris(return_X_y=True)  # on which trials with other seeds find other views

    def fit(seed, **saved):
        own = np.random.RandomState(seed)  # the seed of the earlier fit is kept
        return DBDLClassifier(n_chains=1, n_sweeps=1, random_state=own, **saved).fit(X, y)

    first, other = fit(3, checkpoint=tmp_path), fit(4)
    assert first.chains_[0].view.name != other.chains_[0].view.name
    resumed = fit(4, checkpoint=tmp_path)
    assert resumed.chains_[0].view.name == first.chains_[0].view.name
    np.testing.assert_array_equal(resumed.decision_function(X), first.decision_function(X))


def test_kernels_are_compiled_with_a_message_before_the_trials(monkeypatch):
    done = []
    monkeypatch.setattr(_base, "compile_kernels", lambda *_: done.append("compiled"))
    monkeypatch.setattr(classifier, "best_view", lambda problem, *_: done.append("tried") or VIEW)
    X, y = rows_of_two_sizes()
    for name in ("fit", "partial_fit"):
        done.clear()
        getattr(DBDLClassifier(n_chains=1, n_sweeps=1, random_state=0), name)(X, y)
        assert done == ["compiled", "tried"]


def test_too_few_rows_keep_the_first_view():
    X, y = np.eye(4), np.arange(4)  # one row per class, which is never held out
    assert chosen(X, y, ["plain", "plain + constant"]) == "plain"
