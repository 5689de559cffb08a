"""The method `explain` of the classifier."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix, hstack
from sklearn.utils.validation import (
    check_consistent_length,
    check_is_fitted,
    check_scalar,
    column_or_1d,
)

from dbdl._arrays import as_labels, as_numbers
from dbdl._threads import single_threaded_blas
from dbdl.backends import Backend
from dbdl.estimators.explanation import AtomShare, Explanation, NearRow
from dbdl.learn.attribution import mean_of_views, nearest_rows, share_out, weights_of_atoms
from dbdl.learn.members import Member
from dbdl.model.state import Doubles, Floats
from dbdl.rows.lazy import in_memory

#: Indices of the predicted class, and of the class that it is compared with.
Pair = tuple[int, int]
#: Nearest training rows of an atom, by chain and atom.
Nearest = dict[tuple[int, int], tuple[NearRow, ...]]


class ExplainingMixin:
    """Explanations of single decisions."""

    classes_: NDArray[Any]
    chains_: list[Member]
    n_features_in_: int
    label_atoms_: Doubles
    _rows: Callable[..., Any]
    _filled: Callable[[Any], Any]
    _backend: Callable[[], Backend]
    _decided: Callable[[Doubles], NDArray[np.int64]]
    _probabilities: Callable[[Doubles], Doubles]

    @single_threaded_blas()
    def explain(
        self,
        X: ArrayLike,
        *,
        against: Any = None,
        baseline: ArrayLike | None = None,
        X_train: ArrayLike | None = None,
        y_train: ArrayLike | None = None,
        n_nearest: int = 3,
    ) -> Any:
        """Explain the class of a row, or of a few rows, feature by feature and atom by atom.

        The score of the predicted class minus that of another class is taken apart: into a
        constant, which is this difference for a baseline row, and one share per feature. Shares are
        integrals of the gradient of the score along the straight path from the baseline to the row
        (integrated gradients). A feature whose value is that of the baseline has no share.

        Given the atoms that a row uses, its code is linear in the row in the view of the chain. So
        slopes are exact for matching pursuit, its mean along the path, and the lasso's path. For a
        coder of your own they are differences between the codes of rows nearby. For the posterior
        mean they are those of the mean given the atoms of the code. The gradients of views are
        exact too, also those of kernels and of the scaling to unit norm. For a transformer of your
        own they are differences.

        The path is cut into 16 parts, each with the atoms that rows use there. Where these change,
        the score of a greedy code jumps, and slopes miss the jump. In each part, the missed
        difference is spread over the features in proportion to their shares in that part, so that
        shares add up exactly. A baseline that is nearly zero in a view has no direction. Then the
        norm of the row in this view is held fixed along the path.

        Parameters
        ----------
        X : array-like of shape (n_features,) or (n_samples, n_features)
            A row, or a few of them. Missing values (NaN) are filled first, and the shares are those
            of the filled values.
        against : label, default=None
            The class to compare the predicted one with. None means the class with the second
            highest score.
        baseline : array-like of shape (n_features,) or (1, n_features), default=None
            The row that rows are compared with. None means the mean of the training rows: that of
            ``X_train`` if given, or otherwise the mean that the views subtract (0 if none does).
        X_train : array-like of shape (n_training_rows, n_features), default=None
            Training rows, to find those that are nearest to the atoms that decided. Models do not
            contain them.
        y_train : array-like of shape (n_training_rows,), default=None
            Their labels, to be named beside them.
        n_nearest : int, default=3
            Number of training rows per atom.

        Returns
        -------
        explanation : Explanation, or a list of them if X has two dimensions

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from dbdl import DBDLClassifier
        >>> X, y = load_wine(return_X_y=True, as_frame=True)
        >>> model = DBDLClassifier(n_chains=3, random_state=0).fit(X[::2], y[::2])
        >>> why = model.explain(X.iloc[1])
        >>> bool(abs(why.constant + why.shares.sum() - why.difference) < 1e-8)
        True
        """
        check_is_fitted(self)
        if len(self.classes_) < 2:
            raise ValueError(
                "this model knows one class only, so there is nothing to explain. Expected at "
                "least 2 classes. Learn rows of another class first."
            )
        given, alone = _as_rows(X)
        rows = self._rows(in_memory(given), reset=False)
        filled = self._filled(rows)
        backend = self._backend()
        codes = [chain.encode(filled, backend) for chain in self.chains_]
        train = X_train if X_train is None else self._rows(in_memory(X_train), reset=False)
        train = train if train is None else self._filled(train)
        decided = self._decisions(codes, against)
        compared = self._baseline(baseline, train)
        nearest = self._nearest(codes, train, _labels_of(y_train, train), n_nearest)
        explanations = [
            Explanation(
                **decision,
                **self._shares(filled[i].astype(np.float64), compared, [c[i] for c in codes], pair),
                missing=np.isnan(rows[i]),
                feature_names=self._names_of_features(),
                classes=self.classes_,
                atoms=self._atom_shares([c[i] for c in codes], pair, nearest),
            )
            for i, (pair, decision) in enumerate(decided)
        ]
        return explanations[0] if alone else explanations

    def _decisions(
        self, codes: list[csr_matrix], against: Any
    ) -> list[tuple[Pair, dict[str, Any]]]:
        """Indices of the two classes of each row, and the fields of `Explanation` about them."""
        scores = hstack(codes, format="csr") @ self.label_atoms_
        as_decided = scores.ravel() if scores.shape[1] == 1 else scores
        probability, decided = self._probabilities(as_decided), self._decided(as_decided)
        if scores.shape[1] == 1:
            scores = np.hstack([-scores / 2, scores / 2])
        found, labels = [], self.classes_.tolist()
        for i, pair in enumerate(self._pairs(scores, decided.tolist(), against)):
            first, second = pair
            said = {
                "predicted": labels[first],
                "against": labels[second],
                "probability": float(probability[i, first]),
                "probability_against": float(probability[i, second]),
                "difference": float(scores[i, first] - scores[i, second]),
            }
            found.append((pair, said))
        return found

    def _pairs(self, scores: Doubles, predicted: list[int], against: Any) -> list[Pair]:
        if against is None:
            order = np.argsort(-scores, axis=1, kind="stable").tolist()
            return [
                (c, next(d for d in own if d != c)) for c, own in zip(predicted, order, strict=True)
            ]
        labels = self.classes_.tolist()
        if against not in labels:
            raise ValueError(
                f"against={against!r} is not among the classes {labels[:10]}. Expected one of them."
            )
        other = labels.index(against)
        if other in predicted:
            raise ValueError(
                f"against={against!r} is the predicted class of row {predicted.index(other)} of X. "
                "Expected another class. Leave against out to compare it with the class that "
                "follows."
            )
        return [(c, other) for c in predicted]

    def _shares(
        self, row: Doubles, baseline: Doubles, codes: list[csr_matrix], pair: Pair
    ) -> dict[str, Any]:
        """Shares of the features, summed over the chains."""
        backend = self._backend()
        parts = [
            share_out(chain, row, baseline, own, pair, backend)
            for chain, own in zip(self.chains_, codes, strict=True)
        ]
        return {
            "values": row,
            "baseline": baseline,
            "shares": np.sum([part.shares for part in parts], axis=0),
            "constant": float(sum(part.constant for part in parts)),
            "spread": float(sum(part.spread for part in parts)),
        }

    def _baseline(self, given: ArrayLike | None, train: Floats | None) -> Doubles:
        if given is None:
            if train is None:
                return mean_of_views(self.chains_, self.n_features_in_)
            mean: Doubles = np.mean(train, axis=0, dtype=np.float64)
            return mean
        baseline = as_numbers(given, "baseline").astype(np.float64)
        if baseline.shape not in ((self.n_features_in_,), (1, self.n_features_in_)):
            raise ValueError(
                f"baseline has the shape {baseline.shape}. Expected {self.n_features_in_} numbers, "
                "one per feature. Pass one row."
            )
        if not np.isfinite(baseline).all():
            raise ValueError(
                "baseline has values that are NaN or infinite. Expected finite numbers. Replace "
                "them, by the means of their features say."
            )
        return baseline.ravel()

    def _atom_shares(
        self, codes: list[csr_matrix], pair: Pair, nearest: Nearest
    ) -> tuple[AtomShare, ...]:
        found, labels, first = [], self.classes_.tolist(), 0
        for number, (chain, part) in enumerate(zip(self.chains_, codes, strict=True)):
            weights = weights_of_atoms(chain, pair)
            for k, coefficient in zip(part.indices.tolist(), part.data.tolist(), strict=True):
                probability = chain.selection_probability[:, k]
                owner = labels[int(probability.argmax())]
                share = float(coefficient * weights[k])
                near = nearest.get((number, k), ())
                numbers, view = (first + k, number, k), chain.view.name
                found.append(
                    AtomShare(*numbers, view, owner, probability, coefficient, share, near)
                )
            first += len(chain.atoms)
        return tuple(sorted(found, key=lambda atom: -abs(atom.share)))

    def _nearest(
        self,
        codes: list[csr_matrix],
        train: Floats | None,
        labels: list[Any] | None,
        n_nearest: int,
    ) -> Nearest:
        """Training rows near the atoms that rows use; empty without training rows."""
        check_scalar(n_nearest, "n_nearest", Integral, min_val=1)
        if train is None:
            return {}
        backend, found = self._backend(), Nearest()
        for number, (chain, part) in enumerate(zip(self.chains_, codes, strict=True)):
            used = np.unique(part.indices).astype(np.int64)
            rows, cosines = nearest_rows(chain, used, train, int(n_nearest), backend)
            for k, own, near in zip(used.tolist(), rows.tolist(), cosines.tolist(), strict=True):
                found[number, k] = tuple(
                    NearRow(i, None if labels is None else labels[i], cosine)
                    for i, cosine in zip(own, near, strict=True)
                )
        return found

    def _names_of_features(self) -> tuple[str, ...]:
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            return tuple(f"feature {j}" for j in range(self.n_features_in_))
        return tuple(map(str, names))


def _as_rows(X: Any) -> tuple[Any, bool]:
    """Return rows of two dimensions, and whether X is a single row."""
    if type(X).__name__ == "Series" and hasattr(X, "to_frame"):
        return X.to_frame().T, True
    values = isinstance(X, list | tuple) and not any(hasattr(value, "__len__") for value in X)
    if (values or getattr(X, "ndim", 2) == 1) and len(X):
        return np.asarray(X)[np.newaxis], True
    return X, False


def _labels_of(y_train: Any, train: Floats | None) -> list[Any] | None:
    if y_train is None:
        return None
    if train is None:
        raise ValueError(
            "y_train without X_train: labels name the training rows that X_train has. Pass both."
        )
    labels = column_or_1d(as_labels(y_train, "y_train"))
    check_consistent_length(train, labels)
    return labels.tolist()
