"""A chain that is resumed from a snapshot, and snapshots in files: whole, or refused."""

from __future__ import annotations

import os
import threading
import zipfile
from dataclasses import dataclass

import numpy as np
import pytest
from noting_journal import NotingJournal

from dbdl._files import write_atomically
from dbdl.backends import NumbaBackend, ReferenceBackend
from dbdl.draws import make_key
from dbdl.learn.chain import ChainSettings, learn_chain
from dbdl.model.atom_priors import IsotropicPrior, JointPrior
from dbdl.model.priors import Priors
from dbdl.model.state import Codes, Parameters
from dbdl.sampler.checkpoint import (
    KIND,
    CheckpointError,
    from_arrays,
    read_archive,
    to_arrays,
    write_archive,
)
from dbdl.sampler.run import SILENT, Snapshot, SweepRecord, Trace

KEY = make_key(3)
N_SWEEPS = 7


def make_rows(dtype=np.float64):
    rng = np.random.default_rng(0)
    class_of_row = np.arange(48) % 3
    atoms = rng.standard_normal((3, 4, 10))
    X = np.einsum("id,idf->if", rng.random((48, 4)), atoms[class_of_row])
    X += 0.02 * rng.standard_normal(X.shape)
    return (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(dtype), class_of_row


def learn(settings, backend=None, dtype=np.float64, resumed=None, journal=SILENT):
    if resumed is not None:
        journal = NotingJournal(resumed)
    return learn_chain(KEY, *make_rows(dtype), settings, backend or NumbaBackend(), journal)


def snapshots_of(settings, every=1, **options):
    """Snapshots of a chain by sweep, and the chain at its end."""
    journal = NotingJournal(every=every)
    learned = learn(settings, journal=journal, **options)
    return journal.snapshots, learned


def assert_same_bits(found, expected):
    """Two dataclasses hold the same bits."""
    found, expected = to_arrays(found), to_arrays(expected)
    assert set(found) == set(expected)
    for name, array in expected.items():
        assert found[name].dtype == array.dtype and found[name].shape == array.shape, name
        assert found[name].tobytes() == array.tobytes(), name


def assert_same_end(found, expected, backend=None):
    backend = backend or NumbaBackend()
    assert_same_bits(found.dictionary, expected.dictionary)
    assert_same_bits(Snapshot.take(found.chain, backend), Snapshot.take(expected.chain, backend))
    assert found.n_initial_atoms == expected.n_initial_atoms


# -------------------------------------------------------------------------------------- resuming


@pytest.mark.parametrize(
    "settings",
    [
        ChainSettings(n_sweeps=N_SWEEPS),
        ChainSettings(n_sweeps=N_SWEEPS, scan="paper", strengths_counted="all"),
        ChainSettings(n_sweeps=N_SWEEPS, beta_size="current", noise_per_class=True),
        ChainSettings(n_sweeps=N_SWEEPS, n_initial_atoms=12, n_atom_draws=2, sample_noise=False),
    ],
    ids=["default", "paper", "current", "draws"],
)
def test_a_chain_resumed_from_any_sweep_ends_with_the_same_bits(settings):
    taken, expected = snapshots_of(settings)
    assert_same_end(expected, learn(settings))  # looking does not disturb
    assert sorted(taken) == list(range(1, N_SWEEPS))
    for snapshot in taken.values():
        assert_same_end(learn(settings, resumed=snapshot), expected)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_chain_resumed_from_a_file_ends_with_the_same_bits(dtype, tmp_path):
    settings = ChainSettings(n_sweeps=N_SWEEPS, least_energy=1.0)
    taken, expected = snapshots_of(settings, dtype=dtype)
    assert taken[1].parameters.n_atoms > taken[6].parameters.n_atoms  # atoms were dropped
    write_archive(tmp_path / "chain.npz", {}, to_arrays(taken[3]))
    snapshot = from_arrays(Snapshot, read_archive(tmp_path / "chain.npz")[1])
    assert_same_bits(snapshot, taken[3])
    assert_same_end(learn(settings, dtype=dtype, resumed=snapshot), expected)


def test_a_chain_of_the_reference_is_resumed_too():
    settings, backend = ChainSettings(n_sweeps=3), ReferenceBackend()
    taken, expected = snapshots_of(settings, backend=backend)
    assert_same_end(learn(settings, backend, resumed=taken[2]), expected, backend)


def test_a_chain_resumed_for_longer_is_the_longer_chain():
    short = learn(ChainSettings(n_sweeps=3))
    last = Snapshot.take(short.chain, NumbaBackend())
    settings = ChainSettings(n_sweeps=N_SWEEPS)
    assert_same_end(learn(settings, resumed=last), learn(settings))


def test_a_chain_at_its_end_only_publishes():
    settings = ChainSettings(n_sweeps=3)
    expected = learn(settings)
    last = Snapshot.take(expected.chain, NumbaBackend())
    assert_same_end(learn(settings, resumed=last), expected)


def test_snapshots_come_every_so_many_sweeps_but_not_at_the_end():
    assert sorted(snapshots_of(ChainSettings(n_sweeps=6), every=2)[0]) == [2, 4]
    assert sorted(snapshots_of(ChainSettings(n_sweeps=7), every=3)[0]) == [3, 6]


def test_sweeps_before_a_snapshot_are_told_first():
    settings = ChainSettings(n_sweeps=5)
    first = NotingJournal()
    learn(settings, journal=first)
    second = NotingJournal(first.snapshots[2])
    learn(settings, journal=second)
    assert second.told == first.told and len(first.told) == 5
    assert sorted(second.snapshots) == [3, 4]  # the sweeps before were not swept again


@pytest.mark.parametrize("backend", [NumbaBackend(), ReferenceBackend()], ids=repr)
def test_codes_survive_the_way_to_the_host_and_back(backend):
    codes = Codes.from_dense(np.array([[0.0, 1.5, 0.0], [0.0, 0.0, 0.0], [2.5, 0.0, -1.0]]))
    again = backend.codes_to_host(backend.codes_from_host(None, codes, 3))
    assert_same_bits(again, codes)


# ------------------------------------------------------------------------------ records as arrays


def make_snapshot(atoms=None):
    trace = Trace.from_records([SweepRecord(3, 2.5, 1.0, np.pi, 1 / 3, 1e-300, -1e9)])
    return Snapshot(
        Parameters(
            np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3)),
            np.array([[0.1, -745.0]])[:, ::-1].copy(order="F"),
            np.array([1e-6]),
            np.array([1e6]),
            np.array([3, 8]),
        ),
        Codes.from_dense(np.array([[0.0, 1.0], [0.0, 0.0]], dtype=np.float32)),
        1,
        Priors(0.1, 0.2, 5, atoms=atoms or IsotropicPrior(10.0)),
        trace,
    )


