"""Ridge regression on sparse codes (eq. 15): the linear classifier of the paper and its rivals."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from dbdl.model.definite import solve_definite
from dbdl.model.statistics import AtomSums

Floats64 = NDArray[np.float64]


def ridge(codes: csr_matrix, target: Floats64, penalty: float) -> Floats64:
    """Solve min_W ||target - codes W||^2 + penalty ||W||^2 by the smaller of the Gram matrices.

    ``codes`` is (n_samples, n_atoms), ``target`` (n_samples, n_columns) and W (n_atoms, n_columns).
    """
    codes = codes.astype(np.float64)
    n_samples, n_atoms = codes.shape
    if n_atoms <= n_samples:
        return solve_ridge((codes.T @ codes).toarray(), codes.T @ target, penalty)
    solution: Floats64 = codes.T @ solve_ridge((codes @ codes.T).toarray(), target, penalty)
    return solution


def scaled_ridge(sums: AtomSums, scale: Floats64, penalty: float) -> Floats64:
    """Ridge regression on ``codes * scale``, from sums of the codes with the target as rows."""
    column = scale[:, np.newaxis]
    return solve_ridge(column * sums.gram * scale, column * sums.cross, penalty)


def solve_ridge(gram: Floats64, target: Floats64, penalty: float) -> Floats64:
    """Solve (gram + penalty I) W = target by Cholesky; ``gram`` is overwritten.

    If the penalty is lost in the rounding of a singular matrix, W is the smallest solution, the
    limit as the penalty tends to zero.
    """
    gram.flat[:: len(gram) + 1] += penalty
    solution: Floats64 = solve_definite(gram, target, overwrite=True).astype(np.float64, copy=False)
    return solution
