"""Choices made on rows that members left out: coders, weights, and the link to probabilities.

Three quarters of the training rows are initial atoms themselves, so coding training rows over the
dictionary says nothing about new rows. Each member leaves out a tenth of the rows: neither its
view, nor its atoms, nor its label atoms have seen them. These rows decide the member's coder and
number of non-zeros, which matters more than any other parameter, its weight in the ensemble, and
the bend and the temperature of the probabilities. A row is never scored by a member that saw it,
nor, for the bend and the published results, with weights that it has chosen. (It may have been
asked which coder, which views and, for a single chain, which view to take: so results on rows left
out are a little too good.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from dbdl.coding import Coder
from dbdl.learn.held_out import (
    Figures,
    HeldOutChoice,
    Scores,
    accuracy_of,
    by_class,
    choose_coder,
    fit_sharpness,
    join_weights,
    log_loss,
    log_probabilities,
    total_weight,
)
from dbdl.learn.link import Link, bent, choose_link
from dbdl.learn.members import LearnedMember, Member
from dbdl.model.state import Classes, Doubles
from dbdl.model.statistics import Weights, some_weights

#: The losses of all members together count as much as this many rows of a member's own when its
#: coder and its sharpness are chosen.
POOLED_ROWS = 100.0
#: Penalty on squared differences between the members' weights, in nats of the summed log-loss.
#: With a dozen rows the weights stay nearly uniform. Members with few atoms pay on some data
#: only: their weights are pulled towards 0, so that they have to earn them.
WEIGHT_PENALTY = 0.03
#: Parts of the rows left out. Each is scored with weights that the rows of the other parts choose.
N_PARTS = 5
#: Weight of a row of earlier batches when the results of a batch are pooled with theirs.
WEIGHT_OF_EARLIER = 0.5
#: Most that the sharpness grows from a few members to the whole ensemble.
MOST_GROWTH = 1.3


class LeftOut(NamedTuple):
    """Scores of rows by one member that has not seen them, for each coder."""

    rows: NDArray[np.int64]
    scores: Sequence[Scores]
    view: int  # number of the member's view
    has_few_atoms: bool = False  # its weight is pulled towards 0, not towards that of the others


@dataclass(frozen=True)
class Candidates:
    """The candidates among which rows that were left out choose."""

    coders: Sequence[Coder]
    calibrate: bool = True  # whether the temperature is fitted
    shared: bool = False  # whether all members have the same coder
    n_threads: int = 1  # on which they are judged

    @property
    def is_open(self) -> bool:
        """Whether there is anything to choose or to fit."""
        return self.calibrate or len(self.coders) > 1

    @property
    def sparsest(self) -> Coder:
        """The coder with the fewest non-zeros, where no rows choose."""
        return min(self.coders, key=lambda coder: coder.n_nonzero)


@dataclass(frozen=True)
class Choice:
    """The choice for an ensemble.

    Attributes
    ----------
    coders : tuple of Coder
        Each member's coder.
    weights : ndarray of shape (n_members,)
        Shares of the members' scores, which add up to 1.
    temperature : float
        Temperature of the softmax of the scores.
    held_out : HeldOutChoice or None
        Results of every candidate; None if no row was left out.
    accuracy, log_loss : float
        Of the ensemble, on the rows left out: each is scored by the members that left it out.
    n_rows : int
        Number of these rows.
    bend : float
        Bend of the scores before the softmax; see `dbdl.learn.link`.
    """

    coders: tuple[Coder, ...]
    weights: Doubles
    temperature: float
    held_out: HeldOutChoice | None
    accuracy: float = 0.0
    log_loss: float = 0.0
    n_rows: int = 0
    bend: float = 0.0


def choose(
    members: Sequence[LearnedMember],
    class_of_row: Classes,
    candidates: Candidates,
    sample_weight: Weights = None,
) -> Choice:
    """Choose coders, weights and the temperature on the rows that members left out."""
    left_out = left_out_by(members)
    if not all(len(member.rows) for member in left_out):
        return without_rows(candidates, len(members))
    return choose_by_scores(left_out, class_of_row, candidates, sample_weight=sample_weight)


def publish_members(
    members: Sequence[LearnedMember], candidates: Candidates, choice: Choice
) -> list[Member]:
    """Publish members with the coders and weights that were chosen for them."""
    published = []
    for member, coder, weight in zip(members, choice.coders, choice.weights, strict=True):
        parts = member.atoms.__getstate__()
        parts["label_atoms"] = member.label_atoms[list(candidates.coders).index(coder)]
        published.append(Member(**parts, view=member.view, coder=coder, weight=float(weight)))
    return published


def left_out_by(members: Sequence[LearnedMember]) -> list[LeftOut]:
    """Return the members' scores of the rows that they left out."""
    return [
        LeftOut(m.share.fold.held_out, m.scores, m.share.view_number, m.share.has_few_atoms)
        for m in members
    ]


