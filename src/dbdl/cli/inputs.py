"""Data, methods and settings, from the words of a command."""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dbdl._columns import Columns, some
from dbdl.cli.errors import UserError
from dbdl.cli.progress import SweepsBar
from dbdl.cli.terminal import say
from dbdl.datasets import Dataset, load
from dbdl.experiments.measure import common_settings
from dbdl.experiments.rows import labelled_rows
from dbdl.maps import is_cube_file
from dbdl.persistence import read_columns
from dbdl.registry import methods


def known_methods(asked: Sequence[str] | None) -> list[str]:
    """Return names of methods, all by default; an unknown one is refused with those that exist."""
    by_lower = {name.lower(): name for name in methods()}
    names = [name.strip() for given in asked or () for name in given.split(",") if name.strip()]
    for name in names:
        if name.lower() not in by_lower:
            raise UserError(f"unknown method {name!r}; there are {', '.join(methods())}")
    return list(dict.fromkeys(by_lower[name.lower()] for name in names)) or list(methods())


def make_model(name: str, settings: Sequence[str], seed: int, jobs: int) -> Any:
    """Return a fresh estimator with settings such as ``n_chains=3``."""
    (known,) = known_methods([name])
    method = methods()[known]
    given = dict(map(_setting, settings))
    parameters = method().get_params()
    if unknown := set(given) - set(parameters):
        raise UserError(
            f"{name} has no parameter {min(unknown)!r}; it has {', '.join(sorted(parameters))}"
        )
    return method(**{**common_settings(method, seed, jobs), **given})


def _setting(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UserError(f"--set {text}: expected name=value, as in --set n_chains=3")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value  # a word


def with_progress_bar(model: Any, *, quiet: bool) -> Any:
    """Show a bar while a model is fitted at a terminal, where scikit-learn has bars."""
    if quiet or not sys.stderr.isatty() or not hasattr(model, "set_callbacks"):
        return model
    return model.set_callbacks(SweepsBar())


def read_data(data: str, **options: Any) -> Dataset:
    """Load data, and say which columns of a table are used."""
    if is_cube_file(data):
        raise UserError(
            f"{data} is a cube of spectra: name the labels of its pixels with --truth (dbdl fit, "
            "dbdl compare), or classify its pixels with dbdl map"
        )
    rows = load(data, **options)
    if rows.column_roles is not None:
        places = [str(j + 1) for j, role in enumerate(rows.column_roles) if role == "f"]
        names = rows.feature_names or places
        label = "" if rows.label_name is None else f"; labels: {rows.label_name}"
        say(f"{len(names)} column{'s' * (len(names) > 1)} used: {some(names)}{label}")
    return rows


def read_data_for(
    estimator: Any, model: Path, data: str, label: str | None, *, labelled: bool = False
) -> Dataset:
    """Load rows, with or without labels, in the columns that the model in a file was fitted on.

    Where columns have names, these decide. Otherwise a table as wide as the model's features has no
    labels, and one that is wider by a column has them where the model's own table had them.
    """
    n_features = estimator.n_features_in_
    columns = read_columns(model)
    names = columns.features or tuple(getattr(estimator, "feature_names_in_", ())) or None
    known = Columns(names, columns.label, columns.roles or "f" * n_features + "l")
    rows = read_data(data, label=label, labelled=labelled or label is not None, columns=known)
    if rows.n_features != n_features:
        raise UserError(
            f"{data} has {rows.n_features} features, but the model was fitted on {n_features}"
        )
    found_by_place = rows.column_roles is not None and rows.label_name is None
    known_labels = set(map(str, rows.classes)) & set(map(str, estimator.classes_))
    if rows.y is not None and found_by_place and not known_labels:
        raise UserError(
            f"{data} has one column more than the model has features, but it does not hold the "
            f"model's classes: {str(rows.y[0])!r} is not one of them. Add a header that names the "
            "columns."
        )
    return rows


def smallest_class(rows: Dataset) -> int:
    """Return the number of rows of the smallest class; a single class is refused."""
    counts = np.unique(labelled_rows(rows, unit=False).y, return_counts=True)[1]
    if len(counts) < 2:
        raise UserError(
            f"{rows.name} has only one class, {str(rows.classes[0])!r}; there is nothing to tell "
            "apart. Name the column of the labels with --label."
        )
    return int(counts.min())
