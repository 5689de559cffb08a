"""Every family of coders in the table keeps the same promises."""

import inspect
import sys
import warnings
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import dbdl.coding
from dbdl import DBDLClassifier
from dbdl.backends import NumbaBackend, ReferenceBackend
from dbdl.coding import (
    FAMILIES,
    CodePrior,
    Coder,
    Forward,
    LassoPath,
    Orthogonal,
    PosteriorMean,
    PreparedAtoms,
    candidates,
    encode_each,
    lengths_for,
)
from dbdl.coding.coder import CodedRow

N_ROWS, N_ATOMS, N_FEATURES = 70, 30, 12
every_family = pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
both_dtypes = pytest.mark.parametrize("dtype", [np.float64, np.float32])


@pytest.fixture(autouse=True)
def warnings_are_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        yield


def make_problem(dtype=np.float64):
    """Unit rows that a few unit atoms explain, and the atoms with a prior of codes."""
    rng = np.random.default_rng(0)
    atoms = rng.standard_normal((N_ATOMS, N_FEATURES))
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    codes = rng.standard_normal((N_ROWS, N_ATOMS)) * (rng.random((N_ROWS, N_ATOMS)) < 0.1)
    X = codes @ atoms + 0.05 * rng.standard_normal((N_ROWS, N_FEATURES))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    prior = CodePrior(np.full(N_ATOMS, 0.1), np.linspace(1.0, 3.0, N_ATOMS), 400.0)
    return X.astype(dtype), PreparedAtoms(atoms.astype(dtype), prior)


def of(family):
    """Some coders of a family, in no order."""
    return [*family.candidates([1, 2, 5], alone=True), family(50), family(3)][::-1]


def same_bits(found, expected):
    return (
        found.dtype == expected.dtype and found.toarray().tobytes() == expected.toarray().tobytes()
    )


# ----------------------------------------------------------------------------------- every family


@every_family
@both_dtypes
def test_a_code_has_at_most_so_many_non_zeros(family, dtype):
    X, atoms = make_problem(dtype)
    for coder in of(family):
        codes = coder.encode(X, atoms, NumbaBackend())
        assert codes.shape == (N_ROWS, N_ATOMS) and codes.dtype == dtype
        assert isinstance(codes, csr_matrix) and np.isfinite(codes.data).all()
        assert codes.getnnz(axis=1).max() <= min(coder.n_nonzero, N_FEATURES)


@every_family
def test_more_non_zeros_explain_rows_better(family):
    X, atoms = make_problem()
    left = []
    for n in (1, 3, 8):
        codes = family(n).encode(X, atoms, NumbaBackend())
        left.append(np.square(X - codes @ atoms.atoms).sum())
    assert N_ROWS > left[0] > left[1] > left[2]


@every_family
@both_dtypes
@pytest.mark.bits
def test_a_row_alone_has_the_code_it_has_in_a_batch(family, dtype):
    X, atoms = make_problem(dtype)
    for coder in (family(1), family(4)):
        batch = coder.encode(X, atoms, NumbaBackend())
        for i in (0, 31, 32, N_ROWS - 1):
            alone = coder.encode(X[i : i + 1], atoms, NumbaBackend())
            assert same_bits(alone, batch[i])
        assert same_bits(coder.encode(X[::-1], atoms, NumbaBackend()), batch[::-1])


@every_family
@pytest.mark.bits
def test_threads_and_backends_of_the_cpu_do_not_matter(family):
    X, atoms = make_problem()
    expected = family(4).encode(X, atoms, NumbaBackend())
    for backend in (NumbaBackend(3), ReferenceBackend()):
        assert same_bits(family(4).encode(X, atoms, backend), expected)


@every_family
@both_dtypes
@pytest.mark.bits
def test_several_coders_find_what_each_finds_alone(family, dtype):
    X, atoms = make_problem(dtype)
    coders = [*of(family), Forward(2)]
    for coder, found in zip(coders, encode_each(X, atoms, coders, NumbaBackend()), strict=True):
        assert same_bits(found, coder.encode(X, atoms, NumbaBackend()))


@every_family
@both_dtypes
def test_zero_rows_have_zero_codes(family, dtype):
    X, atoms = make_problem(dtype)
    X[[0, 5]] = 0.0
    X[5] = -X[5]  # zeros have a sign
    codes = family(3).encode(X, atoms, NumbaBackend()).toarray()
    assert not codes[[0, 5]].any() and codes[1:5].any(axis=1).all()
    assert not family(3).encode(X[:1], atoms, NumbaBackend()).toarray().any()


