"""Settings of the model: priors, the scan, and how a chain starts and ends.

They are a scikit-learn estimator, so that a grid search can vary ``model__noise_precision``.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, StrOptions

from dbdl.model.codes import Scan

#: Weights, penalties and precisions beyond this, or precisions below its inverse, would swamp all
#: other terms; float32 ends at 3e38.
LARGEST_WEIGHT = 1e30
POSITIVE = Interval(Real, 0, LARGEST_WEIGHT, closed="right")
NOT_NEGATIVE = Interval(Real, 0, LARGEST_WEIGHT, closed="both")
PRECISION = Interval(Real, 1 / LARGEST_WEIGHT, LARGEST_WEIGHT, closed="both")
AT_LEAST_ONE = Interval(Integral, 1, None, closed="left")


@dataclass(repr=False, kw_only=True)
class ModelSettings(BaseEstimator):
    """Priors of the model, the scan of the sampler, and how a chain starts and ends.

    The ``model`` of a `DBDLClassifier` or a `BetaProcessDictionary`. The defaults make sense for
    rows of unit norm.

    Parameters
    ----------
    initial_ratio : float, default=1.5
        Initial atoms per training row, drawn from the rows class by class with replacement; at most
        5000 in all. Copies are left out: of 1.5 draws per row about 0.78 are distinct. Ignored if
        the estimator sets ``n_initial_atoms``.
    n_start_nonzero : int, default=10
        Number of non-zeros in the initial codes of a chain. Few make sparser chains.
    scan : {"collapsed", "paper"}, default="collapsed"
        Draw usage with strengths integrated out, or given strengths (eq. 9).
    noise_precision : float, default=1e6
        Precision of the noise, initially or throughout.
    sample_noise : bool, default=True
        Draw the noise precision (eq. 13) or fix it.
    noise_per_class : bool, default=False
        One noise precision per class.
    strength_precision : float, default=1.0
        Initial precision of the strengths.
    strengths_counted : {"used", "all"}, default="used"
        Strengths that inform their precision (eq. 12): those of used atoms, or all.
    atom_precision : float, default=None
        Precision of the atoms' prior; the number of features if None.
    usage_a, usage_b : float, default=None
        Parameters of the Beta process; half the smallest class if None.
    hyper_prior : float, default=1e-6
        Shape and rate of the Gamma priors of the precisions.
    beta_size : {"start", "current"}, default="start"
        K in Beta(a_o/K, b_o(K-1)/K): the initial or the current number of atoms.
    least_energy : float, default=0.05
        Atoms that explain less than this fraction of one row's squared norm, over all rows, are
        dropped between sweeps; 0 drops unused atoms only.
    n_atom_draws : int, default=0
        Publish the mean of this many draws of the atoms; 0 publishes their posterior mean.
    keep_atom_draws : bool, default=False
        Keep the atoms, in float32, with the draws that ``n_draws`` of the estimator keeps.
    start_selection : {"counts", "half"}, default="counts"
        Draw the initial selection probabilities from the counts of the initial codes, or set them
        to 0.5 exactly as in the paper.
    keep_copies : bool, default=False
        Keep initial atoms that are copies of others, exactly as in the paper.

    Examples
    --------
    >>> from dbdl import DBDLClassifier, ModelSettings
    >>> DBDLClassifier(model=ModelSettings(noise_precision=1e4)).get_params()["model__scan"]
    'collapsed'
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "initial_ratio": [POSITIVE],
        "n_start_nonzero": [AT_LEAST_ONE],
        "scan": [StrOptions({"collapsed", "paper"})],
        "noise_precision": [PRECISION],
        "sample_noise": ["boolean"],
        "noise_per_class": ["boolean"],
        "strength_precision": [PRECISION],
        "strengths_counted": [StrOptions({"used", "all"})],
        "atom_precision": [None, PRECISION],
        "usage_a": [None, PRECISION],
        "usage_b": [None, PRECISION],
        "hyper_prior": [PRECISION],
        "beta_size": [StrOptions({"start", "current"})],
        "least_energy": [NOT_NEGATIVE],
        "n_atom_draws": [Interval(Integral, 0, None, closed="left")],
        "keep_atom_draws": ["boolean"],
        "start_selection": [StrOptions({"counts", "half"})],
        "keep_copies": ["boolean"],
    }

    initial_ratio: float = 1.5
    n_start_nonzero: int = 10
    scan: Scan = "collapsed"
    noise_precision: float = 1e6
    sample_noise: bool = True
    noise_per_class: bool = False
    strength_precision: float = 1.0
    strengths_counted: Literal["used", "all"] = "used"
    atom_precision: float | None = None
    usage_a: float | None = None
    usage_b: float | None = None
    hyper_prior: float = 1e-6
    beta_size: Literal["start", "current"] = "start"
    least_energy: float = 0.05
    n_atom_draws: int = 0
    keep_atom_draws: bool = False
    start_selection: Literal["counts", "half"] = "counts"
    keep_copies: bool = False
