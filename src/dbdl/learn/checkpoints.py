"""The files of a fit: its identity, and the chains' last states.

A folder of checkpoints contains ``fit.npz``, with the identity of the fit, and one
``chain-000.npz`` per chain, with its last snapshot and, once it has ended, its atoms. Views and
choices are computed again when a fit is resumed. Every file is written completely or not at all, so
a process may be killed at any moment.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dbdl._files import checked_path, reason, remove_stale
from dbdl._threads import block_slices
from dbdl.coding import Coder
from dbdl.learn.problem import Problem
from dbdl.model.record import Record
from dbdl.model.smooth_atoms import SmoothAtoms
from dbdl.model.statistics import SUM_ROWS, Weights
from dbdl.model.trust import Count, Scope, check
from dbdl.rows.lazy import LazyRows
from dbdl.sampler.checkpoint import (
    CheckpointError,
    check_archive,
    from_arrays,
    read_archive,
    to_arrays,
    write_archive,
)
from dbdl.sampler.run import Snapshot
from dbdl.views import KernelView, View

if TYPE_CHECKING:
    from dbdl.learn.members import LabelledAtoms

#: Parameters of an estimator that do not change its result; ``random_state`` gives the seed, and
#: ``class_weight`` is part of the weights of the rows.
NOT_DECIDING = frozenset(
    {
        "n_jobs", "verbose", "random_state", "checkpoint", "checkpoint_every", "warm_start",
        "class_weight", "sparse_output",
    }
)  # fmt: skip
FIT_FILE = "fit.npz"
#: Arrays of more values than this are written to the file of a fit as a digest.
LARGEST_SHOWN = 100
#: Seconds after which an unfinished file is assumed to belong to a killed process.
STALE_SECONDS = 600
WHAT_TO_DO = "Use another path for checkpoint, or remove the folder to start again."


# ------------------------------------------------------------------------------------- identity


def fingerprint(X: Any, class_of_row: NDArray[np.int64], sample_weight: Weights = None) -> str:
    """Digest of rows (n_samples, n_features), their class indices and weights (n_samples,).

    Slices of X must be arrays; the rows need not be in memory all at once.
    """
    blocks = block_slices(len(class_of_row), SUM_ROWS)
    classes = [class_of_row[rows] for rows in blocks]
    weights = b"" if sample_weight is None else sample_weight.tobytes()
    if isinstance(X, LazyRows):
        return join_fingerprints([*X.each_block(block_fingerprint, blocks, classes), weights])
    parts = [block_fingerprint(X[rows], own) for rows, own in zip(blocks, classes, strict=True)]
    return join_fingerprints([*parts, weights])


def block_fingerprint(rows: NDArray[Any], class_of_row: NDArray[np.int64]) -> bytes:
    """Digest of one block of `dbdl.model.statistics.SUM_ROWS` rows."""
    rows = np.ascontiguousarray(rows)
    total = hashlib.blake2b(f"{rows.dtype.str} {rows.shape}".encode(), digest_size=32)
    total.update(rows.data)
    total.update(np.ascontiguousarray(class_of_row, dtype=np.int64).data)
    return total.digest()


def join_fingerprints(blocks: Iterable[bytes]) -> str:
    """Digest of all rows from the digests of their blocks, in order, and the bytes of weights."""
    return hashlib.blake2b(b"".join(blocks), digest_size=32).hexdigest()


@dataclass(frozen=True)
class Identity(Record):
    """Everything that determines the result of a fit."""

    estimator: str  # name of its class
    parameters: dict[str, Any]  # those that change the result
    data: str  # `fingerprint` of rows, class indices and weights
    seed: Count

    @classmethod
    def of(cls, estimator: str, parameters: Mapping[str, Any], problem: Problem) -> Identity:
        """Identity of a fit of a problem."""
        chosen = {name: value for name, value in parameters.items() if name not in NOT_DECIDING}
        plain = json.loads(json.dumps(chosen, default=_plain))
        data = fingerprint(problem.X, problem.class_of_row, problem.sample_weight)
        return cls(estimator, plain, data, problem.seed)

    def faults(self) -> Iterator[str]:
        """Report a missing number of sweeps, which decides whether chains may be resumed."""
        if type(self.parameters.get("n_sweeps")) is not int:
            yield f"n_sweeps is {self.parameters.get('n_sweeps')!r}, expected a whole number"

    @property
    def n_sweeps(self) -> int:
        """Sweeps of each chain."""
        return int(self.parameters["n_sweeps"])

    def key(self) -> str:
        """Digest that names the chains; the number of sweeps is left out, since it may grow."""
        own = {name: _as_float(value) for name, value in self.parameters.items()}
        own["n_sweeps"] = None
        text = json.dumps([self.estimator, own, self.data, self.seed], sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def with_sweeps(self, n_sweeps: int) -> Identity:
        """Return the identity of the same fit with another number of sweeps."""
        return replace(self, parameters={**self.parameters, "n_sweeps": n_sweeps})


def _as_float(value: Any) -> Any:
    """Return whole numbers as floats: 1000 and 1e3 are the same setting."""
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        if value.size <= LARGEST_SHOWN:
            return value.tolist()
        return [value.dtype.str, value.shape, hashlib.blake2b(value.tobytes()).hexdigest()]
    if isinstance(value, Coder | View | KernelView | SmoothAtoms):
        return [type(value).__name__, value.__getstate__()]
    raise ValueError(
        f"a fit with {value!r} cannot be resumed, so checkpoint and warm_start do not go with it. "
        "Expected parameters made of numbers and strings, such as views by name."
    )


def differences(old: Identity, new: Identity) -> list[str]:
    """Say how two fits differ, as parts of a sentence."""
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
        found.append(
            "X, y or the weights are other data (values, order, type or scaling of the rows)"
        )
    return found


# ------------------------------------------------------------------------------------- the folder


@dataclass(frozen=True)
class KeptChain:
    """A chain's last snapshot and, once it has ended, its published atoms."""

    snapshot: Snapshot
    member: LabelledAtoms | None = None


