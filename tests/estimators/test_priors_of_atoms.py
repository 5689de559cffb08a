"""Smooth atoms and initial atoms of the user's own."""

from collections import Counter

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator

from benchmarks.kill import bits_of
from dbdl import (
    BetaProcessDictionary,
    CheckpointError,
    DBDLClassifier,
    ModelSettings,
    SmoothAtoms,
    open_rows,
)
from dbdl.coding import Forward
from dbdl.persistence import load, save

N_FEATURES = 30
QUICK = {"n_sweeps": 5, "n_chains": 2, "coder": Forward(3), "random_state": 0}
SMOOTH = ModelSettings(atom_prior=SmoothAtoms(3.0))


def make_spectra(n_rows=20, noise=0.05, seed=0):
    """Rows of three classes, each with one broad peak of its own and one that all share."""
    rng = np.random.default_rng(seed)
    band, y = np.linspace(0, 1, N_FEATURES), np.tile(np.arange(3), n_rows)
    centre = np.array([0.3, 0.5, 0.7])[y, np.newaxis] + 0.03 * rng.standard_normal((len(y), 1))
    X = np.exp(-((band - centre) ** 2) / 0.02) + rng.random((len(y), 1)) * np.exp(-band / 0.5)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X + noise * rng.standard_normal(X.shape), y


X, Y = make_spectra()


def make(**settings):
    return DBDLClassifier(**{**QUICK, "model": SMOOTH, "views": "plain", **settings})


def roughness(atoms):
    """Mean squared second difference of atoms of unit norm."""
    atoms = atoms / np.linalg.norm(atoms, axis=1, keepdims=True)
    return (np.diff(atoms, n=2, axis=1) ** 2).sum(axis=1).mean()


# ------------------------------------------------------------------------------------ smooth atoms


@pytest.mark.parametrize("classifier", ["ridge", "recoded", "gibbs", "joint"])
@pytest.mark.parametrize("views", ["plain", "plain + constant"])
def test_a_kernel_without_correlations_is_the_default_prior(classifier, views):
    white = ModelSettings(atom_prior=SmoothAtoms(1e-3))
    one = make(model=white, classifier=classifier, views=views).fit(X, Y)
    other = make(model=None, classifier=classifier, views=views).fit(X, Y)
    np.testing.assert_allclose(one.atoms_, other.atoms_, atol=1e-7)
    np.testing.assert_allclose(one.label_atoms_, other.label_atoms_, atol=1e-6)


@pytest.mark.parametrize("classifier", ["ridge", "recoded", "gibbs", "joint"])
@pytest.mark.parametrize("views", ["plain", ["plain", "unit whitened + constant"]])
def test_atoms_of_noisy_spectra_are_smoother_and_no_less_accurate(classifier, views):
    X_new, y_new = make_spectra(100, seed=1)
    rough = make(model=None, classifier=classifier, views=views, n_sweeps=15).fit(X, Y)
    smooth = make(classifier=classifier, views=views, n_sweeps=15).fit(X, Y)
    assert roughness(smooth.atoms_) < 0.6 * roughness(rough.atoms_)
    assert smooth.score(X_new, y_new) >= rough.score(X_new, y_new) - 0.01


def with_gaps():
    rows = X.copy()
    rows[::4, 5:9] = np.nan
    return rows


@pytest.mark.parametrize("views", ["plain + constant", "unit whitened + constant"])
def test_missing_values_are_drawn_in_the_basis_of_smooth_atoms_too(views):
    rows, settings = with_gaps(), {"views": views, "n_sweeps": 15}
    smooth, rough = make(**settings).fit(rows, Y), make(model=None, **settings).fit(rows, Y)
    assert roughness(smooth.atoms_) < 0.6 * roughness(rough.atoms_)
    assert smooth.score(X, Y) >= rough.score(X, Y) - 0.02
    white = ModelSettings(atom_prior=SmoothAtoms(1e-3))
    if views == "plain + constant":
        same = make(model=white, **settings).fit(rows, Y)
        np.testing.assert_allclose(same.atoms_, rough.atoms_, atol=1e-6)


def test_kept_draws_of_smooth_atoms_are_in_the_space_of_the_view():
    model = ModelSettings(atom_prior=SmoothAtoms(3.0), keep_atom_draws=True)
    chain = make(model=model, n_draws=4, n_sweeps=12).fit(X, Y).chains_[0]
    drawn, mean = chain.drawn(-1).atoms, chain.atoms
    assert (drawn * mean).sum(axis=1).min() > 0.9  # the mean of draws like these


