"""Rows that a classifier has not seen, which say when to refuse an answer and how many to give.

Both guarantees hold for any classifier, and assume only that these rows and new ones come
independently from one distribution:

- A prediction set contains the true class with at least the wanted probability (split conformal
  prediction; Vovk et al., 2005). Its score is the probability of the true class (Sadinle et al.,
  2019), which gives the smallest sets on average.
- Among accepted rows, the error rate is at most the wanted one, with a given confidence. A few
  thresholds are tested by binomial tails, the limits of Clopper and Pearson, and the least strict
  one that passes is taken. Each has its share of the error probability (Bonferroni), so the bound
  holds after the choice.

Rows with weights are thinned first: a row is kept with a probability of its weight over the largest
one. Those that are left are independent draws from the weighted distribution, so both guarantees
hold for new rows from it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr

from dbdl._warnings import warn_caller
from dbdl.draws import Site, make_key, uniforms
from dbdl.model.record import Record
from dbdl.model.statistics import Weights
from dbdl.model.trust import Array, reals

#: One threshold is tested per `ROWS_PER_TEST` rows, and at most `MOST_TESTS`: with more tests, each
#: needs more rows to pass, but the threshold comes closer to the best one.
ROWS_PER_TEST, MOST_TESTS = 40, 20

#: Probability with which an error rate is kept, unless another is asked for.
CONFIDENCE = 0.95

#: Draws that thin rows do not depend on any model.
THINNING_KEY = make_key(0)

Probability = Annotated[NDArray[np.float64], reals("n_rows", least=0, some=True)]


def thinned(n_rows: int, sample_weight: Weights) -> NDArray[np.int64]:
    """Numbers of the rows that are kept, each with a probability in proportion to its weight."""
    if sample_weight is None:
        return np.arange(n_rows)
    draw = uniforms(THINNING_KEY, Site.THINNING, np.arange(n_rows), 0)
    return np.flatnonzero(draw < sample_weight / sample_weight.max())


@dataclass(frozen=True)
class UnseenRows(Record):
    """Answers to rows that a classifier has not seen.

    Attributes
    ----------
    true_probability : ndarray of shape (n_rows,)
        Probability of the true class.
    top_probability : ndarray of shape (n_rows,)
        Probability of the most probable class.
    correct : ndarray of bool of shape (n_rows,)
        Whether the true class is predicted.
    """

    true_probability: Probability
    top_probability: Probability
    correct: Annotated[NDArray[np.bool_], Array(("n_rows",), (np.bool_,))]

    def faults(self) -> Iterator[str]:
        """Report probabilities that contradict each other."""
        if self.top_probability.max() > 1:
            yield "top_probability has entries above 1"
        if (self.true_probability > self.top_probability).any():
            yield "true_probability has entries above top_probability"

    def threshold_of_sets(self, coverage: float) -> float:
        """Probability that a class needs to be in a set; 0 if there are too few rows for any.

        Classes with exactly this probability are in the set, so ties only enlarge it.
        """
        n_rows = len(self.true_probability)
        n_covered = max(math.ceil(coverage * (n_rows + 1) - 1e-9), 1)  # less rounding errors
        rank = n_rows + 1 - n_covered
        return float(np.sort(self.true_probability)[rank - 1]) if rank > 0 else 0.0

    def threshold_of_acceptance(self, max_error: float, confidence: float) -> float:
        """Probability above which a row is accepted; infinite if no threshold passes its test.

        Every test has a number of rows above its threshold that is fixed in advance. Given the row
        whose probability is the threshold, the rows above it are independent draws of accepted
        rows, so their number of errors is binomial. Rows with exactly this probability are refused,
        so ties do no harm.
        """
        n_rows = len(self.correct)
        n_tests = self._n_tests
        level = (1 - confidence) / n_tests
        least = self._least_rows(max_error, confidence)
        descending = np.append(np.sort(self.top_probability)[::-1], -np.inf)
        if least > n_rows:
            return np.inf
        for n_accepted in np.linspace(n_rows, math.ceil(least), n_tests).round().astype(int):
            threshold = float(descending[n_accepted])
            accepted = self.top_probability > threshold
            n_errors = int((accepted & ~self.correct).sum())
            if bdtr(n_errors, int(accepted.sum()), max_error) <= level:
                return threshold
        return np.inf

    def why_all_are_refused(self, max_error: float, confidence: float) -> str:
        """Say why no threshold passes its test, and which error rate could be promised."""
        n_rows, n_wrong = len(self.correct), int((~self.correct).sum())
        said = (
            f"Every row is refused: at most {max_error:g} of the answers wrong cannot be promised. "
            f"This was measured on {n_rows} rows, of which {n_wrong} got a wrong answer"
        )
        if (least := self._least_rows(max_error, confidence)) > n_rows:
            said += f"; at least {np.ceil(least):,.0f} rows are needed even if none does"
        shares = (percent / 100 for percent in range(1, 100))
        passing = (e for e in shares if self.threshold_of_acceptance(e, confidence) < np.inf)
        if (possible := next(passing, None)) is not None:
            said += f". The least that these rows can promise is about {possible}"
        return f"{said}. Allow more errors, or measure them on more rows."

    @property
    def _n_tests(self) -> int:
        return min(max(len(self.correct) // ROWS_PER_TEST, 1), MOST_TESTS)

    def _least_rows(self, max_error: float, confidence: float) -> float:
        """Number of rows that pass a test if none of them is wrong."""
        return math.log((1 - confidence) / self._n_tests) / math.log1p(-max_error)


def highest_refused(measured: UnseenRows, max_error: float, confidence: float) -> float:
    """Return the highest probability that is refused; with a warning if it is infinite."""
    threshold = measured.threshold_of_acceptance(max_error, confidence)
    if threshold == np.inf:
        warn_caller(measured.why_all_are_refused(max_error, confidence))
    return threshold
