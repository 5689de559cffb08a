"""How soon one can work: imports, the first fit, compilation, the latency of one prediction.

    python -m benchmarks.bench_start [--quick]

Everything is measured in fresh processes. Compiled kernels go to a folder made for the benchmark:
the first process finds it empty and compiles (and says so), the later ones find it full.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from typing import Any, NamedTuple

MOST_OVER_IMPORTS = 1.5
MOST_FIT_SECONDS = 3.0

IMPORT = """
import time
start = time.perf_counter()
import {modules}
print(time.perf_counter() - start)
"""

FIT = """
import json, time
from sklearn.datasets import load_digits
X, y = load_digits(return_X_y=True)
X, y = X[:{n_rows}], y[:{n_rows}]
start = time.perf_counter()
from dbdl import DBDLClassifier
imported = time.perf_counter()
model = DBDLClassifier({parameters}).fit(X, y)
fitted = time.perf_counter()
model.predict(X[:1])
first = time.perf_counter() - fitted
latency = []
for i in range({n_queries}):
    row = X[i % len(X)][None]
    begin = time.perf_counter()
    model.predict(row)
    latency.append(time.perf_counter() - begin)
latency.sort()
print(json.dumps({{
    "import_seconds": imported - start,
    "fit_seconds": fitted - imported,
    "first_query": first,
    "query": latency[len(latency) // 2],
    "slow_query": latency[int(0.95 * len(latency))],
    "n_atoms": model.n_atoms_,
    "n_nonzero": model.n_nonzero_,
}}))
"""


class Answer(NamedTuple):
    """What a process printed."""

    out: str
    messages: str


def ask(code: str, **environment: str) -> Answer:
    """Run ``code`` in a fresh process."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    if done.returncode:
        raise RuntimeError(f"a fresh process failed:\n{done.stderr}")
    return Answer(done.stdout, done.stderr)


def time_imports(repeats: int) -> None:
    """Compare imports in turn, so that what disturbs one disturbs the other."""
    names = ("dbdl", "sklearn, numba")
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(repeats):
        for name in names:
            seconds[name].append(float(ask(IMPORT.format(modules=name)).out))
    ours, theirs = (statistics.median(seconds[name]) for name in names)
    print(f"Imports, median of {repeats} fresh processes")
    print(f"  import dbdl            {ours:7.3f} s")
    print(f"  import sklearn, numba  {theirs:7.3f} s")
    print(f"  ratio                  {ours / theirs:7.2f}    target <= {MOST_OVER_IMPORTS:g}\n")


def fit(cache: str, parameters: str, n_rows: int, n_queries: int) -> tuple[dict[str, Any], str]:
    """Fit digits in a fresh process; figures and messages."""
    code = FIT.format(parameters=parameters, n_rows=n_rows, n_queries=n_queries)
    answer = ask(code, NUMBA_CACHE_DIR=cache)
    return json.loads(answer.out.splitlines()[-1]), answer.messages


def time_fits(quick: bool) -> None:
    """Compile cold, then fit and predict warm."""
    n_rows, repeats = (200, 1) if quick else (1797, 3)
    small = "n_chains=1, n_sweeps=2, random_state=0"
    with tempfile.TemporaryDirectory() as cache:
        cold, messages = fit(cache, small, 100, 1)
        warm, silence = fit(cache, small, 100, 1)
        print("Compilation: first fit of 100 digits, one chain, two sweeps")
        print(f"  nothing compiled   {cold['fit_seconds']:7.2f} s, and it says:")
        for line in messages.strip().splitlines() or ["(nothing)"]:
            print(f"      {line}")
        print(f"  kernels on disk    {warm['fit_seconds']:7.2f} s, and it says:")
        for line in silence.strip().splitlines() or ["(nothing)"]:
            print(f"      {line}")
        print(f"\nFirst fit on digits, {n_rows} rows, kernels on disk, best of {repeats}")
        print(
            f"  {'DBDLClassifier(...)':<28}{'fit s':>8}{'target':>8}{'atoms':>8}{'non-zeros':>11}"
            f"{'predict one row: ms':>21}{'95 %':>7}{'first':>7}"
        )
        for name in ("", "n_jobs=-1", "n_chains=1", "n_chains=1, n_jobs=-1"):
            parameters = ", ".join(filter(None, (name, "random_state=0")))
            fits = [fit(cache, parameters, n_rows, 200)[0] for _ in range(repeats)]
            best = min(fits, key=lambda figures: figures["fit_seconds"])
            print(
                f"  {name or 'default':<28}{best['fit_seconds']:>8.2f}"
                f"{f'< {MOST_FIT_SECONDS:g}' if not name else '':>8}{best['n_atoms']:>8}"
                f"{best['n_nonzero']:>11}{1e3 * best['query']:>21.2f}"
                f"{1e3 * best['slow_query']:>7.2f}{1e3 * best['first_query']:>7.1f}",
                flush=True,
            )
    print()


def run(quick: bool) -> None:
    """Measure and print."""
    time_imports(3 if quick else 9)
    time_fits(quick)


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few rows and repeats")
    run(parser.parse_args().quick)


if __name__ == "__main__":
    main()
