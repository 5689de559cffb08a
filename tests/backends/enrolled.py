"""Every backend of the table; those that cannot run here are skipped with the reason.

On a machine without a GPU the kernels of the GPU backend run in Triton's interpreter if
TRITON_INTERPRET=1 is set before Triton is imported.
"""

from __future__ import annotations

import os
from importlib.util import find_spec

import pytest

from dbdl.backends import BACKENDS, NumbaBackend
from dbdl.backends.sharded import InTurn

INSTALLED = find_spec("torch") is not None and find_spec("triton") is not None
DEVICE = None
if INSTALLED:
    import torch

    if torch.cuda.is_available():
        DEVICE = "cuda"
    elif os.environ.get("TRITON_INTERPRET") == "1":
        DEVICE = "cpu"

WHY_NOT = (
    "needs PyTorch, Triton and a GPU, or TRITON_INTERPRET=1 (make test-interpreter)"
    if DEVICE is None
    else ""
)

# Small blocks, so that a few rows are several parts.
OPTIONS = {
    "sharded": {
        "block_rows": 64, "inner": NumbaBackend(block_rows=64), "engine": InTurn(part_bytes=1)
    },
}  # fmt: skip


def make(name, n_threads=1):
    """A backend of the table; in Triton's interpreter where that is asked for."""
    if name == "torch" and DEVICE == "cpu":
        from dbdl.backends.torch_gpu import TorchBackend

        return TorchBackend(n_threads, device="cpu")
    return BACKENDS[name](n_threads=n_threads, **OPTIONS.get(name, {}))


def parameter(name, n_threads):
    """A parameter of pytest: the backend, or the reason why it cannot run here."""
    label = f"{name}, {n_threads} threads"
    try:
        return pytest.param(make(name, n_threads), id=label)
    except ValueError as reason:
        return pytest.param(None, id=label, marks=pytest.mark.skip(reason=str(reason)))


EVERY = [parameter(name, n) for name in BACKENDS for n in ((1, 3) if name == "numba" else (1,))]
every_backend = pytest.mark.parametrize("backend", EVERY)
every_fast_backend = pytest.mark.parametrize(
    "backend", [one for one in EVERY if not one.id.startswith("reference")]
)
