r"""Missing entries of training rows as variables of the model, drawn in every sweep.

A view maps a row x to r = s [T (x - mean), constant], whose noise is white. Given its code and the
atoms, r is Gaussian around ``fit = code @ atoms`` with the noise precision of its class (eq. 6).
The mean and T are those of the view, and s scales the row to unit norm (for some views x is scaled
first too). They are fixed before the first sweep, from the observed entries and the first fill of
the others (`dbdl.missing.filler`), so r is an affine function of the missing entries x_g.

Their conditional distribution has the log density

.. math:: -\frac{\lambda}{2} \| s T_g x_g + a - \mathit{fit} \|^2 + \mathrm{const},

a Gaussian with precision :math:`\lambda s^2 T_g' T_g`, whose mean is a least squares solution. In
the space of r there is a simpler form without s. Let t = fit + noise be a new row from the model,
given the code. The draw of r is the point nearest to t among those that keep the observed entries,

.. math:: r + T_g d, \qquad T_g' T_g d = T_g' (t - r),

for any r that has these entries, such as the one from the first fill. The right-hand side has the
covariance :math:`T_g' T_g / \lambda`, and so d has its inverse over :math:`\lambda`, as it must.

The draw is made before each step from the state of the chain and random numbers that are addressed
by row, feature and sweep. It follows from the state, so a checkpoint need not hold it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbdl._products import block_product, row_products
from dbdl._threads import block_slices
from dbdl.backends.base import Backend, Data
from dbdl.draws import Key, Site, normals
from dbdl.missing.filler import Filler, Mask, fit_filler, solve_gaps
from dbdl.model.state import Doubles, Floats, State
from dbdl.model.statistics import SUM_ROWS
from dbdl.views import Fitted, FittedView, LabelledRows


class Complete:
    """Rows without missing entries, of which nothing is drawn: the default everywhere."""

    def filled(self, rows: LabelledRows) -> LabelledRows:
        """Return the rows to learn from without gaps."""
        return rows

    def fill(self, X: Any) -> Any:
        """Return other rows, whose classes are not known, without gaps."""
        return X

    def seen_through(self, view: Fitted, X: Any, turn: Doubles | None = None) -> Complete:
        """Return the gaps of the rows to learn from, which a view has mapped to ``X``.

        ``turn`` is the basis, one vector per row, to which the mapped rows were turned.
        """
        return self

    def within(self, X: Any) -> Complete:
        """Return the gaps of the same rows with coordinates appended."""
        return self

    def draw(self, key: Key, state: State, data: Data, backend: Backend) -> Data:
        """Return the data with their missing entries drawn given the state of a chain."""
        return data


COMPLETE = Complete()


@dataclass(frozen=True)
class Gaps(Complete):
    """The missing entries of rows to learn from (n_samples, n_features), and how to fill them."""

    missing: Mask
    filler: Filler

    @classmethod
    def of(cls, rows: LabelledRows) -> Gaps:
        """Learn from rows how to fill their gaps."""
        return cls(np.isnan(rows.X), fit_filler(rows))

    def filled(self, rows: LabelledRows) -> LabelledRows:
        """Return the rows to learn from, filled by the Gaussians of their classes."""
        return rows._replace(X=self.filler.fill(rows.X, rows.class_of_row))

    def fill(self, X: Floats) -> Floats:
        """Return other rows, filled without a look at their classes."""
        return self.filler.fill(X)

    def seen_through(self, view: Fitted, X: Floats, turn: Doubles | None = None) -> Complete:
        """Return the gaps of mapped rows; if the map is not linear, they stay filled."""
        if not (isinstance(view, FittedView) and self.missing.any()):
            return COMPLETE
        matrix, n_mapped = view.matrix, len(view.scale)
        directions = None if matrix is None else view.scale[:, None] * matrix
        if turn is not None:
            directions = np.diag(view.scale) if directions is None else directions
            own = np.ascontiguousarray(turn[:n_mapped, :n_mapped].T)
            directions = block_product(directions, own)
        return DrawnGaps(X, self.missing, directions)


@dataclass(frozen=True)
class DrawnGaps(Complete):
    """The missing entries of the rows of a chain.

    Attributes
    ----------
    X : ndarray of shape (n_samples, n_features)
        Mapped rows from the first fill. Coordinates after those that the view maps stay.
    missing : ndarray of shape (n_samples, n_features_in)
    directions : ndarray of shape (n_features_in, n_features_in) or None
        Change of a mapped row with each entry of the row, up to its size [T, transposed]; None if
        an entry changes one coordinate alone.
    """

    X: Floats
    missing: Mask
    directions: Doubles | None

    def within(self, X: Floats) -> DrawnGaps:
        """Return the gaps of the same rows with coordinates appended."""
        return replace(self, X=X)

    def draw(self, key: Key, state: State, data: Data, backend: Backend) -> Data:
        """Return the data with their missing entries drawn given codes, atoms and noise."""
        X, now = np.array(backend.to_host(self.X)), state.parameters
        codes, atoms = backend.codes_to_host(state.codes), backend.to_host(now.atoms)
        deviation = 1.0 / np.sqrt(now.noise_precision)
        for block in block_slices(len(X), SUM_ROWS):
            some = block.start + np.flatnonzero(self.missing[block].any(axis=1))
            if len(some):
                target = codes.of_rows(block).times(atoms)[some - block.start]
                noise = normals(key, Site.MISSING, some, state.sweep, self.missing.shape[1])
                noise *= deviation[data.class_of_row[some], np.newaxis]
                self._move(X, some, target[:, : noise.shape[1]] + noise)
        return backend.place(X, data.class_of_row, data.sample_weight)

    def _move(self, X: Floats, some: NDArray[np.int64], target: Doubles) -> None:
        """Move rows as near to their targets as the observed entries allow."""
        n_mapped, missing = target.shape[1], self.missing[some]
        way = target - X[some, :n_mapped]
        if self.directions is None:
            change = np.where(missing, way, 0.0)
        else:
            directions = np.ascontiguousarray(self.directions)
            gradient = row_products(way, directions)[:, np.newaxis]
            steps = solve_gaps(self._precision, gradient, missing)[:, 0]
            change = row_products(np.ascontiguousarray(steps), np.ascontiguousarray(directions.T))
        X[some, :n_mapped] += change.astype(X.dtype)

    @cached_property
    def _precision(self) -> Doubles:
        assert self.directions is not None
        return block_product(self.directions, self.directions.T)
