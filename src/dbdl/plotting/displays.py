"""Displays as in scikit-learn: computed by ``from_estimator``, drawn by ``plot``.

The order of atoms, the panels and the colours are shared with `dbdl.report`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
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
    from matplotlib.figure import Figure


#: Font sizes of labels.
_SIZES: dict[Any, Any] = {"axes.labelsize": 8, "xtick.labelsize": 7, "ytick.labelsize": 7}


def make_panels(
    n: int, n_columns: int, width: float, height: float, ax: Any = None
) -> tuple[Figure, NDArray[Any]]:
    """Return a figure and ``n`` axes (n,) for panels.

    Without ``ax`` a figure is made, of ``width`` and ``height`` inches per panel. One axes is
    divided into a grid of panels, as scikit-learn's partial dependence does; one panel takes it
    as it is. An array of axes has one for each panel.
    """
    import matplotlib.pyplot as plt
    from matplotlib.gridspec import GridSpecFromSubplotSpec

    if ax is not None and not hasattr(ax, "figure"):
        axes = np.asarray(ax, dtype=object).ravel()
        if len(axes) != n or not all(hasattr(one, "figure") for one in axes):
            raise ValueError(
                f"ax has {len(axes)} entries. Expected axes of matplotlib, {n} of them: one for "
                "each panel. Pass a single axes to have it divided."
            )
        return axes[0].figure, axes
    if ax is not None and n == 1:
        return ax.figure, np.array([ax], dtype=object)
    n_rows = -(-n // n_columns)
    with plt.rc_context(_SIZES):
        if ax is None:
            size = (width * n_columns, height * n_rows + 0.3)
            figure = plt.figure(figsize=size, layout="constrained")
            axes = figure.subplots(n_rows, n_columns, squeeze=False).ravel()
        else:
            figure, place = ax.figure, ax.get_subplotspec()
            ax.set_axis_off()
            if place is None:
                raise ValueError(
                    "ax is not part of a grid, so it cannot be divided into panels. Expected an "
                    "axes of plt.subplots, or an array of axes, one for each panel."
                )
            grid = GridSpecFromSubplotSpec(n_rows, n_columns, subplot_spec=place)
            axes = np.array([figure.add_subplot(grid[k]) for k in range(n_rows * n_columns)])
    for one in axes[n:]:
        one.axis("off")
    return figure, axes[:n]


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
    axes_, ax_, figure_ : ndarray of Axes, Axes, Figure
        All panels, the first of them, and their figure; set by `plot`.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dbdl import DBDLClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = DBDLClassifier(n_chains=1, n_sweeps=2, random_state=0).fit(X[:60], y[:60])
    >>> from dbdl.plotting import AtomsDisplay
    >>> AtomsDisplay.from_estimator(model, image_shape=(8, 8), n_atoms=20).pixels.shape[0]
    20
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
        *,
        ax: Any = None,
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
        ax : Axes or array of Axes, optional
            Where to draw. A single axes is divided into panels; by default a figure is made.
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
        return cls(pictures.rgba, titles).plot(ax=ax)

    def plot(self, n_columns: int = 10, *, ax: Any = None) -> Self:
        """Draw the pictures in a grid, in ``ax`` if given: axes to divide, or one per picture."""
        height, width = self.pixels.shape[1:3]
        size = (1.0, height / width + 0.25)
        self.figure_, self.axes_ = make_panels(len(self.pixels), n_columns, *size, ax)
        self.ax_ = self.axes_[0]
        for one, pixels, title in zip(self.axes_, self.pixels, self.titles, strict=True):
            one.axis("off")
            one.imshow(pixels)
            one.set_title(title, fontsize=7)
        if ax is None:
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
        Labels of the classes shown.
    axes_, ax_, figure_ : ndarray of Axes, Axes, Figure
        All panels, the first of them, and their figure; set by `plot`.

    Examples
    --------
    >>> from dbdl import DBDLClassifier
    >>> from dbdl.datasets import load
    >>> from dbdl.plotting import SelectionDisplay
    >>> wine = load("wine")
    >>> model = DBDLClassifier(n_chains=1, n_sweeps=2, random_state=0).fit(wine.X, wine.y)
    >>> SelectionDisplay.from_estimator(model, n_classes=2).names
    ['0', '2']
    """

    probability: Floats
    names: list[str]

    @classmethod
    def from_estimator(cls, estimator: Any, n_classes: int = 6, *, ax: Any = None) -> Self:
        """Draw ``n_classes`` classes, spread over all, of a fitted DBDLClassifier's first chain.

        They are drawn in ``ax`` if given: axes to divide, or one per class.
        """
        check_estimator(estimator, classes=True)
        probability = estimator.chains_[0].selection_probability
        check_scalar(n_classes, "n_classes", Integral, min_val=1)
        shown = spread_evenly(len(probability), n_classes)
        names = [str(estimator.classes_[c]) for c in shown]
        return cls(probability[np.ix_(shown, order_by_owner(probability))], names).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> Self:
        """Draw one panel per class, in ``ax`` if given: axes to divide, or one per class."""
        n_columns = min(3, len(self.names))
        self.figure_, self.axes_ = make_panels(len(self.names), n_columns, 3.2, 2.0, ax)
        self.ax_ = self.axes_[0]
        if ax is None:
            title = "Probability that a row of the class uses an atom"
            self.figure_.suptitle(title, fontsize=10)
        colour, highest = tuple(value / 255 for value in BLUE), 1.05 * self.probability.max()
        for one, row, name in zip(self.axes_, self.probability, self.names, strict=True):
            one.stairs(row, fill=True, linewidth=0.6, color=colour)
            one.set_title(f"class {name}", fontsize=9)
            one.set(xlim=(0, len(row)), ylim=(0, highest))
        for one in self.axes_[-n_columns:]:
            one.set_xlabel("atoms, grouped by class")  # so places are not their numbers
        for one in self.axes_[::n_columns]:
            one.set_ylabel("probability")
        return self


