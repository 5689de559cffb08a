"""Each conditional distribution against ratios of the joint density.

Moving one variable from one value to another changes the log joint density by as much as the log
density of the variable's conditional distribution.
"""

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.special import expit
from tiny_model import ATOM_PRIORS, CLASS_OF_ROW, N_ATOMS, N_FEATURES, make_tiny_model

from dbdl.model import conditionals
from dbdl.model.statistics import AtomSums

EXACT = {"rel": 1e-9, "abs": 1e-9}
ENTRIES = [(0, 0), (1, 2), (2, 1), (3, 0), (6, 2)]  # row and atom, of both classes


weights = pytest.mark.parametrize("weighted", [False, True], ids=["no weights", "weights"])


@pytest.fixture(params=[False, True], ids=["shared noise", "noise per class"])
def model(request):
    return make_tiny_model(4, noise_per_class=request.param)


@pytest.fixture(params=[False, True], ids=["no weights", "weights"])
def any_model(request, model):
    """Rows with or without weights, which multiply every term of a row in the joint density."""
    per_class = model.noise_per_class
    return make_tiny_model(4, noise_per_class=per_class, weighted=request.param)


@pytest.fixture(params=ATOM_PRIORS)
def model_of_atoms(request, any_model):
    weighted, per_class = any_model.sample_weight is not None, any_model.noise_per_class
    return make_tiny_model(4, noise_per_class=per_class, prior=request.param, weighted=weighted)


def posterior_of_atoms(model):
    return model.priors.atoms.posterior(model.atom_sums)


def match_and_norm_square(model, i, k):
    atoms = model.parameters.atoms
    left = conditionals.contribution(model.X[i], model.codes[i], atoms, k)
    return atoms[k] @ left, atoms[k] @ atoms[k]


def test_what_others_leave_does_not_depend_on_the_atoms_own_code(model):
    others = model.with_code(2, 1, 0.0)
    np.testing.assert_allclose(
        conditionals.contribution(model.X[2], model.codes[2], model.parameters.atoms, 1),
        model.X[2] - others.codes[2] @ model.parameters.atoms,
        atol=1e-14,
    )


@pytest.mark.parametrize("k", range(N_ATOMS))
def test_an_atom_given_all_others_is_normal_as_in_eq_8(model_of_atoms, k):
    model = model_of_atoms
    posterior = posterior_of_atoms(model)
    mean, precision = conditionals.atom_posterior(posterior, model.parameters.atoms, k)
    rng = np.random.default_rng(k)

    def moved(value):
        atoms = model.parameters.atoms.copy()
        atoms[k] = value
        return model.with_(atoms=atoms).log_joint()

    for _ in range(3):
        first, second = rng.standard_normal((2, N_FEATURES))
        density = stats.norm(mean, precision**-0.5).logpdf
        expected = (density(first) - density(second)).sum()
        assert moved(first) - moved(second) == pytest.approx(expected, **EXACT)


def test_all_atoms_together_are_normal_with_the_joint_precision(model_of_atoms):
    model = model_of_atoms
    posterior = posterior_of_atoms(model)
    first, second = np.random.default_rng(0).standard_normal((2, N_ATOMS, N_FEATURES))

    def log_density(atoms):
        centred = atoms - posterior.mean()
        more = 0.0 if posterior.feature_precision is None else posterior.feature_precision
        return -0.5 * np.vdot(centred, posterior.precision @ centred + more * centred)

    expected = log_density(first) - log_density(second)
    moved = model.with_(atoms=first).log_joint() - model.with_(atoms=second).log_joint()
    assert moved == pytest.approx(expected, **EXACT)


def test_the_paper_s_sums_over_samples_give_the_same_atom():
    model = make_tiny_model(4)  # the paper has one noise precision
    now, codes = model.parameters, model.codes
    posterior = posterior_of_atoms(model)
    for k in range(N_ATOMS):
        left = np.array(
            [
                conditionals.contribution(x, code, now.atoms, k)
                for x, code in zip(model.X, codes, strict=True)
            ]
        )
        noise = now.noise_precision[0]
        precision = model.priors.atoms.precision + noise * (codes[:, k] ** 2).sum()
        mean = noise / precision * codes[:, k] @ left
        found = conditionals.atom_posterior(posterior, now.atoms, k)
        assert found.precision == pytest.approx(precision, rel=1e-12)
        np.testing.assert_allclose(found.mean, mean, rtol=1e-10)


