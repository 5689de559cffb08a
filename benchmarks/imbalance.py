"""Weights of classes where some classes have a tenth of the rows of others.

    python -m benchmarks.imbalance

Half of the rows are learned from, five splits. Every other class of digits, and the malignant cases
of breast cancer, keep a tenth of these rows. Balanced accuracy counts every class alike.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.metrics import accuracy_score, balanced_accuracy_score, f1_score
from sklearn.model_selection import train_test_split

from dbdl import DBDLClassifier

#: Data, and the classes that keep few rows.
DATA = {"digits": (load_digits, (0, 2, 4, 6, 8)), "breast cancer": (load_breast_cancer, (0,))}
N_SPLITS, KEPT = 5, 10


def split(
    y: NDArray[np.int64], few: tuple[int, ...], seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows to learn from, some classes with few of them, and test rows."""
    rows = np.arange(len(y))
    train, test = train_test_split(rows, stratify=y, test_size=0.5, random_state=seed)
    rng, kept = np.random.default_rng(seed), []
    for c in np.unique(y):
        own = train[y[train] == c]
        kept.append(rng.choice(own, len(own) // KEPT, replace=False) if c in few else own)
    return np.sort(np.concatenate(kept)), test


def main() -> None:
    """Print the means over splits in %, with standard deviations."""
    print("data, class_weight: accuracy, balanced accuracy, macro F1")
    for name, (load, few) in DATA.items():
        X, y = load(return_X_y=True)
        for weight in (None, "balanced"):
            found = []
            for seed in range(N_SPLITS):
                train, test = split(y, few, seed)
                model = DBDLClassifier(class_weight=weight, random_state=seed, n_jobs=-1)
                predicted = model.fit(X[train], y[train]).predict(X[test])
                f1 = f1_score(y[test], predicted, average="macro")
                balanced = balanced_accuracy_score(y[test], predicted)
                found.append((accuracy_score(y[test], predicted), balanced, f1))
            mean, spread = np.mean(found, axis=0), np.std(found, axis=0, ddof=1)
            pairs = zip(100 * mean, 100 * spread, strict=True)
            print(f"{name}, {weight}: {', '.join(f'{m:.2f} ± {s:.2f}' for m, s in pairs)}")


if __name__ == "__main__":
    main()
