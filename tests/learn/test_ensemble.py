"""Views that earn a weight on the rows left out stay in an ensemble; the others do not."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dbdl.coding import Forward
from dbdl.learn.choice import Choice
from dbdl.learn.ensemble import Ensemble
from dbdl.learn.held_out import Fold, choose_coder
from dbdl.learn.problem import Share
from dbdl.views import View

CODER = Forward(1)


class Shared(NamedTuple):
    """A member of which only the view matters."""

    share: Share


def ensemble(weights, n_views):
    """Members that take views in turn, and the choice of their weights."""
    shares = [Share(j, j % n_views, View(), Fold([], []), 1.0) for j in range(len(weights))]
    scores = np.eye(n_views)[:, np.newaxis]
    held_out = choose_coder([CODER], list(scores[:, np.newaxis]), [np.array([0])] * n_views)
    choice = Choice((CODER,) * len(weights), np.array(weights), 1.0, held_out)
    return Ensemble(None, [Shared(share) for share in shares], choice)


def test_views_with_little_weight_are_left_out_and_the_other_weights_add_up_to_one():
    everything = ensemble([0.5, 0.06, 0.16, 0.2, 0.06, 0.02], 3)
    assert everything.strong_views == {0, 2}
    strong = everything.without_weak_views()
    assert [member.share.number for member in strong.members] == [0, 2, 3, 5]
    chosen = strong.choice
    np.testing.assert_allclose(chosen.weights, np.array([0.5, 0.16, 0.2, 0.02]) / 0.88)
    expected = everything.choice.held_out.view_sharpness[[0, 2]]
    np.testing.assert_array_equal(chosen.held_out.view_sharpness, expected)
    assert len(chosen.coders) == 4 and chosen.temperature == everything.choice.temperature


def test_some_view_is_always_strong():
    assert len(ensemble([0.04] * 25, 25).strong_views) == 25
    assert ensemble([0.9, 0.1], 2).strong_views == {0}


def test_without_rows_left_out_all_views_are_strong():
    both = ensemble([1.0, 0.0], 2)
    assert replace(both, choice=replace(both.choice, held_out=None)).strong_views == {0, 1}
