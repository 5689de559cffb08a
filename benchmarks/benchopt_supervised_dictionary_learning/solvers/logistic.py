"""Logistic regression on the rows themselves: the line that a dictionary has to beat."""

from benchmark_utils import ClassifierSolver, logistic_on


class Solver(ClassifierSolver):
    name = "logistic"
    requirements = ["pip::scikit-learn"]

    def make(self, n_classes, seed):
        return logistic_on("passthrough")

    def n_atoms(self, model):
        return 0
