"""The basis of a chain: a prior over the features becomes one of independent features."""

import numpy as np
import pytest
from scipy.linalg import block_diag

from dbdl import SmoothAtoms
from dbdl.learn.basis import SmoothBasis, settings_in
from dbdl.learn.chain import ChainSettings
from dbdl.missing.gaps import Gaps
from dbdl.model.atom_priors import DiagonalPrior
from dbdl.model.statistics import AtomSums
from dbdl.views import LabelledRows, view_named

NAMES = ("plain", "plain + constant", "standardised + constant", "unit scaled and whitened")
PRIOR = SmoothAtoms(2.0, nugget=0.01)


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = np.cumsum(rng.standard_normal((40, 7)), axis=1) * rng.gamma(2.0, 1.0, 7)
    return LabelledRows(X, np.arange(40) % 3, 3)


def covariance_of_atoms(view, precision):
    """Covariance of an atom in the space of a view, from its map column by column."""
    matrix = np.eye(7) if view.matrix is None else view.matrix
    linear = matrix @ np.diag(view.scale)
    mapped = linear @ PRIOR.covariance(7, 2.0) @ linear.T
    mapped *= 7 / (precision * np.trace(mapped))
    return block_diag(mapped, 1 / precision) if view.recipe.constant else mapped


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("atom_precision", [None, 3.0])
def test_in_the_basis_the_atoms_of_a_view_have_independent_features(rows, name, atom_precision):
    view = view_named(name).fit(rows)
    settings = ChainSettings(atom_prior=PRIOR, atom_precision=atom_precision)
    basis = SmoothBasis.of(view, settings, 2.0)
    expected = covariance_of_atoms(view, atom_precision or view.n_features)
    turn, variance = basis.turn, 1 / basis.precision
    np.testing.assert_allclose(turn @ turn.T, np.eye(view.n_features), atol=1e-12)
    np.testing.assert_allclose(turn.T @ np.diag(variance) @ turn, expected, atol=1e-10)
    norm_square = view.n_features / (atom_precision or view.n_features)
    assert variance.sum() == pytest.approx(norm_square)  # as with independent features


def test_the_posterior_is_that_of_the_process_in_the_space_of_the_rows(rows):
    rng = np.random.default_rng(1)
    view = view_named("plain").fit(rows)
    basis = SmoothBasis.of(view, ChainSettings(atom_prior=PRIOR), 2.0)
    codes, X = rng.standard_normal((40, 3)), view.apply(rows.X)
    turned = DiagonalPrior(basis.precision).posterior(
        AtomSums(codes.T @ codes, codes.T @ basis.apply(rows.X))
    )
    prior = np.linalg.inv(PRIOR.covariance(7, 2.0) / 7)
    joint = np.kron(codes.T @ codes, np.eye(7)) + np.kron(np.eye(3), prior)
    expected = np.linalg.solve(joint, (codes.T @ X).ravel()).reshape(3, 7)
    np.testing.assert_allclose(turned.mean() @ basis.turn, expected, rtol=1e-9)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_turned_rows_have_the_same_bits_alone_and_in_a_batch(rows, dtype):
    rows = rows._replace(X=rows.X.astype(dtype))
    view = view_named("whitened").fit(rows)
    basis = SmoothBasis.of(view, ChainSettings(atom_prior=PRIOR), 2.0)
    together = basis.apply(rows.X, n_threads=3)
    assert together.dtype == dtype
    assert basis.apply(rows.X[:0]).shape == (0, 7) and basis.apply(rows.X[:0]).dtype == dtype
    for i in (0, 17, 39):
        np.testing.assert_array_equal(basis.apply(rows.X[i : i + 1])[0], together[i])
    atol = 1e-5 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(basis.turn_back(together), view.apply(rows.X), atol=atol)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("factor", [1.0, 1e-3, 1e120])
def test_an_initial_atom_is_mapped_like_a_row_of_mean_size(rows, name, factor):
    size = np.sqrt((rows.X**2).sum() / 40)
    given = size * rows.X[:2] / np.linalg.norm(rows.X[:2], axis=1, keepdims=True)
    view = view_named(name).fit(rows)
    settings = settings_in(view, ChainSettings(initial_atoms=factor * given), rows)
    np.testing.assert_allclose(settings.initial_atoms, view.apply(given), atol=1e-9)


@pytest.mark.parametrize("name", ["plain", "plain + constant"])
def test_missing_entries_alone_change_in_the_basis(rows, name):
    rng = np.random.default_rng(3)
    missing = rng.random(rows.X.shape) < 0.3
    view = view_named(name).fit(rows)
    basis = SmoothBasis.of(view, ChainSettings(atom_prior=PRIOR), 2.0)
    turned = basis.apply(rows.X)
    gaps = Gaps(missing, None).seen_through(view, turned, basis.turn)
    moved, some = turned.copy(), np.flatnonzero(missing.any(axis=1))
    target = rng.standard_normal((len(some), 7))
    gaps._move(moved, some, target)
    change = ((moved - turned) @ basis.turn)[:, :7]
    np.testing.assert_allclose(change[~missing], 0.0, atol=1e-12)
    expected = (target @ basis.turn[:7, :7] - view.apply(rows.X)[some][:, :7])[missing[some]]
    np.testing.assert_allclose(change[some][missing[some]], expected, atol=1e-10)
