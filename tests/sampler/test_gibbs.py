"""A step of the sampler updates what it should, holds the rest fixed, and is reproducible."""

from dataclasses import fields, replace

import numpy as np
import pytest

from dbdl.backends.numba_cpu import NumbaBackend
from dbdl.backends.reference import ReferenceBackend
from dbdl.draws import make_key
from dbdl.model.atom_priors import IsotropicPrior
from dbdl.model.joint import draw_data, log_joint
from dbdl.model.priors import Priors
from dbdl.model.state import Codes, Parameters, State
from dbdl.sampler.gibbs import Options, drop, init, step

KEY = make_key(7)
N_CLASSES, N_FEATURES, N_ATOMS = 4, 8, 10

both_backends = pytest.mark.parametrize(
    "backend", [NumbaBackend(), ReferenceBackend()], ids=["numba", "reference"]
)


def make_rows(seed=0, n_rows=60, noise_precision=100.0, n_features=N_FEATURES, n_atoms=N_ATOMS):
    """Rows of four classes, their class numbers, and a state near where they come from."""
    rng = np.random.default_rng(seed)
    class_of_row = rng.permutation(np.arange(n_rows) % N_CLASSES)
    parameters = Parameters(
        atoms=rng.standard_normal((n_atoms, n_features)) / np.sqrt(n_features),
        selection_logit=rng.normal(-1.0, 1.0, (N_CLASSES, n_atoms)),
        strength_precision=np.ones(N_CLASSES),
        noise_precision=np.full(N_CLASSES, noise_precision),
        births=np.arange(n_atoms),
    )
    shape = (n_rows, n_atoms)
    codes = rng.standard_normal(shape) * (rng.random(shape) < 0.25)
    X = draw_data(rng, class_of_row, parameters, codes)
    return X, class_of_row, State(parameters, Codes.from_dense(codes), sweep=0)


def make_priors(n_atoms=N_ATOMS, n_features=N_FEATURES):
    return Priors(
        usage_a=4.0, usage_b=4.0, n_atoms=n_atoms, atoms=IsotropicPrior(float(n_features))
    )


def run(backend, options=Options(), *, n_steps=3, key=KEY, rows=None, priors=None):  # noqa: B008
    X, class_of_row, state = rows or make_rows()
    data, priors = backend.place(X, class_of_row), priors or make_priors()
    for _ in range(n_steps):
        state, info = step(key, state, data, priors, options, backend)
    return state, info


def arrays(state):
    return {
        field.name: np.array(getattr(part, field.name))
        for part in (state.parameters, state.codes)
        for field in fields(part)
    }


def assert_same_bits(found, expected):
    for name, array in arrays(expected).items():
        np.testing.assert_array_equal(arrays(found)[name], array, err_msg=name)


@both_backends
@pytest.mark.parametrize("scan", ["paper", "collapsed"])
def test_the_same_key_gives_the_same_bits(backend, scan):
    first, _ = run(backend, Options(scan))
    second, _ = run(backend, Options(scan))
    assert_same_bits(first, second)


@both_backends
@pytest.mark.parametrize("key", [make_key(8), make_key(7, chain=1)], ids=["seed", "chain"])
def test_another_seed_or_chain_gives_other_bits(backend, key):
    first, _ = run(backend, n_steps=1)
    second, _ = run(backend, n_steps=1, key=key)
    for name in ("atoms", "selection_logit", "strength_precision", "noise_precision"):
        assert (arrays(first)[name] != arrays(second)[name]).all(), name


@both_backends
def test_every_step_draws_anew(backend):
    """The state that a step starts from is the same, but not the number of the sweep."""
    X, class_of_row, state = make_rows()
    data = backend.place(X, class_of_row)
    first, second = (
        step(KEY, replace(state, sweep=sweep), data, make_priors(), Options(), backend)[0]
        for sweep in (0, 1)
    )
    assert (first.sweep, second.sweep) == (1, 2)
    assert (first.parameters.atoms != second.parameters.atoms).all()


@both_backends
def test_a_step_does_not_change_the_state_it_starts_from(backend):
    rows = make_rows()
    before = arrays(rows[2])
    run(backend, rows=rows)
    for name, array in arrays(rows[2]).items():
        np.testing.assert_array_equal(array, before[name], err_msg=name)


@both_backends
def test_held_noise_does_not_move(backend):
    rows = make_rows()
    state, _ = run(backend, Options(sample_noise=False), rows=rows)
    np.testing.assert_array_equal(
        state.parameters.noise_precision, rows[2].parameters.noise_precision
    )


@both_backends
def test_held_selection_does_not_move(backend):
    rows = make_rows()
    state, _ = run(backend, Options(sample_selection=False), rows=rows)
    np.testing.assert_array_equal(
        state.parameters.selection_logit, rows[2].parameters.selection_logit
    )


@pytest.mark.parametrize("noise_per_class", [False, True])
def test_noise_is_one_number_or_one_a_class(noise_per_class):
    state, _ = run(NumbaBackend(), Options(noise_per_class=noise_per_class))
    n_values = len(np.unique(state.parameters.noise_precision))
    assert n_values == (N_CLASSES if noise_per_class else 1)


