"""Explanations: shares of features and atoms add up to the decision, and say where it came from."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError, dataclass, replace
from functools import cache
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.decomposition import PCA

import dbdl
from dbdl import DBDLClassifier, Explanation
from dbdl.coding import Coder, Forward, LassoPath, Orthogonal, PosteriorMean
from dbdl.persistence import load, save
from dbdl.views import AUTOMATIC

QUICK = {"n_sweeps": 3, "n_chains": 3, "random_state": 0}


@cache
def wine():
    X, y = load_wine(return_X_y=True, as_frame=True)
    names = np.array(["first", "second", "third"])[y.to_numpy()]
    return X[::2], names[::2], X[1::2].reset_index(drop=True), names[1::2]


@cache
def fit(views="auto", coder=None, **settings):
    X, y, _, _ = wine()
    coder = LassoPath(5) if coder is None else coder
    return DBDLClassifier(**QUICK | {"views": list(views) if views != "auto" else views}
                          | {"coder": coder} | settings).fit(X, y)  # fmt: skip


@cache
def automatic():
    """A model with all automatic views."""
    return fit(AUTOMATIC, n_chains=len(AUTOMATIC))


def difference(model, X, explanation):
    """The score of the predicted class minus that of the other, by the model's own method."""
    scores = model.decision_function(X).ravel()
    if len(model.classes_) == 2:
        sign = 1 if explanation.predicted == model.classes_[1] else -1
        return sign * scores[0]
    labels = model.classes_.tolist()
    return scores[labels.index(explanation.predicted)] - scores[labels.index(explanation.against)]


# --------------------------------------------------------------------------------- they add up


def test_shares_of_features_add_up_to_the_difference_of_the_scores():
    model, (_, _, X, _) = automatic(), wine()
    for i, why in enumerate(model.explain(X[::9])):
        exact = difference(model, X[9 * i : 9 * i + 1], why)
        assert why.difference == pytest.approx(exact, abs=1e-12)
        assert why.constant + why.shares.sum() == pytest.approx(exact, abs=1e-8)
        assert sum(atom.share for atom in why.atoms) == pytest.approx(exact, abs=1e-12)


def test_the_constant_is_the_difference_of_the_scores_of_the_baseline():
    model, (X, _, new, _) = automatic(), wine()
    mean = X.mean().to_frame().T
    for why in model.explain(new[::9], baseline=mean.to_numpy()[0]):
        assert why.constant == pytest.approx(difference(model, mean, why), abs=1e-8)


CODERS = [
    Forward(4), Forward(5, path_average=True), Orthogonal(4), Orthogonal(6, path_average=True),
    LassoPath(3), LassoPath(7),
]  # fmt: skip


@pytest.mark.parametrize("coder", CODERS, ids=lambda coder: coder.label)
@pytest.mark.parametrize("views", [("standardised",), AUTOMATIC[:3]], ids=["linear", "auto"])
def test_near_a_row_shares_are_differences_of_scores_feature_by_feature(coder, views):
    model, (_, _, X, _) = fit(views, coder), wine()
    row = X.iloc[[5]]
    near = row * (1 + 1e-6 * np.cos(np.arange(X.shape[1])))
    (why,) = model.explain(row, baseline=near.to_numpy()[0])
    assert abs(why.spread) < 1e-10  # the atoms are the same all the way
    for j in range(X.shape[1]):
        other = row.copy()
        other.iloc[0, j] = near.iloc[0, j]
        change = why.difference - difference(model, other, why)
        assert why.shares[j] == pytest.approx(change, abs=1e-11, rel=1e-3)


def test_two_classes_share_one_column_of_scores():
    X, y = load_breast_cancer(return_X_y=True)
    model = DBDLClassifier(**QUICK).fit(X[:150], y[:150])
    explained = model.explain(X[150:160])
    assert {why.predicted for why in explained} == {0, 1}
    for i, why in enumerate(explained):
        assert {why.predicted, why.against} == {0, 1}
        exact = difference(model, X[150 + i : 151 + i], why)
        assert why.difference == pytest.approx(exact, abs=1e-12) and exact > 0
        assert why.constant + why.shares.sum() == pytest.approx(exact, abs=1e-8)


