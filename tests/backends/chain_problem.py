"""Labelled rows for a short chain, and all arrays at its end."""

import numpy as np

from dbdl.draws import make_key
from dbdl.learn.chain import ChainSettings, learn_chain

BLOCK_ROWS = 64
SETTINGS = ChainSettings(n_sweeps=4, n_initial_atoms=60)
KEY = make_key(3)


def rows_and_classes(n_rows=1000, n_features=20, n_classes=4, dtype=np.float32):
    rng = np.random.default_rng(0)
    class_of_row = rng.integers(0, n_classes, n_rows)
    class_of_row[:n_classes] = np.arange(n_classes)
    centres = rng.standard_normal((n_classes, n_features))
    X = centres[class_of_row] + 0.5 * rng.standard_normal((n_rows, n_features))
    return (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(dtype), class_of_row


def everything(backend, X, class_of_row, settings=SETTINGS):
    learned = learn_chain(KEY, X, class_of_row, settings, backend)
    codes = learned.chain.state.codes
    host = backend.codes_to_host(codes)
    return {
        "atoms": learned.dictionary.atoms,
        "selection": learned.dictionary.selection_probability,
        "row_start": host.row_start,
        "atom": host.atom,
        "strength": host.strength,
        "log_joint": learned.chain.trace.log_joint,
        "labels": backend.ridge_labels(learned.data, codes, learned.dictionary.scale, 0.1),
    }


def assert_same_bits(found, expected):
    for name, array in expected.items():
        assert array.dtype == found[name].dtype
        np.testing.assert_array_equal(found[name], array, err_msg=name)
