"""Claims about the views of DBDLClassifier: every one, by every way to ask for it."""

from __future__ import annotations

import pickle
from collections import Counter
from functools import cache

import numpy as np
import pytest
from cones import make_cones
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

import dbdl
from dbdl import DBDLClassifier, ModelSettings
from dbdl.coding import Forward
from dbdl.learn.ensemble import LEAST_WEIGHT
from dbdl.views import (
    AUTOMATIC,
    AUTOMATIC_LINEAR,
    MORE_FOR_FEW_ROWS,
    VIEWS,
    View,
    view_named,
)

NAMES = sorted(
    {*VIEWS, *AUTOMATIC, *(f"unit {name}" for name in VIEWS), *(f"{n} + constant" for n in VIEWS)}
)
QUICK = {"n_sweeps": 3, "n_chains": 2, "coder": Forward(4), "random_state": 0}
ALL_VIEWS = {**QUICK, "views": AUTOMATIC_LINEAR, "n_chains": len(AUTOMATIC_LINEAR)}


@cache
def cones():
    return make_cones()


@cache
def new_cones():
    return [part[60:] for part in make_cones(n_rows=120)]


every_view = pytest.mark.parametrize("name", NAMES)
dtypes = pytest.mark.parametrize("dtype", [np.float64, np.float32])


def fit(views="auto", rows=None, labels=None, **settings):
    X, Y = cones()
    rows, labels = X if rows is None else rows, Y if labels is None else labels
    return DBDLClassifier(**{**QUICK, "views": views, **settings}).fit(rows, labels)


def linear(view):
    """The view in which a kernel view compares rows, or a linear view itself."""
    return getattr(view, "inner", view)


# ------------------------------------------------------------------------ every view


@every_view
@dtypes
def test_every_view_has_atoms_in_the_space_of_the_rows(name, dtype):
    X, _ = cones()
    model = fit(name, X.astype(dtype))
    assert model.atoms_.shape == (model.n_atoms_, model.n_features_in_) == (model.n_atoms_, 12)
    assert model.atoms_.dtype == dtype and np.isfinite(model.atoms_).all()
    for chain in model.chains_:
        assert chain.view.recipe == view_named(name)
        assert chain.atoms.shape[1] == chain.view.n_features
        norm = np.linalg.norm(chain.atoms.astype(np.float64), axis=1)
        np.testing.assert_allclose(norm, 1, rtol=16 * np.finfo(dtype).eps)


@every_view
@dtypes
def test_with_every_view_codes_times_label_atoms_are_the_scores(name, dtype):
    X, _ = cones()
    X_NEW, Y_NEW = new_cones()
    model = fit(name, X.astype(dtype))
    rows = X_NEW.astype(dtype)
    scores = model.decision_function(rows)
    np.testing.assert_array_equal(model.transform(rows) @ model.label_atoms_, scores)
    assert sum(chain.weight for chain in model.chains_) == pytest.approx(1, abs=1e-12)
    by_hand = sum(
        chain.weight
        * (chain.coder.encode(chain.view.apply(rows), chain.prepared, model._backend()))
        @ chain.label_atoms
        for chain in model.chains_
    )
    np.testing.assert_allclose(scores, by_hand, rtol=1e-6, atol=1e-6 if dtype == np.float32 else 0)
    assert model.score(rows, Y_NEW) > 0.8


@pytest.mark.bits
@every_view
def test_a_row_alone_has_the_same_scores_and_any_number_of_threads_gives_the_same_bits(name):
    X_NEW, _ = new_cones()
    model, other = fit(name), fit(name, n_jobs=3)
    scores = model.decision_function(X_NEW)
    np.testing.assert_array_equal(other.decision_function(X_NEW), scores)
    np.testing.assert_array_equal(other.atoms_, model.atoms_)
    for i in (0, 100):
        np.testing.assert_array_equal(model.decision_function(X_NEW[i : i + 1])[0], scores[i])


@every_view
def test_names_and_order_of_the_classes_do_not_matter(name):
    _, Y = cones()
    X_NEW, _ = new_cones()
    names = np.array(["zebra", "ant", "moose"])
    model, other = fit(name), fit(name, labels=names[Y])
    np.testing.assert_array_equal(other.atoms_, model.atoms_)
    np.testing.assert_array_equal(other.predict(X_NEW), names[model.predict(X_NEW)])


