"""Sums over samples add up along one binary tree."""

from dataclasses import replace

import numpy as np
import pytest

from dbdl.model.statistics import AtomSums, SeenSums, UsageSums, tree_sum


def atom_sums(value):
    return AtomSums(np.full((2, 2), float(value)), np.full((2, 3), 2.0 * value))


def folded(values):
    """The tree by its definition: half of the parts go left, the odd one too."""
    if len(values) == 1:
        return values[0]
    left = (len(values) + 1) // 2
    return folded(values[:left]) + folded(values[left:])


@pytest.mark.parametrize("n_parts", [1, 2, 3, 4, 5, 7, 8, 13, 100])
def test_a_tree_sum_is_the_sum_of_all_fields(n_parts):
    total = tree_sum(atom_sums, n_parts)
    expected = n_parts * (n_parts - 1) / 2
    np.testing.assert_array_equal(total.gram, expected)
    np.testing.assert_array_equal(total.cross, 2 * expected)


def test_a_tree_of_no_parts_is_refused():
    with pytest.raises(ValueError, match="0 parts to add"):
        tree_sum(atom_sums, 0)


@pytest.mark.parametrize("n_parts", [1, 2, 3, 4, 5, 7, 8, 13, 100])
def test_a_tree_sum_rounds_like_the_tree_over_the_order_of_the_parts(n_parts):
    values = np.random.default_rng(0).standard_normal(n_parts) * 10.0 ** np.arange(n_parts).clip(9)
    total = tree_sum(lambda i: atom_sums(values[i]), n_parts)
    assert total.gram[0, 0] == folded([float(value) for value in values])


@pytest.mark.parametrize("n_shards", [1, 2, 4, 8])
def test_shards_of_whole_subtrees_give_the_same_bits(n_shards):
    parts = [atom_sums(value) for value in np.random.default_rng(1).standard_normal(32)]
    size = 32 // n_shards

    def shard(number):
        return tree_sum(lambda i: parts[number * size + i], size)

    whole = tree_sum(parts.__getitem__, 32)
    np.testing.assert_array_equal(tree_sum(shard, n_shards).gram, whole.gram)


def test_few_parts_are_held_at_a_time():
    alive = 0
    most = 0

    class Part:
        def __init__(self):
            nonlocal alive, most
            alive += 1
            most = max(most, alive)

        def __add__(self, other):
            nonlocal alive
            alive -= 2
            return Part()

    tree_sum(lambda _: Part(), 64)
    assert most <= 8  # log2(64) + 2


def test_usage_sums_add_field_by_field():
    one = UsageSums(np.ones((2, 3), int), np.ones(3), np.ones(2), np.full(2, 0.5))
    total = one + one
    assert total.count.dtype == np.int64
    np.testing.assert_array_equal(total.count, 2)
    np.testing.assert_array_equal(total.residual_square, 1.0)


def test_more_uses_of_an_atom_than_rows_are_a_fault():
    sums = SeenSums.none(2, 3)
    assert not list(sums.faults())
    few = replace(sums, n_rows=np.array([1.0, 4.0]), count=np.array([[1, 0, 1], [4, 0, 2.0]]))
    assert not list(few.times(0.3).faults())
    assert list(replace(few, n_rows=np.array([1.0, 3.0])).faults()) == [
        "count is larger than n_rows"
    ]
