"""Kernel views: inner products of coordinates are kernels, and round classes are told apart."""

import numpy as np
import pytest
from sklearn.linear_model import RidgeClassifier

from dbdl.views import KernelView, LabelledRows, View, make_views, view_named
from dbdl.views import kernel as kernel_module


def make_rows(n_rows=60, n_features=5, seed=0):
    rng = np.random.default_rng(seed)
    class_of_row = np.arange(n_rows) % 3
    X = rng.standard_normal((3, n_features))[class_of_row] + rng.standard_normal((n_rows, 5))
    return LabelledRows(X, class_of_row, 3)


def slow_kernel(rows, others, distance):
    """The kernel by the book, one pair after the other."""
    return np.array([[np.exp(-(1 - a @ b) / distance) for b in others] for a in rows])


@pytest.mark.parametrize("inner", ["plain", "standardised + constant"])
def test_inner_products_of_coordinates_are_the_kernel(inner):
    rows = make_rows()
    view = view_named(f"kernel of {inner}").fit(rows)
    seen = view_named(inner).fit(rows).apply(rows.X)
    apart = [1 - seen[i] @ seen[j] for i in range(60) for j in range(i)]
    assert view.kernel.distance == pytest.approx(np.median(apart))
    coordinates = view.kernel.apply(rows.X)
    expected = slow_kernel(seen, seen, np.median(apart))
    np.testing.assert_allclose(coordinates @ coordinates.T, expected, atol=1e-6)


def test_rows_beside_the_landmarks_have_the_kernel_with_them(monkeypatch):
    monkeypatch.setattr(kernel_module, "MOST_LANDMARKS", 20)
    rows = make_rows()
    kernel = view_named("kernel of plain").fit(rows).kernel
    assert len(kernel.landmarks) == 20
    queries = make_rows(seed=1).X
    seen = queries / np.linalg.norm(queries, axis=1, keepdims=True)
    found = kernel.apply(queries) @ kernel.apply(rows.X[np.linspace(0, 59, 20).astype(int)]).T
    expected = slow_kernel(seen, kernel.landmarks, kernel.distance)
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize(("n_rows", "expected"), [(60, 60), (250, 200), (1200, 240), (3100, 600)])
def test_a_fifth_of_the_rows_are_landmarks_within_bounds(n_rows, expected):
    kernel = view_named("kernel of plain").fit(make_rows(n_rows)).kernel
    assert len(kernel.landmarks) == expected


def test_the_coordinates_are_seen_through_the_outer_view():
    rows = make_rows()
    outer = View(centred=True, scale="total")
    view = KernelView(View(), outer).fit(rows)
    coordinates = view.kernel.apply(rows.X)
    expected = outer.fit(rows._replace(X=coordinates)).apply(coordinates)
    np.testing.assert_array_equal(view.apply(rows.X), expected)


def test_narrow_rows_have_almost_the_inner_products_of_wide_ones():
    rows = make_rows()
    wide, narrow = (
        view_named("kernel of plain + constant").fit(rows._replace(X=X)).apply(X)
        for X in (rows.X, rows.X.astype(np.float32))
    )
    assert narrow.dtype == np.float32
    np.testing.assert_allclose(narrow @ narrow.T, wide @ wide.T, atol=1e-3)


@pytest.mark.parametrize("inner", ["plain + constant", "standardised + constant"])
def test_training_rows_and_their_mixtures_are_mapped_back(inner):
    rows = make_rows()
    view = view_named(f"kernel of {inner}").fit(rows)
    seen = view.apply(rows.X)
    np.testing.assert_allclose(view.restore(seen), rows.X, atol=1e-4 * np.abs(rows.X).max())
    atoms = view.restore_atoms(seen)
    np.testing.assert_allclose(
        view.restore_atoms(2 * seen[:3] - seen[3:6]), 2 * atoms[:3] - atoms[3:6]
    )


def test_classes_in_opposite_directions_are_linear_in_a_kernel_view_only():
    angle = np.random.default_rng(0).uniform(0, 2 * np.pi, 300)
    X, y = np.c_[np.cos(angle), np.sin(angle)], angle // (np.pi / 2) % 2 == 0
    test = np.arange(300) % 2 == 0

    def accuracy(name):
        view = view_named(name).fit(LabelledRows(X[~test], y[~test].astype(np.int64), 2))
        model = RidgeClassifier(alpha=0.01).fit(view.apply(X[~test]), y[~test])
        return model.score(view.apply(X[test]), y[test])

    assert accuracy("kernel of plain") > 0.95
    assert accuracy("plain") < 0.7


def test_a_kernel_of_a_kernel_and_rows_that_are_not_scaled_are_refused():
    with pytest.raises(ValueError, match="there is no view 'kernel of kernel of plain'"):
        view_named("kernel of kernel of plain")
    with pytest.raises(ValueError, match="Expected views='plain'"):
        make_views("kernel of plain", normalize=False)


@pytest.mark.parametrize("name", ["kernel of plain", "kernel of unit half-whitened + constant"])
def test_a_kernel_view_has_the_name_that_it_was_asked_for_by(name):
    assert view_named(name).name == name
    assert KernelView(View(), View()).name == "KernelView('plain', 'plain')"
