"""Many rows: two workers compared with one, and time and memory against the number of rows.

    python -m benchmarks.scale [workers rows] [--quick]

workers: a chain on a Dask cluster with one and with two workers of one thread each. The workers
read the rows from a file themselves. Besides the ratio, this prints how much of the time nobody
computed, and the bytes sent between processes per sweep, compared with the size of the sums and
parameters.

rows: a chain that reads its rows part by part from a file, in a new process for each number of
rows. This prints the seconds per sweep, the exponent of their growth, and the peak of resident
memory.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bench_memory import MIB, forget_peak, peak_bytes, resident_bytes
from benchmarks.journal import Telling
from dbdl.backends import NumbaBackend
from dbdl.backends.sharded import InTurn, ShardedBackend
from dbdl.draws import make_key
from dbdl.learn.chain import ChainSettings, learn_chain
from dbdl.rows import LazyRows, lazy_rows, open_rows
from dbdl.views import LabelledRows, View

N_FEATURES, N_ATOMS, N_CLASSES, N_SWEEPS = 128, 1000, 10, 3
N_TRUE_ATOMS, N_TRUE_NONZERO, NOISE = 20, 3, 0.01
BLOCK = 50_000


def write_rows(path: Path, n_rows: int) -> None:
    """Write rows that few of the true atoms of their class explain, some at a time."""
    rng = np.random.default_rng(0)
    atoms = rng.standard_normal((N_CLASSES, N_TRUE_ATOMS, N_FEATURES), dtype=np.float32)
    file = np.lib.format.open_memmap(path, "w+", np.float32, (n_rows, N_FEATURES))
    for first in range(0, n_rows, BLOCK):
        y = labels(n_rows)[first : first + BLOCK]
        X = NOISE * rng.standard_normal((len(y), N_FEATURES), dtype=np.float32)
        for _ in range(N_TRUE_NONZERO):
            strength = rng.standard_normal((len(y), 1), dtype=np.float32)
            X += strength * atoms[y, rng.integers(0, N_TRUE_ATOMS, len(y))]
        file[first : first + BLOCK] = X
    file.flush()


def labels(n_rows: int) -> np.ndarray:
    """Class numbers of the rows."""
    return np.arange(n_rows) % N_CLASSES


def rows_of(path: Path) -> LazyRows:
    """Rows of a file in the plain view: each is scaled to unit norm when it is read."""
    rows = lazy_rows(open_rows(path)[0])
    assert rows is not None
    return rows.through(View().fit(LabelledRows(rows, labels(len(rows)), N_CLASSES)))


def learn(backend: Any, rows: Any, on_sweep: Callable[[Any], None]) -> Any:
    """Learn one chain."""
    settings = ChainSettings(n_initial_atoms=N_ATOMS, n_sweeps=N_SWEEPS)
    return learn_chain(make_key(0), rows, labels(len(rows)), settings, backend, Telling(on_sweep))


# -------------------------------------------------------------------------------------- workers


@dataclass
class Cluster:
    """What was seen of a chain on a cluster."""

    n_workers: int
    start_seconds: float
    sweep_seconds: float
    head_seconds: float
    worker_seconds: float
    covered_seconds: float
    n_atoms: int
    moved: int
    digest: float

    @property
    def outside(self) -> float:
        """Share of a sweep in which neither the head nor any worker computed."""
        return 1 - (self.head_seconds + self.covered_seconds) / self.sweep_seconds

    @property
    def waiting(self) -> float:
        """Share of a sweep in which a worker waited for a slower one, on average."""
        return (self.covered_seconds - self.worker_seconds / self.n_workers) / self.sweep_seconds


class Watched(ShardedBackend):
    """Times what the head does itself."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        object.__setattr__(self, "seconds", defaultdict(float))

    def _timed(self, name: str, *arguments: Any) -> Any:
        start = time.perf_counter()
        value = getattr(super(), name)(*arguments)
        self.seconds[name] += time.perf_counter() - start
        return value

    def draw_atoms(self, *arguments: Any) -> Any:
        return self._timed("draw_atoms", *arguments)

    def draw_selection(self, *arguments: Any) -> Any:
        return self._timed("draw_selection", *arguments)

    def log_large_terms(self, *arguments: Any) -> Any:
        return self._timed("log_large_terms", *arguments)


