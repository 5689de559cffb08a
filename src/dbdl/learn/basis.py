"""The basis in which a chain sees rows and atoms: that of its view, or one for smooth atoms.

A chain takes features as independent (`dbdl.model.atom_priors.AtomPosterior`). Under a Gaussian
process they are independent in the basis of the covariance's eigenvectors. Rows are turned into
that basis once, before the chain, and the published atoms are turned back: the rest of the package
sees the space of the view. Noise of the same variance in all directions stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from scipy.linalg import block_diag, eigh

from dbdl._arrays import clipped_to, unit_rows
from dbdl._products import block_product, row_products
from dbdl._threads import map_blocks
from dbdl.learn.chain import ChainSettings
from dbdl.model.state import Doubles, Floats
from dbdl.views import Fitted, FittedView, LabelledRows, Recipe, View
from dbdl.views.view import MAPPED_ROWS, MOST_WHITENED

#: Least variance of a direction as a fraction of the largest: smaller ones are rounding errors.
LEAST_VARIANCE = 1e-13


@dataclass(frozen=True)
class SmoothBasis:
    """A view, followed by a turn into the basis of the eigenvectors of the atoms' covariance.

    Attributes
    ----------
    view : FittedView
    turn : ndarray of shape (n_features, n_features)
        The eigenvectors, one per row; the constant coordinate of a view stays apart.
    precision : ndarray of shape (n_features,)
        Precision of the atoms along each of them.
    """

    view: FittedView
    turn: Doubles
    precision: Doubles

    @classmethod
    def of(cls, view: FittedView, settings: ChainSettings, length_scale: float) -> Self:
        """Return the basis of the view of a chain.

        The mean variance of a feature is that of the default prior, so the expected squared norm of
        an atom is the same. So is the variance of the constant coordinate.
        """
        prior, n_features = settings.atom_prior, len(view.mean)
        assert prior is not None
        covariance = view.map_covariance(prior.covariance(n_features, length_scale))
        precision = float(settings.atom_precision or view.n_features)
        variance, vectors = eigh((covariance + covariance.T) / 2)
        variance = np.maximum(variance, LEAST_VARIANCE * variance[-1])
        variance *= 1.0 / (precision * variance.mean())
        turn = vectors.T
        if view.recipe.constant:
            turn, variance = block_diag(turn, 1.0), np.append(variance, 1.0 / precision)
        return cls(view, np.ascontiguousarray(turn), 1.0 / variance)

    @property
    def n_features(self) -> int:
        """Number of coordinates of turned rows."""
        return len(self.turn)

    def apply(self, X: Floats, n_threads: int = 1) -> Floats:
        """Rows (n_samples, n_features) in the basis; a row has the same bits in any batch."""
        turn = self.turn if X.dtype == np.float64 else self._narrow_turn
        return map_blocks(
            lambda rows: row_products(self.view.apply(rows), turn), X, MAPPED_ROWS, n_threads
        )

    @cached_property
    def _narrow_turn(self) -> Floats:
        return self.turn.astype(np.float32)

    def turn_back(self, atoms: Floats) -> Floats:
        """Atoms of unit norm in the space of the view."""
        return unit_rows(block_product(atoms.astype(np.float64), self.turn)).astype(atoms.dtype)


Basis = Fitted | SmoothBasis


def basis_of(view: Fitted, settings: ChainSettings, length_scale: float | None) -> Basis:
    """Return the basis of a chain: its view, turned if its atoms are smooth."""
    if length_scale is None:
        return view
    assert isinstance(view, FittedView)
    return SmoothBasis.of(view, settings, length_scale)


def settings_in(basis: Basis, settings: ChainSettings, rows: LabelledRows) -> ChainSettings:
    """Return the settings of a chain in its basis.

    An initial atom is a direction. It is scaled to the mean size of the rows, and mapped like a
    row.
    """
    if isinstance(basis, SmoothBasis):
        settings = replace(settings, feature_precision=basis.precision)
    if settings.initial_atoms is None:
        return settings
    exponent = rows.largest_exponent()
    atoms = unit_rows(settings.initial_atoms) * rows.mean_length(exponent)
    with np.errstate(over="ignore"):
        atoms = clipped_to(np.ldexp(atoms, exponent), rows.dtype)
    return replace(settings, initial_atoms=basis.apply(atoms))


def with_label_columns(settings: ChainSettings, n_classes: int) -> ChainSettings:
    """Return the settings for rows with labels appended, which no prior smooths.

    Initial atoms have no labels.
    """
    precision, atoms = settings.feature_precision, settings.initial_atoms
    if precision is not None:
        precision = np.append(precision, np.full(n_classes, settings.atom_precision))
    if atoms is not None:
        atoms = np.pad(atoms, ((0, 0), (0, n_classes)))
    return replace(settings, feature_precision=precision, initial_atoms=atoms)


def refuse_unsmooth(
    settings: ChainSettings, views: tuple[Recipe, ...], n_features: int, n_chains: int
) -> None:
    """Refuse views and numbers of features and chains that smooth atoms do not go with."""
    prior = settings.atom_prior
    if prior is None:
        return
    if prior.coordinates is not None and len(prior.coordinates) != n_features:
        raise ValueError(
            f"atom_prior has coordinates of {len(prior.coordinates)} features, but X has "
            f"{n_features}. Pass one coordinate, or one row of them, per feature of X."
        )
    if n_features > MOST_WHITENED:
        raise ValueError(
            f"atom_prior={prior!r} with {n_features} features. Expected at most {MOST_WHITENED}: "
            "it needs a matrix between all pairs of features. Use fewer features, or "
            "atom_prior=None."
        )
    other = [view for view in views if not isinstance(view, View)]
    if other:
        raise ValueError(
            f"atom_prior={prior!r} with the view {other[0].name!r}, whose features have no "
            "coordinates. Use linear views by name, such as views='plain', or atom_prior=None."
        )
    if n_chains < len(prior.length_scales):
        raise ValueError(
            f"atom_prior={prior!r} with n_chains={n_chains}. Expected at least one chain per "
            "length scale. Use one length scale, or a DBDLClassifier with more chains."
        )