@every_view
@dtypes
def test_rows_come_back_from_their_codes(name, dtype):
    """In their own size if a constant coordinate keeps it, and in the mean size otherwise."""
    X, _ = cones()
    rng = np.random.default_rng(0)
    rows = X * rng.uniform(0.5, 2, size=(len(X), 1))
    model = fit(
        name, rows.astype(dtype), coder=Forward(12), model=ModelSettings(noise_precision=1e9)
    )
    back = model.inverse_transform(model.transform(rows.astype(dtype)))
    assert back.dtype == dtype and back.shape == rows.shape
    recipe, wanted = linear(view_named(name)), rows
    if recipe.unit or not (recipe.constant or recipe.is_learned):
        length = np.linalg.norm(rows, axis=1, keepdims=True)
        wanted = rows * np.sqrt((length**2).mean()) / length
    if recipe.atoms_per_row is None and (recipe.constant or not recipe.is_learned):
        error = np.linalg.norm(back - wanted, axis=1) / np.linalg.norm(wanted, axis=1)
        assert np.median(error) < 0.1
    else:  # rows around their mean, whose size the view does not know
        around, found = wanted - wanted.mean(axis=0), back - wanted.mean(axis=0)
        cosine = (around * found).sum(axis=1) / np.linalg.norm(around, axis=1)
        assert np.median(cosine / np.linalg.norm(found, axis=1)) > 0.9


def test_the_size_of_rows_is_known_to_views_with_a_constant_coordinate_alone():
    rng = np.random.default_rng(0)
    long = rng.random(80) < 0.5
    rows = rng.random((80, 3)) * np.where(long, 5, 1)[:, np.newaxis]
    quick = {"n_sweeps": 5, "n_chains": 2, "random_state": 0}
    for name, least, most in (("plain + constant", 0.9, 1), ("plain", 0, 0.75)):
        model = DBDLClassifier(views=name, **quick).fit(rows[:60], long[:60])
        assert least <= model.score(rows[60:], long[60:]) <= most


# ------------------------------------------------------------------------ scales and units


@pytest.mark.parametrize("factor", [3.7, 1e150, 1e-300])
def test_rows_times_a_factor_get_the_same_classes_in_every_automatic_view(factor):
    """Scores may differ: kernels and few atoms magnify rounding, and draws follow it."""
    X, _ = cones()
    X_NEW, _ = new_cones()
    n_chains = len(AUTOMATIC + MORE_FOR_FEW_ROWS)
    model, scaled = fit(n_chains=n_chains), fit(n_chains=n_chains, rows=X * factor)
    np.testing.assert_array_equal(scaled.predict(X_NEW * factor), model.predict(X_NEW))


@pytest.mark.parametrize("factor", [3.7, 1e150, 1e-150, 1e300, 1e-300])
def test_rows_times_a_factor_get_the_same_scores_in_linear_views(factor):
    X, _ = cones()
    X_NEW, _ = new_cones()
    model, scaled = fit(**ALL_VIEWS), fit(**ALL_VIEWS, rows=X * factor)
    rows = X_NEW * factor
    np.testing.assert_array_equal(scaled.predict(rows), model.predict(X_NEW))
    np.testing.assert_allclose(
        scaled.decision_function(rows), model.decision_function(X_NEW), atol=1e-9
    )
    for found in (scaled.atoms_, scaled.inverse_transform(scaled.transform(rows))):
        assert np.isfinite(found).all()
    np.testing.assert_allclose(
        scaled.inverse_transform(scaled.transform(rows)) / factor,
        model.inverse_transform(model.transform(X_NEW)),
        atol=1e-9,
    )


@pytest.mark.parametrize("exponent", [-100, 80, 125])
def test_narrow_rows_of_any_scale_get_the_same_bits(exponent):
    X, _ = cones()
    X_NEW, _ = new_cones()
    narrow = X.astype(np.float32)
    model = fit(**ALL_VIEWS, rows=narrow)
    scaled = fit(**ALL_VIEWS, rows=np.ldexp(narrow, exponent))
    rows = X_NEW.astype(np.float32)
    np.testing.assert_array_equal(
        scaled.decision_function(np.ldexp(rows, exponent)), model.decision_function(rows)
    )
    codes = scaled.transform(np.ldexp(rows, exponent))
    for found in (scaled.atoms_, scaled.inverse_transform(codes)):
        assert found.dtype == np.float32 and np.isfinite(found).all()


UNIT_FREE = [
    f"{name}{constant}"
    for name in ("standardised", "scaled and whitened", "scaled and half-whitened")
    for constant in ("", " + constant")
]


