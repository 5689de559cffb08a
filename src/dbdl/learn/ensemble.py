"""Members of an ensemble: dictionaries with label atoms, and the scores of new rows."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from dbdl._threads import run_blocks
from dbdl.backends import Backend, Engine, NumbaBackend, make_backend
from dbdl.backends.base import DeviceMemoryError
from dbdl.backends.sharded import InTurn
from dbdl.coding._scales import by_scale, unsafe_exponents
from dbdl.coding.omp import gram_matrix
from dbdl.draws import Key, make_key
from dbdl.learn.chain import ChainSettings, LearnedChain, learn_chain
from dbdl.learn.held_out import Coder, Fold, HeldOutChoice, choose, stratified_folds
from dbdl.learn.labels import append_labels, gibbs_label_atoms, ridge_label_atoms, split_labels
from dbdl.model.record import Record
from dbdl.model.state import Floats
from dbdl.model.statistics import SUM_ROWS
from dbdl.model.trust import Atoms, Count, reals
from dbdl.rows.lazy import LazyRows, SomeRows
from dbdl.sampler.posterior import Dictionary
from dbdl.sampler.run import Snapshot, SweepRecord, Trace

if TYPE_CHECKING:
    from dbdl.learn.resume import ChainKeeper, Keeper

logger = logging.getLogger("dbdl")

Classes = NDArray[np.int64]
LabelKind = Literal["ridge", "recoded", "gibbs", "joint"]
OnSweep = Callable[[SweepRecord], None]

#: Pilot chains: sweeps, folds, and rows at most. They are as long as the chains they choose for:
#: atoms go on changing, and short chains choose fewer non-zeros than long ones need.
PILOT_SWEEPS = 35
PILOT_FOLDS = 5
PILOT_ROWS = 4000
#: Pilot chains per fold at most: two that share a fold say enough.
PILOT_CHAINS = 2
#: Folds that are left out where there are more rows than that.
FEW_ROWS, FOLDS_OF_MANY_ROWS = 600, 2
#: Chains that share a GPU or a cluster: while one waits for the host, the others use it.
LANES_OF_A_DEVICE = 5
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
class Task:
    """What an ensemble is learned from, and how.

    Attributes
    ----------
    seed : int
    X : ndarray of shape (n_samples, n_features)
    class_of_row : ndarray of shape (n_samples,)
        Class numbers below ``n_classes``.
    n_classes : int
    settings : ChainSettings
    labels : LabelSettings
    n_chains : int
    device : str
        See `dbdl.backends.make_backend`.
    engine : Engine, optional
        Where the rows are that are not in memory (``X`` is then a `dbdl.rows.LazyRows`).
    """

    seed: int
    X: Floats | LazyRows | SomeRows
    class_of_row: Classes
    n_classes: int
    settings: ChainSettings
    labels: LabelSettings
    n_chains: int
    device: str = "cpu"
    engine: Engine | None = None

    def of_rows(self, rows: NDArray[np.int64]) -> Task:
        """Return the task of learning from some of the rows, in memory."""
        return replace(self, X=self.X[rows], class_of_row=self.class_of_row[rows], engine=None)


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
        Atoms drawn at the start, copies included.
    """

    atoms: Atoms
    selection_probability: Annotated[NDArray[np.float64], reals("n_classes", "n_atoms", least=0)]
    label_atoms: Annotated[NDArray[np.float64], reals("n_atoms", "n_labels")]
    trace: Trace
    n_initial_atoms: Count

    @cached_property
    def gram(self) -> Floats:
        """Inner products of the atoms, found once for all queries."""
        return gram_matrix(self.atoms)

    @cached_property
    def wide_gram(self) -> Floats:
        """The same in float64, which the lasso needs."""
        wide = self.atoms.dtype == np.float64
        return self.gram if wide else gram_matrix(self.atoms.astype(np.float64))

    def encode(self, X: Floats, coder: Coder, backend: Backend) -> csr_matrix:
        """Codes of rows (n_samples, n_atoms)."""
        X = X.astype(self.atoms.dtype, copy=False)
        gram = None
        if coder.selection == "lasso":
            gram = self.wide_gram
        elif isinstance(backend, NumbaBackend):
            gram = self.gram
        return encode_rows(X, self.atoms, gram, [coder], backend)[0]


