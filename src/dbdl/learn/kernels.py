"""Compile all kernels before the first sweep of a fit, once per dtype of rows, with a message.

A kernel is compiled for a dtype when it is first called. That would happen at various times during
a fit, and again in a later fit that takes other branches: atoms that hardly meet, rows for which
the screen of matching pursuit is not trusted. A chain on a few rows therefore calls all kernels
first. If they are in the cache, this takes a hundredth of a second.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from dbdl._compile import announced
from dbdl.backends.numba_cpu import NumbaBackend
from dbdl.coding import CodePrior, Coder, Forward, PreparedAtoms
from dbdl.draws import make_key
from dbdl.learn.chain import ChainSettings, learn_chain
from dbdl.model.atom_priors import AtomPosterior
from dbdl.views import LabelledRows, view_named

N_ROWS, N_FEATURES, N_ATOMS = 12, 5, 8

_ready: set[tuple[str, type[Coder]]] = set()


def compile_kernels(dtype: np.dtype[Any], coders: Iterable[Coder]) -> None:
    """Compile the kernels of a fit on CPU rows of this dtype, unless this process has done so.

    ``coders`` are those that may be chosen.
    """
    families = {Forward, *map(type, coders)}
    if all((dtype.name, family) in _ready for family in families):
        return
    with announced(f"for {dtype.name} rows"):
        _call_all(dtype, families)
    _ready.update((dtype.name, family) for family in families)


def _call_all(dtype: np.dtype[Any], families: Iterable[type[Coder]]) -> None:
    backend, key = NumbaBackend(), make_key(0)
    X = np.random.default_rng(0).random((N_ROWS, N_FEATURES)).astype(dtype)
    class_of_row = np.arange(N_ROWS) % 2
    X = view_named("whitened").fit(LabelledRows(X, class_of_row, 2)).apply(X)
    settings = ChainSettings(n_sweeps=1, n_initial_atoms=N_ATOMS)
    learn_chain(key, X, class_of_row, settings, backend)
    atoms, births = X[:N_ATOMS].copy(), np.arange(N_ATOMS)
    few, all_meet = np.eye(N_ATOMS), np.ones((N_ATOMS, N_ATOMS)) + np.eye(N_ATOMS)
    for parts in ((few,), (all_meet,), (all_meet, np.ones(N_FEATURES))):  # the last: smooth atoms
        posterior = AtomPosterior(parts[0], np.ones(atoms.shape), *parts[1:])
        backend.draw_atoms(key, 1, posterior, atoms, births)
    prior = CodePrior(np.full(N_ATOMS, 0.5), np.ones(N_ATOMS), 1.0)
    for family in families:
        family(2).encode(X, PreparedAtoms(atoms, prior), backend)
