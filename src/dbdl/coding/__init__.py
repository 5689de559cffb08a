"""Sparse coding of rows over given atoms."""

from dbdl.coding.lasso import lasso
from dbdl.coding.llc import llc
from dbdl.coding.omp import omp, omp_path

__all__ = ["lasso", "llc", "omp", "omp_path"]
