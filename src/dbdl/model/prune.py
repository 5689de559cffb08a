"""The rule by which atoms are dropped between steps.

The paper drops an atom once its selection probability is 0 in every class. A draw from
Beta(a_o / K, ...) is never exactly 0, so that would never happen. Instead, an atom is dropped when
no sample of any class uses it.

Dropping is not part of a Gibbs step: the number of atoms only falls.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dbdl.model.statistics import UsageSums
from dbdl.model.trust import Floats


def informed(energy: Floats, norm_square: Floats, least_energy: float) -> NDArray[np.bool_]:
    """Atoms that explain at least ``least_energy`` of the data's squared norm.

    ``energy * norm_square`` is the squared norm of the atom's contributions to all rows. The rule
    does not depend on a precision that the chain draws. A rule scaled by the noise precision would
    run away: fewer atoms make more noise, which makes the rule stricter.
    """
    return energy * norm_square >= least_energy


def atoms_to_keep(
    sums: UsageSums, norm_square: Floats, least_energy: float = 0.0
) -> NDArray[np.intp]:
    """Indices of the atoms that stay, ascending.

    Parameters
    ----------
    sums : UsageSums
        Sums over all rows.
    norm_square : ndarray of shape (n_atoms,)
        Squared norms of the atoms.
    least_energy : float
        See `informed`; 0 drops unused atoms only.

    Returns
    -------
    kept : ndarray of int
        The used and informed atoms. A class that would lose all its atoms keeps the most used one,
        and at least two atoms stay.
    """
    keep = (sums.uses > 0) & informed(sums.energy, norm_square, least_energy)
    if keep.sum() == len(keep) >= 2:
        return np.arange(len(keep))
    count = sums.count
    bare = (sums.n_strengths > 0) & ~count[:, keep].any(axis=1)
    for class_count in count[bare]:
        if not class_count[keep].any():  # an atom kept for another class may be enough
            keep[np.argmax(class_count)] = True
    if keep.sum() < 2:
        keep[np.argsort(-sums.energy * norm_square, kind="stable")[:2]] = True
    return np.flatnonzero(keep)
