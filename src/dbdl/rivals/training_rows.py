"""Training rows as atoms, coded by matching pursuit: any learned dictionary has to do better."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray

from dbdl._parameters import PositiveCount, PositiveWeight
from dbdl._threads import run_blocks
from dbdl.backends import NumbaBackend
from dbdl.coding import (
    FAMILIES,
    Coder,
    Forward,
    PreparedAtoms,
    candidates,
    encode_each,
    lengths_for,
)
from dbdl.coding.omp import Rule
from dbdl.learn.held_out import Fold, HeldOutChoice, choose_coder
from dbdl.learn.labels import one_hot
from dbdl.model.state import Classes, Doubles, Floats
from dbdl.model.trust import Atoms, reals, whole
from dbdl.rivals._base import Lesson, RowsClassifier, RowsModel, Scores, UnlearnedModel

Rows = NDArray[np.int64]

#: Folds of rows, each left out once, on which the coder is chosen.
N_FOLDS = 5

#: Members that take part in the choice of a coder: more hardly change it.
CHOOSING_MEMBERS = 2
#: With so many draws for each row, a row is left out with a probability of 4e-44: none is.
ALL_ROWS = 100.0
#: Coder where every class has a single row, so that none can be held out to choose it.
FALLBACK = Forward(10)


# ------------------------------------------------------------------------------------- all rows


@dataclass(frozen=True)
class TrainingRowsModel(RowsModel):
    """Training rows, and how to code a row over them."""

    coder: Coder

    @cached_property
    def prepared(self) -> PreparedAtoms:
        """The rows with what the coder needs of them."""
        return PreparedAtoms(self.atoms)

    def scores(self, X: Floats, n_threads: int = 1) -> Scores:
        """Sum of the coefficients over each class's rows."""
        codes = self.coder.encode(X, self.prepared, NumbaBackend(n_threads))
        return codes.astype(np.float64) @ one_hot(self.class_of_atom, self.n_classes)


class TrainingRowsClassifier(RowsClassifier):
    r"""All training rows as atoms, and the sum of coefficients per class.

    A row :math:`x` is coded over the training rows :math:`D` by matching pursuit,

    .. math:: \alpha \approx \arg\min_a \|x - a D\|^2 \quad\text{subject to}\quad \|a\|_0 \le k

    and belongs to the class with the largest sum of the coefficients of its rows,
    :math:`\sum_{i \in c} \alpha_i`. Nothing is learned: this is where any dictionary of as many
    atoms has to start from. Not among the methods of the DBDL paper.

    Parameters
    ----------
    n_nonzero : int, default=50
        :math:`k`; at most the number of rows or features. The DBDL paper codes new rows with 50.
    rule : {"orthogonal", "forward"}, default="orthogonal"
        Rule of matching pursuit: the textbook's, or the row that lowers the residual most.

    References
    ----------
    N. Akhtar, F. Shafait and A. Mian, "Discriminative Bayesian dictionary learning for
    classification", IEEE Trans. Pattern Analysis and Machine Intelligence 38, 2016: the dictionary
    before its first sweep.
    """

    n_nonzero: PositiveCount = 50
    rule: Rule = "orthogonal"

    _example = "n_nonzero=5, calibrate=False"

    def _learn(self, lesson: Lesson) -> TrainingRowsModel:
        return TrainingRowsModel.of(lesson, FAMILIES[self.rule](self.n_nonzero))


# ---------------------------------------------------------------------------------- random rows