@every_family
def test_zero_atoms_are_used_by_no_row(family):
    X, atoms = make_problem()
    some = atoms.atoms.copy()
    some[4] = 0.0
    codes = family(5).encode(X, PreparedAtoms(some, atoms.prior), NumbaBackend())
    explained = codes @ some
    assert np.isfinite(explained).all()
    if family is not PosteriorMean:  # whose prior lets rows use atoms that explain nothing
        assert not codes.toarray()[:, 4].any()


@every_family
@pytest.mark.parametrize("dtype, power", [(np.float64, 700), (np.float32, 90)])
def test_rows_whose_squares_are_not_numbers_are_coded_near_one(family, dtype, power):
    X, atoms = make_problem(dtype)
    large, small = (
        family(3).encode(np.ldexp(X, sign * power), atoms, NumbaBackend()) for sign in (1, -1)
    )
    assert large.nnz > 0 and np.isfinite(large.data).all()
    np.testing.assert_array_equal(
        np.ldexp(large.toarray(), -power), np.ldexp(small.toarray(), power)
    )
    mixed = X.copy()
    mixed[::2] = np.ldexp(X[::2], power)
    found = family(3).encode(mixed, atoms, NumbaBackend())
    assert same_bits(found[::2], large[::2])
    assert same_bits(found[1::2], family(3).encode(X, atoms, NumbaBackend())[1::2])


@every_family
def test_rows_are_coded_in_the_type_of_the_atoms(family):
    X, atoms = make_problem()
    narrow = PreparedAtoms(atoms.atoms.astype(np.float32), atoms.prior)
    found = family(3).encode(X, narrow, NumbaBackend())
    assert found.dtype == np.float32
    assert same_bits(found, family(3).encode(X.astype(np.float32), narrow, NumbaBackend()))


@every_family
def test_a_coder_is_a_value_with_a_label(family):
    assert family(3) == family(3) != family(4) and len({family(3), family(3)}) == 1
    assert "3" in family(3).label and str(family(3))
    labels = [coder.label for coder in set(of(family))]
    assert len(set(labels)) == len(labels)


@every_family
def test_every_family_can_be_asked_for_by_name(family):
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    X = rng.standard_normal((2, 6))[y] + 0.2 * rng.standard_normal((40, 6))
    quick = {"n_sweeps": 2, "n_chains": 1, "random_state": 0}
    model = DBDLClassifier(coder=family.name, **quick).fit(X, y)
    assert isinstance(model.chains_[0].coder, family) and model.score(X, y) > 0.8
    assert {type(coder) for coder in model.held_out_.coders} == {family}
    alone = model.decision_function(X[:1])
    assert alone.tobytes() == model.decision_function(X)[:1].tobytes()


# --------------------------------------------------------------------------------------- the table


def concrete(kind):
    """Subclasses in the modules of dbdl that can be made; a page's example is gone from these."""
    below = [found for part in kind.__subclasses__() for found in concrete(part)]
    own = (
        not inspect.isabstract(kind)
        and kind.__module__.startswith("dbdl.")
        and kind.__module__ in sys.modules
        and "name" in vars(kind)
    )
    return [*([kind] if own else []), *below]


def test_every_coder_is_in_the_table_under_a_name_of_its_own():
    assert sorted(FAMILIES) == sorted(family.name for family in concrete(Coder))
    assert all(FAMILIES[family.name] is family for family in concrete(Coder))
    labels = [family(3).label for family in FAMILIES.values()]
    assert len(set(labels)) == len(labels)


@dataclass(frozen=True)
class LargestProducts(Coder):
    """The atoms that match a row best, with their inner products."""

    name: ClassVar[str] = "largest products"

    @classmethod
    def encode_each(cls, coders, X, atoms, backend):
        codes = []
        for coder in coders:
            products = X @ atoms.atoms.T
            least = np.sort(np.abs(products), axis=1)[:, -atoms.longest(coder.n_nonzero), None]
            codes.append(csr_matrix(np.where(np.abs(products) < least, 0, products)))
        return codes


