"""The lasso against scikit-learn, the conditions of its optimum, and its own promises."""

import sys
import warnings

import numpy as np
import pytest
from scipy.sparse import issparse
from sklearn.linear_model import Lasso, LassoLars

from dbdl.coding import lasso
from dbdl.coding.lasso import SharedFactor, lasso_each
from dbdl.coding.omp import gram_matrix

pytestmark = pytest.mark.bits


@pytest.fixture(autouse=True)
def no_path_is_cut_short():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def correlated(n_samples, n_atoms, n_features, seed=0, spread=0.5):
    """Rows and atoms around a few common directions, of unit norm, as faces are."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((5, n_features))

    def rows(n):
        near = centres[rng.integers(0, 5, n)] + spread * rng.standard_normal((n, n_features))
        return near / np.linalg.norm(near, axis=1, keepdims=True)

    return rows(n_samples), rows(n_atoms)


def objective(X, atoms, codes, penalty):
    residual = X - codes @ atoms
    return 0.5 * (residual**2).sum(axis=1) + penalty * np.abs(codes).sum(axis=1)


def assert_optimal(X, atoms, codes, penalty, slack=1e-9):
    """Correlations with the residual are the signed penalty where coded, smaller elsewhere."""
    correlation = (X - codes @ atoms) @ atoms.T
    assert (np.abs(correlation) <= penalty + slack).all()
    used = codes != 0
    np.testing.assert_allclose(correlation[used], penalty * np.sign(codes[used]), atol=slack)


# the last: many more atoms than are looked at in each step
SHAPES = [(40, 70, 30), (20, 20, 50), (33, 300, 64), (10, 2000, 60)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("penalty", [0.3, 0.01, 1e-4])
def test_penalised_codes_are_optimal(shape, penalty):
    X, atoms = correlated(*shape)
    assert_optimal(X, atoms, lasso(X, atoms, penalty=penalty).toarray(), penalty)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("penalty", [0.1, 0.01])
def test_objective_is_that_of_scikit_learns_coordinate_descent(shape, penalty):
    X, atoms = correlated(*shape)
    codes = lasso(X, atoms, penalty=penalty).toarray()
    other = Lasso(penalty / shape[2], fit_intercept=False, tol=1e-10, max_iter=100_000)
    expected = objective(X, atoms, other.fit(atoms.T, X.T).coef_, penalty)
    np.testing.assert_allclose(objective(X, atoms, codes, penalty), expected, atol=1e-6)


def test_codes_are_those_of_scikit_learns_least_angles():
    X, atoms = correlated(10, 70, 30)
    other = LassoLars(0.003, fit_intercept=False).fit(atoms.T, X.T)
    codes = lasso(X, atoms, penalty=0.003 * 30).toarray()
    np.testing.assert_allclose(codes, other.coef_, atol=1e-7)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("tol", [0.5, 0.05, 1e-6])
def test_residual_norm_is_the_tolerance_and_the_codes_are_optimal_at_some_penalty(shape, tol):
    X, atoms = correlated(*shape)
    X = X if shape[1] > shape[2] else (X @ atoms.T) @ atoms  # within reach of the atoms
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    codes = lasso(X, atoms, tol=tol).toarray()
    np.testing.assert_allclose(np.linalg.norm(X - codes @ atoms, axis=1), tol, rtol=1e-3)
    for x, code in zip(X, codes, strict=True):
        penalty = np.abs((x - code @ atoms) @ atoms.T).max()
        assert_optimal(x[np.newaxis], atoms, code[np.newaxis], penalty, slack=1e-8)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("n_nonzero", [1, 4, 15])
def test_the_path_ends_just_before_it_has_too_many_non_zeros(shape, n_nonzero):
    X, atoms = correlated(*shape)
    codes = lasso(X, atoms, n_nonzero=n_nonzero).toarray()
    for row, code in zip(X, codes, strict=True):
        used = code != 0
        assert used.sum() == n_nonzero
        correlation = np.abs(atoms @ (row - code @ atoms))
        penalty = correlation[used].mean()
        assert_optimal(row[None], atoms, code[None], penalty)
        assert np.isclose(correlation[~used].max(), penalty)  # one more is about to join


@pytest.mark.parametrize("n_nonzero", [30, 1000])
def test_with_room_for_all_non_zeros_the_path_goes_to_its_end(n_nonzero):
    X, atoms = correlated(20, 70, 30)
    expected = lasso(X, atoms, penalty=0.0).toarray()
    found = lasso(X, atoms, n_nonzero=n_nonzero).toarray()
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_copies_of_an_atom_do_not_count_as_one_more_non_zero():
    X, atoms = correlated(20, 70, 30)
    expected = lasso(X, atoms, n_nonzero=5).toarray()
    found = lasso(X, np.vstack([atoms, atoms]), n_nonzero=5).toarray()
    np.testing.assert_allclose(found[:, :70] + found[:, 70:], expected, atol=1e-9)


def test_a_factor_gives_what_the_end_of_the_path_does():
    X, atoms = correlated(12, 30, 50)
    X[:4] = X[:4] @ np.linalg.pinv(atoms) @ atoms  # these can be met
    gram = atoms @ atoms.T
    factor = SharedFactor.of(gram, 50)
    for tol in (1e-6, 0.1):
        followed = lasso(X, atoms, tol=tol, gram=gram).toarray()
        found = lasso(X, atoms, tol=tol, gram=gram, factor=factor).toarray()
        np.testing.assert_allclose(found, followed, atol=1e-9)
        assert np.linalg.norm(X - found @ atoms, axis=1)[:4].max() <= tol * 1.001
        assert np.linalg.norm(X - found @ atoms, axis=1)[4:].min() > tol
    alone = np.vstack(
        [lasso(x[np.newaxis], atoms, tol=0.1, gram=gram, factor=factor).toarray() for x in X]
    )
    np.testing.assert_array_equal(alone, found)


def test_no_factor_is_shared_where_it_is_of_no_use():
    rng = np.random.default_rng(0)
    wide, tall = rng.standard_normal((8, 20)), rng.standard_normal((30, 20))
    assert SharedFactor.of(wide @ wide.T, 20) is not None
    assert SharedFactor.of(tall @ tall.T, 20) is None
    dependent = np.vstack([wide, wide[:1] + wide[1:2]])
    assert SharedFactor.of(dependent @ dependent.T, 20) is None


@pytest.mark.parametrize("difference", [0.0, 1e-6])
def test_twins_among_the_atoms_have_no_huge_coefficients(difference):
    X, atoms = correlated(6, 20, 50)
    rng = np.random.default_rng(1)
    near = atoms[:3] + difference * rng.standard_normal((3, 50))
    twins = np.vstack([atoms, near])
    gram = twins @ twins.T
    for factor in (None, SharedFactor.of(gram, 50)):
        codes = lasso(X, twins, tol=1e-6, gram=gram, factor=factor).toarray()
        plain = lasso(X, atoms, tol=1e-6).toarray()
        np.testing.assert_allclose(np.abs(codes).max(), np.abs(plain).max(), rtol=1e-3)
        np.testing.assert_allclose(codes @ twins, plain @ atoms, atol=1e-4)


def test_many_copies_of_an_atom_do_not_end_the_path():
    X, atoms = correlated(4, 30, 20)
    copies = np.vstack([atoms, np.repeat(atoms[:1], 40, axis=0)])
    codes = lasso(X, copies, penalty=0.01).toarray()
    plain = lasso(X, atoms, penalty=0.01).toarray()
    np.testing.assert_allclose(
        objective(X, copies, codes, 0.01), objective(X, atoms, plain, 0.01), rtol=1e-9
    )


def test_a_row_within_the_tolerance_has_an_empty_code():
    X, atoms = correlated(5, 30, 20)
    assert lasso(X, atoms, tol=1.001).nnz == 0
    assert lasso(X, atoms, penalty=1.0).nnz == 0
    assert lasso(np.zeros((3, 20)), atoms, tol=0.0).nnz == 0


@pytest.mark.parametrize("rule", [{"tol": 0.01}, {"tol": 0.0}, {"penalty": 0.0}])
def test_out_of_reach_the_residual_is_the_least(rule):
    X, atoms = correlated(30, 10, 40)
    residual = np.linalg.norm(X - lasso(X, atoms, **rule) @ atoms, axis=1)
    solution = np.linalg.lstsq(atoms.T, X.T, rcond=None)[0]
    np.testing.assert_allclose(residual, np.linalg.norm(X.T - atoms.T @ solution, axis=0))


@pytest.mark.parametrize("rule", [{"tol": 0.2}, {"penalty": 0.02}, {"tol": 0.0}])
def test_copies_zero_atoms_and_dependent_atoms_change_nothing(rule):
    X, atoms = correlated(40, 25, 60, seed=3)
    extra = np.vstack([atoms, atoms[::2], -atoms[1::3], np.zeros((2, 60))])
    inside = 0.5 * atoms[:10] + 0.3 * atoms[10:20]  # shorter than needed: never worth using
    extra = np.vstack([extra, inside])
    plain, more = lasso(X, atoms, **rule), lasso(X, extra, **rule)
    np.testing.assert_allclose(more @ extra, plain @ atoms, atol=1e-7)
    np.testing.assert_allclose(abs(more).sum(axis=1), abs(plain).sum(axis=1), atol=1e-6)


@pytest.mark.parametrize("penalty", [0.5, 0.01])
def test_ties_among_many_atoms_are_optimal(penalty):
    rng = np.random.default_rng(0)
    atoms = rng.integers(-1, 2, (60, 8)).astype(float)
    X = rng.integers(-2, 3, (50, 8)).astype(float)
    assert_optimal(X, atoms, lasso(X, atoms, penalty=penalty).toarray(), penalty)


def test_long_paths_do_not_lose_their_way():
    # hundreds of members that join and leave: an error made on the way would grow from step to step
    X, atoms = correlated(8, 900, 400, spread=0.2)
    codes = lasso(X, atoms, tol=0.002).toarray()
    assert (np.count_nonzero(codes, axis=1) > 300).all()
    residual = X - codes @ atoms
    np.testing.assert_allclose(np.linalg.norm(residual, axis=1), 0.002, rtol=1e-6)
    for x, code in zip(X, codes, strict=True):
        penalty = np.abs((x - code @ atoms) @ atoms.T).max()
        assert_optimal(x[np.newaxis], atoms, code[np.newaxis], penalty, slack=1e-9)


def test_orthogonal_atoms_shrink_each_coefficient():
    X = np.array([[3.0, -1.0, 0.2, 0.0], [0.5, 0.5, -0.5, 0.5]])
    expected = np.sign(X) * np.maximum(np.abs(X) - 0.3, 0)
    np.testing.assert_allclose(lasso(X, np.eye(4), penalty=0.3).toarray(), expected, atol=1e-12)


def test_rows_that_are_atoms_are_coded_by_themselves():
    _, atoms = correlated(1, 50, 30)
    np.testing.assert_allclose(lasso(atoms, atoms, tol=0.1).toarray(), 0.9 * np.eye(50), atol=1e-9)


def test_float32_is_computed_in_float64():
    X, atoms = (a.astype(np.float32) for a in correlated(20, 60, 30))
    codes = lasso(X, atoms, tol=0.05)
    assert codes.dtype == np.float32
    wide = lasso(X.astype(float), atoms.astype(float), tol=0.05)
    np.testing.assert_array_equal(codes.toarray(), wide.toarray().astype(np.float32))


def test_any_number_of_threads_and_a_row_alone_give_the_same_bits():
    X, atoms = correlated(70, 90, 40)
    gram = gram_matrix(atoms)
    expected = lasso(X, atoms, tol=0.1).toarray()
    assert issparse(lasso(X, atoms, tol=0.1))
    for n_threads in (2, 3):
        codes = lasso(X, atoms, tol=0.1, gram=gram, n_threads=n_threads).toarray()
        np.testing.assert_array_equal(codes, expected)
    alone = np.vstack([lasso(x[np.newaxis], atoms, tol=0.1).toarray() for x in X])
    np.testing.assert_array_equal(alone, expected)


def test_scale_of_the_rows_scales_the_codes():
    X, atoms = correlated(10, 50, 30)
    codes = lasso(X, atoms, tol=0.1)
    scaled = lasso(X * 2.0**-300, atoms, tol=0.1 * 2.0**-300)
    np.testing.assert_allclose(scaled.toarray() * 2.0**300, codes.toarray(), atol=1e-12)


@pytest.mark.parametrize("rule", [{}, {"penalty": 1.0, "tol": 1.0}, {"tol": 1.0, "n_nonzero": 2}])
def test_exactly_one_rule_is_asked_for(rule):
    with pytest.raises(ValueError, match="exactly one"):
        lasso(np.eye(3), np.eye(3), **rule)


@pytest.mark.parametrize("rule", [{"penalty": -1.0}, {"tol": np.nan}, {"tol": np.inf}])
def test_rules_that_mean_nothing_are_refused(rule):
    with pytest.raises(ValueError, match="0 or more"):
        lasso(np.eye(3), np.eye(3), **rule)


@pytest.mark.parametrize("n_nonzero", [0, -1, 2.5, np.nan, "3"])
def test_numbers_of_non_zeros_that_mean_nothing_are_refused(n_nonzero):
    with pytest.raises(ValueError, match="1 or more"):
        lasso(np.eye(3), np.eye(3), n_nonzero=n_nonzero)


@pytest.mark.parametrize("n_nonzero", [1, 2, 3])
def test_of_atoms_that_tie_so_many_are_used(n_nonzero):
    codes = lasso(np.ones((1, 4)), np.eye(4), n_nonzero=n_nonzero).toarray()
    np.testing.assert_allclose(np.sort(codes[0]), [0] * (4 - n_nonzero) + [1] * n_nonzero)


def bits(n_rows, n_atoms, seed=0):
    """Rows and unit atoms of zeros and ones, of which many tie."""
    rng = np.random.default_rng(seed)
    rows, atoms = ((rng.random((n, 16)) < 0.4).astype(float) for n in (n_rows, n_atoms))
    rows, atoms = rows[rows.any(axis=1)], atoms[atoms.any(axis=1)]
    return rows, atoms / np.linalg.norm(atoms, axis=1, keepdims=True)


@pytest.mark.parametrize("n_nonzero", [1, 2, 3, 14])
def test_rows_of_bits_have_codes(n_nonzero):
    rows, atoms = bits(200, 300)
    found = (lasso(rows, atoms, n_nonzero=n_nonzero).toarray() != 0).sum(axis=1)
    assert found.min() >= 1 and found.max() <= n_nonzero


@pytest.mark.parametrize("seed", range(5))
def test_ties_do_not_send_a_path_in_circles(seed):
    rows, atoms = bits(200, 300, seed)
    assert_optimal(rows, atoms, lasso(rows, atoms, penalty=0.1).toarray(), 0.1, slack=1e-7)


# ---------------------------------------------------------------- several numbers of non-zeros

# in no order, two of them equal, and the largest above what most atoms allow
LENGTHS = [14, 1, 3, 40, 2, 5, 7, 10, 20, 28, 56, 14, 112]


def with_copies():
    """Rows of which two are zero; atoms with copies, opposites, near copies and zeros."""
    X, atoms = correlated(30, 40, 30, seed=2)
    X[[0, 20]] = 0.0
    near = atoms[::4] + 1e-6 * np.random.default_rng(0).standard_normal((10, 30))
    return X, np.vstack([atoms, atoms[::2], -atoms[::3], near, np.zeros((2, 30))])


def whole_numbers():
    rng = np.random.default_rng(0)
    return rng.integers(-2, 3, (50, 8)).astype(float), rng.integers(-1, 2, (60, 8)).astype(float)


PROBLEMS = {
    **{f"{shape}": lambda shape=shape: correlated(*shape) for shape in SHAPES},
    "atoms are missed": lambda: correlated(40, 2000, 60, seed=1, spread=0.05),
    "members leave": lambda: correlated(10, 900, 400, spread=0.2),
    "copies": with_copies,
    "whole numbers": whole_numbers,
    "all tie": lambda: (np.ones((3, 6)), np.eye(6)),
    **{f"bits {seed}": lambda seed=seed: bits(100, 300, seed) for seed in range(3)},
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("make", PROBLEMS.values(), ids=PROBLEMS)
def test_one_path_gives_the_bits_of_a_path_for_each_number_of_non_zeros(make, dtype):
    X, atoms = (array.astype(dtype) for array in make())
    for n, codes in zip(LENGTHS, lasso_each(X, atoms, LENGTHS), strict=True):
        alone = lasso(X, atoms, n_nonzero=n)
        assert codes.dtype == alone.dtype == dtype
        np.testing.assert_array_equal(codes.toarray(), alone.toarray())


def test_an_atom_that_leaves_the_path_is_in_the_codes_before_that():
    X, atoms = PROBLEMS["members leave"]()
    used = [codes.toarray() != 0 for codes in lasso_each(X, atoms, [20, 40, 80])]
    assert [set(part.sum(axis=1)) for part in used] == [{20}, {40}, {80}]
    assert (used[0] & ~used[1]).any() and (used[1] & ~used[2]).any()


def test_most_numbers_of_non_zeros_need_no_path_of_their_own(monkeypatch):
    module = sys.modules["dbdl.coding.lasso"]
    follow, n_paths = module._follow, []
    monkeypatch.setattr(
        module, "_follow", lambda *args: n_paths.append(len(args[0])) or follow(*args)
    )
    X, atoms = correlated(30, 300, 64)
    X[:5] = 0.0  # their paths end before any number is passed
    lasso_each(X, atoms, [1, 2, 5, 10, 20, 40])
    assert 30 <= sum(n_paths) <= 40


def test_any_number_of_threads_and_a_row_alone_give_the_same_bits_at_each_number_of_non_zeros():
    X, atoms = correlated(70, 400, 40, spread=0.1)
    expected = [codes.toarray() for codes in lasso_each(X, atoms, LENGTHS)]
    threads = [codes.toarray() for codes in lasso_each(X, atoms, LENGTHS, n_threads=3)]
    np.testing.assert_array_equal(threads, expected)
    for i in (0, 31, 32, 69):
        alone = [codes.toarray()[0] for codes in lasso_each(X[i : i + 1], atoms, LENGTHS)]
        np.testing.assert_array_equal(alone, [codes[i] for codes in expected])


def test_no_rows_give_no_codes_at_each_number_of_non_zeros():
    assert [c.shape for c in lasso_each(np.empty((0, 3)), np.eye(3), [2, 1])] == [(0, 3), (0, 3)]
    with pytest.raises(ValueError, match="1 or more"):
        lasso_each(np.eye(3), np.eye(3), [2, 0])


def test_atoms_whose_products_would_overflow_are_coded():
    codes = lasso(np.eye(3), 1e160 * np.eye(3), penalty=1e159).toarray()
    np.testing.assert_allclose(codes, 0.9e-160 * np.eye(3))


def test_bad_arrays_are_refused_and_no_rows_give_no_codes():
    with pytest.raises(ValueError, match="features"):
        lasso(np.eye(3), np.eye(4), tol=0.1)
    with pytest.raises(ValueError, match="NaN"):
        lasso(np.full((2, 3), np.nan), np.eye(3), tol=0.1)
    with pytest.raises(ValueError, match="NaN"):
        lasso(np.eye(3), np.full((3, 3), np.inf), tol=0.1)
    with pytest.raises(ValueError, match="gram"):
        lasso(np.eye(3), np.eye(3), tol=0.1, gram=np.eye(2))
    assert lasso(np.empty((0, 3)), np.eye(3), tol=0.1).shape == (0, 3)
