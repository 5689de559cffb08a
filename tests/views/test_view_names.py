"""Views have the names that people write, and a name gives its view back."""

from __future__ import annotations

import pytest
from sklearn.decomposition import PCA

from dbdl.views import AUTOMATIC, VIEWS, View, make_views, view_named

NAMES = [f"{unit}{name}{constant}" for unit in ("", "unit ") for name in VIEWS
         for constant in ("", " + constant")]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_view_has_the_name_that_it_was_asked_for_by(name):
    assert view_named(name).name == name


def test_automatic_views_have_their_names():
    assert tuple(view.name for view in make_views("auto")) == AUTOMATIC


def test_a_view_without_a_name_is_described_by_its_recipe():
    view = View(centred=True, power=0.1, constant=True)
    assert view.name == "View(centred=True, power=0.1, constant=True)"
    assert eval(view.name) == view


def test_rows_that_are_not_scaled_are_said_not_to_be():
    [view] = make_views("auto", normalize=False)
    assert view.name == "plain, not scaled"


def test_a_transformer_is_named_on_one_line():
    [view] = make_views(PCA(n_components=7, whiten=True, iterated_power=11, random_state=12345))
    assert view.name.startswith("PCA(") and "\n" not in view.name and "  " not in view.name
