"""Labelled rows, and their sums from which views are learned: class means, variances, products.

Rows are walked in blocks of a fixed size, and sums follow one binary tree, so the result has the
same bits for rows in memory, rows that are read in parts, and rows on a cluster. Rows on a GPU have
the same methods (`dbdl.backends.torch_views`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.sparse import csc_matrix

from dbdl._arrays import times_powers, unit_rows
from dbdl._products import block_product
from dbdl._threads import block_slices, run_blocks
from dbdl.model.state import Classes, Doubles, Floats
from dbdl.model.statistics import SUM_ROWS, Weights, some_weights, tree_sum
from dbdl.rows.lazy import LazyRows
from dbdl.views.whitening import Spectrum, spectrum_of_products, spectrum_of_rows

Result = TypeVar("Result")


class Shared:
    """Results that views of the same rows have in common, each computed once.

    Views are learned side by side. Whoever asks for a result that is being computed waits for it.
    After an error, the next one computes anew.

    Examples
    --------
    >>> from dbdl.views import Shared
    >>> shared = Shared()
    >>> shared.once("sum", lambda: 1 + 2)
    3
    >>> shared.once("sum", lambda: "not computed again")
    3
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._computing: dict[Hashable, threading.Lock] = {}
        self._found: dict[Hashable, Any] = {}

    def once(self, name: Hashable, compute: Callable[[], Result]) -> Result:
        """Return the result of a name; the first who asks computes it."""
        with self._lock:
            computing = self._computing.setdefault(name, threading.Lock())
        with computing:
            if name not in self._found:
                self._found[name] = compute()
        found: Result = self._found[name]
        return found


class Labels(NamedTuple):
    """Classes and weights of a block of rows."""

    class_of_row: Classes
    sample_weight: Weights = None

    def times(self, values: Doubles) -> Doubles:
        """Multiply the values of rows (n_samples, ...) by their weights."""
        if self.sample_weight is None:
            return values
        return values * self.sample_weight.reshape(-1, *[1] * (values.ndim - 1))


class LabelledRows(NamedTuple):
    """Rows to learn views from, in memory or read in parts, with their classes and weights.

    Examples
    --------
    >>> import numpy as np
    >>> from dbdl.views import LabelledRows
    >>> weights = np.array([1, 1, 1, 2])
    >>> rows = LabelledRows(np.eye(4), np.array([0, 0, 1, 1]), 2, sample_weight=weights)
    >>> rows.n_rows
    5.0
    """

    X: Any  # (n_samples, n_features)
    class_of_row: Classes
    n_classes: int
    n_threads: int = 1
    sample_weight: Weights = None
    shared: Shared | None = None  # if other views are learned from the same rows

    def once(self, name: Hashable, compute: Callable[[], Result]) -> Result:
        """Return a result that other views of these rows may have computed already."""
        return compute() if self.shared is None else self.shared.once(name, compute)

    def labels(self, rows: slice) -> Labels:
        """Return the classes and weights of some rows."""
        return Labels(self.class_of_row[rows], some_weights(self.sample_weight, rows))

    @property
    def n_rows(self) -> float:
        """Number of rows, a row of weight w counted w times."""
        weight = self.sample_weight
        return len(self.class_of_row) if weight is None else float(weight.sum())

    @property
    def dtype(self) -> np.dtype[Any]:
        """Float32 or float64."""
        return np.dtype(self.X.dtype)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self.X.shape[1])

    def through(self, view: Any) -> Any:
        """Return the rows as a view shows them, still to be read if they are read in parts."""
        if isinstance(self.X, LazyRows):
            return self.X.through(view)
        return view.apply(self.X, self.n_threads)

    def mapped(self, view: Any) -> LabelledRows:
        """Return the labelled rows as a view shows them."""
        return self._replace(X=self.through(view), shared=None)

    def each_block(self, function: Callable[[Floats, Labels], Any]) -> list[Any]:
        """Apply a function to each block of rows and their labels, where the rows are."""
        blocks = block_slices(len(self.class_of_row), SUM_ROWS)
        if isinstance(self.X, LazyRows):
            return self.X.each_block(function, blocks, [self.labels(b) for b in blocks])
        return run_blocks(lambda b: function(self.X[b], self.labels(b)), blocks, self.n_threads)

    def total(self, function: Callable[[Floats, Labels], Doubles]) -> Doubles:
        """Sum of a function of the blocks."""
        return add_up(self.each_block(function))

    # ----------------------------------------------------- what views are learned from

    def largest_exponent(self) -> int:
        """Exponent of the power of two just above the largest absolute value."""
        return int(np.frexp(max(self.each_block(_largest)))[1])

    def class_means(self, convert: Conversion) -> Doubles:
        """Mean of the rows of each class (n_classes, n_features); 0 for a class without rows."""
        sums = self.total(partial(_class_sums, convert, self.n_classes))
        return sums / self.n_in_class[:, np.newaxis]

    @property
    def n_in_class(self) -> NDArray[Any]:
        """Number of rows of each class (n_classes,) as a divisor: 1 for a class without rows."""
        n_rows = np.bincount(self.class_of_row, self.sample_weight, self.n_classes)
        return np.where(n_rows > 0, n_rows, 1)

    def mean_square(self, convert: Conversion, centres: Doubles) -> Doubles:
        """Mean of the squares of rows around the centres of their classes (n_features,)."""
        return self.total(partial(_squares, convert, centres)) / self.n_rows

    def mean_length(self, exponent: int) -> float:
        """Root of the mean squared norm of rows, multiplied by 2 to the power of -exponent."""
        nowhere = np.zeros((self.n_classes, self.n_features))
        return float(np.sqrt(self.mean_square(Conversion(exponent, False), nowhere).sum())) or 1.0

    def spectrum(self, convert: Conversion, centres: Doubles, scale: Doubles) -> Spectrum:
        """Spectrum of the covariance of residuals.

        Residuals are rows around the centres of their classes, multiplied by ``scale``
        (n_features,). If there are fewer rows than features, it comes from their inner products.
        """
        if len(self.class_of_row) < self.n_features:
            return spectrum_of_rows(self.residuals(convert, centres, scale), self.sample_weight)
        return spectrum_of_products(*self.residual_products(convert, centres, scale), self.n_rows)

    def residuals(self, convert: Conversion, centres: Doubles, scale: Doubles) -> Doubles:
        """All residuals (n_samples, n_features)."""
        return np.concatenate(self.each_block(partial(_residuals, convert, centres, scale)))

    def residual_products(
        self, convert: Conversion, centres: Doubles, scale: Doubles
    ) -> tuple[Doubles, float]:
        """Mean of the products of residuals (n_features, n_features), and of their fourth powers.

        The fourth power of a residual is that of its norm.
        """
        parts = self.each_block(partial(_products, convert, centres, scale))
        products = add_up([part[0] for part in parts])
        fourth = float(add_up([part[1] for part in parts]))
        return products / self.n_rows, fourth / self.n_rows

    def mean_norm(self, view: Any) -> float:
        """Root of the mean squared norm of rows that a view maps, before it scales them."""
        return float(np.sqrt(self.total(partial(_squared_norms, view)) / self.n_rows)) or 1.0

    def landmarks(self, view: Any, most: int) -> Doubles:
        """At most this many rows, evenly spread, as a view shows them."""
        some = self.X[evenly_spread(len(self.class_of_row), most)]
        return view.apply(some).astype(np.float64)

    def inner_products(self, rows: Doubles) -> Doubles:
        """Inner products (n_rows, n_rows) of some rows, such as landmarks."""
        return block_product(rows, np.ascontiguousarray(rows.T))

    def eigen(self, matrix: Doubles) -> tuple[Doubles, Doubles]:
        """Eigenvalues (n,), ascending, and eigenvectors in the columns of (n, n)."""
        values, vectors = eigh(matrix)
        return values, vectors


