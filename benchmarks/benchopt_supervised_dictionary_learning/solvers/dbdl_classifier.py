"""Discriminative Bayesian dictionary learning: this repository's classifier."""

import numpy as np
from benchmark_utils import ClassifierSolver

from dbdl import DBDLClassifier


class Solver(ClassifierSolver):
    name = "DBDL"
    # not released yet: run pip install . in the root of the repository
    requirements = []
    # None: one chain per view, several views. 1: the fastest setting.
    parameters = {"n_chains": [None, 1]}
    references = ["N. Akhtar, F. Shafait and A. Mian, TPAMI, 2016, doi:10.1109/TPAMI.2016.2527652"]

    def warm_up(self):
        """Compile the kernels, which happens once per installation."""
        rng = np.random.default_rng(0)
        DBDLClassifier(n_sweeps=1).fit(rng.standard_normal((40, 6)), np.arange(40) % 2)

    def make(self, n_classes, seed):
        return DBDLClassifier(n_chains=self.n_chains, random_state=seed)

    def n_atoms(self, model):
        return model.n_atoms_
