"""Views that are learned from rows on a device are those of the host, up to rounding."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from dbdl.views import (
    AUTOMATIC,
    AUTOMATIC_FOR_FEW_ATOMS,
    AUTOMATIC_LINEAR,
    LabelledRows,
    view_named,
)

torch = pytest.importorskip("torch", reason="needs PyTorch (make test-interpreter)")

from dbdl.backends import torch_views  # noqa: E402  # imports PyTorch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
NAMES = sorted(
    {*AUTOMATIC, *AUTOMATIC_FOR_FEW_ATOMS, *AUTOMATIC_LINEAR, "centred", "unit whitened"}
)
TOLERANCE = {np.float64: 1e-7, np.float32: 2e-3}


def make_rows(n_rows, n_features, dtype, weighted=False):
    rng = np.random.default_rng(n_rows)
    class_of_row = np.arange(n_rows) % 3
    X = 3 * rng.standard_normal((3, n_features))[class_of_row] + 7
    X = X + rng.standard_normal((n_rows, n_features)) @ rng.standard_normal((n_features,) * 2)
    weight = rng.uniform(0.5, 2.0, n_rows) if weighted else None
    return LabelledRows(X.astype(dtype), class_of_row, 3, sample_weight=weight)


def fit_on_device(name, rows):
    return view_named(name).fit(torch_views.DeviceRows.of(rows, DEVICE))


def mapped(view, X):
    return torch_views.map_rows(view, torch.from_numpy(X).to(DEVICE)).cpu().numpy()


def products(rows):
    """Inner products, since directions of kernel coordinates may be turned around."""
    return rows.astype(np.float64) @ rows.T.astype(np.float64)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", [(60, 7), (24, 40)])  # more rows than features, and fewer
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", NAMES)
def test_a_view_of_rows_on_a_device_maps_rows_as_that_of_the_host(name, dtype, shape, weighted):
    rows, new = make_rows(*shape, dtype, weighted), make_rows(11, shape[1], dtype).X
    expected, found = view_named(name).fit(rows), fit_on_device(name, rows)
    np.testing.assert_allclose(
        products(mapped(found, new)), products(expected.apply(new)), atol=TOLERANCE[dtype]
    )
    # a view that was learned on either side maps rows on either side
    for view in (expected, found):
        np.testing.assert_allclose(
            products(mapped(view, new)), products(view.apply(new)), atol=TOLERANCE[dtype]
        )


@pytest.mark.parametrize("size", [1e-30, 1.0, 1e30])
@pytest.mark.parametrize("name", ["plain + constant", "unit whitened + constant", "plain"])
def test_the_scale_of_rows_does_not_matter(name, size):
    rows = make_rows(40, 5, np.float32)
    found = fit_on_device(name, rows._replace(X=rows.X * np.float32(size)))
    expected = view_named(name).fit(rows).apply(rows.X)
    np.testing.assert_allclose(
        mapped(found, rows.X * np.float32(size)), expected, atol=TOLERANCE[np.float32]
    )


def test_zero_rows_stay_zero():
    zeros = torch.zeros(2, 3, dtype=torch.float64, device=DEVICE)
    assert not torch_views.unit_rows(zeros).any()


def test_rows_far_from_the_training_rows_are_refused_as_on_the_host():
    rows = make_rows(40, 5, np.float64)
    view = view_named("standardised").fit(rows)
    new = rows.X[:2] * np.array([[1.0], [1e300]])
    np.testing.assert_allclose(mapped(view, new), view.apply(new), atol=1e-9)


def test_copies_on_the_device_go_with_their_views():
    gc.collect()
    before = len(torch_views._copies)
    view = fit_on_device("whitened + constant", make_rows(40, 5, np.float64))
    mapped(view, make_rows(4, 5, np.float64).X)
    assert len(torch_views._copies) > before
    del view
    gc.collect()
    assert len(torch_views._copies) == before
