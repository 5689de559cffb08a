"""Pilot chains choose on rows that they never saw, appear in the progress, and can be resumed."""

from __future__ import annotations

import numpy as np
import pytest

from dbdl import DBDLClassifier
from dbdl.backends.crew import Crew
from dbdl.coding import Forward, Orthogonal, PreparedAtoms
from dbdl.learn.chain import ChainSettings
from dbdl.learn.journal import Journal
from dbdl.learn.pilots import Candidates, choose, pilots_of, score_left_out_rows
from dbdl.learn.problem import LabelSettings, Problem

QUICK = {"n_sweeps": 3, "n_chains": 1, "random_state": 0}


def chance_rows(n_rows=160, n_features=12, n_classes=2, seed=0):
    """Rows that say nothing of their labels: no method does better than chance on new ones."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_features))
    return X / np.linalg.norm(X, axis=1, keepdims=True), np.arange(n_rows) % n_classes


def make_problem(X, y, n_chains=1, kind="ridge"):
    settings = ChainSettings(n_sweeps=3)
    return Problem(X, y, int(y.max()) + 1, settings, LabelSettings(kind), n_chains)


# -------------------------------------------------------------------------------- what is left out


def test_chains_that_score_a_row_are_never_given_it():
    X, y = chance_rows(60)
    problem, given = make_problem(X, y, n_chains=2), []

    def learn(pilot, backend, journal):
        rows = pilot.fold.learn
        given.append(rows)
        # a label atom for each row, found by the row alone: scores show who was learned from
        return PreparedAtoms(X[rows]), [np.eye(2)[y[rows]]]

    scores, classes = score_left_out_rows(
        problem, pilots_of(problem), [Forward(2)], learn, Crew(), Journal()
    )
    assert len(classes) == len(scores[0]) == 60
    assert len(given) == 10  # two chains for each of five folds
    left_out = [np.setdiff1d(np.arange(60), rows) for rows in given[::2]]
    np.testing.assert_array_equal(np.sort(np.concatenate(left_out)), np.arange(60))
    np.testing.assert_array_equal(classes, y[np.concatenate(left_out)])


@pytest.mark.parametrize("kind", ["ridge", "recoded", "gibbs", "joint"])
def test_labels_that_follow_no_rule_are_guessed_by_chance_on_rows_left_out(kind):
    # Right by chance: 80 of 160 with a standard deviation of 6.3. Rows that were learned from are
    # atoms of their own and would nearly all be right.
    X, y = chance_rows()
    coders = [Forward(1), Orthogonal(3)]
    choice = choose(make_problem(X, y, kind=kind), Candidates(coders), Crew(), Journal()).held_out
    assert choice.n_rows == 160
    assert (choice.accuracy < 0.5 + 4.5 * 0.5 / np.sqrt(160)).all()
    # and no sharpness makes guesses much better than saying that both classes are as likely
    assert choice.log_loss.min() > 0.9 * np.log(2)


def test_a_classifier_is_not_sure_of_labels_that_follow_no_rule():
    X, y = chance_rows(200)
    model = DBDLClassifier(n_nonzero=2, **QUICK).fit(X[:160], y[:160])
    assert model.held_out_.accuracy.max() < 0.5 + 4.5 * 0.5 / np.sqrt(160)
    probability = model.predict_proba(X[160:]).max(axis=1)
    assert probability.mean() < 0.75


def test_a_batch_is_scored_before_it_is_learned():
    X, y = chance_rows(240)
    model = DBDLClassifier(n_nonzero=2, **QUICK)
    model.partial_fit(X[:80], y[:80])
    first = model.held_out_.accuracy
    model.partial_fit(X[80:], y[80:])
    # the first batch counts 40 rows beside the 160 of the second
    own = (model.held_out_.accuracy * 200 - first * 40) / 160
    assert own.max() < 0.5 + 4.5 * 0.5 / np.sqrt(160)


def test_rows_of_new_classes_are_scored_by_chains_that_never_saw_them():
    X, y = chance_rows(240, n_classes=4)
    model = DBDLClassifier(n_nonzero=2, **QUICK)
    old = y[:80] < 2
    model.partial_fit(X[:80][old], y[:80][old])
    first, n_first = model.held_out_.accuracy, old.sum() / 2
    model.partial_fit(X[80:], y[80:])
    n_rows = model.held_out_.n_rows
    own = (model.held_out_.accuracy * n_rows - first * n_first) / (n_rows - n_first)
    assert n_rows == n_first + 160
    assert own.max() < 0.25 + 4.5 * np.sqrt(0.25 * 0.75 / 160)


def test_the_temperature_is_one_over_the_chosen_sharpness():
    X, y = chance_rows(60)
    model = DBDLClassifier(n_nonzero=2, **QUICK).fit(X, y)
    assert model.temperature_ == 1.0 / model.held_out_.sharpness
