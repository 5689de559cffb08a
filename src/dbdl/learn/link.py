"""The link from scores to probabilities: a softmax, maybe of scores that are bent first.

Label atoms are a ridge regression of the labels, so a score is close to the probability of its
class and not to the logarithm of that. The softmax of scores treats the step from 0.1 to 0.2 like
that from 0.8 to 0.9. Where many classes are nearly excluded, the first step says much more, and no
temperature gives probabilities that are right. The bent score asinh(c s) / c is linear near 0 and
logarithmic beyond 1 / c. It grows with the score, so no decision depends on it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dbdl.learn.held_out import Scores, fit_sharpness, log_loss, total_weight
from dbdl.model.state import Classes
from dbdl.model.statistics import Weights

#: Bends to try, in units of one over the standard deviation of the scores.
BENDS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
#: Difference of two values of Schwarz's criterion that counts as strong evidence for one more
#: parameter, by the scale of Kass and Raftery (1995).
STRONG_EVIDENCE = 6.0


class Link(NamedTuple):
    """A bend of scores, and the sharpness and the log-loss of rows left out that belong to it."""

    bend: float
    sharpness: float
    log_loss: float

    @classmethod
    def fit(
        cls, scores: Scores, class_of_row: Classes, bend: float, sample_weight: Weights = None
    ) -> Link:
        """Fit the sharpness of bent scores."""
        scores = bent(scores, bend)
        sharpness = fit_sharpness(scores, class_of_row, sample_weight)
        return cls(bend, sharpness, log_loss(scores, class_of_row, sharpness, sample_weight))


def bent(scores: Scores, bend: float) -> Scores:
    """Return asinh(bend * scores) / bend; the scores themselves if bend is 0."""
    return np.arcsinh(bend * scores) / bend if bend else scores


def choose_link(scores: Scores, class_of_row: Classes, sample_weight: Weights = None) -> Link:
    """Choose the bend of scores (n_rows, n_classes) of rows left out, by their log-loss.

    Scores are bent if the rows are strong evidence for that by the criterion of Schwarz, in which
    one more parameter costs the logarithm of the number of rows, and a nat of the log-loss counts
    twice. With two classes only the difference of the scores is published, and it is not bent.
    """
    straight = Link.fit(scores, class_of_row, 0.0, sample_weight)
    if scores.shape[1] <= 2:
        return straight
    spread = float(scores.std()) or 1.0
    best = min(
        (Link.fit(scores, class_of_row, unit / spread, sample_weight) for unit in BENDS),
        key=lambda link: link.log_loss,
    )
    n_rows = total_weight(len(scores), sample_weight)
    evidence = 2 * n_rows * (straight.log_loss - best.log_loss) - np.log(n_rows)
    return best if evidence > STRONG_EVIDENCE else straight