def evenly_spread(n_rows: int, most: int) -> NDArray[np.int64]:
    """Numbers of at most this many rows, evenly spread.

    Examples
    --------
    >>> from dbdl.views import evenly_spread
    >>> evenly_spread(9, 3)
    array([0, 4, 8])
    """
    return np.linspace(0, n_rows - 1, min(n_rows, most)).astype(np.int64)


def add_up(parts: list[Doubles]) -> Doubles:
    """Sum along one binary tree."""
    part: Any = parts.__getitem__
    return tree_sum(part, len(parts))


def sum_by_class(rows: Doubles, class_of_row: Classes, n_classes: int) -> Doubles:
    """Sums of the rows of each class (n_classes, n_features), added up in the order of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from dbdl.views.sums import sum_by_class
    >>> sum_by_class(np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), np.array([0, 1, 0]), 2)
    array([[6., 8.],
           [3., 4.]])
    """
    n_rows = len(rows)  # column i of the indicators has a one at the class of row i
    indicators = (np.ones(n_rows), class_of_row, np.arange(n_rows + 1))
    sums: Doubles = csc_matrix(indicators, shape=(n_classes, n_rows)) @ rows
    return sums


class Conversion(NamedTuple):
    """How rows are read for sums: on a common scale, each of unit norm if requested."""

    exponent: int  # rows are multiplied by 2 to the power of minus this
    unit: bool

    def __call__(self, X: Floats) -> Floats:
        """Return rows with entries of about one."""
        return unit_rows(X) if self.unit else times_powers(X, -self.exponent)


def _largest(X: Floats, labels: Labels) -> float:
    return float(np.abs(X).max(initial=0))


def _class_sums(convert: Conversion, n_classes: int, X: Floats, labels: Labels) -> Doubles:
    rows = labels.times(convert(X).astype(np.float64))
    return sum_by_class(rows, labels.class_of_row, n_classes)


def _squares(convert: Conversion, centres: Doubles, X: Floats, labels: Labels) -> Doubles:
    return labels.times((convert(X) - centres[labels.class_of_row]) ** 2).sum(axis=0)


def _residuals(
    convert: Conversion, centres: Doubles, scale: Doubles, X: Floats, labels: Labels
) -> Doubles:
    return (convert(X) - centres[labels.class_of_row]) * scale


def _products(
    convert: Conversion, centres: Doubles, scale: Doubles, X: Floats, labels: Labels
) -> tuple[Doubles, Doubles]:
    residuals = _residuals(convert, centres, scale, X, labels)
    fourth = labels.times((residuals**2).sum(axis=1) ** 2)
    return block_product(labels.times(residuals).T, residuals), fourth.sum()


def _squared_norms(view: Any, X: Floats, labels: Labels) -> Any:
    return labels.times(view.before_scaling(X).astype(np.float64) ** 2).sum()