def test_narrow_rows_add_up_to_their_own_rounding():
    X, y, new, _ = wine()
    model = DBDLClassifier(**QUICK, coder=Forward(4)).fit(X.to_numpy(np.float32), y)
    for why in model.explain(new[:4].to_numpy(np.float32)):
        assert why.constant + why.shares.sum() == pytest.approx(why.difference, abs=1e-4)


def test_rows_as_they_are_have_shares_of_least_squares():
    X, y, new, _ = wine()
    model = DBDLClassifier(**QUICK | {"n_chains": 1}, normalize=False, coder=Forward(3)).fit(X, y)
    why = model.explain(new.iloc[0], baseline=np.zeros(X.shape[1]))
    (chain,) = model.chains_
    used = [atom.atom for atom in why.atoms]
    first, second = (model.classes_.tolist().index(c) for c in (why.predicted, why.against))
    weights = chain.label_atoms[used, first] - chain.label_atoms[used, second]
    expected = new.iloc[0].to_numpy() * (np.linalg.pinv(chain.atoms[used]) @ weights)
    np.testing.assert_allclose(why.shares, expected, atol=1e-10)
    assert why.constant == 0 and abs(why.spread) < 1e-10


@dataclass(frozen=True)
class Halved(Coder):
    """A user's coder: half of a greedy code, by a rule of its own."""

    name: ClassVar[str] = "halved"

    @classmethod
    def encode_each(cls, coders, X, atoms, backend):
        return [0.5 * Forward(c.n_nonzero).encode(X, atoms, backend) for c in coders]


def test_a_coder_of_the_users_own_has_slopes_by_differences():
    own, ours, (_, _, X, _) = fit(("plain",), Halved(4)), fit(("plain",), Forward(4)), wine()
    for one, other in zip(own.explain(X[:3]), ours.explain(X[:3]), strict=True):
        np.testing.assert_allclose(one.shares, other.shares / 2, atol=1e-6)
        assert one.constant + one.shares.sum() == pytest.approx(one.difference, abs=1e-12)


def test_shares_of_the_posterior_mean_add_up():
    model, (_, _, X, _) = fit(("plain",), PosteriorMean(5)), wine()
    why = model.explain(X.iloc[0])
    assert why.constant + why.shares.sum() == pytest.approx(why.difference, abs=1e-12)


def test_a_transformer_of_the_users_own_is_taken_apart_too():
    X, y, new, _ = wine()
    model = DBDLClassifier(**QUICK, views=PCA(4)).fit(X.to_numpy(), y)
    why = model.explain(new.to_numpy()[0], baseline=X.to_numpy().mean(axis=0))
    assert why.constant + why.shares.sum() == pytest.approx(why.difference, abs=1e-6)


# ------------------------------------------------------------------------------- what they say


def test_classes_and_probabilities_are_those_of_the_model():
    model, (_, _, X, _) = automatic(), wine()
    explained = model.explain(X[:8])
    assert [why.predicted for why in explained] == model.predict(X[:8]).tolist()
    probability = np.sort(model.predict_proba(X[:8]), axis=1)
    np.testing.assert_allclose([why.probability for why in explained], probability[:, -1])
    second = [why.probability_against for why in explained]
    np.testing.assert_allclose(second, probability[:, -2])


def test_a_class_can_be_named_to_compare_with():
    model, (_, _, X, _) = automatic(), wine()
    (why,) = model.explain(X[:1], against="third")
    assert (why.predicted, why.against) == ("first", "third")
    assert why.difference == pytest.approx(difference(model, X[:1], why))


def test_the_feature_that_tells_classes_apart_has_the_largest_share_on_average():
    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    X = rng.standard_normal((120, 6)) + 10
    X[:, 3] += np.where(y == 1, 6, -6)
    model = DBDLClassifier(**QUICK, views="standardised + constant").fit(X, y)
    mean = np.mean([why.shares for why in model.explain(X[:20])], axis=0)
    assert mean[3] > 3 * np.abs(np.delete(mean, 3)).max()


