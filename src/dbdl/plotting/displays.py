"""Displays in scikit-learn's manner: computed by ``from_estimator``, drawn by ``plot``.

What is shown, in which order and in which colours is shared with `dbdl.report`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from dbdl.estimators._base import DictionaryEstimator
from dbdl.plotting.arrangement import (
    TracePanel,
    best_atoms_in_turn,
    order_by_owner,
    spread_classes,
    trace_panels,
)
from dbdl.plotting.pictures import BLUE, draw_rows, is_signed
from dbdl.sampler.run import Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.floating[Any]]


def _figure(n_rows: int, n_columns: int, size: tuple[float, float]) -> tuple[Figure, list[Axes]]:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        n_rows, n_columns, figsize=size, squeeze=False, layout="constrained"
    )
    return figure, list(axes.ravel())


def _check_estimator(estimator: Any, *, classes: bool) -> None:
    """Refuse what is not a fitted model of chains (and classes)."""
    wanted = "DBDLClassifier" if classes else "DBDLClassifier or BetaProcessDictionary"
    if not hasattr(estimator, "fit") or isinstance(estimator, type):
        raise TypeError(f"estimator is {estimator!r}. Expected a fitted {wanted}.")
    if isinstance(estimator, DictionaryEstimator):
        check_is_fitted(estimator)
    if not hasattr(estimator, "chains_") or (classes and not hasattr(estimator, "classes_")):
        raise TypeError(
            f"estimator is a {type(estimator).__name__}, which has no chains or no classes to "
            f"show. Expected a fitted {wanted}."
        )


def _check_count(value: Any, name: str) -> int:
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} is {value!r}. Expected a whole number of 1 or more.")
    return int(value)


@dataclass
class AtomsDisplay:
    """The atoms that each class uses most, as images or curves.

    An atom that several classes share is there for each of them.

    Attributes
    ----------
    pixels : ndarray of shape (n_shown, height, width, 4)
        Red, green, blue and opacity.
    titles : list of str
    figure_ : Figure
        After `plot`.
    """

    pixels: NDArray[np.uint8]
    titles: list[str]

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        image_shape: tuple[int, int] | None = None,
        n_atoms: int = 40,
        order: str = "C",
    ) -> Self:
        """Take the atoms that are most probable for some class, classes in turn.

        Parameters
        ----------
        estimator : DBDLClassifier
            Fitted.
        image_shape : (int, int), optional
            Height and width of the images that the features are; curves without it.
        n_atoms : int, default=40
        order : {"C", "F"}, default="C"
            Order of the pixels in a row of features.
        """
        _check_estimator(estimator, classes=True)
        chain = estimator.chains_[0]
        shown = best_atoms_in_turn(chain.selection_probability, _check_count(n_atoms, "n_atoms"))
        atoms = chain.atoms[[k for _, k in shown]]
        pictures = draw_rows(atoms, image_shape, order, signed=is_signed(chain.atoms))
        titles = [
            f"{estimator.classes_[c]}: {chain.selection_probability[c, k]:.2f}" for c, k in shown
        ]
        return cls(pictures.rgba, titles).plot()

    def plot(self, n_columns: int = 10) -> Self:
        """Draw the pictures in a grid."""
        n_rows = -(-len(self.pixels) // n_columns)
        height, width = self.pixels.shape[1:3]
        size = (1.0 * n_columns, (1.0 * height / width + 0.25) * n_rows + 0.3)
        self.figure_, axes = _figure(n_rows, n_columns, size)
        for ax in axes:
            ax.axis("off")
        for ax, pixels, title in zip(axes, self.pixels, self.titles, strict=False):
            ax.imshow(pixels)
            ax.set_title(title, fontsize=7)
        self.figure_.suptitle("Atoms that each class uses most, and how probably", fontsize=10)
        return self


@dataclass
class SelectionDisplay:
    """Selection probabilities of some classes over the atoms, as the paper's figure 4.

    Attributes
    ----------
    probability : ndarray of shape (n_shown, n_atoms)
        Atoms in the order of the class that uses them most.
    names : list of str
    figure_ : Figure
        After `plot`.
    """

    probability: Floats
    names: list[str]

    @classmethod
    def from_estimator(cls, estimator: Any, n_classes: int = 6) -> Self:
        """Take ``n_classes`` classes spread over all, from the first chain.

        Parameters
        ----------
        estimator : DBDLClassifier
            Fitted.
        n_classes : int, default=6
        """
        _check_estimator(estimator, classes=True)
        probability = estimator.chains_[0].selection_probability
        shown = spread_classes(len(probability), _check_count(n_classes, "n_classes"))
        names = [str(estimator.classes_[c]) for c in shown]
        return cls(probability[np.ix_(shown, order_by_owner(probability))], names).plot()

    def plot(self) -> Self:
        """Draw one panel a class."""
        n_columns = min(3, len(self.names))
        n_rows = -(-len(self.names) // n_columns)
        self.figure_, axes = _figure(n_rows, n_columns, (3.2 * n_columns, 2.0 * n_rows + 0.3))
        for ax in axes:
            ax.axis("off")
        colour = tuple(value / 255 for value in BLUE)
        for ax, row, name in zip(axes, self.probability, self.names, strict=False):
            ax.axis("on")
            ax.fill_between(np.arange(len(row)), row, step="mid", linewidth=0.6, color=colour)
            ax.set_title(f"class {name}", fontsize=9)
            ax.set_ylim(0, 1.05 * float(self.probability.max()))
            ax.set_xlim(0, len(row))
            ax.tick_params(labelsize=7)
        for ax in axes[-n_columns:]:
            ax.set_xlabel("atom", fontsize=8)
        for ax in axes[::n_columns]:
            ax.set_ylabel("probability", fontsize=8)
        self.figure_.suptitle("Probability that a row of the class uses an atom", fontsize=10)
        return self


@dataclass
class TraceDisplay:
    """What happened sweep by sweep: number of atoms (the paper's last figure) and more.

    Attributes
    ----------
    trace : Trace
        Fields of shape (n_sweeps,) or (n_chains, n_sweeps).
    n_initial_atoms : list of int
        Atoms drawn at the start of each chain, copies included: the value at sweep 0.
    figure_ : Figure
        After `plot`.
    """

    trace: Trace
    n_initial_atoms: list[int]

    @classmethod
    def from_estimator(cls, estimator: Any, fields: Sequence[str] | None = None) -> Self:
        """Take the trace of a fitted estimator.

        Parameters
        ----------
        estimator : DBDLClassifier
            Fitted.
        fields : sequence of str, optional
            Quantities to draw, by their names in ``trace_``; all by default.
        """
        _check_estimator(estimator, classes=False)
        chains = estimator.chains_
        return cls(estimator.trace_, [c.n_initial_atoms for c in chains]).plot(fields)

    def plot(self, fields: Sequence[str] | None = None) -> Self:
        """Draw one panel a quantity, one line a chain."""
        panels = trace_panels(self.trace, self.n_initial_atoms)
        if fields is not None:
            panels = _chosen(panels, fields)
        n_columns = min(3, len(panels))
        n_rows = -(-len(panels) // n_columns)
        size = (10.0, 2.5 * n_rows) if len(panels) > 1 else (5.5, 3.5)
        self.figure_, axes = _figure(n_rows, n_columns, size)
        for ax, panel in zip(axes, panels, strict=False):
            ax.plot(panel.sweeps, panel.lines.T, linewidth=1.2)
            ax.set_title(panel.title, fontsize=9)
            ax.set_yscale("log" if panel.is_log else "linear")
            ax.set_xlabel("sweep", fontsize=8)
            ax.tick_params(which="both", labelsize=7)
            ax.grid(alpha=0.3)
            if panel.field == "n_atoms":
                ax.set_ylim(bottom=0)
        for ax in axes[len(panels) :]:
            ax.axis("off")
        return self


def _chosen(panels: list[TracePanel], fields: Sequence[str]) -> list[TracePanel]:
    """Panels of the quantities that are asked for."""
    known = [panel.field for panel in panels]
    single = isinstance(fields, str) or not isinstance(fields, Sequence)
    if single or not fields or not set(map(str, fields)) <= set(known):
        raise ValueError(f"fields is {fields!r}. Expected a list of some of {known}.")
    return [panel for panel in panels if panel.field in fields]
