"""Accuracy against number of atoms, for every method whose size can be set.

    python -m benchmarks.frontier [--problem yaleb] [--splits 2] [--per-class 4 8 16 24 32]
                                  [--only DBDL FDDL ...] [--workers 1]

Walks the registry: every method with a size is a line. Splits and settings are those of the
problem's table (`python -m benchmarks.accuracy`). Other settings have the defaults of the registry
at every size, without a grid. DBDL and the random rows choose their coder on held-out training
rows, as they always do. The gap between DBDL and random rows is the effect of learning. The gap
between one chain and five, or between one set of rows and five, is the effect of averaging.

Cells are kept in ``benchmarks/output``, so that a run that was stopped is resumed. A class with
fewer rows than atoms has one atom per row. A cell that failed is a gap.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.accuracy import OUTPUT, say
from benchmarks.problems import rows_of
from dbdl import methods
from dbdl.experiments.run import LabelledRows, Record, run_table
from dbdl.experiments.spec import Entry, Table, load_table, table_names

SIZES = (4, 8, 16, 24, 32)
SIZED = [name for name, method in methods().items() if method.size is not None]


@dataclass(frozen=True)
class Line:
    """A method: mean accuracy in % and mean number of atoms at each size; NaN where it failed."""

    method: str
    accuracy: list[float]
    n_atoms: list[float]


def sized_entries(table: Table, per_class: int, n_classes: int) -> Iterator[Entry]:
    """Entries of all methods with a size, at that size; probabilities are not asked for."""
    given = {entry.method: entry.settings for entry in table.entries}
    for name in SIZED:
        method = methods()[name]
        size = per_class if method.size == "n_atoms_per_class" else per_class * n_classes
        own_choice = dict.fromkeys(method.fixed, "auto")  # made in fit, at every size
        settings = {**own_choice, **given.get(name, {}), method.size: size}
        if "calibrate" in method().get_params():
            settings["calibrate"] = False
        yield Entry(name, settings)


def measure_sizes(
    table: Table,
    data: LabelledRows,
    sizes: Sequence[int],
    n_splits: int,
    only: Sequence[str],
    n_workers: int = 1,
) -> list[Line]:
    """Run what is missing, size by size; lines are ordered by their accuracy over all sizes."""
    n_classes = len(np.unique(data.y))
    of_size = [
        run_table(
            replace(table, entries=tuple(sized_entries(table, size, n_classes))),
            data,
            OUTPUT / f"frontier_{table.name}.jsonl",
            only=only,
            n_splits=n_splits,
            quick=True,
            n_workers=n_workers,
            n_threads=1 if n_workers > 1 else -1,
            on_cell=say,
        )
        for size in sizes
    ]
    lines = [
        Line(
            name,
            [100 * _mean(records, name, "accuracy") for records in of_size],
            [_mean(records, name, "n_atoms") for records in of_size],
        )
        for name in SIZED
        if not only or name in only
    ]
    return sorted(lines, key=lambda line: -np.nan_to_num(line.accuracy).mean())


def _mean(records: Sequence[Record], method: str, figure: str) -> float:
    """Mean over splits; NaN where any of them failed, since the others are no fair mean."""
    values = [record.get(figure, np.nan) for record in records if record["method"] == method]
    return float(np.mean(values))


def to_markdown(lines: Sequence[Line], sizes: Sequence[int]) -> str:
    """A row a method, a column a size."""
    rows = [["method", *(f"{size} per class" for size in sizes)], ["---"] * (1 + len(sizes))]
    rows += [[line.method, *map(_percent, line.accuracy)] for line in lines]
    n_atoms = np.nanmedian([line.n_atoms for line in lines], axis=0)
    rows.append(["atoms of one dictionary (median)", *(f"{n:.0f}" for n in n_atoms)])
    return "\n".join("| " + " | ".join(cells) + " |" for cells in rows)


def _percent(value: float) -> str:
    return f"{value:.1f}" if np.isfinite(value) else ""


# --------------------------------------------------------------------------------------- picture

#: Colour and line of each family, by what its methods' names begin with; the first that fits.
FAMILIES = (
    ("DBDL 1", "#b3411f", "--"),
    ("DBDL (", "#b3411f", ":"),
    ("DBDL", "#b3411f", "-"),
    ("random rows", "#22282d", "--"),
    ("bagged rows", "#22282d", "-"),
    ("LLC (", "#8a6fa8", "--"),
    ("LLC", "#8a6fa8", "-"),
    ("DPL (", "#a08a3c", "-."),
    ("DPL", "#a08a3c", "-"),
    ("DLSI", "#a08a3c", "--"),
    ("LRSDL", "#5d9478", ":"),
    ("FDDL (", "#5d9478", "--"),
    ("FDDL", "#5d9478", "-"),
    ("DL-COPAR (", "#4f97a3", "-"),
    ("DL-COPAR", "#4f97a3", "--"),
    ("LDL", "#b57f96", "-"),
    ("K-SVD", "#7c93c4", "-"),
    ("D-KSVD", "#7c93c4", "--"),
    ("LC-KSVD1", "#7c93c4", ":"),
    ("LC-KSVD2", "#7c93c4", "-."),
)
OTHER = ("", "#8a9299", "-")


def style_of(method: str) -> dict[str, Any]:
    """Ours stands out."""
    _, color, line = next((f for f in (*FAMILIES, OTHER) if method.startswith(f[0])), OTHER)
    ours = method.startswith("DBDL")
    return {
        "color": color,
        "linestyle": line,
        "linewidth": 2.6 if ours else 1.2,
        "zorder": 3 if ours else 2,
    }


def spread_apart(places: Sequence[float], gap: float) -> list[float]:
    """Places for labels in the order of ``places`` (descending), each at least ``gap`` lower.

    Labels that would overlap are one block, centred where they would like to be.
    """
    blocks: list[list[float]] = []  # wanted places of labels that stand together
    for place in places:
        blocks.append([place])
        while len(blocks) > 1 and _top(blocks[-1], gap) > _bottom(blocks[-2], gap) - gap:
            last = blocks.pop()
            blocks[-1] += last
    return [_top(block, gap) - gap * i for block in blocks for i in range(len(block))]


def _top(block: list[float], gap: float) -> float:
    return float(np.mean(block)) + gap * (len(block) - 1) / 2


def _bottom(block: list[float], gap: float) -> float:
    return float(np.mean(block)) - gap * (len(block) - 1) / 2


def draw(title: str, lines: Sequence[Line], sizes: Sequence[int], path: Path) -> None:
    """Draw the lines, each named at its right end, on a scale of the logarithm of the error."""
    from matplotlib.figure import Figure
    from PIL import Image

    figure = Figure(figsize=(8.4, 6.2), layout="constrained")
    axes = figure.add_subplot()
    for line in lines:
        axes.plot(sizes, _height(line.accuracy), marker="o", markersize=3, **style_of(line.method))
    ended = [line for line in lines if np.isfinite(line.accuracy).any()]
    ended.sort(key=lambda line: -_last(line)[1])
    low, high = axes.get_ylim()
    labels = spread_apart([_height(_last(line)[1]) for line in ended], (high - low) / 27)
    right = sizes[-1] * (sizes[-1] / sizes[0]) ** 0.06 if len(sizes) > 1 else 1.1 * sizes[-1]
    for line, place in zip(ended, labels, strict=True):
        at, accuracy = _last(line)
        style = style_of(line.method)
        axes.annotate(
            f"{line.method}  {accuracy:.1f}",
            (sizes[at], _height(accuracy)),
            (right, place),
            va="center",
            fontsize=8.5,
            color=style["color"],
            fontweight="bold" if line.method.startswith("DBDL") else "normal",
            arrowprops={
                "arrowstyle": "-",
                "color": style["color"],
                "linewidth": 0.6,
                "relpos": (0, 0.5),
                "shrinkA": 1,
                "shrinkB": 3,
            },
            annotation_clip=False,
        )
    shown = [a for a in (50, 60, 70, 80, 85, 90, 95, 97, 98, 99, 99.5) if low <= _height(a) <= high]
    axes.set_yticks([_height(a) for a in shown], [f"{a:g}" for a in shown])
    axes.set_xscale("log")
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.minorticks_off()
    axes.set_xlabel("atoms per class (logarithmic)")
    axes.set_ylabel("test accuracy, % (scale: logarithm of the error)")
    axes.set_title(title, fontsize=11, loc="left", pad=14)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)
    with Image.open(path) as picture:  # lines in few colours: a palette is a third of the size
        small = picture.convert("RGB").quantize(96)
    small.save(path, optimize=True)


def _height(accuracy: Any) -> Any:
    """Minus the logarithm of the error; accuracies of 100 % are drawn at 99.9."""
    return -np.log10(100 - np.minimum(accuracy, 99.9))


def _last(line: Line) -> tuple[int, float]:
    """Number of the last size that was run, and the accuracy there."""
    last = int(np.flatnonzero(np.isfinite(line.accuracy))[-1])
    return last, line.accuracy[last]


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problem", choices=table_names(), default="yaleb")
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--per-class", type=int, nargs="+", default=list(SIZES), metavar="N")
    parser.add_argument("--only", nargs="+", choices=SIZED, default=(), metavar="METHOD")
    parser.add_argument("--workers", type=int, default=1, help="cells at the same time")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", category=UserWarning)
    table = load_table(arguments.problem)
    data = rows_of(table)
    if data is None:
        return
    sizes = sorted(set(arguments.per_class))
    lines = measure_sizes(table, data, sizes, arguments.splits, arguments.only, arguments.workers)
    text = to_markdown(lines, sizes)
    print("\n" + text)
    (OUTPUT / f"frontier_{table.name}.md").write_text(text, encoding="utf-8")
    path = OUTPUT / f"frontier_{table.name}.png"
    title = table.title.partition(" (")[0]
    draw(f"{title}: accuracy against number of atoms", lines, sizes, path)
    print(f"\nwrote {path}")


if __name__ == "__main__":
    main()
