"""Codes and residuals by class, shared by the rivals with atoms of classes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dbdl.coding.fista import FistaResult, Product, fista
from dbdl.coding.lasso import lasso
from dbdl.model.state import Floats

Scores = NDArray[np.float64]

#: FISTA ends when a step is this part of the codes, or after so many steps. Codes start where the
#: last iteration left them, so that ten to thirty steps are usual.
CODE_TOL = 1e-3
CODE_STEPS = 100


def improve_codes(
    product: Product, linear: Floats, before: Floats, penalty: float, curvature: float = 1.0
) -> FistaResult:
    """Lower ``<codes, Q(codes)> - 2 <codes, linear> + penalty ||codes||_1`` from codes before.

    These are the codes of a learning iteration, near enough to the minimum and never worse than
    those it started from. The squared residual is not halved here, and FISTA halves it.
    """
    return fista(
        product,
        linear,
        before,
        penalty / 2,
        lipschitz=curvature,
        n_iterations=CODE_STEPS,
        tol=CODE_TOL,
    )


def lasso_codes(X: Floats, atoms: Floats, penalty: float, n_threads: int = 1) -> Floats:
    """Dense codes of the least ``||x - a @ atoms||^2 + penalty * ||a||_1`` of each row.

    Returns
    -------
    codes : ndarray of shape (n_samples, n_atoms)
    """
    # the lasso halves the residual
    codes: Floats = lasso(X, atoms, penalty=penalty / 2, n_threads=n_threads).toarray()
    return codes


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


def squared_class_residuals(
    X: Floats, codes: Floats, atoms: Floats, blocks: Sequence[slice | NDArray[np.bool_]]
) -> Scores:
    """Squared norm of what the part of each code over the atoms of each class leaves of its row.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    codes : ndarray of shape (n_samples, n_atoms)
        Dense; `dbdl.rivals.src` has the same for sparse ones.
    atoms : ndarray of shape (n_atoms, n_features)
    blocks : sequence of slice or mask
        Atoms of each class.

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
