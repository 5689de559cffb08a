"""Discriminative Bayesian dictionary learning as a scikit-learn classifier."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import _fit_context
from sklearn.utils._param_validation import HasMethods, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from dbdl._arrays import as_labels
from dbdl._threads import resolve_n_jobs, single_threaded_blas
from dbdl.backends.crew import Crew
from dbdl.coding import Coder, Orthogonal
from dbdl.estimators._base import CHAIN_CONSTRAINTS, DictionaryEstimator
from dbdl.estimators._explaining import ExplainingMixin
from dbdl.estimators._lazy import by_blocks
from dbdl.estimators._progress import with_callbacks
from dbdl.estimators._rows import POSITIVE, ScoreClassifier
from dbdl.estimators._weights import ClassWeight, WeightedRows, weigh
from dbdl.estimators._whole import whole_or_not_at_all
from dbdl.learn.batches import (
    Published,
    choose_for_batch,
    finish_batch,
    in_order,
    learn_batch,
)
from dbdl.learn.choice import Candidates, Choice, publish_members
from dbdl.learn.ensemble import Ensemble
from dbdl.learn.held_out import HeldOutChoice, to_probabilities
from dbdl.learn.link import bent
from dbdl.learn.members import Member, learn_members
from dbdl.learn.online import OnlineState
from dbdl.learn.problem import FEW_ROWS, LabelSettings, Problem
from dbdl.learn.sizes import SizeCurve, each_size, smallest_good, with_sizes
from dbdl.learn.trial import best_view
from dbdl.learn.usable import usable_views
from dbdl.model.settings import AT_LEAST_ONE, ModelSettings
from dbdl.model.trust import NotNegative, RecordError, Scope
from dbdl.rows.lazy import in_memory
from dbdl.sampler.run import Trace
from dbdl.views import (
    FittedOwnView,
    KernelView,
    LabelledRows,
    Recipe,
    View,
    atoms_per_row,
    make_views,
)

Views = tuple[Recipe, ...]

#: Weights of joint labels, which members take in turn.
LABEL_WEIGHTS = (0.01, 0.1, 1.0)
#: Kinds of label atoms that are computed from sums over rows, to which a batch can add.
ONLINE_CLASSIFIERS = ("ridge", "recoded")


class DBDLClassifier(ScoreClassifier, DictionaryEstimator, ExplainingMixin):
    r"""Discriminative Bayesian dictionary learning (DBDL).

    Learns atoms :math:`\Phi`, and the probability that each class uses each atom, from the model
    (paper, eq. 6)

    .. math::
        x_i = (z_i \odot s_i) \Phi + \epsilon_i, \quad
        z_{ik} \sim \mathrm{Bernoulli}(\pi^c_k), \quad
        s_{ik} \sim \mathcal{N}(0, 1/\lambda^c_s), \quad
        \pi^c_k \sim \mathrm{Beta}(a_o/K, b_o (K-1)/K)

    with Gaussian atoms and noise and Gamma priors on the precisions, by Gibbs sampling. A new
    row is coded over the atoms by matching pursuit or the lasso, and a linear classifier is applied
    to its code.

    Several chains are learned, and their scores are averaged with weights. Each chain sees the rows
    through a *view*: a map after which the model's assumption of white noise is nearly true.
    Each chain also leaves out a tenth of the rows, which choose its coder, its weight and the
    temperature of the probabilities. `paper` has the paper's model: one chain in the view "plain",
    with its own settings.

    The size of a dictionary is not inferred. It is the number of distinct training rows that a
    chain draws at its start, by default about 0.78 per training row. Copies are left out at once,
    and the sweeps drop hardly any other atom.

    Parameters
    ----------
    n_sweeps : int, default=None
        Number of Gibbs sweeps of every chain. None means 6, or 16 if ``n_initial_atoms`` is at most
        0.3 per row: few atoms have more to learn. The 35 of the paper are no more accurate in the
        mean over many data sets. `diagnostics_` needs 16 for R-hat, and 32 for effective sample
        sizes.
    n_chains : int, default=None
        Number of chains. Each has its own seed, view and dictionary, and views take turns. None
        means two rounds. In the first, every view has one chain, or two for up to 600 rows, and
        there are at least 5 chains. In the second, views with at least a quarter of the weight of
        the best have further chains. Such a view has 6 chains in all for up to 600 rows, 4 for up
        to 3000, and 2 for more. Other views are left out. With 1 and the views "auto", the chain
        takes the view that does best in short trials.
    views : str, View, KernelView, transformer or list of these, default="auto"
        The maps through which chains see the rows, in turn.

        "auto" means the ten views of `dbdl.views.AUTOMATIC`, and also those of
        `dbdl.views.MORE_FOR_FEW_ROWS` for up to 600 rows. Others take their place in three cases:
        those of `dbdl.views.AUTOMATIC_FOR_FEW_ATOMS` if there are at most 0.3 initial atoms per
        row, and those of `dbdl.views.AUTOMATIC_LINEAR` for smooth atoms and for streams that start
        with fewer than 100 rows. If ``n_initial_atoms`` is a number, views that ask for few atoms
        are left out.

        The name "plain" scales rows to unit norm, as the paper does. Other names are "centred",
        "standardised", "whitened" (by the covariance within classes), "half-whitened", "scaled and
        whitened" and "scaled and half-whitened". "unit " before a name scales rows to unit norm
        first. " + constant" after it appends a constant coordinate, which keeps the size of a row.
        "kernel of " before all of it compares rows, in that view, with up to 600 training rows by a
        Gaussian kernel. "few atoms of " before all of it starts the chain from one atom per ten
        rows, whatever ``n_initial_atoms`` is; not in `partial_fit`.

        Views without a name are objects of `dbdl.views.View` and `dbdl.views.KernelView`. A
        transformer of scikit-learn is fitted for each chain.
    n_initial_atoms : int, default=None
        Number of initial atoms, drawn without replacement. None draws 1.5 per training row with
        replacement (``initial_ratio`` of the model), at most 5000 in all. "auto" learns
        dictionaries of five sizes, the largest of which is that of None, and takes the smallest
        whose accuracy on the rows left out is within one standard error of the best (see
        ``size_curve_``). It takes less than three times as long as None.
    initial_atoms : array-like of shape (n_atoms, n_features) or fitted estimator, default=None
        Atoms that every chain starts from instead of drawn rows, in the space of X; of an
        estimator, its ``atoms_``. Each is scaled to the mean size of the rows, and mapped like a
        row by the view of the chain. If ``n_initial_atoms`` is a number, it is that of all initial
        atoms, and the others are drawn from the rows. (Copies by `sklearn.base.clone` forget what
        an estimator has learned: use its ``atoms_`` in a grid search.)
    coder : str, Coder or list of these, default="auto"
        How a new row is coded.

        - "forward" is matching pursuit by the atom that lowers the residual most, "orthogonal" by
          the textbook rule. Both also try the mean of the codes along the greedy path. It shrinks
          the coefficients of the atoms chosen last.
        - "lasso" follows the lasso's path until more than ``n_nonzero`` atoms would join. It
          shrinks all coefficients.
        - "posterior mean" averages Gibbs draws of the code.
        - "auto" chooses between "forward" and "lasso" on the rows that chains left out (see
          ``held_out_``). With up to 600 rows it means "lasso": few rows cannot tell many coders
          apart. On a GPU it means "forward", since the lasso runs on the CPU.
        - A coder of `dbdl.coding`, such as ``Forward(20)``, is used as it is. Of a list, the rows
          left out choose one.
    n_nonzero : int or "auto", default="auto"
        Number of non-zeros in the code of a new row. "auto" chooses it on the same rows.
    classifier : {"ridge", "recoded", "gibbs", "joint"}, default="ridge"
        How the label atoms are found. "ridge" is a ridge regression of the labels on the training
        codes of the chain, and "recoded" on the codes that these rows would have as new rows.
        "gibbs" is the Bayesian model with fixed selection probabilities, as in the paper. "joint"
        appends the labels to the rows while sampling, and learns the label atoms with the atoms.
    penalty : float, default=0.1
        Penalty of the ridge regression.
    label_weight : float or "auto", default="auto"
        Weight of the appended labels for ``classifier="joint"``; with "auto" chains take 0.01, 0.1
        and 1 in turn.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, by which the weights of their rows are multiplied. "balanced" gives
        every class the same total, if rows have no weights of their own: the weight of a class is
        ``n_samples / (n_classes * n_samples_of_the_class)``. `partial_fit` takes a dict only.
    calibrate : bool, default=True
        Fit the temperature of `predict_proba` on the rows that chains left out. Otherwise the
        temperature is 1, and chains leave out no rows if there is nothing else to choose.
    n_draws : int, default=0
        The largest number of draws to keep per chain, evenly thinned, from the second half of its
        sweeps (see ``draws`` of ``chains_``). Draws are of the precisions and selection
        probabilities, and with ``keep_atom_draws`` of the model of the atoms too.
        `selection_interval` and `posterior_proba` need them. 0 keeps none.
    model : ModelSettings, default=None
        Priors, scan, start and end of the chains; a grid search can vary
        ``model__noise_precision`` and the like. None means the defaults.
    forgetting : float, default=1.0
        Weight of earlier batches at each new batch of `partial_fit`: 1 forgets nothing; with 0.9 a
        row counts 0.9 after one batch and 0.81 after two.
    normalize : bool, default=True
        Scale rows to unit norm, in every view. The default precisions make sense for unit rows
        only. With False the only view is "plain".
    device : str, default="cpu"
        Where chains run and rows are coded: "cpu", "cuda" or "cuda:1" for a GPU (needs
        PyTorch and Triton), "auto" for a GPU if there is one. "dask" runs the chains on the
        workers of the current ``dask.distributed`` client, "dask:cuda" on their GPUs.
    checkpoint : str or path-like, default=None
        Folder for the state of every chain, created if necessary. A `fit` with the same data and
        parameters is resumed from there, even if the process was killed, and gives the same bits.
        If ``random_state`` is not an integer, it takes the seed of the earlier fit. The folder
        stays after a fit, and the next fit returns its result at once. Other data or parameters,
        damaged files and foreign folders raise a `CheckpointError`. So does a full disk, and the
        last good checkpoint stays in place.
    checkpoint_every : int, default=5
        Number of sweeps of a chain between two checkpoints.
    warm_start : bool, default=False
        Resume the last states of the previous fit. With the same data and parameters but a larger
        ``n_sweeps``, the result is that of one fit with that many sweeps. The states, mostly the
        codes of the training rows, are saved with the model.
    sparse_output : bool, default=True
        Whether `transform` returns a sparse matrix. If `set_output` asks for data frames, codes are
        dense in any case.
    n_jobs : int, default=None
        Number of threads. None means one per processor, or as many as the environment variable
        ``OMP_NUM_THREADS`` allows; -1 means one per processor. The result does not depend on it.
    random_state : int, RandomState instance or None, default=None
    verbose : int, default=0
        1 prints a few lines per chain, 2 one line per sweep.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    atoms_, components_ : ndarray of shape (n_atoms, n_features)
        Atoms of all chains, mapped back to the space of the rows. Those of plain chains have unit
        norm.
    selection_probability_ : ndarray of shape (n_classes, n_atoms)
        Probability that a row of the class uses the atom (mean of eq. 11).
    label_atoms_ : ndarray of shape (n_atoms, n_classes), or (n_atoms, 1) for two classes
        ``transform(X) @ label_atoms_`` gives ``decision_function(X)``. It contains the weights of
        the chains.
    n_atoms_ : int
        Number of atoms over all chains, about that of the distinct rows drawn.
    temperature_ : float
        Temperature of the softmax of `predict_proba`, fitted on rows that chains left out.
    bend_ : float
        Scores ``s`` become ``asinh(bend_ * s) / bend_`` before this softmax, or stay as they are if
        it is 0. Chosen on rows that chains left out.
    held_out_ : HeldOutChoice or None
        Results of each coder on the rows that chains left out; None if there were none.
    size_curve_ : SizeCurve or None
        Accuracy against the number of atoms, for ``n_initial_atoms="auto"``.
    trace_ : Trace
        Records of every sweep; each field has shape (n_chains, n_sweeps).
    chains_ : list of Member
        The chains, each with its view, atoms in the space of the view, coder, weight,
        probabilities, label atoms and trace, and with its draws if ``n_draws`` keeps some. If
        ``n_chains`` is None, chains of views that were left out are not among them.
    diagnostics_ : Diagnostics
        Split R-hat, effective sample sizes and Monte Carlo errors of every traced scalar, view by
        view, from the second half of the sweeps.
    online_ : OnlineState
        Memory of `partial_fit` of the rows it has seen; not set by `fit`.
    refusals_ : UnseenRows
        Answers to the rows of `fit_refusals`, for `refuse` and `predict_set`; not set by `fit`.
    filler_ : Filler
        Gaussians of the training rows, which fill missing values of new rows; set if the training
        rows had missing values.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)

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
        "n_initial_atoms": [*CHAIN_CONSTRAINTS["n_initial_atoms"], StrOptions({"auto"})],
        "n_chains": [None, AT_LEAST_ONE],
        "n_sweeps": [None, AT_LEAST_ONE],
        "views": [str, View, KernelView, HasMethods("transform"), "array-like"],
        "classifier": [StrOptions({"ridge", "recoded", "gibbs", "joint"})],
        "penalty": [POSITIVE],
        "label_weight": [StrOptions({"auto"}), POSITIVE],
        "class_weight": [None, dict, StrOptions({"balanced"})],
        "calibrate": ["boolean"],
    }

    bend_: NotNegative
    held_out_: HeldOutChoice | None
    size_curve_: SizeCurve | None

    def __init__(
        self,
        *,
        n_sweeps: int | None = None,
        n_chains: int | None = None,
        views: Any = "auto",
        n_initial_atoms: int | str | None = None,
        initial_atoms: Any = None,
        coder: str | Coder | Sequence[str | Coder] = "auto",
        n_nonzero: int | str = "auto",
        classifier: str = "ridge",
        penalty: float = 0.1,
        label_weight: float | str = "auto",
        class_weight: ClassWeight = None,
        calibrate: bool = True,
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
        self.n_chains = n_chains
        self.views = views
        self.n_initial_atoms = n_initial_atoms
        self.initial_atoms = initial_atoms
        self.coder = coder
        self.n_nonzero = n_nonzero
        self.classifier = classifier
        self.penalty = penalty
        self.label_weight = label_weight
        self.class_weight = class_weight
        self.calibrate = calibrate
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

    @classmethod
    def paper(cls, n_nonzero: int = 50, **overrides: Any) -> Self:
        """Return a classifier with the settings of the paper's section 5.

        One chain; 1.5 N atoms drawn with replacement; 35 sweeps; hyper-priors of 1e-6; strength
        precision 1 and noise precision 1e6 at the start, both sampled (eqs. 12 and 13, the former
        over the strengths of used and unused atoms); atom precision m; a_o = b_o = half the
        smallest class, with K in the Beta prior the number of atoms left; usage drawn given
        strengths (eq. 9); label atoms inferred by the model with fixed selection probabilities,
        in 35 sweeps with separate precisions that start at the same values; textbook matching
        pursuit with 50 non-zeros, also for the initial codes. (The paper's experiments give 1e9 as
        the noise precision of Fifteen Scene, its discussion as that of UCF Sports: pass
        ``model__noise_precision=1e9`` for either.)

        Points that the paper leaves open, or that cannot be done literally, are resolved as
        follows.

        - Rows are scaled to unit norm: the precisions above are meaningless on another scale.
        - Atoms are drawn class by class, in proportion, so that no class starts empty; copies
          that matching pursuit cannot choose are left out.
        - Initial selection probabilities are drawn from the counts of the initial codes instead of
          being 0.5, which would switch hundreds of unrelated entries on.
        - An atom is dropped when no sample uses it: a draw of its probability is never exactly 0.
        - A class whose rows use no atom keeps its strength precision.
        - The published atoms are the posterior mean, which is the limit of the mean of many draws
          (``n_atom_draws`` averages draws), scaled to unit norm; codes and label atoms follow.
        - The chain learns from all rows, and `predict_proba` is a softmax with temperature 1. With
          ``calibrate=True`` a tenth of the rows is left out, and the temperature is fitted on it.

        Parameters
        ----------
        n_nonzero : int, default=50
            Number of non-zeros in the code of a new row.
        **overrides
            Any parameter of the class, or of its model with the prefix ``model__``.
        """
        model = ModelSettings(
            scan="paper",
            strengths_counted="all",
            beta_size="current",
            least_energy=0.0,
            n_start_nonzero=50,
        )
        paper = cls(
            n_sweeps=35,
            n_chains=1,
            views="plain",
            coder=Orthogonal(n_nonzero),
            classifier="gibbs",
            calibrate=False,
            model=model,
        )
        return paper.set_params(**overrides)

    @whole_or_not_at_all
    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    @single_threaded_blas()
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn dictionaries and label atoms.

        With weights, the chains draw from a weighted pseudo-posterior. The code of a row is drawn
        as if the row had no weight, from its own posterior given the atoms. In everything that is
        learned from the codes, a row of weight w counts as w rows with that one code: atoms,
        selection probabilities, precisions, label atoms, views, and the log-loss of rows left out.
        Initial atoms are drawn as without weights.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows in memory, or rows that are read in parts: the rows of `dbdl.open_rows`, a large
            memory map, an HDF5 or zarr dataset, or a Dask array or data frame, whose rows stay on
            the workers of the current client if there is one. Rows in memory may have missing
            values (NaN), which are filled first. Chains of linear views draw them in every sweep;
            other chains keep the filled values.
        y : array-like of shape (n_samples,)
            Class labels of any kind.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, not negative. They are divided by their mean, so that only their
            ratios matter. Rows of weight 0 are left out first, as if they were not in X, and so
            are classes that have no other rows.

        Returns
        -------
        self : DBDLClassifier
        """
        rows = self._weighted_rows(X, y, sample_weight)
        candidates = self._candidates(rows)
        problem, crew = self._problem(rows, candidates)
        problems = self._each_size(problem, crew)
        with self._journal(problems, candidates, X, y) as (problems, journal):
            if journal.is_ahead:
                return self
            ensembles = []
            for sized in problems:
                sized = self._with_suited_view(sized, candidates, crew)
                members = learn_members(sized, sized.shares(), candidates.coders, crew, journal)
                ensembles.append(Ensemble.of(sized, members, candidates))
            best, self.size_curve_ = smallest_good(ensembles)
            further = best.further_shares()
            journal.expect(best.problem.numbers_of(further))
            more = learn_members(best.problem, further, candidates.coders, crew, journal)
            best = best.with_members(more, candidates)
            published = publish_members(best.members, candidates, best.choice)
            return self._publish(published, best.choice, memory=journal.memory())

    @whole_or_not_at_all
    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    @single_threaded_blas()
    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn a batch, with the posterior after earlier batches as the prior.

        The first batch is learned as in `fit`, with three exceptions. No view has further chains
        after the first round. No automatic view asks for few atoms. All automatic views are linear
        if the batch has fewer than 100 rows.

        For each later batch the chains continue for half of ``n_sweeps`` sweeps over its rows
        alone. They remember sums of earlier rows, whose size does not grow with the number of
        batches. Rows that the dictionary explains badly become new atoms, up to ``n_initial_atoms``
        in all (5000 if None).

        Views are learned from the first batch and stay. Coders, weights and the temperature are
        chosen on the rows of the batch before they are learned. If the batch has new classes,
        chains leave out some of its rows instead. The results of earlier batches count half at each
        batch.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Missing values (NaN) are filled like those of new rows, and are not drawn.
        y : array-like of shape (n_samples,)
            A batch need not have rows of every class, and any batch may have new classes.
        classes : array-like of shape (n_classes,), default=None
            Classes that later batches may have. Until they have rows, their scores are 0. Optional:
            without it, classes are known from their first rows on.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, as in `fit`. Those of all batches are divided by the mean weight of
            the first batch, so that batches can be told apart by their weights too.

        Returns
        -------
        self : DBDLClassifier
        """
        self._refuse_batches()
        state = self._earlier_batches()
        published = self._published(state)
        rows, all_classes = self._weighted_batch(X, y, sample_weight, classes, published)
        state, batch = self._take_batch(state, rows)
        candidates = self._candidates(batch.rows, state)
        problem, crew = self._problem(batch.rows, candidates, state)
        with self._journal_of_batch(problem, candidates, state, X, y) as journal:
            problem = self._with_suited_view(problem, candidates, crew)
            learned = learn_batch(
                state, batch, problem, candidates.coders, self.forgetting, crew, journal
            )
            choice = choose_for_batch(published, state, batch, learned, candidates, crew)
            state, members = finish_batch(state, learned, candidates, choice)
            self.classes_ = all_classes
            return self._publish(in_order(members, state, all_classes), choice, online=state)

    def _refuse_batches(self) -> None:
        """Refuse parameters that do not go with `partial_fit`."""
        if self.n_initial_atoms == "auto":
            raise ValueError(
                "partial_fit with n_initial_atoms='auto', which needs all rows at once. Use a "
                "number of atoms, or None."
            )
        if self.classifier not in ONLINE_CLASSIFIERS:
            raise ValueError(
                f"partial_fit needs classifier to be one of {ONLINE_CLASSIFIERS}, got "
                f"{self.classifier!r}: label atoms of other kinds do not follow from sums over "
                "earlier rows."
            )
        if self.class_weight == "balanced":
            raise ValueError(
                "partial_fit with class_weight='balanced', which needs the classes of all rows at "
                "once. Use a dict of weights, such as that of "
                "sklearn.utils.class_weight.compute_class_weight for all labels."
            )
        if any(atoms_per_row(view) is not None for view in self._fixed_views()):
            raise ValueError(
                "partial_fit with a view that asks for few atoms, which need all rows at once. Use "
                "other views, or fit."
            )
        super()._refuse_batches()

    def _published(self, state: OnlineState) -> Published | None:
        """Return the classifier before a batch; None before the first."""
        if not state.chains:
            return None
        coders = tuple(chain.coder for chain in self.chains_)
        weights = np.array([chain.weight for chain in self.chains_])
        choice = Choice(coders, weights, self.temperature_, self.held_out_, bend=self.bend_)
        return Published(self.chains_, self.classes_, choice)

    def _publish(self, members: list[Member], choice: Choice, **remembered: Any) -> Self:
        """Set the fitted attributes."""
        self.temperature_, self.held_out_ = choice.temperature, choice.held_out
        self.bend_ = choice.bend
        if self.n_initial_atoms != "auto":
            self.size_curve_ = None
        elif self.verbose:
            print(self.size_curve_, flush=True)
        return super()._publish(members, choice, **remembered)

    def _sharpened(self, scores: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
        """Return bent scores (n_samples, n_classes), and the factor before their softmax."""
        scores, sharpness = super()._sharpened(scores)
        return bent(scores, self.bend_), sharpness

    def _stack(self, chains: list[Member]) -> None:
        """Set the arrays of all chains."""
        super()._stack(chains)
        self.selection_probability_ = np.hstack([m.selection_probability for m in chains])
        label_atoms = np.concatenate([m.weight * m.label_atoms for m in chains])
        if len(self.classes_) == 2:
            label_atoms = label_atoms[:, 1:] - label_atoms[:, :1]
        self.label_atoms_ = label_atoms
        self.trace_ = Trace.stack([m.trace for m in chains])

    def _check_fitted(self, scope: Scope) -> None:
        """Check everything that scores rows."""
        scope.sizes["n_labels"] = len(getattr(self, "classes_", ()))
        super()._check_fitted(scope)
        self._check_attributes(scope.inner(), "temperature_", "bend_", "held_out_", "size_curve_")
        if "online_" in vars(self) and not np.isin(self.online_.labels, self.classes_).all():
            raise RecordError("online_ has labels that are not among classes_")

    def _weighted_rows(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None
    ) -> LabelledRows:
        """Rows of positive weight, with their classes and weights; sets ``classes_``."""
        rows, labels = self._labelled_rows(X, y)
        check_classification_targets(labels)
        known = weigh(rows, labels, sample_weight)
        known = known.by_class(self.class_weight, np.unique(known.labels))
        some = " with a positive weight" * (len(known.labels) < len(labels))
        class_of_row = self._class_of_row(known.X, known.labels, some)
        return known.with_classes(class_of_row, len(self.classes_))

    def _weighted_batch(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        classes: ArrayLike | None,
        published: Published | None,
    ) -> tuple[WeightedRows, NDArray[Any]]:
        """Rows of positive weight of a batch, and all classes that are known with it."""
        rows, labels = self._labelled_rows(in_memory(X), y, reset=published is None)
        check_classification_targets(labels)
        known = weigh(rows, labels, sample_weight)
        before = labels[:0] if published is None else published.classes
        all_classes = known_classes(before, known.labels, classes)
        known = known.by_class(self.class_weight, all_classes)
        self._check_not_all_zero(known.X)
        return known, all_classes

    def _problem(
        self, rows: LabelledRows, candidates: Candidates, state: OnlineState | None = None
    ) -> tuple[Problem, Crew]:
        """Return the problem of learning from rows, all or a batch, and the crew that solves it."""
        kind: Any = self.classifier
        problem, crew = self._pose(
            rows,
            self.classes_ if state is None else state.labels,
            LabelSettings(kind, self.penalty, self._label_weights()),
            state,
            n_chains=self.n_chains,
            leaves_out=candidates.is_open or self.n_initial_atoms == "auto",
        )
        if crew.engine is not None and kind in ("recoded", "joint"):
            raise ValueError(
                f"classifier={kind!r} needs all rows in memory; for rows that are read in parts or "
                "are on a cluster use 'ridge' or 'gibbs'"
            )
        if self._has_automatic_views:
            usable = self._known_views(state) or usable_views(problem, crew, problem.views)
            problem = problem.with_views(usable)
        if self.n_initial_atoms == "auto":
            problem = with_sizes(problem)
        return problem, crew

    def _fixed_views(self) -> Views:
        """Return the views that the user asked for by name or as objects."""
        return () if self._has_automatic_views else make_views(self.views, self.normalize)

    @property
    def _has_automatic_views(self) -> bool:
        return isinstance(self.views, str) and self.views == "auto"

    def _known_views(self, state: OnlineState | None) -> Views:
        """Return the views of earlier batches, which later ones keep."""
        known = (chain.view for chain in state.chains) if state is not None else ()
        return tuple(dict.fromkeys(v.recipe for v in known if not isinstance(v, FittedOwnView)))

    def _with_suited_view(self, problem: Problem, candidates: Candidates, crew: Crew) -> Problem:
        """Return the problem; a single chain has the automatic view that suits the rows.

        The trials depend on the seed, which the journal of a resumed fit knows.
        """
        if problem.n_chains > 1 or not self._has_automatic_views:
            return problem
        return replace(problem, views=(best_view(problem, candidates, crew),))

    def _candidates(self, rows: LabelledRows, state: OnlineState | None = None) -> Candidates:
        """Return the candidates among which held-out rows choose."""
        few_rows = len(rows.class_of_row) <= FEW_ROWS
        coders = self._coders(self.n_features_in_, few_rows=few_rows)
        recoded = self.classifier == "recoded"
        if recoded and state is not None and state.chains:  # label atoms belong to one coder
            coders = [self.chains_[0].coder]
        n_threads = resolve_n_jobs(self.n_jobs)
        return Candidates(coders, self.calibrate, shared=recoded, n_threads=n_threads)

    def _each_size(self, problem: Problem, crew: Crew) -> list[Problem]:
        """Return the problem with each number of initial atoms that is tried."""
        usable = cache(partial(usable_views, problem, crew))  # several sizes share their views

        def suited(sized: Problem) -> Problem:
            views = self._views(sized.atoms_per_row, len(sized.class_of_row), sized.n_classes)
            views = usable(views) if self._has_automatic_views else views
            return self._with_sweeps(sized.with_views(views))

        return each_size(problem, suited)

    def _label_weights(self) -> tuple[float, ...]:
        """Return the weights of joint labels, which members take in turn."""
        auto = self.label_weight == "auto"
        return LABEL_WEIGHTS if auto else (float(self.label_weight),)

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
            With two classes, positive scores mean ``classes_[1]``.
        """
        scores = self._codes(X) @ self.label_atoms_
        return scores.ravel() if scores.shape[1] == 1 else scores

    @by_blocks
    @single_threaded_blas()
    def posterior_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Class probabilities as in `predict_proba`, averaged over the kept draws of the atoms.

        Rows are coded again over each draw, with the same coders, label atoms, weights and
        temperature. The mean of the probabilities is not linear in any codes, so decisions cannot
        be taken apart atom by atom. It takes as long as `predict_proba` times the number of draws.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
        """
        check_is_fitted(self)
        draws = self._kept_draws(with_atoms=True)
        rows, backend = self._new_rows(X), self._backend()
        probabilities = np.zeros((len(rows), len(self.classes_)))
        n_draws = max(draw.n_draws for draw in draws)
        for number in range(n_draws):  # draws of different chains are independent
            scores = np.zeros_like(probabilities)
            for chain, draw in zip(self.chains_, draws, strict=True):
                member = chain.drawn(number % draw.n_draws)
                scores += member.weight * (member.encode(rows, backend) @ member.label_atoms)
            probabilities += to_probabilities(*self._sharpened(scores)) / n_draws
        return probabilities


def known_classes(known: NDArray[Any], y: NDArray[Any], classes: ArrayLike | None) -> NDArray[Any]:
    """Sorted classes after a batch: those of earlier batches, of ``y`` and of ``classes``."""
    parts = [known, np.unique(y)]
    if classes is not None:
        named = np.unique(column_or_1d(as_labels(classes, "classes")))
        if not len(known) and not np.isin(parts[1], named).all():
            raise ValueError(
                f"y has classes {parts[1][~np.isin(parts[1], named)]} that classes does not name: "
                f"{named}. Name all of them, or leave classes out: any batch may have new ones."
            )
        parts.append(named)
    parts = [part for part in parts if len(part)]
    if len({part.dtype.kind in "OUST" for part in parts}) > 1:
        raise ValueError(
            f"classes are numbers in one place and strings in another: {parts}. Use one kind."
        )
    together = np.concatenate(parts)
    if together.dtype.kind == "f" and all(part.dtype.kind in "iu" for part in parts):
        return _as_unsigned(parts)
    return np.unique(together)


def _as_unsigned(parts: Sequence[NDArray[Any]]) -> NDArray[np.uint64]:
    """Return sorted classes of which some are larger than int64 holds.

    Beside int64 they are compared as floats, which have to be distinct as well.
    """
    distinct = sorted({int(label) for part in parts for label in part.tolist()})
    if distinct[0] < 0 or len(set(map(float, distinct))) < len(distinct):
        raise ValueError(
            f"classes are whole numbers from 2^63 beside others that are negative or hardly differ "
            f"from them: {parts}. Expected classes that one type tells apart. Use smaller numbers, "
            "or strings."
        )
    return np.array(distinct, dtype=np.uint64)
