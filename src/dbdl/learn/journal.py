"""The journal of a fit: progress, checkpoints, warm start.

`Journal` itself keeps nothing and resumes nothing, so nobody has to ask whether there is one.
`KeptJournal` keeps the chains' last states, in memory or in a folder of checkpoints. A folder holds
``fit.npz``, with the identity of the fit and the choice of the held-out rows, one ``chain-000.npz``
per chain, with its last snapshot and, once the chain has ended, its published member, and one
``pilot-000.npz`` per pilot chain until the choice is made. Every file is written whole or not at
all, so a process may be killed at any moment.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dbdl._files import UNFINISHED, checked_path, reason
from dbdl._threads import block_slices
from dbdl.backends.base import Backend
from dbdl.coding import FAMILIES, Coder
from dbdl.learn.held_out import HeldOutChoice
from dbdl.learn.problem import Problem
from dbdl.model.record import Record
from dbdl.model.statistics import SUM_ROWS
from dbdl.model.trust import Count, Positive, RecordError, Scope, check
from dbdl.rows.lazy import LazyRows
from dbdl.sampler.checkpoint import (
    CheckpointError,
    check_archive,
    from_arrays,
    read_archive,
    to_arrays,
    write_archive,
)
from dbdl.sampler.run import Chain, ChainJournal, Snapshot, SweepRecord

if TYPE_CHECKING:
    from dbdl.learn.members import Member

#: Parameters of an estimator that leave its result alone; ``random_state`` gives the seed.
NOT_DECIDING = frozenset(
    {"n_jobs", "verbose", "random_state", "checkpoint", "checkpoint_every", "warm_start"}
)
FIT_FILE = "fit.npz"
#: Seconds after which an unfinished file is taken for that of a process that was killed.
STALE_SECONDS = 600
WHAT_TO_DO = "Use another path for checkpoint, or remove the folder to start again."

#: Is told of every sweep: "pilot" or "chain", its number, and the record.
Follow = Callable[[str, int, SweepRecord], None]


@dataclass(frozen=True)
class Choice(Record):
    """The choice of the held-out rows, which decides how chains are used.

    Attributes
    ----------
    coder : Coder
    temperature : float
        Of the softmax of the scores.
    label_weight : float
        Weight of the labels, where they are learned jointly with the atoms.
    held_out : HeldOutChoice or None
        How every coder did; None where no row could be held out.
    """

    coder: Coder
    temperature: Positive
    label_weight: Positive
    held_out: HeldOutChoice | None

    @classmethod
    def of(
        cls, coders: Sequence[Coder], held_out: HeldOutChoice | None, label_weight: float = 1.0
    ) -> Choice:
        """Take the best coder or, without held-out rows, the one with the fewest non-zeros."""
        if held_out is None:
            fewest = min(coders, key=lambda coder: coder.n_nonzero)
            return cls(fewest, 1.0, label_weight, None)
        return cls(held_out.coder, 1.0 / held_out.sharpness, label_weight, held_out)

    def loss(self) -> float:
        """Log-loss of the held-out rows; infinite where there were none."""
        held_out = self.held_out
        return np.inf if held_out is None else float(held_out.log_loss[held_out.best])


class MemberJournal(ChainJournal):
    """Follows one chain of an ensemble; this one keeps nothing.

    Attributes
    ----------
    member : Member or None
        The published chain, if it had ended before.
    """

    member: Member | None = None

    def __init__(self, follow: Callable[[SweepRecord], None]) -> None:
        self._follow = follow

    def tell(self, record: SweepRecord) -> None:
        """Pass on the record of a sweep."""
        self._follow(record)

    def finish(self, chain: Chain, backend: Backend, member: Member) -> None:
        """Take note of the end of the chain."""


def _tell_nobody(kind: str, number: int, record: SweepRecord) -> None:
    pass


class Journal:
    """Follows a fit. This one passes sweeps on, keeps nothing and resumes nothing.

    Attributes
    ----------
    choice : Choice or None
        What the held-out rows of an earlier fit chose, if it is still valid.
    is_ahead : bool
        Whether an earlier fit had more sweeps than this one asks for.
    """

    choice: Choice | None = None
    is_ahead: bool = False

    def __init__(self, follow: Follow = _tell_nobody) -> None:
        self.follow = follow

    def keep_choice(self, choice: Choice) -> None:
        """Keep the choice of the held-out rows."""

    def chain(self, number: int) -> MemberJournal:
        """Return the journal of one chain."""
        return MemberJournal(partial(self.follow, "chain", number))

    def pilot(self, number: int, n_rows: int) -> MemberJournal:
        """Return the journal of one pilot chain on so many rows."""
        return MemberJournal(partial(self.follow, "pilot", number))

    def memory(self) -> FitMemory | None:
        """Return what a later fit may be resumed from."""
        return None


# --------------------------------------------------------------------------- what decides a result


def fingerprint(X: Any, class_of_row: NDArray[np.int64]) -> str:
    """Digest of rows and their class numbers.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Anything whose slices are arrays: rows need not be in memory all at once.
    class_of_row : ndarray of shape (n_samples,)
    """
    blocks = block_slices(len(class_of_row), SUM_ROWS)
    classes = [class_of_row[rows] for rows in blocks]
    if isinstance(X, LazyRows):
        return join_fingerprints(X.each_block(block_fingerprint, blocks, classes))
    return join_fingerprints(
        block_fingerprint(X[rows], own) for rows, own in zip(blocks, classes, strict=True)
    )


def block_fingerprint(rows: NDArray[Any], class_of_row: NDArray[np.int64]) -> bytes:
    """Digest of one block of `dbdl.model.statistics.SUM_ROWS` rows, wherever it lives."""
    rows = np.ascontiguousarray(rows)
    total = hashlib.blake2b(f"{rows.dtype.str} {rows.shape}".encode(), digest_size=32)
    total.update(rows.data)
    total.update(np.ascontiguousarray(class_of_row, dtype=np.int64).data)
    return total.digest()


def join_fingerprints(blocks: Iterable[bytes]) -> str:
    """Digest of all rows from those of their blocks, in order."""
    return hashlib.blake2b(b"".join(blocks), digest_size=32).hexdigest()


@dataclass(frozen=True)
class Identity(Record):
    """All that decides the result of a fit.

    Attributes
    ----------
    estimator : str
        Name of its class.
    parameters : dict
        By name, only those that decide the result.
    data : str
        `fingerprint` of rows and class numbers.
    seed : int
    """

    estimator: str
    parameters: dict[str, Any]
    data: str
    seed: Count

    @classmethod
    def of(cls, estimator: str, parameters: Mapping[str, Any], problem: Problem) -> Identity:
        """Identity of a fit of a problem."""
        chosen = {name: value for name, value in parameters.items() if name not in NOT_DECIDING}
        plain = json.loads(json.dumps(chosen, default=_plain))
        return cls(estimator, plain, fingerprint(problem.X, problem.class_of_row), problem.seed)

    def faults(self) -> Iterator[str]:
        """Say where a parameter is missing that decides whether chains may be resumed."""
        if type(self.parameters.get("n_sweeps")) is not int:
            yield f"n_sweeps is {self.parameters.get('n_sweeps')!r}, expected a whole number"

    @property
    def n_sweeps(self) -> int:
        """Sweeps of each chain."""
        return int(self.parameters["n_sweeps"])

    def key(self) -> str:
        """Digest of all but the number of sweeps, which may grow: a name for the chains."""
        own = {name: _as_float(value) for name, value in self.parameters.items()}
        own["n_sweeps"] = None
        text = json.dumps([self.estimator, own, self.data, self.seed], sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def with_sweeps(self, n_sweeps: int) -> Identity:
        """Return the identity of a fit that differs by its number of sweeps alone."""
        return replace(self, parameters={**self.parameters, "n_sweeps": n_sweeps})


def _as_float(value: Any) -> Any:
    """Return whole numbers as floats: 1000 and 1e3 are one setting."""
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Coder):
        return [value.name, vars(value)]
    raise TypeError(f"{value!r} is neither a number nor a word: a fit with it cannot be kept")


def differences(old: Identity, new: Identity) -> list[str]:
    """Say in which ways two fits differ, as parts of a sentence."""
    if old.estimator != new.estimator:
        return [f"it is of a {old.estimator}, not of a {new.estimator}"]
    names = sorted(set(old.parameters) | set(new.parameters))
    found = [
        f"{name} was {old.parameters.get(name)!r} and is {new.parameters.get(name)!r}"
        for name in names
        if old.parameters.get(name) != new.parameters.get(name)
    ]
    if old.seed != new.seed:
        found.append("random_state gives another seed")
    if old.data != new.data:
        found.append("X or y are other data (values, order, type or scaling of the rows)")
    return found


@dataclass(frozen=True)
class FitSizes:
    """Sizes that everything kept of a fit's chains has to have.

    Attributes
    ----------
    n_samples, n_features, n_classes : int
    dtype : dtype
        Of the rows.
    n_labels, n_appended : int
        Columns of the label atoms, and columns appended to the rows.
    """

    n_samples: int
    n_features: int
    n_classes: int
    dtype: np.dtype[Any]
    n_labels: int
    n_appended: int

    @classmethod
    def of(cls, problem: Problem) -> FitSizes:
        """Sizes of a fit of a problem."""
        n_classes, kind = problem.n_classes, problem.labels.kind
        X: Any = problem.X
        n_samples, n_features = X.shape
        return cls(
            n_samples,
            n_features,
            n_classes,
            np.dtype(X.dtype),
            n_labels=0 if kind == "none" else n_classes,
            n_appended=n_classes if kind == "joint" else 0,
        )

    def of_snapshot(self, n_samples: int | None = None) -> Scope:
        """Return what a snapshot has to fit: of all rows, or of so many."""
        sizes = {
            "n_samples": self.n_samples if n_samples is None else n_samples,
            "n_features": self.n_features + self.n_appended,
            "n_classes": self.n_classes,
        }
        return Scope(sizes, self.dtype)

    def of_member(self) -> Scope:
        """Return what a published chain has to fit."""
        sizes = {
            "n_features": self.n_features,
            "n_classes": self.n_classes,
            "n_labels": self.n_labels,
        }
        return Scope(sizes, self.dtype)


# ------------------------------------------------------------------------------------- the folder


@dataclass(frozen=True)
class KeptChain:
    """A chain's last snapshot and, at its end, the published member."""

    snapshot: Snapshot
    member: Member | None = None


