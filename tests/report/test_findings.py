"""The numbers of a report are those of the classifier and of independent implementations."""

from __future__ import annotations

import numpy as np
import pytest
from report_problem import digits, fitted, with_mistakes
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    confusion_matrix,
    f1_score,
    log_loss,
)

from dbdl.backends import NumbaBackend
from dbdl.coding import Forward
from dbdl.report.explain import N_ATOMS, choose_samples, explain, feature_bars
from dbdl.report.findings import examine, names_of_classes, share_interval

CLASS_COUNTS = pytest.mark.parametrize("n_classes", [2, 4])


def examined(n_classes=4):
    _, _, X, y = digits(n_classes)
    return examine(fitted(n_classes), X, with_mistakes(y))


@CLASS_COUNTS
def test_scores_probabilities_and_answers_are_the_classifiers(n_classes):
    _, _, X, _ = digits(n_classes)
    model, found = fitted(n_classes), examined(n_classes)
    np.testing.assert_allclose(found.probability, model.predict_proba(X), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(model.classes_[found.predicted], model.predict(X))
    scores = found.scores if n_classes > 2 else found.scores[:, 1] - found.scores[:, 0]
    np.testing.assert_allclose(scores, model.decision_function(X), atol=1e-12)


@CLASS_COUNTS
def test_accuracy_confusion_and_log_loss_are_scikit_learns(n_classes):
    _, _, X, y = digits(n_classes)
    y, found = with_mistakes(y), examined(n_classes)
    answers = fitted(n_classes).predict(X)
    assert found.accuracy == accuracy_score(y, answers)
    assert found.balanced_accuracy == pytest.approx(balanced_accuracy_score(y, answers))
    assert found.macro_f1 == pytest.approx(f1_score(y, answers, average="macro"))
    np.testing.assert_array_equal(found.confusion, confusion_matrix(y, answers))
    assert found.log_loss == pytest.approx(log_loss(y, found.probability))


def test_bins_hold_every_row_once_and_the_gaps_give_the_calibration_error():
    found = examined()
    bins = found.bins()
    assert sum(b.n_rows for b in bins) == len(found.true)
    gaps = sum(b.n_rows * abs(b.confidence - b.accuracy) for b in bins) / len(found.true)
    assert gaps == pytest.approx(found.calibration_error)
    for b in bins:
        assert b.low <= b.confidence <= b.high
        assert b.interval[0] <= b.accuracy <= b.interval[1]


def test_a_chain_alone_is_scored_by_its_own_label_atoms():
    _, _, X, _ = digits()
    model, found = fitted(), examined()
    chain = model.chains_[1]
    codes = chain.encode(model._rows(X, reset=False), NumbaBackend())
    answers = (codes @ chain.label_atoms).argmax(axis=1)
    assert found.chain_accuracy[1] == np.mean(answers == found.true)


@pytest.mark.parametrize("n_right, n", [(0, 5), (5, 5), (3, 7), (990, 1000)])
def test_intervals_of_shares_solve_wilsons_equation(n_right, n):
    z = 1.959964
    for bound in share_interval(n_right, n):
        if 0 < bound < 1:
            gap = abs(n_right / n - bound)
            assert gap == pytest.approx(z * np.sqrt(bound * (1 - bound) / n), rel=1e-5)
    assert share_interval(0, 0) == (0.0, 1.0)


@CLASS_COUNTS
def test_the_parts_of_a_decision_sum_to_the_scores(n_classes):
    model, found = fitted(n_classes), examined(n_classes)
    for sample, kind in choose_samples(found):
        e = explain(found, model.selection_probability_, sample, kind)
        for parts in (e.atoms, e.owners):
            for side, c in (("for_class", e.predicted), ("for_rival", e.rival)):
                total = sum(getattr(part, side) for part in parts)
                assert total == pytest.approx(found.scores[sample, c], abs=1e-12)
            assert sum(part.n_atoms for part in parts) == found.codes[sample].nnz
        assert e.predicted in e.classes and e.true in e.classes


def test_a_mistake_is_compared_with_the_true_class_and_a_right_answer_with_the_runner_up():
    found = examined()
    probability = fitted().selection_probability_
    for sample, _ in choose_samples(found):
        e = explain(found, probability, sample)
        ranking = np.argsort(-found.scores[sample])
        assert e.rival == (ranking[1] if e.true == e.predicted else e.true)


def test_atoms_are_named_by_their_own_owner():
    model, found = fitted(), examined()
    e = explain(found, model.selection_probability_, 3)
    for part in e.atoms[:N_ATOMS]:
        assert part.owner == model.selection_probability_[:, part.atom].argmax()
        assert found.codes[3, part.atom] == part.coefficient


def test_a_row_of_zeros_has_nothing_to_explain():
    plain = fitted(views="plain")
    found = examine(plain, np.zeros((1, 64)), [0])
    e = explain(found, plain.selection_probability_, 0)
    assert (e.atoms, e.owners, e.longest) == ([], [], 1.0)


def test_atoms_that_are_not_shown_are_summed_up_by_their_owners():
    model = fitted(n_chains=8, coder=Forward(5))
    found = examine(model, *digits()[2:])
    e = explain(found, model.selection_probability_, 0)
    single, others = e.atoms[:N_ATOMS], e.atoms[N_ATOMS:]
    assert all(part.atom >= 0 for part in single) and all(part.atom == -1 for part in others)
    assert sum(part.n_atoms for part in others) > 10
    shown = {part.atom for part in single}
    code, owner = found.codes[0], model.selection_probability_.argmax(axis=0)
    for part in others:
        own = [k for k in code.indices if owner[k] == part.owner and k not in shown]
        assert part.owner >= 0 and part.n_atoms == len(own)
    assert e.longest == max(abs(part.difference) for part in e.atoms)


def test_what_is_summed_up_over_several_owners_is_never_the_longest_bar():
    for sample in range(20):
        e = explain(examined(), fitted().selection_probability_, sample)
        for parts in (e.atoms, e.owners):
            mixed = [abs(part.difference) for part in parts if part.owner < 0]
            named = [abs(part.difference) for part in parts if part.owner >= 0]
            assert not mixed or max(mixed) <= max(named)


def test_bars_of_features_add_up_to_the_difference_of_the_scores():
    why = fitted().explain(digits()[2][0])
    bars = feature_bars(why)
    total = sum(part.share for part in bars.shown) + bars.others.share + why.constant
    assert total == pytest.approx(why.difference, abs=1e-8)
    assert len(bars.shown) + bars.others.n_features == 64
    sizes = [abs(part.share) for part in bars.shown]
    assert bars.longest == max(*sizes, abs(bars.others.share), abs(why.constant))


def test_samples_are_mistakes_doubts_and_right_answers_each_once():
    found = examined()
    chosen = choose_samples(found, n_each=3)
    rows = [i for i, _ in chosen]
    assert len(set(rows)) == len(rows)
    confidence = found.probability.max(axis=1)
    assert confidence[rows[0]] == confidence[~found.correct].max()
    assert confidence[rows[3]] == confidence[found.correct].min()
    right = [found.true[i] for i, kind in chosen if "most confident correct" in kind]
    assert len(set(right)) == 3


def test_names_are_given_in_order_or_by_label():
    classes = np.array([3, 5])
    assert names_of_classes(classes, None) == ["3", "5"]
    assert names_of_classes(classes, ["cat", "dog"]) == ["cat", "dog"]
    assert names_of_classes(classes, {5: "dog"}) == ["3", "dog"]
    with pytest.raises(ValueError, match="1 names, but the model has 2 classes"):
        names_of_classes(classes, ["cat"])


def test_labels_that_were_never_seen_and_empty_tests_are_refused():
    _, _, X, y = digits()
    with pytest.raises(ValueError, match="never saw: 9"):
        examine(fitted(), X, np.where(y == 1, 9, y))
    with pytest.raises(ValueError, match="no test rows"):
        examine(fitted(), X[:0], y[:0])
    with pytest.raises(ValueError, match="inconsistent numbers"):
        examine(fitted(), X, y[:-1])
