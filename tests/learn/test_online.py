"""The posterior after a batch is the prior of the next, exactly so if codes are held fixed."""

import itertools
from dataclasses import fields, replace

import numpy as np
import pytest

from dbdl.backends.base import Data
from dbdl.backends.crew import Crew
from dbdl.backends.numba_cpu import NumbaBackend
from dbdl.backends.reference import ReferenceBackend
from dbdl.coding import Forward, omp
from dbdl.draws import make_key
from dbdl.learn import online
from dbdl.learn.batches import (
    LEAST_SCORED,
    begin,
    learn_batch,
    learn_batch_in_chain,
    shares_of_batch,
    take_batch,
)
from dbdl.learn.chain import ChainSettings, learn_chain
from dbdl.learn.journal import Journal
from dbdl.learn.online import absorb, continue_chain, forget, make_room
from dbdl.learn.problem import LabelSettings, Problem
from dbdl.model.atom_priors import IsotropicPrior
from dbdl.model.conditionals import (
    noise_precision_posterior,
    selection_posterior,
    strength_precision_posterior,
)
from dbdl.model.joint import log_joint
from dbdl.model.priors import Priors
from dbdl.model.state import Codes, Parameters, State
from dbdl.model.statistics import SeenSums, UsageSums
from dbdl.sampler.gibbs import Options, drop, step, with_seen
from dbdl.views import LabelledRows, make_views

N_ROWS, N_ATOMS, N_FEATURES, N_CLASSES = 60, 9, 7, 3
KEY = make_key(3)


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


class Model:
    """Rows, their codes and parameters, to be cut into batches anywhere."""

    def __init__(self, seed=0, noise_per_class=False):
        rng = np.random.default_rng(seed)
        self.codes = rng.standard_normal((N_ROWS, N_ATOMS)) * (rng.random((N_ROWS, N_ATOMS)) < 0.4)
        noise = rng.gamma(3.0, 20.0, N_CLASSES)
        self.parameters = Parameters(
            atoms=rng.standard_normal((N_ATOMS, N_FEATURES)),
            selection_logit=rng.standard_normal((N_CLASSES, N_ATOMS)),
            strength_precision=rng.gamma(3.0, 1.0, N_CLASSES),
            noise_precision=noise if noise_per_class else np.full(N_CLASSES, noise[0]),
            births=np.arange(N_ATOMS),
        )
        self.class_of_row = rng.integers(N_CLASSES, size=N_ROWS)
        self.X = self.codes @ self.parameters.atoms + 0.1 * rng.standard_normal(
            (N_ROWS, N_FEATURES)
        )
        self.priors = Priors(
            2.0, 3.0, N_ATOMS, 1.5, 2.5, 0.7, 0.9, IsotropicPrior(float(N_FEATURES))
        )

    def batch(self, start, stop):
        """Data and state of some rows; a class may have none of them."""
        classes = self.class_of_row[start:stop]
        data = Data(
            self.X[start:stop],
            classes,
            np.bincount(classes, minlength=N_CLASSES),
            np.array([int(np.argmax(self.class_of_row == c)) for c in range(N_CLASSES)]),
            float((self.X[start:stop] ** 2).sum()),
            start,
        )
        return State(self.parameters, Codes.from_dense(self.codes[start:stop]), 0), data

    def absorb(self, backend, *cuts):
        priors = self.priors
        for start, stop in itertools.pairwise(cuts):
            priors = absorb(priors, *self.batch(start, stop), backend)
        return priors


BACKENDS = [NumbaBackend(), ReferenceBackend()]


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda b: type(b).__name__)
@pytest.mark.parametrize("cuts", [(0, 28, 60), (0, 4, 60), (0, 20, 24, 40, 60), (0, 1, 2, 60)])
@pytest.mark.parametrize("noise_per_class", [False, True])
def test_with_codes_held_the_posterior_after_batches_is_that_after_one(
    backend, cuts, noise_per_class
):
    model = Model(noise_per_class=noise_per_class)
    once, parts = model.absorb(backend, 0, N_ROWS), model.absorb(backend, *cuts)
    close(parts.atoms.precision, once.atoms.precision)
    close(parts.atoms.natural_mean, once.atoms.natural_mean)
    for field in fields(SeenSums):
        close(getattr(parts.seen, field.name), getattr(once.seen, field.name))


