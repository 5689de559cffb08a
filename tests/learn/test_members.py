"""Members of an ensemble: the published part of a chain, and the prior of new rows' codes."""

from dataclasses import replace

import numpy as np
import pytest

from dbdl.backends import NumbaBackend
from dbdl.backends.crew import Crew
from dbdl.coding import Forward, LassoPath
from dbdl.draws import make_key
from dbdl.learn.chain import ChainSettings, learn_chain
from dbdl.learn.checkpoints import Choice
from dbdl.learn.journal import Journal
from dbdl.learn.members import code_prior, learn_members, publish_member, score_rows
from dbdl.learn.problem import FIRST_CHAIN, LabelSettings, Problem

N_CLASSES = 3


def make_problem(kind="ridge", n_chains=2):
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(N_CLASSES), [10, 20, 30])
    X = np.einsum("id,idf->if", rng.random((60, 3)), rng.standard_normal((N_CLASSES, 3, 12))[y])
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return Problem(X, y, N_CLASSES, ChainSettings(n_sweeps=3), LabelSettings(kind), n_chains)


@pytest.fixture(scope="module")
def learned():
    problem = make_problem()
    return learn_chain(
        make_key(1), problem.X, problem.class_of_row, problem.settings, NumbaBackend()
    )


def test_chains_have_keys_of_their_own_behind_those_of_pilots():
    problem = replace(make_problem(), seed=7)
    assert problem.key(2) == make_key(7, FIRST_CHAIN + 2)
    members = learn_members(problem, Choice.of([Forward(2)], None), Crew(), Journal())
    alone = learn_chain(
        problem.key(1), problem.X, problem.class_of_row, problem.settings, NumbaBackend()
    )
    np.testing.assert_array_equal(members[1].atoms, alone.dictionary.atoms)
    assert not np.array_equal(members[0].atoms[0], members[1].atoms[0])


def test_the_prior_of_new_codes_is_the_mean_over_classes_by_their_frequency(learned):
    prior, dictionary = code_prior(learned, learned.dictionary), learned.dictionary
    now = learned.chain.state.parameters
    share = np.array([1, 2, 3]) / 6
    np.testing.assert_allclose(prior.probability, share @ dictionary.selection_probability)
    assert prior.noise_precision == pytest.approx(share @ now.noise_precision)
    # A strength s of an atom of norm r is a coefficient s r of the published one.
    expected = share @ now.strength_precision / dictionary.scale**2
    np.testing.assert_allclose(prior.precision, expected)


def test_atoms_that_are_zero_are_not_published(learned):
    atoms = learned.dictionary.atoms.copy()
    atoms[[1, 4]] = 0.0
    labels = np.arange(len(atoms) * 2.0).reshape(-1, 2)
    member = publish_member(learned, replace(learned.dictionary, atoms=atoms), labels)
    some = np.setdiff1d(np.arange(len(atoms)), [1, 4])
    np.testing.assert_array_equal(member.atoms, atoms[some])
    np.testing.assert_array_equal(member.label_atoms, labels[some])
    prior = code_prior(learned, learned.dictionary)
    np.testing.assert_array_equal(member.code_prior.probability, prior.probability[some])
    np.testing.assert_array_equal(member.code_prior.precision, prior.precision[some])
    assert member.selection_probability.shape == (N_CLASSES, len(some))


def test_scores_are_the_mean_over_members_for_each_coder():
    problem = make_problem()
    members = learn_members(problem, Choice.of([Forward(2)], None), Crew(), Journal())
    coders = [Forward(2), LassoPath(3)]
    found = score_rows(problem.X[:9], members, coders, NumbaBackend())
    for coder, scores in zip(coders, found, strict=True):
        each = [m.encode(problem.X[:9], coder, NumbaBackend()) @ m.label_atoms for m in members]
        np.testing.assert_allclose(scores, np.mean(each, axis=0), rtol=1e-12)


def test_label_atoms_of_rows_coded_anew_hang_on_the_coder_and_others_do_not():
    def labels(kind, coder):
        choice = Choice.of([coder], None)
        return learn_members(make_problem(kind, 1), choice, Crew(), Journal())[0].label_atoms

    for kind in ("ridge", "gibbs", "joint"):
        np.testing.assert_array_equal(labels(kind, Forward(1)), labels(kind, Forward(4)))
    assert not np.array_equal(labels("recoded", Forward(1)), labels("recoded", Forward(4)))
    assert labels("none", Forward(1)).shape[1] == 0
