"""Settings of the model: priors, the scan, and how a chain starts and ends.

They are a scikit-learn estimator, so that a grid search can vary ``model__noise_precision``.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from numbers import Integral, Real
from types import UnionType
from typing import Annotated, Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, Options

from dbdl.model.codes import Scan
from dbdl.model.smooth_atoms import SmoothAtoms
from dbdl.model.trust import Doubles, check

#: Weights, penalties and precisions beyond this, or precisions below its inverse, would swamp all
#: other terms; float32 ends at 3e38.
LARGEST_WEIGHT = 1e30
POSITIVE = Interval(Real, 0, LARGEST_WEIGHT, closed="right")
NOT_NEGATIVE = Interval(Real, 0, LARGEST_WEIGHT, closed="both")
PRECISION = Interval(Real, 1 / LARGEST_WEIGHT, LARGEST_WEIGHT, closed="both")
#: Constraints of a value per class; `ModelSettings.for_classes` checks the values.
PER_CLASS: list[Any] = [dict, "array-like"]
AT_LEAST_ONE = Interval(Integral, 1, None, closed="left")

PositiveCount = Annotated[int, AT_LEAST_ONE]
AnyCount = Annotated[int, Interval(Integral, 0, None, closed="left")]
PositiveWeight = Annotated[float, POSITIVE]
AnyWeight = Annotated[float, NOT_NEGATIVE]


def constraints(hint: Any) -> list[Any]:
    """Return scikit-learn's constraints for the annotation of a parameter."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return list(arguments[1:])
    if origin in (Union, UnionType):
        return [constraint for part in arguments for constraint in constraints(part)]
    if origin is Literal:
        return [Options(type(arguments[0]), set(arguments))]
    plain: dict[Any, list[Any]] = {bool: ["boolean"], type(None): [None]}
    return plain.get(hint, [hint])


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
        "collapsed" draws usage with strengths integrated out, "paper" given strengths (eq. 9).
    noise_precision : float, mapping or array-like, default=1e6
        Precision of the noise, initially or throughout. A value per class is a mapping from classes
        to values, or an array in the order of the classes; it needs ``noise_per_class=True`` or
        ``sample_noise=False``.
    sample_noise : bool, default=True
        Draw the noise precision (eq. 13) or fix it.
    noise_per_class : bool, default=False
        One noise precision per class.
    strength_precision : float, default=1.0
        Initial precision of the strengths.
    strengths_counted : {"used", "all"}, default="used"
        The strengths from which their precision is drawn (eq. 12): those of used atoms, or all.
    atom_precision : float, default=None
        Precision of the atoms' prior; the number of features if None.
    atom_prior : SmoothAtoms, default=None
        Prior under which neighbouring features of an atom have similar values, as in spectra,
        signals and images (`dbdl.SmoothAtoms`). ``atom_precision`` is then the mean precision of a
        feature. None takes the features of an atom as independent, as the paper does.
    usage_a, usage_b : float, mapping or array-like, default=None
        Parameters of the Beta process, for all classes or one value per class. None means half the
        number of rows of the smallest class.
    hyper_prior : float, default=1e-6
        Shape and rate of the Gamma priors of the precisions.
    beta_size : {"start", "current"}, default="start"
        Which number of atoms is K in Beta(a_o/K, b_o(K-1)/K): the initial or the current one.
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

    _parameter_constraints: ClassVar[dict[str, list[Any]]]

    initial_ratio: PositiveWeight = 1.5
    n_start_nonzero: PositiveCount = 10
    scan: Scan = "collapsed"
    noise_precision: Annotated[Any, PRECISION, *PER_CLASS] = 1e6
    sample_noise: bool = True
    noise_per_class: bool = False
    strength_precision: Annotated[float, PRECISION] = 1.0
    strengths_counted: Literal["used", "all"] = "used"
    atom_precision: Annotated[float | None, None, PRECISION] = None
    atom_prior: Annotated[SmoothAtoms | None, None, SmoothAtoms] = None
    usage_a: Annotated[Any, None, PRECISION, *PER_CLASS] = None
    usage_b: Annotated[Any, None, PRECISION, *PER_CLASS] = None
    hyper_prior: Annotated[float, PRECISION] = 1e-6
    beta_size: Literal["start", "current"] = "start"
    least_energy: AnyWeight = 0.05
    n_atom_draws: AnyCount = 0
    keep_atom_draws: bool = False
    start_selection: Literal["counts", "half"] = "counts"
    keep_copies: bool = False

    @property
    def length_scales(self) -> tuple[float | None, ...]:
        """Length scales of smooth atoms, which chains take in turn; None without them."""
        return (None,) if self.atom_prior is None else self.atom_prior.length_scales

    @property
    def has_values_per_class(self) -> bool:
        """Whether some setting has a value per class."""
        own = (self.noise_precision, self.usage_a, self.usage_b)
        return any(value is not None and not isinstance(value, Real) for value in own)

    def for_classes(self, classes: NDArray[Any]) -> dict[str, Any]:
        """Return all settings, with values per class as arrays in the order of the classes."""
        settings = self.get_params(deep=False)
        for name in ("noise_precision", "usage_a", "usage_b"):
            value = settings[name]
            if value is not None and not isinstance(value, Real):
                settings[name] = _by_class(name, value, classes)
        one_for_all = self.sample_noise and not self.noise_per_class
        if one_for_all and isinstance(settings["noise_precision"], np.ndarray):
            raise ValueError(
                "noise_precision has a value per class, but one precision for all classes is "
                "drawn. Use noise_per_class=True, or sample_noise=False."
            )
        return settings

    def _validate_params(self) -> None:
        super()._validate_params()
        if self.atom_prior is not None:  # it may come from a file
            check(SmoothAtoms, self.atom_prior, "atom_prior")


_hints = get_type_hints(ModelSettings, include_extras=True)
ModelSettings._parameter_constraints = {
    part.name: constraints(_hints[part.name]) for part in fields(ModelSettings)
}


def _by_class(name: str, value: Any, classes: NDArray[Any]) -> Doubles:
    """Return positive values (n_classes,) from a mapping or an array."""
    known = classes.tolist()
    if isinstance(value, dict):
        if set(value) != set(known):
            raise ValueError(
                f"{name} has values for the classes {list(value)}, but y has the classes {known}. "
                "Expected one value for each."
            )
        value = [value[label] for label in known]
    try:
        values = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} is {value!r}. Expected numbers, one per class.") from error
    least, most = 1 / LARGEST_WEIGHT, LARGEST_WEIGHT
    if values.shape != (len(known),) or not ((values >= least) & (values <= most)).all():
        raise ValueError(
            f"{name} is {value!r}. Expected a number, or {len(known)} of them, one per class, each "
            f"from {least:g} to {most:g}."
        )
    return values
