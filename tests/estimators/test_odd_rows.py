"""With rows that are few, equal, zero or on odd scales, the published model keeps its promises."""

import warnings

import numpy as np
import pytest

import dbdl
from dbdl import BetaProcessDictionary, DBDLClassifier, ModelSettings
from dbdl.plotting import AtomsDisplay, SelectionDisplay, TraceDisplay

#: Made of a random generator, by name.
ROWS = {
    "one feature": lambda random: random.normal(size=(12, 1)),
    "ones": lambda random: np.ones((12, 3)),
    "one row again and again": lambda random: np.repeat(random.normal(size=(1, 5)), 12, axis=0),
    "two rows": lambda random: np.repeat(random.normal(size=(2, 5)), 6, axis=0),
    "opposites": lambda random: (
        random.normal(size=(1, 4)) * np.where(np.arange(12) % 2, 1, -1)[:, np.newaxis]
    ),
    "some zero rows": lambda random: (
        random.normal(size=(12, 4)) * (np.arange(12) % 3 > 0)[:, np.newaxis]
    ),
    "denormal": lambda random: random.normal(size=(12, 4)) * 1e-310,
    "all scales": lambda random: (
        random.normal(size=(12, 4)) * 10.0 ** np.linspace(-300, 300, 12)[:, np.newaxis]
    ),
    "scales of columns": lambda random: (
        random.normal(size=(12, 4)) * 10.0 ** np.array([-150, 0, 100, 150])
    ),
    "largest": lambda random: random.uniform(0.5, 1, size=(12, 4)) * np.finfo(np.float64).max,
    "largest in float32": lambda random: (
        random.uniform(0.5, 1, size=(12, 4)) * np.finfo(np.float32).max
    ),
}
rows = pytest.mark.parametrize("X", ROWS, indirect=True)
dtypes = pytest.mark.parametrize("dtype", [np.float64, np.float32])

OURS = [
    method
    for method in dbdl.methods().values()
    if method.make.__module__.startswith("dbdl.rivals")
    # those whose atoms have any norm
    and method.make.__name__ not in ("LLCClassifier", "DPLClassifier", "LRSDLClassifier")
]


def rows_of(name):
    return ROWS[name](np.random.default_rng(0))


@pytest.fixture
def X(request):
    return rows_of(request.param)


def labels():
    return np.arange(12) % 2


@pytest.fixture(autouse=True)
def warnings_are_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        yield


def assert_unit_norm(atoms):
    assert len(atoms)
    norm = np.linalg.norm(atoms.astype(np.float64), axis=1)
    np.testing.assert_allclose(norm, 1, rtol=16 * np.finfo(atoms.dtype).eps)


def assert_whole(model, X):
    """Atoms have unit norm in the views of their chains, and everything is finite."""
    for chain in model.chains_:
        assert_unit_norm(chain.atoms)
    assert model.atoms_.shape == (model.n_atoms_, X.shape[1])
    assert model.label_atoms_.shape[0] == model.selection_probability_.shape[1] == model.n_atoms_
    assert np.isfinite(model.atoms_).all() and np.isfinite(model.label_atoms_).all()
    assert np.isfinite(model.inverse_transform(model.transform(X))).all()
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)


def in_range(X, dtype):
    with np.errstate(over="ignore", under="ignore"):
        narrow = X.astype(dtype)
    if not np.isfinite(narrow).all() or not narrow.any():
        pytest.skip("float32 cannot hold these rows")
    return narrow


@rows
@dtypes
@pytest.mark.parametrize("n_sweeps", [1, 5])
def test_every_published_atom_has_unit_norm(X, dtype, n_sweeps):
    X = in_range(X, dtype)
    model = DBDLClassifier(n_sweeps=n_sweeps, n_chains=8, random_state=0)
    assert_whole(model.fit(X, labels()), X)
    assert_unit_norm(model.set_params(views="plain", n_chains=2).fit(X, labels()).atoms_)
    assert_unit_norm(BetaProcessDictionary(n_sweeps=n_sweeps, random_state=0).fit(X).atoms_)


@rows
@dtypes
@pytest.mark.parametrize("view", ["centred", "standardised", "whitened", "scaled and whitened"])
def test_views_without_a_constant_coordinate_are_whole_too(X, dtype, view):
    X = in_range(X, dtype)
    for name in (view, f"unit {view}"):
        model = DBDLClassifier(n_sweeps=2, n_chains=2, views=name, random_state=0)
        assert_whole(model.fit(X, labels()), X)


@rows
@pytest.mark.parametrize("classifier", ["gibbs", "joint", "recoded"])
def test_atoms_have_unit_norm_with_every_kind_of_label_atoms(X, classifier):
    model = DBDLClassifier(n_sweeps=2, n_chains=2, classifier=classifier, random_state=0)
    assert_whole(model.fit(X, labels()), X)


@rows
def test_atoms_have_unit_norm_after_every_batch(X):
    model = DBDLClassifier(n_sweeps=2, n_chains=2, random_state=0)
    for _ in range(3):
        assert_whole(model.partial_fit(X, labels()), X)


@rows
@pytest.mark.parametrize("method", OURS, ids=lambda method: method.name)
def test_atoms_of_rivals_have_unit_norm(X, method):
    model = method(random_state=0).fit(X, labels())
    assert_unit_norm(model.atoms_)
    probability = model.predict_proba(X)
    np.testing.assert_allclose(probability.sum(axis=1), 1)


