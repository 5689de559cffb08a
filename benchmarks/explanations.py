"""Do the features with the largest shares matter to the model?

    python -m benchmarks.explanations

Half of the rows are learned from, and 40 others are explained. Of each, a fifth of the features are
set to the mean of the training rows: those with the largest shares, those farthest from the mean in
standard deviations, or random ones. The better an explanation, the more the difference between the
scores of the two classes falls.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.model_selection import train_test_split

from dbdl import DBDLClassifier, Explanation

DATA = {"wine": load_wine, "breast cancer": load_breast_cancer, "digits": load_digits}
N_ROWS, SHARE = 40, 0.2


def differences(model: Any, rows: NDArray[Any], why: Explanation) -> NDArray[Any]:
    """Score of the predicted class minus that of the other, for changed rows."""
    scores = model.decision_function(rows)
    if scores.ndim == 1:
        scores = np.column_stack([-scores / 2, scores / 2])
    labels = model.classes_.tolist()
    return scores[:, labels.index(why.predicted)] - scores[:, labels.index(why.against)]


def main() -> None:
    """Print how far differences of scores fall, in % of their mean, and what was spread."""
    print("data: by shares, by distance from the mean, at random, spread, seconds per row")
    for name, load in DATA.items():
        X, y = load(return_X_y=True)
        train, test = train_test_split(np.arange(len(y)), stratify=y, test_size=0.5, random_state=0)
        model = DBDLClassifier(random_state=0, n_jobs=-1).fit(X[train], y[train])
        mean, deviation = X[train].mean(axis=0), X[train].std(axis=0) + 1e-12
        rng, found, n_changed = np.random.default_rng(0), [], round(SHARE * X.shape[1])
        start = perf_counter()
        explained = model.explain(X[test[:N_ROWS]], baseline=mean)
        seconds = (perf_counter() - start) / N_ROWS
        for row, why in zip(X[test[:N_ROWS]], explained, strict=True):
            apart, chance = np.abs(row - mean) / deviation, rng.random(len(row))
            rows = np.tile(row, (3, 1))
            for changed, order in zip(rows, (why.shares, apart, chance), strict=True):
                chosen = np.argsort(-order)[:n_changed]
                changed[chosen] = mean[chosen]
            found.append([why.difference, *(why.difference - differences(model, rows, why)),
                          abs(why.spread)])  # fmt: skip
        total, *falls = np.mean(found, axis=0)
        shown = ", ".join(f"{100 * fall / total:.0f} %" for fall in falls)
        print(f"{name}: {shown}, {seconds:.2f}", flush=True)


if __name__ == "__main__":
    main()
