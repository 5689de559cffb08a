"""Which atoms, which class, why: the scores of single rows taken apart.

A score is a sum over atoms, ``code[k] * label_atoms[k, c]``, so every atom's part in a decision
is known exactly. What decided between two classes is the difference of their scores, atom by atom.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dbdl.plotting.arrangement import owner_of_atoms
from dbdl.report.findings import Findings

Floats = NDArray[np.float64]

#: Atoms, classes and owners that are shown of a row; the rest is summed up.
N_ATOMS, N_CLASSES, N_OWNERS = 6, 5, 4


class AtomPart(NamedTuple):
    """An atom's part in a decision.

    ``for_class`` and ``for_rival`` are its parts of the two scores.
    """

    atom: int
    owner: int
    coefficient: float
    for_class: float
    for_rival: float

    @property
    def difference(self) -> float:
        """How much the atom speaks for the class rather than for the rival."""
        return self.for_class - self.for_rival


class OwnerPart(NamedTuple):
    """What the atoms that one class uses most give together."""

    owner: int
    n_atoms: int
    for_class: float
    for_rival: float


@dataclass(frozen=True)
class Explanation:
    """One row's decision.

    Attributes
    ----------
    sample : int
        Number of the row.
    kind : str
        Why the row is shown.
    true, predicted, rival : int
        Classes; the rival is the true class if the row is classified wrong, and otherwise the
        class with the second highest score.
    classes : list of int
        Those with the highest scores, the true one among them.
    atoms : list of AtomPart
        Those that speak loudest for or against.
    others : AtomPart
        The sum of all other atoms; its ``atom`` is their number.
    owners : list of OwnerPart
        Those whose atoms speak loudest together; ``other_owners`` is the sum of the others.
    """

    sample: int
    kind: str
    true: int
    predicted: int
    rival: int
    classes: list[int]
    atoms: list[AtomPart]
    others: AtomPart
    owners: list[OwnerPart]
    other_owners: OwnerPart


def choose_samples(findings: Findings, n_each: int = 4) -> list[tuple[int, str]]:
    """Choose rows worth a look: surest mistakes, least sure answers, surest right ones.

    Right answers are of different classes, where there are enough of them.
    """
    confidence = findings.probability.max(axis=1)
    order = np.argsort(-confidence, kind="stable")
    right = findings.correct
    wrong = [(int(i), "among the surest mistakes") for i in order if not right[i]][:n_each]
    unsure = [(int(i), "among the least sure right answers") for i in order[::-1] if right[i]][
        :n_each
    ]
    taken = {i for i, _ in wrong + unsure}
    by_class: dict[int, int] = {}
    for i in order:
        if right[i] and int(i) not in taken:
            by_class.setdefault(int(findings.predicted[i]), int(i))
    spread = list(dict(sorted(by_class.items())).values())
    at = np.unique(np.linspace(0, len(spread) - 1, min(n_each, len(spread))).astype(int))
    return wrong + unsure + [(spread[j], "among the surest right answers") for j in at]


def explain(
    findings: Findings, selection_probability: NDArray[Any], sample: int, kind: str = ""
) -> Explanation:
    """Take the decision on one row apart.

    Parameters
    ----------
    findings : Findings
    selection_probability : ndarray of shape (n_classes, n_atoms)
        Says whose an atom is.
    sample : int
        Number of the row.
    kind : str
        Why it is shown.
    """
    scores = findings.scores[sample]
    predicted, true = int(findings.predicted[sample]), int(findings.true[sample])
    ranking = [int(c) for c in np.argsort(-scores, kind="stable")]
    rival = true if true != predicted else next(c for c in ranking if c != predicted)
    shown = ranking[:N_CLASSES]
    if true not in shown:
        shown[-1] = true
    code = findings.codes[sample]
    used, coefficient = code.indices, np.asarray(code.data, dtype=np.float64)
    parts = coefficient[:, np.newaxis] * findings.label_atoms[used]
    owner = owner_of_atoms(selection_probability)[used]
    pair = parts[:, [predicted, rival]]
    loudest = np.argsort(-np.abs(pair[:, 0] - pair[:, 1]), kind="stable")
    first, rest = loudest[:N_ATOMS], loudest[N_ATOMS:]
    owners = _by_owner(owner, pair)
    return Explanation(
        sample=sample,
        kind=kind,
        true=true,
        predicted=predicted,
        rival=rival,
        classes=shown,
        atoms=[
            AtomPart(int(used[j]), int(owner[j]), float(coefficient[j]), *map(float, pair[j]))
            for j in first
        ],
        others=AtomPart(len(rest), -1, np.nan, *map(float, pair[rest].sum(axis=0))),
        owners=owners[:N_OWNERS],
        other_owners=_together(owners[N_OWNERS:]),
    )


def _by_owner(owner: NDArray[np.int64], pair: Floats) -> list[OwnerPart]:
    found = [
        OwnerPart(int(c), int((owner == c).sum()), *map(float, pair[owner == c].sum(axis=0)))
        for c in np.unique(owner)
    ]
    found.sort(key=lambda part: -abs(part.for_class - part.for_rival))
    return found


def _together(parts: list[OwnerPart]) -> OwnerPart:
    return OwnerPart(
        -1,
        sum(part.n_atoms for part in parts),
        sum(part.for_class for part in parts),
        sum(part.for_rival for part in parts),
    )
