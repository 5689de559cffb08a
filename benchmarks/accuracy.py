"""Accuracy and calibration of every method on real data, on the same splits.

    python -m benchmarks.accuracy [yaleb scene15 botswana coil20 usps ...] [--splits 5]
                                  [--only DBDL SRC ...] [--quick] [--workers 2]

Runs the tables of `dbdl.experiments` on the data of DBDL_DATA and prints them. Settings come from
the paper where it gives them, and otherwise from the method's grid by cross-validation on the
training rows of each split; nothing is chosen on test rows. Cells are kept in
``benchmarks/output``: a run that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np

from benchmarks.problems import PROBLEMS, load
from dbdl import methods
from dbdl.estimators._rows import unit_rows
from dbdl.experiments.protocol import Split
from dbdl.experiments.run import LabelledRows, Record, run_table
from dbdl.experiments.spec import load_table
from dbdl.experiments.summary import summarise, to_markdown

OUTPUT = Path("benchmarks/output")
N_SPLITS = {"yaleb": 5}


def labelled_rows(name: str) -> LabelledRows | None:
    """Rows of unit norm, for every method the same."""
    arrays = load(name)
    if arrays is None:
        return None
    own = None
    if "X_train" in arrays:
        n = len(arrays["X_train"])
        own = Split(np.arange(n), np.arange(n, n + len(arrays["X_test"])))
        arrays = {k: np.concatenate([arrays[f"{k}_train"], arrays[f"{k}_test"]]) for k in "Xy"}
    X = unit_rows(arrays["X"].astype(np.float64)).astype(np.float32)
    return LabelledRows(X, arrays["y"].ravel(), own=own)


def say(record: Record, n_done: int, n_cells: int) -> None:
    """Print a cell as it is finished."""
    result = record.get("failure") or f"{100 * record['accuracy']:.2f} % {record['chosen']}"
    print(f"  {n_done}/{n_cells} {record['method']}, split {record['split']}: {result}", flush=True)


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "problems", nargs="*", default=["yaleb", "scene15", "botswana", "coil20", "usps"]
    )
    parser.add_argument("--splits", type=int, default=None, help="default: 5 for yaleb, else 3")
    parser.add_argument("--only", nargs="*", choices=list(methods()), default=())
    parser.add_argument("--quick", action="store_true", help="one split, no grid")
    parser.add_argument("--workers", type=int, default=1, help="cells at the same time")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", category=UserWarning)
    for name in arguments.problems:
        if name not in PROBLEMS:
            parser.error(f"unknown problem {name!r}; there are {', '.join(PROBLEMS)}")
        data, table = labelled_rows(name), load_table(name)
        if data is None:
            continue
        kind = "quick" if arguments.quick else "accuracy"
        records = run_table(
            table,
            data,
            OUTPUT / f"{kind}_{name}.jsonl",
            only=arguments.only,
            n_splits=1 if arguments.quick else arguments.splits or N_SPLITS.get(name, 3),
            quick=arguments.quick,
            n_workers=arguments.workers,
            n_threads=1 if arguments.workers > 1 else -1,
            on_cell=say,
        )
        print("\n" + to_markdown(table, summarise(table, records)), flush=True)


if __name__ == "__main__":
    main()
