"""The shares of features in a decision: bars for a table, a curve for a spectrum, a heat map."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_scalar

from dbdl.estimators.explanation import Explanation
from dbdl.plotting.displays import check_estimator
from dbdl.plotting.pictures import BLUE, ORANGE, check_image_shape

Kind = Literal["bars", "curve", "image"]

#: More features than this are taken for a spectrum or a signal, unless they are pixels.
MOST_BARS = 40
#: Colours for the predicted class, and for the other.
FOR, AGAINST = ("#{:02x}{:02x}{:02x}".format(*colour) for colour in (BLUE, ORANGE))
#: Neighbours on either side over which shares of a curve are averaged, as a part of all features.
NEIGHBOURS = 0.02
#: A number in the name of a feature, such as 450.5 in "450.5 nm".
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
#: Points between the axes and the title, where the legend of the classes is.
ROOM_FOR_LEGEND = 20


class Bar(NamedTuple):
    """A bar: a feature, several features together, or the constant."""

    name: str
    share: float


@dataclass
class ExplanationDisplay:
    """The shares of the features in one decision.

    Attributes
    ----------
    explanation : Explanation
    image_shape : (int, int) or None
        Height and width where features are pixels.
    order : {"C", "F"}
        Order of the pixels in a row of features.
    ax_ : Axes
        Set by `plot`.
    figure_ : Figure
        Set by `plot`.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from dbdl import DBDLClassifier
    >>> from dbdl.plotting import ExplanationDisplay
    >>> X, y = load_wine(return_X_y=True, as_frame=True)
    >>> model = DBDLClassifier(n_sweeps=5, n_chains=1, random_state=0).fit(X[::2], y[::2])
    >>> display = ExplanationDisplay.from_estimator(model, X.iloc[1])
    >>> display.ax_.get_xlabel()
    'share in the difference of the scores'
    """

    explanation: Explanation
    image_shape: tuple[int, int] | None = None
    order: Literal["C", "F"] = "C"

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: ArrayLike,
        *,
        against: Any = None,
        image_shape: tuple[int, int] | None = None,
        order: Literal["C", "F"] = "C",
        kind: Kind | None = None,
        n_features: int = 12,
        subtitle: str = "",
        ax: Any = None,
    ) -> Self:
        """Explain a row by a fitted classifier, and draw the explanation.

        Parameters
        ----------
        estimator : DBDLClassifier
            Fitted.
        X : array-like of shape (n_features,) or (1, n_features)
            The row.
        against : label, optional
            The class to compare the predicted one with; by default the one that follows.
        image_shape : (int, int), optional
            Height and width where features are pixels.
        order : {"C", "F"}, default="C"
            Order of the pixels in a row of features.
        kind : {"bars", "curve", "image"}, optional
            By default an image where ``image_shape`` is given, otherwise bars for up to 40
            features, and a curve for more.
        n_features : int, default=12
            Bars of single features, those with the largest shares.
        subtitle : str, optional
            A second line of the title, such as the name of the row.
        ax : Axes, optional
            Where to draw; by default a figure is made.
        """
        check_estimator(estimator, classes=True)
        found = estimator.explain(X, against=against)
        if isinstance(found, list):
            if len(found) != 1:
                raise ValueError(
                    f"X has {len(found)} rows. Expected one row: a display explains one decision."
                )
            found = found[0]
        return cls(found, image_shape, order).plot(
            kind=kind, n_features=n_features, subtitle=subtitle, ax=ax
        )

    @classmethod
    def from_explanation(
        cls,
        explanation: Explanation,
        *,
        image_shape: tuple[int, int] | None = None,
        order: Literal["C", "F"] = "C",
        kind: Kind | None = None,
        n_features: int = 12,
        subtitle: str = "",
        ax: Any = None,
    ) -> Self:
        """Draw an explanation; parameters as for `from_estimator`."""
        return cls(explanation, image_shape, order).plot(
            kind=kind, n_features=n_features, subtitle=subtitle, ax=ax
        )

    def plot(
        self,
        *,
        kind: Kind | None = None,
        n_features: int = 12,
        subtitle: str = "",
        ax: Any = None,
    ) -> Self:
        """Draw the shares; parameters as for `from_estimator`."""
        import matplotlib.pyplot as plt

        kind = self._kind() if kind is None else kind
        draw = {"bars": self._bars, "curve": self._curve, "image": self._image}
        if kind not in draw:
            raise ValueError(f"kind={kind!r}. Expected 'bars', 'curve' or 'image'.")
        check_scalar(n_features, "n_features", Integral, min_val=1)
        if self.image_shape is not None:
            check_image_shape(self.image_shape, len(self.explanation.shares))
        elif kind == "image":
            raise ValueError("kind='image' needs image_shape, the height and width in pixels.")
        if ax is None:
            n_bars = len(bars_of(self.explanation, n_features))
            height = 0.32 * n_bars + 1.5 if kind == "bars" else 4.0
            width = 5.6 if kind == "image" else 7.5
            _, ax = plt.subplots(figsize=(width, height), layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        draw[kind](n_features)
        why = self.explanation
        title = f"Why {why.predicted}, and not {why.against}?"
        pad = None if kind == "image" else ROOM_FOR_LEGEND
        ax.set_title("\n".join(filter(None, [title, subtitle])), fontsize=11, pad=pad)
        return self

    def _kind(self) -> Kind:
        if self.image_shape is not None:
            return "image"
        return "bars" if len(self.explanation.shares) <= MOST_BARS else "curve"

    def _bars(self, n_features: int) -> None:
        ax, bars = self.ax_, bars_of(self.explanation, n_features)[::-1]
        shares = np.array([bar.share for bar in bars])
        ax.barh(np.arange(len(bars)), shares, color=[FOR if s > 0 else AGAINST for s in shares])
        ax.set_yticks(np.arange(len(bars)), [bar.name for bar in bars], fontsize=9)
        longest = np.abs(shares).max() or 1.0
        for place, share in enumerate(shares):
            side = "left" if share >= 0 else "right"
            at = share + (0.015 if share >= 0 else -0.015) * longest
            ax.text(at, place, f"{share:+.2g}", va="center", ha=side, fontsize=8)
        ax.margins(x=0.14)
        ax.axvline(0, color="0.4", linewidth=0.8)
        ax.set_xlabel("share in the difference of the scores")
        ax.spines[["top", "right", "left"]].set_visible(False)
        ax.tick_params(left=False)
        self._legend()

    def _curve(self, n_features: int) -> None:
        """Draw shares in the lower half of the axes, and the row above them.

        Neighbours in a spectrum move together, and their shares may have opposite signs. The dark
        areas are means over neighbours, which tell what they add together.
        """
        ax, why = self.ax_, self.explanation
        places, label = places_of(why.feature_names)
        order = np.argsort(places, kind="stable")
        places, shares = places[order], why.shares[order]
        means = running_mean(shares, max(1, round(NEIGHBOURS * len(shares))))
        for values, opacity in ((shares, 0.3), (means, 1.0)):
            for colour, part in ((FOR, np.maximum(values, 0)), (AGAINST, np.minimum(values, 0))):
                ax.fill_between(places, part, step="mid", color=colour, alpha=opacity, linewidth=0)
        ax.axhline(0, color="0.4", linewidth=0.8)
        ax.set_xlim(places[0], places[-1])
        ax.set_xlabel(label)
        above, lines = ax.twinx(), [why.values[order], why.baseline[order]]
        above.plot(places, lines[0], color="0.2", linewidth=1.3, label="the row")
        if why.baseline.any():
            above.plot(places, lines[1], color="0.5", linewidth=1, linestyle="--", label="average")
        self._in_half(ax, shares, lower=True)
        ax.set_ylabel("share", y=0.25)
        self._in_half(above, np.array(lines if why.baseline.any() else lines[:1]), lower=False)
        above.set_ylabel("value", y=0.75)
        above.legend(loc="best", fontsize=8, frameon=False)
        self._legend()

    @staticmethod
    def _in_half(ax: Any, values: Any, *, lower: bool) -> None:
        """Set the limits of an axes so that values fill its lower or upper half."""
        from matplotlib.ticker import MaxNLocator

        low, high = min(float(values.min()), 0.0), max(float(values.max()), 0.0)
        size = (high - low) or 1.0
        ticks = MaxNLocator(4).tick_values(low, high)
        ax.set_yticks([tick for tick in ticks if low <= tick <= high])
        ax.set_ylim(low - (0.15 if lower else 1.2) * size, high + (1.2 if lower else 0.1) * size)

    def _image(self, n_features: int) -> None:
        from matplotlib.colors import LinearSegmentedColormap

        ax, why = self.ax_, self.explanation
        assert self.image_shape is not None
        colours = LinearSegmentedColormap.from_list("shares", [AGAINST, "white", FOR])
        shares = why.shares.reshape(self.image_shape, order=self.order)
        largest = np.abs(shares).max() or 1.0
        shown = ax.imshow(shares, cmap=colours, vmin=-largest, vmax=largest)
        row = why.values.reshape(self.image_shape, order=self.order)
        if row.max() > row.min():  # its outline, half way between the darkest and the lightest
            level = [(row.max() + row.min()) / 2]
            ax.contour(row, levels=level, colors="0.2", linewidths=1.2)
        ax.set(xticks=[], yticks=[])
        bar = self.figure_.colorbar(shown, ax=ax, shrink=0.85)
        bar.set_label(f"share: blue for {why.predicted}, orange for {why.against}", fontsize=9)

    def _legend(self) -> None:
        """Name the classes above the axes, where nothing is drawn that they could hide."""
        from matplotlib.patches import Patch

        why = self.explanation
        shades = [(FOR, why.predicted), (AGAINST, why.against)]
        handles = [Patch(color=colour, label=f"for {label}") for colour, label in shades]
        place: dict[str, Any] = {"loc": "lower center", "bbox_to_anchor": (0.5, 1)}
        self.ax_.legend(
            handles=handles, ncols=2, fontsize=8, frameon=False, borderaxespad=0, **place
        )


def bars_of(explanation: Explanation, n_features: int) -> list[Bar]:
    """Bars of the largest shares, of all other features together, and of the constant."""
    shown, others = explanation.largest(n_features)
    bars = [Bar(str(part), part.share) for part in shown]
    if others is not None:
        bars.append(Bar(str(others), others.share))
    return [*bars, Bar(explanation.baseline_in_words, explanation.constant)]


def places_of(names: Sequence[str]) -> tuple[Any, str]:
    """Places of features on an axis, and its label: numbers in their names, or their order."""
    found = [NUMBER.findall(name) for name in names]
    if all(len(numbers) == 1 for numbers in found):
        places = np.array([float(numbers[0]) for numbers in found])
        words = {NUMBER.sub("", name).strip(" _-") for name in names}
        if len(words) == 1 and len(np.unique(places)) == len(places):
            return places, words.pop() or "feature"
    return np.arange(len(names)), "feature"


def running_mean(values: Any, n_neighbours: int) -> Any:
    """Mean of each value and of this many neighbours on either side, as far as there are some."""
    width = np.ones(2 * n_neighbours + 1)
    full = np.convolve(values, width)[n_neighbours : n_neighbours + len(values)]
    return full / np.convolve(np.ones(len(values)), width)[n_neighbours:][: len(values)]
