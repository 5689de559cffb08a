"""Learning batch by batch through the estimators."""

from __future__ import annotations

import pickle
from functools import cache

import numpy as np
import pytest
from cones import make_cones
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler

from dbdl import BetaProcessDictionary, DBDLClassifier, ModelSettings
from dbdl.coding import Forward
from dbdl.persistence import load, save
from dbdl.views import AUTOMATIC_LINEAR


@cache
def cones():
    return make_cones(n_classes=4, n_rows=30, n_features=20)


@cache
def new_cones():
    return [part[120:] for part in make_cones(n_classes=4, n_rows=45, n_features=20)]


FITTED = ("atoms_", "label_atoms_", "selection_probability_", "classes_", "temperature_")


def make(**settings):
    return DBDLClassifier(**{"n_sweeps": 4, "n_chains": 2, "random_state": 0, **settings})


def learn(batches, model=None, **settings):
    X, Y = cones()
    model = make(**settings) if model is None else model
    for rows in batches:
        model.partial_fit(X[rows], Y[rows])
    return model


def thirds():
    X, _ = cones()
    return np.array_split(np.arange(len(X)), 3)


def assert_same(one, other):
    for name in FITTED:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"n_chains": 8, "views": AUTOMATIC_LINEAR},
        {"views": StandardScaler()},
        {"views": "plain", "coder": Forward(3), "calibrate": False},
        {"classifier": "recoded"},
        {"n_initial_atoms": 20},
        {"model": ModelSettings(noise_per_class=True)},
    ],
    ids=" ".join,
)
def test_one_batch_is_learned_as_fit_does(settings):
    X, Y = cones()
    labels = np.array(["d", "b", "c", "a"])[Y]  # not in the order in which they appear
    one, other = make(**settings).fit(X, labels), make(**settings).partial_fit(X, labels)
    assert_same(one, other)
    for first, second in zip(one.chains_, other.chains_, strict=True):
        assert (first.weight, first.coder) == (second.weight, second.coder)
    if one.held_out_ is not None:
        np.testing.assert_array_equal(one.held_out_.view_log_loss, other.held_out_.view_log_loss)


@pytest.mark.parametrize("classifier", ["ridge", "recoded"])
def test_a_stream_is_classified_well(classifier):
    X, _ = cones()
    X_TEST, Y_TEST = new_cones()
    model = learn(thirds(), classifier=classifier)
    assert model.score(X_TEST, Y_TEST) > 0.95
    assert model.online_.n_rows == len(X)


def test_everything_works_after_a_batch():
    X_TEST, _ = new_cones()
    model = learn(thirds())
    probability = model.predict_proba(X_TEST)
    np.testing.assert_allclose(probability.sum(axis=1), 1.0)
    codes = model.transform(X_TEST)
    assert codes.shape == (len(X_TEST), model.n_atoms_) == (len(X_TEST), len(model.atoms_))
    np.testing.assert_allclose(codes @ model.label_atoms_, model.decision_function(X_TEST))
    assert model.selection_probability_.shape == (4, model.n_atoms_)
    assert model.trace_.n_atoms.shape == (2, 3)
    assert model.inverse_transform(codes).shape == X_TEST.shape


@pytest.mark.parametrize("n_jobs", [2, 3])
def test_threads_do_not_matter(n_jobs):
    assert_same(learn(thirds()), learn(thirds(), n_jobs=n_jobs))


def test_names_and_order_of_classes_do_not_matter():
    X, Y = cones()
    X_TEST, _ = new_cones()
    names = np.array(["d", "b", "c", "a"])
    one, other = learn(thirds()), make()
    for rows in thirds():
        other.partial_fit(X[rows], names[Y[rows]])
    np.testing.assert_array_equal(names[one.predict(X_TEST)], other.predict(X_TEST))
    np.testing.assert_array_equal(one.atoms_, other.atoms_)


@pytest.mark.parametrize(
    ("first", "then"),
    [({"coder": "forward"}, {"coder": "lasso"}), ({"n_nonzero": 3}, {"n_nonzero": 5}),
     ({"coder": Forward(2), "calibrate": False}, {"coder": Forward(3)})],
    ids=["family", "length", "fixed"],
)  # fmt: skip
def test_coders_may_change_between_batches_however_few_rows_come(first, then):
    X, Y = cones()
    model = make(**first).partial_fit(X[:60], Y[:60]).set_params(**then)
    model.partial_fit(X[60:65], Y[60:65])
    assert {chain.coder for chain in model.chains_} <= set(model._coders(20))


def test_every_batch_is_seen_through_the_views_of_the_first():
    X, Y = cones()
    model = make(n_chains=8).partial_fit(X[:60], Y[:60])
    views = [chain.view for chain in model.chains_]
    model.partial_fit(X[60:] + 3.0, Y[60:])
    for members in (model.chains_, model.online_.chains):
        assert all(one.view is view for one, view in zip(members, views, strict=True))