def without_rows(candidates: Candidates, n_members: int) -> Choice:
    """Choose the coder with the fewest non-zeros, and equal weights."""
    weights = np.full(n_members, 1.0 / n_members)
    return Choice((candidates.sparsest,) * n_members, weights, 1.0, None)


def keep_choice(choice: Choice, candidates: Candidates) -> Choice:
    """Keep an earlier choice, except for coders that are no longer candidates."""
    known = candidates.coders
    coders = tuple(coder if coder in known else candidates.sparsest for coder in choice.coders)
    return replace(choice, coders=coders)


def choose_by_scores(
    members: Sequence[LeftOut],
    class_of_row: Classes,
    candidates: Candidates,
    before: Choice | None = None,
    sample_weight: Weights = None,
) -> Choice:
    """Choose by the scores of rows that members have not seen.

    The results of a choice made before on other rows count too, if there is one with the same
    candidates. The bend of its scores stays.
    """
    views, view_of_member = np.unique([member.view for member in members], return_inverse=True)
    of_view = [[member for member in members if member.view == view] for view in views]
    held_out = score_coders(of_view, class_of_row, candidates, sample_weight)
    share = 1.0
    if before is not None and before.held_out is not None:
        held_out, share = pool(before.held_out, held_out)
    index, sharpness = coders_of_views(held_out, candidates.shared)
    index, sharpness = index[view_of_member], sharpness[view_of_member]
    calibrated = [
        b * member.scores[k] for member, k, b in zip(members, index, sharpness, strict=True)
    ]
    groups = group_by_rows(members, calibrated, class_of_row, sample_weight)
    usual = np.ones(len(views))
    usual[view_of_member[[member.has_few_atoms for member in members]]] = 0.0
    weights = fit_weights(groups, view_of_member, usual)
    total = float(weights @ sharpness)
    unit = total / len(members)  # of the scores that are pooled here, in published scores
    scores = weighted_by_others(groups, view_of_member, usual, weights)
    results = ensemble_results(groups, weights, scores, given_bend(candidates, before, share, unit))
    sharpness_of_all = results.link.sharpness * growth(results, weights, groups, len(members))
    temperature = 1.0 / (sharpness_of_all * unit)
    weights = weights * sharpness / total
    figures = results.figures
    if share < 1 and before is not None:
        weights = share * weights + (1 - share) * before.weights
        weights = weights / weights.sum()
        temperature = temperature**share * before.temperature ** (1 - share)
        earlier = None if before.held_out is None else before.held_out.ensemble
        figures = figures.pooled(earlier, share)
    held_out = held_out.with_ensemble(figures)
    coders = tuple(candidates.coders[k] for k in index)
    temperature = temperature if candidates.calibrate else 1.0
    return Choice(
        coders, weights, temperature, held_out, results.figures.accuracy, results.figures.log_loss,
        results.n_rows, results.link.bend * unit,
    )  # fmt: skip


def given_bend(
    candidates: Candidates, before: Choice | None, share: float, unit: float
) -> float | None:
    """Return the bend of scores pooled with those of an earlier choice; None to choose it."""
    if not candidates.calibrate:
        return 0.0
    return before.bend / unit if share < 1 and before is not None else None


def score_coders(
    of_view: Sequence[Sequence[LeftOut]],
    class_of_row: Classes,
    candidates: Candidates,
    sample_weight: Weights,
) -> HeldOutChoice:
    """Score every coder on the rows that the members of each view left out."""
    rows_of_view = [np.concatenate([m.rows for m in own]) for own in of_view]
    by_coder = [zip(*(m.scores for m in own), strict=True) for own in of_view]
    return choose_coder(
        candidates.coders,
        [[np.concatenate(scores) for scores in every] for every in by_coder],
        [class_of_row[rows] for rows in rows_of_view],
        [some_weights(sample_weight, rows) for rows in rows_of_view],
        candidates.n_threads,
    )


