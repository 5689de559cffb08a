"""Views learned from rows on a GPU, and rows mapped there.

A recipe of a view (`dbdl.views`) asks labelled rows for class means, variances and spectra. Rows on
a device have the same methods, so the recipes are written once. The results are those of the host
up to rounding.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dbdl._arrays import LARGEST_EXPONENT, SAFE_EXPONENT
from dbdl.model.state import Classes, Doubles
from dbdl.model.statistics import Weights
from dbdl.views import FittedKernelView, FittedView, LabelledRows, evenly_spread
from dbdl.views.kernel import Kernel
from dbdl.views.sums import Conversion, Result
from dbdl.views.view import MAP_OVERFLOWS
from dbdl.views.whitening import Spectrum

#: Copies of arrays on devices, by the identity of the array, the device and the dtype.
_copies: dict[tuple[int, torch.device, torch.dtype], Tensor] = {}


def copy_on_device(array: NDArray[Any], like: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Return a copy of an array where a tensor is, which is kept while the array lives.

    Such arrays belong to fitted views, which never change.
    """
    key = id(array), like.device, dtype or like.dtype
    found = _copies.get(key)
    if found is None:
        here = torch.from_numpy(np.ascontiguousarray(array)).to(key[1])
        found = here.to(key[2], copy=True)  # or the copy would keep the array alive on the CPU
        wait_for_stream(found)
        keep_copy(array, found)
    if found.is_cuda:  # its memory may be reused only after the work of this stream
        found.record_stream(torch.cuda.current_stream(found.device))
    return found


def wait_for_stream(tensor: Tensor) -> None:
    """Wait until a tensor is computed: the stream of another member may use it."""
    if tensor.is_cuda:
        torch.cuda.current_stream(tensor.device).synchronize()


def keep_copy(array: NDArray[Any], copy: Tensor) -> None:
    """Keep the copy of an array while the array lives."""
    key = id(array), copy.device, copy.dtype
    _copies[key] = copy
    weakref.finalize(array, _copies.pop, key, None)


