"""Orthogonal matching pursuit against a slow reference, scikit-learn, and its own promises."""

import sys
import warnings

import numpy as np
import pytest
from scipy.sparse import csr_matrix, issparse
from sklearn.datasets import load_digits
from sklearn.linear_model import orthogonal_mp_gram

from dbdl.coding.omp import encode, gram_matrix, omp, omp_path

pytestmark = pytest.mark.bits

RULES = ("orthogonal", "forward")


def pursue_slowly(x, atoms, n_nonzero, rule, tol=None):
    """The definition: project on the chosen atoms by least squares, choose, repeat."""
    chosen, residual = [], x
    coefficients = np.zeros(0)
    norms = np.linalg.norm(atoms, axis=1)
    for _ in range(n_nonzero):
        if tol is not None and np.linalg.norm(residual) <= tol:
            break
        basis = np.linalg.qr(atoms[chosen].T)[0]
        left = atoms - (atoms @ basis) @ basis.T
        left_norms = np.linalg.norm(left, axis=1)
        possible = left_norms**2 > 1e-10 * norms**2
        possible[chosen] = False
        correlation = np.abs(atoms @ residual)
        scale = left_norms if rule == "forward" else norms
        score = np.where(possible, correlation / np.where(possible, scale, 1), 0)
        if score.max() <= 1e-13 * np.linalg.norm(x):
            break
        chosen.append(int(score.argmax()))
        coefficients = np.linalg.lstsq(atoms[chosen].T, x, rcond=None)[0]
        residual = x - coefficients @ atoms[chosen]
    code = np.zeros(len(atoms))
    code[chosen] = coefficients
    return code, chosen


def reference(X, atoms, n_nonzero, rule, tol=None):
    return np.array([pursue_slowly(x, atoms, n_nonzero, rule, tol)[0] for x in X])


