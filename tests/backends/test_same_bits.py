"""Threads, block sizes and unused atoms do not change a result."""

from dataclasses import fields, replace

import numpy as np
import pytest
from problem import KEY, OFF, make_problem

from dbdl.backends import host, numba_cpu
from dbdl.backends.numba_cpu import NumbaBackend
from dbdl.backends.reference import ReferenceBackend
from dbdl.model.statistics import SUM_ROWS
from dbdl.sampler.gibbs import Options, drop, step

pytestmark = pytest.mark.bits

both_backends = pytest.mark.parametrize(
    "backend", [ReferenceBackend(), NumbaBackend()], ids=["reference", "numba"]
)
scans = pytest.mark.parametrize("scan", ["paper", "collapsed"])


def run_chain(problem, backend, options, n_steps=4, least_energy=5.0):
    """Steps with a drop after each; all arrays of the state, and the numbers of atoms."""
    data = problem.place(backend)
    state, priors, sizes = problem.state(), problem.priors, []
    for _ in range(n_steps):
        state, info = step(KEY, state, data, priors, options, backend)
        state, priors = drop(state, info.sums, priors, backend, least_energy)
        sizes.append(state.parameters.n_atoms)
    arrays = {
        field.name: getattr(part, field.name)
        for part in (state.parameters, state.codes)
        for field in fields(part)
    }
    return arrays | {"log_joint": np.array(info.log_joint)}, sizes


@pytest.mark.parametrize(
    ("dtype", "options", "sparse_share"),
    [
        (np.float64, Options(scan="collapsed"), 0.0),
        (np.float64, Options(scan="collapsed"), 1.0),
        (np.float64, Options(scan="paper", noise_per_class=True, strengths_counted="all"), 0.0),
        (np.float32, Options(scan="collapsed", noise_per_class=True), 1.0),
    ],
    ids=["collapsed", "sparse sums for the atoms", "paper", "single precision"],
)
def test_any_number_of_threads_gives_the_same_bits(monkeypatch, dtype, options, sparse_share):
    monkeypatch.setattr(numba_cpu, "SWEEP_ROWS", 128)
    monkeypatch.setattr(host, "SPARSE_SHARE", sparse_share)
    # Several blocks of rows, of atoms and of features, none of them full at the end.
    problem = make_problem(
        701, 530, 150, n_classes=5, seed=1, noise_per_class=options.noise_per_class
    ).astype(dtype)
    expected, sizes = run_chain(problem, NumbaBackend(1), options)
    assert sizes[-1] < sizes[0] < 150  # atoms went, more than once
    for n_threads in (2, 3, 7):
        found, same_sizes = run_chain(problem, NumbaBackend(n_threads), options)
        assert same_sizes == sizes
        for name, array in expected.items():
            assert array.dtype == found[name].dtype
            np.testing.assert_array_equal(found[name], array, err_msg=f"{name}, {n_threads}")


def test_any_number_of_threads_gathers_the_same_bits_over_several_parts_of_the_tree():
    problem = make_problem(2 * SUM_ROWS + 600, 5, 70, seed=2)
    weight = np.array([1.0, 0.3, 7.0])
    expected, *others = (
        backend.gather(problem.place(backend), problem.sparse(), 70, weight)
        for backend in map(NumbaBackend, (1, 2, 3, 7))
    )
    for sums in others:
        np.testing.assert_array_equal(sums.gram, expected.gram)
        np.testing.assert_array_equal(sums.cross, expected.cross)
    weighted = weight[problem.class_of_row][:, np.newaxis] * problem.codes
    np.testing.assert_allclose(expected.gram, weighted.T @ problem.codes, atol=1e-9)
    np.testing.assert_allclose(expected.cross, weighted.T @ problem.X, atol=1e-9)
    usage = NumbaBackend().usage(
        problem.place(NumbaBackend()), problem.sparse(), problem.parameters
    )
    np.testing.assert_array_equal(usage.count.sum(axis=0), (problem.codes != 0).sum(axis=0))


@scans
def test_the_sizes_of_blocks_do_not_matter_beyond_rounding(monkeypatch, scan):
    problem = make_problem(300, 90, 70, seed=3)
    options = Options(scan=scan)
    expected, sizes = run_chain(problem, NumbaBackend(), options)
    monkeypatch.setattr(numba_cpu, "SWEEP_ROWS", 36)
    for name, size in {"ATOM_BLOCK": 16, "FEATURE_TILE": 12, "SPARSE_TILE": 1}.items():
        monkeypatch.setattr(host, name, size)
    found, same_sizes = run_chain(problem, NumbaBackend(block_rows=100), options)
    assert same_sizes == sizes
    assert any((found[name] != expected[name]).any() for name in ("atoms", "strength"))
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-7, atol=1e-8, err_msg=name)


