"""Every method of a table gets the same rows, whichever way it is run."""

from __future__ import annotations

import numpy as np
import pytest

from dbdl.datasets import DataError, load
from dbdl.datasets.dataset import make_dataset
from dbdl.experiments.protocol import Split
from dbdl.experiments.rows import labelled_rows, parts
from dbdl.experiments.spec import load_table, table_names
from dbdl.registry import methods

#: Tables that the paper does not have: each method scales rows in its own way.
OURS = {
    "wine", "iris", "breast_cancer", "botswana", "coil20", "digits", "digits_half", "usps",
}  # fmt: skip


@pytest.mark.parametrize("name", table_names())
def test_tables_of_the_paper_ask_for_rows_of_unit_norm_and_ours_leave_rows_as_they_are(name):
    assert load_table(name).unit_rows == (name not in OURS)


def test_rows_of_unit_norm_are_the_rows_scaled():
    data = load("digits")
    rows = labelled_rows(data, unit=True)
    norm = np.linalg.norm(data.X, axis=1, keepdims=True)
    assert rows.X.dtype == np.float32 and rows.y is data.y
    np.testing.assert_allclose(rows.X, data.X / norm, atol=1e-7)


def test_rows_are_left_as_they_are_where_no_unit_norm_is_asked_for():
    data = load("digits")
    assert labelled_rows(data, unit=False).X is data.X


def test_the_split_and_the_groups_of_a_data_set_come_along():
    is_test = np.array([False, True, False, True])
    data = make_dataset(np.eye(4), [0, 0, 1, 1], "tiny", is_test=is_test, groups=np.arange(4) // 2)
    rows = labelled_rows(data, unit=True)
    np.testing.assert_array_equal(rows.own.train, [0, 2])
    np.testing.assert_array_equal(rows.own.test, [1, 3])
    np.testing.assert_array_equal(rows.groups, [0, 0, 1, 1])


def test_rows_without_labels_are_refused():
    with pytest.raises(DataError, match="tiny has no labels"):
        labelled_rows(make_dataset(np.eye(4), None, "tiny"), unit=True)


def test_gaps_of_test_rows_alone_are_filled_by_the_means_of_the_rows_to_learn_from():
    X = np.arange(12.0).reshape(6, 2)
    X[5, 0] = np.nan
    data = labelled_rows(make_dataset(X, [0, 1] * 3, "tiny"), unit=False)
    split = Split(np.arange(4), np.array([4, 5]))
    train, test = parts(data, split, methods()["1-NN"]())
    np.testing.assert_array_equal(train.X, X[:4])
    np.testing.assert_array_equal(test.X, [[8, 9], [X[:4, 0].mean(), 11]])
    assert np.isnan(parts(data, split, methods()["DBDL"]())[1].X[1, 0])  # which takes gaps
