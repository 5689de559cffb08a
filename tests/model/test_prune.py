"""The atoms that are dropped between steps."""

import numpy as np
import pytest

from dbdl.model.prune import atoms_to_keep, informed
from dbdl.model.statistics import UsageSums


def kept_of(count, energy, norm_square, least_energy=0.0):
    no_class = np.zeros(len(count))
    return atoms_to_keep(UsageSums(count, energy, no_class, no_class), norm_square, least_energy)


def random_sums(seed, n_classes=4, n_atoms=12, density=0.15):
    rng = np.random.default_rng(seed)
    count = rng.poisson(2.0, (n_classes, n_atoms)) * (rng.random((n_classes, n_atoms)) < density)
    in_use = count.any(axis=0)
    return count, rng.gamma(1.0, 1.0, n_atoms) * in_use, rng.gamma(2.0, 1.0, n_atoms)


@pytest.mark.parametrize("seed", range(10))
def test_an_atom_goes_exactly_if_no_sample_of_any_class_uses_it(seed):
    count, energy, norm_square = random_sums(seed)
    kept = kept_of(count, energy, norm_square)
    np.testing.assert_array_equal(kept, np.flatnonzero(count.sum(axis=0) > 0))


def test_an_atom_used_by_one_sample_of_one_class_stays():
    count = np.zeros((3, 4), dtype=int)
    count[2, 1] = count[:, 3] = 1
    np.testing.assert_array_equal(kept_of(count, np.ones(4), np.ones(4)), [1, 3])


def test_an_atom_is_informed_by_what_it_contributes_whatever_the_split_of_its_scale():
    energy, norm_square = np.array([0.5, 0.01, 4.0]), np.array([1.0, 1.0, 0.01])
    expected = informed(energy, norm_square, 0.05)
    np.testing.assert_array_equal(expected, [True, False, False])
    # Atoms times 10 with strengths divided by 10 say the same.
    np.testing.assert_array_equal(informed(energy / 100, norm_square * 100, 0.05), expected)


def test_an_atom_that_explains_exactly_the_least_energy_stays():
    energy, norm_square = np.array([0.25, 0.5, 1.0, 8.0]), np.array([1.0, 0.5, 0.5, 0.125])
    np.testing.assert_array_equal(informed(energy, norm_square, 0.5), [False, False, True, True])
    count = np.ones((2, 4), dtype=int)
    np.testing.assert_array_equal(kept_of(count, energy, norm_square, 0.5), [2, 3])


@pytest.mark.parametrize("least_energy", [0.0, 0.5, 2.0, 1e9, np.inf])
@pytest.mark.parametrize("seed", range(20))
def test_no_class_loses_all_of_its_atoms_and_two_always_stay(seed, least_energy):
    count, energy, norm_square = random_sums(seed)
    kept = kept_of(count, energy, norm_square, least_energy)
    assert len(kept) >= 2
    assert (np.diff(kept) > 0).all()
    has_atoms = count.any(axis=1)
    assert count[np.ix_(has_atoms, kept)].any(axis=1).all()


@pytest.mark.parametrize("least_energy", [0.0, 0.5, 2.0, np.inf])
@pytest.mark.parametrize("seed", range(10))
def test_the_rule_cannot_run_away(seed, least_energy):
    """Dropping makes the rule no stricter for those who stayed: applied again, it drops no more."""
    count, energy, norm_square = random_sums(seed)
    kept = kept_of(count, energy, norm_square, least_energy)
    again = kept_of(count[:, kept], energy[kept], norm_square[kept], least_energy)
    np.testing.assert_array_equal(again, np.arange(len(kept)))


def test_two_atoms_stay_if_nobody_uses_any():
    count = np.zeros((2, 5), dtype=int)
    assert len(kept_of(count, np.zeros(5), np.ones(5))) == 2
    assert len(kept_of(count, np.zeros(5), np.ones(5), least_energy=1.0)) == 2


def test_the_two_atoms_that_stay_whatever_the_bar_are_those_that_explain_most():
    count = np.zeros((1, 5), dtype=int)  # no class keeps an atom of its own
    energy, norm_square = np.array([1.0, 6.0, 2.0, 5.0, 9.0]), np.array([1.0, 1.0, 1.0, 2.0, 0.1])
    kept = kept_of(count, energy, norm_square, least_energy=np.inf)
    np.testing.assert_array_equal(kept, [1, 3])


def test_a_class_about_to_lose_all_its_atoms_keeps_the_one_it_uses_most():
    count = np.array([[9, 8, 0, 0], [0, 0, 1, 3]])
    energy = np.array([5.0, 5.0, 0.01, 0.01])
    np.testing.assert_array_equal(kept_of(count, energy, np.ones(4), 1.0), [0, 1, 3])


def test_a_higher_bar_never_keeps_more_beyond_the_guards():
    count, energy, norm_square = random_sums(1, density=0.6)
    sizes = [len(kept_of(count, energy, norm_square, e)) for e in (0.0, 0.5, 1.0, 3.0, 9.0)]
    assert sizes == sorted(sizes, reverse=True)
