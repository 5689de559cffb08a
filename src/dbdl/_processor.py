"""The kind of processor: everything that the last bits of a result depend on."""

from __future__ import annotations

from importlib.metadata import version

import llvmlite.binding as llvm
import numpy as np
from numba import config

from dbdl._threads import blas_libraries


def processor_kind() -> str:
    """Say in one line how numbers are rounded here.

    Two processes of one kind give the same bits; of two kinds they need not. The line names the
    processor that numba compiles for, the kernels that the BLAS libraries have chosen, the vector
    instructions that NumPy has found, and the versions of NumPy, SciPy and numba.
    """
    compiled_for = config.CPU_NAME or llvm.get_host_cpu_name()
    # a set: other packages may have loaded a BLAS of their own, which chooses alike
    kernels = {getattr(library, "architecture", None) or "" for library in blas_libraries()} - {""}
    vectors = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    versions = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "numba"))
    blas, simd = (", ".join(names) or "unknown" for names in (sorted(kernels), vectors))
    return f"{compiled_for} (BLAS kernels: {blas}; NumPy's vectors: {simd}; {versions})"