def pool(before: HeldOutChoice, now: HeldOutChoice) -> tuple[HeldOutChoice, float]:
    """Pool earlier results, which count half, with the present ones; return their share too."""
    if before.coders != now.coders or before.view_log_loss.shape != now.view_log_loss.shape:
        return now, 1.0
    weight = WEIGHT_OF_EARLIER * before.n_rows
    share = now.n_rows / (now.n_rows + weight)

    def mean(name: str) -> Doubles:
        return (1 - share) * getattr(before, name) + share * getattr(now, name)

    def log_mean(name: str) -> Doubles:
        logs = (1 - share) * np.log(getattr(before, name)) + share * np.log(getattr(now, name))
        return np.exp(logs)

    losses, sharpness = mean("log_loss"), log_mean("every_sharpness")
    best = int(np.argmin(losses))
    pooled = replace(
        now,
        accuracy=mean("accuracy"),
        log_loss=losses,
        best=best,
        sharpness=float(sharpness[best]),
        n_rows=round(now.n_rows + weight),
        every_sharpness=sharpness,
        view_log_loss=mean("view_log_loss"),
        view_sharpness=log_mean("view_sharpness"),
    )
    return pooled, share


def coders_of_views(held_out: HeldOutChoice, shared: bool) -> tuple[NDArray[np.int64], Doubles]:
    """Choose each view's coder, and the inverse temperature of a member's scores alone.

    Both follow the rows of the view's own members if there are many, and those of all members if
    there are few.
    """
    losses, n_views = held_out.view_log_loss, len(held_out.view_log_loss)
    n_rows = held_out.n_rows / n_views
    share = n_rows / (n_rows + POOLED_ROWS)
    index = (share * losses + (1 - share) * losses.mean(axis=0)).argmin(axis=1)
    if shared:
        index = np.full(n_views, held_out.best)
    logs = share * np.log(held_out.view_sharpness)
    logs = logs + (1 - share) * np.log(held_out.every_sharpness)
    return index, np.exp(logs[np.arange(n_views), index])


class Group(NamedTuple):
    """Rows that the same members left out, with their calibrated scores."""

    members: NDArray[np.int64]
    scores: Scores  # (n_members, n_rows, n_classes)
    class_of_row: Classes
    sample_weight: Weights = None

    def total(self, weights: Doubles) -> Scores:
        """Weighted mean of the members' scores (n_rows, n_classes)."""
        return np.tensordot(weights[self.members], self.scores, 1) / len(self.members)

    def smoothed_labels(self, smoothing: float) -> Scores:
        """Labels (n_rows, n_classes), of which a share is spread evenly over all classes."""
        n_rows, n_classes = self.scores.shape[1:]
        labels = np.full((n_rows, n_classes), smoothing / n_classes)
        labels[np.arange(n_rows), self.class_of_row] += 1 - smoothing
        return labels

    def only(self, rows: NDArray[np.bool_]) -> Group:
        """Return the group with some of its rows."""
        weight = some_weights(self.sample_weight, rows)
        return Group(self.members, self.scores[:, rows], self.class_of_row[rows], weight)


def group_by_rows(
    members: Sequence[LeftOut],
    scores: Sequence[Scores],
    class_of_row: Classes,
    sample_weight: Weights = None,
) -> list[Group]:
    """Group members by the rows that they left out."""
    found: dict[bytes, list[int]] = {}
    for number, member in enumerate(members):
        found.setdefault(member.rows.tobytes(), []).append(number)

    def group(own: list[int]) -> Group:
        rows, together = members[own[0]].rows, np.stack([scores[j] for j in own])
        return Group(np.array(own), together, class_of_row[rows], some_weights(sample_weight, rows))

    return [group(own) for own in found.values()]


def fit_weights(
    groups: Sequence[Group],
    view_of_member: NDArray[np.int64],
    usual: Doubles | None = None,
    start: Doubles | None = None,
) -> Doubles:
    """Weights of the members, none negative, with the least penalised log-loss.

    Members of one view have the same weight. The weights of the views are pulled towards a multiple
    of ``usual`` (n_views,), by default towards equal weights. A weighted sum of log-probabilities
    of softmaxes is the softmax of a weighted sum of scores, so the ensemble stays linear in the
    codes. ``start`` (n_members,) is a guess, such as the weights for similar rows.
    """
    n_rows = sum(total_weight(len(g.class_of_row), g.sample_weight) for g in groups)
    labels = [group.smoothed_labels(1.0 / (n_rows + 1.0)) for group in groups]
    equal = np.ones(int(view_of_member.max()) + 1)
    usual = equal if usual is None or not usual.any() else usual
    guess = usual if start is None else start[np.unique(view_of_member, return_index=True)[1]]

    def loss(weights: Doubles) -> tuple[float, Doubles]:
        off = weights - (weights @ usual) / (usual @ usual) * usual
        value, slope = WEIGHT_PENALTY * float(off @ off), 2 * WEIGHT_PENALTY * off
        of_member = weights[view_of_member]
        for group, target in zip(groups, labels, strict=True):
            logs = log_probabilities(group.total(of_member))
            loss_of_row, gap = -target * logs, np.exp(logs) - target
            if group.sample_weight is not None:
                loss_of_row, gap = (
                    group.sample_weight[:, np.newaxis] * a for a in (loss_of_row, gap)
                )
            value += float(loss_of_row.sum())
            own = (gap * group.scores).sum(axis=(1, 2)) / len(group.members)
            np.add.at(slope, view_of_member[group.members], own)
        return value, slope

    limits = [(0.0, None)] * len(equal)
    found: Doubles = minimize(loss, guess, jac=True, bounds=limits, method="L-BFGS-B").x
    return (found if found.sum() > 0 else equal)[view_of_member]