def test_chains_take_length_scales_in_turn():
    settings = ModelSettings(atom_prior=SmoothAtoms([1e-3, 6.0]))
    chains = make(model=settings, n_chains=4).fit(X, Y).chains_
    rough = [roughness(chain.atoms) for chain in chains]
    assert max(rough[1::2]) < 0.6 * min(rough[0::2])
    every = DBDLClassifier(model=settings, views=["plain", "centred"], n_sweeps=1)
    n_chains = Counter(chain.view.name for chain in every.fit(X, Y).chains_)
    assert set(n_chains.values()) <= {6, 12}  # six of each length scale that earns a weight


def test_places_of_features_decide_which_are_neighbours():
    order = np.random.default_rng(0).permutation(N_FEATURES)
    turned = ModelSettings(atom_prior=SmoothAtoms(3.0, coordinates=order))
    rough = roughness(make(model=turned).fit(X[:, order], Y).atoms_[:, np.argsort(order)])
    assert rough < 0.6 * roughness(make(model=None).fit(X, Y).atoms_)


@pytest.mark.bits
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_smooth_atoms_have_the_same_bits_for_any_threads_and_for_rows_in_a_file(tmp_path, dtype):
    settings = {"views": ["plain", "unit whitened + constant"], "initial_atoms": X[:9]}
    rows = X.astype(dtype)
    expected = bits_of(make(**settings).fit(rows, Y))
    assert bits_of(make(**settings, n_jobs=3).fit(rows, Y)) == expected
    np.save(tmp_path / "rows.npy", rows)
    lazy, _ = open_rows(tmp_path / "rows.npy")
    assert bits_of(make(**settings).fit(lazy, Y)) == expected


@pytest.mark.bits
def test_smooth_atoms_have_the_same_bits_on_a_cluster():
    array = pytest.importorskip("dask.array")
    settings = {"views": ["plain", "unit whitened + constant"], "initial_atoms": X[:9]}
    rows = array.from_array(X, chunks=(17, N_FEATURES))
    assert bits_of(make(**settings).fit(rows, Y)) == bits_of(make(**settings).fit(X, Y))


def test_a_model_file_keeps_the_prior_and_the_predictions(tmp_path):
    model = make(initial_atoms=X[:9]).fit(X, Y)
    loaded = load(save(model, tmp_path / "model.skops"))
    assert loaded.model.atom_prior == SMOOTH.atom_prior
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert bits_of(loaded.fit(X, Y)) == bits_of(model)


@pytest.mark.bits
def test_a_fit_with_smooth_atoms_is_resumed_and_other_priors_are_refused(tmp_path):
    settings = {"initial_atoms": X[:9], "views": "unit whitened + constant"}
    expected = bits_of(make(**settings, n_sweeps=8).fit(X, Y))
    kept = {"checkpoint": tmp_path / "kept", "warm_start": True}
    make(**settings, **kept).fit(X, Y)
    resumed = make(**settings, **kept, n_sweeps=8).fit(X, Y)
    assert bits_of(resumed) == expected
    for other, name in (
        ({"model": ModelSettings(atom_prior=SmoothAtoms(4.0))}, "model__atom_prior"),
        ({"model": None}, "model__atom_prior"),
        ({"initial_atoms": X[1:10]}, "initial_atoms"),
    ):
        with pytest.raises(CheckpointError, match=name):
            make(**{**settings, **kept, "n_sweeps": 8, **other}).fit(X, Y)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"views": ["plain", PCA(3)]}, r"view 'PCA.*views by name"),
        ({"views": "kernel of plain"}, r"view 'kernel of plain'.*no coordinates"),
        ({"model": ModelSettings(atom_prior=SmoothAtoms(1, coordinates=[1, 2]))}, "of 2 features"),
        ({"model": ModelSettings(atom_prior=SmoothAtoms([1, 2, 3]))}, "one chain per length scale"),
        ({"model": ModelSettings(atom_prior="matern")}, "atom_prior"),
    ],
)
def test_what_smooth_atoms_do_not_go_with_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        make(**settings).fit(X, Y)


def test_smooth_atoms_are_not_for_batches_or_for_too_many_features():
    with pytest.raises(ValueError, match="partial_fit with atom_prior"):
        make().partial_fit(X, Y)
    with pytest.raises(ValueError, match="partial_fit with atom_prior"):
        BetaProcessDictionary(model=SMOOTH).partial_fit(X)
    with pytest.raises(ValueError, match="at most 4096"):
        make().fit(np.random.default_rng(0).random((6, 4097)), np.arange(6) % 2)


