"""Which features, which atoms, which class, why: the scores of single rows taken apart.

A score is a sum over atoms, ``code[k] * label_atoms[k, c]``, so the contribution of every atom to
a decision is known exactly. The difference between the scores of two classes, atom by atom, shows
how the classifier decided between them. `DBDLClassifier.explain` takes the same difference apart
feature by feature.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dbdl.estimators import explanation as estimators
from dbdl.plotting.arrangement import spread_evenly
from dbdl.report.findings import Findings

#: Atoms, classes, owners and features that are shown for a row; the others are summed up.
N_ATOMS, N_CLASSES, N_OWNERS, N_FEATURES = 6, 5, 4, 8


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
    the largest difference first. Atoms that are not shown are summed up by owner, so that the
    longest bar always says what it holds.
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
        """The largest difference of an atom, or of some together; 1 where all are 0."""
        return max((abs(part.difference) for part in self.atoms), default=0.0) or 1.0


class FeatureBars(NamedTuple):
    """The features that decided, as bars."""

    shown: tuple[estimators.FeatureShare, ...]  # the largest share first
    others: estimators.Others | None
    longest: float  # the largest of all bars, or 1 where all are 0


def feature_bars(why: estimators.Explanation) -> FeatureBars:
    """Return the features with the largest shares, and the sum of the others."""
    shown, others = why.largest(N_FEATURES)
    sizes = [abs(part.share) for part in shown] + [abs(why.constant)]
    sizes += [] if others is None else [abs(others.share)]
    return FeatureBars(shown, others, max(sizes) or 1.0)


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
    single, rest = _largest(atoms, N_ATOMS)
    parts = [*single, *_by_owner(rest)], _by_owner(atoms)
    return Explanation(sample, kind, true, predicted, rival, shown, *parts)


def _together(parts: list[Contribution], owner: int = -1) -> Contribution:
    for_class, for_rival, n_atoms = map(sum, zip(*(part[:3] for part in parts), strict=True))
    return Contribution(for_class, for_rival, n_atoms, owner)


def _largest(parts: list[Contribution], n: int) -> tuple[list[Contribution], list[Contribution]]:
    parts = sorted(parts, key=lambda part: -abs(part.difference))
    return parts[:n], parts[n:]


def _by_owner(atoms: list[Contribution]) -> list[Contribution]:
    """Sums over the atoms of each owner; those of the owners that weigh least are one sum."""
    owners = sorted({atom.owner for atom in atoms})
    sums = [_together([atom for atom in atoms if atom.owner == c], c) for c in owners]
    shown, rest = _largest(sums, N_OWNERS)
    while rest and abs(_together(rest).difference) > abs(shown[0].difference):
        shown.append(rest.pop(0))
    return shown + ([_together(rest)] if rest else [])