@pytest.mark.parametrize(
    "atoms",
    [None, JointPrior(np.eye(2) / 3, np.ones((2, 3)) / 7), IsotropicPrior(2.0)],
    ids=["default", "joint", "isotropic"],
)
def test_a_snapshot_survives_being_turned_into_arrays(atoms):
    snapshot = make_snapshot(atoms)
    again = from_arrays(Snapshot, to_arrays(snapshot, "a."), "a.")
    assert_same_bits(again, snapshot)
    assert type(again.sweep) is int and type(again.priors.usage_a) is float
    assert type(again.priors.atoms) is type(snapshot.priors.atoms)
    assert type(again.priors.atoms.precision) is type(snapshot.priors.atoms.precision)
    assert again.trace.records() == snapshot.trace.records()


@dataclass(frozen=True)
class Inner:
    x: float


@dataclass(frozen=True)
class Outer:
    inner: Inner | None
    y: int | None = None


@pytest.mark.parametrize("record", [Outer(None), Outer(Inner(0.1), 3), Outer(Inner(0.1))], ids=repr)
def test_parts_that_may_be_absent_survive(record):
    assert from_arrays(Outer, to_arrays(record)) == record


def test_entries_of_another_record_are_refused():
    arrays = to_arrays(make_snapshot())
    with pytest.raises(CheckpointError, match="are not of a Snapshot"):
        from_arrays(Snapshot, {**arrays, "more": np.ones(2)})


