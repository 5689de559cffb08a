"""Draw the pictures of the page on dictionaries: those of an example of the gallery.

    python docs/dbdl_site/pictures.py

Writes to ``docs/images``, where readers of the plain files find them too.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

DOCS = Path(__file__).parents[1]
EXAMPLE = DOCS.parent / "examples" / "look_inside" / "plot_dictionary.py"
NAMES = ("row_as_sum", "who_uses_what", "parts_of_the_score")


def main() -> None:
    """Run the example, and save each figure that it shows."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    sys.path.insert(0, str(DOCS))
    from dbdl_site.figures import reset

    reset(None, None)
    names = iter(NAMES)

    def save() -> None:
        plt.savefig(DOCS / "images" / f"{next(names)}.png")
        plt.close("all")

    plt.show = save
    runpy.run_path(str(EXAMPLE))


if __name__ == "__main__":
    main()
