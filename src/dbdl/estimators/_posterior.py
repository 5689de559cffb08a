"""The chains as samples of a posterior: diagnostics, intervals, and a way to ArviZ."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted, check_scalar

from dbdl._arrays import Array
from dbdl._extras import how_to_install
from dbdl._warnings import warn_caller
from dbdl.learn.members import Member
from dbdl.sampler.diagnostics import Diagnostics, diagnose, kept_values
from dbdl.sampler.kept_draws import KeptDraws
from dbdl.sampler.run import SweepRecord

#: Traced scalars that are parameters of the model; the others describe a sweep.
PARAMETERS = ("noise_precision", "strength_precision")


class PosteriorMixin:
    """Questions to the chains of a fitted estimator."""

    chains_: list[Member]
    selection_probability_: NDArray[np.float64]

    @property
    def diagnostics_(self) -> Diagnostics:
        """Split R-hat, effective sample sizes and Monte Carlo errors of the traced scalars.

        They are computed view by view, from the second half of the sweeps. Chains of one view
        leave out different rows, so their posteriors differ a little.
        """
        check_is_fitted(self, msg="This %(name)s has no diagnostics_ before fit. Call fit first.")
        views = [chain.view.name for chain in self.chains_]
        return diagnose([chain.trace for chain in self.chains_], views)

    def selection_interval(self, level: float = 0.9) -> tuple[Array, Array]:
        """Credible intervals of the selection probabilities, from the kept draws.

        The interval of an atom is given the atoms and the neighbourhood that its chain has found.
        It does not tell how other chains differ, whose atoms are others. If the chains have not
        converged, a warning says how few effective draws there are.

        Parameters
        ----------
        level : float, default=0.9
            Probability of the interval, between 0 and 1; as much is left on either side.

        Returns
        -------
        low, high : ndarray with the shape of ``selection_probability_``
        """
        check_is_fitted(self)
        check_scalar(level, "level", Real, min_val=0, max_val=1, include_boundaries="neither")
        draws = self._kept_draws()
        if not (found := self.diagnostics_).has_converged:
            figures = "they have too few sweeps to tell how far they are from it"
            if not np.isnan(found.worst_r_hat):
                figures = f"the largest R-hat is {found.worst_r_hat:.2f}"
            if not np.isnan(found.least_effective):
                figures += f", and the smallest effective sample size {found.least_effective:.0f}"
            warn_caller(
                f"intervals from {draws[0].n_draws} draws of chains that have not converged: "
                f"{figures}. The intervals describe the neighbourhood of each chain's dictionary, "
                "and may be too narrow even for that. See diagnostics_."
            )
        tail = (1.0 - level) / 2
        ends = [np.quantile(d.selection_probability, (tail, 1.0 - tail), axis=0) for d in draws]
        low, high = np.concatenate(ends, axis=2).reshape(2, *np.shape(self.selection_probability_))
        return low, high

    def to_arviz(self, view: str | None = None) -> Any:
        """Return the traced scalars of the chains of one view, for the tools of ArviZ.

        Atoms and selection probabilities are not included: atom k of one chain is not atom k of
        another, so that statistics over chains would mean nothing. The first half of the sweeps is
        left out. Needs the package arviz-base.

        Parameters
        ----------
        view : str, default=None
            Name of a view. None if all chains have the same: chains of several views cannot be
            compared.

        Returns
        -------
        data : xarray.DataTree
            The group "posterior" has the precisions; "sample_stats" has the log joint density as
            "lp", and the other records of the sweeps.
        """
        check_is_fitted(self)
        try:
            from arviz_base import from_dict
        except ImportError as error:
            raise ImportError(
                f"to_arviz needs the package arviz-base: {how_to_install('arviz_base')}"
            ) from error
        names = list(dict.fromkeys(chain.view.name for chain in self.chains_))
        if view is None and len(names) == 1:
            view = names[0]
        if view not in names:
            raise ValueError(
                f"to_arviz(view={view!r}), but the chains have the views {names}. Name one of "
                "them: chains of different views have different posteriors."
            )
        traces = [chain.trace for chain in self.chains_ if chain.view.name == view]
        values = {name: kept_values(traces, name) for name in SweepRecord._fields}
        stats = {name: values[name] for name in values if name not in PARAMETERS}
        stats["lp"] = stats.pop("log_joint")
        posterior = {name: values[name] for name in PARAMETERS}
        groups = {"posterior": posterior, "sample_stats": stats}
        return from_dict(groups, attrs={"/": {"view": view}})

    def _kept_draws(self, with_atoms: bool = False) -> list[KeptDraws]:
        """Return the draws of every chain, or say how to keep them."""
        draws = [chain.draws for chain in self.chains_ if chain.draws is not None]
        if len(draws) < len(self.chains_) or not all(draw.n_draws for draw in draws):
            raise ValueError(
                f"this {type(self).__name__} kept no draws. Fit it with n_draws=20, say."
            )
        if with_atoms and any(draw.atoms is None for draw in draws):
            raise ValueError(
                f"this {type(self).__name__} kept draws, but not of the atoms. Fit it with "
                "model=ModelSettings(keep_atom_draws=True)."
            )
        return draws
