"""Data, methods and settings, from the words of a command."""

from __future__ import annotations

import ast
import sys
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder

from dbdl._columns import Columns, LeftOutWarning, Listing, some, some_columns
from dbdl.cli.errors import UserError, user_mistakes
from dbdl.cli.progress import SweepsBar
from dbdl.cli.terminal import note, say
from dbdl.datasets import Dataset, load
from dbdl.datasets.cells import is_gap
from dbdl.datasets.image_rows import FILE
from dbdl.datasets.preparation import as_numbers
from dbdl.datasets.texts import STDIN
from dbdl.experiments.measure import common_settings
from dbdl.experiments.rows import labelled_rows
from dbdl.maps import is_cube_file
from dbdl.persistence import read_columns
from dbdl.registry import methods, name_of
from dbdl.rows.copies import first_copies

#: Start of the name of a setting of a model, `ModelSettings`.
OF_MODEL = "model__"
#: Names of columns and categories that a message shows.
MOST_NAMES = 8
#: A class with fewer rows than these is mentioned: hardly any of them can be held out.
FEW_ROWS = 5
#: A larger share of copies among the rows is mentioned before they are cut into folds.
MOST_COPIES = 0.01


def known_methods(asked: Sequence[str] | None) -> list[str]:
    """Return names of methods, all by default; an unknown one is refused with those that exist."""
    by_lower = {name.lower(): name for name in methods()}
    names = [name.strip() for given in asked or () for name in given.split(",") if name.strip()]
    for name in names:
        if name.lower() not in by_lower:
            raise UserError(f"unknown method {name!r}; there are {', '.join(methods())}")
    return list(dict.fromkeys(by_lower[name.lower()] for name in names)) or list(methods())


def make_model(name: str, settings: Sequence[str], seed: int, jobs: int) -> Any:
    """Return a fresh estimator with settings such as ``n_chains=3``, whose fit can be saved."""
    (known,) = known_methods([name])
    method = methods()[known]
    if not method.can_be_saved:
        raise UserError(
            f"models of {known} cannot be saved: nothing checks their parts when a file is read. "
            "Use dbdl compare, which saves none, or fit it in Python"
        )
    given = dict(map(_setting, settings))
    estimator = method(**common_settings(method, seed, jobs))
    parameters = estimator.get_params()
    of_model = {n for n in given if n.startswith(OF_MODEL)} if "model" in parameters else set()
    if unknown := set(given) - of_model - set(parameters):
        raise UserError(
            f"{name} has no parameter {min(unknown)!r}; it has {', '.join(sorted(parameters))}"
        )
    with user_mistakes():
        return estimator.set_params(**given)


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


def refuse_options_of_tables(**options: Any) -> None:
    """Refuse options of tables and other rows for a scene, where they would do nothing."""
    words = {"only": "columns", "ids": "id", "min_rows": "min-rows"}
    given = [name for name, value in options.items() if value not in (None, 1) and value != []]
    if given:
        raise UserError(f"--{words.get(given[0], given[0])} has no use for the pixels of a scene")


def read_data(
    data: str,
    *,
    drop: Sequence[str] | None = None,
    only: Sequence[str] | None = None,
    min_rows: int = 1,
    **options: Any,
) -> Dataset:
    """Load data, and say how the columns of a table are used.

    ``drop`` and ``only`` are names of columns as they were given, and classes with fewer rows than
    ``min_rows`` are left out.
    """
    known = options.get("columns")
    of_images = isinstance(known, Columns) and known.image_shape is not None
    if is_cube_file(data) and not of_images:
        raise UserError(
            f"{data} is a cube of spectra: name the labels of its pixels with --truth (dbdl fit, "
            "dbdl compare), or classify its pixels with dbdl map"
        )
    if only:
        options["columns"] = list(map(Listing, only))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LeftOutWarning)  # said below
        rows = load(data, drop=list(map(Listing, drop or ())), **options)
    if rows.column_kinds is not None:
        say(columns_in_words(rows))
    return without_small_classes(rows, min_rows)


def names_of_features(rows: Dataset) -> tuple[str, ...]:
    """Return names of columns, or places of pixels; where there are none, numbers from 1."""
    if rows.feature_names is not None:
        return rows.feature_names
    if rows.image_shape is not None:
        width = rows.image_shape[1]
        return tuple(f"pixel {j // width + 1},{j % width + 1}" for j in range(rows.n_features))
    if rows.column_roles is not None:
        return tuple(f"column {j}" for j in _places(rows))
    return tuple(f"feature {j + 1}" for j in range(rows.n_features))


def _places(rows: Dataset) -> list[str]:
    """Return the numbers, from 1, of the columns of a table that are features."""
    return [str(j + 1) for j, role in enumerate(rows.column_roles or "") if role == "f"]


