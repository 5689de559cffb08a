"""Displays as in scikit-learn: computed by ``from_estimator``, drawn by ``plot``.

The order of atoms, the panels and the colours are shared with `dbdl.report`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted, check_scalar

from dbdl._arrays import unit_rows
from dbdl.estimators._base import DictionaryEstimator
from dbdl.plotting.arrangement import (
    TracePanel,
    best_atoms_in_turn,
    order_by_owner,
    spread_evenly,
    trace_panels,
)
from dbdl.plotting.pictures import BLUE, Floats, Pixels, draw_rows, is_signed
from dbdl.sampler.run import Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


#: Font sizes of labels.
_SIZES: dict[Any, Any] = {"axes.labelsize": 8, "xtick.labelsize": 7, "ytick.labelsize": 7}


def make_panels(n: int, n_columns: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """Return a figure and at least ``n`` axes; those that are not needed are switched off."""
    import matplotlib.pyplot as plt

    n_rows = -(-n // n_columns)
    figure = plt.figure(figsize=(width * n_columns, height * n_rows + 0.3), layout="constrained")
    with plt.rc_context(_SIZES):
        axes = figure.subplots(n_rows, n_columns, squeeze=False).ravel()
    for ax in axes[n:]:
        ax.axis("off")
    return figure, list(axes)


def check_estimator(estimator: Any, *, classes: bool) -> None:
    """Refuse anything but a fitted model with chains (and classes)."""
    if isinstance(estimator, DictionaryEstimator):
        check_is_fitted(estimator)
    if not hasattr(estimator, "chains_") or (classes and not hasattr(estimator, "classes_")):
        wanted = "DBDLClassifier" if classes else "DBDLClassifier or BetaProcessDictionary"
        raise TypeError(
            f"estimator is {estimator!r}, which has no chains or no classes to show. Expected a "
            f"fitted {wanted}."
        )


@dataclass
class AtomsDisplay:
    """The atoms that each class uses most, as images or curves.

    An atom that several classes share is shown once for each of them.

    Attributes
    ----------
    pixels : ndarray of shape (n_shown, height, width, 4)
        Red, green, blue and opacity.
    titles : list of str
    figure_ : Figure
        Set by `plot`.
    """

    pixels: Pixels
    titles: list[str]

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        image_shape: tuple[int, int] | None = None,
        n_atoms: int = 40,
        order: str = "C",
    ) -> Self:
        """Draw the most probable atoms of each class in the first chain, equally many per class.

        Atoms are drawn in the space of the rows, whatever the chain's view.

        Parameters
        ----------
        estimator : DBDLClassifier
            Fitted.
        image_shape : (int, int), optional
            Height and width where features are pixels; without it atoms are drawn as curves.
        n_atoms : int, default=40
        order : {"C", "F"}, default="C"
            Order of the pixels in a row of features.
        """
        check_estimator(estimator, classes=True)
        check_scalar(n_atoms, "n_atoms", Integral, min_val=1)
        chain, names = estimator.chains_[0], estimator.classes_
        probability = chain.selection_probability
        shown = best_atoms_in_turn(probability, n_atoms)
        atoms = unit_rows(chain.restored_atoms)
        signed = is_signed(atoms)
        pictures = draw_rows(atoms[[k for _, k in shown]], image_shape, order, signed=signed)
        titles = [f"{names[c]}: {probability[c, k]:.2f}" for c, k in shown]
        return cls(pictures.rgba, titles).plot()

    def plot(self, n_columns: int = 10) -> Self:
        """Draw the pictures in a grid."""
        height, width = self.pixels.shape[1:3]
        self.figure_, axes = make_panels(len(self.pixels), n_columns, 1.0, height / width + 0.25)
        for ax, pixels, title in zip(axes, self.pixels, self.titles, strict=False):
            ax.axis("off")
            ax.imshow(pixels)
            ax.set_title(title, fontsize=7)
        self.figure_.suptitle("Most probable atoms of each class", fontsize=10)
        return self


@dataclass
class SelectionDisplay:
    """Selection probabilities of some classes over the atoms, as in the paper's figure 4.

    Attributes
    ----------
    probability : ndarray of shape (n_shown, n_atoms)
        Atoms are grouped by the class that uses them most.
    names : list of str
    figure_ : Figure
        Set by `plot`.
    """

    probability: Floats
    names: list[str]

    @classmethod
    def from_estimator(cls, estimator: Any, n_classes: int = 6) -> Self:
        """Draw ``n_classes`` classes, spread over all, of a fitted DBDLClassifier's first chain."""
        check_estimator(estimator, classes=True)
        probability = estimator.chains_[0].selection_probability
        check_scalar(n_classes, "n_classes", Integral, min_val=1)
        shown = spread_evenly(len(probability), n_classes)
        names = [str(estimator.classes_[c]) for c in shown]
        return cls(probability[np.ix_(shown, order_by_owner(probability))], names).plot()

    def plot(self) -> Self:
        """Draw one panel per class."""
        n_columns = min(3, len(self.names))
        self.figure_, axes = make_panels(len(self.names), n_columns, 3.2, 2.0)
        self.figure_.suptitle("Probability that a row of the class uses an atom", fontsize=10)
        colour, highest = tuple(value / 255 for value in BLUE), 1.05 * self.probability.max()
        for ax, row, name in zip(axes, self.probability, self.names, strict=False):
            ax.fill_between(np.arange(len(row)), row, step="mid", linewidth=0.6, color=colour)
            ax.set_title(f"class {name}", fontsize=9)
            ax.set(xlim=(0, len(row)), ylim=(0, highest))
        for ax in axes[-n_columns:]:
            ax.set_xlabel("atom")
        for ax in axes[::n_columns]:
            ax.set_ylabel("probability")
        return self


