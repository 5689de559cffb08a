"""Rows with missing values: learned from, predicted, filled; or refused with a reason."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.utils import get_tags

from dbdl import BetaProcessDictionary, DBDLClassifier, ModelSettings, open_rows
from dbdl.backends.crew import Crew
from dbdl.coding import Forward
from dbdl.learn import members
from dbdl.learn.chain import ChainSettings
from dbdl.learn.journal import Journal
from dbdl.learn.members import learn_members
from dbdl.learn.problem import LabelSettings, Problem
from dbdl.missing.filler import fit_filler, has_gaps
from dbdl.persistence import load, save
from dbdl.views import view_named

VIEWS = ["plain", "unit half-whitened + constant", "standardised + constant"]


def digits(share=0.3, dtype=np.float64, n_rows=240):
    X, y = load_digits(return_X_y=True)
    X, y = X[:, X.std(axis=0) > 1.0][:n_rows].astype(dtype), y[:n_rows]
    return np.where(np.random.default_rng(0).random(X.shape) < share, np.array(np.nan, dtype), X), y


def classifier(**parameters):
    settings = {"n_chains": 3, "views": VIEWS, "n_sweeps": 4, "coder": Forward(8)}
    return DBDLClassifier(**{**settings, "random_state": 0, **parameters})


@pytest.mark.parametrize("kind", ["ridge", "recoded", "gibbs", "joint"])
def test_rows_with_gaps_are_classified(kind):
    X, y = digits()
    model = classifier(classifier=kind).fit(X[:180], y[:180])
    assert model.score(X[180:], y[180:]) > 0.75


def test_a_model_of_whole_rows_learns_to_fill_once_and_again_after_a_fit(monkeypatch, tmp_path):
    X, y = digits()
    whole, calls = np.nan_to_num(X), []
    monkeypatch.setattr(members, "fit_filler", lambda rows: calls.append(1) or fit_filler(rows))
    model = classifier().fit(whole[:180], y[:180])
    scores = [model.decision_function(X[180:]) for _ in range(3)]
    assert len(calls) == 1
    np.testing.assert_array_equal(scores[0], scores[2])
    copied = load(save(model, tmp_path / "model.skops"))
    assert "_fill_like_atoms" not in vars(copied)
    np.testing.assert_array_equal(copied.decision_function(X[180:]), scores[0])
    model.fit(whole[:120], y[:120])
    fresh = classifier().fit(whole[:120], y[:120])
    for one in (model, fresh):
        one.predict(X[180:])
    assert len(calls) == 4
    expected = fresh.decision_function(X[180:])
    np.testing.assert_array_equal(model.decision_function(X[180:]), expected)


@pytest.mark.bits
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bits_depend_neither_on_threads_nor_on_other_rows(dtype):
    X, y = digits(dtype=dtype)
    model = classifier().fit(X[:180], y[:180])
    scores = model.decision_function(X[180:])
    other = classifier(n_jobs=2).fit(X[:180], y[:180])
    np.testing.assert_array_equal(other.decision_function(X[180:]), scores)
    for i in (0, 31, 59):
        np.testing.assert_array_equal(model.decision_function(X[180 + i : 181 + i])[0], scores[i])


def test_missing_entries_are_drawn_in_every_sweep(monkeypatch):
    X, y = digits()
    drawn = classifier(n_chains=1).fit(X, y)
    monkeypatch.setattr("dbdl.missing.gaps.Gaps.seen_through", lambda self, *_: self)
    assert not np.array_equal(classifier(n_chains=1).fit(X, y).atoms_, drawn.atoms_)


def test_a_model_of_complete_rows_fills_gaps_too():
    X, y = digits()
    whole, _ = digits(share=0.0)
    model = classifier().fit(whole[:180], y[:180])
    assert not hasattr(model, "filler_")
    assert model.score(X[180:], y[180:]) > 0.75
    plain = classifier(views="plain").fit(whole[:180], y[:180])
    assert plain.score(X[180:], y[180:]) > 0.7


def test_complete_rows_forget_how_earlier_rows_were_filled():
    X, y = digits()
    model = classifier(n_chains=1).fit(X, y)
    assert hasattr(model, "filler_")
    whole = model.filler_.fill(X)
    again = model.fit(whole, y)
    assert not hasattr(again, "filler_")
    np.testing.assert_array_equal(again.atoms_, classifier(n_chains=1).fit(whole, y).atoms_)


def test_labels_of_rows_left_out_do_not_fill_them():
    X, y = digits(n_rows=120)
    settings = ChainSettings(n_sweeps=2)
    problem = Problem(
        X, y.astype(np.int64), 10, settings, LabelSettings(), 1,
        views=(view_named("whitened + constant"),),
    )  # fmt: skip
    fold = problem.shares()[0].fold
    other = y.astype(np.int64).copy()
    other[fold.held_out] = 9 - other[fold.held_out]

    def scores(class_of_row, monkey):
        problem_of = Problem(
            X, class_of_row, 10, settings, LabelSettings(), 1,
            views=(view_named("whitened + constant"),),
        )  # fmt: skip
        monkey.setattr(Problem, "_folds", lambda self: [fold])
        shares = problem_of.shares()
        return learn_members(problem_of, shares, [Forward(5)], Crew(), Journal())[0].scores[0]

    with pytest.MonkeyPatch.context() as monkey:
        first, second = scores(problem.class_of_row, monkey), scores(other, monkey)
    assert len(first) and np.array_equal(first, second)


def test_a_dictionary_fills_pictures():
    X, _ = digits(share=0.25, n_rows=400)
    whole, _ = digits(share=0.0, n_rows=400)
    model = BetaProcessDictionary(n_sweeps=5, n_nonzero=8, random_state=0).fit(X)
    back, gaps = model.inverse_transform(model.transform(X)), np.isnan(X)
    size = np.linalg.norm(model.filler_.fill(X), axis=1) / np.linalg.norm(back, axis=1)
    error = (back * size[:, None] - whole)[gaps]  # the plain view does not know sizes
    by_means = (np.nanmean(X, axis=0) - whole)[gaps]
    assert (error**2).mean() < 0.7 * (by_means**2).mean()


def test_restored_rows_have_the_size_of_rows():
    # pixels that hardly vary too, which views that divide by standard deviations make large
    whole, y = load_digits(return_X_y=True)
    X = np.where(np.random.default_rng(0).random(whole.shape) < 1 / 3, np.nan, whole)[:400]
    views = ["scaled and half-whitened + constant", "standardised + constant"]
    model = classifier(views=views, n_chains=2).fit(X[:200], y[:200])
    back = model.inverse_transform(model.transform(X[200:]))
    far = (back < -16) | (back > 32)  # pixels have 0 to 16
    assert far.any(axis=1).mean() < 0.02
    assert np.sqrt(((back - whole[200:400]) ** 2).mean()) < 5


def test_a_resumed_fit_draws_the_same_entries():
    X, y = digits()
    whole = classifier(n_sweeps=6).fit(X, y)
    resumed = classifier(n_sweeps=3, warm_start=True).fit(X, y).set_params(n_sweeps=6).fit(X, y)
    np.testing.assert_array_equal(resumed.atoms_, whole.atoms_)
    np.testing.assert_array_equal(resumed.label_atoms_, whole.label_atoms_)


def test_gaps_count_as_other_data_for_a_checkpoint(tmp_path):
    X, y = digits(n_rows=60)
    model = classifier(n_chains=1, checkpoint=tmp_path / "fit").fit(X, y)
    with pytest.raises(ValueError, match="other data"):
        model.fit(model.filler_.fill(X), y)


def test_weights_and_every_way_to_ask_take_gaps():
    X, y = digits()
    weights = 1.0 + np.arange(180) % 3
    settings = ModelSettings(keep_atom_draws=True)
    model = classifier(n_draws=2, model=settings).fit(X[:180], y[:180], sample_weight=weights)
    assert model.score(X[180:], y[180:]) > 0.7
    assert np.isfinite(model.score_samples(X[180:])).all()
    np.testing.assert_allclose(model.posterior_proba(X[180:]).sum(axis=-1), 1.0)


def test_a_saved_model_fills_the_same(tmp_path):
    X, y = digits()
    model = classifier(n_chains=1).fit(X, y)
    again = load(save(model, tmp_path / "model.skops"))
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))


def test_a_damaged_filler_is_refused(tmp_path):
    X, y = digits()
    model = classifier(n_chains=1).fit(X, y)
    object.__setattr__(model.filler_, "precision", -model.filler_.precision)
    path = save(model, tmp_path / "model.skops")
    with pytest.raises(Exception, match="precision is not positive definite"):
        load(path)


@pytest.mark.parametrize("first", ["complete", "with gaps"])
def test_batches_may_have_gaps(first):
    X, y = digits()
    batch = X[:120] if first == "with gaps" else digits(share=0.0)[0][:120]
    model = classifier(n_chains=1).partial_fit(batch, y[:120])
    model.partial_fit(X[120:180], y[120:180])
    assert model.score(X[180:], y[180:]) > 0.6
    dictionary = BetaProcessDictionary(n_sweeps=3, random_state=0)
    dictionary.partial_fit(batch).partial_fit(X[120:])
    assert np.isfinite(dictionary.transform(X).data).all()


def test_a_transformer_sees_filled_rows():
    X, y = digits()
    model = classifier(views=PCA(20)).fit(X[:180], y[:180])
    assert model.score(X[180:], y[180:]) > 0.7


def test_views_are_guarded_on_filled_rows():
    X, y = digits(n_rows=600)
    assert classifier(views="auto", n_sweeps=1, n_chains=2).fit(X, y).score(X, y) > 0.8


def test_tags_allow_gaps():
    assert get_tags(DBDLClassifier()).input_tags.allow_nan
    assert get_tags(BetaProcessDictionary()).input_tags.allow_nan


def test_values_that_cannot_be_filled_are_refused():
    X, y = digits(n_rows=60)
    infinite = X.copy()
    infinite[3, 4] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        classifier().fit(infinite, y)
    with pytest.raises(ValueError, match="infinity"):
        classifier(n_chains=1).fit(X, y).predict(infinite)
    with pytest.raises(ValueError, match="missing label"):
        classifier().fit(X, np.where(np.arange(60) == 5, np.nan, y))
    empty = X.copy()
    empty[:, 7] = np.nan
    for model in (classifier(), BetaProcessDictionary()):
        with pytest.raises(ValueError, match=r"feature 7 of X is missing .* in every row"):
            model.fit(empty, y)
        with pytest.raises(ValueError, match="feature 7"):
            model.partial_fit(empty, y)


def test_a_row_without_values_and_a_feature_without_values_in_a_class_are_fine():
    X, y = digits(n_rows=120)
    X[5], X[y == 3, 2] = np.nan, np.nan
    model = classifier(n_chains=2).fit(X, y)
    assert np.isfinite(model.decision_function(np.full((1, X.shape[1]), np.nan))).all()


def test_rows_that_are_zero_where_they_are_known_are_refused():
    X, y = digits(n_rows=60)
    with pytest.raises(ValueError, match="every row of X is zero"):
        classifier().fit(0.0 * X, y)


def test_rows_read_in_parts_are_predicted_but_not_learned(tmp_path):
    X, y = digits(n_rows=120)
    np.save(tmp_path / "rows.npy", X)
    lazy, _ = open_rows(tmp_path / "rows.npy")
    with pytest.raises(ValueError, match="rows in memory"):
        classifier().fit(lazy, y)
    model = classifier(n_chains=1).fit(X, y)
    np.testing.assert_array_equal(model.predict(lazy), model.predict(X))
    assert has_gaps(X)