# --------------------------------------------------------------------------------------- archives


@pytest.fixture
def archive(tmp_path):
    path = tmp_path / "chain.npz"
    write_archive(path, {"kind": "chain"}, to_arrays(make_snapshot()))
    return path


def test_an_archive_says_what_it_is_and_numpy_reads_it(archive):
    about, arrays = read_archive(archive)
    assert about["kind"] == "chain" and about["marker"] == "dbdl checkpoint"
    assert arrays["parameters.atoms"].flags.f_contiguous  # the order in memory survives
    with np.load(archive) as file:
        np.testing.assert_array_equal(file["parameters.atoms"], arrays["parameters.atoms"])


def test_any_byte_that_turns_is_seen(archive):
    content = archive.read_bytes()
    for place in range(0, len(content), 3):
        damaged = bytearray(content)
        damaged[place] ^= 1 << (place % 8)
        archive.write_bytes(damaged)
        with pytest.raises(CheckpointError, match="cut off, damaged"):
            read_archive(archive)


def test_a_file_cut_off_anywhere_is_refused(archive):
    content = archive.read_bytes()
    for length in range(0, len(content), 7):
        archive.write_bytes(content[:length])
        with pytest.raises(CheckpointError, match="cut off, damaged"):
            read_archive(archive)


def test_a_longer_file_is_refused(archive):
    archive.write_bytes(archive.read_bytes() + b"0")
    with pytest.raises(CheckpointError, match="cut off, damaged"):
        read_archive(archive)


def test_another_archive_is_refused(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.ones(3))
    with pytest.raises(CheckpointError, match="not a dbdl checkpoint"):
        read_archive(tmp_path / "a.npz")


def test_another_format_is_refused(archive, monkeypatch):
    monkeypatch.setitem(KIND, "format", 2)
    with pytest.raises(CheckpointError, match=r"format 1 .* expected format 2"):
        read_archive(archive)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(CheckpointError, match=r"none\.npz cannot be read: No such file"):
        read_archive(tmp_path / "none.npz")


def test_objects_are_never_pickled(tmp_path):
    with pytest.raises(ValueError, match="Object arrays cannot be saved"):
        write_archive(tmp_path / "a.npz", {}, {"x": np.array([{}])})
    assert not list(tmp_path.iterdir())


def test_a_write_that_fails_leaves_the_old_file(archive, monkeypatch):
    before = archive.read_bytes()

    def fail(*_):
        raise OSError(28, "No space left on device")

    for name in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, fail)
            with pytest.raises(OSError, match="No space left"):
                write_archive(archive, {}, {"x": np.ones(3)})
        assert archive.read_bytes() == before and list(archive.parent.iterdir()) == [archive]


def test_the_folder_is_brought_to_the_disk_after_the_file(archive, monkeypatch):
    calls, fsync, replace_ = [], os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (calls.append("fsync"), fsync(handle)))
    monkeypatch.setattr(os, "replace", lambda *names: (calls.append("replace"), replace_(*names)))
    write_atomically(archive, b"x")
    assert calls == ["fsync", "replace", "fsync"]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no masks for new files")
def test_many_threads_that_write_leave_the_mask_for_new_files_alone(tmp_path):
    before = os.umask(0o027)
    try:
        threads = [
            threading.Thread(target=lambda n=n: [write_atomically(tmp_path / n, b"") for _ in "ab"])
            for n in map(str, range(16))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert os.umask(0o027) == 0o027
        assert {file.stat().st_mode & 0o777 for file in tmp_path.iterdir()} == {0o640}
    finally:
        os.umask(before)


def test_an_archive_has_the_checksums_of_zip_too(archive):
    with zipfile.ZipFile(archive) as file:
        assert file.testzip() is None


def test_another_number_of_sweeps_does_not_change_a_snapshot():
    first, second = (snapshots_of(ChainSettings(n_sweeps=n))[0][2] for n in (3, 5))
    assert_same_bits(first, second)
