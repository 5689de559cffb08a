"""Generated calls of every public function, most with odd input, and a judge of the outcomes.

An outcome is right if the answer is as the documentation promises. It is clear if the call is
refused with a message that names the problem. Everything else is a fault:

    python tests/generated_calls.py 2000 0     # 2000 calls from seed 0, and a table
"""

import copy
import re
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from odd_input import (
    CONTENTS,
    N_FEATURES,
    N_ROWS,
    Odd,
    labels,
    make_rows,
    parameters,
    rows,
    sample_weights,
)
from scipy import sparse

import dbdl
from dbdl import (
    BetaProcessDictionary,
    DBDLClassifier,
    ModelSettings,
    ViewTransformer,
    features,
    open_rows,
)
from dbdl.coding import PosteriorMean, lasso, llc, omp, omp_path
from dbdl.datasets import DataError, load
from dbdl.rivals.ksvd import KSVD
from dbdl.views import AUTOMATIC, VIEWS, View

#: A call of so many seconds counts as one that hangs. Nearly all take a few hundredths.
PATIENCE = 60

#: Kinds of outcome; all but the first two are faults.
KINDS = ("right", "clear error", "unclear error", "warning", "wrong answer", "hang")


class WrongAnswerError(AssertionError):
    """An answer that does not keep what the documentation promises."""


@dataclass(frozen=True)
class Call:
    """A call of a door.

    Attributes
    ----------
    door : str
    words : str
        What it was given.
    act : callable
        Makes the call and checks its answer.
    given : tuple of Odd
        What the door must leave as it was, and may have to refuse.
    """

    door: str
    words: str
    act: Any
    given: tuple[Odd, ...] = ()

    def __repr__(self):
        return f"{self.door}: {self.words}"


@dataclass(frozen=True)
class Outcome:
    """What came of a call."""

    call: Call
    kind: str
    detail: str
    seconds: float

    @property
    def is_fault(self):
        return self.kind not in KINDS[:2]

    def __str__(self):
        return f"{self.kind}: {self.call}\n    {self.detail}"


def expect(condition, *words):
    if not condition:
        raise WrongAnswerError(" ".join(str(word) for word in words))


# ------------------------------------------------------------------------------- invariants


def exact(value):
    """Rows in a float so wide that none of their products overflows or vanishes."""
    if sparse.issparse(value):
        value = value.toarray()
    elif isinstance(value, pd.DataFrame):  # before pandas 3, its array would hold NA as it is
        value = value.to_numpy(na_value=np.nan)
    return np.asarray(value).astype(np.longdouble)


def unit(X):
    norm = np.sqrt(np.square(X).sum(axis=1, keepdims=True))
    return X / np.where(norm == 0, 1, norm)


def check_unit_norm(atoms, what):
    expect(np.isfinite(atoms).all(), what, "are not finite")
    error = np.abs(np.sqrt(np.square(exact(atoms)).sum(axis=1)) - 1)
    expect(
        (error < 16 * np.finfo(atoms.dtype).eps).all(),
        what,
        "have norms off by",
        error.max(initial=0),
    )


def check_codes(X, codes, atoms, n_nonzero, least_match=0.1):
    """Codes are finite and sparse, say no less than nothing, and are not empty without need."""
    expect(codes.shape == (len(X), len(atoms)), "codes have shape", codes.shape)
    expect(np.isfinite(codes.data).all(), "codes are not finite")
    counts = np.diff(codes.indptr)
    expect(counts.max(initial=0) <= n_nonzero, "a code has", counts.max(initial=0), "non-zeros")
    size = np.sqrt(np.square(X).sum(axis=1))
    left = np.sqrt(np.square(X - exact(codes) @ atoms).sum(axis=1))
    slack = 1e-3 if codes.dtype == np.float32 else 1e-6
    # a coefficient that has to be denormal has few digits
    floor = len(atoms) * np.abs(atoms).max(initial=0) * np.finfo(codes.dtype).smallest_subnormal
    worst = (left - size * (1 + slack) - floor).max(initial=0)
    expect(worst <= 0, "a code is worse than none by", worst)
    match = np.abs(unit(X) @ unit(atoms).T).max(axis=1, initial=0)
    # a coefficient may be too small for a number of this kind
    largest = np.abs(atoms).max(initial=0)
    coded = size / (largest if largest > 0 else 1) > 1e3 * np.finfo(codes.dtype).tiny
    expect(not ((counts == 0) & (match > least_match) & coded).any(), "a code is empty")


