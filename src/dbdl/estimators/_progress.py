"""Progress of a fit: scikit-learn's callbacks if it has them, and lines for ``verbose``."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from dbdl.learn.journal import MemberSoFar
from dbdl.learn.members import LearnedMember
from dbdl.sampler.run import SweepRecord

try:  # scikit-learn 1.9 and later
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stand-in for scikit-learn before 1.9."""

    def with_callbacks(method: Any) -> Any:
        """Stand-in for scikit-learn before 1.9."""
        return method


__all__ = ["CallbackSupportMixin", "FitProgress", "with_callbacks"]

Fitted = Callable[[LearnedMember], dict[str, Any]]


class _Progress:
    """Progress of one chain, and scikit-learn's task for it."""

    def __init__(self, title: str, n_sweeps: int, task: Any) -> None:
        self.title, self.n_sweeps, self.task = title, n_sweeps, task
        self.n_done, self.is_stopped = 0, False


class FitProgress:
    """Follows the sweeps of chains, which may run in parallel.

    With scikit-learn 1.9 or later a fit is a task with one subtask per chain, each with one subtask
    per sweep. The lock is needed because callbacks may not be thread-safe.

    Callbacks get the rows as they were given. At the end of a sweep, and of a chain, their
    ``fitted_estimator`` is made from this chain alone; at the end of the fit it is made from all
    chains. It is computed only for callbacks that ask for it. The context of a sweep has its
    `SweepRecord` as ``context.record``. (scikit-learn's ``metadata`` are for sample weights and the
    like, and scorers get them.) A callback that returns True at the end of a sweep ends the chain
    there.

    Parameters
    ----------
    estimator : estimator
    verbose : int
    X, y : array-like
        As passed to ``fit``.
    fitted : callable
        Returns the attributes of the estimator as if fit had ended with one member.
    """

    def __init__(self, estimator: Any, verbose: int, X: Any, y: Any, fitted: Fitted) -> None:
        self._estimator, self._verbose = estimator, verbose
        self._rows, self._fitted = {"estimator": estimator, "X": X, "y": y}, fitted
        self._lock = threading.Lock()
        self._chains: dict[int, _Progress] = {}
        self._task: Any = None

    def begin(self, sweeps_of_chains: Mapping[int, int]) -> None:
        """Announce the chains by their numbers, each with its number of sweeps."""
        n_chains = len(sweeps_of_chains)
        if hasattr(self._estimator, "_skl_callbacks"):
            self._task = self._estimator._init_callback_context(
                max_subtasks=n_chains, sequential_subtasks=False
            )
            self._task.call_on_fit_task_begin(**self._rows)
        for number, n_sweeps in sweeps_of_chains.items():
            self._announce(number, n_chains, n_sweeps)

    def _announce(self, number: int, n_chains: int, n_sweeps: int) -> None:
        task = None
        if self._task is not None:
            task = self._task.subcontext(task_name="chain", task_id=number, max_subtasks=n_sweeps)
        self._chains[number] = _Progress(f"chain {number + 1}/{n_chains}", n_sweeps, task)

    def expect(self, numbers: Sequence[int]) -> None:
        """Count the chains that were announced as ended, if they have not begun and are not due."""
        with self._lock:
            for number, chain in self._chains.items():
                if chain.n_done == 0 and number not in numbers and chain.task is not None:
                    chain.task.call_on_fit_task_begin(**self._rows)
                    chain.task.call_on_fit_task_end(**self._rows)

    def tell(self, number: int, record: SweepRecord, member: MemberSoFar = None) -> bool:
        """Report one sweep of a chain; return whether a callback ends the chain."""
        with self._lock:
            chain = self._chains[number]
            if chain.is_stopped:  # while sweeps of an earlier fit were told
                return True
            chain.n_done += 1
            if chain.task is not None:
                chain.is_stopped = self._tell_callbacks(chain, record, member)
            ends = chain.is_stopped or chain.n_done == chain.n_sweeps
            every = max(1, chain.n_sweeps // 5) if self._verbose == 1 else 1
            if self._verbose and (chain.n_done % every == 0 or ends):
                print(
                    f"{chain.title}  sweep {chain.n_done:>3}/{chain.n_sweeps}  "
                    f"{record.n_atoms} atoms  {record.mean_nonzero:.1f} used per row  "
                    f"noise precision {record.noise_precision:.3g}  "
                    f"log joint {record.log_joint:.6g}",
                    flush=True,
                )
        return chain.is_stopped

    def _tell_callbacks(self, chain: _Progress, record: SweepRecord, member: MemberSoFar) -> bool:
        task, ended = chain.task, dict(self._rows)
        if member is not None:
            ended["reconstruction_attributes"] = cache(lambda: self._fitted(member()))
        if chain.n_done == 1:
            task.call_on_fit_task_begin(**self._rows)
        sweep = task.subcontext(task_name="sweep")
        sweep.record = record
        sweep.call_on_fit_task_begin(**self._rows)
        stop = bool(sweep.call_on_fit_task_end(**ended))
        if stop or chain.n_done == chain.n_sweeps:
            task.call_on_fit_task_end(**ended)
        return stop

    def end(self) -> None:
        """End the task of the whole fit, once the estimator is fitted."""
        if self._task is not None:
            self._task.call_on_fit_task_end(**self._rows, reconstruction_attributes={})
