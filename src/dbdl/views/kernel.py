"""Views by a kernel: coordinates in which rows with similar directions are close.

No linear map separates classes that lie around each other. A kernel view compares a row, as another
view shows it, with some of the training rows, the *landmarks*. With the cosines of the angles
between them, the kernel is

    k(x, x') = exp(-(1 - cos(x, x')) / d),    d = the median of 1 - cos between landmarks,

and the row's coordinates are those whose inner products are this kernel, exactly for landmarks and
nearly for others (the approximation of Nyström). The coordinates are then mapped like any rows, by
default half-whitened with a constant. In these coordinates the model is the paper's; such a view is
our addition.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

import numpy as np

from dbdl._products import block_product, row_products
from dbdl._threads import map_blocks
from dbdl.model.record import Record
from dbdl.model.state import Doubles, Floats
from dbdl.model.trust import Apart, Positive, doubles
from dbdl.views.sums import LabelledRows
from dbdl.views.view import MAPPED_ROWS, FittedView, View

#: The view of the coordinates by default.
HALF_WHITENED = View(centred=True, power=0.25, constant=True)
#: Rows per landmark, and the fewest and most landmarks if there are enough rows. There are at least
#: as many as features, too. The map of a row takes this many inner products, and a sweep takes time
#: in proportion to the coordinates. On a thousand rows of few features 600 landmarks were no more
#: accurate than 200, and on more rows they were: docs/defaults.md.
ROWS_PER_LANDMARK, FEWEST_LANDMARKS, MOST_LANDMARKS = 5, 200, 600
#: Directions with smaller eigenvalues, relative to the largest, are left out.
LEAST_EIGENVALUE = 1e-8
#: Least median of 1 - cos: below it all rows have the same direction up to rounding.
LEAST_DISTANCE = 1e-6


@dataclass(frozen=True)
class KernelView(Record):
    """The recipe of a kernel view; `fit` learns it from rows.

    Attributes
    ----------
    inner : View
        The view in which rows are compared.
    outer : View
        The view of the coordinates.

    Examples
    --------
    >>> from dbdl.views import KernelView, View
    >>> KernelView(View(constant=True)).name
    'kernel of plain + constant'
    """

    inner: View
    outer: View = HALF_WHITENED

    @property
    def name(self) -> str:
        """Name for people, such as "kernel of plain + constant"."""
        if self.outer == HALF_WHITENED:
            return f"kernel of {self.inner.name}"
        return f"KernelView({self.inner.name!r}, {self.outer.name!r})"

    def fit(self, rows: LabelledRows) -> FittedKernelView:
        """Learn the view from rows; held-out rows must not be among them."""
        kernel = fit_kernel(self.inner.fit(rows), rows)
        return FittedKernelView(self, kernel, self.outer.fit(rows.mapped(kernel)))


@dataclass(frozen=True)
class Kernel(Record):
    """A kernel between rows and landmarks.

    Attributes
    ----------
    inner : FittedView
    landmarks : ndarray of shape (n_landmarks, n_inner)
        Training rows as the inner view shows them, of unit norm.
    distance : float
        Median of 1 - cos between landmarks.
    matrix : ndarray of shape (n_landmarks, n_coordinates)
        Map from kernels with the landmarks to coordinates.
    """

    inner: FittedView
    landmarks: Annotated[Doubles, doubles("n_landmarks", "n_inner", some=True)]
    distance: Positive
    matrix: Annotated[Doubles, doubles("n_landmarks", "n_coordinates", some=True)]

    def faults(self) -> Iterator[str]:
        """Report landmarks that are not in the space of the inner view."""
        if self.inner.n_features != self.landmarks.shape[1]:
            n_features = self.landmarks.shape[1]
            yield f"landmarks have {n_features} features, expected {self.inner.n_features}"
        if np.abs(self.landmarks).max() > 1.01:
            yield "landmarks are not of unit norm"

    @property
    def n_features(self) -> int:
        """Number of coordinates."""
        return self.matrix.shape[1]

    def apply(self, X: Floats, n_threads: int = 1) -> Floats:
        """Coordinates (n_samples, n_coordinates) of rows; a row has the same bits in any batch."""
        return map_blocks(self._map, X, MAPPED_ROWS, n_threads)

    def _map(self, X: Floats) -> Floats:
        rows = self.inner.apply(X).astype(np.float64)  # narrow numbers lose small eigenvalues
        cosines = row_products(rows, np.ascontiguousarray(self.landmarks))
        values = kernel_of_cosines(cosines, self.distance)
        return row_products(values, self._coordinates).astype(X.dtype)

    @cached_property
    def _coordinates(self) -> Doubles:
        return np.ascontiguousarray(self.matrix.T)

    def back(self, coordinates: Floats) -> Doubles:
        """Rows of the inner view (n_samples, n_inner) by least squares over the landmarks."""
        return block_product(coordinates.astype(np.float64), self._back)

    @cached_property
    def _back(self) -> Doubles:
        return block_product(self._coordinates, self.landmarks)


@dataclass(frozen=True)
class FittedKernelView(Record):
    """A kernel view learned from rows: a kernel, and the view of its coordinates.

    Examples
    --------
    >>> import numpy as np
    >>> from dbdl.views import LabelledRows, view_named
    >>> X = np.random.default_rng(0).standard_normal((20, 3))
    >>> view = view_named("kernel of plain").fit(LabelledRows(X, np.arange(20) % 2, 2))
    >>> view.apply(X).shape[0], view.restore(view.apply(X)).shape
    (20, (20, 3))
    """

    recipe: KernelView
    kernel: Kernel
    outer: Annotated[FittedView, Apart()]

    def faults(self) -> Iterator[str]:
        """Report a view of other coordinates."""
        if len(self.outer.mean) != self.kernel.n_features:
            yield f"outer maps {len(self.outer.mean)} features, expected {self.kernel.n_features}"

    @property
    def n_features(self) -> int:
        """Number of coordinates of mapped rows."""
        return self.outer.n_features

    @property
    def name(self) -> str:
        """Name of the recipe."""
        return self.recipe.name

    def apply(self, X: Floats, n_threads: int = 1) -> Floats:
        """Rows (n_samples, n_features) in the view; a row has the same bits in any batch."""
        return self.outer.apply(self.kernel.apply(X, n_threads), n_threads)

    def restore_atoms(self, atoms: Floats) -> Floats:
        """Atoms (n_atoms, n_features_in) in the space of the rows, by least squares."""
        inner = self.kernel.back(self.outer.restore_atoms(atoms)).astype(atoms.dtype)
        return self.kernel.inner.restore_atoms(inner)

    def restore(self, rows: Floats) -> Floats:
        """Rows (n_samples, n_features_in) from approximations of mapped rows, by least squares."""
        inner = self.kernel.back(self.outer.restore(rows)).astype(rows.dtype)
        return self.kernel.inner.restore(inner)


def kernel_of_cosines(cosines: Doubles, distance: float) -> Doubles:
    """Kernel of rows with these cosines, which rounding may have made larger than 1."""
    values: Doubles = np.minimum(cosines - 1.0, 0.0) / distance
    for row in values:  # alone: the exponential may round differently in an array of another length
        np.exp(row, out=row)
    return values


def n_landmarks(n_rows: int, n_features: int) -> int:
    """Return the most landmarks for a number of rows and features.

    Examples
    --------
    >>> from dbdl.views.kernel import n_landmarks
    >>> n_landmarks(1000, 64), n_landmarks(1000, 504), n_landmarks(10_000, 64)
    (200, 504, 600)
    """
    wanted = max(n_rows // ROWS_PER_LANDMARK, n_features, FEWEST_LANDMARKS)
    return min(wanted, MOST_LANDMARKS)


def fit_kernel(inner: FittedView, rows: LabelledRows) -> Kernel:
    """Choose landmarks, evenly spread over the rows, and find their coordinates."""
    landmarks = rows.landmarks(inner, n_landmarks(len(rows.class_of_row), rows.n_features))
    cosines = rows.inner_products(landmarks)
    apart = 1.0 - cosines[np.triu_indices(len(landmarks), 1)]
    distance = max(float(np.median(apart)) if len(apart) else 1.0, LEAST_DISTANCE)
    values, vectors = rows.eigen(kernel_of_cosines(cosines, distance))
    some = values > LEAST_EIGENVALUE * values[-1]
    matrix = with_fixed_signs(vectors[:, some]) / np.sqrt(values[some])
    return Kernel(inner, landmarks, distance, matrix)


def with_fixed_signs(vectors: Doubles) -> Doubles:
    """Eigenvectors, in columns, whose largest entry is positive: libraries choose other signs."""
    largest = np.abs(vectors).argmax(axis=0)
    return vectors * np.sign(vectors[largest, np.arange(vectors.shape[1])])
