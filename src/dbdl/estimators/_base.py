"""The base of the model's estimators: rows, settings, journals, coding and decoding."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from functools import cached_property
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix, hstack
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import (
    assert_all_finite,
    check_array,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
)

from dbdl._arrays import Array, as_labels, only_numbers
from dbdl._threads import resolve_n_jobs, single_threaded_blas
from dbdl._warnings import warn_caller
from dbdl.backends import Backend, make_backend, make_engine
from dbdl.backends.base import ALL_ZERO
from dbdl.backends.crew import Crew
from dbdl.coding import Coder, candidates, lengths_for
from dbdl.estimators._lazy import by_blocks
from dbdl.estimators._posterior import PosteriorMixin
from dbdl.estimators._progress import CallbackSupportMixin, FitProgress
from dbdl.estimators._rows import N_JOBS, RowEstimator, as_asked, check_codes, decode
from dbdl.estimators._weights import WeightedRows
from dbdl.learn.basis import refuse_unsmooth
from dbdl.learn.batches import Batch, begin, take_batch
from dbdl.learn.chain import SWEEPS, ChainSettings, automatic_sweeps
from dbdl.learn.checkpoints import Identity
from dbdl.learn.choice import Candidates, Choice, publish_members
from dbdl.learn.ensemble import Ensemble
from dbdl.learn.journal import FitMemory, Journal, KeptJournal, open_journal
from dbdl.learn.kernels import compile_kernels
from dbdl.learn.members import LearnedMember, Member, filler_of_atoms
from dbdl.learn.online import OnlineState, later_sweeps
from dbdl.learn.problem import (
    FEW_ROWS,
    LEAST_PER_CLASS,
    LabelSettings,
    Problem,
    automatic_rounds,
)
from dbdl.missing.filler import Filler, fit_filler, has_gaps, refuse_empty_features
from dbdl.model.settings import AT_LEAST_ONE, ModelSettings
from dbdl.model.state import Doubles, Floats
from dbdl.model.trust import RecordError, Scope
from dbdl.rows.copies import first_copies
from dbdl.rows.lazy import LazyRows, lazy_rows
from dbdl.rows.readers import is_dask
from dbdl.views import FEW_ATOMS, LabelledRows, Recipe, automatic_views, make_views

CHAIN_CONSTRAINTS: dict[str, list[Any]] = {
    "n_sweeps": [AT_LEAST_ONE],
    "n_initial_atoms": [None, Interval(Integral, 2, None, closed="left")],
    "n_draws": [Interval(Integral, 0, None, closed="left")],
    "initial_atoms": [None, "array-like", HasMethods("fit")],
    "coder": [str, Coder, "array-like"],
    "n_nonzero": [StrOptions({"auto"}), AT_LEAST_ONE],
    "model": [None, ModelSettings],
    "forgetting": [Interval(Real, 0, 1, closed="right")],
    "normalize": ["boolean"],
    "device": [str],
    "checkpoint": [None, str, os.PathLike],
    "checkpoint_every": [AT_LEAST_ONE],
    "warm_start": ["boolean"],
    "sparse_output": ["boolean"],
    "n_jobs": N_JOBS,
    "random_state": ["random_state"],
    "verbose": ["verbose"],
}

#: Fewest rows of a first batch whose kernel views would serve for all later ones.
LEAST_LANDMARKS = 100

ATOMS_FORGOTTEN = (
    "initial_atoms is not fitted: clone and grid searches forget what an estimator learned. Pass "
    "its atoms_."
)


class DictionaryEstimator(
    PosteriorMixin,
    CallbackSupportMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    RowEstimator,
):
    """Base of the estimators: everything except labels."""

    _learned: ClassVar[tuple[str, ...]] = ("chains_", "online_", "_memory")
    _fills_gaps: ClassVar[bool] = True

    filler_: Filler
    model: ModelSettings | None
    chains_: list[Member]
    online_: OnlineState
    _memory: FitMemory

    def set_params(self, **params: Any) -> Self:
        """Set parameters, such as ``model__noise_precision=1e4`` for the model.

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
        """Check the chains, and the states from which they may be resumed."""
        super()._check_fitted(scope)
        if (model := vars(self).get("model")) is not None:
            model._validate_params()
        scope.sizes["n_features_in"] = scope.sizes.pop("n_features")
        self._check_attributes(scope, "chains_")
        if not self.chains_:
            raise RecordError("chains_ is empty")
        dtypes = {chain.atoms.dtype for chain in self.chains_}
        if len(dtypes) > 1:
            raise RecordError(f"chains_ have atoms of several dtypes: {sorted(map(str, dtypes))}")
        if "filler_" in vars(self):
            self._check_attributes(scope.inner(), "filler_")
        if "online_" in vars(self):
            same_rows = Scope({"n_features_in": self.n_features_in_}, dtypes.pop())
            self._check_attributes(same_rows, "online_")
            if len(self.online_.chains) != len(self.chains_):
                raise RecordError(
                    f"online_ has {len(self.online_.chains)} chains, chains_ {len(self.chains_)}"
                )
        if "_memory" in vars(self):
            self._check_attributes(Scope(), "_memory")
        self._stack(self.chains_)

    # ------------------------------------------------------------------------------------- rows

    def _rows(self, X: ArrayLike, *, reset: bool) -> Any:
        """Validated rows; rows to learn from may also be read in parts."""
        lazy = lazy_rows(X) if reset else None
        return super()._rows(X, reset=reset) if lazy is None else self._note(lazy)

    def _labelled_rows(
        self, X: ArrayLike, y: ArrayLike, *, reset: bool = True
    ) -> tuple[Any, Array]:
        """Rows to learn from, like `_rows`, and their labels."""
        lazy = lazy_rows(X) if reset else None
        if lazy is None:
            return super()._labelled_rows(X, y, reset=reset)
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None. Pass "
                "the labels of the rows."
            )
        known = as_labels(y.compute() if is_dask(y) else y)  # type: ignore[union-attr]
        labels = column_or_1d(known, warn=True)
        assert_all_finite(labels, input_name="y")
        check_consistent_length(lazy, labels)
        return self._note(lazy), labels

    def _learn_to_fill(self, rows: LabelledRows) -> None:
        """Learn from the first rows how to fill gaps, if they have some."""
        self.__dict__.pop("filler_", None)
        if has_gaps(rows.X):
            refuse_empty_features(rows.X)
            self.filler_ = fit_filler(rows)

    def _filled_batch(self, rows: WeightedRows, state: OnlineState) -> WeightedRows:
        """Return the rows of a batch without gaps; filling is learned from the first batch."""
        X, labels, weight = rows
        if not state.chains:
            classes, class_of_row = np.unique(labels, return_inverse=True)
            self._learn_to_fill(LabelledRows(X, class_of_row, len(classes), sample_weight=weight))
        return rows._replace(X=self._filled(X))

    def _filled(self, X: Any) -> Any:
        """Rows without gaps."""
        if not has_gaps(X):
            return X
        return self.filler_.fill(X) if "filler_" in vars(self) else self._fill_like_atoms(X)

    def _new_rows(self, X: ArrayLike) -> Floats:
        """Validated rows without gaps, for a fitted estimator."""
        check_is_fitted(self)
        return self._filled(self._rows(X, reset=False))

    @cached_property
    def _fill_like_atoms(self) -> Callable[[Floats], Floats]:
        """Filler of a model whose training rows had no gaps; not saved, and learned once."""
        return filler_of_atoms(self.chains_)

    def _note(self, lazy: LazyRows) -> LazyRows:
        """Record the features of rows that are read in parts."""
        self.n_features_in_ = lazy.shape[1]
        self.__dict__.pop("feature_names_in_", None)
        if (names := getattr(lazy.reader, "columns", None)) is not None:
            self.feature_names_in_ = np.asarray(names, dtype=object)
        return lazy

    def _scaled(self, X: Floats) -> Floats:
        return X  # the views scale rows

    def _check_not_all_zero(self, X: Any) -> None:
        if not isinstance(X, np.ndarray):  # rows that are read in parts are checked later
            return
        if not self.normalize:
            super()._check_not_all_zero(X)
            return
        known = X[~np.isnan(X)] if has_gaps(X) else X
        if known.size and not known.any():  # rows of any other size are scaled
            raise ValueError(ALL_ZERO)

    # ------------------------------------------------------------ problem, crew and journal

    def _model_settings(self) -> ModelSettings:
        model = ModelSettings() if self.model is None else self.model
        model._validate_params()
        return model

    def _pose(
        self,
        rows: LabelledRows,
        classes: Array,
        labels: LabelSettings,
        state: OnlineState | None,
        *,
        n_chains: int | None = 1,
        leaves_out: bool = False,
    ) -> tuple[Problem, Crew]:
        """Return the problem of learning from rows, and the crew that solves it.

        ``state`` is given for the rows of a batch.
        """
        if state is None:  # the gaps of a batch are filled already
            self._learn_to_fill(rows)
        seed = self._seed() if state is None else state.seed
        engine = make_engine(rows.X, self.device)
        settings = self._chain_settings(rows.X.shape[1], classes)
        n_rows = len(rows.class_of_row)
        atoms_per_row = settings.n_start(n_rows) / n_rows
        views = self._views(atoms_per_row, n_rows, len(classes), online=state is not None)
        rounds = None
        if state is not None and state.chains:
            n_chains = len(state.chains)
        if n_chains is None:
            n_views = len(views) * len(settings.length_scales)
            rounds = automatic_rounds(n_rows, n_views)
            n_chains = rounds.first * n_views
        refuse_unsmooth(settings, views, rows.X.shape[1], n_chains)
        problem = Problem(
            rows.X, rows.class_of_row, rows.n_classes, settings, labels, n_chains, seed, views,
            leaves_out, rows.sample_weight, rounds if state is None else None,
            copy_of=first_copies(rows.X) if leaves_out else None,
        )  # fmt: skip
        problem = self._with_sweeps(problem)
        return problem, Crew(self.device, resolve_n_jobs(self.n_jobs), engine, problem.memory_size)

    def _with_sweeps(self, problem: Problem) -> Problem:
        """Return the problem with the sweeps that suit its number of atoms, unless given."""
        if self.n_sweeps is not None:
            return problem
        n_sweeps = automatic_sweeps(problem.atoms_per_row)
        return replace(problem, settings=replace(problem.settings, n_sweeps=n_sweeps))

    def _chain_settings(self, n_features: int, classes: Array) -> ChainSettings:
        """Return the settings of the chains; of several sizes, those of the default one."""
        return ChainSettings(
            n_sweeps=self.n_sweeps or SWEEPS,
            n_initial_atoms=None if self.n_initial_atoms == "auto" else self.n_initial_atoms,
            n_draws=self.n_draws,
            initial_atoms=self._given_atoms(n_features),
            **self._model_settings().for_classes(classes),
        )

    def _given_atoms(self, n_features: int) -> Doubles | None:
        """Return the validated initial atoms (n_atoms, n_features), if there are any."""
        given, n_initial = self.initial_atoms, self.n_initial_atoms
        if given is None:
            return None
        if hasattr(given, "fit"):
            check_is_fitted(given, msg=ATOMS_FORGOTTEN)
            if not hasattr(given, "atoms_"):
                raise ValueError(
                    f"initial_atoms={given!r} has no atoms_. Expected an array, or an estimator of "
                    "dbdl that has learned atoms."
                )
            given = given.atoms_
        name, wide = "initial_atoms", np.float64
        atoms = check_array(only_numbers(given, name), dtype=wide, order="C", input_name=name)
        if atoms.shape[1] != n_features:
            raise ValueError(
                f"initial_atoms has {atoms.shape[1]} features, but X has {n_features}. Expected an "
                "array of shape (n_atoms, n_features) in the space of X."
            )
        if not (some := atoms.any(axis=1)).all():
            raise ValueError(
                f"row {int(some.argmin())} of initial_atoms is zero, and has no direction. Leave "
                "such rows out."
            )
        if n_initial == "auto" or len(atoms) > (n_initial or len(atoms)) or len(atoms) < 2:
            raise ValueError(
                f"initial_atoms has {len(atoms)} atoms, with n_initial_atoms={n_initial!r}. "
                "Expected at least 2 atoms, and n_initial_atoms=None, or a number of at least as "
                "many: the others are drawn from the rows."
            )
        return atoms

    def _views(
        self, atoms_per_row: float, n_rows: int, n_classes: int, online: bool = False
    ) -> tuple[Recipe, ...]:
        """Return the views of the chains, which see the rows through them in turn."""
        sized = self.n_initial_atoms is not None or self.initial_atoms is not None
        too_many_classes = LEAST_PER_CLASS * n_classes > FEW_ATOMS * n_rows
        few_landmarks = online and n_rows < LEAST_LANDMARKS  # for all later batches too
        few_chains = getattr(self, "n_chains", None) is not None
        automatic = automatic_views(
            atoms_per_row,
            linear=self._model_settings().atom_prior is not None or few_landmarks,
            few_rows=n_rows <= FEW_ROWS,
            one_size=sized or too_many_classes or online,
            wide=few_chains and self.n_features_in_ > n_rows,
        )
        return make_views(getattr(self, "views", "plain"), self.normalize, automatic)

    def _coders(self, n_features: int, few_rows: bool = False) -> list[Coder]:
        """Return the coders that may be chosen, maybe on few rows."""
        lengths = lengths_for(n_features)
        if self.n_nonzero != "auto":
            lengths = [self._fixed_n_nonzero(n_features)]
            if isinstance(self.coder, Coder):
                raise ValueError(
                    f"n_nonzero={self.n_nonzero} with coder={self.coder!r}, which sets its own "
                    "number of non-zeros. Use n_nonzero='auto', or name a family of coders."
                )
        device = self._backend().device_kind
        return candidates(self.coder, lengths, device, few_rows=few_rows)

    def _fixed_n_nonzero(self, n_features: int) -> int:
        """Return ``n_nonzero`` or, with a warning, the number of features if that is smaller."""
        if self.n_nonzero <= n_features:
            return int(self.n_nonzero)
        warn_caller(
            f"n_nonzero={self.n_nonzero} is more than the {n_features} features of X; {n_features} "
            "is used. Set n_nonzero to at most the number of features, or to 'auto'."
        )
        return n_features

    @contextmanager
    def _journal(
        self, problems: Sequence[Problem], candidates: Candidates, X: Any, y: Any
    ) -> Iterator[tuple[list[Problem], Journal]]:
        """Open the journal of a fit; resumed problems have the seed of the earlier fit.

        The problems have the sizes of the dictionary that are tried, the default one last. ``X``
        and ``y`` are as the user passed them, for callbacks.
        """
        problem = problems[-1]
        progress = self._progress(problem, candidates, X, y)
        journal: Any = Journal(progress.tell, progress.expect)
        if self.checkpoint is not None or self.warm_start:
            journal = self._open_journal(problem, progress)
            problem = journal.problem
        if not journal.is_ahead:
            self._compile(problem, candidates)
            progress.begin({k: n for one in problems for k, n in one.sweeps_of_chains().items()})
        yield [replace(one, seed=problem.seed) for one in problems], journal
        progress.end()

    @contextmanager
    def _journal_of_batch(
        self, problem: Problem, candidates: Candidates, state: OnlineState, X: Any, y: Any
    ) -> Iterator[Journal]:
        """Open the journal of a batch, which only reports progress."""
        progress = self._progress(problem, candidates, X, y)
        self._compile(problem, candidates)
        n_sweeps = problem.settings.n_sweeps
        n_sweeps = later_sweeps(n_sweeps) if state.chains else n_sweeps
        progress.begin(dict.fromkeys(range(problem.n_chains), n_sweeps))
        yield Journal(progress.tell)
        progress.end()

    def _progress(self, problem: Problem, candidates: Candidates, X: Any, y: Any) -> FitProgress:
        """Follow a fit; a callback may ask for the estimator as if fit had ended with a member."""

        def fitted(member: LearnedMember) -> dict[str, Any]:
            only = replace(member, share=replace(member.share, view_number=0))
            alone = Ensemble.of(problem, [only], candidates)
            ended = copy(self)
            ended.verbose, ended.size_curve_ = 0, None  # nothing is printed
            ended._publish(publish_members([only], candidates, alone.choice), alone.choice)
            return vars(ended) | {"verbose": self.verbose}

        return FitProgress(self, self.verbose, X, y, fitted)

    def __copy__(self) -> Self:
        """Return a shallow copy, which is not checked as a model from a file is."""
        copied = object.__new__(type(self))
        copied.__dict__ = dict(vars(self))
        return copied

    def _compile(self, problem: Problem, candidates: Candidates) -> None:
        """Compile the kernels, with a message, before the first fit on rows of this dtype."""
        X: Any = problem.X
        if not self.device.startswith("cuda"):
            compile_kernels(X.dtype, candidates.coders)

    def _open_journal(self, problem: Problem, progress: FitProgress) -> KeptJournal:
        """Open a journal that saves states, with those of earlier fits."""
        memory: FitMemory | None = getattr(self, "_memory", None) if self.warm_start else None
        if self.checkpoint is None and memory is None and hasattr(self, "chains_"):
            warn_caller(
                "warm_start=True, but the last fit kept no states of its chains to resume from: it "
                "had warm_start=False. Learning from the start."
            )
        settings = problem.settings
        model = {f"model__{name}": getattr(settings, name) for name in ModelSettings().get_params()}
        resolved = {
            "model": None,
            "initial_atoms": settings.initial_atoms,
            "n_sweeps": settings.n_sweeps,
        }
        parameters = self.get_params(deep=False) | model | resolved
        journal = open_journal(
            problem,
            Identity.of(type(self).__name__, parameters, problem),
            progress.tell,
            progress.expect,
            seed_given=isinstance(self.random_state, Integral),
            memory=memory,
            path=self.checkpoint,
            every=self.checkpoint_every,
            warm_start=self.warm_start,
        )
        if journal.is_ahead:
            warn_caller(
                f"warm_start=True with n_sweeps={settings.n_sweeps}, but the chains have more "
                "sweeps already and are not changed. Use warm_start=False to start again."
            )
        return journal

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = {**super().__getstate__()}
        state.pop("_fill_like_atoms", None)
        if isinstance(state.get("checkpoint"), os.PathLike):  # files of models contain strings
            state["checkpoint"] = os.fspath(state["checkpoint"])
        return state

    def _refuse_batches(self) -> None:
        """Refuse parameters that do not go with `partial_fit`."""
        if self.n_draws:
            raise ValueError(
                f"partial_fit with n_draws={self.n_draws}: a batch continues the chains for a few "
                "sweeps only, over sums of earlier rows. Use fit to keep draws, or n_draws=0."
            )
        model = self._model_settings()
        if model.atom_prior is not None or model.has_values_per_class:
            raise ValueError(
                "partial_fit with atom_prior or with settings per class: the posterior after a "
                "batch could not be the prior of the next. Use fit, or settings for all classes "
                "and atom_prior=None."
            )

    def _earlier_batches(self) -> OnlineState:
        """Return the memory of earlier batches, or the state before the first."""
        if hasattr(self, "online_"):
            return self.online_
        if hasattr(self, "chains_"):
            warn_caller(
                f"this {type(self).__name__} was fitted by fit, which keeps no sums of its rows: "
                "partial_fit starts anew. Use partial_fit for all rows."
            )
        return begin(self._seed())

    def _take_batch(self, state: OnlineState, rows: WeightedRows) -> tuple[OnlineState, Batch]:
        """Number the rows of a batch; the mean weight of the first batch counts as one row."""
        if not state.chains:
            state = replace(state, unit_weight=rows.mean_weight)
        rows = self._filled_batch(rows.in_units(state.unit_weight), state)
        return take_batch(state, *rows)

    # ------------------------------------------------------------------------ the fitted estimator

    def _publish(
        self,
        members: list[Member],
        choice: Choice,
        *,
        memory: FitMemory | None = None,
        online: OnlineState | None = None,
    ) -> Self:
        """Set the fitted attributes, and the states from which a later call may continue."""
        self._stack(members)
        for name, value in (("_memory", memory), ("online_", online)):
            self.__dict__.pop(name, None)
            if value is not None:
                setattr(self, name, value)
        return self

    def _stack(self, chains: list[Member]) -> None:
        """Set the arrays of all chains, stacked along the atom axis."""
        self.chains_ = chains
        self.__dict__.pop("_fill_like_atoms", None)
        self.n_atoms_ = sum(len(chain.atoms) for chain in chains)
        self._n_features_out = self.n_atoms_

    @property
    def atoms_(self) -> Floats:
        """Atoms of all chains in the space of the rows (n_atoms, n_features)."""
        check_is_fitted(self, msg="This %(name)s has no atoms_ before fit. Call fit first.")
        return np.concatenate([chain.restored_atoms for chain in self.chains_])

    @property
    def components_(self) -> Floats:
        """The atoms, by scikit-learn's name."""
        return self.atoms_

    def _backend(self) -> Backend:
        return make_backend(self.device, resolve_n_jobs(self.n_jobs))

    def transform(self, X: ArrayLike) -> csr_matrix | Array:
        """Codes of rows over the atoms.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Missing values (NaN) are filled first.

        Returns
        -------
        codes : csr_matrix of shape (n_samples, n_atoms)
            Each row has at most ``coder.n_nonzero`` non-zeros per chain, of the chain's coder. An
            ndarray with ``sparse_output=False``, and a data frame if `set_output` asked for one.
        """
        return as_asked(self, self._codes(X))

    @by_blocks
    @single_threaded_blas()
    def _codes(self, X: ArrayLike) -> csr_matrix:
        """Sparse codes of rows over the atoms."""
        rows, backend = self._new_rows(X), self._backend()
        codes = [chain.encode(rows, backend) for chain in self.chains_]
        return codes[0] if len(codes) == 1 else hstack(codes, format="csr")

    @by_blocks
    @single_threaded_blas()
    def score_samples(self, X: ArrayLike) -> Doubles:
        """Log density of rows under the model, a measure of how normal they are.

        The exact density sums over every usage of the atoms and has no closed form. This is its
        term for the usage in the row's own code and the most probable class, with the strengths
        integrated out: a lower bound of the log density given the best class and the published
        atoms. With several chains it is the mean over them. Each chain computes the density in the
        space of its view, where rows have unit norm, so values of different models cannot be
        compared, and the size of a row counts only in views with a constant coordinate.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            As for `transform`.

        Returns
        -------
        log_density : ndarray of shape (n_samples,)
            In nats: the lower, the more unusual. Training rows are often atoms, and have higher
            values than new rows: take thresholds from other rows.
        """
        rows, backend = self._new_rows(X), self._backend()
        found = [c.log_evidence(rows, backend, unit=self.normalize) for c in self.chains_]
        return np.mean(found, axis=0)

    def inverse_transform(self, X: ArrayLike | csr_matrix) -> NDArray[np.floating[Any]]:
        """Reconstruct rows from codes, averaged over the chains.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_atoms)
            Codes as returned by `transform`.

        Returns
        -------
        rows : ndarray of shape (n_samples, n_features)
            Approximations of the rows. A view that scales rows to unit norm first, or has no
            constant coordinate, does not know the size of a row, which is then taken to be the mean
            size of the training rows.
        """
        check_is_fitted(self)
        codes, rows, first = check_codes(X, self.n_atoms_), [], 0
        for chain in self.chains_:
            last = first + len(chain.atoms)
            restored = chain.view.restore(decode(codes[:, first:last], chain.atoms))
            rows.append(restored / len(self.chains_))
            first = last
        return np.sum(rows, axis=0)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "chains_")
