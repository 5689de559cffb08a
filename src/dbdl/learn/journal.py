"""The journal of a fit: progress, checkpoints, warm start.

The base class `Journal` saves and resumes nothing, so that callers need not ask whether there is a
journal. `KeptJournal` saves the chains' last states, in memory or in a folder of checkpoints.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from dbdl.backends.base import Backend
from dbdl.learn.checkpoints import (
    WHAT_TO_DO,
    CheckpointFolder,
    Identity,
    KeptChain,
    differences,
)
from dbdl.learn.problem import Problem
from dbdl.model.record import Record
from dbdl.model.trust import Count, RecordError, Scope, check
from dbdl.sampler.checkpoint import CheckpointError
from dbdl.sampler.run import Chain, ChainJournal, Snapshot, SweepRecord

if TYPE_CHECKING:
    from dbdl.learn.chain import LearnedChain
    from dbdl.learn.members import LabelledAtoms, LearnedMember

#: Learns a member from the sweeps so far, as if the chain had ended; None if that is not possible.
MemberSoFar = Callable[[], "LearnedMember"] | None
#: Receives every sweep: the number of its chain, the record, and the member so far. True ends the
#: chain.
Follow = Callable[[int, SweepRecord, MemberSoFar], bool]
#: Receives the numbers of the chains that are still to come.
Expect = Callable[[Sequence[int]], None]


class MemberJournal(ChainJournal):
    """Follows one chain of an ensemble; the base class saves nothing.

    Attributes
    ----------
    member : LabelledAtoms or None
        The published atoms, if an earlier fit finished the chain.
    member_of : callable or None
        Learns the member from a chain that has ended.
    """

    member: LabelledAtoms | None = None
    member_of: Callable[[LearnedChain], LearnedMember] | None = None
    _ended: Callable[[Chain], LearnedChain] | None = None

    def __init__(self, follow: Callable[[SweepRecord, MemberSoFar], bool]) -> None:
        self._follow = follow

    def begin(self, ended: Callable[[Chain], LearnedChain]) -> None:
        """Take note of the function that publishes the chain, as if it had ended."""
        self._ended = ended

    def tell(self, record: SweepRecord, now: Callable[[], Chain] | None = None) -> bool:
        """Pass on the record of a sweep, and how to learn the member from the sweeps so far."""
        member_of, ended = self.member_of, self._ended
        if now is None or member_of is None or ended is None:
            return self._follow(record, None)
        return self._follow(record, lambda: member_of(ended(now())))

    def finish(self, chain: Chain, backend: Backend, member: LabelledAtoms) -> None:
        """Save the finished chain."""


def _tell_nobody(number: int, record: SweepRecord, member: MemberSoFar = None) -> bool:
    return False


def _expect_nothing(numbers: Sequence[int]) -> None:
    return None


class Journal:
    """Follows a fit. The base class passes sweeps on, and saves and resumes nothing.

    Attributes
    ----------
    is_ahead : bool
        Whether an earlier fit had more sweeps than this one asks for.
    """

    is_ahead: bool = False

    def __init__(self, follow: Follow = _tell_nobody, expect: Expect = _expect_nothing) -> None:
        self.follow, self._expect = follow, expect

    def expect(self, numbers: Sequence[int]) -> None:
        """Take note of the chains that are still to come; others that were announced are not."""
        self._expect(numbers)

    def chain(self, number: int, problem: Problem) -> MemberJournal:
        """Return the journal of one chain, which solves a problem of its own."""
        return MemberJournal(partial(self.follow, number))

    def memory(self) -> FitMemory | None:
        """Return the states from which a later fit may be resumed."""
        return None


def snapshot_scope(problem: Problem) -> Scope:
    """Return the sizes and the dtype of a chain's snapshots."""
    X: Any = problem.X
    n_appended = problem.n_classes if problem.labels.kind == "joint" else 0
    sizes = {
        "n_samples": len(problem.class_of_row),
        "n_features": X.shape[1] + n_appended,
        "n_classes": problem.n_classes,
    }
    return Scope(sizes, problem.dtype)


