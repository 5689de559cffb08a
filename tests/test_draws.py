"""Random numbers: known answers of Philox, distributions, and addresses that do not collide."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from numba import njit
from scipy import stats
from scipy.special import betaincinv, expit, gammainc, gammaln, logit

from dbdl import draws
from dbdl.draws import Site

KEY = draws.make_key(20140)
N = 20_000
# A right sampler fails a test of a fixed seed with this probability, once and for ever.
SMALLEST_P_VALUE = 1e-3


def from_python(inlined):
    """A function that Python can call: inlined ones have no door of their own."""

    @njit
    def call(*arguments):
        return inlined(*arguments)

    return call


philox, to_uniform, log, cos_sin, two_uniforms, two_normals = map(
    from_python,
    (
        draws.philox,
        draws._to_uniform,
        draws._log,
        draws._cos_sin_of_turns,
        draws.two_uniforms,
        draws.two_normals,
    ),
)


def births(n=N):
    return np.arange(n)


def log_gammas(shape, n=N, key=KEY):
    return draws.log_gammas(key, Site.SELECTION, 3, births(n), 5, np.full(n, shape))


def logit_betas(a, b, n=N):
    return draws.logit_betas(KEY, 3, births(n), 5, np.full(n, a), np.full(n, b))


def log_gamma_cdf(x, shape):
    """Of the logarithm of a Gamma(shape, 1) variate; its leading term where exp underflows."""
    tail = np.exp(shape * np.minimum(x, -100) - gammaln(shape + 1))
    return np.where(x < -100, tail, gammainc(shape, np.exp(np.maximum(x, -100))))


@pytest.mark.parametrize(
    ("key", "counter", "words"),
    [
        ([0] * 2, [0] * 4, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ([0xFFFFFFFF] * 2, [0xFFFFFFFF] * 4, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (
            [0xA4093822, 0x299F31D0],
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
    ids=["zeros", "ones", "digits of pi"],
)
def test_philox_gives_the_known_answers_of_its_authors(key, counter, words):
    assert " ".join(f"{word:08x}" for word in philox(tuple(key), *counter)) == words


@pytest.mark.parametrize("word", [0, 0xFFFFFFFF])
def test_a_uniform_lies_strictly_between_0_and_1_even_at_the_last_word(word):
    u = to_uniform(np.uint32(word), np.uint32(word))
    assert 0.0 < u < 1.0
    assert math.isfinite(math.log(u / (1.0 - u)))


def test_the_logit_of_a_uniform_is_that_of_the_uniform_itself():
    address = (KEY, int(Site.USAGE), 4)
    found = [draws.quartered_logit(*address, birth, 9) for birth in range(500)]
    u = [draws.quartered_uniform(*address, birth, 9) for birth in range(500)]
    np.testing.assert_allclose(found, logit(u), rtol=1e-12, atol=1e-15)


def test_bounds_on_logits_are_below_and_close_where_they_are_low():
    n = 100_000
    bounds = np.empty((4, n), dtype=np.float32)
    draws.fill_logit_bounds(KEY, int(Site.USAGE), 8, births(n), 9, bounds)
    for place, bound in enumerate(bounds, start=8):
        exact = np.array(
            [draws.quartered_logit(KEY, int(Site.USAGE), place, k, 9) for k in range(n)]
        )
        assert (bound < exact).all()
        low = exact < -5
        assert low.sum() > 500 and (exact[low] - bound[low]).max() < 0.08


def test_uniforms_of_places_that_share_words_are_uniform_and_independent():
    u = np.array(
        [
            [draws.quartered_uniform(KEY, int(Site.USAGE), place, k, 9) for place in range(8)]
            for k in range(5_000)
        ]
    )
    for column in u.T:
        assert stats.kstest(column, "uniform").pvalue > SMALLEST_P_VALUE
        assert stats.kstest(column * 2**27 % 1, "uniform").pvalue > SMALLEST_P_VALUE  # second words
    correlation = np.corrcoef(u.T) - np.eye(8)
    assert np.abs(correlation).max() < 4.5 / math.sqrt(len(u))


def test_uniforms_are_uniform():
    first, second = np.array(
        [two_uniforms(KEY, int(Site.DATA), i, 0, 0, 0) for i in range(5_000)]
    ).T
    for u in (first, second):
        assert stats.kstest(u, "uniform").pvalue > SMALLEST_P_VALUE
    assert abs(np.corrcoef(first, second)[0, 1]) < 4 / math.sqrt(5_000)


def test_normals_are_normal_and_independent_within_a_pair_and_between_atoms():
    z = draws.normals(KEY, Site.ATOM, births(5_000), 7, 4)
    for column in z.T:
        assert stats.kstest(column, "norm").pvalue > SMALLEST_P_VALUE
    for features in (z, z**2):
        correlation = np.corrcoef(features.T) - np.eye(4)
        assert np.abs(correlation).max() < 4.5 / math.sqrt(len(z))
    assert abs(np.corrcoef(z[1:, 0], z[:-1, 0])[0, 1]) < 4 / math.sqrt(len(z))


def test_normals_reach_into_the_tails():
    z = np.abs(draws.normals(KEY, Site.ATOM, births(50_000), 7, 20))
    assert (z > 4).sum() == pytest.approx(z.size * 2 * stats.norm.sf(4), rel=0.4)
    assert z.max() < 8.66  # sqrt(-2 log(2**-54))


@pytest.mark.parametrize("shape", [0.01, 0.5, 1.0, 3.0, 1e4])
def test_log_gammas_follow_the_gamma_distribution(shape):
    assert stats.kstest(log_gammas(shape), log_gamma_cdf, (shape,)).pvalue > SMALLEST_P_VALUE


@pytest.mark.parametrize(("a", "b"), [(0.5, 2.0), (3.0, 0.7), (1.0, 1.0), (40.0, 9.0)])
def test_logit_betas_follow_the_beta_distribution(a, b):
    p = expit(logit_betas(a, b))
    assert stats.kstest(p, stats.beta(a, b).cdf).pvalue > SMALLEST_P_VALUE


@pytest.mark.parametrize("a", [1e-2, 1e-4, 1e-8])
def test_tiny_shapes_give_finite_logits_of_the_right_size(a):
    logits = logit_betas(a, 30.0)
    assert np.isfinite(logits).all()
    # Far below 0, P(logit <= x) is exp(a x) / (a B(a, b)): quantiles that no double can hold as p.
    log_beta = gammaln(a) + gammaln(30.0) - gammaln(a + 30.0)
    for q in (0.1, 0.5, 0.9):
        x = (math.log(q) + math.log(a) + log_beta) / a
        exact = x if x < -700 else logit(betaincinv(a, 30.0, q))
        share = (logits <= exact).mean()
        assert share == pytest.approx(q, abs=4 * math.sqrt(q * (1 - q) / N))


def ulps(value, exact):
    return abs(value - exact) / np.spacing(abs(exact))


def test_the_logarithm_is_accurate_to_two_units_in_the_last_place():
    rng = np.random.default_rng(0)
    x = np.concatenate(
        [
            2.0 ** -rng.uniform(0, 54, 4_000),
            1.0 + rng.uniform(-0.4, 0.6, 4_000),
            np.exp(rng.uniform(-600, 600, 4_000)),
            np.sqrt(0.5) * (1 + np.arange(-20, 20) * 2.0**-52),
            1.0 - np.arange(1, 20) * 2.0**-53,
        ]
    )
    # Two of our own, and half of one of the C library.
    assert max(ulps(log(value), math.log(value)) for value in x) <= 2.5
    assert log(1.0) == 0.0


def cos_sin_of_turns(u):
    """By exact reduction to an eighth of a turn, then the C library."""
    quarter = round(4 * Fraction(u))
    x = 2 * math.pi * float(Fraction(u) - Fraction(quarter, 4))
    cos, sin = math.cos(x), math.sin(x)
    return [(cos, sin), (-sin, cos), (-cos, -sin), (sin, -cos)][quarter % 4]


def test_cosine_and_sine_of_turns_are_accurate_to_a_few_units_in_the_last_place():
    near = 2.0 ** -np.arange(4.0, 50.0)
    u = np.concatenate(
        [
            np.random.default_rng(1).random(4_000),
            *(corner + sign * near for corner in np.arange(9) / 8 for sign in (1, -1)),
        ]
    )
    for turns in u[(u > 0) & (u < 1)]:
        for ours, exact in zip(cos_sin(turns), cos_sin_of_turns(turns), strict=True):
            assert ulps(ours, exact) <= 4


@pytest.mark.parametrize("n_columns", [1, 2, 7, 300])
def test_filled_normals_equal_scalar_draws(n_columns):
    site, some = int(Site.ATOM), np.array([4, 0, 17])
    filled = draws.normals(KEY, site, some, 9, n_columns)
    for k, birth in enumerate(some):
        for j in range(n_columns):
            pair = two_normals(KEY, site, j // 2, birth, 9, 0)
            assert filled[k, j] == pair[j % 2]
    assert draws.normal(KEY, site, 0, 4, 9) == filled[0, 0]


def test_normals_do_not_depend_on_how_features_are_tiled():
    whole = draws.normals(KEY, Site.ATOM, births(5), 2, 301)
    for first, last in [(0, 256), (256, 301), (64, 128), (300, 301)]:
        tile = np.empty((5, last - first))
        draws.fill_normals(KEY, int(Site.ATOM), births(5), 2, first, tile)
        np.testing.assert_array_equal(tile, whole[:, first:last])


def scalar_log_gamma(birth, shape):
    """Marsaglia and Tsang's method, one variate at a time; and the number of rejections."""
    address = (KEY, int(Site.SELECTION), 1, birth, 2)
    d = (shape + 1 if shape < 1 else shape) - 1 / 3
    for attempt in itertools.count():
        x = two_normals(*address, 2 * attempt)[0]
        u, boost = two_uniforms(*address, 2 * attempt + 1)
        v = (1 + x / math.sqrt(9 * d)) ** 3
        if v > 0 and math.log(u) < x * x / 2 + d * (1 - v + math.log(v)):
            return math.log(d * v) + (math.log(boost) / shape if shape < 1 else 0), attempt
    return None


