"""Whole chains draw from the posterior: simulation-based calibration (Talts et al., 2018).

Parameters, codes and data are drawn from the prior. A chain over the data, started elsewhere, then
draws from their posterior, as the true values do. So the rank of a true value among the draws is
uniform, for any function of all variables. These functions do not depend on the order of the atoms,
which the data do not tell. The number of atoms is fixed: dropping atoms is not a Gibbs step.

Geweke's test (`test_geweke`) looks at single steps, with new data for each. This one looks at what
users get: many steps over the same data.
"""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.stats import chisquare

from dbdl.backends import BACKENDS, host
from dbdl.backends.base import parameters_from_host, parameters_to_host
from dbdl.backends.numba_cpu import NumbaBackend
from dbdl.backends.reference import ReferenceBackend
from dbdl.backends.sharded import InTurn, ShardedBackend
from dbdl.draws import make_key
from dbdl.model import codes as model_codes
from dbdl.model import conditionals
from dbdl.model.conditionals import Beta, Gamma, Normal
from dbdl.model.joint import draw_from_prior, log_joint
from dbdl.model.priors import Priors
from dbdl.model.state import Codes, State
from dbdl.sampler.gibbs import Options, step

pytestmark = pytest.mark.slow

CLASS_OF_ROW = np.array([0, 1, 0, 0, 1, 0, 0, 1])
N_FEATURES, N_ATOMS = 3, 3
#: Proper priors with noise as large as the data, so that chains mix: after 10 steps the functions
#: below are hardly correlated, and the draws count as independent. Otherwise ranks at both ends
#: would be too frequent, and the test would fail.
PRIORS = Priors(3.0, 3.0, N_ATOMS, 5.0, 5.0, 5.0, 5.0)
BURN_IN, THIN, N_DRAWS = 20, 10, 7
#: A right sampler with new seeds would fail a test with at most this probability (Bonferroni over
#: the functions); a planted error must be much less probable under it.
BY_CHANCE, BY_ERROR = 1e-3, 1e-6
REFERENCE = ReferenceBackend()


@dataclass(frozen=True)
class Chain:
    """What is tested: the options of the steps, and the backend that takes them."""

    options: Options
    backend: object = REFERENCE

    def draw_from_prior(self, rng):
        per_class = self.options.noise_per_class
        return draw_from_prior(rng, CLASS_OF_ROW, N_FEATURES, PRIORS, noise_per_class=per_class)

    def run(self, key, start, X):
        """States (parameters, codes) of a chain over the data, after burning in and thinned."""
        backend, data = self.backend, self.backend.place(X, CLASS_OF_ROW)
        codes = backend.codes_from_host(data, Codes.from_dense(start.codes), N_ATOMS)
        state = State(parameters_from_host(start.parameters, backend), codes, 0)
        for number in range(1, BURN_IN + THIN * N_DRAWS + 1):
            state, _ = step(key, state, data, PRIORS, self.options, backend)
            if number > BURN_IN and (number - BURN_IN) % THIN == 0:
                codes = backend.codes_to_host(state.codes).to_dense(N_ATOMS)
                yield parameters_to_host(state.parameters, backend), codes

    def ranks(self, seed):
        """Rank of each true value among the draws of one chain; equal values in random order."""
        rng = np.random.default_rng([14, seed])
        parameters, codes, X = self.draw_from_prior(rng)
        states = [(parameters, codes), *self.run(make_key(seed), self.draw_from_prior(rng), X)]
        per_class = self.options.noise_per_class
        values = [describe(*state, X, per_class) for state in states]
        tie = rng.random(len(values))
        ranks = {}
        for name in values[0]:
            order = np.lexsort([tie, [value[name] for value in values]])
            ranks[name] = int(np.flatnonzero(order == 0)[0])
        return ranks

    def p_values(self, n_chains, first_seed):
        """Probability of ranks as uneven as these, for each function."""
        ranks = [self.ranks(first_seed + number) for number in range(n_chains)]
        return {
            name: chisquare(np.bincount([r[name] for r in ranks], minlength=N_DRAWS + 1)).pvalue
            for name in ranks[0]
        }