@pytest.mark.parametrize("name", UNIT_FREE)
def test_units_of_features_do_not_change_views_that_divide_by_deviations(name):
    X, Y = cones()
    X_NEW, Y_NEW = new_cones()
    powers = np.array([0, 10, -20, 30, 5, -7, 100, -100, 3, 0, 1, 12])
    scores = fit(name).decision_function(X_NEW)
    units = 2.0**powers
    np.testing.assert_array_equal(fit(name, X * units).decision_function(X_NEW * units), scores)
    units = 10.0 ** (powers / 4)
    model = fit(name, X * units)
    np.testing.assert_allclose(model.decision_function(X_NEW * units), scores, atol=1e-6)
    np.testing.assert_array_equal(model.predict(X_NEW * units), fit(name).predict(X_NEW))
    narrow = model.set_params().fit((X * 2.0 ** (powers / 4)).astype(np.float32), Y)
    assert narrow.score((X_NEW * 2.0 ** (powers / 4)).astype(np.float32), Y_NEW) > 0.8


def test_units_of_features_do_change_the_other_views():
    X, _ = cones()
    X_NEW, _ = new_cones()
    units = 2.0 ** np.array([0, 10, -20, 30, 5, -7, 10, -10, 3, 0, 1, 12])
    for name in ("plain", "unit standardised"):
        scores = fit(name).decision_function(X_NEW)
        found = fit(name, X * units).decision_function(X_NEW * units)
        assert not np.allclose(found, scores)


@every_view
@dtypes
@pytest.mark.parametrize("value", [0.1, 1e7 / 3])
def test_a_constant_feature_adds_no_noise(name, dtype, value):
    """Its rounding errors are not taken for a deviation by which rows are divided."""
    X, _ = cones()
    rows = np.hstack([X, np.full((len(X), 1), value)]).astype(dtype)
    if linear(view_named(name)).unit:  # the scaled rows are not constant
        rows[:, -1] *= np.linalg.norm(rows[:, :-1], axis=1)
    model = fit(name, rows)
    views = [getattr(chain.view, "kernel", chain.view) for chain in model.chains_]
    assert all(abs(linear(view).scale[-1]) < 100 for view in views)
    assert np.isfinite(model.decision_function(rows)).all()


# ------------------------------------------------------------------------ ways to ask for views


def test_auto_gives_each_chain_the_next_view():
    names = AUTOMATIC + MORE_FOR_FEW_ROWS
    n_views = len(names)
    model = fit("auto", n_chains=n_views + 1)
    wanted = [view_named(name) for name in (*names, names[0])]
    assert [chain.view.recipe for chain in model.chains_] == wanted
    assert len(set(wanted)) == n_views


@pytest.mark.parametrize(("n_rows", "n_first", "n_both"), [(30, 2, 6), (201, 1, 4), (1001, 1, 2)])
def test_views_that_earn_a_weight_have_more_chains_and_others_none(n_rows, n_first, n_both):
    rows, labels = make_cones(n_rows=n_rows)
    model = fit("auto", rows, labels, n_chains=None, n_sweeps=1, coder=Forward(1))
    chains = Counter(chain.view.name for chain in model.chains_)
    assert set(chains.values()) == {n_both}
    assert len(model.chains_) == len(model.trace_.n_atoms)
    assert len(model.held_out_.view_log_loss) == len(chains)
    weights = [sum(c.weight for c in model.chains_ if c.view.name == name) for name in chains]
    assert min(weights) >= LEAST_WEIGHT * max(weights)
    assert sum(chain.weight for chain in model.chains_) == pytest.approx(1)
    assert model.n_chains is None


def test_one_view_has_at_least_five_chains():
    rows, labels = make_cones(n_rows=201)
    assert len(fit("plain", rows, labels, n_chains=None, n_sweeps=1).chains_) == 5


def test_without_rows_that_are_left_out_every_view_has_its_first_chains():
    one = {"coder": Forward(1), "calibrate": False}
    model = fit(["plain", "centred", "whitened"], n_chains=None, n_sweeps=1, **one)
    assert [chain.view.name for chain in model.chains_] == ["plain", "centred", "whitened"] * 2


@every_view
def test_a_name_and_a_view_are_the_same(name):
    X_NEW, _ = new_cones()
    expected = fit(name).decision_function(X_NEW)
    for views in (view_named(name), [name], (view_named(name),), np.array([name])):
        np.testing.assert_array_equal(fit(views).decision_function(X_NEW), expected)


def test_chains_take_the_views_of_a_list_in_turn():
    X_NEW, Y_NEW = new_cones()
    own = View(centred=True, scale="within", power=0.1, constant=True)
    model = fit(["plain", own, StandardScaler()], n_chains=4)
    first, second, third, fourth = (chain.view for chain in model.chains_)
    assert first.recipe == fourth.recipe == View() and second.recipe == own
    assert isinstance(third.transformer, StandardScaler)
    assert model.score(X_NEW, Y_NEW) > 0.8


