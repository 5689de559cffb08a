"""Time until one can work: imports, the first fit, compilation, and the latency of one prediction.

    python -m benchmarks.bench_start [--quick]

Everything is measured in fresh processes. Compiled kernels go to folders made for the benchmark. A
process whose folder is empty compiles, and reports the type of rows, the number of functions and
the time. A process whose folder is full reports nothing. The compilations of the first default fit
are counted for this version and for an older commit, in the same run.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.compilations import N_ROWS

ROOT = Path(__file__).resolve().parent.parent

MOST_OVER_IMPORTS = 1.5
MOST_FIT_SECONDS = 3.0

#: The first fit is compared with this commit's, and float32 with float64.
REFERENCE = "840f317"
MOST_OF_REFERENCE = 0.25
MOST_OVER_FLOAT64 = 1.2
DTYPES = ("float64", "float32")

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
    "n_nonzero": sum(chain.coder.n_nonzero for chain in model.chains_),
}}))
"""


FIRST_FIT = """
from benchmarks.compilations import print_first_fit
print_first_fit({dtype!r})
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
        cwd=ROOT,
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


def first_fit(dtype: str, source: Path | None = None) -> dict[str, Any]:
    """Count the compilations of the first default fit, from an empty cache.

    Parameters
    ----------
    dtype : str
        Of the rows.
    source : Path, optional
        Folder that holds another dbdl to measure.

    Returns
    -------
    figures : dict
        As `benchmarks.compilations.print_first_fit` prints them.
    """
    with tempfile.TemporaryDirectory() as cache:
        environment = {"NUMBA_CACHE_DIR": cache}
        if source is not None:
            environment["PYTHONPATH"] = str(source)
        answer = ask(FIRST_FIT.format(dtype=dtype), **environment)
    figures: dict[str, Any] = json.loads(answer.out.splitlines()[-1])
    if source is not None and source not in Path(figures["source"]).parents:
        raise RuntimeError(f"{figures['source']} was measured, where one in {source} was expected")
    return figures


def unpack_reference(folder: Path) -> str | None:
    """Unpack the source of the reference commit; return why it cannot be had, if so."""
    command = ["git", "archive", REFERENCE, "src"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    except FileNotFoundError:
        return "git is not installed"
    except subprocess.CalledProcessError as error:
        return str(error.stderr.decode(errors="replace").strip())
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return None


def first_fits_of_reference() -> dict[str, dict[str, Any]]:
    """Measure the first fits of the reference commit; none where it is not at hand."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        missing = unpack_reference(folder)
        if missing is not None:
            print(f"Commit {REFERENCE} is left out, since it is not at hand: {missing}.\n")
            return {}
        return {dtype: first_fit(dtype, folder / "src") for dtype in DTYPES}


def count_compilations(quick: bool) -> None:
    """Compare the first fits of this tree with those of the reference commit."""
    before = {} if quick else first_fits_of_reference()
    now = {dtype: first_fit(dtype) for dtype in DTYPES}
    print(f"First default fit on digits, {N_ROWS} rows, nothing compiled: processor seconds")
    print(f"  {'rows':<9}{'commit':<9}{'compilations':>13}{'compiling s':>13}{'fit s':>8}")
    for commit, fits in ((REFERENCE, before), ("now", now)):
        for dtype, figures in fits.items():
            print(
                f"  {dtype:<9}{commit:<9}{figures['n_compilations']:>13}"
                f"{figures['compiling']:>13.1f}{figures['seconds']:>8.1f}"
            )
    if before:
        ratio = now["float64"]["seconds"] / before["float64"]["seconds"]
        print(f"  float64, now over {REFERENCE}  {ratio:7.2f}    target <= {MOST_OF_REFERENCE:g}")
    ratio = now["float32"]["seconds"] / now["float64"]["seconds"]
    print(f"  now, float32 over float64  {ratio:7.2f}    target <= {MOST_OVER_FLOAT64:g}\n")
    print_largest(now["float64"]["largest"])


def print_largest(costs: list[dict[str, Any]]) -> None:
    """Print the functions that cost most to compile, without and with those they call."""
    print("The largest compilations of that fit now, float64: processor seconds")
    print(f"  {'alone':>7}{'with callees':>14}{'times':>7}  function")
    for cost in costs:
        print(
            f"  {cost['exclusive']:>7.2f}{cost['inclusive']:>14.2f}"
            f"{cost['n_compilations']:>7}  {cost['name']}"
        )
    print(flush=True)


def run(quick: bool) -> None:
    """Measure and print."""
    time_imports(3 if quick else 9)
    count_compilations(quick)
    time_fits(quick)


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few rows and repeats")
    run(parser.parse_args().quick)


if __name__ == "__main__":
    main()
