"""What a chain publishes: unit atoms, codes to match, and means of the selection probabilities."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from dbdl.backends.base import Backend, Data
from dbdl.draws import Key
from dbdl.model.conditionals import selection_posterior
from dbdl.model.priors import Priors
from dbdl.model.state import Floats, State


@dataclass(frozen=True)
class Dictionary:
    """Published result of a chain.

    Attributes
    ----------
    atoms : ndarray of shape (n_atoms, n_features)
        Of unit norm.
    codes : csr_matrix of shape (n_samples, n_atoms)
        Of the training rows, over these atoms.
    selection_probability : ndarray of shape (n_classes, n_atoms)
        Means of the Beta distributions of eq. 11.
    scale : ndarray of shape (n_atoms,)
        Norms that the atoms had: codes were multiplied by them.
    """

    atoms: Floats
    codes: csr_matrix
    selection_probability: NDArray[np.float64]
    scale: NDArray[np.float64]


def publish(
    key: Key, state: State, data: Data, priors: Priors, backend: Backend, n_draws: int = 0
) -> Dictionary:
    """Posterior mean of the atoms given the last codes, scaled to unit norm.

    The paper averages several draws of the atoms; their average tends to the posterior mean,
    which is what is taken with ``n_draws=0``.
    """
    now = state.parameters
    sums = backend.gather(data, state.codes, now.n_atoms, now.noise_precision)
    posterior = backend.atoms_posterior(sums, priors.atoms)
    if n_draws == 0:
        atoms = backend.mean_atoms(posterior)
    else:
        atoms, drawn = np.zeros(now.atoms.shape), now.atoms
        for draw in range(n_draws):
            drawn = backend.draw_atoms(key, state.sweep + 1 + draw, posterior, drawn, now.births)
            atoms += backend.to_host(drawn) / n_draws
    scale = np.linalg.norm(atoms, axis=1)
    scale[scale == 0] = 1.0
    beta = selection_posterior(backend.usage(data, state.codes, now).count, data.n_rows, priors)
    codes = backend.codes_to_host(state.codes)
    return Dictionary(
        atoms=(atoms / scale[:, np.newaxis]).astype(codes.strength.dtype),
        codes=csr_matrix(
            (
                codes.strength * scale[codes.atom].astype(codes.strength.dtype),
                codes.atom,
                codes.row_start,
            ),
            shape=(codes.n_samples, now.n_atoms),
        ),
        selection_probability=beta.a / (beta.a + beta.b),
        scale=scale,
    )
