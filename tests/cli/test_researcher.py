"""A researcher compares a classifier of her own, and runs a table of her own, without our source.

Each transcript is what she types; the assertions are what she has to see.
"""

from __future__ import annotations

import csv
import io
import json
import sys

import pytest
from joblib.externals.loky import get_reusable_executor
from sklearn.datasets import load_wine
from test_cli import assert_refused, inside

METHODS = '''
"""My methods."""

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin


class NearestMean(ClassifierMixin, BaseEstimator):
    """The class with the nearest mean, shrunken to the mean of all rows."""

    def __init__(self, shrinkage=0.0):
        self.shrinkage = shrinkage

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        means = np.array([X[y == c].mean(axis=0) for c in self.classes_])
        self.means_ = (1 - self.shrinkage) * means + self.shrinkage * X.mean(axis=0)
        return self

    def predict(self, X):
        return self.classes_[((X[:, None] - self.means_) ** 2).sum(axis=2).argmin(axis=1)]


class NotAnEstimator:
    pass


class Failing(NearestMean):
    def fit(self, X, y):
        raise ValueError("no luck")
'''

TABLE = """
title = "Wines of my own"
dataset = "wine.csv"
label = "kind"
note = "The printed accuracy is from my paper."

[columns."half of each class"]
per_class = 0.5
n_splits = 2

[[methods]]
method = "1-NN"

[[methods]]
method = "nearest mean"
estimator = "my_methods:NearestMean"
settings = { shrinkage = 0.1 }
accuracy = [71.5]
"""


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """Her folder: a table of wines, a module of methods, and a table to run."""
    frame = load_wine(as_frame=True).frame
    frame["kind"] = frame.pop("target").map({0: "barolo", 1: "grignolino", 2: "barbera"})
    frame.to_csv(tmp_path / "wine.csv", index=False)
    (tmp_path / "my_methods.py").write_text(METHODS)
    (tmp_path / "my.toml").write_text(TABLE)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path
    sys.modules.pop("my_methods", None)


def run(desk, *arguments):
    result = inside(*arguments, cwd=desk)
    assert result.returncode == 0, result.stderr
    return result


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


COMPARE = (
    "compare", "wine.csv", "--label", "kind", "-m", "1-NN", "--folds", 2, "--quick",
    "--estimator", "my_methods:NearestMean",
)  # fmt: skip


def test_her_classifier_stands_in_the_comparison_and_in_the_report_that_she_mails(desk):
    result = run(desk, *COMPARE, "-o", "out")
    assert "| NearestMean |" in result.stdout and "| majority class |" in result.stdout
    assert "1-NN is the most accurate on this data" in result.stdout
    page = (desk / "out" / "report.html").read_text("utf-8")
    assert "The class with the nearest mean, shrunken to the mean of all rows" in page
    assert "--estimator my_methods:NearestMean -o out" in page and ">wine.csv<" in page
    assert 'download="compare-0-means.csv"' in page and 'href="data:text/csv' in page


def test_only_her_own_cells_are_run_again_when_her_code_changes(desk):
    run(desk, *COMPARE, "--results", "cells.jsonl")
    again = run(desk, *COMPARE, "--results", "cells.jsonl")
    assert "split" not in again.stderr
    (desk / "my_methods.py").write_text(METHODS.replace("argmin", "argmax"))
    sys.modules.pop("my_methods")
    changed = run(desk, *COMPARE, "--results", "cells.jsonl")
    assert changed.stderr.count("NearestMean, split") == 2 and "1-NN, split" not in changed.stderr


def test_the_page_on_the_model_is_fitted_and_written_anew_only_if_something_changed(desk):
    compare = ("compare", "wine.csv", "--label", "kind", "-m", "DBDL", "--folds", 2, "--quick")
    first = run(desk, *compare, "-o", "out")
    page = desk / "out" / "model.html"
    before = page.read_bytes()
    assert "wrote out/model.html" in first.stderr
    again = run(desk, *compare, "-o", "out")
    assert "out/model.html is up to date" in again.stderr and page.read_bytes() == before
    lines = (desk / "wine.csv").read_text().splitlines()
    (desk / "wine.csv").write_text("\n".join(lines[:-1]))
    other = run(desk, *compare, "-o", "out")
    assert "wrote out/model.html" in other.stderr and page.read_bytes() != before


def test_her_table_runs_with_her_printed_accuracy_beside(desk):
    result = run(desk, "reproduce", "my.toml", "--plot", "a.svg", "--report", "a.html")
    assert "### Wines of my own" in result.stdout and "| 71.50 |" in result.stdout
    assert "The printed accuracy is from my paper." in result.stdout
    assert "<svg" in (desk / "a.svg").read_text("utf-8")
    assert "dbdl reproduce my.toml" in (desk / "a.html").read_text("utf-8")
    assert len((desk / "results" / "my.jsonl").read_text().splitlines()) == 4
    again = run(desk, "reproduce", "my.toml", "--plot", "a.pdf")
    assert "split 1" not in again.stderr and (desk / "a.pdf").read_bytes().startswith(b"%PDF")
    page = run(desk, "report", "results/my.jsonl", "--table", "my.toml", "-o", "b.html")
    assert "wrote b.html" in page.stderr
    assert "Wines of my own" in (desk / "b.html").read_text("utf-8")


