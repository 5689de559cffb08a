"""Every backend against the reference: the same draws lead to the same decisions."""

import numpy as np
import pytest
from enrolled import every_backend, every_fast_backend
from problem import KEY, make_problem

from dbdl.backends import BACKENDS, NumbaBackend, ReferenceBackend, host
from dbdl.backends.base import parameters_to_host
from dbdl.missing.gaps import DrawnGaps
from dbdl.model.atom_priors import AtomPosterior, DiagonalPrior, JointPrior
from dbdl.model.state import Codes
from dbdl.sampler.gibbs import Options, step

REFERENCE, NUMBA = ReferenceBackend(), NumbaBackend()

scans = pytest.mark.parametrize("scan", ["paper", "collapsed"])
noises = pytest.mark.parametrize("noise_per_class", [False, True], ids=["shared", "per class"])


def assert_same_codes(found, expected, rtol=1e-8):
    np.testing.assert_array_equal(found.row_start, expected.row_start)
    np.testing.assert_array_equal(found.atom, expected.atom)
    np.testing.assert_allclose(found.strength, expected.strength, rtol=rtol, atol=rtol)


def assert_same_sums(found, expected, rtol=1e-9):
    np.testing.assert_array_equal(found.count, expected.count)
    for name in ("energy", "strength_square", "residual_square"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=rtol)


def sweep(backend, problem, scan, number=1):
    data, state = problem.on(backend)
    codes, sums = backend.sweep(KEY, number, data, state.codes, state.parameters, scan)
    return backend.codes_to_host(codes), sums


@every_backend
def test_missing_entries_are_drawn_alike(backend):
    problem = make_problem(270, 10, 70)
    rng = np.random.default_rng(0)
    missing = rng.random((270, 10)) < 0.2
    gaps = DrawnGaps(problem.X, missing, directions=rng.normal(size=(10, 10)))

    def drawn(where):
        data, state = problem.on(where)
        return where.to_host(where.rows(gaps.draw(KEY, state, data, where), np.arange(270)))

    found = drawn(backend)
    np.testing.assert_allclose(found, drawn(REFERENCE), rtol=1e-6, atol=1e-6)
    same = (found == problem.X).all(axis=1)
    np.testing.assert_array_equal(same, ~missing.any(axis=1))


def test_every_backend_is_in_the_table():
    assert set(BACKENDS) == {"reference", "numba", "sharded", "torch"}


@every_fast_backend
@noises
@scans
def test_a_sweep_takes_the_same_decisions(backend, scan, noise_per_class):
    # More rows than one block of them, more atoms than are searched together.
    problem = make_problem(270, 10, 70, noise_per_class=noise_per_class)
    expected, expected_sums = sweep(REFERENCE, problem, scan)
    found, sums = sweep(backend, problem, scan)
    assert (expected.to_dense(70) != 0).mean() > 0.01
    assert ((problem.codes != 0) != (expected.to_dense(70) != 0)).sum() > 100  # much was decided
    assert_same_codes(found, expected)
    assert_same_sums(sums, expected_sums)


@every_fast_backend
@noises
@scans
def test_a_few_whole_steps_stay_together(backend, scan, noise_per_class):
    problem = make_problem(30, 9, 14, noise_per_class=noise_per_class, seed=3)
    options = Options(scan=scan, noise_per_class=noise_per_class, strengths_counted="all")
    (data, found), (whole, expected) = problem.on(backend), problem.on(REFERENCE)
    for _ in range(4):
        found, info = step(KEY, found, data, problem.priors, options, backend)
        expected, reference_info = step(KEY, expected, whole, problem.priors, options, REFERENCE)
        assert_same_codes(backend.codes_to_host(found.codes), expected.codes)
        assert info.log_joint == pytest.approx(reference_info.log_joint, rel=1e-8)
    for name in ("atoms", "selection_logit", "strength_precision", "noise_precision"):
        np.testing.assert_allclose(
            getattr(parameters_to_host(found.parameters, backend), name),
            getattr(expected.parameters, name),
            rtol=1e-7,
            atol=1e-8,
        )


@scans
def test_rows_without_codes_and_atoms_of_norm_zero_take_the_same_decisions(scan):
    problem = make_problem(40, 8, 12, seed=5)
    codes, atoms = problem.codes.copy(), problem.parameters.atoms.copy()
    codes[::3] = 0.0
    atoms[4] = 0.0
    problem = type(problem)(
        problem.X, problem.class_of_row, codes, problem.parameters, problem.priors
    ).with_(atoms=atoms)
    expected, expected_sums = sweep(REFERENCE, problem, scan)
    found, sums = sweep(NUMBA, problem, scan)
    assert_same_codes(found, expected)
    assert_same_sums(sums, expected_sums)


