"""Kernels of the GPU backend in Triton: draws by address, the sweep, and matching pursuit.

There is one program per row throughout. The scan over a row's atoms (eqs. 9 and 10) is sequential,
with look-ahead. A window of atoms is in registers, and all of them are compared with their draws at
once. The first atom whose state may change is updated, its row of the Gram matrix is subtracted
from the matches behind it, and the comparison is repeated. Atoms between two such events stay
unused in any order. Matches behind the window are updated for all its atoms at once, for all rows
by one matrix product.

The random words are those of `dbdl.draws`, bit by bit. Without a GPU, the kernels are tested in
Triton's interpreter (``TRITON_INTERPRET=1``).
"""

from __future__ import annotations

import triton
import triton.language as tl

#: Entries of a row per thread, which decides the number of warps.
ENTRIES_A_THREAD = 16


def block_and_warps(n_atoms: int) -> tuple[int, int]:
    """Smallest power of two with room for a row of atoms, and the number of warps for it."""
    block = max(triton.next_power_of_2(n_atoms), 128)
    return block, n_warps(block)


def n_warps(block: int) -> int:
    """Return the number of warps for a block of a row."""
    return min(max(block // (32 * ENTRIES_A_THREAD), 1), 32)


# ------------------------------------------------------------------------------------------ draws


@triton.jit
def _philox(key_0, key_1, c0, c1, c2, c3):
    """Four random words for one address (Philox4x32-10), as `dbdl.draws.philox`."""
    for _ in tl.static_range(10):
        high_0 = tl.umulhi(c0, 0xD2511F53)
        high_1 = tl.umulhi(c2, 0xCD9E8D57)
        low_0 = c0 * 0xD2511F53
        low_1 = c2 * 0xCD9E8D57
        c0 = high_1 ^ c1 ^ key_0
        c2 = high_0 ^ c3 ^ key_1
        c1 = low_1
        c3 = low_0
        key_0 += 0x9E3779B9
        key_1 += 0xBB67AE85
    return c0, c1, c2, c3


@triton.jit
def _words(key_0, key_1, place, birth, sweep, last):
    """Words for (place, birth, sweep, site and attempt); any of them may be a block."""
    zero = (place + birth) * 0
    return _philox(
        key_0.to(tl.uint32),
        key_1.to(tl.uint32),
        (place + zero).to(tl.uint32),
        (birth + zero).to(tl.uint32),
        (sweep + zero).to(tl.uint32),
        (last + zero).to(tl.uint32),
    )


@triton.jit
def _to_uniform(high, low):
    """Uniform in (0, 1) from two words: 53 bits and a half, as on the CPU."""
    bits = ((high >> 5).to(tl.int64) << 26) | (low >> 6).to(tl.int64)
    return tl.minimum((bits.to(tl.float64) + 0.5) * 1.1102230246251565e-16, 0.9999999999999999)


@triton.jit
def _two_normals(key_0, key_1, site, place, birth, sweep, attempt):
    """Two standard normals (Box and Muller)."""
    w0, w1, w2, w3 = _words(key_0, key_1, place, birth, sweep, site * 65536 + attempt)
    radius = tl.sqrt(-2.0 * tl.log(_to_uniform(w0, w1)))
    angle = 6.283185307179586 * _to_uniform(w2, w3)
    return radius * tl.cos(angle), radius * tl.sin(angle)


@triton.jit
def _quartered_uniform(key_0, key_1, site, place, birth, sweep):
    """Uniform whose first word is one of the four that four places share."""
    w0, w1, w2, w3 = _words(key_0, key_1, place >> 2, birth, sweep, site * 65536)
    lane = place & 3
    high = tl.where(lane == 0, w0, tl.where(lane == 1, w1, tl.where(lane == 2, w2, w3)))
    low, _, _, _ = _words(key_0, key_1, place, birth, sweep, site * 65536 + 1)
    return _to_uniform(high, low)


# Integers that change between sweeps are not specialised: each value would be compiled again.
@triton.jit(do_not_specialize=["key_0", "key_1", "sweep", "n_columns"])
def fill_normals(
    key_0, key_1, sweep, births, out, n_columns, SITE: tl.constexpr, BLOCK: tl.constexpr
):
    """Fill ``out`` (n_atoms, n_columns) with normals addressed by (pair of columns, birth)."""
    k = tl.program_id(0)
    pair = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    birth = tl.load(births + k)
    first, second = _two_normals(key_0, key_1, SITE, pair, birth, sweep, 0)
    start = out + k.to(tl.int64) * n_columns + 2 * pair
    tl.store(start, first.to(out.dtype.element_ty), mask=2 * pair < n_columns)
    tl.store(start + 1, second.to(out.dtype.element_ty), mask=2 * pair + 1 < n_columns)


@triton.jit
def _log_gamma(key_0, key_1, site, place, birth, sweep, shape, wanted):
    """Logarithms of Gamma(shape, 1) variates (Marsaglia and Tsang), for the wanted entries."""
    small = shape < 1.0
    d = tl.where(small, shape + 1.0, shape) - 1.0 / 3.0
    result = shape * 0.0
    waiting = wanted
    attempt = 0
    while tl.max(waiting.to(tl.int32), axis=0) > 0:
        x, _ = _two_normals(key_0, key_1, site, place, birth, sweep, 2 * attempt)
        w0, w1, w2, w3 = _words(key_0, key_1, place, birth, sweep, site * 65536 + 2 * attempt + 1)
        u, boost = _to_uniform(w0, w1), _to_uniform(w2, w3)
        v = 1.0 + x / tl.sqrt(9.0 * d)
        positive = v > 0.0
        log_v = 3.0 * tl.log(tl.where(positive, v, 1.0))
        accepted = positive & (tl.log(u) < 0.5 * x * x + d * (1.0 - v * v * v + log_v))
        variate = tl.log(d) + log_v
        variate = tl.where(small, variate + tl.log(boost) / shape, variate)
        result = tl.where(waiting & accepted, variate, result)
        waiting = waiting & (accepted == 0)
        attempt += 1
    return result


@triton.jit(do_not_specialize=["key_0", "key_1", "sweep", "n_atoms"])
def draw_selection(
    key_0, key_1, sweep, places, births, count, n_rows, prior, out, n_atoms,
    SITE_A: tl.constexpr, SITE_B: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Fill ``out`` (n_classes, n_atoms) with logits of the selection probabilities (eq. 11).

    prior : (n_classes, 2), the Beta priors; an array, since a number would arrive as float32.
    """
    c = tl.program_id(0)
    k = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = k < n_atoms
    birth = tl.load(births + k, mask=inside, other=0)
    used = tl.load(count + c * n_atoms + k, mask=inside, other=0).to(tl.float64)
    place, rows = tl.load(places + c), tl.load(n_rows + c).to(tl.float64)
    unused = tl.maximum(rows - used, 0.0)  # rounding of weights
    a, b = tl.load(prior + 2 * c) + used, tl.load(prior + 2 * c + 1) + unused
    a = _log_gamma(key_0, key_1, SITE_A, place, birth, sweep, a, inside)
    b = _log_gamma(key_0, key_1, SITE_B, place, birth, sweep, b, inside)
    tl.store(out + c * n_atoms + k, a - b, mask=inside)


# ------------------------------------------------------------------------------------------ sweep


@triton.jit
def _at(values, k, place):
    """Entry ``place`` of a row in registers."""
    return tl.sum(tl.where(k == place, values, values * 0), axis=0)


@triton.jit(do_not_specialize=["key_0", "key_1", "sweep", "n_atoms", "first", "first_row"])
def sweep_window(
    key_0, key_1, sweep, matches, codes, changes, gram, births, class_of_row, selection_logit,
    strength_precision, noise_precision, residual_square, n_atoms, first, first_row,
    USAGE: tl.constexpr, STRENGTH: tl.constexpr, PRIOR: tl.constexpr, PAPER: tl.constexpr,
    WINDOW: tl.constexpr,
):  # fmt: skip
    """Draw the usage and strengths of one row for a window of atoms (eqs. 9 and 10), in place.

    matches, codes : (n_rows, n_atoms), of the row's residual and of the row. Matches behind the
        window are left to the caller, who subtracts changes @ gram from them.
    changes : (n_rows, WINDOW), of the codes in the window.
    first : index of the first atom of the window.
    first_row : index of the first row, which addresses its draws.
    gram : (n_atoms, n_atoms); residual_square : (n_rows,), in float64, changed with the code.
    """
    i = tl.program_id(0)
    dtype = matches.dtype.element_ty
    j = tl.arange(0, WINDOW)
    k = first + j
    inside = k < n_atoms
    row = i.to(tl.int64) * n_atoms
    match = tl.load(matches + row + k, mask=inside, other=0.0)
    before = tl.load(codes + row + k, mask=inside, other=0.0)
    birth = tl.load(births + k, mask=inside, other=0)
    norm_square = tl.load(gram + k.to(tl.int64) * (n_atoms + 1), mask=inside, other=1.0)
    c = tl.load(class_of_row + i)
    noise, prior = tl.load(noise_precision + c), tl.load(strength_precision + c)
    logit_pi = tl.load(selection_logit + c * n_atoms + k, mask=inside, other=0.0)
    place = first_row + i
    u = _quartered_uniform(key_0, key_1, USAGE, place, birth, sweep)
    threshold = tl.log(u / (1.0 - u))
    threshold = tl.where(inside, threshold, float("inf"))
    wide_norm = norm_square.to(tl.float64)
    if PAPER:
        fresh, _other = _two_normals(key_0, key_1, PRIOR, place, birth, sweep, 0)
        strength = tl.where(before != 0.0, before.to(tl.float64), fresh / tl.sqrt(prior))
        # log-odds are offset + slope * match of the atom without itself
        offset = logit_pi - 0.5 * noise * strength * strength * wide_norm
        gain = noise * strength
    else:
        precision = prior + noise * wide_norm
        offset = logit_pi + 0.5 * tl.log(prior / precision)
        gain = 0.5 * noise * noise / precision
    threshold = (threshold - offset).to(dtype)  # the rest is a product to compare with
    gain = gain.to(dtype)
    square = tl.load(residual_square + i)
    code = before
    last = -1
    while last < WINDOW:
        own = match + norm_square * code
        if PAPER:
            wanted = gain * own > threshold
        else:
            wanted = gain * own * own > threshold
        event = (wanted | (code != 0.0)) & (j > last) & inside
        # the first event, and in its lowest bit whether the atom is wanted
        found = tl.min(tl.where(event, 2 * j + (1 - wanted.to(tl.int32)), 2 * WINDOW), axis=0)
        last = found >> 1
        if last < WINDOW:
            atom = (first + last).to(tl.int64)
            # behind the last event nothing was stored yet: these are still the old ones
            old = tl.load(codes + row + atom).to(tl.float64)
            own_norm = tl.load(gram + atom * (n_atoms + 1)).to(tl.float64)
            now = _at(match, j, last).to(tl.float64)
            precision_now = prior + noise * own_norm
            draw, _unused = _two_normals(
                key_0, key_1, STRENGTH, place, tl.load(births + atom), sweep, 0
            )
            mean = noise * (now + own_norm * old) / precision_now
            drawn = mean + draw / tl.sqrt(precision_now)
            new = tl.where((found & 1) == 0, drawn, 0.0).to(dtype)
            change = new.to(tl.float64) - old
            square += change * (own_norm * change - 2.0 * now)
            code = tl.where(j == last, new, code)
            others = tl.load(gram + atom * n_atoms + k, mask=inside & (j > last), other=0.0)
            match -= change.to(dtype) * others
    tl.store(codes + row + k, code, mask=inside)
    tl.store(changes + i.to(tl.int64) * WINDOW + j, code - before)
    tl.store(residual_square + i, tl.maximum(square, 0.0))


@triton.jit(do_not_specialize=["n_atoms", "n_features"])
def subtract_codes(
    codes, atoms, residual, squares, n_atoms, n_features,
    BLOCK_ATOMS: tl.constexpr, BLOCK_FEATURES: tl.constexpr,
):  # fmt: skip
    """Turn a tile of a row into its residual x - code @ atoms (eq. 7), in place.

    The few atoms of a code are looked up and subtracted one by one, which reads far less memory
    than a product with all atoms.

    squares : (n_tiles, n_rows), float64, of each tile of the residual.
    """
    i, tile = tl.program_id(0), tl.program_id(1)
    j = tile * BLOCK_FEATURES + tl.arange(0, BLOCK_FEATURES)
    inside = j < n_features
    place = residual + i.to(tl.int64) * n_features + j
    left = tl.load(place, mask=inside, other=0.0)
    for start in range(0, n_atoms, BLOCK_ATOMS):
        k = start + tl.arange(0, BLOCK_ATOMS)
        code = tl.load(codes + i.to(tl.int64) * n_atoms + k, mask=k < n_atoms, other=0.0)
        now = tl.min(tl.where(code != 0.0, k, n_atoms), axis=0)
        while now < n_atoms:
            atom = tl.load(atoms + now.to(tl.int64) * n_features + j, mask=inside, other=0.0)
            left -= _at(code, k, now) * atom
            now = tl.min(tl.where((code != 0.0) & (k > now), k, n_atoms), axis=0)
    tl.store(place, left, mask=inside)
    wide = left.to(tl.float64)
    tl.store(squares + tile * tl.num_programs(0) + i, tl.sum(wide * wide, axis=0))


# ------------------------------------------------------------------------------- matching pursuit


@triton.jit(do_not_specialize=["n_atoms", "n_nonzero", "dependence", "noise"])
def pursue_rows(
    correlations, row_squares, gram, norm_squares, directions, order, weights, factor, n_chosen,
    n_atoms, n_nonzero, dependence, noise, FORWARD: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Choose the atoms of one row greedily.

    correlations : (n_rows, n_atoms), of atoms with the row; row_squares : (n_rows,);
        norm_squares : (n_atoms,).
    directions : (n_rows, n_nonzero, n_atoms), work: products of all atoms with the chosen ones
        made orthogonal.
    order : (n_rows, n_nonzero), int32; weights : (n_rows, n_nonzero), of the row on the orthogonal
        directions; factor : (n_rows, n_nonzero, n_nonzero), lower: chosen atoms in those
        directions; n_chosen : (n_rows,), int32.
    """
    i = tl.program_id(0).to(tl.int64)
    k = tl.arange(0, BLOCK)
    inside = k < n_atoms
    correlation = tl.load(correlations + i * n_atoms + k, mask=inside, other=0.0)
    norm_square = tl.load(norm_squares + k, mask=inside, other=0.0)
    left = norm_square  # of an atom, off the chosen ones
    free = inside & (norm_square > 0.0)
    own = directions + i * n_nonzero * n_atoms
    nothing = noise * noise * tl.load(row_squares + i)  # a smaller score is rounding
    step = 0
    going = tl.max(free.to(tl.int32), axis=0) > 0
    while (step < n_nonzero) & going:
        usable = free & (left > dependence * norm_square)
        base = left if FORWARD else norm_square
        score = tl.where(usable, correlation * correlation / tl.where(usable, base, 1.0), -1.0)
        best = tl.max(score, axis=0)
        going = best > nothing
        if going:
            chosen = tl.min(tl.where(score == best, k, BLOCK), axis=0)
            root = tl.sqrt(_at(left, k, chosen))
            weight = _at(correlation, k, chosen) / root
            products = tl.load(gram + chosen.to(tl.int64) * n_atoms + k, mask=inside, other=0.0)
            for s in range(step):
                before = tl.load(own + s * n_atoms + k, mask=inside, other=0.0)
                part = _at(before, k, chosen)
                tl.store(factor + (i * n_nonzero + step) * n_nonzero + s, part)
                products -= part * before
            direction = products / root
            tl.store(own + step * n_atoms + k, direction, mask=inside)
            tl.store(factor + (i * n_nonzero + step) * n_nonzero + step, root)
            tl.store(order + i * n_nonzero + step, chosen)
            tl.store(weights + i * n_nonzero + step, weight)
            correlation -= weight * direction
            left -= direction * direction
            free = free & (k != chosen)
            step += 1
    tl.store(n_chosen + i, step)
