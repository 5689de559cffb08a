"""The path from a baseline row to a row, as a view shows it, and the share of each feature in it.

The change of a function along the straight path from a baseline, such as the mean of the training
rows, to a row is the sum of one share per feature: the integral of the gradient in that feature
(integrated gradients: Sundararajan, Taly and Yan, 2017). A feature whose value is that of the
baseline has no share. If the view is affine, the share is the slope times the difference of the
values. Only kernels, and the division of rows by their norms, are not affine.

A view is a sequence of steps here. Each maps rows, and maps gradients back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from dbdl._arrays import exponents, times_powers
from dbdl.model.state import Doubles
from dbdl.views.kernel import FittedKernelView, kernel_of_cosines
from dbdl.views.own import FittedOwnView, transformed
from dbdl.views.view import FittedView

AnyView = FittedView | FittedKernelView | FittedOwnView

#: A baseline that is shorter than this fraction of the row has hardly a direction.
SHORT = 0.1
#: Step of the differences of a user's transformer, as a fraction of the path, and the number of
#: values that it maps at once.
STEP, MOST_VALUES = 1e-4, 2_000_000
#: Rows of more than 2 to this power, in units of the training rows, are scaled down: only their
#: direction matters, and their squares would overflow.
LARGEST = 300


class Path:
    """The straight path from a baseline to a row, cut into equal parts, in a view.

    Parameters
    ----------
    view : FittedView, FittedKernelView or FittedOwnView
    row, baseline : ndarray of shape (n_features_in,)
        In float64, without gaps.
    n_parts : int

    Attributes
    ----------
    mapped : ndarray of shape (2 n_parts + 1, n_features)
        The baseline, the middle of the first part, its end, and so on until the row, in the view.
    """

    def __init__(self, view: AnyView, row: Doubles, baseline: Doubles, n_parts: int) -> None:
        places = np.linspace(0.0, 1.0, 2 * n_parts + 1)[:, np.newaxis]
        ends = _in_units_of_training(view, np.stack([baseline, row]))
        points = (1 - places) * ends[0] + places * ends[1]
        points[:, ends[0] == ends[1]] = ends[0, ends[0] == ends[1]]
        self._steps, self._rows = _steps(view), [points]
        for step in self._steps:
            self._rows.append(step.forward(self._rows[-1]))
        self.mapped = self._rows[-1]

    def shares(self, slopes: Doubles) -> Doubles:
        """Shares (n_parts, n_features_in) of the features in each part of the path.

        ``slopes`` (n_parts, n_features) are those of a function of the mapped row, at the middle of
        each part.
        """
        gradients = np.zeros_like(self.mapped)
        gradients[1::2] = slopes
        for step, before in zip(reversed(self._steps), reversed(self._rows[:-1]), strict=True):
            gradients = step.back(before, gradients)
        points = self._rows[0]
        return gradients[1::2] * (points[-1] - points[0]) / len(slopes)


def training_mean(view: AnyView) -> Doubles | None:
    """Mean of the training rows (n_features_in,), if the view subtracts it.

    A view that scales rows to unit norm first knows the mean of unit rows, which is given the mean
    size of the rows.
    """
    if isinstance(view, FittedKernelView):
        return training_mean(view.kernel.inner)
    if isinstance(view, FittedOwnView) or not view.recipe.centred:
        return None
    return np.ldexp(view.mean * view.length, view.exponent)


def _in_units_of_training(view: AnyView, rows: Doubles) -> Doubles:
    """Baseline and row, multiplied by the power of two by which the view multiplies rows."""
    if isinstance(view, FittedKernelView):
        return _in_units_of_training(view.kernel.inner, rows)
    if isinstance(view, FittedOwnView):
        return rows
    too_large = max(int(exponents(rows).max()) - view.exponent - LARGEST, 0)
    return times_powers(rows, np.full(2, -view.exponent - too_large))


# ------------------------------------------------------------------------------ steps of views


class _Step(Protocol):
    """A map of points on a path: the first is the baseline, the last is the row."""

    def forward(self, rows: Doubles) -> Doubles:
        """Map points."""

    def back(self, rows: Doubles, gradients: Doubles) -> Doubles:
        """Gradients in the points, from those in the mapped points."""


def _steps(view: AnyView) -> list[_Step]:
    if isinstance(view, FittedOwnView):
        return [_Own(view.transformer, view.n_features), *[_Unit()] * view.normalize]
    if isinstance(view, FittedKernelView):
        kernel = view.kernel
        values = _Kernel(kernel.landmarks, kernel.distance)
        coordinates = _Linear(np.zeros(len(kernel.matrix)), None, kernel.matrix)
        return [*_steps(kernel.inner), values, coordinates, *_steps(view.outer)]
    recipe = view.recipe
    if not recipe.normalize:
        return []
    if not (recipe.is_learned or recipe.constant):
        return [_Unit()]
    linear = _Linear(view.mean, view.scale, view.matrix)
    return [*[_Unit()] * recipe.unit, linear, *[_Constant(view.size)] * recipe.constant, _Unit()]


@dataclass(frozen=True)
class _Unit:
    """Divide rows by their norms.

    If the baseline is short, all are divided by the norm of the row; if the row is zero, by that of
    the baseline. The map is then linear.
    """

    def forward(self, rows: Doubles) -> Doubles:
        return rows / self._divisors(rows)[0]

    def back(self, rows: Doubles, gradients: Doubles) -> Doubles:
        divisors, are_held = self._divisors(rows)
        if are_held:
            return gradients / divisors
        units = rows / divisors
        along: Doubles = (gradients * units).sum(axis=1, keepdims=True)
        return (gradients - along * units) / divisors

    def _divisors(self, rows: Doubles) -> tuple[Doubles, bool]:
        """Divisors (n_points, 1) of the rows, and whether all are equal."""
        norms: Doubles = np.linalg.norm(rows, axis=1, keepdims=True)
        first, last = float(norms[0, 0]), float(norms[-1, 0])
        if first < SHORT * last or last == 0:
            return np.full_like(norms, last or first or 1.0), True
        return np.where(norms > 0, norms, 1.0), False


@dataclass(frozen=True)
class _Linear:
    """Subtract the mean, multiply by the scale, and by a matrix if there is one."""

    mean: Doubles
    scale: Doubles | None
    matrix: Doubles | None

    def forward(self, rows: Doubles) -> Doubles:
        rows = rows - self.mean
        if self.scale is not None:
            rows = rows * self.scale
        return rows if self.matrix is None else rows @ self.matrix

    def back(self, rows: Doubles, gradients: Doubles) -> Doubles:
        if self.matrix is not None:
            gradients = gradients @ self.matrix.T
        return gradients if self.scale is None else gradients * self.scale


@dataclass(frozen=True)
class _Constant:
    """Append a constant coordinate."""

    size: float

    def forward(self, rows: Doubles) -> Doubles:
        return np.hstack([rows, np.full((len(rows), 1), self.size)])

    def back(self, rows: Doubles, gradients: Doubles) -> Doubles:
        return gradients[:, :-1]


@dataclass(frozen=True)
class _Kernel:
    """Kernels with landmarks."""

    landmarks: Doubles
    distance: float

    def forward(self, rows: Doubles) -> Doubles:
        return kernel_of_cosines(rows @ self.landmarks.T, self.distance)

    def back(self, rows: Doubles, gradients: Doubles) -> Doubles:
        cosines = rows @ self.landmarks.T
        slopes = kernel_of_cosines(cosines, self.distance) / self.distance
        slopes *= cosines <= 1 + np.finfo(np.float64).eps  # beyond it the kernel is level
        return (gradients * slopes) @ self.landmarks


@dataclass(frozen=True)
class _Own:
    """A user's transformer, whose gradients are differences."""

    transformer: Any
    n_features: int

    def forward(self, rows: Doubles) -> Doubles:
        return np.asarray(transformed(self.transformer, rows, self.n_features), dtype=np.float64)

    def back(self, rows: Doubles, gradients: Doubles) -> Doubles:
        changes = STEP * (rows[-1] - rows[0])
        some = np.flatnonzero(changes)
        back, n_at_once = np.zeros_like(rows), max(1, MOST_VALUES // (2 * rows.shape[1]))
        for i in np.flatnonzero(gradients.any(axis=1)):
            for first in range(0, len(some), n_at_once):
                own = some[first : first + n_at_once]
                steps = np.zeros((len(own), rows.shape[1]))
                steps[np.arange(len(own)), own] = changes[own]
                both = np.concatenate([rows[i] + steps, rows[i] - steps])
                up, down = np.split(self.forward(both), 2)
                back[i, own] = (up - down) @ gradients[i] / (2 * changes[own])
        return back
