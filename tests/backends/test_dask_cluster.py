"""A cluster gives the same bits as one machine, even if workers die."""

import logging
import os
import signal
import subprocess
import sys
import threading
import time
import warnings

import numpy as np
import pytest
from chain_problem import BLOCK_ROWS, assert_same_bits, everything, rows_and_classes
from same_records import assert_same_record

from dbdl import BetaProcessDictionary, DBDLClassifier
from dbdl.backends import NumbaBackend, make_engine
from dbdl.backends.sharded import ShardedBackend, cut
from dbdl.coding import Forward
from dbdl.learn.chain import ChainSettings
from dbdl.rows import lazy_rows, open_rows
from dbdl.views import AUTOMATIC, LabelledRows, view_named

distributed = pytest.importorskip("distributed", reason="needs the extra dask")
da = pytest.importorskip("dask.array")

from dbdl.backends import dask_cluster  # noqa: E402
from dbdl.backends.dask_cluster import ClusterLostError, DaskEngine  # noqa: E402

LONG = ChainSettings(n_sweeps=12, n_initial_atoms=60)
FIT = {"n_sweeps": 2, "n_chains": 2, "n_initial_atoms": 40, "n_nonzero": 4, "random_state": 0}
#: Nothing is chosen, so no row is left out.
FIT_ALL = FIT | {"n_chains": 1, "n_nonzero": "auto", "coder": Forward(4), "calibrate": False}


def two_workers():
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    return distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, memory_limit=0
    )


@pytest.fixture(scope="module")
def cluster():
    with two_workers() as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    with distributed.Client(cluster) as client:
        client.wait_for_workers(2, timeout=60)
        yield client


class Cut(DaskEngine):
    """As many parts as asked for."""

    def __init__(self, client, n_parts):
        super().__init__(client)
        object.__setattr__(self, "n_parts", n_parts)

    def nodes(self, source, block_rows):
        return cut(-(-source.shape[0] // block_rows), self.n_parts)


def sharded(engine):
    inner = NumbaBackend(block_rows=BLOCK_ROWS)
    return ShardedBackend(block_rows=BLOCK_ROWS, inner=inner, engine=engine)


def in_one_place(settings=LONG):
    X, class_of_row = rows_and_classes()
    return everything(NumbaBackend(block_rows=BLOCK_ROWS), X, class_of_row, settings)


@pytest.mark.parametrize("n_parts", [1, 2, 3, 7])
def test_any_number_of_parts_on_two_workers_gives_the_same_bits(client, n_parts):
    X, class_of_row = rows_and_classes()
    found = everything(sharded(Cut(client, n_parts)), X, class_of_row, LONG)
    assert_same_bits(found, in_one_place())


def test_one_worker_gives_the_same_bits():
    X, class_of_row = rows_and_classes()
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None
        ) as one,
        distributed.Client(one, set_as_default=False) as client,
    ):
        found = everything(sharded(DaskEngine(client)), X, class_of_row, LONG)
    assert_same_bits(found, in_one_place())


def test_a_killed_worker_changes_no_bit():
    X, class_of_row = rows_and_classes()
    n_fetched, killed = 0, []

    class Watched(DaskEngine):
        def fetch(self, handle):
            nonlocal n_fetched
            n_fetched += 1
            if n_fetched == 12:
                killed.append(min(self.client.run(os.getpid).values()))
                threading.Timer(0.05, os.kill, (killed[0], signal.SIGKILL)).start()
            return super().fetch(handle)

    with two_workers() as own, distributed.Client(own, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=60)
        found = everything(sharded(Watched(client)), X, class_of_row, LONG)
        left = client.run(os.getpid).values()
    assert_same_bits(found, in_one_place())
    assert killed[0] not in left


def test_without_workers_the_fit_ends_with_a_clear_error():
    X, class_of_row = rows_and_classes()
    with (
        distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=None) as empty,
        distributed.Client(empty, set_as_default=False) as client,
    ):
        start = time.monotonic()
        with pytest.raises(ClusterLostError, match=r"has no worker left .*checkpoint"):
            everything(sharded(DaskEngine(client, lost_after=3.0)), X, class_of_row)
        assert time.monotonic() - start < 60