@pytest.mark.parametrize("cut", [1, 24, 59])
def test_every_conditional_given_a_batch_and_those_before_is_that_given_all_rows(cut):
    model, backend = Model(), NumbaBackend()
    (state, data), (_, whole) = model.batch(cut, N_ROWS), model.batch(0, N_ROWS)
    priors = model.absorb(backend, 0, cut)
    all_codes = Codes.from_dense(model.codes)
    expected = backend.usage(whole, all_codes, model.parameters)
    own = backend.usage(data, state.codes, model.parameters)
    total, all_rows = with_seen(data, own, priors)
    for found, right in (
        (
            selection_posterior(total.count, all_rows.n_rows, priors),
            selection_posterior(expected.count, whole.n_rows, model.priors),
        ),
        (
            strength_precision_posterior(priors.n_strengths(own), total.strength_square, priors),
            strength_precision_posterior(
                expected.n_strengths, expected.strength_square, model.priors
            ),
        ),
        (
            noise_precision_posterior(all_rows.n_rows * N_FEATURES, total.residual_square, priors),
            noise_precision_posterior(
                whole.n_rows * N_FEATURES, expected.residual_square, model.priors
            ),
        ),
    ):
        for one, other in zip(found, right, strict=True):
            close(one, other)
    sums = backend.gather(data, state.codes, N_ATOMS, model.parameters.noise_precision)
    found = priors.atoms.posterior(sums, backend)
    sums = backend.gather(whole, all_codes, N_ATOMS, model.parameters.noise_precision)
    right = model.priors.atoms.posterior(sums, backend)
    close(found.precision, right.precision)
    close(found.natural_mean, right.natural_mean)
    close(found.mean(), right.mean())


@pytest.mark.parametrize("name", ["selection_logit", "strength_precision", "noise_precision"])
def test_the_log_joint_given_earlier_rows_moves_as_that_of_all_rows_does(name):
    model, backend = Model(), NumbaBackend()
    (state, data), (_, whole) = model.batch(24, N_ROWS), model.batch(0, N_ROWS)
    priors, now = model.absorb(backend, 0, 24), model.parameters
    own = backend.usage(data, state.codes, now)
    expected = backend.usage(whole, Codes.from_dense(model.codes), now)
    other = replace(now, **{name: 1.3 * getattr(now, name)})
    found = [log_joint(p, own, data.n_rows, priors) for p in (now, other)]
    right = [log_joint(p, expected, whole.n_rows, model.priors) for p in (now, other)]
    assert found[1] - found[0] == pytest.approx(right[1] - right[0], rel=1e-9)


def test_the_log_joint_of_atoms_under_a_posterior_moves_as_their_quadratic_form_does():
    model, backend = Model(), NumbaBackend()
    state, data = model.batch(24, N_ROWS)
    priors, now = model.absorb(backend, 0, 24), model.parameters
    own = backend.usage(data, state.codes, now)
    other = replace(now, atoms=1.1 * now.atoms)
    found = [log_joint(p, own, data.n_rows, priors) for p in (now, other)]
    square = [
        -0.5 * np.vdot(p.atoms, priors.atoms.precision @ p.atoms)
        + np.vdot(p.atoms, priors.atoms.natural_mean)
        for p in (now, other)
    ]
    assert found[1] - found[0] == pytest.approx(square[1] - square[0], rel=1e-9)


def test_terms_of_a_marginal_prior_follow_from_those_of_the_whole():
    prior = Model().absorb(NumbaBackend(), 0, N_ROWS).atoms
    fresh = prior.keep(np.array([0, 3, 4]))
    assert "terms" not in vars(fresh)
    assert prior.terms[0] == pytest.approx(np.linalg.slogdet(prior.precision)[1])
    np.testing.assert_allclose(prior.keep(np.array([0, 3, 4])).terms, fresh.terms, rtol=1e-9)


@pytest.mark.parametrize("strengths_counted", ["used", "all"])
def test_a_step_with_nothing_seen_is_a_step_without_memory(strengths_counted):
    model, backend = Model(), NumbaBackend()
    options = Options(strengths_counted=strengths_counted)
    state, data = model.batch(0, N_ROWS)
    empty = replace(model.priors, seen=SeenSums.none(N_CLASSES, N_ATOMS))
    plain, plain_info = step(KEY, state, data, model.priors, options, backend)
    found, info = step(KEY, state, data, empty, options, backend)
    for field in fields(Parameters):
        np.testing.assert_array_equal(
            getattr(found.parameters, field.name), getattr(plain.parameters, field.name)
        )
    assert info.log_joint == plain_info.log_joint


