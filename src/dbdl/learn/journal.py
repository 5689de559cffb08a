"""The journal of a fit: progress, checkpoints, warm start.

The base class `Journal` saves and resumes nothing, so that callers need not ask whether there is a
journal. `KeptJournal` saves the chains' last states, in memory or in a folder of checkpoints.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from dbdl.backends.base import Backend
from dbdl.learn.checkpoints import (
    WHAT_TO_DO,
    CheckpointFolder,
    Choice,
    Identity,
    KeptChain,
    differences,
)
from dbdl.learn.problem import Problem
from dbdl.model.record import Record
from dbdl.model.trust import RecordError, Scope, check
from dbdl.sampler.checkpoint import CheckpointError
from dbdl.sampler.run import Chain, ChainJournal, Snapshot, SweepRecord

if TYPE_CHECKING:
    from dbdl.learn.members import Member

#: Receives every sweep: "pilot" or "chain", its number, and the record.
Follow = Callable[[str, int, SweepRecord], None]


class MemberJournal(ChainJournal):
    """Follows one chain of an ensemble; the base class saves nothing.

    Attributes
    ----------
    member : Member or None
        The published chain, if an earlier fit finished it.
    """

    member: Member | None = None

    def __init__(self, follow: Callable[[SweepRecord], None]) -> None:
        self._follow = follow

    def tell(self, record: SweepRecord) -> None:
        """Pass on the record of a sweep."""
        self._follow(record)

    def finish(self, chain: Chain, backend: Backend, member: Member) -> None:
        """Save the finished chain."""


def _tell_nobody(kind: str, number: int, record: SweepRecord) -> None:
    pass


class Journal:
    """Follows a fit. The base class passes sweeps on, and saves and resumes nothing.

    Attributes
    ----------
    choice : Choice or None
        The choice of an earlier fit, if it is still valid.
    is_ahead : bool
        Whether an earlier fit had more sweeps than this one asks for.
    """

    choice: Choice | None = None
    is_ahead: bool = False

    def __init__(self, follow: Follow = _tell_nobody) -> None:
        self.follow = follow

    def keep_choice(self, choice: Choice) -> None:
        """Save the choice made on held-out rows."""

    def chain(self, number: int) -> MemberJournal:
        """Return the journal of one chain."""
        return MemberJournal(partial(self.follow, "chain", number))

    def pilot(self, number: int, n_rows: int) -> MemberJournal:
        """Return the journal of one pilot chain, which learns from ``n_rows`` rows."""
        return MemberJournal(partial(self.follow, "pilot", number))

    def memory(self) -> FitMemory | None:
        """Return the states from which a later fit may be resumed."""
        return None


def snapshot_scope(problem: Problem, n_rows: int | None = None) -> Scope:
    """Return the sizes and the dtype of a fit's snapshots, for all rows or for ``n_rows``."""
    X: Any = problem.X
    n_appended = problem.n_classes if problem.labels.kind == "joint" else 0
    sizes = {
        "n_samples": len(problem.class_of_row) if n_rows is None else n_rows,
        "n_features": X.shape[1] + n_appended,
        "n_classes": problem.n_classes,
    }
    return Scope(sizes, X.dtype)


def member_scope(problem: Problem) -> Scope:
    """Return the sizes and the dtype of a fit's published chains."""
    X: Any = problem.X
    n_labels = 0 if problem.labels.kind == "none" else problem.n_classes
    sizes = {"n_features": X.shape[1], "n_classes": problem.n_classes, "n_labels": n_labels}
    return Scope(sizes, X.dtype)


@dataclass(frozen=True)
class FitMemory(Record):
    """The chains' last states, which a fit with ``warm_start`` saves with the model."""

    identity: Identity
    choice: Choice | None
    snapshots: tuple[Snapshot, ...]


