"""Pictures of accuracies: one point a method, and lines against the size of a dictionary."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dbdl._files import write_atomically


def write_figure(figure: Any, path: Path) -> None:
    """Write a figure in the format that its name ends in, whole or not at all."""
    form = path.suffix.lstrip(".").lower()
    write_atomically(path, lambda file: figure.savefig(file, format=form, dpi=150))


def plot_accuracies(lines: Sequence[Any], path: Path, title: str = "") -> None:
    """Write a dot plot of a table's lines (`dbdl.experiments.summary.Line`), best on top.

    Points are means over splits, bars one standard deviation; the paper's numbers are hollow. A
    table of several columns has a panel for each.
    """
    from matplotlib.figure import Figure

    finished = [line for line in lines if np.isfinite(line.accuracy)]
    columns = {x.column: [y for y in finished if y.column == x.column] for x in finished}
    heights = [0.6 + 0.28 * len(part) for part in columns.values()] or [1.0]
    figure = Figure(figsize=(7, 0.6 + sum(heights)), layout="constrained")
    panels = figure.subplots(len(heights), squeeze=False, height_ratios=heights)[:, 0]
    for axes, (column, part) in zip(panels, columns.items(), strict=False):
        _draw_dots(axes, sorted(part, key=lambda x: x.accuracy))
        if len(columns) > 1:
            axes.set_title(column, fontsize=9)
    panels[-1].set_xlabel("accuracy, %")
    if any(np.isfinite(line.paper) for line in finished):
        handles = {h.get_label(): h for axes in panels for h in axes.get_legend_handles_labels()[0]}
        figure.legend(handles=list(handles.values()), loc="outside lower center", ncols=2)
    figure.suptitle(title, fontsize=10)
    write_figure(figure, path)


def _draw_dots(axes: Any, lines: Sequence[Any]) -> None:
    place = np.arange(len(lines))
    axes.errorbar(
        [x.accuracy for x in lines],
        place,
        xerr=np.nan_to_num([x.spread for x in lines]),
        fmt="o",
        color="#1b6ca8",
        label="measured",
    )
    paper = [(x.paper, i) for i, x in enumerate(lines) if np.isfinite(x.paper)]
    if paper:
        axes.plot(*zip(*paper, strict=True), "o", mfc="none", color="#c2571a", label="paper")
    axes.set_ylim(-0.6, len(lines) - 0.4)
    axes.set_yticks(place, [x.method for x in lines])
    axes.grid(axis="x", alpha=0.3)


def plot_sizes(curves: Sequence[Any], path: Path, title: str = "") -> None:
    """Write lines of accuracy against size (`dbdl.experiments.sizes.SizeCurve`).

    Lines are means over splits; where there are several, bands are one standard deviation.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.0, 4.0), layout="constrained")
    axes = figure.add_subplot()
    for curve, (colour, marker) in zip(curves, _LOOKS * len(curves), strict=False):
        mean = np.array(curve.mean)
        axes.plot(curve.n_atoms, mean, color=colour, marker=marker, ms=5, label=curve.method)
        spread = np.array([np.std(a, ddof=1) if len(a) > 1 else 0.0 for a in curve.accuracy])
        if spread.any():
            axes.fill_between(
                curve.n_atoms, mean - spread, mean + spread, color=colour, alpha=0.15, lw=0
            )
    axes.set_xlabel("atoms")
    axes.set_ylabel("test accuracy, %")
    axes.set_xlim(left=0)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, loc="lower right")
    axes.set_title(title, fontsize=10)
    write_figure(figure, path)


#: Colours that the colour-blind tell apart, and markers for those who print in grey.
_LOOKS = (("#2e75cc", "o"), ("#de6e28", "s"), ("#5b6770", "^"))
