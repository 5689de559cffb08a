"""Why a row got its class: ``explain``."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder

from dbdl.cli import inputs, outputs, terminal
from dbdl.cli.errors import UserError, user_mistakes
from dbdl.cli.options import AsJson, Data, Label
from dbdl.cli.outputs import EXPLANATIONS, PAGES, PICTURES
from dbdl.cli.terminal import say
from dbdl.datasets import Dataset
from dbdl.estimators.explanation import Cell, Explanation
from dbdl.persistence import load as load_model

#: Features, and training rows, that are printed.
N_FEATURES, N_ROWS = 10, 5


def explain(
    model: Annotated[Path, typer.Argument(help="File that dbdl fit wrote.")],
    data: Data,
    row: Annotated[
        int | None, typer.Option(min=1, help="Number of the row, from 1; needed if there are more.")
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            help="Class to compare with; by default the true one if it is known and missed, or "
            "else the second."
        ),
    ] = None,
    train: Annotated[
        str | None, typer.Option(help="Training rows, to name those behind the decision.")
    ] = None,
    label: Label = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="A picture (.png, .svg, .pdf), a page or a .csv."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say why a row got its class: which features, atoms and training rows spoke for it."""
    outputs.check_outputs([model, data, train], {EXPLANATIONS: [output]})
    whole = load_model(model)
    classifier = whole[-1] if isinstance(whole, Pipeline) else whole
    if not hasattr(classifier, "explain"):
        raise UserError(
            f"{type(classifier).__name__} cannot explain its answers; models of DBDL can: dbdl fit "
            "--method DBDL"
        )
    rows = inputs.read_data_for(whole, model, data, label)
    number = _number_of(row, rows, data)
    learned = None if train is None else inputs.read_data_for(whole, model, train, label)
    with user_mistakes():
        found = _explain(whole, rows, number, _label_in(classifier, against), learned)
    found = _with_names(whole, rows, number, found)
    names = _names_of_rows(learned)
    true = None if rows.y is None else rows.y[number]
    if as_json:
        print(json.dumps(_for_programs(found, number, true), default=str))
    else:
        _print(found, names, number, true)
    if output is not None:
        _write(found, output, rows, f"row {number + 1} of {rows.name}", names)
        say(f"wrote {output}")


# ------------------------------------------------------------------------------- the question


def _number_of(row: int | None, rows: Dataset, data: str) -> int:
    """Return the index of the row that is asked for."""
    if row is None and rows.n_samples > 1:
        raise UserError(
            f"{data} has {rows.n_samples} rows; choose one with --row, from 1 to {rows.n_samples}"
        )
    if row is not None and row > rows.n_samples:
        raise UserError(
            f"{data} has {rows.n_samples} row{'s' * (rows.n_samples > 1)}; there is no row {row}"
        )
    return 0 if row is None else row - 1


def _label_in(classifier: Any, text: str | None) -> Any:
    """Return the class that a text names."""
    if text is None:
        return None
    by_text = {str(label): label for label in classifier.classes_.tolist()}
    if text not in by_text:
        raise UserError(f"there is no class {text!r}; there are {', '.join(by_text)}")
    return by_text[text]


def _explain(
    whole: Any, rows: Dataset, number: int, against: Any, learned: Dataset | None
) -> Explanation:
    """Explain a row; a mistake is compared with the true class unless another is named."""
    classifier, X = _classifier_and_rows(whole, rows.X[number : number + 1])
    options: dict[str, Any] = {}
    if learned is not None:
        options = {"X_train": _classifier_and_rows(whole, learned.X)[1], "y_train": learned.y}
    predicted = classifier.predict(X)[0]
    if against is not None and against == predicted:
        raise UserError(f"row {number + 1} is predicted as {against}; give --against another class")
    if against is None and rows.y is not None:
        by_text = {str(label): label for label in classifier.classes_.tolist()}
        true = by_text.get(str(rows.y[number]))
        against = None if true == predicted else true
    (found,) = classifier.explain(X, against=against, **options)
    return found


def _classifier_and_rows(whole: Any, X: NDArray[Any]) -> tuple[Any, NDArray[Any]]:
    """Return the classifier of a model file, and rows as it takes them."""
    if not isinstance(whole, Pipeline):
        return whole, X
    return whole[-1], np.ascontiguousarray(whole[:-1].transform(X), dtype=np.float64)


# ---------------------------------------------------------------------------------- the names


