"""A transformer of scikit-learn is a view, fitted for each chain, and mapped back if it can be."""

import numpy as np
import pytest
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    PolynomialFeatures,
    StandardScaler,
)
from sklearn.utils.validation import check_is_fitted

from dbdl import DBDLClassifier, open_rows
from dbdl.coding import Forward
from dbdl.views import LabelledRows, OwnView, make_views

FIT = {"n_sweeps": 3, "n_chains": 2, "coder": Forward(3), "random_state": 0}


def make_rows(n_rows=120, n_features=6, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n_rows) % 3
    centres = np.random.default_rng(9).standard_normal((3, n_features))
    return 2 * centres[y] + 5 + rng.standard_normal((n_rows, n_features)) * 0.5, y


@pytest.mark.parametrize(
    "transformer",
    [
        PCA(3),
        StandardScaler(),
        make_pipeline(StandardScaler(), PCA(4, whiten=True)),
        LinearDiscriminantAnalysis(),
        PolynomialFeatures(2),
    ],
    ids=lambda one: type(one).__name__,
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_chains_see_the_rows_as_a_transformer_maps_them(transformer, dtype):
    X, y = make_rows()
    X = X.astype(dtype)
    model = DBDLClassifier(views=transformer, **FIT).fit(X, y)
    assert model.score(*make_rows(seed=1)) > 0.9
    for chain in model.chains_:
        seen = chain.view.transformer.transform(X)
        found = chain.view.apply(X)
        assert found.dtype == dtype and found.flags.c_contiguous
        seen = seen / np.linalg.norm(seen, axis=1, keepdims=True)
        np.testing.assert_allclose(found, seen, atol=1e-5)
        assert chain.atoms.shape[1] == chain.view.n_features == seen.shape[1]
    with pytest.raises(Exception, match="not fitted"):
        check_is_fitted(transformer)  # it was copied


def test_a_transformer_may_give_a_sparse_matrix():
    X, y = make_rows()
    sparse, dense = (
        DBDLClassifier(views=KBinsDiscretizer(4, encode=encode), **FIT).fit(X, y)
        for encode in ("onehot", "onehot-dense")
    )
    assert issparse(sparse.chains_[0].view.transformer.transform(X))
    np.testing.assert_array_equal(sparse.decision_function(X), dense.decision_function(X))


def test_a_transformer_is_fitted_to_the_rows_that_its_chain_learns_from():
    X, y = make_rows()
    model = DBDLClassifier(views=StandardScaler(), **FIT).fit(X, y)
    first, second = (chain.view.transformer for chain in model.chains_)
    for scaler in (first, second):
        assert scaler.n_samples_seen_ == 108  # without a tenth
    everything = DBDLClassifier(views=StandardScaler(), calibrate=False, **FIT).fit(X, y)
    assert everything.chains_[0].view.transformer.n_samples_seen_ == 120


def test_transformers_and_names_can_be_mixed():
    X, y = make_rows()
    model = DBDLClassifier(views=["plain", PCA(3)], **FIT).fit(X, y)
    assert [chain.view.n_features for chain in model.chains_] == [6, 3]
    assert model.atoms_.shape == (model.n_atoms_, 6)
    assert model.inverse_transform(model.transform(X)).shape == X.shape


@pytest.mark.parametrize("transformer", [StandardScaler(), PCA(6)])
def test_atoms_are_mapped_back_by_the_transformer(transformer):
    X, y = make_rows()
    model = DBDLClassifier(views=transformer, **FIT).fit(X, y)
    [first, second] = (
        chain.view.transformer.inverse_transform(chain.atoms) for chain in model.chains_
    )
    np.testing.assert_array_equal(model.atoms_, np.vstack([first, second]))
    assert model.atoms_.shape == (model.n_atoms_, 6)


def test_without_a_way_back_only_that_is_missing():
    X, y = make_rows()
    model = DBDLClassifier(views=PolynomialFeatures(2), **FIT).fit(X, y)
    assert model.predict_proba(X).shape == (120, 3)
    codes = model.transform(X)
    with pytest.raises(
        ValueError, match=r"PolynomialFeatures.* has no inverse_transform.*views by"
    ):
        model.inverse_transform(codes)
    with pytest.raises(ValueError, match="has no inverse_transform"):
        _ = model.atoms_


LOGARITHM = FunctionTransformer(np.log1p)


@pytest.mark.parametrize(
    ("transformer", "is_known"),
    [
        (LOGARITHM, False),
        (FunctionTransformer(np.log1p, inverse_func=np.expm1), True),
        (make_pipeline(LOGARITHM, "passthrough", StandardScaler()), False),
        (make_pipeline("passthrough", StandardScaler()), True),
    ],
)
def test_a_function_without_its_inverse_is_no_way_back(transformer, is_known):
    X, y = make_rows()
    model = DBDLClassifier(views=transformer, **FIT).fit(np.exp(X), y)
    if is_known:
        assert model.atoms_.shape[1] == X.shape[1]
    else:
        with pytest.raises(ValueError, match="a FunctionTransformer needs inverse_func"):
            _ = model.atoms_


class Odd(TransformerMixin, BaseEstimator):
    """Gives something else than one row of numbers per row."""

    def __init__(self, kind):
        self.kind = kind

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        odd = {
            "flat": X[:, 0],
            "words": np.full(X.shape, "a"),
            "not finite": X * np.nan,
            "too few": X[:-1],
        }
        return odd[self.kind]


@pytest.mark.parametrize("kind", ["flat", "words", "not finite", "too few"])
def test_a_transformer_that_gives_no_rows_of_numbers_is_named(kind):
    X, y = make_rows()
    with pytest.raises(ValueError, match=rf"the view Odd\(kind='{kind}'\) gives .*one row per row"):
        DBDLClassifier(views=Odd(kind), **FIT).fit(X, y)


def test_rows_that_are_read_in_parts_need_views_by_name(tmp_path):
    X, y = make_rows()
    np.save(tmp_path / "rows.npy", X)
    with pytest.raises(ValueError, match=r"the view PCA.* needs all rows in memory.*views='auto'"):
        DBDLClassifier(views=PCA(3), **FIT).fit(open_rows(tmp_path / "rows.npy")[0], y)


def test_without_normalize_mapped_rows_are_used_as_they_are():
    X, y = make_rows()
    [recipe] = make_views(StandardScaler(), normalize=False)
    assert isinstance(recipe, OwnView)
    view = recipe.fit(LabelledRows(X, y, 3))
    np.testing.assert_array_equal(view.apply(X), StandardScaler().fit_transform(X))
    with pytest.raises(ValueError, match="whose squares overflow"):
        view.apply(1e200 * X)
