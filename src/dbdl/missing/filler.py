"""Fill the gaps of rows with their expected values, given the values that are there.

The rows of each class are taken as draws from a Gaussian, with a mean per class and one covariance.
A row of unknown class is filled with the mean over the classes, weighted by their probabilities
given its values. The EM algorithm (Dempster, Laird and Rubin, 1977) learns means and covariance: a
round fills the gaps with their conditional means, and adds their conditional covariance to that of
the filled rows. A row of weight w counts as w rows. The covariance is shrunk like that of a view
(`dbdl.views.whitening`), and features are first divided by their standard deviations, so that their
units do not matter.

With a precision matrix P, a mean m and any values in the gaps g of a row z, the conditional mean of
the gaps is z_g - d, where P_gg d = (P (z - m))_g.

Fills are moved into the range of the values that the feature had. A Gaussian knows no range: a
pixel that hardly varies would get a fill of many of its standard deviations, and dominate the row
in views that divide by these.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor
from scipy.linalg.lapack import dpotrf, dpotrs  # called for every row: without checks

from dbdl._arrays import clipped_to, times_powers
from dbdl._products import block_product, row_products
from dbdl._threads import block_slices, held_blas
from dbdl.model.record import Record
from dbdl.model.statistics import Weights
from dbdl.model.trust import Classes, Doubles, Floats, Number, doubles, reals
from dbdl.views import LabelledRows
from dbdl.views.sums import Conversion, sum_by_class
from dbdl.views.whitening import spectrum_of_products

Mask = NDArray[np.bool_]

#: Rounds of the EM algorithm.
N_ROUNDS = 5
#: Least eigenvalue of the covariance, as a fraction of the largest.
LEAST_VARIANCE = 1e-4
#: With more features than this, these are taken as independent within classes: a row with many gaps
#: would take too long.
MOST_FEATURES = 1024
#: Deviations of a feature, relative to its mean, that may be rounding errors.
CONSTANT = 1e-12
#: Values further from the mean than this many standard deviations say no more than this one.
FARTHEST = 1e6
#: Larger entries of a precision matrix are not from rows; their products could overflow.
LARGEST_PRECISION = 1e200
#: Rows that are filled together: more would take much memory if there are many classes.
FILLED_ROWS = 64
#: Added to the diagonal of a matrix that is singular up to rounding, relative to its largest entry.
ROUNDING = 1e-12


def has_gaps(X: Any) -> bool:
    """Whether rows in memory have missing values."""
    return isinstance(X, np.ndarray) and bool(np.isnan(X.min(initial=0)))  # without a copy


def refuse_empty_features(X: Floats) -> None:
    """Refuse rows that all lack some feature."""
    if (empty := np.isnan(X).all(axis=0)).any():
        raise ValueError(
            f"feature {int(empty.argmax())} of X is missing (NaN) in every row. Expected a value "
            "in some row. Leave such features out."
        )


@dataclass(frozen=True)
class Filler(Record):
    """Gaussians of the rows of each class, which fill gaps.

    Attributes
    ----------
    exponent : int
        Rows are multiplied by 2 to the power of minus this, which is exact.
    mean, scale : ndarray of shape (n_features,)
        Means and standard deviations of the features of such rows.
    centres : ndarray of shape (n_filled, n_features)
        Means of the classes, in standard deviations from the mean of all rows.
    share : ndarray of shape (n_filled,)
        Shares of the classes.
    precision : ndarray of shape (n_features, n_features) or None
        Inverse of the covariance within classes, in the same units; None for the identity.
    least, largest : ndarray of shape (n_features,)
        Range of the observed values of each feature of such rows. Fills stay within it.
    """

    exponent: Annotated[int, Number(least=-1100, most=1100)]
    mean: Annotated[Doubles, doubles("n_features_in")]
    scale: Annotated[Doubles, doubles("n_features_in", least=np.finfo(np.float64).tiny)]
    centres: Annotated[Doubles, doubles("n_filled", "n_features_in")]
    share: Annotated[Doubles, reals("n_filled", least=0)]
    precision: Annotated[Doubles, doubles("n_features_in", "n_features_in")] | None
    least: Annotated[Doubles, doubles("n_features_in")]
    largest: Annotated[Doubles, doubles("n_features_in")]

    def faults(self) -> Iterator[str]:
        """Report numbers that no rows give, and a matrix that is not a precision."""
        if not 0.5 < self.share.sum() < 2:
            yield "share does not add up to 1"
        if max(np.abs(self.mean).max(), self.scale.max()) > 2:  # rows have entries of at most 1
            yield "mean or scale has entries outside -2 to 2"
        if np.abs(self.centres).max() > FARTHEST:
            yield f"centres has entries outside -{FARTHEST:g} to {FARTHEST:g}"
        if (self.least > self.largest).any():
            yield "least has entries above those of largest"
        if max(np.abs(self.least).max(), np.abs(self.largest).max()) > 1:
            yield "least or largest has entries outside -1 to 1"
        if self.precision is None:
            return
        if not np.array_equal(self.precision, self.precision.T):
            yield "precision is not symmetric"
        if np.abs(self.precision).max() > LARGEST_PRECISION:
            yield f"precision has entries above {LARGEST_PRECISION:g}"
        try:
            cho_factor(self.precision)
        except np.linalg.LinAlgError:
            yield "precision is not positive definite"

    def fill(self, X: Floats, class_of_row: Classes | None = None) -> Floats:
        """Rows (n_samples, n_features) without gaps; a row has the same bits in any batch.

        Rows of known classes are filled by the Gaussian of their class.
        """
        some = np.flatnonzero(np.isnan(X).any(axis=1))
        if not len(some):
            return X
        filled = X.copy()
        for block in block_slices(len(some), FILLED_ROWS):
            rows = some[block]
            known = None if class_of_row is None else class_of_row[rows]
            filled[rows] = self._fill(X[rows], known)
        return filled

    def _fill(self, X: Floats, class_of_row: Classes | None) -> Floats:
        missing = np.isnan(X)
        with np.errstate(over="ignore"):
            z = (times_powers(X.astype(np.float64), -self.exponent) - self.mean) / self.scale
        z = np.clip(np.where(missing, 0.0, z), -FARTHEST, FARTHEST)
        # for each row one class, or all: (n_rows, n_classes or 1, n_features)
        chosen = slice(None) if class_of_row is None else class_of_row[:, np.newaxis]
        gradient = self._times_precision(z)[:, np.newaxis] - self._pulls[chosen]
        change = solve_gaps(self.precision, gradient, missing)
        if class_of_row is None:
            square = ((z[:, np.newaxis] - self.centres - change) * gradient).sum(axis=2)
            weights = map(self._probabilities, square)
            change = np.array([own @ part for own, part in zip(weights, change, strict=True)])
        z -= change.reshape(z.shape)
        values = np.clip(z * self.scale + self.mean, self.least, self.largest)
        values = clipped_to(times_powers(values, self.exponent), X.dtype)
        return np.where(missing, values, X)

    @cached_property
    def _pulls(self) -> Doubles:
        """Products of the class means with the precision (n_filled, n_features)."""
        return self._times_precision(np.ascontiguousarray(self.centres))

    def _times_precision(self, rows: Doubles) -> Doubles:
        if self.precision is None:
            return rows
        return row_products(rows, np.ascontiguousarray(self.precision))

    def _probabilities(self, square: Doubles) -> Doubles:
        """Probabilities of the classes of one row, by its squared distances from their means.

        Row by row: NumPy's exponential may round differently in an array of another length.
        """
        some = self.share > 0
        weights = np.zeros(len(square))
        weights[some] = np.exp(-0.5 * (square[some] - square[some].min())) * self.share[some]
        return weights / weights.sum()

    def fill_any_size(self, X: Floats) -> Floats:
        """Fill rows that may be larger or smaller than those of the Gaussian, in proportion."""
        square = self.mean**2 + self.scale**2
        seen = np.where(np.isnan(X), 0.0, square).sum(axis=1)
        largest = np.frexp(np.nanmax(np.abs(X), axis=1, initial=0))[1]
        rows = times_powers(X.astype(np.float64), -largest)
        size = np.sqrt(np.nansum(rows**2, axis=1) / np.where(seen > 0, seen, 1.0))
        size = np.where(size > 0, size, 1.0)[:, np.newaxis]
        same = times_powers(rows / size, self.exponent)
        back = times_powers(self.fill(same) * size, largest - self.exponent)
        return np.where(np.isnan(X), back.astype(X.dtype), X)


def fit_filler(rows: LabelledRows) -> Filler:
    """Learn the Gaussians of rows, with or without gaps; a row of weight w counts as w rows."""
    missing = np.isnan(rows.X)
    exponent = int(np.frexp(np.nanmax(np.abs(rows.X), initial=0))[1])
    X = np.where(missing, 0.0, rows.X).astype(np.float64)
    X = times_powers(X, -exponent)
    weigh = rows.labels(slice(None)).times
    n_values = weigh((~missing).astype(np.float64)).sum(axis=0)
    n_values[n_values == 0] = 1.0
    mean = weigh(X).sum(axis=0) / n_values
    scale = np.sqrt(weigh(np.where(missing, 0.0, X - mean) ** 2).sum(axis=0) / n_values)
    scale[scale <= np.maximum(CONSTANT * np.abs(mean), np.finfo(np.float64).tiny)] = 1.0
    z = np.where(missing, 0.0, (X - mean) / scale)
    z = np.clip(z, -FARTHEST, FARTHEST)  # rows of tiny weight may be far from the mean
    centres, precision = _by_rounds(rows._replace(X=z), missing)
    share = np.bincount(rows.class_of_row, rows.sample_weight, rows.n_classes) / rows.n_rows
    seen = ~missing | missing.all(axis=0)  # a feature without values has only the 0 put in
    least, largest = X.min(axis=0, initial=1, where=seen), X.max(axis=0, initial=-1, where=seen)
    return Filler(exponent, mean, scale, centres, share, precision, least, largest)


def _by_rounds(rows: LabelledRows, missing: Mask) -> tuple[Doubles, Doubles | None]:
    """Class means and precision of standardised rows, whose gaps hold 0, by the EM algorithm."""
    z, classes, labels = rows.X, rows.class_of_row, rows.labels(slice(None))
    n_features = z.shape[1]
    precision = None
    # a first fill: the mean of the class, moved towards that of all rows by one row
    n_values = sum_by_class(labels.times((~missing).astype(np.float64)), classes, rows.n_classes)
    n_in_class = np.bincount(classes, rows.sample_weight, rows.n_classes)[:, np.newaxis]
    centres = rows.class_means(AS_THEY_ARE) * n_in_class / (n_values + 1.0)
    z = np.where(missing, centres[classes], z)
    within = np.zeros((n_features, n_features)) if n_features <= MOST_FEATURES else None
    for _ in range(N_ROUNDS if missing.any() else 1):
        centres = rows._replace(X=z).class_means(AS_THEY_ARE)
        residual = z - centres[classes]
        if within is not None:
            products = block_product(labels.times(residual).T, residual)
            products = (products + within) / rows.n_rows
            fourth = float(labels.times((residual**2).sum(axis=1) ** 2).sum() / rows.n_rows)
            spectrum = spectrum_of_products(products, fourth, rows.n_rows)
            precision = spectrum.power(-1.0, LEAST_VARIANCE)
            within[:] = 0.0
            residual = block_product(residual, precision)
        inverses = None if within is None else Inverses(within, rows.sample_weight)
        z = z - solve_gaps(precision, residual[:, np.newaxis], missing, inverses)[:, 0]
        z = np.clip(z, -FARTHEST, FARTHEST)
    return rows._replace(X=z).class_means(AS_THEY_ARE), precision


class Inverses(NamedTuple):
    """Sum of the inverses of the matrices of rows, each as often as the row's weight says."""

    total: Doubles  # (n_features, n_features)
    sample_weight: Weights

    def add(self, gaps: Any, inverse: Doubles, rows: Any) -> None:
        """Add the inverse of the matrix of some rows, in place."""
        weight = len(rows) if self.sample_weight is None else self.sample_weight[rows].sum()
        self.total[gaps] += weight * inverse


