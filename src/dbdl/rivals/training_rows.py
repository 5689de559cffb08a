"""Training rows as atoms, coded by matching pursuit: what a learned dictionary has to beat."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions

from dbdl._threads import run_blocks
from dbdl.backends import NumbaBackend
from dbdl.coding.omp import Selection, gram_matrix
from dbdl.draws import make_key
from dbdl.estimators._rows import POSITIVE
from dbdl.learn.ensemble import PILOT_FOLDS, PILOT_ROWS, encode_rows
from dbdl.learn.held_out import (
    SELECTIONS,
    Coder,
    Fold,
    HeldOutChoice,
    Rule,
    choose,
    every_coder,
    lengths_for,
    stratified_folds,
)
from dbdl.learn.labels import one_hot, ridge_label_atoms
from dbdl.model.record import Record
from dbdl.model.state import Floats
from dbdl.model.trust import Atoms, ClassOfAtom, NClasses, Objective, reals, whole
from dbdl.rivals._base import RIVAL_CONSTRAINTS, Classes, RivalClassifier

Rows = NDArray[np.int64]

#: Members that take part in the choice of a coder: more hardly change it.
PILOT_MEMBERS = 2
#: With so many draws for each row, a row is left out with a probability of 4e-44: none is.
ALL_ROWS = 100.0
#: Coder where every class has a single row, so that none can be held out to choose it.
FALLBACK = Coder("forward", 10)


# ------------------------------------------------------------------------------------- all rows


@dataclass(frozen=True)
class TrainingRowsModel(Record):
    """Training rows, and how to code a row over them."""

    atoms: Atoms
    class_of_atom: ClassOfAtom
    n_classes: NClasses
    coder: Coder
    objective: Objective

    @cached_property
    def gram(self) -> Floats:
        """Inner products of the rows, found once for all queries."""
        return gram_matrix(self.atoms)

    def scores(self, X: Floats, n_threads: int = 1) -> NDArray[np.float64]:
        """Sum of the coefficients over each class's rows."""
        (codes,) = encode_rows(X, self.atoms, self.gram, [self.coder], NumbaBackend(n_threads))
        codes = codes.astype(np.float64)
        scores: NDArray[np.float64] = codes @ one_hot(self.class_of_atom, self.n_classes)
        return scores


def learn_training_rows(
    X: Floats, class_of_row: Classes, n_classes: int, coder: Coder, n_threads: int = 1
) -> TrainingRowsModel:
    """Keep the rows, and compute their Gram matrix once for all queries."""
    model = TrainingRowsModel(X, class_of_row, n_classes, coder, np.empty(0))
    vars(model)["gram"] = gram_matrix(X, n_threads)
    return model


class TrainingRowsClassifier(RivalClassifier):
    r"""All training rows as atoms, and the sum of coefficients a class.

    A row :math:`x` is coded over the training rows :math:`D` by matching pursuit,

    .. math:: \alpha \approx \arg\min_a \|x - a D\|^2 \quad\text{subject to}\quad \|a\|_0 \le k

    and belongs to the class with the largest sum of the coefficients of its rows,
    :math:`\sum_{i \in c} \alpha_i`. Nothing is learned: this is where any dictionary of as many
    atoms has to start from. Not among the methods of the DBDL paper.

    Parameters
    ----------
    n_nonzero : int, default=50
        :math:`k`; at most the number of rows or features. The DBDL paper codes new rows with 50.
    selection : {"orthogonal", "forward"}, default="orthogonal"
        Rule of matching pursuit: the textbook's, or the row that lowers the residual most.
    calibrate : bool, default=True
        Fit a temperature for `predict_proba` on held-out rows, by a second fit.
    normalize : bool, default=True
        Scale rows to unit norm.
    n_jobs : int, default=None
        Threads.
    random_state : int, RandomState instance or None, default=None
        Decides which rows are held out for the temperature.

    Attributes
    ----------
    atoms_, components_ : ndarray of shape (n_atoms, n_features)
        The training rows, those of zeros left out.
    classes_ : ndarray of shape (n_classes,)
    n_atoms_ : int
    model_ : TrainingRowsModel
    objective_ : ndarray of shape (0,)
        Nothing is iterated.
    temperature_ : float
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    References
    ----------
    N. Akhtar, F. Shafait and A. Mian, "Discriminative Bayesian dictionary learning for
    classification", IEEE Trans. Pattern Analysis and Machine Intelligence 38, 2016: the dictionary
    before its first sweep.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dbdl.rivals.training_rows import TrainingRowsClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = TrainingRowsClassifier(n_nonzero=5, calibrate=False).fit(X[::2], y[::2])
    >>> bool(model.score(X[1::2], y[1::2]) > 0.95)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **RIVAL_CONSTRAINTS,
        "n_nonzero": [Interval(Integral, 1, None, closed="left")],
        "selection": [StrOptions({"orthogonal", "forward"})],
    }

    _has_rows_as_atoms = True

    def __init__(
        self,
        *,
        n_nonzero: int = 50,
        selection: Selection = "orthogonal",
        calibrate: bool = True,
        normalize: bool = True,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_nonzero = n_nonzero
        self.selection = selection
        self.calibrate = calibrate
        self.normalize = normalize
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _learn(
        self, X: Floats, class_of_row: Classes, n_classes: int, seed: int, n_threads: int
    ) -> TrainingRowsModel:
        coder = Coder(self.selection, self.n_nonzero)
        return learn_training_rows(X, class_of_row, n_classes, coder, n_threads)


# ---------------------------------------------------------------------------------- random rows


@dataclass(frozen=True)
class Draw:
    """How a member draws its rows.

    Attributes
    ----------
    n_atoms_per_class : int
        Rows of each class, without replacement; a class with fewer gives all of its own.
    ratio : float, optional
        Instead: this many rows for each row of the class, with replacement, copies dropped.
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
        """Draw from a part of the rows that leaves members in proportion."""
        return Draw(max(round(self.n_atoms_per_class * share), 1), self.ratio)