def columns_in_words(rows: Dataset) -> str:
    """Say what the columns of a table are: how many numbers and categories, and which dropped."""
    kinds = rows.column_kinds or ""
    names = rows.feature_names or _places(rows)
    said = []
    for kind, word in (("n", "number"), ("c", "categor")):
        chosen = [name for name, own in zip(names, kinds, strict=True) if own == kind]
        if chosen:
            ending = (
                ("s" * (len(chosen) > 1)) if kind == "n" else ("ies" if len(chosen) > 1 else "y")
            )
            said.append(f"{len(chosen)} {word}{ending} ({some_columns(chosen, MOST_NAMES)})")
    if rows.left_out:
        reasons = [
            f"{some_columns([name or 'no name'])} ({why})" for name, why in rows.left_out.items()
        ]
        said.append(f"{len(reasons)} dropped: {some(reasons, MOST_NAMES)}")
    gaps = sum(int(is_gap(rows.X[:, j]).sum()) for j in range(rows.n_features))
    others = [f"{gaps} missing cell{'s' * (gaps > 1)}"] if gaps else []
    others += [f"labels: {rows.label_name}"] if rows.label_name else []
    others += [f"ids: {rows.id_name}"] if rows.id_name else []
    return "; ".join([", ".join(said), *others])


def without_small_classes(rows: Dataset, least: int) -> Dataset:
    """Leave out the rows of classes that have fewer rows than ``least``, and say so."""
    if least <= 1 or rows.y is None:
        return rows
    classes, counts = np.unique(rows.y, return_counts=True)
    small = classes[counts < least]
    if not len(small):
        return rows
    kept = ~np.isin(rows.y, small)
    say(
        f"left out {len(small)} class{'es' * (len(small) > 1)} with fewer than {least} rows "
        f"({(~kept).sum()} rows): {some(list(map(str, small)), MOST_NAMES)}"
    )
    if not kept.any():
        raise UserError(
            f"every class has fewer than {least} rows; give --min-rows a smaller number"
        )
    return rows.rows(kept)


def read_data_for(
    estimator: Any,
    model: Path,
    data: str,
    label: str | None,
    *,
    labelled: bool = False,
    ids: str | None = None,
) -> Dataset:
    """Load rows, with or without labels, in the columns that the model in a file was fitted on.

    Where columns have names, these decide. Otherwise a table as wide as the model's features has no
    labels, and one that is wider by a column has them where the model's own table had them.
    """
    n_features = estimator.n_features_in_
    columns = read_columns(model)
    names = columns.features or tuple(getattr(estimator, "feature_names_in_", ())) or None
    kinds = columns.kinds or (None if isinstance(estimator, Pipeline) else "n" * n_features)
    roles = columns.roles or "f" * n_features + "l"
    known = replace(columns, features=names, roles=roles, kinds=kinds)
    rows = read_data(
        data,
        label=label,
        labelled=labelled or label is not None,
        ids=ids,
        columns=known,
        image_shape=columns.image_shape,
    )
    if rows.n_features != n_features:
        shown = "standard input" if data == STDIN else data
        raise UserError(
            f"{shown} has {rows.n_features} features, but the model was fitted on {n_features}"
        )
    return _with_known_labels(rows, estimator, data, label)


def _with_known_labels(rows: Dataset, estimator: Any, data: str, label: str | None) -> Dataset:
    """Return rows whose labels are the model's; names of other folders are not labels."""
    if rows.y is None or label is not None:
        return rows
    if set(map(str, rows.classes)) & set(map(str, estimator.classes_)):
        return rows
    if rows.column_roles is not None and rows.label_name is None:
        raise UserError(
            f"{data} has one column more than the model has features, but it does not hold the "
            f"model's classes: {str(rows.y[0])!r} is not one of them. Add a header that names the "
            "columns."
        )
    if rows.id_name == FILE:
        say(f"none of the folders in {data} is named after a class; the images have no labels")
        return replace(rows, y=None)
    return rows


def prepared(model: Any, rows: Dataset) -> tuple[Any, Dataset]:
    """Return the classifier of a model file, and rows as the numbers that it takes."""
    if not isinstance(model, Pipeline):
        return model, rows
    steps = model[:-1]
    X = as_numbers(steps.transform(rows.X))
    names = tuple(map(str, steps.get_feature_names_out(rows.feature_names)))
    return model[-1], replace(rows, X=X, feature_names=names, column_kinds="n" * len(names))


def note_unknown_categories(model: Any, rows: Dataset) -> None:
    """Say which categories were not in the rows that a model learned from."""
    if not isinstance(model, Pipeline) or not isinstance(model[0], ColumnTransformer):
        return
    encoder = model[0].named_transformers_.get("categories")
    if not isinstance(encoder, OneHotEncoder):
        return
    places = next(columns for name, _, columns in model[0].transformers_ if name == "categories")
    for j, known in zip(places, encoder.categories_, strict=True):
        texts = rows.X[:, j]
        new = sorted({text for text in texts if isinstance(text, str)} - set(known))
        if new:
            n_rows = sum(text in new for text in texts)
            name = rows.feature_names[j] if rows.feature_names else j + 1
            note(
                f"column {name}: {some(list(map(repr, new)), MOST_NAMES)} "
                f"{'was' if len(new) == 1 else 'were'} not in the rows that the model learned "
                f"from; {'it counts' if len(new) == 1 else 'they count'} as no category "
                f"({n_rows} row{'s' * (n_rows > 1)})"
            )


