"""Equations with a positive definite matrix, which rounding may have made singular."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve, lstsq

from dbdl.model.trust import Floats


def solve_definite(matrix: Floats, right: Floats, *, overwrite: bool = False) -> Floats:
    """Solve ``matrix @ solution = right`` by Cholesky.

    A small multiple of the identity in ``matrix``, such as a penalty or a prior precision, may be
    lost in rounding, and the rest may be singular. The solution is then the smallest one: the
    limit as that multiple tends to zero.

    Parameters
    ----------
    matrix : ndarray of shape (n, n)
        Symmetric, without negative eigenvalues up to rounding.
    right : ndarray of shape (n, n_columns)
    overwrite : bool
        Whether ``matrix`` may be used as memory.

    Returns
    -------
    solution : ndarray of shape (n, n_columns)
    """
    if matrix.flags.c_contiguous:
        matrix = matrix.T  # LAPACK reads columns, and would copy rows
    diagonal = matrix.diagonal().copy()
    try:
        factor = cho_factor(matrix, lower=True, overwrite_a=overwrite, check_finite=False)
    except np.linalg.LinAlgError:
        whole = np.triu(matrix, 1)  # the factor may have overwritten the other half
        whole += whole.T
        np.fill_diagonal(whole, diagonal)
        rounding = len(whole) * np.finfo(whole.dtype).eps
        return lstsq(whole, right, cond=rounding, check_finite=False)[0]
    return cho_solve(factor, right, check_finite=False)
