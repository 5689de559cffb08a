"""Accuracy and calibration on real data, beside plain methods on the same splits.

    python -m benchmarks.accuracy [yaleb scene15 botswana coil20 usps ...] [--splits 3]

Every choice (number of non-zeros, penalties, C) is made on training rows by cross-validation.
The best number of non-zeros in hindsight, on test rows, stands beside the chosen one for
comparison only.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.linear_model import LogisticRegression, RidgeClassifierCV
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC

from benchmarks.problems import PROBLEMS, Split, splits
from dbdl import DBDLClassifier
from dbdl.learn.ensemble import encode_rows
from dbdl.learn.held_out import Coder

OUTPUT = Path("benchmarks/output")
N_SPLITS = {"yaleb": 10, "usps": 1}


def methods() -> dict[str, ClassifierMixin]:
    """Fresh estimators; those with a parameter choose it by cross-validation on training rows."""
    return {
        "DBDL 1 chain": DBDLClassifier(n_chains=1, n_jobs=-1, random_state=0),
        "DBDL 5 chains": DBDLClassifier(n_chains=5, n_jobs=-1, random_state=0),
        "ridge": RidgeClassifierCV(alphas=np.logspace(-4, 1, 11)),
        "linear SVM": GridSearchCV(LinearSVC(), {"C": [0.1, 1, 10, 100, 1000]}, cv=3, n_jobs=2),
        "1-NN": KNeighborsClassifier(1),
        "logistic": GridSearchCV(
            LogisticRegression(max_iter=300), {"C": [10, 100, 1000]}, cv=3, n_jobs=2,
            scoring="neg_log_loss",
        ),
    }  # fmt: skip


def expected_calibration_error(
    probability: np.ndarray, correct: np.ndarray, n_bins: int = 15
) -> float:
    """Mean gap between confidence and accuracy over bins of equal width, weighted by size."""
    confidence = probability.max(axis=1)
    bins = np.minimum((confidence * n_bins).astype(int), n_bins - 1)
    gaps = [
        abs(confidence[bins == b].mean() - correct[bins == b].mean()) * (bins == b).mean()
        for b in np.unique(bins)
    ]
    return float(np.sum(gaps))


def hindsight(model: DBDLClassifier, split: Split) -> tuple[str, float]:
    """Coder that would have been best on the test rows, and its accuracy."""
    coders = model.held_out_.coders
    y_test = np.searchsorted(model.classes_, split.y_test)
    total = [0.0] * len(coders)
    for chain in model.chains_:
        codes = encode_rows(split.X_test, chain.atoms, chain.gram, coders, 2)
        total = [t + c @ chain.label_atoms for t, c in zip(total, codes, strict=True)]
    accuracy = [(scores.argmax(axis=1) == y_test).mean() for scores in total]
    return coder_name(coders[int(np.argmax(accuracy))]), float(max(accuracy))


def coder_name(coder: Coder) -> str:
    """Short name of a coder: F28 for forward selection with 28 non-zeros, O28 for textbook."""
    return f"{coder.selection[0].upper()}{coder.n_nonzero}"


def measure(name: str, method: ClassifierMixin, split: Split) -> dict[str, Any]:
    """Fit, and what is seen on the test rows."""
    start = time.perf_counter()
    method.fit(split.X_train, split.y_train)
    fit_seconds = time.perf_counter() - start
    predicted = method.predict(split.X_test)
    result = {"accuracy": float((predicted == split.y_test).mean()), "fit_seconds": fit_seconds}
    if name == "logistic" or name.startswith("DBDL"):
        probability = method.predict_proba(split.X_test)
        true = np.searchsorted(method.classes_, split.y_test)
        p_true = probability[np.arange(len(true)), true]
        result["log_loss"] = float(-np.log(np.clip(p_true, 1e-15, 1)).mean())
        result["calibration_error"] = expected_calibration_error(
            probability, predicted == split.y_test
        )
    if name.startswith("DBDL"):
        result["n_atoms"] = method.n_atoms_ / method.n_chains
        result["coder"] = coder_name(Coder(method.selection_, method.n_nonzero_))
        result["best_coder"], result["best_accuracy"] = hindsight(method, split)
    return result


def run(problem: str, n_splits: int, only: list[str] | None = None) -> None:
    """Measure every method on every split of one problem; print a table, keep the records."""
    records: dict[str, list[dict[str, Any]]] = {}
    for split in splits(problem, n_splits):
        for name, method in methods().items():
            if only and name not in only:
                continue
            records.setdefault(name, []).append(measure(name, method, split))
    if not records:
        return
    OUTPUT.mkdir(parents=True, exist_ok=True)
    (OUTPUT / f"accuracy_{problem}.json").write_text(json.dumps(records, indent=1))
    n = len(next(iter(records.values())))
    print(f"\n{problem}, {n} split{'s' if n > 1 else ''}")
    print(
        "| method | accuracy % | log-loss | calibration error % | atoms a chain "
        "| coder (best in hindsight, accuracy %) | fit s |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, rows in records.items():
        print(_line(name, rows), flush=True)


def _line(name: str, rows: list[dict[str, Any]]) -> str:
    def mean(key: str) -> float:
        return float(np.mean([row[key] for row in rows]))

    accuracy = [100 * row["accuracy"] for row in rows]
    spread = f" ± {np.std(accuracy, ddof=1):.2f}" if len(rows) > 1 else ""
    cells = [name, f"{np.mean(accuracy):.2f}{spread}"]
    has_probability = "log_loss" in rows[0]
    cells.append(f"{mean('log_loss'):.3f}" if has_probability else "")
    cells.append(f"{100 * mean('calibration_error'):.1f}" if has_probability else "")
    if "coder" in rows[0]:
        chosen = ", ".join(sorted({str(row["coder"]) for row in rows}))
        best = ", ".join(sorted({str(row["best_coder"]) for row in rows}))
        cells += [f"{mean('n_atoms'):.0f}", f"{chosen} ({best}, {100 * mean('best_accuracy'):.2f})"]
    else:
        cells += ["", ""]
    cells.append(f"{mean('fit_seconds'):.1f}")
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "problems", nargs="*", default=["yaleb", "scene15", "botswana", "coil20", "usps"]
    )
    parser.add_argument("--splits", type=int, default=None, help="default: 10 for yaleb, else 3")
    parser.add_argument("--only", nargs="*", help="names of methods")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", category=UserWarning)
    for name in arguments.problems:
        if name not in PROBLEMS:
            parser.error(f"unknown problem {name!r}; there are {', '.join(PROBLEMS)}")
        run(name, arguments.splits or N_SPLITS.get(name, 3), arguments.only)


if __name__ == "__main__":
    main()