def encode_rows(
    X: Floats, atoms: Floats, gram: Floats | None, coders: Sequence[Coder], backend: Backend
) -> list[csr_matrix]:
    """Codes of rows by each coder; coders of one rule of matching pursuit share a pass.

    Rows may be on any scale.
    """

    def code(rows: Floats, exponent: int) -> list[csr_matrix]:
        return _encode_safe_rows(rows, atoms, gram, coders, backend)

    return by_scale(code, X, unsafe_exponents(X))


def _encode_safe_rows(
    X: Floats, atoms: Floats, gram: Floats | None, coders: Sequence[Coder], backend: Backend
) -> list[csr_matrix]:
    codes: dict[Coder, csr_matrix] = {}
    for selection in {coder.selection: None for coder in coders}:
        own = [coder for coder in coders if coder.selection == selection]
        if selection == "lasso":
            numbers = [min(coder.n_nonzero, *atoms.shape) for coder in own]
            codes.update(zip(own, backend.follow_lasso(X, atoms, gram, numbers), strict=True))
            continue
        lengths = sorted({n for coder in own for n in coder.lengths})
        clipped = [min(n, *atoms.shape) for n in lengths]
        pursuit = backend.pursue(X, atoms, gram, clipped, selection)
        for coder in own:
            codes[coder] = pursuit.to_csr([lengths.index(n) for n in coder.lengths], len(atoms))
    return [codes[coder] for coder in coders]


def score_rows(
    X: Floats, members: Sequence[Member], coders: Sequence[Coder], backend: Backend
) -> list[NDArray[np.float64]]:
    """Scores (n_samples, n_classes) of rows by each coder: the mean over members."""
    scores = [np.zeros((len(X), members[0].label_atoms.shape[1])) for _ in coders]
    for member in members:
        codes = encode_rows(X, member.atoms, None, coders, backend)
        for total, part in zip(scores, codes, strict=True):
            total += part @ member.label_atoms / len(members)
    return scores


def learn_member(
    key: Key,
    task: Task,
    coder: Coder | None,
    backend: Backend,
    on_sweep: OnSweep | None = None,
    keeper: ChainKeeper | None = None,
) -> Member:
    """Learn one chain and its label atoms, or go on with what is kept of it.

    Without a coder there are no labels to learn.
    """
    if keeper is not None and (finished := keeper.finished(on_sweep)) is not None:
        return finished
    learned = _learn(key, task, backend, on_sweep, {} if keeper is None else keeper.arguments)
    label_atoms = None if coder is None else learned.label_atoms([coder])[0]
    member = publish_member(learned.chain, learned.dictionary, label_atoms)
    if keeper is not None:
        keeper.keep(Snapshot.take(learned.chain.chain, backend), member)
    return member


def publish_member(
    learned: LearnedChain, dictionary: Dictionary, label_atoms: NDArray[np.float64] | None = None
) -> Member:
    """Put together what is published of a chain: atoms that are zero, which code nothing, are not.

    Those are atoms that no row used in the end, kept since a chain has to have some.
    """
    if label_atoms is None:
        label_atoms = np.empty((len(dictionary.atoms), 0))
    some = dictionary.atoms.any(axis=1)
    return Member(
        dictionary.atoms[some],
        dictionary.selection_probability[:, some],
        label_atoms[some],
        learned.chain.trace,
        learned.n_initial_atoms,
    )


@dataclass(frozen=True)
class _Learned:
    """A chain with what is needed to find its label atoms for any coder."""

    key: Key
    task: Task
    chain: LearnedChain
    dictionary: Dictionary  # over the features alone
    joint_label_atoms: NDArray[np.float64] | None
    backend: Backend

    def label_atoms(self, coders: Sequence[Coder]) -> list[NDArray[np.float64]]:
        """Label atoms for each coder; they depend on it only where rows are coded anew."""
        task, kind = self.task, self.task.labels.kind
        if kind == "recoded":
            X = np.asarray(task.X)
            recoded = encode_rows(X, self.dictionary.atoms, None, coders, self.backend)
            return [
                ridge_label_atoms(
                    codes, task.class_of_row, task.n_classes, task.labels.penalty, self.backend
                )
                for codes in recoded
            ]
        if kind == "joint":
            assert self.joint_label_atoms is not None
            found = self.joint_label_atoms
        elif kind == "gibbs":
            found = gibbs_label_atoms(
                self.key, self.chain, task.settings, task.labels.penalty, self.backend
            )
        else:
            found = self.backend.ridge_labels(
                self.chain.data,
                self.chain.chain.state.codes,
                self.dictionary.scale,
                task.labels.penalty,
            )
        return [found] * len(coders)


