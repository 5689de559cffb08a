"""Counter-based random numbers: every draw is addressed by its purpose.

Philox4x32-10 (Salmon, Moraes, Dror and Shaw, 2011) turns a key and a counter of four words into
four random words. The key stands for the seed and the chain; the counter is the address

    (row number or class's first row or feature, birth number of the atom, sweep, site and attempt)

so a draw depends neither on the order in which draws are made nor on threads, blocks or shards,
and dropping an atom leaves the random bits of all others alone. Any device that computes Philox
sees the same bits.
"""

from __future__ import annotations

import math
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbdl._compile import inlined, kernel

Key = tuple[int, int]


class Site(IntEnum):
    """Purpose of a draw: the high half of the last word of the address."""

    START_ATOM = 1
    ATOM = 2
    USAGE = 3
    STRENGTH = 4
    PRIOR_STRENGTH = 5
    SELECTION = 6
    NOT_SELECTION = 7
    STRENGTH_PRECISION = 8
    INACTIVE_STRENGTHS = 9
    NOISE_PRECISION = 10
    DATA = 11
    FOLD = 12
    MISSING = 13
    THINNING = 14


# Constants of Philox4x32-10 as its authors published them.
_MULTIPLIER_0 = np.uint64(0xD2511F53)
_MULTIPLIER_1 = np.uint64(0xCD9E8D57)
_WEYL_0 = 0x9E3779B9
_WEYL_1 = 0xBB67AE85
_32 = np.uint64(32)
# Of type int64, like counted attempts: for a plain 0, functions would be compiled once more.
_FIRST, _SECOND = np.int64(0), np.int64(1)
_KEY_0 = tuple(np.uint32(i * _WEYL_0 & 0xFFFFFFFF) for i in range(10))
_KEY_1 = tuple(np.uint32(i * _WEYL_1 & 0xFFFFFFFF) for i in range(10))


def make_key(seed: int, chain: int = 0) -> Key:
    """Key of one chain of one seed."""
    low, high = np.random.SeedSequence(seed, spawn_key=(chain,)).generate_state(2, np.uint32)
    return int(low), int(high)


@inlined()
def _round(x0, x1, x2, x3, k0, k1):
    product_0 = _MULTIPLIER_0 * np.uint64(x0)
    product_1 = _MULTIPLIER_1 * np.uint64(x2)
    return (
        np.uint32(np.uint32(product_1 >> _32) ^ x1 ^ np.uint32(k0)),
        np.uint32(product_1),
        np.uint32(np.uint32(product_0 >> _32) ^ x3 ^ np.uint32(k1)),
        np.uint32(product_0),
    )


@inlined()
def philox(key, c0, c1, c2, c3):
    """Four random 32-bit words for one address."""
    k0, k1 = np.uint32(key[0]), np.uint32(key[1])
    x0, x1, x2, x3 = np.uint32(c0), np.uint32(c1), np.uint32(c2), np.uint32(c3)
    # Ten rounds written out: around such lines LLVM makes vector code, around a loop it does not.
    x0, x1, x2, x3 = _round(x0, x1, x2, x3, k0 + _KEY_0[0], k1 + _KEY_1[0])
    x0, x1, x2, x3 = _round(x0, x1, x2, x3, k0 + _KEY_0[1], k1 + _KEY_1[1])
    x0, x1, x2, x3 = _round(x0, x1, x2, x3, k0 + _KEY_0[2], k1 + _KEY_1[2])
    x0, x1, x2, x3 = _round(x0, x1, x2, x3, k0 + _KEY_0[3], k1 + _KEY_1[3])
    x0, x1, x2, x3 = _round(x0, x1, x2, x3, k0 + _KEY_0[4], k1 + _KEY_1[4])
    x0, x1, x2, x3 = _round(x0, x1, x2, x3, k0 + _KEY_0[5], k1 + _KEY_1[5])
    x0, x1, x2, x3 = _round(x0, x1, x2, x3, k0 + _KEY_0[6], k1 + _KEY_1[6])
    x0, x1, x2, x3 = _round(x0, x1, x2, x3, k0 + _KEY_0[7], k1 + _KEY_1[7])
    x0, x1, x2, x3 = _round(x0, x1, x2, x3, k0 + _KEY_0[8], k1 + _KEY_1[8])
    x0, x1, x2, x3 = _round(x0, x1, x2, x3, k0 + _KEY_0[9], k1 + _KEY_1[9])
    return x0, x1, x2, x3


