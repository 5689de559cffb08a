"""The joint density of the model (eq. 6 and its hyper-priors), and draws from the prior."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, gammaln

from dbdl.model.conditionals import (
    noise_precision_posterior,
    selection_posterior,
    strength_precision_posterior,
)
from dbdl.model.priors import AtomPrior, Priors
from dbdl.model.state import Parameters
from dbdl.model.statistics import SeenSums, UsageSums

Floats = NDArray[np.floating[Any]]
LOG_2PI = float(np.log(2.0 * np.pi))


def log_joint(
    parameters: Parameters,
    sums: UsageSums,
    n_rows: NDArray[np.int64],
    priors: Priors,
    *,
    noise_per_class: bool = False,
) -> float:
    """Log joint density of data, codes and parameters.

    With earlier rows (``priors.seen``), of their usage, strengths and residuals too, as they were;
    what those rows say of the atoms is in the prior of the atoms.

    The strengths of unused atoms are integrated out; the density of a selection probability is
    taken with respect to its logit, where it is bounded.

    Parameters
    ----------
    parameters : Parameters
    sums : UsageSums
        Of the codes: they and the data enter through nothing else.
    n_rows : ndarray of shape (n_classes,)
    priors : Priors
    noise_per_class : bool
        Whether there is one noise precision for each class, each with its own prior.
    """
    small = log_small_terms(parameters, sums, n_rows, priors, noise_per_class=noise_per_class)
    total, n_total = priors.with_seen(sums), priors.n_rows(n_rows)
    return small + log_large_terms(parameters, total, n_total, priors)


def log_small_terms(
    parameters: Parameters,
    sums: UsageSums,
    n_rows: NDArray[np.int64],
    priors: Priors,
    *,
    noise_per_class: bool = False,
) -> float:
    """Log density of data, strengths and precisions: a few numbers a class."""
    noise = parameters.noise_precision
    own_noise = noise if noise_per_class else noise[:1]
    n_features = parameters.atoms.shape[1]
    n_strengths, n_rows = priors.n_strengths(sums), priors.n_rows(n_rows)
    sums = priors.with_seen(sums)
    data = log_normal(n_rows * n_features, sums.residual_square, noise).sum()
    strengths = log_normal(n_strengths, sums.strength_square, parameters.strength_precision).sum()
    return float(
        data
        + strengths
        + log_gamma(
            parameters.strength_precision, priors.strength_shape, priors.strength_rate
        ).sum()
        + log_gamma(own_noise, priors.noise_shape, priors.noise_rate).sum()
    )


def log_large_terms(
    parameters: Parameters, sums: UsageSums, n_rows: NDArray[np.int64], priors: Priors
) -> float:
    """Log density of usage, selection probabilities and atoms: large arrays.

    ``sums`` and ``n_rows`` are over all rows, those seen before included.
    """
    return log_selection(parameters.selection_logit, sums.count, n_rows, priors) + log_atoms(
        parameters.atoms, priors.atoms
    )


def log_normal(n: Floats | NDArray[np.int64], square: Floats, precision: Floats) -> Floats:
    """Log density of ``n`` centred normal values whose squares sum to ``square``."""
    density: Floats = 0.5 * (n * (np.log(precision) - LOG_2PI) - precision * square)
    return density


def log_gamma(x: Floats, shape: float, rate: float) -> Floats:
    """Log density of Gamma(shape, rate)."""
    density: Floats = shape * np.log(rate) - gammaln(shape) + (shape - 1) * np.log(x) - rate * x
    return density


def log_selection(
    logit: Floats, count: NDArray[np.int64], n_rows: NDArray[np.int64], priors: Priors
) -> float:
    """Log density of the usage given the selection probabilities, and of their logits."""
    a = priors.beta_a + count
    b = priors.beta_b + (n_rows[:, np.newaxis] - count)
    # log pi = min(logit, 0) - log(1 + exp(-|logit|)), and log(1 - pi) = log pi - logit.
    log_p = np.minimum(logit, 0.0) - np.log1p(np.exp(-np.abs(logit)))
    total = np.vdot(a, log_p) + np.vdot(b, log_p - logit)
    return float(total - logit.size * betaln(priors.beta_a, priors.beta_b))


def log_atoms(atoms: Floats, prior: AtomPrior) -> float:
    """Log density of the atoms under their prior."""
    n_atoms, n_features = atoms.shape
    atoms = atoms.astype(np.float64, copy=False)
    if not isinstance(prior.precision, np.ndarray):
        log_determinant = n_atoms * np.log(prior.precision)
        square = prior.precision * np.vdot(atoms, atoms)
        if prior.natural_mean is not None:
            square += np.vdot(prior.natural_mean, prior.natural_mean) / prior.precision
    else:
        log_determinant, mean_square = prior.terms
        square = np.vdot(atoms, prior.precision @ atoms) + mean_square
    if prior.natural_mean is not None:
        square -= 2.0 * np.vdot(atoms, prior.natural_mean)
    return float(0.5 * (n_features * (log_determinant - n_atoms * LOG_2PI) - square))


class PriorDraw(NamedTuple):
    """Parameters, dense codes (n_samples, n_atoms) and data (n_samples, n_features)."""

    parameters: Parameters
    codes: Floats
    X: Floats


def draw_from_prior(
    rng: np.random.Generator,
    class_of_row: NDArray[np.int64],
    n_features: int,
    priors: Priors,
    *,
    noise_per_class: bool = False,
) -> PriorDraw:
    """Draw parameters, codes and data from the model (eq. 6).

    Where the priors hold sums of earlier rows, parameters are drawn given these.
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
    probability = rng.beta(selection.a, selection.b)
    probability = np.clip(probability, 1e-300, 1 - 1e-16)
    parameters = Parameters(
        atoms=draw_atoms_from_prior(rng, n_atoms, n_features, priors.atoms),
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


def draw_atoms_from_prior(
    rng: np.random.Generator, n_atoms: int, n_features: int, prior: AtomPrior
) -> Floats:
    """Draw atoms (n_atoms, n_features) from their prior."""
    if isinstance(prior.precision, np.ndarray):
        precision = prior.precision
    else:
        precision = prior.precision * np.eye(n_atoms)
    noise = rng.standard_normal((n_atoms, n_features))
    atoms: Floats = np.linalg.solve(np.linalg.cholesky(precision).T, noise)
    if prior.natural_mean is not None:
        atoms = atoms + np.linalg.solve(precision, prior.natural_mean)
    return atoms


def draw_data(
    rng: np.random.Generator,
    class_of_row: NDArray[np.int64],
    parameters: Parameters,
    codes: Floats,
) -> Floats:
    """Draw data (n_samples, n_features) given everything else."""
    scale = 1.0 / np.sqrt(parameters.noise_precision[class_of_row])[:, np.newaxis]
    noise = rng.standard_normal((len(codes), parameters.atoms.shape[1]))
    data: Floats = codes @ parameters.atoms + scale * noise
    return data
