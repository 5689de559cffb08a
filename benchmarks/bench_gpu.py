"""Speed on a GPU of a whole fit, one chain, five chains, coding and many rows, and their floors.

    python -m benchmarks.bench_gpu [--quick] [--device cuda]

Each figure is the median of five runs after two warm-up runs. The additional time of the first run
is compilation. The floor of a part is the time of its matrix products alone, in its dtype and at
the sizes of each sweep.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import triton

from benchmarks.journal import Telling
from dbdl import DBDLClassifier
from dbdl.backends import NumbaBackend
from dbdl.backends.crew import Crew
from dbdl.backends.torch_gpu import TorchBackend, exact_products
from dbdl.coding import Forward, PreparedAtoms
from dbdl.draws import make_key
from dbdl.estimators._rows import unit_rows
from dbdl.learn.chain import ChainSettings, learn_chain
from dbdl.learn.journal import Journal
from dbdl.learn.members import learn_members
from dbdl.learn.problem import LabelSettings, Problem

N_RUNS, N_WARM = 5, 2


def class_centres(n_rows: int, n_features: int, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Random unit rows around class centres, float32."""
    rng = np.random.default_rng(0)
    y = np.arange(n_rows) % n_classes
    centres = unit_rows(rng.standard_normal((n_classes, n_features), dtype=np.float32))
    noise = unit_rows(rng.standard_normal((n_rows, n_features), dtype=np.float32))
    return unit_rows(centres[y] + np.float32(0.7) * noise), y


def median_seconds(work: Callable[[], Any]) -> tuple[float, float]:
    """Seconds of a run, and of the first one."""
    seconds = []
    for _ in range(N_WARM + N_RUNS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds[N_WARM:]), seconds[0]


class Watched:
    """The verbs of a backend, each waited for and timed."""

    def __init__(self, backend: TorchBackend) -> None:
        self._backend, self.seconds = backend, defaultdict(float)

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._backend, name)
        if not callable(verb):
            return verb

        def timed(*arguments: Any, **options: Any) -> Any:
            torch.cuda.synchronize()
            start = time.perf_counter()
            result = verb(*arguments, **options)
            torch.cuda.synchronize()
            self.seconds[name] += time.perf_counter() - start
            return result

        return timed


def product_floors(n_rows: int, n_features: int, n_atoms: int, device: str) -> dict[str, float]:
    """Seconds of the matrix work that each verb of a sweep cannot do without."""
    X = torch.randn(n_rows, n_features, device=device)
    atoms = torch.randn(n_atoms, n_features, device=device)
    codes = torch.randn(n_rows, n_atoms, device=device) * (
        torch.rand(n_rows, n_atoms, device=device) < 0.01
    )
    wide = codes.double()
    precision = wide.T @ wide + n_features * torch.eye(n_atoms, device=device)

    def sweep() -> None:
        with exact_products():
            _ = atoms @ atoms.T
            _ = X @ atoms.T

    def gather() -> None:
        _ = wide.T @ wide
        _ = wide.T @ X.double()

    def draw_atoms() -> None:
        right = precision.triu(1) @ atoms.double()
        torch.linalg.solve_triangular(precision, right, upper=False)

    parts = (sweep, gather, draw_atoms)
    return {part.__name__: median_seconds(part)[0] for part in parts}


def bench_chain(n_rows: int, n_features: int, n_classes: int, device: str) -> None:
    """One chain and five, with the ridge classifier, and the parts of one."""
    X, y = class_centres(n_rows, n_features, n_classes)
    backend, settings = TorchBackend(1, device=device), ChainSettings(n_sweeps=35)
    found: list[Any] = []

    def one() -> None:
        learned = learn_chain(make_key(0), X, y, settings, backend)
        backend.ridge_labels(learned.data, learned.chain.state.codes, learned.dictionary.scale, 0.1)
        found[:] = [learned]

    def five() -> None:
        labels = LabelSettings()
        problem = Problem(X, y, n_classes, settings, labels, n_chains=5, leaves_out=False)
        crew = Crew(device, 5, size=problem.memory_size)
        learn_members(problem, problem.shares(), [Forward(50)], crew, Journal())

    for name, work, wanted in (("one chain", one, 0.5), ("five chains", five, 1.5)):
        seconds, first = median_seconds(work)
        print(
            f"{name}, start + {settings.n_sweeps} sweeps + ridge: {seconds:.3f} s "
            f"(wanted < {wanted}); first run {first:.1f} s",
            flush=True,
        )
    trace = found[0].chain.trace
    watched: Any = Watched(backend)
    learned = learn_chain(make_key(0), X, y, settings, watched)
    watched.ridge_labels(learned.data, learned.chain.state.codes, learned.dictionary.scale, 0.1)
    n_atoms = int(np.median(trace.n_atoms))
    floors = product_floors(n_rows, n_features, n_atoms, device)
    print(
        f"{trace.n_atoms[0]} to {trace.n_atoms[-1]} atoms, {trace.mean_nonzero[0]:.0f} to "
        f"{trace.mean_nonzero[-1]:.0f} non-zeros a row. Parts of one chain, each waited for:"
    )
    print("| part | ms | floor, ms |\n| --- | --- | --- |")
    for name, seconds in sorted(watched.seconds.items(), key=lambda item: -item[1]):
        floor = f"{1e3 * settings.n_sweeps * floors[name]:.0f}" if name in floors else ""
        print(f"| {name} | {1e3 * seconds:.0f} | {floor} |", flush=True)