class KeptJournal(Journal):
    """A journal that saves what is needed to resume a fit, and resumes an earlier one.

    It is made by `open_journal`. ``identity`` has the seed of the earlier fit if there is one,
    ``snapshots`` are the last ones of its chains by number, and ``in_memory`` says whether to save
    snapshots in memory too.
    """

    def __init__(
        self,
        problem: Problem,
        identity: Identity,
        follow: Follow,
        choice: Choice | None,
        folder: CheckpointFolder | None,
        snapshots: dict[int, Snapshot],
        in_memory: bool,
        every: int,
    ) -> None:
        super().__init__(follow)
        self.problem, self.identity, self.choice = problem, identity, choice
        self.folder, self.snapshots = folder, snapshots
        self.in_memory, self.every = in_memory, every
        self.is_ahead = any(s.sweep > identity.n_sweeps for s in snapshots.values())

    def keep_choice(self, choice: Choice) -> None:
        """Save the choice made on held-out rows."""
        self.choice = choice
        if self.folder is not None:
            self.folder.write_fit(self.identity, choice)

    def chain(self, number: int) -> MemberJournal:
        """Return the journal of one chain, with its saved state."""
        follow, snapshot = partial(self.follow, "chain", number), self.snapshots.get(number)
        own = _KeptChainJournal(self, f"chain-{number:03d}", follow, number, snapshot)
        kept = own.read(None)
        if kept is not None and (snapshot is None or snapshot.sweep <= kept.snapshot.sweep):
            own.remember(kept.snapshot)
            # A member with fewer sweeps comes from an earlier fit that asked for fewer.
            if kept.member is not None and kept.snapshot.sweep == self.identity.n_sweeps:
                own.member = kept.member
                for record in kept.member.trace.records():
                    follow(record)
        return own

    def pilot(self, number: int, n_rows: int) -> MemberJournal:
        """Return the journal of a pilot chain on ``n_rows`` rows, with its saved state."""
        follow = partial(self.follow, "pilot", number)
        own = _KeptChainJournal(self, f"pilot-{number:03d}", follow, None, None)
        if (kept := own.read(n_rows)) is not None:
            own.resumed = kept.snapshot
        return own

    def memory(self) -> FitMemory | None:
        """Return the snapshots of all chains, once they have ended."""
        if not self.in_memory:
            return None
        ordered = tuple(self.snapshots[number] for number in sorted(self.snapshots))
        return FitMemory(self.identity, self.choice, ordered)


class _KeptChainJournal(MemberJournal):
    """Saves one chain in the folder and, if it has a number, in the memory of its fit's journal."""

    def __init__(
        self,
        fit: KeptJournal,
        name: str,
        follow: Callable[[SweepRecord], None],
        number: int | None,
        resumed: Snapshot | None,
    ) -> None:
        super().__init__(follow)
        self._fit, self._name, self._number, self.resumed = fit, name, number, resumed

    def read(self, n_rows: int | None) -> KeptChain | None:
        """Return the chain saved in the folder; it learns from all rows or from ``n_rows``."""
        fit = self._fit
        if fit.folder is None:
            return None
        scopes = snapshot_scope(fit.problem, n_rows), member_scope(fit.problem)
        kept = fit.folder.read_chain(self._name, fit.identity.key(), *scopes)
        if kept is not None and kept.snapshot.sweep > fit.identity.n_sweeps:
            raise CheckpointError(
                f"{fit.folder.file(self._name)} has {kept.snapshot.sweep} sweeps, more than the "
                f"{fit.identity.n_sweeps} of this fit. {WHAT_TO_DO}"
            )
        return kept

    def remember(self, snapshot: Snapshot) -> None:
        """Resume from a snapshot, and save it in memory if requested."""
        self.resumed = snapshot
        if self._fit.in_memory and self._number is not None:
            self._fit.snapshots[self._number] = snapshot

    def is_due(self, sweep: int) -> bool:
        """Whether a checkpoint should be written after this sweep."""
        return self._fit.folder is not None and sweep % self._fit.every == 0

    def keep(self, chain: Chain, backend: Backend, member: Member | None = None) -> None:
        """Save a snapshot of the chain and, once it has ended, the published member."""
        snapshot = Snapshot.take(chain, backend)
        self.remember(snapshot)
        if self._fit.folder is not None:
            kept = KeptChain(snapshot, member)
            self._fit.folder.write_chain(self._name, self._fit.identity.key(), kept)

    def finish(self, chain: Chain, backend: Backend, member: Member) -> None:
        """Save the last snapshot of the chain, and the published member."""
        self.keep(chain, backend, member)


