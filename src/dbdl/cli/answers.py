"""Tables of predictions that can be joined to the rows they belong to, as files or text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbdl._extras import how_to_install
from dbdl._files import write_atomically
from dbdl.cli import terminal
from dbdl.cli.errors import UserError
from dbdl.datasets import Dataset
from dbdl.datasets.image_rows import FILE
from dbdl.experiments.measure import UNBALANCED, class_ratio
from dbdl.learn.held_out import by_class

#: Digits of a probability in a table of text.
DIGITS = 6
ROW, LINE, TRUTH, PREDICTED, REFUSED, ID = "row", "line", "truth", "predicted", "refused", "id"


def name_of_row(rows: Dataset, i: int, *, numbered: bool = True) -> str:
    """Return what a row is called in a sentence, at its beginning.

    It goes by the file of an image, or by its number and its id or line; where it is not
    ``numbered``, since rows of the file were left out, by its id or line alone if it has one.
    """
    if rows.ids is not None and rows.id_name == FILE:
        return f"Image {rows.ids[i]}"
    if rows.ids is not None:
        own = f"{rows.id_name} {rows.ids[i]}"
        return f"Row {i + 1} ({own})" if numbered else f"Row with {own}"
    if rows.lines is not None:
        own = f"line {rows.lines[i]}"
        return f"Row {i + 1} ({own})" if numbered else f"Row on {own}"
    return f"Row {i + 1}"


@dataclass(frozen=True)
class Answers:
    """Predictions for the rows of a data set."""

    rows: Dataset
    predicted: NDArray[Any]  # (n_samples,)
    classes: Sequence[Any] = ()  # of the columns of the probabilities
    probability: NDArray[Any] | None = None  # (n_samples, n_classes)
    refused: NDArray[np.bool_] | None = None  # (n_samples,)

    @property
    def names(self) -> dict[str, list[Any]]:
        """The columns that name rows: ids or files, else numbers from 1 and lines of the file."""
        rows = self.rows
        if rows.ids is not None:
            own = {LINE, ROW, TRUTH, PREDICTED, REFUSED, *map(self._heading, self.classes)}
            return {ID if rows.id_name in own else str(rows.id_name): rows.ids.tolist()}
        lines = {} if rows.lines is None else {LINE: rows.lines.tolist()}
        return {ROW: list(range(1, rows.n_samples + 1)), **lines}

    @staticmethod
    def _heading(label: Any) -> str:
        return f"p_{label}"

    def columns(self) -> dict[str, list[Any]]:
        """Return the table, column by column."""
        table = dict(self.names)
        if self.rows.y is not None:
            table[TRUTH] = self.rows.y.tolist()
        table[PREDICTED] = self.predicted.tolist()
        if self.refused is not None:
            table[REFUSED] = self.refused.tolist()
        if self.probability is not None:
            by_label = zip(self.classes, self.probability.T.tolist(), strict=True)
            table |= {self._heading(label): values for label, values in by_label}
        return table

    def figures(self) -> dict[str, Any]:
        """Return the number of rows and, where labels are known, how many answers are right."""
        found: dict[str, Any] = {"rows": self.rows.n_samples}
        if self.refused is not None:
            found["refused"] = int(self.refused.sum())
        counted = self._counted
        if not counted.any():
            return found
        true, answers = self._true[counted], self.predicted[counted].astype(str)
        if counted.sum() < len(counted):
            found["rows_with_a_label"] = int(counted.sum())
        return {**found, "accuracy": float(np.mean(true == answers)), **by_class(true, answers)}

    @property
    def _counted(self) -> NDArray[np.bool_]:
        """Rows with a label and an answer."""
        known = self.rows.is_labelled
        return known if self.refused is None else known & ~self.refused

    @property
    def _true(self) -> NDArray[Any]:
        assert self.rows.y is not None
        return self.rows.y.astype(str)

    def in_words(self) -> str:
        """Say how many rows there are, and how many answers are right, in per cent."""
        found, said = self.figures(), ""
        n_rows, n_refused = found["rows"], found.get("refused", 0)
        rows = f"{n_rows} row{'s' * (n_rows != 1)}"
        if self.refused is not None:
            said = f"{n_refused} of {rows} refused; "
        if n_refused == n_rows:
            return f"{n_refused} of {rows} refused"
        if "accuracy" not in found:
            return f"{said}{n_rows - n_refused} classified" if said else f"{rows} classified"
        counted = self._counted
        kinds = [] if self.rows.is_labelled.all() else ["have a label"]
        kinds += [] if self.refused is None else ["were not refused"]
        which = f" that {' and '.join(kinds)}" if kinds else ""
        means = ""
        if class_ratio(self._true[counted]) >= UNBALANCED:
            balanced, f1 = 100 * found["balanced_accuracy"], 100 * found["macro_f1"]
            means = f"; balanced accuracy {balanced:.2f} %, macro F1 {f1:.2f} %"
        accuracy = 100 * found["accuracy"]
        return f"{said}{accuracy:.2f} % right of {counted.sum()} rows{which}{means}"


def write_answers(answers: Answers, output: Path | None) -> None:
    """Write a table of predictions in the format that the ending names, or print it as text."""
    table = answers.columns()
    ending = "" if output is None else output.suffix.lower()
    if output is not None and ending == ".json":
        rows = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
        write_atomically(output, json.dumps(rows, default=str, indent=0).encode() + b"\n")
    elif output is not None and ending == ".parquet":
        _write_parquet(table, output)
    else:
        shown = ([_as_text(cell) for cell in row] for row in zip(*table.values(), strict=True))
        terminal.write_csv(output, list(table), shown)


def check_parquet(output: Path | None) -> None:
    """Refuse a parquet file where pyarrow is not installed."""
    if output is not None and output.suffix.lower() == ".parquet":
        try:
            import pyarrow.parquet  # noqa: F401
        except ImportError as error:
            raise UserError(
                f"{output} needs pyarrow: {how_to_install('pyarrow')}, or write a .csv file"
            ) from error


def _write_parquet(table: dict[str, list[Any]], output: Path) -> None:
    import pyarrow
    import pyarrow.parquet as parquet

    found = pyarrow.table(table)
    write_atomically(output, lambda file: parquet.write_table(found, file))


def _as_text(cell: Any) -> Any:
    if cell is None:
        return ""
    return f"{cell:.{DIGITS}g}" if isinstance(cell, float) else cell