def test_fit_starts_anew_and_keeps_no_memory():
    X, Y = cones()
    model = learn(thirds()).fit(X, Y)
    assert not hasattr(model, "online_")
    assert_same(model, make().fit(X, Y))
    with pytest.warns(UserWarning, match=r"keeps no sums of its rows: partial_fit starts anew"):
        model.partial_fit(X[:60], Y[:60])
    assert_same(model, make(views=AUTOMATIC_LINEAR).fit(X[:60], Y[:60]))


def test_classes_may_come_one_after_another():
    X, Y = cones()
    X_TEST, Y_TEST = new_cones()
    model = make()
    for c in (2, 0, 3, 1):
        rows = np.flatnonzero(c == Y)
        model.partial_fit(X[rows], Y[rows])
        assert set(model.predict(X_TEST)) <= set(model.classes_)
        assert model.predict_proba(X_TEST).shape == (len(X_TEST), len(model.classes_))
    np.testing.assert_array_equal(model.classes_, np.arange(4))
    assert model.score(X_TEST, Y_TEST) > 0.9


def test_one_class_so_far_is_what_is_predicted():
    X, Y = cones()
    X_TEST, _ = new_cones()
    model = make().partial_fit(X[Y == 3], Y[Y == 3])
    np.testing.assert_array_equal(model.predict(X_TEST), 3)
    np.testing.assert_array_equal(model.predict_proba(X_TEST), 1.0)


def test_classes_named_in_the_first_call_are_known_from_the_start():
    X, Y = cones()
    X_TEST, Y_TEST = new_cones()
    model = make().partial_fit(X[Y < 2], Y[Y < 2], classes=[0, 1, 2, 3, 7])
    np.testing.assert_array_equal(model.classes_, [0, 1, 2, 3, 7])
    assert model.predict_proba(X_TEST).shape == (len(X_TEST), 5)
    assert set(model.predict(X_TEST[Y_TEST < 2])) <= {0, 1}
    model.partial_fit(X[Y >= 2], Y[Y >= 2])
    assert model.score(X_TEST, Y_TEST) > 0.9
    assert model.selection_probability_.shape[0] == 5
    model.partial_fit(X[:10], np.full(10, 9))  # one that nobody named
    np.testing.assert_array_equal(model.classes_, [0, 1, 2, 3, 7, 9])


def test_a_class_without_rows_selects_atoms_as_its_prior_says():
    # With a_o = b_o the mean of Beta(a_o / K, b_o (K - 1) / K) is 1 / K, K atoms at the start.
    X, Y = cones()
    model = make(n_initial_atoms=25).partial_fit(X[Y < 2], Y[Y < 2], classes=[0, 1, 2])
    np.testing.assert_allclose(model.selection_probability_[2], 1 / 25, rtol=1e-12)


def test_a_batch_may_be_one_row_or_one_class_or_come_twice():
    _, Y = cones()
    X_TEST, Y_TEST = new_cones()
    model = learn([thirds()[0], [50], np.flatnonzero(Y == 1)[10:], thirds()[0]])
    assert model.score(X_TEST, Y_TEST) > 0.9


def test_rows_may_come_one_by_one_from_the_start():
    X, Y = cones()
    model = learn([[i] for i in range(12)], n_sweeps=2, n_chains=1)
    np.testing.assert_array_equal(model.classes_, np.arange(4))
    assert model.score(X[:12], Y[:12]) > 0.5


def test_a_batch_in_another_dtype_is_learned_in_the_first_one_s():
    X, Y = cones()
    X_TEST, Y_TEST = new_cones()
    model = make().partial_fit(X[:60].astype(np.float32), Y[:60]).partial_fit(X[60:], Y[60:])
    assert model.atoms_.dtype == np.float32
    assert model.score(X_TEST, Y_TEST) > 0.9


def test_the_number_of_atoms_has_a_bound():
    model = make(n_initial_atoms=15)
    for _ in range(3):
        learn(thirds(), model)
        assert model.n_atoms_ <= 2 * 15


def test_forgetting_changes_what_is_learned():
    X_TEST, Y_TEST = new_cones()
    whole, part = learn(thirds()), learn(thirds(), forgetting=0.3)
    rows = part.online_.chains[0].priors.seen.n_rows.sum()
    assert rows == pytest.approx(40 * (1 + 0.3) + 36 * 0.09)  # a tenth of the first is left out
    assert not np.array_equal(whole.label_atoms_, part.label_atoms_)
    assert part.score(X_TEST, Y_TEST) > 0.9


def test_held_out_rows_of_earlier_batches_count_half_with_every_batch():
    X, Y = cones()
    model, counted = make(n_nonzero=3), []
    for rows in thirds():
        counted.append(model.partial_fit(X[rows], Y[rows]).held_out_.n_rows)
    # By each of two chains: four rows that it left out, and forty that it had not learned yet.
    assert counted == [2 * 4, 2 * (40 + 2), 2 * (40 + 20 + 1)]


def test_chains_that_choose_for_a_batch_with_new_classes_forget_as_the_others_do():
    _, Y = cones()
    old, new = np.flatnonzero(Y < 2), np.flatnonzero(Y >= 1)
    whole, part = (learn([old, new], coder=Forward(3), forgetting=factor) for factor in (1.0, 0.01))
    assert whole.held_out_.n_rows == part.held_out_.n_rows == 2 * (len(new) + len(old) / 2) / 10
    assert (whole.held_out_.log_loss != part.held_out_.log_loss).all()