def test_log_gammas_equal_scalar_draws_also_after_rejections():
    shapes = np.tile([0.01, 0.5, 1.0, 1.5, 3.0, 1e4], 1000)
    found = draws.log_gammas(KEY, Site.SELECTION, 1, births(len(shapes)), 2, shapes)
    expected, n_rejected = zip(*map(scalar_log_gamma, births(len(shapes)), shapes), strict=True)
    assert 0 < sum(n > 0 for n in n_rejected) < 1000 and max(n_rejected) > 1
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


def test_gammas_are_addressed_by_place_and_are_exponentials_of_log_gammas():
    shapes, places = np.array([0.5, 2.0, 40.0]), np.array([7, 0, 3])
    found = draws.gammas(KEY, Site.NOISE_PRECISION, places, 4, shapes)
    for variate, place, shape in zip(found, places, shapes, strict=True):
        one = draws.log_gammas(KEY, Site.NOISE_PRECISION, place, 0, 4, shape)
        assert variate == math.exp(one)


def test_every_address_has_its_own_bits():
    addresses = itertools.product(
        [draws.make_key(0), draws.make_key(0, chain=1), draws.make_key(1)],
        [int(site) for site in Site],
        [0, 1, 2, 70_000],  # rows
        [0, 1, 2, 70_000],  # births
        [0, 1, 2, 40],  # sweeps
        [0, 1, 2],  # attempts
    )
    uniforms = np.array([two_uniforms(*address) for address in addresses]).ravel()
    assert len(np.unique(uniforms)) == len(uniforms)


def test_keys_of_seeds_and_chains_all_differ():
    keys = {draws.make_key(seed, chain) for seed in range(30) for chain in range(30)}
    assert len(keys) == 900


def test_dropping_an_atom_leaves_the_draws_of_the_others_alone():
    kept = np.array([0, 1, 3, 4, 6])
    a, b = np.linspace(0.01, 3, 7), np.linspace(2, 5, 7)
    whole = draws.logit_betas(KEY, 0, births(7), 1, a, b)
    part = draws.logit_betas(KEY, 0, kept, 1, a[kept], b[kept])
    np.testing.assert_array_equal(part, whole[kept])
    np.testing.assert_array_equal(
        draws.normals(KEY, Site.ATOM, kept, 1, 9),
        draws.normals(KEY, Site.ATOM, births(7), 1, 9)[kept],
    )


@pytest.mark.parametrize("shape", [0.0, -1.0, np.nan])
def test_a_shape_that_no_attempt_could_meet_is_an_error(shape):
    with pytest.raises(ValueError, match="must be positive"):
        draws.log_gammas((1, 2), 1, 0, np.arange(3), 0, np.array([1.0, shape, 2.0]))
