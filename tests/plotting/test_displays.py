"""Displays draw the learned atoms, probabilities and traces."""

from __future__ import annotations

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.datasets import load_digits

from dbdl import DBDLClassifier
from dbdl.plotting import AtomsDisplay, SelectionDisplay, TraceDisplay
from dbdl.plotting.pictures import draw_rows


@pytest.fixture(scope="module")
def model():
    X, y = load_digits(n_class=4, return_X_y=True)
    return DBDLClassifier(n_sweeps=4, n_chains=2, n_nonzero=3, random_state=0).fit(X[:80], y[:80])


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def test_atoms_are_shown_as_images_class_by_class(model):
    display = AtomsDisplay.from_estimator(model, (8, 8), n_atoms=8)
    assert display.pixels.shape == (8, 8, 8, 4)
    assert [title.split(":")[0] for title in display.titles] == list("00112233")
    assert sum(bool(ax.images) for ax in display.figure_.axes) == 8


def test_atoms_are_drawn_in_the_space_of_the_rows(model):
    display = AtomsDisplay.from_estimator(model, (8, 8), n_atoms=1)
    chain = model.chains_[0]
    assert chain.atoms.shape[1] != 64  # it is in the space of the view
    best = chain.selection_probability[0].argmax()
    expected = draw_rows(chain.restored_atoms[[best]], (8, 8), signed=False).rgba
    np.testing.assert_array_equal(display.pixels, expected)


def test_selection_probabilities_of_a_class_cluster_at_its_own_atoms(model):
    display = SelectionDisplay.from_estimator(model, n_classes=2)
    assert display.names == ["0", "3"]
    first, last = display.probability
    assert first[: len(first) // 4].mean() > first[-len(first) // 4 :].mean()
    assert last[: len(last) // 4].mean() < last[-len(last) // 4 :].mean()


def test_the_trace_starts_at_the_number_of_atoms_drawn(model):
    display = TraceDisplay.from_estimator(model)
    line = display.figure_.axes[0].lines[0]
    assert line.get_ydata()[0] == 108  # half as many atoms again as the rows of a chain, 72 of 80
    np.testing.assert_array_equal(line.get_ydata()[1:], model.trace_.n_atoms[0])


def test_a_trace_can_be_of_one_quantity_alone(model):
    display = TraceDisplay.from_estimator(model, fields=["n_atoms"])
    [ax] = display.figure_.axes
    assert ax.get_title() == "number of atoms" and len(ax.lines) == 2
    four = TraceDisplay.from_estimator(
        model, fields=["n_atoms", "mean_nonzero", "noise_precision", "log_joint"]
    )
    assert sum(ax.axison for ax in four.figure_.axes) == 4


def test_atoms_whose_features_are_no_pixels_are_shown_as_curves(model):
    display = AtomsDisplay.from_estimator(model, n_atoms=6)
    assert display.pixels.shape == (6, 64, 192, 4)
    assert (display.pixels[..., 3] == 255).any(axis=(1, 2)).all()


def test_a_shape_that_does_not_fit_is_refused_with_the_number_of_features(model):
    with pytest.raises(ValueError, match=r"\(8, 9\) does not fit 64 features"):
        AtomsDisplay.from_estimator(model, (8, 9))
