"""Claims about DBDLClassifier beyond scikit-learn's contract."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from cones import make_cones
from scipy.sparse import issparse
from scipy.special import softmax
from sklearn.base import clone
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV

from dbdl import DBDLClassifier, ModelSettings
from dbdl.backends import NumbaBackend
from dbdl.coding import Forward, LassoPath, Orthogonal, PosteriorMean, PreparedAtoms

QUICK = {"n_sweeps": 6, "n_chains": 2, "random_state": 0}


@pytest.fixture(scope="module")
def problem():
    return make_cones()


@pytest.fixture(scope="module")
def new_rows():
    X, y = make_cones(n_rows=60)
    return X[60:], y[60:]  # the same cones: the first rows are the training rows


@pytest.fixture(scope="module")
def model(problem):
    return DBDLClassifier(**QUICK).fit(*problem)


def test_it_classifies_new_rows_of_the_same_cones(model, new_rows):
    X, y = make_cones(n_rows=120)
    assert model.score(X[60:], y[60:]) > 0.9


def test_codes_times_label_atoms_are_the_scores(model, new_rows):
    X, _ = new_rows
    codes = model.transform(X)
    assert issparse(codes) and codes.shape == (len(X), model.n_atoms_)
    np.testing.assert_array_equal(codes @ model.label_atoms_, model.decision_function(X))


def test_two_classes_have_one_column_and_the_sign_decides():
    X, y = make_cones(n_classes=2)
    names = np.array(["no", "yes"])[y]
    model = DBDLClassifier(**QUICK).fit(X, names)
    scores = model.decision_function(X)
    assert model.label_atoms_.shape == (model.n_atoms_, 1) and scores.shape == (len(X),)
    np.testing.assert_array_equal(model.predict(X), np.where(scores > 0, "yes", "no"))
    probability = model.predict_proba(X)
    np.testing.assert_array_equal(probability[:, 1] > 0.5, scores > 0)


def test_atoms_have_unit_norm_in_their_views_and_chains_are_stacked(model):
    for chain in model.chains_:
        np.testing.assert_allclose(np.linalg.norm(chain.atoms, axis=1), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(model.components_, model.atoms_)
    restored = [chain.restored_atoms for chain in model.chains_]
    np.testing.assert_array_equal(model.atoms_, np.concatenate(restored))
    assert model.selection_probability_.shape == (3, model.n_atoms_)
    assert ((model.selection_probability_ > 0) & (model.selection_probability_ < 1)).all()
    assert model.trace_.n_atoms.shape == (2, 6)
    assert model.trace_.n_atoms[:, -1].sum() == model.n_atoms_


def test_every_class_has_atoms_of_its_own(model):
    for chain in model.chains_:
        assert set(chain.selection_probability.argmax(axis=0)) == {0, 1, 2}


def test_chains_differ(model):
    first, second = model.chains_
    assert first.atoms.shape != second.atoms.shape or not np.array_equal(first.atoms, second.atoms)


@pytest.mark.parametrize("n_jobs", [2, 3, 7])
def test_any_number_of_threads_gives_the_same_bits(problem, model, n_jobs, new_rows):
    other = clone(model).set_params(n_jobs=n_jobs).fit(*problem)
    np.testing.assert_array_equal(other.atoms_, model.atoms_)
    np.testing.assert_array_equal(other.label_atoms_, model.label_atoms_)
    assert other.temperature_ == model.temperature_
    np.testing.assert_array_equal(
        other.decision_function(new_rows[0]), model.decision_function(new_rows[0])
    )


def test_another_seed_gives_another_dictionary(problem, model):
    other = clone(model).set_params(random_state=1).fit(*problem)
    assert not np.array_equal(other.atoms_, model.atoms_)


def test_names_and_order_of_the_classes_do_not_matter(problem, model):
    X, y = problem
    other = clone(model).fit(X, np.array(["zebra", "ant", "moose"])[y])
    np.testing.assert_array_equal(other.atoms_, model.atoms_)
    np.testing.assert_array_equal(other.classes_, ["ant", "moose", "zebra"])
    np.testing.assert_allclose(
        other.selection_probability_, model.selection_probability_[[1, 2, 0]], rtol=1e-12
    )
    np.testing.assert_array_equal(
        other.predict(X), np.array(["zebra", "ant", "moose"])[model.predict(X)]
    )


@pytest.mark.bits
def test_a_single_query_equals_its_row_in_a_batch(model, new_rows):
    X, _ = new_rows
    batch = model.decision_function(X)
    for i in (0, 7, len(X) - 1):
        np.testing.assert_array_equal(model.decision_function(X[i : i + 1])[0], batch[i])


def test_probabilities_sum_to_one_and_beat_guessing(model):
    X, y = make_cones(n_rows=120)
    probability = model.predict_proba(X[60:])
    np.testing.assert_allclose(probability.sum(axis=1), 1.0)
    np.testing.assert_array_equal(probability.argmax(axis=1), model.predict(X[60:]))
    assert log_loss(y[60:], probability) < 0.5 * np.log(3)


def test_few_rows_choose_along_the_path_of_the_lasso_and_many_along_greedy_paths_too():
    few, many = (
        DBDLClassifier(**{**QUICK, "n_sweeps": 1, "n_chains": 1}).fit(*make_cones(n_rows=n_rows))
        for n_rows in (200, 201)  # of three classes
    )
    assert {c.name for c in few.held_out_.coders} == {"lasso"}
    coders = many.held_out_.coders
    assert {c.path_average for c in coders if c.name != "lasso"} == {False, True}
    assert {c.name for c in coders} == {"forward", "lasso"}


def test_rows_that_chains_left_out_choose_the_coder(model, problem):
    choice = model.held_out_
    assert choice.coder == choice.coders[int(np.argmin(choice.log_loss))]
    assert choice.n_rows == 12  # two chains leave out the same tenth of the rows
    first = 0
    for chain in model.chains_:
        assert chain.coder in choice.coders
        codes = model.transform(problem[0])[:, first : first + len(chain.atoms)]
        assert codes.getnnz(axis=1).max() <= chain.coder.n_nonzero
        first += len(chain.atoms)


def test_chains_of_one_view_have_the_same_coder_and_weight(problem):
    model = DBDLClassifier(**{**QUICK, "n_chains": 6, "views": ["plain", "whitened"]}).fit(*problem)
    assert model.held_out_.view_log_loss.shape == (2, len(model.held_out_.coders))
    for view in (0, 1):
        own = model.chains_[view::2]
        assert len({chain.coder for chain in own}) == 1
        np.testing.assert_allclose([chain.weight for chain in own], own[0].weight, rtol=1e-12)


def test_with_six_hundred_rows_or_fewer_every_row_may_be_left_out_and_with_more_two_tenths():
    quick = {**QUICK, "n_sweeps": 1, "coder": Forward(2)}
    for n_rows, n_chains, expected in ((20, 20, 2 * 60), (20, 5, 5 * 6), (250, 4, 4 * 75)):
        X, y = make_cones(n_rows=n_rows)
        model = DBDLClassifier(**{**quick, "n_chains": n_chains}).fit(X, y)
        assert model.held_out_.n_rows == expected


def test_an_integer_fixes_the_number_of_nonzeros(problem):
    model = DBDLClassifier(n_nonzero=3, **QUICK).fit(*problem)
    assert {c.n_nonzero for c in model.held_out_.coders} == {3}
    assert {chain.coder.n_nonzero for chain in model.chains_} == {3}


def test_a_path_average_is_the_mean_of_the_codes_along_the_path(problem, new_rows):
    averaged = DBDLClassifier(coder=Forward(10, path_average=True), **QUICK).fit(*problem)
    lengths = averaged.chains_[0].coder.lengths
    assert lengths == (3, 4, 5, 7, 10)
    plain = [DBDLClassifier(coder=Forward(n), **QUICK).fit(*problem) for n in lengths]
    expected = sum(model.transform(new_rows[0]).toarray() for model in plain) / len(plain)
    np.testing.assert_allclose(averaged.transform(new_rows[0]).toarray(), expected, atol=1e-12)


def test_codes_of_the_lasso_have_at_most_so_many_non_zeros_and_a_row_alone_has_the_same(
    problem, new_rows
):
    model = DBDLClassifier(coder="lasso", n_nonzero=3, **QUICK).fit(*problem)
    codes = model.transform(new_rows[0])
    assert codes[:, : len(model.chains_[0].atoms)].getnnz(axis=1).max() == 3
    np.testing.assert_array_equal(model.transform(new_rows[0][:1]).toarray(), codes[:1].toarray())
    assert "lasso" in str(model.chains_[0].coder)


def test_codes_of_the_lasso_are_those_that_held_out_rows_chose_in_float32_too():
    X, y = make_cones(n_rows=120)
    X = np.vstack([X, X + 1e-4]).astype(np.float32)  # near copies
    model = DBDLClassifier(coder="lasso", n_nonzero=5, **QUICK).fit(X, np.tile(y, 2))
    rows = model._rows(X, reset=False)
    for chain in model.chains_:
        mapped, atoms = chain.view.apply(rows), PreparedAtoms(chain.atoms)
        expected = chain.coder.encode(mapped, atoms, NumbaBackend())
        found = chain.encode(rows, NumbaBackend())
        np.testing.assert_array_equal(found.toarray(), expected.toarray())


def test_on_a_device_without_the_lasso_it_is_not_among_the_coders(problem, monkeypatch):
    monkeypatch.setattr(NumbaBackend, "device_kind", "cuda")
    model = DBDLClassifier(**QUICK).fit(*problem)
    assert {c.name for c in model.held_out_.coders} == {"forward"}


def test_where_no_row_can_be_left_out_the_coder_is_the_sparsest():
    rng = np.random.default_rng(0)
    model = DBDLClassifier(n_sweeps=1, n_chains=1, random_state=0)
    model.fit(rng.standard_normal((4, 40)), np.arange(4))
    assert model.held_out_ is None and model.temperature_ == 1.0
    assert model.chains_[0].coder == LassoPath(1)


def test_a_number_of_non_zeros_beside_a_coder_with_its_own_is_refused(problem):
    with pytest.raises(ValueError, match=r"n_nonzero=3 with coder=Forward.*name a family"):
        DBDLClassifier(coder=Forward(2), n_nonzero=3, **QUICK).fit(*problem)


def test_an_unknown_family_of_coders_is_refused_and_the_known_ones_are_named(problem):
    with pytest.raises(ValueError, match=r"coder is 'omp'.*'forward', 'lasso'"):
        DBDLClassifier(coder="omp", **QUICK).fit(*problem)


def test_a_coder_is_used_as_it_is_and_of_a_list_the_held_out_rows_choose(problem):
    one = DBDLClassifier(coder=Orthogonal(2), **QUICK).fit(*problem)
    assert {chain.coder for chain in one.chains_} == {Orthogonal(2)}
    assert one.held_out_.coders == (Orthogonal(2),)
    wanted = [Forward(1), LassoPath(4), "orthogonal"]
    several = DBDLClassifier(coder=wanted, n_nonzero=3, **QUICK).fit(*problem)
    assert several.held_out_.coders == (
        Forward(1), LassoPath(4), Orthogonal(3), Orthogonal(3, path_average=True)
    )  # fmt: skip
    assert all(chain.coder in several.held_out_.coders for chain in several.chains_)


@pytest.mark.parametrize("classifier", ["ridge", "recoded", "gibbs", "joint"])
@pytest.mark.parametrize("scan", ["collapsed", "paper"])
def test_every_classifier_and_scan_learns(problem, classifier, scan):
    model = DBDLClassifier(classifier=classifier, model=ModelSettings(scan=scan), **QUICK).fit(
        *problem
    )
    X, y = make_cones(n_rows=120)
    assert model.score(X[60:], y[60:]) > 0.8


@pytest.mark.parametrize(
    "settings",
    [
        {"model__noise_per_class": True},
        {"model__sample_noise": False},
        {"model__strengths_counted": "all"},
        {"model__beta_size": "current"},
        {"model__n_atom_draws": 3},
        {"model__least_energy": 0.0},
        {"n_initial_atoms": 15},
        {"normalize": False, "model__noise_precision": 1e3},
        {"coder": "orthogonal"},
        {"coder": "lasso"},
        {"coder": LassoPath(3), "normalize": False, "model__noise_precision": 1e3},
        {"coder": Forward(5, path_average=True)},
        {"coder": PosteriorMean(5)},
    ],
    ids=lambda s: " ".join(map(str, s.items())),
)
def test_every_setting_learns(problem, settings):
    model = DBDLClassifier(**QUICK).set_params(**settings).fit(*problem)
    X, y = make_cones(n_rows=120)
    assert model.score(X[60:], y[60:]) > 0.8


def test_the_number_of_initial_atoms_bounds_each_chain(problem):
    model = DBDLClassifier(n_initial_atoms=15, **QUICK).fit(*problem)
    assert all(len(chain.atoms) <= 15 for chain in model.chains_)


def test_the_paper_s_settings():
    model = DBDLClassifier.paper(model__noise_precision=1e9)
    expected = {
        "n_chains": 1, "n_sweeps": 35, "n_initial_atoms": None, "coder": Orthogonal(50),
        "classifier": "gibbs", "normalize": True, "views": "plain", "calibrate": False,
    }  # fmt: skip
    model_expected = {
        "scan": "paper", "initial_ratio": 1.5, "n_start_nonzero": 50, "sample_noise": True,
        "noise_precision": 1e9, "noise_per_class": False, "strength_precision": 1.0,
        "strengths_counted": "all", "atom_precision": None, "usage_a": None, "usage_b": None,
        "hyper_prior": 1e-6, "beta_size": "current", "least_energy": 0.0,
    }  # fmt: skip
    expected |= {f"model__{name}": value for name, value in model_expected.items()}
    parameters = model.get_params()
    assert {name: parameters[name] for name in expected} == expected


def test_the_paper_s_chain_learns_from_all_rows_and_is_not_calibrated(problem):
    model = DBDLClassifier.paper(n_nonzero=5, n_sweeps=3, random_state=0).fit(*problem)
    assert len(model.chains_) == 1 and model.chains_[0].weight == 1.0
    assert model.held_out_ is None and model.temperature_ == 1.0
    assert model.trace_.n_atoms.shape == (1, 3)
    np.testing.assert_allclose(np.linalg.norm(model.atoms_, axis=1), 1.0, rtol=1e-12)


def test_inverse_transform_averages_the_chains(problem):
    X, _ = problem
    model = DBDLClassifier(n_nonzero=6, **QUICK).fit(*problem)
    codes = model.transform(X)
    rows = model.inverse_transform(codes)
    assert rows.shape == X.shape
    n_first = len(model.chains_[0].atoms)
    parts = [codes[:, :n_first], codes[:, n_first:]]
    restored = [
        chain.view.restore(part @ chain.atoms)
        for part, chain in zip(parts, model.chains_, strict=True)
    ]
    np.testing.assert_allclose(rows, np.mean(restored, axis=0), atol=1e-12)
    np.testing.assert_allclose(rows, model.inverse_transform(codes.toarray()), atol=1e-12)
    with pytest.raises(ValueError, match="pass codes as returned by transform"):
        model.inverse_transform(np.zeros((2, 3)))


def test_it_survives_pickling(model, new_rows):
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(
        again.decision_function(new_rows[0]), model.decision_function(new_rows[0])
    )


def test_grid_search_over_the_number_of_nonzeros(problem):
    grid = {"n_nonzero": [1, 2, 4, 100]}
    with pytest.warns(UserWarning, match="n_nonzero=100 is more than the 12 features"):
        search = GridSearchCV(DBDLClassifier(**QUICK), grid, cv=3, error_score="raise").fit(
            *problem
        )
    assert search.best_score_ > 0.8


def test_grid_search_over_a_setting_of_the_model(problem):
    grid = {"model__noise_precision": [1e2, 1e6], "model__scan": ["paper"]}
    search = GridSearchCV(
        DBDLClassifier(coder=Forward(3), **QUICK), grid, cv=3, error_score="raise"
    ).fit(*problem)
    best = search.best_estimator_
    assert best.model.noise_precision == search.best_params_["model__noise_precision"]
    assert best.model.scan == "paper"
    same = DBDLClassifier(coder=Forward(3), model=best.model, **QUICK).fit(*problem)
    np.testing.assert_array_equal(best.atoms_, same.atoms_)


def test_without_calibration_and_with_nothing_to_choose_chains_learn_from_all_rows(
    problem, new_rows
):
    quick = {"coder": Forward(3), "views": ["plain", "standardised"], **QUICK}
    plain = DBDLClassifier(calibrate=False, **quick).fit(*problem)
    calibrated = DBDLClassifier(**quick).fit(*problem)
    assert plain.held_out_ is None and plain.temperature_ == 1.0 != calibrated.temperature_
    assert [chain.weight for chain in plain.chains_] == [0.5, 0.5]
    means = [model.chains_[1].view.mean for model in (plain, calibrated)]
    shift = 2.0 ** plain.chains_[1].view.exponent
    np.testing.assert_allclose(means[0] * shift, problem[0].mean(axis=0), atol=1e-12)
    assert not np.allclose(means[1] * shift, problem[0].mean(axis=0))
    scores = plain.decision_function(new_rows[0])
    np.testing.assert_allclose(
        plain.predict_proba(new_rows[0]), softmax(scores, axis=1), rtol=1e-12
    )


def test_coders_are_chosen_without_calibration_too(problem):
    coders = [Forward(1), Forward(3)]
    plain = DBDLClassifier(coder=coders, calibrate=False, **QUICK).fit(*problem)
    calibrated = DBDLClassifier(coder=coders, **QUICK).fit(*problem)
    assert [c.coder for c in plain.chains_] == [c.coder for c in calibrated.chains_]
    assert plain.temperature_ == 1.0
    np.testing.assert_array_equal(plain.held_out_.log_loss, calibrated.held_out_.log_loss)
    np.testing.assert_array_equal(plain.label_atoms_, calibrated.label_atoms_)


@pytest.mark.parametrize("label_weight", ["auto", 0.3])
def test_chains_take_the_weights_of_joint_labels_in_turn(problem, label_weight):
    """A chain's label atoms are those of a fit with its weight alone."""
    quick = {**QUICK, "n_chains": 3, "n_sweeps": 2, "classifier": "joint", "coder": Forward(3)}
    model = DBDLClassifier(label_weight=label_weight, **quick).fit(*problem)
    for number, weight in enumerate((0.01, 0.1, 1.0)):
        own = weight if label_weight == "auto" else label_weight
        alone = DBDLClassifier(label_weight=own, **quick).fit(*problem)
        np.testing.assert_array_equal(
            model.chains_[number].label_atoms, alone.chains_[number].label_atoms
        )


def test_feature_names_of_the_codes(model):
    names = model.get_feature_names_out()
    assert len(names) == model.n_atoms_ and names[0] == "dbdlclassifier0"


@pytest.mark.parametrize(
    ("settings", "n_rows"), [({"coder": Forward(1)}, 4), ({"n_nonzero": 2, "calibrate": False}, 60)]
)
def test_coders_may_change_between_batches(problem, settings, n_rows):
    """Even if the next batch has nothing to choose, or too few rows for it."""
    X, y = problem
    model = DBDLClassifier(**QUICK, coder=Forward(3)).partial_fit(X, y)
    model.set_params(**{"coder": "forward", **settings}).partial_fit(X[:n_rows], y[:n_rows])
    n_nonzero = settings.get("n_nonzero", 1)
    assert {chain.coder.n_nonzero for chain in model.chains_} == {n_nonzero}