def check_scores(model, X, n):
    """Scores, classes and probabilities are finite and agree."""
    classes, scores = model.classes_, model.decision_function(X)
    expect(scores.shape in ((n,), (n, len(classes))), "scores have shape", scores.shape)
    expect(np.isfinite(scores).all(), "scores are not finite")
    predicted = model.predict(X)
    expect(predicted.shape == (n,), "predictions have shape", predicted.shape)
    expect(np.isin(predicted, classes).all(), "predictions are not classes")
    if hasattr(model, "predict_proba"):
        probability = model.predict_proba(X)
        expect(probability.shape == (n, len(classes)), "probabilities of shape", probability.shape)
        expect(np.isfinite(probability).all(), "probabilities are not finite")
        expect((probability >= 0).all(), "negative probabilities")
        expect(np.allclose(probability.sum(axis=1), 1), "probabilities do not sum to one")
        own = probability[np.arange(n), np.searchsorted(classes, predicted)]
        expect((own >= probability.max(axis=1) - 1e-9).all(), "predict against predict_proba")
    score = model.score(X, predicted)
    expect(score == 1.0, "score of the own predictions is", score)


PLAIN = (View(), View(normalize=False))


def seen(view, X):
    """Rows as a view maps them: finite, of unit norm or zero."""
    mapped = view.apply(X)
    expect(mapped.shape == (len(X), view.n_features), "mapped rows have shape", mapped.shape)
    expect(mapped.dtype == X.dtype, "mapped rows are", mapped.dtype)
    some = mapped.any(axis=1)
    check_unit_norm(mapped[some], "mapped rows")
    return exact(mapped)


def check_dictionary(model, X, learned=True):
    """Atoms and codes of a model of chains."""
    chains = getattr(model, "chains_", [])
    if not chains:
        check_unit_norm(model.atoms_, "atoms_")
    expect(model.atoms_.shape[1] == model.n_features_in_, "atoms_ have shape", model.atoms_.shape)
    expect(np.isfinite(model.atoms_).all(), "atoms_ are not finite")
    expect(np.array_equal(model.components_, model.atoms_), "components_ are not atoms_")
    expect(not chains or abs(sum(c.weight for c in chains) - 1) < 1e-9, "weights do not sum to one")
    for chain in chains:
        check_unit_norm(chain.atoms, "atoms of a chain")
        probability = chain.selection_probability
        expect(((probability >= 0) & (probability <= 1)).all(), "selection_probability")
        expect(np.isfinite(chain.label_atoms).all(), "label atoms are not finite")
    if hasattr(model, "trace_"):
        expect(np.isfinite(model.trace_.log_joint).all(), "log joint density is not finite")
    codes = model.transform(X)
    row = exact(X)
    if chains and np.isnan(row).any():  # codes are those of the filled rows
        X = model._filled(model._rows(X, reset=False))
        row = exact(X)
    start = 0
    for part in chains or [None]:
        atoms = model.atoms_ if part is None else part.atoms
        own = codes[:, start : start + len(atoms)]
        start += len(atoms)
        coder = None if part is None else part.coder
        wanted = unit(row) if model.normalize else row
        if part is not None and getattr(part.view, "recipe", None) not in PLAIN:
            wanted = seen(part.view, model._rows(X, reset=False))
        if isinstance(coder, PosteriorMean):  # the mean of draws: may be worse than none
            expect(np.isfinite(own.data).all(), "codes are not finite")
            expect(np.diff(own.indptr).max(initial=0) <= coder.n_nonzero, "too many non-zeros")
        else:
            n_nonzero = model.n_nonzero_ if coder is None else coder.n_nonzero
            check_codes(wanted, own, exact(atoms), n_nonzero)
    if hasattr(model, "inverse_transform"):
        back = model.inverse_transform(codes)
        expect(back.shape == row.shape, "inverse_transform gives shape", back.shape)
        expect(np.isfinite(back).all(), "inverse_transform is not finite")


#: Rivals whose atoms are documented to have unit norm, or are rows scaled to it.
LOOSE_ATOMS = ("LLCClassifier", "DPLClassifier", "LRSDLClassifier")
ROWS_AS_ATOMS = (
    "SRCClassifier", "CRCClassifier", "ProCRCClassifier", "SACRCClassifier",
    "TrainingRowsClassifier", "RandomRowsClassifier",
)  # fmt: skip


def check_rival(model):
    name = type(model).__name__
    expect(np.isfinite(model.atoms_).all(), "atoms_ are not finite")
    if name not in LOOSE_ATOMS and (model.normalize or name not in ROWS_AS_ATOMS):
        check_unit_norm(model.atoms_, "atoms_")
    expect(model.components_ is model.atoms_, "components_ are not atoms_")
    expect(np.isfinite(model.objective_).all(), "objective_ is not finite")


# ------------------------------------------------------------------------------------ doors