def bench_default_fit(n_rows: int, n_features: int, n_classes: int, device: str) -> None:
    """A fit with the defaults: views, both rounds of chains, choices, weights and label atoms."""
    X, y = class_centres(n_rows, n_features, n_classes)
    models: list[DBDLClassifier] = []

    def fit() -> None:
        models[:] = [DBDLClassifier(device=device, random_state=0).fit(X, y)]

    seconds, first = median_seconds(fit)
    chains = models[0].chains_
    print(
        f"default fit of {n_rows} rows of {n_features} features and {n_classes} classes: "
        f"{seconds:.3f} s (wanted < 3), first run {first:.1f} s; {len(chains)} chains in "
        f"{len({chain.view.name for chain in chains})} views were kept",
        flush=True,
    )


def bench_coding(n_queries: int, n_features: int, n_atoms: int, device: str) -> None:
    """Codes of queries with 50 non-zeros, host to host, beside our own CPU."""
    X, _ = class_centres(n_queries + n_atoms, n_features, 102)
    atoms, queries = PreparedAtoms(X[:n_atoms]), X[n_atoms:]
    gpu, cpu = TorchBackend(1, device=device), NumbaBackend(1)
    codes: dict[str, Any] = {}

    def on_gpu() -> None:
        codes["gpu"] = gpu.pursue(queries, atoms, [50], "forward").to_csr([0], n_atoms)

    seconds, first = median_seconds(on_gpu)
    n_timed = min(n_queries, 500)
    cpu.pursue(queries[:10], atoms, [50], "forward")
    start = time.perf_counter()
    part = cpu.pursue(queries[:n_timed], atoms, [50], "forward").to_csr([0], n_atoms)
    cpu_seconds = (time.perf_counter() - start) * n_queries / n_timed
    same = (abs(codes["gpu"][:n_timed] - part) > 1e-4).nnz / max(part.nnz, 1)
    print(
        f"coding {n_queries} queries of {n_features} features over {n_atoms} atoms, 50 non-zeros, "
        f"host to host: {seconds:.3f} s (wanted < 0.15), first run {first:.1f} s; CPU, one thread: "
        f"{cpu_seconds:.1f} s, {cpu_seconds / seconds:.0f} times (wanted 20); "
        f"{100 * same:.2f} % of entries differ by more than 1e-4",
        flush=True,
    )


def bench_rows(n_features: int, n_atoms: int, device: str, sizes: tuple[int, ...]) -> None:
    """Rows a second a sweep, and memory, as the number of rows grows."""
    print("| rows | s a sweep | rows a second | GPU memory, GiB |\n| --- | --- | --- | --- |")
    for n_rows in sizes:
        X, y = class_centres(n_rows, n_features, 100)
        ends: list[float] = []
        torch.cuda.reset_peak_memory_stats()
        settings = ChainSettings(n_initial_atoms=n_atoms, n_sweeps=5)

        def remember(_: Any, ends: list[float] = ends) -> None:
            torch.cuda.synchronize()
            ends.append(time.perf_counter())

        learn_chain(make_key(0), X, y, settings, TorchBackend(1, device=device), Telling(remember))
        seconds = statistics.median(np.diff(ends))
        memory = torch.cuda.max_memory_allocated() / 2**30
        print(f"| {n_rows} | {seconds:.3f} | {n_rows / seconds:,.0f} | {memory:.1f} |", flush=True)


def bench_accuracy(device: str, n_splits: int) -> None:
    """Accuracy of the same classifier on both devices, where the faces are there."""
    from benchmarks.problems import splits

    accuracy: dict[str, list[float]] = defaultdict(list)
    for split in splits("yaleb", n_splits):
        for name in ("cpu", device):
            model = DBDLClassifier(device=name, n_jobs=-1, random_state=0)
            model.fit(split.X_train, split.y_train)
            accuracy[name].append(100 * model.score(split.X_test, split.y_test))
    for name, values in accuracy.items():
        each = ", ".join(f"{value:.2f}" for value in values)
        print(
            f"Extended YaleB, default fit on {name}: {np.mean(values):.2f} % ({each})", flush=True
        )


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--chains-only", action="store_true")
    parser.add_argument("--accuracy", type=int, default=0, help="splits of YaleB to compare on")
    arguments = parser.parse_args()
    name = torch.cuda.get_device_name(arguments.device)
    print(
        f"{name}, PyTorch {torch.__version__}, Triton {triton.__version__}, {platform.platform()}"
    )
    if arguments.quick:
        bench_default_fit(510, 500, 17, arguments.device)
        bench_chain(510, 500, 17, arguments.device)
        bench_coding(500, 500, 400, arguments.device)
        bench_rows(64, 200, arguments.device, (5_000, 10_000))
    else:
        bench_default_fit(3060, 3000, 102, arguments.device)
        bench_chain(3060, 3000, 102, arguments.device)
        if arguments.chains_only:
            return
        bench_coding(6084, 3000, 3000, arguments.device)
        bench_rows(512, 2000, arguments.device, (50_000, 100_000, 200_000))
    if arguments.accuracy:
        bench_accuracy(arguments.device, arguments.accuracy)


if __name__ == "__main__":
    main()