AS_THEY_ARE = Conversion(exponent=0, unit=False)


def solve_gaps(
    precision: Doubles | None, gradient: Doubles, missing: Mask, inverses: Inverses | None = None
) -> Doubles:
    """Solve ``precision[g, g] @ change[g] = gradient[g]`` for the gaps g of each row.

    Gradients have shape (n_rows, n, n_features): n of them for each row. Changes of values that are
    not missing are 0. Rows with the same gaps share the factor of their matrix, but each is solved
    alone, so it has the same bits in any batch. The inverses of the matrices of all rows are added
    to ``inverses`` if given. Without a precision it is the identity.
    """
    change = np.where(missing[:, np.newaxis], gradient, 0.0)
    if precision is None:
        return change
    patterns, of_row, n_rows = np.unique(missing, axis=0, return_inverse=True, return_counts=True)
    rows_of = np.split(np.argsort(of_row.ravel(), kind="stable"), np.cumsum(n_rows)[:-1])
    with held_blas():
        for pattern, rows in zip(patterns, rows_of, strict=True):
            gaps = np.flatnonzero(pattern)
            if not len(gaps):
                continue
            square = gaps[:, np.newaxis], gaps
            factor, failed = dpotrf(precision[square])
            if failed:
                own = precision[square]
                factor, _ = dpotrf(own + ROUNDING * own.max() * np.eye(len(gaps)))
            for i in rows:
                change[i][:, gaps] = dpotrs(factor, change[i][:, gaps].T)[0].T
            if inverses is not None:
                inverses.add(square, dpotrs(factor, np.eye(len(gaps)))[0], rows)
    return change