def fit(make, X, y, params, weight):
    model = make(**params)
    weights = {} if weight.value is None else {"sample_weight": weight.value}
    if y is None:
        model.fit(X.value, **weights)
    else:
        model.fit(X.value, y.value, **weights)
    n = len(X.value)
    expect(model.n_features_in_ == np.asarray(X.value).shape[1], "n_features_in_")
    if isinstance(model, DBDLClassifier | BetaProcessDictionary | KSVD):
        check_dictionary(model, X.value)
    else:
        check_rival(model)
    if y is not None:
        check_scores(model, X.value, n)


def small(make, **cheap):
    """A maker of estimators that take little time."""

    def made(**params):
        return make(**cheap).set_params(**params)

    return made


OURS = {
    name: method
    for name, method in dbdl.methods().items()
    if method.make.__module__.startswith("dbdl.") and method.make is not DBDLClassifier
}


def known(make):
    """Parameters of an estimator and of its model, with their defaults."""
    return make(model=ModelSettings()).get_params()


@st.composite
def estimators(draw):
    """Name, maker, odd parameters, and whether there are labels."""
    name = draw(st.sampled_from(["DBDL", "DBDL", "DBDL", "dictionary", "dictionary", "K-SVD alone",
                                 *OURS]))  # fmt: skip
    if name == "dictionary":
        made = small(BetaProcessDictionary, n_sweeps=draw(st.integers(1, 4)), random_state=0)
        return name, made, draw(parameters(known(BetaProcessDictionary))), False
    if name == "K-SVD alone":
        made = small(KSVD, n_iterations=3, random_state=0)
        return name, made, draw(parameters(KSVD().get_params())), False
    if name == "DBDL":
        sweeps, chains = draw(st.integers(1, 4)), draw(st.integers(1, 2))
        make = draw(st.sampled_from([DBDLClassifier, DBDLClassifier, DBDLClassifier.paper]))
        cheap = {"n_sweeps": sweeps, "n_chains": chains, "random_state": 0}
        if make is DBDLClassifier:  # all views have their turn
            cheap["views"] = draw(st.sampled_from(["auto", *AUTOMATIC, *VIEWS]))
        made = small(make, **cheap)
        return name, made, draw(parameters(known(DBDLClassifier))), True
    method = OURS[name]
    return name, small(method, random_state=0), draw(parameters(method().get_params())), True


@st.composite
def fits(draw):
    name, made, params, labelled = draw(estimators())
    n = draw(st.sampled_from(N_ROWS))
    X = draw(rows(n=n))
    y = draw(labels(n)) if labelled else None
    weight = Odd(None, "no weights")
    if name in ("DBDL", "dictionary"):
        weight = draw(sample_weights(n))
    given_ = (X, weight) if y is None else (X, y, weight)
    words = f"fit({X}, {y}, {weight}) {params}"
    return Call(f"{name}.fit", words, lambda: fit(made, X, y, params, weight), given_)


@st.composite
def batches(draw):
    """partial_fit twice, with odd batches."""
    labelled = draw(st.booleans())
    defaults = known(DBDLClassifier if labelled else BetaProcessDictionary)
    cheap = {"n_sweeps": 2, "random_state": 0, "n_chains": 1}
    if not labelled:
        del cheap["n_chains"]
    params = draw(parameters(defaults))
    if draw(st.booleans()):
        params["forgetting"] = draw(st.sampled_from([1.0, 0.5, 1e-9, 1e-300, 5e-324, 0.0, 2]))
    m = draw(st.sampled_from(N_FEATURES))
    sizes = [draw(st.sampled_from(N_ROWS)) for _ in range(2)]
    X = [draw(rows(n=n, m=m)) for n in sizes]
    y = [draw(labels(n)) if labelled else None for n in sizes]
    weights = [draw(sample_weights(n)) for n in sizes]
    named = draw(st.sampled_from([None, None, None, [0, 1, 2, 3], ["a"], [], 3, [None], "x"]))

    def act():
        make = DBDLClassifier if labelled else BetaProcessDictionary
        model = make(**cheap).set_params(**params)
        for rows_, labels_, weight in zip(X, y, weights, strict=True):
            if labelled:
                model.partial_fit(rows_.value, labels_.value, named, sample_weight=weight.value)
                check_scores(model, rows_.value, len(rows_.value))
            else:
                model.partial_fit(rows_.value, sample_weight=weight.value)
            check_dictionary(model, rows_.value)

    given_ = (*X, *(one for one in y if one is not None), *weights)
    name = "DBDL" if labelled else "dictionary"
    words = f"{X} {y} {weights} classes={named!r} {params}"
    return Call(f"{name}.partial_fit", words, act, given_)