def test_a_posterior_used_as_the_next_prior_loses_nothing():
    model = make_tiny_model(1, prior="joint")
    rng = np.random.default_rng(0)
    more = rng.standard_normal((5, N_ATOMS))
    new = AtomSums(more.T @ more, more.T @ rng.standard_normal((5, N_FEATURES)))
    at_once = model.priors.atoms.posterior(model.atom_sums + new)
    first = posterior_of_atoms(model)
    then = model.priors.atoms.carry(first).posterior(new)
    np.testing.assert_allclose(then.precision, at_once.precision, rtol=1e-12)
    np.testing.assert_allclose(then.mean(), at_once.mean(), rtol=1e-9)


@pytest.mark.parametrize(("i", "k"), ENTRIES)
@pytest.mark.parametrize("strength", [-1.3, 0.4])
def test_usage_given_the_strength_has_the_odds_of_eq_9(model, i, k, strength):
    c, now = CLASS_OF_ROW[i], model.parameters
    log_odds = conditionals.usage_log_odds(
        *match_and_norm_square(model, i, k),
        strength,
        now.selection_logit[c, k],
        now.noise_precision[c],
    )
    # The joint density leaves out the strength of an unused atom: put it back.
    prior = stats.norm.logpdf(strength, 0.0, now.strength_precision[c] ** -0.5)
    used = model.with_code(i, k, strength).log_joint()
    unused = model.with_code(i, k, 0.0).log_joint() + prior
    assert log_odds == pytest.approx(used - unused, **EXACT)


@pytest.mark.parametrize(("i", "k"), ENTRIES)
def test_usage_with_the_strength_integrated_out_has_the_integral_as_odds(model, i, k):
    c, now = CLASS_OF_ROW[i], model.parameters
    log_odds = conditionals.usage_log_odds_collapsed(
        *match_and_norm_square(model, i, k),
        now.selection_logit[c, k],
        now.strength_precision[c],
        now.noise_precision[c],
    )
    unused = model.with_code(i, k, 0.0).log_joint()

    def odds_density(strength):
        return np.exp(model.with_code(i, k, strength).log_joint() - unused)

    integral, _ = quad(odds_density, -30, 30, points=[-3, -1, 0, 1, 3], epsrel=1e-10)
    assert log_odds == pytest.approx(np.log(integral), rel=1e-7, abs=1e-7)


@pytest.mark.parametrize(("i", "k"), ENTRIES)
def test_a_used_strength_is_normal_as_in_eq_10(model, i, k):
    c, now = CLASS_OF_ROW[i], model.parameters
    mean, precision = conditionals.strength_posterior(
        *match_and_norm_square(model, i, k), now.strength_precision[c], now.noise_precision[c]
    )
    density = stats.norm(mean, precision**-0.5).logpdf
    moved = model.with_code(i, k, 0.8).log_joint() - model.with_code(i, k, -1.1).log_joint()
    assert moved == pytest.approx(density(0.8) - density(-1.1), **EXACT)


@pytest.mark.parametrize(("i", "k"), ENTRIES)
def test_a_row_of_weight_w_has_the_density_of_w_rows_with_its_code(model, i, k):
    weighted = make_tiny_model(4, noise_per_class=model.noise_per_class, weighted=True)

    def moved(of_model):
        first, second = (of_model.with_code(i, k, value).log_joint() for value in (0.8, 0.0))
        return first - second

    assert moved(weighted) == pytest.approx(weighted.sample_weight[i] * moved(model), **EXACT)


@pytest.mark.parametrize("c", [0, 1])
@pytest.mark.parametrize("k", range(N_ATOMS))
def test_a_selection_probability_is_beta_as_in_eq_11(any_model, c, k):
    model = any_model
    shapes = conditionals.selection_posterior(model.sums.count, model.data.n_rows, model.priors)

    def moved(logit):
        logits = model.parameters.selection_logit.copy()
        logits[c, k] = logit
        return model.with_(selection_logit=logits).log_joint()

    def density(logit):
        p = expit(logit)  # with respect to the logit: times p (1 - p)
        return stats.beta.logpdf(p, shapes.a[c, k], shapes.b[c, k]) + np.log(p * (1 - p))

    assert moved(1.5) - moved(-2.0) == pytest.approx(density(1.5) - density(-2.0), **EXACT)