def test_a_dictionary_without_labels_has_smooth_atoms_too():
    quick = {"n_sweeps": 5, "random_state": 0}
    smooth = BetaProcessDictionary(model=SMOOTH, **quick).fit(X)
    assert roughness(smooth.atoms_) < 0.6 * roughness(BetaProcessDictionary(**quick).fit(X).atoms_)
    several = ModelSettings(atom_prior=SmoothAtoms([1, 2]))
    with pytest.raises(ValueError, match="one chain per length scale"):
        BetaProcessDictionary(model=several).fit(X)


# ---------------------------------------------------------------------------------- initial atoms


def test_given_rows_start_a_chain_like_drawn_ones():
    """All rows, given or drawn, are the same start; only their sizes differ."""
    settings = {"calibrate": False, "n_chains": 1, "model": None, "normalize": False}
    rows = X / np.linalg.norm(X, axis=1, keepdims=True)
    drawn = make(**settings, n_initial_atoms=len(X)).fit(rows, Y)
    given = make(**settings, initial_atoms=3 * rows).fit(rows, Y)
    np.testing.assert_allclose(given.atoms_, drawn.atoms_, atol=1e-9)


@pytest.mark.parametrize("views", ["plain", "unit whitened + constant", PCA(5)])
def test_chains_start_from_given_atoms_alone_or_with_rows(views):
    model = make(model=None, views=views, n_chains=3)
    alone = model.set_params(initial_atoms=X[:9]).fit(X, Y)
    assert [chain.n_initial_atoms for chain in alone.chains_] == [9] * 3
    mixed = model.set_params(n_initial_atoms=30).fit(X, Y)
    assert [chain.n_initial_atoms for chain in mixed.chains_] == [30] * 3


@pytest.mark.parametrize("wrap", [lambda model: model, FrozenEstimator], ids=["itself", "frozen"])
def test_a_fitted_estimator_gives_its_atoms(wrap):
    first = BetaProcessDictionary(n_initial_atoms=12, n_sweeps=3, random_state=0).fit(X)
    one = make(initial_atoms=wrap(first)).fit(X, Y)
    assert bits_of(one) == bits_of(make(initial_atoms=first.atoms_).fit(X, Y))


def test_copies_of_an_estimator_forget_and_arrays_stay():
    first = BetaProcessDictionary(n_initial_atoms=12, n_sweeps=3, random_state=0).fit(X)
    with pytest.raises(ValueError, match=r"initial_atoms is not fitted: .* Pass its atoms_"):
        clone(make(initial_atoms=first)).fit(X, Y)
    for kept in (FrozenEstimator(first), first.atoms_):
        clone(make(initial_atoms=kept)).fit(X, Y)


def test_the_first_batch_starts_from_given_atoms():
    settings = {"initial_atoms": X[:9], "model": None, "calibrate": False}
    first = make(**settings).partial_fit(X[:30], Y[:30])
    assert bits_of(first) == bits_of(make(**settings).fit(X[:30], Y[:30]))
    first.partial_fit(X[30:], Y[30:])
    assert first.score(X, Y) > 0.9


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"initial_atoms": X[:5, :7]}, "7 features, but X has 30"),
        ({"initial_atoms": X[0]}, "Expected 2D array"),
        ({"initial_atoms": np.full((3, N_FEATURES), np.nan)}, "initial_atoms contains NaN"),
        ({"initial_atoms": [["a", "b"]]}, "initial_atoms"),
        ({"initial_atoms": X[:1]}, "at least 2 atoms"),
        ({"initial_atoms": np.vstack([X[:3], 0 * X[:1]])}, "row 3 of initial_atoms is zero"),
        ({"initial_atoms": X[:9], "n_initial_atoms": 8}, "n_initial_atoms=8"),
        ({"initial_atoms": X[:9], "n_initial_atoms": "auto"}, "n_initial_atoms='auto'"),
        ({"initial_atoms": BetaProcessDictionary()}, "initial_atoms is not fitted"),
        ({"initial_atoms": PCA(2).fit(X)}, "PCA.* has no atoms_"),
        ({"initial_atoms": "rows"}, "initial_atoms"),
    ],
)
def test_initial_atoms_that_do_not_fit_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        make(**settings).fit(X, Y)