@dtypes
@pytest.mark.parametrize(
    "transformer",
    [PCA(8), StandardScaler(), make_pipeline(Normalizer(), PCA(6, whiten=True))],
    ids=["PCA", "StandardScaler", "pipeline"],
)
def test_a_transformer_is_fitted_for_each_chain_without_the_rows_it_leaves_out(transformer, dtype):
    X, _ = cones()
    X_NEW, Y_NEW = new_cones()
    model = fit(transformer, X.astype(dtype), n_chains=20)
    assert model.score(X_NEW.astype(dtype), Y_NEW) > 0.8
    assert not hasattr(transformer, "n_features_in_")  # a copy is fitted
    if not isinstance(transformer, StandardScaler):
        return
    means = {tuple(chain.view.transformer.mean_) for chain in model.chains_}
    assert len(means) == 10 and tuple(X.mean(axis=0)) not in means
    assert {chain.view.transformer.n_samples_seen_ for chain in model.chains_} == {54}
    assert model.atoms_.shape == (model.n_atoms_, 12) and model.atoms_.dtype == dtype


def test_without_a_way_back_a_transformer_s_atoms_say_so_and_predictions_work():
    X, _ = cones()
    X_NEW, Y_NEW = new_cones()
    model = fit(Normalizer())
    assert model.score(X_NEW, Y_NEW) > 0.8
    for way_back in (lambda: model.atoms_, lambda: model.inverse_transform(model.transform(X))):
        with pytest.raises(ValueError, match=r"no inverse_transform.*views by name"):
            way_back()


@pytest.mark.parametrize(
    ("views", "words"),
    [
        ("bleached", r"no view 'bleached'.*'auto'.*'plain'"),
        ("plain + varying", "no view 'plain \\+ varying'"),
        ("unit unit plain", "no view"),
        ([], "views is empty"),
        (3, "'views' parameter"),
        (None, "'views' parameter"),
        ([3], r"views has 3\. Expected 'auto', names"),
        (["plain", "auto"], "no view 'auto'.* not in a list. Set views to 'auto' alone"),
        (View(power=2.0), "power"),
        (View(scale="outside"), "scale"),
    ],
)
def test_odd_views_are_refused(views, words):
    with pytest.raises(ValueError, match=words):
        fit(views)


def test_rows_as_they_are_have_the_plain_view_alone():
    model = fit(normalize=False, model=ModelSettings(noise_precision=1e3))
    assert {chain.view.recipe for chain in model.chains_} == {View(normalize=False)}
    with pytest.raises(ValueError, match=r"normalize=False.*views='plain'"):
        fit("whitened", normalize=False)


# ------------------------------------------------------------------------ scikit-learn


@pytest.mark.parametrize(
    "views", ["whitened", View(power=0.3), PCA(5), ["plain", View(constant=True), PCA(4)]], ids=str
)
def test_views_survive_cloning_pickling_and_the_setting_of_parameters(views, tmp_path):
    X, Y = cones()
    X_NEW, _ = new_cones()
    model = DBDLClassifier(**QUICK, views=views)
    assert model.get_params()["views"] is views
    again = clone(model)
    assert repr(again) == repr(model) and again.views is not None
    model.fit(X, Y)
    np.testing.assert_array_equal(again.fit(X, Y).predict_proba(X_NEW), model.predict_proba(X_NEW))
    loaded = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(loaded.predict_proba(X_NEW), model.predict_proba(X_NEW))
    plain = again.set_params(views="plain").fit(X, Y)
    np.testing.assert_array_equal(
        plain.decision_function(X_NEW), fit("plain").decision_function(X_NEW)
    )


def test_parameters_of_a_transformer_can_be_set():
    X, Y = cones()
    model = DBDLClassifier(**QUICK, views=PCA(3))
    model.set_params(views__n_components=7).fit(X, Y)
    assert {chain.atoms.shape[1] for chain in model.chains_} == {7}


def test_a_grid_search_chooses_among_views():
    X, Y = cones()
    units = 10.0 ** np.arange(12)
    grid = {"views": ["plain", "standardised", View(centred=True, scale="total")]}
    search = GridSearchCV(DBDLClassifier(**QUICK), grid, cv=3, error_score="raise")
    search.fit(X * units, Y)
    score = search.cv_results_["mean_test_score"]
    assert score[1] == score[2] > score[0] and search.best_params_["views"] == "standardised"


