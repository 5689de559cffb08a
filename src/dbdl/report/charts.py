"""Charts as SVG that takes its colours from the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbdl.plotting.arrangement import TracePanel
from dbdl.report.findings import Bin
from dbdl.report.markup import percent, svg, text


@dataclass(frozen=True)
class Scale:
    """A line of values laid on a line of pixels."""

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False

    def __call__(self, value: float) -> float:
        """Return the pixel of a value."""
        low, high = self.low, self.high
        if self.is_log:
            low, high, value = (float(np.log10(v)) for v in (low, high, value))
        share = (value - low) / ((high - low) or 1.0)
        return round(self.start + share * (self.end - self.start), 2)

    def ticks(self) -> list[float]:
        """Return a few round values."""
        if self.is_log and self.high / self.low >= 10:
            exponents = np.arange(np.ceil(np.log10(self.low)), np.floor(np.log10(self.high)) + 1)
            return [float(10.0**e) for e in exponents[:: -(-len(exponents) // 4)]]
        return round_steps(self.low, self.high)


def round_steps(low: float, high: float, most: int = 5) -> list[float]:
    """Return multiples of 1, 2 or 5 times a power of ten between two values."""
    span = high - low
    if span <= 0:
        return [low]
    raw = span / most
    power = 10.0 ** np.floor(np.log10(raw))
    step = next(power * f for f in (1, 2, 5, 10) if power * f >= raw * 0.999)
    first, last = np.ceil(low / step - 1e-9), np.floor(high / step + 1e-9)
    return [float(round(n * step, 12)) + 0.0 for n in np.arange(first, last + 1)]  # no -0


def tick_label(value: float) -> str:
    """Return a short text of a tick's value."""
    size = abs(value)
    if size >= 1e6 or 0 < size < 1e-3:
        mantissa, exponent = f"{value:.3e}".split("e")
        mantissa = f"{float(mantissa):g}".replace("-", "−")
        power = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
        return f"10{power}" if mantissa == "1" else f"{mantissa}·10{power}"
    return f"{value:,.10g}".replace(",", "\u202f").replace("-", "−")


def axes(x: Scale, y: Scale, x_title: str, y_percent: bool = False) -> str:
    """Return the lines and labels of two axes; the y axis grows upwards."""
    parts = []
    for value in y.ticks():
        label = f"{100 * value:.0f}" if y_percent else tick_label(value)
        parts.append(
            f'<line class="grid" x1="{x.start}" x2="{x.end}" y1="{y(value)}" y2="{y(value)}"/>'
            f'<text x="{x.start - 6}" y="{y(value) + 4}" text-anchor="end">{label}</text>'
        )
    for value in x.ticks():
        label = f"{100 * value:.0f}" if y_percent else tick_label(value)
        parts.append(f'<text x="{x(value)}" y="{y.start + 17}" text-anchor="middle">{label}</text>')
    parts.append(f'<line class="axis" x1="{x.start}" x2="{x.end}" y1="{y.start}" y2="{y.start}"/>')
    parts.append(
        f'<text class="title" x="{(x.start + x.end) / 2}" y="{y.start + 34}" '
        f'text-anchor="middle">{text(x_title)}</text>'
    )
    return "".join(parts)


def trace_chart(panel: TracePanel) -> tuple[str, dict[str, Any]]:
    """Draw one quantity against the sweep, one line a chain.

    Returns
    -------
    figure : str
        The SVG; the page's script shows values under the pointer and the arrow keys.
    data : dict
        What the script needs for it.
    """
    width, height = 340, 220
    finite = panel.lines[np.isfinite(panel.lines)]
    is_log = panel.is_log and bool(len(finite)) and float(finite.min()) > 0
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    if panel.field == "n_atoms":
        low = 0.0
    if is_log and low < high:
        low, high = low / 1.1, high * 1.1
    elif low == high:
        low, high = low - abs(low) / 10 - 0.1, high + abs(high) / 10 + 0.1
        is_log = False
    x = Scale(float(panel.sweeps[0]), float(panel.sweeps[-1]), 62, width - 12)
    y = Scale(low, high, height - 42, 14, is_log)
    lines = []
    for number, values in enumerate(panel.lines):
        points = " ".join(
            f"{x(float(s))},{y(float(v))}"
            for s, v in zip(panel.sweeps, values, strict=True)
            if np.isfinite(v)
        )
        lines.append(f'<polyline class="chain chain-{number % 5}" points="{points}"/>')
    cursor = f'<line class="cursor-line" x1="0" x2="0" y1="14" y2="{height - 42}" hidden=""/>'
    end = panel.lines[:, -1]
    label = (
        f"{panel.title} against sweep, {len(panel.lines)} chain(s); at the last sweep "
        f"{_digits(end.min())} to {_digits(end.max())}"
    )
    picture = svg(width, height, label, axes(x, y, "sweep") + "".join(lines) + cursor)
    data = {
        "start": x.start,
        "end": x.end,
        "width": width,
        "sweeps": panel.sweeps.tolist(),
        "lines": [[_digits(v) for v in values] for values in panel.lines],
    }
    return picture, data