@cache
def fitted(name, dtype):
    """A plain model, learned once."""
    X = np.random.default_rng(0).normal(size=(30, 6)).astype(dtype)
    y = np.arange(30) % 3
    if name == "dictionary":
        return BetaProcessDictionary(n_sweeps=3, random_state=0).fit(X)
    if name == "K-SVD alone":
        return KSVD(n_atoms=8, n_iterations=3, random_state=0).fit(X)
    if name == "DBDL":
        return DBDLClassifier(n_sweeps=3, n_chains=8, random_state=0).fit(X, y)
    if name == "DBDL with draws":
        kept = {"n_draws": 2, "model": ModelSettings(keep_atom_draws=True)}
        return DBDLClassifier(n_sweeps=3, n_chains=2, random_state=0, **kept).fit(X, y)
    if name == "DBDL as it is":
        return DBDLClassifier(n_sweeps=3, n_chains=1, normalize=False, random_state=0).fit(X, y)
    return OURS[name](random_state=0).fit(X, y)


METHODS = ("predict", "predict_proba", "decision_function", "transform", "score_samples")


@st.composite
def queries(draw):
    """Methods of a plain model on odd rows."""
    name = draw(st.sampled_from(["DBDL", "DBDL", "DBDL as it is", "dictionary", "K-SVD alone",
                                 *OURS]))  # fmt: skip
    dtype = draw(st.sampled_from(["float64", "float32"]))
    X = draw(rows(m=draw(st.sampled_from([6, 6, 6, 6, 5, 1]))))

    def act():
        model = fitted(name, dtype)
        answers = [getattr(model, method)(X.value) for method in METHODS
                   if hasattr(model, method)]  # fmt: skip
        shape = np.shape(X.value)
        expect(shape[1] == 6, "rows of another width were taken")
        if hasattr(model, "classes_"):
            check_scores(model, X.value, shape[0])
        if hasattr(model, "transform"):
            check_dictionary(model, X.value)
        if hasattr(model, "score_samples"):
            density = answers[-1]
            expect(density.shape == shape[:1] and np.isfinite(density).all(), "density", density)
        return answers

    return Call(f"{name}, queries", f"{X} {dtype}", act, (X,))


@st.composite
def refusals(draw):
    """fit_refusals with odd labels, and refuse and predict_set with odd requests."""
    name = draw(st.sampled_from(["DBDL", *OURS]))
    n = draw(st.sampled_from(N_ROWS))
    y = draw(st.one_of(labels(n), st.just(Odd(np.arange(n) % 3, "plain labels"))))
    share = draw(st.sampled_from([0.9, 0.05, 0.5, 5e-324, 1 - 1e-16, 0, 1, 2, -1, np.nan, None,
                                  "x", True, [0.5]]))  # fmt: skip
    kind = draw(st.sampled_from(["max_error", "min_probability", "confidence"]))

    def act():
        model = copy.copy(fitted(name, "float64"))
        X = np.random.default_rng(1).normal(size=(n, 6))
        model.fit_refusals(X, y.value)
        sets = model.predict_set(X, coverage=share)
        expect(sets.shape == (n, len(model.classes_)) and sets.dtype == bool, "sets", sets.shape)
        asked = {kind: share} if kind != "confidence" else {"max_error": 0.3, kind: share}
        refused = model.refuse(X, **asked)
        expect(refused.shape == (n,) and refused.dtype == bool, "mask of shape", refused.shape)

    return Call(f"{name}, refusals", f"{y} {kind}={share!r}", act, (Odd(y.value, y.words),))


@st.composite
def explanations(draw):
    """explain with odd rows and odd requests."""
    name = draw(st.sampled_from(["DBDL", "DBDL as it is"]))
    dtype = draw(st.sampled_from(["float64", "float32"]))
    X = draw(rows(m=draw(st.sampled_from([6, 6, 6, 6, 5]))))
    odd = draw(st.sampled_from([{}, {}, {}, {"against": "x"}, {"against": [1]}, {"baseline": 3},
                                {"baseline": np.ones(6)}, {"baseline": np.zeros(6)},
                                {"n_nearest": "x"}, {"y_train": [1]}]))  # fmt: skip

    def act():
        explained = fitted(name, dtype).explain(X.value, **odd)
        shape = np.shape(X.value)
        expect(shape[-1] == 6, "rows of another width were taken")
        for why in explained if isinstance(explained, list) else [explained]:
            expect(np.isfinite(why.shares).all(), "shares are not finite", why.shares)
            missed = why.constant + why.shares.sum() - why.difference
            size = max(1.0, abs(why.constant), np.abs(why.shares).max())
            near = 1e-8 if dtype == "float64" else 1e-4
            expect(abs(missed) <= near * size, "shares do not add up", missed, size)
            expect(str(why).startswith("Predicted "), "odd words", str(why))

    return Call(f"{name}.explain", f"{X} {dtype} {odd!r}", act, (X,))


