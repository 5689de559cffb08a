"""Processes are killed with SIGKILL at random moments, and the fit still ends with the same bits.

    python -m benchmarks.kill {checkpoint,worker} [--times 20] [--kills 3] [--seed 0]

``checkpoint``: a process that fits scikit-learn's digits and keeps checkpoints is killed at a
random moment of its fit and started again. The new process is killed in turn, until one finishes.

``worker``: a worker of a Dask cluster is killed at a random moment of a fit, which continues.
"""

from __future__ import annotations

import argparse
import hashlib
import logging
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dbdl.backends import NumbaBackend
from dbdl.backends.sharded import ShardedBackend
from dbdl.draws import make_key
from dbdl.learn.chain import ChainSettings, learn_chain
from dbdl.model.record import Record

READY = "ready"
BLOCK_ROWS = 512


class Trial(NamedTuple):
    """What became of one fit: seconds after which it was killed, and the bits of its end."""

    killed_after: list[float]
    bits: str


# -------------------------------------------------------------------- a process with checkpoints


def fit_with_checkpoints(folder: str, n_rows: int, n_sweeps: int) -> None:
    """Fit, keeping a checkpoint every sweep; print when it starts, and the bits at its end."""
    from sklearn.datasets import load_digits

    from dbdl import DBDLClassifier

    X, y = load_digits(return_X_y=True)
    settings = {"n_chains": 3, "n_jobs": 2, "random_state": 0}
    # Compiled kernels are loaded before the clock starts.
    DBDLClassifier(n_sweeps=3, **settings).fit(X[:60], y[:60])
    print(READY, flush=True)
    model = DBDLClassifier(
        n_sweeps=n_sweeps, checkpoint=folder or None, checkpoint_every=1, **settings
    )
    print(bits_of(model.fit(X[:n_rows], y[:n_rows])), flush=True)


def bits_of(model: object) -> str:
    """Digest of everything that a fit publishes."""
    total = hashlib.blake2b(digest_size=16)
    trace, held_out = model.trace_, model.held_out_
    arrays = [model.atoms_, model.label_atoms_, model.selection_probability_]
    arrays += [getattr(trace, field.name) for field in fields(trace)]
    if held_out is not None:
        arrays += [held_out.accuracy, held_out.view_log_loss, held_out.view_sharpness]
    for chain in model.chains_:
        arrays += [chain.atoms, *arrays_of(chain.view)]
    for array in arrays:
        total.update(f"{array.dtype} {array.shape}".encode())
        total.update(array.tobytes())
    chosen = [(chain.coder, chain.weight) for chain in model.chains_]
    total.update(repr((chosen, model.temperature_)).encode())
    return total.hexdigest()


def arrays_of(record: Record) -> Iterator[Any]:
    """All arrays of a record, such as a view, and of the records inside it."""
    for part in record.__getstate__().values():
        if isinstance(part, Record):
            yield from arrays_of(part)
        elif isinstance(part, np.ndarray):
            yield part


@contextmanager
def checkpointing_process(folder: str, n_rows: int, n_sweeps: int) -> Iterator[subprocess.Popen]:
    """Start `fit_with_checkpoints` in a process of its own; entered when its fit starts."""
    call = f"from benchmarks.kill import *; fit_with_checkpoints({folder!r}, {n_rows}, {n_sweeps})"
    root = str(Path(__file__).parent.parent)
    path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    with subprocess.Popen(
        [sys.executable, "-c", call],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    ) as process:
        try:
            if process.stdout.readline().strip() != READY:
                raise RuntimeError(f"the process ended with code {process.wait()} before its fit")
            yield process
        finally:
            process.kill()


def undisturbed(n_rows: int, n_sweeps: int) -> tuple[str, float]:
    """Bits and seconds of a fit without checkpoints that nobody stops."""
    with checkpointing_process("", n_rows, n_sweeps) as process:
        start = time.perf_counter()
        bits = process.stdout.readline().strip()
        return bits, time.perf_counter() - start


def run_killed(
    folder: str, n_rows: int, n_sweeps: int, moments: Iterator[float], most_kills: int
) -> Trial:
    """Start, kill after the next of ``moments`` (seconds), start again, until a fit ends."""
    killed_after: list[float] = []
    while True:
        with checkpointing_process(folder, n_rows, n_sweeps) as process:
            if len(killed_after) < most_kills:
                moment = next(moments)
                try:
                    process.wait(moment)
                except subprocess.TimeoutExpired:
                    process.kill()  # SIGKILL
                    killed_after.append(moment)
                    continue
            bits = process.stdout.readline().strip()
            if process.wait() != 0:
                raise RuntimeError(f"the fit failed with code {process.returncode}")
            return Trial(killed_after, bits)