def _digits(value: float) -> str:
    form = ",.0f" if 1e4 <= abs(value) < 1e9 else ".4g"
    return format(value, form).replace(",", "\u202f").replace("-", "−")


def strip_chart(
    values: NDArray[np.float64], names: Sequence[str], mean: float, interval: tuple[float, float]
) -> str:
    """Draw shares as dots on one line, those that would overlap above each other."""
    low = min(0.05 * np.floor(20 * min(float(values.min()), interval[0])), 0.9)
    width = 680
    x = Scale(float(low), 1.0, 20, width - 20)
    columns = Counter(round(x(value) / 9) for value in values.tolist())
    step = float(np.clip(160 / max(columns.values()), 2, 8))
    bottom = round(30 + step * max(*columns.values(), 6))
    height, taken = bottom + 46, Counter[int]()
    dots = []
    for value, name in sorted(zip(values.tolist(), names, strict=True)):
        column = round(x(value) / 9)
        y = bottom - 9 - step * taken[column]
        taken[column] += 1
        dots.append(
            f'<circle class="dot" r="{min(step / 2, 4):g}" cx="{x(value)}" cy="{y:g}" '
            f'data-tip="{text(name)}: {percent(value)}"/>'
        )
    band = (
        f'<rect class="band" x="{x(interval[0])}" width="{x(interval[1]) - x(interval[0]):.2f}" '
        f'y="10" height="{bottom - 10}"/>'
        f'<line class="mean" x1="{x(mean)}" x2="{x(mean)}" y1="10" y2="{bottom}"/>'
    )
    ticks = "".join(
        f'<text x="{x(v)}" y="{bottom + 17}" text-anchor="middle">{100 * v:.0f}</text>'
        for v in x.ticks()
    )
    axis = f'<line class="axis" x1="{x.start}" x2="{x.end}" y1="{bottom}" y2="{bottom}"/>'
    title = (
        f'<text class="title" x="{width / 2}" y="{bottom + 36}" text-anchor="middle">'
        "accuracy of a class, %</text>"
    )
    label = (
        f"Accuracy class by class: from {percent(float(values.min()))} to "
        f"{percent(float(values.max()))}, over all rows {percent(mean)}"
    )
    return svg(width, height, label, band + axis + ticks + title + "".join(dots))


def reliability_chart(bins: Sequence[Bin]) -> str:
    """Draw accuracy against confidence, with intervals, and how many rows there are."""
    width, height = 380, 380
    x, y = Scale(0, 1, 46, width - 12), Scale(0, 1, height - 92, 12)
    most = max(b.n_rows for b in bins)
    parts = [
        axes(x, y, "highest probability, %", y_percent=True),
        f'<line class="ideal" x1="{x(0)}" x2="{x(1)}" y1="{y(0)}" y2="{y(1)}"/>',
    ]
    for b in bins:
        tip = (
            f"{100 * b.low:.0f}–{100 * b.high:.0f} %: {b.n_rows} rows, "
            f"confidence {percent(b.confidence)}, accuracy {percent(b.accuracy)}"
        )
        at = x(b.confidence)
        bar = 38 * np.log1p(b.n_rows) / np.log1p(most)
        parts.append(
            f'<g data-tip="{text(tip)}">'
            f'<line class="whisker" x1="{at}" x2="{at}" y1="{y(b.interval[0])}" '
            f'y2="{y(b.interval[1])}"/>'
            f'<circle class="dot" r="4.5" cx="{at}" cy="{y(b.accuracy)}"/>'
            f'<rect class="bar" x="{x(b.low) + 1}" width="{x(b.high) - x(b.low) - 2:.2f}" '
            f'y="{height - 6 - bar:.2f}" height="{bar:.2f}"/></g>'
        )
    label = "Reliability diagram: accuracy against confidence; the table below has the numbers"
    return svg(width, height, label, "".join(parts))
