"""Accuracy with missing values, beside methods that have them filled first.

    python -m benchmarks.missing [digits botswana wine yaleb] [--shares 0.1 0.3 0.5] [--splits 2]
    python -m benchmarks.missing digits --restored

A share of the entries of the training and the test rows is removed at random. `DBDLClassifier`
takes the rows as they are. The others see rows that were filled by the means of the features or by
scikit-learn's ``IterativeImputer``, both learned from the training rows. "plain" is the best of
shrunken discriminant analysis, logistic regression and a linear SVM on folds of the training rows.
Prints a table in Markdown.

With ``--restored`` it measures ``inverse_transform(transform(X))`` of the test rows instead. Errors
are roots of mean squares. A row is far off if it has a value that is outside the range of all
training values by more than the width of this range.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.datasets import load_digits, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.experimental import enable_iterative_imputer  # noqa: F401 - makes the next line work
from sklearn.impute import IterativeImputer, SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from benchmarks.problems import Split, splits
from dbdl import DBDLClassifier
from dbdl.experiments.protocol import random_split

#: Training rows per class of scikit-learn's data sets; the others are tables of `dbdl reproduce`.
SMALL = {"digits": (load_digits, 20), "wine": (load_wine, 25)}
#: Most test rows, and most training rows per class, to save time.
MOST_TEST, MOST_TRAIN = 1500, {"yaleb": 16}
STRENGTHS = [0.01, 0.1, 1.0]


def problems(name: str, n_splits: int) -> Iterator[Split]:
    """Random splits of a data set."""
    if name not in SMALL:
        yield from splits(name, n_splits)
        return
    loader, per_class = SMALL[name]
    X, y = loader(return_X_y=True)
    for seed in range(n_splits):
        train, test = random_split(y, per_class, np.random.default_rng(seed))
        yield Split(X[train], y[train], X[test], y[test])


def smaller(name: str, split: Split) -> Split:
    """Fewer rows, to save time."""
    ranks = np.array([np.sum(split.y_train[:i] == c) for i, c in enumerate(split.y_train)])
    train = ranks < MOST_TRAIN.get(name, len(ranks))
    test = np.random.default_rng(0).permutation(len(split.y_test))[:MOST_TEST]
    return Split(split.X_train[train], split.y_train[train], split.X_test[test], split.y_test[test])


def with_gaps(X: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """Remove a share of the entries at random."""
    return np.where(rng.random(X.shape) < share, np.nan, X.astype(np.float64))


def plain() -> Any:
    """Return the best plain method on folds of the training rows."""
    steps = make_pipeline(StandardScaler(), LinearDiscriminantAnalysis())
    key = "lineardiscriminantanalysis"
    lda = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
    grid = [{key: [lda]}] + [
        {key: [model(C=c) for c in STRENGTHS]} for model in (LogisticRegression, LinearSVC)
    ]
    return GridSearchCV(steps, grid, cv=3)


def imputers() -> dict[str, Any]:
    """Return the ways to fill rows first."""
    iterative = IterativeImputer(
        n_nearest_features=10, keep_empty_features=True, max_iter=5, random_state=0
    )
    return {"means": SimpleImputer(keep_empty_features=True), "iterative": iterative}


def accuracies(split: Split, share: float, seed: int) -> dict[str, float]:
    """Accuracy of every method on one split, in percent."""
    rng = np.random.default_rng(1000 + seed)
    X_train, X_test = (with_gaps(X, share, rng) for X in (split.X_train, split.X_test))
    model = DBDLClassifier(random_state=seed).fit(X_train, split.y_train)
    found = {"DBDL, rows as they are": 100 * model.score(X_test, split.y_test)}
    for name, imputer in imputers().items():
        train, test = imputer.fit_transform(X_train), imputer.transform(X_test)
        for method, other in (("DBDL", DBDLClassifier(random_state=seed)), ("plain", plain())):
            score = other.fit(train, split.y_train).score(test, split.y_test)
            found[f"{name}, {method}"] = 100 * score
    return found


def restoration(split: Split, share: float, seed: int) -> dict[str, float]:
    """Errors of the test rows that `DBDLClassifier` restores, and how many are far off."""
    rng = np.random.default_rng(1000 + seed)
    X_train, X_test = (with_gaps(X, share, rng) for X in (split.X_train, split.X_test))
    gaps, least, largest = np.isnan(X_test), split.X_train.min(), split.X_train.max()
    by_means = np.where(gaps, np.nanmean(X_train, axis=0), X_test)
    found = {"gaps by means": root_mean_square((by_means - split.X_test)[gaps])}
    for views in ("auto", "plain + constant"):
        model = DBDLClassifier(views=views, random_state=seed).fit(X_train, split.y_train)
        filled = model.filler_.fill(X_test)
        found["gaps by filler_"] = root_mean_square((filled - split.X_test)[gaps])
        back = model.inverse_transform(model.transform(X_test))
        found[f"{views}: gaps"] = root_mean_square((back - split.X_test)[gaps])
        found[f"{views}: all values"] = root_mean_square(back - split.X_test)
        outside = np.maximum(least - back, back - largest) > largest - least
        found[f"{views}: rows far off, %"] = 100 * outside.any(axis=1).mean()
    return found


def root_mean_square(values: np.ndarray) -> float:
    """Root of the mean square."""
    return float(np.sqrt(np.mean(values**2)))


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=["digits", "botswana", "wine"])
    parser.add_argument("--shares", nargs="*", type=float, default=[0.1, 0.3, 0.5])
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--restored", action="store_true", help="measure restored rows instead")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    measure, head = restoration if arguments.restored else accuracies, None
    for name in arguments.names:
        parts = [smaller(name, split) for split in problems(name, arguments.splits)]
        for share in arguments.shares if parts else []:
            found = [measure(split, share, seed) for seed, split in enumerate(parts)]
            if head is None:
                head = list(found[0])
                print(f"| data | missing | {' | '.join(head)} |\n|{' --- |' * (len(head) + 2)}")
            cells = " | ".join(f"{np.mean([one[column] for one in found]):.1f}" for column in head)
            print(f"| {name} | {100 * share:.0f} % | {cells} |", flush=True)


if __name__ == "__main__":
    main()
