"""An explanation is drawn as bars, a curve or a heat map, and displays draw where they are told."""

from __future__ import annotations

import matplotlib

matplotlib.use("Agg")

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.datasets import load_digits

from dbdl import DBDLClassifier
from dbdl.coding import Forward
from dbdl.plotting import AtomsDisplay, ExplanationDisplay, SelectionDisplay, TraceDisplay
from dbdl.plotting.explanation import AGAINST, FOR, bars_of, places_of, running_mean

DIGITS = load_digits(n_class=4, return_X_y=True)


@pytest.fixture(scope="module")
def model():
    X, y = DIGITS
    return DBDLClassifier(n_sweeps=3, n_chains=2, coder=Forward(4), random_state=0).fit(
        X[:80], y[:80]
    )


@pytest.fixture(scope="module")
def why(model):
    return model.explain(DIGITS[0][100])


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def with_shares(why, shares, constant=0.0):
    """The explanation with other shares, of as many features as there are shares."""
    n = len(shares)
    parts = {"values": np.arange(n) + 1.0, "baseline": np.ones(n), "missing": np.zeros(n, bool)}
    names = tuple(f"band {10 * j}" for j in range(n))
    shares = np.array(shares, dtype=float)
    return replace(why, shares=shares, constant=constant, feature_names=names, **parts)


@pytest.mark.parametrize("kind", ["bars", "curve"])
def test_the_legend_of_the_classes_hides_nothing_that_is_drawn(why, kind):
    display = ExplanationDisplay.from_explanation(
        with_shares(why, [3, 2, 1], 3.0), kind=kind, subtitle="row 3"
    )
    figure, ax = display.figure_, display.ax_
    figure.canvas.draw()
    legend, axes = ax.get_legend().get_window_extent(), ax.get_window_extent()
    assert legend.y0 >= axes.y1 - 1
    assert not legend.overlaps(ax.title.get_window_extent())
    assert figure.bbox.containsx(legend.x1) and figure.bbox.containsy(legend.y1)
    assert ax.get_title().endswith("\nrow 3")


def test_pixels_have_the_colours_of_their_shares(why):
    display = ExplanationDisplay.from_explanation(why, image_shape=(8, 8))
    (image,) = display.ax_.images
    np.testing.assert_array_equal(image.get_array(), why.shares.reshape(8, 8))
    low, high = image.get_clim()
    assert low == -high and high == np.abs(why.shares).max()
    assert str(why.predicted) in display.ax_.get_title()


def test_pixels_may_come_column_by_column(why):
    display = ExplanationDisplay.from_explanation(why, image_shape=(8, 8), order="F")
    (image,) = display.ax_.images
    np.testing.assert_array_equal(image.get_array(), why.shares.reshape(8, 8).T)


def test_few_features_are_bars_with_their_names_values_and_shares(why):
    few = with_shares(why, [0.1, -0.4, 0.2], constant=0.05)
    ax = ExplanationDisplay.from_explanation(few).ax_
    widths = [bar.get_width() for bar in ax.patches]
    assert widths == [0.05, 0.1, 0.2, -0.4]
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels[-1] == "band 10 = 2 (average 1)" and labels[0] == "the average row"
    for bar in ax.patches:
        colour = FOR if bar.get_width() > 0 else AGAINST
        assert matplotlib.colors.to_hex(bar.get_facecolor()) == colour


def test_other_features_together_are_not_the_longest_bar_if_a_few_more_names_help(why):
    many = with_shares(why, [0.5, *[0.1] * 10])
    bars = bars_of(many, 4)
    assert bars[-2].name.startswith("5 other features") and len(bars) == 6 + 2
    assert sum(bar.share for bar in bars) == pytest.approx(many.shares.sum())
    every = bars_of(with_shares(why, [0.3, -0.2]), 4)
    assert [bar.name for bar in every][-1] == "the average row" and len(every) == 3


def test_other_features_say_what_they_hold(why):
    many = with_shares(why, [0.3, *[0.2] * 20, *[-0.1] * 10])
    *_, others, _ = bars_of(many, 4)
    held = f"+2.6 for {why.predicted}, -1 for {why.against}"
    assert others.name == f"23 other features ({held})"
    assert others.share == pytest.approx(1.6)


