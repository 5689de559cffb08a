"""Probabilities of a pixel from a window of its neighbours, in one of two ways.

"scores" averages the scores of the pixels in the window. The mean of log-probabilities is the mean
of scores up to a constant, so this serves every classifier with probabilities. "codes" codes the
pixels of the window together, over shared atoms (`dbdl.coding.simultaneous`), and scores the mean
of their codes; it needs the chains of a `DBDLClassifier`. Pixels without data, and those beyond the
edge of the scene, are in no window. docs/maps.md compares the two.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dbdl._threads import resolve_n_jobs, single_threaded_blas
from dbdl.coding.simultaneous import encode_groups
from dbdl.estimators.classifier import DBDLClassifier
from dbdl.learn.held_out import to_probabilities
from dbdl.learn.link import bent
from dbdl.maps.cube import Floats

Rule = Literal["scores", "codes"]
Mask = NDArray[np.bool_]
Probabilities = NDArray[np.float64]

#: Probabilities below this count as this, so that one pixel does not rule out a class.
LEAST_PROBABILITY = 1e-12


def smoothed(probability: Probabilities, has_data: Mask, window: int) -> Probabilities:
    """Probabilities (n_lines, n_samples, n_classes) from the mean scores of each window."""
    score = np.log(np.maximum(probability, LEAST_PROBABILITY))
    score[~has_data] = 0
    total, count = np.zeros_like(score), np.zeros(has_data.shape)
    for here, there in _shifts(has_data.shape, window):
        total[here] += score[there]
        count[here] += has_data[there]
    mean = total / np.maximum(count, 1)[..., np.newaxis]
    mean = np.exp(mean - mean.max(axis=-1, keepdims=True))
    return mean / mean.sum(axis=-1, keepdims=True)


def _shifts(shape: tuple[int, ...], window: int) -> Iterator[tuple[Any, Any]]:
    """Yield pairs of slices: pixels, and their neighbours at one place of the window."""
    steps = range(-(window // 2), window // 2 + 1)
    for dy, dx in product(steps, steps):
        if abs(dy) < shape[0] and abs(dx) < shape[1]:
            here, there = zip(_shift(dy, shape[0]), _shift(dx, shape[1]), strict=True)
            yield here, there


def _shift(step: int, n: int) -> tuple[slice, slice]:
    """Return the places of a line that have a neighbour ``step`` away, and the neighbours."""
    return slice(max(0, -step), n - max(0, step)), slice(max(0, step), n + min(0, step))


def neighbours(has_data: Mask, window: int) -> NDArray[np.int64]:
    """Numbers of the pixels in each window (n_lines, n_samples, window²), counted line by line.

    The pixel itself comes first; -1 stands for neighbours that hold no data or do not exist.
    """
    numbers = np.where(has_data, np.arange(has_data.size).reshape(has_data.shape), -1)
    places = np.full((window * window, *has_data.shape), -1, np.int64)
    places[0] = numbers
    free = 1
    for here, there in _shifts(has_data.shape, window):
        if here == there:
            continue
        places[free][here] = numbers[there]
        free += 1
    return np.moveaxis(places, 0, -1)


@single_threaded_blas()
def coded_together(
    model: DBDLClassifier, spectra: Floats, has_data: Mask, window: int, inner: slice
) -> Probabilities:
    """Probabilities (n_inner_lines, n_samples, n_classes) from windows coded over shared atoms.

    Each chain codes in its view, with the number of non-zeros of its coder. Only the ``inner``
    lines are coded; those around them are neighbours.
    """
    n_threads = resolve_n_jobs(model.n_jobs)
    rows = np.ascontiguousarray(spectra.reshape(-1, spectra.shape[2]))
    places = neighbours(has_data, window)[inner]
    groups = np.ascontiguousarray(places.reshape(-1, window * window))
    scores = np.zeros((len(groups), len(model.classes_)))
    for chain in model.chains_:
        seen = np.ascontiguousarray(chain.view.apply(rows, n_threads), dtype=chain.atoms.dtype)
        atoms = chain.prepared
        longest = atoms.longest(chain.coder.n_nonzero)
        codes = encode_groups(seen, atoms.atoms, atoms.gram(n_threads), groups, longest, n_threads)
        scores += chain.weight * (codes.mean(len(atoms)) @ chain.label_atoms)
    found = to_probabilities(bent(scores, model.bend_), 1.0 / model.temperature_)
    return found.reshape(*places.shape[:2], -1)
