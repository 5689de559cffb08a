"""A row of weight w counts, in every sum given the codes, as w rows with its code."""

from dataclasses import replace

import numpy as np
import pytest
from chain_problem import BLOCK_ROWS, KEY, SETTINGS, rows_and_classes
from enrolled import every_backend, every_fast_backend
from problem import make_problem

from dbdl.backends import NumbaBackend, ReferenceBackend
from dbdl.backends.sharded import InTurn, ShardedBackend
from dbdl.coding import Forward, PreparedAtoms
from dbdl.learn.chain import ChainSettings, learn_chain
from dbdl.learn.labels import ridge_label_atoms
from dbdl.model.state import Codes
from dbdl.sampler.gibbs import Options, step

N_ATOMS, PENALTY = 20, 0.1
CLOSE = {"rtol": 1e-9, "atol": 1e-11}


def weighted_and_repeated(dtype=np.float64):
    """Two problems: rows with weights 1 to 4, and the same rows that many times."""
    problem = make_problem(90, 9, N_ATOMS, seed=2).astype(dtype)
    weight = np.arange(90) % 4 + 1
    again = np.repeat(np.arange(90), weight)
    repeated = replace(
        problem,
        X=problem.X[again],
        class_of_row=problem.class_of_row[again],
        codes=problem.codes[again],
    )
    return problem, weight.astype(np.float64), repeated


def on(backend, problem, weight=None):
    data = backend.place(problem.X, problem.class_of_row, weight)
    _, state = problem.on(backend)
    return data, state


@every_backend
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_sums_over_weighted_rows_are_those_over_repeated_rows(backend, dtype):
    problem, weight, repeated = weighted_and_repeated(dtype)
    (data, state), (whole, expected) = on(backend, problem, weight), on(backend, repeated)
    np.testing.assert_allclose(data.n_rows, whole.n_rows)
    sums = backend.usage(data, state.codes, state.parameters)
    right = backend.usage(whole, expected.codes, expected.parameters)
    names = ("count", "energy", "strength_square", "residual_square", "uses", "n_strengths")
    for name in names:
        np.testing.assert_allclose(getattr(sums, name), getattr(right, name), rtol=1e-6)
    by_class = np.array([1.0, 10.0, 0.1])
    sums = backend.gather(data, state.codes, N_ATOMS, by_class)
    right = backend.gather(whole, expected.codes, N_ATOMS, by_class)
    for name in ("gram", "cross"):
        found, there = (backend.to_host(getattr(one, name)) for one in (sums, right))
        np.testing.assert_allclose(found, there, **CLOSE, err_msg=name)


@every_backend
def test_ridge_label_atoms_of_weighted_rows_are_those_of_repeated_rows(backend):
    problem, weight, repeated = weighted_and_repeated()
    (data, state), (whole, expected) = on(backend, problem, weight), on(backend, repeated)
    scale = np.linspace(0.5, 2.0, N_ATOMS)
    found = backend.ridge_labels(data, state.codes, scale, PENALTY)
    right = backend.ridge_labels(whole, expected.codes, scale, PENALTY)
    np.testing.assert_allclose(found, right, **CLOSE)


@every_backend
@pytest.mark.parametrize("n_atoms", [6, 60], ids=["fewer atoms than rows", "more atoms"])
def test_recoded_label_atoms_of_weighted_rows_are_those_of_repeated_rows(backend, n_atoms):
    problem = make_problem(30, 9, n_atoms)
    weight = np.arange(30) % 3 + 1
    again = np.repeat(np.arange(30), weight)
    atoms = problem.parameters.atoms
    atoms = atoms / np.linalg.norm(atoms, axis=1, keepdims=True)
    codes = Forward(3).encode(problem.X, PreparedAtoms(atoms), NumbaBackend())
    classes = problem.class_of_row
    found = ridge_label_atoms(codes, classes, 3, PENALTY, backend, weight.astype(np.float64))
    right = ridge_label_atoms(codes[again], classes[again], 3, PENALTY, backend)
    np.testing.assert_allclose(found, right, **CLOSE)


@every_backend
def test_selection_probabilities_are_drawn_as_for_repeated_rows(backend):
    problem, weight, repeated = weighted_and_repeated()
    drawn = []
    for one, own in ((problem, weight), (repeated, None)):
        data, state = on(backend, one, own)
        data = replace(data, first_row=np.array([0, 4, 8]))  # the same addresses of the draws
        sums = backend.usage(data, state.codes, state.parameters)
        births = one.parameters.births
        logit = backend.draw_selection(KEY, 1, data, sums, births, problem.priors)
        drawn.append(backend.to_host(logit))
    np.testing.assert_allclose(*drawn, rtol=1e-7)