SCHEDULER = """
from distributed import LocalCluster
import time
if __name__ == "__main__":
    cluster = LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, protocol="tcp", dashboard_address=None
    )
    print(cluster.scheduler_address, flush=True)
    time.sleep(300)
"""


@pytest.fixture
def other_process():
    with subprocess.Popen([sys.executable, "-c", SCHEDULER], stdout=subprocess.PIPE) as process:
        yield process
        process.kill()


def test_without_its_scheduler_the_fit_ends_with_a_clear_error(other_process):
    X, class_of_row = rows_and_classes()
    address = other_process.stdout.readline().decode().strip()
    with distributed.Client(address, set_as_default=False) as client:
        engine = DaskEngine(client, lost_after=3.0)
        assert engine.fetch(engine.run(len, [1, 2])) == 2
        other_process.kill()
        with pytest.raises(ClusterLostError, match="Start it again"):
            everything(sharded(engine), X, class_of_row)


# ------------------------------------------------------------------------------ the estimators


@pytest.fixture(scope="module")
def many_rows():
    return rows_and_classes(n_rows=20_000, n_features=8)


@pytest.fixture(scope="module")
def fitted(many_rows):
    return DBDLClassifier(**FIT).fit(*many_rows)


def assert_same_model(found, expected):
    for name in ("atoms_", "label_atoms_", "selection_probability_", "temperature_"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)


def test_rows_in_memory_can_be_sent_to_a_cluster(client, many_rows, fitted):
    assert_same_model(DBDLClassifier(device="dask", **FIT).fit(*many_rows), fitted)


def test_rows_in_memory_with_gaps_can_be_sent_to_a_cluster(client):
    X, y = rows_and_classes(n_rows=1000, n_features=8)
    X = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)
    expected = DBDLClassifier(**FIT).fit(X, y)
    assert_same_model(DBDLClassifier(device="dask", **FIT).fit(X, y), expected)


def test_rows_of_a_collection_are_learned_where_they_are(client, many_rows, fitted, caplog):
    X, y = many_rows
    rows = da.from_array(X, chunks=(8192, 8))
    model = DBDLClassifier(**FIT).fit(rows, da.from_array(y, chunks=7000))
    assert_same_model(model, fitted)
    assert not caplog.records  # rows that are left out shift the chunks, which nobody can help


@pytest.mark.parametrize("chunks", [(8192, 8), (5000, 4)])
def test_whole_blocks_stay_where_they_are_and_other_chunks_become_whole_with_a_word_about_it(
    client, many_rows, caplog, chunks
):
    X, y = many_rows
    model = DBDLClassifier(**FIT_ALL).fit(da.from_array(X, chunks=chunks), y)
    assert_same_model(model, DBDLClassifier(**FIT_ALL).fit(X, y))
    assert ("multiples of 8192 rows" in caplog.text) == (chunks[0] != 8192)


@pytest.mark.parametrize("name", AUTOMATIC)
def test_views_on_a_cluster_are_learned_with_the_same_bits_as_in_memory(client, many_rows, name):
    X, y = many_rows
    X = 7 * X + np.arange(8, dtype=np.float32)
    some = np.flatnonzero(np.arange(len(X)) % 10 != 3)
    here = view_named(name).fit(LabelledRows(X[some], y[some], 4))
    for chunks in ((8192, 8), (3000, 5)):
        rows = lazy_rows(da.from_array(X, chunks=chunks)).only(some)
        there = view_named(name).fit(LabelledRows(rows, y[some], 4))
        assert_same_record(there, here)
        mapped = rows.through(there)
        np.testing.assert_array_equal(mapped[9000:9100], here.apply(X[some[9000:9100]]))


def test_workers_read_the_rows_that_a_chain_learns_from_a_file(client, many_rows, fitted, tmp_path):
    X, y = many_rows
    np.save(tmp_path / "rows.npy", X)
    reader, _ = open_rows(tmp_path / "rows.npy")
    assert_same_model(DBDLClassifier(device="dask", **FIT).fit(reader, y), fitted)


