"""Where rows live and codes are swept: the verbs, a clear reference, and fast backends."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

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
        "cpu"; "cuda", "cuda:1", ... for a GPU; "auto" for a GPU where there is one. With "dask:"
        before it, the device of a cluster's workers; without an engine that means the CPU here.
    n_threads : int
        Threads on the CPU.
    engine : Engine, optional
        Where the parts of rows are that are not in memory here (see `make_engine`).
    """
    on_cluster, device = _split(device)
    if engine is None:
        return NumbaBackend(n_threads) if on_cluster else _backend(device, n_threads)
    here = engine.is_here
    inner = _backend(device, n_threads if here else 1, here)
    return ShardedBackend(n_threads, inner=inner, engine=engine)


def make_engine(rows: Any, device: str) -> Engine | None:
    """Return where the parts of rows are; None for rows in memory that stay there."""
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
            f"device={device!r} needs a Dask cluster, and there is none. Install the extra with "
            "pip install 'dbdl[dask]' and start one: from dask.distributed import Client; "
            "client = Client()"
        )
    return InTurn()


def _split(device: str) -> tuple[bool, str]:
    """Whether a device is that of a cluster's workers, and which."""
    place, _, rest = device.partition(":")
    return (True, rest or "cpu") if place == "dask" else (False, device)


def _current_client() -> Any:
    """Return Dask's client in use, or None; Dask is not imported to find out."""
    if "distributed" not in sys.modules:
        return None
    from distributed import Client

    try:
        return Client.current()
    except ValueError:
        return None


def _backend(device: str, n_threads: int = 1, here: bool = True) -> Backend:
    """Return the backend of a device in this process, or of a worker, which is not looked at."""
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
        "expected 'cpu', 'auto', 'cuda' or 'cuda:N' with the number of a GPU, or one of them with "
        "'dask:' before it"
    )


def _gpu_problem(device: str) -> str | None:
    """Say what stands in the way of a device, and what to do; None if nothing does."""
    if (problem := _name_problem(device)) is not None:
        return problem
    for package in ("torch", "triton"):
        if find_spec(package) is None:
            return f"{package} is not installed; install the extra with pip install 'dbdl[gpu]'"
    import torch

    if not torch.cuda.is_available():
        return "PyTorch sees no GPU; check the driver with nvidia-smi, or use device='cpu'"
    number = int(device[5:] or 0) if device != "cuda" else 0
    if number >= torch.cuda.device_count():
        return f"there are {torch.cuda.device_count()} GPUs, counted from 0"
    return None


#: Every backend by name, made from a number of threads; ValueError where it cannot run here. The
#: tests walk this table and hold each backend to the reference.
BACKENDS: dict[str, Callable[..., Backend]] = {
    "reference": ReferenceBackend,
    "numba": NumbaBackend,
    "sharded": ShardedBackend,
    "torch": partial(_backend, "cuda"),
}
