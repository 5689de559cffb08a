"""The demonstration behind ``make demo``: digits, a table, pictures, and a page to look at."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.linear_model import RidgeClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer
from sklearn.svm import LinearSVC

from dbdl import DBDLClassifier
from dbdl.plotting import AtomsDisplay, SelectionDisplay, TraceDisplay
from dbdl.report import write_report

OUTPUT = Path("demo_output")


class Row(NamedTuple):
    """One line of the table."""

    name: str
    accuracy: float
    loss: float | None
    n_atoms: int | None
    fit_seconds: float


def main(output: Path = OUTPUT) -> None:
    """Fit on scikit-learn's digits beside plain methods; a table, pictures and a report."""
    console = Console()
    X, y = load_digits(return_X_y=True)
    split = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
    n_train = len(split[0])
    console.print(
        f"Digits of scikit-learn: {n_train} rows to learn from, {len(y) - n_train} to test."
    )
    model = DBDLClassifier(n_jobs=-1, random_state=0)
    rows = list(_compare(console, model, split))
    console.print(_table(rows))
    chain = model.chains_[0]
    console.print(
        f"DBDL chose {model.n_nonzero_} non-zeros on rows left out of its dictionaries. "
        f"Each of its {model.n_chains} chains started from half as many atoms again as rows and "
        f"kept about {len(chain.atoms)}."
    )
    for path in _draw(model, output):
        console.print(f"wrote {path}")
    page = write_report(
        model,
        split[1],
        split[3],
        output / "report.html",
        image_shape=(8, 8),
        title="Digits of scikit-learn",
    )
    console.print(f"wrote {page}: open it in a browser")


def _compare(console: Console, model: DBDLClassifier, split: list[Any]) -> Iterator[Row]:
    # The plain methods see rows of unit norm, as DBDL does.
    methods = {
        "DBDL, five chains": model,
        "ridge": make_pipeline(Normalizer(), RidgeClassifier(alpha=0.1)),
        "linear SVM": make_pipeline(Normalizer(), LinearSVC(C=10.0)),
        "1-NN": make_pipeline(Normalizer(), KNeighborsClassifier(1)),
    }
    X_train, X_test, y_train, y_test = split
    for name, method in methods.items():
        with console.status(f"{name} ..."):
            start = time.perf_counter()
            method.fit(X_train, y_train)
            seconds = time.perf_counter() - start
        is_ours = method is model
        yield Row(
            name,
            method.score(X_test, y_test),
            log_loss(y_test, method.predict_proba(X_test)) if is_ours else None,
            method.n_atoms_ if is_ours else None,
            seconds,
        )


def _table(rows: list[Row]) -> Table:
    table = Table(title="Held-out digits")
    for column in ("method", "accuracy", "log-loss", "atoms", "fit"):
        table.add_column(column, justify="left" if column == "method" else "right")
    best = max(row.accuracy for row in rows)
    for row in rows:
        table.add_row(
            row.name,
            f"{100 * row.accuracy:.1f} %",
            "" if row.loss is None else f"{row.loss:.3f}",
            "" if row.n_atoms is None else str(row.n_atoms),
            f"{row.fit_seconds:.2f} s",
            style="bold" if row.accuracy == best else None,
        )
    return table


def _draw(model: DBDLClassifier, output: Path) -> Iterator[Path]:
    import matplotlib

    matplotlib.use("Agg")
    output.mkdir(parents=True, exist_ok=True)
    displays: dict[str, Any] = {
        "atoms.png": AtomsDisplay.from_estimator(model, (8, 8)),
        "selection_probability.png": SelectionDisplay.from_estimator(model),
        "trace.png": TraceDisplay.from_estimator(model),
    }
    for name, display in displays.items():
        display.figure_.savefig(output / name, dpi=150)
        yield output / name


if __name__ == "__main__":
    main()
