"""Figures of fitted models and of experiments, drawn with matplotlib."""

from dbdl.plotting.displays import AtomsDisplay, SelectionDisplay, TraceDisplay
from dbdl.plotting.explanation import ExplanationDisplay
from dbdl.plotting.predictive import PredictiveCheckDisplay

__all__ = [
    "AtomsDisplay",
    "ExplanationDisplay",
    "PredictiveCheckDisplay",
    "SelectionDisplay",
    "TraceDisplay",
]