def on_cluster(path: Path, n_workers: int) -> Cluster:
    """Learn a chain on so many workers of one thread."""
    from distributed import Client, LocalCluster, get_task_stream

    from dbdl.backends.dask_cluster import DaskEngine

    rows = rows_of(path)
    with (
        LocalCluster(
            n_workers=n_workers, threads_per_worker=1, dashboard_address=None, memory_limit=0
        ) as cluster,
        Client(cluster) as client,
    ):
        warm_up(client)
        backend = Watched(inner=NumbaBackend(), engine=DaskEngine(client))
        ends: list[float] = []
        moved: list[int] = []
        before: dict[str, float] = {}
        marks: list[float] = []

        def note(_: Any) -> None:
            ends.append(time.perf_counter())
            moved.append(sum(client.run(_bytes_sent).values()))
            marks.append(time.time())
            if len(moved) == 1:
                before.update(backend.seconds)

        begin = time.perf_counter()
        with get_task_stream(client) as stream:
            learned = learn(backend, rows, note)
        n = N_SWEEPS - 1
        spans = computing(stream.data, marks[0], marks[-1])
        head = sum(backend.seconds[name] - before[name] for name in before)
        return Cluster(
            n_workers,
            ends[0] - begin,
            (ends[-1] - ends[0]) / n,
            head / n,
            sum(stop - start for start, stop in spans) / n,
            covered(spans) / n,
            learned.chain.state.parameters.n_atoms,
            (moved[-1] - moved[0]) // n,
            float(np.abs(learned.dictionary.atoms.astype(np.float64)).sum()),
        )


def warm_up(client: Any) -> None:
    """Let every worker load its compiled code."""

    def small() -> None:
        X = np.random.default_rng(0).standard_normal((100, N_FEATURES)).astype(np.float32)
        learn_chain(make_key(0), X, labels(100), ChainSettings(n_sweeps=1), NumbaBackend())

    client.run(small)


def _bytes_sent(dask_worker: Any) -> int:
    return int(sum(sent["total"] for sent in dask_worker.transfer_outgoing_log))


def computing(
    tasks: Sequence[dict[str, Any]], start: float, stop: float
) -> list[tuple[float, float]]:
    """When workers swept and summed between two times: start and end, in order."""
    return sorted(
        (step["start"], step["stop"])
        for task in tasks
        if str(task["key"]).startswith(("dbdl-sweep", "dbdl-gather"))
        for step in task["startstops"]
        if step["action"] == "compute" and start <= step["start"] and step["stop"] <= stop
    )


def covered(spans: Sequence[tuple[float, float]]) -> float:
    """Length of the union of spans, which are in order."""
    total, end = 0.0, -np.inf
    for start, stop in spans:
        total += max(stop - max(start, end), 0.0)
        end = max(end, stop)
    return total


