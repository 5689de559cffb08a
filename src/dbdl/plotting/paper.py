"""The paper's figures on our own rows: sizes (2), selection probabilities (4), atoms left (9).

Figure 2 shows how the size of a dictionary matters to K-SVD, D-KSVD and LC-KSVD1. Figures 4 and 9
show DBDL with the paper's settings. They follow the captions of the paper's figures, whose data
are not available.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from dbdl.estimators.classifier import DBDLClassifier
from dbdl.experiments.protocol import Protocol, seed_of
from dbdl.experiments.rows import LabelledRows
from dbdl.experiments.sizes import SizeCurve, accuracy_by_size
from dbdl.plotting.accuracy import plot_sizes, write_figure
from dbdl.plotting.displays import SelectionDisplay, TraceDisplay

FILES = (
    "figure2_dictionary_size.png",
    "figure4_selection_probabilities.png",
    "figure9_number_of_atoms.png",
)


def file_names(ending: str) -> list[str]:
    """Return the names of the figures in a format: png, pdf or svg."""
    return [str(Path(name).with_suffix(f".{ending}")) for name in FILES]


def write_figures(
    data: LabelledRows,
    name: str,
    folder: Path,
    *,
    share: float = 0.5,
    n_splits: int = 1,
    quick: bool = False,
    seed: int = 0,
    ending: str = "png",
    on_fit: Callable[[int, int, str], None] | None = None,
) -> list[SizeCurve]:
    """Write the figures `FILES` to a folder that exists; return the curves of figure 2.

    Methods learn from a share of each class. Figure 2 is a mean over ``n_splits`` splits, and the
    other figures show the first. The name of the data is for titles and seeds. ``quick`` takes
    three sizes instead of seven, and ten sweeps instead of 35. ``ending`` is the format: png, pdf
    or svg. ``on_fit`` is that of `accuracy_by_size`.
    """
    sizes, probabilities, atoms_left = (folder / name for name in file_names(ending))
    protocol = Protocol(per_class=share, n_splits=n_splits)
    splits = list(protocol.splits(data.y, seed_of(name, "figures", seed)))
    settings: dict[str, Any] = {"n_sweeps": 10} if quick else {}
    model = DBDLClassifier.paper(random_state=seed, n_jobs=-1, **settings)
    model.fit(data.X[splits[0].train], data.y[splits[0].train])
    write_figure(SelectionDisplay.from_estimator(model).figure_, probabilities)
    trace = TraceDisplay.from_estimator(model, fields=["n_atoms"])
    write_figure(trace.figure_, atoms_left)
    curves = accuracy_by_size(data, splits, n_sizes=3 if quick else 7, seed=seed, on_fit=on_fit)
    plot_sizes(curves, sizes, title=f"Accuracy against dictionary size, {name}")
    return curves
