"""Speed of orthogonal matching pursuit on one core, compared with SPAMS and scikit-learn.

Each figure is the least of several short runs. The methods take turns, so that other work on the
machine affects all of them alike. Set DBDL_DATA to the folder with the YaleB features to use real
faces. Otherwise, and for the Caltech size, rows are synthetic.

    python benchmarks/bench_omp.py [--quick]
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import orthogonal_mp_gram

from dbdl._products import row_products
from dbdl._threads import single_threaded_blas
from dbdl.coding.omp import encode, gram_matrix, omp

try:
    import spams
except ImportError:
    spams = None

Matrix = NDArray[np.float64]

N_NONZERO = 50
YALEB = (1207, 504, (943, 1207, 1810))  # queries, features, numbers of atoms
CALTECH = (3060, 3000, (2300, 4590))


def faces(n_queries: int, n_features: int, n_atoms: int) -> tuple[Matrix, Matrix, str]:
    """YaleB halves where the file is at hand; more atoms than that are perturbed copies."""
    path = Path(os.environ.get("DBDL_DATA", "")) / "extended_yaleb_randomfaces504.npz"
    if not path.is_file():
        return *around_centres(n_queries, n_features, n_atoms, 38), "synthetic"
    rng = np.random.default_rng(0)
    X = np.load(path)["X"].astype(np.float64)
    X = unit(X[rng.permutation(len(X))])
    queries, atoms = X[:n_queries], X[n_queries:]
    extra = atoms[rng.integers(0, len(atoms), max(0, n_atoms - len(atoms)))]
    extra = unit(extra + 0.02 * rng.standard_normal(extra.shape))
    return queries, np.concatenate([atoms, extra])[:n_atoms], "real faces"


def around_centres(
    n_queries: int, n_features: int, n_atoms: int, n_centres: int
) -> tuple[Matrix, Matrix]:
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((n_centres, n_features))
    rows = centres[rng.integers(0, n_centres, n_queries + n_atoms)]
    rows = unit(rows + rng.standard_normal(rows.shape))
    return rows[:n_queries], rows[n_queries:]


def unit(rows: Matrix) -> Matrix:
    return np.ascontiguousarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def least_seconds(jobs: dict[str, Callable[[], Any]], repetitions: int) -> dict[str, float]:
    """Least time of each job, the jobs taking turns; a first turn warms caches and compilers."""
    seconds = {}
    for job in jobs.values():
        job()
    for _ in range(repetitions):
        for name, job in jobs.items():
            start = time.perf_counter()
            job()
            seconds[name] = min(time.perf_counter() - start, seconds.get(name, np.inf))
    return seconds


def compare(queries: Matrix, atoms: Matrix, n_timed: int, repetitions: int) -> None:
    """Print one table: a whole batch, put together from the Gram matrix and a share of the rows."""
    n = len(queries)
    gram = gram_matrix(atoms)
    some = queries[:n_timed]
    few = queries[: max(2, n_timed // 16)]  # scikit-learn is slow

    def ours(selection: Any) -> Any:
        return encode(some, atoms, gram, [N_NONZERO], selection)

    jobs: dict[str, Callable[[], Any]] = {
        "gram": lambda: gram_matrix(atoms),
        "orthogonal": lambda: ours("orthogonal"),
        "forward": lambda: ours("forward"),
        "scikit-learn": lambda: textbook(few, atoms, gram),
    }
    if spams is not None:
        columns, dictionary = np.asfortranarray(some.T), np.asfortranarray(atoms.T)
        jobs["spams"] = lambda: pursue_spams(columns, dictionary)
        jobs["spams gram"] = lambda: pursue_spams(columns[:, :1], dictionary)
    with single_threaded_blas():
        seconds = least_seconds(jobs, repetitions)
    row = {name: seconds[name] / len(some) for name in ("orthogonal", "forward")}
    # the float32 copy of the Gram matrix is paid once a batch; here once for the timed rows
    print(f"  {'':34s}{'us a row':>10s}{'whole batch, s':>16s}")
    for name in ("orthogonal", "forward"):
        show(f"dbdl {name}", row[name], seconds["gram"] + n * row[name])
    slow = seconds["scikit-learn"] / len(few)
    show("scikit-learn, orthogonal", slow, seconds["gram"] + n * slow)
    print(f"    scikit-learn / dbdl orthogonal: {slow / row['orthogonal']:.1f}x")
    if spams is None:
        print("  SPAMS is not installed (pip install spams-bin): no comparison")
    else:
        theirs = (seconds["spams"] - seconds["spams gram"]) / (len(some) - 1)
        whole = seconds["spams gram"] + n * theirs
        show("SPAMS, forward", theirs, whole)
        with_gram = whole / (seconds["gram"] + n * row["forward"])
        print(
            f"    SPAMS / dbdl forward: {theirs / row['forward']:.1f}x without the Gram matrix, "
            f"{with_gram:.1f}x with it"
        )
        report_difference(some, atoms, gram, pursue_spams(columns, dictionary))


def show(name: str, seconds_a_row: float, seconds: float) -> None:
    print(f"  {name:34s}{1e6 * seconds_a_row:10.0f}{seconds:16.2f}")


def textbook(queries: Matrix, atoms: Matrix, gram: Matrix) -> Matrix:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return orthogonal_mp_gram(gram, atoms @ queries.T, n_nonzero_coefs=N_NONZERO)


def pursue_spams(columns: Matrix, dictionary: Matrix) -> Any:
    return spams.omp(columns, dictionary, L=N_NONZERO, eps=0.0, numThreads=1)


def report_difference(queries: Matrix, atoms: Matrix, gram: Matrix, theirs: Any) -> None:
    ours = omp(queries, atoms, N_NONZERO, rule="forward", gram=gram)
    a, b = (np.linalg.norm(queries - codes @ atoms, axis=1) for codes in (ours, theirs.T))
    print(f"    largest relative difference of residual norms: {np.max(np.abs(a - b) / b):.1e}")


def latency(queries: Matrix, atoms: Matrix, repetitions: int) -> None:
    """Where the time of one query goes, its Gram matrix given."""
    gram, one = gram_matrix(atoms), queries[:1]
    jobs: dict[str, Callable[[], Any]] = {
        "omp(query, gram=...)": lambda: omp(one, atoms, N_NONZERO, gram=gram),
        "  encode": lambda: encode(one, atoms, gram, [N_NONZERO]),
        "  encode, one atom": lambda: encode(one, atoms, gram, [1]),
        "  correlations alone": lambda: row_products(one, atoms),
    }
    with single_threaded_blas():
        seconds = {name: 1e6 * s for name, s in least_seconds(jobs, 20 * repetitions).items()}
    total, coded, first, products = seconds.values()
    print(f"  omp(one row, gram=...)            {total:8.0f} us")
    print(f"    checks and CSR assembly         {total - coded:8.0f}")
    print(f"    correlations                    {products:8.0f}")
    print(f"    set-up and the first atom       {first - products:8.0f}")
    print(f"    greedy loop, 49 more atoms      {coded - first:8.0f}")


def threads(queries: Matrix, atoms: Matrix, repetitions: int) -> None:
    gram = gram_matrix(atoms)
    seconds = least_seconds(
        {
            str(n): lambda n=n: encode(queries, atoms, gram, [N_NONZERO], n_threads=n)
            for n in (1, 2)
        },
        repetitions,
    )
    print(f"  two threads: {seconds['1'] / seconds['2']:.2f}x of one ({os.cpu_count()} cores)")


def run(quick: bool) -> None:
    """Print all tables; ``quick`` takes one dictionary of each size and fewer repetitions."""
    repetitions = 5 if quick else 15
    n_queries, n_features, sizes = YALEB
    for n_atoms in sizes[1:2] if quick else sizes:
        queries, atoms, kind = faces(n_queries, n_features, n_atoms)
        print(f"\nYaleB size ({kind}): {n_queries} rows x {n_features}, {n_atoms} atoms")
        compare(queries, atoms, 192, repetitions)
    print(f"\nOne query, {atoms.shape[0]} atoms")
    latency(queries, atoms, repetitions)
    threads(queries, atoms, repetitions)
    n_queries, n_features, sizes = CALTECH
    for n_atoms in sizes[:1] if quick else sizes:
        queries, atoms = around_centres(n_queries, n_features, n_atoms, 102)
        print(f"\nCaltech size (synthetic): {n_queries} rows x {n_features}, {n_atoms} atoms")
        compare(queries, atoms, n_atoms // 8 // 32 * 32 + 32, max(3, repetitions // 5))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one size each, fewer repetitions")
    run(parser.parse_args().quick)