def describe(parameters, codes, X, noise_per_class):
    """Functions of all variables that do not depend on the order of the atoms, by name."""
    data = REFERENCE.place(X, CLASS_OF_ROW)
    sums = REFERENCE.usage(data, Codes.from_dense(codes), parameters)
    fit = codes @ parameters.atoms
    usage = (codes != 0).sum(axis=1)
    return {
        "non-zeros": usage.sum(),
        "non-zeros of class 1": usage[CLASS_OF_ROW == 1].sum(),
        "noise precision of class 0": parameters.noise_precision[0],
        "noise precision of class 1": parameters.noise_precision[1],
        "strength precision of class 0": parameters.strength_precision[0],
        "strength precision of class 1": parameters.strength_precision[1],
        "squared strengths": (codes**2).sum(),
        "squared atoms": (parameters.atoms**2).sum(),
        "squared fit": (fit**2).sum(),
        "fit times data": (fit * X).sum(),
        "squared residuals": ((X - fit) ** 2).sum(),
        "selection probabilities": (1 / (1 + np.exp(-parameters.selection_logit))).sum(),
        "log joint density": log_joint(
            parameters, sums, data.n_rows, PRIORS, noise_per_class=noise_per_class
        ),
    }


def least(p_values):
    """The least p-value, times their number, and its name."""
    name = min(p_values, key=p_values.get)
    return len(p_values) * p_values[name], name


PARTS = ShardedBackend(
    block_rows=4, inner=NumbaBackend(block_rows=4), engine=InTurn(part_bytes=1)
)  # two parts


@pytest.mark.parametrize(
    "chain",
    [
        Chain(Options("collapsed"), NumbaBackend()),
        Chain(Options("paper", noise_per_class=True, strengths_counted="all"), NumbaBackend()),
        Chain(Options("collapsed", noise_per_class=True), REFERENCE),
        Chain(Options("paper"), REFERENCE),
        Chain(Options("collapsed", noise_per_class=True), PARTS),
    ],
    ids=["numba", "numba, the paper's", "reference", "reference, the paper's", "rows in parts"],
)
def test_true_values_have_uniform_ranks_among_draws(request, chain):
    seed = 10_000 * sum(request.node.name.encode())  # other bits for every case
    p_value, name = least(chain.p_values(280, seed))
    assert p_value > BY_CHANCE, name


def test_true_values_have_uniform_ranks_among_draws_on_a_gpu():
    """Not in Triton's interpreter, which takes minutes for one of these chains."""
    if not pytest.importorskip("torch").cuda.is_available():
        pytest.skip("needs a GPU")
    chain = Chain(Options("collapsed", noise_per_class=True), BACKENDS["torch"](n_threads=1))
    p_value, name = least(chain.p_values(280, 7_000_000))
    assert p_value > BY_CHANCE, name


def strengths_with_half_the_precision(*arguments):
    mean, precision = conditionals.strength_posterior(*arguments)
    return Normal(mean, 0.5 * precision)


def noise_with_twice_the_values(n_values, residual_square, priors):
    return Gamma(priors.noise_shape + n_values, priors.noise_rate + 0.5 * residual_square)


def selection_without_b(count, n_rows, priors):
    unused = np.maximum(n_rows[:, np.newaxis] - count, 1e-3)
    return Beta(priors.beta_a + count, unused)


@pytest.mark.parametrize(
    "error",
    [
        (model_codes, "strength_posterior", strengths_with_half_the_precision),
        (conditionals, "noise_precision_posterior", noise_with_twice_the_values),
        (host, "selection_posterior", selection_without_b),
    ],
    ids=lambda error: error[2].__name__,
)
def test_an_error_in_a_conditional_would_show(monkeypatch, error):
    monkeypatch.setattr(*error)
    p_value, _ = least(Chain(Options("collapsed")).p_values(120, first_seed=0))
    assert p_value < BY_ERROR