def test_drops_are_judged_on_all_rows_seen():
    model, backend = Model(), NumbaBackend()
    priors = model.absorb(backend, 0, 40)
    state, data = model.batch(40, 44)
    own = backend.usage(data, state.codes, model.parameters)
    assert (own.count.sum(axis=0) == 0).any()
    after, _ = drop(state, own, priors, backend)
    assert after.parameters.n_atoms == N_ATOMS
    unused = replace(priors, seen=replace(priors.seen, count=0 * priors.seen.count))
    after, kept = drop(state, own, unused, backend)
    n_used = np.count_nonzero(own.count.sum(axis=0))
    assert after.parameters.n_atoms == n_used == kept.seen.count.shape[1] == len(kept.seen.energy)
    # Strengths of dropped atoms say as much about their precision as before.
    np.testing.assert_array_equal(kept.seen.n_strengths, priors.seen.n_strengths)


# -------------------------------------------------------------------------------- whole chains

SETTINGS = ChainSettings(n_sweeps=4, n_start_nonzero=4)


def stream(n_batches=4, n_rows=24, n_classes=3, seed=0):
    """Batches of unit rows near cones of their classes."""
    rng = np.random.default_rng(seed)
    bases = rng.standard_normal((n_classes, 3, 30))
    for _ in range(n_batches):
        y = rng.permutation(np.arange(n_rows) % n_classes)
        X = np.einsum("id,idf->if", rng.random((n_rows, 3)), bases[y])
        X += 0.05 * rng.standard_normal(X.shape)
        yield X / np.linalg.norm(X, axis=1, keepdims=True), y


def problem_of(state, batch, settings=SETTINGS, **more):
    """The problem of a batch; all rows are learned from unless asked otherwise."""
    data, labels = batch.data, LabelSettings("ridge")
    more = {"leaves_out": False, "seed": state.seed, **more}
    return Problem(data.X, data.class_of_row, len(state.labels), settings, labels, **more)


def learn_stream(batches, settings=SETTINGS, forgetting=1.0, backend=None):
    """Memory after each batch."""
    backend = backend or NumbaBackend()
    state, known, memory = begin(3), None, []
    for X, y in batches:
        state, batch = take_batch(state, X, y)
        problem = problem_of(state, batch, settings)
        (share,) = shares_of_batch(problem, replace(state, chains=[known] if known else []), batch)
        member = learn_batch_in_chain(
            share, known, batch, problem, [Forward(1)], forgetting, backend, Journal()
        )
        known = member.memory_for(0)
        state = replace(state, chains=[known])
        memory.append((state, known))
    return memory


def test_memory_holds_the_sums_of_all_rows():
    memory = learn_stream(stream())
    for number, (state, chain) in enumerate(memory, start=1):
        assert state.n_rows == chain.priors.seen.n_rows.sum() == 24 * number
        assert chain.label_sums.gram.shape == (chain.parameters.n_atoms,) * 2
        assert chain.priors.atoms.precision.shape == (chain.parameters.n_atoms,) * 2
        assert np.linalg.eigvalsh(chain.priors.atoms.precision).min() >= 30 - 1e-6


def test_label_sums_add_up_over_atoms_that_stay():
    (_, first), (_, second) = learn_stream(stream(2))
    stays = np.isin(first.parameters.births, second.parameters.births)
    place = np.searchsorted(second.parameters.births, first.parameters.births[stays])
    more = second.label_sums.gram[np.ix_(place, place)]
    more = more - first.label_sums.gram[np.ix_(stays, stays)]
    assert np.linalg.eigvalsh(more).min() > -1e-9


def test_numbers_of_rows_sweeps_and_births_go_on():
    batches = [(X[:21], y[:21]) for X, y in stream(3)]
    memory = learn_stream(batches)
    assert [state.n_numbers for state, _ in memory] == [24, 48, 72]
    sweeps = [chain.sweep for _, chain in memory]
    assert sweeps == [4, 8, 12]  # a batch's start has a number of its own
    for (_, before), (_, after) in itertools.pairwise(memory):
        assert after.n_births >= before.n_births
        assert (np.diff(after.parameters.births) > 0).all()


def test_classes_are_numbered_as_they_come():
    X, y = next(stream(1, n_rows=36))
    names = np.array(["c", "a", "b"])[y]
    order = [names == "b", np.isin(names, ["a", "b"]), names == "c"]
    memory = learn_stream([(X[rows], names[rows]) for rows in order])
    assert [list(state.labels) for state, _ in memory] == [["b"], ["b", "a"], ["b", "a", "c"]]
    state, chain = memory[-1]
    assert list(chain.priors.seen.n_rows) == [24, 12, 12]
    assert state.first_row[0] == 0
    assert 12 <= state.first_row[1] < 36 <= state.first_row[2]