@scans
def test_every_entry_may_be_used_at_once(scan):
    """Codes grow from empty to full: the room made for them must grow along."""
    problem = make_problem(20, 6, 80, seed=1, n_nonzero=0)
    problem = problem.with_(selection_logit=np.full((3, 80), 1e4))
    expected, _ = sweep(REFERENCE, problem, scan)
    found, _ = sweep(NUMBA, problem, scan)
    assert len(found.atom) == 20 * 80
    assert_same_codes(found, expected)


@scans
def test_single_precision_stays_close_to_double(scan):
    problem = make_problem(300, 16, 40, seed=2)
    expected, expected_sums = sweep(NumbaBackend(), problem, scan)
    found, sums = sweep(NumbaBackend(), problem.astype(np.float32), scan)
    assert found.strength.dtype == np.float32
    found, expected = found.to_dense(40), expected.to_dense(40)
    agree = ((found != 0) == (expected != 0)).all(axis=1)
    assert agree.mean() > 0.99  # a uniform next to its threshold may decide otherwise
    np.testing.assert_allclose(found[agree], expected[agree], atol=1e-4)
    np.testing.assert_allclose(sums.residual_square, expected_sums.residual_square, rtol=1e-2)
    np.testing.assert_allclose(sums.strength_square, expected_sums.strength_square, rtol=1e-2)


@every_fast_backend
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_gathered_sums_are_the_dense_products(backend, dtype):
    problem = make_problem(300, 10, 90, seed=4).astype(dtype)
    weight = np.array([1.0, 10.0, 0.1])
    data, state = problem.on(backend)
    sums = backend.gather(data, state.codes, 90, weight)
    gram, cross = backend.to_host(sums.gram), backend.to_host(sums.cross)
    codes, X = problem.codes.astype(np.float64), problem.X.astype(np.float64)
    weighted = weight[problem.class_of_row][:, np.newaxis] * codes
    assert gram.dtype == cross.dtype == np.float64
    assert gram.flags.c_contiguous  # priors are added in place
    np.testing.assert_allclose(gram, weighted.T @ codes, atol=1e-10)
    np.testing.assert_allclose(cross, weighted.T @ X, atol=1e-10)
    np.testing.assert_allclose(gram, gram.T, rtol=0, atol=1e-13)


@every_fast_backend
def test_usage_sums_are_the_dense_sums(backend):
    problem = make_problem(300, 10, 90, seed=4)
    data, state = problem.on(backend)
    sums = backend.usage(data, state.codes, state.parameters)
    residual = problem.X - problem.codes @ problem.parameters.atoms
    for c in range(3):
        rows = problem.class_of_row == c
        np.testing.assert_array_equal(sums.count[c], (problem.codes[rows] != 0).sum(axis=0))
        square = (problem.codes[rows] ** 2).sum()
        assert sums.strength_square[c] == pytest.approx(square, rel=1e-12)
        assert sums.residual_square[c] == pytest.approx((residual[rows] ** 2).sum(), rel=1e-12)
    np.testing.assert_allclose(sums.energy, (problem.codes**2).sum(axis=0), rtol=1e-12)


@scans
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_sums_of_a_sweep_are_those_of_its_codes(scan, dtype):
    problem = make_problem(300, 20, 60, seed=6, noise_precision=1e4).astype(dtype)
    codes, sums = sweep(NUMBA, problem, scan)
    again = NUMBA.usage(problem.place(NUMBA), codes, problem.parameters)
    assert_same_sums(sums, again, rtol=1e-10 if dtype == np.float64 else 1e-4)


@every_fast_backend
@pytest.mark.parametrize("sparse", [False, True], ids=["products", "sparse sums"])
@pytest.mark.parametrize("kind", ["isotropic", "joint", "diagonal"])
@pytest.mark.parametrize(("n_atoms", "n_features"), [(300, 300), (129, 257), (7, 5)])
def test_atoms_drawn_in_blocks_are_the_atoms_drawn_one_by_one(
    monkeypatch, backend, n_atoms, n_features, kind, sparse
):
    """Sizes that cross the borders of blocks and tiles, an odd number of features among them."""
    monkeypatch.setattr(host, "SPARSE_SHARE", 1.0 if sparse else 0.0)
    monkeypatch.setattr(host, "SPARSE_TILE", 64 * n_atoms)
    problem = make_problem(200, n_features, n_atoms, seed=7, n_nonzero=4)
    posterior = reference_posterior(problem, prior_of(kind, problem))
    atoms, births = problem.parameters.atoms, problem.parameters.births
    there = (posterior.each(backend.put), backend.put(atoms), births)
    np.testing.assert_allclose(
        backend.to_host(backend.draw_atoms(KEY, 3, *there)),
        REFERENCE.draw_atoms(KEY, 3, posterior, atoms, births),
        rtol=1e-9,
        atol=1e-11,
    )


