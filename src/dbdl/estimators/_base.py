"""What the estimators of the model share: parameters of a chain, coding and decoding of rows."""

from __future__ import annotations

import os
import warnings
from numbers import Integral, Real
from typing import Any, ClassVar

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
from dbdl.backends import Backend, Engine, make_backend, make_engine
from dbdl.backends.sharded import InTurn
from dbdl.estimators._lazy import by_blocks
from dbdl.estimators._progress import CallbackSupportMixin
from dbdl.estimators._rows import N_JOBS, NOT_NEGATIVE, POSITIVE, PRECISION, RowEstimator, decode
from dbdl.learn.chain import ChainSettings
from dbdl.learn.ensemble import Member
from dbdl.learn.held_out import Coder, Rule
from dbdl.learn.kernels import compile_kernels
from dbdl.learn.online import OnlineState, begin
from dbdl.learn.resume import (
    FitMemory,
    FitSizes,
    Identity,
    Keeper,
    deciding,
    fingerprint,
    open_keeper,
)
from dbdl.model.state import Floats
from dbdl.model.statistics import SUM_ROWS
from dbdl.model.trust import AtLeastOne, RecordError, Scope
from dbdl.rows.lazy import LazyRows, lazy_rows
from dbdl.rows.readers import is_dask

CHAIN_CONSTRAINTS: dict[str, list[Any]] = {
    "n_sweeps": [Interval(Integral, 1, None, closed="left")],
    "initial_ratio": [POSITIVE],
    "n_initial_atoms": [None, Interval(Integral, 2, None, closed="left")],
    "n_nonzero": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
    "scan": [StrOptions({"collapsed", "paper"})],
    "noise_precision": [PRECISION],
    "sample_noise": ["boolean"],
    "strength_precision": [PRECISION],
    "strengths_counted": [StrOptions({"used", "all"})],
    "atom_precision": [None, PRECISION],
    "usage_a": [None, PRECISION],
    "usage_b": [None, PRECISION],
    "hyper_prior": [PRECISION],
    "beta_size": [StrOptions({"start", "current"})],
    "least_energy": [NOT_NEGATIVE],
    "n_start_nonzero": [Interval(Integral, 1, None, closed="left")],
    "forgetting": [Interval(Real, 0, 1, closed="right")],
    "n_atom_draws": [Interval(Integral, 0, None, closed="left")],
    "normalize": ["boolean"],
    "device": [str],
    "checkpoint": [None, str, os.PathLike],
    "checkpoint_every": [Interval(Integral, 1, None, closed="left")],
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

    chains_: list[Member]
    online_: OnlineState
    n_nonzero_: AtLeastOne
    selection_: Rule
    path_average_: bool
    _memory: FitMemory

    def _check_fitted(self, scope: Scope) -> None:
        """Check the chains, and what is remembered to go on from them."""
        super()._check_fitted(scope)
        self._check_attributes(scope, "chains_", "n_nonzero_", "selection_", "path_average_")
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

    def _in_parts(self, X: Any) -> tuple[Any, Engine | None]:
        """Rows in the parts that they will be read in, and where that happens."""
        engine = make_engine(X, self.device)
        if isinstance(X, LazyRows) and not isinstance(engine, InTurn):
            from dbdl.backends.dask_cluster import aligned

            X = aligned(X, SUM_ROWS)
        return X, engine

    def _chain_settings(self) -> ChainSettings:
        fields = ChainSettings.__dataclass_fields__
        return ChainSettings(
            **{name: getattr(self, name) for name in fields if hasattr(self, name)}
        )

    def _keeper(self, X: Floats, class_of_row: NDArray[np.int64]) -> Keeper | None:
        """Open what is kept of this fit; None where nothing is asked to be."""
        if self.checkpoint is None and not self.warm_start:
            return None
        memory: FitMemory | None = getattr(self, "_memory", None) if self.warm_start else None
        if self.checkpoint is None and memory is None and hasattr(self, "chains_"):
            warnings.warn(
                "warm_start=True, but the fit before kept no states of its chains to go on from: "
                "it had warm_start=False. Learning from the start.",
                UserWarning,
                stacklevel=6,
            )
        parameters = deciding(self.get_params(deep=False))
        identity = Identity(
            type(self).__name__, parameters, fingerprint(X, class_of_row), self._seed()
        )
        keeper = open_keeper(
            identity,
            FitSizes.of(X, class_of_row, parameters),
            seed_given=isinstance(self.random_state, Integral),
            memory=memory,
            path=self.checkpoint,
            every=self.checkpoint_every,
            warm_start=self.warm_start,
        )
        if keeper.is_ahead:
            warnings.warn(
                f"warm_start=True with n_sweeps={self.n_sweeps}, but the chains have more sweeps "
                "already: they stay as they are. Use warm_start=False to start again.",
                UserWarning,
                stacklevel=6,
            )
        return keeper

    def _remember(self, keeper: Keeper | None) -> None:
        """Remember the chains' last states where a later fit may go on from them."""
        self.__dict__.pop("_memory", None)
        if self.warm_start and keeper is not None:
            self._memory = keeper.memory()

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        if isinstance(state.get("checkpoint"), os.PathLike):  # files of models hold words
            state = {**state, "checkpoint": os.fspath(state["checkpoint"])}
        return state

    def _state_to_go_on_from(self) -> OnlineState:
        """What is remembered of earlier batches, or the state before the first."""
        if hasattr(self, "online_"):
            return self.online_
        if hasattr(self, "chains_"):
            warnings.warn(
                f"this {type(self).__name__} was fitted by fit, which keeps no sums to go on from: "
                "partial_fit starts anew. Learn all rows by partial_fit; on one batch it does what "
                "fit does.",
                UserWarning,
                stacklevel=6,
            )
        return begin(self._seed())

    def _fixed_n_nonzero(self, n_features: int) -> int:
        """Return ``n_nonzero`` or, with a warning, the number of features if that is less."""
        if self.n_nonzero <= n_features:
            return int(self.n_nonzero)
        warnings.warn(
            f"n_nonzero={self.n_nonzero} is more than the {n_features} features of X; {n_features} "
            "is used. Set n_nonzero to at most the number of features, or to 'auto'.",
            UserWarning,
            stacklevel=4,
        )
        return n_features

    def _publish(self, chains: list[Member]) -> None:
        """Set the fitted arrays: the chains' stacked along the atom axis."""
        self.chains_ = chains
        self.atoms_ = np.concatenate([chain.atoms for chain in chains])
        self.components_ = self.atoms_
        self.n_atoms_ = len(self.atoms_)
        self._n_features_out = self.n_atoms_

    def _coder(self) -> Coder:
        return Coder(self.selection_, self.n_nonzero_, self.path_average_)

    def _backend(self) -> Backend:
        return make_backend(self.device, resolve_n_jobs(self.n_jobs))

    def _encode(self, X: Floats) -> csr_matrix:
        backend = self._backend()
        codes = [chain.encode(X, self._coder(), backend) for chain in self.chains_]
        return codes[0] if len(codes) == 1 else hstack(codes, format="csr")

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
            At most ``n_nonzero_`` non-zeros per chain in each row.
        """
        check_is_fitted(self)
        return self._encode(self._rows(X, reset=False))

    def inverse_transform(self, X: ArrayLike | csr_matrix) -> Floats:
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

    def _compile_first(self, rows: Any, with_lasso: bool = False) -> None:
        """Compile the kernels, and say so, when this is the first fit of such rows."""
        if not self.device.startswith("cuda"):
            compile_kernels(rows.dtype, with_lasso)
