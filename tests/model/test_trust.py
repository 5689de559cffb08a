"""Records declare types, shapes and ranges, and are checked against them."""

from __future__ import annotations

import importlib
import pickle
import pkgutil
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal

import numpy as np
import pytest
from sklearn.base import BaseEstimator

import dbdl
from dbdl._loaded import CheckedEstimator
from dbdl.features import DenseSIFT
from dbdl.learn.chain import ChainSettings
from dbdl.model.record import Record
from dbdl.model.settings import ModelSettings
from dbdl.model.state import Codes
from dbdl.model.trust import Atoms, Count, RecordError, Scope, check, reals, whole
from dbdl.persistence import TRUSTED_ROOMS
from dbdl.rivals._scaled_rows import ScaledRowsClassifier


@dataclass(frozen=True)
class Part(Record):
    atoms: Atoms
    owner: Annotated[np.ndarray, whole("n_atoms", below="n_classes")]
    rule: Literal["one", "two"] = "one"
    mean: Annotated[np.ndarray, reals("n_features")] | None = None

    @cached_property
    def cache(self):
        return self.atoms @ self.atoms.T


@dataclass(frozen=True)
class Whole(Record):
    parts: list[Part]
    n_rows: Count = 3


def make_part(n_atoms=4, n_features=3, **changes):
    fields = {"atoms": np.ones((n_atoms, n_features)), "owner": np.zeros(n_atoms, dtype=np.int64)}
    return Part(**{**fields, **changes})


@dataclass(frozen=True)
class Wider(Part):
    n_more: Count = 0


def known(**sizes):
    return Scope({"n_classes": 2, **sizes})


def test_parts_share_the_sizes_that_are_known_and_have_others_of_their_own():
    record = Whole([make_part(4), make_part(9)])
    check(Whole, record, "model", known(n_features=3))
    with pytest.raises(RecordError, match=r"model\.parts\[1\]\.atoms has shape \(4, 5\)"):
        check(Whole, Whole([make_part(), make_part(4, 5)]), "model", known(n_features=3))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"owner": np.zeros(3, dtype=np.int64)}, r"owner has shape \(3,\), expected \(n_atoms\)"),
        ({"owner": np.full(4, 2)}, "owner has the entry 2, expected entries below n_classes = 2"),
        ({"owner": np.full(4, -1)}, "owner has entries below 0"),
        ({"owner": np.zeros(4)}, "owner has dtype float64, expected int64 or int32"),
        ({"atoms": np.full((4, 3), np.inf)}, "NaN or infinite"),
        ({"atoms": np.ones((4, 3)).astype(">f8")}, "dtype >f8"),
        ({"atoms": np.ones((4, 3)).tolist()}, "of type list, expected ndarray"),
        ({"atoms": np.ma.ones((4, 3))}, "of type MaskedArray, expected ndarray"),
        ({"atoms": np.matrix(np.ones((4, 3)))}, "of type matrix"),
        ({"rule": "three"}, r"rule is 'three', expected one of \('one', 'two'\)"),
        ({"rule": np.ones(2)}, "rule is"),
        (
            {"mean": np.ones(2)},
            r"mean has shape \(2,\), expected \(n_features\)",
        ),
    ],
)
def test_the_first_thing_that_is_wrong_is_named(changes, words):
    with pytest.raises(RecordError, match=words):
        check(Part, make_part(**changes), "part", known())


def test_a_record_of_a_family_is_checked_by_its_own_fields():
    atoms, owner = np.ones((4, 3)), np.zeros(4, dtype=np.int64)
    check(Whole, Whole([Wider(atoms, owner)]), "model", known())
    with pytest.raises(RecordError, match=r"parts\[0\]\.n_more is -1"):
        check(Whole, Whole([Wider(atoms, owner, n_more=-1)]), "model", known())


@pytest.mark.parametrize("number", [-1, 2.0, True, None, 2**40, "3"])
def test_numbers_have_a_type_and_a_range(number):
    with pytest.raises(RecordError, match="n_rows"):
        check(Whole, Whole([], number), "whole")


def test_a_cache_is_neither_written_nor_read():
    part = make_part()
    assert part.cache.shape == (4, 4)
    again = pickle.loads(pickle.dumps(part))
    assert "cache" not in vars(again)
    again.__setstate__({"cache": np.ones(1), "rule": "two"})
    assert "cache" not in vars(again) and again.rule == "two"


def test_rows_of_codes_are_listed_one_after_the_other():
    codes = Codes.from_dense(np.array([[0.0, 1.0, 2.0], [0.0, 0.0, 0.0], [3.0, 0.0, 4.0]]))
    check(Codes, codes, "codes", Scope({"n_atoms": 3, "n_samples": 3}))
    for row_start in ([0, 2, 2, 3], [1, 2, 2, 4], [0, 3, 2, 4], [0, 4, 4, 4]):
        bad = Codes(np.array(row_start), codes.atom, codes.strength)
        with pytest.raises(RecordError, match="codes: "):
            check(Codes, bad, "codes", Scope({"n_atoms": 3}))


def estimators():
    """Every estimator that a model file may hold."""
    for room in TRUSTED_ROOMS:
        package = importlib.import_module(room.removesuffix("."))
        for module in pkgutil.walk_packages(package.__path__, room):
            for kind in vars(importlib.import_module(module.name)).values():
                own = isinstance(kind, type) and kind.__module__ == module.name
                if own and issubclass(kind, BaseEstimator):
                    yield kind


def test_every_estimator_of_a_model_file_is_checked_as_it_is_loaded():
    found = set(estimators())
    assert {dbdl.DBDLClassifier, dbdl.BetaProcessDictionary} < found
    assert {kind for kind in found if not issubclass(kind, CheckedEstimator)} == {
        DenseSIFT,  # nothing is learned
        ModelSettings,  # checked by the estimators that have them
        ChainSettings,  # in no file
        ScaledRowsClassifier,  # only scikit-learn sees its rows, none of our kernels
    }