@pytest.mark.parametrize("shape", [1e-6, 2.0], ids=["vague", "proper"])
def test_a_class_without_used_atoms_keeps_its_strength_precision_under_a_vague_prior(shape):
    X, class_of_row, state = make_rows()
    logit = state.parameters.selection_logit.copy()
    logit[1] = -1e4
    codes = state.codes.to_dense(N_ATOMS) * (class_of_row != 1)[:, np.newaxis]
    state = State(
        replace(
            state.parameters,
            selection_logit=logit,
            strength_precision=np.array([1.0, 3.0, 1.0, 1.0]),
        ),
        Codes.from_dense(codes),
        sweep=0,
    )
    priors = replace(make_priors(), strength_shape=shape, strength_rate=shape)
    found, _ = run(
        NumbaBackend(),
        Options(sample_selection=False),
        rows=(X, class_of_row, state),
        priors=priors,
    )
    kept = found.parameters.strength_precision == [1.0, 3.0, 1.0, 1.0]
    np.testing.assert_array_equal(kept, [False, shape < 1, False, False])
    assert (found.parameters.strength_precision > 0.01).all()


@both_backends
def test_where_every_atom_is_used_counting_unused_strengths_changes_nothing(backend):
    X, class_of_row, state = make_rows()
    logit = np.full_like(state.parameters.selection_logit, 1e4)
    rows = (
        X,
        class_of_row,
        replace(state, parameters=replace(state.parameters, selection_logit=logit)),
    )
    found = [
        run(backend, Options(sample_selection=False, strengths_counted=counted), rows=rows)[0]
        for counted in ("used", "all")
    ]
    assert (np.diff(found[0].codes.row_start) == N_ATOMS).all()
    assert_same_bits(*found)


def test_unused_strengths_hold_their_precision_where_it_was():
    # Rows use one entry in a hundred: nearly all strengths are draws from the prior, so a draw of
    # their precision p is Gamma(n / 2) over the sum of n squares, p (1 +- 2 / sqrt(n)) or so.
    # Used strengths alone, whose squares are near 1/25, say 25.
    rng = np.random.default_rng(0)
    n_rows, n_atoms, p = 400, 40, 4.0
    _, class_of_row, state = make_rows(n_rows=n_rows, n_atoms=n_atoms)
    used = rng.random((n_rows, n_atoms)) < 0.01
    codes = 0.2 * rng.standard_normal(used.shape) * used
    parameters = replace(
        state.parameters,
        selection_logit=np.full((N_CLASSES, n_atoms), -4.6),
        strength_precision=np.full(N_CLASSES, p),
        noise_precision=np.full(N_CLASSES, 1e4),
    )
    rows = (
        draw_data(rng, class_of_row, parameters, codes),
        class_of_row,
        State(parameters, Codes.from_dense(codes), sweep=0),
    )
    priors = make_priors(n_atoms)
    found = {}
    for counted in ("used", "all"):
        options = Options(sample_selection=False, sample_noise=False, strengths_counted=counted)
        after, _ = run(NumbaBackend(), options, n_steps=1, rows=rows, priors=priors)
        found[counted] = after.parameters.strength_precision
    np.testing.assert_allclose(found["all"], p, rtol=8 * np.sqrt(1 / (n_rows / 4 * n_atoms)))
    assert (found["used"] > 2 * p).all()


@both_backends
def test_rows_of_a_class_with_endless_noise_do_not_move_the_atoms(backend):
    X, class_of_row, state = make_rows()
    noise = np.array([100.0, 1e-14, 100.0, 100.0])
    state = replace(state, parameters=replace(state.parameters, noise_precision=noise))
    other = X + 5.0 * (class_of_row == 1)[:, np.newaxis]
    options = Options(noise_per_class=True)
    first, _ = run(backend, options, n_steps=1, rows=(X, class_of_row, state))
    second, _ = run(backend, options, n_steps=1, rows=(other, class_of_row, state))
    np.testing.assert_allclose(first.parameters.atoms, second.parameters.atoms, atol=1e-9)
    third, _ = run(backend, options, n_steps=1, rows=(other[::-1] + 5.0, class_of_row, state))
    assert np.abs(first.parameters.atoms - third.parameters.atoms).max() > 0.1


@both_backends
@pytest.mark.parametrize(
    "options",
    [Options(), Options("paper", noise_per_class=True, strengths_counted="all")],
    ids=["default", "paper"],
)
def test_names_and_order_of_the_classes_do_not_matter(backend, options):
    X, class_of_row, state = make_rows()
    # Class c is called new_name[c]; old_name[d] is how class d was called.
    new_name = np.array([2, 0, 3, 1])
    old_name = np.argsort(new_name)
    now = state.parameters
    renamed = replace(
        state,
        parameters=replace(
            now,
            selection_logit=now.selection_logit[old_name],
            strength_precision=now.strength_precision[old_name],
            noise_precision=now.noise_precision[old_name],
        ),
    )
    first, _ = run(backend, options, rows=(X, class_of_row, state))
    second, _ = run(backend, options, rows=(X, new_name[class_of_row], renamed))
    np.testing.assert_array_equal(first.parameters.atoms, second.parameters.atoms)
    np.testing.assert_array_equal(first.codes.strength, second.codes.strength)
    for name in ("selection_logit", "strength_precision", "noise_precision"):
        np.testing.assert_array_equal(
            getattr(first.parameters, name)[old_name], getattr(second.parameters, name)
        )


