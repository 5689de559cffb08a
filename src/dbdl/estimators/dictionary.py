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
from dbdl.estimators._whole import whole_or_not_at_all
from dbdl.learn.members import Member, learn_members
from dbdl.learn.online import later_sweeps, learn_batch, take_batch
from dbdl.learn.problem import LabelSettings, Problem
from dbdl.model.settings import ModelSettings
from dbdl.model.trust import Scope
from dbdl.rows.lazy import in_memory


class BetaProcessDictionary(DictionaryEstimator):
    r"""Beta-process dictionary learning (Paisley and Carin, 2009; Zhou et al., 2009).

    The unsupervised ancestor of `DBDLClassifier`: the same model with one class, so one
    probability for each atom,

    .. math::
        x_i = (z_i \odot s_i) \Phi + \epsilon_i, \quad
        z_{ik} \sim \mathrm{Bernoulli}(\pi_k), \quad
        \pi_k \sim \mathrm{Beta}(a_o/K, b_o (K-1)/K)

    Parameters
    ----------
    n_sweeps : int, default=35
        Gibbs sweeps.
    n_initial_atoms : int, default=None
        Number of atoms at the start, drawn without replacement. None draws 1.5 per training row
        with replacement (``initial_ratio`` of the model), at most 5000 in all.
    coder : str or Coder, default="forward"
        How a row is coded: a family of coders, or a coder; see `DBDLClassifier`.
    n_nonzero : int or "auto", default="auto"
        Non-zeros of the code of a new row; "auto" takes the number of atoms that a training row
        uses at the end of the chain, on average.
    model, forgetting, normalize, device, checkpoint, checkpoint_every, warm_start, n_jobs, \
random_state, verbose
        As for `DBDLClassifier`; the "smallest class" of ``usage_a`` and ``usage_b`` is all rows.

    Attributes
    ----------
    atoms_, components_ : ndarray of shape (n_atoms, n_features)
        Atoms of unit norm.
    selection_probability_ : ndarray of shape (n_atoms,)
        Probability that a row uses the atom (mean of eq. 11).
    n_atoms_ : int
    coder_ : Coder
        The coder in use, with its number of non-zeros.
    trace_ : Trace
        Records of every sweep; each field has shape (n_sweeps,).
    online_ : OnlineState
        What `partial_fit` remembers of the rows it has seen; `fit` keeps none.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

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
        n_sweeps: int = 35,
        n_initial_atoms: int | None = None,
        coder: str | Coder = "forward",
        n_nonzero: int | str = "auto",
        model: ModelSettings | None = None,
        forgetting: float = 1.0,
        normalize: bool = True,
        device: str = "cpu",
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: int = 5,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_sweeps = n_sweeps
        self.n_initial_atoms = n_initial_atoms
        self.coder = coder
        self.n_nonzero = n_nonzero
        self.model = model
        self.forgetting = forgetting
        self.normalize = normalize
        self.device = device
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @whole_or_not_at_all
    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    @single_threaded_blas()
    def fit(self, X: ArrayLike, y: None = None) -> Self:
        """Learn a dictionary.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : None
            Not used.

        Returns
        -------
        self : BetaProcessDictionary
        """
        rows = self._rows(X, reset=True)
        self._check_not_all_zero(rows)
        problem, crew = self._describe(rows)
        coders = self._any_coder()
        with self._journal(problem, coders, 0) as (problem, journal):
            if journal.is_ahead:
                return self
            members = learn_members(problem, None, crew, journal)
        self.coder_ = coders[0]
        self._publish(members)
        self._remember(memory=journal.memory())
        return self

    @whole_or_not_at_all
    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    @single_threaded_blas()
    def partial_fit(self, X: ArrayLike, y: None = None) -> Self:
        """Learn a batch, with the posterior after earlier batches as the prior.

        The first batch is learned as `fit` does. With later ones the chain goes on for a quarter
        of ``n_sweeps`` sweeps over the rows of the batch alone: of earlier rows it remembers sums.
        Rows that the dictionary explains badly become new atoms, up to ``n_initial_atoms`` in all
        (5000 if None).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : None
            Not used.

        Returns
        -------
        self : BetaProcessDictionary
        """
        before = self._earlier_batches()
        first = not before.chains
        rows = self._rows(in_memory(X), reset=first)
        self._check_not_all_zero(rows)
        state, batch = take_batch(before, rows, np.zeros(len(rows), dtype=np.int64))
        problem, crew = self._describe(batch.data.X, state.seed)
        coders, sweeps = self._any_coder(), int if first else later_sweeps
        with self._journal(problem, coders, 0, kept=False, sweeps=sweeps) as (_, journal):
            state, members = learn_batch(
                state, batch, problem, coders[0], self.forgetting, crew, journal
            )
        self.coder_ = coders[0]
        self._publish(members)
        self._remember(online=state)
        return self

    def _describe(self, X: Any, seed: int | None = None) -> tuple[Problem, Crew]:
        """The problem of learning from rows without labels, and who does it."""
        one_class = np.zeros(X.shape[0], dtype=np.int64)
        return self._problem(X, one_class, 1, LabelSettings("none"), seed=seed)

    def _any_coder(self) -> list[Coder]:
        """Return a coder of the family; the chain decides its number of non-zeros."""
        return self._coders(self.n_features_in_)[:1]

    def _check_fitted(self, scope: Scope) -> None:
        """Check the chain: one class, and no labels."""
        scope.sizes.update(n_classes=1, n_labels=0)
        super()._check_fitted(scope)

    def _publish(self, chains: list[Member]) -> None:
        """Set the fitted arrays, and the number of non-zeros of the coder."""
        super()._publish(chains)
        self.selection_probability_ = chains[0].selection_probability[0]
        self.trace_ = chains[0].trace
        if self.n_nonzero == "auto" and not isinstance(self.coder, Coder):
            used = max(1, round(float(self.trace_.mean_nonzero[-1])))
            self.coder_ = replace(self.coder_, n_nonzero=used)
