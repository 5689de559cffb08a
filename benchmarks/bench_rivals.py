"""Speed of the rivals: fit and predict of every registered method, and the functions that dominate.

    python -m benchmarks.bench_rivals [--quick] [--only K-SVD SRC] [--jobs 2]

Every method is fitted with the settings of the paper's table 1 (``yaleb.toml``), or with the
registry's defaults if the table has none, and without the second fit that calibrates probabilities.
It then predicts about as many new rows as it learned from. Wall time and processor time are printed
side by side; other work on the machine hardly affects the second. Another fit, on one thread and
under the profiler, shows which functions of the package or of its libraries take most of the time,
without the functions that they call.

K-SVD is compared with a plain implementation: scikit-learn's OMP and an update atom by atom in
NumPy, with dense residuals on the rows that use an atom. Both have the same start, iterations and
one thread.

If DBDL_DATA holds the real faces, the first split of `benchmarks.problems` is used. Otherwise
random rows of the same size replace them.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import orthogonal_mp_gram

import dbdl
from benchmarks.bench_fit import QUICK_SIZES, SIZES, Size, make_rows, print_table
from benchmarks.problems import Split, splits
from dbdl._threads import single_threaded_blas
from dbdl.experiments.measure import common_settings
from dbdl.experiments.spec import load_table
from dbdl.experiments.warm import in_words, warm_up
from dbdl.rivals._atoms import distinct_rows
from dbdl.rivals._ksvd import Learning, learn_ksvd

Floats = NDArray[np.float64]
Classes = NDArray[np.int64]

N_JOBS = 2
# What the project set itself: seconds of fit and predict on two cores, ratio to plain K-SVD.
MOST_SECONDS = {"FDDL": 300.0, "DL-COPAR": 300.0}
MOST_SECONDS_OF_OTHERS = 60.0
LEAST_OVER_PLAIN = 5.0
# Slower methods are not run again for the profile.
PROFILE_UNDER = 60.0


# --------------------------------------------------------------------------------- every method


class Timed(NamedTuple):
    """Seconds on the wall and of the processor."""

    wall: float
    processor: float


def timed(job: Callable[[], Any]) -> Timed:
    wall, processor = time.perf_counter(), time.process_time()
    job()
    return Timed(time.perf_counter() - wall, time.process_time() - processor)


def make(name: str, n_jobs: int) -> Any:
    """A fresh estimator: the paper's settings, no calibration, fixed seed, so many threads."""
    method = dbdl.methods()[name]
    common = common_settings(method, 0, n_jobs)
    if name == "logistic":  # scikit-learn has done without it since 1.8, and says so
        del common["n_jobs"]
    if "calibrate" in method().get_params():
        common["calibrate"] = False
    entries = load_table("yaleb").entries
    return method(**common, **next((e.settings for e in entries if e.method == name), {}))


def dominating(job: Callable[[], Any], n_named: int = 2) -> str:
    """Names of the functions that took most time themselves, with their shares."""
    profile = cProfile.Profile()
    profile.runcall(job)
    own: dict[str, float] = {}
    for (file, _, function), (_, _, seconds, _, _) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        name = function.strip("<>") if file == "~" else f"{Path(file).stem}.{function}"
        own[name] = own.get(name, 0.0) + seconds
    total = sum(own.values()) or 1.0
    most = sorted(own, key=own.__getitem__, reverse=True)[:n_named]
    return ", ".join(f"{_short(name)} {100 * own[name] / total:.0f} %" for name in most)


def _short(name: str) -> str:
    return name.removeprefix("method ").split(" of ")[0].strip("'")


def time_method(rows: Split, name: str, n_jobs: int) -> list[str]:
    """One row of the table."""
    X, y = rows.X_train, rows.y_train
    with warnings.catch_warnings():  # more non-zeros than so few rows are atoms
        warnings.simplefilter("ignore")
        warm_up(partial(make, name, n_jobs), {}, X.shape[1], X.dtype)
    model = make(name, n_jobs)
    fit = timed(lambda: model.fit(X, y))
    found: list[Classes] = []
    predict = timed(lambda: found.append(model.predict(rows.X_test)))
    accuracy = 100 * float(np.mean(found[0] == rows.y_test))
    total = fit.wall + predict.wall
    target = MOST_SECONDS.get(name, MOST_SECONDS_OF_OTHERS)
    what = "too long to profile"
    if total < PROFILE_UNDER:
        alone = make(name, 1)
        what = dominating(lambda: alone.fit(X, y).predict(rows.X_test))
    seconds = [f"{s:.2f}" for s in (fit.wall, fit.processor, predict.wall, predict.processor)]
    in_time = "yes" if total < target else f"no (> {target:g} s)"
    return [name, *seconds, in_time, f"{accuracy:.2f}", what]


