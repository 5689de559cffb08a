"""Going on with a fit: what is kept of it, in memory or in a folder of checkpoints.

A folder holds ``fit.npz``, which says what the fit is of and what the held-out rows chose, and one
``chain-000.npz`` for each chain: its last snapshot and, once it is at its end, what it publishes.
Every file is written whole or not at all, so a process may be killed at any moment.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from dbdl._files import UNFINISHED, checked_path, reason
from dbdl._threads import block_slices
from dbdl.learn.ensemble import LABEL_WEIGHTS, PILOT_SWEEPS, Member
from dbdl.learn.held_out import Coder, HeldOutChoice
from dbdl.model.record import Record
from dbdl.model.statistics import SUM_ROWS
from dbdl.model.trust import Count, Number, RecordError, Scope, check
from dbdl.rows.lazy import LazyRows
from dbdl.sampler.checkpoint import (
    CheckpointError,
    check_archive,
    from_arrays,
    read_archive,
    to_arrays,
    write_archive,
)
from dbdl.sampler.run import Snapshot, SweepRecord

#: Parameters of an estimator that leave its result alone; ``random_state`` gives the seed.
NOT_DECIDING = frozenset(
    {"n_jobs", "verbose", "random_state", "checkpoint", "checkpoint_every", "warm_start"}
)
FIT_FILE = "fit.npz"
#: Seconds after which a file that was never finished is taken for that of a process killed.
STALE_SECONDS = 600
WHAT_TO_DO = "Use another path for checkpoint, or remove the folder to start again."


# -------------------------------------------------------------------------- what decides a result


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
        By name, those alone that decide the result.
    data : str
        `fingerprint` of rows and class numbers.
    seed : int
    """

    estimator: str
    parameters: dict[str, Any]
    data: str
    seed: Count

    def faults(self) -> Iterator[str]:
        """Say where a parameter is missing that decides whether chains may go on."""
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


