"""Latent dictionary learning (Yang, Dai, Shen and Van Gool, CVPR 2014).

Written from the paper's abstract and accounts of the model by others, not from its equations:
`LDLClassifier` says what is the paper's and what is assumed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dbdl._parameters import AnyWeight
from dbdl._threads import run_blocks
from dbdl.model.state import Doubles, Floats
from dbdl.model.trust import ByClass, NotNegative
from dbdl.rivals._atoms import update_atoms
from dbdl.rivals._base import Lesson, Scores
from dbdl.rivals._class_atoms import (
    DecidingClassifier,
    DecidingModel,
    alternate,
    improve_codes,
    loss_near_mean,
    squared_norms,
    total_square,
)

Weights = Doubles

#: Projected gradient steps for the weights of a class in one iteration.
WEIGHT_STEPS = 30


@dataclass(frozen=True)
class LDLModel(DecidingModel):
    """Atoms, the weight of each for each class, and the mean codes of the classes."""

    weights: ByClass  # (n_classes, n_atoms)
    mean_codes: ByClass  # (n_classes, n_atoms)
    mean_weight: NotNegative

    def local_loss(self, X: Floats, c: int) -> Scores:
        """Loss by codes over the weighted atoms of class ``c``, near its mean code."""
        used = self.weights[c] > 0
        atoms = self.weights[c, used, np.newaxis] * self.atoms[used]
        mean = self.mean_codes[c, used]
        return loss_near_mean(X, atoms, mean, self.test_penalty, self.mean_weight)

    def global_loss(self, X: Floats, codes: Floats) -> Scores:
        """Residuals of codes with the weights of each class."""
        parts = [squared_norms(X - (codes * own) @ self.atoms) for own in self.weights]
        return np.column_stack(parts)


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
class Latent:
    """Codes of each class, and the weights (n_classes, n_atoms) of the atoms in them."""

    codes: list[Floats]
    weights: Weights


@dataclass(frozen=True)
class LatentCodes:
    """The problem of `LDLClassifier`: rows and codes class by class."""

    rows: list[Floats]
    penalty: float
    scatter: float
    incoherence: float
    n_threads: int = 1

    def step(self, atoms: Floats, latent: Latent) -> tuple[Floats, Latent, float]:
        """Update the weights, then the atoms by one pass, then improve the codes."""
        codes = latent.codes
        weights = self.update_weights(codes, atoms, latent.weights)
        pairs = (2 * self.incoherence * shared_weights(weights)).astype(atoms.dtype)
        each_atom = [slice(k, k + 1) for k in range(len(atoms))]
        atoms = update_atoms(atoms, *self.sums(codes, weights), each_atom, pairs)
        latent = self.code(atoms, weights, codes)
        return atoms, latent, self.objective(latent.codes, atoms, weights)

    def code(self, atoms: Floats, weights: Weights, before: list[Floats]) -> Latent:
        """Codes of all classes, improved from those before."""
        gram = atoms @ atoms.T

        def of_class(c: int) -> Floats:
            return self.code_class(c, atoms, gram, weights[c], before[c])

        return Latent(run_blocks(of_class, range(len(self.rows)), self.n_threads), weights)

    def code_class(
        self, c: int, atoms: Floats, gram: Floats, weights: Weights, before: Floats
    ) -> Floats:
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


class LDLClassifier(DecidingClassifier):
    r"""Latent dictionary learning (LDL): how much each class uses each atom is learned, too.

    Class :math:`c` has weights :math:`w_c`, one for each atom of unit norm:

    .. math::

        \min_{D, A, w} \sum_c \|X_c - A_c \operatorname{diag}(w_c) D\|_F^2 + \lambda_1 \|A_c\|_1
        + \lambda_2 \|A_c - M_c\|_F^2
        + \lambda_3 \sum_c \sum_{j \ne c} \sum_k \sum_{l \ne k} w_{ck} (d_k d_l^T)^2 w_{jl}

        \text{subject to}\quad w_{ck} \ge 0, \quad \sum_k w_{ck} = \delta_c

    with :math:`M_c` the mean code of the class in every row. Weights (projected gradient), atoms
    (one by one, on the sphere) and codes (FISTA) are updated in turn. The objective never rises.

    A row :math:`x` belongs to the class with the least

    - ``decision="local"``:
      :math:`\min_a \|x - a \operatorname{diag}(w_c) D\|^2 + \gamma \|a\|_1 + v \|a - m_c\|^2`;
    - ``decision="global"``: :math:`\|x - a \operatorname{diag}(w_c) D\|^2` with the code
      :math:`a = \arg\min_a \|x - a D\|^2 + \gamma \|a\|_1`.

    **From the paper**, of which only the abstract was available: atoms are learned together with
    latent vectors that tie each atom to the classes, :math:`w`; the codes of a class should
    scatter little, the term of :math:`\lambda_2`; atoms should be incoherent by how much different
    classes use them, that of :math:`\lambda_3`; and the classifier uses the weights.

    **Assumed**: that the weights are not negative and their sum is given, as accounts by others
    have it, and that the sum :math:`\delta_c` is the number of atoms that start from the class;
    that an atom is not paired with itself in the incoherence; the first weights (those of atoms
    that start from other classes are ``other_weight`` times those of its own; a weight of zero can
    never grow again); how each of the three is updated; the form of both decisions, and that the
    global one is the default; and the values of all parameters. Figures of this class are not
    figures of the paper. The DBDL paper cites its results on action recognition and names no
    settings.

    Parameters
    ----------
    scatter : float, default=0.005
        :math:`\lambda_2`.
    incoherence : float, default=0.0001
        :math:`\lambda_3`.
    other_weight : float, default=0.01
        First weight of the atoms that start from other classes, as a part of that of its own.
    mean_weight : float, default=0.005
        :math:`v`, for the local decision.

    Attributes
    ----------
    model_ : LDLModel
        Holds, among others, the ``weights`` of the classes.

    References
    ----------
    M. Yang, D. Dai, L. Shen and L. Van Gool, "Latent dictionary learning for sparse
    representation based classification", CVPR 2014.
    """

    scatter: AnyWeight = 0.005
    incoherence: AnyWeight = 0.0001
    other_weight: AnyWeight = 0.01
    mean_weight: AnyWeight = 0.005

    _example = "random_state=0"

    def _learn(self, lesson: Lesson) -> LDLModel:
        atoms, blocks = self._first_atoms(lesson)
        rows, dtype = lesson.by_class(), lesson.X.dtype
        problem = LatentCodes(rows, self.penalty, self.scatter, self.incoherence, lesson.n_threads)
        empty = [np.zeros((len(own), len(atoms)), dtype=dtype) for own in rows]
        latent = problem.code(atoms, first_weights(blocks, self.other_weight), empty)
        atoms, latent, trace = alternate(problem.step, atoms, latent, self.n_iterations)
        means = np.vstack([own.mean(axis=0) for own in latent.codes])
        weights = latent.weights.astype(dtype)
        return LDLModel(
            atoms, lesson.n_classes, self.test_penalty, trace, self.decision, weights, means,
            self.mean_weight,
        )  # fmt: skip
