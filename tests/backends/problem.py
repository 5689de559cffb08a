"""Rows that a few atoms explain, with sparse codes and parameters to sweep them."""

from dataclasses import dataclass, replace

import numpy as np

from dbdl.backends.base import Data, parameters_from_host
from dbdl.model.atom_priors import IsotropicPrior
from dbdl.model.priors import Priors
from dbdl.model.state import Codes, Parameters, State

KEY = (0x243F6A88, 0x85A308D3)
OFF = -1e4  # logit of a selection probability that is 0 for every random number


@dataclass(frozen=True)
class Problem:
    """Data and a state to start from; ``codes`` are dense."""

    X: np.ndarray
    class_of_row: np.ndarray
    codes: np.ndarray
    parameters: Parameters
    priors: Priors

    def place(self, backend) -> Data:
        return backend.place(self.X, self.class_of_row)

    def sparse(self) -> Codes:
        return Codes.from_dense(self.codes)

    def state(self) -> State:
        return State(self.parameters, self.sparse(), sweep=0)

    def on(self, backend) -> tuple[Data, State]:
        """Data and state where the backend's arrays live."""
        data = self.place(backend)
        codes = backend.codes_from_host(data, self.sparse(), self.parameters.n_atoms)
        return data, State(parameters_from_host(self.parameters, backend), codes, sweep=0)

    def with_(self, **values):
        """The same with other parameters."""
        return replace(self, parameters=replace(self.parameters, **values))

    def astype(self, dtype):
        """The same in another floating-point type; precisions and logits stay double."""
        same = self.with_(atoms=self.parameters.atoms.astype(dtype))
        return replace(same, X=self.X.astype(dtype), codes=self.codes.astype(dtype))


def make_problem(
    n_rows=40,
    n_features=12,
    n_atoms=20,
    n_classes=3,
    *,
    seed=0,
    n_nonzero=3,
    noise_precision=50.0,
    noise_per_class=False,
    unused=(),
):
    """Draw a problem; the atoms in ``unused`` are used nowhere and are never selected."""
    rng = np.random.default_rng(seed)
    class_of_row = rng.integers(0, n_classes, n_rows)
    class_of_row[:n_classes] = rng.permutation(n_classes)
    atoms = rng.standard_normal((n_atoms, n_features)) / np.sqrt(n_features)
    usage = rng.random((n_rows, n_atoms)) < n_nonzero / n_atoms
    usage[:, list(unused)] = False
    codes = usage * rng.standard_normal((n_rows, n_atoms))
    noise = np.full(n_classes, noise_precision)
    if noise_per_class:
        noise *= 1.0 + np.arange(n_classes)
    X = codes @ atoms
    X += rng.standard_normal(X.shape) / np.sqrt(noise[class_of_row])[:, np.newaxis]
    # Start elsewhere than at the truth: some entries wrong, some missing.
    codes = (codes + 0.1 * rng.standard_normal(codes.shape) * usage) * (
        rng.random(codes.shape) < 0.8
    )
    logit = rng.normal(-2.0, 1.0, (n_classes, n_atoms))
    logit[:, list(unused)] = OFF
    parameters = Parameters(
        atoms=atoms,
        selection_logit=logit,
        strength_precision=rng.gamma(5.0, 0.2, n_classes),
        noise_precision=noise,
        births=np.sort(rng.choice(3 * n_atoms, n_atoms, replace=False)),
    )
    priors = Priors(
        usage_a=5.0, usage_b=5.0, n_atoms=n_atoms, atoms=IsotropicPrior(float(n_features))
    )
    return Problem(X, class_of_row, codes, parameters, priors)
