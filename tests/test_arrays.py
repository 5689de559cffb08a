"""Every public function agrees on what counts as numbers and as labels."""

from functools import cache

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import dbdl
from dbdl import BetaProcessDictionary, DBDLClassifier
from dbdl._arrays import LARGEST_EXPONENT, times_powers
from dbdl.coding import lasso, llc, omp, omp_path
from dbdl.features import RandomFaces

pd = pytest.importorskip("pandas", reason="half of the odd rows and labels are pandas objects")


@cache
def numbers():
    return np.random.default_rng(0).normal(size=(12, 4))


def labels():
    return np.arange(12) % 2


DOORS = {
    "DBDLClassifier": lambda X: DBDLClassifier(n_sweeps=1, n_chains=1).fit(X, labels()),
    "partial_fit": lambda X: DBDLClassifier(n_sweeps=1, n_chains=1).partial_fit(X, labels()),
    "BetaProcessDictionary": lambda X: BetaProcessDictionary(n_sweeps=1).fit(X),
    "CRC": lambda X: dbdl.methods()["CRC"]().fit(X, labels()),
    "K-SVD": lambda X: dbdl.methods()["K-SVD"]().fit(X, labels()),
    "RandomFaces": lambda X: RandomFaces(2).fit(X),
    "omp": lambda rows: omp(rows, numbers(), 2),
    "omp_path": lambda rows: omp_path(rows, numbers(), [1, 2]),
    "lasso": lambda rows: lasso(rows, numbers(), n_nonzero=2),
    "llc": lambda rows: llc(rows, numbers(), 2),
    "atoms of omp": lambda atoms: omp(numbers(), atoms, 2),
    "atoms of llc": lambda atoms: llc(numbers(), atoms, 2),
}
doors = pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)


@doors
def test_the_pair_of_open_rows_is_to_be_unpacked(door, tmp_path):
    np.save(tmp_path / "x.npy", numbers())
    pair = dbdl.open_rows(tmp_path / "x.npy")
    with pytest.raises(TypeError, match=r"the pair that open_rows returns.*Unpack it: X, y = open"):
        door(pair)
    with pytest.raises(TypeError, match="y is the pair that open_rows returns"):
        DBDLClassifier(n_sweeps=1, n_chains=1).fit(numbers(), pair)


@doors
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda X: X.astype("U"), "holds strings"),
        (lambda X: X.astype("U").tolist(), "holds strings"),
        (lambda X: X.astype("S"), "holds bytes"),
        (lambda X: X + 0j, "holds complex numbers"),
        (lambda X: np.zeros(X.shape, "datetime64[s]"), "holds dates"),
        (lambda X: np.ma.masked_array(X, X > 1), "masked"),
        (lambda X: [*X.tolist(), [1.0]], "does not convert to an array"),
        (lambda X: pd.DataFrame(X, columns=list("aabc")), "two columns with the name 'a'"),
        (lambda X: pd.DataFrame(X).assign(t="x"), r"\['t'\]\[0\] is of the type str"),
        (lambda X: pd.DataFrame(X).assign(t=pd.Categorical(["x"] * 12)), "column 't'"),
        (lambda X: pd.DataFrame(X).astype(object).mask(X > 1, pd.NA), "missing values|NaN"),
    ],
)
def test_only_numbers_are_taken_for_numbers(door, change, words):
    X = numbers()
    with pytest.raises((ValueError, TypeError), match=words):
        door(change(X))


class LazyFrame:
    """A frame that is computed later, like that of Polars."""

    columns = ("a", "b")

    def collect(self):
        raise AssertionError("collected without being asked")


@doors
def test_frames_without_values_are_to_be_collected(door):
    with pytest.raises(TypeError, match=r"is a LazyFrame, .* Call \w+\.collect\(\) first"):
        door(LazyFrame())


@doors
def test_none_is_to_be_written_as_nan(door):
    rows = numbers().astype(object)
    rows[3, 2] = None
    with pytest.raises(ValueError, match=r"\[3, 2\] is None.* as NaN: .*\.astype\(float\)"):
        door(rows)


@doors
@pytest.mark.parametrize("value", ["3", b"3", 1j, pd.Timestamp(0), [1.0], {}])
def test_one_object_that_is_no_number_is_named_with_its_place(door, value):
    X = numbers()
    rows = X.astype(object)
    rows[3, 2] = value
    with pytest.raises(TypeError, match=r"\[3, 2\] is of the type .* must be real numbers"):
        door(rows)


