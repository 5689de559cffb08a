"""The published dictionary of a chain: unit atoms, and means of the selection probabilities.

The atoms are the mean of eq. 8 given the last codes, where the paper averages draws; the
probabilities are the means of eq. 11.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from dbdl.backends.base import Backend, Data
from dbdl.draws import Key
from dbdl.model.conditionals import selection_posterior
from dbdl.model.priors import Priors
from dbdl.model.record import Record
from dbdl.model.state import Doubles, State
from dbdl.model.trust import Atoms, reals
from dbdl.sampler.gibbs import with_seen


@dataclass(frozen=True)
class Dictionary(Record):
    """Published result of a chain.

    Attributes
    ----------
    atoms : ndarray of shape (n_atoms, n_features)
        Of unit norm; an atom that no row uses is zero, unless no atom is used.
    selection_probability : ndarray of shape (n_classes, n_atoms)
        Means of the Beta distributions of eq. 11.
    scale : ndarray of shape (n_atoms,)
        Norms before scaling: codes times these are codes over the published atoms.
    """

    atoms: Atoms
    selection_probability: Annotated[Doubles, reals("n_classes", "n_atoms", least=0)]
    scale: Annotated[Doubles, reals("n_atoms", least=0)]

    @property
    def is_used(self) -> NDArray[np.bool_]:
        """Which atoms (n_atoms,) are not zero."""
        return np.any(self.atoms, axis=1)


def publish(
    key: Key, state: State, data: Data, priors: Priors, backend: Backend, n_draws: int = 0
) -> Dictionary:
    """Posterior mean of the atoms given the last codes, scaled to unit norm.

    The paper averages several draws of the atoms, whose limit is the posterior mean;
    ``n_draws=0`` takes the limit.
    """
    now = state.parameters
    sums = backend.gather(data, state.codes, now.n_atoms, now.noise_precision)
    posterior = priors.atoms.posterior(sums, backend)
    if n_draws == 0:
        mean = backend.mean_atoms(posterior)
    else:
        drawn = now.atoms
        mean = 0.0 * drawn
        for draw in range(n_draws):
            drawn = backend.draw_atoms(key, state.sweep + 1 + draw, posterior, drawn, now.births)
            mean = mean + drawn / n_draws
    atoms, scale = backend.unit_atoms(mean, now.atoms)
    if not atoms.any():  # no row uses any atom: the last draws are as good as any directions
        atoms, scale = backend.unit_atoms(now.atoms, now.atoms)
    total, all_rows = with_seen(data, backend.usage(data, state.codes, now), priors)
    beta = selection_posterior(total.count, all_rows.n_rows, priors)
    return Dictionary(atoms, selection_probability=beta.a / (beta.a + beta.b), scale=scale)
