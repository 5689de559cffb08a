"""Which atoms, which class, why: the scores of single rows taken apart.

A score is a sum over atoms, ``code[k] * label_atoms[k, c]``, so the contribution of every atom to
a decision is known exactly. The difference between the scores of two classes, atom by atom, shows
how the classifier decided between them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dbdl.plotting.arrangement import spread_evenly
from dbdl.report.findings import Findings

#: Atoms, classes and owners that are shown for a row; the others are summed up.
N_ATOMS, N_CLASSES, N_OWNERS = 6, 5, 4


class Part(NamedTuple):
    """Contributions of one atom, or of several together, to the scores of two classes.

    The owner of an atom is the class that uses it most. A sum over several owners has none (-1),
    and a sum over atoms has no ``atom`` and no ``coefficient``.
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

    Attributes
    ----------
    sample : int
        Row number.
    kind : str
        Why the row is shown.
    true, predicted, rival : int
        Classes. The rival is the true class if the row is misclassified, and otherwise the class
        with the second highest score.
    classes : list of int
        Classes with the highest scores, and the true class.
    atoms, owners : list of Part
        The atoms with the largest differences, and the owners whose atoms together have the
        largest differences; the largest first.
    other_atoms, other_owners : Part
        Sums of all others.
    """

    sample: int
    kind: str
    true: int
    predicted: int
    rival: int
    classes: list[int]
    atoms: list[Part]
    other_atoms: Part
    owners: list[Part]
    other_owners: Part


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

    Parameters
    ----------
    findings : Findings
    selection_probability : ndarray of shape (n_classes, n_atoms)
        Tells the owner of each atom.
    sample : int
        Row number.
    kind : str
        Why the row is shown.
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
    atoms = [
        Part(float(own), float(other), 1, int(c), int(k), float(coefficient))
        for (own, other), c, k, coefficient in zip(
            pairs, owner, code.indices, code.data, strict=True
        )
    ]
    owners = [_together((a for a in atoms if a.owner == c), int(c)) for c in np.unique(owner)]
    for parts in (atoms, owners):
        parts.sort(key=lambda part: -abs(part.difference))
    return Explanation(
        *(sample, kind, true, predicted, rival, shown),
        *(atoms[:N_ATOMS], _together(atoms[N_ATOMS:])),
        *(owners[:N_OWNERS], _together(owners[N_OWNERS:])),
    )


def _together(parts: Iterable[Part], owner: int = -1) -> Part:
    parts = list(parts)
    return Part(
        sum(part.for_class for part in parts),
        sum(part.for_rival for part in parts),
        sum(part.n_atoms for part in parts),
        owner,
    )
