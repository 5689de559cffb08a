"""The path from a baseline to a row in a view: gradients are exact, and shares add up."""

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.preprocessing import FunctionTransformer

from dbdl.views import AUTOMATIC, VIEWS, KernelView, LabelledRows, View, make_views
from dbdl.views.attribution import SHORT, Path, training_mean

RECIPES = [
    *VIEWS, *AUTOMATIC, *(f"unit {name} + constant" for name in VIEWS), View(power=0.5),
    KernelView(View(centred=True), View(centred=True)), PCA(3), FunctionTransformer(np.sqrt),
]  # fmt: skip
every_view = pytest.mark.parametrize("recipe", RECIPES, ids=str)
N_PARTS = 4


def make_rows(seed=0, n_rows=60):
    rng = np.random.default_rng(seed)
    class_of_row = np.arange(n_rows) % 3
    X = 3 + rng.standard_normal((3, 5))[class_of_row] + rng.standard_normal((n_rows, 5))
    return LabelledRows(np.abs(X) * [1, 10, 0.1, 2, 3], class_of_row, 3)


def make_problem(recipe, normalize=True):
    """A fitted view, a row, a baseline away from the mean, and weights."""
    view = make_views(recipe, normalize)[0].fit(make_rows())
    row, baseline = make_rows(1).X[[10, 47]]
    return view, row, baseline, np.random.default_rng(0).standard_normal(view.n_features)


def shares_of(view, row, baseline, weights, n_parts=N_PARTS):
    slopes = np.tile(weights, (n_parts, 1))
    return Path(view, row, baseline, n_parts).shares(slopes)


@every_view
def test_points_are_those_of_the_view(recipe):
    view, row, baseline, _ = make_problem(recipe)
    places = np.linspace(0, 1, 2 * N_PARTS + 1)[:, np.newaxis]
    expected = view.apply(baseline + places * (row - baseline))
    np.testing.assert_allclose(Path(view, row, baseline, N_PARTS).mapped, expected, atol=1e-9)


@every_view
def test_shares_are_gradients_times_steps(recipe):
    view, row, baseline, weights = make_problem(recipe)
    step, shares = 1e-5, shares_of(view, row, baseline, weights)
    for part, found in enumerate(shares):
        middle = baseline + (part + 0.5) / N_PARTS * (row - baseline)
        change = step * np.diag(row - baseline)
        up, down = (view.apply(middle + sign * change) @ weights for sign in (1, -1))
        np.testing.assert_allclose(found, (up - down) / (2 * step) / N_PARTS, atol=1e-6)


@every_view
def test_shares_of_many_parts_add_up(recipe):
    view, row, baseline, weights = make_problem(recipe)
    ends = view.apply(np.stack([baseline, row])) @ weights
    shares = shares_of(view, row, baseline, weights, n_parts=200)
    assert shares.sum() == pytest.approx(ends[1] - ends[0], abs=2e-4)


@every_view
def test_a_feature_at_the_value_of_the_baseline_has_no_share(recipe):
    view, row, baseline, weights = make_problem(recipe)
    row[2] = baseline[2]
    shares = shares_of(view, row, baseline, weights).sum(axis=0)
    assert shares[2] == 0 and np.count_nonzero(shares) == 4


def test_rows_that_are_not_scaled_have_linear_shares():
    view, row, baseline, weights = make_problem("plain", normalize=False)
    shares = shares_of(view, row, baseline, weights)
    np.testing.assert_allclose(shares.sum(axis=0), weights * (row - baseline))


@pytest.mark.parametrize("size", [0.0, 0.5 * SHORT])
def test_from_a_short_baseline_the_norm_of_the_row_is_held_fixed(size):
    view, row, _, weights = make_problem("plain")
    baseline, norm = size * np.roll(row, 1), np.linalg.norm(row)
    path = Path(view, row, baseline, N_PARTS)
    np.testing.assert_allclose(path.mapped[[0, -1]], np.stack([baseline, row]) / norm)
    shares = shares_of(view, row, baseline, weights)
    np.testing.assert_allclose(shares.sum(axis=0), weights * (row - baseline) / norm)


@every_view
@pytest.mark.parametrize("factor", [0.0, 1e-6, 1e6, 1e200])
def test_rows_of_any_size_have_finite_shares_and_end_where_the_view_has_them(recipe, factor):
    view, row, baseline, weights = make_problem(recipe)
    if factor == 1e200 and recipe in RECIPES[-2:]:
        return  # transformers of others need not take such rows
    row = factor * row
    path = Path(view, row, baseline, N_PARTS)
    expected = view.apply(row[np.newaxis])[0]
    np.testing.assert_allclose(path.mapped[-1], expected, atol=1e-7)
    assert np.isfinite(shares_of(view, row, baseline, weights)).all()


def test_centred_views_know_the_mean_of_the_training_rows():
    rows = make_rows()
    mean = rows.X.mean(axis=0)
    for name in ("centred", "standardised + constant", "kernel of whitened + constant"):
        np.testing.assert_allclose(training_mean(make_views(name)[0].fit(rows)), mean)
    unit = training_mean(make_views("unit centred")[0].fit(rows))
    norms = np.linalg.norm(rows.X, axis=1)
    expected = (rows.X / norms[:, np.newaxis]).mean(axis=0) * np.sqrt(np.mean(norms**2))
    np.testing.assert_allclose(unit / np.linalg.norm(unit), expected / np.linalg.norm(expected))
    np.testing.assert_allclose(unit, mean, rtol=0.2)
    for view in (View(), View(constant=True)):
        assert training_mean(view.fit(rows)) is None
