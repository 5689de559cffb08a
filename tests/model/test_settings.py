"""Every setting of the model has an effect, and can be varied in a grid search."""

from dataclasses import fields

import numpy as np
import pytest
from sklearn.base import clone

from dbdl import BetaProcessDictionary, DBDLClassifier, ModelSettings, SmoothAtoms
from dbdl.coding import Forward
from dbdl.learn.chain import ChainSettings
from dbdl.learn.choice import Candidates
from dbdl.views import LabelledRows

#: A value other than the default for each setting.
OTHER = {
    "initial_ratio": 0.5,
    "n_start_nonzero": 2,
    "scan": "paper",
    "noise_precision": 1e3,
    "sample_noise": False,
    "noise_per_class": True,
    "strength_precision": 10.0,
    "strengths_counted": "all",
    "atom_precision": 1.0,
    "atom_prior": SmoothAtoms(2.0),
    "usage_a": 0.5,
    "usage_b": 0.5,
    "hyper_prior": 1.0,
    "beta_size": "current",
    "least_energy": 2.0,
    "n_atom_draws": 2,
    "keep_atom_draws": True,
    "start_selection": "half",
    "keep_copies": True,
}
BAD = {"n_start_nonzero": 0, "n_atom_draws": -1, "least_energy": -0.1} | {
    name: value
    for name, value in dict.fromkeys(OTHER, "something").items()
    if name not in ("n_start_nonzero", "n_atom_draws", "least_energy")
}
QUICK = {
    "n_sweeps": 3, "n_chains": 1, "views": "plain", "coder": Forward(2), "calibrate": False,
    "n_draws": 1, "random_state": 0,
}  # fmt: skip


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    X = np.einsum("id,idf->if", rng.random((60, 3)), rng.standard_normal((3, 3, 12))[y])
    return X + 0.05 * rng.standard_normal(X.shape), y


def result(model, rows):
    """All that a chain publishes, as bytes."""
    chain = model.fit(*rows).chains_[0]
    trace = [getattr(chain.trace, field.name) for field in fields(chain.trace)]
    drawn = np.empty(0) if chain.draws.atoms is None else chain.draws.atoms
    return [part.tobytes() for part in (chain.atoms, chain.selection_probability, *trace, drawn)]


@pytest.fixture(scope="module")
def expected(rows):
    return result(DBDLClassifier(**QUICK), rows)


def test_every_setting_is_listed_here():
    assert set(OTHER) == {field.name for field in fields(ModelSettings)} == set(BAD)
    assert set(ModelSettings().get_params()) == set(OTHER)
    defaults = ModelSettings().get_params()
    assert all(defaults[name] != value for name, value in OTHER.items())


@pytest.mark.parametrize("name", OTHER)
def test_every_setting_changes_what_is_learned(name, rows, expected):
    model = DBDLClassifier(**QUICK).set_params(**{f"model__{name}": OTHER[name]})
    assert result(model, rows) != expected


@pytest.mark.parametrize("name", OTHER)
def test_a_setting_is_the_same_by_every_way(name, rows):
    value = {name: OTHER[name]}
    given = DBDLClassifier(model=ModelSettings(**value), **QUICK)
    named = DBDLClassifier(**QUICK).set_params(**{f"model__{name}": OTHER[name]})
    assert given.get_params()[f"model__{name}"] == OTHER[name]
    assert result(given, rows) == result(named, rows) == result(clone(given), rows)


def test_no_settings_are_the_defaults(rows, expected):
    assert result(DBDLClassifier(model=ModelSettings(), **QUICK), rows) == expected


@pytest.mark.parametrize("name", [name for name in OTHER if name != "noise_per_class"])
def test_every_setting_changes_a_dictionary_too(name, rows):
    """But for the noise of each class: there is one."""
    quick = {"n_sweeps": 3, "n_draws": 1, "random_state": 0}
    other = BetaProcessDictionary(model=ModelSettings(**{name: OTHER[name]}), **quick)
    assert result(BetaProcessDictionary(**quick), rows) != result(other, rows)


@pytest.mark.parametrize("name", BAD)
def test_a_setting_out_of_range_is_named(name, rows):
    with pytest.raises(ValueError, match=f"'{name}' parameter of ModelSettings"):
        DBDLClassifier(model=ModelSettings(**{name: BAD[name]}), **QUICK).fit(*rows)


