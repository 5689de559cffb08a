"""The score of one class against another, taken apart into features and atoms.

A member's score is linear in its code, and its coder says how the code depends on the row in the
member's view. Given the atoms that the row uses, both together are a linear function of the row in
that view, which `dbdl.views.attribution` takes apart into the features of the row as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from dbdl._products import row_products
from dbdl.backends import Backend
from dbdl.learn.members import Member
from dbdl.model.state import Floats
from dbdl.views.attribution import attribute, training_mean
from dbdl.views.view import FittedView

Doubles = NDArray[np.float64]


class MemberShares(NamedTuple):
    """The difference of two scores of a member: constant + shares + rest."""

    shares: Doubles  # (n_features_in,)
    constant: float  # the difference for the baseline, with the same atoms and norms
    rest: float  # what slopes do not account for: 0 up to rounding if they are exact


def share_out(
    member: Member, row: Doubles, baseline: Doubles, code: csr_matrix, pair: tuple[int, int],
    backend: Backend,
) -> MemberShares:  # fmt: skip
    """Take a member's weighted difference of two class scores apart.

    Parameters
    ----------
    member : Member
    row, baseline : ndarray of shape (n_features_in,)
        A row without gaps, and the row that it is compared with.
    code : csr_matrix of shape (1, n_atoms)
        The member's code of the row.
    pair : (int, int)
        The class, and the class that it is compared with.
    backend : Backend
    """
    weights = weights_of_atoms(member, pair)
    seen = member.view.apply(row[np.newaxis].astype(member.atoms.dtype))[0].astype(np.float64)
    slopes = member.coder.slopes(seen, code, member.prepared, weights, backend)
    shares, at_baseline = attribute(member.view, row, baseline, slopes)
    rest = float((code @ weights)[0]) - float(shares.sum()) - at_baseline
    return MemberShares(shares, at_baseline, rest)


def weights_of_atoms(member: Member, pair: tuple[int, int]) -> Doubles:
    """Weights (n_atoms,) of a code in the member's weighted difference of two class scores."""
    first, second = pair
    weights: Doubles = member.weight * (member.label_atoms[:, first] - member.label_atoms[:, second])
    return weights


def mean_of_views(members: Sequence[Member], n_features: int) -> Doubles:
    """Mean of the training rows (n_features,), as far as the views know it; 0 if none does.

    Views that see rows as they are know it exactly, up to the rows that each member left out. The
    others know that of rows scaled to unit norm.
    """
    known = [(m.view, mean) for m in members if (mean := training_mean(m.view)) is not None]
    exact = [mean for view, mean in known if isinstance(view, FittedView) and not view.recipe.unit]
    means = exact or [mean for _, mean in known]
    return np.mean(means, axis=0) if means else np.zeros(n_features)


def nearest_rows(
    member: Member, atoms: NDArray[np.int64], X: Floats, n_nearest: int, backend: Backend
) -> tuple[NDArray[np.int64], Doubles]:
    """Numbers and cosines (len(atoms), n_nearest) of the rows nearest to atoms in a member's view.

    Zero rows are nearest to no atom.
    """
    rows = member.view.apply(X.astype(member.atoms.dtype), backend.n_threads)
    cosines = row_products(np.ascontiguousarray(rows), member.atoms[atoms]).astype(np.float64).T
    norms = np.linalg.norm(rows.astype(np.float64), axis=1)  # rows as they are are not of unit norm
    cosines /= np.where(norms > 0, norms, 1.0)
    order = np.argsort(-cosines, axis=1, kind="stable")[:, :n_nearest]
    return order, np.take_along_axis(cosines, order, axis=1)
