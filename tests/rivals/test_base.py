"""The temperature of a rival's probabilities is fitted on rows that its second fit did not see."""

from __future__ import annotations

import numpy as np

from dbdl.rivals._base import Lesson, fit_temperature
from dbdl.rivals.crc import CRCClassifier


class Recorded:
    """A model that has no idea, and remembers the rows that it learned from and scored."""

    def __init__(self, lesson):
        self.learned, self.scored = lesson.X, None

    def scores(self, X, n_threads=1):
        self.scored = X
        return np.random.default_rng(0).standard_normal((len(X), 2))


def chance_rows(n_rows=100):
    """Rows that say nothing of their labels."""
    return np.random.default_rng(0).standard_normal((n_rows, 6)), np.arange(n_rows) % 2


def test_the_rows_that_are_scored_were_not_learned_from():
    X, y = chance_rows()
    models = []

    def learn(lesson):
        models.append(Recorded(lesson))
        return models[-1]

    fit_temperature(learn, Lesson(X, y, 2))
    (model,) = models
    assert (len(model.learned), len(model.scored)) == (80, 20)
    both = np.concatenate([model.learned, model.scored])
    np.testing.assert_array_equal(np.unique(both, axis=0), np.unique(X, axis=0))


def test_labels_that_follow_no_rule_are_not_predicted_with_certainty():
    X, y = chance_rows(200)
    model = CRCClassifier(random_state=0).fit(X[:160], y[:160])
    probability = model.predict_proba(X[160:])[np.arange(40), y[160:]]
    # the loss of a coin is log 2
    assert -np.log(probability).mean() < 1.5 * np.log(2)


def test_without_a_row_to_leave_out_the_temperature_is_one():
    assert fit_temperature(Recorded, Lesson(*chance_rows(2), 2)) == 1.0
