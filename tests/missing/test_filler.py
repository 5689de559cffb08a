"""Gaps are filled with their expected values under Gaussians of the classes."""

from dataclasses import replace

import numpy as np
import pytest

from dbdl.missing.filler import fit_filler, has_gaps
from dbdl.model.trust import RecordError, Scope, check
from dbdl.views import LabelledRows

N_FEATURES = 5


def rows_with_gaps(seed=0, n_rows=60, share=0.3, dtype=np.float64):
    """Rows of two classes, complete and with gaps, and their classes."""
    rng = np.random.default_rng(seed)
    class_of_row = np.arange(n_rows) % 2
    mixing = rng.normal(size=(N_FEATURES, N_FEATURES))
    X = rng.normal(size=(n_rows, N_FEATURES)) @ mixing + 2.0 * class_of_row[:, None] + 1.0
    X *= 10.0 ** np.arange(N_FEATURES)
    gaps = np.where(rng.random(X.shape) < share, np.nan, X)
    return X.astype(dtype), gaps.astype(dtype), class_of_row


def filler_of(X, class_of_row, n_classes=2):
    return fit_filler(LabelledRows(X, class_of_row, n_classes))


def slow_fill(filler, row, known=None):
    """Conditional mean by the textbook's formula, with the covariance of the observed values.

    Values outside the range of the training rows are moved to its ends.
    """
    gaps, seen = np.isnan(row), ~np.isnan(row)
    z = (row * 2.0**-filler.exponent - filler.mean) / filler.scale
    covariance = np.linalg.inv(filler.precision)
    inverse = np.linalg.inv(covariance[np.ix_(seen, seen)])
    means, weights = [], []
    for centre, share in zip(filler.centres, filler.share, strict=True):
        way = z[seen] - centre[seen]
        means.append(centre[gaps] + covariance[np.ix_(gaps, seen)] @ inverse @ way)
        weights.append(share * np.exp(-0.5 * way @ inverse @ way))
    if known is None:
        mean = np.array(weights) @ means / np.sum(weights)
    else:
        mean = means[known]
    filled, values = row.copy(), mean * filler.scale[gaps] + filler.mean[gaps]
    within = np.minimum(np.maximum(values, filler.least[gaps]), filler.largest[gaps])
    filled[gaps] = within * 2.0**filler.exponent
    return filled


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_a_row_of_weight_w_counts_as_w_rows(share):
    _, X, class_of_row = rows_with_gaps(share=share)
    weight = 1 + np.arange(len(X)) % 4
    weighted = fit_filler(LabelledRows(X, class_of_row, 2, sample_weight=weight.astype(float)))
    repeated = filler_of(np.repeat(X, weight, axis=0), np.repeat(class_of_row, weight))
    for name in ("mean", "scale", "centres", "share", "precision"):
        found, expected = getattr(weighted, name), getattr(repeated, name)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9, err_msg=name)
    assert not np.allclose(weighted.mean, filler_of(X, class_of_row).mean)


@pytest.mark.parametrize("least", [1e-30, 1e-300])
def test_rows_of_hardly_any_weight_do_no_harm(least):
    _, X, class_of_row = rows_with_gaps()
    weight = np.where(np.arange(len(X)) % 3, 1.0, least)
    some = weight == 1.0
    filler = fit_filler(LabelledRows(X, class_of_row, 2, sample_weight=weight))
    assert np.isfinite(filler.fill(X)).all()
    expected = filler_of(X[some], class_of_row[some])
    np.testing.assert_allclose(filler.mean, expected.mean, rtol=1e-9)


def test_filled_values_are_conditional_means():
    _, X, class_of_row = rows_with_gaps()
    filler = filler_of(X, class_of_row)
    blind, known = filler.fill(X), filler.fill(X, class_of_row)
    for i in range(len(X)):
        np.testing.assert_allclose(blind[i], slow_fill(filler, X[i]), rtol=1e-7)
        np.testing.assert_allclose(known[i], slow_fill(filler, X[i], class_of_row[i]), rtol=1e-7)


def test_fills_stay_within_the_values_that_a_feature_had():
    _, X, class_of_row = rows_with_gaps()
    filler, least, largest = filler_of(X, class_of_row), np.nanmin(X, axis=0), np.nanmax(X, axis=0)
    far = np.where(np.isnan(X), np.nan, 20 * X)  # the Gaussian goes on where the rows end
    anywhere = replace(filler, least=-np.ones(N_FEATURES), largest=np.ones(N_FEATURES))
    beyond, gaps = anywhere.fill(far), np.isnan(far)
    assert ((beyond < least) | (beyond > largest))[gaps].mean() > 0.3
    for rows, classes in ((far, None), (far, class_of_row), (X, None)):
        filled = filler.fill(rows, classes)
        assert ((filled >= least) & (filled <= largest))[gaps].all()
    expected = np.clip(beyond, least, largest)[gaps]
    np.testing.assert_array_equal(filler.fill(far)[gaps], expected)


