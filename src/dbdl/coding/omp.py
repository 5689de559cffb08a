"""Sparse coding by orthogonal matching pursuit, textbook and forward selection, in Gram space."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix

from dbdl._threads import block_slices, resolve_n_jobs, run_blocks, single_threaded_blas

Selection = Literal["orthogonal", "forward"]
Array = NDArray[Any]

ROWS = 32
GRAM_ROWS = 128


@dataclass(frozen=True)
class Pursuit:
    order: NDArray[np.int32]
    count: NDArray[np.int32]
    coefficients: list[Array]


def omp(X, atoms, n_nonzero=50, tol=None, selection="orthogonal", *, gram=None, n_jobs=None):
    X, atoms, gram, lengths = _check(X, atoms, [n_nonzero], gram)
    pursuit = encode(X, atoms, gram, lengths, selection, tol, resolve_n_jobs(n_jobs))
    return _to_csr(pursuit, 0, atoms.shape[0])


def omp_path(X, atoms, n_nonzero, selection="orthogonal", *, gram=None, n_jobs=None):
    X, atoms, gram, lengths = _check(X, atoms, n_nonzero, gram)
    pursuit = encode(X, atoms, gram, lengths, selection, None, resolve_n_jobs(n_jobs))
    return [_to_csr(pursuit, i, atoms.shape[0]) for i in range(len(lengths))]


def _check(X, atoms, lengths, gram):
    X = np.asarray(X)
    atoms = np.asarray(atoms)
    dtype = np.result_type(X, atoms, np.float32)
    X = np.ascontiguousarray(X, dtype)
    atoms = np.ascontiguousarray(atoms, dtype)
    if gram is not None:
        gram = np.ascontiguousarray(gram, dtype)
    most = min(atoms.shape)
    return X, atoms, gram, [min(int(n), most) for n in lengths]


def gram_matrix(atoms, n_threads=1):
    n_atoms = atoms.shape[0]
    gram = np.empty((n_atoms, n_atoms), atoms.dtype)

    def fill(rows):
        upper = atoms[rows] @ atoms[rows.start :].T
        gram[rows, rows.start :] = upper
        gram[rows.start :, rows] = upper.T

    with single_threaded_blas():
        run_blocks(fill, block_slices(n_atoms, GRAM_ROWS), n_threads)
    return gram


def encode(X, atoms, gram=None, lengths=(50,), selection="orthogonal", tol=None, n_threads=1):
    if gram is None:
        gram = gram_matrix(atoms, n_threads)
    lengths = np.asarray(lengths, np.int64)
    T = int(lengths.max())

    def work(rows):
        block = np.zeros((ROWS, X.shape[1]), X.dtype)
        block[: rows.stop - rows.start] = X[rows]
        return _pursue_block(
            block, rows.stop - rows.start, atoms, gram, lengths, T, selection == "forward",
            -1.0 if tol is None else float(tol),
        )

    with single_threaded_blas():
        parts = run_blocks(work, block_slices(X.shape[0], ROWS), n_threads)
    n = X.shape[0]
    order = np.zeros((n, T), np.int32)
    count = np.zeros(n, np.int32)
    coefs = [np.zeros((n, m), X.dtype) for m in lengths]
    for rows, (o, c, x) in zip(block_slices(n, ROWS), parts):
        order[rows] = o
        count[rows] = c
        start = 0
        for i, m in enumerate(lengths):
            coefs[i][rows] = x[:, start : start + m]
            start += m
    return Pursuit(order, count, coefs)


@njit(nogil=True, cache=True, fastmath={"contract", "nsz", "arcp", "reassoc"})
def _pursue_block(block, n_rows, atoms, gram, lengths, T, forward, tol):
    K = atoms.shape[0]
    correlations = np.dot(block, atoms.T)
    V = np.empty((T, K), block.dtype)
    norms = np.empty(K, block.dtype)
    allowed = np.empty(K, np.bool_)
    order = np.zeros((n_rows, T), np.int32)
    count = np.zeros(n_rows, np.int32)
    x = np.zeros((n_rows, lengths.sum()), block.dtype)
    y = np.zeros(T)
    eps = 1e-10 if V.itemsize == 8 else 1e-5
    noise = 1e-14 if V.itemsize == 8 else 4e-6
    for i in range(n_rows):
        c = correlations[i]
        square = 0.0
        for f in range(block.shape[1]):
            square += float(block[i, f]) ** 2
        norm = np.sqrt(square)
        remaining = square
        for k in range(K):
            norms[k] = gram[k, k]
            allowed[k] = gram[k, k] > 0
        t = 0
        while t < T:
            if tol >= 0 and remaining <= tol * tol:
                break
            best = 0.0
            pick = -1
            for k in range(K):
                if allowed[k]:
                    s = float(c[k]) ** 2 / (norms[k] if forward else gram[k, k])
                    if s > best:
                        best = s
                        pick = k
            if pick < 0 or best <= (noise * norm) ** 2:
                break
            allowed[pick] = False
            if norms[pick] <= eps * gram[pick, pick]:
                continue
            v = V[t]
            root = 1.0 / np.sqrt(norms[pick])
            for k in range(K):
                v[k] = gram[pick, k]
            for j in range(t):
                w = V[j, pick]
                for k in range(K):
                    v[k] -= w * V[j, k]
            beta = c[pick] * root
            for k in range(K):
                v[k] *= root
                c[k] -= beta * v[k]
                norms[k] -= v[k] * v[k]
                if norms[k] <= eps * gram[k, k]:
                    allowed[k] = False
            y[t] = beta
            order[i, t] = pick
            remaining -= beta * beta
            t += 1
        count[i] = t
        start = 0
        for m in range(lengths.shape[0]):
            top = min(lengths[m], t)
            for a in range(top - 1, -1, -1):
                s = y[a]
                for b in range(a + 1, top):
                    s -= x[i, start + b] * V[a, order[i, b]]
                x[i, start + a] = s / V[a, order[i, a]]
            start += lengths[m]
    return order, count, x


def _to_csr(pursuit, which, n_atoms):
    x = pursuit.coefficients[which]
    count = np.minimum(pursuit.count, x.shape[1])
    mask = np.arange(x.shape[1]) < count[:, None]
    indptr = np.concatenate([[0], np.cumsum(count)])
    out = csr_matrix(
        (x[mask], pursuit.order[:, : x.shape[1]][mask], indptr), shape=(x.shape[0], n_atoms)
    )
    out.sort_indices()
    return out
