"""One picture per data set: accuracy against fit time, for every method.

    python -m benchmarks.picture [files of records ...]

Reads the records that `python -m benchmarks.accuracy` keeps, and writes
``docs/accuracy_against_time.png``. The size of a point is the time of a query. Where there is no
room for its name, a point has none: docs/results.md has them all.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path

import numpy as np
from matplotlib.transforms import Bbox

from benchmarks.accuracy import OUTPUT
from dbdl.experiments.run import Record, latest, read_records
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
    for name, (seconds, accuracy, milliseconds) in shown.items():
        size = 12 + 25 * np.log10(1 + 10 * milliseconds)
        x = max(seconds, LEAST_SECONDS)
        ax.scatter(x, accuracy, s=size, color=color_of(name), alpha=0.8, zorder=3, linewidths=0)
    ax.set_title(title.partition(",")[0], fontsize=10)
    ax.grid(alpha=0.3)
    ax.tick_params(labelsize=8)
    left, right = ax.get_xlim()
    ax.set_xlim(left, right * 8)  # room for the names
    ax.margins(y=0.08)
    name_points(ax, {name: (max(s, LEAST_SECONDS), a) for name, (s, a, _) in shown.items()})


def color_of(name: str) -> str:
    """Ours stands out."""
    return OURS if name == "DBDL" else OTHERS


#: Places of a name beside its point, in points: right, left, above, below, and between these.
PLACES = [
    ((6, 0), "left", "center"), ((-6, 0), "right", "center"), ((0, 5), "center", "bottom"),
    ((0, -5), "center", "top"), ((5, 4), "left", "bottom"), ((5, -4), "left", "top"),
    ((-5, 4), "right", "bottom"), ((-5, -4), "right", "top"),
]  # fmt: skip


def name_points(ax, places: dict[str, tuple[float, float]]) -> None:
    """Name points, ours and then the most accurate first, where names cover nothing."""
    ax.figure.canvas.draw()
    dots = [ax.transData.transform(place) for place in places.values()]
    taken = [Bbox.from_bounds(x - 3, y - 3, 6, 6) for x, y in dots]
    frame = ax.get_window_extent()
    for name in sorted(places, key=lambda name: (name != "DBDL", -places[name][1])):
        style = {"fontsize": 7.5, "color": color_of(name), "textcoords": "offset points"}
        style["fontweight"] = "bold" if name == "DBDL" else "normal"
        for offset, across, along in PLACES:
            label = ax.annotate(
                name,
                places[name],
                xytext=offset,
                ha=across,
                va=along,
                annotation_clip=False,
                **style,
            )
            box = label.get_window_extent()
            inside = frame.containsx(box.x0) and frame.containsx(box.x1)
            if inside and frame.containsy(box.y0) and not any(map(box.overlaps, taken)):
                taken.append(box)
                break
            label.remove()


def main() -> None:
    """Parse the command line, and draw all data sets for which there are records."""
    import matplotlib.pyplot as plt

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path, help="default: those in benchmarks/output")
    files = parser.parse_args().files or sorted(OUTPUT.glob("accuracy_*.jsonl"))
    found = [latest(read_records(file)) for file in files]
    of_table = {records[0]["table"]: records for records in found if records}
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