@st.composite
def questions(draw):
    """Methods about the chains, with odd arguments."""
    name = draw(st.sampled_from(["DBDL with draws", "DBDL", "dictionary"]))
    door = draw(st.sampled_from(["selection_interval", "posterior_proba", "to_arviz"]))
    X = draw(rows(m=draw(st.sampled_from([6, 6, 6, 5]))))
    odd = draw(st.sampled_from([0.9, 0.5, 0, 1, -1, 2, np.nan, "x", None, [0.5], "plain"]))

    def act():
        model = fitted(name, "float64")
        if door == "posterior_proba" and name != "dictionary":
            probability = model.posterior_proba(X.value)
            expect(np.isfinite(probability).all(), "probabilities are not finite")
            expect(np.allclose(probability.sum(axis=1), 1), "they do not sum to one")
        elif door == "selection_interval":
            with warnings.catch_warnings():  # few sweeps have not converged
                warnings.simplefilter("ignore")
                low, high = model.selection_interval(odd)
            expect((low <= high).all() and 0 < odd < 1, "an interval of level", odd)
        elif door == "to_arviz":
            expect(set(model.to_arviz(odd).children) == {"posterior", "sample_stats"}, "groups")

    own = door == "posterior_proba" and name == "DBDL with draws"
    given = X if own else Odd(X.value, X.words)
    return Call(f"{name}.{door}", f"{X} {odd!r}", act, (given,))


@st.composite
def scores_of_labels(draw):
    """score with odd labels."""
    name = draw(st.sampled_from(["DBDL", *OURS]))
    n = draw(st.sampled_from(N_ROWS))
    y = draw(labels(n))

    def act():
        X = np.random.default_rng(1).normal(size=(n, 6))
        score = fitted(name, "float64").score(X, y.value)
        expect(0 <= score <= 1, "score is", score)

    return Call(f"{name}.score", f"{y}", act, (Odd(y.value, y.words),))


@st.composite
def decodings(draw):
    """inverse_transform of odd codes."""
    name = draw(st.sampled_from(["DBDL", "dictionary"]))
    right_width = draw(st.booleans())
    contents = draw(rows(m=1))
    form = draw(st.sampled_from(["as drawn", "csr", "csc", "coo", "too wide"]))
    n, number = draw(st.sampled_from(N_ROWS)), draw(st.integers(0, 99))
    content = draw(st.sampled_from([c for c in CONTENTS if "1e" not in c and "mixed" not in c]))

    def act():
        model = fitted(name, "float64")
        width = len(model.atoms_) + (form == "too wide")
        codes = make_rows(content, "float64", n, width, number)
        if form in ("csr", "csc", "coo"):
            codes = Odd(sparse.csr_matrix(codes.value).asformat(form), "", codes.refused)
        if form == "as drawn":
            codes = contents
            right = np.shape(codes.value)[1:] == (width,)
        else:
            right = form != "too wide" and not codes.refused
        back = model.inverse_transform(codes.value)
        expect(right, "codes that cannot be were decoded")
        expect(np.isfinite(back).all(), "rows are not finite")

    return Call(f"{name}.inverse_transform", f"{form} {content} {contents} {right_width}", act)


@st.composite
def codings(draw):
    """omp, omp_path, lasso and llc of odd rows over odd atoms."""
    door = draw(st.sampled_from(["omp", "omp_path", "lasso", "llc"]))
    m = draw(st.sampled_from(N_FEATURES))
    n, k = draw(st.sampled_from(N_ROWS)), draw(st.sampled_from(N_ROWS))
    plain_atoms = draw(st.booleans())
    X = draw(rows(n=n, m=m)) if plain_atoms or draw(st.booleans()) else None
    if X is None:
        X = make_rows("plain", "float64", n, m, draw(st.integers(0, 99)))
    if "as no rows" in X.words:  # which have no codes
        X = Odd(X.value, X.words)
    atoms = make_rows("plain", "float64", k, m, 7) if plain_atoms else draw(rows(n=k, m=m))
    if draw(st.sampled_from([False] * 9 + [True])):
        atoms = make_rows("plain", "float64", k, m + 1, 7)  # of another width
        X = Odd(X.value, X.words, refused=True)
    if draw(st.booleans()) and not (X.refused or atoms.refused) and not plain_atoms:
        # rows that are atoms, so that some atom matches
        X = Odd(np.asarray(atoms.value)[:n].copy(), "the first atoms")
    given_gram = draw(st.sampled_from([False, False, True]))
    odd = draw(st.sampled_from([0, 0, 0, 1]))
    counts = [1, 2, 5, 50] + [0, -1, None, 2.5, "x", True, np.nan] * odd
    weights = [0.1, 0.0, 1e-3, 1e9] + [-1.0, np.nan, np.inf, "x", 1e-300, 1e300, True] * odd
    n_nonzero = draw(st.sampled_from(counts))
    weight = draw(st.sampled_from(weights))
    rule = draw(st.sampled_from(["orthogonal", "forward"] + ["x", None, b"forward"] * odd))
    jobs = draw(st.sampled_from([None, 2] + [0, "x", 1.5] * odd))
    how = draw(st.sampled_from(["n_nonzero", "tol", "penalty"] + ["all", "none"] * odd))

    def act():
        return CODERS[door](X.value, atoms.value, n_nonzero, weight, rule, jobs, how, given_gram)

    words = f"{X} over {atoms} {n_nonzero=} {weight=} {rule=} {jobs=} {how=} {given_gram=}"
    return Call(door, words, act, (X, atoms))


