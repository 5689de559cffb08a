"""Online dictionary learning of SPAMS, unsupervised, and logistic regression on the codes."""

import spams  # noqa: F401  (without it this solver is skipped)
from benchmark_utils import ClassifierSolver, logistic_on
from benchmark_utils.spams_transformer import SpamsDictionary


class Solver(ClassifierSolver):
    name = "SPAMS + logistic"
    requirements = ["pip::spams-bin"]
    parameters = {"n_atoms_per_class": [15]}
    test_parameters = {"n_atoms_per_class": [3]}
    references = ["J. Mairal, F. Bach, J. Ponce and G. Sapiro, JMLR, 2010"]

    def make(self, n_classes, seed):
        return logistic_on(SpamsDictionary(self.n_atoms_per_class * n_classes))  # takes no seed

    def n_atoms(self, model):
        return model[1].atoms_.shape[1]