def test_a_coder_that_is_added_to_the_table_is_enrolled(monkeypatch):
    monkeypatch.setitem(FAMILIES, LargestProducts.name, LargestProducts)
    X, atoms = make_problem()
    assert LargestProducts(2) in candidates("auto", [1, 2])
    assert candidates("largest products", [1, 2]) == [LargestProducts(1), LargestProducts(2)]
    codes = LargestProducts(3).encode(X, atoms, NumbaBackend())
    assert codes.getnnz(axis=1).max() == 3
    y = np.arange(N_ROWS) % 2
    model = DBDLClassifier(coder="largest products", n_sweeps=1, n_chains=1, random_state=0)
    assert isinstance(model.fit(X, y).chains_[0].coder, LargestProducts)


# -------------------------------------------------------------------------------------- candidates


def test_auto_tries_the_families_that_have_kernels_on_the_device():
    on_cpu, on_gpu = ({c.name for c in candidates("auto", [2, 4], d)} for d in ("cpu", "cuda"))
    assert on_cpu == {name for name, family in FAMILIES.items() if family.automatic}
    assert on_gpu == {name for name in on_cpu if "cuda" in FAMILIES[name].devices}
    assert "lasso" in on_cpu - on_gpu and "posterior mean" not in on_cpu


def test_each_number_of_non_zeros_is_tried_with_and_without_the_mean_along_the_path():
    assert candidates("forward", [1, 3]) == [
        Forward(1), Forward(1, True), Forward(3), Forward(3, True)
    ]  # fmt: skip


def test_every_second_length_of_the_lasso_is_tried_beside_other_families():
    lengths = [1, 2, 3, 4]
    assert [c.n_nonzero for c in candidates("auto", lengths) if c.name == "lasso"] == [2, 4]
    assert LassoPath(3) in candidates(["forward", "lasso"], [3])
    assert [c.n_nonzero for c in candidates("lasso", lengths)] == lengths


def test_coders_stand_for_themselves_in_order_and_once():
    wanted = [LassoPath(7), Orthogonal(3), "orthogonal", LassoPath(7)]
    assert candidates(wanted, [3]) == [LassoPath(7), Orthogonal(3), Orthogonal(3, True)]
    assert candidates(Forward(9), [1, 2]) == [Forward(9)]


@pytest.mark.parametrize(
    "wanted",
    ["omp", ["forward", "omp"], ["auto", "forward"], [3], [["forward"]], [Forward], np.eye(2)],
    ids=str,
)
def test_an_unknown_family_is_refused_and_the_known_ones_are_named(wanted):
    with pytest.raises(
        ValueError, match=r"coder is .*Expected 'auto', one of \['forward', 'lasso'"
    ):
        candidates(wanted, [1])


@pytest.mark.parametrize(
    "coder",
    [
        *(family(n) for family in FAMILIES.values() for n in (0, -1, 2.5, "3", None)),
        Forward(2, path_average="yes"),
        PosteriorMean(2, n_sweeps=0),
        PosteriorMean(2, n_sweeps=2.5),
    ],
    ids=repr,
)
def test_a_coder_with_settings_that_are_none_is_refused_by_name(coder):
    with pytest.raises(ValueError, match=r"coder\.(n_nonzero|path_average|n_sweeps) is"):
        candidates(coder, [1])
    with pytest.raises(ValueError, match=r"coder\."):
        candidates(["forward", coder], [1])


def test_no_coder_at_all_is_refused():
    with pytest.raises(ValueError, match="coder is empty"):
        candidates([], [1])


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
@pytest.mark.parametrize("n_nonzero", [0, -1, 2.5, "3"])
def test_a_number_of_non_zeros_that_is_none_is_found_when_a_file_is_read(family, n_nonzero):
    from dbdl.model.trust import RecordError, check

    with pytest.raises(RecordError, match="n_nonzero"):
        check(family, family(n_nonzero), "coder")


@pytest.mark.parametrize(
    ("n_features", "longest"), [(1, 1), (3, 3), (6, 4), (8, 4), (30, 14), (500, 112)]
)
def test_lengths_go_up_to_half_the_features(n_features, longest):
    assert lengths_for(n_features)[-1] == longest


@pytest.mark.parametrize(
    ("n_nonzero", "lengths"),
    [
        (1, (1,)),
        (4, (1, 2, 3, 4)),
        (10, (3, 4, 5, 7, 10)),
        (20, (5, 7, 10, 14, 20)),
        (30, (10, 14, 20, 28, 30)),
    ],
)
def test_a_path_is_averaged_from_a_quarter_of_its_length_on(n_nonzero, lengths):
    assert Forward(n_nonzero, path_average=True).lengths == lengths
    assert Forward(n_nonzero).lengths == (n_nonzero,)


