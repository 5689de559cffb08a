"""Sparse coding of rows over given atoms."""

from dbdl.coding.omp import omp, omp_path

__all__ = ["omp", "omp_path"]
