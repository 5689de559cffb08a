"""Draws, intervals, diagnostics and ArviZ, as an estimator offers them."""

from __future__ import annotations

import sys
import warnings
from copy import copy
from dataclasses import replace

import numpy as np
import pytest
from cones import make_cones
from sklearn.exceptions import NotFittedError

from dbdl import BetaProcessDictionary, DBDLClassifier, ModelSettings
from dbdl.learn.link import bent
from dbdl.persistence import load, save
from dbdl.views import AUTOMATIC

QUICK = {"n_sweeps": 12, "n_chains": 2, "random_state": 0}
ATOMS = {"n_draws": 3, "model": ModelSettings(keep_atom_draws=True)}


def quiet_interval(model, level=0.9):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.selection_interval(level)


@pytest.fixture(scope="module")
def fitted():
    return DBDLClassifier(**QUICK, **ATOMS).fit(*make_cones())


@pytest.mark.parametrize("classifier", ["ridge", "recoded", "gibbs", "joint"])
def test_draws_are_near_the_published_atoms_times_their_norms(classifier):
    model = DBDLClassifier(classifier=classifier, **QUICK, **ATOMS).fit(*make_cones())
    for chain in model.chains_:
        draws = chain.draws
        assert draws.atoms.shape == (3, *chain.atoms.shape) and draws.atoms.dtype == np.float32
        assert draws.selection_probability.shape == (3, *chain.selection_probability.shape)
        atoms = draws.atoms / draws.scale[:, np.newaxis]
        size = np.linalg.norm(atoms, axis=2)
        cosine = np.einsum("dkf,kf->dk", atoms, chain.atoms) / size
        assert 0.9 < np.median(size) < 1.1 and np.median(cosine) > 0.95


@pytest.mark.parametrize("kind", [DBDLClassifier, BetaProcessDictionary])
def test_intervals_have_the_shape_of_the_probabilities_and_grow_with_their_level(kind):
    settings = {**QUICK, "n_draws": 6}
    if kind is BetaProcessDictionary:
        del settings["n_chains"]
    model = kind(**settings).fit(*make_cones())
    (low, high), (inner_low, inner_high) = quiet_interval(model), quiet_interval(model, 0.5)
    assert low.shape == high.shape == model.selection_probability_.shape
    assert (low <= inner_low).all() and (inner_low <= inner_high).all()
    assert (inner_high <= high).all() and low.min() >= 0 and high.max() <= 1
    used = model.selection_probability_ > 0.05
    assert (high[used] > low[used]).all()


def test_intervals_of_chains_that_have_not_converged_come_with_a_warning(fitted):
    with pytest.warns(UserWarning, match="not converged: they have too few sweeps"):
        fitted.selection_interval()
    for n_sweeps, figures in (
        (20, r"R-hat is \d+\.\d+\. The"),
        (32, r"R-hat is \d.*sample size \d"),
    ):
        longer = DBDLClassifier(**{**QUICK, "n_sweeps": n_sweeps}, n_draws=3).fit(*make_cones())
        with pytest.warns(UserWarning, match=figures):
            longer.selection_interval()


@pytest.mark.parametrize("level", [0, 1, -0.1, "x", None])
def test_levels_are_checked(fitted, level):
    with pytest.raises((ValueError, TypeError), match="level"):
        fitted.selection_interval(level)


def test_posterior_probabilities_are_means_over_draws_near_those_of_the_mean_atoms(fitted):
    X, _ = make_cones(seed=0, n_rows=8)
    found, plain = fitted.posterior_proba(X), fitted.predict_proba(X)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert 0 < np.abs(found - plain).max() < 0.3
    by_hand = np.zeros_like(plain)
    for d in range(3):
        scores = sum(
            m.weight * (m.encode(X, fitted._backend()) @ m.label_atoms)
            for m in (chain.drawn(d) for chain in fitted.chains_)
        )
        scores = bent(scores, fitted.bend_)
        odds = np.exp((scores - scores.max(axis=1, keepdims=True)) / fitted.temperature_)
        by_hand += odds / odds.sum(axis=1, keepdims=True) / 3
    np.testing.assert_allclose(found, by_hand)


def test_draws_that_are_twice_the_published_atoms_count_half(fitted):
    def twice(chain):
        atoms = 2 * chain.draws.scale[:, np.newaxis] * chain.atoms
        return replace(chain, draws=replace(chain.draws, atoms=np.stack([atoms] * 3)))

    X, _ = make_cones(seed=0, n_rows=8)
    doubled, halved = copy(fitted), copy(fitted)
    doubled._stack([twice(chain) for chain in fitted.chains_])
    halved._stack([replace(c, label_atoms=c.label_atoms / 2) for c in fitted.chains_])
    np.testing.assert_allclose(doubled.posterior_proba(X), halved.predict_proba(X), atol=1e-6)


