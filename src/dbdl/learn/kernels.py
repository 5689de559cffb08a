"""Compile every kernel of a fit before its first sweep, once for each type of rows, and say so.

A kernel is compiled for a type of numbers when it is first called. Left to itself, that happens
here and there during a fit, and again in a later fit whose data take another way: atoms that
hardly meet, rows that the screen of matching pursuit does not trust. So a chain on a few rows
calls all of them first. Where they are in the cache it takes a hundredth of a second.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dbdl._compile import announced
from dbdl.backends.numba_cpu import NumbaBackend
from dbdl.draws import make_key
from dbdl.learn.chain import ChainSettings, learn_chain
from dbdl.model.atom_priors import AtomPosterior

N_ROWS, N_FEATURES, N_ATOMS = 12, 5, 8

_ready: set[tuple[str, bool]] = set()


def compile_kernels(dtype: np.dtype[Any], with_lasso: bool) -> None:
    """Compile what a fit on the CPU calls, unless this process has it.

    Parameters
    ----------
    dtype : dtype
        Of the rows: float32 or float64.
    with_lasso : bool
        Whether codes along the lasso's path may be chosen.
    """
    if (dtype.name, with_lasso) in _ready:
        return
    with announced(f"for rows of {dtype.name}"):
        _call_all(dtype, with_lasso)
    _ready.add((dtype.name, with_lasso))


def _call_all(dtype: np.dtype[Any], with_lasso: bool) -> None:
    backend, key = NumbaBackend(), make_key(0)
    X = np.random.default_rng(0).random((N_ROWS, N_FEATURES)).astype(dtype)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    settings = ChainSettings(n_sweeps=1, n_initial_atoms=N_ATOMS)
    learn_chain(key, X, np.arange(N_ROWS) % 2, settings, backend)
    atoms, births = X[:N_ATOMS].copy(), np.arange(N_ATOMS)
    for precision in (np.eye(N_ATOMS), np.ones((N_ATOMS, N_ATOMS)) + np.eye(N_ATOMS)):
        posterior = AtomPosterior(precision, np.ones(atoms.shape))
        backend.draw_atoms(key, 1, posterior, atoms, births)  # hardly any meet, and all do
    backend.pursue(X, atoms, None, [1, 2], "forward").to_csr([0], N_ATOMS)
    if with_lasso:
        backend.follow_lasso(X, atoms, None, [2])
