"""The smallest dictionary is taken that rows left out find about as good as the best."""

from types import SimpleNamespace

import numpy as np
import pytest

from dbdl import DBDLClassifier
from dbdl.coding import Forward
from dbdl.learn.chain import ChainSettings
from dbdl.learn.choice import Choice
from dbdl.learn.ensemble import Ensemble
from dbdl.learn.problem import LabelSettings, Problem
from dbdl.learn.sizes import each_size, smallest_good, with_sizes
from dbdl.persistence import load, save
from dbdl.views import AUTOMATIC, AUTOMATIC_FOR_FEW_ATOMS, automatic_views, make_views

QUICK = {"n_sweeps": 3, "n_chains": 2, "coder": Forward(2), "random_state": 0}


def make_problem(n_rows=400, n_classes=4, **settings):
    y = np.arange(n_rows) % n_classes
    settings = ChainSettings(**settings)
    views = make_views("auto")
    return Problem(np.ones((n_rows, 3)), y, n_classes, settings, LabelSettings(), 8, views=views)


def suited(problem):
    return problem.with_views(make_views("auto", automatic=automatic_views(problem.atoms_per_row)))


def all_sizes(problem):
    return each_size(with_sizes(problem), suited)


# ------------------------------------------------------------------------------------- the sizes


def test_sizes_grow_by_two_up_to_the_default():
    problem = make_problem()
    *smaller, last = all_sizes(problem)
    distinct = problem.settings.n_distinct(360)  # the rows of which a tenth is left out
    found = [sized.settings.n_initial_atoms for sized in smaller]
    assert found == [round(distinct / share) for share in (16, 8, 4, 2)]
    assert last.settings == problem.settings


def test_the_expected_number_of_distinct_rows_is_right():
    settings, rng = ChainSettings(), np.random.default_rng(0)
    drawn = [len(np.unique(rng.integers(300, size=450))) for _ in range(200)]
    assert settings.n_distinct(300) == pytest.approx(np.mean(drawn), abs=1)
    assert ChainSettings(n_initial_atoms=50).n_distinct(300) == 50
    assert ChainSettings(n_initial_atoms=500).n_distinct(300) == 300


def test_few_atoms_have_the_views_for_few_atoms():
    *few, half, last = all_sizes(make_problem())
    assert all(sized.views == make_views(AUTOMATIC_FOR_FEW_ATOMS) for sized in few)
    assert half.views == make_views(AUTOMATIC)
    assert last.views == make_problem().views  # as they were given


def test_no_size_has_less_than_two_atoms_per_class_and_none_is_tried_twice():
    sizes = all_sizes(make_problem(60, n_classes=10))
    found = [sized.settings.n_initial_atoms for sized in sizes[:-1]]
    assert min(found) >= 20 and len(set(found)) == len(found)
    assert len(all_sizes(make_problem(12, n_classes=6))) == 1


def test_chains_of_all_sizes_have_numbers_of_their_own():
    numbers = [n for sized in all_sizes(make_problem()) for n in sized.numbers_of(sized.shares())]
    assert sorted(numbers) == list(range(5 * 8))


def test_all_sizes_leave_out_the_same_rows():
    first, *others = (sized.shares() for sized in all_sizes(make_problem()))
    for shares in others:
        for one, other in zip(first, shares, strict=True):
            np.testing.assert_array_equal(one.fold.held_out, other.fold.held_out)


# ------------------------------------------------------------------------------------- the choice


def ensemble(n_atoms, accuracy, n_rows=100):
    problem = make_problem(n_initial_atoms=n_atoms)
    members = [SimpleNamespace(atoms=SimpleNamespace(atoms=np.ones((n_atoms, 3))))] * 2
    choice = Choice((Forward(1),), np.ones(1), 1.0, None, accuracy, 1 - accuracy, n_rows)
    return Ensemble(problem, members, choice)


@pytest.mark.parametrize(
    ("accuracy", "expected"),
    [
        # one standard error of 90 % of 100 rows is 3 points
        ((0.5, 0.88, 0.9, 0.89), 1),
        ((0.5, 0.86, 0.9, 0.89), 2),
        ((0.9, 0.9, 0.9, 0.9), 0),
        ((0.1, 0.2, 0.3, 0.9), 3),
        ((0.9, 1.0, 1.0, 1.0), 1),  # without errors there is no standard error
    ],
)
def test_the_smallest_size_within_one_standard_error_of_the_best_is_taken(accuracy, expected):
    ensembles = [ensemble(10 * 2**k, a) for k, a in enumerate(accuracy)]
    chosen, curve = smallest_good(ensembles)
    assert chosen is ensembles[expected] and curve.chosen == expected
    np.testing.assert_array_equal(curve.accuracy, accuracy)
    np.testing.assert_array_equal(curve.n_atoms, [10, 20, 40, 80])
    np.testing.assert_array_equal(curve.n_initial_atoms, [10, 20, 40, 80])
    np.testing.assert_allclose(curve.standard_error**2 * 100, curve.accuracy * (1 - curve.accuracy))
    assert "chosen" in str(curve).splitlines()[expected + 1]