def _as_float(value: Any) -> Any:
    """Return whole numbers as others: 1000 and 1e3 are one setting."""
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def deciding(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters that decide a result, as plain numbers and words."""
    chosen = {name: value for name, value in parameters.items() if name not in NOT_DECIDING}
    plain: dict[str, Any] = json.loads(json.dumps(chosen, default=_plain))
    return plain


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
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
class Choice(Record):
    """What the held-out rows chose: the number of the task, and the coder (None: no rows)."""

    task: Annotated[int, Number(least=0, most=len(LABEL_WEIGHTS) - 1)]
    held_out: HeldOutChoice | None


# ------------------------------------------------------------------------------------- the folder


@dataclass(frozen=True)
class KeptChain:
    """A chain's last snapshot and, at its end, what it publishes."""

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
        self._last_sweep: dict[int, int] = {}
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
                f"{self.path} is no folder of checkpoints: it holds {min(foreign)} and no "
                f"{FIT_FILE}. Use another path for checkpoint, one that is empty or not there yet."
            )

    def _remove_stale(self, names: Iterable[str]) -> None:
        """Remove what killed processes left half written; one that still writes is let be."""
        for name in names:
            if name.startswith((UNFINISHED, f".{FIT_FILE}.", ".chain-")):  # now, and once
                file = self.path / name
                if time.time() - file.stat().st_mtime > STALE_SECONDS:
                    file.unlink(missing_ok=True)

    def chain_path(self, number: int) -> Path:
        """File of a chain."""
        return self.path / f"chain-{number:03d}.npz"

    def read_fit(self) -> tuple[Identity, Choice | None] | None:
        """Return what the fit is of and what was chosen; None if nothing is there yet."""
        path = self.path / FIT_FILE
        if not path.exists():
            return None
        about, arrays = self._read(path, "fit")
        with _not_as_written(path):
            identity, choice = Identity(**about["identity"]), None
            check(Identity, identity, "identity")
            if about["chosen"] is not None:
                choice = _choice(about["chosen"], arrays)
                check(Choice, choice, "choice")
        return identity, choice

    def write_fit(self, identity: Identity, choice: Choice | None) -> None:
        """Write what the fit is of and what was chosen."""
        chosen: dict[str, Any] | None = None
        arrays: dict[str, NDArray[Any]] = {}
        if choice is not None:
            chosen = {"task": choice.task, "held_out": None}
            if choice.held_out is not None:
                # vars, not asdict, which would take the coders apart
                held_out = dict(vars(choice.held_out))
                names = [name for name in held_out if isinstance(held_out[name], np.ndarray)]
                arrays = {name: held_out.pop(name) for name in names}
                chosen["held_out"] = held_out
        about = {"kind": "fit", "identity": asdict(identity), "chosen": chosen}
        self._write(self.path / FIT_FILE, about, arrays, "")

    def check_chains(self) -> None:
        """Refuse damaged files of chains at once, not when their turn comes."""
        for path in sorted(self.path.glob("chain-*.npz")):
            with _what_to_do():
                check_archive(path)

    def read_chain(self, number: int, key: str, fit: FitSizes | None = None) -> KeptChain | None:
        """Return what is kept of a chain of the fit with this key; None if nothing is."""
        path = self.chain_path(number)
        if not path.exists():
            return None
        about, arrays = self._read(path, "chain")
        if (about.get("fit"), about.get("number")) != (key, number):
            raise CheckpointError(f"{path} belongs to another fit or chain. {WHAT_TO_DO}")
        with _not_as_written(path):
            own = (None, None) if fit is None else (fit.of_snapshots(), fit.of_members())
            snapshot = from_arrays(Snapshot, arrays, "snapshot.", own[0])
            member = from_arrays(Member, arrays, "member.", own[1]) if about["finished"] else None
        self._last_sweep[number] = snapshot.sweep
        return KeptChain(snapshot, member)

    def write_chain(self, number: int, key: str, kept: KeptChain) -> None:
        """Write the last snapshot of a chain and, at its end, what it publishes."""
        about = {"kind": "chain", "fit": key, "number": number, "finished": False}
        arrays = to_arrays(kept.snapshot, "snapshot.")
        if kept.member is not None:
            about["finished"] = True
            arrays |= to_arrays(kept.member, "member.")
        sweep = self._last_sweep.get(number)
        last = "no checkpoint of this chain was written before"
        if sweep is not None:
            last = f"the last good checkpoint, after sweep {sweep}, is still there"
        self._write(
            self.chain_path(number), about, arrays, f" ({kept.snapshot.sweep} sweeps done; {last})"
        )
        self._last_sweep[number] = kept.snapshot.sweep

    def _read(self, path: Path, kind: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        with _what_to_do():
            about, arrays = read_archive(path)
        if about.get("kind") != kind:
            raise CheckpointError(f"{path} is the file of a {about.get('kind')}. {WHAT_TO_DO}")
        if about.get("dbdl") != _own_version():
            raise CheckpointError(
                f"{path} was written by dbdl {about.get('dbdl')}, this is dbdl {_own_version()}: a "
                f"chain goes on only with the version that it began with. {WHAT_TO_DO}"
            )
        return about, arrays

    def _write(
        self, path: Path, about: dict[str, Any], arrays: dict[str, NDArray[Any]], where: str
    ) -> None:
        try:
            write_archive(path, {"dbdl": _own_version(), **about}, arrays)
        except OSError as error:
            raise CheckpointError(
                f"cannot write the checkpoint {path}: {reason(error)}{where}. What is in the "
                "folder is whole: make room, or make it writable, and call fit again to go on."
            ) from error


def _choice(chosen: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Choice:
    held_out = chosen["held_out"]
    if held_out is not None:
        coders = tuple(Coder(*coder) for coder in held_out["coders"])
        held_out = HeldOutChoice(**{**held_out, **arrays, "coders": coders})
    return Choice(chosen["task"], held_out)


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


# --------------------------------------------------------------------------------------- keeping


@dataclass(frozen=True)
class FitMemory(Record):
    """What a fit with ``warm_start`` remembers of itself: the chains' last states."""

    identity: Identity
    choice: Choice | None
    snapshots: tuple[Snapshot, ...]


@dataclass(frozen=True)
class FitSizes:
    """Sizes of a fit, which what is kept of its chains has to have.

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
    def of(cls, X: Any, class_of_row: NDArray[np.int64], parameters: Mapping[str, Any]) -> FitSizes:
        """Sizes of a fit on rows with these parameters."""
        n_classes, kind = int(class_of_row.max()) + 1, parameters.get("classifier")
        n_labels = 0 if kind is None else n_classes
        n_appended = n_classes if kind == "joint" else 0
        n_samples, n_features = X.shape
        dtype = np.dtype(X.dtype)
        return cls(n_samples, n_features, n_classes, dtype, n_labels, n_appended)

    def of_snapshots(self) -> Scope:
        """Return what the snapshots of chains have to fit."""
        sizes = {
            "n_samples": self.n_samples,
            "n_features": self.n_features + self.n_appended,
            "n_classes": self.n_classes,
        }
        return Scope(sizes, self.dtype)

    def of_members(self) -> Scope:
        """Return what published chains have to fit."""
        sizes = {
            "n_features": self.n_features,
            "n_classes": self.n_classes,
            "n_labels": self.n_labels,
        }
        return Scope(sizes, self.dtype)


@dataclass
class Keeper:
    """Keeps what a fit needs to go on, and knows what an earlier one kept.

    Attributes
    ----------
    identity : Identity
        Its seed is that of the earlier fit where there is one.
    choice : Choice or None
    every : int
        Sweeps between the checkpoints of a chain.
    folder : CheckpointFolder or None
    snapshots : dict of int to Snapshot
        Last ones of the chains.
    in_memory : bool
        Whether to keep snapshots there.
    sizes : FitSizes
    """

    identity: Identity
    choice: Choice | None
    every: int
    folder: CheckpointFolder | None
    snapshots: dict[int, Snapshot]
    in_memory: bool
    sizes: FitSizes

    @property
    def is_ahead(self) -> bool:
        """Whether the earlier fit had more sweeps than this one asks for."""
        return any(kept.sweep > self.identity.n_sweeps for kept in self.snapshots.values())

    def keep_choice(self, choice: Choice) -> None:
        """Keep what the held-out rows chose."""
        self.choice = choice
        if self.folder is not None:
            self.folder.write_fit(self.identity, choice)

    def chain(self, number: int) -> ChainKeeper:
        """Return the keeper of one chain, with what is kept of it."""
        kept = None
        if self.folder is not None:
            kept = self.folder.read_chain(number, self.identity.key(), self.sizes)
        snapshot = self.snapshots.get(number)
        if kept is None or (snapshot is not None and snapshot.sweep > kept.snapshot.sweep):
            return ChainKeeper(self, number, snapshot, None)
        if kept.snapshot.sweep > self.identity.n_sweeps:
            raise CheckpointError(
                f"{self.folder.chain_path(number)} is of {kept.snapshot.sweep} sweeps, more than "  # type: ignore[union-attr]
                f"the {self.identity.n_sweeps} of the fit. {WHAT_TO_DO}"
            )
        self.remember(number, kept.snapshot)
        # A member of fewer sweeps was published before the fit was asked to go on.
        ended = kept.snapshot.sweep == self.identity.n_sweeps
        return ChainKeeper(self, number, kept.snapshot, kept.member if ended else None)

    def remember(self, number: int, snapshot: Snapshot) -> None:
        """Keep a chain's last snapshot in memory, where that is asked for."""
        if self.in_memory:
            self.snapshots[number] = snapshot

    def memory(self) -> FitMemory:
        """Return what to remember once every chain is at its end."""
        ordered = tuple(self.snapshots[number] for number in sorted(self.snapshots))
        return FitMemory(self.identity, self.choice, ordered)


@dataclass(frozen=True)
class ChainKeeper:
    """Keeps one chain.

    Attributes
    ----------
    last : Snapshot or None
        Where to go on.
    member : Member or None
        What the chain publishes, if it is at its end.
    """

    keeper: Keeper
    number: int
    last: Snapshot | None
    member: Member | None

    @property
    def arguments(self) -> dict[str, Any]:
        """What `dbdl.learn.chain.learn_chain` needs to go on, and to keep snapshots."""
        to_folder = self.keeper.folder is not None
        return {
            "resume": self.last,
            "on_snapshot": self.keep if to_folder else None,
            "snapshot_every": self.keeper.every,
        }

    def finished(self, on_sweep: Callable[[SweepRecord], None] | None) -> Member | None:
        """Return what the chain publishes if it is at its end, once its sweeps were told."""
        if self.member is not None and on_sweep is not None:
            for record in self.member.trace.records():
                on_sweep(record)
        return self.member

    def keep(self, snapshot: Snapshot, member: Member | None = None) -> None:
        """Keep a snapshot and, at the end of the chain, what it publishes."""
        self.keeper.remember(self.number, snapshot)
        if (folder := self.keeper.folder) is not None:
            kept = KeptChain(snapshot, member)
            folder.write_chain(self.number, self.keeper.identity.key(), kept)


def open_keeper(
    identity: Identity,
    sizes: FitSizes,
    *,
    seed_given: bool,
    memory: FitMemory | None,
    path: str | os.PathLike[str] | None,
    every: int,
    warm_start: bool,
) -> Keeper:
    """Return the keeper of a fit, with what earlier ones kept.

    Parameters
    ----------
    identity : Identity
        Of the fit to come.
    sizes : FitSizes
        Of its data.
    seed_given : bool
        False takes the seed of an earlier fit in place of the one in ``identity``.
    memory : FitMemory or None
        Of an earlier fit.
    path : str, path-like or None
        Folder of checkpoints.
    every : int
        Sweeps between the checkpoints of a chain.
    warm_start : bool
        Whether to go on with a fit that had fewer sweeps, and to keep snapshots in memory.

    Raises
    ------
    ValueError
        Where the memory is of other data or parameters; a `CheckpointError` where the folder is,
        or its files are damaged.
    """
    choice, snapshots = None, {}
    if memory is not None:
        identity = _same_seed(identity, memory.identity, seed_given)
        if found := differences(_with_sweeps(memory.identity, identity), identity):
            raise ValueError(
                "warm_start=True goes on with the same data and parameters, but "
                f"{'; '.join(found)}. Only n_sweeps may grow. Use warm_start=False to start again."
            )
        ahead = memory.identity.n_sweeps > identity.n_sweeps
        _check_memory(memory, sizes)
        if ahead or _may_grow(memory.identity, identity):
            snapshots = dict(enumerate(memory.snapshots))
        if ahead or _same_pilots(memory.identity, identity):
            choice = _among_tasks(memory.choice, identity)
        if ahead:
            return Keeper(identity, choice, every, None, snapshots, warm_start, sizes)
    if path is None:
        return Keeper(identity, choice, every, None, snapshots, warm_start, sizes)
    folder = CheckpointFolder(path)
    stored = folder.read_fit()
    if stored is None:
        folder.write_fit(identity, choice)
        return Keeper(identity, choice, every, folder, snapshots, warm_start, sizes)
    old, stored_choice = stored
    identity = _same_seed(identity, old, seed_given or memory is not None)
    grown = warm_start and _may_grow(old, identity)
    if found := differences(_with_sweeps(old, identity) if grown else old, identity):
        raise CheckpointError(f"{folder.path} is of another fit: {'; '.join(found)}. {WHAT_TO_DO}")
    folder.check_chains()
    if _same_pilots(old, identity):
        choice = _among_tasks(stored_choice, identity) or choice
    if old != identity:
        folder.write_fit(identity, choice)
    return Keeper(identity, choice, every, folder, snapshots, warm_start, sizes)


def _check_memory(memory: FitMemory, sizes: FitSizes) -> None:
    """Refuse snapshots that do not fit the data: a model may come from a file."""
    try:
        for number, snapshot in enumerate(memory.snapshots):
            check(Snapshot, snapshot, f"snapshot {number}", sizes.of_snapshots())
    except RecordError as error:
        raise ValueError(
            "warm_start=True goes on from the states that the model remembers, but these do not "
            f"fit the data: {error}. Use warm_start=False to start again."
        ) from error


def _same_seed(new: Identity, old: Identity, seed_given: bool) -> Identity:
    return new if seed_given else replace(new, seed=old.seed)


def _with_sweeps(old: Identity, new: Identity) -> Identity:
    return replace(old, parameters={**old.parameters, "n_sweeps": new.parameters["n_sweeps"]})


def _same_pilots(old: Identity, new: Identity) -> bool:
    """Whether pilot chains have as many sweeps, and so choose the same."""
    return min(old.n_sweeps, PILOT_SWEEPS) == min(new.n_sweeps, PILOT_SWEEPS)


def _may_grow(old: Identity, new: Identity) -> bool:
    """Whether chains may go on. They may not where they depend on what pilot chains choose."""
    return old.n_sweeps <= new.n_sweeps and (not _chooses_weight(old) or _same_pilots(old, new))


def _chooses_weight(identity: Identity) -> bool:
    """Whether the weight of the labels is chosen: the task by its number."""
    parameters = identity.parameters
    return parameters.get("classifier") == "joint" and parameters.get("label_weight") == "auto"


def _among_tasks(choice: Choice | None, identity: Identity) -> Choice | None:
    """Return the choice if it is of a task that there is."""
    n_tasks = len(LABEL_WEIGHTS) if _chooses_weight(identity) else 1
    return choice if choice is not None and choice.task < n_tasks else None
