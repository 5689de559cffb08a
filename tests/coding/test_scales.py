"""Rows and atoms are coded on every scale as they are near one."""

import warnings

import numpy as np
import pytest

from dbdl.coding import lasso, llc, omp, omp_path

SCALES = [5e-324 * 2**40, 1e-310, 1e-200, 1e-100, 1e100, 1e200, 1e307]


@pytest.fixture(autouse=True)
def warnings_are_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        yield


def problem(seed=0, n_samples=9, n_atoms=12, n_features=6):
    random = np.random.default_rng(seed)
    atoms = random.integers(-9, 10, size=(n_atoms, n_features)).astype(float)
    return random.integers(-9, 10, size=(n_samples, n_features)).astype(float), atoms


def power(scale):
    """The power of two below a scale: times it nothing is rounded."""
    return 2.0 ** np.floor(np.log2(scale))


CODERS = {
    "omp": lambda X, atoms, scale: omp(X, atoms, 3),
    "forward": lambda X, atoms, scale: omp(X, atoms, 3, rule="forward"),
    "omp with tol": lambda X, atoms, scale: omp(X, atoms, 5, 2.0 * scale),
    "path": lambda X, atoms, scale: omp_path(X, atoms, [2, 4])[1],
    "lasso": lambda X, atoms, scale: lasso(X, atoms, n_nonzero=3),
    "lasso with tol": lambda X, atoms, scale: lasso(X, atoms, tol=2.0 * scale),
}


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("coder", CODERS.values(), ids=CODERS)
def test_rows_of_any_scale_have_the_codes_of_that_scale(coder, scale):
    (X, atoms), scale = problem(), power(scale)
    expected = coder(X, atoms, 1.0)
    found = coder(X * scale, atoms, scale)
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_array_equal(found.data, expected.data * scale)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", ["omp", "forward", "path", "lasso"])
@pytest.mark.parametrize("with_gram", [False, True])
def test_atoms_and_rows_of_any_scale_have_the_same_codes(name, scale, with_gram):
    (X, atoms), scale = problem(), power(scale)
    expected = CODERS[name](X, atoms, 1.0)
    if with_gram and name == "omp" and scale < 1:
        found = omp(X * scale, atoms * scale, 3, gram=(atoms * scale) @ (atoms * scale).T)
    else:
        found = CODERS[name](X * scale, atoms * scale, 1.0)
    np.testing.assert_array_equal(found.toarray(), expected.toarray())


@pytest.mark.parametrize("scale", SCALES)
def test_a_penalty_means_the_same_on_every_scale(scale):
    (X, atoms), scale = problem(), power(scale)
    expected = lasso(X, atoms, penalty=3.0)
    found = lasso(X * scale, atoms, penalty=3.0 * scale)
    np.testing.assert_array_equal(found.data, expected.data * scale)


@pytest.mark.parametrize("scale", SCALES)
def test_nearest_atoms_are_the_same_on_every_scale(scale):
    (X, atoms), scale = problem(), power(scale)
    expected = llc(X, atoms, 3)
    np.testing.assert_array_equal(llc(X * scale, atoms * scale, 3).toarray(), expected.toarray())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_of_all_scales_in_one_batch_are_coded_as_each_alone(dtype):
    X, atoms = (array.astype(dtype) for array in problem())
    smallest = np.finfo(dtype).minexp
    X *= np.ldexp(dtype(1), np.linspace(smallest, -smallest - 8, len(X)).astype(int))[:, None]
    for coder in ("omp", "lasso"):
        together = CODERS[coder](X, atoms, 1.0)
        alone = [CODERS[coder](row[None], atoms, 1.0).toarray()[0] for row in X]
        np.testing.assert_array_equal(together.toarray(), alone)
        assert (together.getnnz(axis=1) > 0).all()


def test_atoms_of_different_scales_are_chosen_by_direction():
    atoms = np.diag([1e-300, 1.0, 1e300])
    codes = omp(np.diag([1e-300, 1.0, 1e300]), atoms, 1).toarray()
    np.testing.assert_allclose(codes, np.eye(3), rtol=1e-15)


def test_codes_that_no_number_can_hold_are_refused():
    with pytest.raises(ValueError, match="codes of X overflow"):
        omp([[1e200, 0.0]], [[1e-200, 0.0]], 1)
    with pytest.raises(ValueError, match="codes of X overflow"):
        omp(np.float32([[1e30, 0.0]]), np.array([[1e-30, 0.0]]), 1)


def test_a_row_far_from_every_atom_is_coded_by_nearest_atoms():
    codes = llc([[1e200, -1e200]], [[0.0, 1.0], [1.0, 0.0], [0.5, 0.5]], 2)
    np.testing.assert_allclose(codes.sum(), 1.0)


def test_atoms_of_all_scales_give_codes_that_sum_to_one():
    random = np.random.default_rng(0)
    X = random.normal(size=(40, 5)) * 10.0 ** random.uniform(-250, 250, size=(40, 1))
    for penalty in (1e-300, 1e-4, 1e300):
        codes = llc(X[:20], X, 5, penalty)
        np.testing.assert_allclose(codes.sum(axis=1), 1)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"gram": np.full((12, 12), np.nan)}, "gram"),
        ({"gram": np.eye(3)}, "gram has shape"),
        ({"atoms": np.zeros((0, 6))}, "atoms has shape"),
        ({"X": np.zeros((2, 7))}, "7 features"),
        ({"X": np.full((2, 6), np.inf)}, "X contains NaN or infinity"),
        ({"n_nonzero": 0}, "n_nonzero is 0"),
        ({"n_nonzero": 1.5}, "n_nonzero is 1.5"),
        ({"penalty": 0.0}, "penalty is 0.0"),
        ({"penalty": "x"}, "penalty is 'x'"),
    ],
)
def test_bad_input_of_llc_is_refused(change, words):
    X, atoms = problem()
    with pytest.raises(ValueError, match=words):
        llc(**({"X": X, "atoms": atoms} | change))


@pytest.mark.parametrize("n_jobs", [0, "x", 1.5])
def test_a_number_of_threads_that_is_none_is_refused(n_jobs):
    X, atoms = problem()
    with pytest.raises(ValueError, match="n_jobs is"):
        omp(X, atoms, 2, n_jobs=n_jobs)


@pytest.mark.parametrize("value", ["x", b"1", True, None])
def test_weights_that_are_no_numbers_are_refused(value):
    X, atoms = problem()
    with pytest.raises(ValueError, match="penalty"):
        lasso(X, atoms, penalty=value)