def to_numpy(tensor: Tensor) -> NDArray[Any]:
    """Copy a tensor into a new NumPy array, whose memory has larger pages than PyTorch's."""
    found = np.empty(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."))
    torch.from_numpy(found).copy_(tensor)
    return found


@dataclass(frozen=True)
class DeviceRows:
    """Labelled rows on a device, with the methods of `LabelledRows` that recipes of views use."""

    X: Tensor  # (n_samples, n_features)
    labelled: LabelledRows  # their classes and weights

    @classmethod
    def of(cls, rows: LabelledRows, device: str) -> DeviceRows:
        """Copy rows to a device."""
        return cls(torch.from_numpy(np.ascontiguousarray(rows.X)).to(device), rows)

    def once(self, name: Hashable, compute: Callable[[], Result]) -> Result:
        """Return a result that other views of these rows may have computed already."""
        return self.labelled.once(name, compute)

    @property
    def class_of_row(self) -> Classes:
        """Class indices (n_samples,) on the host."""
        return self.labelled.class_of_row

    @property
    def sample_weight(self) -> Weights:
        """Weights (n_samples,) on the host, or None."""
        return self.labelled.sample_weight

    @property
    def n_rows(self) -> float:
        """Number of rows, a row of weight w counted w times."""
        return self.labelled.n_rows

    @property
    def dtype(self) -> np.dtype[Any]:
        """Float32 or float64, of NumPy."""
        return self.labelled.dtype

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.X.shape[1]

    def largest_exponent(self) -> int:
        """Exponent of the power of two just above the largest absolute value."""
        return int(np.frexp(float(self.X.abs().max()))[1])

    def class_means(self, convert: Conversion) -> Doubles:
        """Mean of the rows of each class (n_classes, n_features); 0 for a class without rows."""
        one_hot = torch.nn.functional.one_hot(self._classes, self.labelled.n_classes).double()
        sums = (one_hot * self._weights[:, None]).T @ self._converted(convert)
        return sums.cpu().numpy() / self.labelled.n_in_class[:, np.newaxis]

    def mean_square(self, convert: Conversion, centres: Doubles) -> Doubles:
        """Mean of the squares of rows around the centres of their classes (n_features,)."""
        squares = self._around(convert, centres).square_()
        return (self._weights @ squares).cpu().numpy() / self.n_rows

    def mean_length(self, exponent: int) -> float:
        """Root of the mean squared norm of rows, multiplied by 2 to the power of -exponent."""
        return self._root_mean(self._converted(Conversion(exponent, False)))

    def mean_norm(self, view: FittedView) -> float:
        """Root of the mean squared norm of rows that a view maps, before it scales them."""
        return self._root_mean(_before_scaling(view, self.X).double())

    def spectrum(self, convert: Conversion, centres: Doubles, scale: Doubles) -> DeviceSpectrum:
        """Spectrum of the covariance of rows around the centres of their classes, times a scale."""
        residuals = self._around(convert, centres) * torch.from_numpy(scale).to(self.X.device)
        fourth = float(self._weights @ residuals.square().sum(dim=1).square()) / self.n_rows
        weighted = residuals * self._weights.sqrt()[:, None]
        n_rows, n_features = residuals.shape
        if n_rows >= n_features:
            values, vectors = torch.linalg.eigh(weighted.T @ weighted / self.n_rows)
            values, vectors = values.clamp(min=0.0), vectors.T
        else:
            values, vectors = torch.linalg.eigh(weighted @ weighted.T / self.n_rows)
            some = values > np.finfo(np.float64).eps * n_rows * values[-1].clamp(min=0.0)
            values, vectors = values[some], vectors[:, some].T @ weighted
            vectors /= (self.n_rows * values).sqrt()[:, None]
        found = Spectrum(values.cpu().numpy(), np.empty((0, n_features)), fourth, self.n_rows)
        wait_for_stream(vectors)
        return DeviceSpectrum(found, vectors, self.X.dtype)

    def landmarks(self, view: FittedView, most: int) -> Doubles:
        """At most this many rows, evenly spread, as a view shows them."""
        some = torch.from_numpy(evenly_spread(len(self.X), most)).to(self.X.device)
        return to_numpy(map_rows(view, self.X[some]).double())

    def inner_products(self, rows: Doubles) -> Doubles:
        """Inner products (n_rows, n_rows) of some rows, such as landmarks."""
        here = copy_on_device(rows, self.X, torch.float64)
        return (here @ here.T).cpu().numpy()

    def eigen(self, matrix: Doubles) -> tuple[Doubles, Doubles]:
        """Eigenvalues (n,), ascending, and eigenvectors in the columns of (n, n)."""
        values, vectors = torch.linalg.eigh(torch.from_numpy(matrix).to(self.X.device))
        return values.cpu().numpy(), vectors.cpu().numpy()

    def mapped(self, view: Any) -> DeviceRows:
        """Return the labelled rows as a view shows them."""
        return replace(self, X=map_rows(view, self.X), labelled=self.labelled._replace(shared=None))

    @cached_property
    def _classes(self) -> Tensor:
        return torch.from_numpy(self.class_of_row).to(self.X.device)

    @cached_property
    def _weights(self) -> Tensor:
        """Weights (n_samples,) in float64."""
        if self.sample_weight is None:
            return torch.ones(len(self.X), dtype=torch.float64, device=self.X.device)
        return torch.from_numpy(self.sample_weight).to(self.X.device)

    def _converted(self, convert: Conversion) -> Tensor:
        rows = unit_rows(self.X) if convert.unit else times_power(self.X, -convert.exponent)
        return rows.double()

    def _around(self, convert: Conversion, centres: Doubles) -> Tensor:
        """Rows around the centres (n_classes, n_features) of their classes, in float64."""
        here = torch.from_numpy(np.ascontiguousarray(centres)).to(self.X.device)
        return self._converted(convert) - here[self._classes]

    def _root_mean(self, rows: Tensor) -> float:
        total = float(self._weights @ rows.square().sum(dim=1))
        return float(np.sqrt(total / self.n_rows)) or 1.0


@dataclass(frozen=True)
class DeviceSpectrum:
    """A spectrum whose eigenvectors (n, n_features) are on a device."""

    host: Spectrum  # without eigenvectors
    vectors: Tensor
    dtype: torch.dtype  # of the rows that will be mapped

    def power(self, exponent: float, least: float) -> Doubles:
        """Power of the shrunken covariance matrix (n_features, n_features), on the host."""
        rest, gain = self.host.gains(exponent, least)
        matrix = (self.vectors.T * torch.from_numpy(gain).to(self.vectors.device)) @ self.vectors
        matrix.diagonal().add_(rest)
        matrix = (matrix + matrix.T) / 2
        copy = matrix.to(self.dtype)
        found: Doubles = to_numpy(matrix)  # waits for the copy, too
        keep_copy(found, copy)
        return found


def can_map(view: Any) -> bool:
    """Whether a fitted view maps rows on a device; others map them on the host."""
    if isinstance(view, FittedView):
        return view.recipe.normalize
    return isinstance(view, FittedKernelView)


def map_rows(view: FittedView | FittedKernelView | Kernel, X: Tensor) -> Tensor:
    """Rows (n_samples, n_features) on a device as a view shows them."""
    if isinstance(view, FittedKernelView):
        return map_rows(view.outer, map_rows(view.kernel, X))
    if isinstance(view, Kernel):
        return _coordinates(view, X)
    mapped = _linear(view, X)
    if view.recipe.constant:
        mapped = torch.cat([mapped, mapped.new_full((len(X), 1), view.size)], dim=1)
    if not bool(mapped.isfinite().all()):
        raise ValueError(MAP_OVERFLOWS)
    return unit_rows(mapped)


def unit_rows(X: Tensor) -> Tensor:
    """Rows divided by their norms; zero rows stay. No scale overflows or vanishes."""
    dtype = str(X.dtype).removeprefix("torch.")
    most = LARGEST_EXPONENT[dtype]
    scaled = torch.ldexp(X, -_exponents(X).clamp(-most, most))
    norm = scaled.norm(dim=1, keepdim=True)
    norm[norm == 0] = 1.0
    return scaled / norm


def _exponents(X: Tensor) -> Tensor:
    """Exponents (n_rows, 1) of the powers of two just above the largest entries."""
    return torch.frexp(X.abs().amax(dim=1, keepdim=True)).exponent


def times_power(X: Tensor, exponent: int) -> Tensor:
    """Rows times a power of two, in two steps: one factor alone may overflow or vanish."""
    half = exponent // 2
    return X * 2.0**half * 2.0 ** (exponent - half)


def _before_scaling(view: FittedView, X: Tensor) -> Tensor:
    """Return mapped rows before they are scaled to unit norm."""
    return times_power(X, -view.exponent) if view.is_plain else _linear(view, X)


def _linear(view: FittedView, X: Tensor) -> Tensor:
    if view.is_plain:
        return X
    rows = unit_rows(X) if view.recipe.unit else _moderate(times_power(X, -view.exponent))
    rows = (rows - copy_on_device(view.mean, X)) * copy_on_device(view.scale, X)
    return rows if view.matrix is None else rows @ copy_on_device(view.matrix, X)


def _moderate(X: Tensor) -> Tensor:
    """Scale down rows that are so far from the training rows that their map would overflow."""
    most = SAFE_EXPONENT[str(X.dtype).removeprefix("torch.")] // 3
    return torch.ldexp(X, (most - _exponents(X)).clamp(max=0))


def _coordinates(kernel: Kernel, X: Tensor) -> Tensor:
    """Coordinates (n_samples, n_coordinates) by kernels with the landmarks, in float64."""
    landmarks, matrix = (
        copy_on_device(array, X, torch.float64) for array in (kernel.landmarks, kernel.matrix)
    )
    cosines = map_rows(kernel.inner, X).double() @ landmarks.T
    values = ((cosines - 1.0).clamp(max=0.0) / kernel.distance).exp()
    return (values @ matrix).to(X.dtype)