@dataclass
class TraceDisplay:
    """Quantities sweep by sweep: the number of atoms (figure 9 of the paper) and more.

    Attributes
    ----------
    trace : Trace
        Fields of shape (n_sweeps,) or (n_chains, n_sweeps).
    n_initial_atoms : list of int
        Atoms drawn at the start of each chain, copies included: the value at sweep 0.
    axes_, ax_, figure_ : ndarray of Axes, Axes, Figure
        All panels, the first of them, and their figure; set by `plot`.

    Examples
    --------
    >>> from dbdl import BetaProcessDictionary
    >>> from dbdl.datasets import load
    >>> from dbdl.plotting import TraceDisplay
    >>> model = BetaProcessDictionary(n_sweeps=3, random_state=0).fit(load("iris").X)
    >>> TraceDisplay.from_estimator(model, fields=["n_atoms"]).trace.n_atoms.shape
    (3,)
    """

    trace: Trace
    n_initial_atoms: list[int]

    @classmethod
    def from_estimator(
        cls, estimator: Any, fields: Sequence[str] | None = None, *, ax: Any = None
    ) -> Self:
        """Draw the trace of a fitted DBDLClassifier or BetaProcessDictionary.

        ``fields`` are the quantities to draw, by their names in ``trace_``; all by default. They
        are drawn in ``ax`` if given: axes to divide, or one per quantity.
        """
        check_estimator(estimator, classes=False)
        drawn = [chain.n_initial_atoms for chain in estimator.chains_]
        return cls(estimator.trace_, drawn).plot(fields, ax=ax)

    def plot(self, fields: Sequence[str] | None = None, *, ax: Any = None) -> Self:
        """Draw one panel per quantity, one line per chain, in ``ax`` if given."""
        panels = trace_panels(self.trace, self.n_initial_atoms)
        if fields is not None:
            panels = _chosen(panels, fields)
        size = (3.3, 2.5) if len(panels) > 1 else (5.5, 3.2)
        self.figure_, self.axes_ = make_panels(len(panels), min(3, len(panels)), *size, ax)
        self.ax_ = self.axes_[0]
        for one, panel in zip(self.axes_, panels, strict=True):
            one.plot(panel.sweeps, panel.lines.T, linewidth=1.2)
            one.set_title(panel.title, fontsize=9)
            one.set(xlabel="sweep", yscale="log" if panel.is_log else "linear")
            one.grid(alpha=0.3)
            if panel.field == "n_atoms":
                one.set_ylim(bottom=0)
        return self


def _chosen(panels: list[TracePanel], fields: Sequence[str]) -> list[TracePanel]:
    known = [panel.field for panel in panels]
    single = isinstance(fields, str) or not isinstance(fields, Sequence)
    if single or not fields or not set(map(str, fields)) <= set(known):
        raise ValueError(f"fields is {fields!r}. Expected a list of some of {known}.")
    return [panel for panel in panels if panel.field in fields]
