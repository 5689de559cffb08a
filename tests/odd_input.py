"""Odd rows, labels and parameters, for `generated_calls`.

Rows have contents (numbers, some of them odd) and a form (dtype, layout, container). If a function
has to refuse its input, the case says so, and an answer is then wrong.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st
from scipy import sparse
from sklearn.preprocessing import MaxAbsScaler

from dbdl import ModelSettings, SmoothAtoms
from dbdl.coding import Forward, LassoPath, Orthogonal, PosteriorMean
from dbdl.views import View

N_ROWS = (1, 2, 3, 5, 8, 13, 24)
N_FEATURES = (1, 2, 3, 6, 17)


@dataclass(frozen=True)
class Odd:
    """A value with words for it, and whether every door has to refuse it.

    Doors that fill missing values may take it if it has nothing worse than ``gaps``.
    """

    value: Any
    words: str
    refused: bool = False
    gaps: bool = False

    def __repr__(self):
        return self.words


# --------------------------------------------------------------------------------- contents

NOT_FINITE = ("nan", "infinity", "minus infinity")


def plain(random, n, m):
    return random.normal(size=(n, m))


def scaled(scale):
    def contents(random, n, m):
        with np.errstate(all="ignore"):
            return random.uniform(0.2, 1, size=(n, m)) * random.choice([-1, 1], size=(n, m)) * scale

    return contents


def with_one(value):
    def contents(random, n, m):
        X = plain(random, n, m)
        X[random.integers(n), random.integers(m)] = value
        return X

    return contents


def some_zero_rows(random, n, m):
    return plain(random, n, m) * (random.random((n, 1)) < 0.5)


def one_row_again(random, n, m):
    return np.repeat(plain(random, 1, m), n, axis=0)


def duplicates(random, n, m):
    return plain(random, max(1, n // 3), m)[random.integers(max(1, n // 3), size=n)]


def opposites(random, n, m):
    return plain(random, 1, m) * random.choice([-1.0, 1.0], size=(n, 1))


def nearly_equal(random, n, m):
    return plain(random, 1, m) * (1 + 1e-12 * random.normal(size=(n, m)))


def mixed_rows(largest):
    def contents(random, n, m):
        return plain(random, n, m) * 10.0 ** random.uniform(-largest, largest, size=(n, 1))

    return contents


def mixed_columns(random, n, m):
    return plain(random, n, m) * 10.0 ** random.uniform(-160, 160, size=(1, m))


CONTENTS = {
    "plain": plain,
    "positive": lambda random, n, m: random.random((n, m)),
    "whole numbers": lambda random, n, m: random.integers(-3, 4, size=(n, m)).astype(float),
    "zeros": lambda random, n, m: np.zeros((n, m)),
    "ones": lambda random, n, m: np.ones((n, m)),
    "one constant column": lambda random, n, m: np.hstack(
        [plain(random, n, m - 1), np.ones((n, 1))]
    ),
    "one hot": lambda random, n, m: np.eye(m)[random.integers(m, size=n)],
    "some zero rows": some_zero_rows,
    "one row again and again": one_row_again,
    "duplicates": duplicates,
    "opposites": opposites,
    "nearly equal": nearly_equal,
    "denormal": scaled(1e-310),
    "smallest": scaled(5e-324),
    "denormal in float32": scaled(1e-40),
    "scale 1e-200": scaled(1e-200),
    "scale 1e-30": scaled(1e-30),
    "scale 1e30": scaled(1e30),
    "scale 1e200": scaled(1e200),
    "scale 1e308": scaled(1e308),
    "mixed rows": mixed_rows(8),
    "very mixed rows": mixed_rows(250),
    "mixed columns": mixed_columns,
    "nan": with_one(np.nan),
    "infinity": with_one(np.inf),
    "minus infinity": with_one(-np.inf),
}

# ------------------------------------------------------------------------------------ forms


def as_frame(X, **columns):
    return pd.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])]).assign(**columns)


def duplicate_names(X):
    return pd.DataFrame(np.hstack([X, X[:, :1]]), columns=["a"] * (X.shape[1] + 1))


def nullable(X):
    frame = as_frame(np.round(np.clip(X, -5, 5))).convert_dtypes()
    return frame.mask(np.arange(X.size).reshape(X.shape) == 0)


def object_na(X):
    values = X.astype(object)
    values[0, 0] = pd.NA
    return as_frame(values)


def with_object(value):
    def form(X):
        values = X.astype(object)
        values[-1, -1] = value
        return values

    return form


def read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


def whole(kind):
    """Whole numbers of a kind: what does not fit is cut off beforehand."""

    def form(X):
        low = 0 if kind.startswith("u") else -100
        return np.clip(np.nan_to_num(np.round(X)), low, 100).astype(kind)

    return form


def ragged(X):
    return [*X.tolist(), [1.0] * (X.shape[1] + 1)]


def with_mask(X):
    return np.ma.masked_array(X, mask=np.arange(X.size).reshape(X.shape) == 0)


def narrow(kind):
    def form(X):
        with np.errstate(all="ignore"):
            return X.astype(kind)

    return form


#: Forms whose numbers any door can use, if they are finite.
GOOD_FORMS = {
    "float64": lambda X: X,
    "float32": narrow(np.float32),
    "float16": narrow(np.float16),
    "longdouble": narrow(np.longdouble),
    "int64": whole("int64"),
    "uint8": whole("uint8"),
    "bool": lambda X: X > 0,
    "objects": lambda X: X.astype(object),
    "Fortran order": np.asfortranarray,
    "float32 in Fortran order": lambda X: np.asfortranarray(narrow(np.float32)(X)),
    "negative strides": lambda X: X[::-1, ::-1],
    "every second": lambda X: np.repeat(np.repeat(X, 2, axis=0), 2, axis=1)[::2, ::2],
    "read-only": read_only,
    "other byte order": lambda X: X.astype(X.dtype.newbyteorder()),
    "a list": lambda X: X.tolist(),
    "a tuple of arrays": tuple,
    "a frame": as_frame,
    "a frame of several kinds": lambda X: as_frame(X).astype({"c0": "float32"}),
    "a frame with an odd index": lambda X: as_frame(X).set_axis([0] * len(X)),
    "a frame of nullable numbers": lambda X: as_frame(X).astype("Float64"),
    "a frame of arrow numbers": lambda X: as_frame(X).astype("double[pyarrow]"),
    "an array without a mask": np.ma.masked_array,
}
#: Forms that no door may take for rows of numbers.
BAD_FORMS = {
    "bytes": lambda X: X.astype("S"),
    "strings": lambda X: X.astype("U"),
    "objects that are strings": lambda X: X.astype("U").astype(object),
    "one string among objects": with_object("3.0"),
    "one bytes among objects": with_object(b"3"),
    "one complex among objects": with_object(1j),
    "one None among objects": with_object(None),
    "one dict among objects": with_object({}),
    "one NA among objects": with_object(pd.NA),
    "one list among objects": with_object([1.0]),
    "one date among objects": with_object(pd.Timestamp("2020-01-01")),
    "lists of strings": lambda X: X.astype("U").tolist(),
    "complex": lambda X: X + 0j,
    "dates": lambda X: np.nan_to_num(np.clip(X, -9, 9)).astype("datetime64[s]"),
    "durations": lambda X: np.nan_to_num(np.clip(X, -9, 9)).astype("timedelta64[s]"),
    "records": lambda X: np.zeros(X.shape, dtype=[("a", float), ("b", float)]),
    "ragged": ragged,
    "zero dimensions": lambda X: X[0, 0],
    "one dimension": lambda X: X.ravel(),
    "three dimensions": lambda X: X[np.newaxis],
    "no rows": lambda X: X[:0],
    "no columns": lambda X: X[:, :0],
    "None": lambda X: None,
    "a number": lambda X: 3.0,
    "words": lambda X: "rows",
    "a dict": lambda X: {"X": X},
    "sparse": sparse.csr_matrix,
    "sparse array": sparse.coo_array,
    "a frame with two columns of one name": duplicate_names,
    "a frame with NA": nullable,
    "a frame of objects with NA": object_na,
    "a frame with a column of text": lambda X: as_frame(X, text="a"),
    "a frame with categories": lambda X: as_frame(X, kind=pd.Categorical(["a"] * len(X))),
    "a frame with dates": lambda X: as_frame(X, date=pd.Timestamp("2020-01-01")),
    "an array with a mask": with_mask,
}

#: Forms that no door may take but those that fill missing values.
FORMS_WITH_GAPS = ("a frame with NA", "a polars frame with null")

try:
    import polars as pl
except ImportError:
    pass
else:
    GOOD_FORMS["a polars frame"] = lambda X: pl.from_pandas(as_frame(X))
    BAD_FORMS["a polars frame with text"] = lambda X: pl.from_pandas(as_frame(X, text="a"))
    BAD_FORMS["a polars frame with null"] = lambda X: pl.from_pandas(as_frame(X)).with_columns(
        c0=None
    )


def make_rows(contents, form, n, m, seed):
    """Odd rows of a shape; a form that cannot hold the contents holds plain ones."""
    random = np.random.default_rng(seed)
    X = CONTENTS[contents](random, n, m)
    good = form in GOOD_FORMS
    value = (GOOD_FORMS if good else BAD_FORMS)[form](X)
    finite = contents not in NOT_FINITE or form in ("int64", "uint8", "bool")
    if (finite and "float16" in form) or "float32" in form or "several kinds" in form:
        finite = bool(np.isfinite(np.asarray(value, dtype=float)).all())
    gaps = (good and contents == "nan") or (
        contents not in NOT_FINITE[1:] and form in FORMS_WITH_GAPS
    )
    words = f"{contents} as {form} {n}x{m} seed {seed}"
    return Odd(value, words, refused=not (good and finite), gaps=gaps)


@st.composite
def rows(draw, n=None, m=None):
    """Rows of which most are odd in one way, and some in two or none."""
    n = draw(st.sampled_from(N_ROWS)) if n is None else n
    m = draw(st.sampled_from(N_FEATURES)) if m is None else m
    contents = draw(st.sampled_from([c for c in CONTENTS if c not in NOT_FINITE]))
    if draw(st.sampled_from([False] * 11 + [True])):
        contents = draw(st.sampled_from(NOT_FINITE))
    form = "float64"
    if draw(st.booleans()):
        if contents not in NOT_FINITE and draw(st.booleans()):
            contents = "plain"
        bad = draw(st.sampled_from([False, False, True]))
        form = draw(st.sampled_from(list(BAD_FORMS if bad else GOOD_FORMS)))
    return make_rows(contents, form, n, m, draw(st.integers(0, 999)))


# ----------------------------------------------------------------------------------- labels

GOOD_LABELS = {
    "numbers": lambda c: c,
    "bools": lambda c: c % 2 == 0,
    "words": lambda c: np.array([f"k{i}" for i in c]),
    "words as objects": lambda c: np.array([f"k{i}" for i in c], dtype=object),
    "whole floats": lambda c: c.astype(float),
    "int8": lambda c: c.astype(np.int8),
    "uint64": lambda c: c.astype(np.uint64) + 2**63,
    "negative": lambda c: -c - 1,
    "a list": lambda c: c.tolist(),
    "a list of words": lambda c: [f"k{i}" for i in c],
    "a series": lambda c: pd.Series(c),
    "a series with an odd index": lambda c: pd.Series(c, index=[7] * len(c)),
    "a series of words": lambda c: pd.Series([f"k{i}" for i in c]),
    "categories": lambda c: pd.Series(pd.Categorical([f"k{i}" for i in c])),
    "nullable numbers": lambda c: pd.Series(c, dtype="Int64"),
    "a column": lambda c: c[:, np.newaxis],
    "read-only": read_only,
    "negative strides": lambda c: c[::-1],
}


def with_label(value):
    def labels(c):
        found = c.astype(object)
        found[-1] = value
        return found

    return labels


BAD_LABELS = {
    "NA": with_label(pd.NA),
    "None": with_label(None),
    "nan among objects": with_label(np.nan),
    "NaT": with_label(pd.NaT),
    "words and numbers": lambda c: (
        np.array([*(f"k{i}" for i in c[1:]), 1], dtype=object)
        if len(c) > 1
        else np.array([None], dtype=object)
    ),
    "bytes and words": lambda c: (
        np.array([*(f"k{i}" for i in c[1:]), b"k"], dtype=object)
        if len(c) > 1
        else np.array([None], dtype=object)
    ),
    "a dict among words": with_label({}),
    "a list among words": with_label([1]),
    "nan": lambda c: np.where(np.arange(len(c)) == 0, np.nan, c),
    "infinity": lambda c: np.where(np.arange(len(c)) == 0, np.inf, c),
    "fractions": lambda c: c + 0.5,
    "complex": lambda c: c + 0j,
    "nullable numbers with NA": lambda c: pd.Series([pd.NA, *c[1:].tolist()], dtype="Int64"),
    "words with NA": lambda c: pd.Series([pd.NA, *(f"k{i}" for i in c[1:])], dtype="string"),
    "categories with NA": lambda c: pd.Series(pd.Categorical([None, *map(str, c[1:])])),
    "too few": lambda c: c[:-1],
    "too many": lambda c: np.append(c, 0),
    "two columns": lambda c: np.stack([c, c], axis=1),
    "three dimensions": lambda c: c[:, np.newaxis, np.newaxis],
    "no labels": lambda c: None,
    "a number": lambda c: 3,
    "a word": lambda c: "label",
    "ragged": lambda c: [[0], *([0, 1] for _ in c[1:])] if len(c) > 1 else [[0, 1]],
    "sparse": lambda c: sparse.csr_matrix(c[:, np.newaxis]),
    "a dict": lambda c: {"y": c},
}


@st.composite
def labels(draw, n):
    """Labels of n rows, and how many classes they have."""
    seed = draw(st.integers(0, 999))
    random = np.random.default_rng(seed)
    share = draw(st.sampled_from(["two", "three", "two", "three", "own", "lonely", "one"]))
    c = {
        "two": np.arange(n) % 2,
        "three": np.arange(n) % 3,
        "one": np.zeros(n, dtype=np.int64),
        "own": np.arange(n),
        "lonely": np.minimum(np.arange(n), 1),
    }[share]
    c = random.permutation(c)
    odd = draw(st.sampled_from(["no", "no", "good", "good", "good", "bad"]))
    form = "numbers"
    if odd != "no":
        form = draw(st.sampled_from(list(GOOD_LABELS if odd == "good" else BAD_LABELS)))
    value = (BAD_LABELS if odd == "bad" else GOOD_LABELS)[form](c)
    if odd == "bad":
        return Odd(value, f"{share} classes as {form} seed {seed}", refused=True)
    return Odd(value, f"{share} classes as {form} seed {seed}")


# ---------------------------------------------------------------------------------- weights

GOOD_WEIGHTS = {
    "ones": lambda random, n: np.ones(n),
    "a number": lambda random, n: 3,
    "a list of whole numbers": lambda random, n: [1 + i % 3 for i in range(n)],
    "any": lambda random, n: random.gamma(1.0, size=n),
    "hundreds of orders apart": lambda random, n: 10.0 ** random.uniform(-300, 300, n),
    "denormal": lambda random, n: np.full(n, 5e-324),
    "a series": lambda random, n: pd.Series(random.gamma(1.0, size=n)),
    "one that is zero": lambda random, n: np.where(np.arange(n) == n - 1, float(n == 1), 1.0),
    "float32": lambda random, n: random.gamma(1.0, size=n).astype(np.float32),
}
BAD_WEIGHTS = {
    "zeros": lambda random, n: np.zeros(n),
    "one that is nan": lambda random, n: np.where(np.arange(n) == 0, np.nan, 1.0),
    "one that is infinite": lambda random, n: np.where(np.arange(n) == 0, np.inf, 1.0),
    "one that is negative": lambda random, n: np.where(np.arange(n) == 0, -1e-300, 1.0),
    "one too many": lambda random, n: np.ones(n + 1),
    "a column": lambda random, n: np.ones((n, 1)),
    "words": lambda random, n: ["heavy"] * n,
    "None among them": lambda random, n: [None] * n,
    "complex": lambda random, n: np.ones(n) + 1j,
}


@st.composite
def sample_weights(draw, n):
    """Weights of n rows, most often none."""
    odd = draw(st.sampled_from([*["no"] * 6, *["good"] * 5, "bad"]))
    if odd == "no":
        return Odd(None, "no weights")
    known, seed = GOOD_WEIGHTS if odd == "good" else BAD_WEIGHTS, draw(st.integers(0, 999))
    form = draw(st.sampled_from(list(known)))
    value = known[form](np.random.default_rng(seed), n)
    return Odd(value, f"weights: {form} seed {seed}", refused=odd == "bad")


# ------------------------------------------------------------------------------- parameters

COUNTS = (
    -1,
    0,
    1,
    2,
    7,
    60,
    2.5,
    np.int32(3),
    np.float64(2.0),
    True,
    None,
    "auto",
    "x",
    np.nan,
    [3],
)
WEIGHTS = (
    -1.0, 0.0, 5e-324, 1e-300, 1e-9, 0.3, 1.0, 2, 1e9, 1e300, np.float32(0.5), np.inf, np.nan, None,
    "auto", "x", True, 1j,
)  # fmt: skip
CHOICES = (
    "x", "", None, 3, True, False, "auto", "cpu", "forward", "orthogonal", "lasso", "ridge",
    "recoded", "gibbs", "joint", "paper", "collapsed", "all", "used", "start", "current", "rows",
    "pca", "local", "global", "exact", "approximate", "omp", "class", b"forward",
)  # fmt: skip
SEEDS = (0, -1, 2**32, 1.5, "x", None, np.random.RandomState(0))
JOBS = (None, 0, 1, -1, -5, 3, 10**6, 1.5, "x", True)

CODERS = (
    *CHOICES, "posterior mean", Forward(3), Forward(100), Forward(5, path_average=True),
    Orthogonal(np.int64(2)), LassoPath(4), PosteriorMean(3, n_sweeps=4), Forward(0), LassoPath(2.5),
    PosteriorMean(2, n_sweeps=0), ["forward", LassoPath(2)], ("lasso",), [], [3], [["forward"]],
    ["auto", "forward"], Forward,
)  # fmt: skip
VIEWS_OF_ROWS = (
    *CHOICES, "plain", "whitened", "unit standardised + constant", "plain + x", "unit unit plain",
    View(constant=True), View(power=1), View(power=5), View(scale="x"), View(unit=True), View,
    ["plain", "centred"], ("scaled and whitened", View(normalize=False)),
    np.array(["half-whitened"]),
    ["auto"], [], [3], [["plain"]], {"plain": 1}, Forward(2), MaxAbsScaler(), MaxAbsScaler,
    ["plain", MaxAbsScaler()],
)  # fmt: skip
CLASS_WEIGHTS = (
    None, "balanced", "balanced", {}, {0: 2.0}, {0: 2, 1: 3, 2: 4}, {0: 1.0, 1: 0.0}, {0: -1.0},
    {0: np.nan}, {0: 1e-300, 1: 1e300}, {"a": 1}, {0: "x"}, {0: None}, "x", 3, [1.0],
)  # fmt: skip
MODELS = (None, ModelSettings(), ModelSettings, {}, "paper", 3)
PRIORS_OF_ATOMS = (
    None, SmoothAtoms(2.0), SmoothAtoms([1, 1e-3]), SmoothAtoms(1, "squared exponential"),
    SmoothAtoms(1e100), SmoothAtoms(1e-100, coordinates=[0, 1e100, 5]), SmoothAtoms, "matern", 3,
)  # fmt: skip
INITIAL_ATOMS = (
    None, np.ones((2, 3)), np.eye(5), np.eye(5, dtype=np.float32) * 1e-40, [[1, 2, 3], [4, 5, 6]],
    np.full((3, 5), 1e300), np.zeros((2, 5)), [], [[]], 3, "x", {}, MaxAbsScaler(),
)  # fmt: skip
PER_CLASS = ([], [1.0, 2.0], {0: 1.0, 1: 2.0}, {}, {"a": 1}, [1, "x"], np.array([[1.0]]))

#: A path is written to, callbacks are another door.
LEFT_ALONE = ("checkpoint", "checkpoint_every", "verbose")


def values_for(name, default):
    """Odd values of a parameter, by its name and its default."""
    if name == "random_state":
        return SEEDS
    if name == "coder":
        return CODERS
    if name == "views":
        return VIEWS_OF_ROWS
    if name == "model":
        return MODELS
    if name == "class_weight":
        return CLASS_WEIGHTS
    if name == "initial_atoms":
        return INITIAL_ATOMS
    name = name.removeprefix("model__")
    if name == "atom_prior":
        return PRIORS_OF_ATOMS
    if name in ("noise_precision", "usage_a", "usage_b"):
        return (*WEIGHTS, *PER_CLASS)
    if name == "n_jobs":
        return JOBS
    if name.startswith("n_") or name == "variant":
        return COUNTS
    if isinstance(default, bool | str) and default != "auto":
        return CHOICES
    return (*WEIGHTS, *CHOICES) if default == "auto" else (*WEIGHTS, *COUNTS)


@st.composite
def parameters(draw, defaults):
    """None or one of the parameters, odd; rarely two."""
    names = [name for name in defaults if name not in LEFT_ALONE]
    chosen = {}
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 1, 2]))):
        name = draw(st.sampled_from(names))
        chosen[name] = draw(st.sampled_from(values_for(name, defaults[name])))
    if "model" in chosen:  # which may have no settings
        return {name: value for name, value in chosen.items() if not name.startswith("model__")}
    return chosen