@inlined()
def _to_uniform(high, low):
    """Uniform in the open interval (0, 1) from two words: 53 bits and a half."""
    bits = (np.int64(high >> np.uint32(5)) << 26) | np.int64(low >> np.uint32(6))
    # For the last of the 2**53 the sum rounds to 2**53: kept below 1.
    return min((np.float64(bits) + 0.5) * 1.1102230246251565e-16, 0.9999999999999999)


@inlined()
def _last_word(site, attempt):
    return np.uint32(site * 65536 + attempt)


@inlined()
def two_uniforms(key, site, place, birth, sweep, attempt):
    """Two independent uniforms in (0, 1)."""
    w0, w1, w2, w3 = philox(key, place, birth, sweep, _last_word(site, attempt))
    return _to_uniform(w0, w1), _to_uniform(w2, w3)


@kernel()
def fill_uniforms(key, site, places, births, sweep, out):
    """Fill ``out`` (n,) with the uniforms of so many places and births."""
    for i in range(len(out)):
        out[i] = two_uniforms(key, site, places[i], births[i], sweep, _FIRST)[0]


@inlined()
def _log(x):
    """Natural logarithm of a positive, normal double, without branches.

    The C library's logarithm is a call that keeps LLVM from using vector registers, and draws
    are made by the million. Reduction to [sqrt(1/2), sqrt(2)) and the series of log((1+s)/(1-s)),
    fitted as in fdlibm; errors stay below two units in the last place.
    """
    bits = np.float64(x).view(np.int64)
    above = (bits & 0xFFFFFFFFFFFFF) >= 0x6A09E667F3BCD  # mantissa of sqrt(2)
    exponent = (bits >> 52) - 1023 + (1 if above else 0)
    mantissa = np.int64((bits & 0xFFFFFFFFFFFFF) | ((1022 if above else 1023) << 52))
    f = mantissa.view(np.float64) - 1.0
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    even = w * (0.3999999999940941908 + w * (0.2222219843214978396 + w * 0.1531383769920937332))
    odd = z * (
        0.6666666666666735130
        + w * (0.2857142874366239149 + w * (0.1818357216161805012 + w * 0.1479819860511658591))
    )
    half = 0.5 * f * f
    return exponent * 0.6931471805599453 - (half - s * (half + even + odd) - f)


@inlined()
def _cos_sin_of_turns(u):
    """cos(2 pi u) and sin(2 pi u) for u in (0, 1), without branches (fdlibm's polynomials)."""
    quarter = np.int64(4.0 * u + 0.5)
    x = (4.0 * u - quarter) * (0.5 * math.pi)
    z = x * x
    sin = -2.50507602534068634195e-08 + z * 1.58969099521155010221e-10
    sin = -1.98412698298579493134e-04 + z * (2.75573137070700676789e-06 + z * sin)
    sin = -1.66666666666666324348e-01 + z * (8.33333333332248946124e-03 + z * sin)
    sin = x + x * z * sin
    cos = 2.08757232129817482790e-09 + z * -1.13596475577881948265e-11
    cos = 2.48015872894767294178e-05 + z * (-2.75573143513906633035e-07 + z * cos)
    cos = 4.16666666666666019037e-02 + z * (-1.38888888888741095749e-03 + z * cos)
    cos = 1.0 - 0.5 * z + z * z * cos
    swap = (quarter & 1) != 0
    first = sin if swap else cos
    second = cos if swap else sin
    first = -first if ((quarter + 1) & 2) != 0 else first
    second = -second if (quarter & 2) != 0 else second
    return first, second


