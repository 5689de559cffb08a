"""Figures of accuracies: one dot per method, and curves over the size of a dictionary."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from dbdl._files import write_atomically
from dbdl.experiments.sizes import SizeCurve
from dbdl.experiments.summary import OURS, Line, worth_drawing

#: Colours that colour-blind readers can tell apart, and markers for prints in grey.
_LOOKS = (("#2e75cc", "o"), ("#de6e28", "s"), ("#5b6770", "^"))


def write_figure(figure: Figure, path: Path) -> None:
    """Write a figure in the format of the path's ending, whole or not at all."""
    ending = path.suffix.lstrip(".").lower()
    write_atomically(path, lambda file: figure.savefig(file, format=ending, dpi=150))


def plot_accuracies(lines: Sequence[Line], path: Path, title: str = "") -> None:
    """Write a dot plot of a table's lines, one panel per column, the best method on top.

    Dots are means over splits and bars one standard deviation. The paper's numbers are hollow.
    """
    by_column = {x.column: [y for y in lines if y.column == x.column] for x in lines}
    columns = {column: worth_drawing(own) for column, own in by_column.items()}
    columns = {column: own for column, own in columns.items() if own}
    finished = [line for own in columns.values() for line in own]
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


def _draw_dots(axes: Any, lines: Sequence[Line]) -> None:
    place = np.arange(len(lines))
    accuracy, spread = ([getattr(x, name) for x in lines] for name in ("accuracy", "spread"))
    spread = np.nan_to_num(spread)
    axes.errorbar(accuracy, place, xerr=spread, fmt="o", color="#1b6ca8", label="measured")
    paper = [(x.paper, i) for i, x in enumerate(lines) if np.isfinite(x.paper)]
    if paper:
        axes.plot(*zip(*paper, strict=True), "o", mfc="none", color="#c2571a", label="paper")
    axes.set_ylim(-0.6, len(lines) - 0.4)
    axes.set_yticks(place, [x.method for x in lines])
    for label, line in zip(axes.get_yticklabels(), lines, strict=True):
        label.set_fontweight("bold" if line.method == OURS else "normal")
    axes.grid(axis="x", alpha=0.3)


def plot_sizes(curves: Sequence[SizeCurve], path: Path, title: str = "") -> None:
    """Write curves of accuracy against dictionary size.

    Curves are means over splits. Bands are one standard deviation, given several splits.
    """
    figure = Figure(figsize=(6.0, 4.0), layout="constrained")
    axes = figure.add_subplot()
    for curve, (colour, marker) in zip(curves, _LOOKS * len(curves), strict=False):
        size, mean = curve.n_atoms, np.array(curve.mean)
        axes.plot(size, mean, color=colour, marker=marker, ms=5, label=curve.method)
        spread = np.array([np.std(a, ddof=1) if len(a) > 1 else 0.0 for a in curve.accuracy])
        if spread.any():
            axes.fill_between(size, mean - spread, mean + spread, color=colour, alpha=0.15, lw=0)
    axes.set(xlabel="atoms", ylabel="test accuracy, %")
    axes.set_xlim(left=0)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, loc="lower right")
    axes.set_title(title, fontsize=10)
    write_figure(figure, path)