@pytest.mark.parametrize("way", ["skops", "pickle"])
def test_a_saved_model_goes_on_bit_by_bit(way, tmp_path):
    first, second, third = thirds()
    model = learn([first, second])
    if way == "skops":
        again = load(save(model, tmp_path / "model.skops"))
    else:
        again = pickle.loads(pickle.dumps(model))
    assert_same(learn([third], model), learn([third], again))


def test_a_clone_has_no_memory():
    X, Y = cones()
    model = clone(learn(thirds()))
    assert_same(model.partial_fit(X, Y), make().fit(X, Y))


# ------------------------------------------------------------------------------ what is refused


def test_batches_of_another_width_or_with_infinities_are_refused_and_change_nothing():
    X, Y = cones()
    first, second, _ = thirds()
    model = learn([first])
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[second, 1:], Y[second])
    bad = X[second].copy()
    bad[3, 2] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        model.partial_fit(bad, Y[second])
    with pytest.raises(ValueError, match="every row of X is zero"):
        model.partial_fit(0 * X[second], Y[second])
    assert_same(learn([second], model), learn([first, second]))


@pytest.mark.parametrize("classifier", ["gibbs", "joint"])
def test_label_atoms_that_do_not_follow_from_sums_are_refused(classifier):
    X, Y = cones()
    with pytest.raises(ValueError, match="partial_fit needs classifier to be one of"):
        make(classifier=classifier).partial_fit(X, Y)


def test_classes_that_contradict_the_labels_are_refused():
    X, Y = cones()
    with pytest.raises(ValueError, match="that classes does not name"):
        make().partial_fit(X, Y, classes=[0, 1])
    model = make().partial_fit(X, Y)
    with pytest.raises(ValueError, match="strings in another"):
        model.partial_fit(X, Y.astype(str))


def test_classes_beyond_int64_may_come_after_small_ones():
    X, Y = cones()
    large = np.where(Y == 3, np.uint64(2**63), Y.astype(np.uint64))
    model, first = make(), Y < 3
    model.partial_fit(X[first], Y[first]).partial_fit(X, large)
    assert model.classes_.tolist() == [0, 1, 2, 2**63] and model.classes_.dtype == np.uint64
    assert model.score(X, large) > 0.9
    model.partial_fit(X[first], Y[first])
    for contrary in (-Y - 1, Y + 2**62):
        with pytest.raises(ValueError, match="Expected classes that one type tells apart"):
            make().partial_fit(X, contrary).partial_fit(X, large)


@pytest.mark.parametrize("forgetting", [0.0, -1.0, 1.5])
def test_a_forgetting_factor_outside_its_range_is_refused(forgetting):
    X, Y = cones()
    with pytest.raises(ValueError, match="forgetting"):
        make(forgetting=forgetting).partial_fit(X, Y)


# --------------------------------------------------------------------------- without labels


def test_a_dictionary_is_learned_in_batches():
    X, _ = cones()
    X_TEST, _ = new_cones()
    rows = X_TEST / np.linalg.norm(X_TEST, axis=1, keepdims=True)
    times = []
    for seed in range(5):
        whole, stream = (
            BetaProcessDictionary(n_sweeps=4, random_state=seed, n_nonzero=4) for _ in range(2)
        )
        np.testing.assert_array_equal(whole.fit(X).atoms_, clone(stream).partial_fit(X).atoms_)
        for part in thirds():
            stream.partial_fit(X[part])
        left = [
            np.square(model.inverse_transform(model.transform(X_TEST)) - rows).sum()
            for model in (whole, stream)
        ]
        times.append(left[1] / left[0])
    assert np.median(times) < 2
    with pytest.raises(ValueError, match="features"):
        stream.partial_fit(X[:, 1:])


@pytest.mark.parametrize("orders", [100, 300])
@pytest.mark.parametrize("forgetting", [1e-9, 5e-324])
def test_weights_hundreds_of_orders_apart_are_learned_even_if_batches_are_forgotten(
    orders, forgetting
):
    X, Y = cones()
    rng = np.random.default_rng(0)
    model = make(forgetting=forgetting, n_chains=1, n_sweeps=2)
    for rows in thirds():
        weight = 10.0 ** rng.uniform(-orders, orders, len(rows))
        model.partial_fit(X[rows], Y[rows], sample_weight=weight)
    assert np.isfinite(model.decision_function(X)).all()


def test_the_prior_of_new_codes_counts_the_rows_of_earlier_batches():
    X, Y = cones()
    model = (
        make().partial_fit(X, Y).partial_fit(*(part[new_cones()[1] == 0] for part in new_cones()))
    )
    rows_of_class = np.bincount(Y) + np.array([(new_cones()[1] == 0).sum(), 0, 0, 0])
    for chain in model.chains_:
        mean = rows_of_class / rows_of_class.sum() @ chain.selection_probability
        np.testing.assert_allclose(chain.code_prior.probability, mean, rtol=0.1)
