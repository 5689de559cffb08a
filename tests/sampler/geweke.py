"""Geweke's joint distribution test of a sampler ("Getting it right", 2004).

There are two ways to draw parameters, codes and data from their joint distribution. One draws
parameters and codes from the prior, then data given them. The other alternates a step of the
sampler, which draws parameters and codes given the data, with a draw of the data given them. If
every conditional of the sampler is right, both give the same distribution, so the mean of any
function of all variables is the same; a z-score for each function says whether it is.
"""

from dataclasses import dataclass

import numpy as np

from dbdl.backends.base import parameters_from_host, parameters_to_host
from dbdl.draws import make_key
from dbdl.model.joint import draw_data, draw_from_prior
from dbdl.model.priors import Priors
from dbdl.model.state import Codes, State
from dbdl.sampler.gibbs import Options, step

CLASS_OF_ROW = np.array([0, 1, 0, 0, 1, 0])
N_FEATURES = 3
N_ATOMS = 3
N_BATCHES = 50


@dataclass(frozen=True)
class Sampler:
    """What is tested: priors and options of the steps, and the backend that takes them."""

    priors: Priors
    options: Options
    backend: object


def describe(parameters, codes, X):
    """Functions of all variables whose means are compared, by name.

    Squares go through log(1 + x) and products through arcsinh: their tails are heavy, so the mean
    of few draws would be far from normal.
    """
    atoms, logit = parameters.atoms, parameters.selection_logit
    noise, precision = parameters.noise_precision, parameters.strength_precision
    log_noise, log_precision = np.log(noise), np.log(precision)
    first = CLASS_OF_ROW == 0
    usage = codes != 0
    fit = codes @ atoms
    gram = atoms @ atoms.T
    residual_square = ((X - fit) ** 2).sum(axis=1)
    strength_square = (codes**2).sum(axis=1)
    return {
        "atom 0": np.arcsinh(atoms[0].sum()),
        "atom 2": np.arcsinh(atoms[2].sum()),
        "atom 0 square": np.log1p(gram[0, 0]),
        "atom 2 square": np.log1p(gram[2, 2]),
        "atoms 0 and 1": np.arcsinh(gram[0, 1]),
        "atoms 1 and 2": np.arcsinh(gram[1, 2]),
        "usage of class 0": usage[first].sum(),
        "usage of class 1": usage[~first].sum(),
        "usage of atom 0": usage[:, 0].sum(),
        "usage of atom 2": usage[:, 2].sum(),
        "usage of class 0, squared": float(usage[first].sum()) ** 2,
        "usage of atoms 0 and 1": (usage[:, 0] & usage[:, 1]).sum(),
        "strengths of class 0": np.log1p(strength_square[first].sum()),
        "strengths of class 1": np.log1p(strength_square[~first].sum()),
        "logit of class 0, atom 0": np.arcsinh(logit[0, 0]),
        "logit of class 1, atom 2": np.arcsinh(logit[1, 2]),
        "logits squared": np.log1p((logit**2).sum()),
        "logits where used": np.arcsinh((logit[CLASS_OF_ROW] * usage).sum()),
        "strength precision 0": log_precision[0],
        "strength precision 1": log_precision[1],
        "strength precision 0, squared": log_precision[0] ** 2,
        "scaled strengths": np.log1p((precision[CLASS_OF_ROW] * strength_square).sum()),
        "noise precision 0": log_noise[0],
        "noise precision 1": log_noise[1],
        "noise precision 0, squared": log_noise[0] ** 2,
        "noise times strength precision": log_noise[0] * log_precision[0],
        "noise precision times usage": log_noise[1] * usage[~first].sum(),
        "residuals of class 0": np.log1p(residual_square[first].sum()),
        "residuals of class 1": np.log1p(residual_square[~first].sum()),
        "scaled residuals of class 0": np.log1p(noise[0] * residual_square[first].sum()),
        "scaled residuals of class 1": np.log1p(noise[1] * residual_square[~first].sum()),
        "code times atom": np.arcsinh(codes[0, 0] * atoms[0] @ X[0]),
        "fit times data": np.arcsinh((fit * X).sum()),
        "fit square": np.log1p((fit**2).sum()),
        "contribution of atom 1": np.log1p(gram[1, 1] * (codes[:, 1] ** 2).sum()),
    }


def table(rows):
    """Rows of functions as a dictionary of columns."""
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def draw_from_the_prior(priors, noise_per_class, n_draws, seed):
    """The first way: independent draws."""
    rng = np.random.default_rng(seed)
    draws = (
        draw_from_prior(rng, CLASS_OF_ROW, N_FEATURES, priors, noise_per_class=noise_per_class)
        for _ in range(n_draws)
    )
    return table([describe(*draw) for draw in draws])


def draw_by_steps(sampler, n_steps, seed, redraw=lambda key, state, X: X):
    """The second way: steps of the sampler, each followed by new data.

    ``redraw`` draws some of the new data again, given the rest, parameters and codes. The number of
    the sweep advances with every step, so no random bits of the steps repeat.
    """
    rng, key = np.random.default_rng(seed), make_key(seed)
    per_class = sampler.options.noise_per_class
    start = draw_from_prior(
        rng, CLASS_OF_ROW, N_FEATURES, sampler.priors, noise_per_class=per_class
    )
    state, X, rows = State(start.parameters, Codes.from_dense(start.codes), 0), start.X, []
    for _ in range(n_steps):
        state = take_step(key, state, X, sampler)
        codes = state.codes.to_dense(N_ATOMS)
        # With the data that the step saw, not with new ones: an error shows more clearly.
        rows.append(describe(state.parameters, codes, X))
        X = redraw(key, state, draw_data(rng, CLASS_OF_ROW, state.parameters, codes))
    return table(rows)


def take_step(key, state, X, sampler):
    """One step, wherever the arrays of the backend live."""
    backend = sampler.backend
    data = backend.place(X, CLASS_OF_ROW)
    codes = backend.codes_from_host(data, state.codes, N_ATOMS)
    state = State(parameters_from_host(state.parameters, backend), codes, state.sweep)
    state, _ = step(key, state, data, sampler.priors, sampler.options, backend)
    codes = backend.codes_to_host(state.codes)
    return State(parameters_to_host(state.parameters, backend), codes, state.sweep)


def variance_of_mean(chain):
    """Variance of the mean of correlated draws: that of the means of long batches."""
    length = len(chain) // N_BATCHES
    means = chain[: length * N_BATCHES].reshape(N_BATCHES, length).mean(axis=1)
    return means.var(ddof=1) / N_BATCHES


def z_scores(independent, chain):
    """z-score of every function: the difference of its two means over its standard error."""
    return {
        name: (chain[name].mean() - values.mean())
        / np.sqrt(variance_of_mean(chain[name]) + values.var() / len(values))
        for name, values in independent.items()
    }


def largest(scores):
    """The largest z-score in absolute value, and the name of its function."""
    name = max(scores, key=lambda name: abs(scores[name]))
    return abs(scores[name]), name
