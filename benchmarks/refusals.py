"""Do prediction sets and refusals keep their promises, and are outliers found?

    python -m benchmarks.refusals [digits wine ...] [--splits 10]
    python -m benchmarks.refusals --outliers [--splits 3]

The rows are those of the tables of `dbdl reproduce`, and the model has its default settings. Half
of the rows that were not learned from go to `fit_refusals`, the other half is tested. The band is
where the mean coverage of as many independent splits would lie in 99 of 100 cases: given the rows
of `fit_refusals`, the number of covered rows is Beta-binomial. With ``--outliers`` digits 0 to 7
are learned. Outliers are the digits 8 and 9, pixels of uniform noise, and test rows whose pixels
are permuted.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator

import numpy as np
from scipy.stats import betabinom, multivariate_normal
from sklearn.datasets import load_digits
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import normalize

from benchmarks.problems import Split, splits
from dbdl import BetaProcessDictionary, DBDLClassifier
from dbdl.experiments.spec import table_names
from dbdl.learn.members import Member

PROBLEMS = ("digits", "wine", "breast_cancer", "botswana", "coil20", "yaleb", "usps")
COVERAGE, MAX_ERROR = 0.9, 0.05


# ------------------------------------------------------------------------- sets and refusals


def halves(split: Split, seed: int) -> tuple[np.ndarray, ...]:
    """Halve the rows that were not learned from: X and y to measure on, X and y to test on."""
    found = train_test_split(split.X_test, split.y_test, test_size=0.5, random_state=seed)
    X_unseen, X_test, y_unseen, y_test = found
    return X_unseen, y_unseen, X_test, y_test


def measure(model: DBDLClassifier, parts: tuple[np.ndarray, ...]) -> dict[str, float]:
    """Share of covered rows and of other things, on one pair of halves."""
    X_unseen, y_unseen, X_test, y_test = parts
    model.fit_refusals(X_unseen, y_unseen)
    sets = model.predict_set(X_test, coverage=COVERAGE)
    accepted = ~model.refuse(X_test, max_error=MAX_ERROR)
    wrong = model.predict(X_test) != y_test
    n_unseen = len(y_unseen)
    n_covered = math.ceil(COVERAGE * (n_unseen + 1) - 1e-9)
    return {
        "unseen": n_unseen,
        "test": len(y_test),
        "promised": n_covered,
        "accuracy": 1 - wrong.mean(),
        "coverage": sets[np.arange(len(y_test)), np.searchsorted(model.classes_, y_test)].mean(),
        "size": sets.sum(axis=1).mean(),
        "accepted": accepted.mean(),
        "errors": float((wrong & accepted).sum()),
    }


def results(name: str, arguments: argparse.Namespace) -> Iterator[dict[str, float]]:
    """Measure every split; a data set with one split of its own is halved several times."""
    found = list(splits(name, arguments.splits))
    for seed, split in enumerate(found):
        model = DBDLClassifier(random_state=seed).fit(split.X_train, split.y_train)
        seeds = [seed] if len(found) > 1 else range(arguments.splits)
        yield from (measure(model, halves(split, half)) for half in seeds)


def band(rows: list[dict[str, float]]) -> tuple[float, float]:
    """Limits of the mean coverage of independent splits in 99 of 100 cases."""
    rng = np.random.default_rng(0)
    shares = [
        betabinom.rvs(
            int(r["test"]), r["promised"], r["unseen"] + 1 - r["promised"],
            size=20_000, random_state=rng,
        ) / r["test"]
        for r in rows
    ]  # fmt: skip
    low, high = np.quantile(np.mean(shares, axis=0), [0.005, 0.995])
    return float(low), float(high)


def print_promises(arguments: argparse.Namespace) -> None:
    """Print one line per data set."""
    print(
        "| data | rows measured, tested | accuracy | coverage | 99 % band | classes per set | "
        "accepted | errors among accepted | splits above the limit |"
    )
    print("| --- " * 9 + "|")
    for name in arguments.problems:
        rows = list(results(name, arguments))
        if not rows:
            continue
        low, high = band(rows)
        mean = {key: np.mean([r[key] for r in rows]) for key in rows[0]}
        n_accepted = np.array([r["accepted"] * r["test"] for r in rows])
        errors = np.array([r["errors"] for r in rows])
        rate = 100 * errors.sum() / max(n_accepted.sum(), 1)
        above = int((errors > MAX_ERROR * n_accepted).sum())
        print(
            f"| {name} | {mean['unseen']:.0f}, {mean['test']:.0f} | {100 * mean['accuracy']:.1f} % "
            f"| {100 * mean['coverage']:.1f} % | {100 * low:.1f} to {100 * high:.1f} % "
            f"| {mean['size']:.2f} | {100 * mean['accepted']:.0f} % | {rate:.1f} % "
            f"| {above} of {len(rows)} |",
            flush=True,
        )


# -------------------------------------------------------------------------------- outliers

Score = Callable[[np.ndarray], np.ndarray]


def moments(chains: list[Member], X: np.ndarray) -> np.ndarray:
    """Log density of rows under Gaussians with the model's first two moments, for the best class.

    Without `score_samples`, this would be the obvious density with a closed form.
    """
    found = []
    for chain in chains:
        rows, prior = chain.view.apply(X), chain.code_prior
        noise = np.eye(rows.shape[1]) / prior.noise_precision
        variances = chain.selection_probability / prior.precision
        gaussians = [chain.atoms.T @ (v[:, np.newaxis] * chain.atoms) + noise for v in variances]
        densities = [multivariate_normal(cov=cov).logpdf(rows) for cov in gaussians]
        found.append(np.max(densities, axis=0))
    return np.mean(found, axis=0)


def scores_of(X: np.ndarray, y: np.ndarray, seed: int) -> dict[str, Score]:
    """Ways to score how normal a row is, learned from rows; the higher, the more normal."""
    model = DBDLClassifier(random_state=seed, n_jobs=-1).fit(X, y)
    dictionary = BetaProcessDictionary(random_state=seed, n_jobs=-1).fit(X)
    nearest = NearestNeighbors(n_neighbors=1).fit(normalize(X))
    forest = IsolationForest(random_state=seed).fit(X)
    return {
        "`DBDLClassifier.score_samples`": model.score_samples,
        "`BetaProcessDictionary.score_samples`": dictionary.score_samples,
        "Gaussians with the moments of the former": lambda rows: moments(model.chains_, rows),
        "Gaussian with the moments of the latter": lambda rows: moments(dictionary.chains_, rows),
        "largest of `predict_proba`": lambda rows: model.predict_proba(rows).max(axis=1),
        "distance to the nearest training row": lambda rows: (
            -nearest.kneighbors(normalize(rows))[0][:, 0]
        ),
        "IsolationForest": forest.score_samples,
    }


def print_outliers(n_splits: int) -> None:
    """Print the area under the ROC curve for each kind of outliers, the mean of splits."""
    X, y = load_digits(return_X_y=True)
    known, areas = y < 8, {}
    for seed in range(n_splits):
        X_train, X_test, y_train, _ = train_test_split(X[known], y[known], random_state=seed)
        rng = np.random.default_rng(seed)
        outliers = {
            "8 and 9": X[~known],
            "noise": rng.uniform(0, 16, X_test.shape),
            "permuted pixels": rng.permuted(X_test, axis=1),
        }
        for name, score in scores_of(X_train, y_train, seed).items():
            normal = score(X_test)
            for kind, rows in outliers.items():
                is_normal = np.repeat([True, False], [len(normal), len(rows)])
                area = roc_auc_score(is_normal, np.concatenate([normal, score(rows)]))
                areas.setdefault(name, {}).setdefault(kind, []).append(area)
    print(f"| score | {' | '.join(outliers)} |\n{'| --- ' * (1 + len(outliers))}|")
    for name, kinds in areas.items():
        print(f"| {name} | {' | '.join(f'{np.mean(a):.3f}' for a in kinds.values())} |")


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problems", nargs="*", default=PROBLEMS)
    parser.add_argument("--outliers", action="store_true")
    parser.add_argument("--splits", type=int, default=None)
    arguments = parser.parse_args()
    for name in arguments.problems:
        if name not in table_names():
            parser.error(f"unknown problem {name!r}; there are {', '.join(table_names())}")
    if arguments.outliers:
        print_outliers(arguments.splits or 3)
    else:
        arguments.splits = arguments.splits or 10
        print_promises(arguments)


if __name__ == "__main__":
    main()
