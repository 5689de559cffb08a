"""Rows that are read when they are needed: files larger than memory, Dask collections."""

from dbdl.rows.lazy import LazyRows, Preparation, lazy_rows
from dbdl.rows.opening import open_rows

__all__ = ["LazyRows", "Preparation", "lazy_rows", "open_rows"]
