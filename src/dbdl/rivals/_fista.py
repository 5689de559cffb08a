"""Sparse codes by FISTA: a convex quadratic of a matrix of codes plus an l1 penalty.

Minimises over ``codes`` (n_samples, n_atoms)

    1/2 <codes, Q(codes)> - <codes, linear> + penalty ||codes||_1

with ``Q`` a symmetric positive semi-definite linear map: ``codes @ gram`` for the lasso, and
anything that couples atoms or samples for methods beyond it. This is the accelerated proximal
gradient of Beck and Teboulle (2009) with three changes:

- One application of ``Q`` per iteration gives the gradient *and* the objective. The point where
  the gradient is taken is a combination of the last two iterates, so its image is the same
  combination of their images.
- The objective never rises: an iterate that would raise it is dropped, and the momentum with it
  (O'Donoghue and Candes, 2015). A step without momentum cannot raise it.
- The step length comes from the curvature met, which costs nothing since the images are at hand.
  Rows that share a direction (faces) have a largest eigenvalue many times that curvature.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbdl._compile import REORDERED, kernel
from dbdl.model.trust import Doubles

Array = NDArray[Any]
#: Writes Q(codes) into its second argument.
Product = Callable[[Array, Array], object]

#: The step is lengthened by this factor each iteration; curvature met shortens it.
OPTIMISM = 0.95

#: Room for the rounding of a curvature: without it a step could be refused for ever.
SLACK = {"float64": 1e-10, "float32": 1e-4}


@dataclass(frozen=True)
class FistaResult:
    """Codes, and how FISTA found them."""

    codes: Array  # (n_samples, n_atoms)
    objective: Doubles  # at the start and after each iteration
    lipschitz: float  # curvature used last: a good start for a similar problem
    converged: bool  # whether the last step was as short as asked for


def fista(
    product: Product, linear: Array, start: Array, penalty: float, *, lipschitz: float = 1.0,
    n_iterations: int = 100, tol: float = 1e-4,
) -> FistaResult:  # fmt: skip
    """Minimise ``1/2 <codes, Q(codes)> - <codes, linear> + penalty ||codes||_1``.

    ``product(codes, out)`` writes ``Q(codes)`` into ``out``. The result is never worse than the
    codes (n_samples, n_atoms) to start from. ``lipschitz`` is a guess, of any quality, of the
    largest eigenvalue of ``Q``. ``product`` is applied ``n_iterations`` times after the first time,
    or until a step is at most ``tol`` times the norm of the codes.

    Examples
    --------
    >>> import numpy as np
    >>> from dbdl.rivals._fista import fista
    >>> result = fista(lambda a, out: np.copyto(out, 2 * a), np.array([[4.0, 0.5]]),
    ...                np.zeros((1, 2)), penalty=1.0)
    >>> np.round(result.codes, 3)
    array([[1.5, 0. ]])
    """
    dtype, penalty = start.dtype, float(penalty)  # a narrow number would narrow its quotients
    linear = np.ascontiguousarray(linear, dtype=dtype)
    codes, image = np.array(start, order="C"), np.empty_like(start, order="C")
    point, point_image = codes.copy(), image.copy()
    trial, trial_image = np.empty_like(codes), np.empty_like(codes)
    product(codes, image)
    point_image[:] = image
    trace = [_objective(codes, image, linear, penalty)]
    momentum, fresh, converged = 1.0, True, False
    slack, largest = 1.0 + SLACK[dtype.name], float(np.finfo(dtype).max)
    for _ in range(n_iterations):
        step = dtype.type(1.0 / lipschitz)
        threshold = dtype.type(min(penalty / lipschitz, largest))
        _shrink(point, point_image, linear, step, threshold, trial)
        product(trial, trial_image)
        moved, curved = _curvature(trial, trial_image, point, point_image)
        if curved > lipschitz * moved * slack:
            lipschitz = max(2 * lipschitz, 1.1 * curved / moved)
            trace.append(trace[-1])
            continue
        value = _objective(trial, trial_image, linear, penalty)
        if value > trace[-1]:
            trace.append(trace[-1])
            if fresh:  # a plain step can only rise by rounding
                converged = True
                break
            np.copyto(point, codes)
            np.copyto(point_image, image)
            momentum, fresh = 1.0, True
            continue
        trace.append(value)
        heavier = 0.5 * (1 + np.sqrt(1 + 4 * momentum**2))
        weight = dtype.type((momentum - 1) / heavier)
        size = _extrapolate(trial, codes, weight, point)
        _extrapolate(trial_image, image, weight, point_image)
        codes, trial = trial, codes
        image, trial_image = trial_image, image
        momentum, fresh = heavier, weight == 0
        if moved <= tol**2 * size:
            converged = True
            break
        lipschitz *= OPTIMISM
    return FistaResult(codes, np.array(trace), float(lipschitz), converged)


@kernel(REORDERED)
def _shrink(
    point: Array, image: Array, linear: Array, step: float, threshold: float, out: Array
) -> None:
    """Step against the gradient, then towards zero by the threshold."""
    for i in range(point.shape[0]):
        p, q, b, o = point[i], image[i], linear[i], out[i]
        for k in range(p.shape[0]):
            value = p[k] - step * (q[k] - b[k])
            o[k] = max(value - threshold, 0) + min(value + threshold, 0)


@kernel(REORDERED)
def _objective(codes: Array, image: Array, linear: Array, penalty: float) -> float:
    total = 0.0
    for i in range(codes.shape[0]):
        a, q, b = codes[i], image[i], linear[i]
        smooth = 0.0
        size = 0.0
        for k in range(a.shape[0]):
            smooth += np.float64(a[k]) * (0.5 * q[k] - b[k])
            size += abs(a[k])
        total += smooth + penalty * size
    return total


@kernel(REORDERED)
def _curvature(
    trial: Array, trial_image: Array, point: Array, point_image: Array
) -> tuple[float, float]:
    """Squared length of a step, and its product with its image."""
    moved = 0.0
    curved = 0.0
    for i in range(trial.shape[0]):
        a, q, p, r = trial[i], trial_image[i], point[i], point_image[i]
        for k in range(a.shape[0]):
            change = np.float64(a[k] - p[k])
            moved += change * change
            curved += change * (q[k] - r[k])
    return moved, curved


@kernel(REORDERED)
def _extrapolate(new: Array, old: Array, weight: float, out: Array) -> float:
    """New plus weight times its change; returns the squared norm of the new."""
    size = 0.0
    for i in range(new.shape[0]):
        a, b, o = new[i], old[i], out[i]
        for k in range(a.shape[0]):
            o[k] = a[k] + weight * (a[k] - b[k])
            size += np.float64(a[k]) * a[k]
    return size