def test_a_collection_without_a_client_is_read_in_parts(many_rows, fitted):
    X, y = many_rows
    assert_same_model(DBDLClassifier(**FIT).fit(da.from_array(X, chunks=5000), y), fitted)


def test_a_data_frame_is_learned_from_and_its_names_are_kept(client, many_rows, fitted):
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    X, y = many_rows
    frame = dd.from_pandas(pd.DataFrame(X, columns=list("abcdefgh")), npartitions=3)
    model = DBDLClassifier(**FIT).fit(frame, y)
    assert_same_model(model, fitted)
    assert list(model.feature_names_in_) == list("abcdefgh")
    np.testing.assert_array_equal(model.predict(frame).compute(), fitted.predict(X))


@pytest.mark.bits
def test_answers_for_a_collection_are_lazy_and_the_same(many_rows, fitted):
    X, y = many_rows
    rows = da.from_array(X, chunks=(6000, 8))
    for name in ("predict", "predict_proba", "decision_function", "transform"):
        answer, expected = getattr(fitted, name)(rows), getattr(fitted, name)(X)
        assert isinstance(answer, da.Array)
        assert answer.shape == expected.shape
        assert answer.dtype == expected.dtype
        found = answer.compute()
        if name == "transform":
            found, expected = found.toarray(), expected.toarray()
        np.testing.assert_array_equal(found, expected, err_msg=name)
    assert fitted.score(rows, y) == fitted.score(X, y)


def test_a_dictionary_without_labels_can_be_learned_on_a_cluster(client, many_rows):
    X, _ = many_rows
    settings = {"n_sweeps": 2, "n_initial_atoms": 30, "random_state": 0}
    here = BetaProcessDictionary(**settings).fit(X)
    there = BetaProcessDictionary(**settings).fit(da.from_array(X, chunks=(8192, 8)))
    np.testing.assert_array_equal(there.atoms_, here.atoms_)


def test_draws_are_kept_and_callbacks_stop_chains_on_a_cluster(client, many_rows):
    callback = pytest.importorskip("sklearn.callback", reason="came with scikit-learn 1.9")
    X, y = many_rows

    class Stop(callback.ScoringMonitor):
        def on_fit_task_end(self, estimator, context, *, X=None, y=None, fitted_estimator=None):
            super().on_fit_task_end(estimator, context, X=X, y=y, fitted_estimator=fitted_estimator)
            return context.task_name == "sweep" and context.task_id == 1

    found = []
    for rows in (X, da.from_array(X, chunks=(8192, 8))):
        stop = Stop(scoring="accuracy")
        model = DBDLClassifier(n_draws=2, **{**FIT, "n_sweeps": 3}).set_callbacks(stop)
        model.fit(rows, y)
        found.append((model, [line["accuracy"] for line in stop.get_logs().data]))
    (here, scores), (there, other_scores) = found
    assert other_scores == scores and min(scores) > 0
    assert here.trace_.n_atoms.shape[1] == 2
    assert_same_model(there, here)
    for one, other in zip(here.chains_, there.chains_, strict=True):
        np.testing.assert_array_equal(
            other.draws.selection_probability, one.draws.selection_probability
        )


def test_bad_rows_on_a_worker_are_named(client, many_rows):
    X, y = many_rows
    X = X.copy()
    X[15_000, 3] = np.nan
    with pytest.raises(ValueError, match="NaN or infinity, first in row 15000"):
        DBDLClassifier(**FIT).fit(da.from_array(X, chunks=(8192, 8)), y)


def test_a_cluster_that_is_not_there_is_asked_for():
    X, y = rows_and_classes(100)
    with pytest.raises(ValueError, match="needs a Dask cluster"):
        DBDLClassifier(device="dask").fit(X, y)


def test_a_classifier_that_needs_all_rows_says_so(many_rows):
    X, y = many_rows
    with pytest.raises(ValueError, match="needs all rows in memory"):
        DBDLClassifier(classifier="recoded").fit(da.from_array(X, chunks=5000), y)