def atoms_scope(problem: Problem) -> Scope:
    """Return the sizes and the dtype of a chain's published atoms."""
    X: Any = problem.X
    n_labels = 0 if problem.labels.kind in ("none", "recoded") else problem.n_classes
    sizes = {"n_features": X.shape[1], "n_classes": problem.n_classes, "n_labels": n_labels}
    return Scope(sizes, problem.dtype)


@dataclass(frozen=True)
class FitMemory(Record):
    """The chains' last states, which a fit with ``warm_start`` saves with the model."""

    identity: Identity
    numbers: tuple[Count, ...]
    snapshots: tuple[Snapshot, ...]

    def faults(self) -> Iterator[str]:
        """Report states whose chains are unknown."""
        if len(self.numbers) != len(self.snapshots):
            yield f"there are {len(self.snapshots)} states, but {len(self.numbers)} numbers"


class KeptJournal(Journal):
    """A journal that saves the states of a fit, and resumes an earlier one.

    It is made by `open_journal`. ``identity`` has the seed of the earlier fit if there is one,
    ``snapshots`` are the last ones of its chains by number, ``is_ahead`` says whether it had more
    sweeps, and ``in_memory`` whether to save snapshots in memory too.
    """

    def __init__(
        self,
        problem: Problem,
        identity: Identity,
        follow: Follow,
        expect: Expect,
        folder: CheckpointFolder | None,
        snapshots: dict[int, Snapshot],
        in_memory: bool,
        every: int,
        is_ahead: bool = False,
    ) -> None:
        super().__init__(follow, expect)
        self.problem, self.identity = problem, identity
        self.folder, self.snapshots = folder, snapshots
        self.in_memory, self.every = in_memory, every
        self.is_ahead = is_ahead

    def chain(self, number: int, problem: Problem) -> MemberJournal:
        """Return the journal of one chain, with its saved state."""
        follow, snapshot = partial(self.follow, number), self.snapshots.get(number)
        if snapshot is not None:
            _check_snapshot(snapshot, number, problem)
        own = _KeptChainJournal(self, number, follow, snapshot)
        kept = own.read(problem)
        if kept is not None and (snapshot is None or snapshot.sweep <= kept.snapshot.sweep):
            own.remember(kept.snapshot)
            # A member with fewer sweeps comes from an earlier fit that asked for fewer.
            if kept.member is not None and kept.snapshot.sweep == problem.settings.n_sweeps:
                own.member = kept.member
                for record in kept.member.trace.records():
                    follow(record, None)
        return own

    def memory(self) -> FitMemory | None:
        """Return the snapshots of all chains, once they have ended."""
        if not self.in_memory:
            return None
        numbers = tuple(sorted(self.snapshots))
        return FitMemory(self.identity, numbers, tuple(self.snapshots[n] for n in numbers))