@dataclass(frozen=True)
class Draw:
    """How a member draws its rows.

    Either ``n_atoms_per_class`` rows of each class, without replacement (a class with fewer gives
    all of its own), or ``ratio`` rows for each row of a class, with replacement, copies dropped.
    """

    n_atoms_per_class: int
    ratio: float | None = None

    def rows(self, rng: np.random.Generator, class_of_row: Classes, n_classes: int) -> Rows:
        """Row numbers of one member, ascending, each once."""
        chosen = []
        for c in range(n_classes):
            own = np.flatnonzero(class_of_row == c)
            if self.ratio is None:
                chosen.append(rng.permutation(own)[: self.n_atoms_per_class])
            elif self.ratio >= ALL_ROWS:
                chosen.append(own)
            elif len(own):
                chosen.append(rng.choice(own, max(round(self.ratio * len(own)), 1)))
        return np.unique(np.concatenate(chosen))

    def for_a_part(self, share: float) -> Draw:
        """Return the draw for a part of the rows: its members are smaller in proportion."""
        return Draw(max(round(self.n_atoms_per_class * share), 1), self.ratio)


@dataclass(frozen=True)
class RandomRowsModel(UnlearnedModel):
    """Sets of training rows, each with its label atoms."""

    atoms: Atoms  # rows that any member uses
    members: tuple[Annotated[Rows, whole("n_own", below="n_atoms", some=True)], ...]
    label_atoms: tuple[Annotated[Doubles, reals("n_own", "n_classes")], ...]
    coder: Coder
    held_out: HeldOutChoice | None

    def faults(self) -> Iterator[str]:
        """Say where members, by the numbers of their atoms, do not have label atoms."""
        if not self.members or [*map(len, self.members)] != [*map(len, self.label_atoms)]:
            yield "label_atoms are not those of the atoms in members"

    def scores(self, X: Floats, n_threads: int = 1) -> Scores:
        """Mean of the members' scores, ``codes @ label_atoms``."""
        total = np.zeros((len(X), self.label_atoms[0].shape[1]))
        for rows, label_atoms in zip(self.members, self.label_atoms, strict=True):
            atoms = PreparedAtoms(np.ascontiguousarray(self.atoms[rows]))
            codes = self.coder.encode(X, atoms, NumbaBackend(n_threads))
            total += codes.astype(np.float64) @ label_atoms
        return total / len(self.members)


def choose_on_left_out_rows(
    lesson: Lesson, draw: Draw, n_members: int, coders: Sequence[Coder], penalty: float
) -> HeldOutChoice | None:
    """Choose among coders on rows left out, as DBDL does; None where no row can be left out."""
    X, class_of_row, n_classes = lesson.X, lesson.class_of_row, lesson.n_classes
    folds = lesson.cut(N_FOLDS, N_FOLDS)
    if not folds:
        return None

    def score(task: tuple[int, Fold]) -> list[Scores]:
        number, fold = task
        own = lesson.of_rows(fold.learn)
        smaller = draw.for_a_part(len(own.X) / len(X))
        total = [np.zeros((len(fold.held_out), n_classes)) for _ in coders]
        for member in range(n_members):
            rng = lesson.rng(number, member)
            rows = smaller.rows(rng, own.class_of_row, n_classes)
            atoms = PreparedAtoms(np.ascontiguousarray(own.X[rows]))
            old = encode_each(own.X, atoms, coders, NumbaBackend())
            new = encode_each(X[fold.held_out], atoms, coders, NumbaBackend())
            for scores, training, codes in zip(total, old, new, strict=True):
                scores += codes.astype(np.float64) @ own.label_atoms(training, penalty)
        return total

    parts = run_blocks(score, list(enumerate(folds)), lesson.n_threads)
    rows = np.concatenate([fold.held_out for fold in folds])
    scores = [np.concatenate(part) for part in zip(*parts, strict=True)]
    return choose_coder(coders, [scores], [class_of_row[rows]])


