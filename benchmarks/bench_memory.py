"""Memory of one chain above its input: linear in the number of rows, never rows x atoms.

    python -m benchmarks.bench_memory [--quick]

Rows have 64 features; there are 1,000 atoms at the start and two sweeps. Each number of rows is
measured in its own process: the peak of resident memory during the fit, minus the resident memory
right before it (interpreter, libraries, compiled kernels, the rows themselves). A small fit
beforehand keeps the memory of the compiler out of the figure.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

N_FEATURES = 64
N_ATOMS = 1000
N_CLASSES = 10
N_TRUE_ATOMS = 20
N_TRUE_NONZERO = 4
NOISE = 0.02
N_SWEEPS = 2
N_THREADS = 2
ROWS = (50_000, 100_000, 200_000)
QUICK_ROWS = (2_000, 4_000, 8_000)
MIB = 2**20


@dataclass(frozen=True)
class Measured:
    """One fit: bytes above what was there before, seconds of start and first sweep, of the next."""

    n_rows: int
    peak: int
    n_atoms: int
    nonzero: float
    first_seconds: float
    sweep_seconds: float


def measure(n_rows: int, dtype: str) -> Measured:
    """Fit ``n_rows`` rows in this process."""
    from benchmarks.journal import Telling
    from dbdl.backends.numba_cpu import NumbaBackend
    from dbdl.draws import make_key
    from dbdl.learn.chain import ChainSettings, learn_chain

    backend = NumbaBackend(N_THREADS)
    learn_chain(make_key(0), *make_rows(300, dtype), ChainSettings(n_sweeps=2), backend)
    settings = ChainSettings(n_initial_atoms=N_ATOMS, n_sweeps=N_SWEEPS)
    X, y = make_rows(n_rows, dtype)
    ends: list[float] = []
    before = resident_bytes()
    forget_peak()
    begin = time.perf_counter()
    journal = Telling(lambda _: ends.append(time.perf_counter()))
    learned = learn_chain(make_key(0), X, y, settings, backend, journal)
    peak = peak_bytes() - before
    trace = learned.chain.trace
    return Measured(
        n_rows,
        peak,
        int(trace.n_atoms[0]),
        float(trace.mean_nonzero.mean()),
        ends[0] - begin,
        ends[1] - ends[0],
    )


def make_rows(n_rows: int, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Unit rows that few of the true atoms of their class explain, and noise."""
    rng = np.random.default_rng(0)
    y = np.arange(n_rows) % N_CLASSES
    shape = (N_CLASSES, N_TRUE_ATOMS, N_FEATURES)
    atoms = (rng.standard_normal(shape) / np.sqrt(N_FEATURES)).astype(dtype)
    X = rng.standard_normal((n_rows, N_FEATURES), dtype=np.dtype(dtype).type)
    X *= NOISE / np.sqrt(N_FEATURES)
    for _ in range(N_TRUE_NONZERO):
        strength = rng.standard_normal((n_rows, 1)).astype(dtype)
        X += strength * atoms[y, rng.integers(0, N_TRUE_ATOMS, n_rows)]
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, y


def resident_bytes() -> int:
    """Memory of this process that is resident now."""
    return _status("VmRSS") or _most_ever()


def peak_bytes() -> int:
    """Most resident memory so far.

    Linux keeps two such figures: that of getrusage starts with the peak of the process that
    started this one, the other does not.
    """
    return _status("VmHWM") or _most_ever()


def forget_peak() -> None:
    """Start the peak anew from what is resident now, where the system can."""
    # Elsewhere the peak so far stays in: it is that of the small fit, and much lower.
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _status(name: str) -> int | None:
    path = Path("/proc/self/status")
    if not path.exists():
        return None
    for line in path.read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    return None


def _most_ever() -> int:
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def measure_apart(n_rows: int, dtype: str) -> Measured:
    """Fit ``n_rows`` rows in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.bench_memory", "--rows", str(n_rows)]
    done = subprocess.run(
        [*command, "--dtype", dtype], stdout=subprocess.PIPE, text=True, check=True
    )
    return Measured(**json.loads(done.stdout.splitlines()[-1]))


def run(quick: bool) -> None:
    """Measure each number of rows and print a table."""
    for dtype in ("float64", "float32"):
        size = np.dtype(dtype).itemsize
        print(
            f"Memory of one chain: rows of {N_FEATURES} features, {N_ATOMS} initial atoms, "
            f"{N_SWEEPS} sweeps, {dtype}, {N_THREADS} threads"
        )
        print(
            f"  {'rows':>9}{'input MiB':>11}{'peak above it MiB':>19}{'/ 1,000 rows':>14}"
            f"{'rows x atoms MiB':>18}{'non-zeros':>11}{'first s':>9}{'sweep s':>9}"
            f"{'rows / s, sweep':>17}"
        )
        measured: list[Measured] = []
        for n_rows in QUICK_ROWS if quick else ROWS:
            now = measure_apart(n_rows, dtype)
            print(
                f"  {n_rows:>9,}{n_rows * N_FEATURES * size / MIB:>11.0f}{now.peak / MIB:>19.0f}"
                f"{now.peak / MIB / n_rows * 1000:>14.2f}"
                f"{n_rows * N_ATOMS * size / MIB:>18.0f}{now.nonzero:>11.1f}"
                f"{now.first_seconds:>9.2f}{now.sweep_seconds:>9.2f}"
                f"{n_rows / now.sweep_seconds:>17,.0f}",
                flush=True,
            )
            measured.append(now)
        first, last = measured[0], measured[-1]
        slope = (last.peak - first.peak) / (last.n_rows - first.n_rows)
        print(
            f"  Each further row takes {slope:,.0f} bytes, a dense row of codes would take "
            f"{N_ATOMS * size:,}.\n  first: first codes and first sweep.\n",
            flush=True,
        )


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few rows, to try it out")
    parser.add_argument("--rows", type=int, help="fit so many rows here and print JSON")
    parser.add_argument("--dtype", default="float64", choices=["float32", "float64"])
    arguments = parser.parse_args()
    if arguments.rows is None:
        run(arguments.quick)
    else:
        print(json.dumps(asdict(measure(arguments.rows, arguments.dtype))))


if __name__ == "__main__":
    main()