def test_tables_come_as_csv_latex_and_markdown_as_means_and_split_by_split(desk):
    table = ("reproduce", "my.toml")
    means = rows_of(run(desk, *table, "--format", "csv").stdout)
    splits = rows_of(run(desk, *table, "--format", "csv", "--per-split").stdout)
    assert [row["method"] for row in means] == ["1-NN", "nearest mean", "majority class"]
    assert [(row["method"], row["split"]) for row in splits] == [
        ("1-NN", "1"), ("nearest mean", "1"), ("1-NN", "2"), ("nearest mean", "2"),
    ]  # fmt: skip
    own = [float(row["accuracy %"]) for row in splits if row["method"] == "nearest mean"]
    assert float(means[1]["accuracy %"]) == pytest.approx(sum(own) / 2, abs=1e-3)
    latex = run(desk, *table, "--format", "latex").stdout
    assert r"\toprule" in latex and rf"nearest mean & {sum(own) / 2:.2f} $\pm$" in latex
    assert r"accuracy \%" in latex
    markdown = run(desk, *table, "--format", "markdown", "--per-split").stdout
    assert markdown.startswith("| method | split | accuracy % |")
    found = json.loads(run(desk, *table, "--json", "--per-split").stdout)
    assert found["lines"][1]["accuracy"] == pytest.approx(sum(own) / 200)  # a share, from 0 to 1
    assert found["splits"][1]["accuracy"] == pytest.approx(own[0] / 100)


def test_a_module_may_name_its_methods_and_give_grids(desk):
    (desk / "my_methods.py").write_text(
        METHODS + "\nimport dbdl\n\ndbdl.register('mean of mine', NearestMean,"
        " grid={'shrinkage': [0.0, 0.5]}, paper='Me 2026')\n"
    )
    compare = [word for word in COMPARE if word != "--quick"]
    result = run(desk, *compare, "--report", "r.html")
    assert "| mean of mine |" in result.stdout and "| shrinkage 0.0" in result.stdout
    assert "Me 2026" in (desk / "r.html").read_text("utf-8")


def test_workers_know_her_classifier(desk):
    get_reusable_executor().shutdown()  # workers of earlier tests do not know her folder
    result = run(desk, *COMPARE, "--workers", 2)
    assert "| NearestMean |" in result.stdout and "failed" not in result.stdout


def test_a_failing_classifier_is_a_failure_in_the_table(desk):
    result = run(desk, *COMPARE, "--estimator", "my_methods:Failing")
    assert "failed: ValueError: no luck" in result.stdout


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("my_methods:NearestMean", "nothing:NearestMean"), "there is no module 'nothing'"),
        (("my_methods:NearestMean", "my_methods:Nearest"), "has no attribute 'Nearest'"),
        (("my_methods:NearestMean", "my_methods"), "expected package.module:Class"),
        (("my_methods:NearestMean", "my_methods:NotAnEstimator"), "which has no fit"),
        (('dataset = "wine.csv"', ""), "there is no 'dataset', which a table needs"),
        (("wine.csv", "none.csv"), "none.csv"),
        (('label = "kind"', 'label = "sort"'), "sort"),
        (("per_class", "per_clas"), "per_clas"),
        (('method = "1-NN"', 'method = "2-NN"'), "unknown method '2-NN'; there are"),
        (('method = "1-NN"', ""), "neither a 'method' nor an 'estimator'"),
        (("settings = {", "settings = "), "my.toml"),
        (("note =", "notes ="), "unknown keys ['notes']"),
    ],
)
def test_a_table_with_a_mistake_is_refused_and_nothing_is_written(desk, change, words):
    (desk / "my.toml").write_text(TABLE.replace(*change, 1))
    before = sorted(desk.iterdir())
    assert_refused(inside("reproduce", "my.toml", "--report", "a.html", cwd=desk), words)
    assert sorted(desk.iterdir()) == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--estimator", "my_methods:Absent"), "has no attribute 'Absent'"),
        (("--estimator", "my_methods"), "expected package.module:Class"),
        (("--estimator", "my_methods:NotAnEstimator"), "scikit-learn's interface"),
        (("--estimator", "broken:Class"), "broken:Class cannot be imported: SyntaxError"),
        (("--format", "word"), "'word'"),
        (("--folds", 500), "too few for 500 folds"),
        (("--label", "sort"), "sort"),
    ],
)
def test_a_comparison_with_a_mistake_is_refused_and_nothing_is_written(desk, arguments, words):
    (desk / "broken.py").write_text("class Class(:\n")
    before = sorted(desk.iterdir())
    assert_refused(inside(*COMPARE, *arguments, "-o", "out", cwd=desk), words)
    assert sorted(desk.iterdir()) == before


def test_the_version_is_printed(desk):
    assert run(desk, "--version").stdout.startswith("dbdl 0.")
