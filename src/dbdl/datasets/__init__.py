"""Data sets by name or by path, all through one door: `load`."""

from dbdl.datasets.catalogue import sources
from dbdl.datasets.dataset import DataError, DataNotFoundError, Dataset, Options
from dbdl.datasets.door import load
from dbdl.datasets.preparation import pipeline_for
from dbdl.datasets.source import Form, Source

__all__ = [
    "DataError",
    "DataNotFoundError",
    "Dataset",
    "Form",
    "Options",
    "Source",
    "load",
    "pipeline_for",
    "sources",
]
