"""A fit that was stopped is resumed and ends with the same bits, or is refused."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import textwrap
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from cones import make_cones
from sklearn.preprocessing import StandardScaler

import dbdl.sampler.run
from benchmarks.kill import bits_of, run_killed, undisturbed
from dbdl import (
    BetaProcessDictionary,
    CheckpointError,
    DBDLClassifier,
    ModelSettings,
    persistence,
)
from dbdl._files import UNFINISHED
from dbdl.coding import Forward, Orthogonal, PosteriorMean
from dbdl.learn.journal import CheckpointFolder
from dbdl.views import View


@cache
def cones():
    return make_cones()


SETTINGS = {"n_sweeps": 7, "n_chains": 2, "random_state": 0}
#: Leaves nothing to choose, so that chains learn from all rows.
ALL_ROWS = {"coder": Forward(3), "calibrate": False}


def make(**settings):
    return DBDLClassifier(**SETTINGS).set_params(**settings)


def names_of(folder):
    return sorted(file.name for file in folder.iterdir())


@pytest.fixture(scope="module")
def expected():
    """Bits of a fit that nobody stops."""
    X, Y = cones()
    return bits_of(make().fit(X, Y))


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "kept" / "fit"


class Stopped(BaseException):
    """Stands for a process that ends."""


@pytest.fixture
def stop_after(monkeypatch, folder):
    """A function that lets so many files be written and ends the process at the next one."""

    def stop(n_files):
        left, replace = [n_files], os.replace

        def replace_or_stop(source, target):
            if Path(target).parent == folder:
                if left[0] == 0:
                    raise Stopped
                left[0] -= 1
            replace(source, target)

        monkeypatch.setattr(os, "replace", replace_or_stop)

    yield stop
    monkeypatch.undo()


@pytest.fixture
def count_sweeps(monkeypatch):
    """A function that returns a list that grows with every sweep done, not with those only told."""

    def count():
        done, step = [], dbdl.sampler.run.step
        monkeypatch.setattr(
            dbdl.sampler.run, "step", lambda *given: (done.append(1), step(*given))[1]
        )
        return done

    return count


# ------------------------------------------------------------------------------------ checkpoints


def test_keeping_checkpoints_does_not_change_the_result(folder, expected):
    X, Y = cones()
    assert bits_of(make(checkpoint=folder, checkpoint_every=2).fit(X, Y)) == expected
    assert names_of(folder) == ["chain-000.npz", "chain-001.npz", "fit.npz"]


# Files are written for the fit, and for each of two chains after sweeps 2, 4 and 6 and at the end.
@pytest.mark.parametrize("n_files", range(9))
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_fit_stopped_anywhere_ends_with_the_same_bits(
    folder, expected, stop_after, monkeypatch, n_files, n_jobs
):
    X, Y = cones()
    model = make(checkpoint=str(folder), checkpoint_every=2, n_jobs=n_jobs)
    stop_after(n_files)
    with pytest.raises(Stopped):
        model.fit(X, Y)
    monkeypatch.undo()
    again = make(checkpoint=folder, checkpoint_every=3, n_jobs=3 - n_jobs, verbose=0)
    assert bits_of(again.fit(X, Y)) == expected


@pytest.mark.parametrize(
    "settings",
    [
        {"classifier": "recoded"},
        {"classifier": "gibbs", "model": ModelSettings(scan="paper", beta_size="current")},
        {"classifier": "joint"},
        {"model": ModelSettings(noise_per_class=True, n_atom_draws=2, least_energy=1.0)},
        {"coder": Forward(3)},
        {"coder": [Orthogonal(2), "lasso"]},
        {"coder": PosteriorMean(3, n_sweeps=5), "classifier": "recoded"},
        ALL_ROWS,
        {"views": "plain"},
        {"views": ["scaled and whitened", View(centred=True, power=0.3)]},
        {"normalize": False},
        {"n_initial_atoms": "auto"},
    ],
    ids=lambda settings: str(next(iter(settings.values()))),
)
@pytest.mark.parametrize("n_files", [3, 8])  # in the first chain, and in the second
def test_every_kind_of_fit_is_resumed(folder, stop_after, monkeypatch, settings, n_files):
    X, Y = cones()
    expected = bits_of(make(**settings).fit(X, Y))
    stop_after(n_files)
    with pytest.raises(Stopped):
        make(checkpoint=folder, checkpoint_every=2, **settings).fit(X, Y)
    monkeypatch.undo()
    assert bits_of(make(checkpoint=folder, **settings).fit(X, Y)) == expected


def test_single_precision_and_two_classes_are_resumed(folder, stop_after, monkeypatch):
    X, Y = cones()
    rows, labels = X[Y < 2].astype(np.float32), np.array(["no", "yes"])[Y[Y < 2]]
    expected = make().fit(rows, labels)
    stop_after(7)
    with pytest.raises(Stopped):
        make(checkpoint=folder, checkpoint_every=2).fit(rows, labels)
    monkeypatch.undo()
    again = make(checkpoint=folder).fit(rows, labels)
    assert bits_of(again) == bits_of(expected) and again.atoms_.dtype == np.float32
    np.testing.assert_array_equal(again.decision_function(rows), expected.decision_function(rows))


def test_classes_of_one_row_each_are_resumed(folder):
    X, Y = cones()
    expected = make().fit(X[:3], Y[:3])
    for _ in range(2):
        again = make(checkpoint=folder).fit(X[:3], Y[:3])
        assert again.held_out_ is None and again.temperature_ == 1.0
        np.testing.assert_array_equal(again.atoms_, expected.atoms_)


def test_nothing_is_learned_again_after_the_end(folder, expected, count_sweeps):
    X, Y = cones()
    sweeps = count_sweeps()
    make(checkpoint=folder).fit(X, Y)
    assert len(sweeps) == 2 * 7
    again = make(checkpoint=folder, n_jobs=2).fit(X, Y)
    assert bits_of(again) == expected and len(sweeps) == 2 * 7
    np.testing.assert_array_equal(again.predict(X), make(checkpoint=folder).fit(X, Y).predict(X))


@pytest.mark.parametrize(
    ("n_files", "n_kept"),
    [
        (1, 0),  # the fit
        (2, 2),  # two sweeps of the first chain
        (4, 6),  # all but the last
        (5, 7),  # all of it
        (6, 7 + 2),  # and two sweeps of the second
        (8, 7 + 6),  # all but its last
    ],
)
def test_only_sweeps_that_are_not_kept_are_done_again(
    folder, expected, stop_after, count_sweeps, monkeypatch, n_files, n_kept
):
    X, Y = cones()
    stop_after(n_files)
    with pytest.raises(Stopped):
        make(checkpoint=folder, checkpoint_every=2).fit(X, Y)
    monkeypatch.undo()
    sweeps = count_sweeps()
    assert bits_of(make(checkpoint=folder).fit(X, Y)) == expected
    assert len(sweeps) == 7 * 2 - n_kept
    assert names_of(folder) == ["chain-000.npz", "chain-001.npz", "fit.npz"]


def test_without_a_seed_that_of_the_first_fit_is_taken(folder, stop_after, monkeypatch):
    X, Y = cones()
    stop_after(5)
    with pytest.raises(Stopped):
        make(checkpoint=folder, checkpoint_every=2, random_state=None).fit(X, Y)
    monkeypatch.undo()
    seed = CheckpointFolder(folder).read_fit().seed
    first = make(checkpoint=folder, random_state=None).fit(X, Y)
    second = make(checkpoint=folder, random_state=np.random.RandomState(5)).fit(X, Y)
    assert bits_of(first) == bits_of(second)
    monkeypatch.setattr(DBDLClassifier, "_seed", lambda self: seed)
    assert bits_of(make(random_state=None).fit(X, Y)) == bits_of(first)


def test_sweeps_already_done_are_told_to_those_who_watch(folder, capsys):
    X, Y = cones()
    for _ in range(2):
        make(checkpoint=folder, n_chains=1, verbose=2).fit(X, Y)
        assert capsys.readouterr().out.count("\n") == SETTINGS["n_sweeps"]


def test_the_unsupervised_dictionary_is_resumed(folder, stop_after, monkeypatch):
    X, Y = cones()

    def fit(**settings):
        return BetaProcessDictionary(n_sweeps=7, random_state=1, **settings).fit(X)

    expected = fit()
    stop_after(3)
    with pytest.raises(Stopped):
        fit(checkpoint=folder, checkpoint_every=2)
    monkeypatch.undo()
    for _ in range(2):
        again = fit(checkpoint=folder)
        assert again.atoms_.tobytes() == expected.atoms_.tobytes()
        assert again.coder_ == expected.coder_
        np.testing.assert_array_equal(again.selection_probability_, expected.selection_probability_)
        np.testing.assert_array_equal(again.trace_.log_joint, expected.trace_.log_joint)
    with pytest.raises(CheckpointError, match="of a BetaProcessDictionary, not of a DBDL"):
        make(checkpoint=folder).fit(X, Y)


# -------------------------------------------------------------------------------- what is refused


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Content of the files of a finished fit, by name."""
    X, Y = cones()
    folder = tmp_path_factory.mktemp("finished")
    make(checkpoint=folder).fit(X, Y)
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.fixture
def kept(folder, finished):
    """A folder of a finished fit."""
    folder.mkdir(parents=True)
    for name, content in finished.items():
        (folder / name).write_bytes(content)
    return folder


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_chains": 3}, "n_chains was 2 and is 3"),
        (
            {"model__noise_precision": 1e5, "model__scan": "paper"},
            "model__noise_precision .*; model__scan was 'collapsed'",
        ),
        ({"coder": Forward(3)}, r"coder was 'auto' and is \['Forward', .*3"),
        ({"views": "plain"}, "views was 'auto' and is 'plain'"),
        ({"views": View(centred=True)}, r"views was 'auto' and is \['View', .*centred"),
        ({"calibrate": False}, "calibrate was True and is False"),
        ({"n_sweeps": 9}, "n_sweeps was 7 and is 9"),
        ({"n_sweeps": 5, "warm_start": True}, "n_sweeps was 7 and is 5"),
        ({"random_state": 1}, "random_state gives another seed"),
        ({"normalize": False}, "normalize was True and is False"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_other_parameters_are_refused_and_named(kept, finished, settings, message):
    X, Y = cones()
    with pytest.raises(CheckpointError, match=rf"{message}.*Use another path.*remove the folder"):
        make(checkpoint=kept, **settings).fit(X, Y)
    assert {file.name: file.read_bytes() for file in kept.iterdir()} == finished


@pytest.mark.parametrize(
    "change",
    [
        lambda X, Y: (X[::-1], Y[::-1]),
        lambda X, Y: (X[:-1], Y[:-1]),
        lambda X, Y: (np.where(np.arange(12) == 3, np.nextafter(X, 9), X), Y),
        lambda X, Y: (X, np.roll(Y, 1)),
        lambda X, Y: (X.astype(np.float32), Y),
    ],
    ids=["order", "fewer", "last bit", "labels", "type"],
)
def test_other_data_are_refused(kept, change):
    rows, labels = change(*cones())
    with pytest.raises(
        CheckpointError, match=r"X, y or the weights are other data.*Use another path"
    ):
        make(checkpoint=kept).fit(rows, labels)


def test_parameters_that_leave_the_result_alone_may_change(kept, expected):
    X, Y = cones()
    model = make(checkpoint=kept, n_jobs=2, checkpoint_every=1, warm_start=True)
    assert bits_of(model.fit(X, Y)) == expected
    numbers = make(checkpoint=kept, n_sweeps=np.int64(7), penalty=np.float64(0.1))
    assert bits_of(numbers.fit(X, Y)) == expected


def test_a_file_and_a_folder_of_something_else_are_refused(tmp_path):
    X, Y = cones()
    file = tmp_path / "notes.txt"
    file.write_text("mine")
    with pytest.raises(CheckpointError, match="is a file, expected a folder"):
        make(checkpoint=file).fit(X, Y)
    with pytest.raises(CheckpointError, match=r"not a folder of checkpoints: it holds notes\.txt"):
        make(checkpoint=tmp_path).fit(X, Y)
    with pytest.raises(CheckpointError, match="cannot be used"):
        make(checkpoint=file / "below").fit(X, Y)
    assert list(tmp_path.iterdir()) == [file] and file.read_text() == "mine"


def test_chains_without_their_fit_are_refused(kept):
    X, Y = cones()
    (kept / "fit.npz").unlink()
    with pytest.raises(CheckpointError, match=r"holds chain-000\.npz and no fit\.npz"):
        make(checkpoint=kept).fit(X, Y)


def test_the_file_of_another_chain_or_fit_is_refused(kept, finished):
    X, Y = cones()
    (kept / "chain-001.npz").write_bytes(finished["chain-000.npz"])
    with pytest.raises(CheckpointError, match=r"chain-001\.npz belongs to another fit or chain"):
        make(checkpoint=kept).fit(X, Y)
    (kept / "fit.npz").write_bytes(finished["chain-000.npz"])
    with pytest.raises(CheckpointError, match=r"fit\.npz is the file of a chain"):
        make(checkpoint=kept).fit(X, Y)


def test_another_version_of_the_package_is_refused(kept, monkeypatch):
    X, Y = cones()
    monkeypatch.setattr("dbdl.__version__", "9.1.0")
    with pytest.raises(CheckpointError, match=r"written by dbdl .*, this is dbdl 9\.1\.0"):
        make(checkpoint=kept).fit(X, Y)


@pytest.mark.parametrize("name", ["fit.npz", "chain-000.npz", "chain-001.npz"])
def test_damaged_files_are_refused_before_anything_is_learned(kept, finished, count_sweeps, name):
    X, Y = cones()
    sweeps = count_sweeps()
    content = finished[name]
    places = np.linspace(0, len(content) - 1, 25).astype(int)
    damaged = [content[:p] + bytes([content[p] ^ 0x10]) + content[p + 1 :] for p in places]
    cut_off = [content[:p] for p in places]
    for other in (*damaged, *cut_off, content + b"\0"):
        (kept / name).write_bytes(other)
        with pytest.raises(CheckpointError, match=rf"{name} is cut off, damaged.*Use another path"):
            make(checkpoint=kept).fit(X, Y)
    assert not sweeps


def test_what_killed_processes_left_half_written_is_no_hindrance(folder, expected):
    X, Y = cones()
    folder.mkdir(parents=True)
    old, new = folder / f"{UNFINISHED}a1b2", folder / f"{UNFINISHED}c3d4"
    for file in (old, new):
        file.write_bytes(b"half")
    os.utime(old, (0, 0))
    assert bits_of(make(checkpoint=folder).fit(X, Y)) == expected
    assert not old.exists() and new.exists()  # another process may still write the new one


# ------------------------------------------------------------------------------------ a full disk


@pytest.mark.parametrize("settings", [{}, ALL_ROWS], ids=["rows left out", "all rows"])
def test_a_disk_that_is_full_leaves_the_last_good_checkpoint(folder, monkeypatch, settings):
    X, Y = cones()
    written, fsync, name = [], os.fsync, "chain-000"

    def fill(handle):
        written.append(handle)
        if len(written) > 8:  # two calls per file: the fit, sweeps 1, 2 and 3
            raise OSError(28, "No space left on device")
        fsync(handle)

    monkeypatch.setattr(os, "fsync", fill)
    with pytest.raises(
        CheckpointError,
        match=rf"cannot write .*{name}\.npz: No space left on device \(4 sweeps done; the last "
        r"good checkpoint, after sweep 3, is still there\)",
    ):
        make(checkpoint=folder, checkpoint_every=1, **settings).fit(X, Y)
    monkeypatch.undo()
    assert names_of(folder) == sorted(["fit.npz", f"{name}.npz"])
    with np.load(folder / f"{name}.npz") as file:
        assert file["snapshot.sweep"] == 3
    expected = bits_of(make(**settings).fit(X, Y))
    assert bits_of(make(checkpoint=folder, **settings).fit(X, Y)) == expected


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit on the size of files")
def test_a_real_limit_on_files_is_a_clear_error_and_the_fit_is_resumed_without_it(folder, expected):
    # A first file fits under the limit, that of a chain does not.
    X, Y = cones()
    code = f"""
        import resource, sys
        import numpy as np
        from dbdl import CheckpointError, DBDLClassifier

        X, y = np.array(eval(sys.stdin.readline())), np.array(eval(sys.stdin.readline()))
        model = DBDLClassifier(checkpoint={str(folder)!r}, checkpoint_every=2, **{SETTINGS!r})
        DBDLClassifier(**{SETTINGS!r}).fit(X, y)  # kernels are compiled and kept first
        resource.setrlimit(resource.RLIMIT_FSIZE, (6000, resource.RLIM_INFINITY))
        try:
            model.fit(X, y)
        except CheckpointError as error:
            print(error)
    """
    rows = f"{X.tolist()}\n{Y.tolist()}\n"
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        input=rows,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert "chain-000.npz: File too large (2 sweeps done; no checkpoint of this chain was" in (
        result.stdout
    ), result.stderr
    assert [file.name for file in folder.iterdir()] == ["fit.npz"]
    assert bits_of(make(checkpoint=folder).fit(X, Y)) == expected


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL on Windows")
def test_a_process_killed_again_and_again_ends_with_the_same_bits(folder):
    bits, seconds = undisturbed(150, 12)
    moments = iter([0.3 * seconds, 0.6 * seconds])
    trial = run_killed(str(folder), 150, 12, moments, most_kills=2)
    assert trial.bits == bits and len(trial.killed_after) > 0


# ------------------------------------------------------------------------------------- warm start


def test_more_sweeps_are_resumed_from_the_last_states(count_sweeps, expected):
    X, Y = cones()
    model = make(n_sweeps=3, warm_start=True).fit(X, Y)
    assert bits_of(model) == bits_of(make(n_sweeps=3).fit(X, Y))
    sweeps = count_sweeps()
    assert bits_of(model.set_params(n_sweeps=5).fit(X, Y)) != expected
    assert len(sweeps) == 2 * 2  # two sweeps of two chains
    assert bits_of(model.set_params(n_sweeps=7).fit(X, Y)) == expected
    assert len(sweeps) == 4 * 2
    assert bits_of(model.fit(X, Y)) == expected and len(sweeps) == 4 * 2


@pytest.mark.parametrize("n_sweeps", [1, 2])
def test_choices_are_made_again_after_more_sweeps(expected, n_sweeps):
    X, Y = cones()
    model = make(n_sweeps=n_sweeps, warm_start=True).fit(X, Y)
    assert bits_of(model.set_params(n_sweeps=7).fit(X, Y)) == expected


@pytest.mark.parametrize("label_weight", [0.1, "auto"])
def test_joint_chains_with_a_weight_of_labels_are_resumed_in_a_folder(folder, label_weight):
    X, Y = cones()
    joint = {"classifier": "joint", "label_weight": label_weight}
    make(n_sweeps=3, warm_start=True, checkpoint=folder, **joint).fit(X, Y)
    found = make(warm_start=True, checkpoint=folder, **joint).fit(X, Y)
    assert bits_of(found) == bits_of(make(**joint).fit(X, Y))


def test_chains_of_every_size_are_resumed(count_sweeps):
    X, Y = cones()
    expected = make(n_initial_atoms="auto").fit(X, Y)
    model = make(n_initial_atoms="auto", n_sweeps=4, warm_start=True).fit(X, Y)
    sweeps = count_sweeps()
    model.set_params(n_sweeps=7).fit(X, Y)
    assert bits_of(model) == bits_of(expected)
    n_sizes = len(model.size_curve_.accuracy)
    assert n_sizes > 1 and len(sweeps) == n_sizes * 2 * 3
    np.testing.assert_array_equal(model.size_curve_.accuracy, expected.size_curve_.accuracy)


IN_ROUNDS = {"n_chains": None, "views": ["plain", "standardised"], "n_sweeps": 4}


@pytest.mark.parametrize("n_files", [3, 9, 15])  # in the first round, or in the second
def test_both_rounds_are_resumed_in_a_folder(folder, stop_after, monkeypatch, n_files):
    expected = bits_of(make(**IN_ROUNDS).fit(*cones()))
    stop_after(n_files)
    with pytest.raises(Stopped):
        make(checkpoint=folder, checkpoint_every=2, n_jobs=1, **IN_ROUNDS).fit(*cones())
    monkeypatch.undo()
    resumed = make(checkpoint=folder, checkpoint_every=2, **IN_ROUNDS).fit(*cones())
    assert bits_of(resumed) == expected


def test_both_rounds_are_resumed_from_the_last_states(tmp_path):
    expected = bits_of(make(**IN_ROUNDS).fit(*cones()))
    model = make(**IN_ROUNDS, warm_start=True).set_params(n_sweeps=2).fit(*cones())
    model = persistence.load(persistence.save(model, tmp_path / "model.skops"))
    assert bits_of(model.set_params(n_sweeps=4).fit(*cones())) == expected


@pytest.mark.parametrize("kind", ["recoded", "gibbs", "joint"])
def test_every_classifier_is_resumed(kind):
    X, Y = cones()
    model = make(n_sweeps=4, warm_start=True, classifier=kind).fit(X, Y)
    expected = make(classifier=kind).fit(X, Y)
    assert bits_of(model.set_params(n_sweeps=7).fit(X, Y)) == bits_of(expected)


def test_without_a_seed_the_states_keep_theirs():
    X, Y = cones()
    model = make(n_sweeps=3, warm_start=True, random_state=None).fit(X, Y)
    first = model.trace_.log_joint
    again = model.set_params(n_sweeps=5).fit(X, Y).trace_.log_joint
    np.testing.assert_array_equal(again[:, :3], first)


def test_fewer_sweeps_are_warned_about_and_change_nothing(expected):
    X, Y = cones()
    model = make(warm_start=True).fit(X, Y)
    with pytest.warns(UserWarning, match="n_sweeps=4, but the chains have more sweeps already"):
        model.set_params(n_sweeps=4).fit(X, Y)
    assert bits_of(model) == expected
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert bits_of(model.set_params(n_sweeps=7).fit(X, Y)) == expected


def test_other_data_and_parameters_are_refused_and_the_states_stay(expected):
    X, Y = cones()
    model = make(n_sweeps=5, warm_start=True).fit(X, Y)
    with pytest.raises(
        ValueError, match=r"X, y or the weights are other data.*Use warm_start=False"
    ):
        model.fit(X[:-1], Y[:-1])
    with pytest.raises(ValueError, match=r"penalty was 0\.1 and is 0\.2"):
        model.set_params(penalty=0.2).fit(X, Y)
    with pytest.raises(ValueError, match="random_state gives another seed"):
        model.set_params(penalty=0.1, random_state=8).fit(X, Y)
    model.set_params(random_state=0, n_sweeps=7)
    assert bits_of(model.fit(X, Y)) == expected


def test_states_are_kept_only_where_they_are_asked_for(expected):
    X, Y = cones()
    model = make(n_sweeps=4).fit(X, Y)
    assert not hasattr(model, "_memory")
    with pytest.warns(UserWarning, match="kept no states of its chains"):
        model.set_params(warm_start=True, n_sweeps=7).fit(X, Y)
    assert hasattr(model, "_memory") and bits_of(model) == expected
    model.set_params(warm_start=False).fit(X, Y)
    assert not hasattr(model, "_memory")


def test_the_unsupervised_dictionary_warm_starts():
    X, _ = cones()
    expected = BetaProcessDictionary(n_sweeps=7, random_state=1).fit(X)
    model = BetaProcessDictionary(n_sweeps=3, random_state=1, warm_start=True).fit(X)
    model.set_params(n_sweeps=7).fit(X)
    assert model.atoms_.tobytes() == expected.atoms_.tobytes()
    assert model.trace_.log_joint.tobytes() == expected.trace_.log_joint.tobytes()


def test_a_warm_start_is_resumed_in_a_folder_and_after_a_stop(
    folder, expected, stop_after, monkeypatch
):
    X, Y = cones()
    make(n_sweeps=4, warm_start=True, checkpoint=folder).fit(X, Y)
    stop_after(3)  # the fit says seven sweeps, and the first chain has done six
    with pytest.raises(Stopped):
        make(warm_start=True, checkpoint=folder, checkpoint_every=1).fit(X, Y)
    monkeypatch.undo()
    again = make(warm_start=True, checkpoint=folder).fit(X, Y)
    assert bits_of(again) == expected
    longer = make(n_sweeps=9).fit(X, Y)
    # The states that were read from the folder are in memory too.
    other = folder.parent / "other"
    again.set_params(n_sweeps=9, checkpoint=other).fit(X, Y)
    assert bits_of(again) == bits_of(longer)
    assert bits_of(make(n_sweeps=9, checkpoint=other).fit(X, Y)) == bits_of(longer)


@pytest.mark.parametrize("how", ["pickle", "skops"])
def test_a_model_that_was_saved_is_resumed(tmp_path, expected, how):
    X, Y = cones()
    model = make(n_sweeps=4, warm_start=True, checkpoint=tmp_path / "kept").fit(X, Y)
    if how == "pickle":
        again = pickle.loads(pickle.dumps(model))
    else:
        again = persistence.load(persistence.save(model, tmp_path / "model.skops"))
    assert Path(again.checkpoint) == tmp_path / "kept"
    again.set_params(n_sweeps=7, checkpoint=None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert bits_of(again.fit(X, Y)) == expected


@pytest.mark.parametrize("settings", [{"warm_start": True}, {"checkpoint": "kept"}], ids=str)
def test_a_transformer_as_a_view_cannot_be_resumed_and_nothing_is_written(
    settings, tmp_path, monkeypatch
):
    X, Y = cones()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"StandardScaler\(\) cannot be resumed.*views by name"):
        make(views=StandardScaler(), **settings).fit(X, Y)
    assert not list(tmp_path.iterdir())


def test_a_batch_ends_what_warm_start_remembers():
    X, y = np.random.default_rng(0).standard_normal((60, 6)), np.arange(60) % 3
    model = DBDLClassifier(n_sweeps=4, n_chains=1, n_nonzero=2, random_state=0, warm_start=True)
    model.fit(X, y)
    with pytest.warns(UserWarning, match="starts anew"):
        model.partial_fit(X, y + 3)
    with pytest.warns(UserWarning, match="kept no states"):
        model.set_params(n_sweeps=3).fit(X, y)
    fresh = DBDLClassifier(n_sweeps=3, n_chains=1, n_nonzero=2, random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), fresh.predict(X))


def test_a_whole_number_is_the_setting_it_is(tmp_path):
    X, y = np.random.default_rng(0).standard_normal((60, 6)), np.arange(60) % 3
    settings = {"n_sweeps": 2, "n_chains": 1, "n_nonzero": 2, "checkpoint": tmp_path}
    first, second = (
        DBDLClassifier(random_state=0, model=ModelSettings(noise_precision=number), **settings).fit(
            X, y
        )
        for number in (1e6, 1_000_000)
    )
    np.testing.assert_array_equal(first.atoms_, second.atoms_)