class CheckpointFolder:
    """The files of one fit.

    Parameters
    ----------
    path : str or path-like
        Made where it is absent.

    Raises
    ------
    CheckpointError
        Where the folder cannot be made, or holds something else.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = checked_path(path)
        self._last_sweep: dict[str, int] = {}
        if self.path.exists() and not self.path.is_dir():
            raise CheckpointError(f"checkpoint={str(path)!r} is a file, expected a folder.")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            names = [file.name for file in self.path.iterdir()]
            self._remove_stale(names)
        except OSError as error:
            raise CheckpointError(
                f"the folder checkpoint={str(path)!r} cannot be used: {reason(error)}. Use another "
                "path."
            ) from error
        foreign = [name for name in names if not name.startswith(".")]
        if foreign and FIT_FILE not in names:
            raise CheckpointError(
                f"{self.path} is not a folder of checkpoints: it holds {min(foreign)} and no "
                f"{FIT_FILE}. Use another path for checkpoint, one that is empty or not there yet."
            )

    def _remove_stale(self, names: Iterable[str]) -> None:
        """Remove files that killed processes left half written, not those still being written."""
        for name in names:
            if name.startswith(UNFINISHED):
                file = self.path / name
                if time.time() - file.stat().st_mtime > STALE_SECONDS:
                    file.unlink(missing_ok=True)

    def file(self, name: str) -> Path:
        """File of a chain or a pilot chain."""
        return self.path / f"{name}.npz"

    def read_fit(self) -> tuple[Identity, Choice | None] | None:
        """Return the fit's identity and choice; None if nothing is there yet."""
        path = self.path / FIT_FILE
        if not path.exists():
            return None
        about, arrays = self._read(path, "fit")
        with _not_as_written(path):
            identity, choice = Identity(**about["identity"]), None
            check(Identity, identity, "identity")
            if about["choice"] is not None:
                choice = _choice_from(about["choice"], arrays)
                check(Choice, choice, "choice")
        return identity, choice

    def write_fit(self, identity: Identity, choice: Choice | None) -> None:
        """Write the fit's identity and choice; once it is made, pilot chains are not needed."""
        arrays: dict[str, NDArray[Any]] = {}
        words = None
        if choice is not None:
            words, held_out = dict(vars(choice)), choice.held_out
            if held_out is not None:
                words["held_out"] = dict(vars(held_out))
                for field in fields(held_out):
                    if isinstance(vars(held_out)[field.name], np.ndarray):
                        arrays[field.name] = words["held_out"].pop(field.name)
        about = {"kind": "fit", "identity": asdict(identity), "choice": words}
        self._write(self.path / FIT_FILE, json.loads(json.dumps(about, default=_plain)), arrays, "")
        if choice is not None:
            for pilot in self.path.glob("pilot-*.npz"):
                pilot.unlink(missing_ok=True)

    def check_chains(self) -> None:
        """Refuse damaged files of chains at once, not when their turn comes."""
        for path in sorted(self.path.glob("*-*.npz")):
            with _what_to_do():
                check_archive(path)

    def read_chain(self, name: str, key: str, snapshots: Scope, members: Scope) -> KeptChain | None:
        """Return what is kept of a chain of the fit with this key; None if nothing is."""
        from dbdl.learn.members import Member

        path = self.file(name)
        if not path.exists():
            return None
        about, arrays = self._read(path, "chain")
        if (about.get("fit"), about.get("name")) != (key, name):
            raise CheckpointError(f"{path} belongs to another fit or chain. {WHAT_TO_DO}")
        with _not_as_written(path):
            snapshot = from_arrays(Snapshot, arrays, "snapshot.", snapshots)
            member = from_arrays(Member, arrays, "member.", members) if about["ended"] else None
        self._last_sweep[name] = snapshot.sweep
        return KeptChain(snapshot, member)

    def write_chain(self, name: str, key: str, kept: KeptChain) -> None:
        """Write the last snapshot of a chain and, at its end, the published member."""
        about = {"kind": "chain", "fit": key, "name": name, "ended": kept.member is not None}
        arrays = to_arrays(kept.snapshot, "snapshot.")
        if kept.member is not None:
            arrays |= to_arrays(kept.member, "member.")
        sweep = self._last_sweep.get(name)
        last = "no checkpoint of this chain was written before"
        if sweep is not None:
            last = f"the last good checkpoint, after sweep {sweep}, is still there"
        self._write(self.file(name), about, arrays, f" ({kept.snapshot.sweep} sweeps done; {last})")
        self._last_sweep[name] = kept.snapshot.sweep

    def _read(self, path: Path, kind: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        with _what_to_do():
            about, arrays = read_archive(path)
        if about.get("kind") != kind:
            raise CheckpointError(f"{path} is the file of a {about.get('kind')}. {WHAT_TO_DO}")
        if about.get("dbdl") != _own_version():
            raise CheckpointError(
                f"{path} was written by dbdl {about.get('dbdl')}, this is dbdl {_own_version()}: a "
                f"chain can only be resumed by the version that began it. {WHAT_TO_DO}"
            )
        return about, arrays

    def _write(
        self, path: Path, about: dict[str, Any], arrays: dict[str, NDArray[Any]], where: str
    ) -> None:
        try:
            write_archive(path, {"dbdl": _own_version(), **about}, arrays)
        except OSError as error:
            raise CheckpointError(
                f"cannot write the checkpoint {path}: {reason(error)}{where}. The files in the "
                "folder are whole: make room, or make it writable, and call fit again to resume."
            ) from error


def _choice_from(words: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Choice:
    held_out = words["held_out"]
    if held_out is not None:
        coders = tuple(_coder_from(*coder) for coder in held_out["coders"])
        held_out = HeldOutChoice(**{**held_out, **arrays, "coders": coders})
    return Choice(**{**words, "coder": _coder_from(*words["coder"]), "held_out": held_out})


def _coder_from(name: str, settings: Mapping[str, Any]) -> Coder:
    return FAMILIES[name](**settings)


@contextmanager
def _not_as_written(path: Path) -> Iterator[None]:
    """Say which file holds something else than what is written there."""
    try:
        yield
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        fault = f"it has no {error}" if isinstance(error, KeyError) else error
        raise CheckpointError(
            f"{path} is damaged, or something else than dbdl wrote it: {fault}. {WHAT_TO_DO}"
        ) from error


@contextmanager
def _what_to_do() -> Iterator[None]:
    """Say what to do about a file that cannot be read."""
    try:
        yield
    except CheckpointError as error:
        raise CheckpointError(f"{error} {WHAT_TO_DO}") from error


def _own_version() -> str:
    import dbdl

    return dbdl.__version__


# ------------------------------------------------------------------------------- a kept journal


@dataclass(frozen=True)
class FitMemory(Record):
    """What a fit with ``warm_start`` remembers of itself: the chains' last states."""

    identity: Identity
    choice: Choice | None
    snapshots: tuple[Snapshot, ...]


class KeptJournal(Journal):
    """A journal that keeps what resuming a fit needs, and knows what an earlier fit kept.

    Parameters
    ----------
    identity : Identity
        Its seed is that of the earlier fit where there is one.
    sizes : FitSizes
    follow : callable
        Is told of every sweep.
    choice : Choice or None
    folder : CheckpointFolder or None
    snapshots : dict of int to Snapshot
        Last ones of the chains.
    in_memory : bool
        Whether to keep snapshots there.
    every : int
        Sweeps between the checkpoints of a chain.
    """

    def __init__(
        self,
        identity: Identity,
        sizes: FitSizes,
        follow: Follow,
        *,
        choice: Choice | None = None,
        folder: CheckpointFolder | None = None,
        snapshots: dict[int, Snapshot] | None = None,
        in_memory: bool = False,
        every: int = 5,
    ) -> None:
        super().__init__(follow)
        self.identity, self.sizes, self.choice = identity, sizes, choice
        self.folder, self.snapshots = folder, snapshots or {}
        self.in_memory, self.every = in_memory, every
        self.is_ahead = any(s.sweep > identity.n_sweeps for s in self.snapshots.values())

    def keep_choice(self, choice: Choice) -> None:
        """Keep the choice of the held-out rows."""
        self.choice = choice
        if self.folder is not None:
            self.folder.write_fit(self.identity, choice)

    def chain(self, number: int) -> MemberJournal:
        """Return the journal of one chain, with what is kept of it."""
        kept, name = self._read(f"chain-{number:03d}", None), f"chain-{number:03d}"
        snapshot = self.snapshots.get(number)
        if kept is not None and (snapshot is None or snapshot.sweep <= kept.snapshot.sweep):
            snapshot = kept.snapshot
            self.remember(number, snapshot)
        else:
            kept = None
        # A member of fewer sweeps was published before the fit was asked for more.
        ended = kept is not None and kept.snapshot.sweep == self.identity.n_sweeps
        member = kept.member if kept is not None and ended else None
        follow = partial(self.follow, "chain", number)
        if member is not None:
            for record in member.trace.records():
                follow(record)
        return _KeptChainJournal(self, name, follow, snapshot, member, number)

    def pilot(self, number: int, n_rows: int) -> MemberJournal:
        """Return the journal of a pilot chain on so many rows, with what is kept of it."""
        name = f"pilot-{number:03d}"
        kept, follow = self._read(name, n_rows), partial(self.follow, "pilot", number)
        return _KeptChainJournal(self, name, follow, None if kept is None else kept.snapshot)

    def _read(self, name: str, n_rows: int | None) -> KeptChain | None:
        if self.folder is None:
            return None
        scopes = self.sizes.of_snapshot(n_rows), self.sizes.of_member()
        kept = self.folder.read_chain(name, self.identity.key(), *scopes)
        if kept is not None and kept.snapshot.sweep > self.identity.n_sweeps:
            raise CheckpointError(
                f"{self.folder.file(name)} is of {kept.snapshot.sweep} sweeps, more than the "
                f"{self.identity.n_sweeps} of the fit. {WHAT_TO_DO}"
            )
        return kept

    def remember(self, number: int | None, snapshot: Snapshot) -> None:
        """Keep a chain's last snapshot in memory, where that is asked for."""
        if self.in_memory and number is not None:
            self.snapshots[number] = snapshot

    def memory(self) -> FitMemory | None:
        """Return what to remember once every chain is at its end."""
        if not self.in_memory:
            return None
        ordered = tuple(self.snapshots[number] for number in sorted(self.snapshots))
        return FitMemory(self.identity, self.choice, ordered)


class _KeptChainJournal(MemberJournal):
    """Keeps one chain in the folder and in the memory of its fit's journal."""

    def __init__(
        self,
        fit: KeptJournal,
        name: str,
        follow: Callable[[SweepRecord], None],
        resumed: Snapshot | None,
        member: Member | None = None,
        number: int | None = None,
    ) -> None:
        super().__init__(follow)
        self.resumed, self.member = resumed, member
        self._fit, self._name, self._number = fit, name, number

    def is_due(self, sweep: int) -> bool:
        """Whether the folder should have a checkpoint after this sweep."""
        return self._fit.folder is not None and sweep % self._fit.every == 0

    def keep(self, chain: Chain, backend: Backend) -> None:
        """Keep a snapshot of the chain."""
        self._keep(chain, backend, None)

    def finish(self, chain: Chain, backend: Backend, member: Member) -> None:
        """Keep the last snapshot of the chain, and the published member."""
        self._keep(chain, backend, member)

    def _keep(self, chain: Chain, backend: Backend, member: Member | None) -> None:
        snapshot = Snapshot.take(chain, backend)
        self._fit.remember(self._number, snapshot)
        if self._fit.folder is not None:
            kept = KeptChain(snapshot, member)
            self._fit.folder.write_chain(self._name, self._fit.identity.key(), kept)


def open_journal(
    identity: Identity,
    sizes: FitSizes,
    follow: Follow,
    *,
    seed_given: bool,
    memory: FitMemory | None,
    path: str | os.PathLike[str] | None,
    every: int,
    warm_start: bool,
    pilot_sweeps: int,
) -> KeptJournal:
    """Return the journal of a fit, with what earlier fits kept.

    Parameters
    ----------
    identity : Identity
        Of the fit to come.
    sizes : FitSizes
        Of its data.
    follow : callable
        Is told of every sweep.
    seed_given : bool
        False takes the seed of an earlier fit in place of the one in ``identity``.
    memory : FitMemory or None
        Of an earlier fit.
    path : str, path-like or None
        Folder of checkpoints.
    every : int
        Sweeps between the checkpoints of a chain.
    warm_start : bool
        Whether to resume a fit that had fewer sweeps, and to keep snapshots in memory.
    pilot_sweeps : int
        Sweeps of pilot chains at most.

    Raises
    ------
    ValueError
        Where the memory is of other data or parameters; a `CheckpointError` where the folder is,
        or its files are damaged.
    """

    def same_pilots(old: Identity) -> bool:
        """Whether pilot chains have as many sweeps, and so choose the same."""
        return min(old.n_sweeps, pilot_sweeps) == min(identity.n_sweeps, pilot_sweeps)

    def may_grow(old: Identity) -> bool:
        """Whether chains may be resumed: not where they depend on what pilot chains choose."""
        fits = same_pilots(old) or not _chooses_weight(old)
        return old.n_sweeps <= identity.n_sweeps and fits

    choice, snapshots = None, {}
    if memory is not None:
        if not seed_given:
            identity = replace(identity, seed=memory.identity.seed)
        if found := differences(memory.identity.with_sweeps(identity.n_sweeps), identity):
            raise ValueError(
                "warm_start=True resumes with the same data and parameters, but "
                f"{'; '.join(found)}. Only n_sweeps may grow. Use warm_start=False to start again."
            )
        _check_memory(memory, sizes)
        ahead = memory.identity.n_sweeps > identity.n_sweeps
        if ahead or may_grow(memory.identity):
            snapshots = dict(enumerate(memory.snapshots))
        if ahead or same_pilots(memory.identity):
            choice = memory.choice
        path = None if ahead else path
    folder = None
    if path is not None:
        folder = CheckpointFolder(path)
        old, stored = folder.read_fit() or (None, None)
        if old is not None:
            if not seed_given and memory is None:
                identity = replace(identity, seed=old.seed)
            grown = warm_start and may_grow(old)
            known = old.with_sweeps(identity.n_sweeps) if grown else old
            if found := differences(known, identity):
                raise CheckpointError(
                    f"{folder.path} is of another fit: {'; '.join(found)}. {WHAT_TO_DO}"
                )
            folder.check_chains()
            if same_pilots(old):
                choice = stored or choice
        if old != identity:
            folder.write_fit(identity, choice)
    return KeptJournal(
        identity, sizes, follow,
        choice=choice, folder=folder, snapshots=snapshots, in_memory=warm_start, every=every,
    )  # fmt: skip


def _check_memory(memory: FitMemory, sizes: FitSizes) -> None:
    """Refuse snapshots that do not fit the data: a model may come from a file."""
    try:
        for number, snapshot in enumerate(memory.snapshots):
            check(Snapshot, snapshot, f"snapshot {number}", sizes.of_snapshot())
    except RecordError as error:
        raise ValueError(
            "warm_start=True resumes from the states that the model remembers, but these do not "
            f"fit the data: {error}. Use warm_start=False to start again."
        ) from error


def _chooses_weight(identity: Identity) -> bool:
    """Whether pilot chains choose the weight of the labels."""
    parameters = identity.parameters
    return parameters.get("classifier") == "joint" and parameters.get("label_weight") == "auto"
