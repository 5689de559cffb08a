"""Members of an ensemble: chains with label atoms, as they are published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from dbdl.backends import Backend
from dbdl.backends.crew import Crew
from dbdl.coding import CodePrior, Coder, PreparedAtoms, encode_each
from dbdl.draws import Key
from dbdl.learn.chain import LearnedChain, learn_chain
from dbdl.learn.checkpoints import Choice
from dbdl.learn.journal import Journal
from dbdl.learn.labels import append_labels, gibbs_label_atoms, ridge_label_atoms, split_labels
from dbdl.learn.problem import Problem
from dbdl.model.record import Record
from dbdl.model.state import Floats
from dbdl.model.trust import Atoms, Count, reals
from dbdl.sampler.posterior import Dictionary
from dbdl.sampler.run import SILENT, ChainJournal, Trace


@dataclass(frozen=True)
class Member(Record):
    """One chain of an ensemble, as published.

    Attributes
    ----------
    atoms : ndarray of shape (n_atoms, n_features)
    selection_probability : ndarray of shape (n_classes, n_atoms)
    label_atoms : ndarray of shape (n_atoms, n_classes), or (n_atoms, 0) without labels
    trace : Trace
    n_initial_atoms : int
        Number of atoms drawn at the start, including copies.
    code_prior : CodePrior
        Prior of the code of a new row.
    """

    atoms: Atoms
    selection_probability: Annotated[NDArray[np.float64], reals("n_classes", "n_atoms", least=0)]
    label_atoms: Annotated[NDArray[np.float64], reals("n_atoms", "n_labels")]
    trace: Trace
    n_initial_atoms: Count
    code_prior: CodePrior

    @cached_property
    def prepared(self) -> PreparedAtoms:
        """The atoms with their Gram matrices, computed once for all queries."""
        return PreparedAtoms(self.atoms, self.code_prior)

    def encode(self, X: Floats, coder: Coder, backend: Backend) -> csr_matrix:
        """Codes of rows (n_samples, n_atoms)."""
        return coder.encode(X, self.prepared, backend)


def score_rows(
    X: Floats, members: Sequence[Member], coders: Sequence[Coder], backend: Backend
) -> list[NDArray[np.float64]]:
    """Scores (n_samples, n_classes) of rows by each coder, averaged over members."""
    scores = [np.zeros((len(X), members[0].label_atoms.shape[1])) for _ in coders]
    for member in members:
        # Not `member.prepared`: an interrupted batch must not even change the model's caches.
        atoms = PreparedAtoms(member.atoms, member.code_prior)
        codes = encode_each(X, atoms, coders, backend)
        for total, part in zip(scores, codes, strict=True):
            total += part @ member.label_atoms / len(members)
    return scores


def learn_members(problem: Problem, choice: Choice, crew: Crew, journal: Journal) -> list[Member]:
    """Learn the chains, which differ by their seeds, in parallel; some may be resumed."""
    problem = problem.with_label_weight(choice.label_weight)
    work = partial(learn_member, problem, choice.coder, journal)
    return crew.map(work, range(problem.n_chains))


def learn_member(
    problem: Problem, coder: Coder, journal: Journal, number: int, backend: Backend
) -> Member:
    """Learn one chain and its label atoms, unless the journal already has them."""
    own = journal.chain(number)
    if own.member is not None:
        return own.member
    learned = learn_with_labels(problem.key(number), problem, backend, own)
    member = publish_member(learned.chain, learned.dictionary, learned.label_atoms([coder])[0])
    own.finish(learned.chain.chain, backend, member)
    return member


def publish_member(
    learned: LearnedChain, dictionary: Dictionary, label_atoms: NDArray[np.float64]
) -> Member:
    """Publish a chain without its zero atoms, which code nothing.

    These are atoms that no row used at the end, kept because a chain needs at least two.
    """
    some = dictionary.atoms.any(axis=1)
    prior = code_prior(learned, dictionary)
    return Member(
        dictionary.atoms[some],
        dictionary.selection_probability[:, some],
        label_atoms[some],
        learned.chain.trace,
        learned.n_initial_atoms,
        replace(prior, probability=prior.probability[some], precision=prior.precision[some]),
    )


def code_prior(learned: LearnedChain, dictionary: Dictionary) -> CodePrior:
    """The model's distribution of codes over the published atoms, averaged over classes.

    Classes are weighted by their frequency. A coefficient of a published atom is a strength times
    the norm that the atom had.
    """
    now, n_rows = learned.chain.state.parameters, learned.data.n_rows
    share = n_rows / n_rows.sum()
    scale = np.maximum(dictionary.scale, np.finfo(np.float32).tiny)
    return CodePrior(
        share @ dictionary.selection_probability,
        share @ now.strength_precision / scale**2,
        float(share @ now.noise_precision),
    )


def prepare(learned: LearnedChain, dictionary: Dictionary) -> PreparedAtoms:
    """Prepare the atoms of a chain for coding."""
    return PreparedAtoms(dictionary.atoms, code_prior(learned, dictionary))


@dataclass(frozen=True)
class LabelledChain:
    """A chain with everything needed to compute its label atoms for any coder."""

    key: Key
    problem: Problem
    chain: LearnedChain
    dictionary: Dictionary  # over the features alone
    joint_label_atoms: NDArray[np.float64] | None
    backend: Backend

    @cached_property
    def prepared(self) -> PreparedAtoms:
        """The atoms with their Gram matrices."""
        return prepare(self.chain, self.dictionary)

    def label_atoms(self, coders: Sequence[Coder]) -> list[NDArray[np.float64]]:
        """Label atoms for each coder; they depend on it only if rows are recoded."""
        labels = self.problem.labels
        if labels.kind == "recoded":
            return self._recoded(coders)
        if labels.kind == "none":
            found = np.empty((len(self.dictionary.atoms), 0))
        elif labels.kind == "joint":
            assert self.joint_label_atoms is not None
            found = self.joint_label_atoms
        elif labels.kind == "gibbs":
            settings = self.problem.settings
            found = gibbs_label_atoms(self.key, self.chain, settings, labels.penalty, self.backend)
        else:
            codes = self.chain.chain.state.codes
            found = self.backend.ridge_labels(
                self.chain.data, codes, self.dictionary.scale, labels.penalty
            )
        return [found] * len(coders)

    def _recoded(self, coders: Sequence[Coder]) -> list[NDArray[np.float64]]:
        problem = self.problem
        return [
            ridge_label_atoms(
                codes, problem.class_of_row, problem.n_classes, problem.labels.penalty, self.backend
            )
            for codes in encode_each(np.asarray(problem.X), self.prepared, coders, self.backend)
        ]


def learn_with_labels(
    key: Key, problem: Problem, backend: Backend, journal: ChainJournal = SILENT
) -> LabelledChain:
    """Learn one chain; for joint labels, from rows with the labels appended."""
    X: Any = problem.X
    settings, labels = problem.settings, problem.labels
    if labels.kind != "joint":
        chain = learn_chain(key, X, problem.class_of_row, settings, backend, journal)
        return LabelledChain(key, problem, chain, chain.dictionary, None, backend)
    n_features = X.shape[1]
    rows = append_labels(np.asarray(X), problem.class_of_row, problem.n_classes, labels.weight)
    if settings.atom_precision is None:
        settings = replace(settings, atom_precision=float(n_features))
    chain = learn_chain(key, rows, problem.class_of_row, settings, backend, journal)
    dictionary, label_atoms = split_labels(chain.dictionary, n_features, labels.weight)
    return LabelledChain(key, problem, chain, dictionary, label_atoms, backend)
