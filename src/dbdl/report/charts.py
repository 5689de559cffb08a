"""Scales and positions of the charts, which ``templates/charts.html`` draws as SVG."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np
from matplotlib.ticker import MaxNLocator

from dbdl.plotting.arrangement import TracePanel
from dbdl.plotting.pictures import Floats

#: The largest number of chains whose values are listed at a sweep.
MOST_READ = 5


@dataclass(frozen=True)
class Scale:
    """Maps values to pixels along one axis."""

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False
    is_share: bool = False

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

    def label(self, value: float) -> str:
        """Return the text of a tick; shares are in %."""
        return f"{100 * value:.0f}" if self.is_share else tick_label(value)


def round_steps(low: float, high: float, most: int = 5) -> list[float]:
    """Return multiples of 1, 2 or 5 times a power of ten between two values."""
    if high <= low:
        return [low]
    steps = np.round(MaxNLocator(most, steps=[1, 2, 5, 10]).tick_values(low, high), 12)
    slack = 1e-9 * (high - low)
    inside = steps[(steps >= low - slack) & (steps <= high + slack)]
    return [float(step) for step in inside + 0.0]  # no -0


def minus(text: str) -> str:
    """Return a number's text with a true minus."""
    return text.replace("-", "−")


def tick_label(value: float) -> str:
    """Return a short text of a tick's value."""
    size = abs(value)
    if size >= 1e6 or 0 < size < 1e-3:
        mantissa, exponent = f"{value:.3e}".split("e")
        power = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
        factor = minus(f"{float(mantissa):g}")
        return f"10{power}" if factor == "1" else f"{factor}·10{power}"
    return _grouped(f"{value:,.10g}")


def _grouped(text: str) -> str:
    return minus(text.replace(",", "\u202f"))


def _digits(value: float) -> str:
    return _grouped(format(value, ",.0f" if 1e4 <= abs(value) < 1e9 else ".4g"))


def trace_chart(panel: TracePanel) -> dict[str, Any]:
    """Return one quantity against the sweep, one line per chain.

    ``data`` is for the page's script, which shows values under the pointer and the arrow keys.
    """
    finite = panel.lines[np.isfinite(panel.lines)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    is_log = panel.is_log and low > 0
    if panel.field == "n_atoms":
        low = 0.0
    if is_log and low < high:
        low, high = low / 1.1, high * 1.1
    elif low == high:
        low, high, is_log = low - abs(low) / 10 - 0.1, high + abs(high) / 10 + 0.1, False
    x = Scale(float(panel.sweeps[0]), float(panel.sweeps[-1]), 62, 328)
    y = Scale(low, high, 178, 14, is_log)
    points = [
        [(x(float(s)), y(float(v))) for s, v in zip(panel.sweeps, line, strict=True) if isfinite(v)]
        for line in panel.lines
    ]
    data = {"sweeps": panel.sweeps.tolist(), "texts": [_at_a_sweep(v) for v in panel.lines.T]}
    return {"title": panel.title, "x": x, "y": y, "points": points, "data": data}


def _at_a_sweep(values: Floats) -> str:
    """Return the values of all chains or, for many chains, their range."""
    if len(values) <= MOST_READ:
        return "; ".join(map(_digits, values))
    least, middle, largest = map(_digits, np.quantile(values, (0, 0.5, 1)).tolist())
    return f"{least} to {largest}, median {middle}"


#: Widths of charts as wide as the page: on a screen or on paper, and on a telephone, where the
#: letters of a drawing that is made smaller could not be read.
WIDTHS = {"on-wide": 720, "on-narrow": 336}


def strip_chart(
    values: Floats, names: Sequence[str], interval: tuple[float, float]
) -> dict[str, Any]:
    """Place shares as dots on one line; those that would overlap are stacked."""
    return {kind: _strip(values, names, interval, width) for kind, width in WIDTHS.items()}


def _strip(
    values: Floats, names: Sequence[str], interval: tuple[float, float], width: int
) -> dict[str, Any]:
    low = min(0.05 * np.floor(20 * min(float(values.min()), interval[0])), 0.9)
    x = Scale(float(low), 1.0, 20, width - 20, is_share=True)
    columns = Counter(round(x(value) / 9) for value in values.tolist())
    step = float(np.clip(160 / max(columns.values()), 2, 8))
    bottom, taken = round(30 + step * max(*columns.values(), 6)), Counter[int]()
    dots = []
    for value, name in sorted(zip(values.tolist(), names, strict=True)):
        column = round(x(value) / 9)
        dots.append((name, value, bottom - 9 - step * taken[column]))
        taken[column] += 1
    radius = min(step / 2, 4)
    return {"x": x, "bottom": bottom, "radius": radius, "dots": dots, "width": width}
