"""The classifiers of dictlearn: DPL and LC-KSVD."""

from benchmark_utils import ClassifierSolver
from dictlearn.classification import DPLClassifier, LCDLClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer


class Solver(ClassifierSolver):
    name = "dictlearn"
    requirements = ["pip::dictlearn"]
    parameters = {"method": ["DPL", "LC-KSVD"], "n_atoms_per_class": [15]}
    test_parameters = {"n_atoms_per_class": [3]}

    def make(self, n_classes, seed):
        size = self.n_atoms_per_class
        if self.method == "DPL":
            classifier = DPLClassifier(size, random_state=seed)
        else:  # the start that dictlearn's documentation recommends
            classifier = LCDLClassifier(
                size, n_nonzero_coefs=8, init_method="trained", random_state=seed
            )
        return make_pipeline(Normalizer(), classifier)

    def n_atoms(self, model):
        return self.n_atoms_per_class * self.n_classes
