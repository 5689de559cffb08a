"""Other methods, in the implementations of this repository."""

import numpy as np
from benchmark_utils import ClassifierSolver

import dbdl


class Solver(ClassifierSolver):
    name = "dbdl.rivals"
    requirements = []  # as for DBDL
    parameters = {"method": ["LC-KSVD2", "DPL", "FDDL", "SRC"]}

    def warm_up(self):
        """Compile the kernels, which happens once per installation."""
        rng = np.random.default_rng(0)
        self.make(2, 0).fit(rng.standard_normal((40, 6)), np.arange(40) % 2)

    def make(self, n_classes, seed):
        method = dbdl.methods()[self.method]()
        has_seed = "random_state" in method.get_params()
        return method.set_params(random_state=seed) if has_seed else method

    def n_atoms(self, model):
        return len(model.atoms_)
