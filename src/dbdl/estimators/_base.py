"""Shared parts of the model's estimators: rows, settings, journals, coding and decoding."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix, hstack
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import (
    assert_all_finite,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
)

from dbdl._arrays import as_labels
from dbdl._threads import resolve_n_jobs, single_threaded_blas
from dbdl.backends import Backend, make_backend, make_engine
from dbdl.backends.crew import Crew
from dbdl.coding import Coder, candidates, lengths_for
from dbdl.estimators._lazy import by_blocks
from dbdl.estimators._progress import CallbackSupportMixin, FitProgress
from dbdl.estimators._rows import N_JOBS, RowEstimator, decode
from dbdl.learn.chain import ChainSettings
from dbdl.learn.journal import FitMemory, FitSizes, Identity, Journal, open_journal
from dbdl.learn.kernels import compile_kernels
from dbdl.learn.members import Member
from dbdl.learn.online import OnlineState, begin
from dbdl.learn.pilots import PILOT_SWEEPS
from dbdl.learn.problem import LabelSettings, Problem
from dbdl.model.settings import AT_LEAST_ONE, ModelSettings
from dbdl.model.trust import RecordError, Scope
from dbdl.rows.lazy import LazyRows, lazy_rows
from dbdl.rows.readers import is_dask

#: Packages whose lines are passed over when a warning names a line.
INSIDE = ("dbdl", "sklearn", "contextlib")

CHAIN_CONSTRAINTS: dict[str, list[Any]] = {
    "n_sweeps": [AT_LEAST_ONE],
    "n_initial_atoms": [None, Interval(Integral, 2, None, closed="left")],
    "coder": [str, Coder, "array-like"],
    "n_nonzero": [StrOptions({"auto"}), AT_LEAST_ONE],
    "model": [None, ModelSettings],
    "forgetting": [Interval(Real, 0, 1, closed="right")],
    "normalize": ["boolean"],
    "device": [str],
    "checkpoint": [None, str, os.PathLike],
    "checkpoint_every": [AT_LEAST_ONE],
    "warm_start": ["boolean"],
    "n_jobs": N_JOBS,
    "random_state": ["random_state"],
    "verbose": ["verbose"],
}


class DictionaryEstimator(
    CallbackSupportMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, RowEstimator
):
    """Base of the estimators: everything but what is learned from labels."""

    _learned: ClassVar[tuple[str, ...]] = ("chains_", "online_", "_memory")

    model: ModelSettings | None
    chains_: list[Member]
    online_: OnlineState
    coder_: Coder
    _memory: FitMemory

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``model__noise_precision=1e4`` sets one of the model.

        Parameters
        ----------
        **params : dict
            Parameters of the estimator or, after ``model__``, of its model.

        Returns
        -------
        self : estimator
        """
        if self.model is None and any(name.startswith("model__") for name in params):
            self.model = ModelSettings()
        return super().set_params(**params)

    def _check_fitted(self, scope: Scope) -> None:
        """Check the chains, and what is remembered to resume them."""
        super()._check_fitted(scope)
        if (model := vars(self).get("model")) is not None:
            model._validate_params()
        self._check_attributes(scope, "chains_", "coder_")
        if not self.chains_:
            raise RecordError("chains_ is empty")
        dtypes = {chain.atoms.dtype for chain in self.chains_}
        if len(dtypes) > 1:
            raise RecordError(f"chains_ have atoms of several dtypes: {sorted(map(str, dtypes))}")
        if "online_" in vars(self):
            same_rows = Scope({"n_features": self.n_features_in_}, dtypes.pop())
            self._check_attributes(same_rows, "online_")
            if len(self.online_.chains) != len(self.chains_):
                raise RecordError(
                    f"online_ has {len(self.online_.chains)} chains, chains_ {len(self.chains_)}"
                )
        if "_memory" in vars(self):
            self._check_attributes(Scope(), "_memory")
        self._publish(self.chains_)

    # ------------------------------------------------------------------------------------- rows

    def _rows(self, X: ArrayLike, *, reset: bool) -> Any:
        """Rows as `RowEstimator` has them, or rows that are read in parts (to learn from)."""
        lazy = lazy_rows(X, normalize=self.normalize) if reset else None
        return super()._rows(X, reset=reset) if lazy is None else self._note(lazy)

    def _labelled_rows(
        self, X: ArrayLike, y: ArrayLike, *, reset: bool = True
    ) -> tuple[Any, NDArray[Any]]:
        """Rows to learn from, as `_rows`, and their labels."""
        lazy = lazy_rows(X, normalize=self.normalize) if reset else None
        if lazy is None:
            return super()._labelled_rows(X, y, reset=reset)
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None: pass "
                "the labels of the rows"
            )
        known = as_labels(y.compute() if is_dask(y) else y)  # type: ignore[union-attr]
        labels = column_or_1d(known, warn=True)
        assert_all_finite(labels, input_name="y")
        check_consistent_length(lazy, labels)
        return self._note(lazy), labels

    def _note(self, lazy: LazyRows) -> LazyRows:
        """Take note of the features of rows that are read in parts."""
        self.n_features_in_ = lazy.shape[1]
        self.__dict__.pop("feature_names_in_", None)
        if (names := getattr(lazy.reader, "columns", None)) is not None:
            self.feature_names_in_ = np.asarray(names, dtype=object)
        return lazy

    def _check_not_all_zero(self, X: Any) -> None:
        if isinstance(X, np.ndarray):  # rows that are read in parts: found out as they are read
            super()._check_not_all_zero(X)

    # ------------------------------------------------------- the problem, the crew, the journal

    def _model_settings(self) -> dict[str, Any]:
        model = ModelSettings() if self.model is None else self.model
        model._validate_params()
        settings: dict[str, Any] = model.get_params()
        return settings

    def _chain_settings(self) -> ChainSettings:
        return ChainSettings(
            n_sweeps=self.n_sweeps, n_initial_atoms=self.n_initial_atoms, **self._model_settings()
        )

    def _problem(
        self,
        X: Any,
        class_of_row: NDArray[np.int64],
        n_classes: int,
        labels: LabelSettings,
        n_chains: int = 1,
        seed: int | None = None,
    ) -> tuple[Problem, Crew]:
        """What is learned from rows, and who does it; compiles the kernels first."""
        settings, seed = self._chain_settings(), self._seed() if seed is None else seed
        engine = make_engine(X, self.device)
        if engine is not None:
            X = engine.arrange(X)
        problem = Problem(X, class_of_row, n_classes, settings, labels, n_chains, seed)
        crew = Crew(self.device, resolve_n_jobs(self.n_jobs), engine, problem.size)
        return problem, crew

    def _coders(self, n_features: int) -> list[Coder]:
        """Return the coders that may be chosen."""
        lengths = lengths_for(n_features)
        if self.n_nonzero != "auto":
            lengths = [self._fixed_n_nonzero(n_features)]
            if isinstance(self.coder, Coder):
                raise ValueError(
                    f"n_nonzero={self.n_nonzero} with coder={self.coder!r}, which has a number of "
                    "non-zeros of its own. Use n_nonzero='auto', or name a family of coders."
                )
        return candidates(self.coder, lengths, self._backend().device_kind)

    def _fixed_n_nonzero(self, n_features: int) -> int:
        """Return ``n_nonzero`` or, with a warning, the number of features if that is less."""
        if self.n_nonzero <= n_features:
            return int(self.n_nonzero)
        self._warn(
            f"n_nonzero={self.n_nonzero} is more than the {n_features} features of X; {n_features} "
            "is used. Set n_nonzero to at most the number of features, or to 'auto'."
        )
        return n_features

    @contextmanager
    def _journal(
        self,
        problem: Problem,
        coders: Sequence[Coder],
        n_pilots: int,
        *,
        kept: bool = True,
        sweeps: Callable[[int], int] = int,
    ) -> Iterator[tuple[Problem, Journal]]:
        """Open the journal of a fit, and the problem with the seed of the fit that it resumes.

        ``sweeps`` gives the number of sweeps that a chain with so many in its settings is run for.
        """
        progress = FitProgress(self, self.verbose)
        journal = Journal(progress.tell)
        if kept and (self.checkpoint is not None or self.warm_start):
            journal = self._open_journal(problem, progress)
            problem = replace(problem, seed=journal.identity.seed)  # type: ignore[attr-defined]
        if not self.device.startswith("cuda"):
            rows: Any = problem.X
            compile_kernels(rows.dtype, coders)
        if not journal.is_ahead:
            n_sweeps, n_pilots = self.n_sweeps, n_pilots if journal.choice is None else 0
            pilot_sweeps = sweeps(min(n_sweeps, PILOT_SWEEPS))
            progress.begin(n_pilots, pilot_sweeps, problem.n_chains, sweeps(n_sweeps))
        yield problem, journal
        progress.end()

    def _open_journal(self, problem: Problem, progress: FitProgress) -> Journal:
        memory: FitMemory | None = getattr(self, "_memory", None) if self.warm_start else None
        if self.checkpoint is None and memory is None and hasattr(self, "chains_"):
            self._warn(
                "warm_start=True, but the fit before kept no states of its chains to resume from: "
                "it had warm_start=False. Learning from the start."
            )
        model = {f"model__{name}": value for name, value in self._model_settings().items()}
        parameters = self.get_params(deep=False) | model | {"model": None}
        journal = open_journal(
            Identity.of(type(self).__name__, parameters, problem),
            FitSizes.of(problem),
            progress.tell,
            seed_given=isinstance(self.random_state, Integral),
            memory=memory,
            path=self.checkpoint,
            every=self.checkpoint_every,
            warm_start=self.warm_start,
            pilot_sweeps=PILOT_SWEEPS,
        )
        if journal.is_ahead:
            self._warn(
                f"warm_start=True with n_sweeps={self.n_sweeps}, but the chains have more sweeps "
                "already: they stay as they are. Use warm_start=False to start again."
            )
        return journal

    def _warn(self, message: str) -> None:
        """Warn of something at the line that called us: the first outside of the package."""
        level, frame = 1, sys._getframe()
        while frame.f_back and frame.f_globals["__name__"].split(".")[0] in INSIDE:
            level, frame = level + 1, frame.f_back
        warnings.warn(message, UserWarning, stacklevel=level)

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        if isinstance(state.get("checkpoint"), os.PathLike):  # files of models hold words
            state = {**state, "checkpoint": os.fspath(state["checkpoint"])}
        return state

    def _earlier_batches(self) -> OnlineState:
        """Return what is remembered of earlier batches, or the state before the first."""
        if hasattr(self, "online_"):
            return self.online_
        if hasattr(self, "chains_"):
            self._warn(
                f"this {type(self).__name__} was fitted by fit, which keeps no sums of its rows: "
                "partial_fit starts anew. Learn all rows by partial_fit; on one batch it does what "
                "fit does."
            )
        return begin(self._seed())

    # ------------------------------------------------------------------------ the fitted estimator

    def _publish(self, chains: list[Member]) -> None:
        """Set the fitted arrays: those of the chains, stacked along the atom axis."""
        self.chains_ = chains
        self.atoms_ = np.concatenate([chain.atoms for chain in chains])
        self.components_ = self.atoms_
        self.n_atoms_ = len(self.atoms_)
        self._n_features_out = self.n_atoms_

    def _remember(self, memory: FitMemory | None = None, online: OnlineState | None = None) -> None:
        """Remember the chains' last states or the sums of all batches, for a later call."""
        for name, value in (("_memory", memory), ("online_", online)):
            self.__dict__.pop(name, None)
            if value is not None:
                setattr(self, name, value)

    def _backend(self) -> Backend:
        return make_backend(self.device, resolve_n_jobs(self.n_jobs))

    @by_blocks
    @single_threaded_blas()
    def transform(self, X: ArrayLike) -> csr_matrix:
        """Sparse codes of rows over the atoms.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        codes : csr_matrix of shape (n_samples, n_atoms)
            At most ``coder_.n_nonzero`` non-zeros per chain in each row.
        """
        check_is_fitted(self)
        rows, backend = self._rows(X, reset=False), self._backend()
        codes = [chain.encode(rows, self.coder_, backend) for chain in self.chains_]
        return codes[0] if len(codes) == 1 else hstack(codes, format="csr")

    def inverse_transform(self, X: ArrayLike | csr_matrix) -> NDArray[np.floating[Any]]:
        """Rows that codes stand for, averaged over the chains.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_atoms)
            Codes as `transform` gives them.

        Returns
        -------
        rows : ndarray of shape (n_samples, n_features)
            Approximations of the rows (of unit norm where ``normalize`` is set).
        """
        check_is_fitted(self)
        return decode(X, self.atoms_) / len(self.chains_)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "chains_")
