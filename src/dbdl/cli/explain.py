"""Why a row got its class: ``explain``."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder

from dbdl.cli import inputs, outputs, terminal
from dbdl.cli.answers import name_of_row
from dbdl.cli.errors import UserError, user_mistakes
from dbdl.cli.options import AsJson, Data, Label
from dbdl.cli.outputs import EXPLANATIONS, PAGES, PICTURES
from dbdl.cli.terminal import note, say
from dbdl.datasets import Dataset
from dbdl.datasets.image_rows import FILE
from dbdl.estimators.explanation import Cell, Explanation, FeatureShare
from dbdl.persistence import load as load_model
from dbdl.registry import name_of

#: Features, and training rows, that are printed.
N_FEATURES, N_ROWS = 10, 5


class TrainingRows(NamedTuple):
    """Rows that may be behind a decision, and their numbers in the file, from 1."""

    rows: Dataset
    numbers: NDArray[np.int64]

    def name(self, i: int) -> str:
        """Name of a row: its id, or its number."""
        return str(self.numbers[i] if self.rows.ids is None else self.rows.ids[i])


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
            f"{name_of(classifier)} cannot explain its answers; models of DBDL can: dbdl fit "
            "--method DBDL"
        )
    rows = inputs.read_data_for(whole, model, data, label)
    number = _number_of(row, rows, data)
    inputs.note_unknown_categories(whole, rows.rows(np.array([number])))
    learned = None if train is None else _training_rows(whole, model, train, label)
    with user_mistakes():
        found = _explain(whole, rows, number, _label_in(classifier, against), learned)
    found = _with_names(whole, rows, number, found)
    if as_json:
        print(json.dumps(_for_programs(found, rows, number, learned), default=str))
    else:
        _print(found, rows, number, learned)
    if output is not None:
        _write(found, output, rows, number, learned)
        say(f"wrote {output}")


# ------------------------------------------------------------------------------- the question


def _number_of(row: int | None, rows: Dataset, data: str) -> int:
    """Return the index of the row that is asked for."""
    if row is None and rows.n_samples > 1:
        what, other = "rows", ""
        if rows.id_name == FILE:
            what, other = "images", ", or name the file of one"
        raise UserError(
            f"{data} has {rows.n_samples} {what}; choose one with --row, from 1 to "
            f"{rows.n_samples}{other}"
        )
    if row is not None and row > rows.n_samples:
        raise UserError(
            f"{data} has {rows.n_samples} row{'s' * (rows.n_samples > 1)}; there is no row {row}"
        )
    return 0 if row is None else row - 1


def _true_label(rows: Dataset, number: int) -> Any:
    """Return the label of a row; None where it is not known."""
    return None if rows.y is None else rows.y[number]


def _training_rows(whole: Any, model: Path, train: str, label: str | None) -> TrainingRows:
    """Read training rows; those without a label, from which nothing was learned, are left out."""
    rows = inputs.read_data_for(whole, model, train, label)
    known = rows.is_labelled
    if known.all() or not known.any():
        return TrainingRows(rows, np.arange(1, rows.n_samples + 1))
    note(f"{train}: no label in {(~known).sum()} of {len(known)} rows, which are left out")
    return TrainingRows(rows.with_labels(), 1 + np.flatnonzero(known))


def _label_in(classifier: Any, text: str | None) -> Any:
    """Return the class that a text names."""
    if text is None:
        return None
    by_text = {str(label): label for label in classifier.classes_.tolist()}
    if text not in by_text:
        raise UserError(f"there is no class {text!r}; there are {', '.join(by_text)}")
    return by_text[text]


def _explain(
    whole: Any, rows: Dataset, number: int, against: Any, learned: TrainingRows | None
) -> Explanation:
    """Explain a row; a mistake is compared with the true class unless another is named."""
    classifier, X = _classifier_and_rows(whole, rows.X[number : number + 1])
    options: dict[str, Any] = {}
    if learned is not None:
        known = learned.rows.y if learned.rows.is_labelled.any() else None
        options = {"X_train": _classifier_and_rows(whole, learned.rows.X)[1], "y_train": known}
    predicted = classifier.predict(X)[0]
    if against is not None and against == predicted:
        raise UserError(f"row {number + 1} is predicted as {against}; give --against another class")
    if against is None and (label := _true_label(rows, number)) is not None:
        by_text = {str(own): own for own in classifier.classes_.tolist()}
        true = by_text.get(str(label))
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
    columns, names = columns_of_features(whole), inputs.names_of_features(rows)
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


def _names_of(learned: TrainingRows | None) -> Callable[[int], str]:
    return str if learned is None else learned.name


# --------------------------------------------------------------------------------- the answer


def _print(found: Explanation, rows: Dataset, number: int, learned: TrainingRows | None) -> None:
    if said := _row_in_words(found, rows, number):
        print(said)
    names = _names_of(learned)
    print(found.in_words(names))
    shown, others = found.largest(N_FEATURES)

    def line(name: str, share: float, *cells: str) -> list[str]:
        filled = [name, *cells, "", ""][: len(found.headings)]
        return [*filled, f"{share:+.3f}"]

    lines = [line(part.name, part.share, part.shown_value, part.shown_baseline) for part in shown]
    if others is not None:
        lines.append(line(str(others), others.share))
    lines.append(line(found.baseline_in_words, found.constant))
    lines.append(line("difference of the scores", found.difference))
    terminal.print_columns([*found.headings, f"share for {found.predicted}"], lines)
    if found.training_rows:
        behind = (
            (names(row.row), "" if row.label is None else str(row.label), f"{row.share:+.3f}")
            for row in found.training_rows[:N_ROWS]
        )
        terminal.print_columns(("training row", "class", "share of its atoms"), behind)


def _row_in_words(found: Explanation, rows: Dataset, number: int) -> str:
    """Say which row it is and whether it is right; nothing of a row alone that has no name."""
    name, true = name_of_row(rows, number), _true_label(rows, number)
    if true is not None:
        right = "right" if str(true) == str(found.predicted) else "wrong"
        return f"{name} is labelled {true}, so this is {right}."
    return "" if rows.ids is None and rows.n_samples == 1 else f"{name} has no label."


def _for_programs(
    found: Explanation, rows: Dataset, number: int, learned: TrainingRows | None
) -> dict[str, Any]:
    true = _true_label(rows, number)
    numbers = {
        name: getattr(found, name)
        for name in ("predicted", "against", "probability", "probability_against", "difference",
                     "constant", "spread", "sentence")
    }  # fmt: skip
    features = [
        {"feature": part.name, "value": part.value, "share": part.share, "missing": part.is_missing}
        | ({} if (average := _average(found, part)) is None else {"average": average})
        for part in found.features
    ]
    behind = []
    for row in found.training_rows:
        assert learned is not None
        name = {"row": int(learned.numbers[row.row]), **_id_of(learned.rows, row.row)}
        behind.append({**name, "label": row.label, "share": row.share})
    name = {"row": number + 1, **_id_of(rows, number)}
    known = {} if true is None else {"truth": true.item() if hasattr(true, "item") else true}
    return {**name, **known, **numbers, "features": features, "training_rows": behind}


def _average(found: Explanation, part: FeatureShare) -> float | None:
    """Average of a feature; None for a category, and if the row is compared with zeros."""
    return None if np.isnan(part.baseline) or not found.has_averages else part.baseline


def _id_of(rows: Dataset, number: int) -> dict[str, str]:
    return {} if rows.ids is None else {"id": str(rows.ids[number])}


def _write(
    found: Explanation, output: Path, rows: Dataset, number: int, learned: TrainingRows | None
) -> None:
    """Write the explanation in the format of the file's ending."""
    of_what = f"{name_of_row(rows, number)} of {rows.name}"
    ending, shape = output.suffix.lower(), rows.image_shape
    if shape is not None and np.prod(shape) != len(found.shares):
        shape = None
    if ending == ".csv":
        lines: list[Any] = [
            (part.name, part.value, _average(found, part), part.share)
            for part in sorted(found.features, key=lambda part: part.number)
        ]
        lines.append((f"({found.baseline_in_words})", "", "", found.constant))
        terminal.write_csv(output, ["feature", "value", "average", "share"], lines)
        return
    import matplotlib

    matplotlib.use("Agg")  # draws into files, with or without a screen
    if ending in PAGES.endings:
        from dbdl.report import write_explanation

        write_explanation(
            found, output, subtitle=of_what, image_shape=shape, name_of_row=_names_of(learned)
        )
    else:
        from dbdl.plotting import ExplanationDisplay
        from dbdl.plotting.accuracy import write_figure

        assert ending in PICTURES.endings
        display = ExplanationDisplay.from_explanation(found, image_shape=shape, subtitle=of_what)
        write_figure(display.figure_, output)
