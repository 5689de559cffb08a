"""Displays in scikit-learn's manner: computed by ``from_estimator``, drawn by ``plot``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

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


@dataclass
class AtomsDisplay:
    """Atoms as images, each named by the class that uses it most.

    Attributes
    ----------
    images : ndarray of shape (n_shown, height, width)
    titles : list of str
    figure_ : Figure
        After `plot`.
    """

    images: Floats
    titles: list[str]

    @classmethod
    def from_estimator(
        cls, estimator: Any, image_shape: tuple[int, int], n_atoms: int = 40, order: str = "C"
    ) -> Self:
        """Take the atoms that are most probable for some class, classes in turn.

        Parameters
        ----------
        estimator : DBDLClassifier
            Fitted.
        image_shape : (int, int)
            Height and width of the images that the features are.
        n_atoms : int, default=40
        order : {"C", "F"}, default="C"
            Order of the pixels in a row of features.
        """
        chain = estimator.chains_[0]
        probability = chain.selection_probability
        n_classes = len(probability)
        each = -(-n_atoms // n_classes)
        best = np.argsort(-probability, axis=1, kind="stable")[:, :each]
        shown = [(c, k) for c in range(n_classes) for k in best[c]][:n_atoms]
        images = np.stack([chain.atoms[k].reshape(image_shape, order=order) for _, k in shown])
        titles = [f"{estimator.classes_[c]}: {probability[c, k]:.2f}" for c, k in shown]
        display = cls(images, titles)
        return display.plot()

    def plot(self, n_columns: int = 10) -> Self:
        """Draw the images in a grid."""
        n_rows = -(-len(self.images) // n_columns)
        self.figure_, axes = _figure(n_rows, n_columns, (1.0 * n_columns, 1.25 * n_rows + 0.3))
        for ax in axes:
            ax.axis("off")
        for ax, image, title in zip(axes, self.images, self.titles, strict=False):
            limit = float(np.abs(image).max()) or 1.0
            ax.imshow(image, cmap="RdBu_r", vmin=-limit, vmax=limit)
            ax.set_title(title, fontsize=7)
        self.figure_.suptitle(
            "Atoms, with the class that uses each most and its probability", fontsize=10
        )
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
        probability = estimator.chains_[0].selection_probability
        owner = probability.argmax(axis=0)
        order = np.lexsort((-probability.max(axis=0), owner))
        shown = np.unique(
            np.linspace(0, len(probability) - 1, min(n_classes, len(probability))).astype(int)
        )
        names = [str(estimator.classes_[c]) for c in shown]
        display = cls(probability[np.ix_(shown, order)], names)
        return display.plot()

    def plot(self) -> Self:
        """Draw one panel a class."""
        n_columns = min(3, len(self.names))
        n_rows = -(-len(self.names) // n_columns)
        self.figure_, axes = _figure(n_rows, n_columns, (3.2 * n_columns, 2.0 * n_rows + 0.3))
        for ax in axes:
            ax.axis("off")
        for ax, row, name in zip(axes, self.probability, self.names, strict=False):
            ax.axis("on")
            ax.fill_between(np.arange(len(row)), row, step="mid", linewidth=0.6, color="#1f5fa8")
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
    def from_estimator(cls, estimator: Any) -> Self:
        """Take the trace of a fitted estimator."""
        return cls(estimator.trace_, [c.n_initial_atoms for c in estimator.chains_]).plot()

    def plot(self) -> Self:
        """Draw one panel a quantity, one line a chain."""
        panels = [
            ("n_atoms", "number of atoms", "linear"),
            ("mean_nonzero", "atoms used a row", "linear"),
            ("noise_precision", "noise precision", "log"),
            ("log_joint", "log joint density", "linear"),
        ]
        self.figure_, axes = _figure(2, 2, (7.5, 5.0))
        for ax, (field, title, scale) in zip(axes, panels, strict=True):
            lines = np.atleast_2d(getattr(self.trace, field))
            for n_initial, values in zip(self.n_initial_atoms, lines, strict=True):
                if field == "n_atoms":
                    ax.plot(range(len(values) + 1), [n_initial, *values], linewidth=1.2)
                else:
                    ax.plot(range(1, len(values) + 1), values, linewidth=1.2)
            ax.set_title(title, fontsize=9)
            ax.set_yscale(scale)
            ax.set_xlabel("sweep", fontsize=8)
            ax.tick_params(which="both", labelsize=7)
            ax.grid(alpha=0.3)
        axes[0].set_ylim(bottom=0)
        return self
