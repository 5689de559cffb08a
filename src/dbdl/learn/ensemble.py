"""Members of an ensemble: dictionaries with label atoms, and the scores of new rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from dbdl._threads import run_blocks
from dbdl.backends.base import Backend
from dbdl.backends.numba_cpu import NumbaBackend
from dbdl.coding.omp import encode, gram_matrix
from dbdl.draws import Key, make_key
from dbdl.learn.chain import ChainSettings, LearnedChain, learn_chain
from dbdl.learn.held_out import Coder, HeldOutChoice, choose, stratified_folds
from dbdl.learn.labels import append_labels, gibbs_label_atoms, ridge_label_atoms, split_labels
from dbdl.model.state import Floats
from dbdl.sampler.posterior import Dictionary
from dbdl.sampler.run import SweepRecord, Trace

Classes = NDArray[np.int64]
LabelKind = Literal["ridge", "recoded", "gibbs", "joint"]
OnSweep = Callable[[SweepRecord], None]

#: Pilot chains: sweeps, folds, and rows at most. Three sweeps choose as 35 do.
PILOT_SWEEPS = 3
PILOT_FOLDS = 5
PILOT_ROWS = 4000
#: Pilot chains a fold at most. Few rows make a noisy choice and cheap chains; with many rows, two
#: chains that share a fold say enough.
PILOT_CHAINS = 5
FEW_ROWS = 600
PILOT_CHAINS_OF_MANY_ROWS = 2
#: Number of the first chain's key: those before belong to folds and pilot chains.
FIRST_CHAIN = 1000
#: Weights of the labels that are tried where they are learned jointly with the atoms.
LABEL_WEIGHTS = (0.01, 0.1, 1.0)


@dataclass(frozen=True)
class LabelSettings:
    """How label atoms are found; see `dbdl.DBDLClassifier`."""

    kind: LabelKind = "ridge"
    penalty: float = 0.1
    weight: float = 1.0


@dataclass(frozen=True)
class Member:
    """One chain of an ensemble, as published.

    Attributes
    ----------
    atoms : ndarray of shape (n_atoms, n_features)
    selection_probability : ndarray of shape (n_classes, n_atoms)
    label_atoms : ndarray of shape (n_atoms, n_classes)
    trace : Trace
    n_initial_atoms : int
        Atoms drawn at the start, copies included.
    """

    atoms: Floats
    selection_probability: NDArray[np.float64]
    label_atoms: NDArray[np.float64]
    trace: Trace
    n_initial_atoms: int

    @cached_property
    def gram(self) -> Floats:
        """Inner products of the atoms, found once for all queries."""
        return gram_matrix(self.atoms)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "gram"}

    def encode(self, X: Floats, coder: Coder, n_threads: int = 1) -> csr_matrix:
        """Codes of rows (n_samples, n_atoms)."""
        X = X.astype(self.atoms.dtype, copy=False)
        return encode_rows(X, self.atoms, self.gram, [coder], n_threads)[0]


def encode_rows(
    X: Floats, atoms: Floats, gram: Floats, coders: Sequence[Coder], n_threads: int = 1
) -> list[csr_matrix]:
    """Codes of rows by each coder; coders of one selection rule share a greedy pass."""
    codes: dict[Coder, csr_matrix] = {}
    for selection in {coder.selection: None for coder in coders}:
        own = [coder for coder in coders if coder.selection == selection]
        lengths = sorted({n for coder in own for n in coder.lengths})
        clipped = [min(n, *atoms.shape) for n in lengths]
        pursuit = encode(X, atoms, gram, clipped, selection, None, n_threads)
        for coder in own:
            codes[coder] = pursuit.to_csr([lengths.index(n) for n in coder.lengths], len(atoms))
    return [codes[coder] for coder in coders]


def learn_member(
    key: Key,
    X: Floats,
    class_of_row: Classes,
    n_classes: int,
    settings: ChainSettings,
    labels: LabelSettings,
    coder: Coder,
    backend: Backend,
    on_sweep: OnSweep | None = None,
) -> Member:
    """Learn one chain and its label atoms."""
    learned = _learn(key, X, class_of_row, n_classes, settings, labels, backend, on_sweep)
    (label_atoms,) = learned.label_atoms(X, [coder])
    return publish_member(learned.chain, learned.dictionary, label_atoms)


def publish_member(
    learned: LearnedChain, dictionary: Dictionary, label_atoms: NDArray[np.float64]
) -> Member:
    """Put together what is published of a chain."""
    return Member(
        dictionary.atoms,
        dictionary.selection_probability,
        label_atoms,
        learned.chain.trace,
        learned.n_initial_atoms,
    )


@dataclass(frozen=True)
class _Learned:
    """A chain with what is needed to find its label atoms for any coder."""

    key: Key
    chain: LearnedChain
    dictionary: Dictionary  # over the features alone
    joint_label_atoms: NDArray[np.float64] | None
    settings: ChainSettings
    labels: LabelSettings
    n_classes: int
    backend: Backend

    def label_atoms(self, X: Floats, coders: Sequence[Coder]) -> list[NDArray[np.float64]]:
        """Label atoms for each coder; they depend on it only where rows are coded anew."""
        class_of_row, kind = self.chain.data.class_of_row, self.labels.kind
        if kind == "recoded":
            atoms, n_threads = self.dictionary.atoms, self.backend.n_threads
            recoded = encode_rows(X, atoms, gram_matrix(atoms, n_threads), coders, n_threads)
            return [self._ridge(codes, class_of_row) for codes in recoded]
        if kind == "joint":
            assert self.joint_label_atoms is not None
            found = self.joint_label_atoms
        elif kind == "gibbs":
            found = gibbs_label_atoms(
                self.key, self.chain, self.settings, self.labels.penalty, self.backend
            )
        else:
            found = self._ridge(self.dictionary.codes, class_of_row)
        return [found] * len(coders)

    def _ridge(self, codes: csr_matrix, class_of_row: Classes) -> NDArray[np.float64]:
        return ridge_label_atoms(codes, class_of_row, self.n_classes, self.labels.penalty)


def _learn(
    key: Key,
    X: Floats,
    class_of_row: Classes,
    n_classes: int,
    settings: ChainSettings,
    labels: LabelSettings,
    backend: Backend,
    on_sweep: OnSweep | None = None,
) -> _Learned:
    if labels.kind == "joint":
        rows = append_labels(X, class_of_row, n_classes, labels.weight)
        if settings.atom_precision is None:
            settings = replace(settings, atom_precision=float(X.shape[1]))
        chain = learn_chain(key, rows, class_of_row, settings, backend, on_sweep)
        dictionary, label_atoms = split_labels(chain.dictionary, X.shape[1], labels.weight)
    else:
        chain = learn_chain(key, X, class_of_row, settings, backend, on_sweep)
        dictionary, label_atoms = chain.dictionary, None
    return _Learned(key, chain, dictionary, label_atoms, settings, labels, n_classes, backend)


def choose_on_held_out_rows(
    seed: int,
    X: Floats,
    class_of_row: Classes,
    n_classes: int,
    settings: ChainSettings,
    labels: LabelSettings,
    coders: Sequence[Coder],
    n_chains: int,
    n_threads: int,
) -> HeldOutChoice | None:
    """Score rows left out by pilot chains with every coder, and choose the best.

    Returns None where no row can be left out.
    """
    pilot = replace(settings, n_sweeps=min(settings.n_sweeps, PILOT_SWEEPS))
    folds = list(stratified_folds(make_key(seed), class_of_row, PILOT_FOLDS, PILOT_ROWS))
    if not folds:
        return None
    n_chains = min(n_chains, PILOT_CHAINS if len(X) <= FEW_ROWS else PILOT_CHAINS_OF_MANY_ROWS)
    tasks = [(number, chain) for number in range(len(folds)) for chain in range(n_chains)]

    def score(task: tuple[int, int]) -> list[NDArray[np.float64]]:
        number, chain = task
        fold = folds[number]
        key = make_key(seed, 1 + number * PILOT_CHAINS + chain)
        own_X, own_classes = X[fold.learn], class_of_row[fold.learn]
        learned = _learn(key, own_X, own_classes, n_classes, pilot, labels, NumbaBackend())
        atoms = learned.dictionary.atoms
        codes = encode_rows(X[fold.held_out], atoms, gram_matrix(atoms), coders)
        label_atoms = learned.label_atoms(own_X, coders)
        return [c @ w for c, w in zip(codes, label_atoms, strict=True)]

    results = run_blocks(score, tasks, n_threads)
    scores = [np.zeros((len(X), n_classes)) for _ in coders]
    for (number, _), parts in zip(tasks, results, strict=True):
        for total, part in zip(scores, parts, strict=True):
            total[folds[number].held_out] += part / n_chains
    rows = np.concatenate([fold.held_out for fold in folds])
    return choose(coders, [s[rows] for s in scores], class_of_row[rows])


def learn_ensemble(
    seed: int,
    X: Floats,
    class_of_row: Classes,
    n_classes: int,
    settings: ChainSettings,
    labels: LabelSettings,
    coder: Coder,
    n_chains: int,
    n_threads: int,
    on_sweep: Callable[[int, SweepRecord], None] | None = None,
) -> list[Member]:
    """Learn ``n_chains`` members that differ by their seeds, side by side on ``n_threads``.

    Whole rounds run one chain a thread; what is left over shares the threads. The results are
    the same for any number of threads.
    """

    def learn(task: tuple[int, int]) -> Member:
        number, threads = task
        follow = None if on_sweep is None else lambda record: on_sweep(number, record)
        key, backend = make_key(seed, FIRST_CHAIN + number), NumbaBackend(threads)
        return learn_member(
            key, X, class_of_row, n_classes, settings, labels, coder, backend, follow
        )

    n_left = n_chains % n_threads
    n_whole = n_chains - n_left
    members = run_blocks(learn, [(number, 1) for number in range(n_whole)], n_threads)
    if n_left:
        shared = [(n_whole + i, max(n_threads // n_left, 1)) for i in range(n_left)]
        members += run_blocks(learn, shared, n_left)
    return members