@pytest.mark.parametrize("scale", [1e-310, 1e-200, 1e200, 1e307])
def test_a_row_is_coded_alike_on_every_scale(scale):
    """A plain view knows no sizes: not even those of new rows."""
    X = np.random.default_rng(0).normal(size=(20, 4))
    model = DBDLClassifier(n_sweeps=2, n_chains=1, views="plain", random_state=0)
    model.fit(X, np.arange(20) % 2)
    power = 2.0 ** np.floor(np.log2(scale))
    expected, found = model.transform(X), model.transform(X * power)
    assert (found.getnnz(axis=1) > 0).all()
    if scale >= np.finfo(np.float64).tiny:
        np.testing.assert_allclose(found.toarray(), expected.toarray(), atol=1e-12)
    else:  # such numbers have lost digits: another atom may be chosen, the row is still explained
        unit = X / np.linalg.norm(X, axis=1, keepdims=True)
        assert (np.linalg.norm(unit - found @ model.atoms_, axis=1) < 0.9).all()


@dtypes
@pytest.mark.parametrize("exponent", [-1060, -140, -20, 20, 120, 1000])
def test_new_rows_of_any_scale_are_coded_by_every_view(dtype, exponent):
    X = np.random.default_rng(0).normal(size=(20, 4)).astype(dtype)
    model = DBDLClassifier(n_sweeps=2, n_chains=8, random_state=0).fit(X, np.arange(20) % 2)
    with np.errstate(over="ignore", under="ignore"):
        rows = np.ldexp(X, exponent)
    if not np.isfinite(rows).all():
        pytest.skip("float32 cannot hold these rows")
    assert np.isfinite(model.decision_function(rows)).all()
    assert np.isfinite(model.inverse_transform(model.transform(rows))).all()


def test_small_rows_keep_their_scale_where_rows_are_not_normalised():
    X = np.random.default_rng(0).normal(size=(20, 4))
    model = DBDLClassifier(n_sweeps=2, n_chains=1, normalize=False, random_state=0)
    model.fit(X, np.arange(20) % 2)
    codes = model.transform(X * 2.0**-700)
    np.testing.assert_array_equal(codes.toarray(), model.transform(X).toarray() * 2.0**-700)


@pytest.mark.parametrize("scale", [1e-200, 1e200])
@pytest.mark.parametrize("make", [DBDLClassifier, dbdl.methods()["CRC"], dbdl.methods()["K-SVD"]])
def test_rows_whose_squares_are_no_numbers_are_refused_if_not_normalised(make, scale):
    with pytest.raises(ValueError, match="normalize=True"):
        make(normalize=False).fit(rows_of("one feature") * scale, labels())


def test_codes_whose_rows_overflow_are_refused():
    X = np.random.default_rng(0).normal(size=(20, 4))
    model = DBDLClassifier(n_sweeps=2, n_chains=1, random_state=0).fit(X, np.arange(20) % 2)
    with pytest.raises(ValueError, match="products with the atoms overflow"):
        model.inverse_transform(np.full((2, model.n_atoms_), 1.7e308))


@pytest.mark.parametrize("forgetting", [1e-300, 1e-9, 1e-4])
def test_a_class_that_is_forgotten_keeps_a_precision(forgetting):
    model = DBDLClassifier(n_sweeps=3, n_chains=1, forgetting=forgetting, random_state=0)
    random = np.random.default_rng(0)
    for y in (labels(), labels(), np.zeros(12), np.zeros(12)):
        model.partial_fit(random.normal(size=(12, 5)), y)
    assert np.isfinite(model.trace_.log_joint).all()


@pytest.mark.parametrize("name", ["random rows + ridge", "bagged rows"])
def test_any_number_of_draws_with_replacement_ends(name):
    X = np.random.default_rng(0).normal(size=(8, 3))
    model = dbdl.methods()[name](initial_ratio=1e15, random_state=0).fit(X, np.arange(8) % 2)
    assert model.n_atoms_ == 8


@pytest.mark.parametrize("penalty", [5e-324, 1e-300, 1e-30])
def test_a_penalty_that_rounding_swallows_gives_the_smallest_solution(penalty):
    X = np.repeat(np.random.default_rng(0).normal(size=(4, 3)), 3, axis=0)
    model = dbdl.methods()["CRC"](penalty=penalty, random_state=0).fit(X, labels())
    assert np.isfinite(model.decision_function(X)).all()


@pytest.mark.parametrize("make", [DBDLClassifier, dbdl.methods()["CRC"]])
def test_no_threads_are_refused(make):
    with pytest.raises(ValueError, match="n_jobs"):
        make(n_jobs=0).fit(rows_of("ones"), labels())


@pytest.mark.parametrize("name", ["noise_precision", "strength_precision", "hyper_prior"])
@pytest.mark.parametrize("value", [5e-324, 1e300])
def test_precisions_that_leave_nothing_else_are_refused(name, value):
    with pytest.raises(ValueError, match=name):
        DBDLClassifier(model=ModelSettings(**{name: value})).fit(rows_of("one feature"), labels())


@pytest.mark.parametrize("display", [AtomsDisplay, SelectionDisplay, TraceDisplay])
@pytest.mark.parametrize("estimator", [None, DBDLClassifier(), dbdl.methods()["CRC"]()])
def test_displays_say_which_estimator_they_expect(display, estimator):
    with pytest.raises((TypeError, ValueError), match="fitted"):
        display.from_estimator(estimator)
