"""The rows that a chain starts from: drawn class by class, in proportion."""

import numpy as np
import pytest

from dbdl.backends.reference import ReferenceBackend
from dbdl.draws import make_key
from dbdl.sampler.start import rows_with_replacement, rows_without_replacement, share_by_class

DRAWS = [rows_with_replacement, rows_without_replacement]


def place(n_rows, order=None):
    """Data with so many rows of each class, the first rows of the classes in a given order."""
    class_of_row = np.repeat(np.arange(len(n_rows)), n_rows)
    if order is not None:
        class_of_row = np.concatenate([order, class_of_row])
    return ReferenceBackend().place(np.ones((len(class_of_row), 2)), class_of_row)


@pytest.mark.parametrize("n_rows", [(10, 10, 10), (7, 20, 3), (1, 1, 50), (5, 6, 7, 8, 9)])
@pytest.mark.parametrize("n_atoms", [5, 8, 17, 29, 100])
def test_all_atoms_are_shared_out(n_rows, n_atoms):
    """But for small classes, which get one atom where their share is less."""
    share = share_by_class(n_atoms, place(n_rows))
    exact = n_atoms * np.array(n_rows) / sum(n_rows)
    raised = (exact < 1).sum()
    assert n_atoms <= share.sum() <= n_atoms + raised
    assert (share >= 1).all()
    assert (np.abs(share - exact) < 1).all()


def test_what_is_left_goes_to_the_largest_fractions():
    # of 10 atoms the exact shares are 1.4, 3.0, 1.8 and 3.8
    np.testing.assert_array_equal(share_by_class(10, place((7, 15, 9, 19))), [1, 3, 2, 4])


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1], [1, 2, 0]])
def test_of_equal_fractions_the_class_whose_first_row_comes_first_gets_the_atom(order):
    share = share_by_class(4, place((5, 5, 5), order))
    np.testing.assert_array_equal(share[order], [2, 1, 1])


def test_a_class_without_rows_gets_no_atom():
    data = place((6, 6))
    first_and_last = 2 * data.class_of_row
    data = type(data)(data.X, first_and_last, np.array([6, 0, 6]), np.array([0, 0, 6]), 1.0)
    np.testing.assert_array_equal(share_by_class(6, data), [3, 0, 3])


@pytest.mark.parametrize("draw", DRAWS)
def test_as_many_rows_are_drawn_as_atoms_are_asked_for(draw):
    data = place((7, 20, 13))
    for n_atoms in (4, 10, 25, 31):
        rows = draw(make_key(0), data, n_atoms)
        assert len(rows) == n_atoms
        drawn = np.bincount(data.class_of_row[rows], minlength=3)
        np.testing.assert_array_equal(drawn, share_by_class(n_atoms, data))


def test_rows_drawn_without_replacement_are_distinct_and_no_more_than_there_are():
    data = place((7, 20, 13))
    assert len(np.unique(rows_without_replacement(make_key(0), data, 25))) == 25
    np.testing.assert_array_equal(rows_without_replacement(make_key(0), data, 90), np.arange(40))


@pytest.mark.parametrize("draw", DRAWS)
def test_other_chains_and_sweeps_draw_other_rows(draw):
    data = place((40, 40))
    first = draw(make_key(0), data, 20)
    for other in (draw(make_key(0, chain=1), data, 20), draw(make_key(0), data, 20, sweep=3)):
        assert not np.array_equal(first, other)