class _KeptChainJournal(MemberJournal):
    """Saves one chain in the folder and in the memory of its fit's journal."""

    def __init__(
        self,
        fit: KeptJournal,
        number: int,
        follow: Callable[[SweepRecord, MemberSoFar], bool],
        resumed: Snapshot | None,
    ) -> None:
        super().__init__(follow)
        self._fit, self._number, self.resumed = fit, number, resumed
        self._name = f"chain-{number:03d}"

    def read(self, problem: Problem) -> KeptChain | None:
        """Return the chain saved in the folder, which solves the given problem."""
        fit = self._fit
        if fit.folder is None:
            return None
        scopes = snapshot_scope(problem), atoms_scope(problem)
        kept = fit.folder.read_chain(self._name, fit.identity.key(), *scopes)
        n_sweeps = problem.settings.n_sweeps
        if kept is not None and kept.snapshot.sweep > n_sweeps:
            raise CheckpointError(
                f"{fit.folder.file(self._name)} has {kept.snapshot.sweep} sweeps, more than the "
                f"{n_sweeps} of this fit. {WHAT_TO_DO}"
            )
        return kept

    def remember(self, snapshot: Snapshot) -> None:
        """Resume from a snapshot, and save it in memory if requested."""
        self.resumed = snapshot
        if self._fit.in_memory:
            self._fit.snapshots[self._number] = snapshot

    def is_due(self, sweep: int) -> bool:
        """Whether a checkpoint should be written after this sweep."""
        return self._fit.folder is not None and sweep % self._fit.every == 0

    def keep(self, chain: Chain, backend: Backend, member: LabelledAtoms | None = None) -> None:
        """Save a snapshot of the chain and, once it has ended, its published atoms."""
        snapshot = Snapshot.take(chain, backend)
        self.remember(snapshot)
        if self._fit.folder is not None:
            kept = KeptChain(snapshot, member)
            self._fit.folder.write_chain(self._name, self._fit.identity.key(), kept)

    def finish(self, chain: Chain, backend: Backend, member: LabelledAtoms) -> None:
        """Save the last snapshot of the chain, and its published atoms."""
        self.keep(chain, backend, member)


def open_journal(
    problem: Problem,
    identity: Identity,
    follow: Follow,
    expect: Expect = _expect_nothing,
    *,
    seed_given: bool,
    memory: FitMemory | None,
    path: str | os.PathLike[str] | None,
    every: int,
    warm_start: bool,
) -> KeptJournal:
    """Return the journal of a fit, with the states that earlier fits saved.

    Parameters
    ----------
    problem : Problem
    identity : Identity
        Identity of the new fit.
    follow : callable
        Receives every sweep.
    expect : callable
        Receives the numbers of the chains that are still to come.
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

    Raises
    ------
    ValueError
        If the memory or the folder belongs to other data or parameters, or files are damaged; for
        the folder it is a `CheckpointError`.
    """
    folder, snapshots, is_ahead = None, {}, False
    if memory is not None:
        if not seed_given:
            identity = replace(identity, seed=memory.identity.seed)
        if found := differences(memory.identity.with_sweeps(identity.n_sweeps), identity):
            raise ValueError(
                "warm_start=True resumes with the same data and parameters, but "
                f"{'; '.join(found)}. Only n_sweeps may grow. Use warm_start=False to start again."
            )
        snapshots = dict(zip(memory.numbers, memory.snapshots, strict=True))
        is_ahead = memory.identity.n_sweeps > identity.n_sweeps
        path = None if is_ahead else path
    if path is not None:
        folder = CheckpointFolder(path)
        old = folder.read_fit()
        if old is not None:
            if not seed_given and memory is None:
                identity = replace(identity, seed=old.seed)
            grown = warm_start and old.n_sweeps <= identity.n_sweeps
            known = old.with_sweeps(identity.n_sweeps) if grown else old
            if found := differences(known, identity):
                raise CheckpointError(
                    f"{folder.path} belongs to another fit: {'; '.join(found)}. {WHAT_TO_DO}"
                )
            folder.check_chains()
        if old != identity:
            folder.write_fit(identity)
    problem = replace(problem, seed=identity.seed)
    return KeptJournal(
        problem, identity, follow, expect, folder, snapshots, warm_start, every, is_ahead
    )


def _check_snapshot(snapshot: Snapshot, number: int, problem: Problem) -> None:
    """Refuse a snapshot that does not fit the data; the model may come from a file."""
    try:
        check(Snapshot, snapshot, f"snapshot {number}", snapshot_scope(problem))
    except RecordError as error:
        raise ValueError(
            "warm_start=True resumes from the states saved with the model, but these do not "
            f"fit the data: {error}. Use warm_start=False to start again."
        ) from error
