"""A model small enough to write out its joint density by hand."""

from dataclasses import dataclass, replace

import numpy as np

from dbdl.backends.reference import ReferenceBackend
from dbdl.model.atom_priors import DiagonalPrior, IsotropicPrior, JointPrior
from dbdl.model.joint import log_joint
from dbdl.model.priors import Priors
from dbdl.model.state import Codes, Parameters

CLASS_OF_ROW = np.array([0, 1, 1, 0, 1, 0, 0])
N_CLASSES, N_FEATURES, N_ATOMS = 2, 4, 3
BACKEND = ReferenceBackend()


def joint_prior(rng, n_atoms=N_ATOMS, n_features=N_FEATURES):
    """A prior under which atoms depend on each other and have a mean."""
    root = rng.standard_normal((n_atoms, n_atoms + 2))
    return JointPrior(
        root @ root.T + 0.5 * np.eye(n_atoms), rng.standard_normal((n_atoms, n_features))
    )


#: By name, each made from a random generator.
ATOM_PRIORS = {
    "isotropic": lambda rng: IsotropicPrior(1.9),
    "joint": joint_prior,
    "diagonal": lambda rng: DiagonalPrior(rng.gamma(3.0, 1.0, N_FEATURES)),
}


@dataclass(frozen=True)
class TinyModel:
    """Values for every variable of the model, and its priors."""

    X: np.ndarray
    codes: np.ndarray  # dense
    parameters: Parameters
    priors: Priors
    noise_per_class: bool
    sample_weight: np.ndarray | None = None

    @property
    def data(self):
        return BACKEND.place(self.X, CLASS_OF_ROW, self.sample_weight)

    @property
    def sums(self):
        return BACKEND.usage(self.data, Codes.from_dense(self.codes), self.parameters)

    @property
    def atom_sums(self):
        return BACKEND.gather(
            self.data, Codes.from_dense(self.codes), N_ATOMS, self.parameters.noise_precision
        )

    def log_joint(self):
        return log_joint(
            self.parameters,
            self.sums,
            self.data.n_rows,
            self.priors,
            noise_per_class=self.noise_per_class,
        )

    def with_(self, **values):
        """The same with other parameters."""
        return replace(self, parameters=replace(self.parameters, **values))

    def with_code(self, i, k, value):
        """The same with another entry of the codes."""
        codes = self.codes.copy()
        codes[i, k] = value
        return replace(self, codes=codes)


def make_tiny_model(seed=0, *, noise_per_class=False, prior="isotropic", weighted=False):
    rng = np.random.default_rng(seed)
    codes = rng.standard_normal((len(CLASS_OF_ROW), N_ATOMS)) * (
        rng.random((len(CLASS_OF_ROW), N_ATOMS)) < 0.6
    )
    noise = rng.gamma(3.0, 1.0, N_CLASSES)
    parameters = Parameters(
        atoms=rng.standard_normal((N_ATOMS, N_FEATURES)),
        selection_logit=rng.standard_normal((N_CLASSES, N_ATOMS)),
        strength_precision=rng.gamma(3.0, 1.0, N_CLASSES),
        noise_precision=noise if noise_per_class else np.full(N_CLASSES, noise[0]),
        births=np.arange(N_ATOMS),
    )
    priors = Priors(
        usage_a=1.7,
        usage_b=2.3,
        n_atoms=N_ATOMS,
        strength_shape=2.1,
        strength_rate=1.3,
        noise_shape=3.2,
        noise_rate=0.7,
        atoms=ATOM_PRIORS[prior](rng),
    )
    X = codes @ parameters.atoms + 0.5 * rng.standard_normal((len(codes), N_FEATURES))
    weight = np.array([0.3, 2.0, 1.1, 0.7, 3.0, 0.01, 1.5]) if weighted else None
    return TinyModel(X, codes, parameters, priors, noise_per_class, weight)
