"""Missing entries of training rows have their conditional distribution, whatever the view."""

import numpy as np
import pytest
from scipy.stats import kstest

from dbdl.backends.numba_cpu import NumbaBackend
from dbdl.draws import make_key
from dbdl.missing.gaps import COMPLETE, DrawnGaps, Gaps
from dbdl.model.state import Codes, Parameters, State
from dbdl.views import LabelledRows, view_named

N_ROWS, N_FEATURES, N_ATOMS = 6, 4, 3
CLASS_OF_ROW = np.array([0, 1, 0, 1, 0, 1])
VIEWS = ("plain", "standardised + constant", "whitened + constant", "unit scaled and whitened")


def problem(name, seed=0):
    """A view, rows with gaps that were filled, and the state of a chain that has seen them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N_ROWS, N_FEATURES)) @ rng.normal(size=(N_FEATURES, N_FEATURES)) + 1.0
    missing = rng.random(X.shape) < 0.5
    missing[0], missing[1] = False, [True, False, True, True]
    view = view_named(name).fit(LabelledRows(X, CLASS_OF_ROW, 2))
    mapped = view.apply(X)
    codes = rng.normal(size=(N_ROWS, N_ATOMS)) * (rng.random((N_ROWS, N_ATOMS)) < 0.7)
    parameters = Parameters(
        atoms=rng.normal(size=(N_ATOMS, mapped.shape[1])),
        selection_logit=np.zeros((2, N_ATOMS)),
        strength_precision=np.ones(2),
        noise_precision=np.array([4.0, 25.0]),
        births=np.arange(N_ATOMS),
    )
    return view, X, missing, mapped, State(parameters, Codes.from_dense(codes), 0)


def gaps_in(missing):
    rows = LabelledRows(np.where(missing, np.nan, 1.0), CLASS_OF_ROW, 2)
    return Gaps.of(rows)


def draw(gaps, state, sweep, key=(1, 2)):
    backend = NumbaBackend()
    data = backend.place(np.ones((N_ROWS, N_FEATURES)), CLASS_OF_ROW)
    return gaps.draw(key, State(state.parameters, state.codes, sweep), data, backend).X


def sizes(view, X):
    """Scale of each row, by which its view multiplies, before and at the end."""
    before = np.full(N_ROWS, 2.0**-view.exponent)
    if view.recipe.unit:
        before = 1 / np.linalg.norm(X, axis=1)
    if not (view.recipe.is_learned or view.recipe.constant):
        before = np.ones(N_ROWS)
    rows = (X * before[:, None] - view.mean) * view.scale
    rows = rows if view.matrix is None else rows @ view.matrix
    square = (rows**2).sum(axis=1) + view.recipe.constant * view.size**2
    return before, 1 / np.sqrt(square)


def mapped_with(view, X, before, after):
    """The view of rows, with the scales of other rows."""
    rows = (X * before[:, None] - view.mean) * view.scale
    rows = rows if view.matrix is None else rows @ view.matrix
    if view.recipe.constant:
        rows = np.hstack([rows, np.full((N_ROWS, 1), view.size)])
    return rows * after[:, None]


def mean_and_precision(log_density, n, step):
    """Mean and precision of a Gaussian, by differences of its log density."""
    unit = step * np.eye(n)
    slope = np.array([log_density(u) - log_density(-u) for u in unit]) / (2 * step)
    curve = np.array(
        [[log_density(u + v) - log_density(u - v) for u in unit] for v in unit]
    ) - np.array([[log_density(v - u) - log_density(-u - v) for u in unit] for v in unit])
    precision = -curve / (4 * step**2)
    return np.linalg.solve(precision, slope), precision


@pytest.mark.parametrize("name", VIEWS)
def test_draws_are_those_of_the_joint_density(name):
    view, X, missing, mapped, state = problem(name)
    before, after = sizes(view, X)
    np.testing.assert_allclose(mapped_with(view, X, before, after), mapped, atol=1e-12)
    fit = state.codes.times(state.parameters.atoms)
    gaps = gaps_in(missing).seen_through(view, mapped)
    drawn = np.stack([draw(gaps, state, sweep) for sweep in range(400)])
    for i in np.flatnonzero(missing.any(axis=1)):
        own = np.flatnonzero(missing[i])
        noise = state.parameters.noise_precision[CLASS_OF_ROW[i]]

        def log_density(values, i=i, own=own, noise=noise):
            rows = X.copy()
            rows[i, own] = values
            return -0.5 * noise * ((mapped_with(view, rows, before, after)[i] - fit[i]) ** 2).sum()

        mean, precision = mean_and_precision(log_density, len(own), step=np.abs(X[i]).max())
        # the entries that were drawn, from the mapped rows
        way = drawn[:, i] - mapped_with(view, np.where(missing, 0.0, X), before, after)[i]
        one_more = [mapped_with(view, X + np.eye(N_FEATURES)[j], before, after)[i] for j in own]
        columns = np.stack(one_more) - mapped[i]
        values = np.linalg.lstsq(columns.T, way.T, rcond=None)[0].T
        np.testing.assert_allclose(values @ columns, way, atol=1e-8)  # observed entries stay
        white = (values - mean) @ np.linalg.cholesky(precision)
        assert kstest(white.ravel(), "norm").pvalue > 1e-3
        np.testing.assert_allclose(np.cov(white.T), np.eye(len(own)), atol=0.3)


def test_rows_without_gaps_stay():
    view, _, missing, mapped, state = problem("whitened + constant")
    gaps = gaps_in(missing).seen_through(view, mapped)
    np.testing.assert_array_equal(draw(gaps, state, 3)[0], mapped[0])
    assert gaps_in(np.zeros_like(missing)).seen_through(view, mapped) is COMPLETE


def test_a_draw_does_not_depend_on_the_values_in_the_gaps():
    view, X, missing, mapped, state = problem("standardised + constant")
    before, after = sizes(view, X)
    other = mapped_with(view, np.where(missing, X + 5.0, X), before, after)
    drawn = [draw(DrawnGaps(rows, missing, None), state, 2) for rows in (mapped, other)]
    np.testing.assert_allclose(*drawn, atol=1e-12)


def test_draws_are_addressed_by_row_feature_and_sweep():
    view, _, missing, mapped, state = problem("whitened + constant")
    gaps = gaps_in(missing).seen_through(view, mapped)
    fewer = missing.copy()
    fewer[2:] = False
    one, some = draw(gaps, state, 5), draw(gaps_in(fewer).seen_through(view, mapped), state, 5)
    np.testing.assert_array_equal(one[:2], some[:2])
    assert not np.allclose(one[1], draw(gaps, state, 6)[1])
    assert not np.allclose(one[1], draw(gaps, state, 5, make_key(3))[1])