def test_a_feature_without_values_is_filled_with_a_number():
    _, X, class_of_row = rows_with_gaps()
    X[:, 2] = np.nan  # as in the rows that one chain learns from
    filler = filler_of(X, class_of_row)
    check(type(filler), filler, "filler_", Scope({"n_features_in": N_FEATURES}))
    assert (filler.fill(X)[:, 2] == 0).all()


def test_gaps_are_filled_better_than_by_means():
    whole, X, class_of_row = rows_with_gaps(n_rows=200)
    filled, gaps = filler_of(X, class_of_row).fill(X), np.isnan(X)
    error = ((filled - whole) / whole.std(axis=0))[gaps]
    by_means = ((np.nanmean(X, axis=0) - whole) / whole.std(axis=0))[gaps]
    assert (error**2).mean() < 0.7 * (by_means**2).mean()


@pytest.mark.bits
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_row_alone_has_the_bits_of_a_batch(dtype):
    _, X, class_of_row = rows_with_gaps(n_rows=300, dtype=dtype)
    filler = filler_of(X, class_of_row)
    filled = filler.fill(X)
    assert filled.dtype == dtype
    for i in (0, 7, 299):
        np.testing.assert_array_equal(filler.fill(X[i : i + 1])[0], filled[i])


def test_values_that_are_there_stay():
    whole, X, class_of_row = rows_with_gaps()
    filler = filler_of(X, class_of_row)
    filled = filler.fill(X)
    np.testing.assert_array_equal(filled[~np.isnan(X)], X[~np.isnan(X)])
    assert not has_gaps(filled)
    assert filler.fill(whole) is whole


@pytest.mark.parametrize("power", [-990, -30, 30, 900])
def test_the_scale_of_rows_does_not_matter(power):
    _, X, class_of_row = rows_with_gaps()
    filled = filler_of(X, class_of_row).fill(X)
    moved = np.ldexp(X, power)
    np.testing.assert_array_equal(
        filler_of(moved, class_of_row).fill(moved), np.ldexp(filled, power)
    )


def test_a_row_without_values_is_the_mean_of_the_classes():
    _, X, class_of_row = rows_with_gaps()
    filler = filler_of(X, class_of_row)
    nothing = np.full((1, N_FEATURES), np.nan)
    centre = filler.share @ filler.centres * filler.scale + filler.mean
    np.testing.assert_allclose(filler.fill(nothing)[0], centre * 2.0**filler.exponent)


def test_a_class_without_values_of_a_feature_is_filled_from_the_others():
    _, X, class_of_row = rows_with_gaps()
    X[class_of_row == 0, 2] = np.nan
    filled = filler_of(X, class_of_row).fill(X, class_of_row)
    assert np.isfinite(filled).all()
    seen = X[class_of_row == 1, 2]
    own = filled[class_of_row == 0, 2]
    assert np.abs(own - np.nanmean(seen)).max() < 10 * np.nanstd(seen)


@pytest.mark.parametrize("value", [1e308, -1e308, 1e-308])
def test_rows_far_from_the_training_rows_are_filled_with_numbers(value):
    _, X, class_of_row = rows_with_gaps()
    row = np.array([[value, np.nan, 1.0, np.nan, value]])
    assert np.isfinite(filler_of(X, class_of_row).fill(row)).all()


def test_rows_of_any_size_are_filled_in_proportion():
    _, X, class_of_row = rows_with_gaps()
    filler = filler_of(X, class_of_row)
    filled = filler.fill_any_size(X)
    assert not has_gaps(filled)
    np.testing.assert_allclose(filler.fill_any_size(1024 * X), 1024 * filled, rtol=1e-12)
    gaps = np.isnan(X)  # so the range of a fill is in proportion too
    assert (1024 * np.abs(filled) > np.nanmax(np.abs(X), axis=0))[gaps].mean() > 0.9


def test_many_features_are_filled_by_classes_alone():
    rng = np.random.default_rng(0)
    class_of_row = np.arange(8) % 2
    X = rng.normal(size=(8, 1100)) + 5.0 * class_of_row[:, None]
    X[0, 3] = X[1, 4] = np.nan
    filler = filler_of(X, class_of_row)
    filled = filler.fill(X)
    assert filler.precision is None
    assert abs(filled[0, 3]) < 2 < filled[1, 4]


@pytest.mark.parametrize(
    "change",
    [
        {"precision": -np.eye(N_FEATURES)},
        {"precision": np.triu(np.ones((N_FEATURES, N_FEATURES)))},
        {"share": np.zeros(2)},
        {"mean": np.zeros(3)},
        {"scale": np.zeros(N_FEATURES)},
        {"least": np.ones(N_FEATURES)},
        {"largest": np.full(N_FEATURES, 2.0)},
        {"least": np.full(N_FEATURES, np.nan)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_filler_that_no_rows_give_is_refused(change):
    _, X, class_of_row = rows_with_gaps()
    filler = filler_of(X, class_of_row)
    check(type(filler), filler, "filler_", Scope({"n_features_in": N_FEATURES}))
    with pytest.raises(RecordError):
        wrong = replace(filler, **change)
        check(type(filler), wrong, "filler_", Scope({"n_features_in": N_FEATURES}))
