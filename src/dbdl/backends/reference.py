"""The slow, clear backend: dense arrays, the paper's residuals, one atom at a time.

It makes the same draws at the same addresses as the fast backends, so that their decisions can be
compared one by one. It is meant for tests and for reading.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dbdl import draws
from dbdl.backends.base import Births, Data
from dbdl.backends.host import HostBackend
from dbdl.coding.omp import omp
from dbdl.draws import Key, Site
from dbdl.model.atom_priors import AtomPosterior
from dbdl.model.codes import Scan, sweep_row
from dbdl.model.conditionals import atom_posterior
from dbdl.model.state import Classes, Codes, Doubles, Floats, Parameters
from dbdl.model.statistics import AtomSums, UsageSums, Weights


@dataclass(frozen=True)
class ReferenceBackend(HostBackend):
    """Dense NumPy, one thread.

    Examples
    --------
    >>> from dbdl.backends import BACKENDS, ReferenceBackend
    >>> BACKENDS["reference"] is ReferenceBackend
    True
    """

    def place(self, X: Floats, class_of_row: Classes, sample_weight: Weights = None) -> Data:
        return super().place(np.asarray(X, dtype=np.float64), class_of_row, sample_weight)

    def start(self, data: Data, atoms: Floats, n_nonzero: int) -> Codes:
        return Codes.from_dense(omp(data.X, atoms, n_nonzero, rule="forward").toarray())

    def sweep(
        self, key: Key, number: int, data: Data, codes: Codes, parameters: Parameters, scan: Scan
    ) -> tuple[Codes, UsageSums]:
        atoms, births = parameters.atoms, parameters.births
        dense = codes.to_dense(len(atoms)).astype(np.float64)
        randomness = (
            (draws.quartered_uniform, Site.USAGE),
            (draws.normal, Site.STRENGTH),
            (draws.normal, Site.PRIOR_STRENGTH),
        )
        by_class = (
            parameters.selection_logit, parameters.strength_precision, parameters.noise_precision,
        )  # fmt: skip
        for i, (x, c) in enumerate(zip(data.X, data.class_of_row, strict=True)):
            drawn = (
                np.array([draw(key, int(site), data.offset + i, k, number) for k in births])
                for draw, site in randomness
            )
            logit, strength, noise = (values[c] for values in by_class)
            dense[i] = sweep_row(x, dense[i], atoms, logit, strength, noise, scan, *drawn)
        codes = Codes.from_dense(dense)
        return codes, self.usage(data, codes, parameters)

    def usage(self, data: Data, codes: Codes, parameters: Parameters) -> UsageSums:
        dense = codes.to_dense(parameters.n_atoms)
        weight = data.row_weight(np.ones(data.n_classes))[:, np.newaxis]
        of_class = (weight * np.eye(data.n_classes)[data.class_of_row]).T
        residual = data.X - dense @ parameters.atoms
        count = of_class @ (dense != 0)
        return UsageSums(
            count=count.astype(np.int64) if data.sample_weight is None else count,
            energy=(weight * dense**2).sum(axis=0),
            strength_square=of_class @ (dense**2).sum(axis=1),
            residual_square=of_class @ (residual**2).sum(axis=1),
        )

    def gather(
        self, data: Data, codes: Codes, n_atoms: int, precision_of_class: Doubles
    ) -> AtomSums:
        dense = codes.to_dense(n_atoms)
        weighted = data.row_weight(precision_of_class)[:, np.newaxis] * dense
        return AtomSums(gram=weighted.T @ dense, cross=weighted.T @ data.X)

    def draw_atoms(
        self, key: Key, number: int, posterior: AtomPosterior, atoms: Floats, births: Births
    ) -> Floats:
        noise = draws.normals(key, Site.ATOM, births, number, atoms.shape[1])
        atoms = atoms.copy()
        for k in range(len(atoms)):
            mean, precision = atom_posterior(posterior, atoms, k)
            atoms[k] = mean + noise[k] / np.sqrt(precision)
        return atoms