class RandomRowsClassifier(RowsClassifier):
    r"""Random training rows as atoms, labels by ridge regression; one set, or bagged sets.

    A member draws training rows :math:`D`, codes all training rows over them by matching pursuit,

    .. math:: \alpha_i \approx \arg\min_a \|x_i - a D\|^2 \quad\text{subject to}\quad \|a\|_0 \le k

    and fits label atoms to the codes, :math:`\min_W \|H - A W\|^2 + \lambda \|W\|^2` with the
    labels as rows of :math:`H`. A new row belongs to the class with the largest entry of
    :math:`\alpha W`, averaged over the members. The number of non-zeros and the rule of matching
    pursuit are chosen on held-out training rows, in the way of `DBDLClassifier`.

    The fair comparison for a learned dictionary of the same size, and with several members for
    DBDL's ensemble: a gain against it comes from learning, not from size, coding or averaging. With
    ``initial_ratio=1.5`` the members are the dictionaries from which the chains of the DBDL paper
    start.

    Parameters
    ----------
    n_atoms_per_class : int, default=15
        Rows of each class that a member draws, without replacement. A class with fewer rows gives
        all of them.
    n_members : int, default=1
        Sets of rows.
    initial_ratio : float, default=None
        In place of ``n_atoms_per_class``: draw this many rows for each training row, class by
        class, with replacement. Copies are dropped; with 1.5, 78 % of the rows are in a member.
    n_nonzero : int or "auto", default="auto"
        :math:`k`; at most the number of atoms or features.
    coder : {"auto", "forward", "orthogonal", "lasso"} or Coder, default="auto"
        How a row is coded: by matching pursuit, along the lasso's path, or by a given coder.
    penalty : float, default=0.1
        :math:`\lambda`.
    random_state : int, RandomState instance or None, default=None
        Seed of the rows that are drawn and of those that are held out.

    Attributes
    ----------
    atoms_, components_ : ndarray of shape (n_atoms, n_features)
        Rows that any of the members uses, each once.
    model_ : RandomRowsModel
        Its ``coder`` is the one used, its ``held_out`` the losses on held-out rows.

    References
    ----------
    L. Breiman, "Bagging predictors", Machine Learning 24, 1996, for the average over members; the
    rest is the start of DBDL (Akhtar, Shafait and Mian 2016) without its sweeps.
    """

    n_atoms_per_class: PositiveCount = 15
    n_members: PositiveCount = 1
    initial_ratio: PositiveWeight | None = None
    n_nonzero: PositiveCount | Literal["auto"] = "auto"
    coder: Coder | Literal["auto", "forward", "orthogonal", "lasso"] = "auto"
    penalty: PositiveWeight = 0.1

    _example = "n_nonzero=5, calibrate=False, random_state=0"

    def _coders(self, n_features: int) -> list[Coder]:
        if self.n_nonzero == "auto":
            return candidates(self.coder, lengths_for(n_features))
        if self.coder in FAMILIES:
            return [FAMILIES[self.coder](self.n_nonzero)]
        return candidates(self.coder, [self.n_nonzero])

    def _learn(self, lesson: Lesson) -> RandomRowsModel:
        X, class_of_row, n_classes = lesson.X, lesson.class_of_row, lesson.n_classes
        draw = Draw(self.n_atoms_per_class, self.initial_ratio)
        coders, held_out = self._coders(X.shape[1]), None
        if len(coders) > 1:
            n_choosing = min(self.n_members, CHOOSING_MEMBERS)
            held_out = choose_on_left_out_rows(lesson, draw, n_choosing, coders, self.penalty)
        coder = coders[0] if len(coders) == 1 else held_out.coder if held_out else FALLBACK
        sets = [draw.rows(lesson.rng(m), class_of_row, n_classes) for m in range(self.n_members)]

        def fit(rows: Rows) -> Doubles:
            codes = coder.encode(X, PreparedAtoms(np.ascontiguousarray(X[rows])), NumbaBackend())
            return lesson.label_atoms(codes, self.penalty)

        label_atoms = run_blocks(fit, sets, lesson.n_threads)
        used = np.unique(np.concatenate(sets))
        members = tuple(np.searchsorted(used, rows) for rows in sets)
        return RandomRowsModel(X[used], members, tuple(label_atoms), coder, held_out)
