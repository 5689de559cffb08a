"""The kind of processor names everything that rounding depends on."""

import os
import subprocess
import sys

import pytest

from dbdl._processor import processor_kind

PRINT_KIND = "from dbdl._processor import processor_kind; print(processor_kind())"


def kind_of_a_process_with(**environment):
    result = subprocess.run(
        [sys.executable, "-c", PRINT_KIND],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return result.stdout.strip()


def test_a_kind_is_one_line_and_the_same_for_every_process():
    assert "\n" not in processor_kind()
    assert kind_of_a_process_with() == processor_kind()


@pytest.mark.parametrize("package", ["numpy", "scipy", "numba"])
def test_versions_are_part_of_a_kind(package):
    assert f"{package} {sys.modules[package].__version__}" in processor_kind()


def test_the_processor_that_numba_compiles_for_is_part_of_a_kind():
    assert kind_of_a_process_with(NUMBA_CPU_NAME="another").startswith("another (")


def test_the_kernels_of_blas_are_part_of_a_kind():
    kind = processor_kind()
    if "SkylakeX" not in kind and "Zen" not in kind and "Haswell" not in kind:
        pytest.skip("no processor whose OpenBLAS can be told to use Nehalem's kernels")
    assert "BLAS kernels: Nehalem;" in kind_of_a_process_with(OPENBLAS_CORETYPE="Nehalem")
