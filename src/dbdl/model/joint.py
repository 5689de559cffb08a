"""The joint density of the model (eq. 6 and its hyper-priors), and draws from the prior."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, gammaln

from dbdl.model.atom_priors import LOG_2PI
from dbdl.model.conditionals import (
    noise_precision_posterior,
    selection_posterior,
    strength_precision_posterior,
)
from dbdl.model.priors import Priors
from dbdl.model.state import Classes, Parameters
from dbdl.model.statistics import SeenSums, UsageSums
from dbdl.model.trust import Floats

Counts = NDArray[np.int64]


def log_large_terms(
    parameters: Parameters, sums: UsageSums, n_rows: Counts, priors: Priors
) -> float:
    """Log density of usage, selection probabilities and atoms: the terms with large arrays.

    ``sums`` and ``n_rows`` are over all rows, including those of earlier batches.
    """
    selection = log_selection(parameters.selection_logit, sums.count, n_rows, priors)
    return selection + priors.atoms.log_density(parameters.atoms)


def log_joint(
    parameters: Parameters,
    sums: UsageSums,
    n_rows: Counts,
    priors: Priors,
    *,
    noise_per_class: bool = False,
    log_large_terms: Callable[[Parameters, UsageSums, Any, Priors], float] = log_large_terms,
) -> float:
    """Log joint density of data, codes and parameters.

    It includes the usage, strengths and residuals of earlier rows (``priors.seen``) as they were
    then; the rest of what these rows say is in the prior of the atoms.

    The strengths of unused atoms are integrated out. The density of a selection probability is
    taken with respect to its logit, where it is bounded.

    Parameters
    ----------
    parameters : Parameters
    sums : UsageSums
        Sums of the codes; codes and data enter only through these.
    n_rows : ndarray of shape (n_classes,)
    priors : Priors
    noise_per_class : bool
        Whether there is one noise precision per class, each with its own prior.
    log_large_terms : callable
        The function of this module, or that of the backend that has the large arrays.
    """
    noise, strength = parameters.noise_precision, parameters.strength_precision
    own_noise = noise if noise_per_class else noise[:1]
    n_features = parameters.atoms.shape[1]
    n_strengths, n_rows = priors.n_strengths(sums), priors.n_rows(n_rows)
    sums = priors.with_seen(sums)
    data = log_normal(n_rows * n_features, sums.residual_square, noise).sum()
    strengths = log_normal(n_strengths, sums.strength_square, strength).sum()
    of_strength = log_gamma(strength, priors.strength_shape, priors.strength_rate).sum()
    of_noise = log_gamma(own_noise, priors.noise_shape, priors.noise_rate).sum()
    small = float(data + strengths + of_strength + of_noise)
    return log_large_terms(parameters, sums, n_rows, priors) + small


def log_normal(n: Floats | Counts, square: Floats, precision: Floats) -> Floats:
    """Log density of ``n`` centred normal values whose squares sum to ``square``."""
    return 0.5 * (n * (np.log(precision) - LOG_2PI) - precision * square)


def log_gamma(x: Floats, shape: float, rate: float) -> Floats:
    """Log density of Gamma(shape, rate)."""
    return shape * np.log(rate) - gammaln(shape) + (shape - 1) * np.log(x) - rate * x


def log_selection(logit: Floats, count: Counts, n_rows: Counts, priors: Priors) -> float:
    """Log density of the usage given the selection probabilities, and of their logits."""
    a, b = selection_posterior(count, n_rows, priors)
    # log pi = min(logit, 0) - log(1 + exp(-|logit|)), and log(1 - pi) = log pi - logit.
    log_p = np.minimum(logit, 0.0) - np.log1p(np.exp(-np.abs(logit)))
    total = np.vdot(a, log_p) + np.vdot(b, log_p - logit)
    return float(total - logit.size * np.mean(betaln(priors.beta_a, priors.beta_b)))


class PriorDraw(NamedTuple):
    """Parameters, dense codes (n_samples, n_atoms) and data (n_samples, n_features)."""

    parameters: Parameters
    codes: Floats
    X: Floats


def draw_from_prior(
    rng: np.random.Generator,
    class_of_row: Classes,
    n_features: int,
    priors: Priors,
    *,
    noise_per_class: bool = False,
) -> PriorDraw:
    """Draw parameters, codes and data from the model (eq. 6).

    If the priors contain sums of earlier rows, parameters are drawn given these.
    """
    n_classes, n_atoms = int(class_of_row.max()) + 1, priors.n_atoms
    seen = priors.seen or SeenSums.none(n_classes, n_atoms)
    strengths = strength_precision_posterior(seen.n_strengths, seen.strength_square, priors)
    n_values, square = seen.n_rows * n_features, seen.residual_square
    if not noise_per_class:
        n_values, square = n_values.sum(keepdims=True), square.sum(keepdims=True)
    noise = noise_precision_posterior(n_values, square, priors)
    selection = selection_posterior(seen.count, seen.n_rows, priors)
    strength_precision = rng.gamma(strengths.shape, 1 / strengths.rate)
    noise_precision = rng.gamma(noise.shape, 1 / noise.rate)
    probability = np.clip(rng.beta(selection.a, selection.b), 1e-300, 1 - 1e-16)
    parameters = Parameters(
        atoms=priors.atoms.draw(rng, n_atoms, n_features),
        selection_logit=np.log(probability) - np.log1p(-probability),
        strength_precision=strength_precision,
        noise_precision=np.broadcast_to(noise_precision, n_classes).copy(),
        births=np.arange(n_atoms),
    )
    shape = (len(class_of_row), n_atoms)
    usage = rng.random(shape) < probability[class_of_row]
    scale = 1.0 / np.sqrt(strength_precision[class_of_row])[:, np.newaxis]
    codes = usage * (rng.standard_normal(shape) * scale)
    return PriorDraw(parameters, codes, draw_data(rng, class_of_row, parameters, codes))


def draw_data(
    rng: np.random.Generator, class_of_row: Classes, parameters: Parameters, codes: Floats
) -> Floats:
    """Draw data (n_samples, n_features) given everything else."""
    scale = 1.0 / np.sqrt(parameters.noise_precision[class_of_row])[:, np.newaxis]
    noise = rng.standard_normal((len(codes), parameters.atoms.shape[1]))
    return codes @ parameters.atoms + scale * noise