class CheckpointFolder:
    """The files of one fit, in a folder that is created if it does not exist.

    Raises `CheckpointError` if the folder cannot be created, or contains something else.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = checked_path(path)
        self._last_sweep: dict[str, int] = {}
        if self.path.exists() and not self.path.is_dir():
            raise CheckpointError(f"checkpoint={str(path)!r} is a file, expected a folder.")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            names = [file.name for file in self.path.iterdir()]
            remove_stale(self.path, STALE_SECONDS)
        except OSError as error:
            raise CheckpointError(
                f"the folder checkpoint={str(path)!r} cannot be used: {reason(error)}. Use another "
                "path."
            ) from error
        foreign = [name for name in names if not name.startswith(".")]
        if foreign and FIT_FILE not in names:
            raise CheckpointError(
                f"{self.path} is not a folder of checkpoints: it holds {min(foreign)} and no "
                f"{FIT_FILE}. Use an empty folder for checkpoint, or a path that does not exist."
            )

    def file(self, name: str) -> Path:
        """File of a chain."""
        return self.path / f"{name}.npz"

    def read_fit(self) -> Identity | None:
        """Return the fit's identity, or None if there is no file yet."""
        path = self.path / FIT_FILE
        if not path.exists():
            return None
        about, _ = self._read(path, "fit")
        with _not_as_written(path):
            identity = Identity(**about["identity"])
            check(Identity, identity, "identity")
        return identity

    def write_fit(self, identity: Identity) -> None:
        """Write the fit's identity."""
        about = {"kind": "fit", "identity": asdict(identity)}
        self._write(self.path / FIT_FILE, json.loads(json.dumps(about, default=_plain)), {}, "")

    def check_chains(self) -> None:
        """Refuse damaged files of chains before any work is done."""
        for path in sorted(self.path.glob("chain-*.npz")):
            with _what_to_do():
                check_archive(path)

    def read_chain(self, name: str, key: str, snapshots: Scope, members: Scope) -> KeptChain | None:
        """Return the saved chain of the fit with this key, or None if there is none."""
        from dbdl.learn.members import LabelledAtoms

        path = self.file(name)
        if not path.exists():
            return None
        about, arrays = self._read(path, "chain")
        if (about.get("fit"), about.get("name")) != (key, name):
            raise CheckpointError(f"{path} belongs to another fit or chain. {WHAT_TO_DO}")
        with _not_as_written(path):
            snapshot = from_arrays(Snapshot, arrays, "snapshot.", snapshots)
            member = (
                from_arrays(LabelledAtoms, arrays, "member.", members) if about["ended"] else None
            )
        self._last_sweep[name] = snapshot.sweep
        return KeptChain(snapshot, member)

    def write_chain(self, name: str, key: str, kept: KeptChain) -> None:
        """Write the last snapshot of a chain and, once it has ended, its atoms."""
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


@contextmanager
def _not_as_written(path: Path) -> Iterator[None]:
    """Name the file whose contents are not those that dbdl writes."""
    try:
        yield
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        fault = f"it has no {error}" if isinstance(error, KeyError) else error
        raise CheckpointError(
            f"{path} is damaged or was not written by dbdl: {fault}. {WHAT_TO_DO}"
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