@doors
def test_numbers_of_every_kind_are_numbers(door):
    X = numbers()
    whole = np.round(X * 10)
    for rows in (
        whole.astype(np.int8),
        whole.astype(object),
        whole.astype(np.longdouble),
        whole.astype(">f4"),
        pd.DataFrame(whole).astype("Float64"),
        pd.DataFrame(whole).astype("Int64"),
    ):
        door(rows)


FITS = {
    "fit": lambda y: DBDLClassifier(n_sweeps=1, n_chains=1).fit(numbers(), y),
    "partial_fit": lambda y: DBDLClassifier(n_sweeps=1, n_chains=1).partial_fit(numbers(), y),
    "score": lambda y: dbdl.methods()["CRC"]().fit(numbers(), labels()).score(numbers(), y),
    "rival": lambda y: dbdl.methods()["CRC"]().fit(numbers(), y),
}


@pytest.mark.parametrize("fit", FITS.values(), ids=FITS)
@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (pd.Series([pd.NA, *"abababababa"], dtype="string"), "missing label, first in row 0"),
        (pd.Series([1, None] * 6, dtype="Int64"), "missing label, first in row 1"),
        (np.array([1, pd.NaT] * 6, dtype=object), "missing label"),
        (np.array(["a", 1] * 6, dtype=object), "several kinds: 'a' .string. and 1 .number."),
        (np.array(["a", b"a"] * 6, dtype=object), "several kinds"),
        (["a", 1] * 6, "several kinds: 'a' .string. and 1 .number."),
        (("b", "a", np.nan) * 4, "missing label, first in row 2"),
        (np.array([1j, 1] * 6), "complex"),
        ([[1], *([1, 2] for _ in range(11))], "y does not convert"),
        (csr_matrix(np.ones((12, 1))), "sparse"),
    ],
)
def test_labels_are_whole_and_of_one_kind(fit, labels, words):
    with pytest.raises((ValueError, TypeError), match=words):
        fit(labels)


def test_numbers_among_objects_are_labels():
    X = numbers()
    y = labels()
    model = DBDLClassifier(n_sweeps=1, n_chains=1).fit(X, y.astype(object))
    np.testing.assert_array_equal(model.classes_, [0, 1])


def test_a_list_of_strings_is_an_array_of_strings():
    model = DBDLClassifier(n_sweeps=1, n_chains=1).fit(numbers(), ["no", "yes"] * 6)
    assert model.classes_.dtype == "<U3"


def test_classes_that_are_named_have_to_be_labels():
    X = numbers()
    y = labels()
    with pytest.raises(ValueError, match="classes has a missing label"):
        DBDLClassifier(n_sweeps=1, n_chains=1).partial_fit(X, y, classes=[0, 1, None])


@pytest.mark.parametrize("gap", [None, pd.NA, pd.NaT])
def test_the_advice_for_missing_objects_can_be_followed(gap):
    X = numbers().astype(object)
    X[2, 1] = gap
    with pytest.raises(ValueError, match="missing values") as error:
        DOORS["CRC"](X)
    advice = str(error.value).partition("as NaN: ")[2].removesuffix(".")
    rows = eval(advice, {"numpy": np, "pandas": pd, "X": X})
    assert rows.dtype == float and np.isnan(rows[2, 1]) and np.isnan(rows).sum() == 1


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_times_powers_of_two_have_the_bits_of_ldexp(dtype):
    # numbers of every size, subnormal ones too, by powers that are numbers and by others
    kind = np.finfo(dtype)
    values = np.random.default_rng(0).standard_normal(50).astype(dtype)
    scales = np.ldexp(dtype(1), np.arange(kind.minexp - 25, kind.maxexp, 31))
    odd = [0.0, -0.0, np.inf, -np.inf, np.nan, kind.tiny, kind.smallest_subnormal, kind.max]
    row = np.concatenate([(values * scales[:, np.newaxis]).ravel(), np.array(odd, dtype)])
    exponents = np.arange(-1200, 1201, 30)
    with np.errstate(over="ignore", under="ignore"):
        expected = np.ldexp(row, exponents[:, np.newaxis])
    some = np.abs(exponents) <= LARGEST_EXPONENT[row.dtype.name]
    assert 0 < some.sum() < len(some)
    for exponent, same in zip(exponents.tolist(), expected, strict=True):
        assert times_powers(row[np.newaxis], exponent).tobytes() == same.tobytes()
    rows = np.tile(row, (len(exponents), 1))
    assert times_powers(rows, exponents).tobytes() == expected.tobytes()
    assert times_powers(rows[some], exponents[some]).tobytes() == expected[some].tobytes()
