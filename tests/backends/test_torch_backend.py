"""The GPU backend has the chains, codes and ridge of the CPU, and clear errors without a GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from enrolled import DEVICE, WHY_NOT, make
from noting_journal import NotingJournal
from problem import KEY, make_problem

from dbdl import DBDLClassifier
from dbdl.backends import NumbaBackend, make_backend
from dbdl.backends.sharded import InTurn, ShardedBackend
from dbdl.coding import Forward, LassoPath, PreparedAtoms
from dbdl.learn.chain import ChainSettings, learn_chain
from dbdl.learn.journal import Journal
from dbdl.learn.labels import gibbs_label_atoms
from dbdl.learn.members import learn_member
from dbdl.learn.problem import LabelSettings, Problem
from dbdl.views import view_named

on_device = pytest.mark.skipif(DEVICE is None, reason=WHY_NOT)


def device_backend():
    return make("torch")


def sweep(backend, problem, scan, number):
    data, state = problem.on(backend)
    codes, sums = backend.sweep(KEY, number, data, state.codes, state.parameters, scan)
    return backend.codes_to_host(codes), sums


@on_device
@pytest.mark.parametrize("scan", ["collapsed", "paper"])
def test_a_chain_on_the_device_is_the_chain_on_the_cpu(scan):
    problem = make_problem(16, 8, 12, seed=1)
    settings = ChainSettings(
        n_sweeps=2, scan=scan, n_initial_atoms=10, noise_precision=50.0, n_start_nonzero=3
    )
    expected, found = (
        learn_chain(KEY, problem.X, problem.class_of_row, settings, backend)
        for backend in (NumbaBackend(), device_backend())
    )
    a = NumbaBackend().codes_to_host(expected.chain.state.codes)
    b = device_backend().codes_to_host(found.chain.state.codes)
    np.testing.assert_array_equal(a.row_start, b.row_start)
    np.testing.assert_array_equal(a.atom, b.atom)
    np.testing.assert_allclose(a.strength, b.strength, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        found.dictionary.atoms, expected.dictionary.atoms, rtol=1e-9, atol=1e-12
    )
    np.testing.assert_allclose(
        expected.chain.trace.log_joint, found.chain.trace.log_joint, rtol=1e-10
    )


@on_device
@pytest.mark.parametrize("window", [256, 8])  # all atoms at once, and the last window half empty
@pytest.mark.parametrize("scan", ["collapsed", "paper"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_sweep_takes_the_decisions_of_the_cpu(scan, dtype, window, monkeypatch):
    monkeypatch.setattr("dbdl.backends.torch_gpu.LONG_WINDOW", window)
    problem = make_problem(16, 8, 20, seed=4, noise_per_class=True).astype(dtype)
    (expected, sums), (found, found_sums) = (
        sweep(backend, problem, scan, 5) for backend in (NumbaBackend(), device_backend())
    )
    assert ((problem.codes != 0) != (expected.to_dense(20) != 0)).sum() > 10  # much was decided
    np.testing.assert_array_equal(found.row_start, expected.row_start)
    np.testing.assert_array_equal(found.atom, expected.atom)
    atol = 1e-10 if dtype is np.float64 else 1e-4
    np.testing.assert_allclose(found.strength, expected.strength, atol=atol)
    np.testing.assert_array_equal(found_sums.count, sums.count)
    np.testing.assert_allclose(found_sums.residual_square, sums.residual_square, atol=10 * atol)


@pytest.mark.skipif(DEVICE != "cuda", reason="needs a GPU")
@pytest.mark.parametrize("scan", ["collapsed", "paper"])
def test_a_large_sweep_takes_the_decisions_of_the_cpu(scan):
    problem = make_problem(2000, 300, 900, 20, seed=6, n_nonzero=20, noise_precision=1e4)
    expected, found = (
        sweep(backend, problem, scan, 1)[0] for backend in (NumbaBackend(), device_backend())
    )
    used, used_there = (codes.to_dense(900) != 0 for codes in (expected, found))
    assert ((problem.codes != 0) != used).mean() > 1e-3
    assert (used != used_there).mean() <= 1e-4


@on_device
@pytest.mark.parametrize("dense", [0.0, 1.0])
def test_residuals_are_found_by_look_ups_and_by_a_product(dense, monkeypatch):
    import torch

    from dbdl.backends import torch_gpu

    monkeypatch.setattr(torch_gpu, "DENSE_CODES", dense)
    problem = make_problem(16, 8, 20, seed=4)
    arrays = (problem.X, problem.codes, problem.parameters.atoms)
    left, square = torch_gpu.residuals(*(torch.from_numpy(a).to(DEVICE) for a in arrays))
    expected = problem.X - problem.codes @ problem.parameters.atoms
    np.testing.assert_allclose(left.cpu(), expected, atol=1e-12)
    np.testing.assert_allclose(square.cpu(), np.square(expected).sum(axis=1), rtol=1e-12)


@on_device
def test_sums_over_rows_in_parts_are_those_of_all_rows(monkeypatch):
    problem, backend = make_problem(40, 8, 20, seed=4, noise_per_class=True), device_backend()
    data, state = problem.on(backend)
    weight = problem.parameters.noise_precision
    whole = backend.gather(data, state.codes, 20, weight)
    count = backend.usage(data, state.codes, state.parameters).count
    monkeypatch.setattr("dbdl.backends.torch_gpu.ROWS_TOGETHER", 16)
    parts = backend.gather(data, state.codes, 20, weight)
    np.testing.assert_allclose(parts.gram.cpu(), whole.gram.cpu(), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(parts.cross.cpu(), whole.cross.cpu(), rtol=1e-12, atol=1e-12)
    found = backend.usage(data, state.codes, state.parameters).count
    np.testing.assert_array_equal(found, count)


@on_device
@pytest.mark.parametrize("n_atoms", [1, 384, 1000])
def test_triangles_are_inverted_from_their_halves(n_atoms):
    import torch

    from dbdl.backends.torch_gpu import ATOM_BLOCK, inverse_lower_blocks

    codes = np.random.default_rng(0).standard_normal((2 * n_atoms, n_atoms))
    precision = codes.T @ codes + np.eye(n_atoms)
    found = inverse_lower_blocks(torch.from_numpy(precision).to(DEVICE)).cpu().numpy()
    assert len(found) == -(-n_atoms // ATOM_BLOCK)
    for number, inverse in enumerate(found):
        rows = slice(number * ATOM_BLOCK, min((number + 1) * ATOM_BLOCK, n_atoms))
        height = rows.stop - rows.start
        triangle = np.tril(precision[rows, rows])
        np.testing.assert_allclose(inverse[:height, :height] @ triangle, np.eye(height), atol=1e-10)
        assert not np.triu(inverse, 1).any()


@on_device
@pytest.mark.parametrize("rule", ["forward", "orthogonal"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_greedy_paths_and_their_means_are_those_of_the_cpu(rule, dtype):
    problem = make_problem(20, 12, 25, seed=2).astype(dtype)
    atoms = problem.parameters.atoms
    rows = np.vstack([problem.X, np.zeros((1, 12), dtype), 2 * atoms[:1]])  # nothing left at once
    expected, found = (
        backend.pursue(rows, PreparedAtoms(atoms), [2, 5], rule)
        for backend in (NumbaBackend(), device_backend())
    )
    for which in ([0], [1], [0, 1]):
        a, b = (paths.to_csr(which, 25) for paths in (expected, found))
        assert b.has_sorted_indices and b.dtype == dtype
        atol = 1e-10 if dtype is np.float64 else 1e-4
        np.testing.assert_allclose(b.toarray(), a.toarray(), atol=atol)
        assert b[-1].nnz == 1 and b[-2].nnz == 0


@on_device
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_chain_on_the_device_is_resumed_from_a_snapshot(dtype):
    problem = make_problem(16, 8, 12, seed=1).astype(dtype)
    settings = ChainSettings(
        n_sweeps=3, n_initial_atoms=10, noise_precision=50.0, n_start_nonzero=3
    )
    backend, journal = device_backend(), NotingJournal()
    arguments = (KEY, problem.X, problem.class_of_row, settings, backend)
    expected = learn_chain(*arguments, journal)
    assert sorted(journal.snapshots) == [1, 2]
    first = journal.snapshots[1]
    assert isinstance(first.parameters.selection_logit, np.ndarray)
    codes = backend.codes_from_host(expected.data, first.codes, first.parameters.n_atoms)
    for name, array in vars(backend.codes_to_host(codes)).items():
        assert array.dtype == getattr(first.codes, name).dtype
        np.testing.assert_array_equal(array, getattr(first.codes, name))
    found = learn_chain(*arguments, NotingJournal(first))
    np.testing.assert_array_equal(found.dictionary.atoms, expected.dictionary.atoms)
    np.testing.assert_array_equal(found.chain.trace.log_joint, expected.chain.trace.log_joint)


@on_device
def test_dependent_and_zero_atoms_are_never_chosen():
    atoms = np.vstack([np.eye(4), np.eye(4)[:2], np.zeros((1, 4))])
    paths = device_backend().pursue(
        np.array([[3.0, 2.0, 1.0, 0.5]]), PreparedAtoms(atoms), [4], "forward"
    )
    codes = paths.to_csr([0], 7)
    np.testing.assert_allclose(codes.toarray() @ atoms, [[3.0, 2.0, 1.0, 0.5]])
    assert codes.nnz == 4


@on_device
@pytest.mark.parametrize("n_atoms", [8, 40])  # fewer and more than rows
def test_ridge_is_that_of_the_cpu(n_atoms):
    problem = make_problem(20, 12, n_atoms, seed=3)
    codes = device_backend().codes_to_host(device_backend().put(problem.codes))
    from scipy.sparse import csr_matrix

    sparse = csr_matrix((codes.strength, codes.atom, codes.row_start), shape=(20, n_atoms))
    target = np.eye(3)[problem.class_of_row]
    np.testing.assert_allclose(
        device_backend().ridge(sparse, target, 0.1),
        NumbaBackend().ridge(sparse, target, 0.1),
        atol=1e-10,
    )


@on_device
def test_many_rows_are_pursued_in_parts(monkeypatch):
    from dbdl.backends import torch_gpu

    problem = make_problem(20, 12, 25, seed=2)
    atoms = PreparedAtoms(problem.parameters.atoms)
    whole = device_backend().pursue(problem.X, atoms, [3], "forward").to_csr([0], 25)
    monkeypatch.setattr(torch_gpu, "PURSUIT_BYTES", 3 * (25 + 3) * 8 * 7)  # seven rows at once
    parts = device_backend().pursue(problem.X, atoms, [3], "forward").to_csr([0], 25)
    # a product of another height may round differently there: the decisions are the same
    np.testing.assert_array_equal(parts.indices, whole.indices)
    np.testing.assert_allclose(parts.toarray(), whole.toarray(), rtol=1e-12)


@on_device
def test_out_of_memory_says_which_size_would_fit():
    from dbdl.backends.torch_gpu import what_would_fit

    message = what_would_fit("cuda:0", free=3 * 2**30, total=8 * 2**30)
    assert "3.0 of 8.0 GiB" in message and "161,061 rows with 1000 atoms" in message


@on_device
def test_tf32_of_the_user_is_put_aside_and_put_back():
    import torch

    from dbdl.backends.torch_gpu import exact_products

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        with exact_products():
            assert torch.get_float32_matmul_precision() == "highest"
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.skipif(DEVICE != "cuda", reason="needs a GPU")
def test_the_estimator_gives_the_same_classes_on_the_gpu():
    problem = make_problem(120, 20, 30, n_classes=4, seed=5)
    settings = {"coder": "forward", "n_chains": 2, "n_sweeps": 5, "random_state": 0}
    cpu, gpu = (
        DBDLClassifier(device=device, **settings).fit(problem.X, problem.class_of_row)
        for device in ("cpu", "cuda")
    )
    np.testing.assert_allclose(
        gpu.decision_function(problem.X), cpu.decision_function(problem.X), atol=1e-6
    )


@on_device
def test_the_path_of_the_lasso_is_followed_on_the_host():
    problem = make_problem(20, 12, 25, seed=2)
    atoms = PreparedAtoms(problem.parameters.atoms)
    for n in (3, 6):
        expected, found = (
            LassoPath(n).encode(problem.X, atoms, backend)
            for backend in (NumbaBackend(), device_backend())
        )
        np.testing.assert_array_equal(found.toarray(), expected.toarray())
    assert device_backend().device_kind not in LassoPath.devices


@pytest.mark.skipif(DEVICE != "cuda", reason="needs a GPU")
@pytest.mark.parametrize("scan", ["collapsed", "paper"])
def test_geweke_on_the_gpu(scan):
    sys.path.insert(0, str(Path(__file__).parents[1] / "sampler"))
    from geweke import Sampler, draw_by_steps, draw_from_the_prior, largest, z_scores
    from test_geweke import LARGEST_BY_CHANCE, priors

    from dbdl.sampler.gibbs import Options

    independent = priors("independent")
    prior = draw_from_the_prior(independent, False, 8_000, seed=0)
    sampler = Sampler(independent, Options(scan), device_backend())
    steps = draw_by_steps(sampler, 2_000, seed=4)
    assert largest(z_scores(prior, steps))[0] < LARGEST_BY_CHANCE


# ------------------------------------------------------------------------------- without a GPU


@pytest.mark.parametrize("device", ["gpu", "cuda:x", "CUDA"])
def test_a_device_that_does_not_exist_is_named_with_those_that_do(device):
    with pytest.raises(ValueError, match=r"expected 'cpu', 'auto', 'cuda' or 'cuda:N'"):
        make_backend(device)


def test_without_torch_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr("dbdl.backends.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"torch is not installed.*pip install torch"):
        DBDLClassifier(device="cuda").fit(np.eye(4), [0, 1, 0, 1])
    assert isinstance(make_backend("auto"), NumbaBackend)


def test_nothing_imports_torch_until_a_device_is_asked_for():
    code = (
        "import sys, dbdl, numpy as np\n"
        "dbdl.DBDLClassifier(n_sweeps=1, n_chains=1).fit(np.eye(6), [0, 1] * 3)\n"
        "print('torch' in sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300
    )
    assert result.stdout.strip() == "False"


@on_device
def test_rows_taken_to_the_device_in_parts_give_the_chain_of_all_rows():
    problem = make_problem(80, 8, 12, seed=1)
    settings = ChainSettings(
        n_sweeps=2, n_initial_atoms=10, noise_precision=50.0, n_start_nonzero=3
    )
    sharded = ShardedBackend(
        block_rows=32, inner=device_backend(), engine=InTurn(part_bytes=32 * 8 * 8)
    )
    expected, found = (
        learn_chain(KEY, problem.X, problem.class_of_row, settings, backend)
        for backend in (NumbaBackend(), sharded)
    )
    a = NumbaBackend().codes_to_host(expected.chain.state.codes)
    b = sharded.codes_to_host(found.chain.state.codes)
    assert len(found.data.parts) == 3
    np.testing.assert_array_equal(a.atom, b.atom)
    np.testing.assert_allclose(a.strength, b.strength, rtol=1e-9, atol=1e-12)


@on_device
def test_label_atoms_by_gibbs_are_those_of_the_cpu():
    problem = make_problem(16, 8, 12, seed=1)
    settings = ChainSettings(
        n_sweeps=2, n_initial_atoms=10, noise_precision=50.0, n_start_nonzero=3
    )
    found = []
    for backend in (NumbaBackend(), device_backend()):
        learned = learn_chain(KEY, problem.X, problem.class_of_row, settings, backend)
        found.append(gibbs_label_atoms(KEY, learned, settings, 0.1, backend))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-8, atol=1e-10)


@on_device
@pytest.mark.parametrize("name", ["scaled and half-whitened + constant", "unit whitened"])
def test_a_member_behind_a_view_is_that_of_the_cpu(name):
    rng, class_of_row = np.random.default_rng(0), np.arange(24) % 2
    X = rng.standard_normal((24, 4)) + 2 * class_of_row[:, np.newaxis]
    settings = ChainSettings(n_sweeps=2, n_initial_atoms=8, n_start_nonzero=2)
    views = (view_named(name),)
    problem = Problem(X, class_of_row, 2, settings, LabelSettings(), n_chains=1, views=views)
    expected, found = (
        learn_member(problem, [Forward(2)], Journal(), {}, problem.shares()[0], backend)
        for backend in (NumbaBackend(), device_backend())
    )
    assert len(expected.scores[0]) > 0
    np.testing.assert_allclose(found.scores[0], expected.scores[0], rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(found.atoms.atoms, expected.atoms.atoms, rtol=1e-6, atol=1e-8)


@pytest.mark.skipif(DEVICE != "cuda", reason="needs a GPU")
def test_too_little_memory_on_the_gpu_is_worked_around_in_parts(caplog):
    import torch

    rng = np.random.default_rng(0)
    y = np.arange(40_000) % 4
    X = (rng.standard_normal((4, 64))[y] + rng.standard_normal((40_000, 64))).astype(np.float32)
    fit = {"n_initial_atoms": 1500, "n_chains": 1, "n_sweeps": 2, "n_nonzero": 5, "random_state": 0}
    fit["views"] = "plain"  # the guard of automatic views needs memory too
    torch.cuda.empty_cache()
    free = torch.cuda.mem_get_info()[0]
    hog = torch.empty(free - (3 << 29), dtype=torch.uint8, device="cuda")  # 1.5 GiB are left
    try:
        model = DBDLClassifier(device="cuda", **fit).fit(X, y)
    finally:
        del hog
        torch.cuda.empty_cache()
    assert "rows at a time" in caplog.text
    whole = DBDLClassifier(device="cuda", **fit).fit(X, y)
    assert np.mean(model.predict(X[:2000]) == whole.predict(X[:2000])) > 0.98