@dataclass(frozen=True)
class RandomRowsModel(Record):
    """Sets of training rows, each with its label atoms."""

    atoms: Atoms  # rows that any member uses
    members: tuple[Annotated[Rows, whole("n_own", below="n_atoms", some=True)], ...]
    label_atoms: tuple[Annotated[NDArray[np.float64], reals("n_own", "n_classes")], ...]
    coder: Coder
    held_out: HeldOutChoice | None
    objective: Objective

    def faults(self) -> Iterator[str]:
        """Say where members, by the numbers of their atoms, do not have label atoms."""
        if not self.members or [*map(len, self.members)] != [*map(len, self.label_atoms)]:
            yield "label_atoms are not those of the atoms in members"

    def scores(self, X: Floats, n_threads: int = 1) -> NDArray[np.float64]:
        """Mean of the members' scores, ``codes @ label_atoms``."""
        total = np.zeros((len(X), self.label_atoms[0].shape[1]))
        for rows, label_atoms in zip(self.members, self.label_atoms, strict=True):
            atoms = np.ascontiguousarray(self.atoms[rows])
            gram = gram_matrix(atoms, n_threads)
            (codes,) = encode_rows(X, atoms, gram, [self.coder], NumbaBackend(n_threads))
            total += codes.astype(np.float64) @ label_atoms
        return total / len(self.members)


def learn_random_rows(
    X: Floats,
    class_of_row: Classes,
    n_classes: int,
    draw: Draw,
    n_members: int,
    coders: Sequence[Coder],
    penalty: float,
    seed: int,
    n_threads: int = 1,
) -> RandomRowsModel:
    """Draw sets of rows and fit label atoms to each by ridge regression on the training codes.

    Of several coders the one with the least log-loss on rows that the sets do not see is taken.
    """
    held_out = None
    if len(coders) > 1:
        held_out = choose_coder(
            X, class_of_row, n_classes, draw, min(n_members, PILOT_MEMBERS), coders, penalty,
            seed, n_threads,
        )  # fmt: skip
    if held_out is not None:
        coder = held_out.coder
    else:
        coder = coders[0] if len(coders) == 1 else FALLBACK
    sets = [
        draw.rows(np.random.default_rng([seed, member]), class_of_row, n_classes)
        for member in range(n_members)
    ]

    def fit(rows: Rows) -> NDArray[np.float64]:
        atoms = np.ascontiguousarray(X[rows])
        (codes,) = encode_rows(X, atoms, None, [coder], NumbaBackend())
        return ridge_label_atoms(codes, class_of_row, n_classes, penalty)

    label_atoms = run_blocks(fit, sets, n_threads)
    used = np.unique(np.concatenate(sets))
    members = tuple(np.searchsorted(used, rows) for rows in sets)
    return RandomRowsModel(X[used], members, tuple(label_atoms), coder, held_out, np.empty(0))