def note_unknown_labels(classes: Sequence[Any], rows: Dataset) -> None:
    """Say which labels are not classes of a model, whose answers cannot be right there."""
    if rows.y is None:
        return
    labels = rows.y[rows.is_labelled].astype(str)
    unknown = ~np.isin(labels, np.asarray(classes).astype(str))
    if unknown.any():
        names = some(list(map(repr, np.unique(labels[unknown]).tolist())), MOST_NAMES)
        n_rows = int(unknown.sum())
        note(
            f"{n_rows} row{'s have labels' if n_rows > 1 else ' has a label'} that the model did "
            f"not learn ({names}): every answer there counts as wrong"
        )


def note_empty_rows(rows: Dataset) -> None:
    """Say which rows have no value in any column; a model knows nothing of them."""
    empty = np.flatnonzero(is_gap(rows.X).all(axis=1))
    if len(empty):
        places = [f"row {i + 1}" if rows.lines is None else f"line {rows.lines[i]}" for i in empty]
        one = len(empty) == 1
        note(
            f"{len(empty)} row{' has' if one else 's have'} no values at all ({some(places)}): "
            f"{'its' if one else 'their'} answers are those of an average row, and "
            f"{'its' if one else 'their'} probabilities mean nothing"
        )


def note_copies(rows: Dataset) -> None:
    """Say how many rows are copies of others, if that may matter for folds."""
    copy_of = first_copies(rows.X)
    n_copies = 0 if copy_of is None else rows.n_samples - len(np.unique(copy_of))
    if n_copies > MOST_COPIES * rows.n_samples:
        note(
            f"{n_copies} of {rows.n_samples} rows are copies of others. A row that was learned "
            "from may be tested too, so the figures may be too good: leave the copies out"
        )


def check_probabilities(classifier: Any, asked: str) -> None:
    """Refuse a classifier without probabilities, and say which methods have them."""
    if hasattr(classifier, "predict_proba"):
        return
    name = name_of(classifier)
    without = [m.name for m in methods().values() if not hasattr(m(), "predict_proba")]
    if getattr(classifier, "calibrate", True) is False:
        others = "fit it with --set calibrate=true"
    elif name in without:
        others = (
            f"fit another method: all but {', '.join(without[:-1])} and {without[-1]} have them"
        )
    else:
        others = "fit a model of a method that has them, such as DBDL"
    raise UserError(f"{name} gives no probabilities; leave {asked} out, or {others}")


def check_complete(rows: Dataset, name: str) -> None:
    """Refuse rows with missing values, for a method that does not take them."""
    gaps = np.isnan(rows.X)
    if not gaps.any():
        return
    i, j = np.argwhere(gaps)[0]
    column = rows.feature_names[j] if rows.feature_names else j + 1
    place = f"row {i + 1}" if rows.lines is None else f"line {rows.lines[i]}"
    raise UserError(
        f"{rows.name} has {gaps.sum()} missing values, the first in {place}, column {column}; the "
        f"rows that this {name} learned from had none, and it cannot fill them. Fill them in, or "
        "fit a model that takes missing values, such as DBDL"
    )


def note_odd_classes(rows: Dataset, label: str | None) -> None:
    """Say that classes are very small, or that the labels do not look like labels."""
    if rows.y is None:
        return
    counts = np.unique(rows.y, return_counts=True)[1]
    small = [str(c) for c, n in zip(rows.classes, counts, strict=True) if n < FEW_ROWS]
    if rows.label_name and 2 * len(counts) > rows.n_samples >= 2 * FEW_ROWS:
        column = "the last column" if label is None else "the column"
        note(
            f"{column}, {rows.label_name}, has {len(counts)} different values in {rows.n_samples} "
            "rows; if it does not hold the labels, name the column that does with --label"
        )
    elif small:
        one = len(small) == 1
        note(
            f"{len(small)} class{'' if one else 'es'} {'has' if one else 'have'} fewer than "
            f"{FEW_ROWS} rows ({some(small, MOST_NAMES)}); {'it is' if one else 'they are'} "
            f"learned from these; --min-rows {FEW_ROWS} leaves {'it' if one else 'them'} out"
        )


def check_classes(rows: Dataset) -> None:
    """Refuse rows of a single class, and say where their labels came from."""
    if rows.y is None or len(rows.classes) > 1:
        return
    only = repr(str(rows.classes[0]))
    if rows.id_name == FILE:
        said = f"all images are in the folder {only}. Expected a folder of images for each class"
    elif rows.column_roles is not None:
        column = f"column {'of the labels' if rows.label_name is None else rows.label_name}"
        said = (
            f"all labels in the {column} are {only}. Expected at least 2 classes. Name the column "
            "of the labels with --label, or add rows of another class"
        )
    else:
        said = f"all labels are {only}. Expected at least 2 classes. Add rows of another class"
    raise UserError(f"{rows.name} has one class only, so there is nothing to tell apart: {said}.")


def smallest_class(rows: Dataset) -> int:
    """Return the number of rows of the smallest class; a single class is refused."""
    check_classes(rows)
    return int(np.unique(labelled_rows(rows, unit=False).y, return_counts=True)[1].min())