def time_methods(rows: Split, names: Sequence[str], n_jobs: int) -> None:
    """Print a row for each method."""
    lines = []
    print(f"  {in_words(names)}", flush=True)
    for name in names:
        lines.append(time_method(rows, name, n_jobs))
        print(f"    {name}: fit {lines[-1][1]} s, predict {lines[-1][3]} s", flush=True)
    header = ("method", "fit, s", "processor", "predict, s", "processor", "in time", "accuracy %")
    print_table((*header, "dominated by"), lines)


# ----------------------------------------------------------------------------------- plain K-SVD


def plain_ksvd(X: Floats, atoms: Floats, n_nonzero: int, n_iterations: int) -> Floats:
    """K-SVD as one would write it in an afternoon: scikit-learn's OMP, NumPy, approximate."""
    atoms = atoms.copy()
    for _ in range(n_iterations):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            codes = orthogonal_mp_gram(atoms @ atoms.T, atoms @ X.T, n_nonzero_coefs=n_nonzero).T
        for k in range(len(atoms)):
            rows = np.flatnonzero(codes[:, k])
            if not len(rows):
                continue
            own = codes[rows]
            own[:, k] = 0
            left = X[rows] - own @ atoms
            atom = codes[rows, k] @ left
            atoms[k] = atom / np.linalg.norm(atom)
            codes[rows, k] = left @ atoms[k]
    return atoms


def compare_ksvd(X: Floats, n_atoms: int, n_nonzero: int, n_iterations: int) -> None:
    """Print the time of both from the same start, on one thread."""
    start = distinct_rows(X, n_atoms, np.random.default_rng(0))
    n_atoms = len(start)

    def ours(update: Any = "approximate") -> None:
        settings = Learning(n_nonzero, n_iterations, update, least_use=0.0, same_atom=1.0)
        learn_ksvd(X, start, settings)

    learn_ksvd(X, start, Learning(n_nonzero, 1))  # compiles, where that is still to be done
    with single_threaded_blas():
        seconds = {
            "ours, approximate": timed(ours),
            "ours, exact": timed(lambda: ours("exact")),
            "plain NumPy and scikit-learn's OMP": timed(
                lambda: plain_ksvd(X, start, n_nonzero, n_iterations)
            ),
        }
    first = seconds["ours, approximate"].processor
    print(
        f"K-SVD: {n_atoms} atoms, {n_nonzero} non-zeros, {n_iterations} iterations, one thread, "
        f"float64; target: plain at least {LEAST_OVER_PLAIN:g} x ours"
    )
    print_table(
        ("", "seconds", "processor", "ratio"),
        [
            [name, f"{t.wall:.2f}", f"{t.processor:.2f}", f"{t.processor / first:.1f}"]
            for name, t in seconds.items()
        ],
    )
    print(f"  ours is dominated by {dominating(ours)}\n", flush=True)


def random_split(size: Size) -> Split:
    """Random rows of a size to learn from, and as many to test on."""
    X, y = make_rows(replace(size, n_rows=2 * size.n_rows))
    n = size.n_rows
    return Split(X[:n], y[:n], X[n:], y[n:])


def run(quick: bool, only: Sequence[str] = (), n_jobs: int = N_JOBS) -> None:
    """Print both tables; ``quick`` takes a quarter of the size."""
    size = (QUICK_SIZES if quick else SIZES)["yaleb"]
    faces = next(splits("yaleb", 1), None) if "DBDL_DATA" in os.environ and not quick else None
    rows = random_split(size) if faces is None else faces
    rows = replace(rows, X_train=rows.X_train.astype(float), X_test=rows.X_test.astype(float))
    n_classes = len(np.unique(rows.y_train))
    print(
        f"{size.name}: {'random' if faces is None else 'real'}, {n_classes} classes, "
        f"{rows.X_train.shape[0]} x {rows.X_train.shape[1]} to learn from, {len(rows.X_test)} "
        f"queries, float64, {n_jobs} threads\n",
        flush=True,
    )
    methods = dbdl.methods().values()
    names = [m.name for m in methods if (m.name in only if only else not m.only_where_named)]
    time_methods(rows, names, n_jobs)
    if not only or "K-SVD" in only:
        compare_ksvd(rows.X_train, 15 * n_classes, 10 if quick else 30, 2 if quick else 5)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--quick", action="store_true", help="a quarter of the size")
    parser.add_argument("--only", nargs="+", default=(), metavar="NAME", help="of these methods")
    parser.add_argument("--jobs", type=int, default=N_JOBS, help="threads")
    arguments = parser.parse_args()
    run(arguments.quick, arguments.only, arguments.jobs)