def test_what_a_task_raises_is_raised(client):
    def fail(kind):
        raise kind("a file that only the head sees")

    engine = DaskEngine(client)
    for kind in (FileNotFoundError, TimeoutError):
        with pytest.raises(kind, match="only the head sees"):
            engine.fetch(engine.run(fail, kind))


def test_partitions_without_rows_have_no_answers(many_rows, fitted):
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    X, _ = many_rows
    frame = pd.DataFrame(X[:300], columns=list("abcdefgh"))
    rows = dd.from_pandas(frame, npartitions=3)
    rows = rows.map_partitions(lambda part: part[part.index >= 250])
    with pytest.warns(UserWarning, match="X has feature names"):
        found = fitted.predict(rows)
    np.testing.assert_array_equal(found.compute(), fitted.predict(X[250:300]))


# ------------------------------------------------------------------------ unlike processors


@pytest.fixture
def no_warnings_yet(monkeypatch):
    monkeypatch.setattr(dask_cluster, "_warned_of", set())


def say_on_workers(monkeypatch, answer):
    """Let workers answer with what a function returns, and this process with its own kind."""
    here, kind = os.getpid(), dask_cluster.processor_kind()
    monkeypatch.setattr(
        dask_cluster, "processor_kind", lambda: kind if os.getpid() == here else answer()
    )


def test_workers_of_one_kind_are_not_warned_of(client, no_warnings_yet):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert isinstance(make_engine(np.ones((4, 2)), "dask"), DaskEngine)


def worker(**environment):
    return {"cls": distributed.Nanny, "options": {"nthreads": 1, "env": environment}}


def test_a_worker_of_another_kind_is_named(no_warnings_yet):
    workers = {"like": worker(), "unlike": worker(NUMBA_CPU_NAME="another")}
    scheduler = {"cls": distributed.Scheduler, "options": {"dashboard_address": ":0"}}
    with (
        distributed.SpecCluster(workers, scheduler) as own,
        distributed.Client(own) as client,
    ):
        client.wait_for_workers(2, timeout=60)
        names = client.run(os.getenv, "NUMBA_CPU_NAME")
        [address] = [address for address, name in names.items() if name == "another"]
        with pytest.warns(UserWarning, match="different kinds") as record:
            make_engine(np.ones((4, 2)), "dask")
    text = str(record[0].message)
    assert f"worker {address}: another (BLAS kernels" in text
    assert "from a fit on one machine and between runs" in text
    assert "use workers of one kind" in text


def test_a_fit_on_unlike_processors_says_so_once(
    client, many_rows, fitted, monkeypatch, no_warnings_yet
):
    say_on_workers(monkeypatch, lambda: "another kind")
    X, y = many_rows
    with pytest.warns(UserWarning, match="from a fit on one machine\\.") as record:
        model = DBDLClassifier(device="dask", **FIT).fit(X, y)
    assert_same_model(model, fitted)
    [warning] = [warning for warning in record if "different kinds" in str(warning.message)]
    assert warning.filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        make_engine(X, "dask")


def test_a_worker_that_cannot_say_its_kind_is_passed_over(client, monkeypatch, no_warnings_yet):
    def fail():
        raise ModuleNotFoundError("no numba here")

    say_on_workers(monkeypatch, fail)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        assert isinstance(make_engine(np.ones((4, 2)), "dask"), DaskEngine)


def test_a_worker_that_does_not_answer_holds_up_no_fit(client, monkeypatch, no_warnings_yet):
    say_on_workers(monkeypatch, lambda: time.sleep(3))
    monkeypatch.setattr(dask_cluster, "ANSWER_WITHIN", 0.1)
    engine = make_engine(np.ones((4, 2)), "dask")
    assert engine.fetch(engine.run(len, [1, 2])) == 2


def test_only_a_few_of_many_workers_are_named(no_warnings_yet):
    many = {f"tcp://worker-{i}": "another" for i in range(200)}
    with pytest.warns(UserWarning, match="different kinds") as record:
        dask_cluster._warn_of_unlike_processors("one", many)
    assert "worker-1, tcp://worker-10 and 197 more: another" in str(record[0].message)
