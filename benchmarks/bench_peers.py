"""Accuracy and time beside dictlearn, another library of dictionary learning.

    python -m benchmarks peers
    python -m benchmarks.bench_peers [--quick] [--problem yaleb]

dictlearn 1.0 (Irofti, Ilie-Ablachim and Dumitrescu) has matching pursuit, D-KSVD and dictionary
pairs (DPL) with scikit-learn's interface. Both libraries have the same rows of unit norm, settings
and one thread, in float64. dictlearn uses numba for its pursuit where numba is installed, as here;
both are called once before the clock starts. The methods have small differences that no setting
removes: D-KSVD starts from atoms of each class here and from the first training rows there; DPL
keeps the norms of atoms within one here, and at one by alternating directions there.

If DBDL_DATA holds the data, the first split of the problem is used; otherwise digits are. Without
dictlearn (pip install dictlearn) it says so and does nothing.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from benchmarks.bench_fit import print_table
from benchmarks.bench_rivals import timed
from benchmarks.problems import Split, splits
from dbdl._arrays import unit_rows
from dbdl._threads import single_threaded_blas
from dbdl.coding import omp
from dbdl.rivals.dksvd import DKSVDClassifier
from dbdl.rivals.dpl import DPLClassifier

try:
    import dictlearn
    from dictlearn import classification as theirs
except ImportError:
    dictlearn = None

N_NONZERO, N_ITERATIONS = 30, 15
TIE, DISCRIMINATION, PENALTY = 0.05, 0.003, 1e-4
LABEL_WEIGHT = 1e-3


def first_split(problem: str) -> Split:
    """The first split of a problem; of digits where there are no data."""
    split = next(splits(problem, 1), None) if "DBDL_DATA" in os.environ else None
    if split is None:
        X, y = load_digits(return_X_y=True)
        split = Split(X[::2], y[::2], X[1::2], y[1::2])
    # mixed, because the first rows are the start of D-KSVD there
    order = np.random.default_rng(0).permutation(len(split.y_train))
    X, y = _unit(split.X_train[order]), split.y_train[order]
    return Split(X, y, _unit(split.X_test), split.y_test)


def _unit(X: Any) -> Any:
    return unit_rows(np.ascontiguousarray(X, dtype=np.float64))


def compare_pursuit(split: Split) -> None:
    """Code the test rows over the training rows."""
    X, atoms = split.X_test, split.X_train

    def ours(rows: Any) -> Any:
        return omp(rows, atoms, N_NONZERO, n_jobs=1).toarray()

    def peer(rows: Any) -> Any:
        return dictlearn.sparse_encode(rows, atoms, algorithm="omp", n_nonzero_coefs=N_NONZERO)

    codes, lines = [], []
    for name, code in (("ours", ours), ("dictlearn", peer)):
        code(X[:2])  # compiles
        seconds = timed(lambda code=code: codes.append(code(X)))
        residual = np.linalg.norm(X - codes[-1] @ atoms, axis=1).mean()
        lines.append([name, f"{1e6 * seconds.processor / len(X):.0f}", f"{residual:.6f}"])
    same = float(np.mean([((a != 0) == (b != 0)).all() for a, b in zip(*codes, strict=True)]))
    print(f"matching pursuit: {len(X)} rows, {len(atoms)} atoms, {N_NONZERO} non-zeros")
    print_table(("", "us per row", "mean residual"), lines)
    print(f"  rows with the same atoms: {100 * same:.1f} %\n", flush=True)


def compare_classifiers(split: Split, per_class: int) -> None:
    """Fit and predict with D-KSVD and DPL of both libraries."""
    n_classes = len(np.unique(split.y_train))
    pair = {"tau": TIE, "theta": DISCRIMINATION, "gamma": PENALTY}
    makers: dict[str, Callable[[], Any]] = {
        "D-KSVD, ours": lambda: DKSVDClassifier(
            n_atoms_per_class=per_class, n_nonzero=N_NONZERO, n_iterations=N_ITERATIONS,
            label_weight=LABEL_WEIGHT, calibrate=False, n_jobs=1, random_state=0,
        ),
        "D-KSVD, dictlearn": lambda: theirs.DDLClassifier(
            per_class * n_classes, alpha=LABEL_WEIGHT, n_nonzero_coefs=N_NONZERO,
            max_iter=N_ITERATIONS, init_method="trained", init_iter=20, random_state=0,
        ),
        "DPL, ours": lambda: DPLClassifier(
            n_atoms_per_class=per_class, n_iterations=N_ITERATIONS, tie=TIE,
            discrimination=DISCRIMINATION, penalty=PENALTY, calibrate=False, n_jobs=1,
            random_state=0,
        ),
        "DPL, dictlearn": lambda: theirs.DPLClassifier(
            per_class, max_iter=N_ITERATIONS, random_state=0, **pair
        ),
    }  # fmt: skip
    lines, answers = [], {}
    for name, make in makers.items():
        model: Any = make()
        fit = timed(lambda model=model: model.fit(split.X_train, split.y_train))
        found: list[Any] = []
        predict = timed(lambda model=model, f=found: f.append(model.predict(split.X_test)))
        answers[name] = found[0]
        accuracy = 100 * np.mean(found[0] == split.y_test)
        seconds = [f"{s:.2f}" for s in (fit.processor, predict.processor)]
        lines.append([name, f"{accuracy:.2f}", *seconds])
    print(
        f"{per_class} atoms per class, {N_ITERATIONS} iterations, {N_NONZERO} non-zeros, "
        f"{n_classes} classes, {split.X_train.shape[0]} x {split.X_train.shape[1]}"
    )
    print_table(("", "accuracy %", "fit, processor s", "predict, processor s"), lines)
    for name in ("D-KSVD", "DPL"):
        same = np.mean(answers[f"{name}, ours"] == answers[f"{name}, dictlearn"])
        print(f"  {name}: the same answer for {100 * same:.1f} % of the test rows", flush=True)


def run(quick: bool, problem: str = "yaleb") -> None:
    """Print the tables; ``quick`` learns fewer atoms."""
    if dictlearn is None:
        print("dictlearn is not installed (pip install dictlearn): no comparison")
        return
    split = first_split(problem)
    print(f"dictlearn {dictlearn.__version__}, one thread, float64\n")
    with warnings.catch_warnings(), single_threaded_blas():
        warnings.simplefilter("ignore")
        compare_pursuit(split)
        compare_classifiers(split, 4 if quick else 16)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--quick", action="store_true", help="fewer atoms")
    parser.add_argument("--problem", default="yaleb", help="a table of dbdl reproduce")
    arguments = parser.parse_args()
    run(arguments.quick, arguments.problem)