def test_many_features_are_a_curve_over_the_numbers_in_their_names(why):
    many = with_shares(why, np.linspace(-1, 1, 60))
    display = ExplanationDisplay.from_explanation(many)
    assert display.ax_.get_xlabel() == "band" and display.ax_.get_xlim() == (0, 590)
    row, average = display.figure_.axes[1].lines
    np.testing.assert_array_equal(row.get_ydata(), many.values)
    np.testing.assert_array_equal(average.get_ydata(), many.baseline)


def test_features_are_placed_by_numbers_only_if_these_tell_them_apart():
    places, label = places_of(["B450.5", "B460"])
    assert places.tolist() == [450.5, 460] and label == "B"
    for names in (["a", "b"], ["a 1", "b 2"], ["a 1", "a 1"], ["1 of 2", "2 of 2"]):
        places, label = places_of(names)
        assert places.tolist() == [0, 1] and label == "feature"


def test_running_means_are_those_of_neighbours():
    values = np.array([0.0, 3.0, 6.0, 0.0])
    np.testing.assert_allclose(running_mean(values, 1), [1.5, 3.0, 3.0, 3.0])


def test_a_row_is_explained_and_drawn_at_once(model, why):
    X = DIGITS[0]
    for row in (X[100], X[100:101]):
        display = ExplanationDisplay.from_estimator(model, row, image_shape=(8, 8))
        np.testing.assert_array_equal(display.explanation.shares, why.shares)
    with pytest.raises(ValueError, match="X has 2 rows"):
        ExplanationDisplay.from_estimator(model, X[:2])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "pie"}, "kind='pie'"),
        ({"kind": "image"}, "needs image_shape"),
        ({"image_shape": (8, 9)}, r"\(8, 9\) does not fit 64 features"),
        ({"n_features": 0}, "n_features"),
    ],
)
def test_wrong_options_are_refused(why, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        ExplanationDisplay.from_explanation(why, **options)


# ---------------------------------------------------------------------------- every display


def test_an_explanation_is_drawn_into_given_axes(why):
    figure, (left, right) = plt.subplots(1, 2)
    display = ExplanationDisplay.from_explanation(why, kind="bars", ax=right)
    assert display.ax_ is right and display.figure_ is figure
    assert right.patches and not left.patches


DISPLAYS = {
    "atoms": (lambda model, ax: AtomsDisplay.from_estimator(model, (8, 8), n_atoms=4, ax=ax), 4),
    "selection": (lambda model, ax: SelectionDisplay.from_estimator(model, 2, ax=ax), 2),
    "trace": (lambda model, ax: TraceDisplay.from_estimator(model, ["n_atoms"], ax=ax), 1),
}
every_display = pytest.mark.parametrize(("draw", "n"), DISPLAYS.values(), ids=DISPLAYS)


@every_display
def test_without_axes_a_figure_is_made(model, draw, n):
    display = draw(model, None)
    assert len(display.axes_) == n and display.ax_ is display.axes_[0]
    assert all(ax.figure is display.figure_ for ax in display.axes_)


@every_display
def test_a_single_axes_is_divided_into_panels(model, draw, n):
    figure, (left, right) = plt.subplots(1, 2)
    display = draw(model, right)
    assert display.figure_ is figure and len(display.axes_) == n
    figure.canvas.draw()
    box = right.get_position()
    for ax in display.axes_:
        assert ax.get_position().x0 >= box.x0 - 1e-6 and ax.get_position().x1 <= box.x1 + 1e-6
    assert not left.lines and not left.images and left.get_title() == ""


@every_display
def test_an_array_of_axes_has_one_for_each_panel(model, draw, n):
    _, axes = plt.subplots(1, n, squeeze=False)
    display = draw(model, axes)
    assert list(display.axes_) == list(axes.ravel())
    _, axes = plt.subplots(1, n + 1)
    with pytest.raises(ValueError, match=f"ax has {n + 1} entries"):
        draw(model, axes)


def test_axes_outside_a_grid_cannot_be_divided(model):
    ax = plt.figure().add_axes((0, 0, 1, 1))
    with pytest.raises(ValueError, match="ax is not part of a grid"):
        SelectionDisplay.from_estimator(model, 2, ax=ax)