def correlated(n_samples, n_atoms, n_features, seed=0, spread=0.5):
    """Rows and atoms around a few common directions, of many norms, as faces are."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((5, n_features))

    def rows(n):
        near = centres[rng.integers(0, 5, n)] + spread * rng.standard_normal((n, n_features))
        return near * rng.uniform(0.1, 10, (n, 1))

    return rows(n_samples), rows(n_atoms)


def same(a, b):
    """Two CSR matrices with the same bits."""
    return (
        a.shape == b.shape
        and a.dtype == b.dtype
        and np.array_equal(a.indptr, b.indptr)
        and np.array_equal(a.indices, b.indices)
        and np.array_equal(a.data, b.data)
    )


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("shape", [(40, 70, 30, 12), (5, 300, 64, 30), (35, 20, 50, 15)])
def test_codes_are_those_of_the_slow_definition(rule, shape):
    n_samples, n_atoms, n_features, n_nonzero = shape
    X, atoms = correlated(n_samples, n_atoms, n_features)
    codes = omp(X, atoms, n_nonzero, rule=rule)
    expected = reference(X, atoms, n_nonzero, rule)
    np.testing.assert_allclose(codes.toarray(), expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("rule", RULES)
def test_a_path_filling_nearly_the_whole_space_is_that_of_the_slow_definition(rule):
    # Projected norms get small towards the end: the float32 screen has to give way. The sixteenth
    # atom is left out, since what remains is one direction and every atom lowers it to zero.
    X, atoms = correlated(20, 60, 16, seed=3, spread=0.1)
    codes = omp(X, atoms, 15, rule=rule).toarray()
    expected = reference(X, atoms, 15, rule)
    assert np.array_equal(codes != 0, expected != 0)
    np.testing.assert_allclose(codes, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("rule", RULES)
def test_as_many_atoms_as_features_rebuild_the_rows(rule):
    X, atoms = correlated(20, 60, 16, seed=3, spread=0.1)
    codes = omp(X, atoms, 16, rule=rule)
    np.testing.assert_allclose(codes @ atoms, X, atol=1e-8 * np.abs(X).max())


@pytest.mark.parametrize("rule", RULES)
def test_near_twins_among_the_atoms_do_not_mislead_the_screen(rule):
    X, atoms = correlated(30, 60, 40, seed=4)
    rng = np.random.default_rng(5)
    twins = atoms + 1e-4 * np.linalg.norm(atoms, axis=1, keepdims=True) * rng.standard_normal(
        atoms.shape
    )
    atoms = np.concatenate([atoms, twins])
    codes = omp(X, atoms, 20, rule=rule).toarray()
    expected = reference(X, atoms, 20, rule)
    assert np.array_equal(codes != 0, expected != 0)
    np.testing.assert_allclose(codes, expected, rtol=1e-4, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("part", [1e-7, 1e-8])
def test_what_is_left_of_a_row_is_coded_exactly_however_little_it_is(rule, part):
    # Three atoms make up the row but for a part at which float32 sees its own rounding alone.
    rng = np.random.default_rng(0)
    atoms = rng.standard_normal((200, 60))
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    truth = np.zeros((20, 200))
    for row in truth:
        row[rng.choice(200, 3, replace=False)] = rng.uniform(1, 2, 3)
    X = truth @ atoms + part * rng.standard_normal((20, 60))
    codes = omp(X, atoms, 10, rule=rule).toarray()
    expected = reference(X, atoms, 10, rule)
    assert np.array_equal(codes != 0, expected != 0)
    np.testing.assert_allclose(codes, expected, rtol=1e-5, atol=1e-3 * part)


def test_atoms_that_hardly_differ_are_told_apart_by_what_they_differ_in():
    # Once one is chosen, squared norms of 2e-7 are left of the others: in float32 a third of that
    # is rounding, and forward rule divides by it.
    rng = np.random.default_rng(0)

    def aside(n):
        directions = rng.standard_normal((n, 40))
        directions[:, 0] = 0
        return directions / np.linalg.norm(directions, axis=1, keepdims=True)

    shared = np.eye(40)[0]
    X, atoms = 0.8 * shared + 0.6 * aside(60), shared + 3e-4 * aside(60)
    codes = omp(X, atoms, 2, rule="forward").toarray()
    expected = reference(X, atoms, 2, "forward")
    assert np.array_equal(codes != 0, expected != 0)
    np.testing.assert_allclose(codes, expected, rtol=1e-4, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    "places", [(0, 1), (2, 7), (1, 128), (5, 131, 256), (127, 128), (130, 256)], ids=repr
)
def test_of_equally_good_atoms_the_first_is_chosen(rule, places):
    # Products of ones and zeros are exact, so the scores are equal to the last bit.
    atoms = np.tile([0.0, 0.0, 0.0, 1.0], (300, 1))
    atoms[list(places)] = [1.0, 0.0, 0.0, 0.0]
    x = np.array([[1.0, 0.0, 0.0, 0.5]])
    codes = omp(x, atoms, 2, rule=rule)
    others = np.setdiff1d(np.arange(300), places)
    np.testing.assert_array_equal(codes.indices, np.sort([places[0], others[0]]))
    assert codes[0, places[0]] == pytest.approx(1.0)


def test_textbook_codes_are_those_of_scikit_learn():
    X, atoms = correlated(50, 200, 80, seed=1)
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    expected = orthogonal_mp_gram(atoms @ atoms.T, atoms @ X.T, n_nonzero_coefs=25).T
    np.testing.assert_allclose(omp(X, atoms, 25).toarray(), expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("rule", RULES)
def test_coefficients_are_the_least_squares_on_their_support(rule):
    X, atoms = correlated(20, 150, 60, seed=2)
    for x, code in zip(X, omp(X, atoms, 30, rule=rule), strict=True):
        expected = np.linalg.lstsq(atoms[code.indices].T, x, rcond=None)[0]
        np.testing.assert_allclose(code.data, expected, rtol=1e-8, atol=1e-10)


def test_forward_selection_lowers_the_residual_most_at_the_first_differing_step():
    X, atoms = correlated(40, 100, 30, seed=6)
    for n_nonzero in (2, 4, 8):
        textbook, forward = (
            np.linalg.norm(X - omp(X, atoms, n_nonzero, rule=name) @ atoms, axis=1)
            for name in RULES
        )
        assert forward.mean() < textbook.mean()


@pytest.mark.parametrize("rule", RULES)
def test_one_pass_holds_the_codes_of_every_smaller_number(rule):
    X, atoms = correlated(40, 90, 40)
    lengths = [7, 20, 1, 7]
    for length, codes in zip(lengths, omp_path(X, atoms, lengths, rule), strict=True):
        assert same(codes, omp(X, atoms, length, rule=rule))


def test_supports_along_a_path_are_nested_in_the_order_of_choice():
    X, atoms = correlated(10, 50, 30)
    pursuit = encode(X, atoms, gram_matrix(atoms), [3, 9])
    assert (pursuit.count == 9).all()
    for x, order in zip(X, pursuit.order, strict=True):
        assert order.tolist() == pursue_slowly(x, atoms, 9, "orthogonal")[1]
    short, long = pursuit.coefficients
    assert short.shape == (10, 3)
    assert long.shape == (10, 9)


def test_the_mean_over_lengths_of_a_path_is_the_mean_of_their_codes():
    X, atoms = correlated(10, 50, 30)
    lengths = [3, 9, 5]
    pursuit = encode(X, atoms, gram_matrix(atoms), lengths)
    codes = [omp(X, atoms, length).toarray() for length in lengths]
    for which in ([1], [0, 1], [2, 0], [0, 1, 2]):
        expected = np.mean([codes[number] for number in which], axis=0)
        found = pursuit.to_csr(which, len(atoms)).toarray()
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rule", RULES)
def test_a_single_query_equals_its_row_in_a_batch(rule, dtype):
    X, atoms = (array.astype(dtype) for array in correlated(75, 130, 41))
    batch = omp(X, atoms, 12, rule=rule)
    gram = gram_matrix(atoms)
    for i in (0, 1, 7, 31, 32, 50, 74):
        assert same(omp(X[i : i + 1], atoms, 12, rule=rule), batch[i])
        assert same(omp(X[i : i + 1], atoms, 12, rule=rule, gram=gram), batch[i])


@pytest.mark.parametrize("n_jobs", [2, 3, 7])
@pytest.mark.parametrize("rule", RULES)
def test_any_number_of_threads_gives_the_same_bits(rule, n_jobs):
    X, atoms = correlated(200, 301, 50)
    assert same(
        omp(X, atoms, 10, rule=rule, n_jobs=1),
        omp(X, atoms, 10, rule=rule, n_jobs=n_jobs),
    )


def test_the_gram_matrix_is_symmetric_and_the_same_for_any_number_of_threads():
    atoms = correlated(1, 301, 50)[1]
    gram = gram_matrix(atoms)
    assert np.array_equal(gram, gram.T)
    np.testing.assert_allclose(gram, atoms @ atoms.T, rtol=1e-12)
    for n_threads in (2, 3, 7):
        assert np.array_equal(gram, gram_matrix(atoms, n_threads))


@pytest.mark.parametrize("rule", RULES)
def test_tol_stops_at_the_norm_of_the_residual_and_n_nonzero_still_caps(rule):
    X, atoms = correlated(20, 60, 30)
    tol = 0.4 * np.linalg.norm(X, axis=1).min()
    codes = omp(X, atoms, 25, tol=tol, rule=rule)
    expected = reference(X, atoms, 25, rule, tol)
    np.testing.assert_allclose(codes.toarray(), expected, rtol=1e-7, atol=1e-9)
    residuals = np.linalg.norm(X - codes @ atoms, axis=1)
    done = np.diff(codes.indptr) < 25
    assert 5 < done.sum() < 20
    assert (residuals[done] <= tol).all()
    assert (residuals[~done] > tol).sum() >= 1
    capped = omp(X, atoms, 2, tol=tol, rule=rule)
    assert np.diff(capped.indptr).max() == 2
    assert omp(X, atoms, 5, tol=1e9, rule=rule).nnz == 0


@pytest.mark.parametrize("rule", RULES)
def test_a_residual_of_exactly_tol_is_small_enough(rule):
    # Each atom takes a quarter of the squared norm, 4: after n of them the residual has the norm
    # sqrt(4 - n), which is exact for n = 0 and n = 3.
    x, atoms = np.ones((1, 4)), np.eye(4)
    for tol, n_chosen in ((2.0, 0), (1.0, 3)):
        assert omp(x, atoms, 4, tol=tol, rule=rule).nnz == n_chosen
        below = omp(x, atoms, 4, tol=tol * (1 - 1e-12), rule=rule)
        assert below.nnz == n_chosen + 1


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("rule", RULES)
def test_parts_well_above_the_rounding_of_a_dot_product_are_coded(rule, dtype):
    # The atoms are axes, so that nothing is rounded: a part of 20 roundings is there. Parts far
    # under one rounding are as good as nothing, whatever the atoms.
    rounding = np.sqrt(64) * np.finfo(dtype).eps
    x = np.zeros((1, 64), dtype)
    x[0, :4] = [1.0, 20 * rounding, -20 * rounding, 1e-3 * rounding]
    codes = omp(x, np.eye(64, dtype=dtype), 64, rule=rule).toarray()
    np.testing.assert_allclose(codes[0, :3], x[0, :3], rtol=1e-5)
    assert not codes[0, 3:].any()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_gram_matrices_are_exactly_symmetric(dtype):
    gram = gram_matrix(np.random.default_rng(0).standard_normal((300, 41)).astype(dtype))
    np.testing.assert_array_equal(gram, gram.T)


def hard_rows(kind):
    """Rows and atoms that tie, or are used nearly up to the last dimension."""
    if kind == "long paths":
        rng = np.random.default_rng(0)
        return rng.standard_normal((60, 40)), rng.standard_normal((300, 40)), 36
    digits = load_digits().data
    if kind == "bits":
        digits = (digits > 8).astype(np.float64)
    return digits[:60], digits[600:1200], 30


@pytest.mark.parametrize("kind", ["long paths", "bits", "digits"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("rule", RULES)
def test_rows_that_are_screened_get_the_codes_of_rows_that_are_not(monkeypatch, rule, dtype, kind):
    X, atoms, n_nonzero = hard_rows(kind)
    X, atoms = X.astype(dtype), atoms.astype(dtype)
    gram = gram_matrix(atoms)
    module = sys.modules["dbdl.coding.omp"]

    def codes(screen_pays, copy_pays):
        monkeypatch.setattr(module, "SCREEN_PAYS", screen_pays)
        monkeypatch.setattr(module, "COPY_PAYS", copy_pays)
        return omp(X, atoms, n_nonzero, rule=rule, gram=gram)

    careful = codes(np.inf, np.inf)
    assert same(codes(0, np.inf), careful)
    assert same(codes(0, 0), careful)  # with a copy of the Gram matrix


@pytest.mark.parametrize("rule", RULES)
def test_exactly_sparse_rows_are_recovered_and_nothing_more(rule):
    rng = np.random.default_rng(0)
    atoms = rng.standard_normal((60, 200))
    truth = np.zeros((30, 60))
    for row in truth:
        row[rng.choice(60, 4, replace=False)] = rng.uniform(1, 2, 4)
    codes = omp(truth @ atoms, atoms, 20, rule=rule)
    assert (np.diff(codes.indptr) == 4).all()
    np.testing.assert_allclose(codes.toarray(), truth, atol=1e-12)


@pytest.mark.parametrize("rule", RULES)
def test_duplicate_and_dependent_atoms_are_never_chosen_twice(rule):
    X, atoms = correlated(30, 12, 40)
    rng = np.random.default_rng(1)
    repeated = np.concatenate([atoms, 3 * atoms[::-1], rng.standard_normal((20, 12)) @ atoms])
    codes = omp(X, repeated, 40, rule=rule)
    assert (np.diff(codes.indptr) <= 12).all()
    projected = X @ np.linalg.pinv(atoms) @ atoms
    np.testing.assert_allclose(codes @ repeated, projected, atol=1e-6 * np.abs(X).max())


@pytest.mark.parametrize("rule", RULES)
def test_zero_atoms_are_never_chosen_and_zero_rows_get_empty_codes(rule):
    X, atoms = correlated(33, 40, 20)
    atoms[[0, 7]] = 0
    X[[0, 32]] = 0
    codes = omp(X, atoms, 6, rule=rule)
    assert not np.isin([0, 7], codes.indices).any()
    counts = np.diff(codes.indptr)
    assert counts[0] == counts[32] == 0
    assert (counts[1:32] == 6).all()
    assert omp(X, np.zeros_like(atoms), 6, rule=rule).nnz == 0


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("of_rows", "of_atoms"), [(1e30, 1e-30), (1e-30, 1e30), (1e30, 1e30)])
def test_scales_do_not_matter(rule, of_rows, of_atoms):
    X, atoms = correlated(10, 50, 30)
    codes = omp(X, atoms, 8, rule=rule).toarray()
    scaled = omp(X * of_rows, atoms * of_atoms, 8, rule=rule).toarray()
    np.testing.assert_allclose(scaled * (of_atoms / of_rows), codes, rtol=1e-9)


@pytest.mark.parametrize("rule", RULES)
def test_float32_stays_float32_and_close_to_float64(rule):
    X, atoms = (array.astype(np.float32) for array in correlated(40, 200, 60))
    codes = omp(X, atoms, 6, rule=rule)
    assert codes.dtype == np.float32
    expected = omp(X.astype(float), atoms.astype(float), 6, rule=rule)
    residuals, best = (np.linalg.norm(X - part @ atoms, axis=1) for part in (codes, expected))
    np.testing.assert_allclose(residuals, best, rtol=1e-3)


def test_codes_have_the_float_dtype_of_the_rows():
    X, atoms = correlated(3, 20, 10)
    assert omp(X.astype(np.float32), atoms, 3).dtype == np.float32
    assert omp(X, atoms.astype(np.float32), 3).dtype == np.float64
    assert omp(np.ones((2, 10), dtype=int), atoms, 3).dtype == np.float64
    assert omp(X.tolist(), atoms.tolist(), 3).dtype == np.float64


def test_memory_layout_and_write_permission_do_not_matter():
    X, atoms = correlated(40, 50, 20)
    expected = omp(X, atoms, 5)
    before = X.copy(), atoms.copy()
    X.flags.writeable = atoms.flags.writeable = False
    assert same(omp(X, atoms, 5), expected)
    assert same(omp(np.asfortranarray(X), np.asfortranarray(atoms), 5), expected)
    assert same(omp(np.repeat(X, 2, axis=0)[::2], np.repeat(atoms, 2, axis=1)[:, ::2], 5), expected)
    assert np.array_equal(X, before[0])
    assert np.array_equal(atoms, before[1])


def test_codes_are_a_csr_matrix_with_sorted_columns():
    X, atoms = correlated(40, 50, 20)
    codes = omp(X, atoms, 7)
    assert issparse(codes)
    assert isinstance(codes, csr_matrix)
    assert codes.shape == (40, 50)
    rebuilt = csr_matrix((codes.data, codes.indices, codes.indptr), shape=codes.shape)
    rebuilt.sort_indices()
    assert same(codes, rebuilt)


def test_no_rows_give_no_codes():
    atoms = correlated(1, 50, 20)[1]
    assert omp(np.zeros((0, 20)), atoms, 5).shape == (0, 50)
    assert [codes.shape for codes in omp_path(np.zeros((0, 20)), atoms, [1, 2])] == [(0, 50)] * 2


@pytest.mark.parametrize("shape", [(3, 50, 20), (3, 10, 20)])
def test_too_many_nonzeros_are_clipped_with_a_warning_that_names_both_numbers(shape):
    X, atoms = correlated(*shape)
    most = min(shape[1:])
    with pytest.warns(UserWarning, match=rf"n_nonzero=40 was asked for; {most} is used"):
        codes = omp(X, atoms, 40)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert same(codes, omp(X, atoms, most))


BAD = [
    ({"n_nonzero": 0}, "n_nonzero is 0. Expected 1 or more"),
    ({"n_nonzero": 2.5}, "n_nonzero is 2.5. Expected a whole number"),
    ({"rule": "fast"}, "rule is 'fast'. Expected 'orthogonal'"),
    ({"tol": -1.0}, "tol is -1.0. Expected None or"),
    ({"tol": np.nan}, "tol is nan. Expected None or"),
    ({"X": np.ones((3, 19))}, "X has 19 features and atoms have 20"),
    ({"X": np.ones(20)}, "X has 1 dimensions. Expected 2"),
    ({"X": np.full((3, 20), np.nan)}, "X contains NaN or infinity"),
    ({"X": np.full((3, 20), -np.inf)}, "X contains NaN or infinity"),
    ({"X": csr_matrix((3, 20))}, "X is a sparse matrix. Expected a dense array"),
    ({"X": [["a"] * 20]}, "X holds strings"),
    ({"atoms": np.full((50, 20), np.nan)}, "atoms contains NaN or infinity"),
    ({"atoms": np.zeros((0, 20))}, "atoms has shape"),
    ({"gram": np.eye(49)}, "gram has shape"),
    ({"gram": -np.eye(50)}, "The diagonal of gram"),
    ({"X": np.full((3, 20), 1e200), "atoms": np.full((50, 20), 1e-200)}, "overflow"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "message"), BAD)
def test_bad_input_is_refused_with_what_was_wrong(change, message):
    X, atoms = correlated(3, 50, 20)
    with pytest.raises(ValueError, match=message):
        omp(**({"X": X, "atoms": atoms, "n_nonzero": 5} | change))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_atoms_that_are_not_finite_are_found_even_when_their_gram_matrix_is_given(value):
    X, atoms = correlated(3, 50, 20)
    gram = atoms @ atoms.T
    atoms[17, 3] = value
    for rows in (X, np.zeros_like(X)):
        with pytest.raises(ValueError, match="atoms contains NaN or infinity"):
            omp(rows, atoms, 5, gram=gram)


def test_an_empty_list_of_numbers_is_refused():
    X, atoms = correlated(3, 50, 20)
    with pytest.raises(ValueError, match="n_nonzero is empty"):
        omp_path(X, atoms, [])


def test_the_rows_of_the_yale_faces_get_the_codes_of_scikit_learn(yaleb):
    X = yaleb[0].astype(float)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    atoms, queries = X[::2], X[1::64]
    expected = orthogonal_mp_gram(atoms @ atoms.T, atoms @ queries.T, n_nonzero_coefs=50).T
    np.testing.assert_allclose(omp(queries, atoms, 50).toarray(), expected, atol=1e-9)
