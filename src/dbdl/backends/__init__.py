"""Where rows live and codes are swept: the verbs, a clear reference, and fast backends."""

from __future__ import annotations

from importlib.util import find_spec

from dbdl.backends.base import Backend
from dbdl.backends.numba_cpu import NumbaBackend
from dbdl.backends.reference import ReferenceBackend

#: Every backend on this machine by name. The tests walk this table and hold each to the reference.
BACKENDS: dict[str, type[Backend]] = {"reference": ReferenceBackend, "numba": NumbaBackend}

__all__ = ["BACKENDS", "Backend", "NumbaBackend", "ReferenceBackend", "make_backend"]


def make_backend(device: str = "cpu", n_threads: int = 1) -> Backend:
    """Return the backend of a device.

    Parameters
    ----------
    device : str
        "cpu"; "cuda", "cuda:1", ... for a GPU; "auto" for a GPU where there is one.
    n_threads : int
        Threads on the CPU.
    """
    if device == "auto":
        device = "cuda" if _gpu_problem("cuda") is None else "cpu"
    if device == "cpu":
        return NumbaBackend(n_threads)
    if (problem := _gpu_problem(device)) is not None:
        raise ValueError(f"device={device!r} cannot be used: {problem}")
    from dbdl.backends.torch_gpu import TorchBackend

    return TorchBackend(n_threads, device)


def _gpu_problem(device: str) -> str | None:
    """Say what stands in the way of a device, and what to do; None if nothing does."""
    if device != "cuda" and not (device.startswith("cuda:") and device[5:].isdigit()):
        return "expected 'cpu', 'auto', 'cuda' or 'cuda:N' with the number of a GPU"
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