def gamma_log_density(posterior, c):
    return stats.gamma(posterior.shape[c], scale=1 / posterior.rate[c]).logpdf


@pytest.mark.parametrize("c", [0, 1])
def test_a_strength_precision_is_gamma_as_in_eq_12_over_used_atoms(any_model, c):
    model = any_model
    posterior = conditionals.strength_precision_posterior(
        model.sums.count.sum(axis=1), model.sums.strength_square, model.priors
    )
    density = gamma_log_density(posterior, c)

    def moved(value):
        precision = model.parameters.strength_precision.copy()
        precision[c] = value
        return model.with_(strength_precision=precision).log_joint()

    assert moved(0.6) - moved(2.5) == pytest.approx(density(0.6) - density(2.5), **EXACT)


@pytest.mark.parametrize("c", [0, 1])
def test_a_strength_precision_is_gamma_as_in_eq_12_over_all_atoms(model, c):
    rng = np.random.default_rng(0)
    rows = model.codes[model.data.class_of_row == c]
    unused = rng.standard_normal((rows == 0).sum())  # strengths that the joint density leaves out
    n_strengths, square = np.zeros(2), np.zeros(2)
    n_strengths[c], square[c] = rows.size, (rows**2).sum() + (unused**2).sum()
    density = gamma_log_density(
        conditionals.strength_precision_posterior(n_strengths, square, model.priors), c
    )

    def moved(value):
        precision = model.parameters.strength_precision.copy()
        precision[c] = value
        joint = model.with_(strength_precision=precision).log_joint()
        return joint + stats.norm.logpdf(unused, 0.0, value**-0.5).sum()

    assert moved(0.6) - moved(2.5) == pytest.approx(density(0.6) - density(2.5), **EXACT)


@weights
def test_a_shared_noise_precision_is_gamma_as_in_eq_13(weighted):
    model = make_tiny_model(2, weighted=weighted)
    n_values = model.data.n_rows.sum(keepdims=True) * N_FEATURES
    assert weighted or n_values == model.X.size
    posterior = conditionals.noise_precision_posterior(
        n_values, model.sums.residual_square.sum(keepdims=True), model.priors
    )
    density = gamma_log_density(posterior, 0)

    def moved(value):
        return model.with_(noise_precision=np.full(2, value)).log_joint()

    assert moved(0.6) - moved(2.5) == pytest.approx(density(0.6) - density(2.5), **EXACT)


@weights
@pytest.mark.parametrize("c", [0, 1])
def test_the_noise_precision_of_a_class_is_gamma_as_in_eq_13(c, weighted):
    model = make_tiny_model(2, noise_per_class=True, weighted=weighted)
    posterior = conditionals.noise_precision_posterior(
        model.data.n_rows * N_FEATURES, model.sums.residual_square, model.priors
    )
    density = gamma_log_density(posterior, c)

    def moved(value):
        precision = model.parameters.noise_precision.copy()
        precision[c] = value
        return model.with_(noise_precision=precision).log_joint()

    assert moved(0.6) - moved(2.5) == pytest.approx(density(0.6) - density(2.5), **EXACT)


@pytest.mark.parametrize("prior", ATOM_PRIORS)
def test_the_posterior_mean_of_the_atoms_maximises_the_joint_density(prior):
    model = make_tiny_model(6, prior=prior)
    posterior = posterior_of_atoms(model)
    best = model.with_(atoms=posterior.mean()).log_joint()
    rng = np.random.default_rng(0)
    for _ in range(10):
        nudge = 1e-3 * rng.standard_normal((N_ATOMS, N_FEATURES))
        assert model.with_(atoms=posterior.mean() + nudge).log_joint() < best


def test_the_fixture_has_used_and_unused_entries_in_both_classes(model):
    counts = model.sums.count.sum(axis=1)
    assert (counts > 0).all()
    assert (counts < model.data.n_rows * N_ATOMS).all()
