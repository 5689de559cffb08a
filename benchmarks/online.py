"""Accuracy of learning batch by batch and of learning all rows at once, on the same split.

    python -m benchmarks.online [yaleb scene15 usps ...] [--chains 8] [--splits 1] [--batches 8]
                                [--only batches classes] [--held-out] [--skip-fit]

``batches``: the training rows in stratified batches, in random order. ``classes``: two classes per
batch, in the order of their numbers. Both end with the same rows as ``fit``. With ``--held-out`` a
quarter of the training rows replaces the test rows. The settings of `dbdl.learn.online` were
chosen this way.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedShuffleSplit

from benchmarks.problems import Split, splits
from dbdl import DBDLClassifier
from dbdl.experiments.spec import table_names
from dbdl.experiments.warm import in_words, tiny_problems, warm_up


def stratified_batches(y: np.ndarray, n_batches: int, seed: int) -> list[np.ndarray]:
    """Row numbers of batches with as nearly equal shares of every class as can be."""
    rng = np.random.default_rng(seed)
    batch_of_row = np.empty(len(y), dtype=np.int64)
    first = 0
    for label in np.unique(y):
        rows = rng.permutation(np.flatnonzero(y == label))
        batch_of_row[rows] = (first + np.arange(len(rows))) % n_batches
        first += len(rows)
    return [rng.permutation(np.flatnonzero(batch_of_row == b)) for b in range(n_batches)]


def class_batches(y: np.ndarray, n_classes: int = 2) -> list[np.ndarray]:
    """Row numbers of batches of a few classes each."""
    labels = np.unique(y)
    starts = range(0, len(labels), n_classes)
    return [np.flatnonzero(np.isin(y, labels[s : s + n_classes])) for s in starts]


def held_out(split: Split) -> Split:
    """Learn from three quarters of the training rows, and test on the others."""
    cut = StratifiedShuffleSplit(1, test_size=0.25, random_state=0)
    learn, test = next(cut.split(split.X_train, split.y_train))
    return Split(
        split.X_train[learn], split.y_train[learn], split.X_train[test], split.y_train[test]
    )


def learn_in_batches(model: DBDLClassifier, split: Split, batches: list[np.ndarray]) -> float:
    """Learn the batches one after another; prints each, returns the accuracy in the end."""
    accuracy = 0.0
    for number, rows in enumerate(batches):
        start = time.perf_counter()
        model.partial_fit(split.X_train[rows], split.y_train[rows])
        took = time.perf_counter() - start
        known = np.isin(split.y_test, model.classes_)
        accuracy = model.score(split.X_test[known], split.y_test[known])
        print(
            f"  batch {number + 1}/{len(batches)}: {len(rows)} rows, {took:.1f} s, "
            f"{model.n_atoms_ / len(model.chains_):.0f} atoms a chain, "
            f"{coders_of(model)}, "
            f"{100 * accuracy:.2f} % of the classes known so far",
            flush=True,
        )
    return accuracy


def coders_of(model: DBDLClassifier) -> str:
    """Short names of the chains' coders, each once."""
    return " ".join(sorted({chain.coder.label for chain in model.chains_}))


def compile_before(options: dict[str, Any], split: Split) -> None:
    """Call what will be timed on tiny problems, so that no clock runs while it is compiled."""
    print(f"  {in_words(['DBDL'])}", flush=True)
    n_features, dtype = split.X_train.shape[1], split.X_train.dtype
    warm_up(DBDLClassifier, options, n_features, dtype)
    for X, y in tiny_problems(n_features, dtype):
        model = DBDLClassifier(**{**options, "n_chains": 1, "n_sweeps": 8})
        model.partial_fit(X[::2], y[::2]).partial_fit(X[1::2], y[1::2]).predict(X)


def compare(name: str, split: Split, arguments: argparse.Namespace, seed: int) -> None:
    """Print the accuracies on one split."""
    options = {"n_chains": arguments.chains, "n_jobs": arguments.jobs, "random_state": seed}
    if arguments.n_sweeps:
        options["n_sweeps"] = arguments.n_sweeps
    print(f"{name}, split {seed}: {len(split.X_train)} rows to learn from", flush=True)
    compile_before(options, split)
    whole = np.nan
    if not arguments.skip_fit:
        start = time.perf_counter()
        model = DBDLClassifier(**options).fit(split.X_train, split.y_train)
        took = time.perf_counter() - start
        whole = model.score(split.X_test, split.y_test)
        print(
            f"  fit: {took:.1f} s, {model.n_atoms_ / len(model.chains_):.0f} atoms a chain, "
            f"{coders_of(model)}, "
            f"{100 * whole:.2f} %",
            flush=True,
        )
    for kind in arguments.only:
        if kind == "batches":
            batches = stratified_batches(split.y_train, arguments.batches, seed)
        else:
            batches = class_batches(split.y_train)
        online = learn_in_batches(DBDLClassifier(**options), split, batches)
        print(
            f"{name}, split {seed}, {kind}: {100 * online:.2f} %, "
            f"fit {100 * whole:.2f} %, {100 * (online - whole):+.2f} points",
            flush=True,
        )


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problems", nargs="*", default=["yaleb", "scene15", "usps"])
    parser.add_argument("--chains", type=int, default=None, help="one per view by default")
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--batches", type=int, default=8)
    parser.add_argument("--n-sweeps", type=int, default=None)
    parser.add_argument("--jobs", type=int, default=-1)
    parser.add_argument("--only", nargs="*", default=["batches", "classes"])
    parser.add_argument("--held-out", action="store_true", help="test on training rows left out")
    parser.add_argument("--skip-fit", action="store_true")
    arguments = parser.parse_args()
    for name in arguments.problems:
        if name not in table_names():
            parser.error(f"unknown problem {name!r}; there are {', '.join(table_names())}")
        for seed, split in enumerate(splits(name, arguments.splits)):
            compare(name, held_out(split) if arguments.held_out else split, arguments, seed)


if __name__ == "__main__":
    main()
