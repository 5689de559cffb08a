"""Scores by codes and residuals of each class, shared by the rivals with atoms of classes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dbdl.coding.lasso import lasso
from dbdl.model.state import Floats

Scores = NDArray[np.float64]


def lasso_loss(
    X: Floats, atoms: Floats, penalty: float, residual_weight: float = 0.5, n_threads: int = 1
) -> Scores:
    """Least ``residual_weight * ||x - a @ atoms||^2 + penalty * ||a||_1`` of each row.

    Returns
    -------
    loss : ndarray of shape (n_samples,)
    """
    codes = lasso(X, atoms, penalty=penalty / (2 * residual_weight), n_threads=n_threads)
    size = np.asarray(abs(codes).sum(axis=1, dtype=np.float64)).ravel()
    loss: Scores = residual_weight * squared_norms(X - codes @ atoms) + penalty * size
    return loss


def class_residuals(X: Floats, codes: Floats, atoms: Floats, blocks: Sequence[slice]) -> Scores:
    """Squared norm of each row less the part of its code over the atoms of each class.

    Returns
    -------
    residuals : ndarray of shape (n_samples, n_classes)
    """
    return np.column_stack([squared_norms(X - codes[:, b] @ atoms[b]) for b in blocks])


def squared_norms(rows: Floats) -> Scores:
    """Squared norm of each row, summed in float64."""
    norms: Scores = np.einsum("if,if->i", rows, rows, dtype=np.float64)
    return norms


def total_square(rows: Floats) -> float:
    """Sum of all squares, in float64."""
    return float(squared_norms(rows).sum())