def test_a_feature_at_its_mean_has_no_share():
    model, (X, _, new, _) = automatic(), wine()
    row = new.iloc[0].copy()
    row["ash"] = X["ash"].mean()
    why = model.explain(row, baseline=X.mean().to_numpy())
    as_a_row = model.explain(row, baseline=X.mean().to_numpy()[np.newaxis])
    np.testing.assert_array_equal(why.shares, as_a_row.shares)
    assert why.shares[list(X.columns).index("ash")] == pytest.approx(0, abs=1e-14)


def test_rows_are_compared_with_the_mean_of_the_training_rows():
    model, (X, y, new, _) = automatic(), wine()
    mean = X.mean().to_numpy()
    np.testing.assert_allclose(model.explain(new.iloc[0]).baseline, mean, rtol=0.05)
    given = model.explain(new.iloc[0], X_train=X, y_train=y).baseline
    np.testing.assert_allclose(given, mean)
    assert not fit(("plain",)).explain(new.iloc[0]).baseline.any()


def test_atoms_have_the_probabilities_of_their_chain():
    model, (_, _, X, _) = automatic(), wine()
    why = model.explain(X.iloc[0])
    code = model.transform(X[:1])
    assert len(why.atoms) == code.nnz
    ends = np.cumsum([0, *(len(chain.atoms) for chain in model.chains_)])
    for atom in why.atoms:
        chain = model.chains_[atom.chain]
        assert atom.view == chain.view.name
        np.testing.assert_array_equal(model.atoms_[atom.number], chain.restored_atoms[atom.atom])
        assert code[0, atom.number] == atom.coefficient
        assert atom.coefficient == code[0, ends[atom.chain] + atom.atom]
        np.testing.assert_array_equal(
            atom.selection_probability, chain.selection_probability[:, atom.atom]
        )
        assert atom.owner == model.classes_[atom.selection_probability.argmax()]
        assert atom.nearest == ()
    sizes = [abs(atom.share) for atom in why.atoms]
    assert sizes == sorted(sizes, reverse=True)


def test_nearest_training_rows_are_those_with_the_largest_cosines():
    model, (X, y, new, _) = automatic(), wine()
    why = model.explain(new.iloc[0], X_train=X, y_train=y, n_nearest=2)
    for atom in why.atoms[:10]:
        chain = model.chains_[atom.chain]
        cosines = chain.view.apply(X.to_numpy()) @ chain.atoms[atom.atom]
        best = np.argsort(-cosines, kind="stable")[:2]
        assert [near.row for near in atom.nearest] == best.tolist()
        assert [near.label for near in atom.nearest] == y[best].tolist()
        np.testing.assert_allclose([near.cosine for near in atom.nearest], cosines[best])
    shares = sum(row.share for row in why.training_rows)
    assert shares == pytest.approx(why.difference)
    assert sum(row.n_atoms for row in why.training_rows) == len(why.atoms)


def test_missing_values_are_filled_and_marked():
    model, (_, _, X, _) = automatic(), wine()
    row = X.iloc[0].copy()
    row["proline"] = np.nan
    why = model.explain(row)
    place = list(X.columns).index("proline")
    assert why.missing.tolist() == [j == place for j in range(X.shape[1])]
    assert np.isfinite(why.values).all() and why.features
    assert why.constant + why.shares.sum() == pytest.approx(why.difference, abs=1e-8)
    assert why.difference == pytest.approx(difference(model, row.to_frame().T, why), abs=1e-12)
    shown = next(part for part in why.features if part.name == "proline")
    assert shown.is_missing and "missing, filled with" in str(shown)


def test_the_sentence_names_classes_features_and_training_rows():
    model, (X, y, new, _) = automatic(), wine()
    why = model.explain(new.iloc[0], X_train=X, y_train=y)
    said = str(why)
    assert said == why.sentence
    assert said.startswith(f"Predicted {why.predicted} with a probability of ")
    assert f"before {why.against} with" in said
    best = next(part for part in why.features if part.share > 0)
    assert f"{best.name} = {best.value:.4g} (average {best.baseline:.4g}) adds +" in said
    assert f"training rows {why.training_rows[0].row} (" in said


