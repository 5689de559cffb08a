"""Beta-process dictionary learning without labels, as a scikit-learn transformer."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import _fit_context
from sklearn.utils._param_validation import StrOptions

from dbdl._threads import resolve_n_jobs, single_threaded_blas
from dbdl.draws import make_key
from dbdl.estimators._base import CHAIN_CONSTRAINTS, DictionaryEstimator
from dbdl.estimators._progress import FitProgress, with_callbacks
from dbdl.estimators._whole import whole_or_not_at_all
from dbdl.learn.ensemble import (
    LabelSettings,
    Member,
    Task,
    in_memory_of_device,
    learn_member,
    publish_member,
)
from dbdl.learn.held_out import SELECTIONS
from dbdl.learn.online import later_sweeps, learn_rows, remember, take_batch
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
    initial_ratio : float, default=1.5
        Atoms at the start for each training row, drawn with replacement; at most 5000 in all.
        Copies are left out at once: of 1.5 draws for each row about 0.78 are different rows.
    n_initial_atoms : int, default=None
        Number of atoms at the start, drawn without replacement; wins over ``initial_ratio``.
    n_nonzero : int or "auto", default="auto"
        Non-zeros of the code of a new row; "auto" takes the number of atoms that a training row
        uses at the end of the chain, on average.
    selection : {"forward", "orthogonal", "lasso"}, default="forward"
        How the atoms of a code are found: see `DBDLClassifier`.
    scan, noise_precision, sample_noise, strength_precision, strengths_counted, \
atom_precision, usage_a, usage_b, hyper_prior, beta_size, least_energy, n_start_nonzero, \
n_atom_draws, forgetting, normalize, device, checkpoint, checkpoint_every, warm_start, n_jobs, \
random_state, verbose
        As for `DBDLClassifier`; the "smallest class" of ``usage_a`` and ``usage_b`` is the
        whole of the rows.

    Attributes
    ----------
    atoms_, components_ : ndarray of shape (n_atoms, n_features)
        Atoms of unit norm.
    selection_probability_ : ndarray of shape (n_atoms,)
        Probability that a row uses the atom (mean of eq. 11).
    n_atoms_ : int
    n_nonzero_ : int
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
        "selection": [StrOptions(set(SELECTIONS))],
    }

    def __init__(
        self,
        *,
        n_sweeps: int = 35,
        initial_ratio: float = 1.5,
        n_initial_atoms: int | None = None,
        n_nonzero: int | str = "auto",
        selection: str = "forward",
        scan: str = "collapsed",
        noise_precision: float = 1e6,
        sample_noise: bool = True,
        strength_precision: float = 1.0,
        strengths_counted: str = "used",
        atom_precision: float | None = None,
        usage_a: float | None = None,
        usage_b: float | None = None,
        hyper_prior: float = 1e-6,
        beta_size: str = "start",
        least_energy: float = 0.05,
        n_start_nonzero: int = 10,
        n_atom_draws: int = 0,
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
        self.initial_ratio = initial_ratio
        self.n_initial_atoms = n_initial_atoms
        self.n_nonzero = n_nonzero
        self.selection = selection
        self.scan = scan
        self.noise_precision = noise_precision
        self.sample_noise = sample_noise
        self.strength_precision = strength_precision
        self.strengths_counted = strengths_counted
        self.atom_precision = atom_precision
        self.usage_a = usage_a
        self.usage_b = usage_b
        self.hyper_prior = hyper_prior
        self.beta_size = beta_size
        self.least_energy = least_energy
        self.n_start_nonzero = n_start_nonzero
        self.n_atom_draws = n_atom_draws
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
        rows, engine = self._in_parts(rows)
        one_class = np.zeros(len(rows), dtype=np.int64)
        keeper = self._keeper(rows, one_class)
        if keeper is not None and keeper.is_ahead:
            return self
        self._compile_first(rows)
        progress = FitProgress(self, 1, self.n_sweeps, self.verbose)
        seed = self._seed() if keeper is None else keeper.identity.seed
        settings, labels = self._chain_settings(), LabelSettings()
        task = Task(seed, rows, one_class, 1, settings, labels, 1, self.device, engine)
        member = in_memory_of_device(
            task,
            resolve_n_jobs(self.n_jobs),
            lambda backend: learn_member(
                make_key(seed),
                task,
                None,
                backend,
                lambda record: progress(0, record),
                None if keeper is None else keeper.chain(0),
            ),
        )
        self.__dict__.pop("online_", None)
        self._publish_member(member)
        self._remember(keeper)
        progress.end()
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
        before = self._state_to_go_on_from()
        rows = self._rows(in_memory(X), reset=not before.chains)
        self._check_not_all_zero(rows)
        self._compile_first(rows)
        n_sweeps = later_sweeps(self.n_sweeps) if before.chains else self.n_sweeps
        progress = FitProgress(self, 1, n_sweeps, self.verbose)
        state, batch = take_batch(before, rows, np.zeros(len(rows), dtype=np.int64))
        settings, backend = self._chain_settings(), self._backend()
        with backend.lane():
            learned, known = learn_rows(
                make_key(state.seed),
                before.chains[0] if before.chains else None,
                batch,
                settings,
                self.forgetting,
                backend,
                lambda record: progress(0, record),
            )
            chain = remember(learned, known, None, settings, backend)
        self.__dict__.pop("_memory", None)
        self.online_ = replace(state, chains=[chain])
        self._publish_member(publish_member(learned, learned.dictionary))
        progress.end()
        return self

    def _check_fitted(self, scope: Scope) -> None:
        """Check the chain: one class, and no labels."""
        scope.sizes.update(n_classes=1, n_labels=0)
        super()._check_fitted(scope)

    def _publish(self, chains: list[Member]) -> None:
        """Set the fitted arrays."""
        super()._publish(chains)
        self.selection_probability_ = chains[0].selection_probability[0]
        self.trace_ = chains[0].trace

    def _publish_member(self, member: Member) -> None:
        """Set all that is fitted."""
        self._publish([member])
        trace = member.trace
        rule: Any = self.selection
        self.selection_, self.path_average_ = rule, False
        if self.n_nonzero == "auto":
            self.n_nonzero_ = max(1, round(float(trace.mean_nonzero[-1])))
        else:
            self.n_nonzero_ = self._fixed_n_nonzero(self.n_features_in_)
