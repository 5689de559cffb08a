"""Rows that are read where they are asked for: files larger than memory, Dask collections."""

from dbdl.rows.files import open_rows
from dbdl.rows.lazy import LazyRows, Preparation, lazy_rows

__all__ = ["LazyRows", "Preparation", "lazy_rows", "open_rows"]
