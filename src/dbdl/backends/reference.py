"""The slow, clear backend: dense arrays, the paper's residual layout, one atom after another.

It makes the same draws at the same addresses as the fast backends, so their decisions can be
compared one by one. For tests and for reading.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dbdl import draws
from dbdl.backends.base import Data, HostBackend
from dbdl.coding.omp import omp
from dbdl.draws import Key, Site
from dbdl.model.codes import Scan, sweep_row
from dbdl.model.conditionals import AtomPosterior, atom_posterior
from dbdl.model.state import Codes, Floats, Parameters
from dbdl.model.statistics import AtomSums, UsageSums


@dataclass(frozen=True)
class ReferenceBackend(HostBackend):
    """Dense NumPy, one thread."""

    def place(self, X: Floats, class_of_row: NDArray[np.int64]) -> Data:
        """Put rows and their class numbers in place."""
        return super().place(np.asarray(X, dtype=np.float64), class_of_row)

    def start(self, data: Data, atoms: Floats, n_nonzero: int) -> Codes:
        """Codes of the rows by matching pursuit."""
        return Codes.from_dense(omp(data.X, atoms, n_nonzero, rule="forward").toarray())

    def sweep(
        self, key: Key, number: int, data: Data, codes: Codes, parameters: Parameters, scan: Scan
    ) -> tuple[Codes, UsageSums]:
        """Draw every row's usage and strengths (eqs. 9 and 10)."""
        dense = codes.to_dense(parameters.n_atoms).astype(np.float64)
        for i, (x, c) in enumerate(zip(data.X, data.class_of_row, strict=True)):
            place = data.offset + i
            dense[i] = sweep_row(
                x,
                dense[i],
                parameters.atoms,
                parameters.selection_logit[c],
                parameters.strength_precision[c],
                parameters.noise_precision[c],
                scan,
                *(
                    np.array(
                        [draw(key, int(site), place, birth, number) for birth in parameters.births]
                    )
                    for draw, site in (
                        (draws.quartered_uniform, Site.USAGE),
                        (draws.normal, Site.STRENGTH),
                        (draws.normal, Site.PRIOR_STRENGTH),
                    )
                ),
            )
        codes = Codes.from_dense(dense)
        return codes, self.usage(data, codes, parameters)

    def usage(self, data: Data, codes: Codes, parameters: Parameters) -> UsageSums:
        """Sums of given codes."""
        dense = codes.to_dense(parameters.n_atoms)
        one_hot = np.eye(data.n_classes)[data.class_of_row]
        residual = data.X - dense @ parameters.atoms
        return UsageSums(
            count=(one_hot.T @ (dense != 0)).astype(np.int64),
            energy=(dense**2).sum(axis=0),
            strength_square=one_hot.T @ (dense**2).sum(axis=1),
            residual_square=one_hot.T @ (residual**2).sum(axis=1),
        )

    def gather(
        self, data: Data, codes: Codes, n_atoms: int, class_weight: NDArray[np.float64]
    ) -> AtomSums:
        """Sums for the draw of the atoms."""
        dense = codes.to_dense(n_atoms)
        weighted = class_weight[data.class_of_row][:, np.newaxis] * dense
        return AtomSums(gram=weighted.T @ dense, cross=weighted.T @ data.X)

    def draw_atoms(
        self,
        key: Key,
        number: int,
        posterior: AtomPosterior,
        atoms: Floats,
        births: NDArray[np.int64],
    ) -> Floats:
        """Draw the atoms one after another, each given the newest others (eq. 8)."""
        noise = draws.normals(key, Site.ATOM, births, number, atoms.shape[1])
        atoms = atoms.copy()
        for k in range(len(atoms)):
            mean, precision = atom_posterior(posterior, atoms, k)
            atoms[k] = mean + noise[k] / np.sqrt(precision)
        return atoms