def test_frames_keep_their_feature_names():
    pd = pytest.importorskip("pandas")
    X, _ = cones()
    X_NEW, _ = new_cones()
    names = [f"wave {number}" for number in range(12)]
    frame = pd.DataFrame(X, columns=names)
    model = fit(**ALL_VIEWS, rows=frame)
    assert model.feature_names_in_.tolist() == names
    expected = fit(**ALL_VIEWS).decision_function(X_NEW)
    np.testing.assert_array_equal(
        model.decision_function(pd.DataFrame(X_NEW, columns=names)), expected
    )
    with pytest.raises(ValueError, match="feature names"):
        model.predict(pd.DataFrame(X_NEW, columns=names[::-1]))
    of_frame = fit(StandardScaler(), frame)  # which sees the rows as an array
    np.testing.assert_array_equal(
        of_frame.decision_function(frame), fit(StandardScaler()).decision_function(X)
    )


def test_every_view_is_documented():
    words = " ".join(DBDLClassifier.__doc__.split())
    assert all(f'"{name}"' in words for name in VIEWS)
    assert dbdl.views.AUTOMATIC == AUTOMATIC and "dbdl.views.AUTOMATIC" in words


# ---------------------------------------------------------------------------- views of few atoms


def test_chains_of_views_with_few_atoms_start_from_a_tenth_of_their_rows():
    rows, labels = make_cones(n_rows=60)
    model = fit(["plain", "few atoms of plain"], rows, labels, n_chains=4)
    n_initial = [chain.n_initial_atoms for chain in model.chains_]
    n_learned = round(0.9 * len(labels))
    assert n_initial[1] == n_initial[3] == round(0.1 * n_learned)
    assert n_initial[0] == n_initial[2] == round(1.5 * n_learned)
    own = fit([View(atoms_per_row=0.5)], rows, labels, n_initial_atoms=7)
    assert own.chains_[0].n_initial_atoms == round(0.5 * n_learned)


def test_few_atoms_are_at_least_two_per_class():
    rows, labels = make_cones(n_rows=6)
    model = fit("few atoms of plain", rows, labels)
    n_classes = len(model.classes_)
    assert {chain.n_initial_atoms for chain in model.chains_} == {2 * n_classes}


@pytest.mark.parametrize("settings", [{"n_initial_atoms": 30}, {"n_initial_atoms": "auto"}])
def test_a_number_of_atoms_that_is_asked_for_is_that_of_all_automatic_views(settings):
    rows, labels = make_cones(n_rows=30)
    model = fit("auto", rows, labels, n_chains=14, **settings)
    assert not any(chain.view.name.startswith("few atoms") for chain in model.chains_)


def test_there_are_no_automatic_views_of_few_atoms_where_classes_have_few_rows():
    rows, labels = make_cones(n_rows=6)
    model = fit("auto", rows, labels, n_chains=14)
    assert not any(chain.view.name.startswith("few atoms") for chain in model.chains_)


def test_batches_have_no_views_of_few_atoms():
    rows, labels = make_cones(n_rows=30)
    model = DBDLClassifier(n_sweeps=2, n_chains=14, coder=Forward(2), random_state=0)
    model.partial_fit(rows, labels)
    assert not any(chain.view.name.startswith("few atoms") for chain in model.chains_)
    with pytest.raises(ValueError, match=r"partial_fit with a view that asks for few atoms.*Use"):
        model.set_params(views="few atoms of plain").partial_fit(rows, labels)


@pytest.mark.parametrize("name", ["few atoms of kernel of plain", "kernel of few atoms of plain"])
def test_a_kernel_view_has_no_few_atoms(name):
    with pytest.raises(ValueError, match="there is no view"):
        view_named(name)


def test_a_view_of_few_atoms_is_named_and_saved():
    view = view_named("few atoms of unit whitened + constant")
    assert view == View(centred=True, power=0.5, unit=True, constant=True, atoms_per_row=0.1)
    assert view.name == "few atoms of unit whitened + constant"
    assert View(atoms_per_row=0.2).name == "View(atoms_per_row=0.2)"


def test_one_chain_on_wide_rows_takes_a_linear_view_and_tells_the_classes_apart():
    rng, y = np.random.default_rng(0), np.arange(260) % 4
    X = 10 / np.sqrt(2000) * rng.standard_normal((4, 2000))[y] + rng.standard_normal((260, 2000))
    model = DBDLClassifier(n_chains=1, n_sweeps=2, random_state=0).fit(X[:60], y[:60])
    assert model.chains_[0].view.name == "unit half-whitened + constant"
    assert model.score(X[60:], y[60:]) > 0.9
    tall = DBDLClassifier(n_chains=1, n_sweeps=2, random_state=0).fit(X[:60, :50], y[:60])
    assert tall.chains_[0].view.name == AUTOMATIC[0]
