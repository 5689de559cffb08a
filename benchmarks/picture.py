"""One picture per data set: accuracy against fit time, for every method.

    python -m benchmarks.picture [files of records ...]

Reads the records that `python -m benchmarks.accuracy` keeps, and writes
``docs/accuracy_against_time.png``. The size of a point is the time of a query.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path

import numpy as np

from benchmarks.accuracy import OUTPUT
from dbdl.experiments.run import Record, read_records
from dbdl.experiments.spec import load_table

PICTURE = Path("docs/accuracy_against_time.png")
#: Methods further than this below the best, in points, are left out: they would squeeze the others.
DEPTH = 8.0
#: Shortest time shown, in seconds.
LEAST_SECONDS = 1e-3
OURS = "#c0392b"
OTHERS = "#34495e"


def points(records: list[Record]) -> dict[str, tuple[float, float, float]]:
    """Fit seconds, accuracy in % and query milliseconds of each method, means over splits."""
    of_method = defaultdict(list)
    for record in records:
        if "accuracy" in record:
            figures = ("fit_seconds", "accuracy", "query_milliseconds")
            of_method[record["method"]].append([record[name] for name in figures])
    means = {method: np.mean(rows, axis=0) for method, rows in of_method.items()}
    return {method: (float(m[0]), 100 * float(m[1]), float(m[2])) for method, m in means.items()}


def draw(ax, title: str, found: dict[str, tuple[float, float, float]]) -> None:
    """Draw one data set."""
    best = max(accuracy for _, accuracy, _ in found.values())
    shown = {name: point for name, point in found.items() if point[1] > best - DEPTH}
    ax.set_xscale("log")
    labels = []
    for name, (seconds, accuracy, milliseconds) in sorted(shown.items(), key=lambda p: -p[1][1]):
        ours = name == "DBDL"
        x, color = max(seconds, LEAST_SECONDS), OURS if ours else OTHERS
        size = 12 + 25 * np.log10(1 + 10 * milliseconds)
        ax.scatter(x, accuracy, s=size, color=color, alpha=0.8, zorder=3)
        labels.append(
            ax.annotate(
                name,
                (x, accuracy),
                xytext=(5, 2),
                textcoords="offset points",
                fontsize=6.5,
                color=color,
                fontweight="bold" if ours else "normal",
            )
        )
    ax.set_title(title.partition(",")[0], fontsize=9)
    ax.grid(alpha=0.3)
    ax.tick_params(labelsize=7)
    left, right = ax.get_xlim()
    ax.set_xlim(left, right * 8)  # room for the names
    ax.margins(y=0.08)
    move_apart(ax, labels)


def move_apart(ax, labels: list) -> None:
    """Move labels down until none covers one above it."""
    ax.figure.canvas.draw()
    placed = []
    for label in labels:
        for _ in range(40):
            box = label.get_window_extent()
            if not any(box.overlaps(other) for other in placed):
                break
            x, y = label.get_position()
            label.set_position((x, y - 2))
        placed.append(label.get_window_extent())


def main() -> None:
    """Parse the command line, and draw all data sets for which there are records."""
    import matplotlib.pyplot as plt

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path, help="default: those in benchmarks/output")
    files = parser.parse_args().files or sorted(OUTPUT.glob("accuracy_*.jsonl"))
    of_table = defaultdict(list)
    for record in (record for file in files for record in read_records(file)):
        of_table[record["table"]].append(record)
    n_columns = min(3, len(of_table))
    n_rows = -(-len(of_table) // n_columns)
    figure, axes = plt.subplots(
        n_rows, n_columns, figsize=(4.2 * n_columns, 3.4 * n_rows), squeeze=False
    )
    for ax in axes.flat[len(of_table) :]:
        ax.axis("off")
    figure.tight_layout(rect=(0.02, 0.03, 1, 1))
    for ax, (name, records) in zip(axes.flat, of_table.items(), strict=False):
        draw(ax, load_table(name).title, points(records))
    figure.supxlabel("seconds of a fit (size of a point: time of a query)", fontsize=9)
    figure.supylabel("accuracy on test rows, %", fontsize=9)
    figure.savefig(PICTURE, dpi=110)
    print(f"wrote {PICTURE}")


if __name__ == "__main__":
    main()