def gram_of(atoms, wanted):
    if not wanted:
        return None
    try:
        atoms = np.asarray(atoms, dtype=float)
        with np.errstate(all="ignore"):
            return atoms @ atoms.T
    except (TypeError, ValueError):
        return np.eye(3)


def code_by_omp(X, atoms, n_nonzero, weight, rule, jobs, how, gram):
    tol = weight if how in ("tol", "all") else None
    codes = omp(X, atoms, n_nonzero, tol, rule, gram=gram_of(atoms, gram), n_jobs=jobs)
    check_codes(exact(X), codes, exact(atoms), n_nonzero, 2.0 if tol is not None else 0.1)


def code_by_paths(X, atoms, n_nonzero, weight, rule, jobs, how, gram):
    numbers = [n_nonzero, 1] if how != "none" else []
    paths = omp_path(X, atoms, numbers, rule, gram=gram_of(atoms, gram), n_jobs=jobs)
    for codes, number in zip(paths, numbers, strict=True):
        check_codes(exact(X), codes, exact(atoms), number)


def code_by_lasso(X, atoms, n_nonzero, weight, rule, jobs, how, gram):
    settings_ = {"n_nonzero": n_nonzero, "tol": weight, "penalty": weight}
    chosen = {how: settings_[how]} if how in settings_ else {}
    if how == "all":
        chosen = settings_
    codes = lasso(X, atoms, gram=gram_of(atoms, gram), n_threads=1, **chosen)
    free = how == "n_nonzero"
    check_codes(exact(X), codes, exact(atoms), n_nonzero if free else 10**9, 0.1 if free else 2.0)


def code_by_llc(X, atoms, n_nonzero, weight, rule, jobs, how, gram):
    codes = llc(X, atoms, n_nonzero, weight, gram_of(atoms, gram))
    expect(codes.shape == (len(X), len(atoms)), "codes have shape", codes.shape)
    expect(np.isfinite(codes.data).all(), "codes are not finite")
    expect(np.allclose(codes.sum(axis=1), 1), "codes do not sum to one")
    expect(np.diff(codes.indptr).max(initial=0) <= n_nonzero, "too many non-zeros")


CODERS = {
    "omp": code_by_omp, "omp_path": code_by_paths, "lasso": code_by_lasso, "llc": code_by_llc
}  # fmt: skip


@st.composite
def mapped_rows(draw):
    """Views of odd rows, and the way back."""
    n = draw(st.sampled_from(N_ROWS))
    X, y = draw(rows(n=n)), draw(labels(n))
    view = draw(st.sampled_from([*AUTOMATIC, *VIEWS, "auto", "odd", None, View(power=2.0)]))

    def act():
        model = ViewTransformer(view).fit(X.value, y.value)
        mapped = model.transform(X.value)
        expect(mapped.shape == (len(X.value), model.view_.n_features), "shape", mapped.shape)
        expect(np.isfinite(mapped).all(), "mapped rows are not finite")
        norms = np.linalg.norm(mapped, axis=1)
        expect(np.all((abs(norms - 1) < 1e-3) | (norms == 0)), "mapped rows of norms", norms)
        expect(np.isfinite(model.inverse_transform(mapped)).all(), "the way back is not finite")

    given_ = (X,) if y.value is None else (X, y)  # a view may be learned without labels
    return Call("ViewTransformer", f"{X} {y} {view!r}", act, given_)


@st.composite
def images(draw):
    """Features of odd images."""
    door = draw(st.sampled_from(["dense_sift", "read_grey", "RandomFaces", "DenseSIFT",
                                 "SpatialPyramid"]))  # fmt: skip
    X = draw(rows(n=24, m=17))
    odd = draw(
        st.sampled_from([1, 16, 3] if door == "RandomFaces" else [None, 1, 8, 0, -1, "x", 2.5])
    )

    def act():
        image = X.value
        if door == "read_grey":
            grey = features.read_grey(image, odd)
            expect(np.isfinite(grey).all() and grey.ndim == 2, "a grey image is odd")
            return
        if door == "dense_sift":
            found = features.dense_sift(image, longest_side=odd)
            expect(np.isfinite(found.values).all(), "descriptors are not finite")
            return
        if door == "RandomFaces":
            projected = features.RandomFaces(odd).fit_transform(image)
            expect(projected.shape == (24, odd), "shape", projected.shape)
            expect(np.isfinite(projected).all(), "projections are not finite")
            return
        if door == "DenseSIFT":
            found = features.DenseSIFT(longest_side=odd).fit_transform([image, image])
            expect(len(found) == 2, "descriptors of", len(found), "images")
            return
        pyramid = features.SpatialPyramid(4, levels=(0, 1), random_state=0)
        made = pyramid.fit_transform([np.random.default_rng(0).random((24, 24)), image])
        expect(np.isfinite(made).all(), "a pyramid is not finite")

    return Call(
        door, f"{X} {odd!r}", act, (Odd(X.value, X.words, door == "RandomFaces" and X.refused),)
    )


