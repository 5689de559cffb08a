"""SA-CRC against a slow loop: dense codes, sparse codes, and the sums of their coefficients."""

import numpy as np
import pytest
from class_atoms_problem import learn, random_rows, some_faces
from sklearn.linear_model import Ridge

from dbdl.rivals.sacrc import SACRCClassifier


def pursue_slowly(x, atoms, n_nonzero):
    """Orthogonal matching pursuit by its definition, atoms of unit norm."""
    chosen, left = [], x
    for _ in range(n_nonzero):
        chosen.append(int(np.argmax(np.abs(atoms @ left))))
        strength = np.linalg.lstsq(atoms[chosen].T, x, rcond=None)[0]
        left = x - strength @ atoms[chosen]
    code = np.zeros(len(atoms))
    code[chosen] = strength
    return code


def score_slowly(x, atoms, class_of_atom, n_classes, penalty, n_nonzero):
    """The rule of the docstring for one row."""
    dense = Ridge(alpha=penalty, fit_intercept=False, solver="cholesky").fit(atoms.T, x).coef_
    code = dense + pursue_slowly(x, atoms, n_nonzero)
    code = code / np.linalg.norm(code)
    scores = np.zeros(n_classes)
    for coefficient, c in zip(code, class_of_atom, strict=True):
        scores[c] += coefficient
    return scores


@pytest.mark.parametrize("n_nonzero", [1, 3, 6])
def test_scores_are_those_of_a_slow_loop(n_nonzero):
    X, y, n_classes = problem = random_rows()
    model = learn(SACRCClassifier, problem, penalty=0.05, n_nonzero=n_nonzero)
    queries = np.random.default_rng(1).standard_normal((6, X.shape[1]))
    expected = [score_slowly(x, X, y, n_classes, 0.05, n_nonzero) for x in queries]
    np.testing.assert_allclose(model.scores(queries), expected, atol=1e-9)


def test_codes_have_unit_norm_and_a_row_of_zeros_has_no_code():
    X, y, n_classes = random_rows()
    model = learn(SACRCClassifier, (X, y, n_classes), n_nonzero=4)
    np.testing.assert_allclose(np.linalg.norm(model.code(X), axis=1), 1)
    assert not model.code(np.zeros((1, X.shape[1]))).any()


def test_the_scale_of_a_query_does_not_change_its_scores():
    X, y, n_classes = random_rows()
    model = learn(SACRCClassifier, (X, y, n_classes), n_nonzero=4)
    np.testing.assert_allclose(model.scores(7 * X[:5]), model.scores(X[:5]), atol=1e-10)


def test_faces_are_recognised(yaleb):
    X, y, _ = some_faces(yaleb, n_rows=40)
    model = SACRCClassifier(calibrate=False).fit(X[::2], y[::2])
    assert model.score(X[1::2], y[1::2]) > 0.9
