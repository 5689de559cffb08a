"""Shares of the features of a row in a linear function of the row as a view shows it.

A linear view maps a row by ``(x - mean) T``, maybe with a constant coordinate, and divides it by its
norm. With that norm held fixed the map is affine, so a function ``weights @ view(x)`` is its value
for a baseline row plus one share per feature, exactly. A baseline is the mean of the training rows,
for example.

In a kernel view the function is a weighted sum of kernels with landmarks, each of which depends on
one inner product. The integral of its gradient along the straight path from the baseline to the
row, which for this kernel is a difference quotient, gives shares that add up exactly too
(integrated gradients: Sundararajan, Taly and Yan, 2017). The gradients of a user's own transformer
are integrated numerically.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dbdl._arrays import exponents, times_powers
from dbdl._products import row_products
from dbdl.views.kernel import FittedKernelView, kernel_of_cosines
from dbdl.views.own import FittedOwnView, transformed
from dbdl.views.view import FittedView, moderate

Doubles = NDArray[np.float64]

#: Cosines that differ by less than this fraction of the kernel's distance are taken as equal: their
#: difference quotient would be rounding.
LEVEL = 1e-6
#: Points on the path at which the gradient of a user's transformer is computed, and the step of the
#: differences as a fraction of the path.
N_POINTS, STEP = 8, 1e-4
#: Rows that a user's transformer maps at once, in numbers of values.
MOST_VALUES = 2_000_000


class Attribution(NamedTuple):
    """A linear function of a mapped row, taken apart into the features of the row as it was.

    The function is its value at the baseline plus the sum of the shares: exactly, except for a
    user's own transformer.
    """

    shares: Doubles  # (n_features_in,)
    at_baseline: float


def training_mean(view: FittedView | FittedKernelView | FittedOwnView) -> Doubles | None:
    """Mean of the training rows (n_features_in,), if the view subtracts it.

    A view that scales rows to unit norm first knows the mean of unit rows, which is given the mean
    size of the rows.
    """
    if isinstance(view, FittedKernelView):
        return training_mean(view.kernel.inner)
    if isinstance(view, FittedOwnView) or not view.recipe.centred:
        return None
    mean: Doubles = np.ldexp(view.mean * view.length, view.exponent)
    return mean


def attribute(
    view: FittedView | FittedKernelView | FittedOwnView,
    row: Doubles,
    baseline: Doubles,
    weights: Doubles,
) -> Attribution:
    """Shares of features in ``weights @ view(row)``, compared with a baseline.

    The norms by which the view divides the row are held fixed. If the view does not know the size
    of a row, the baseline is given the size of the row.

    Parameters
    ----------
    view : FittedView, FittedKernelView or FittedOwnView
    row, baseline : ndarray of shape (n_features_in,)
        A row as it is, in float64, and the row that it is compared with.
    weights : ndarray of shape (n_features,)
    """
    if isinstance(view, FittedKernelView):
        return _of_kernel(view, row, baseline, weights)
    if isinstance(view, FittedOwnView):
        return _of_own(view, row, baseline, weights)
    pair = _compare(view, row, baseline)
    return Attribution(pair.changes * _slopes(view, pair, weights), float(weights @ pair.before))


class _Pair(NamedTuple):
    """A row and a baseline in a linear view, both divided by the norm of the row."""

    now: Doubles  # (n_features,)
    before: Doubles  # (n_features,)
    changes: Doubles  # (n_features_in,), of the features from baseline to row, as first scaled
    norm: float


def _compare(
    view: FittedView, row: Doubles, baseline: Doubles, *, same_size: bool = True
) -> _Pair:
    """Map a row and a baseline, which may be given the size of the row where that is unknown."""
    recipe = view.recipe
    if not recipe.normalize:
        return _Pair(row, baseline, row - baseline, 1.0)
    plain = not (recipe.is_learned or recipe.constant)
    if recipe.unit or plain:
        now, before = _in_units(row, baseline, same_size=same_size)
    else:
        now, before = moderate(times_powers(np.stack([row, baseline]), np.full(2, -view.exponent)))
    mapped, mapped_before = _linear(view, now), _linear(view, before)
    constant = np.full(int(recipe.constant), view.size)
    norm = _norm(np.append(mapped, constant))
    if same_size and not (recipe.centred or recipe.constant):  # the map is linear
        factor = _norm(mapped) / _norm(mapped_before)
        before, mapped_before = before * factor, mapped_before * factor
    return _Pair(
        np.append(mapped, constant) / norm,
        np.append(mapped_before, constant) / norm,
        now - before,
        norm,
    )


def _in_units(row: Doubles, baseline: Doubles, *, same_size: bool) -> tuple[Doubles, Doubles]:
    """Row and baseline divided by the norm of the row, or each by its own."""
    scaled = times_powers(row[np.newaxis], -exponents(row[np.newaxis]))[0]
    if not same_size:
        other = times_powers(baseline[np.newaxis], -exponents(row[np.newaxis]))[0]
        return scaled / _norm(scaled), other / _norm(scaled)
    other = times_powers(baseline[np.newaxis], -exponents(baseline[np.newaxis]))[0]
    return scaled / _norm(scaled), other / _norm(other)


def _linear(view: FittedView, row: Doubles) -> Doubles:
    mapped: Doubles = (row - view.mean) * view.scale
    return mapped if view.matrix is None else mapped @ view.matrix


def _slopes(view: FittedView, pair: _Pair, weights: Doubles) -> Doubles:
    """Slopes (n_features_in,) of ``weights @ view(row)`` in the features as first scaled."""
    slopes = weights[: len(view.mean)] / pair.norm
    if view.matrix is not None:
        slopes = view.matrix @ slopes
    return slopes * view.scale


def _norm(row: Doubles) -> float:
    return float(np.linalg.norm(row)) or 1.0


def _of_kernel(
    view: FittedKernelView, row: Doubles, baseline: Doubles, weights: Doubles
) -> Attribution:
    kernel = view.kernel
    inner = _compare(kernel.inner, row, baseline)
    now = kernel.inner.apply(row[np.newaxis])[0]  # with the bits that the view sees
    cosines = row_products(np.stack([now, inner.before]), np.ascontiguousarray(kernel.landmarks))
    values = kernel_of_cosines(cosines, kernel.distance)
    outer = _compare(view.outer, *(values @ kernel.matrix), same_size=False)
    weight_of_landmark = kernel.matrix @ _slopes(view.outer, outer, weights)
    slope = _mean_slope(cosines, values, kernel.distance)
    to_inner = (weight_of_landmark * slope) @ kernel.landmarks
    shares = inner.changes * _slopes(kernel.inner, inner, to_inner)
    return Attribution(shares, float(weights @ outer.before))


def _mean_slope(cosines: Doubles, values: Doubles, distance: float) -> Doubles:
    """Mean slope (n_landmarks,) of each kernel on the way from the second row to the first."""
    apart = cosines[0] - cosines[1]
    level = np.abs(apart) < LEVEL * distance
    quotient = (values[0] - values[1]) / np.where(level, 1.0, apart)
    at_middle = values.mean(axis=0) / distance * (cosines.mean(axis=0) <= 1)
    return np.where(level, at_middle, quotient)


def _of_own(view: FittedOwnView, row: Doubles, baseline: Doubles, weights: Doubles) -> Attribution:
    """Integrate the gradient along the path from the baseline, by Gauss's rule and differences."""
    ends = transformed(view.transformer, np.stack([row, baseline]), view.n_features)
    norm = _norm(ends[0]) if view.normalize else 1.0
    changes = row - baseline
    some, shares = np.flatnonzero(changes), np.zeros(len(row))
    places, shares_of_place = np.polynomial.legendre.leggauss(N_POINTS)
    n_at_once = max(1, MOST_VALUES // (2 * len(row)))
    for place, part in zip((places + 1) / 2, shares_of_place / 2, strict=True):
        point = baseline + place * changes
        for first in range(0, len(some), n_at_once):
            own = some[first : first + n_at_once]
            steps = np.zeros((len(own), len(row)))
            steps[np.arange(len(own)), own] = STEP * changes[own]
            both = np.concatenate([point + steps, point - steps])
            up, down = np.split(transformed(view.transformer, both, view.n_features), 2)
            shares[own] += part * ((up - down) @ weights) / (2 * STEP * norm)
    return Attribution(shares, float(weights @ ends[1] / norm))
