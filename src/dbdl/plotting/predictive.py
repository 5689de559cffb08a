"""Posterior predictive checks: rows beside rows that the model would make."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_scalar

from dbdl.coding import omp
from dbdl.plotting.displays import check_estimator, make_panels
from dbdl.plotting.pictures import BLUE, ORANGE

#: Most rows that are checked: the statistics of more rows hardly differ.
MOST_ROWS = 200
#: Most atoms per row that are tried until a residual is as small as the noise.
MOST_NONZERO = 50

Values = NDArray[np.float64]


class Statistic(NamedTuple):
    """A statistic of rows under each kept draw.

    Attributes
    ----------
    title : str
    observed, replicated : ndarray of shape (n_draws, n_rows)
    """

    title: str
    observed: Values
    replicated: Values

    @property
    def share_above(self) -> float:
        """Share of draws whose replicated rows have a larger mean than the observed ones."""
        return float((self.replicated.mean(axis=1) > self.observed.mean(axis=1)).mean())


@dataclass
class PredictiveCheckDisplay:
    """Statistics of rows beside those of rows drawn from the model, under the kept draws.

    If the model were true, the two would look alike.

    Attributes
    ----------
    statistics : list of Statistic
        Two statistics of a row, both by matching pursuit over the drawn atoms: the norm of the
        residual with the chain's number of non-zeros, and the number of atoms (at most 50) that
        make the residual as small as the noise.
    axes_, ax_, figure_ : ndarray of Axes, Axes, Figure
        All panels, the first of them, and their figure; set by `plot`.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dbdl import DBDLClassifier, ModelSettings
    >>> from dbdl.plotting import PredictiveCheckDisplay
    >>> X, y = load_digits(return_X_y=True)
    >>> settings = ModelSettings(keep_atom_draws=True)
    >>> model = DBDLClassifier(n_chains=1, n_sweeps=4, n_draws=2, model=settings, random_state=0)
    >>> model = model.fit(X[:60], y[:60])
    >>> display = PredictiveCheckDisplay.from_estimator(model, X[60:80], y[60:80])
    >>> len(display.statistics)
    2
    """

    statistics: list[Statistic]

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: ArrayLike, y: ArrayLike | None = None, random_state: int = 0
    ) -> Self:
        """Check the first chain on rows that it has not learned from.

        Parameters
        ----------
        estimator : DBDLClassifier or BetaProcessDictionary
            Fitted, with kept draws of the atoms: ``n_draws=20`` and
            ``model=ModelSettings(keep_atom_draws=True)``.
        X : array-like of shape (n_samples, n_features)
            The first 200 rows are used. Training rows are mostly atoms themselves, so they say
            little. Missing values (NaN) are filled first.
        y : array-like of shape (n_samples,), optional
            Classes of the rows, for a DBDLClassifier.
        random_state : int, default=0
        """
        check_estimator(estimator, classes=False)
        check_scalar(random_state, "random_state", Integral, min_val=0)
        estimator._kept_draws(with_atoms=True)
        rows = estimator._filled(estimator._rows(X, reset=False)[:MOST_ROWS])
        classes = _classes(estimator, y, len(rows))
        chain = estimator.chains_[0]
        seen, draws = chain.view.apply(rows).astype(np.float64), chain.draws
        rng = np.random.default_rng(random_state)
        pairs = []
        for d in range(draws.n_draws):
            atoms = draws.atoms[d].astype(np.float64)
            strength = 1.0 / np.sqrt(draws.strength_precision[d][classes, np.newaxis])
            noise = 1.0 / np.sqrt(draws.noise_precision[d][classes, np.newaxis])
            shape = (len(rows), len(atoms))
            used = rng.random(shape) < draws.selection_probability[d][classes]
            made = (used * strength * rng.standard_normal(shape)) @ atoms
            made += noise * rng.standard_normal(made.shape)
            level = float(noise.mean() * np.sqrt(atoms.shape[1]))
            length = min(chain.coder.n_nonzero, *atoms.shape)
            pairs.append([_measured(part, atoms, length, level) for part in (seen, made)])
        titles = (f"residual after {length} atoms", "atoms until the residual is noise")
        both = np.array(pairs)  # (n_draws, observed or replicated, statistic, n_rows)
        every = [Statistic(title, both[:, 0, s], both[:, 1, s]) for s, title in enumerate(titles)]
        return cls(every).plot()

    def plot(self, *, ax: Any = None) -> Self:
        """Draw one panel per statistic: observed and replicated rows of all draws.

        They are drawn in ``ax`` if given: axes to divide, or one per statistic.
        """
        n = len(self.statistics)
        self.figure_, self.axes_ = make_panels(n, n, 4.0, 2.8, ax)
        self.ax_ = self.axes_[0]
        looks: list[tuple[str, Any]] = [("observed", BLUE), ("replicated", ORANGE)]
        for one, statistic in zip(self.axes_, self.statistics, strict=True):
            values = (statistic.observed.ravel(), statistic.replicated.ravel())
            edges = np.histogram_bin_edges(np.concatenate(values), bins=30)
            for part, (name, colour) in zip(values, looks, strict=True):
                shade = "#{:02x}{:02x}{:02x}".format(*colour)
                one.hist(part, edges.tolist(), density=True, alpha=0.6, color=shade, label=name)
            share = f"replicated larger in {100 * statistic.share_above:.0f} % of draws"
            one.set_title(f"{statistic.title}\n{share}", fontsize=9)
            one.set_yticks([])
        self.ax_.legend(fontsize=8)
        return self


def _classes(estimator: Any, y: ArrayLike | None, n_rows: int) -> NDArray[np.int64]:
    """Return the class indices of the first rows; zeros for a model without classes."""
    if not hasattr(estimator, "classes_"):
        return np.zeros(n_rows, dtype=np.int64)
    labels = np.asarray(y)[:n_rows] if y is not None else np.empty(0)
    known = np.isin(labels, estimator.classes_)
    if labels.shape != (n_rows,) or not known.all():
        raise ValueError(
            f"y has the shape {labels.shape} or unknown classes. Expected one of "
            f"{estimator.classes_} for each row of X: rows are drawn from the model by class."
        )
    return np.searchsorted(estimator.classes_, labels)


def _measured(rows: Values, atoms: Values, length: int, level: float) -> Values:
    """Residual norms after ``length`` atoms, and atoms until the residual has a norm ``level``."""
    codes = omp(rows, atoms, length, rule="forward")
    longest = min(MOST_NONZERO, *atoms.shape)
    n_needed = np.diff(omp(rows, atoms, longest, tol=level, rule="forward").indptr)
    return np.array([np.linalg.norm(rows - codes @ atoms, axis=1), n_needed])