def _with_names(whole: Any, rows: Dataset, number: int, found: Explanation) -> Explanation:
    """Return the explanation with the names of columns, or of pixels."""
    columns = columns_of_features(whole)
    if rows.feature_names is not None:
        names = rows.feature_names
    elif rows.image_shape is not None:
        width = rows.image_shape[1]
        names = tuple(f"pixel {j // width + 1},{j % width + 1}" for j in range(rows.n_features))
    else:
        what = "feature" if rows.column_roles is None else "column"
        names = tuple(f"{what} {j + 1}" for j in range(rows.n_features))
    if columns is None:
        own = names if len(names) == len(found.shares) else found.feature_names
        return replace(found, feature_names=tuple(own))
    values = rows.X[number].tolist()
    gaps = [value is None or value != value for value in values]
    cells = [Cell(*cell) for cell in zip(names, values, gaps, strict=True)]
    return found.in_columns(columns, cells)


def columns_of_features(whole: Any) -> list[int] | None:
    """Return the column of a table that each feature of a model came from, if that is known."""
    if not isinstance(whole, Pipeline) or not isinstance(whole[0], ColumnTransformer):
        return None
    found: list[int] = []
    for name, step, chosen in whole[0].transformers_:
        places = whole[0].output_indices_[name]
        numbers = np.arange(whole[0].n_features_in_)[chosen].tolist()
        if isinstance(step, OneHotEncoder):
            each = [len(categories) for categories in step.categories_]
            numbers = [j for j, n in zip(numbers, each, strict=True) for _ in range(n)]
        if places.stop - places.start == len(numbers):
            found += numbers
        elif places.stop > places.start:
            return None
    return found


def _names_of_rows(learned: Dataset | None) -> Callable[[int], str]:
    """Names of training rows: their ids, or numbers from 1."""
    ids = getattr(learned, "ids", None)
    return lambda i: str(i + 1) if ids is None else str(ids[i])


# --------------------------------------------------------------------------------- the answer


def _print(found: Explanation, names: Callable[[int], str], number: int, true: Any) -> None:
    if true is not None:
        right = str(true) == str(found.predicted)
        print(f"Row {number + 1} is labelled {true}, so this is {'right' if right else 'wrong'}.")
    print(found.in_words(names))
    shown, others = found.largest(N_FEATURES)
    table = [
        (part.name, part.shown_value, part.shown_baseline, f"{part.share:+.3f}") for part in shown
    ]
    if others is not None:
        table.append((str(others), "", "", f"{others.share:+.3f}"))
    table.append((found.baseline_in_words, "", "", f"{found.constant:+.3f}"))
    table.append(("difference of the scores", "", "", f"{found.difference:+.3f}"))
    share = f"share for {found.predicted}"
    terminal.print_columns(("feature", "value", "average", share), table)
    if found.training_rows:
        behind = (
            (names(row.row), "" if row.label is None else str(row.label), f"{row.share:+.3f}")
            for row in found.training_rows[:N_ROWS]
        )
        terminal.print_columns(("training row", "class", "share of its atoms"), behind)


def _for_programs(found: Explanation, number: int, true: Any) -> dict[str, Any]:
    numbers = {
        name: getattr(found, name)
        for name in ("predicted", "against", "probability", "probability_against", "difference",
                     "constant", "spread", "sentence")
    }  # fmt: skip
    features = [
        {"feature": part.name, "value": part.value, "share": part.share, "missing": part.is_missing}
        | ({} if np.isnan(part.baseline) else {"average": part.baseline})
        for part in found.features
    ]
    rows = [
        {"row": row.row + 1, "label": row.label, "share": row.share} for row in found.training_rows
    ]
    known = {} if true is None else {"truth": true.item() if hasattr(true, "item") else true}
    return {"row": number + 1, **known, **numbers, "features": features, "training_rows": rows}


def _write(
    found: Explanation, output: Path, rows: Dataset, of_what: str, names: Callable[[int], str]
) -> None:
    """Write the explanation in the format of the file's ending."""
    ending, shape = output.suffix.lower(), rows.image_shape
    if shape is not None and np.prod(shape) != len(found.shares):
        shape = None
    if ending == ".csv":
        lines: list[Any] = [
            (part.name, part.value, part.shown_baseline and part.baseline, part.share)
            for part in sorted(found.features, key=lambda part: part.number)
        ]
        lines.append((f"({found.baseline_in_words})", "", "", found.constant))
        terminal.write_csv(output, ["feature", "value", "average", "share"], lines)
        return
    import matplotlib

    matplotlib.use("Agg")  # draws into files, with or without a screen
    if ending in PAGES.endings:
        from dbdl.report import write_explanation

        write_explanation(found, output, subtitle=of_what, image_shape=shape, name_of_row=names)
    else:
        from dbdl.plotting import ExplanationDisplay
        from dbdl.plotting.accuracy import write_figure

        assert ending in PICTURES.endings
        display = ExplanationDisplay.from_explanation(found, image_shape=shape)
        write_figure(display.figure_, output)
