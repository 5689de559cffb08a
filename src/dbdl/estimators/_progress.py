"""Progress of a fit: scikit-learn's callbacks where it has them, and lines for ``verbose``."""

from __future__ import annotations

import threading
from typing import Any

from dbdl.sampler.run import SweepRecord

try:  # scikit-learn 1.9 and later
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # without it there is nothing to support

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stand-in for scikit-learn before 1.9."""

    def with_callbacks(method: Any) -> Any:
        """Stand-in for scikit-learn before 1.9."""
        return method


__all__ = ["CallbackSupportMixin", "FitProgress", "with_callbacks"]


class FitProgress:
    """Follows the sweeps of several chains that may run side by side.

    With scikit-learn 1.9 or later a fit is a task with one subtask for each chain, which has one
    for each sweep. The lock is there since callbacks need not expect two threads.
    """

    def __init__(self, estimator: Any, n_chains: int, n_sweeps: int, verbose: int) -> None:
        self._estimator = estimator
        self._n_chains, self._n_sweeps = n_chains, n_sweeps
        self._every = max(1, n_sweeps // 5) if verbose == 1 else (1 if verbose else 0)
        self._done = [0] * n_chains
        self._lock = threading.Lock()
        self._task: Any = None
        self._chain_tasks: list[Any] = []
        if hasattr(estimator, "_skl_callbacks"):
            self._task = estimator._init_callback_context(
                max_subtasks=n_chains, sequential_subtasks=False
            )
            self._task.call_on_fit_task_begin(estimator=estimator)
            self._chain_tasks = [
                self._task.subcontext(task_name="chain", task_id=c, max_subtasks=n_sweeps)
                for c in range(n_chains)
            ]

    def __call__(self, chain: int, record: SweepRecord) -> None:
        """Take note of one sweep."""
        with self._lock:
            self._done[chain] += 1
            if self._task is not None:
                self._tell_callbacks(chain, record)
            done = self._done[chain]
            if self._every and (done % self._every == 0 or done == self._n_sweeps):
                print(
                    f"chain {chain + 1}/{self._n_chains}  sweep {done:>3}/{self._n_sweeps}  "
                    f"{record.n_atoms} atoms  {record.mean_nonzero:.1f} used a row  "
                    f"noise precision {record.noise_precision:.3g}  "
                    f"log joint {record.log_joint:.6g}",
                    flush=True,
                )

    def _tell_callbacks(self, chain: int, record: SweepRecord) -> None:
        task = self._chain_tasks[chain]
        if self._done[chain] == 1:
            task.call_on_fit_task_begin(estimator=self._estimator)
        sweep = task.subcontext(task_name="sweep")
        sweep.call_on_fit_task_begin(estimator=self._estimator)
        sweep.call_on_fit_task_end(estimator=self._estimator, metadata=record._asdict())
        if self._done[chain] == self._n_sweeps:
            task.call_on_fit_task_end(estimator=self._estimator)

    def end(self) -> None:
        """Close the task of the whole fit."""
        if self._task is not None:
            self._task.call_on_fit_task_end(estimator=self._estimator)
