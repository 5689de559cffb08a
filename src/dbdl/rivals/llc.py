"""Locality-constrained linear coding (Wang et al., CVPR 2010) with a linear classifier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from dbdl._parameters import PositiveCount, PositiveWeight
from dbdl._threads import run_blocks
from dbdl.coding.llc import llc
from dbdl.learn.labels import one_hot
from dbdl.model.state import Doubles, Floats
from dbdl.model.trust import AtLeastOne, Positive
from dbdl.rivals._base import LabelAtomsModel, Lesson, RivalClassifier

Codebook = Literal["class", "all"]


@dataclass(frozen=True)
class LLCModel(LabelAtomsModel):
    """Codebook, how to code a row over it, and label atoms."""

    n_nonzero: AtLeastOne
    locality: Positive

    def encode(self, X: Floats, n_threads: int = 1) -> csr_matrix:
        """Codes of rows over their nearest atoms."""
        return llc(X, self.atoms, self.n_nonzero, self.locality, n_threads=n_threads)


def k_means(
    rows: Doubles, n_centres: int, n_iterations: int, rng: np.random.Generator
) -> tuple[Doubles, list[float]]:
    """Lloyd's algorithm from centres drawn far apart (k-means++).

    Returns the centres, and the sum of squared distances of the rows to them after each iteration;
    the loop ends once no row changes its centre. Scikit-learn's `KMeans` keeps no such trace, and
    its threads add up in any order, so that its bits may differ from run to run.
    """
    centres = rows[_far_apart(rows, n_centres, rng)]
    squares = np.einsum("ij,ij->i", rows, rows)
    nearest, objective = np.full(len(rows), -1), []
    for _ in range(n_iterations):
        before = nearest
        distance = np.einsum("ij,ij->i", centres, centres) - 2 * rows @ centres.T
        nearest = distance.argmin(axis=1)
        if np.array_equal(nearest, before):
            break
        members = one_hot(nearest, n_centres)
        count = members.sum(axis=0)
        filled = count > 0  # a centre without rows, a copy of another, stays where it is
        centres[filled] = (members.T @ rows)[filled] / count[filled, np.newaxis]
        # sum |x|^2 - n |mean|^2 over centres
        left = squares.sum() - count @ np.einsum("ij,ij->i", centres, centres)
        objective.append(max(float(left), 0.0))
    return centres, objective


def _far_apart(rows: Doubles, n_centres: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Row numbers, each drawn by its squared distance to those before; distinct."""
    chosen = np.empty(n_centres, dtype=np.int64)
    distance = np.ones(len(rows))
    for j in range(n_centres):
        if not distance.any():  # only copies of chosen rows are left
            left = np.setdiff1d(np.arange(len(rows)), chosen[:j])
            chosen[j:] = left[: n_centres - j]
            break
        chosen[j] = rng.choice(len(rows), p=distance / distance.sum())
        new = np.square(rows - rows[chosen[j]]).sum(axis=1)
        distance = new if j == 0 else np.minimum(distance, new)
        distance[chosen[: j + 1]] = 0
    return chosen


def learn_codebook(
    lesson: Lesson, n_atoms_per_class: int, codebook: Codebook, n_iterations: int
) -> tuple[Floats, Doubles]:
    """Centres of k-means, of each class or of all rows together, and the objective summed up."""
    X, parts = lesson.X, lesson.by_class()
    sizes = [min(len(part), n_atoms_per_class) for part in parts]
    if codebook == "all":
        parts, sizes = [X], [sum(sizes)]

    def learn(part: int) -> tuple[Doubles, list[float]]:
        rows = parts[part].astype(np.float64)
        return k_means(rows, sizes[part], n_iterations, lesson.rng(part))

    learned = run_blocks(learn, range(len(parts)), lesson.n_threads)
    atoms = np.vstack([centres for centres, _ in learned]).astype(X.dtype)
    # a class that is done keeps its last value
    longest = max(len(trace) for _, trace in learned)
    traces = [trace + trace[-1:] * (longest - len(trace)) for _, trace in learned]
    return atoms, np.sum(traces, axis=0)


class LLCClassifier(RivalClassifier):
    r"""Locality-constrained linear coding (LLC) with a linear classifier.

    The atoms are centres of k-means. A row :math:`x` is coded over its nearest atoms :math:`B`:

    .. math:: \alpha = \arg\min_a \|x - a B\|^2 + \beta \operatorname{tr}(C) \|a\|^2
              \quad\text{subject to}\quad \textstyle\sum_j a_j = 1,
              \qquad C = (B - x)(B - x)^T

    which has the closed form :math:`\alpha \propto (C + \beta \operatorname{tr}(C) I)^{-1} 1`: the
    fast form of the paper, in which the choice of nearest atoms stands for its penalty on distance.
    Label atoms are fitted to the codes of the training rows by ridge regression,
    :math:`\min_W \|H - A W\|^2 + \lambda \|W\|^2`, and a row belongs to the class with the largest
    entry of :math:`\alpha W`. Its authors pool the codes of many patches of a picture and use a
    linear support vector machine; here a row is one thing to code.

    The DBDL paper prints 90.7 % on Extended YaleB with 70 local bases (``n_nonzero=70``), a figure
    it takes from the LC-KSVD paper; it names no codebook and no classifier, those here are ours.

    Parameters
    ----------
    codebook : {"class", "all"}, default="class"
        Centres of each class, or as many in all from all rows together.
    n_nonzero : int, default=70
        Nearest atoms that code a row; at most all.
    locality : float, default=0.0001
        :math:`\beta`.
    penalty : float, default=0.1
        :math:`\lambda`.
    n_iterations : int, default=30
        Of k-means, at most.

    Attributes
    ----------
    atoms_, components_ : ndarray of shape (n_atoms, n_features)
        Centres of k-means.
    objective_ : ndarray of shape (n_iterations,)
        Sum of squared distances of the rows to their centres, after each iteration of k-means.

    References
    ----------
    J. Wang, J. Yang, K. Yu, F. Lv, T. Huang and Y. Gong, "Locality-constrained linear coding for
    image classification", CVPR 2010.
    """

    n_atoms_per_class: PositiveCount = 15
    codebook: Codebook = "class"
    n_nonzero: PositiveCount = 70
    locality: PositiveWeight = 0.0001
    penalty: PositiveWeight = 0.1
    n_iterations: PositiveCount = 30

    _example = "n_nonzero=20, calibrate=False, random_state=0"

    def _learn(self, lesson: Lesson) -> LLCModel:
        atoms, objective = learn_codebook(
            lesson, self.n_atoms_per_class, self.codebook, self.n_iterations
        )
        codes = llc(lesson.X, atoms, self.n_nonzero, self.locality, n_threads=lesson.n_threads)
        label_atoms = lesson.label_atoms(codes, self.penalty)
        return LLCModel(atoms, label_atoms, objective, self.n_nonzero, self.locality)
