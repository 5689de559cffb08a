"""Discriminative Bayesian dictionary learning (DBDL)."""

from dbdl.estimators.classifier import DBDLClassifier
from dbdl.estimators.dictionary import BetaProcessDictionary

__all__ = ["BetaProcessDictionary", "DBDLClassifier"]
__version__ = "0.1.0"