def test_forgetting_scales_what_was_learned_and_leaves_the_first_prior():
    _, chain = learn_stream(stream(2))[-1]
    less = forget(chain, 0.25, IsotropicPrior(30.0))
    identity = 30.0 * np.eye(chain.parameters.n_atoms)
    close(less.priors.atoms.precision - identity, 0.25 * (chain.priors.atoms.precision - identity))
    close(less.priors.atoms.natural_mean, 0.25 * chain.priors.atoms.natural_mean)
    for field in fields(SeenSums):
        name = field.name
        close(getattr(less.priors.seen, name), 0.25 * getattr(chain.priors.seen, name))
    close(less.label_sums.cross, 0.25 * chain.label_sums.cross)
    close(less.label_sums.gram, 0.25 * chain.label_sums.gram)
    assert forget(chain, 1.0, IsotropicPrior(30.0)) is chain


def test_rows_count_less_with_every_batch_that_follows():
    seen = learn_stream(stream(3), forgetting=0.5)[-1][1].priors.seen
    assert seen.n_rows.sum() == pytest.approx(24 * (1 + 0.5 + 0.25))


def test_atoms_that_no_row_of_late_uses_are_forgotten():
    (X, y), (X_other, _) = next(stream(1)), next(stream(1, seed=1))
    left = []
    for forgetting in (1.0, 0.05):
        memory = learn_stream([(X, y), *[(X_other, y)] * 4], forgetting=forgetting)
        first, last = memory[0][1], memory[-1][1]
        left.append(np.isin(first.parameters.births, last.parameters.births).mean())
    assert left[1] < 0.8 * left[0]


def test_a_batch_that_the_dictionary_explains_brings_no_atoms():
    batches = list(stream(1)) * 3
    memory = learn_stream(batches, replace(SETTINGS, initial_ratio=20.0))
    assert memory[-1][1].parameters.births.max() < memory[0][1].n_births


def test_new_directions_bring_atoms():
    batches = [next(stream(1, seed=seed)) for seed in (0, 1)]
    (_, first), (_, second) = learn_stream(batches)
    assert (second.parameters.births >= first.n_births).any()


@pytest.mark.parametrize("most", [12, 20])
def test_the_number_of_atoms_is_bounded_and_new_directions_still_find_room(most):
    batches = [next(stream(1, seed=seed)) for seed in range(6)]
    memory = learn_stream(batches, replace(SETTINGS, n_initial_atoms=most))
    for (_, before), (_, after) in itertools.pairwise(memory):
        assert after.parameters.n_atoms <= most
        assert (after.parameters.births >= before.n_births).any()


def test_room_is_made_by_the_atoms_that_explain_least():
    _, chain = learn_stream(stream(2))[-1]
    n_atoms, seen = chain.parameters.n_atoms, chain.priors.seen
    less = make_room(chain, 3, n_atoms)
    assert less.parameters.n_atoms == n_atoms - 3
    worth = seen.energy * chain.dictionary.scale**2
    gone = ~np.isin(chain.parameters.births, less.parameters.births)
    assert worth[gone].max() <= np.sort(worth)[2 + N_CLASSES]
    assert make_room(chain, 0, n_atoms) is chain


def test_the_work_of_a_batch_does_not_grow(monkeypatch):
    """Counted, not timed: rows swept, atoms, and numbers remembered."""
    rows, backend = [], NumbaBackend()
    sweep = NumbaBackend.sweep

    def count(self, key, number, data, codes, parameters, scan):
        rows.append(len(data.X) * parameters.n_atoms)
        return sweep(self, key, number, data, codes, parameters, scan)

    monkeypatch.setattr(NumbaBackend, "sweep", count)
    batches = [next(stream(1, seed=seed % 5)) for seed in range(12)]
    memory = learn_stream(batches, replace(SETTINGS, n_initial_atoms=16), backend=backend)
    work = np.reshape(rows[SETTINGS.n_sweeps :], (11, 3)).sum(axis=1)
    assert work.max() <= 24 * 16 * 3
    size = [c.priors.atoms.precision.size + c.label_sums.gram.size for _, c in memory]
    assert max(size) <= 2 * 16**2


