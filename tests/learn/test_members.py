"""Members of an ensemble: the published part of a chain, and the prior of new rows' codes."""

from dataclasses import replace

import numpy as np
import pytest

from dbdl.backends import NumbaBackend
from dbdl.backends.crew import Crew
from dbdl.coding import Forward, LassoPath
from dbdl.draws import make_key
from dbdl.learn.chain import ChainSettings, learn_chain
from dbdl.learn.choice import Candidates, Choice, publish_members
from dbdl.learn.journal import Journal
from dbdl.learn.members import code_prior, learn_members, publish_atoms
from dbdl.learn.problem import LabelSettings, Problem
from dbdl.views import LabelledRows, make_views

N_CLASSES = 3
CODERS = [Forward(2), LassoPath(3)]


def make_problem(kind="ridge", n_chains=2, **more):
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(N_CLASSES), [10, 20, 30])
    X = np.einsum("id,idf->if", rng.random((60, 3)), rng.standard_normal((N_CLASSES, 3, 12))[y])
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    settings = ChainSettings(n_sweeps=3)
    return Problem(X, y, N_CLASSES, settings, LabelSettings(kind), n_chains, **more)


def publish(members, coders, weights):
    choice = Choice(tuple(coders), np.array(weights), 1.0, None)
    return publish_members(members, Candidates(CODERS), choice)


def learn(problem, coders=CODERS):
    return learn_members(problem, problem.shares(), coders, Crew(), Journal())


@pytest.fixture(scope="module")
def learned():
    problem = make_problem()
    return learn_chain(
        make_key(1), problem.X, problem.class_of_row, problem.settings, NumbaBackend()
    )


@pytest.mark.parametrize("leaves_out", [True, False])
def test_a_member_is_the_chain_of_its_share_seen_through_its_view(leaves_out):
    views = make_views(["plain", "unit half-whitened + constant"])
    problem = make_problem(n_chains=2, seed=7, views=views, leaves_out=leaves_out)
    for share, member in zip(problem.shares(), learn(problem), strict=True):
        rows = share.fold.learn
        view = share.view.fit(LabelledRows(problem.X[rows], problem.class_of_row[rows], N_CLASSES))
        X = view.apply(problem.X[rows])
        chain = learn_chain(
            problem.key(share.number), X, problem.class_of_row[rows], problem.settings,
            NumbaBackend(),
        )  # fmt: skip
        np.testing.assert_array_equal(member.atoms.atoms, chain.dictionary.atoms)
        assert member.atoms.atoms.shape[1] == 12 + share.view.constant
        assert len(rows) == (54 if leaves_out else 60)


def test_members_differ_by_their_keys():
    one, other = learn(make_problem(leaves_out=False))
    assert not np.array_equal(one.atoms.atoms[0], other.atoms.atoms[0])


def test_rows_left_out_do_not_change_what_a_member_learns():
    # Neither its view, nor its atoms, nor its label atoms: the rows are replaced by others.
    problem = make_problem(n_chains=1, views=make_views("scaled and whitened + constant"))
    (expected,), left_out = learn(problem), problem.shares()[0].fold.held_out
    X = problem.X.copy()
    X[left_out] = np.random.default_rng(1).standard_normal((len(left_out), 12))
    (found,) = learn(replace(problem, X=X))
    for name in ("mean", "scale", "matrix", "size"):
        np.testing.assert_array_equal(getattr(found.view, name), getattr(expected.view, name))
    np.testing.assert_array_equal(found.atoms.atoms, expected.atoms.atoms)
    np.testing.assert_array_equal(found.label_atoms, expected.label_atoms)
    assert not np.array_equal(found.scores[0], expected.scores[0])


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
    member = publish_atoms(learned, replace(learned.dictionary, atoms=atoms), labels)
    some = np.setdiff1d(np.arange(len(atoms)), [1, 4])
    np.testing.assert_array_equal(member.atoms, atoms[some])
    np.testing.assert_array_equal(member.label_atoms, labels[some])
    prior = code_prior(learned, learned.dictionary)
    np.testing.assert_array_equal(member.code_prior.probability, prior.probability[some])
    np.testing.assert_array_equal(member.code_prior.precision, prior.precision[some])
    assert member.selection_probability.shape == (N_CLASSES, len(some))


def test_a_member_scores_the_rows_that_it_left_out_with_each_coder():
    problem = make_problem(views=make_views(["standardised + constant", "plain"]))
    members = learn(problem)
    for coder in CODERS:
        published = publish(members, [coder] * 2, [0.25, 0.75])
        for member, one in zip(members, published, strict=True):
            left_out = problem.X[member.share.fold.held_out]
            expected = one.encode(left_out, NumbaBackend()) @ one.label_atoms
            np.testing.assert_array_equal(member.scores[CODERS.index(coder)], expected)


@pytest.mark.parametrize("kind", ["ridge", "recoded"])
def test_members_are_published_with_the_coders_and_weights_chosen_for_them(kind):
    members = learn(make_problem(kind))
    one, other = publish(members, CODERS[::-1], [0.25, 0.75])
    assert (one.coder, other.coder) == (LassoPath(3), Forward(2))
    assert (one.weight, other.weight) == (0.25, 0.75)
    assert one.view is members[0].view and one.atoms is members[0].atoms.atoms
    np.testing.assert_array_equal(one.label_atoms, members[0].label_atoms[1])
    np.testing.assert_array_equal(other.label_atoms, members[1].label_atoms[0])


def test_members_that_leave_out_no_row_score_none():
    assert all(member.scores == [] for member in learn(make_problem(leaves_out=False)))


@pytest.mark.parametrize("kind", ["ridge", "recoded", "gibbs", "joint", "none"])
def test_label_atoms_of_rows_coded_anew_hang_on_the_coder_and_others_do_not(kind):
    problem = make_problem(kind, 1, leaves_out=False)
    first, second = learn(problem, [Forward(1), Forward(4)])[0].label_atoms
    assert np.array_equal(first, second) == (kind != "recoded")
    assert first.shape[1] == (0 if kind == "none" else N_CLASSES)