def test_settings_of_one_estimator_are_not_those_of_another():
    one, other = DBDLClassifier(), DBDLClassifier()
    one.set_params(model__scan="paper")
    assert one.model.scan == "paper" and other.model is None
    copied = clone(one).set_params(model__scan="collapsed")
    assert (one.model.scan, copied.model.scan) == ("paper", "collapsed")
    with pytest.raises(ValueError, match="Invalid parameter 'skan'"):
        other.set_params(model__skan="paper")


def test_the_settings_of_a_chain_are_those_of_the_model_its_length_and_its_size():
    own = {field.name for field in fields(ChainSettings)}
    others = {"n_sweeps", "n_initial_atoms", "n_draws", "initial_atoms", "feature_precision"}
    assert own == {*OTHER} | others
    model = DBDLClassifier(n_sweeps=9, n_initial_atoms=7, n_draws=5)
    model.classes_ = np.arange(2)
    rows = LabelledRows(np.ones((4, 2)), np.arange(4) % 2, 2)
    problem, _ = model._problem(rows, Candidates([Forward(1)]))
    settings = problem.settings
    assert (settings.n_sweeps, settings.n_initial_atoms, settings.n_draws) == (9, 7, 5)
    parts = settings.get_params()
    assert {name: parts[name] for name in OTHER} == ModelSettings().get_params()


def test_settings_show_what_is_not_the_default():
    assert repr(ModelSettings(scan="paper")) == "ModelSettings(scan='paper')"
    with pytest.raises(TypeError):
        ModelSettings("paper")


PER_CLASS = ("noise_precision", "usage_a", "usage_b")


@pytest.mark.parametrize("name", PER_CLASS)
def test_a_value_per_class_is_a_mapping_or_an_array_and_equal_values_are_one_value(rows, name):
    def fit(value):
        model = ModelSettings(noise_per_class=True, **{name: value})
        return result(DBDLClassifier(model=model, **QUICK), rows)

    one, mapping = fit(2.5e3), fit({2: 2.5e3, 0: 2.5e3, 1: 2.5e3})
    assert mapping == fit([2.5e3] * 3) == fit(np.full(3, 2.5e3))
    assert mapping[:2] == one[:2]  # the density in the trace is summed in another order
    assert fit({0: 1.0, 1: 2.5e3, 2: 2.5e3}) == fit([1.0, 2.5e3, 2.5e3]) != one


@pytest.mark.parametrize("name", PER_CLASS)
@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({0: 1.0, 1: 2.0}, r"has values for the classes \[0, 1\], but y has the classes"),
        ({0: 1.0, 1: 2.0, "two": 3.0}, "one value for each"),
        ([1.0, 2.0], "3 of them, one per class"),
        ([[1.0, 2.0, 3.0]], "3 of them, one per class"),
        ([1.0, 2.0, np.nan], "3 of them, one per class"),
        ([1.0, 2.0, -1.0], "3 of them, one per class"),
        ([1.0, 2.0, "x"], "Expected numbers"),
    ],
)
def test_values_for_other_classes_are_refused(rows, name, value, message):
    model = ModelSettings(noise_per_class=True, **{name: value})
    with pytest.raises(ValueError, match=f"{name} .*{message}"):
        DBDLClassifier(model=model, **QUICK).fit(*rows)


def test_a_noise_precision_per_class_needs_noise_per_class(rows):
    values = [1e3, 1e4, 1e5]
    with pytest.raises(ValueError, match="noise_per_class=True, or sample_noise=False"):
        DBDLClassifier(model=ModelSettings(noise_precision=values), **QUICK).fit(*rows)
    fixed = ModelSettings(noise_precision=values, sample_noise=False)
    trace = DBDLClassifier(model=fixed, **QUICK).fit(*rows).trace_
    np.testing.assert_allclose(trace.noise_precision, np.mean(values))


def test_settings_per_class_are_not_for_batches(rows):
    model = DBDLClassifier(model=ModelSettings(usage_a=[1.0, 2.0, 3.0]), **{**QUICK, "n_draws": 0})
    with pytest.raises(ValueError, match="partial_fit with atom_prior or with settings per class"):
        model.partial_fit(*rows)
