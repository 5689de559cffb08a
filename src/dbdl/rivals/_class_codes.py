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


def loss_near_mean(
    X: Floats, atoms: Floats, mean: Floats, penalty: float, mean_weight: float
) -> Scores:
    """Least ``||x - a @ atoms||^2 + penalty ||a||_1 + mean_weight ||a - mean||^2`` of each row.

    The pull to the mean code is a residual, too: of as many features more as there are atoms.
    """
    root = np.sqrt(mean_weight)
    target = np.broadcast_to(root * mean, (len(X), len(atoms)))
    rows = np.hstack([X, target]).astype(X.dtype)
    taller = np.hstack([atoms, root * np.eye(len(atoms))]).astype(X.dtype)
    return lasso_loss(rows, taller, penalty, residual_weight=1.0)


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
