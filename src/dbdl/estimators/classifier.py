"""Discriminative Bayesian dictionary learning as a scikit-learn classifier."""

from __future__ import annotations

import os
from dataclasses import replace
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from dbdl._arrays import as_labels
from dbdl._threads import resolve_n_jobs, single_threaded_blas
from dbdl.estimators._base import CHAIN_CONSTRAINTS, DictionaryEstimator
from dbdl.estimators._lazy import by_blocks
from dbdl.estimators._progress import FitProgress, with_callbacks
from dbdl.estimators._rows import POSITIVE, ScoreClassifier
from dbdl.estimators._whole import whole_or_not_at_all
from dbdl.learn.ensemble import (
    LABEL_WEIGHTS,
    LabelSettings,
    Member,
    Task,
    choose_on_held_out_rows,
    learn_ensemble,
)
from dbdl.learn.held_out import GREEDY, SELECTIONS, Coder, HeldOutChoice, every_coder, lengths_for
from dbdl.learn.online import (
    Batch,
    OnlineState,
    choose_on_left_out_rows,
    choose_on_new_rows,
    in_order,
    later_sweeps,
    learn_batch,
    pool,
    take_batch,
)
from dbdl.learn.resume import Choice, Keeper
from dbdl.model.state import Floats
from dbdl.model.trust import RecordError, Scope
from dbdl.rows.lazy import LazyRows, in_memory
from dbdl.sampler.run import Trace

#: Kinds of label atoms that follow from sums over rows, so that a batch can add to them.
ONLINE_CLASSIFIERS = ("ridge", "recoded")


