"""Backends that store rows and sweep codes: the protocols, a clear reference, and fast ones."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

from dbdl._extras import how_to_install
from dbdl.backends.base import Backend
from dbdl.backends.numba_cpu import NumbaBackend
from dbdl.backends.reference import ReferenceBackend
from dbdl.backends.sharded import Engine, InTurn, ShardedBackend
from dbdl.rows.lazy import LazyRows

__all__ = [
    "BACKENDS",
    "Backend",
    "Engine",
    "NumbaBackend",
    "ReferenceBackend",
    "make_backend",
    "make_engine",
]


def make_backend(device: str = "cpu", n_threads: int = 1, engine: Engine | None = None) -> Backend:
    """Return the backend of a device.

    Parameters
    ----------
    device : str
        "cpu"; "cuda", "cuda:1", ... for a GPU; "auto" for a GPU if there is one. The prefix "dask:"
        means the device of a cluster's workers, or without an engine the CPU of this process.
    n_threads : int
        Threads on the CPU.
    engine : Engine, optional
        Works on rows that are not in memory here (see `make_engine`).

    Examples
    --------
    >>> from dbdl.backends import make_backend
    >>> make_backend("cpu", n_threads=2).n_threads
    2
    """
    on_cluster, device = _split(device)
    if engine is None:
        return NumbaBackend(n_threads) if on_cluster else _backend(device, n_threads)
    here = engine.is_here
    inner = _backend(device, n_threads if here else 1, here)
    return ShardedBackend(n_threads, inner=inner, engine=engine)


def make_engine(rows: Any, device: str) -> Engine | None:
    """Return the engine that works on parts of rows; None for rows that stay in memory.

    Examples
    --------
    >>> import numpy as np
    >>> from dbdl.backends import make_engine
    >>> make_engine(np.eye(3), "cpu") is None  # rows in memory need none
    True
    """
    on_cluster, _ = _split(device)
    lazy = isinstance(rows, LazyRows)
    if not lazy and not on_cluster:
        return None
    client = _current_client()
    if client is not None and (on_cluster or rows.collection is not None):
        from dbdl.backends.dask_cluster import engine_for_fit

        return engine_for_fit(client)
    if on_cluster:
        raise ValueError(
            f"device={device!r} needs a Dask cluster, but none is running. Install Dask with "
            f"{how_to_install('distributed')} and start one: from dask.distributed import Client; "
            "client = Client()"
        )
    return InTurn()


def _split(device: str) -> tuple[bool, str]:
    """Whether the device belongs to a cluster's workers, and its name."""
    place, _, rest = device.partition(":")
    return (True, rest or "cpu") if place == "dask" else (False, device)


def _current_client() -> Any:
    """Return Dask's current client or None, without importing Dask."""
    if "distributed" not in sys.modules:
        return None
    from distributed import Client

    try:
        return Client.current()
    except ValueError:
        return None


def _backend(device: str, n_threads: int = 1, here: bool = True) -> Backend:
    """Return the backend of a device in this process, or of a worker, which is not checked."""
    problem_of = _gpu_problem if here else _name_problem
    if device == "auto":
        device = "cuda" if here and _gpu_problem("cuda") is None else "cpu"
    if device == "cpu":
        return NumbaBackend(n_threads)
    if (problem := problem_of(device)) is not None:
        whose = "" if here else " of the workers"
        raise ValueError(f"device={device!r}{whose} cannot be used: {problem}")
    from dbdl.backends.torch_gpu import TorchBackend

    return TorchBackend(n_threads, device=device)


def _name_problem(device: str) -> str | None:
    if device == "cuda" or (device.startswith("cuda:") and device[5:].isdigit()):
        return None
    return (
        "expected 'cpu', 'auto', 'cuda' or 'cuda:N' with the index of a GPU, or one of them with "
        "the prefix 'dask:'"
    )


def _gpu_problem(device: str) -> str | None:
    """Say why a device cannot be used and what to do; None if it can be."""
    if (problem := _name_problem(device)) is not None:
        return problem
    for package in ("torch", "triton"):
        if find_spec(package) is None:
            return f"{package} is not installed; install it with {how_to_install(package)}"
    import torch

    if not torch.cuda.is_available():
        return "PyTorch finds no GPU; check the driver with nvidia-smi, or use device='cpu'"
    index = int(device[5:] or 0) if device != "cuda" else 0
    if index >= torch.cuda.device_count():
        return f"there are {torch.cuda.device_count()} GPUs, counted from 0"
    return None


#: Every backend by name, made from a number of threads; ValueError if it cannot run here. The tests
#: walk this table and compare each backend with the reference.
BACKENDS: dict[str, Callable[..., Backend]] = {
    "reference": ReferenceBackend,
    "numba": NumbaBackend,
    "sharded": ShardedBackend,
    "torch": partial(_backend, "cuda"),
}