def test_a_code_is_the_mean_of_the_codes_along_its_path():
    X, atoms = make_problem()
    for family in (Forward, Orthogonal):
        plain = [family(n).encode(X, atoms, NumbaBackend()) for n in (3, 4, 5, 7, 10)]
        found = family(10, path_average=True).encode(X, atoms, NumbaBackend())
        np.testing.assert_allclose(found.toarray(), sum(plain).toarray() / 5, atol=1e-14)


def test_the_package_names_its_coders():
    assert {family.__name__ for family in FAMILIES.values()} <= set(dbdl.coding.__all__)


# ------------------------------------------------------------------------------ slopes of codes


def encoded_row(coder, i, dtype=np.float64):
    X, atoms = make_problem(dtype)
    return X[i].astype(np.float64), coder.encode(X[i : i + 1], atoms, NumbaBackend()), atoms


#: Coders whose code is linear in the row, given the atoms that it uses.
LINEAR = [
    Forward(4), Forward(5, path_average=True), Orthogonal(3), Orthogonal(7, path_average=True),
    LassoPath(1), LassoPath(4), LassoPath(9), LassoPath(50),
]  # fmt: skip


@pytest.mark.parametrize("coder", LINEAR, ids=lambda coder: coder.label)
@both_dtypes
def test_slopes_times_the_row_give_the_code(coder, dtype):
    for i in range(10):
        row, code, atoms = encoded_row(coder, i, dtype)
        weights = np.random.default_rng(i).standard_normal(N_ATOMS)
        slopes = coder.slopes(CodedRow(row, code, atoms, NumbaBackend()), weights)
        near = 1e-10 if dtype == np.float64 else 1e-4
        assert slopes @ row == pytest.approx((code @ weights)[0], abs=near)


@pytest.mark.parametrize("coder", LINEAR, ids=lambda coder: coder.label)
def test_slopes_are_those_of_rows_nearby(coder):
    for i in range(5):
        row, code, atoms = encoded_row(coder, i)
        weights = np.random.default_rng(i).standard_normal(N_ATOMS)
        slopes = coder.slopes(CodedRow(row, code, atoms, NumbaBackend()), weights)
        differences = Coder.slopes(coder, CodedRow(row, code, atoms, NumbaBackend()), weights)
        np.testing.assert_allclose(slopes, differences, atol=1e-6)


def test_copies_of_atoms_do_not_change_slopes_of_the_lasso():
    row, code, atoms = encoded_row(LassoPath(4), 0)
    weights = np.random.default_rng(0).standard_normal(N_ATOMS)
    expected = LassoPath(4).slopes(CodedRow(row, code, atoms, NumbaBackend()), weights)
    twice = PreparedAtoms(np.concatenate([atoms.atoms, atoms.atoms[code.indices]]))
    longer = csr_matrix((code.data, code.indices, code.indptr), shape=(1, len(twice)))
    more = np.append(weights, np.zeros(code.nnz))
    found = LassoPath(4).slopes(CodedRow(row, longer, twice, NumbaBackend()), more)
    np.testing.assert_allclose(found, expected, atol=1e-12)


@every_family
def test_a_code_without_atoms_has_no_slopes(family):
    _, atoms = make_problem()
    empty = csr_matrix((1, N_ATOMS))
    zero, weights = np.zeros(N_FEATURES), np.ones(N_ATOMS)
    slopes = family(3).slopes(CodedRow(zero, empty, atoms, NumbaBackend()), weights)
    np.testing.assert_array_equal(slopes, np.zeros(N_FEATURES))


def test_slopes_of_the_posterior_mean_are_those_given_its_atoms():
    row, code, atoms = encoded_row(PosteriorMean(5), 0)
    weights, used = np.random.default_rng(0).standard_normal(N_ATOMS), code.indices
    own, noise = atoms.atoms[used], atoms.prior.noise_precision
    precision = noise * own @ own.T + np.diag(atoms.prior.precision[used])
    expected = weights[used] @ np.linalg.inv(precision) @ (noise * own)
    found = PosteriorMean(5).slopes(CodedRow(row, code, atoms, NumbaBackend()), weights)
    np.testing.assert_allclose(found, expected)