@st.composite
def displays(draw):
    """Pictures of plain models with odd arguments."""
    from dbdl.plotting import AtomsDisplay, SelectionDisplay, TraceDisplay

    door = draw(st.sampled_from(["AtomsDisplay", "SelectionDisplay", "TraceDisplay"]))
    name = draw(st.sampled_from(["DBDL", "dictionary", "CRC", "not fitted", "None"]))
    argument = draw(
        st.sampled_from([None, (2, 3), (2, 2), 1, 0, -1, "n_atoms", ["n_atoms"], ["x"]])
    )

    def act():
        import matplotlib.pyplot as plt

        odd = {"not fitted": DBDLClassifier(), "None": None}
        model = odd[name] if name in odd else fitted(name, "float64")
        display = {"AtomsDisplay": AtomsDisplay, "SelectionDisplay": SelectionDisplay,
                   "TraceDisplay": TraceDisplay}[door]  # fmt: skip
        try:
            made = display.from_estimator(*((model,) if argument is None else (model, argument)))
            expect(made.figure_.axes, "an empty figure")
        finally:
            plt.close("all")

    return Call(door, f"{name} {argument!r}", act)


@st.composite
def files(draw):
    """Doors of files with things that are none; damaged files have tests of their own."""
    door = draw(st.sampled_from([load, open_rows]))
    odd = draw(
        st.sampled_from(
            [3, None, "", "no such file.csv", b"digits", np.zeros((2, 2)), ["digits"], 1.5,
             Path("no such file.npy"), "a\0b", {"a": 1}, pd.DataFrame({"a": [1]}), True]
        )
    )  # fmt: skip
    return Call(f"{door.__name__}", f"{odd!r}", lambda: expect(not door(odd), "opened"))


GENERATORS = (fits(), fits(), fits(), queries(), queries(), codings(), codings(), batches(),
              decodings(), questions(), scores_of_labels(), refusals(), explanations(), images(),
              displays(), files(), mapped_rows())  # fmt: skip
calls = st.one_of(*GENERATORS)

# -------------------------------------------------------------------------------- the judge

#: Messages of Python, NumPy and pandas that say nothing of our arguments.
FOREIGN = re.compile(
    r"^(could not convert|float\(\) argument|int\(\) argument|'[<>=]+' not supported|unhashable|"
    r"setting an array element|The truth value|boolean value of NA|cannot convert|Cannot convert|"
    r"unsupported operand|object of type|'\w+' object (is|has)|ufunc '|operands could not|matmul|"
    r"index \d+ is out|cannot reshape|must be real number|bad operand|invalid literal|No matching|"
    r"list index|attempt to get|zero-size array|array must not contain|expected str, bytes)"
)
#: Ways in which scikit-learn says what is wrong with rows or labels without naming them.
SCIKIT_LEARN = re.compile(
    r"Expected 2D array|Found array with|inconsistent numbers of samples|Unknown label type|"
    r"Complex data not supported|Sparse data was passed|Found input variables|is not fitted yet|"
    r"feature names|The '\w+' parameter of|Labels? represented|y should be a 1d array|"
    r"Support for labels|A sparse matrix was passed|Classification metrics can't|"
    r"Input y_true contains|Mix of label input types|labels represented as bytes|"
    r"Expected array-like|Singleton array"
)
#: Names of arguments: a clear message has one.
NAMES = re.compile(
    r"\b(X|y|atoms|gram|codes|classes|images?|estimator|n_jobs|n_threads|path|file|folder|" +
    "|".join({*known(DBDLClassifier), *ModelSettings().get_params(), *KSVD().get_params(),
              "rule", "tol", "fields", "penalty", "image_shape", "n_classes", "longest_side",
              "n_components", "coverage", "max_error", "min_probability", "confidence", "level",
              "view", "sample_weight", "against", "baseline", "n_nearest", "y_train",
              *(p for method in OURS.values() for p in method().get_params())}) + r")\b"
)  # fmt: skip
#: Where errors may come from: our code, and scikit-learn's checks.
PLACES = ("/dbdl/", "sklearn/utils/validation.py", "sklearn/utils/_param_validation.py",
          "sklearn/utils/class_weight.py",
          "sklearn/utils/multiclass.py", "sklearn/metrics/_classification.py",
          "sklearn/base.py")  # fmt: skip


