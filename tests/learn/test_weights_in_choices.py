"""Weights of rows in choices on rows left out, in label atoms and in batches."""

import numpy as np
import pytest

from dbdl.backends import NumbaBackend
from dbdl.coding import Forward, PreparedAtoms
from dbdl.draws import make_key
from dbdl.learn.chain import ChainSettings, learn_chain
from dbdl.learn.choice import LeftOut, ensemble_results, fit_weights, group_by_rows
from dbdl.learn.held_out import choose_coder, fit_sharpness, log_loss
from dbdl.learn.labels import one_hot
from dbdl.learn.members import code_prior
from dbdl.learn.online import absorb, label_sums

N_ROWS, N_CLASSES = 40, 3
WEIGHT = np.arange(N_ROWS) % 4 + 1
AGAIN = np.repeat(np.arange(N_ROWS), WEIGHT)
WEIGHTS = WEIGHT.astype(np.float64)


def scores_and_classes(seed):
    """Scores of the same rows, with other noise for each seed."""
    rng, y = np.random.default_rng(seed), np.random.default_rng(9).integers(0, N_CLASSES, N_ROWS)
    return one_hot(y, N_CLASSES) + rng.standard_normal((N_ROWS, N_CLASSES)), y


def test_log_loss_and_sharpness_are_those_of_repeated_rows():
    scores, y = scores_and_classes(0)
    assert log_loss(scores, y, 1.7, WEIGHTS) == pytest.approx(
        log_loss(scores[AGAIN], y[AGAIN], 1.7)
    )
    found = fit_sharpness(scores, y, WEIGHTS)
    assert found == pytest.approx(fit_sharpness(scores[AGAIN], y[AGAIN]), rel=1e-4)
    assert abs(found - fit_sharpness(scores, y)) > 1e-2


def test_a_coder_is_chosen_as_by_repeated_rows():
    coders = [Forward(1), Forward(2)]
    views = [[scores_and_classes(seed)[0] for seed in own] for own in ((0, 1), (2, 3))]
    y = scores_and_classes(0)[1]
    found = choose_coder(coders, views, [y, y], [WEIGHTS, WEIGHTS])
    repeated = [[scores[AGAIN] for scores in view] for view in views]
    expected = choose_coder(coders, repeated, [y[AGAIN], y[AGAIN]])
    for name in ("accuracy", "log_loss", "every_sharpness", "view_log_loss"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-4)
    assert found.best == expected.best and found.n_rows == 2 * N_ROWS


def test_weights_of_views_and_results_are_those_of_repeated_rows():
    members = [LeftOut(np.arange(N_ROWS), [scores_and_classes(seed)[0]], seed) for seed in (0, 1)]
    scores, y = [member.scores[0] for member in members], scores_and_classes(0)[1]
    repeated = [member._replace(rows=AGAIN) for member in members]
    found = group_by_rows(members, scores, y, WEIGHTS)
    expected = group_by_rows(repeated, [s[AGAIN] for s in scores], y)
    views = np.arange(2)
    weights = fit_weights(found, views)
    np.testing.assert_allclose(weights, fit_weights(expected, views), rtol=1e-4)
    assert np.abs(weights - fit_weights(group_by_rows(members, scores, y), views)).max() > 1e-2
    results, right = (
        ensemble_results(groups, weights, groups[0].total(weights)) for groups in (found, expected)
    )
    assert results.sharpness == pytest.approx(right.sharpness, rel=1e-4)
    np.testing.assert_allclose(results.figures, right.figures, rtol=1e-4)


@pytest.fixture(scope="module")
def learned():
    """A chain on rows with weights, and its backend."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((N_ROWS, 8)), np.arange(N_ROWS) % N_CLASSES
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    settings, backend = ChainSettings(n_sweeps=2, n_initial_atoms=12), NumbaBackend()
    return learn_chain(make_key(0), X, y, settings, backend, sample_weight=WEIGHTS), backend


@pytest.mark.parametrize("coder", [None, Forward(3)], ids=["codes of the chain", "recoded"])
def test_sums_of_labels_that_a_batch_leaves_are_those_of_repeated_rows(learned, coder):
    learned, backend = learned
    data, atoms = learned.data, learned.dictionary.atoms
    codes = learned.chain.state.codes.to_dense(len(atoms))
    if coder is not None:
        prepared = PreparedAtoms(atoms, code_prior(learned, learned.dictionary))
        codes = coder.encode(data.X, prepared, backend).toarray()
    found = label_sums(learned, None, coder, backend)
    codes, labels = codes[AGAIN], one_hot(data.class_of_row, N_CLASSES)[AGAIN]
    np.testing.assert_allclose(found.gram, codes.T @ codes, atol=1e-12)
    np.testing.assert_allclose(found.cross, codes.T @ labels, atol=1e-12)


def test_sums_that_a_batch_leaves_to_the_next_count_rows_by_weight(learned):
    learned, backend = learned
    seen = absorb(learned.chain.priors, learned.chain.state, learned.data, backend).seen
    used = learned.chain.state.codes.to_dense(seen.count.shape[1])[AGAIN] != 0
    classes = one_hot(learned.data.class_of_row, N_CLASSES)[AGAIN]
    np.testing.assert_allclose(seen.n_rows, classes.sum(axis=0))
    np.testing.assert_allclose(seen.count, classes.T @ used)
    assert not list(seen.faults())


def test_a_chain_records_means_over_weighted_rows(learned):
    learned, _ = learned
    used = np.diff(learned.chain.state.codes.row_start)
    last = learned.chain.trace.mean_nonzero[-1]
    assert last == pytest.approx(np.average(used, weights=WEIGHTS), rel=1e-12)


def test_initial_atoms_are_drawn_as_without_weights(learned):
    learned, backend = learned
    data = backend.place(learned.data.X, learned.data.class_of_row)
    for settings in (ChainSettings(n_initial_atoms=12), ChainSettings()):
        rows = [settings.draw_start(make_key(1), d, 12) for d in (data, learned.data)]
        np.testing.assert_array_equal(*rows)