@inlined()
def two_normals(key, site, place, birth, sweep, attempt):
    """Two independent standard normals (Box and Muller)."""
    u1, u2 = two_uniforms(key, site, place, birth, sweep, attempt)
    radius = math.sqrt(-2.0 * _log(u1))
    cos, sin = _cos_sin_of_turns(u2)
    return radius * cos, radius * sin


@kernel()
def normal(key, site, place, birth, sweep):
    """One standard normal."""
    return two_normals(key, site, place, birth, sweep, _FIRST)[0]


@kernel()
def _try_log_gammas(key, site, places, births, sweep, shapes, attempt, out, accepted):
    """One attempt of Marsaglia and Tsang (2000) at each log Gamma(shapes, 1) variate.

    In logarithms, since for a small shape the variate itself underflows:
    log Gamma(a) = log Gamma(a + 1) + log(u) / a. No branch, so that LLVM uses vector registers.
    """
    for k in range(len(out)):
        shape = shapes[k]
        small = shape < 1.0
        d = (shape + 1.0 if small else shape) - 1.0 / 3.0
        x, _ = two_normals(key, site, places[k], births[k], sweep, 2 * attempt)
        u, boost = two_uniforms(key, site, places[k], births[k], sweep, 2 * attempt + 1)
        v = 1.0 + x / math.sqrt(9.0 * d)
        positive = v > 0.0
        log_v = 3.0 * _log(v if positive else 1.0)
        accepted[k] = positive & (_log(u) < 0.5 * x * x + d * (1.0 - v * v * v + log_v))
        raised = _log(d) + log_v
        out[k] = raised + _log(boost) / shape if small else raised