def prior_of(kind, problem):
    rng = np.random.default_rng(8)
    n_atoms, n_features = problem.parameters.atoms.shape
    if kind == "isotropic":
        return problem.priors.atoms
    if kind == "diagonal":
        return DiagonalPrior(rng.gamma(3.0, 1.0, n_features))
    root = rng.standard_normal((n_atoms, n_atoms)) / np.sqrt(n_atoms)
    precision = 5.0 * (root @ root.T) + np.eye(n_atoms)
    return JointPrior(precision, rng.standard_normal((n_atoms, n_features)))


def reference_posterior(problem, prior):
    data, noise = problem.place(REFERENCE), problem.parameters.noise_precision
    return prior.posterior(
        REFERENCE.gather(data, problem.sparse(), problem.parameters.n_atoms, noise)
    )


@every_backend
@pytest.mark.parametrize("kind", ["isotropic", "joint", "diagonal"])
def test_a_prior_leads_to_the_same_posterior_and_density_everywhere(backend, kind):
    problem = make_problem(60, 9, 14, seed=7)
    prior, noise = prior_of(kind, problem), problem.parameters.noise_precision
    expected = reference_posterior(problem, prior)
    data, state = problem.on(backend)
    found = prior.posterior(backend.gather(data, state.codes, 14, noise), backend)
    for one, other in zip(found.each(backend.to_host), expected, strict=True):
        if other is None:
            assert one is None
        else:
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)
    for feature, mean in enumerate(backend.to_host(backend.mean_atoms(found)).T):
        by_feature = expected.feature_precision
        more = 0.0 if by_feature is None else by_feature[feature]
        right = np.linalg.solve(
            expected.precision + more * np.eye(14), expected.natural_mean[:, feature]
        )
        np.testing.assert_allclose(mean, right, rtol=1e-8, atol=1e-10)
    assert prior.log_density(state.parameters.atoms, backend) == pytest.approx(
        prior.log_density(problem.parameters.atoms), rel=1e-12
    )


@every_fast_backend
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_drawing_atoms_leaves_the_old_ones_alone_and_keeps_their_type(backend, dtype):
    problem = make_problem(50, 6, 10).astype(dtype)
    old = problem.parameters.atoms.copy()
    posterior = AtomPosterior(2.0 * np.eye(10), np.ones((10, 6))).each(backend.put)
    atoms, births = backend.put(problem.parameters.atoms), problem.parameters.births
    drawn = backend.to_host(backend.draw_atoms(KEY, 1, posterior, atoms, births))
    np.testing.assert_array_equal(backend.to_host(atoms), old)
    assert drawn.dtype == dtype
    assert (drawn != old).all()


@every_backend
def test_keeping_atoms_of_codes(backend):
    problem = make_problem(30, 6, 10)
    kept = np.array([1, 2, 7])
    _, state = problem.on(backend)
    part = backend.codes_to_host(backend.keep(state.codes, kept, 10))
    assert isinstance(part, Codes)
    np.testing.assert_array_equal(part.to_dense(3), problem.codes[:, kept])


@every_backend
def test_placed_data_know_their_classes(backend):
    class_of_row = np.array([2, 0, 2, 1, 0, 2])
    data = backend.place(np.asfortranarray(np.eye(6)), class_of_row)
    assert data.n_classes == 3
    np.testing.assert_array_equal(data.n_rows, [2, 1, 3])
    np.testing.assert_array_equal(data.first_row, [1, 3, 0])
    some = backend.to_host(backend.rows(data, np.array([1, 4])))
    np.testing.assert_array_equal(some, np.eye(6)[[1, 4]])
    assert some.flags.c_contiguous


@every_backend
def test_a_chain_starts_from_sparse_codes_that_lower_the_residual(backend):
    problem = make_problem(40, 12, 20)
    atoms = problem.parameters.atoms
    there = backend.start(problem.place(backend), backend.put(atoms), 3)
    codes = backend.codes_to_host(there)
    dense = codes.to_dense(20)
    assert (np.diff(codes.row_start) <= 3).all()
    assert ((problem.X - dense @ atoms) ** 2).sum() < 0.3 * (problem.X**2).sum()
