"""Accuracy against number of atoms, learned dictionaries beside random training rows.

    python -m benchmarks.frontier [--problem yaleb] [--splits 3]

Learned: DBDL with a given number of atoms at the start, one and five chains. Random rows: as many
training rows as atoms, labels by the same ridge regression; one set, and five bagged sets. All
choose the number of non-zeros on held-out training rows in the same way. The gap between a pair
of lines is learning, the gap between one and five is averaging.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from benchmarks.problems import Split, splits
from dbdl import DBDLClassifier
from dbdl.rivals.training_rows import RandomRowsClassifier

OUTPUT = Path("benchmarks/output")


def random_rows_accuracy(split: Split, per_class: int, n_members: int) -> float:
    """Accuracy of sets of random rows, non-zeros chosen on held-out training rows."""
    model = RandomRowsClassifier(
        n_atoms_per_class=per_class,
        n_members=n_members,
        calibrate=False,
        n_jobs=-1,
        random_state=0,
    ).fit(split.X_train, split.y_train)
    return float(model.score(split.X_test, split.y_test))


def dbdl_accuracy(split: Split, n_atoms: int, n_chains: int) -> tuple[float, float]:
    """Accuracy, and atoms left at the end of a chain."""
    model = DBDLClassifier(
        n_initial_atoms=n_atoms, n_chains=n_chains, n_jobs=-1, random_state=0
    ).fit(split.X_train, split.y_train)
    return float(model.score(split.X_test, split.y_test)), model.n_atoms_ / n_chains


def measure(problem: str, per_class: list[int], n_splits: int) -> dict[str, list[list[float]]]:
    """Accuracies, one list a line and size, over the splits."""
    result: dict[str, list[list[float]]] = {name: [] for name in LINES}
    result["atoms"] = []
    all_splits = list(splits(problem, n_splits))
    for size in per_class:
        n_atoms = size * len(np.unique(all_splits[0].y_train))
        for name in result:
            result[name].append([])
        for split in all_splits:
            one, left = dbdl_accuracy(split, n_atoms, 1)
            result["DBDL, one chain"][-1].append(one)
            result["atoms"][-1].append(left)
            result["DBDL, five chains"][-1].append(dbdl_accuracy(split, n_atoms, 5)[0])
            result["random rows"][-1].append(random_rows_accuracy(split, size, 1))
            result["random rows, five bagged"][-1].append(random_rows_accuracy(split, size, 5))
        print(_line(size, n_atoms, result), flush=True)
    return result


LINES = ["DBDL, one chain", "DBDL, five chains", "random rows", "random rows, five bagged"]


def _line(size: int, n_atoms: int, result: dict[str, list[list[float]]]) -> str:
    cells = [str(size), str(n_atoms), f"{np.mean(result['atoms'][-1]):.0f}"]
    cells += [f"{100 * np.mean(result[name][-1]):.1f}" for name in LINES]
    return "| " + " | ".join(cells) + " |"


def draw(problem: str, result: dict[str, list[list[float]]], path: Path) -> None:
    """Draw the lines of the table."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    atoms = [np.mean(a) for a in result["atoms"]]
    styles = [
        ("#b3411f", "-", "o"),
        ("#b3411f", "--", "s"),
        ("#5b6770", "-", "o"),
        ("#5b6770", "--", "s"),
    ]
    for name, (color, line, marker) in zip(LINES, styles, strict=True):
        accuracy = [100 * np.mean(a) for a in result[name]]
        ax.plot(
            atoms, accuracy, color=color, linestyle=line, marker=marker, markersize=4, label=name
        )
    ax.set_xlabel("atoms a chain")
    ax.set_ylabel("test accuracy, %")
    ax.set_title(f"Accuracy against dictionary size, {problem}", fontsize=11)
    ax.grid(alpha=0.3)
    ax.legend(frameon=False)
    figure.savefig(path, dpi=150)


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problem", default="yaleb")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--per-class", type=int, nargs="*", default=[4, 8, 16, 24, 32])
    arguments = parser.parse_args()
    print(f"{arguments.problem}, {arguments.splits} splits, test accuracy %")
    print("| atoms a class | atoms at the start | left | " + " | ".join(LINES) + " |")
    print("|" + " --- |" * (3 + len(LINES)))
    result = measure(arguments.problem, arguments.per_class, arguments.splits)
    OUTPUT.mkdir(parents=True, exist_ok=True)
    stem = OUTPUT / f"frontier_{arguments.problem}"
    stem.with_suffix(".json").write_text(json.dumps(result, indent=1))
    draw(arguments.problem, result, stem.with_suffix(".png"))
    print(f"wrote {stem.with_suffix('.png')}")


if __name__ == "__main__":
    main()