@kernel(allocates=True)
def fill_normals(key, site, births, sweep, first_feature, out):
    """Fill ``out`` (n_atoms, n_columns) with standard normals addressed by (feature, birth).

    ``first_feature`` must be even: features share an address in pairs.
    """
    n_atoms, n_columns = out.shape
    n_pairs = (n_columns + 1) // 2
    first, second = np.empty(n_pairs), np.empty(n_pairs)
    for k in range(n_atoms):
        for pair in range(n_pairs):
            first[pair], second[pair] = two_normals(
                key, site, first_feature // 2 + pair, births[k], sweep, _FIRST
            )
        row = out[k]
        for pair in range(n_columns // 2):
            row[2 * pair] = first[pair]
            row[2 * pair + 1] = second[pair]
        if n_columns % 2 == 1:
            row[n_columns - 1] = first[n_pairs - 1]


#: Places that share the first word of a `quartered_uniform`.
PLACES_OF_A_DRAW = 4


@inlined()
def _quartered_uniform(key, site, place, birth, sweep):
    words = philox(key, place >> 2, birth, sweep, _last_word(site, _FIRST))
    low, _, _, _ = philox(key, place, birth, sweep, _last_word(site, _SECOND))
    return _to_uniform(words[place & 3], low)


@kernel()
def quartered_uniform(key, site, place, birth, sweep):
    """One uniform in (0, 1) whose first word is one of the four that four places share.

    The first word holds the leading bits, so bounds for four places cost one call of Philox
    (`fill_logit_bounds`); the second is drawn only where more bits are needed.
    """
    return _quartered_uniform(key, site, place, birth, sweep)


@kernel()
def quartered_logit(key, site, place, birth, sweep):
    """Logit of the same uniform."""
    u = _quartered_uniform(key, site, place, birth, sweep)
    return _log(u / (1.0 - u))


@inlined()
def _logit_bound(first_word):
    """Bound the logit of the uniform with this first word from below, closely if it is low.

    logit(u) is at least log(u), and the bits of a float32 read as an integer are 2**23 times a
    number that is below its logarithm to base 2 by at most 0.09, plus 127: no logarithm is taken.
    """
    top = np.float32(np.int32(first_word >> np.uint32(5)))  # u is top * 2**-27 and more
    bits = np.float32(top.view(np.int32))
    # 154 = 127 + 27, and a little more: top was rounded. Of 0 nothing is known but u > 0.
    bound = (bits * np.float32(2.0**-23) - np.float32(154.001)) * np.float32(0.6931472)
    return bound if top > np.float32(0.0) else np.float32(-1e30)


@kernel()
def fill_logit_bounds(key, site, first_place, births, sweep, out):
    """Fill ``out`` (4, n_atoms), float32, with numbers below the `quartered_logit` of four places.

    ``first_place`` must be a multiple of four.
    """
    out_0, out_1, out_2, out_3 = out[0], out[1], out[2], out[3]
    for k in range(len(births)):
        w0, w1, w2, w3 = philox(key, first_place >> 2, births[k], sweep, _last_word(site, _FIRST))
        out_0[k] = _logit_bound(w0)
        out_1[k] = _logit_bound(w1)
        out_2[k] = _logit_bound(w2)
        out_3[k] = _logit_bound(w3)


Numbers = NDArray[np.int64] | int
Array = NDArray[Any]
Doubles = NDArray[np.float64]


def log_gammas(
    key: Key, site: int, places: Numbers, births: Numbers, sweep: int, shapes: Array
) -> Doubles:
    """Return logarithms of Gamma(shapes, 1) variates, addressed by place and birth.

    The arguments are broadcast against each other.
    """
    shape = np.broadcast(places, births, shapes).shape
    places, births = _spread(places, shape, np.int64), _spread(births, shape, np.int64)
    flat = _spread(shapes, shape, np.float64)
    if not (flat > 0).all():  # no attempt at such a variate would ever be accepted
        raise ValueError(f"shapes of Gamma variates must be positive, got {flat.min()}")
    out, left, attempt = np.empty(flat.size), np.arange(flat.size), 0
    while len(left):  # those that the last attempt did not accept
        out_left, accepted = np.empty(len(left)), np.empty(len(left), dtype=np.bool_)
        at = places[left], births[left], sweep, flat[left]
        _try_log_gammas(key, int(site), *at, attempt, out_left, accepted)
        out[left] = out_left
        left, attempt = left[~accepted], attempt + 1
    return out.reshape(shape)


def _spread(values: Array | int, shape: tuple[int, ...], dtype: Any) -> Array:
    """Values broadcast to a shape, as a flat array: a third of the time of np.broadcast_arrays."""
    spread = np.empty(shape, dtype)
    spread[...] = values
    return spread.ravel()


def gammas(key: Key, site: int, places: NDArray[np.int64], sweep: int, shapes: Array) -> Doubles:
    """Return Gamma(shapes, 1) variates (n_places,), addressed by place; for a few places."""
    # one by one: NumPy's exponential may round differently with another length
    logarithms = log_gammas(key, site, places, 0, sweep, shapes)
    return np.array([math.exp(logarithm) for logarithm in logarithms])


def logit_betas(
    key: Key, places: Numbers, births: Numbers, sweep: int, a: Array, b: Array
) -> Doubles:
    """Return logit Beta(a, b) variates, addressed by place and birth.

    The logit of a Beta variate is the difference of the logarithms of two Gamma variates; drawn
    this way nothing underflows, however small ``a`` is.
    """
    logit = log_gammas(key, Site.SELECTION, places, births, sweep, a)
    logit -= log_gammas(key, Site.NOT_SELECTION, places, births, sweep, b)
    return logit


def uniforms(key: Key, site: int, places: Numbers, births: Numbers, sweep: int = 0) -> Doubles:
    """Return uniforms for places and births, of which one may be a number."""
    places, births = np.broadcast_arrays(places, births)
    out = np.empty(places.shape)
    fill_uniforms(key, int(site), places.astype(np.int64), births.astype(np.int64), sweep, out)
    return out


def normals(key: Key, site: int, births: NDArray[np.int64], sweep: int, n_columns: int) -> Doubles:
    """Return standard normals (n_atoms, n_columns) addressed by (column, birth)."""
    out = np.empty((len(births), n_columns))
    fill_normals(key, int(site), births, sweep, 0, out)
    return out
