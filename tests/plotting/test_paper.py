"""The paper's figures on small data."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

from dbdl.experiments.rows import LabelledRows
from dbdl.plotting.paper import FILES, write_figures


def test_figures_2_4_and_9_are_drawn(tmp_path):
    X, y = load_digits(n_class=4, return_X_y=True)
    data = LabelledRows(X[:160] / np.linalg.norm(X[:160], axis=1, keepdims=True), y[:160])
    curves = write_figures(data, "four digits", tmp_path, quick=True)
    assert len(curves) == 3
    for name in FILES:
        picture = (tmp_path / name).read_bytes()
        assert picture.startswith(b"\x89PNG") and len(picture) > 5000