def _learn(
    key: Key,
    task: Task,
    backend: Backend,
    on_sweep: OnSweep | None = None,
    going_on: Mapping[str, Any] = MappingProxyType({}),
) -> _Learned:
    X: Any = task.X
    if task.labels.kind != "joint":
        chain = learn_chain(key, X, task.class_of_row, task.settings, backend, on_sweep, **going_on)
        return _Learned(key, task, chain, chain.dictionary, None, backend)
    n_features, weight, settings = task.X.shape[1], task.labels.weight, task.settings
    rows = append_labels(np.asarray(task.X), task.class_of_row, task.n_classes, weight)
    if settings.atom_precision is None:
        settings = replace(settings, atom_precision=float(n_features))
    chain = learn_chain(key, rows, task.class_of_row, settings, backend, on_sweep, **going_on)
    dictionary, label_atoms = split_labels(chain.dictionary, n_features, weight)
    return _Learned(key, task, chain, dictionary, label_atoms, backend)


def choose_on_held_out_rows(
    task: Task, coders: Sequence[Coder], n_threads: int
) -> HeldOutChoice | None:
    """Score rows left out by pilot chains with every coder, and choose the best.

    Returns None where no row can be left out.
    """
    if isinstance(task.X, LazyRows):
        task = replace(task, X=task.X.remember(_pilot_rows(task)))
    n_sweeps = min(task.settings.n_sweeps, PILOT_SWEEPS)
    pilot = replace(task, settings=replace(task.settings, n_sweeps=n_sweeps))

    def learn(
        key: Key, chain: int, rows: NDArray[np.int64], backend: Backend
    ) -> tuple[Floats, list[NDArray[np.float64]]]:
        learned = _learn(key, pilot.of_rows(rows), backend)
        return learned.dictionary.atoms, learned.label_atoms(coders)

    scored = score_left_out_rows(task, coders, learn, n_threads)
    return None if scored is None else choose(coders, *scored)


#: Learns from some rows with a key, as a chain's number; atoms, and label atoms for each coder.
LearnPart = Callable[
    [Key, int, NDArray[np.int64], Backend], tuple[Floats, list[NDArray[np.float64]]]
]


def _pilot_folds(task: Task) -> list[Fold]:
    key = make_key(task.seed)
    folds = stratified_folds(key, task.class_of_row, PILOT_FOLDS, PILOT_ROWS)
    few = len(task.class_of_row) <= FEW_ROWS
    return list(islice(folds, None if few else FOLDS_OF_MANY_ROWS))


def _pilot_rows(task: Task) -> NDArray[np.int64]:
    """Return the numbers of all rows that pilot chains see or score."""
    parts = [rows for fold in _pilot_folds(task) for rows in fold]
    return np.unique(np.concatenate(parts)) if parts else np.empty(0, dtype=np.int64)


def score_left_out_rows(
    task: Task, coders: Sequence[Coder], learn: LearnPart, n_threads: int
) -> tuple[list[NDArray[np.float64]], Classes] | None:
    """Scores (n_rows, n_classes) of rows by chains that never saw them, for each coder.

    Returns the scores and the classes of these rows, or None where no row can be left out.
    """
    folds = _pilot_folds(task)
    if not folds:
        return None
    n_chains = min(task.n_chains, PILOT_CHAINS)
    runs = [(number, chain) for number in range(len(folds)) for chain in range(n_chains)]

    def score(run: tuple[int, int]) -> list[NDArray[np.float64]]:
        number, chain = run
        fold = folds[number]
        key = make_key(task.seed, 1 + number * PILOT_CHAINS + chain)

        def work(backend: Backend) -> list[NDArray[np.float64]]:
            atoms, label_atoms = learn(key, chain, fold.learn, backend)
            codes = encode_rows(task.X[fold.held_out], atoms, None, coders, backend)
            return [c @ w for c, w in zip(codes, label_atoms, strict=True)]

        return in_memory_of_device(replace(task, engine=None), 1, work)

    results = run_blocks(score, runs, _n_lanes(task, n_threads))
    rows = np.concatenate([fold.held_out for fold in folds])
    ends = np.cumsum([len(fold.held_out) for fold in folds])
    scores = [np.zeros((len(rows), task.n_classes)) for _ in coders]
    for (number, _), parts in zip(runs, results, strict=True):
        own = slice(ends[number] - len(folds[number].held_out), ends[number])
        for total, part in zip(scores, parts, strict=True):
            total[own] += part / n_chains
    return scores, task.class_of_row[rows]


