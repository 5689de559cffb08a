"""Data sets by name or by path, all through one door: `load`."""

from dbdl.datasets.door import load
from dbdl.datasets.record import DataError, DataNotFoundError, Dataset
from dbdl.datasets.source import Form, Options, Source
from dbdl.datasets.table import sources

__all__ = [
    "DataError",
    "DataNotFoundError",
    "Dataset",
    "Form",
    "Options",
    "Source",
    "load",
    "sources",
]
