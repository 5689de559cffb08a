"""Accuracy and calibration of every method on real data, on the same splits.

    python -m benchmarks.accuracy [yaleb scene15 botswana coil20 usps ...] [--splits 5]
                                  [--only DBDL SRC ...] [--quick]

Walks the registry of `dbdl.methods`. Settings come from the paper where it gives them (YaleB), and
otherwise from the method's grid by cross-validation on the training rows of each split, rows held
out of the dictionary; nothing is chosen on test rows. The best coder of DBDL in hindsight, on test
rows, stands beside the chosen one for comparison only. A failure is printed as a failure.

``--quick``: one split, no grid.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import GridSearchCV, StratifiedKFold

from benchmarks.problems import PROBLEMS, Split, splits
from dbdl import DBDLClassifier, Method, methods
from dbdl.learn.ensemble import encode_rows
from dbdl.learn.held_out import Coder

OUTPUT = Path("benchmarks/output")
N_SPLITS = {"yaleb": 5, "usps": 1}
N_FOLDS = 3

#: Table 1 of the paper: accuracy in %.
PAPER_ACCURACY: dict[str, dict[str, float]] = {
    "yaleb": {
        "LLC": 90.7, "K-SVD": 93.13, "LC-KSVD1": 93.59, "D-KSVD": 94.79, "DL-COPAR": 94.83,
        "LC-KSVD2": 95.22, "FDDL": 96.07, "SRC": 96.32, "DBDL 1 chain": 97.19,
    },
}  # fmt: skip
#: Settings of the paper's section 5.1: 600 atoms (500 for LC-KSVD1) are about 16 (13) a class.
PAPER_SETTINGS: dict[str, dict[str, dict[str, Any]]] = {
    "yaleb": {
        "K-SVD": {"n_atoms_per_class": 16, "n_nonzero": 30},
        "D-KSVD": {"n_atoms_per_class": 16, "n_nonzero": 30},
        "LC-KSVD1": {"n_atoms_per_class": 13, "n_nonzero": 30},
        "LC-KSVD2": {"n_atoms_per_class": 16, "n_nonzero": 30},
        "SRC": {"tolerance": 0.05},
        "LLC": {"n_neighbors": 70},
    },
}


def choose_settings(method: Method, given: dict[str, Any], split: Split) -> dict[str, Any]:
    """Return settings of the method's grid that are not given, by cross-validation."""
    grid = {name: values for name, values in method.grid.items() if name not in given}
    if not grid:
        return {}
    folds = StratifiedKFold(N_FOLDS, shuffle=True, random_state=0)
    search = GridSearchCV(_without_calibration(method, given), grid, cv=folds, refit=False)
    return search.fit(split.X_train, split.y_train).best_params_


def _without_calibration(method: Method, settings: dict[str, Any]) -> Any:
    estimator = method(**settings)
    return estimator.set_params(calibrate=False) if hasattr(estimator, "calibrate") else estimator


def _common(method: Method) -> dict[str, Any]:
    """Return parameters that every run has, where the method knows them."""
    known = method().get_params()
    return {k: v for k, v in {"random_state": 0, "n_jobs": -1}.items() if k in known}


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
    """Short name: F28 for forward selection with 28 non-zeros, O28m for a textbook path's mean."""
    return f"{coder.selection[0].upper()}{coder.n_nonzero}{'m' * coder.path_average}"


def measure(method: Method, settings: dict[str, Any], split: Split) -> dict[str, Any]:
    """Fit, and what is seen on the test rows."""
    model = method(**settings)
    start = time.perf_counter()
    model.fit(split.X_train, split.y_train)
    fit_seconds = time.perf_counter() - start
    start = time.perf_counter()
    predicted = model.predict(split.X_test)
    result = {
        "accuracy": float((predicted == split.y_test).mean()),
        "fit_seconds": fit_seconds,
        "query_milliseconds": 1e3 * (time.perf_counter() - start) / len(split.y_test),
        "n_atoms": getattr(model, "n_atoms_", 0) / getattr(model, "n_chains", 1),
    }
    if hasattr(model, "predict_proba"):
        probability = model.predict_proba(split.X_test)
        true = np.searchsorted(model.classes_, split.y_test)
        p_true = probability[np.arange(len(true)), true]
        result["log_loss"] = float(-np.log(np.clip(p_true, 1e-15, 1)).mean())
        result["calibration_error"] = expected_calibration_error(
            probability, predicted == split.y_test
        )
    if isinstance(model, DBDLClassifier):
        result["coder"] = coder_name(model.held_out_.coder)
        result["best_coder"], result["best_accuracy"] = hindsight(model, split)
    return result


