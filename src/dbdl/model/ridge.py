"""Ridge regression on sparse codes (eq. 15): the linear classifier of the paper and its rivals."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix

from dbdl.model.definite import solve_definite
from dbdl.model.statistics import AtomSums
from dbdl.model.trust import Doubles


def ridge(codes: csr_matrix, target: Doubles, penalty: float) -> Doubles:
    """Solve min_W ||target - codes W||^2 + penalty ||W||^2 by the smaller of the Gram matrices.

    ``codes`` is (n_samples, n_atoms), ``target`` (n_samples, n_columns) and W (n_atoms, n_columns).
    """
    codes = codes.astype(np.float64)
    n_samples, n_atoms = codes.shape
    if n_atoms <= n_samples:
        return solve_ridge((codes.T @ codes).toarray(), codes.T @ target, penalty)
    return codes.T @ solve_ridge((codes @ codes.T).toarray(), target, penalty)


def scaled_ridge(sums: AtomSums, scale: Doubles, penalty: float) -> Doubles:
    """Ridge regression on ``codes * scale``, from sums of the codes with the target as rows."""
    column = scale[:, np.newaxis]
    gram = scale * sums.gram
    gram *= column
    return solve_ridge(gram, column * sums.cross, penalty)


def solve_ridge(gram: Doubles, target: Doubles, penalty: float) -> Doubles:
    """Solve (gram + penalty I) W = target by Cholesky; ``gram`` is overwritten.

    If the penalty is lost in the rounding of a singular matrix, W is the smallest solution, the
    limit as the penalty tends to zero.
    """
    gram.flat[:: len(gram) + 1] += penalty
    return solve_definite(gram, target, overwrite=True).astype(np.float64, copy=False)
