"""An ensemble and the two rounds in which its members are learned.

In the first round all views have members. The rows left out weigh the views, and those that earn a
weight have further members in the second round. The other views are left out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dbdl.learn.choice import Candidates, Choice, choose
from dbdl.learn.members import LearnedMember
from dbdl.learn.problem import Problem, Share

#: Views whose weight is a smaller share of that of the best view are not worth their time.
LEAST_WEIGHT = 0.25


@dataclass(frozen=True)
class Ensemble:
    """Learned members, and the choice for them."""

    problem: Problem
    members: list[LearnedMember]
    choice: Choice

    @classmethod
    def of(cls, problem: Problem, members: list[LearnedMember], candidates: Candidates) -> Self:
        """Choose coders, weights and the temperature for members."""
        classes, weight = problem.class_of_row, problem.sample_weight
        choice = choose(members, classes, candidates, weight)
        return cls(problem, members, choice)

    @cached_property
    def strong_views(self) -> set[int]:
        """Numbers of the views that have earned a weight; of all if no row was left out."""
        if self.choice.held_out is None:
            return set(self._views.tolist())
        shares = np.bincount(self._views, self.choice.weights)
        return set(np.flatnonzero(shares >= LEAST_WEIGHT * shares.max()).tolist())

    def further_shares(self) -> list[Share]:
        """List the shares of the second round."""
        return self.problem.further_shares(self.strong_views)

    def with_members(self, more: list[LearnedMember], candidates: Candidates) -> Ensemble:
        """Return the ensemble after the second round, without weak views."""
        if self.problem.rounds is None:
            return self
        if not more:
            return self.without_weak_views()
        strong = [m for m in self.members if m.share.view_number in self.strong_views]
        whole = Ensemble.of(self.problem, strong + more, candidates)
        return whole.without_weak_views()

    def without_weak_views(self) -> Ensemble:
        """Return the members of the strong views; their weights add up to 1 again."""
        strong, choice = list(self.strong_views), self.choice
        kept = np.flatnonzero(np.isin(self._views, strong)).tolist()
        weights, held_out = choice.weights[kept], choice.held_out
        if held_out is not None:
            some = np.isin(np.unique(self._views), strong)
            losses, sharpness = held_out.view_log_loss[some], held_out.view_sharpness[some]
            held_out = replace(held_out, view_log_loss=losses, view_sharpness=sharpness)
        choice = replace(
            choice,
            coders=tuple(choice.coders[j] for j in kept),
            weights=weights / weights.sum(),
            held_out=held_out,
        )
        return Ensemble(self.problem, [self.members[j] for j in kept], choice)

    @property
    def _views(self) -> NDArray[np.int64]:
        """Number of the view of each member."""
        return np.array([member.share.view_number for member in self.members])
