"""Linear views: maps of rows, learned from training rows, after which the noise is white.

The model's noise has the same variance in all directions (eq. 6). Rows of real data vary within
their classes much more in some directions than in others, and a dictionary of such rows spends its
atoms on them. A view is an estimate of the noise's covariance: rows are centred, divided by
standard deviations, or multiplied by a power of the covariance within classes, and scaled to unit
norm. In the new coordinates the model is the paper's. This is our addition: the paper's view is
"plain".

A *constant coordinate* appended before rows are scaled to unit norm keeps the size of a row, and
acts as the intercept of the linear classifier.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Annotated, Any, Literal

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from dbdl._arrays import (
    SAFE_EXPONENT,
    clipped_to,
    exponents,
    refuse_huge,
    times_powers,
    unit_rows,
)
from dbdl._products import block_product, row_products
from dbdl._threads import map_blocks
from dbdl.model.record import Record
from dbdl.model.state import Doubles, Floats
from dbdl.model.trust import TINY, Number, Positive, doubles
from dbdl.views.sums import Conversion, LabelledRows

#: With more features than this, a whitened view divides by standard deviations alone: a map between
#: all pairs of features would be larger than the atoms.
MOST_WHITENED = 4096
#: Rows that are mapped together by one thread.
MAPPED_ROWS = 256

#: Deviations of a feature, relative to its mean, that may be rounding errors of sums.
CONSTANT = 1e-12

#: Start of the name of a view whose chains have few atoms, and their initial atoms per row.
FEW_ATOMS_OF, FEW_PER_ROW = "few atoms of ", 0.1

MAP_OVERFLOWS = (
    "The view of a row of X overflows: some feature is many orders of magnitude larger than it was "
    "in the training rows. Expected rows like those. Look for extreme values, or use views='plain'."
)

Scale = Literal["none", "total", "within"]


@dataclass(frozen=True)
class View(Record):
    """The recipe of a view; `fit` learns it from rows.

    Attributes
    ----------
    centred : bool
        Subtract the mean of all rows.
    scale : {"none", "total", "within"}
        Divide features by their standard deviation over all rows, or within classes.
    power : float
        Multiply rows by the covariance within classes to the power of minus this: 0.5 makes the
        noise white, 0.25 goes half the way, 0 leaves rows as they are.
    constant : bool
        Append a constant coordinate, as large as the mean row.
    unit : bool
        Scale rows to unit norm before anything else.
    normalize : bool
        Scale rows to unit norm at the end.
    atoms_per_row : float or None
        Initial atoms of chains with this view, per row that they learn from; None leaves the number
        to the estimator. A chain with few atoms cannot learn single rows by heart, which helps
        where classes overlap.

    Examples
    --------
    >>> import numpy as np
    >>> from dbdl.views import LabelledRows, View, view_named
    >>> view_named("whitened + constant") == View(centred=True, power=0.5, constant=True)
    True
    >>> X = np.random.default_rng(0).standard_normal((20, 3))
    >>> fitted = View(centred=True).fit(LabelledRows(X, np.arange(20) % 2, 2))
    >>> np.linalg.norm(fitted.apply(X), axis=1).round(6)[:3]
    array([1., 1., 1.])
    """

    centred: bool = False
    scale: Scale = "none"
    power: Annotated[float, Number(least=0, most=1)] = 0.0
    constant: bool = False
    unit: bool = False
    normalize: bool = True
    atoms_per_row: Annotated[float, Number(least=0, most=1)] | None = None

    @property
    def name(self) -> str:
        """Name for people, such as "unit whitened + constant"; the recipe if it has no name."""
        base = replace(self, unit=False, constant=False, normalize=True, atoms_per_row=None)
        found = next((name for name, view in VIEWS.items() if view == base), None)
        if found is None or self.atoms_per_row not in (None, FEW_PER_ROW):
            own = {k: v for k, v in self.__getstate__().items() if v != getattr(View, k)}
            return f"View({', '.join(f'{k}={v!r}' for k, v in own.items())})"
        few = FEW_ATOMS_OF * (self.atoms_per_row is not None)
        name = f"{few}{'unit ' * self.unit}{found}{' + constant' * self.constant}"
        return name if self.normalize else f"{name}, not scaled"

    def fit(self, rows: LabelledRows) -> FittedView:
        """Learn the view from rows; held-out rows must not be among them.

        Views that differ only in the constant coordinate or in the number of atoms are one map.
        """
        map_alone = replace(self, constant=False, atoms_per_row=None)
        return replace(rows.once(map_alone, partial(map_alone._fit, rows)), recipe=self)

    def _fit(self, rows: LabelledRows) -> FittedView:
        dtype, n_features = rows.dtype, rows.n_features
        exponent = rows.largest_exponent() if self.normalize else 0
        convert = Conversion(exponent, self.unit)
        mean, scale, matrix = np.zeros(n_features), np.ones(n_features), None
        if self.is_learned:
            centres = rows.class_means(convert)
            whole = _mean_of_all(rows, centres)
            mean = whole if self.centred else mean
            whitens = self.power > 0
            within = self.scale == "within" or (whitens and n_features > MOST_WHITENED)
            if self.scale == "total" or within:
                around = centres if within else np.broadcast_to(whole, centres.shape)
                scale = _inverse_root(rows.mean_square(convert, around), centres, dtype)
            if whitens and n_features <= MOST_WHITENED:
                spectrum = rows.once(
                    (convert, self.scale), partial(rows.spectrum, convert, centres, scale)
                )
                matrix = spectrum.power(-self.power, n_features * float(np.finfo(dtype).eps))
        length = rows.mean_length(exponent) if self.unit else 1.0
        fitted = FittedView(self, exponent, mean, scale, matrix, 1.0, length)
        return replace(fitted, size=fitted.measure(rows)) if self.normalize else fitted

    @property
    def is_learned(self) -> bool:
        """Whether the view depends on more than the size of the rows."""
        return self.centred or self.scale != "none" or self.power > 0


def _mean_of_all(rows: LabelledRows, centres: Doubles) -> Doubles:
    """Mean of all rows; classes are added up by their first rows, so their names do not matter."""
    classes, first = np.unique(rows.class_of_row, return_index=True)
    order = classes[np.argsort(first)]
    n_rows = np.bincount(rows.class_of_row, rows.sample_weight)
    return (n_rows[order] / rows.n_rows) @ centres[order]


def _inverse_root(variance: Doubles, centres: Doubles, dtype: Any) -> Doubles:
    """One over the standard deviation; 1 for a feature that is constant up to rounding.

    A feature is compared with its own size, as the means of classes show it, so that its unit does
    not matter. Deviations whose squares would vanish in this dtype count as rounding too.
    """
    rounding = max(CONSTANT, 4 * float(np.finfo(dtype).eps)) * np.abs(centres).max(axis=0)
    some = variance > np.maximum(rounding, 2.0 ** -SAFE_EXPONENT[np.dtype(dtype).name]) ** 2
    inverse = np.ones_like(variance)
    inverse[some] = 1.0 / np.sqrt(variance[some])
    return inverse


@dataclass(frozen=True)
class FittedView(Record):
    """A view learned from rows.

    Attributes
    ----------
    recipe : View
    exponent : int
        Rows are multiplied by 2 to the power of minus this, which is exact, unless each is scaled
        to unit norm.
    mean, scale : ndarray of shape (n_features,)
        The mean is subtracted from rows, and the result is multiplied by the scale.
    matrix : ndarray of shape (n_features, n_features) or None
        Symmetric map of the rows after that.
    size : float
        Mean norm of the mapped training rows; the constant coordinate if there is one.
    length : float
        Mean norm of the training rows, multiplied by the same power of two, if each is scaled to
        unit norm first; otherwise 1.

    Examples
    --------
    >>> import numpy as np
    >>> from dbdl.views import LabelledRows, view_named
    >>> X = np.random.default_rng(0).standard_normal((20, 3))
    >>> view = view_named("standardised + constant").fit(LabelledRows(X, np.arange(20) % 2, 2))
    >>> view.n_features  # with the constant coordinate
    4
    >>> np.allclose(view.restore(view.apply(X)), X)
    True
    """

    recipe: View
    exponent: Annotated[int, Number(least=-1100, most=1100)]
    mean: Annotated[Doubles, doubles("n_features_in")]
    scale: Annotated[Doubles, doubles("n_features_in", least=TINY)]
    matrix: Annotated[Doubles, doubles("n_features_in", "n_features_in")] | None
    size: Positive
    length: Positive = 1.0

    def faults(self) -> Iterator[str]:
        """Report a mean or a map that no rows give, or that cannot be inverted."""
        if np.abs(self.mean).max(initial=0) > 2:  # rows are scaled to entries of at most 1
            yield "mean has entries outside -2 to 2"
        if self.matrix is None:
            return
        if not np.array_equal(self.matrix, self.matrix.T):
            yield "matrix is not symmetric"
        try:
            cho_factor(self.matrix)
        except np.linalg.LinAlgError:
            yield "matrix is not positive definite"

    @property
    def n_features(self) -> int:
        """Number of coordinates of mapped rows."""
        return len(self.mean) + self.recipe.constant

    @property
    def name(self) -> str:
        """Name of the recipe."""
        return self.recipe.name

    @property
    def is_plain(self) -> bool:
        """Whether rows are scaled to unit norm, and nothing else."""
        return not (self.recipe.is_learned or self.recipe.constant)

    @property
    def knows_size(self) -> bool:
        """Whether mapped rows tell the size of the rows."""
        return self.recipe.constant and not self.recipe.unit

    def apply(self, X: Floats, n_threads: int = 1) -> Floats:
        """Rows (n_samples, n_features) in the view; a row has the same bits in any batch."""
        return map_blocks(self._finish, X, MAPPED_ROWS, n_threads)

    def _finish(self, X: Floats) -> Floats:
        if not self.recipe.normalize:
            return refuse_huge(X)
        mapped = self._map(X)
        if self.recipe.constant:
            mapped = np.hstack([mapped, np.full((len(X), 1), self.size, X.dtype)])
        if not np.isfinite(mapped).all():
            raise ValueError(MAP_OVERFLOWS)
        return unit_rows(mapped)

    def _map(self, X: Floats) -> Floats:
        dtype = X.dtype
        if self.is_plain:
            return X  # of any scale
        rows = unit_rows(X) if self.recipe.unit else _moderate(times_powers(X, -self.exponent))
        rows = (rows - self.mean.astype(dtype)) * self.scale.astype(dtype)
        return rows if self.matrix is None else row_products(rows, self._matrix(dtype))

    def _matrix(self, dtype: Any) -> Floats:
        assert self.matrix is not None
        # a file may hold it in another order
        return np.ascontiguousarray(self.matrix) if dtype == np.float64 else self._narrow_matrix

    @cached_property
    def _narrow_matrix(self) -> Floats:
        assert self.matrix is not None
        return self.matrix.astype(np.float32, order="C")

    def measure(self, rows: LabelledRows) -> float:
        """Root of the mean squared norm of mapped rows."""
        return 1.0 if self.recipe.unit and not self.recipe.is_learned else rows.mean_norm(self)

    def before_scaling(self, X: Floats) -> Floats:
        """Mapped rows (n_samples, n_features_in) before they are scaled to unit norm."""
        if self.is_plain:
            return times_powers(X, -self.exponent)
        return self._map(X)

    def map_covariance(self, covariance: Doubles) -> Doubles:
        """Covariance (n_features_in, n_features_in) of mapped atoms, given that of atoms.

        It is known up to a factor, and without the constant coordinate.
        """
        scale = self.scale / self.scale.max()  # squares of large ones would overflow
        mapped = scale[:, np.newaxis] * covariance * scale
        if self.matrix is not None:
            mapped = block_product(block_product(self.matrix, mapped), self.matrix)
        return mapped

    # ------------------------------------------------------------------------------ the way back

    def restore_atoms(self, atoms: Floats) -> Floats:
        """Atoms (n_atoms, n_features_in) in the space of the rows: the linear part of the way back.

        An atom's constant coordinate becomes its share of the mean of the rows. Plain atoms keep
        their unit norm.
        """
        if self.is_plain:
            return atoms
        n_features = len(self.mean)
        back = self._unscale(atoms[:, :n_features].astype(np.float64))
        if self.recipe.constant:
            back += (atoms[:, n_features:] / self.size) * self.mean
        return self._unshift(back, atoms.dtype)

    def restore(self, rows: Floats) -> Floats:
        """Rows (n_samples, n_features_in) from approximations of mapped rows of unit norm.

        A view that scales rows to unit norm first, or has no constant coordinate, does not know a
        row's size: it is taken to be the mean size of the training rows.
        """
        if not self.recipe.normalize:
            return rows
        n_features = len(self.mean)
        mapped = rows[:, :n_features].astype(np.float64)
        if self.recipe.constant:
            share = rows[:, n_features:].astype(np.float64)
            share[share <= LEAST_SHARE] = LEAST_SHARE
            mapped /= share
        back = self._unscale(mapped * self.size) + self.mean
        return self._unshift(back, rows.dtype)

    def _unscale(self, mapped: Doubles) -> Doubles:
        if self.matrix is not None:
            mapped = cho_solve(self._factor, mapped.T).T
        return mapped / self.scale

    def _unshift(self, back: Doubles, dtype: Any) -> Floats:
        back = times_powers(back * self.length, self.exponent)
        return clipped_to(back, dtype)  # approximations of large rows may be larger

    @cached_property
    def _factor(self) -> Any:
        return cho_factor(self.matrix)


#: Views by name. "unit" before a name scales rows to unit norm first; "+ constant" after it appends
#: a constant coordinate.
VIEWS = {
    "plain": View(),
    "centred": View(centred=True),
    "standardised": View(centred=True, scale="total"),
    "whitened": View(centred=True, power=0.5),
    "half-whitened": View(centred=True, power=0.25),
    "scaled and whitened": View(centred=True, scale="within", power=0.5),
    "scaled and half-whitened": View(centred=True, scale="within", power=0.25),
}

#: Least constant coordinate of an approximated row of unit norm by which the row is divided.
LEAST_SHARE = 1e-3


def _moderate(X: Floats) -> Floats:
    """Scale down rows that are so far from the training rows that their map would overflow.

    Only the direction of such rows matters: they are scaled to unit norm in the end.
    """
    most = SAFE_EXPONENT[X.dtype.name] // 3
    found = exponents(X)
    return times_powers(X, np.minimum(most - found, 0)) if (found > most).any() else X