@pytest.mark.parametrize("options", [Options(), Options(noise_per_class=True)], ids=repr)
def test_the_noise_precision_behind_the_data_is_found(options):
    X, class_of_row, state = make_rows(
        1, n_rows=400, noise_precision=1e3, n_features=24, n_atoms=12
    )
    backend, priors = NumbaBackend(), make_priors(12, 24)
    data = backend.place(X, class_of_row)
    rng = np.random.default_rng(2)
    atoms = state.parameters.atoms
    atoms = atoms + 0.3 * rng.standard_normal(atoms.shape) / np.sqrt(24)
    state, _ = init(KEY, data, atoms, priors, backend, n_nonzero=4, noise_precision=10.0)
    trace = []
    for _ in range(40):
        state, _ = step(KEY, state, data, priors, options, backend)
        trace.append(state.parameters.noise_precision)
    np.testing.assert_allclose(np.mean(trace[20:], axis=0), 1e3, rtol=0.1)


@both_backends
def test_a_chain_starts_with_selection_probabilities_that_follow_the_counts(backend):
    X, class_of_row, state = make_rows()
    data, atoms = backend.place(X, class_of_row), state.parameters.atoms
    start, sums = init(KEY, data, atoms, make_priors(), backend, n_nonzero=2)
    assert start.sweep == 0
    np.testing.assert_array_equal(sums.count.sum(), len(start.codes.atom))
    logit = start.parameters.selection_logit
    assert logit[sums.count == 0].mean() < logit[sums.count > 3].mean() - 2.0


@both_backends
def test_a_chain_may_start_with_selection_probabilities_of_a_half_as_in_the_paper(backend):
    X, class_of_row, state = make_rows()
    data, atoms = backend.place(X, class_of_row), state.parameters.atoms
    start, _ = init(KEY, data, atoms, make_priors(), backend, n_nonzero=2, selection="half")
    np.testing.assert_array_equal(start.parameters.selection_logit, 0.0)


def test_info_holds_the_sums_and_the_log_joint_density_of_the_new_state():
    backend, rows = NumbaBackend(), make_rows()
    state, info = run(backend, rows=rows)
    data = backend.place(*rows[:2])
    sums = backend.usage(data, state.codes, state.parameters)
    np.testing.assert_array_equal(info.sums.count, sums.count)
    np.testing.assert_allclose(info.sums.residual_square, sums.residual_square, rtol=1e-9)
    density = log_joint(state.parameters, sums, data.n_rows, make_priors())
    assert info.log_joint == pytest.approx(density, rel=1e-9)


def test_dropping_removes_unused_atoms_everywhere_and_keeps_the_births_of_the_others():
    backend, (X, class_of_row, state) = NumbaBackend(), make_rows()
    codes = state.codes.to_dense(N_ATOMS)
    codes[:, [2, 5]] = 0.0
    state = replace(state, codes=Codes.from_dense(codes))
    sums = backend.usage(backend.place(X, class_of_row), state.codes, state.parameters)
    smaller, priors = drop(state, sums, make_priors(), backend)
    kept = [0, 1, 3, 4, 6, 7, 8, 9]
    np.testing.assert_array_equal(smaller.parameters.births, kept)
    np.testing.assert_array_equal(smaller.parameters.atoms, state.parameters.atoms[kept])
    np.testing.assert_array_equal(smaller.codes.to_dense(8), codes[:, kept])
    assert smaller.sweep == state.sweep
    assert priors.n_atoms == N_ATOMS  # K in the Beta prior stays
    same, _ = drop(smaller, backend.usage(
        backend.place(X, class_of_row), smaller.codes, smaller.parameters
    ), priors, backend)  # fmt: skip
    assert same is smaller


@pytest.mark.parametrize("least_energy", [0.0, 12.0, np.inf])
def test_a_chain_that_drops_never_loses_a_class_nor_its_last_two_atoms(least_energy):
    backend, (X, class_of_row, state) = NumbaBackend(), make_rows()
    data, priors = backend.place(X, class_of_row), make_priors()
    for _ in range(6):
        state, info = step(KEY, state, data, priors, Options(), backend)
        served = info.sums.count.any(axis=1)
        state, priors = drop(state, info.sums, priors, backend, least_energy)
        assert state.parameters.n_atoms >= 2
        sums = backend.usage(data, state.codes, state.parameters)
        assert (sums.count.any(axis=1) == served).all()
    assert (state.parameters.n_atoms < N_ATOMS) == (least_energy > 0)
