"""Which atoms, which class, why: the scores of single rows taken apart.

A score is a sum over atoms, ``code[k] * label_atoms[k, c]``, so the contribution of every atom to
a decision is known exactly. The difference between the scores of two classes, atom by atom, shows
how the classifier decided between them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dbdl.plotting.arrangement import spread_evenly
from dbdl.report.findings import Findings

#: Atoms, classes and owners that are shown for a row; the others are summed up.
N_ATOMS, N_CLASSES, N_OWNERS = 6, 5, 4


class Contribution(NamedTuple):
    """The share of one atom, or of several together, in the scores of two classes.

    The owner of an atom is the class that uses it most; -1 stands for several. A sum over atoms
    has no ``atom`` (-1) and no ``coefficient`` (NaN).
    """

    for_class: float
    for_rival: float
    n_atoms: int = 1
    owner: int = -1
    atom: int = -1
    coefficient: float = np.nan

    @property
    def difference(self) -> float:
        """How much the atoms speak for the class rather than for the rival."""
        return self.for_class - self.for_rival


class Explanation(NamedTuple):
    """The decision on one row.

    The rival is the true class if the row is misclassified, and otherwise the class with the second
    highest score. Contributions are those of single atoms, and of the atoms of each owner together,
    the largest difference first; the last is the sum of those that are not shown, if any.
    """

    sample: int  # row number
    kind: str  # why the row is shown
    true: int
    predicted: int
    rival: int
    classes: list[int]  # those with the highest scores, and the true class
    atoms: list[Contribution]
    owners: list[Contribution]

    @property
    def longest(self) -> float:
        """The largest difference of a single atom, or 1 where all are 0."""
        single = (abs(part.difference) for part in self.atoms if part.atom >= 0)
        return max(single, default=0.0) or 1.0


def choose_samples(findings: Findings, n_each: int = 4) -> list[tuple[int, str]]:
    """Choose rows worth a look: confident mistakes, doubtful answers and confident correct ones.

    The confident correct answers are of different classes, as far as there are enough of them.
    """
    order = np.argsort(-findings.confidence, kind="stable")
    correct = order[findings.correct[order]]
    wrong = order[~findings.correct[order]][:n_each].tolist()
    unsure = correct[::-1][:n_each].tolist()
    by_class: dict[int, int] = {}
    for i in correct.tolist():
        if i not in unsure:
            by_class.setdefault(int(findings.predicted[i]), i)
    sure = [i for _, i in sorted(by_class.items())]
    return [
        *((i, "one of the most confident mistakes") for i in wrong),
        *((i, "one of the least confident correct answers") for i in unsure),
        *((sure[j], "one of the most confident correct answers")
          for j in spread_evenly(len(sure), n_each)),
    ]  # fmt: skip


def explain(
    findings: Findings, selection_probability: NDArray[Any], sample: int, kind: str = ""
) -> Explanation:
    """Take the decision on one row apart.

    ``selection_probability`` (n_classes, n_atoms) tells the owner of each atom, and ``kind`` why
    the row is shown.
    """
    predicted, true = int(findings.predicted[sample]), int(findings.true[sample])
    ranking = np.argsort(-findings.scores[sample], kind="stable").tolist()
    rival = true if true != predicted else next(c for c in ranking if c != predicted)
    shown = ranking[:N_CLASSES]
    if true not in shown:
        shown[-1] = true
    code = findings.codes[sample]
    pairs = code.data[:, np.newaxis] * findings.label_atoms[code.indices][:, [predicted, rival]]
    owner = selection_probability.argmax(axis=0)[code.indices]
    columns = (*pairs.T.tolist(), owner.tolist(), code.indices.tolist(), code.data.tolist())
    atoms = [Contribution(a, b, 1, *rest) for a, b, *rest in zip(*columns, strict=True)]
    owners = [_together([a for a in atoms if a.owner == c], int(c)) for c in np.unique(owner)]
    parts = _largest(atoms, N_ATOMS), _largest(owners, N_OWNERS)
    return Explanation(sample, kind, true, predicted, rival, shown, *parts)


def _together(parts: list[Contribution], owner: int = -1) -> Contribution:
    for_class, for_rival, n_atoms = map(sum, zip(*(part[:3] for part in parts), strict=True))
    return Contribution(for_class, for_rival, n_atoms, owner)


def _largest(parts: list[Contribution], n: int) -> list[Contribution]:
    parts = sorted(parts, key=lambda part: -abs(part.difference))
    return parts[:n] + ([_together(parts[n:])] if len(parts) > n else [])