def weighted_by_others(
    groups: Sequence[Group],
    view_of_member: NDArray[np.int64],
    usual: Doubles | None,
    weights: Doubles,
) -> Scores:
    """Weighted scores of the rows of all groups, each by weights that it has not chosen.

    Scores by ``weights``, which all rows have chosen, would look too good: with few rows and many
    views, the accuracy would be up to two points too high. The scores are calibrated already: the
    sharpness of each view is still that of all rows.
    """
    scores = [group.total(weights) for group in groups]
    for here in dealt(groups) if view_of_member.any() else []:  # one view has nothing to choose
        others = [group.only(~own) for group, own in zip(groups, here, strict=True)]
        found = fit_weights(others, view_of_member, usual, weights)
        for group, own, total in zip(groups, here, scores, strict=True):
            total[own] = group.only(own).total(found)
    return np.concatenate(scores)


def dealt(groups: Sequence[Group]) -> list[list[NDArray[np.bool_]]]:
    """Deal the rows of all groups to parts; return which rows of each group are in each part.

    Rows are dealt class by class. Classes are in the order of their first rows, so that their names
    do not matter.
    """
    class_of_row = np.concatenate([group.class_of_row for group in groups])
    _, first, index = np.unique(class_of_row, return_index=True, return_inverse=True)
    part_of_row = np.empty(len(index), dtype=np.int64)
    part_of_row[np.argsort(first[index], kind="stable")] = np.arange(len(index)) % N_PARTS
    ends = np.cumsum([len(group.class_of_row) for group in groups])
    part_of = np.split(part_of_row, ends[:-1])
    return [[own == part for own in part_of] for part in range(min(N_PARTS, len(index)))]


class EnsembleResults(NamedTuple):
    """Results on rows left out, each scored by the members that left it out."""

    sharpness: float  # of scores that are not bent, by weights that the same rows have chosen
    link: Link
    figures: Figures
    n_rows: int


def ensemble_results(
    groups: Sequence[Group], weights: Doubles, scores: Scores, bend: float | None = None
) -> EnsembleResults:
    """Fit the link of weighted scores, and return the accuracy and log-loss with it.

    ``scores`` (n_rows, n_classes) are those of `weighted_by_others`. The bend is chosen if it is
    not given. The sharpness that fits these scores is a little low, since fewer rows have chosen
    their weights. That of scores by ``weights`` is a little high, since the same rows have chosen
    them. The link has the geometric mean of the two.
    """
    own_scores = np.concatenate([group.total(weights) for group in groups])
    classes = np.concatenate([group.class_of_row for group in groups])
    weight = join_weights([group.sample_weight for group in groups])
    if bend is None:
        link = choose_link(scores, classes, weight)
    else:
        link = Link.fit(scores, classes, bend, weight)
    sharpness = own_sharpness = fit_sharpness(own_scores, classes, weight)
    if link.bend:
        own_sharpness = fit_sharpness(bent(own_scores, link.bend), classes, weight)
    between = float(np.sqrt(link.sharpness * own_sharpness))
    loss = log_loss(bent(scores, link.bend), classes, between, weight)
    link = Link(link.bend, between, loss)
    means = by_class(classes, scores.argmax(axis=1), weight)
    figures = Figures(accuracy_of(scores, classes, weight), loss, **means)
    return EnsembleResults(sharpness, link, figures, len(classes))


def growth(
    results: EnsembleResults,
    weights: Doubles,
    groups: Sequence[Group],
    n_members: int,
) -> float:
    """Sharpness of all members relative to that of the few that have not seen a row.

    The mean of more members has less noise. The inverse sharpness of m members is taken to be
    a + b / m, and that of a single member, whose scores are calibrated, is 1.
    """
    n_few = float(np.mean([len(group.members) for group in groups]))
    if n_few <= 1:
        return 1.0
    gain = max(results.sharpness * float(weights.mean()), 1.0)
    noise = min((1 - 1 / gain) / (1 - 1 / n_few), 1.0)
    grown = (1 - noise + noise / n_few) / (1 - noise + noise / n_members)
    return min(grown, MOST_GROWTH)