def is_clear(error):
    """Whether an error says in our words, or scikit-learn's, what was wrong."""
    if isinstance(error, FileNotFoundError):
        return True
    if not isinstance(error, ValueError | TypeError | DataError):
        return False
    words = str(error)
    if FOREIGN.search(words) or not (NAMES.search(words) or SCIKIT_LEARN.search(words)):
        return False
    place = traceback.extract_tb(error.__traceback__)[-1].filename
    return any(part in place for part in PLACES)


@contextmanager
def patience():
    def give_up(number, frame):
        raise TimeoutError(f"no answer after {PATIENCE} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def is_same(a, b):
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and (a.tobytes() == b.tobytes() if a.dtype != object else True)
    if isinstance(a, pd.DataFrame | pd.Series):
        return a.equals(b)
    return True


def try_call(call):
    """Make a call and judge what comes of it."""
    before = [copy.deepcopy(one.value) for one in call.given]
    start = time.perf_counter()

    def outcome(kind, detail=""):
        return Outcome(call, kind, detail, time.perf_counter() - start)

    try:
        with warnings.catch_warnings(record=True) as caught, patience():
            warnings.simplefilter("always")
            call.act()
    except TimeoutError as error:
        return outcome("hang", str(error))
    except WrongAnswerError as error:
        return outcome("wrong answer", str(error))
    except Exception as error:
        if is_clear(error):
            return outcome("clear error", str(error))
        where = traceback.extract_tb(error.__traceback__)[-1]
        return outcome(
            "unclear error", f"{type(error).__name__}: {error} [{where.filename}:{where.lineno}]"
        )
    fills = call.door.startswith(("DBDL", "dictionary"))
    if refused := [one for one in call.given if one.refused and not (one.gaps and fills)]:
        return outcome("wrong answer", f"took {refused}")
    for one, value in zip(call.given, before, strict=True):
        if not is_same(value, one.value):
            return outcome("wrong answer", f"changed {one}")
    bad = [w for w in caught if issubclass(w.category, RuntimeWarning)]
    if bad:
        return outcome(
            "warning",
            f"{bad[0].category.__name__}: {bad[0].message} [{bad[0].filename}:{bad[0].lineno}]",
        )
    return outcome("right")


def warm_up():
    """Compile what the doors need, so that no call waits for it."""
    plain = make_rows("plain", "float64", 12, 5, 0).value
    for dtype in ("float64", "float32"):
        for scan in (DBDLClassifier, DBDLClassifier.paper):
            scan(n_sweeps=2, n_chains=1).fit(plain.astype(dtype), np.arange(12) % 2)
        for name in ("DBDL", "DBDL as it is", "dictionary", "K-SVD alone", *OURS):
            model = fitted(name, dtype)
            method = model.transform if hasattr(model, "transform") else model.predict
            method(np.ones((2, 6), dtype))
        X = np.random.default_rng(0).normal(size=(6, 4)).astype(dtype)
        omp(X, X, 2), omp(X, X, 2, 0.1, "forward"), lasso(X, X, n_nonzero=2), llc(X, X, 2)
        lasso(X, X, tol=0.1), lasso(X, X, penalty=0.1)


def outcomes(n_calls, number):
    """Outcomes of so many calls, the same for the same number."""
    found = []

    @seed(number)
    @settings(max_examples=n_calls, deadline=None, database=None, phases=[Phase.generate],
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(calls)
    def make(call):
        found.append(try_call(call))

    make()
    return found


def table(found):
    """Counts of the kinds of outcome for each door."""
    doors = sorted({one.call.door for one in found})
    count = Counter((one.call.door, one.kind) for one in found)
    width = max(map(len, doors)) + 2
    lines = [" " * width + "".join(f"{kind:>15}" for kind in KINDS)]
    for door in doors:
        lines.append(door.ljust(width) + "".join(f"{count[door, kind]:15d}" for kind in KINDS))
    total = [sum(one.kind == kind for one in found) for kind in KINDS]
    lines.append("all".ljust(width) + "".join(f"{number:15d}" for number in total))
    lines.append(f"right or clear: {sum(total[:2]) / len(found):.2%} of {len(found)}")
    return "\n".join(lines)


def main(n_calls="2000", number="0"):
    import matplotlib as mpl

    mpl.use("Agg")
    warm_up()
    found = outcomes(int(n_calls), int(number))
    for one in found:
        if one.is_fault:
            print(one)
    for one in sorted(found, key=lambda one: -one.seconds)[:5]:
        print(f"{one.seconds:.1f} s: {one.call}")
    print(table(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
