"""The look of the figures of the gallery, and the order of its examples."""

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


#: Examples that come first in their section, in this order; the others follow by name.
FIRST = ("dictionary", "atoms", "why", "faces", "scene", "refusals", "rivals")


class ByUse:
    """Order of the examples of a section: what most readers look for comes first."""

    def __init__(self, src_dir: str) -> None:
        self.src_dir = src_dir

    def __call__(self, filename: str) -> tuple[int, str]:
        """Return the key of a script, by which it is sorted."""
        name = filename.removeprefix("plot_").removesuffix(".py")
        return (FIRST.index(name) if name in FIRST else len(FIRST), name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"
