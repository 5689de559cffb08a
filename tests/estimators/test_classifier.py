"""Claims about DBDLClassifier beyond scikit-learn's contract."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from cones import make_cones
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV

from dbdl import DBDLClassifier
from dbdl.backends import NumbaBackend
from dbdl.learn.ensemble import encode_rows
from dbdl.learn.held_out import Coder, every_coder

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


def test_published_atoms_have_unit_norm_and_chains_are_stacked(model):
    np.testing.assert_allclose(np.linalg.norm(model.atoms_, axis=1), 1.0, rtol=1e-12)
    assert model.components_ is model.atoms_
    np.testing.assert_array_equal(model.atoms_, np.concatenate([c.atoms for c in model.chains_]))
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


def test_auto_chooses_the_number_of_nonzeros_with_the_least_held_out_loss(model):
    choice = model.held_out_
    chosen = choice.coders[int(np.argmin(choice.log_loss))]
    assert (model.selection_, model.n_nonzero_, model.path_average_) == chosen
    assert {c.path_average for c in choice.coders} == {False, True}
    assert {c.selection for c in choice.coders} == {"forward", "orthogonal", "lasso"}
    assert choice.n_rows == 60  # every row is left out once
    assert model.transform(make_cones()[0]).getnnz(axis=1).max() <= 2 * model.n_nonzero_


def test_an_integer_fixes_the_number_of_nonzeros(problem):
    model = DBDLClassifier(n_nonzero=3, **QUICK).fit(*problem)
    assert model.n_nonzero_ == 3 and {c.n_nonzero for c in model.held_out_.coders} == {3}


def test_a_path_average_is_the_mean_of_the_codes_along_the_path(problem, new_rows):
    fixed = {**QUICK, "selection": "forward"}
    averaged = DBDLClassifier(n_nonzero=10, path_average=True, **fixed).fit(*problem)
    lengths = averaged._coder().lengths
    assert lengths == (3, 4, 5, 7, 10)
    plain = [
        DBDLClassifier(n_nonzero=n, path_average=False, **fixed).fit(*problem) for n in lengths
    ]
    expected = sum(model.transform(new_rows[0]).toarray() for model in plain) / len(plain)
    np.testing.assert_allclose(averaged.transform(new_rows[0]).toarray(), expected, atol=1e-12)


def test_codes_of_the_lasso_have_at_most_so_many_non_zeros_and_a_row_alone_has_the_same(
    problem, new_rows
):
    model = DBDLClassifier(selection="lasso", n_nonzero=3, **QUICK).fit(*problem)
    codes = model.transform(new_rows[0])
    assert codes[:, : len(model.chains_[0].atoms)].getnnz(axis=1).max() == 3
    np.testing.assert_array_equal(model.transform(new_rows[0][:1]).toarray(), codes[:1].toarray())
    assert "lasso" in str(model._coder())


def test_codes_of_the_lasso_are_those_that_held_out_rows_chose_in_float32_too():
    X, y = make_cones(n_rows=120)
    X = np.vstack([X, X + 1e-4]).astype(np.float32)  # near copies
    model = DBDLClassifier(selection="lasso", n_nonzero=5, **QUICK).fit(X, np.tile(y, 2))
    rows = model._rows(X, reset=False)
    for chain in model.chains_:
        (expected,) = encode_rows(rows, chain.atoms, None, [model._coder()], NumbaBackend())
        found = chain.encode(rows, model._coder(), NumbaBackend())
        np.testing.assert_array_equal(found.toarray(), expected.toarray())


def test_on_a_device_without_the_lasso_it_is_not_among_the_coders(problem, monkeypatch):
    monkeypatch.setattr(NumbaBackend, "has_lasso", False)
    model = DBDLClassifier(**QUICK).fit(*problem)
    assert {c.selection for c in model.held_out_.coders} == {"forward", "orthogonal"}


def test_of_many_rows_two_folds_are_left_out():
    X, y = make_cones(n_rows=250)
    model = DBDLClassifier(**{**QUICK, "n_sweeps": 1, "n_nonzero": 2}).fit(X, y)
    assert len(y) > 600 and model.held_out_.n_rows == 2 * len(y) // 5


def test_every_second_length_of_the_lasso_is_tried_beside_other_rules():
    lengths = [1, 2, 3, 4]
    assert [c.n_nonzero for c in every_coder(lengths) if c.selection == "lasso"] == [2, 4]
    assert every_coder([3], ["forward", "lasso"], [False]) == [
        Coder("forward", 3), Coder("lasso", 3)
    ]  # fmt: skip
    assert [c.n_nonzero for c in every_coder(lengths, ["lasso"])] == lengths
    assert not any(c.selection == "lasso" for c in every_coder(lengths, path_averages=[True]))


def test_where_no_row_can_be_left_out_the_coder_is_the_sparsest():
    rng = np.random.default_rng(0)
    model = DBDLClassifier(n_sweeps=1, n_chains=1, random_state=0)
    model.fit(rng.standard_normal((4, 40)), np.arange(4))
    assert model.held_out_ is None and model._coder() == Coder("forward", 1)


def test_codes_of_the_lasso_cannot_be_averaged(problem):
    with pytest.raises(ValueError, match=r"never averaged.*path_average=False"):
        DBDLClassifier(selection="lasso", path_average=True, **QUICK).fit(*problem)


@pytest.mark.parametrize("classifier", ["ridge", "recoded", "gibbs", "joint"])
@pytest.mark.parametrize("scan", ["collapsed", "paper"])
def test_every_classifier_and_scan_learns(problem, classifier, scan):
    model = DBDLClassifier(classifier=classifier, scan=scan, **QUICK).fit(*problem)
    X, y = make_cones(n_rows=120)
    assert model.score(X[60:], y[60:]) > 0.8


@pytest.mark.parametrize(
    "settings",
    [
        {"noise_per_class": True},
        {"sample_noise": False},
        {"strengths_counted": "all"},
        {"beta_size": "current"},
        {"n_atom_draws": 3},
        {"least_energy": 0.0},
        {"n_initial_atoms": 15},
        {"normalize": False, "noise_precision": 1e3},
        {"selection": "orthogonal"},
        {"selection": "lasso"},
        {"selection": "lasso", "n_nonzero": 3, "normalize": False, "noise_precision": 1e3},
        {"path_average": True},
    ],
    ids=lambda s: " ".join(map(str, s.items())),
)
def test_every_setting_learns(problem, settings):
    model = DBDLClassifier(**{**QUICK, **settings}).fit(*problem)
    X, y = make_cones(n_rows=120)
    assert model.score(X[60:], y[60:]) > 0.8


def test_the_number_of_initial_atoms_bounds_each_chain(problem):
    model = DBDLClassifier(n_initial_atoms=15, **QUICK).fit(*problem)
    assert all(len(chain.atoms) <= 15 for chain in model.chains_)


def test_the_paper_s_settings():
    model = DBDLClassifier.paper(noise_precision=1e9)
    expected = {
        "n_chains": 1, "n_sweeps": 35, "initial_ratio": 1.5, "n_initial_atoms": None,
        "n_nonzero": 50, "selection": "orthogonal", "path_average": False,
        "classifier": "gibbs", "scan": "paper",
        "sample_noise": True, "noise_precision": 1e9, "strength_precision": 1.0,
        "strengths_counted": "all", "atom_precision": None, "usage_a": None, "usage_b": None,
        "hyper_prior": 1e-6, "beta_size": "current", "least_energy": 0.0, "normalize": True,
    }  # fmt: skip
    parameters = model.get_params()
    assert {name: parameters[name] for name in expected} == expected


def test_inverse_transform_averages_the_chains(model, problem):
    X, _ = problem
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    codes = clone(model).set_params(n_nonzero=6).fit(*problem)
    rows = codes.inverse_transform(codes.transform(X))
    assert rows.shape == X.shape
    assert ((rows - unit) ** 2).sum() < 0.05 * len(X)
    np.testing.assert_allclose(
        rows, codes.inverse_transform(codes.transform(X).toarray()), atol=1e-12
    )
    with pytest.raises(ValueError, match="pass what transform returned"):
        codes.inverse_transform(np.zeros((2, 3)))


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


def test_feature_names_of_the_codes(model):
    names = model.get_feature_names_out()
    assert len(names) == model.n_atoms_ and names[0] == "dbdlclassifier0"


def test_verbose_prints_sweeps(problem, capsys):
    DBDLClassifier(n_chains=1, n_sweeps=5, n_nonzero=3, verbose=1, random_state=0).fit(*problem)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5 and "sweep   5/5" in lines[-1] and "atoms" in lines[-1]


def test_verbose_numbers_the_sweeps_of_every_chain_from_one_on(problem, capsys):
    DBDLClassifier(n_nonzero=3, verbose=2, **QUICK).fit(*problem)
    lines = capsys.readouterr().out.splitlines()
    for chain in (1, 2):
        own = [line for line in lines if line.startswith(f"chain {chain}/2")]
        assert [line.split()[3] for line in own] == [f"{n}/6" for n in range(1, 7)]


def test_scikit_learn_callbacks_see_every_sweep(problem):
    pytest.importorskip("sklearn.callback", reason="callbacks came with scikit-learn 1.9")

    class Counter:
        def __init__(self):
            self.ended = []

        def setup(self, estimator, context): ...
        def teardown(self, estimator, context): ...
        def on_fit_task_begin(self, estimator, context, *, X=None, y=None, metadata=None): ...
        def on_fit_task_end(self, estimator, context, *, X=None, y=None, metadata=None):
            self.ended.append(context.task_name)

    counter = Counter()
    DBDLClassifier(n_nonzero=3, n_jobs=2, **QUICK).set_callbacks(counter).fit(*problem)
    assert counter.ended.count("sweep") == 12
    assert counter.ended.count("chain") == 2 and counter.ended[-1] == "fit"


def test_scikit_learn_callbacks_are_told_the_number_and_the_record_of_every_sweep(problem):
    pytest.importorskip("sklearn.callback", reason="callbacks came with scikit-learn 1.9")

    class Recorder:
        def __init__(self):
            self.events, self.records = {}, {}

        def setup(self, estimator, context): ...
        def teardown(self, estimator, context): ...
        def on_fit_task_begin(self, estimator, context, *, X=None, y=None, metadata=None):
            self.note("begin", context)

        def on_fit_task_end(self, estimator, context, *, X=None, y=None, metadata=None):
            self.note("end", context)
            if context.task_name == "sweep":
                self.records[context.parent.task_id, context.task_id] = metadata

        def note(self, event, context):
            chain = context if context.task_name == "chain" else context.parent
            if chain is not None:
                number = context.task_id if context is not chain else None
                self.events.setdefault(chain.task_id, []).append((event, number))

    recorder = Recorder()
    model = DBDLClassifier(n_nonzero=3, n_jobs=2, **QUICK).set_callbacks(recorder).fit(*problem)
    sweeps = [(event, number) for number in range(6) for event in ("begin", "end")]
    expected = [("begin", None), *sweeps, ("end", None)]
    assert recorder.events == {0: expected, 1: expected}
    for name in ("n_atoms", "log_joint", "noise_precision"):
        told = [[recorder.records[chain, n][name] for n in range(6)] for chain in range(2)]
        np.testing.assert_array_equal(told, getattr(model.trace_, name))