def checkpoint(
    times: int, most_kills: int, seed: int, n_rows: int = 500, n_sweeps: int = 30
) -> int:
    """Kill a process with checkpoints; returns how many trials ended with the same bits."""
    expected, seconds = undisturbed(n_rows, n_sweeps)
    print(f"undisturbed: {seconds:.1f} s, bits {expected}", flush=True)
    source = random.Random(seed)
    moments = iter(lambda: source.uniform(0.0, seconds), None)
    same = 0
    for number in range(1, times + 1):
        with tempfile.TemporaryDirectory() as folder:
            trial = Trial([], "")
            while not trial.killed_after:  # one that ended by itself says nothing
                path = tempfile.mkdtemp(dir=folder)
                trial = run_killed(path, n_rows, n_sweeps, moments, most_kills)
        identical = trial.bits == expected
        same += identical
        after = ", ".join(f"{moment:.2f}" for moment in trial.killed_after)
        verdict = "identical" if identical else f"DIFFERENT: {trial.bits}"
        print(
            f"trial {number:>2}: {len(trial.killed_after)} kills, after {after} s: {verdict}",
            flush=True,
        )
    return same


# ------------------------------------------------------------------------------ workers of Dask


class Cluster:
    """Two workers that fit the same rows again and again, and can be killed while they do."""

    def __init__(self, client: Any) -> None:
        rng = np.random.default_rng(0)
        self.y = rng.integers(0, 5, 6000)
        centres = rng.standard_normal((5, 32))
        X = (centres[self.y] + 0.3 * rng.standard_normal((6000, 32))).astype(np.float32)
        self.X = X / np.linalg.norm(X, axis=1, keepdims=True)
        self.client = client

    def bits(self, backend: Any) -> str:
        """Digest of what a chain publishes."""
        settings = ChainSettings(n_initial_atoms=100, n_sweeps=20)
        learned = learn_chain(make_key(1), self.X, self.y, settings, backend)
        total = hashlib.blake2b(digest_size=16)
        for array in (learned.dictionary.atoms, learned.chain.trace.log_joint):
            total.update(array.tobytes())
        return total.hexdigest()

    def fit(self) -> str:
        """Fit on the workers."""
        from dbdl.backends.dask_cluster import DaskEngine

        inner = NumbaBackend(block_rows=BLOCK_ROWS)
        engine = DaskEngine(self.client)
        return self.bits(ShardedBackend(block_rows=BLOCK_ROWS, inner=inner, engine=engine))

    def kill_after(self, moments: list[float], source: random.Random) -> list[float]:
        """Kill a worker at each of these moments (seconds); returns those that were killed."""
        start, killed = time.perf_counter(), []
        for moment in sorted(moments):
            time.sleep(max(moment - (time.perf_counter() - start), 0))
            pids = sorted(self.client.run(os.getpid, on_error="ignore").values())
            if self.fitting and pids:
                os.kill(source.choice(pids), signal.SIGKILL)
                killed.append(time.perf_counter() - start)
        return killed

    fitting = False


def worker(times: int, most_kills: int, seed: int) -> int:
    """Kill workers of a cluster; returns how many trials ended with the same bits."""
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    source = random.Random(seed)
    same, done = 0, 0
    while done < times:
        with two_workers() as client, ThreadPoolExecutor(1) as killer:
            cluster = Cluster(client)
            expected = cluster.bits(NumbaBackend(block_rows=BLOCK_ROWS))
            cluster.fit()  # workers load their compiled code
            start = time.perf_counter()
            assert cluster.fit() == expected
            seconds = time.perf_counter() - start
            print(f"undisturbed: {seconds:.1f} s, bits {expected}, as without Dask", flush=True)
            while done < times and both_there(client):
                moments = [source.uniform(0.0, seconds) for _ in range(most_kills)]
                cluster.fitting = True
                task = killer.submit(cluster.kill_after, moments, source)
                bits = cluster.fit()
                cluster.fitting = False
                if not (killed := task.result()):  # one that ended by itself says nothing
                    continue
                done += 1
                same += bits == expected
                after = ", ".join(f"{moment:.2f}" for moment in killed)
                verdict = "identical" if bits == expected else f"DIFFERENT: {bits}"
                print(
                    f"trial {done:>2}: {len(killed)} kills, after {after} s: {verdict}", flush=True
                )
    return same


@contextmanager
def two_workers() -> Iterator[Any]:
    """Start two workers of one thread each."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, memory_limit=0
        ) as processes,
        Client(processes) as client,
    ):
        yield client


def both_there(client: Any) -> bool:
    """Wait for the worker that was killed to be back, its nanny included.

    Dask gives up a worker that is killed while its nanny still waits for it to start.
    """
    from distributed import Status

    for _ in range(100):
        processes = [nanny.process for nanny in client.cluster.workers.values()]
        started = [process for process in processes if process and process.status is Status.running]
        if len(started) == len(client.scheduler_info()["workers"]) == 2:
            return True
        time.sleep(0.1)
    return False


#: What can be killed, by name; each is given the numbers of trials and of kills, and a seed.
KINDS: dict[str, Callable[[int, int, int], int]] = {"checkpoint": checkpoint, "worker": worker}


def main() -> None:
    """Parse the command line, run the trials, and fail where bits differ."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kill", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("kind", choices=KINDS, help="what is killed")
    parser.add_argument("--times", type=int, default=20, help="number of trials")
    parser.add_argument("--kills", type=int, default=3, help="kills of one fit, at most")
    parser.add_argument("--seed", type=int, default=0, help="of the random moments")
    arguments = parser.parse_args()
    same = KINDS[arguments.kind](arguments.times, arguments.kills, arguments.seed)
    print(f"{same} of {arguments.times} identical")
    sys.exit(same != arguments.times)


if __name__ == "__main__":
    main()
