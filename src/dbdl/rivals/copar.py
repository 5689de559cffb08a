"""Atoms of classes and atoms shared by all (DL-COPAR: Kong and Wang, ECCV 2012)."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions

from dbdl._threads import run_blocks
from dbdl.coding.fista import FistaResult
from dbdl.estimators._rows import NOT_NEGATIVE
from dbdl.model.record import Record
from dbdl.model.state import Floats
from dbdl.model.trust import AtomBlock, AtomBlocks, Atoms, NotNegative, Objective
from dbdl.rivals._atoms import Start, choose_atoms, pairwise_overlap, start_atoms, update_atoms
from dbdl.rivals._base import RIVAL_CONSTRAINTS, Classes, RivalClassifier
from dbdl.rivals._class_codes import (
    improve_codes,
    lasso_codes,
    lasso_loss,
    squared_class_residuals,
    total_square,
)

Rule = Literal["local", "global"]


@dataclass(frozen=True)
class CoparModel(Record):
    """Atoms of every class, one block each, and the shared atoms after them."""

    atoms: Atoms
    blocks: AtomBlocks
    shared: AtomBlock
    rule: Rule
    test_penalty: NotNegative
    objective: Objective

    def scores(self, X: Floats, n_threads: int = 1) -> NDArray[np.float64]:
        """Minus the loss of each class under the rule."""
        if self.rule == "global":
            return -self._global_loss(X, n_threads)

        def loss(block: slice) -> NDArray[np.float64]:
            atoms = np.vstack([self.atoms[block], self.atoms[self.shared]])
            return lasso_loss(X, atoms, self.test_penalty, residual_weight=1.0)

        return -np.column_stack(run_blocks(loss, self.blocks, n_threads))

    def _global_loss(self, X: Floats, n_threads: int) -> NDArray[np.float64]:
        codes = lasso_codes(X, self.atoms, self.test_penalty, n_threads)
        particular = X - codes[:, self.shared] @ self.atoms[self.shared]
        return squared_class_residuals(particular, codes, self.atoms, self.blocks)


def learn_copar(
    X: Floats,
    class_of_row: Classes,
    n_classes: int,
    *,
    n_atoms_per_class: int,
    n_shared_atoms: int,
    penalty: float,
    incoherence: float,
    n_iterations: int,
    start: Start = "pca",
    rule: Rule = "local",
    test_penalty: float = 0.001,
    seed: int = 0,
    n_threads: int = 1,
) -> CoparModel:
    """Alternate atoms (one pass) and the codes of every class (FISTA).

    See `CoparClassifier` for the problem.
    """
    rng = np.random.default_rng(seed)
    own, blocks = start_atoms(X, class_of_row, n_classes, n_atoms_per_class, start, rng)
    # what all rows have in common are their strongest directions
    atoms = np.vstack([own, choose_atoms(X, min(n_shared_atoms, len(X)), "pca", rng)])
    shared = slice(len(own), len(atoms))
    rows = [X[class_of_row == c] for c in range(n_classes)]
    problem = SharedCodes(rows, blocks, shared, penalty)
    empty = [np.zeros((len(part), len(atoms)), dtype=X.dtype) for part in rows]

    def code(before: list[Floats], curvature: float) -> list[FistaResult]:
        gram = atoms @ atoms.T

        def of_class(c: int) -> FistaResult:
            return problem.code(c, atoms, gram, before[c], curvature)

        return run_blocks(of_class, range(n_classes), n_threads)

    found = code(empty, 1.0)
    trace = []
    for _ in range(n_iterations):
        codes = [result.codes for result in found]
        atoms = update_atoms(
            atoms, *problem.sums(codes), [*blocks, shared], incoherence=2 * incoherence
        )
        found = code(codes, float(np.median([result.lipschitz for result in found])))
        codes = [result.codes for result in found]
        trace.append(problem.objective(codes, atoms, incoherence))
    return CoparModel(atoms, tuple(blocks), shared, rule, test_penalty, np.array(trace))


@dataclass(frozen=True)
class SharedCodes:
    """The problem of the codes, class by class, and its sums."""

    rows: list[Floats]
    blocks: list[slice]
    shared: slice
    penalty: float

    def others(self, c: int) -> NDArray[np.bool_]:
        """Mask of the atoms of classes other than c, (n_atoms,)."""
        mask = np.ones(self.shared.stop, dtype=bool)
        mask[self.blocks[c]] = False
        mask[self.shared] = False
        return mask

    def quadratic(self, c: int, gram: Floats) -> Floats:
        """Matrix of the quadratic form in a code of class c, (n_atoms, n_atoms).

        The Gram matrix of all atoms, that of the atoms of class c and the shared ones, and the
        squares of the coefficients of other classes.
        """
        others = self.others(c)
        usable = np.flatnonzero(~others)
        quadratic = gram.copy()
        quadratic[np.ix_(usable, usable)] *= 2
        quadratic.flat[:: len(gram) + 1] += others
        return quadratic

    def linear(self, c: int, atoms: Floats) -> Floats:
        """Linear part in the codes of class c, (n_samples of c, n_atoms)."""
        linear: Floats = self.rows[c] @ atoms.T
        linear[:, ~self.others(c)] *= 2
        return linear

    def code(
        self, c: int, atoms: Floats, gram: Floats, before: Floats, curvature: float
    ) -> FistaResult:
        """Codes of the rows of class c given the atoms."""
        quadratic = self.quadratic(c, gram)

        def multiply(codes: Floats, out: Floats) -> None:
            np.matmul(codes, quadratic, out=out)

        return improve_codes(multiply, self.linear(c, atoms), before, self.penalty, curvature)

    def sums(self, codes: list[Floats]) -> tuple[Floats, Floats]:
        """Gram matrix and cross products that the atoms see.

        All atoms code the rows once, those of the class and the shared ones once more.
        """
        stacked, X = np.vstack(codes), np.vstack(self.rows)
        usable = np.vstack([code * ~self.others(c) for c, code in enumerate(codes)])
        return stacked.T @ stacked + usable.T @ usable, (stacked + usable).T @ X

    def objective(self, codes: list[Floats], atoms: Floats, incoherence: float) -> float:
        """Objective of `CoparClassifier`."""
        value = 0.0
        for c, (rows, code) in enumerate(zip(self.rows, codes, strict=True)):
            others = self.others(c)
            value += total_square(rows - code @ atoms)
            value += total_square(rows - code[:, ~others] @ atoms[~others])
            value += total_square(code[:, others])
            value += self.penalty * float(np.abs(code).sum(dtype=np.float64))
        overlap = (atoms @ atoms.T).astype(np.float64)
        pairs = pairwise_overlap(overlap, [*self.blocks, self.shared])
        return value + 2 * incoherence * pairs


class CoparClassifier(RivalClassifier):
    r"""Separating the commonality and the particularity of classes (DL-COPAR).

    The atoms :math:`D` of unit norm are blocks :math:`D_c` of classes and a block :math:`D_0` that
    all classes share. The codes :math:`A_c` of the rows :math:`X_c` of class :math:`c`, with parts
    :math:`A_c^j` over block :math:`j`, should do it with their own and the shared atoms:

    .. math::

        \min_{D, A} \sum_c \Big( \|X_c - A_c D\|_F^2 + \|X_c - A_c^c D_c - A_c^0 D_0\|_F^2
        + \sum_{j \ne c, 0} \|A_c^j\|_F^2 + \lambda \|A_c\|_1 \Big)
        + \eta \sum_{b} \sum_{j \ne b} \|D_b D_j^T\|_F^2

    where the last sums go over all blocks, the shared one too.

    Atoms and codes take turns: the codes by FISTA, the atoms one by one on the sphere, the
    incoherence by a bound that touches it at the old atom. The objective never rises.

    A row :math:`x` belongs to the class with the least

    - ``rule="local"``: :math:`\min_a \|x - a^c D_c - a^0 D_0\|^2 + \gamma \|a\|_1`, a code over the
      atoms of the class and the shared ones;
    - ``rule="global"``: :math:`\|x - a^0 D_0 - a^c D_c\|^2` with the code
      :math:`a = \arg\min_a \|x - a D\|^2 + \gamma \|a\|_1` over all atoms.

    The DBDL paper uses 15 atoms per class and 5 shared ones with the local rule on Extended YaleB
    and AR: the defaults here; and on Caltech-101 as many atoms as rows of a class, 314 shared ones
    and the global rule. The other settings are not named there: the defaults were chosen on
    held-out rows of splits of Extended YaleB, which are test rows of other splits.

    Parameters
    ----------
    n_atoms_per_class : int, default=15
        A class with fewer rows gets as many atoms as it has rows.
    n_shared_atoms : int, default=5
        At most as many as there are rows; 0 leaves the shared block out.
    penalty : float, default=0.001
        :math:`\lambda`, for rows of unit norm.
    incoherence : float, default=0.001
        :math:`\eta`.
    n_iterations : int, default=15
    start : {"pca", "rows"}, default="pca"
        First atoms of a class: its principal directions (not centred), or rows of it at random.
        Shared atoms start at the principal directions of all rows.
    rule : {"local", "global"}, default="local"
    test_penalty : float, default=0.001
        :math:`\gamma`.
    calibrate : bool, default=True
        Fit a temperature for `predict_proba` on held-out rows, by a second fit.
    normalize : bool, default=True
        Scale rows to unit norm.
    n_jobs : int, default=None
        Threads.
    random_state : int, RandomState instance or None, default=None
        Decides the first atoms with ``start="rows"``, and which rows are held out for the
        temperature.

    Attributes
    ----------
    atoms_, components_ : ndarray of shape (n_atoms, n_features)
        Of unit norm, class after class, the shared ones last.
    classes_ : ndarray of shape (n_classes,)
    n_atoms_ : int
    model_ : CoparModel
    objective_ : ndarray of shape (n_iterations,)
    temperature_ : float
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    References
    ----------
    S. Kong and D. Wang, "A dictionary learning approach for classification: separating the
    particularity and the commonality", ECCV 2012.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dbdl.rivals.copar import CoparClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = CoparClassifier(random_state=0).fit(X[::2], y[::2])
    >>> bool(model.score(X[1::2], y[1::2]) > 0.9)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **RIVAL_CONSTRAINTS,
        "n_atoms_per_class": [Interval(Integral, 1, None, closed="left")],
        "n_shared_atoms": [Interval(Integral, 0, None, closed="left")],
        "penalty": [NOT_NEGATIVE],
        "incoherence": [NOT_NEGATIVE],
        "n_iterations": [Interval(Integral, 0, None, closed="left")],
        "start": [StrOptions({"pca", "rows"})],
        "rule": [StrOptions({"local", "global"})],
        "test_penalty": [NOT_NEGATIVE],
    }

    _needs_many_features = True

    def __init__(
        self,
        *,
        n_atoms_per_class: int = 15,
        n_shared_atoms: int = 5,
        penalty: float = 0.001,
        incoherence: float = 0.001,
        n_iterations: int = 15,
        start: Start = "pca",
        rule: Rule = "local",
        test_penalty: float = 0.001,
        calibrate: bool = True,
        normalize: bool = True,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_atoms_per_class = n_atoms_per_class
        self.n_shared_atoms = n_shared_atoms
        self.penalty = penalty
        self.incoherence = incoherence
        self.n_iterations = n_iterations
        self.start = start
        self.rule = rule
        self.test_penalty = test_penalty
        self.calibrate = calibrate
        self.normalize = normalize
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _learn(
        self, X: Floats, class_of_row: Classes, n_classes: int, seed: int, n_threads: int
    ) -> CoparModel:
        return learn_copar(
            X, class_of_row, n_classes, **self._own_settings(), seed=seed, n_threads=n_threads
        )
