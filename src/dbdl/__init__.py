"""Discriminative Bayesian dictionary learning (DBDL), and the methods it is compared with."""

from dbdl.estimators.classifier import DBDLClassifier
from dbdl.estimators.dictionary import BetaProcessDictionary
from dbdl.registry import Method, methods

__all__ = ["BetaProcessDictionary", "DBDLClassifier", "Method", "methods"]
__version__ = "0.1.0"
