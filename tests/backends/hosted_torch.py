"""The GPU backend with NumPy arrays on both sides, so that tests of other backends run on it too.

On a machine without a GPU the kernels run in Triton's interpreter where TRITON_INTERPRET=1 is set
before Triton is imported; otherwise there is nothing to test, and ``HOSTED`` is empty.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from importlib.util import find_spec

import numpy as np

from dbdl.model.conditionals import AtomPosterior
from dbdl.model.statistics import AtomSums

INSTALLED = find_spec("torch") is not None and find_spec("triton") is not None
DEVICE = None
if INSTALLED:
    import torch

    if torch.cuda.is_available():
        DEVICE = "cuda"
    elif os.environ.get("TRITON_INTERPRET") == "1":
        DEVICE = "cpu"

WHY_NOT = (
    "needs PyTorch, Triton and a GPU, or TRITON_INTERPRET=1 (make test-interpreter)"
    if DEVICE is None
    else ""
)


@dataclass(frozen=True)
class HostedTorch:
    """Every verb of `TorchBackend`, arrays carried to the device and back."""

    n_threads: int = 1

    @property
    def backend(self):
        from dbdl.backends.torch_gpu import TorchBackend

        return TorchBackend(self.n_threads, DEVICE)

    def place(self, X, class_of_row):
        data = self.backend.place(X, class_of_row)
        return replace(data, X=np.ascontiguousarray(X))

    def _there(self, data):
        return replace(data, X=self.backend.put(data.X))

    def _parameters(self, parameters):
        put = self.backend.put
        return replace(
            parameters,
            atoms=put(parameters.atoms),
            selection_logit=put(parameters.selection_logit),
        )

    def _codes(self, codes, n_atoms):
        return self.backend.put(codes.to_dense(n_atoms))

    def start(self, data, atoms, n_nonzero):
        backend = self.backend
        return backend.codes_to_host(
            backend.start(self._there(data), backend.put(atoms), n_nonzero)
        )

    def sweep(self, key, number, data, codes, parameters, scan):
        backend = self.backend
        found, sums = backend.sweep(
            key,
            number,
            self._there(data),
            self._codes(codes, parameters.n_atoms),
            self._parameters(parameters),
            scan,
        )
        return backend.codes_to_host(found), sums

    def usage(self, data, codes, parameters):
        return self.backend.usage(
            self._there(data),
            self._codes(codes, parameters.n_atoms),
            self._parameters(parameters),
        )

    def gather(self, data, codes, n_atoms, class_weight):
        sums = self.backend.gather(
            self._there(data), self._codes(codes, n_atoms), n_atoms, class_weight
        )
        return AtomSums(*map(self.backend.to_host, (sums.gram, sums.cross)))

    def atoms_posterior(self, sums, prior):
        put, to_host = self.backend.put, self.backend.to_host
        found = self.backend.atoms_posterior(AtomSums(put(sums.gram), put(sums.cross)), prior)
        return AtomPosterior(*map(to_host, found))

    def draw_atoms(self, key, number, posterior, atoms, births):
        put = self.backend.put
        there = AtomPosterior(*map(put, posterior))
        return self.backend.to_host(self.backend.draw_atoms(key, number, there, put(atoms), births))

    def mean_atoms(self, posterior):
        there = AtomPosterior(*map(self.backend.put, posterior))
        return self.backend.to_host(self.backend.mean_atoms(there))

    def norm_square(self, atoms):
        return self.backend.norm_square(self.backend.put(atoms))

    def draw_selection(self, key, number, data, sums, births, priors):
        return self.backend.to_host(
            self.backend.draw_selection(key, number, data, sums, births, priors)
        )

    def log_large_terms(self, parameters, sums, data, priors):
        return self.backend.log_large_terms(self._parameters(parameters), sums, data, priors)

    def keep(self, codes, kept, n_atoms):
        backend = self.backend
        return backend.codes_to_host(backend.keep(self._codes(codes, n_atoms), kept, n_atoms))

    def put(self, array):
        return array

    def to_host(self, array):
        return array

    def codes_to_host(self, codes):
        return codes


HOSTED = [] if DEVICE is None else [HostedTorch()]
