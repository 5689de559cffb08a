"""Beta-process dictionary learning without labels, as a scikit-learn transformer."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import _fit_context
from sklearn.utils._param_validation import StrOptions

from dbdl._threads import single_threaded_blas
from dbdl.backends.crew import Crew
from dbdl.coding import FAMILIES, Coder
from dbdl.estimators._base import CHAIN_CONSTRAINTS, DictionaryEstimator
from dbdl.estimators._progress import with_callbacks
from dbdl.estimators._weights import WeightedRows, weigh
from dbdl.estimators._whole import whole_or_not_at_all
from dbdl.learn.batches import finish_batch, learn_batch
from dbdl.learn.choice import Candidates, Choice, publish_members, without_rows
from dbdl.learn.members import Member, learn_members
from dbdl.learn.online import OnlineState
from dbdl.learn.problem import LabelSettings, Problem
from dbdl.model.settings import ModelSettings
from dbdl.model.trust import Scope
from dbdl.rows.lazy import in_memory
from dbdl.views import LabelledRows


class BetaProcessDictionary(DictionaryEstimator):
    r"""Beta-process dictionary learning (Paisley and Carin, 2009; Zhou et al., 2009).

    The unsupervised ancestor of `DBDLClassifier`: the same model with one class, and so one
    probability per atom,

    .. math::
        x_i = (z_i \odot s_i) \Phi + \epsilon_i, \quad
        z_{ik} \sim \mathrm{Bernoulli}(\pi_k), \quad
        \pi_k \sim \mathrm{Beta}(a_o/K, b_o (K-1)/K)

    Parameters
    ----------
    n_sweeps : int, default=16
        Number of Gibbs sweeps.
    n_initial_atoms : int, default=None
        Number of initial atoms, drawn without replacement. None draws 1.5 per training row with
        replacement (``initial_ratio`` of the model), at most 5000 in all.
    initial_atoms : array-like of shape (n_atoms, n_features) or fitted estimator, default=None
        Atoms that the chain starts from instead of drawn rows; see `DBDLClassifier`.
    coder : str or Coder, default="forward"
        How a row is coded: a family of coders, or a coder; see `DBDLClassifier`.
    n_nonzero : int or "auto", default="auto"
        Number of non-zeros in the code of a new row; "auto" takes the mean number of atoms that a
        training row uses at the end of the chain.
    n_draws, model, forgetting, normalize, device
        As for `DBDLClassifier`; all rows are the "smallest class" of ``usage_a`` and ``usage_b``.
    checkpoint, checkpoint_every, warm_start, sparse_output, n_jobs, random_state, verbose
        As for `DBDLClassifier`.

    Attributes
    ----------
    atoms_, components_ : ndarray of shape (n_atoms, n_features)
        Atoms, of unit norm if rows are scaled to unit norm.
    selection_probability_ : ndarray of shape (n_atoms,)
        Probability that a row uses the atom (mean of eq. 11).
    n_atoms_ : int
    coder_ : Coder
        The coder in use, with its number of non-zeros.
    trace_ : Trace
        Records of every sweep; each field has shape (n_sweeps,).
    diagnostics_ : Diagnostics
        As for `DBDLClassifier`.
    online_ : OnlineState
        Memory of `partial_fit` of the rows it has seen; not set by `fit`.
    filler_ : Filler
        As for `DBDLClassifier`.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dbdl import BetaProcessDictionary
    >>> X, _ = load_digits(return_X_y=True)
    >>> model = BetaProcessDictionary(n_initial_atoms=100, random_state=0).fit(X)
    >>> model.transform(X[:3]).shape[0]
    3
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CHAIN_CONSTRAINTS,
        "coder": [StrOptions(set(FAMILIES)), Coder],
    }

    def __init__(
        self,
        *,
        n_sweeps: int = 16,
        n_initial_atoms: int | None = None,
        initial_atoms: Any = None,
        coder: str | Coder = "forward",
        n_nonzero: int | str = "auto",
        n_draws: int = 0,
        model: ModelSettings | None = None,
        forgetting: float = 1.0,
        normalize: bool = True,
        device: str = "cpu",
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: int = 5,
        warm_start: bool = False,
        sparse_output: bool = True,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_sweeps = n_sweeps
        self.n_initial_atoms = n_initial_atoms
        self.initial_atoms = initial_atoms
        self.coder = coder
        self.n_nonzero = n_nonzero
        self.n_draws = n_draws
        self.model = model
        self.forgetting = forgetting
        self.normalize = normalize
        self.device = device
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every
        self.warm_start = warm_start
        self.sparse_output = sparse_output
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @whole_or_not_at_all
    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    @single_threaded_blas()
    def fit(self, X: ArrayLike, y: None = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn a dictionary.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows may have missing values (NaN), which are filled at first and then drawn in every
            sweep.
        y : None
            Not used.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, as in `DBDLClassifier.fit`.

        Returns
        -------
        self : BetaProcessDictionary
        """
        known = self._weighted_rows(X, sample_weight, reset=True)
        problem, crew = self._problem(known.with_classes(known.labels, 1))
        candidates = self._candidates()
        with self._journal([problem], candidates, X, y) as ([problem], journal):
            if journal.is_ahead:
                return self
            learned = learn_members(problem, problem.shares(), candidates.coders, crew, journal)
            choice = without_rows(candidates, 1)
            members = publish_members(learned, candidates, choice)
            return self._publish(members, choice, memory=journal.memory())

    @whole_or_not_at_all
    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    @single_threaded_blas()
    def partial_fit(
        self, X: ArrayLike, y: None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn a batch, with the posterior after earlier batches as the prior.

        The first batch is learned as in `fit`. For each later one the chain continues for half
        of ``n_sweeps`` sweeps over the rows of the batch alone. Of earlier rows it remembers sums.
        Rows that the dictionary explains badly become new atoms, up to ``n_initial_atoms`` in all
        (5000 if None).

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`, with weights as in `DBDLClassifier.partial_fit`. Missing values are filled
            like those of new rows, and are not drawn.

        Returns
        -------
        self : BetaProcessDictionary
        """
        self._refuse_batches()
        state = self._earlier_batches()
        known = self._weighted_rows(in_memory(X), sample_weight, reset=not state.chains)
        state, batch = self._take_batch(state, known)
        problem, crew = self._problem(batch.rows, state)
        candidates = self._candidates()
        with self._journal_of_batch(problem, candidates, state, X, y) as journal:
            learned = learn_batch(
                state, batch, problem, candidates.coders, self.forgetting, crew, journal
            )
            choice = without_rows(candidates, 1)
            state, members = finish_batch(state, learned, candidates, choice)
            return self._publish(members, choice, online=state)

    def _weighted_rows(self, X: Any, sample_weight: Any, *, reset: bool) -> WeightedRows:
        """Rows of positive weight, all of one class."""
        rows = self._rows(X, reset=reset)
        known = weigh(rows, np.zeros(rows.shape[0], dtype=np.int64), sample_weight)
        self._check_not_all_zero(known.X)
        return known

    def _problem(
        self, rows: LabelledRows, state: OnlineState | None = None
    ) -> tuple[Problem, Crew]:
        """Return the problem of learning from rows without labels, and the crew that solves it."""
        return self._pose(rows, np.zeros(1, np.int64), LabelSettings("none"), state)

    def _candidates(self) -> Candidates:
        """Return one coder of the family; the chain decides its number of non-zeros."""
        return Candidates(self._coders(self.n_features_in_)[:1], calibrate=False)

    def _check_fitted(self, scope: Scope) -> None:
        """Check the chain: one class, and no labels."""
        scope.sizes.update(n_classes=1, n_labels=0)
        super()._check_fitted(scope)

    def _publish(self, members: list[Member], choice: Choice, **remembered: Any) -> Self:
        """Set the fitted attributes; the chain decides the number of non-zeros unless given."""
        if self.n_nonzero == "auto" and not isinstance(self.coder, Coder):
            used = max(1, round(float(members[0].trace.mean_nonzero[-1])))
            members = [replace(members[0], coder=replace(members[0].coder, n_nonzero=used))]
        return super()._publish(members, choice, **remembered)

    def _stack(self, chains: list[Member]) -> None:
        """Set the arrays of the chain."""
        super()._stack(chains)
        self.selection_probability_ = chains[0].selection_probability[0]
        self.coder_ = chains[0].coder
        self.trace_ = chains[0].trace
