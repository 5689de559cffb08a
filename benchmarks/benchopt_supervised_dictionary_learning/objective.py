"""Classify rows with a learned dictionary: the error on rows that the solver has not seen."""

import numpy as np
from benchopt import BaseObjective
from sklearn.dummy import DummyClassifier
from sklearn.metrics import accuracy_score, balanced_accuracy_score, log_loss
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.preprocessing import StandardScaler


class Objective(BaseObjective):
    name = "Supervised dictionary learning"
    min_benchopt_version = "1.7"
    requirements = ["pip::scikit-learn"]
    sampling_strategy = "run_once"
    test_dataset_name = "generated"

    # Half of the rows to learn from is what most papers on such methods take.
    parameters = {"train_share": [0.5]}

    def set_data(self, X, y, standardise=False):
        self.X, self.y, self.standardise = X, y, standardise
        # one split per repetition, the same for every solver
        self.cv = StratifiedShuffleSplit(50, train_size=self.train_share, random_state=0)

    def get_objective(self):
        X, self.X_test, y, self.y_test = self.get_split(self.X, self.y)
        if self.standardise:  # features of different units, by the training rows alone
            scaler = StandardScaler().fit(X)
            X, self.X_test = scaler.transform(X), scaler.transform(self.X_test)
        return {"X": X, "y": y}

    def evaluate_result(self, model, n_atoms):
        predicted = model.predict(self.X_test)
        accuracy = accuracy_score(self.y_test, predicted)
        return {
            "value": 1 - accuracy,
            "accuracy": accuracy,
            "balanced_accuracy": balanced_accuracy_score(self.y_test, predicted),
            "log_loss": self._log_loss(model),
            "n_atoms": n_atoms,
        }

    def _log_loss(self, model):
        """Log-loss of the probabilities; NaN for models that have none."""
        if not hasattr(model, "predict_proba"):
            return np.nan
        return log_loss(self.y_test, model.predict_proba(self.X_test), labels=model.classes_)

    def get_one_result(self):
        return {"model": DummyClassifier().fit(self.X, self.y), "n_atoms": 0}
