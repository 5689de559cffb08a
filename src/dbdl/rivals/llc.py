"""Locality-constrained linear coding (Wang et al., CVPR 2010) with a linear classifier."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions

from dbdl._threads import run_blocks
from dbdl.coding.llc import llc
from dbdl.estimators._rows import POSITIVE
from dbdl.learn.labels import one_hot, ridge_label_atoms
from dbdl.model.record import Record
from dbdl.model.state import Floats
from dbdl.model.trust import AtLeastOne, Atoms, LabelAtoms, Objective, Positive
from dbdl.rivals._base import RIVAL_CONSTRAINTS, Classes, RivalClassifier

Codebook = Literal["class", "all"]


@dataclass(frozen=True)
class LLCModel(Record):
    """Codebook, how to code a row over it, and label atoms."""

    atoms: Atoms
    label_atoms: LabelAtoms
    n_nonzero: AtLeastOne
    locality: Positive
    objective: Objective

    def scores(self, X: Floats, n_threads: int = 1) -> NDArray[np.float64]:
        """Codes times label atoms."""
        codes = llc(X, self.atoms, self.n_nonzero, self.locality, n_threads=n_threads)
        scores: NDArray[np.float64] = codes @ self.label_atoms
        return scores


def k_means(
    rows: NDArray[np.float64], n_centres: int, n_iterations: int, rng: np.random.Generator
) -> tuple[NDArray[np.float64], list[float]]:
    """Lloyd's algorithm from centres drawn far apart (k-means++).

    Parameters
    ----------
    rows : ndarray of shape (n_samples, n_features)
    n_centres : int
        At most ``n_samples``.
    n_iterations : int
        At most; the loop ends once no row changes its centre.
    rng : Generator

    Returns
    -------
    centres : ndarray of shape (n_centres, n_features)
    objective : list of float
        Sum of squared distances of the rows to their centres, after each iteration.
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


def _far_apart(
    rows: NDArray[np.float64], n_centres: int, rng: np.random.Generator
) -> NDArray[np.int64]:
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
    X: Floats,
    class_of_row: Classes,
    n_classes: int,
    n_atoms_per_class: int,
    codebook: Codebook,
    n_iterations: int,
    seed: int,
    n_threads: int = 1,
) -> tuple[Floats, NDArray[np.float64]]:
    """Centres of k-means, of each class or of all rows together, and the objective summed up."""
    sizes = np.minimum(np.bincount(class_of_row, minlength=n_classes), n_atoms_per_class)
    if codebook == "class":
        parts = [np.flatnonzero(class_of_row == c) for c in range(n_classes)]
    else:
        parts, sizes = [np.arange(len(X))], np.array([sizes.sum()])

    def learn(part: int) -> tuple[NDArray[np.float64], list[float]]:
        rng = np.random.default_rng([seed, part])
        return k_means(X[parts[part]].astype(np.float64), int(sizes[part]), n_iterations, rng)

    learned = run_blocks(learn, range(len(parts)), n_threads)
    atoms = np.vstack([centres for centres, _ in learned]).astype(X.dtype)
    # a class that is done keeps its last value
    longest = max(len(trace) for _, trace in learned)
    traces = [trace + trace[-1:] * (longest - len(trace)) for _, trace in learned]
    return atoms, np.sum(traces, axis=0)


def learn_llc(
    X: Floats,
    class_of_row: Classes,
    n_classes: int,
    n_atoms_per_class: int,
    codebook: Codebook,
    n_nonzero: int,
    locality: float,
    penalty: float,
    n_iterations: int,
    seed: int,
    n_threads: int = 1,
) -> LLCModel:
    """Learn a codebook, code the training rows over it, and fit label atoms to the codes."""
    atoms, objective = learn_codebook(
        X, class_of_row, n_classes, n_atoms_per_class, codebook, n_iterations, seed, n_threads
    )
    codes = llc(X, atoms, n_nonzero, locality, n_threads=n_threads)
    label_atoms = ridge_label_atoms(codes, class_of_row, n_classes, penalty)
    return LLCModel(atoms, label_atoms, n_nonzero, locality, objective)


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
    n_atoms_per_class : int, default=15
        Centres of each class. A class with fewer rows has as many as rows.
    codebook : {"class", "all"}, default="class"
        Centres of each class, or as many in all from all rows together.
    n_nonzero : int, default=70
        Nearest atoms that code a row; at most all.
    locality : float, default=1e-4
        :math:`\beta`.
    penalty : float, default=0.1
        :math:`\lambda`.
    n_iterations : int, default=30
        Of k-means, at most.
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
    classes_ : ndarray of shape (n_classes,)
    n_atoms_ : int
    model_ : LLCModel
    objective_ : ndarray
        Sum of squared distances of the rows to their centres, after each iteration of k-means.
    temperature_ : float
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    References
    ----------
    J. Wang, J. Yang, K. Yu, F. Lv, T. Huang and Y. Gong, "Locality-constrained linear coding for
    image classification", CVPR 2010.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dbdl.rivals.llc import LLCClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = LLCClassifier(n_nonzero=20, calibrate=False, random_state=0)
    >>> bool(model.fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.95)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **RIVAL_CONSTRAINTS,
        "n_atoms_per_class": [Interval(Integral, 1, None, closed="left")],
        "codebook": [StrOptions({"class", "all"})],
        "n_nonzero": [Interval(Integral, 1, None, closed="left")],
        "locality": [POSITIVE],
        "penalty": [POSITIVE],
        "n_iterations": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        *,
        n_atoms_per_class: int = 15,
        codebook: Codebook = "class",
        n_nonzero: int = 70,
        locality: float = 1e-4,
        penalty: float = 0.1,
        n_iterations: int = 30,
        calibrate: bool = True,
        normalize: bool = True,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_atoms_per_class = n_atoms_per_class
        self.codebook = codebook
        self.n_nonzero = n_nonzero
        self.locality = locality
        self.penalty = penalty
        self.n_iterations = n_iterations
        self.calibrate = calibrate
        self.normalize = normalize
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _learn(
        self, X: Floats, class_of_row: Classes, n_classes: int, seed: int, n_threads: int
    ) -> LLCModel:
        return learn_llc(
            X, class_of_row, n_classes, **self._own_settings(), seed=seed, n_threads=n_threads
        )
