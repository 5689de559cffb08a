"""A picture of accuracies: one point a method, with its spread over splits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np


def plot_accuracies(lines: Sequence[Any], path: Path, title: str = "") -> None:
    """Write a dot plot of a table's lines (`dbdl.experiments.summary.Line`), best on top.

    Points are means over splits, bars one standard deviation; the paper's numbers are hollow.
    """
    from matplotlib.figure import Figure

    shown = sorted((x for x in lines if np.isfinite(x.accuracy)), key=lambda x: x.accuracy)
    figure = Figure(figsize=(7, 1 + 0.28 * max(len(shown), 1)), layout="constrained")
    axes = figure.add_subplot()
    place = np.arange(len(shown))
    axes.errorbar(
        [x.accuracy for x in shown],
        place,
        xerr=np.nan_to_num([x.spread for x in shown]),
        fmt="o",
        color="#1b6ca8",
        label="measured",
    )
    paper = [(x.paper, i) for i, x in enumerate(shown) if np.isfinite(x.paper)]
    if paper:
        axes.plot(*zip(*paper, strict=True), "o", mfc="none", color="#c2571a", label="paper")
        axes.legend(loc="lower right")
    axes.set_yticks(place, [x.method for x in shown])
    axes.set_xlabel("accuracy, %")
    axes.grid(axis="x", alpha=0.3)
    axes.set_title(title, fontsize=10)
    figure.savefig(path, dpi=150)
