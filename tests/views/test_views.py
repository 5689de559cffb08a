"""Every view, walked by name, does what its name says, with the same bits everywhere."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from same_records import assert_same_record
from slow_view import SlowView

from dbdl import DBDLClassifier, ModelSettings, open_rows
from dbdl._arrays import unit_rows
from dbdl.backends import NumbaBackend
from dbdl.coding import Forward
from dbdl.learn.chain import ChainSettings
from dbdl.learn.journal import Journal
from dbdl.learn.members import learn_member
from dbdl.learn.problem import LabelSettings, Problem
from dbdl.rows import lazy_rows
from dbdl.views import (
    AUTOMATIC,
    AUTOMATIC_FOR_FEW_ATOMS,
    AUTOMATIC_LINEAR,
    MORE_FOR_FEW_ROWS,
    VIEWS,
    LabelledRows,
    View,
    automatic_views,
    make_views,
    view_named,
)
from dbdl.views import view as view_module
from dbdl.views.sums import Conversion, sum_by_class
from dbdl.views.whitening import spectrum_of_products, spectrum_of_rows

LINEAR = [
    unit + base + plus for base in VIEWS for unit in ("", "unit ") for plus in ("", " + constant")
]
KERNELS = ["kernel of plain", "kernel of standardised + constant", "kernel of unit whitened"]
every_linear_view = pytest.mark.parametrize("name", LINEAR)
every_view = pytest.mark.parametrize("name", LINEAR + KERNELS)
every_type = pytest.mark.parametrize("dtype", [np.float64, np.float32])
HUGE = {np.float64: 1e200, np.float32: 1e30}


def make_rows(n_rows=90, n_features=6, n_classes=3, dtype=np.float64, seed=0):
    """Rows far from the origin whose features vary differently and together."""
    rng = np.random.default_rng(seed)
    class_of_row = np.arange(n_rows) % n_classes
    mix = rng.standard_normal((n_features, n_features)) * np.geomspace(0.1, 3, n_features)
    X = 2 * rng.standard_normal((n_classes, n_features))[class_of_row] + 5
    X = X + rng.standard_normal((n_rows, n_features)) @ mix
    return LabelledRows(X.astype(dtype), class_of_row, n_classes)


def fit(name, rows):
    return view_named(name).fit(rows)


# --------------------------------------------------------------------------------- by the book


@every_linear_view
@pytest.mark.parametrize("shape", [(30, 6), (30, 70)], ids=["more rows", "more features"])
def test_a_view_of_weighted_rows_is_that_of_repeated_rows(name, shape):
    rows, weight = make_rows(*shape), np.arange(30) % 3 + 1
    again = np.repeat(np.arange(30), weight)
    repeated = rows._replace(X=rows.X[again], class_of_row=rows.class_of_row[again])
    expected = fit(name, repeated)
    found = fit(name, rows._replace(sample_weight=weight.astype(np.float64)))
    for part in ("mean", "scale", "size", "length", "matrix"):
        if getattr(expected, part) is not None:
            np.testing.assert_allclose(
                getattr(found, part), getattr(expected, part), rtol=1e-6, atol=1e-9, err_msg=part
            )


@every_linear_view
@pytest.mark.parametrize("shape", [(90, 6), (30, 50)], ids=["more rows", "more features"])
def test_a_view_is_the_one_of_the_book(name, shape):
    rows = make_rows(*shape)
    slow = SlowView(view_named(name), rows.X, rows.class_of_row)
    queries = make_rows(20, shape[1], seed=1).X
    found = fit(name, rows).apply(queries)
    assert found.shape == (20, shape[1] + ("constant" in name))
    np.testing.assert_allclose(found, slow.apply(queries), atol=1e-9)


@pytest.mark.parametrize("shape", [(90, 6), (30, 50), (50, 50)])
def test_the_covariance_is_shrunk_by_the_rule_of_ledoit_and_wolf(shape):
    rows = make_rows(*shape)
    slow = SlowView(view_named("whitened"), rows.X, rows.class_of_row)
    convert, ones = Conversion(0, False), np.ones(shape[1])
    centres = rows.class_means(convert)
    direct = spectrum_of_products(*rows.residual_products(convert, centres, ones), shape[0])
    assert direct.shrinkage() == pytest.approx(slow.shrinkage, rel=1e-9)
    assert 0 < slow.shrinkage < 1


@pytest.mark.parametrize("exponent", [-0.5, -0.25, 1.0])
@pytest.mark.parametrize("n_rows", [2, 7, 30])
def test_fewer_rows_than_features_give_the_power_of_the_direct_form(exponent, n_rows):
    rows = make_rows(n_rows, 30, n_classes=2)
    convert, ones = Conversion(0, False), np.ones(30)
    centres = rows.class_means(convert)
    direct = spectrum_of_products(*rows.residual_products(convert, centres, ones), n_rows)
    dual = spectrum_of_rows(rows.residuals(convert, centres, ones))
    assert dual.shrinkage() == pytest.approx(direct.shrinkage(), rel=1e-9)
    expected = direct.power(exponent, 1e-14)
    np.testing.assert_allclose(
        dual.power(exponent, 1e-14), expected, atol=1e-9 * np.abs(expected).max()
    )


def mapped(view, X):
    """Rows of a view with a constant coordinate before they were scaled to unit norm."""
    rows = view.apply(X)
    return rows[:, :-1] / rows[:, -1:] * view.size


@pytest.mark.parametrize("name", ["whitened", "scaled and whitened", "unit whitened"])
def test_the_noise_of_many_whitened_rows_is_white(name):
    rows = make_rows(200_000, 5)  # so many that the covariance is hardly shrunk
    seen = mapped(fit(f"{name} + constant", rows), rows.X)
    residuals = (
        seen
        - np.array([seen[rows.class_of_row == c].mean(axis=0) for c in range(3)])[rows.class_of_row]
    )
    np.testing.assert_allclose(residuals.T @ residuals / len(rows.X), np.eye(5), atol=0.05)


def test_half_whitening_twice_is_whitening():
    rows = make_rows(6000, 5)
    once, half = (fit(f"{name} + constant", rows) for name in ("whitened", "half-whitened"))
    np.testing.assert_allclose(half.matrix @ half.matrix, once.matrix, rtol=1e-9)


def test_rows_of_a_class_are_added_up_in_their_order():
    rng = np.random.default_rng(0)
    rows, classes = rng.standard_normal((300, 7)), rng.integers(0, 4, 300)
    expected = np.zeros((5, 7))  # no row has the last class
    np.add.at(expected, classes, rows)
    np.testing.assert_array_equal(sum_by_class(rows, classes, 5), expected)
    np.testing.assert_array_equal(sum_by_class(np.asfortranarray(rows), classes, 5), expected)


def test_standardised_features_have_mean_0_and_variance_1():
    rows = make_rows(500, 5)
    seen = mapped(fit("standardised + constant", rows), rows.X)
    np.testing.assert_allclose(seen.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(seen.var(axis=0), 1)


def test_with_very_many_features_a_whitened_view_only_divides_by_standard_deviations(monkeypatch):
    rows = make_rows()
    assert fit("whitened", rows).matrix is not None
    monkeypatch.setattr(view_module, "MOST_WHITENED", 5)
    only_scales = View(centred=True, scale="within").fit(rows)
    for name in ("whitened", "half-whitened", "scaled and whitened"):
        view = fit(name, rows)
        assert view.matrix is None
        np.testing.assert_array_equal(view.apply(rows.X), only_scales.apply(rows.X))


def test_names_of_classes_do_not_matter():
    rows = make_rows()
    other = rows._replace(class_of_row=2 - rows.class_of_row)
    assert_same_record(fit("scaled and whitened", other), fit("scaled and whitened", rows))


# ----------------------------------------------------------------------------------- same bits


@pytest.mark.bits
@every_view
@every_type
def test_a_row_alone_has_the_bits_that_it_has_in_a_batch(name, dtype):
    rows = make_rows(700, 6, dtype=dtype)
    view = fit(name, rows)
    together = view.apply(rows.X)
    assert together.dtype == dtype and together.flags.c_contiguous
    for i in (0, 255, 256, 699):
        assert view.apply(rows.X[i : i + 1]).tobytes() == together[i].tobytes()
    assert view.apply(rows.X[100:400]).tobytes() == together[100:400].tobytes()
    assert view.apply(rows.X[:0]).shape == (0, view.n_features)


@every_view
def test_the_number_of_threads_changes_no_bit(name):
    rows = make_rows(20_000, 4, dtype=np.float32)
    one, three = (fit(name, rows._replace(n_threads=n)) for n in (1, 3))
    assert_same_record(three, one)
    assert one.apply(rows.X, 3).tobytes() == one.apply(rows.X).tobytes()


@pytest.mark.bits
@every_view
@every_type
@pytest.mark.parametrize("shape", [(20_000, 4), (30, 50)])
def test_rows_that_are_read_in_parts_give_the_bits_of_rows_in_memory(tmp_path, name, dtype, shape):
    rows = make_rows(*shape, dtype=dtype)
    np.save(tmp_path / "rows.npy", rows.X)
    lazy = lazy_rows(open_rows(tmp_path / "rows.npy")[0])
    some = np.flatnonzero(np.arange(len(rows.X)) % 10 != 3)
    class_of_row = rows.class_of_row[some]
    expected = fit(name, LabelledRows(rows.X[some], class_of_row, 3))
    found = fit(name, LabelledRows(lazy.only(some), class_of_row, 3))
    assert_same_record(found, expected)
    assert lazy.through(found)[:25].tobytes() == expected.apply(rows.X[:25]).tobytes()


@every_linear_view
def test_narrow_rows_are_seen_almost_as_wide_ones(name):
    rows = make_rows()
    wide = fit(name, rows).apply(rows.X)
    narrow = rows.X.astype(np.float32)
    found = fit(name, rows._replace(X=narrow)).apply(narrow)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, wide, atol=1e-4)


# ------------------------------------------------------------------------------------ odd rows


def constant_feature(X, y):
    X[:, 0] = 0.7  # its mean has rounding errors


def large_constant_feature(X, y):
    X[:, 0] = 1e6


def zero_feature(X, y):
    X[:, 2] = 0


def copied_columns(X, y):
    X[:, 3:] = X[:, :3]


def equal_rows_in_a_class(X, y):
    X[y == 0] = X[0]


def equal_rows_in_every_class(X, y):
    X[:] = X[:3][y]


def equal_rows(X, y):
    X[:] = X[0]


def zero_rows(X, y):
    X[5:9] = 0


def one_class(X, y):
    y[:] = 0


def a_row_per_class(X, y):
    y[:] = np.arange(len(y))


def huge_rows(X, y):
    X *= X.dtype.type(HUGE[X.dtype.type])


def tiny_rows(X, y):
    X /= X.dtype.type(HUGE[X.dtype.type])


def huge_and_tiny_rows(X, y):
    huge = X.dtype.type(HUGE[X.dtype.type])
    X[::2] *= huge
    X[1::2] /= huge


def huge_and_tiny_features(X, y):
    huge = X.dtype.type(HUGE[X.dtype.type])
    X[:, 0] *= huge
    X[:, 1] /= huge


ODD = [
    constant_feature, large_constant_feature, zero_feature, copied_columns, equal_rows_in_a_class,
    equal_rows_in_every_class, equal_rows, zero_rows, one_class, a_row_per_class, huge_rows,
    tiny_rows, huge_and_tiny_rows, huge_and_tiny_features,
]  # fmt: skip


@every_view
@pytest.mark.parametrize("make_odd", ODD)
def test_odd_rows_become_finite_unit_rows(name, make_odd):
    shapes = ((60, 6), (4, 6), (1, 6), (60, 1))
    for dtype, (n_rows, n_features) in product((np.float64, np.float32), shapes):
        X, y, *_ = make_rows(n_rows, 6, dtype=dtype)
        make_odd(X, y)
        queries = make_rows(50, 6, dtype=dtype, seed=1).X
        X, queries = (np.ascontiguousarray(rows[:, :n_features]) for rows in (X, queries))
        with np.errstate(divide="raise", invalid="raise", over="raise"):
            view = fit(name, LabelledRows(X, y, int(y.max()) + 1))
            assert np.isfinite(view.restore(view.apply(X))).all()
            for seen in (view.apply(X), view.apply(queries)):
                size = np.linalg.norm(seen.astype(np.float64), axis=1)
                assert np.isfinite(seen).all()
                assert (np.isclose(size, 1, atol=1e-5) | (size == 0)).all()
                assert size.all() or not getattr(view.recipe, "constant", True)


@every_type
@pytest.mark.parametrize("name", ["standardised", "scaled and whitened", "whitened"])
@pytest.mark.parametrize("value", [0.7, 1e6, 3.3])
def test_a_constant_feature_is_not_blown_up(name, dtype, value):
    rows = make_rows(999, dtype=dtype)
    rows.X[:, 0] = value
    seen = fit(name, rows).apply(rows.X)
    assert np.abs(seen[:, 0]).max() < 1e-3
    assert np.abs(seen[:, 1:]).max() > 0.5


@every_type
@pytest.mark.parametrize("name", AUTOMATIC)
def test_the_scale_of_all_rows_does_not_matter(name, dtype):
    rows = make_rows(dtype=dtype)
    expected = fit(name, rows).apply(rows.X)
    for power in (-80, 80):  # of two, so that nothing is rounded
        scaled = np.ldexp(rows.X, power)
        np.testing.assert_array_equal(fit(name, rows._replace(X=scaled)).apply(scaled), expected)


# ------------------------------------------------------------------------------------- the way back


@every_linear_view
@pytest.mark.parametrize("shape", [(90, 6), (30, 50)])
@pytest.mark.parametrize("power", [0, -600, 600])  # of two
def test_rows_are_mapped_back(name, shape, power):
    rows = make_rows(*shape)
    X = np.ldexp(rows.X, power)
    view = fit(name, rows._replace(X=X))
    found = np.ldexp(view.restore(view.apply(X)), -power)
    mean_size = np.sqrt((rows.X**2).sum() / len(X))
    if view.recipe.constant:
        expected = mean_size * unit_rows(rows.X) if view.recipe.unit else rows.X
        np.testing.assert_allclose(found, expected, atol=1e-8 * mean_size)
    else:
        size = np.sqrt((found**2).sum() / len(X))
        assert size == pytest.approx(mean_size, rel=0.2)
        if not view.recipe.unit:
            again = view.apply(np.ldexp(found, power))
            np.testing.assert_allclose(again, view.apply(X), atol=1e-8)


def test_plain_rows_come_back_at_the_mean_size_of_the_training_rows():
    rows = make_rows()
    for name in ("plain", "unit plain"):
        view = fit(name, rows)
        found = view.restore(view.apply(rows.X))
        np.testing.assert_allclose(unit_rows(found), unit_rows(rows.X))
        size = np.sqrt((rows.X**2).sum() / len(rows.X))
        np.testing.assert_allclose(np.linalg.norm(found, axis=1), size)


@every_linear_view
def test_atoms_are_mapped_back_linearly(name):
    rows = make_rows()
    view = fit(name, rows)
    A, B = view.apply(rows.X)[:8], view.apply(rows.X)[8:16]
    back = view.restore_atoms
    np.testing.assert_allclose(back(2 * A - 3 * B), 2 * back(A) - 3 * back(B), atol=1e-9)
    assert back(A.astype(np.float32)).dtype == np.float32


@pytest.mark.parametrize("name", [name for name in LINEAR if "constant" in name])
def test_rows_made_of_atoms_come_back_as_rows_made_of_the_restored_atoms(name):
    rows = make_rows()
    view = fit(name, rows)
    atoms, codes = view.apply(rows.X)[:8], np.random.default_rng(2).random((5, 8))
    made = codes @ atoms
    share = made[:, -1:] / view.size
    np.testing.assert_allclose(
        view.restore(made), codes @ view.restore_atoms(atoms) / share, rtol=1e-9
    )


def test_plain_atoms_keep_their_unit_norm():
    rows = make_rows()
    view = fit("plain", rows)
    atoms = view.apply(rows.X)
    assert view.restore_atoms(atoms) is atoms


# ------------------------------------------------------------------------- what views are good for


def sizes_of_one_direction(n_rows=120, seed=0):
    """Two classes that differ by the size of their rows alone."""
    rng = np.random.default_rng(seed)
    class_of_row = np.arange(n_rows) % 2
    X = rng.standard_normal(5) + 0.3 * rng.standard_normal((n_rows, 5))
    return unit_rows(X) * np.where(class_of_row, 3.0, 1.0)[:, np.newaxis], class_of_row


FIT = {"n_sweeps": 3, "n_chains": 1, "coder": Forward(2), "random_state": 0}
NOISY = {"model": ModelSettings(noise_precision=1e3)}


@pytest.mark.parametrize("name", ["plain", "half-whitened", "unit whitened"])
def test_classes_that_differ_by_size_are_told_apart_by_a_constant_coordinate_only(name):
    X, y = sizes_of_one_direction()
    X_test, y_test = sizes_of_one_direction(400, seed=0)
    with_constant = DBDLClassifier(views=f"{name.removeprefix('unit ')} + constant", **FIT, **NOISY)
    assert with_constant.fit(X, y).score(X_test, y_test) > 0.95
    if name != "half-whitened":  # centred rows of two sizes lie on two sides
        without = DBDLClassifier(views=name, **FIT, **NOISY)
        assert without.fit(X, y).score(X_test, y_test) < 0.65


def test_a_member_has_not_seen_the_rows_that_it_leaves_out():
    X, y, *_ = make_rows(120, 6)
    view, settings = view_named("scaled and whitened + constant"), ChainSettings(n_sweeps=2)
    problem = Problem(X, y, 3, settings, LabelSettings(), views=(view,))
    [share] = problem.shares()
    assert len(share.fold.held_out) == 12
    changed = X.copy()
    changed[share.fold.held_out] *= -100
    first, second = (
        learn_member(replace(problem, X=rows), [Forward(2)], Journal(), {}, share, NumbaBackend())
        for rows in (X, changed)
    )
    learn = share.fold.learn
    assert_same_record(first.view, view.fit(LabelledRows(X[learn], y[learn], 3)))
    assert_same_record(second.view, first.view)
    np.testing.assert_array_equal(second.atoms.atoms, first.atoms.atoms)
    np.testing.assert_array_equal(second.label_atoms[0], first.label_atoms[0])
    assert (second.scores[0] != first.scores[0]).any()


def test_each_chain_sees_the_rows_through_the_next_view():
    X, y, *_ = make_rows(120, 6)
    names = (*AUTOMATIC, *MORE_FOR_FEW_ROWS, *AUTOMATIC[:2])
    model = DBDLClassifier(**FIT | {"n_chains": len(names)}).fit(X, y)
    assert [chain.view.recipe for chain in model.chains_] == [view_named(name) for name in names]
    few = DBDLClassifier(**FIT | {"n_chains": 2}, n_initial_atoms=12).fit(X, y)
    assert few.chains_[0].view.recipe == view_named(AUTOMATIC_FOR_FEW_ATOMS[0])
    rows = model.inverse_transform(model.transform(X))
    assert np.linalg.norm(rows - X) < 0.5 * np.linalg.norm(X)
    assert model.atoms_.shape == (model.n_atoms_, 6)


def test_scores_are_the_weighted_mean_of_those_of_the_members():
    X, y, *_ = make_rows(120, 6)
    model = DBDLClassifier(**FIT | {"n_chains": 4}).fit(X, y)
    weights = [chain.weight for chain in model.chains_]
    assert sum(weights) == pytest.approx(1) and len(set(weights)) > 1
    scores = [
        chain.weight * (chain.encode(X, NumbaBackend()) @ chain.label_atoms)
        for chain in model.chains_
    ]
    np.testing.assert_allclose(model.decision_function(X), np.sum(scores, axis=0), atol=1e-12)


# --------------------------------------------------------------------------------------- by name


def test_every_automatic_view_has_a_name_of_the_table():
    every = (AUTOMATIC + MORE_FOR_FEW_ROWS, AUTOMATIC_LINEAR, AUTOMATIC_FOR_FEW_ATOMS)
    for names in every:
        known = {name.removeprefix("kernel of ").removeprefix("few atoms of ") for name in names}
        assert len(set(names)) == len(names) and known <= set(LINEAR)


@every_linear_view
def test_a_name_gives_its_recipe(name):
    recipe = view_named(name)
    assert recipe.unit == name.startswith("unit ")
    assert recipe.constant == name.endswith(" + constant")
    assert replace(recipe, unit=False, constant=False) in VIEWS.values()
    assert make_views(name) == make_views(recipe) == make_views([name]) == (recipe,)


@pytest.mark.parametrize("name", ["white", "", "unit", "plain + 1", "plain +constant", "Plain"])
def test_a_name_that_is_not_in_the_table_is_refused_with_those_that_are(name):
    with pytest.raises(ValueError, match=r"there is no view .* Expected 'auto', or one of 'plain'"):
        DBDLClassifier(views=name).fit(np.eye(4), [0, 1, 0, 1])


def test_automatic_views_depend_on_the_rows_the_atoms_and_normalize():
    assert make_views("auto") == tuple(map(view_named, AUTOMATIC))
    assert automatic_views(0.3) == AUTOMATIC_FOR_FEW_ATOMS
    assert not any(name.startswith("kernel") for name in automatic_views(0.3, linear=True))
    assert automatic_views(0.31) == automatic_views() == AUTOMATIC
    assert automatic_views(linear=True) == AUTOMATIC_LINEAR
    assert automatic_views(few_rows=True) == AUTOMATIC + MORE_FOR_FEW_ROWS
    one_size = automatic_views(few_rows=True, one_size=True)
    assert not any(view.startswith("few atoms") for view in one_size) and len(one_size) == 10
    assert make_views("auto", normalize=False) == (View(normalize=False),)


@pytest.mark.parametrize("views", [[], ["plain", 3], [None]])
def test_what_is_no_view_is_refused(views):
    with pytest.raises(ValueError, match=r"views (is empty|has)"):
        DBDLClassifier(views=views).fit(np.eye(4), [0, 1, 0, 1])


def test_a_recipe_with_impossible_values_is_refused():
    with pytest.raises(ValueError, match="power is 2"):
        make_views(View(power=2.0))


@pytest.mark.parametrize("name", [name for name in LINEAR + KERNELS if not name.endswith("plain")])
def test_without_normalize_only_plain_views_are_allowed(name):
    with pytest.raises(ValueError, match=r"normalize=False with the view .*Expected views='plain'"):
        DBDLClassifier(views=name, normalize=False).fit(np.eye(4), [0, 1, 0, 1])


def test_without_normalize_rows_are_used_as_they_are():
    rows = make_rows()
    [view] = make_views("auto", normalize=False)
    view = view.fit(rows)
    assert view.apply(rows.X).tobytes() == rows.X.tobytes()
    assert view.restore(rows.X) is rows.X and view.restore_atoms(rows.X) is rows.X
    with pytest.raises(ValueError, match="whose squares overflow"):
        view.apply(1e200 * rows.X)
