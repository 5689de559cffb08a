"""scikit-learn's dictionary learning, unsupervised, and logistic regression on the codes."""

from benchmark_utils import ClassifierSolver, logistic_on
from sklearn.decomposition import DictionaryLearning, MiniBatchDictionaryLearning

LEARNERS = {"batch": DictionaryLearning, "mini-batch": MiniBatchDictionaryLearning}


class Solver(ClassifierSolver):
    name = "scikit-learn + logistic"
    requirements = ["pip::scikit-learn"]
    parameters = {"learner": ["batch", "mini-batch"], "n_atoms_per_class": [15]}
    test_parameters = {"n_atoms_per_class": [3]}

    def make(self, n_classes, seed):
        learner = LEARNERS[self.learner](
            self.n_atoms_per_class * n_classes,
            alpha=0.1,
            max_iter=30,
            transform_algorithm="omp",
            transform_n_nonzero_coefs=8,
            random_state=seed,
        )
        return logistic_on(learner)

    def n_atoms(self, model):
        return len(model[1].components_)