@both_backends
@scans
def test_dropping_unused_atoms_changes_no_decision_about_the_others(backend, scan):
    unused = [0, 5, 6, 63, 64, 79]
    problem = make_problem(25, 10, 80, seed=4, unused=unused)
    kept = np.setdiff1d(np.arange(80), unused)
    data = problem.place(backend)
    whole, _ = backend.sweep(KEY, 2, data, problem.sparse(), problem.parameters, scan)
    part, _ = backend.sweep(
        KEY, 2, data, backend.keep(problem.sparse(), kept, 80), problem.parameters.keep(kept), scan
    )
    dense = whole.to_dense(80)
    assert not dense[:, unused].any()
    np.testing.assert_array_equal(part.to_dense(len(kept)) != 0, dense[:, kept] != 0)
    np.testing.assert_allclose(part.to_dense(len(kept)), dense[:, kept], rtol=1e-10, atol=1e-12)


@both_backends
def test_dropping_unused_atoms_changes_no_draw_of_the_other_atoms(backend):
    unused = [0, 3, 17]
    problem = make_problem(60, 10, 20, seed=5, unused=unused)
    kept = np.setdiff1d(np.arange(20), unused)
    data, noise = problem.place(backend), problem.parameters.noise_precision

    def draw(parameters, codes, priors):
        sums = backend.gather(data, codes, parameters.n_atoms, noise)
        posterior = priors.atoms.posterior(sums)
        return backend.draw_atoms(KEY, 2, posterior, parameters.atoms, parameters.births)

    whole = draw(problem.parameters, problem.sparse(), problem.priors)
    part = draw(
        problem.parameters.keep(kept),
        backend.keep(problem.sparse(), kept, 20),
        problem.priors.keep(kept),
    )
    np.testing.assert_allclose(part, whole[kept], rtol=1e-10, atol=1e-12)


@both_backends
def test_a_chain_does_not_feel_the_atoms_that_were_dropped_before_it(backend):
    unused = [1, 8]
    problem = make_problem(30, 8, 12, seed=6, unused=unused)
    kept = np.setdiff1d(np.arange(12), unused)
    part = replace(
        problem,
        codes=problem.codes[:, kept],
        parameters=problem.parameters.keep(kept),
        priors=problem.priors.keep(kept),
    )
    # Held selection probabilities keep the unused atoms off for the whole chain.
    options = Options(sample_selection=False)
    assert (problem.parameters.selection_logit[:, unused] == OFF).all()
    states = [p.state() for p in (problem, part)]
    for _ in range(3):
        states = [
            step(KEY, state, p.place(backend), p.priors, options, backend)[0]
            for state, p in zip(states, (problem, part), strict=True)
        ]
    whole, part = states
    np.testing.assert_allclose(
        part.parameters.atoms, whole.parameters.atoms[kept], rtol=1e-8, atol=1e-10
    )
    np.testing.assert_allclose(
        part.codes.to_dense(10), whole.codes.to_dense(12)[:, kept], rtol=1e-8, atol=1e-10
    )
    np.testing.assert_allclose(
        part.parameters.noise_precision, whole.parameters.noise_precision, rtol=1e-9
    )


@scans
@pytest.mark.parametrize("n_rows", [1, 257, 270])
def test_a_row_s_draws_do_not_depend_on_the_rows_behind_it(scan, n_rows):
    # Beyond rounding: the blocks follow from the number of rows.
    problem = make_problem(300, 60, 50, seed=7)
    head = replace(
        problem,
        X=problem.X[:n_rows],
        class_of_row=problem.class_of_row[:n_rows],
        codes=problem.codes[:n_rows],
    )
    backend = NumbaBackend()
    data = problem.place(backend)
    whole, _ = backend.sweep(KEY, 1, data, problem.sparse(), problem.parameters, scan)
    part, _ = backend.sweep(
        KEY,
        1,
        replace(data, X=head.X, class_of_row=head.class_of_row),
        head.sparse(),
        head.parameters,
        scan,
    )
    found, expected = part.to_dense(50), whole.to_dense(50)[:n_rows]
    np.testing.assert_array_equal(found != 0, expected != 0)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11)