@dataclass
class TraceDisplay:
    """Quantities sweep by sweep: the number of atoms (the paper's last figure) and more.

    Attributes
    ----------
    trace : Trace
        Fields of shape (n_sweeps,) or (n_chains, n_sweeps).
    n_initial_atoms : list of int
        Atoms drawn at the start of each chain, copies included: the value at sweep 0.
    figure_ : Figure
        Set by `plot`.
    """

    trace: Trace
    n_initial_atoms: list[int]

    @classmethod
    def from_estimator(cls, estimator: Any, fields: Sequence[str] | None = None) -> Self:
        """Draw the trace of a fitted DBDLClassifier or BetaProcessDictionary.

        ``fields`` are the quantities to draw, by their names in ``trace_``; all by default.
        """
        check_estimator(estimator, classes=False)
        drawn = [chain.n_initial_atoms for chain in estimator.chains_]
        return cls(estimator.trace_, drawn).plot(fields)

    def plot(self, fields: Sequence[str] | None = None) -> Self:
        """Draw one panel per quantity, one line per chain."""
        panels = trace_panels(self.trace, self.n_initial_atoms)
        if fields is not None:
            panels = _chosen(panels, fields)
        size = (3.3, 2.5) if len(panels) > 1 else (5.5, 3.2)
        self.figure_, axes = make_panels(len(panels), min(3, len(panels)), *size)
        for ax, panel in zip(axes, panels, strict=False):
            ax.plot(panel.sweeps, panel.lines.T, linewidth=1.2)
            ax.set_title(panel.title, fontsize=9)
            ax.set(xlabel="sweep", yscale="log" if panel.is_log else "linear")
            ax.grid(alpha=0.3)
            if panel.field == "n_atoms":
                ax.set_ylim(bottom=0)
        return self


def _chosen(panels: list[TracePanel], fields: Sequence[str]) -> list[TracePanel]:
    known = [panel.field for panel in panels]
    single = isinstance(fields, str) or not isinstance(fields, Sequence)
    if single or not fields or not set(map(str, fields)) <= set(known):
        raise ValueError(f"fields is {fields!r}. Expected a list of some of {known}.")
    return [panel for panel in panels if panel.field in fields]