@every_backend
def test_codes_are_drawn_as_without_weights(backend):
    problem, weight, _ = weighted_and_repeated()
    swept = []
    for own in (weight, None):
        data, state = on(backend, problem, own)
        codes, _ = backend.sweep(KEY, 1, data, state.codes, state.parameters, "collapsed")
        swept.append(backend.codes_to_host(codes))
    for name in ("row_start", "atom", "strength"):
        np.testing.assert_array_equal(*(getattr(codes, name) for codes in swept))


@every_fast_backend
@pytest.mark.parametrize("noise_per_class", [False, True], ids=["shared", "per class"])
def test_whole_steps_with_any_weights_stay_with_the_reference(backend, noise_per_class):
    problem = make_problem(30, 9, 14, noise_per_class=noise_per_class, seed=3)
    weight = np.random.default_rng(0).gamma(0.5, 2.0, 30)
    options = Options(noise_per_class=noise_per_class, strengths_counted="all")
    reference = ReferenceBackend()
    (data, found), (whole, expected) = (on(one, problem, weight) for one in (backend, reference))
    for _ in range(4):
        found, info = step(KEY, found, data, problem.priors, options, backend)
        expected, right = step(KEY, expected, whole, problem.priors, options, reference)
        assert info.log_joint == pytest.approx(right.log_joint, rel=1e-8)
        np.testing.assert_allclose(info.sums.count, right.sums.count, rtol=1e-12)
    found = backend.to_host(found.parameters.atoms)
    np.testing.assert_allclose(found, expected.parameters.atoms, rtol=1e-7, atol=1e-8)


@every_backend
def test_weights_that_nearly_vanish_leave_finite_draws(backend):
    problem = make_problem(24, 6, 10)
    weight = np.where(problem.class_of_row == 1, 1e-30, np.linspace(0.1, 3.7, 24))
    settings = ChainSettings(n_sweeps=2, n_initial_atoms=8, noise_precision=50.0)
    learned = learn_chain(
        KEY, problem.X, problem.class_of_row, settings, backend, sample_weight=weight
    )
    assert np.isfinite(learned.chain.trace.log_joint).all()
    assert np.isfinite(learned.dictionary.atoms).all()
    assert np.isfinite(learned.dictionary.selection_probability).all()


def test_atoms_that_all_weighted_rows_use_have_no_rows_that_do_not():
    # the sum of the weights of a class and that over its uses may round differently
    problem = make_problem(200, 6, 2, 1, n_nonzero=2)
    weight = np.random.default_rng(0).gamma(1.0, size=200)
    data = NumbaBackend(block_rows=32).place(problem.X, problem.class_of_row, weight)
    full = Codes.from_dense(np.ones((200, 2)))
    sums = NumbaBackend(block_rows=32).usage(data, full, problem.parameters)
    priors = replace(problem.priors, usage_a=1e-15, usage_b=1e-15)
    assert sums.count[0, 0] != data.n_rows[0]
    drawn = NumbaBackend().draw_selection(KEY, 1, data, sums, np.arange(2), priors)
    assert np.isfinite(drawn).all()


@pytest.mark.bits
def test_weighted_rows_in_any_number_of_parts_give_the_same_bits():
    X, class_of_row = rows_and_classes(300)
    weight = np.random.default_rng(0).gamma(1.0, size=300)
    inner = NumbaBackend(2, BLOCK_ROWS)
    parts = ShardedBackend(block_rows=BLOCK_ROWS, inner=inner, engine=InTurn(part_bytes=1))
    found = []
    for backend in (NumbaBackend(block_rows=BLOCK_ROWS), inner, parts):
        learned = learn_chain(KEY, X, class_of_row, SETTINGS, backend, sample_weight=weight)
        codes, scale = learned.chain.state.codes, learned.dictionary.scale
        labels = backend.ridge_labels(learned.data, codes, scale, PENALTY)
        found.append((learned.dictionary.atoms, learned.chain.trace.log_joint, labels))
    for other in found[1:]:
        for array, expected in zip(other, found[0], strict=True):
            np.testing.assert_array_equal(array, expected)


@pytest.mark.parametrize("noise_per_class", [False, True], ids=["shared", "per class"])
def test_rows_whose_weights_vanish_leave_the_precisions_as_they_were(noise_per_class):
    problem, backend = make_problem(12, 6, 5), NumbaBackend()
    data, state = on(backend, problem, np.full(12, 1e-100))
    options = Options(noise_per_class=noise_per_class)
    after, info = step(KEY, state, data, problem.priors, options, backend)
    for name in ("noise_precision", "strength_precision"):
        now, before = (getattr(one.parameters, name) for one in (after, state))
        np.testing.assert_array_equal(now, before, err_msg=name)
    assert np.isfinite(info.log_joint)