def run(problem: str, n_splits: int, only: list[str] | None, quick: bool) -> None:
    """Measure every method on every split of one problem; print a table, keep the records."""
    records: dict[str, list[dict[str, Any]]] = {}
    for number, split in enumerate(splits(problem, n_splits)):
        for record in _records(problem, split, only, quick):
            records.setdefault(record["method"], []).append(record)
            _append(problem, {"split": number, **record})
    if not records:
        return
    n = max(map(len, records.values()))
    paper = PAPER_ACCURACY.get(problem, {})
    print(f"\n{problem}, {n} split{'s' if n > 1 else ''}")
    print(
        f"| method | accuracy % |{' paper % |' if paper else ''} log-loss | calibration error % "
        "| atoms | settings chosen | fit s | query ms |"
    )
    print("| --- " * (9 if paper else 8) + "|")
    for name, rows in sorted(records.items(), key=lambda item: -_mean(item[1], "accuracy")):
        print(_line(name, rows, paper), flush=True)


def _records(
    problem: str, split: Split, only: list[str] | None, quick: bool
) -> Iterator[dict[str, Any]]:
    for name, method in methods().items():
        if only and name not in only:
            continue
        given = {**_common(method), **PAPER_SETTINGS.get(problem, {}).get(name, {})}
        try:
            chosen = {} if quick else choose_settings(method, given, split)
            result = measure(method, {**given, **chosen}, split)
        except Exception as error:  # a table shows what failed
            chosen, result = {}, {"failure": f"{type(error).__name__}: {error}"}
        print(f"  {name} {chosen} {result}", flush=True)
        yield {"method": name, "chosen": chosen, **result}


def _append(problem: str, record: dict[str, Any]) -> None:
    OUTPUT.mkdir(parents=True, exist_ok=True)
    with (OUTPUT / f"accuracy_{problem}.jsonl").open("a") as file:
        file.write(json.dumps(record, default=float) + "\n")


def _mean(rows: list[dict[str, Any]], key: str) -> float:
    return float(np.mean([row.get(key, np.nan) for row in rows]))


def _line(name: str, rows: list[dict[str, Any]], paper: dict[str, float]) -> str:
    failures = [row["failure"] for row in rows if "failure" in row]
    if failures:
        return f"| {name} | failed: {failures[0][:80]} |"
    accuracy = [100 * row["accuracy"] for row in rows]
    spread = f" ± {np.std(accuracy, ddof=1):.2f}" if len(rows) > 1 else ""
    cells = [name, f"{np.mean(accuracy):.2f}{spread}"]
    if paper:
        cells.append(f"{paper[name]}" if name in paper else "")
    has_probability = "log_loss" in rows[0]
    cells.append(f"{_mean(rows, 'log_loss'):.3f}" if has_probability else "")
    cells.append(f"{100 * _mean(rows, 'calibration_error'):.1f}" if has_probability else "")
    cells.append(f"{_mean(rows, 'n_atoms'):.0f}" if rows[0]["n_atoms"] else "")
    cells.append(_settings(rows))
    cells += [f"{_mean(rows, 'fit_seconds'):.1f}", f"{_mean(rows, 'query_milliseconds'):.2f}"]
    return "| " + " | ".join(cells) + " |"


def _settings(rows: list[dict[str, Any]]) -> str:
    """Name what was chosen, over all splits; for DBDL the best in hindsight too."""
    if "coder" in rows[0]:
        chosen = ", ".join(sorted({row["coder"] for row in rows}))
        best = ", ".join(sorted({row["best_coder"] for row in rows}))
        return f"{chosen} (best in hindsight: {best}, {100 * _mean(rows, 'best_accuracy'):.2f} %)"
    values = {name: sorted({row["chosen"][name] for row in rows}) for name in rows[0]["chosen"]}
    return "; ".join(f"{name} {', '.join(map(str, found))}" for name, found in values.items())


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "problems", nargs="*", default=["yaleb", "scene15", "botswana", "coil20", "usps"]
    )
    parser.add_argument("--splits", type=int, default=None, help="default: 5 for yaleb, else 3")
    parser.add_argument("--only", nargs="*", choices=list(methods()), help="names of methods")
    parser.add_argument("--quick", action="store_true", help="one split, no grid")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", category=UserWarning)
    for name in arguments.problems:
        if name not in PROBLEMS:
            parser.error(f"unknown problem {name!r}; there are {', '.join(PROBLEMS)}")
        n_splits = 1 if arguments.quick else arguments.splits or N_SPLITS.get(name, 3)
        run(name, n_splits, arguments.only, arguments.quick)


if __name__ == "__main__":
    main()