def test_one_other_feature_is_not_several():
    why = automatic().explain(wine()[2].iloc[0])
    few = {"shares": np.array([3.0, 2.0, 1.0, -1.0, 0.5]), "missing": np.zeros(5, bool)}
    parts = {"values": np.ones(5), "baseline": np.zeros(5), "feature_names": tuple("abcde")}
    assert "The other feature adds +0.5." in replace(why, **few, **parts).sentence


def test_a_row_of_zeros_has_nothing_that_speaks_for_a_class():
    model, (_, _, X, _) = fit(("plain",)), wine()
    why = model.explain(0 * X.iloc[0])
    assert why.difference == 0 and why.atoms == () and not why.shares.any()
    assert "The scores of the two classes are equal" in str(why)


# ------------------------------------------------------------------------------ calls and bits


def test_a_row_alone_has_the_shares_that_it_has_among_others():
    model, (_, _, X, _) = automatic(), wine()
    among = model.explain(X[:6])[4]
    for alone in (model.explain(X.iloc[4]), model.explain(X[4:5])[0]):
        assert alone.shares.tobytes() == among.shares.tobytes()
        assert alone.difference == among.difference


def test_one_dimension_is_one_row():
    X, y, new, _ = wine()
    model = DBDLClassifier(**QUICK).fit(X.to_numpy(), y)
    row = new.to_numpy()[0]
    explained = [model.explain(row), model.explain(row.tolist()), *model.explain(row[np.newaxis])]
    assert len({why.shares.tobytes() for why in explained}) == 1
    assert explained[0].feature_names[:2] == ("feature 0", "feature 1")
    assert isinstance(model.explain(new.to_numpy()[:1]), list)


def test_a_saved_model_explains_the_same(tmp_path):
    model, (_, _, X, _) = automatic(), wine()
    save(model, tmp_path / "model.skops")
    before, after = model.explain(X.iloc[0]), load(tmp_path / "model.skops").explain(X.iloc[0])
    assert before.shares.tobytes() == after.shares.tobytes() and str(before) == str(after)


def test_explanations_are_frozen_records_that_can_be_pickled():
    why = automatic().explain(wine()[2].iloc[0])
    assert isinstance(why, Explanation) and dbdl.Explanation is Explanation
    with pytest.raises(FrozenInstanceError):
        why.difference = 0.0
    assert str(pickle.loads(pickle.dumps(why))) == str(why)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"against": "fourth"}, "against='fourth' is not among the classes"),
        ({"against": "first"}, "against='first' is the predicted class of row 0 of X"),
        ({"baseline": [1.0, 2.0]}, "baseline has the shape"),
        ({"baseline": [0] * 12 + [np.nan]}, "baseline has values that are NaN or infinite"),
        ({"baseline": [0] * 12}, r"baseline has the shape \(12,\). Expected 13 numbers, one per f"),
        ({"baseline": [[0] * 13] * 2}, r"shape \(2, 13\). Expected 13 numbers.* Pass one row"),
        ({"y_train": ["first"]}, "y_train without X_train"),
        ({"n_nearest": 0}, "n_nearest"),
        ({"n_nearest": 1.5}, "n_nearest"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        automatic().explain(wine()[2][:1], **arguments)


def test_training_rows_and_labels_must_match():
    X, y, new, _ = wine()
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        automatic().explain(new[:1], X_train=X, y_train=y[:-1])
    with pytest.raises(ValueError, match="features"):
        automatic().explain(new[:1], X_train=X.to_numpy()[:, :3])


def test_a_model_of_one_class_has_nothing_to_explain():
    X, y, _, _ = wine()
    model = DBDLClassifier(**QUICK).partial_fit(X[y == "first"], y[y == "first"])
    with pytest.raises(ValueError, match="one class only"):
        model.explain(X[:1])


def test_a_frame_with_other_columns_is_refused():
    _, _, X, _ = wine()
    with pytest.raises(ValueError, match="feature names"):
        automatic().explain(pd.DataFrame(X[:1]).rename(columns={"ash": "cinder"}))
