"""The number of atoms, chosen on rows that members left out.

The model does not infer the number of atoms: the sweeps drop copies, and hardly any other atom. So
dictionaries of several sizes are learned, and the smallest is taken whose accuracy on the rows left
out is within one standard error of the best.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from dbdl.learn.ensemble import Ensemble
from dbdl.learn.problem import LEAST_PER_CLASS, Problem
from dbdl.model.record import Record
from dbdl.model.trust import Count, reals, whole

#: Sizes below the default one, as shares of it. All sizes together cost about two fits of the
#: default size, since a sweep costs in proportion to the atoms.
SHARES = (1 / 16, 1 / 8, 1 / 4, 1 / 2)


@dataclass(frozen=True)
class SizeCurve(Record):
    """Accuracy on the rows left out against the number of atoms.

    Attributes
    ----------
    n_initial_atoms : ndarray of shape (n_sizes,)
        Number of atoms drawn at the start of each chain; 0 means the default.
    n_atoms : ndarray of shape (n_sizes,)
        Mean number of atoms of a chain at the end.
    accuracy, standard_error, log_loss : ndarray of shape (n_sizes,)
        Of the ensemble, on the rows that its members left out.
    chosen : int
        Index of the smallest size within one standard error of the best accuracy.
    """

    n_initial_atoms: Annotated[NDArray[np.int64], whole("n_sizes")]
    n_atoms: Annotated[NDArray[np.float64], reals("n_sizes", least=0)]
    accuracy: Annotated[NDArray[np.float64], reals("n_sizes", least=0)]
    standard_error: Annotated[NDArray[np.float64], reals("n_sizes", least=0)]
    log_loss: Annotated[NDArray[np.float64], reals("n_sizes", least=0)]
    chosen: Count

    def faults(self) -> Iterator[str]:
        """Report an index of the chosen size that is out of range."""
        if self.chosen >= len(self.accuracy):
            yield f"chosen is {self.chosen}, but there are {len(self.accuracy)} sizes"

    def __str__(self) -> str:
        lines = ["atoms per chain  accuracy on rows left out"]
        for k, (n_atoms, accuracy, error) in enumerate(
            zip(self.n_atoms, self.accuracy, self.standard_error, strict=True)
        ):
            mark = "  chosen: within one standard error of the best" if k == self.chosen else ""
            lines.append(f"{n_atoms:>15.0f}  {100 * accuracy:6.2f} % ± {100 * error:.2f}{mark}")
        return "\n".join(lines)


def with_sizes(problem: Problem) -> Problem:
    """Return the problem with numbers of initial atoms to try: smaller ones, then the default."""
    distinct = problem.settings.n_distinct(_n_learned(problem))
    least = LEAST_PER_CLASS * problem.n_classes
    sizes = {max(round(share * distinct), least) for share in SHARES}
    return replace(problem, sizes=(*sorted(size for size in sizes if size < distinct), None))


def each_size(problem: Problem, suited: Callable[[Problem], Problem]) -> list[Problem]:
    """Return the problem with each of its sizes; that of the default size stays as it is.

    ``suited`` gives a problem of another size the views and the sweeps for that size.
    """

    def sized(number: int, size: int | None) -> Problem:
        own = replace(problem, size_number=number)
        if size is None:
            return own
        return suited(replace(own, settings=replace(problem.settings, n_initial_atoms=size)))

    return [sized(number, size) for number, size in enumerate(problem.sizes)]


def _n_learned(problem: Problem) -> int:
    """Number of rows that a member learns from."""
    return len(problem.shares()[0].fold.learn)


def smallest_good(ensembles: Sequence[Ensemble]) -> tuple[Ensemble, SizeCurve]:
    """Return the smallest size within one standard error of the best accuracy, and the curve.

    If no rows were left out, the default size, the last, is taken.
    """
    accuracy = np.array([one.choice.accuracy for one in ensembles])
    n_rows = np.array([max(one.choice.n_rows, 1) for one in ensembles])
    error = np.sqrt(accuracy * (1 - accuracy) / n_rows)
    best = int(accuracy.argmax())
    chosen = int(np.flatnonzero(accuracy >= accuracy[best] - error[best])[0])
    if not any(one.choice.n_rows for one in ensembles):
        chosen = len(ensembles) - 1
    curve = SizeCurve(
        np.array([one.problem.settings.n_initial_atoms or 0 for one in ensembles]),
        np.array([np.mean([len(m.atoms.atoms) for m in one.members]) for one in ensembles]),
        accuracy,
        error,
        np.array([one.choice.log_loss for one in ensembles]),
        chosen,
    )
    return ensembles[chosen], curve
