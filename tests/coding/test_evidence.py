"""The density of a row and its usage, against the definition and against the exact evidence."""

from itertools import product

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from dbdl.coding import CodePrior, PreparedAtoms
from dbdl.coding.evidence import ROWS, log_evidence

N_ATOMS, N_FEATURES = 5, 4


def problem(seed=0):
    rng = np.random.default_rng(seed)
    atoms = rng.standard_normal((N_ATOMS, N_FEATURES))
    prior = CodePrior(rng.uniform(0.1, 0.9, N_ATOMS), rng.uniform(0.5, 3, N_ATOMS), 7.0)
    return PreparedAtoms(atoms, prior), rng.uniform(0.1, 0.9, (3, N_ATOMS)), rng


def by_definition(x, used, atoms, probability):
    """The log density for each class."""
    own, prior = atoms.atoms[used], atoms.prior
    covariance = np.eye(len(x)) / prior.noise_precision
    covariance += own.T @ (own / prior.precision[used, np.newaxis])
    of_usage = np.log(np.where(used, probability, 1 - probability)).sum(axis=1)
    return of_usage + multivariate_normal(cov=covariance).logpdf(x)


def test_the_density_is_that_of_the_definition_for_the_best_class():
    atoms, probability, rng = problem()
    X = rng.standard_normal((40, N_FEATURES))
    codes = rng.standard_normal((40, N_ATOMS)) * (rng.random((40, N_ATOMS)) < 0.4)
    codes[0] = 0.0
    found = log_evidence(X, csr_matrix(codes), atoms, probability, unit=False)
    expected = [
        by_definition(x, c != 0, atoms, probability).max() for x, c in zip(X, codes, strict=True)
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_it_is_a_lower_bound_that_all_usages_together_reach():
    atoms, probability, rng = problem(1)
    X = rng.standard_normal((3, N_FEATURES))
    usages = np.array(list(product((0.0, 1.0), repeat=N_ATOMS)))
    one_class = probability[:1]
    for x in X:
        rows = np.tile(x, (len(usages), 1))
        terms = log_evidence(rows, csr_matrix(usages), atoms, one_class, unit=False)
        exact = logsumexp([by_definition(x, u > 0, atoms, one_class)[0] for u in usages])
        assert terms.max() < exact
        np.testing.assert_allclose(logsumexp(terms), exact)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_row_has_the_same_bits_alone_and_in_a_batch_for_any_number_of_threads(dtype):
    atoms, probability, rng = problem(2)
    atoms = PreparedAtoms(atoms.atoms.astype(dtype), atoms.prior)
    n_rows = 2 * ROWS + 3
    X = rng.standard_normal((n_rows, N_FEATURES)).astype(dtype)
    codes = csr_matrix((rng.random((n_rows, N_ATOMS)) < 0.5).astype(dtype))
    batch = log_evidence(X, codes, atoms, probability, unit=True)
    threaded = log_evidence(X, codes, atoms, probability, unit=True, n_threads=3)
    assert batch.tobytes() == threaded.tobytes()
    for i in (0, 1, ROWS, n_rows - 1):
        alone = log_evidence(X[i : i + 1], codes[i], atoms, probability, unit=True)
        assert alone[0] == batch[i]


def test_a_row_of_zeros_is_as_unlikely_as_a_row_that_no_atom_explains():
    atoms = PreparedAtoms(np.eye(2, 3), CodePrior(np.full(2, 0.5), np.ones(2), 100.0))
    X, codes = np.array([[0.0, 0, 0], [0, 0, 1], [1, 0, 0]]), csr_matrix(np.eye(3, 2)[[2, 2, 0]])
    zero, unexplained, explained = log_evidence(X, codes, atoms, np.full((1, 2), 0.5), unit=True)
    assert zero == unexplained < explained
    of_zeros = log_evidence(X, codes, atoms, np.full((1, 2), 0.5), unit=False)[0]
    assert of_zeros > explained  # where the size of a row counts, zeros are the mode


def test_no_rows_have_no_density():
    atoms, probability, _ = problem()
    empty = np.empty((0, N_FEATURES))
    assert log_evidence(empty, csr_matrix((0, N_ATOMS)), atoms, probability, unit=True).size == 0
