"""Pictures of what was learned."""

from dbdl.plotting.displays import AtomsDisplay, SelectionDisplay, TraceDisplay

__all__ = ["AtomsDisplay", "SelectionDisplay", "TraceDisplay"]
