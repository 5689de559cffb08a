"""The conditional distributions of the Gibbs sampler, equation by equation (paper, section 4.2).

Each function returns the parameters of a distribution; nothing is drawn here. Rows are samples.
In eqs. 9 and 10 the data enter through two scalars: ``match``, the inner product of the atom with
the part of the sample that the other atoms do not explain (the paper's phi_k' x_{i phi_k}, from
eq. 7), and ``norm_square``, the squared norm of the atom.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dbdl.model.atom_priors import AtomPosterior
from dbdl.model.priors import Priors
from dbdl.model.trust import Floats

#: Numbers of rows; with weights they need not be whole.
Counts = NDArray[Any]


class Normal(NamedTuple):
    """Mean and precision."""

    mean: Floats
    precision: Floats


class Beta(NamedTuple):
    """The two shapes."""

    a: Floats
    b: Floats


class Gamma(NamedTuple):
    """Shape and rate."""

    shape: Floats
    rate: Floats


def contribution(x: Floats, code: Floats, atoms: Floats, k: int) -> Floats:
    """Residual of a sample without the k-th atom (eq. 7): x - code @ atoms + code[k] atoms[k]."""
    return x - code @ atoms + code[k] * atoms[k]


def atom_posterior(posterior: AtomPosterior, atoms: Floats, k: int) -> Normal:
    """Return the k-th atom given all others (eq. 8).

    lambda_k = lambda_ko + lambda_eps sum_i code_ik^2 is the k-th diagonal entry of the joint
    precision. sum_i code_ik x_{i phi_k} is the k-th row of the natural mean, less the other atoms.
    """
    shared, by_feature = posterior.precision[k, k], posterior.feature_precision
    others = posterior.precision[k] @ atoms - shared * atoms[k]
    precision = shared if by_feature is None else shared + by_feature
    return Normal((posterior.natural_mean[k] - others) / precision, precision)


def usage_log_odds(match, norm_square, strength, selection_logit, noise_precision):
    """Log-odds that the atom is used given its strength (eq. 9): logit(pi) + log(zeta_1)."""
    return selection_logit - 0.5 * noise_precision * strength * (
        norm_square * strength - 2.0 * match
    )


def usage_log_odds_collapsed(
    match, norm_square, selection_logit, strength_precision, noise_precision
):
    """Log-odds that the atom is used with its strength integrated out (eqs. 9 and 10 together)."""
    precision = strength_precision + noise_precision * norm_square
    return (
        selection_logit
        + 0.5 * np.log(strength_precision / precision)
        + 0.5 * (noise_precision * match) ** 2 / precision
    )


def strength_posterior(match, norm_square, strength_precision, noise_precision) -> Normal:
    """Strength of a used atom (eq. 10 with z = 1; with z = 0 it follows its prior)."""
    precision = strength_precision + noise_precision * norm_square
    return Normal(noise_precision * match / precision, precision)


def selection_posterior(count: Counts, n_rows: Counts, priors: Priors) -> Beta:
    """Selection probabilities given the usage (eq. 11).

    count : (n_classes, n_atoms); n_rows : (n_classes,). With weights their rounding could make
    more rows use an atom than there are.
    """
    unused = np.maximum(n_rows[:, np.newaxis] - count, 0)
    return Beta(priors.beta_a + count, priors.beta_b + unused)


def strength_precision_posterior(n_strengths: Floats, square: Floats, priors: Priors) -> Gamma:
    """Precision of each class's strengths (eq. 12).

    The paper counts the strengths of used and unused atoms, |K| N_c in all. The unused ones are
    draws from the prior, which slow down changes of the precision. Leaving them out of both
    ``n_strengths`` and ``square`` integrates them out, which is exact too.
    """
    return Gamma(priors.strength_shape + 0.5 * n_strengths, priors.strength_rate + 0.5 * square)


def noise_precision_posterior(n_values: Floats, residual_square: Floats, priors: Priors) -> Gamma:
    """Noise precision (eq. 13); ``n_values`` is m N, or m N_c with a noise precision per class."""
    return Gamma(priors.noise_shape + 0.5 * n_values, priors.noise_rate + 0.5 * residual_square)