def test_questions_without_draws_say_how_to_keep_them():
    model = DBDLClassifier(**QUICK).fit(*make_cones())
    assert all(chain.draws is None for chain in model.chains_)
    for ask in (model.selection_interval, lambda: model.posterior_proba(make_cones()[0])):
        with pytest.raises(ValueError, match="n_draws=20"):
            ask()
    model = DBDLClassifier(n_draws=2, **QUICK).fit(*make_cones())
    with pytest.raises(ValueError, match="keep_atom_draws"):
        model.posterior_proba(make_cones()[0])


@pytest.mark.parametrize("kind", [DBDLClassifier, BetaProcessDictionary])
def test_batches_refuse_to_keep_draws(kind):
    with pytest.raises(ValueError, match="partial_fit with n_draws=3"):
        kind(n_draws=3).partial_fit(*make_cones())


def test_draws_are_saved_with_the_model(fitted, tmp_path):
    again = load(save(fitted, tmp_path / "model.skops"))
    X, _ = make_cones()
    np.testing.assert_array_equal(again.posterior_proba(X), fitted.posterior_proba(X))
    np.testing.assert_array_equal(quiet_interval(again), quiet_interval(fitted))


def test_a_resumed_fit_has_the_draws_of_an_uninterrupted_one(tmp_path):
    settings = {**QUICK, **ATOMS, "warm_start": True}
    model = DBDLClassifier(checkpoint=tmp_path, **{**settings, "n_sweeps": 7}).fit(*make_cones())
    model.set_params(n_sweeps=12).fit(*make_cones())
    whole = DBDLClassifier(**QUICK, **ATOMS).fit(*make_cones())
    from_disk = DBDLClassifier(checkpoint=tmp_path, **settings).fit(*make_cones())
    for other in (model, from_disk):
        for chain, expected in zip(other.chains_, whole.chains_, strict=True):
            np.testing.assert_array_equal(chain.draws.sweep, expected.draws.sweep)
            np.testing.assert_array_equal(chain.draws.atoms, expected.draws.atoms)


def test_the_number_of_threads_does_not_change_draws(fitted):
    other = DBDLClassifier(n_jobs=2, **QUICK, **ATOMS).fit(*make_cones())
    for one, two in zip(fitted.chains_, other.chains_, strict=True):
        np.testing.assert_array_equal(one.draws.atoms, two.draws.atoms)


@pytest.mark.parametrize("name", ["diagnostics_", "atoms_", "components_"])
def test_before_fit_there_are_neither_diagnostics_nor_atoms(name):
    assert not hasattr(DBDLClassifier(), name)
    with pytest.raises(NotFittedError, match=r"DBDLClassifier has no \w+_ before fit"):
        getattr(DBDLClassifier(), name)


def test_diagnostics_are_given_view_by_view():
    model = DBDLClassifier(n_chains=len(AUTOMATIC), n_sweeps=16, random_state=0).fit(*make_cones())
    lines = model.diagnostics_.lines
    assert {line.view for line in lines} == {chain.view.name for chain in model.chains_}
    assert all((line.n_chains, line.n_sweeps) == (1, 8) for line in lines)
    one = BetaProcessDictionary(n_sweeps=16, random_state=0).fit(make_cones()[0])
    assert len(one.diagnostics_.lines) == 7


def test_arviz_gets_the_traced_scalars_of_one_view():
    pytest.importorskip("arviz_base")
    model = DBDLClassifier(views="plain", **QUICK).fit(*make_cones())
    data = model.to_arviz()
    assert set(data.posterior.data_vars) == {"noise_precision", "strength_precision"}
    assert "lp" in data.sample_stats and not any("atoms_" in name for name in data.posterior)
    np.testing.assert_array_equal(
        data.posterior.noise_precision.values, model.trace_.noise_precision[:, 6:]
    )
    several = DBDLClassifier(views=["plain", "centred"], **QUICK).fit(*make_cones())
    with pytest.raises(ValueError, match=r"views \['plain', 'centred'\]"):
        several.to_arviz()
    assert several.to_arviz("centred").posterior.sizes["chain"] == 1


def test_without_arviz_an_error_says_what_to_install(fitted, monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz_base", None)
    with pytest.raises(ImportError, match="pip install arviz-base"):
        fitted.to_arviz()
