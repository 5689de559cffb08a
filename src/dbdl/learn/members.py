"""Members of an ensemble: chains with their views and label atoms, as they are published."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Annotated, Any

import numpy as np
from scipy.sparse import csr_matrix

from dbdl.backends import Backend
from dbdl.backends.crew import Crew
from dbdl.coding import CodePrior, Coder, PreparedAtoms, encode_each
from dbdl.coding.evidence import log_evidence
from dbdl.draws import Key
from dbdl.learn.basis import Basis, SmoothBasis, basis_of, settings_in, with_label_columns
from dbdl.learn.chain import LearnedChain, learn_chain
from dbdl.learn.held_out import Scores
from dbdl.learn.journal import Journal
from dbdl.learn.labels import append_labels, gibbs_label_atoms, ridge_label_atoms, split_labels
from dbdl.learn.problem import Problem, Share
from dbdl.missing.filler import fit_filler
from dbdl.missing.gaps import Complete
from dbdl.model.record import Record
from dbdl.model.state import Doubles, Floats
from dbdl.model.trust import Atoms, Count, Number, reals
from dbdl.sampler.kept_draws import KeptDraws
from dbdl.sampler.posterior import Dictionary
from dbdl.sampler.run import ChainJournal, Trace
from dbdl.views import Fitted, FittedView, LabelledRows, Shared

#: Least constant coordinate of an atom that stands for a row, as a fraction of the median.
LEAST_SHARE = 0.1


@dataclass(frozen=True)
class LabelledAtoms(Record):
    """The atoms of one chain, in the space of its view, and its label atoms.

    Attributes
    ----------
    atoms : ndarray of shape (n_atoms, n_features)
        Atoms of unit norm; the view may have appended a constant coordinate.
    selection_probability : ndarray of shape (n_classes, n_atoms)
    label_atoms : ndarray of shape (n_atoms, n_classes), or (n_atoms, 0) without labels
    trace : Trace
    n_initial_atoms : int
        Number of atoms drawn at the start, including copies.
    code_prior : CodePrior
        Prior of the code of a new row.
    draws : KeptDraws or None
        Thinned draws of the second half of the chain, if requested.
    """

    atoms: Atoms
    selection_probability: Annotated[Doubles, reals("n_classes", "n_atoms", least=0)]
    label_atoms: Annotated[Doubles, reals("n_atoms", "n_labels")]
    trace: Trace
    n_initial_atoms: Count
    code_prior: CodePrior
    draws: KeptDraws | None = field(default=None, kw_only=True)

    @cached_property
    def prepared(self) -> PreparedAtoms:
        """The atoms with their Gram matrices, computed once for all queries."""
        return PreparedAtoms(self.atoms, self.code_prior)


@dataclass(frozen=True)
class Member(LabelledAtoms):
    """One chain of an ensemble, as published.

    Attributes
    ----------
    view : FittedView, FittedKernelView or FittedOwnView
        The map of rows that the chain saw.
    coder : Coder
        The coder of new rows.
    weight : float
        Share of the member's scores in those of the ensemble; the shares add up to 1.
    """

    view: Fitted
    coder: Coder
    weight: Annotated[float, Number(least=0, most=1)]

    def faults(self) -> Iterator[str]:
        """Report atoms that are not in the space of the view."""
        yield from faults_of_view(self.view, self.atoms)

    def drawn(self, number: int) -> Member:
        """Return the member with one of the kept draws of its atoms in place of their mean."""
        assert self.draws is not None and self.draws.atoms is not None
        tiny = np.finfo(np.float32).tiny
        atoms = self.draws.atoms[number] / np.maximum(self.draws.scale, tiny)[:, np.newaxis]
        norm = np.maximum(np.linalg.norm(atoms, axis=1), tiny)
        atoms = (atoms / norm[:, np.newaxis]).astype(self.atoms.dtype)
        # a coefficient over an atom of unit norm is ``norm`` times that over the drawn atom
        prior = replace(self.code_prior, precision=self.code_prior.precision / norm**2)
        label_atoms = self.label_atoms / norm[:, np.newaxis]
        return replace(self, atoms=atoms, label_atoms=label_atoms, code_prior=prior)

    def encode(self, X: Floats, backend: Backend) -> csr_matrix:
        """Codes (n_samples, n_atoms) of rows as they are."""
        return self.coder.encode(backend.see_new(self.view, X), self.prepared, backend)

    def log_evidence(self, X: Floats, backend: Backend, *, unit: bool) -> Doubles:
        """Log density (n_samples,) of rows as they are; see `dbdl.coding.evidence`."""
        rows, n_threads = backend.see_new(self.view, X), backend.n_threads
        codes = self.coder.encode(rows, self.prepared, backend)
        return log_evidence(
            rows, codes, self.prepared, self.selection_probability, unit=unit, n_threads=n_threads
        )

    @cached_property
    def restored_atoms(self) -> Floats:
        """The atoms (n_atoms, n_features_in) in the space of the rows."""
        return self.view.restore_atoms(self.atoms)


def filler_of_atoms(members: Sequence[Member]) -> Callable[[Floats], Floats]:
    """Return a map that fills gaps by the Gaussians of atoms, which stand for the training rows.

    An atom belongs to the class that uses it most. Only atoms of linear views that know the size of
    a row are taken. If there are none, rows are filled in proportion to their size.
    """
    linear = [m for m in members if isinstance(m.view, FittedView)]
    sized = [m for m in linear if m.view.knows_size]  # type: ignore[union-attr]
    rows, classes = [], []
    for m in sized or linear or members:
        # an atom with little of the constant coordinate is not like a row
        share = m.atoms[:, -1] if sized else np.ones(len(m.atoms))
        some = share > LEAST_SHARE * np.median(share)
        some |= not some.any()
        rows.append(m.view.restore(m.atoms[some]))
        classes.append(m.selection_probability[:, some].argmax(axis=0))
    n_classes = len(members[0].selection_probability)
    filler = fit_filler(LabelledRows(np.concatenate(rows), np.concatenate(classes), n_classes))
    return filler.fill if sized else filler.fill_any_size


def faults_of_view(view: Fitted, atoms: Floats) -> Iterator[str]:
    """Report atoms that are not in the space of a view."""
    if view.n_features != atoms.shape[1]:
        yield f"atoms have {atoms.shape[1]} features, but the view gives {view.n_features}"


@dataclass(frozen=True)
class LearnedMember:
    """A member before its coder and weight are chosen, with its scores of the rows left out."""

    share: Share
    atoms: LabelledAtoms
    view: Fitted
    label_atoms: list[Doubles]  # for each coder
    scores: list[Scores]  # (n_left_out, n_classes) for each coder


def learn_members(
    problem: Problem,
    shares: Sequence[Share],
    coders: Sequence[Coder],
    crew: Crew,
    journal: Journal,
) -> list[LearnedMember]:
    """Learn the members of some shares in parallel; some may be resumed.

    Each sees the rows through its view and leaves out some of them, which it scores with every
    coder. Members of one fold learn their views from the same rows.
    """
    shared = {share.fold.name: Shared() for share in shares}
    return crew.map(partial(learn_member, problem, coders, journal, shared), shares)


def learn_member(
    problem: Problem,
    coders: Sequence[Coder],
    journal: Journal,
    shared: Mapping[bytes, Shared],
    share: Share,
    backend: Backend,
) -> LearnedMember:
    """Learn one chain and its label atoms, unless the journal already has them."""
    work = MemberWork.of(problem, coders, share, backend, shared.get(share.fold.name))
    [number] = problem.numbers_of([share])
    own = journal.chain(number, work.own_problem)
    own.member_of = lambda learned: work.score(work.label(learned))
    atoms = own.member
    if atoms is None:
        learned = learn_with_labels(work.key, work.own_problem, backend, own)
        atoms = work.label(learned)
        own.finish(learned.chain, backend, atoms)
    return work.score(atoms)


@dataclass(frozen=True)
class MemberWork:
    """The work of one member: before its chain its rows are mapped, and after it they are scored.

    Attributes
    ----------
    problem, own_problem : Problem
        The problem of the ensemble, and that of the chain, whose rows are in its basis.
    coders : sequence of Coder
    share : Share
    backend : Backend
    rows : LabelledRows
        Rows to learn from as they are, without gaps.
    gaps : Complete
        Fills gaps of other rows.
    view : FittedView, FittedKernelView or FittedOwnView
    basis : Basis
        The view, turned if atoms are smooth.
    """

    problem: Problem
    own_problem: Problem
    coders: Sequence[Coder]
    share: Share
    backend: Backend
    rows: LabelledRows
    gaps: Complete
    view: Fitted
    basis: Basis

    @classmethod
    def of(
        cls,
        problem: Problem,
        coders: Sequence[Coder],
        share: Share,
        backend: Backend,
        shared: Shared | None = None,
    ) -> MemberWork:
        """Fill the rows of a share, fit its view, and map the rows."""
        rows = problem.rows_of(share.fold.learn)
        rows = rows._replace(n_threads=backend.n_threads, shared=shared)
        gaps = problem.gaps_of(rows)
        rows = gaps.filled(rows)
        view = backend.fit_view(share.view, rows)
        settings = problem.settings_of(share)
        basis = basis_of(view, settings, share.length_scale)
        X = backend.see(basis, rows)
        turn = basis.turn if isinstance(basis, SmoothBasis) else None
        own_problem = problem.of_member(
            rows._replace(X=X),
            settings_in(basis, settings, rows),
            share.label_weight,
            gaps.seen_through(view, X, turn),
        )
        return cls(problem, own_problem, coders, share, backend, rows, gaps, view, basis)

    @property
    def key(self) -> Key:
        """Key of the draws of the chain."""
        return self.problem.key(self.share.number)

    def label(self, learned: LearnedChain) -> LabelledAtoms:
        """Publish the atoms of the chain in the space of its view, with label atoms."""
        labelled = label_chain(self.key, self.own_problem, learned, self.backend)
        return in_view(self.basis, publish_atoms(learned, *labelled))

    def score(self, atoms: LabelledAtoms) -> LearnedMember:
        """Return the member with its label atoms and its scores of the rows left out."""
        label_atoms, fold = self._label_atoms(atoms), self.share.fold
        scores: list[Scores] = []
        if len(fold.held_out):
            left_out = self.gaps.fill(self.problem.X[fold.held_out])
            scores = score_rows(
                left_out, self.view, atoms.prepared, self.coders, label_atoms, self.backend
            )
        return LearnedMember(self.share, atoms, self.view, label_atoms, scores)

    def _label_atoms(self, atoms: LabelledAtoms) -> list[Doubles]:
        """Label atoms for each coder."""
        if self.problem.labels.kind != "recoded":
            return [atoms.label_atoms] * len(self.coders)
        problem = self.own_problem
        if self.basis is not self.view:
            problem = replace(problem, X=self.backend.see(self.view, self.rows))
        return recoded_label_atoms(problem, atoms.prepared, self.coders, self.backend)


def in_view(basis: Basis, atoms: LabelledAtoms) -> LabelledAtoms:
    """Return the atoms of a chain, and their draws, in the space of its view."""
    if not isinstance(basis, SmoothBasis):
        return atoms
    draws = atoms.draws
    if draws is not None and draws.atoms is not None:
        draws = replace(draws, atoms=draws.atoms @ basis.turn.astype(np.float32))
    return replace(atoms, atoms=basis.turn_back(atoms.atoms), draws=draws)


def score_rows(
    X: Floats,
    view: Fitted,
    atoms: PreparedAtoms,
    coders: Sequence[Coder],
    label_atoms: Sequence[Doubles],
    backend: Backend,
) -> list[Scores]:
    """Scores (n_samples, n_classes) of rows by each coder, with its label atoms."""
    codes = encode_each(backend.see_new(view, X), atoms, coders, backend)
    return [c @ w for c, w in zip(codes, label_atoms, strict=True)]


def recoded_label_atoms(
    problem: Problem, atoms: PreparedAtoms, coders: Sequence[Coder], backend: Backend
) -> list[Doubles]:
    """Label atoms for each coder, by ridge regression on training rows that it recodes."""
    return [
        ridge_label_atoms(
            codes, problem.class_of_row, problem.n_classes, problem.labels.penalty, backend,
            problem.sample_weight,
        )
        for codes in encode_each(backend.to_host(problem.X), atoms, coders, backend)
    ]  # fmt: skip


def publish_atoms(
    learned: LearnedChain, dictionary: Dictionary, label_atoms: Doubles
) -> LabelledAtoms:
    """Publish a chain without its zero atoms, which code nothing.

    These are atoms that no row used at the end, kept because a chain needs at least two.
    """
    some = dictionary.is_used
    prior, draws = code_prior(learned, dictionary), learned.chain.draws
    if draws is not None:
        draws = draws.published(dictionary.scale, dictionary.atoms.shape[1]).keep(some)
    return LabelledAtoms(
        dictionary.atoms[some],
        dictionary.selection_probability[:, some],
        label_atoms[some],
        learned.chain.trace,
        learned.n_initial_atoms,
        replace(prior, probability=prior.probability[some], precision=prior.precision[some]),
        draws=draws,
    )


def code_prior(learned: LearnedChain, dictionary: Dictionary) -> CodePrior:
    """The model's distribution of codes over the published atoms, averaged over classes.

    Classes are weighted by their frequency, in earlier batches too. A coefficient of a published
    atom is a strength times the norm that the atom had.
    """
    now, n_rows = learned.chain.state.parameters, learned.chain.priors.n_rows(learned.data.n_rows)
    share = n_rows / n_rows.sum()
    scale = np.maximum(dictionary.scale, np.finfo(np.float32).tiny)
    return CodePrior(
        share @ dictionary.selection_probability,
        share @ now.strength_precision / scale**2,
        float(share @ now.noise_precision),
    )


def learn_with_labels(
    key: Key, problem: Problem, backend: Backend, journal: ChainJournal
) -> LearnedChain:
    """Learn one chain; for joint labels, from rows with the labels appended."""
    X: Any = problem.X
    settings, labels = problem.settings, problem.labels
    if labels.kind == "joint":
        if settings.atom_precision is None:
            settings = replace(settings, atom_precision=float(X.shape[1]))
        weight = labels.weights[0]
        X = append_labels(backend.to_host(X), problem.class_of_row, problem.n_classes, weight)
        settings = with_label_columns(settings, problem.n_classes)
    return learn_chain(
        key, X, problem.class_of_row, settings, backend, journal, problem.sample_weight,
        problem.gaps.within(X),
    )  # fmt: skip


def label_chain(
    key: Key, problem: Problem, learned: LearnedChain, backend: Backend
) -> tuple[Dictionary, Doubles]:
    """Return the dictionary over the features alone, and its label atoms.

    Label atoms have no columns without labels, or if they depend on the coder of recoded rows.
    """
    labels, dictionary, X = problem.labels, learned.dictionary, problem.X
    if labels.kind == "joint":
        return split_labels(dictionary, X.shape[1], labels.weights[0])
    if labels.kind == "gibbs":
        settings = problem.settings
        return dictionary, gibbs_label_atoms(key, learned, settings, labels.penalty, backend)
    if labels.kind == "ridge":
        codes = learned.chain.state.codes
        return dictionary, backend.ridge_labels(
            learned.data, codes, dictionary.scale, labels.penalty
        )
    return dictionary, np.empty((len(dictionary.atoms), 0))
