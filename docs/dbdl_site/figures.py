"""The look of the figures of the gallery."""

from __future__ import annotations

from typing import Any

BLUE, ORANGE, GREY = "#2e75cc", "#de6e28", "#5b6770"


def reset(gallery_conf: Any, fname: Any) -> None:
    """Set the defaults of matplotlib before an example."""
    import matplotlib.pyplot as plt
    from cycler import cycler

    plt.rcParams.update(
        {
            "figure.dpi": 110,
            "savefig.dpi": 110,
            "figure.constrained_layout.use": True,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.prop_cycle": cycler(color=[BLUE, ORANGE, GREY, "#3a9b63", "#9467bd", "#c2a01c"]),
        }
    )
