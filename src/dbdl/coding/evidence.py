"""The density of rows under the model, given the atoms that their codes use.

The exact density of a row sums over every usage of the atoms (eq. 6), 2^K terms without a closed
form. The term of one usage has one, because strengths and noise are Gaussian: with the strengths
integrated out,

    log p(x, z | c) = log Normal(x; 0, atoms_z' diag(1 / precision_z) atoms_z + I / noise precision)
                      + sum of log pi_ck over used and of log(1 - pi_ck) over unused atoms.

The usage of the row's own code explains it well, so its term is a useful lower bound of
log p(x | c). With the best class c it is a lower bound of the log density given the best class.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from dbdl._products import row_products, row_squares
from dbdl._threads import block_slices, run_blocks
from dbdl.coding.coder import CodePrior, Floats, PreparedAtoms
from dbdl.coding.posterior_mean import SURE
from dbdl.model.trust import Doubles

#: Rows that are computed together; their memory grows with the numbers of atoms and classes.
ROWS = 256


def log_evidence(
    X: Floats,
    codes: csr_matrix,
    atoms: PreparedAtoms,
    selection_probability: Doubles,
    *,
    unit: bool,
    n_threads: int = 1,
) -> Doubles:
    """Log density of rows and the usage in their codes, for the most probable class.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Rows in the space of the atoms.
    codes : csr_matrix of shape (n_samples, n_atoms)
        Only their usage counts.
    atoms : PreparedAtoms
        With the prior of codes.
    selection_probability : ndarray of shape (n_classes, n_atoms)
    unit : bool
        Rows are of unit norm. A row of zeros, which has no direction, then counts as a row of unit
        norm that no atom explains.

    Returns
    -------
    log_density : ndarray of shape (n_samples,)
        In nats. A row has the same bits in any batch.
    """
    prior = atoms.prior
    assert prior is not None
    wide, dictionary = X.astype(np.float64), atoms.atoms.astype(np.float64)
    probability = selection_probability.clip(SURE, 1 - SURE)
    logit = np.log(probability / (1 - probability)).T.copy()  # (n_atoms, n_classes)
    none_used = np.log1p(-probability).sum(axis=1)
    gram = atoms.wide_gram(n_threads)

    def evaluate(rows: slice) -> Doubles:
        square, match = row_squares(wide[rows]), row_products(wide[rows], dictionary)
        if unit:
            square[square == 0] = 1.0
        part, result = codes[rows], np.empty(len(square))
        n_used = np.diff(part.indptr)
        for n in np.unique(n_used):
            own = np.flatnonzero(n_used == n)
            used = part.indices[part.indptr[own][:, np.newaxis] + np.arange(n)]
            of_usage = (none_used + logit[used].sum(axis=1)).max(axis=1)
            explained, log_volume = _strengths(match[own[:, np.newaxis], used], used, gram, prior)
            left = prior.noise_precision * (square[own] - explained)
            result[own] = of_usage - 0.5 * (left + log_volume)
        constant = X.shape[1] * np.log(prior.noise_precision / (2 * np.pi))
        return result + 0.5 * constant

    parts = run_blocks(evaluate, block_slices(len(X), ROWS), n_threads)
    return np.concatenate(parts) if parts else np.empty(0)


def _strengths(
    match: Doubles, used: NDArray[np.int32], gram: Floats, prior: CodePrior
) -> tuple[Doubles, Doubles]:
    """Integrate out the strengths of the used atoms (n_samples, n_used).

    Returns the part of each row's squared norm that they explain, and the log determinant of their
    posterior precision over their prior precision.
    """
    precision = prior.precision[used]
    posterior = prior.noise_precision * gram[used[:, :, np.newaxis], used[:, np.newaxis]]
    diagonal = np.arange(used.shape[1])
    posterior[:, diagonal, diagonal] += precision
    mean = np.linalg.solve(posterior, prior.noise_precision * match[:, :, np.newaxis])[:, :, 0]
    log_volume = np.linalg.slogdet(posterior)[1] - np.log(precision).sum(axis=1)
    return (match * mean).sum(axis=1), log_volume