class DBDLClassifier(ScoreClassifier, DictionaryEstimator):
    r"""Discriminative Bayesian dictionary learning (DBDL).

    Learns atoms :math:`\Phi`, and with which probability each class uses each atom, from the
    model (paper, eq. 6)

    .. math::
        x_i = (z_i \odot s_i) \Phi + \epsilon_i, \quad
        z_{ik} \sim \mathrm{Bernoulli}(\pi^c_k), \quad
        s_{ik} \sim \mathcal{N}(0, 1/\lambda^c_s), \quad
        \pi^c_k \sim \mathrm{Beta}(a_o/K, b_o (K-1)/K)

    with Gaussian atoms and noise and Gamma priors on the precisions, by Gibbs sampling. A new
    row is coded over the atoms by matching pursuit or the lasso, and its code is classified
    linearly.

    The number of atoms is not inferred. It is that of the different training rows that a chain
    draws at its start, about 0.78 for each training row at the defaults: copies are left out at
    once, and the sweeps drop hardly any other atom.

    Parameters
    ----------
    n_sweeps : int, default=35
        Gibbs sweeps of each chain.
    n_chains : int, default=5
        Chains, from different seeds. Each has its own dictionary; their scores are averaged.
    initial_ratio : float, default=1.5
        Atoms at the start for each training row, drawn class by class with replacement from the
        rows; at most 5000 in all. Copies are left out at once: of 1.5 draws for each row about
        0.78 are different rows.
    n_initial_atoms : int, default=None
        Number of atoms at the start, drawn without replacement; wins over ``initial_ratio``.
    n_nonzero : int or "auto", default="auto"
        Non-zeros of the code of a new row. "auto" chooses it on training rows that pilot
        chains never saw (see ``held_out_``); an integer fixes it.
    selection : {"auto", "forward", "orthogonal", "lasso"}, default="auto"
        How the atoms of a code are found: by matching pursuit, where the next atom is the one that
        lowers the residual most once projected ("forward") or that of the textbook
        ("orthogonal"); or along the path of the lasso, which ends before it has more than
        ``n_nonzero`` atoms and shrinks all coefficients. "auto" chooses on the same held-out rows;
        on a GPU it chooses among the first two, since the lasso's path is followed on the CPU.
    path_average : bool or "auto", default="auto"
        Whether the code of a new row is the mean of its codes along the greedy path, from a
        quarter of ``n_nonzero`` on, which shrinks the coefficients of the atoms chosen last;
        "auto" chooses on the same held-out rows. Codes of the lasso are never averaged.
    classifier : {"ridge", "recoded", "gibbs", "joint"}, default="ridge"
        How the label atoms are found: ridge regression of the labels on the training codes of
        the chain; ridge on training rows coded anew like new rows; by the same Bayesian model
        with selection probabilities held (the paper); or together with the atoms, the labels
        appended to the rows while sampling.
    penalty : float, default=0.1
        Penalty of the ridge regression.
    label_weight : float or "auto", default="auto"
        Weight of the appended labels for ``classifier="joint"``; "auto" chooses it on held-out
        rows.
    scan : {"collapsed", "paper"}, default="collapsed"
        Draw usage with strengths integrated out, or given strengths (eq. 9).
    noise_precision : float, default=1e6
        Precision of the noise, at the start or throughout.
    sample_noise : bool, default=True
        Draw the noise precision (eq. 13) or hold it.
    noise_per_class : bool, default=False
        A noise precision for each class.
    strength_precision : float, default=1.0
        Precision of the strengths at the start.
    strengths_counted : {"used", "all"}, default="used"
        Strengths that inform their precision (eq. 12): of used atoms, or all.
    atom_precision : float, default=None
        Precision of the atoms' prior; the number of features if None.
    usage_a, usage_b : float, default=None
        Parameters of the Beta process; half the smallest class if None.
    hyper_prior : float, default=1e-6
        Shape and rate of the Gamma priors of the precisions.
    beta_size : {"start", "current"}, default="start"
        K in Beta(a_o/K, b_o(K-1)/K): the number of atoms at the start, or those left.
    least_energy : float, default=0.05
        Atoms that explain less than this fraction of one row's squared norm, over all rows, are
        dropped between sweeps; 0 drops unused atoms only.
    n_start_nonzero : int, default=10
        Non-zeros of the codes that a chain starts from. Few make sparser chains.
    n_atom_draws : int, default=0
        Publish the mean of so many draws of the atoms; 0 publishes their posterior mean.
    forgetting : float, default=1.0
        How much of what earlier batches taught counts at each new batch of `partial_fit`; 1
        forgets nothing, 0.9 lets a row count 0.9 after one batch, 0.81 after two.
    normalize : bool, default=True
        Scale rows to unit norm first. The default precisions make sense for unit rows only.
    device : str, default="cpu"
        Where chains run and rows are coded: "cpu", "cuda" or "cuda:1" for a GPU (needs the extra
        ``dbdl[gpu]``), "auto" for a GPU where there is one. "dask" sends the chains to the workers
        of the current ``dask.distributed`` client (needs ``dbdl[dask]``), "dask:cuda" to their
        GPUs.
    checkpoint : str or path-like, default=None
        Folder in which the state of every chain is kept, made if need be. A `fit` with the same
        data and parameters goes on from there, after a kill at any moment too, and ends with the
        same bits; where ``random_state`` is not a number it takes the seed of the fit before. The
        folder stays after a fit: the next one returns its result at once. Other data or
        parameters, damaged files and folders of something else are refused with a
        `CheckpointError`, and so is a disk that is full, which leaves the last good checkpoint
        in place.
    checkpoint_every : int, default=5
        Sweeps of a chain between two checkpoints.
    warm_start : bool, default=False
        Go on from the last states of the fit before: on the same data and with the same parameters
        but a larger ``n_sweeps``, the result is that of one fit with that many sweeps. The states,
        mostly the codes of the training rows, are kept with the model meanwhile.
    n_jobs : int, default=None
        Threads. The result does not depend on it.
    random_state : int, RandomState instance or None, default=None
    verbose : int, default=0
        1 prints a few lines per chain, 2 one line per sweep.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    atoms_, components_ : ndarray of shape (n_atoms, n_features)
        Atoms of unit norm; with several chains, theirs one below the other.
    selection_probability_ : ndarray of shape (n_classes, n_atoms)
        Probability that a row of the class uses the atom (mean of eq. 11).
    label_atoms_ : ndarray of shape (n_atoms, n_classes), or (n_atoms, 1) for two classes
        ``transform(X) @ label_atoms_`` gives ``decision_function(X)``.
    n_atoms_ : int
        Number of atoms over all chains: about that of the different rows drawn.
    n_nonzero_, selection_, path_average_ : int, str, bool
        Number of non-zeros and rule that finds them in use, and whether its path is averaged.
    temperature_ : float
        Of the softmax of `predict_proba`, fitted on held-out rows.
    held_out_ : HeldOutChoice or None
        What the held-out rows said of each coder; None if no row could be left out.
    trace_ : Trace
        Records of every sweep; each field has shape (n_chains, n_sweeps).
    chains_ : list of Member
        Each chain's own atoms, probabilities, label atoms and trace.
    online_ : OnlineState
        What `partial_fit` remembers of the rows it has seen; `fit` keeps none.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)

    See Also
    --------
    BetaProcessDictionary : The unsupervised ancestor: one dictionary, no labels.

    References
    ----------
    N. Akhtar, F. Shafait and A. Mian, "Discriminative Bayesian Dictionary Learning for
    Classification", IEEE Transactions on Pattern Analysis and Machine Intelligence, 2016.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import train_test_split
    >>> from dbdl import DBDLClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    >>> model = DBDLClassifier(n_chains=1, random_state=0).fit(X_train, y_train)
    >>> bool(model.score(X_test, y_test) > 0.95)
    True
    """

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012 - scikit-learn's own form
        **CHAIN_CONSTRAINTS,
        "n_chains": [Interval(Integral, 1, None, closed="left")],
        "selection": [StrOptions({"auto", *SELECTIONS})],
        "path_average": [StrOptions({"auto"}), "boolean"],
        "classifier": [StrOptions({"ridge", "recoded", "gibbs", "joint"})],
        "penalty": [POSITIVE],
        "label_weight": [StrOptions({"auto"}), POSITIVE],
        "noise_per_class": ["boolean"],
    }

    held_out_: HeldOutChoice | None

    def __init__(
        self,
        *,
        n_sweeps: int = 35,
        n_chains: int = 5,
        initial_ratio: float = 1.5,
        n_initial_atoms: int | None = None,
        n_nonzero: int | str = "auto",
        selection: str = "auto",
        path_average: bool | str = "auto",
        classifier: str = "ridge",
        penalty: float = 0.1,
        label_weight: float | str = "auto",
        scan: str = "collapsed",
        noise_precision: float = 1e6,
        sample_noise: bool = True,
        noise_per_class: bool = False,
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
        self.n_chains = n_chains
        self.initial_ratio = initial_ratio
        self.n_initial_atoms = n_initial_atoms
        self.n_nonzero = n_nonzero
        self.selection = selection
        self.path_average = path_average
        self.classifier = classifier
        self.penalty = penalty
        self.label_weight = label_weight
        self.scan = scan
        self.noise_precision = noise_precision
        self.sample_noise = sample_noise
        self.noise_per_class = noise_per_class
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

    @classmethod
    def paper(cls, **overrides: Any) -> Self:
        """Return a classifier with the settings of the paper's section 5.

        One chain; 1.5 N atoms drawn with replacement; 35 sweeps; hyper-priors of 1e-6; strength
        precision 1 and noise precision 1e6 at the start, both sampled (eqs. 12 and 13, the former
        over the strengths of used and unused atoms); atom precision m; a_o = b_o = half the
        smallest class, with K in the Beta prior the number of atoms left; usage drawn given
        strengths (eq. 9); label atoms inferred by the model with selection probabilities held,
        in 35 sweeps with precisions of their own that start at the same values; textbook
        matching pursuit with 50 non-zeros, at the start too. (Its experiments name 1e9 as the
        noise precision of Fifteen Scene, its discussion of UCF Sports: pass
        ``noise_precision=1e9`` for either.)

        What the text leaves open or cannot be done to the letter is resolved as follows.

        - Rows are scaled to unit norm: the precisions above mean nothing on another scale.
        - Atoms are drawn class by class, in proportion, so that no class starts empty; copies
          that matching pursuit cannot choose are left out at once.
        - Selection probabilities are drawn from the counts of the first codes before the first
          sweep instead of starting at 0.5, which switches hundreds of unrelated entries on.
        - An atom is dropped when no sample uses it: a draw of its probability is never exactly 0.
        - A class whose rows use no atom keeps its strength precision.
        - The atoms published are the posterior mean, to which the mean of many draws tends
          (``n_atom_draws`` asks for draws), scaled to unit norm; codes and label atoms follow.
        - `predict_proba` is a softmax with a temperature fitted on held-out rows.

        Parameters
        ----------
        **overrides
            Any parameter of the class.
        """
        settings: dict[str, Any] = {
            "n_chains": 1,
            "n_nonzero": 50,
            "selection": "orthogonal",
            "path_average": False,
            "classifier": "gibbs",
            "scan": "paper",
            "strengths_counted": "all",
            "beta_size": "current",
            "least_energy": 0.0,
            "n_start_nonzero": 50,
        }
        return cls(**{**settings, **overrides})

    @whole_or_not_at_all
    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    @single_threaded_blas()
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn dictionaries and label atoms.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows in memory; or rows that are read in parts: what `dbdl.open_rows` returns, a large
            memory map, a dataset of HDF5 or zarr, or a Dask array or data frame, whose rows stay
            on the workers of the current client if there is one.
        y : array-like of shape (n_samples,)
            Class labels of any kind.

        Returns
        -------
        self : DBDLClassifier
        """
        rows, class_of_row = self._rows_and_classes(X, y)
        rows, engine = self._in_parts(rows)
        if engine is not None and self.classifier in ("recoded", "joint"):
            raise ValueError(
                f"classifier={self.classifier!r} needs all rows in memory; for rows that are read "
                "in parts or live on a cluster use 'ridge' or 'gibbs'"
            )
        keeper = self._keeper(rows, class_of_row)
        if keeper is not None and keeper.is_ahead:
            return self
        self._compile_first(rows, self.selection in ("auto", "lasso"))
        n_threads = resolve_n_jobs(self.n_jobs)
        progress = FitProgress(self, self.n_chains, self.n_sweeps, self.verbose)
        seed = self._seed() if keeper is None else keeper.identity.seed
        task = self._choose(seed, rows, class_of_row, len(self.classes_), n_threads, keeper)
        task = replace(task, engine=engine)
        members = learn_ensemble(task, self._coder(), n_threads, progress, keeper)
        self.__dict__.pop("online_", None)
        self._publish(members)
        self._remember(keeper)
        progress.end()
        return self

    @whole_or_not_at_all
    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    @single_threaded_blas()
    def partial_fit(self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None) -> Self:
        """Learn a batch, with the posterior after earlier batches as the prior.

        The first batch is learned as `fit` does. With later ones each chain goes on for a quarter
        of ``n_sweeps`` sweeps over the rows of the batch alone: of earlier rows it remembers sums,
        whose size does not grow with the number of batches. Rows that the dictionary explains
        badly become new atoms, up to ``n_initial_atoms`` in all (5000 if None).

        The coder and the temperature are chosen on the rows of the batch before they are learned,
        or, where it brings new classes, on rows left out by pilot chains; what earlier
        batches said counts half at each batch.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Classes may be missing from a batch, and new ones may come with any batch.
        classes : array-like of shape (n_classes,), default=None
            Classes to know of from now on, whether or not the batch has rows of them; until
            rows come, their scores are 0. Not needed: without it, classes are known once they
            come.

        Returns
        -------
        self : DBDLClassifier
        """
        if self.classifier not in ONLINE_CLASSIFIERS:
            raise ValueError(
                f"partial_fit needs classifier to be one of {ONLINE_CLASSIFIERS}, got "
                f"{self.classifier!r}: label atoms of other kinds do not follow from sums over "
                "earlier rows."
            )
        before = self._state_to_go_on_from()
        first = not before.chains
        rows, labels = self._labelled_rows(in_memory(X), y, reset=first)
        check_classification_targets(labels)
        self._check_not_all_zero(rows)
        known = np.empty(0, labels.dtype) if first else self.classes_
        all_classes = known_classes(known, labels, classes)
        self._compile_first(rows, self.selection in ("auto", "lasso"))
        n_threads = resolve_n_jobs(self.n_jobs)
        n_chains = self.n_chains if first else len(before.chains)
        n_sweeps = self.n_sweeps if first else later_sweeps(self.n_sweeps)
        progress = FitProgress(self, n_chains, n_sweeps, self.verbose)
        state, batch = take_batch(before, rows, labels)
        task = self._choose_online(before, state, batch, n_chains, n_threads)
        state, members = learn_batch(
            state, batch, task, self._coder(), self.forgetting, n_threads, progress
        )
        self.__dict__.pop("_memory", None)
        self.classes_, self.online_ = all_classes, state
        place, priors = np.searchsorted(all_classes, state.labels), state.chains[0].priors
        never = priors.beta_a / (priors.beta_a + priors.beta_b)
        self._publish([in_order(m, place, len(all_classes), never) for m in members])
        progress.end()
        return self

    def _choose_online(
        self, before: OnlineState, state: OnlineState, batch: Batch, n_chains: int, n_threads: int
    ) -> Task:
        """Choose coder and temperature for a batch; how it is learned."""
        data, n_classes = batch.data, len(state.labels)
        if not before.chains and n_classes > 1:
            return self._choose(state.seed, data.X, data.class_of_row, n_classes, n_threads)
        task = self._task(state.seed, data.X, data.class_of_row, n_classes, 1.0)
        task = replace(task, n_chains=n_chains)
        coders = self._coders(data.n_features)
        if not before.chains:  # one class: nothing to choose by
            self._use(coders, None)
            return task
        if self.classifier == "recoded":  # label atoms are for one coder
            coders = [self._coder()]
        if len(before.labels) < n_classes:
            found = choose_on_left_out_rows(state, batch, task, coders, self.forgetting, n_threads)
        else:
            place = np.searchsorted(self.classes_, state.labels)
            found = choose_on_new_rows(
                self.chains_, data.X, place[data.class_of_row], coders, self.device, n_threads
            )
        pooled = pool(self.held_out_, found)
        if pooled is not None:
            self._use(coders, pooled)
        return task

    def _publish(self, chains: list[Member]) -> None:
        """Set the fitted arrays."""
        super()._publish(chains)
        self.selection_probability_ = np.hstack([m.selection_probability for m in chains])
        label_atoms = np.concatenate([m.label_atoms for m in chains]) / len(chains)
        if len(self.classes_) == 2:
            label_atoms = label_atoms[:, 1:] - label_atoms[:, :1]
        self.label_atoms_ = label_atoms
        self.trace_ = Trace.stack([m.trace for m in chains])

    def _check_fitted(self, scope: Scope) -> None:
        """Check all that the chains need to score rows."""
        scope.sizes["n_labels"] = len(getattr(self, "classes_", ()))
        super()._check_fitted(scope)
        self._check_attributes(scope.inner(), "temperature_", "held_out_")
        if "online_" in vars(self) and not np.isin(self.online_.labels, self.classes_).all():
            raise RecordError("online_ has labels that are not among classes_")

    def _choose(
        self,
        seed: int,
        X: Floats | LazyRows,
        class_of_row: NDArray[np.int64],
        n_classes: int,
        n_threads: int,
        keeper: Keeper | None = None,
    ) -> Task:
        """Choose on held-out rows what is left to them, and fit the temperature."""
        coders = self._coders(X.shape[1])
        weights: tuple[Any, ...] = (self.label_weight,)
        if self.label_weight == "auto":
            weights = LABEL_WEIGHTS if self.classifier == "joint" else LABEL_WEIGHTS[:1]
        tasks = [self._task(seed, X, class_of_row, n_classes, weight) for weight in weights]
        choice = None if keeper is None else keeper.choice
        if choice is None:
            choices = [choose_on_held_out_rows(task, coders, n_threads) for task in tasks]
            losses = [np.inf if c is None else c.log_loss[c.best] for c in choices]
            best = int(np.argmin(losses))
            choice = Choice(best, choices[best])
            if keeper is not None:
                keeper.keep_choice(choice)
        self._use(coders, choice.held_out)
        return tasks[choice.task]

    def _task(
        self,
        seed: int,
        X: Floats | LazyRows,
        class_of_row: NDArray[np.int64],
        n_classes: int,
        weight: Any,
    ) -> Task:
        kind: Any = self.classifier
        labels = LabelSettings(kind, self.penalty, weight)
        settings = self._chain_settings()
        return Task(seed, X, class_of_row, n_classes, settings, labels, self.n_chains, self.device)

    def _use(self, coders: list[Coder], choice: HeldOutChoice | None) -> None:
        """Use the coder and the temperature that held-out rows chose."""
        self.held_out_ = choice
        if choice is None:  # every class has one row: nothing can be left out, the nearest wins
            chosen, self.temperature_ = min(coders, key=lambda coder: coder.n_nonzero), 1.0
        else:
            chosen, self.temperature_ = choice.coder, 1.0 / choice.sharpness
        self.selection_, self.n_nonzero_, self.path_average_ = chosen

    def _coders(self, n_features: int) -> list[Coder]:
        """Return the coders that may be chosen."""
        if self.n_nonzero == "auto":
            lengths = lengths_for(n_features)
        else:
            lengths = [self._fixed_n_nonzero(n_features)]
        rules: tuple[Any, ...] = (self.selection,)
        if self.selection == "auto":
            rules = SELECTIONS if self._backend().has_lasso else GREEDY
        means = (False, True) if self.path_average == "auto" else (bool(self.path_average),)
        if self.selection == "lasso" and False not in means:
            raise ValueError(
                "path_average=True with selection='lasso', whose codes are never averaged. Use "
                "path_average=False or 'auto', or another selection."
            )
        return every_coder(lengths, rules, means)

    @by_blocks
    @single_threaded_blas()
    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Scores of rows: their codes times the label atoms.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        scores : ndarray of shape (n_samples, n_classes), or (n_samples,) for two classes
            With two classes, positive scores speak for ``classes_[1]``.
        """
        scores = self.transform(X) @ self.label_atoms_
        return scores.ravel() if scores.shape[1] == 1 else scores


def known_classes(known: NDArray[Any], y: NDArray[Any], classes: ArrayLike | None) -> NDArray[Any]:
    """Classes known after a batch, sorted: those before, those named, and those that came."""
    parts = [known, np.unique(y)]
    if classes is not None:
        named = np.unique(column_or_1d(as_labels(classes, "classes")))
        if not len(known) and not np.isin(parts[1], named).all():
            raise ValueError(
                f"y has classes {parts[1][~np.isin(parts[1], named)]} that classes does not name: "
                f"{named}. Name all of them, or pass no classes: new ones may come at any time."
            )
        parts.append(named)
    parts = [part for part in parts if len(part)]
    if len({part.dtype.kind in "OUST" for part in parts}) > 1:
        raise ValueError(
            f"classes are numbers in one place and strings in another: {parts}. Use one kind."
        )
    return np.unique(np.concatenate(parts))
