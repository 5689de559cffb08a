"""Figures of fitted models and of experiments, drawn with matplotlib."""

from dbdl.plotting.displays import AtomsDisplay, SelectionDisplay, TraceDisplay

__all__ = ["AtomsDisplay", "SelectionDisplay", "TraceDisplay"]