def test_without_rows_left_out_the_default_size_is_taken():
    ensembles = [ensemble(n, 0.0, n_rows=0) for n in (10, 20, 40)]
    assert smallest_good(ensembles)[0] is ensembles[-1]


# --------------------------------------------------------------------------------- the classifier


def cones(n_rows=300, n_dimensions=2, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n_rows) % 3
    bases = np.random.default_rng(5).standard_normal((3, n_dimensions, 15))
    return np.einsum("id,idf->if", rng.random((n_rows, n_dimensions)), bases[y]), y


def test_rows_that_a_few_atoms_explain_have_a_small_dictionary(tmp_path):
    (X, y), (X_new, y_new) = cones(), cones(seed=1)
    model = DBDLClassifier(n_initial_atoms="auto", **QUICK).fit(X, y)
    curve, whole = model.size_curve_, DBDLClassifier(**QUICK).fit(X, y)
    assert model.n_atoms_ < 0.3 * whole.n_atoms_ and model.score(X_new, y_new) > 0.95
    assert model.n_atoms_ / 2 == curve.n_atoms[curve.chosen]
    assert len(model.chains_) == 2 and whole.size_curve_ is None
    again = load(save(model, tmp_path / "model.skops"))
    assert again.predict_proba(X_new).tobytes() == model.predict_proba(X_new).tobytes()
    np.testing.assert_array_equal(again.size_curve_.accuracy, curve.accuracy)


@pytest.mark.parametrize("n_dimensions", [2, 6])
def test_a_size_is_that_of_a_fit_with_the_same_number_of_atoms(n_dimensions):
    X, y = cones(n_dimensions=n_dimensions)
    settings = {"coder": Forward(2), "random_state": 0}  # views, rounds and sweeps by the size
    model = DBDLClassifier(n_initial_atoms="auto", **settings).fit(X, y)
    curve = model.size_curve_
    n_atoms = int(curve.n_initial_atoms[curve.chosen])
    assert n_atoms > 0  # not the default size, which has none
    one = DBDLClassifier(n_initial_atoms=n_atoms, **settings).fit(X, y)
    np.testing.assert_array_equal(model.label_atoms_, one.label_atoms_)
    assert model.temperature_ == one.temperature_


def test_a_size_is_chosen_on_rows_left_out_even_if_nothing_else_is():
    X, y = cones(n_dimensions=5)
    model = DBDLClassifier(n_initial_atoms="auto", calibrate=False, **QUICK).fit(X, y)
    assert model.temperature_ == 1.0 and model.held_out_.n_rows == 2 * 30
    assert model.size_curve_.accuracy.min() > 0.4 and model.size_curve_.accuracy.max() > 0.8


def test_classes_of_one_row_each_have_the_default_size():
    X, y = cones(3)
    model = DBDLClassifier(n_initial_atoms="auto", **QUICK).fit(X, y)
    assert model.size_curve_.chosen == len(model.size_curve_.accuracy) - 1
    np.testing.assert_array_equal(model.atoms_, DBDLClassifier(**QUICK).fit(X, y).atoms_)


def test_the_number_of_threads_does_not_matter():
    X, y = cones()
    one, other = (
        DBDLClassifier(n_initial_atoms="auto", n_jobs=n, **QUICK).fit(X, y) for n in (1, 3)
    )
    np.testing.assert_array_equal(one.label_atoms_, other.label_atoms_)
    np.testing.assert_array_equal(one.size_curve_.log_loss, other.size_curve_.log_loss)


def test_batches_do_not_choose_a_size():
    X, y = cones()
    with pytest.raises(ValueError, match="which needs all rows at once"):
        DBDLClassifier(n_initial_atoms="auto", **QUICK).partial_fit(X, y)
    model = DBDLClassifier(n_initial_atoms="auto", **QUICK).fit(X, y)
    with pytest.warns(UserWarning, match="starts anew"):
        model.set_params(n_initial_atoms=20).partial_fit(X, y)
    assert model.size_curve_ is None