def choose_coder(
    X: Floats,
    class_of_row: Classes,
    n_classes: int,
    draw: Draw,
    n_members: int,
    coders: Sequence[Coder],
    penalty: float,
    seed: int,
    n_threads: int = 1,
) -> HeldOutChoice | None:
    """Choose among coders on rows left out, as DBDL does; None where no row can be left out."""
    folds = list(stratified_folds(make_key(seed), class_of_row, PILOT_FOLDS, PILOT_ROWS))
    if not folds:
        return None

    def score(task: tuple[int, Fold]) -> list[NDArray[np.float64]]:
        number, fold = task
        own, own_classes = X[fold.learn], class_of_row[fold.learn]
        smaller = draw.for_a_part(len(own) / len(X))
        total = [np.zeros((len(fold.held_out), n_classes)) for _ in coders]
        for member in range(n_members):
            rng = np.random.default_rng([seed, number, member])
            atoms = np.ascontiguousarray(own[smaller.rows(rng, own_classes, n_classes)])
            gram = gram_matrix(atoms)
            old = encode_rows(own, atoms, gram, coders, NumbaBackend())
            new = encode_rows(X[fold.held_out], atoms, gram, coders, NumbaBackend())
            for scores, training, codes in zip(total, old, new, strict=True):
                label_atoms = ridge_label_atoms(training, own_classes, n_classes, penalty)
                scores += codes.astype(np.float64) @ label_atoms
        return total

    parts = run_blocks(score, list(enumerate(folds)), n_threads)
    rows = np.concatenate([fold.held_out for fold in folds])
    scores = [np.concatenate(part) for part in zip(*parts, strict=True)]
    return choose(coders, scores, class_of_row[rows])


class RandomRowsClassifier(RivalClassifier):
    r"""Random training rows as atoms, labels by ridge regression; one set, or bagged sets.

    A member draws training rows :math:`D`, codes all training rows over them by matching pursuit,

    .. math:: \alpha_i \approx \arg\min_a \|x_i - a D\|^2 \quad\text{subject to}\quad \|a\|_0 \le k

    and fits label atoms to the codes, :math:`\min_W \|H - A W\|^2 + \lambda \|W\|^2` with the
    labels as rows of :math:`H`. A new row belongs to the class with the largest entry of
    :math:`\alpha W`, averaged over the members. The number of non-zeros and the rule of matching
    pursuit are chosen on held-out training rows, in the way of `DBDLClassifier`.

    The honest twin of a learned dictionary of the same size, and with several members of DBDL's
    ensemble: what is left of a gain against it is learning, not size, coding or averaging. With
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
    selection : {"auto", "forward", "orthogonal", "lasso"}, default="auto"
        How the atoms of a code are found: by matching pursuit, or along the path of the lasso.
    penalty : float, default=0.1
        :math:`\lambda`.
    calibrate : bool, default=True
        Fit a temperature for `predict_proba` on held-out rows, by a second fit.
    normalize : bool, default=True
        Scale rows to unit norm.
    n_jobs : int, default=None
        Threads.
    random_state : int, RandomState instance or None, default=None

    Attributes
    ----------
    atoms_, components_ : ndarray of shape (n_atoms, n_features)
        Rows that any of the members uses, each once.
    classes_ : ndarray of shape (n_classes,)
    n_atoms_ : int
    model_ : RandomRowsModel
        Its ``coder`` is the one used, its ``held_out`` what the held-out rows said.
    objective_ : ndarray of shape (0,)
        Nothing is iterated.
    temperature_ : float
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    References
    ----------
    L. Breiman, "Bagging predictors", Machine Learning 24, 1996, for the average over members; the
    rest is the start of DBDL (Akhtar, Shafait and Mian 2016) without its sweeps.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dbdl.rivals.training_rows import RandomRowsClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = RandomRowsClassifier(n_nonzero=5, calibrate=False, random_state=0)
    >>> bool(model.fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.9)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **RIVAL_CONSTRAINTS,
        "n_atoms_per_class": [Interval(Integral, 1, None, closed="left")],
        "n_members": [Interval(Integral, 1, None, closed="left")],
        "initial_ratio": [None, POSITIVE],
        "n_nonzero": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "selection": [StrOptions({"auto", *SELECTIONS})],
        "penalty": [POSITIVE],
    }

    _has_rows_as_atoms = True

    def __init__(
        self,
        *,
        n_atoms_per_class: int = 15,
        n_members: int = 1,
        initial_ratio: float | None = None,
        n_nonzero: int | Literal["auto"] = "auto",
        selection: Rule | Literal["auto"] = "auto",
        penalty: float = 0.1,
        calibrate: bool = True,
        normalize: bool = True,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_atoms_per_class = n_atoms_per_class
        self.n_members = n_members
        self.initial_ratio = initial_ratio
        self.n_nonzero = n_nonzero
        self.selection = selection
        self.penalty = penalty
        self.calibrate = calibrate
        self.normalize = normalize
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _coders(self, n_features: int) -> list[Coder]:
        rules = SELECTIONS if self.selection == "auto" else (self.selection,)
        if self.n_nonzero == "auto":
            return every_coder(lengths_for(n_features), rules)
        return every_coder([self.n_nonzero], rules, path_averages=[False])

    def _learn(
        self, X: Floats, class_of_row: Classes, n_classes: int, seed: int, n_threads: int
    ) -> RandomRowsModel:
        return learn_random_rows(
            X,
            class_of_row,
            n_classes,
            Draw(self.n_atoms_per_class, self.initial_ratio),
            self.n_members,
            self._coders(X.shape[1]),
            self.penalty,
            seed,
            n_threads,
        )
