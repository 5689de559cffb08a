"""Latent dictionary learning (Yang, Dai, Shen and Van Gool, CVPR 2014).

Written from the paper's abstract and accounts of the model by others, not from its equations:
`LDLClassifier` says what is the paper's and what is assumed.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions

from dbdl._threads import run_blocks
from dbdl.estimators._rows import NOT_NEGATIVE
from dbdl.model.record import Record
from dbdl.model.state import Floats
from dbdl.model.trust import Atoms, ByClass, NotNegative, Objective
from dbdl.rivals._atoms import Start, start_atoms, update_atoms
from dbdl.rivals._base import RIVAL_CONSTRAINTS, Classes, RivalClassifier
from dbdl.rivals._class_codes import (
    improve_codes,
    lasso_codes,
    loss_near_mean,
    squared_norms,
    total_square,
)

Rule = Literal["local", "global"]
Weights = NDArray[np.float64]

#: Projected gradient steps for the weights of a class in one iteration.
WEIGHT_STEPS = 30


@dataclass(frozen=True)
class LDLModel(Record):
    """Atoms, the weight of each for each class, and the mean codes of the classes."""

    atoms: Atoms
    weights: ByClass  # (n_classes, n_atoms)
    mean_codes: ByClass  # (n_classes, n_atoms)
    rule: Rule
    test_penalty: NotNegative
    mean_weight: NotNegative
    objective: Objective

    def scores(self, X: Floats, n_threads: int = 1) -> NDArray[np.float64]:
        """Minus the loss of each class under the rule."""
        if self.rule == "global":
            return -self._global_loss(X, n_threads)

        def loss(c: int) -> NDArray[np.float64]:
            used = self.weights[c] > 0
            atoms = self.weights[c, used, np.newaxis] * self.atoms[used]
            mean = self.mean_codes[c, used]
            return loss_near_mean(X, atoms, mean, self.test_penalty, self.mean_weight)

        return -np.column_stack(run_blocks(loss, range(len(self.weights)), n_threads))

    def _global_loss(self, X: Floats, n_threads: int) -> NDArray[np.float64]:
        codes = lasso_codes(X, self.atoms, self.test_penalty, n_threads)
        return np.column_stack(
            [squared_norms(X - (codes * own) @ self.atoms) for own in self.weights]
        )


def learn_ldl(
    X: Floats,
    class_of_row: Classes,
    n_classes: int,
    *,
    n_atoms_per_class: int,
    penalty: float,
    scatter: float,
    incoherence: float,
    other_weight: float,
    n_iterations: int,
    start: Start = "rows",
    rule: Rule = "global",
    test_penalty: float = 0.005,
    mean_weight: float = 0.005,
    seed: int = 0,
    n_threads: int = 1,
) -> LDLModel:
    """Alternate the weights of the classes, the atoms and the codes.

    See `LDLClassifier` for the problem.
    """
    rng = np.random.default_rng(seed)
    atoms, blocks = start_atoms(X, class_of_row, n_classes, n_atoms_per_class, start, rng)
    rows = [X[class_of_row == c] for c in range(n_classes)]
    problem = LatentCodes(rows, penalty, scatter, incoherence)
    weights = first_weights(blocks, other_weight)
    each_atom = [slice(k, k + 1) for k in range(len(atoms))]
    codes = [np.zeros((len(own), len(atoms)), dtype=X.dtype) for own in rows]

    def code() -> list[Floats]:
        gram = atoms @ atoms.T

        def of_class(c: int) -> Floats:
            return problem.code(c, atoms, gram, weights[c], codes[c])

        return run_blocks(of_class, range(n_classes), n_threads)

    codes = code()
    trace = []
    for _ in range(n_iterations):
        weights = problem.update_weights(codes, atoms, weights)
        pairs = (2 * incoherence * shared_weights(weights)).astype(X.dtype)
        atoms = update_atoms(atoms, *problem.sums(codes, weights), each_atom, pairs)
        codes = code()
        trace.append(problem.objective(codes, atoms, weights))
    means = np.vstack([own.mean(axis=0) for own in codes])
    return LDLModel(
        atoms,
        weights.astype(X.dtype),
        means,
        rule,
        test_penalty,
        mean_weight,
        np.array(trace),
    )


def first_weights(blocks: list[slice], other_weight: float) -> Weights:
    """Weights (n_classes, n_atoms), of as large a sum as a class has atoms of its own."""
    weights = np.full((len(blocks), blocks[-1].stop), float(other_weight))
    for own, block in zip(weights, blocks, strict=True):
        own[block] = 1.0
        own *= (block.stop - block.start) / own.sum()
    return weights


def shared_weights(weights: Weights) -> Weights:
    """Sum over pairs of different classes of the products of the weights of two atoms."""
    total = weights.sum(axis=0)
    shared: Weights = np.outer(total, total) - weights.T @ weights
    np.fill_diagonal(shared, 0)
    return np.maximum(shared, 0)  # a difference: rounding may leave it under zero


@dataclass(frozen=True)
class LatentCodes:
    """The problem, class by class, and its sums."""

    rows: list[Floats]
    penalty: float
    scatter: float
    incoherence: float

    def code(self, c: int, atoms: Floats, gram: Floats, weights: Weights, before: Floats) -> Floats:
        """Codes of the rows of class c, over the atoms with a weight: those without get zeros."""
        used = np.flatnonzero(weights)
        own = weights[used].astype(atoms.dtype)
        quadratic = gram[np.ix_(used, used)] * np.outer(own, own)
        scatter = atoms.dtype.type(self.scatter)

        def multiply(codes: Floats, out: Floats) -> None:
            np.matmul(codes, quadratic, out=out)
            out += scatter * (codes - codes.mean(axis=0))

        linear = self.rows[c] @ (own[:, np.newaxis] * atoms[used]).T
        found = improve_codes(multiply, linear, before[:, used], self.penalty)
        codes = np.zeros_like(before)
        codes[:, used] = found.codes
        return codes

    def sums(self, codes: list[Floats], weights: Weights) -> tuple[Floats, Floats]:
        """Gram matrix and cross products that the atoms see."""
        dtype = codes[0].dtype
        weighted = np.vstack([a * w.astype(dtype) for a, w in zip(codes, weights, strict=True)])
        return weighted.T @ weighted, weighted.T @ np.vstack(self.rows)

    def update_weights(self, codes: list[Floats], atoms: Floats, weights: Weights) -> Weights:
        """Weights of one class after another, each given the newest others.

        The problem of a class is a convex quadratic over weights of a given sum that are not
        negative: projected gradient.
        """
        gram = (atoms @ atoms.T).astype(np.float64)
        squares = gram**2
        np.fill_diagonal(squares, 0)
        weights = weights.copy()
        for c, (rows, code) in enumerate(zip(self.rows, codes, strict=True)):
            used = np.flatnonzero(weights[c])
            others = weights.sum(axis=0) - weights[c]
            own = code[:, used].astype(np.float64)
            quadratic = (own.T @ own) * gram[np.ix_(used, used)]
            linear = np.einsum("ik,ik->k", own, (rows @ atoms[used].T).astype(np.float64))
            linear -= self.incoherence * (squares[used] @ others)
            weights[c, used] = minimise_on_simplex(quadratic, linear, weights[c, used])
        return weights

    def objective(self, codes: list[Floats], atoms: Floats, weights: Weights) -> float:
        """Objective of `LDLClassifier`."""
        value = 0.0
        for rows, code, own in zip(self.rows, codes, weights, strict=True):
            value += total_square(rows - (code * own.astype(code.dtype)) @ atoms)
            value += self.penalty * float(np.abs(code).sum(dtype=np.float64))
            value += self.scatter * total_square(code - code.mean(axis=0))
        squares = (atoms @ atoms.T).astype(np.float64) ** 2
        return value + self.incoherence * float(np.sum(shared_weights(weights) * squares))


def minimise_on_simplex(quadratic: Weights, linear: Weights, start: Weights) -> Weights:
    """Lower 1/2 w Q w - w b over w of the sum of the start, none negative."""
    # The largest sum of absolute values of a row bounds every eigenvalue.
    bound = float(np.abs(quadratic).sum(axis=1).max(initial=0.0))
    if bound == 0:
        return start
    weights, total = start, start.sum()
    for _ in range(WEIGHT_STEPS):
        weights = project_on_simplex(weights - (quadratic @ weights - linear) / bound, total)
    return weights


def project_on_simplex(values: Weights, total: float) -> Weights:
    """The nearest point of the given sum with no negative entry."""
    descending = -np.sort(-values)
    excess = (np.cumsum(descending) - total) / np.arange(1, len(values) + 1)
    last = np.flatnonzero(descending > excess)[-1]
    return np.maximum(values - excess[last], 0)


class LDLClassifier(RivalClassifier):
    r"""Latent dictionary learning (LDL): how much each class uses each atom is learned, too.

    Class :math:`c` has weights :math:`w_c`, one for each atom of unit norm:

    .. math::

        \min_{D, A, w} \sum_c \|X_c - A_c \operatorname{diag}(w_c) D\|_F^2 + \lambda_1 \|A_c\|_1
        + \lambda_2 \|A_c - M_c\|_F^2
        + \lambda_3 \sum_c \sum_{j \ne c} \sum_k \sum_{l \ne k} w_{ck} (d_k d_l^T)^2 w_{jl}

        \text{subject to}\quad w_{ck} \ge 0, \quad \sum_k w_{ck} = \delta_c

    with :math:`M_c` the mean code of the class in every row. Weights (projected gradient), atoms
    (one by one, on the sphere) and codes (FISTA) take turns, and the objective never rises.

    A row :math:`x` belongs to the class with the least

    - ``rule="local"``:
      :math:`\min_a \|x - a \operatorname{diag}(w_c) D\|^2 + \gamma \|a\|_1 + v \|a - m_c\|^2`;
    - ``rule="global"``: :math:`\|x - a \operatorname{diag}(w_c) D\|^2` with the code
      :math:`a = \arg\min_a \|x - a D\|^2 + \gamma \|a\|_1`.

    **From the paper**, whose abstract is all of it that we had: atoms are learned together with
    latent vectors that tie each atom to the classes, :math:`w`; the codes of a class should
    scatter little, the term of :math:`\lambda_2`; atoms should be incoherent by how much different
    classes use them, that of :math:`\lambda_3`; and the classifier uses the weights.

    **Assumed**: that the weights are not negative and their sum is given, as accounts by others
    have it, and that the sum :math:`\delta_c` is the number of atoms that start from the class;
    that an atom is not paired with itself in the incoherence; the first weights (those of atoms
    that start from other classes are ``other_weight`` times those of its own; a weight of zero can
    never grow again); how each of the three is updated; the form of both rules, and that the global
    one is the default; and the values of all parameters. Figures of this class are no figures of
    the paper. The DBDL paper cites its results on action recognition and names no settings.

    Parameters
    ----------
    n_atoms_per_class : int, default=15
        Atoms that start from each class; a class with fewer rows gives as many as it has rows.
    penalty : float, default=0.005
        :math:`\lambda_1`, for rows of unit norm.
    scatter : float, default=0.005
        :math:`\lambda_2`.
    incoherence : float, default=0.0001
        :math:`\lambda_3`.
    other_weight : float, default=0.01
        First weight of the atoms that start from other classes, as a part of that of its own.
    n_iterations : int, default=15
    start : {"rows", "pca"}, default="rows"
        First atoms: rows of the class at random, or its principal directions (not centred).
    rule : {"global", "local"}, default="global"
    test_penalty : float, default=0.005
        :math:`\gamma`.
    mean_weight : float, default=0.005
        :math:`v`, for the local rule.
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
        Of unit norm.
    classes_ : ndarray of shape (n_classes,)
    n_atoms_ : int
    model_ : LDLModel
        With the weights of the classes.
    objective_ : ndarray of shape (n_iterations,)
    temperature_ : float
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    References
    ----------
    M. Yang, D. Dai, L. Shen and L. Van Gool, "Latent dictionary learning for sparse
    representation based classification", CVPR 2014.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dbdl.rivals.ldl import LDLClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = LDLClassifier(random_state=0).fit(X[::2], y[::2])
    >>> bool(model.score(X[1::2], y[1::2]) > 0.9)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **RIVAL_CONSTRAINTS,
        "n_atoms_per_class": [Interval(Integral, 1, None, closed="left")],
        "penalty": [NOT_NEGATIVE],
        "scatter": [NOT_NEGATIVE],
        "incoherence": [NOT_NEGATIVE],
        "other_weight": [NOT_NEGATIVE],
        "n_iterations": [Interval(Integral, 0, None, closed="left")],
        "start": [StrOptions({"pca", "rows"})],
        "rule": [StrOptions({"local", "global"})],
        "test_penalty": [NOT_NEGATIVE],
        "mean_weight": [NOT_NEGATIVE],
    }

    _needs_many_features = True

    def __init__(
        self,
        *,
        n_atoms_per_class: int = 15,
        penalty: float = 0.005,
        scatter: float = 0.005,
        incoherence: float = 0.0001,
        other_weight: float = 0.01,
        n_iterations: int = 15,
        start: Start = "rows",
        rule: Rule = "global",
        test_penalty: float = 0.005,
        mean_weight: float = 0.005,
        calibrate: bool = True,
        normalize: bool = True,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_atoms_per_class = n_atoms_per_class
        self.penalty = penalty
        self.scatter = scatter
        self.incoherence = incoherence
        self.other_weight = other_weight
        self.n_iterations = n_iterations
        self.start = start
        self.rule = rule
        self.test_penalty = test_penalty
        self.mean_weight = mean_weight
        self.calibrate = calibrate
        self.normalize = normalize
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _learn(
        self, X: Floats, class_of_row: Classes, n_classes: int, seed: int, n_threads: int
    ) -> LDLModel:
        return learn_ldl(
            X, class_of_row, n_classes, **self._own_settings(), seed=seed, n_threads=n_threads
        )
