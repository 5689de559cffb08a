"""The members of an ensemble after a batch: their chains, label atoms, coders and weights.

`dbdl.learn.online` continues the chains. Classes are numbered in the order of their first
appearance here, and `in_order` arranges them for users.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dbdl.backends.base import Backend, Data, sum_of_squares
from dbdl.backends.crew import Crew
from dbdl.coding import Coder, PreparedAtoms
from dbdl.draws import PLACES_OF_A_DRAW
from dbdl.learn.basis import settings_in
from dbdl.learn.chain import LearnedChain, learn_chain
from dbdl.learn.choice import (
    Candidates,
    Choice,
    LeftOut,
    choose,
    choose_by_scores,
    keep_choice,
    left_out_by,
    publish_members,
)
from dbdl.learn.held_out import Fold
from dbdl.learn.journal import Journal
from dbdl.learn.members import LearnedMember, Member, publish_atoms, score_rows
from dbdl.learn.online import (
    OnlineChain,
    OnlineState,
    continue_chain,
    forget,
    label_sums,
    remember,
)
from dbdl.learn.problem import MOST_LEFT_OUT, LabelSettings, Problem, Share
from dbdl.model.ridge import scaled_ridge
from dbdl.model.state import Doubles, Floats
from dbdl.model.statistics import SUM_ROWS, AtomSums, Weights, some_weights
from dbdl.views import Fitted, LabelledRows

#: Fewest new rows on which a coder is chosen again.
LEAST_SCORED = 20


@dataclass(frozen=True)
class Batch:
    """Rows of a batch, as they are.

    Attributes
    ----------
    data : Data
        On the host; classes are in the order of their first appearance.
    has_new_classes : bool
        Whether some classes appear for the first time.
    """

    data: Data
    has_new_classes: bool = False

    @property
    def rows(self) -> LabelledRows:
        """The rows with their classes and weights."""
        X, class_of_row, weight = self.data.X, self.data.class_of_row, self.data.sample_weight
        return LabelledRows(X, class_of_row, self.data.n_classes, sample_weight=weight)

    def through(self, rows: NDArray[np.int64], view: Fitted, backend: Backend) -> Data:
        """Return some of the rows as a view shows them."""
        X, class_of_row = backend.see_new(view, self.data.X[rows]), self.data.class_of_row[rows]
        weight = some_weights(self.data.sample_weight, rows)
        return replace(
            self.data,
            X=X,
            class_of_row=class_of_row,
            n_rows=np.bincount(class_of_row, weight, self.data.n_classes),
            square=sum_of_squares(X, SUM_ROWS),
            sample_weight=weight,
        )


class Published(NamedTuple):
    """A fitted classifier before a batch."""

    members: Sequence[Member]
    classes: NDArray[Any]  # sorted
    choice: Choice


@dataclass(frozen=True)
class BatchMember(LearnedMember):
    """A member after a batch, with its memory, and the sums of labels for each coder."""

    memory: OnlineChain  # without sums of labels
    label_sums: Sequence[AtomSums | None]

    def memory_for(self, coder: int) -> OnlineChain:
        """Return the memory with the sums of labels of a coder, by its number."""
        return replace(self.memory, label_sums=self.label_sums[coder])


def begin(seed: int) -> OnlineState:
    """State before the first batch."""
    return OnlineState(seed, np.empty(0), np.empty(0, dtype=np.int64), 0, 0, [])


def take_batch(
    state: OnlineState, X: Floats, y: NDArray, sample_weight: Weights = None
) -> tuple[OnlineState, Batch]:
    """Give indices to the rows and classes of a batch, and count them in the state."""
    present, first, class_of_row = np.unique(y, return_index=True, return_inverse=True)
    new = ~np.isin(present, state.labels)
    labels = np.concatenate([state.labels, present[new]]) if len(state.labels) else present
    class_index = {label: c for c, label in enumerate(labels.tolist())}
    class_of_row = np.array([class_index[label] for label in present.tolist()])[class_of_row]
    if state.chains:
        X = X.astype(state.chains[0].dictionary.atoms.dtype, copy=False)
    data = Data(
        X=np.ascontiguousarray(X),
        class_of_row=np.ascontiguousarray(class_of_row, dtype=np.int64),
        n_rows=np.bincount(class_of_row, sample_weight, len(labels)),
        first_row=np.concatenate([state.first_row, state.n_numbers + first[new]]),
        square=np.nan,  # depends on the view
        offset=state.n_numbers,
        sample_weight=sample_weight,
    )
    last = state.n_numbers + len(X)
    state = replace(
        state,
        labels=labels,
        first_row=data.first_row,
        n_rows=state.n_rows + len(X),
        n_numbers=-(-last // PLACES_OF_A_DRAW) * PLACES_OF_A_DRAW,
    )
    return state, Batch(data, bool(new.any()))


def learn_batch(
    state: OnlineState,
    batch: Batch,
    problem: Problem,
    coders: Sequence[Coder],
    forgetting: float,
    crew: Crew,
    journal: Journal,
) -> list[BatchMember]:
    """Learn a batch in every chain; members have classes in the order of first appearance.

    If the batch has new classes, each member leaves out some of its rows, and scores them with
    every coder.
    """

    def learn(share: Share, backend: Backend) -> BatchMember:
        known = state.chains[share.number] if state.chains else None
        return learn_batch_in_chain(
            share, known, batch, problem, coders, forgetting, backend, journal
        )

    return crew.here().map(learn, shares_of_batch(problem, state, batch))


def shares_of_batch(problem: Problem, state: OnlineState, batch: Batch) -> list[Share]:
    """List the shares of the members; they leave out rows of a batch with new classes only."""
    shares = problem.shares()
    if leaves_out_rows(state, batch):
        return shares
    everything = Fold.of_all(batch.data.n_samples)
    return [replace(share, fold=everything) for share in shares]


def leaves_out_rows(state: OnlineState, batch: Batch) -> bool:
    """Whether members leave out rows: of the first batch, and of later ones with new classes."""
    enough = not state.chains or batch.data.n_samples >= LEAST_SCORED
    return enough and batch.has_new_classes


def learn_batch_in_chain(
    share: Share,
    known: OnlineChain | None,
    batch: Batch,
    problem: Problem,
    coders: Sequence[Coder],
    forgetting: float,
    backend: Backend,
    journal: Journal,
) -> BatchMember:
    """Learn a batch and its labels in one chain, the first by `dbdl.learn.chain.learn_chain`."""
    settings, key = problem.settings, problem.key(share.number)
    own, rows = journal.chain(share.number, problem), share.fold.learn
    if known is None:
        first = problem.rows_of(rows)._replace(n_threads=backend.n_threads)
        view = backend.fit_view(share.view, first)
        data = batch.through(rows, view, backend)
        settings = settings_in(view, settings, first)
        learned = learn_chain(
            key, data.X, data.class_of_row, settings, backend, own, data.sample_weight
        )
    else:
        view, settings = known.view, replace(settings, initial_atoms=None)
        data = batch.through(rows, view, backend)
        known = forget(known, forgetting, settings.prior_of_atoms(data.n_features))
        learned = continue_chain(key, known, data, settings, backend, own)
    sums, label_atoms = label_batch(learned, known, problem.labels, coders, backend)
    dictionary, used = learned.dictionary, learned.dictionary.is_used
    atoms = publish_atoms(learned, dictionary, label_atoms[0])
    label_atoms = [one[used] for one in label_atoms]
    scores = []
    if len(share.fold.held_out):
        left_out = batch.data.X[share.fold.held_out]
        scores = score_rows(left_out, view, atoms.prepared, coders, label_atoms, backend)
    memory = remember(learned, known, view, settings, backend)
    return BatchMember(share, atoms, view, label_atoms, scores, memory, sums)


def label_batch(
    learned: LearnedChain,
    known: OnlineChain | None,
    labels: LabelSettings,
    coders: Sequence[Coder],
    backend: Backend,
) -> tuple[Sequence[AtomSums | None], list[Doubles]]:
    """Sums of codes and labels over all rows seen, and label atoms, for every coder."""
    dictionary, n_coders = learned.dictionary, len(coders)
    if labels.kind == "none":
        return [None] * n_coders, [np.empty((len(dictionary.atoms), 0))] * n_coders
    if labels.kind == "recoded":
        recoded = [label_sums(learned, known, coder, backend) for coder in coders]
        scale = np.ones(len(dictionary.scale))
        return recoded, [scaled_ridge(sums, scale, labels.penalty) for sums in recoded]
    sums = label_sums(learned, known, None, backend)
    label_atoms = scaled_ridge(sums, dictionary.scale, labels.penalty)
    return [sums] * n_coders, [label_atoms] * n_coders


def finish_batch(
    state: OnlineState, members: Sequence[BatchMember], candidates: Candidates, choice: Choice
) -> tuple[OnlineState, list[Member]]:
    """Return the memory after a batch, and the published members."""
    places = [list(candidates.coders).index(coder) for coder in choice.coders]
    chains = [member.memory_for(k) for member, k in zip(members, places, strict=True)]
    return replace(state, chains=chains), publish_members(members, candidates, choice)


def in_order(members: Sequence[Member], state: OnlineState, classes: NDArray[Any]) -> list[Member]:
    """Arrange the classes of members in the order of ``classes``.

    Classes without rows so far have the prior mean as selection probability, and no label atoms.
    """
    place, priors = np.searchsorted(classes, state.labels), state.chains[0].priors
    prior_mean = priors.beta_a / (priors.beta_a + priors.beta_b)

    def arranged(member: Member) -> Member:
        probability = np.full((len(classes), len(member.atoms)), prior_mean)
        probability[place] = member.selection_probability
        label_atoms = np.zeros((len(member.atoms), len(classes)))
        label_atoms[:, place] = member.label_atoms
        return replace(member, selection_probability=probability, label_atoms=label_atoms)

    return [arranged(member) for member in members]


# ------------------------------------------------------------------------- choice of the coder


def choose_for_batch(
    published: Published | None,
    state: OnlineState,
    batch: Batch,
    members: Sequence[BatchMember],
    candidates: Candidates,
    crew: Crew,
) -> Choice:
    """Choose coders, weights and the temperature for a batch.

    The first batch (``published`` is None) is treated like a fit. Later ones are scored by the
    published members, which have not seen them, or, if they have new classes, by the members that
    left out some of their rows. With too few rows, the earlier choice stays.
    """
    data = batch.data
    if published is None:
        return choose(members, data.class_of_row, candidates, data.sample_weight)
    if data.n_samples < LEAST_SCORED or not candidates.is_open:
        return keep_choice(published.choice, candidates)
    if leaves_out_rows(state, batch):
        left_out = left_out_by(members)
        if not all(len(member.rows) for member in left_out):
            return keep_choice(published.choice, candidates)
        return choose_by_scores(
            left_out, data.class_of_row, candidates, published.choice, data.sample_weight
        )
    n_scored = min(data.n_samples, MOST_LEFT_OUT)
    rows = np.linspace(0, data.n_samples - 1, n_scored).astype(np.int64)
    place = np.searchsorted(published.classes, state.labels)
    scored = _scores_of_new_rows(published.members, data.X[rows], candidates.coders, crew)
    left_out = [
        LeftOut(np.arange(n_scored), scores, member.share.view_number)
        for scores, member in zip(scored, members, strict=True)
    ]
    classes, weight = place[data.class_of_row[rows]], some_weights(data.sample_weight, rows)
    return choose_by_scores(left_out, classes, candidates, published.choice, weight)


def _scores_of_new_rows(
    members: Sequence[Member], X: Floats, coders: Sequence[Coder], crew: Crew
) -> list[list[Doubles]]:
    """Scores (n_samples, n_classes) of rows by each member and coder."""

    def score(member: Member, backend: Backend) -> list[Doubles]:
        # Not `member.prepared`: an interrupted batch must not even change the model's caches.
        atoms = PreparedAtoms(member.atoms, member.code_prior)
        label_atoms = [member.label_atoms] * len(coders)
        return score_rows(X, member.view, atoms, coders, label_atoms, backend)

    return crew.here().map(score, members)
