"""Options for compiling with numba, in one place.

Code that may round in more than one way must be compiled once. numba links a copy of every callee
into its caller's library and optimises it there. Where such a copy is not inlined, the running
process takes the first copy it has loaded, and which one that is depends on what was compiled and
what was read from numba's cache. With sums that may be reordered or contracted, the copies need
not round alike: the first fit on a machine would differ from the second, in its last bits. So a
function that may round in more than one way is either a `kernel`, called from Python alone, or
`inlined` into those that call it. Code that only moves and compares numbers is exact, and may be
called by anything.
"""

from __future__ import annotations

import gc
import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numba import njit
from numba.core import event
from numpy.typing import NDArray

logger = logging.getLogger("dbdl")

#: Every operation rounds as written: the code of the draws, which all backends share.
EXACT: frozenset[str] = frozenset()
#: A product and a sum may be one operation (FMA); the order of a sum stays.
CONTRACTED = frozenset({"contract", "nsz"})
#: Sums may be reordered too, so that they are done in vector registers. NaN and infinity keep
#: their meaning.
REORDERED = CONTRACTED | {"arcp", "reassoc"}


def kernel(
    rounding: frozenset[str] = EXACT, *, allocates: bool = False, **options: Any
) -> Callable[[Any], Any]:
    """Compile a function that Python calls; it releases the interpreter's lock.

    Compiled code may call it only if it is exact. A kernel that makes arrays, or calculates with
    whole arrays, says so by ``allocates``. The others only loop over numbers: they are compiled in
    less time without the counting of references and the search for expressions of arrays.
    """
    fastmath = set(rounding) if rounding else False
    return njit(
        nogil=True,
        cache=True,
        error_model="numpy",
        fastmath=fastmath,
        no_cfunc_wrapper=True,  # for calls from C, of which there are none
        _nrt=allocates,
        no_rewrites=not allocates,
        **options,
    )


def inlined(rounding: frozenset[str] = EXACT, **options: Any) -> Callable[[Any], Any]:
    """Compile a function into each of its callers."""
    # no wrapper: Python never calls it
    return kernel(rounding, forceinline=True, no_cpython_wrapper=True, **options)


def pasted(rounding: frozenset[str] = EXACT) -> Callable[[Any], Any]:
    """Compile a function as part of each of its callers, whose rounding it must share.

    It is never compiled by itself, which saves time if it is large and called from few places.
    """
    return kernel(rounding, inline="always")


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a read-only view: one compiled version serves arrays that are and are not writable."""
    view = array.view()
    view.flags.writeable = False
    return view


class _Announcer(event.Listener):
    """Says which kernels are compiled: in a terminal one by one, on one line."""

    def __init__(self, what: str) -> None:
        self.what, self.n_compiled, self.start = what, 0, 0.0
        self.terminal = sys.stderr.isatty()

    def on_start(self, event: Any) -> None:
        function = event.data["dispatcher"].py_func
        if not function.__module__.startswith("dbdl."):
            return
        if self.n_compiled == 0:
            self.start = time.perf_counter()
            said = "dbdl: compiling kernels %s; this happens once, later fits start at once"
            logger.warning(said, self.what)
        self.n_compiled += 1
        if self.terminal:
            name = f"{function.__module__.removeprefix('dbdl.')}.{function.__name__}"
            sys.stderr.write(f"\r\x1b[K  {self.n_compiled}: {name}")
            sys.stderr.flush()

    def on_end(self, event: Any) -> None:
        """Say nothing: `close` does."""

    def close(self) -> None:
        if self.n_compiled == 0:
            return
        if self.terminal:
            sys.stderr.write("\r\x1b[K")
        seconds = time.perf_counter() - self.start
        logger.warning("dbdl: compiled %d functions in %.0f s", self.n_compiled, seconds)


@contextmanager
def announced(what: str) -> Iterator[None]:
    """Say what is compiled inside, if anything is."""
    announcer = _Announcer(what)
    # numba's many objects stay: looking for garbage among them took a seventh of the time
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        with event.install_listener("numba:compile", announcer):
            yield
    finally:
        if was_enabled:
            gc.enable()
        announcer.close()