def run_workers(quick: bool) -> None:
    """Compare one and two workers and print."""
    n_rows = 40_000 if quick else 500_000
    print(f"{n_rows:,} x {N_FEATURES} rows, {N_ATOMS} atoms, workers of one thread each")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        write_rows(path, n_rows)
        one, two = (on_cluster(path, n) for n in (1, 2))
    assert one.digest == two.digest, "the atoms differ"
    print(
        "| workers | start s | sweep s | computing, all workers s | head s | nobody computes % | "
        "waiting for a slower worker % | MB sent by workers |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for seen in (one, two):
        print(
            f"| {seen.n_workers} | {seen.start_seconds:.1f} | {seen.sweep_seconds:.2f} | "
            f"{seen.worker_seconds:.2f} | {seen.head_seconds:.2f} | "
            f"{100 * seen.outside:.1f} | {100 * seen.waiting:.1f} | {seen.moved / 1e6:.1f} |"
        )
    sums = 8 * one.n_atoms * (one.n_atoms + N_FEATURES) / 1e6
    parameters = (4 * one.n_atoms * N_FEATURES + 8 * N_CLASSES * one.n_atoms) / 1e6
    print(
        f"two workers: {one.sweep_seconds / two.sweep_seconds:.2f} times one (wanted 1.7); sums of "
        f"a part {sums:.1f} MB, parameters {parameters:.1f} MB, rows of a worker "
        f"{4 * n_rows * N_FEATURES / 2e6:.0f} MB; the same atoms, bit by bit\n",
        flush=True,
    )


# ----------------------------------------------------------------------------------------- rows


@dataclass
class Read:
    """What was seen of a chain that read its rows in turn."""

    n_rows: int
    start_seconds: float
    sweep_seconds: float
    peak: int
    nonzero: float


def in_turn(path: Path) -> Read:
    """Learn a chain from a file in this process."""
    rows = rows_of(path)
    inner = NumbaBackend(2)
    X = rows[:200]
    learn_chain(make_key(0), X, labels(200), ChainSettings(n_sweeps=1), inner)
    before = resident_bytes()
    forget_peak()
    ends = [time.perf_counter()]
    backend = ShardedBackend(2, inner=inner, engine=InTurn())
    learned = learn(backend, rows, lambda _: ends.append(time.perf_counter()))
    return Read(
        len(rows),
        ends[1] - ends[0],
        (ends[-1] - ends[1]) / (N_SWEEPS - 1),
        peak_bytes() - before,
        float(learned.chain.trace.mean_nonzero[-1]),
    )


def run_rows(quick: bool) -> None:
    """Measure each number of rows and print."""
    print(f"rows of {N_FEATURES} features read in turn, {N_ATOMS} atoms, two threads")
    print("| rows | file MiB | start + first sweep s | sweep s | rows / s | non-zeros | peak MiB |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    seen = []
    for n_rows in (2_000, 8_000, 32_000) if quick else (10_000, 100_000, 1_000_000):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.npy"
            write_rows(path, n_rows)
            command = [sys.executable, "-m", "benchmarks.scale", "--file", str(path)]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        now = Read(**json.loads(done.stdout.splitlines()[-1]))
        seen.append(now)
        print(
            f"| {now.n_rows:,} | {4 * n_rows * N_FEATURES / MIB:.0f} | {now.start_seconds:.1f} | "
            f"{now.sweep_seconds:.2f} | {n_rows / now.sweep_seconds:,.0f} | {now.nonzero:.1f} | "
            f"{now.peak / MIB:.0f} |",
            flush=True,
        )
    first, last = seen[0], seen[-1]
    growth = np.log(last.n_rows / first.n_rows)
    exponent = np.log(last.sweep_seconds / first.sweep_seconds) / growth
    per_row = (last.peak - first.peak) / (last.n_rows - first.n_rows)
    print(
        f"exponent of a sweep's time in rows: {exponent:.3f} (wanted 1.05); each further row takes "
        f"{per_row:.0f} bytes: its non-zeros, 8 bytes each, before and after a sweep\n",
        flush=True,
    )


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=["workers", "rows"])
    parser.add_argument("--quick", action="store_true", help="few rows, to try it out")
    parser.add_argument("--file", type=Path, help="learn from this file here and print JSON")
    arguments = parser.parse_args()
    if arguments.file is not None:
        print(json.dumps(asdict(in_turn(arguments.file))))
        return
    for name in arguments.names:
        {"workers": run_workers, "rows": run_rows}[name](arguments.quick)


if __name__ == "__main__":
    main()
