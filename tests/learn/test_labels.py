"""Label atoms, by which codes over the published atoms are multiplied."""

from dataclasses import replace

import numpy as np
import pytest

from dbdl import DBDLClassifier, ModelSettings
from dbdl.backends.numba_cpu import NumbaBackend
from dbdl.draws import make_key
from dbdl.learn.chain import ChainSettings, learn_chain
from dbdl.learn.labels import append_labels, gibbs_label_atoms, one_hot, split_labels
from dbdl.sampler.posterior import Dictionary

KEY = make_key(2)
SETTINGS = ChainSettings(n_sweeps=4, noise_precision=100.0)


def make_rows(scale=1.0, n_rows=60, n_features=12):
    rng = np.random.default_rng(0)
    class_of_row = np.arange(n_rows) % 3
    bases = rng.standard_normal((3, 3, n_features))
    X = np.einsum("id,idf->if", rng.random((n_rows, 3)), bases[class_of_row])
    return scale * X, class_of_row


@pytest.fixture(scope="module")
def learned():
    return learn_chain(KEY, *make_rows(), SETTINGS, NumbaBackend())


def test_label_atoms_of_the_model_belong_to_codes_over_the_published_atoms(learned):
    # Without a sweep the codes stay, and the label atoms W have the normal posterior of eq. 8.
    # Codes over atoms of unit norm are larger by the norms that the atoms had.
    found = gibbs_label_atoms(KEY, learned, replace(SETTINGS, n_sweeps=0), 0.1, NumbaBackend())
    scale, codes = learned.dictionary.scale, learned.chain.state.codes.to_dense(len(found))
    assert np.abs(scale - 1.0).max() > 0.1
    labels = one_hot(learned.data.class_of_row, 3)
    precision = 100.0 * codes.T @ codes + 3.0 * np.eye(len(found))
    expected = np.linalg.solve(precision, 100.0 * codes.T @ labels)
    np.testing.assert_allclose((codes * scale) @ found, codes @ expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("classifier", ["ridge", "recoded", "gibbs", "joint"])
def test_the_scores_of_training_rows_are_near_their_labels_whatever_the_scale(classifier):
    for scale in (0.2, 5.0):
        X, y = make_rows(scale)
        model = DBDLClassifier(
            n_sweeps=6,
            n_chains=1,
            n_nonzero=4,
            classifier=classifier,
            penalty=1e-3,
            label_weight=scale**2,
            normalize=False,
            model=ModelSettings(noise_precision=1e4 / scale**2, atom_precision=12 / scale**2),
            random_state=0,
        ).fit(X, y)
        scores = model.decision_function(X)
        own = scores[np.arange(len(y)), y]
        assert 0.5 < np.median(own) < 1.5, scale
        assert np.median(scores) < 0.4, scale


def test_labels_appended_to_rows_come_back_as_label_atoms():
    X, y = make_rows()
    weight = 7.0
    rows = append_labels(X, y, 3, weight)
    # Rows as atoms, scaled to unit norm: the code of a row is the norm it had.
    norm = np.linalg.norm(rows, axis=1)
    whole = Dictionary(rows / norm[:, np.newaxis], np.ones((3, len(X))), norm)
    dictionary, label_atoms = split_labels(whole, X.shape[1], weight)
    np.testing.assert_allclose(np.linalg.norm(dictionary.atoms, axis=1), 1.0, rtol=1e-12)
    published = dictionary.scale[:, np.newaxis]
    np.testing.assert_allclose(dictionary.atoms * published, X, rtol=1e-12)
    np.testing.assert_allclose(label_atoms * published, one_hot(y, 3), rtol=1e-12, atol=1e-12)