def test_threads_do_not_matter():
    one, two = (learn_stream(stream(2), backend=NumbaBackend(n)) for n in (1, 3))
    np.testing.assert_array_equal(one[-1][1].dictionary.atoms, two[-1][1].dictionary.atoms)
    np.testing.assert_array_equal(one[-1][1].label_sums.gram, two[-1][1].label_sums.gram)


def test_a_stream_is_explained_about_as_well_as_when_all_of_it_is_learned_at_once():
    batches = list(stream(6, n_rows=30))
    X, y = (np.concatenate(parts) for parts in zip(*batches, strict=True))
    whole = learn_chain(KEY, X, y, SETTINGS, NumbaBackend())
    _, chain = learn_stream(batches)[-1]
    new, _ = next(stream(1, n_rows=60))
    left = []
    for atoms in (whole.dictionary.atoms, chain.dictionary.atoms):
        codes = omp(new, atoms, 4)
        left.append(np.square(new - codes @ atoms).sum())
    assert left[1] < 1.5 * left[0]


def test_a_batch_leaves_the_memory_before_it_alone():
    (_, chain), (X, y) = learn_stream(stream(1))[-1], list(stream(2))[1]
    before = chain.priors.atoms.precision.copy()
    state, batch = take_batch(replace(begin(0), chains=[chain]), X, y)
    data = batch.through(np.arange(len(X)), chain.view, NumbaBackend())
    continue_chain(KEY, chain, data, SETTINGS, NumbaBackend())
    np.testing.assert_array_equal(chain.priors.atoms.precision, before)
    assert isinstance(state.chains[0], online.OnlineChain)


def test_sums_of_a_batch_keep_their_type():
    zero = SeenSums.none(2, 3)
    sums = UsageSums(np.ones((2, 3), dtype=np.int64), np.ones(3), np.ones(2), np.ones(2))
    assert type(zero.with_batch(sums)) is UsageSums


# ----------------------------------------------------------- views and the rows that are left out

VIEWS = make_views(["unit half-whitened + constant", "plain"])


def learn_batches(batches, n_chains=2):
    """Members after each batch, with the rows that they left out."""
    state, found = begin(3), []
    for X, y in batches:
        known = state.chains
        state, batch = take_batch(state, X, y)
        problem = problem_of(state, batch, n_chains=n_chains, views=VIEWS, leaves_out=True)
        members = learn_batch(
            replace(state, chains=known), batch, problem, [Forward(1)], 1.0, Crew(), Journal()
        )
        state = replace(state, chains=[member.memory_for(0) for member in members])
        found.append((state, members))
    return found


def test_views_are_learned_from_the_first_batch_and_stay():
    batches = list(stream(3, n_rows=40))
    (_, first), (_, second), (_, third) = learn_batches(batches)
    X, y = batches[0]
    for number, member in enumerate(first):
        rows = member.share.fold.learn
        expected = VIEWS[number].fit(LabelledRows(X[rows], y[rows], 3))
        np.testing.assert_allclose(member.view.mean, expected.mean, rtol=1e-12)
        assert second[number].view is third[number].view is member.view
        assert member.memory_for(0).dictionary.atoms.shape[1] == expected.n_features


def test_rows_are_left_out_of_the_first_batch_and_of_those_with_new_classes_alone():
    (X, y), *_ = stream(1, n_rows=90)
    parts = [y < 2, y < 2, y >= 0, (y >= 0) & (np.arange(90) < LEAST_SCORED - 1)]
    labels = [y, y, y, y + 3]  # the last are new, but too few
    batches = [(X[rows], own[rows]) for rows, own in zip(parts, labels, strict=True)]
    found = learn_batches(batches)
    counts = [[len(m.share.fold.held_out) for m in members] for _, members in found]
    assert counts == [[6, 6], [0, 0], [9, 9], [0, 0]]
    for (_, members), (rows, _) in zip(found, batches, strict=True):
        for member in members:
            learned, left_out = member.share.fold
            assert len(learned) + len(left_out) == len(rows) and not set(learned) & set(left_out)
            assert [len(scores) for scores in member.scores] == [len(left_out)] * bool(
                len(left_out)
            )


def test_a_chain_counts_the_rows_that_it_learned_from():
    batches = list(stream(3, n_rows=40))
    for number, (state, members) in enumerate(learn_batches(batches)):
        assert state.n_rows == 40 * (number + 1)
        for member in members:
            memory = member.memory_for(0)
            assert memory.n_rows == memory.priors.seen.n_rows.sum() == 36 + 40 * number
            assert memory.square == pytest.approx(memory.n_rows)  # of unit norm in every view
