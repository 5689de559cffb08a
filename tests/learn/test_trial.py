"""A single chain has the view that suits its rows."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

from dbdl import DBDLClassifier
from dbdl.backends.crew import Crew
from dbdl.coding import Forward
from dbdl.estimators import _base, classifier
from dbdl.learn import trial
from dbdl.learn.chain import ChainSettings
from dbdl.learn.choice import Candidates
from dbdl.learn.problem import LabelSettings, Problem
from dbdl.learn.trial import best_view
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


def chosen(X, y, names, **settings):
    views = make_views(names)
    return best_view(make_problem(X, y, views, **settings), CANDIDATES, Crew()).name


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


@pytest.mark.parametrize("n_rows", [40, 300, 5000])
def test_rows_that_are_asked_were_not_learned(monkeypatch, n_rows):
    seen = []

    def watched(problem, shares, *others, real=trial.learn_members):
        seen.extend((problem, share.fold) for share in shares)
        return real(problem, shares, *others)

    monkeypatch.setattr(trial, "learn_members", watched)
    X, y = rows_of_two_sizes(n_rows)
    chosen(X, y, ["plain", "plain + constant"], n_initial_atoms=30)
    for problem, fold in seen:
        assert not np.intersect1d(fold.learn, fold.held_out).size
        assert len(fold.learn) <= 600 and len(fold.held_out) <= 300
        assert np.ptp(np.bincount(problem.class_of_row[fold.learn])) <= 1
        assert problem.settings.n_sweeps == 1 and problem.settings.n_initial_atoms <= 30
        assert np.isin(problem.X[:, 0], X[:, 0]).all()


def test_a_fit_is_resumed_in_the_view_of_its_own_trials(tmp_path):
    X, y = load_iris(return_X_y=True)  # on which trials with other seeds find other views

    def fit(seed, **saved):
        own = np.random.RandomState(seed)  # the seed of the earlier fit is kept
        return DBDLClassifier(n_chains=1, n_sweeps=1, random_state=own, **saved).fit(X, y)

    first = [fit(seed, checkpoint=tmp_path / str(seed)) for seed in range(6)]
    resumed = [fit(100, checkpoint=tmp_path / str(seed)) for seed in range(6)]
    assert len({model.chains_[0].view.name for model in first}) > 1
    for one, other in zip(first, resumed, strict=True):
        assert one.chains_[0].view.name == other.chains_[0].view.name
        np.testing.assert_array_equal(one.decision_function(X), other.decision_function(X))


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
