"""Smooth atoms: a Gaussian process over the features, in place of the paper's isotropic prior.

Neighbouring bands of a spectrum, moments of a signal and pixels of an image have similar values,
and so should those of an atom. The paper's prior takes features as independent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from numbers import Real
from typing import Annotated, Any, Literal

import numpy as np
from scipy.spatial.distance import cdist

from dbdl.model.record import Record
from dbdl.model.trust import Doubles, Number, check

Kernel = Literal["squared exponential", "matern 3/2", "matern 5/2"]

#: Correlation of two features at a distance, measured in length scales (Rasmussen and Williams,
#: "Gaussian Processes for Machine Learning", 2006, section 4.2).
KERNELS: dict[str, Callable[[Doubles], Doubles]] = {
    "squared exponential": lambda r: np.exp(-0.5 * r**2),
    "matern 3/2": lambda r: (1 + 3**0.5 * r) * np.exp(-(3**0.5) * r),
    "matern 5/2": lambda r: (1 + 5**0.5 * r + 5 / 3 * r**2) * np.exp(-(5**0.5) * r),
}

#: Coordinates and length scales beyond this, or length scales below its inverse, are mistakes.
LARGEST = 1e100
LengthScale = Annotated[float, Number(least=1 / LARGEST, most=LARGEST)]
Coordinate = Annotated[float, Number(least=-LARGEST, most=LARGEST)]


@dataclass(frozen=True)
class SmoothAtoms(Record):
    """Gaussian-process prior of the atoms: neighbouring features have similar values.

    The ``atom_prior`` of `dbdl.ModelSettings`. The covariance of an atom's entries is
    ``(1 - nugget) * kernel + nugget * identity``, scaled so that the expected squared norm of an
    atom is that of the default prior. In a view, atoms are mapped like rows, and the covariance
    with them. The views have to be linear: "auto" leaves its kernel views out.

    Parameters
    ----------
    length_scale : float or sequence of float
        Distance over which features resemble each other, in the unit of the coordinates. If there
        are several, chains take them in turn, and are weighted on the rows that they left out.
    kernel : {"matern 5/2", "matern 3/2", "squared exponential"}, default="matern 5/2"
        How smooth atoms are: differentiable twice with "matern 5/2", once with "matern 3/2", and
        infinitely often with "squared exponential".
    coordinates : array-like of shape (n_features,) or (n_features, n_dimensions), default=None
        Wavelengths, times, or places of pixels; 0, 1, ... if None.
    nugget : float, default=0.001
        Share of white noise in the variance of each entry, above 0 and at most 1. It keeps the
        covariance positive definite, and lets data that contradict the kernel win.

    Examples
    --------
    >>> from dbdl import DBDLClassifier, ModelSettings, SmoothAtoms
    >>> model = DBDLClassifier(model=ModelSettings(atom_prior=SmoothAtoms(length_scale=5)))
    >>> model.get_params()["model__atom_prior"]
    SmoothAtoms(length_scale=5, kernel='matern 5/2', nugget=0.001)
    """

    length_scale: LengthScale | tuple[LengthScale, ...]
    kernel: Kernel = "matern 5/2"
    coordinates: tuple[tuple[Coordinate, ...], ...] | None = field(default=None, repr=False)
    nugget: Annotated[float, Number(least=1e-12, most=1)] = 1e-3

    def __post_init__(self) -> None:
        if not isinstance(self.length_scale, Real):
            object.__setattr__(self, "length_scale", tuple(_numbers(self.length_scale, 1)))
        if self.coordinates is not None:
            points = tuple(map(tuple, _numbers(self.coordinates, 2)))
            object.__setattr__(self, "coordinates", points)
        check(SmoothAtoms, self, "SmoothAtoms")

    def faults(self) -> Iterator[str]:
        """Report nothing where there should be numbers, or points of several dimensions."""
        if self.length_scale == ():
            yield "length_scale is empty"
        if self.coordinates is not None and len(set(map(len, self.coordinates))) != 1:
            yield "coordinates are none, or have several numbers of dimensions"

    @property
    def length_scales(self) -> tuple[float, ...]:
        """All length scales."""
        return self.length_scale if isinstance(self.length_scale, tuple) else (self.length_scale,)

    def covariance(self, n_features: int, length_scale: float) -> Doubles:
        """Covariance of the entries of an atom (n_features, n_features), each of variance 1."""
        points = np.array(self.coordinates or np.arange(n_features)[:, np.newaxis], np.float64)
        points /= length_scale
        smooth = KERNELS[self.kernel](cdist(points, points))
        return (1 - self.nugget) * smooth + self.nugget * np.eye(n_features)


def _numbers(value: Any, n_axes: int) -> Any:
    """Return an array of numbers as nested lists; two axes may lack the second."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"SmoothAtoms has {value!r}, expected numbers.") from error
    if not 1 <= array.ndim <= n_axes or not array.size:
        raise ValueError(
            f"SmoothAtoms has an array of shape {array.shape}. Expected one length scale or a list "
            "of them, and coordinates of shape (n_features,) or (n_features, n_dimensions)."
        )
    return (array if n_axes == 1 else array.reshape(len(array), -1)).tolist()