def open_journal(
    problem: Problem,
    identity: Identity,
    follow: Follow,
    *,
    seed_given: bool,
    memory: FitMemory | None,
    path: str | os.PathLike[str] | None,
    every: int,
    warm_start: bool,
    pilot_sweeps: int,
) -> KeptJournal:
    """Return the journal of a fit, with the states that earlier fits saved.

    Parameters
    ----------
    problem : Problem
    identity : Identity
        Identity of the new fit.
    follow : callable
        Receives every sweep.
    seed_given : bool
        False replaces the seed in ``identity`` by that of an earlier fit.
    memory : FitMemory or None
        Memory of an earlier fit.
    path : str, path-like or None
        Folder of checkpoints.
    every : int
        Sweeps between the checkpoints of a chain.
    warm_start : bool
        Whether to resume a fit with fewer sweeps, and to save snapshots in memory.
    pilot_sweeps : int
        Most sweeps of a pilot chain.

    Raises
    ------
    ValueError
        If the memory or the folder belongs to other data or parameters, or files are damaged; for
        the folder it is a `CheckpointError`.
    """

    def same_pilots(old: Identity) -> bool:
        """Whether pilot chains have the same number of sweeps, and so make the same choice."""
        return min(old.n_sweeps, pilot_sweeps) == min(identity.n_sweeps, pilot_sweeps)

    def may_grow(old: Identity) -> bool:
        """Whether chains may be resumed: not if they depend on another choice of pilot chains."""
        chooses = old.parameters.get("classifier") == "joint"
        chooses = chooses and old.parameters.get("label_weight") == "auto"
        return old.n_sweeps <= identity.n_sweeps and (same_pilots(old) or not chooses)

    choice, folder, snapshots = None, None, {}
    if memory is not None:
        if not seed_given:
            identity = replace(identity, seed=memory.identity.seed)
        if found := differences(memory.identity.with_sweeps(identity.n_sweeps), identity):
            raise ValueError(
                "warm_start=True resumes with the same data and parameters, but "
                f"{'; '.join(found)}. Only n_sweeps may grow. Use warm_start=False to start again."
            )
        _check_memory(memory, problem)
        ahead = memory.identity.n_sweeps > identity.n_sweeps
        if ahead or may_grow(memory.identity):
            snapshots = dict(enumerate(memory.snapshots))
        if ahead or same_pilots(memory.identity):
            choice = memory.choice
        path = None if ahead else path
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
                    f"{folder.path} belongs to another fit: {'; '.join(found)}. {WHAT_TO_DO}"
                )
            folder.check_chains()
            if same_pilots(old):
                choice = stored or choice
        if old != identity:
            folder.write_fit(identity, choice)
    problem = replace(problem, seed=identity.seed)
    return KeptJournal(problem, identity, follow, choice, folder, snapshots, warm_start, every)


def _check_memory(memory: FitMemory, problem: Problem) -> None:
    """Refuse snapshots that do not fit the data; the model may come from a file."""
    try:
        for number, snapshot in enumerate(memory.snapshots):
            check(Snapshot, snapshot, f"snapshot {number}", snapshot_scope(problem))
    except RecordError as error:
        raise ValueError(
            "warm_start=True resumes from the states saved with the model, but these do not "
            f"fit the data: {error}. Use warm_start=False to start again."
        ) from error