def learn_ensemble(
    task: Task,
    coder: Coder,
    n_threads: int,
    on_sweep: Callable[[int, SweepRecord], None] | None = None,
    keeper: Keeper | None = None,
) -> list[Member]:
    """Learn the chains, which differ by their seeds, side by side on ``n_threads``.

    Chains go on from what a keeper has.
    """

    def learn(number: int, key: Key, backend: Backend, follow: OnSweep | None) -> Member:
        kept = None if keeper is None else keeper.chain(number)
        return learn_member(key, task, coder, backend, follow, kept)

    return run_chains(learn, task, n_threads, on_sweep)


Learned = TypeVar("Learned")


def run_chains(
    learn: Callable[[int, Key, Backend, OnSweep | None], Learned],
    task: Task,
    n_threads: int,
    on_sweep: Callable[[int, SweepRecord], None] | None = None,
) -> list[Learned]:
    """Call ``learn`` with number, key, backend and follower of every chain, side by side.

    Whole rounds run one chain a thread; what is left over shares the threads. The results are
    the same for any number of threads.
    """

    def learn_one(run: tuple[int, int]) -> Learned:
        number, threads = run
        follow = None if on_sweep is None else lambda record: on_sweep(number, record)
        key = make_key(task.seed, FIRST_CHAIN + number)
        return in_memory_of_device(
            task, threads, lambda backend: learn(number, key, backend, follow)
        )

    n_threads = _n_lanes(task, n_threads)
    n_left = task.n_chains % n_threads
    n_whole = task.n_chains - n_left
    learned = run_blocks(learn_one, [(number, 1) for number in range(n_whole)], n_threads)
    if n_left:
        shared = [(n_whole + i, max(n_threads // n_left, 1)) for i in range(n_left)]
        learned += run_blocks(learn_one, shared, n_left)
    return learned


def in_memory_of_device(task: Task, n_threads: int, work: Callable[[Backend], Learned]) -> Learned:
    """Do work with a backend of the task; where a device's memory is too small, try again.

    Chains share a device, so the second try has it alone, and takes rows there in parts if need be.
    """
    backend = make_backend(task.device, n_threads, task.engine)
    try:
        with backend.lane():
            return work(backend)
    except DeviceMemoryError as error:
        backend = _in_smaller_parts(task, n_threads, error)
    with backend.lane(alone=True):
        gc.collect()  # the error held some of the device's memory
        return work(backend)


def _in_smaller_parts(task: Task, n_threads: int, error: DeviceMemoryError) -> Backend:
    """Return a backend that takes rows to the device in parts that fit, or raise the error.

    Codes then live on the host. The result is that of all rows at once up to rounding.
    """
    n_all = len(task.class_of_row)
    n_rows = error.n_entries // (3 * task.settings.n_start(n_all))
    if n_rows >= n_all:
        return make_backend(task.device, n_threads)
    if task.engine is not None or n_rows < SUM_ROWS or not isinstance(task.X, np.ndarray):
        raise error
    # The words alone: a logger that keeps the error would keep what the device holds.
    logger.warning("dbdl: %s Going on with %d rows at a time.", str(error), n_rows)
    row_bytes = task.X.shape[1] * task.X.itemsize
    return make_backend(task.device, n_threads, InTurn(part_bytes=n_rows * row_bytes))


def _n_lanes(task: Task, n_threads: int) -> int:
    """Chains that are learned at the same time."""
    backend = make_backend(task.device, 1, task.engine)
    if isinstance(task.engine, InTurn):
        backend = backend.inner  # type: ignore[attr-defined]
    here = isinstance(backend, NumbaBackend)
    return n_threads if here else max(n_threads, LANES_OF_A_DEVICE)
