"""Members of an ensemble: dictionaries with label atoms, and the scores of new rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from dbdl._threads import run_blocks
from dbdl.backends.base import Backend
from dbdl.backends.numba_cpu import NumbaBackend
from dbdl.coding.omp import Selection, _to_csr, encode, gram_matrix
from dbdl.draws import Key, make_key
from dbdl.learn.chain import ChainSettings, LearnedChain, learn_chain
from dbdl.learn.held_out import HeldOutChoice, choose, stratified_folds
from dbdl.learn.labels import append_labels, gibbs_label_atoms, ridge_label_atoms, split_labels
from dbdl.model.state import Floats
from dbdl.sampler.posterior import Dictionary
from dbdl.sampler.run import SweepRecord, Trace

Classes = NDArray[np.int64]
LabelKind = Literal["ridge", "recoded", "gibbs", "joint"]

#: Pilot chains: sweeps, folds, chains a fold, and rows at most. Three sweeps choose as 35 do.
PILOT_SWEEPS = 3
PILOT_FOLDS = 5
PILOT_CHAINS = 2
PILOT_ROWS = 4000
#: Weights of the labels that are tried where they are learned jointly with the atoms.
LABEL_WEIGHTS = (0.01, 0.1, 1.0)


@dataclass(frozen=True)
class LabelSettings:
    """How label atoms are found; see `dbdl.DBDLClassifier`."""

    kind: LabelKind = "ridge"
    penalty: float = 0.1
    weight: float = 1.0
    selection: Selection = "forward"


@dataclass(frozen=True)
class Member:
    """One chain of an ensemble, as published.

    Attributes
    ----------
    atoms : ndarray of shape (n_atoms, n_features)
    selection_probability : ndarray of shape (n_classes, n_atoms)
    label_atoms : ndarray of shape (n_atoms, n_classes)
    trace : Trace
    """

    atoms: Floats
    selection_probability: NDArray[np.float64]
    label_atoms: NDArray[np.float64]
    trace: Trace

    @cached_property
    def gram(self) -> Floats:
        """Inner products of the atoms, found once for all queries."""
        return gram_matrix(self.atoms)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "gram"}

    def encode(
        self, X: Floats, lengths: tuple[int, ...], selection: Selection, n_threads: int
    ) -> list[csr_matrix]:
        """Codes of rows, one matrix for each number of non-zeros."""
        X = X.astype(self.atoms.dtype, copy=False)
        return encode_path(X, self.atoms, self.gram, lengths, selection, n_threads)


def encode_path(
    X: Floats,
    atoms: Floats,
    gram: Floats,
    lengths: tuple[int, ...],
    selection: Selection,
    n_threads: int,
) -> list[csr_matrix]:
    """Codes of rows over unit atoms for several numbers of non-zeros, clipped to what there is."""
    clipped = [min(length, *atoms.shape) for length in lengths]
    pursuit = encode(X, atoms, gram, clipped, selection, None, n_threads)
    return [_to_csr(pursuit, i, len(atoms), X.dtype) for i in range(len(lengths))]


def learn_member(
    key: Key,
    X: Floats,
    class_of_row: Classes,
    n_classes: int,
    settings: ChainSettings,
    labels: LabelSettings,
    n_nonzero: int,
    backend: Backend,
    on_sweep: Callable[[SweepRecord], None] | None = None,
) -> Member:
    """Learn one chain and its label atoms."""
    learned, dictionary, own_label_atoms = _learn(
        key, X, class_of_row, n_classes, settings, labels, backend, on_sweep
    )
    (label_atoms,) = (
        [own_label_atoms]
        if own_label_atoms is not None
        else _label_atoms(
            key, X, learned, dictionary, settings, labels, n_classes, (n_nonzero,), backend
        )
    )
    return Member(
        dictionary.atoms, dictionary.selection_probability, label_atoms, learned.chain.trace
    )


def _learn(
    key: Key,
    X: Floats,
    class_of_row: Classes,
    n_classes: int,
    settings: ChainSettings,
    labels: LabelSettings,
    backend: Backend,
    on_sweep: Callable[[SweepRecord], None] | None = None,
) -> tuple[LearnedChain, Dictionary, NDArray[np.float64] | None]:
    """Return chain, dictionary over the features, and label atoms where learned jointly."""
    if labels.kind != "joint":
        learned = learn_chain(key, X, class_of_row, settings, backend, on_sweep)
        return learned, learned.dictionary, None
    rows = append_labels(X, class_of_row, n_classes, labels.weight)
    if settings.atom_precision is None:
        settings = replace(settings, atom_precision=float(X.shape[1]))
    learned = learn_chain(key, rows, class_of_row, settings, backend, on_sweep)
    return learned, *split_labels(learned.dictionary, X.shape[1], labels.weight)


def _label_atoms(
    key: Key,
    X: Floats,
    learned: LearnedChain,
    dictionary: Dictionary,
    settings: ChainSettings,
    labels: LabelSettings,
    n_classes: int,
    lengths: tuple[int, ...],
    backend: Backend,
) -> list[NDArray[np.float64]]:
    """Label atoms for each number of non-zeros of the coder."""
    class_of_row = learned.data.class_of_row
    if labels.kind == "gibbs":
        found = gibbs_label_atoms(key, learned, settings, labels.penalty, backend)
        return [found] * len(lengths)
    if labels.kind == "ridge":
        found = ridge_label_atoms(dictionary.codes, class_of_row, n_classes, labels.penalty)
        return [found] * len(lengths)
    gram = gram_matrix(dictionary.atoms, backend.n_threads)
    recoded = encode_path(X, dictionary.atoms, gram, lengths, labels.selection, backend.n_threads)
    return [ridge_label_atoms(c, class_of_row, n_classes, labels.penalty) for c in recoded]


def choose_on_held_out_rows(
    seed: int,
    X: Floats,
    class_of_row: Classes,
    n_classes: int,
    settings: ChainSettings,
    labels: LabelSettings,
    lengths: tuple[int, ...],
    n_chains: int,
    n_threads: int,
) -> HeldOutChoice | None:
    """Score rows left out by pilot chains for every number of non-zeros, and choose.

    Returns None where no row can be left out.
    """
    pilot = replace(settings, n_sweeps=min(settings.n_sweeps, PILOT_SWEEPS))
    folds = list(stratified_folds(make_key(seed), class_of_row, PILOT_FOLDS, PILOT_ROWS))
    if not folds:
        return None
    n_chains = min(n_chains, PILOT_CHAINS)

    def score(task: tuple[int, int]) -> list[NDArray[np.float64]]:
        number, chain = task
        fold = folds[number]
        key = make_key(seed, 1 + number * PILOT_CHAINS + chain)
        learn_X, learn_classes = X[fold.learn], class_of_row[fold.learn]
        backend = NumbaBackend()
        learned, dictionary, joint = _learn(
            key, learn_X, learn_classes, n_classes, pilot, labels, backend
        )
        label_atoms = (
            [joint] * len(lengths)
            if joint is not None
            else _label_atoms(
                key, learn_X, learned, dictionary, pilot, labels, n_classes, lengths, backend
            )
        )
        codes = encode_path(
            X[fold.held_out],
            dictionary.atoms,
            gram_matrix(dictionary.atoms),
            lengths,
            labels.selection,
            1,
        )
        return [c @ w for c, w in zip(codes, label_atoms, strict=True)]

    tasks = [(number, chain) for number in range(len(folds)) for chain in range(n_chains)]
    results = run_blocks(score, tasks, n_threads)
    scores = [np.zeros((len(X), n_classes)) for _ in lengths]
    for (number, _), parts in zip(tasks, results, strict=True):
        for total, part in zip(scores, parts, strict=True):
            total[folds[number].held_out] += part / n_chains
    rows = np.concatenate([fold.held_out for fold in folds])
    return choose(lengths, [s[rows] for s in scores], class_of_row[rows])


def learn_ensemble(
    seed: int,
    X: Floats,
    class_of_row: Classes,
    n_classes: int,
    settings: ChainSettings,
    labels: LabelSettings,
    n_nonzero: int,
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
        return learn_member(
            make_key(seed, FIRST_CHAIN + number),
            X,
            class_of_row,
            n_classes,
            settings,
            labels,
            n_nonzero,
            NumbaBackend(threads),
            follow,
        )

    n_left = n_chains % n_threads
    n_whole = n_chains - n_left
    members = run_blocks(learn, [(number, 1) for number in range(n_whole)], n_threads)
    if n_left:
        shared = [(n_whole + i, max(n_threads // n_left, 1)) for i in range(n_left)]
        members += run_blocks(learn, shared, n_left)
    return members


#: Number of the first chain's key: those before belong to folds and pilot chains.
FIRST_CHAIN = 1000
