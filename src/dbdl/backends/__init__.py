"""Where rows live and codes are swept: the verbs, a clear reference, and a fast CPU backend."""

from dbdl.backends.base import Backend
from dbdl.backends.numba_cpu import NumbaBackend
from dbdl.backends.reference import ReferenceBackend

#: Every backend by name. The tests walk this table and hold each to the reference.
BACKENDS: dict[str, type[Backend]] = {"reference": ReferenceBackend, "numba": NumbaBackend}

__all__ = ["BACKENDS", "Backend", "NumbaBackend", "ReferenceBackend"]
