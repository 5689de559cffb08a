"""A table's records summed up: means over splits beside the paper's numbers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from dbdl.experiments.measure import UNBALANCED
from dbdl.experiments.run import Record
from dbdl.experiments.spec import Entry, Table

#: The method that the others are compared with, and the same without learning.
OURS = "DBDL"
UNLEARNED = "DBDL unlearned"
#: Fewer splits than this have no p-value: the spread of their differences is a guess.
LEAST_SPLITS = 5
#: A difference with a p-value of this or more may be chance.
LEVEL = 0.05


@dataclass(frozen=True)
class Line:
    """One method in one column of a table; means over splits, NaN where there is nothing."""

    method: str
    column: str
    n_splits: int
    accuracy: float  #: In %, as are all accuracies.
    spread: float  #: Standard deviation over splits.
    difference: float  #: Accuracy minus that of DBDL on the same splits.
    p_value: float  #: How likely a difference as large is by chance, see `paired_p_value`.
    balanced_accuracy: float  #: In %, the mean over classes.
    macro_f1: float  #: In %.
    class_ratio: float  #: Rows of the largest class per row of the smallest.
    paper: float  #: Accuracy that the paper prints.
    paper_spread: float
    paper_fit_seconds: float
    paper_milliseconds: float
    log_loss: float
    calibration_error: float  #: In %.
    n_atoms: float
    fit_seconds: float
    query_milliseconds: float
    settings: str  #: Those chosen on training rows.
    failure: str  #: Of the first cell that failed; empty if none did.


def summarise(table: Table, records: Iterable[Record]) -> list[Line]:
    """Return the lines of a table, best first within each column."""
    by_cell = defaultdict(list)
    for record in records:
        by_cell[record["column"], record["method"]].append(record)
    lines = []
    for number, column in enumerate(table.columns):
        ours = _accuracies(by_cell[column, OURS])
        of_methods = ((entry, by_cell[column, entry.method]) for entry in table.entries)
        found = [_line(entry, column, number, own, ours) for entry, own in of_methods if own]
        lines += sorted(found, key=lambda line: -np.nan_to_num(line.accuracy))
    return lines


def _line(
    entry: Entry, column: str, number: int, records: list[Record], ours: dict[int, float]
) -> Line:
    accuracy = _accuracies(records)
    values = np.array(list(accuracy.values()))
    paired = np.array([value - ours[split] for split, value in accuracy.items() if split in ours])
    compared = entry.method != OURS and len(paired) > 0
    test_share = _mean(records, "n_test") / _mean(records, "n_train")
    return Line(
        method=entry.method,
        column=column,
        n_splits=len(values),
        accuracy=float(values.mean()) if len(values) else np.nan,
        spread=float(values.std(ddof=1)) if len(values) > 1 else np.nan,
        difference=float(paired.mean()) if compared else np.nan,
        p_value=paired_p_value(paired, test_share) if compared else np.nan,
        balanced_accuracy=100 * _mean(records, "balanced_accuracy"),
        macro_f1=100 * _mean(records, "macro_f1"),
        class_ratio=_mean(records, "class_ratio"),
        paper=dict(enumerate(entry.accuracy)).get(number, np.nan),
        paper_spread=dict(enumerate(entry.spread)).get(number, np.nan),
        paper_fit_seconds=np.nan if entry.fit_seconds is None else entry.fit_seconds,
        paper_milliseconds=np.nan if entry.milliseconds is None else entry.milliseconds,
        log_loss=_mean(records, "log_loss"),
        calibration_error=100 * _mean(records, "calibration_error"),
        n_atoms=_mean(records, "n_atoms") or np.nan,
        fit_seconds=_mean(records, "fit_seconds"),
        query_milliseconds=_mean(records, "query_milliseconds"),
        settings=_settings(records),
        failure=next((record["failure"] for record in records if "failure" in record), ""),
    )


def _accuracies(records: list[Record]) -> dict[int, float]:
    """Return the accuracies in %, by split."""
    return {r["split"]: 100 * r["accuracy"] for r in records if "accuracy" in r}


def _mean(records: list[Record], name: str) -> float:
    values = [record[name] for record in records if name in record]
    return float(np.mean(values)) if values else np.nan


def _settings(records: list[Record]) -> str:
    """Name the settings chosen, over all splits; for DBDL the best coder in hindsight too."""

    def names(field: str) -> str:
        return ", ".join(sorted({record[field] for record in records if field in record}))

    if coders := names("coder"):
        accuracy = 100 * _mean(records, "best_accuracy")
        return f"{coders} (in hindsight {names('best_coder')}: {accuracy:.2f})"
    chosen = [record["chosen"] for record in records if record.get("chosen")]
    values = {name: {c[name] for c in chosen} for name in (chosen[0] if chosen else ())}

    def in_order(found: set[Any]) -> list[str]:  # numbers by size, then words
        return list(map(str, sorted(found, key=lambda value: (isinstance(value, str), value))))

    return "; ".join(f"{name} {', '.join(in_order(found))}" for name, found in values.items())


def paired_p_value(differences: NDArray[np.float64], test_share: float) -> float:
    """Two-sided probability of so large a mean difference over splits, by chance.

    Random splits share rows, so their differences are not independent; the variance of the mean
    is raised by ``test_share``, the ratio of test to training rows (Nadeau and Bengio, 2003).
    NaN for fewer than five splits, whose spread says too little, or an unknown ratio.
    """
    n = len(differences)
    if n < LEAST_SPLITS or not np.isfinite(test_share):
        return np.nan
    variance = differences.var(ddof=1) * (1 / n + test_share)
    if variance < 1e-12:  # equal on all splits: no spread to judge a difference by
        return 1.0 if abs(differences.mean()) < 1e-6 else np.nan
    return float(2 * student.sf(abs(differences.mean()) / np.sqrt(variance), n - 1))


def learning_in_words(lines: Sequence[Line]) -> str:
    """Say what learning and views add to the training rows they start from; empty if not known.

    The lines are those of one column of a table.
    """
    twin = next((line for line in lines if line.method == UNLEARNED), None)
    if twin is None or not np.isfinite(twin.difference):
        return ""
    gain, p = round(-twin.difference, 2), twin.p_value
    rows = f"random training rows left as they are ({UNLEARNED})"
    if gain < 0:
        more = f"{-gain:.2f} points more accurate than DBDL"
        return f"Learning and views add nothing here: {rows} are {more}."
    if gain == 0:
        return f"Learning and views add nothing here: {rows} are as accurate as DBDL."
    found = f"Learning and views add {gain:.2f} points to {rows}"
    if not np.isfinite(p):
        few = f", which {_in_splits(twin.n_splits)} cannot tell from chance"
        return found + few * (twin.n_splits < LEAST_SPLITS) + "."
    return f"{found}, p {p:.2g}{': not told apart from chance' * (p >= LEVEL)}."


def p_values_in_words(lines: Sequence[Line]) -> str:
    """Say why the differences in a column of a table have no p-values, where they have none."""
    compared = [line for line in lines if np.isfinite(line.difference)]
    n_splits = max((line.n_splits for line in compared), default=LEAST_SPLITS)
    if n_splits >= LEAST_SPLITS or any(np.isfinite(line.p_value) for line in compared):
        return ""
    return f"No p-values: {_in_splits(n_splits)}, where at least {LEAST_SPLITS} are needed."


def notes(column: str, lines: Sequence[Line]) -> list[str]:
    """Return notes for the reader of a column of a table, in sentences."""
    own = [line for line in lines if line.column == column]
    failed = any(line.failure and line.n_splits for line in own)
    stars = "* some splits failed and are not in the mean." if failed else ""
    return [note for note in (learning_in_words(own), p_values_in_words(own), stars) if note]


def _in_splits(n: int) -> str:
    return f"{n} split{'s' * (n != 1)}"


# --------------------------------------------------------------------------------------- printing

#: Columns of a printed table by their headings: the field of a line, and the form of its number.
HEADINGS = {
    "method": ("method", ""),
    "accuracy %": ("accuracy", ".2f"),
    "paper %": ("paper", ".2f"),
    "minus DBDL": ("difference", "+z.2f"),
    "balanced accuracy %": ("balanced_accuracy", ".2f"),
    "macro F1 %": ("macro_f1", ".2f"),
    "log-loss": ("log_loss", ".3f"),
    "calibration error %": ("calibration_error", ".1f"),
    "atoms": ("n_atoms", ".0f"),
    "fit s": ("fit_seconds", ".1f"),
    "paper fit s": ("paper_fit_seconds", ".0f"),
    "query ms": ("query_milliseconds", ".2f"),
    "paper query ms": ("paper_milliseconds", ".2f"),
    "chosen on training rows": ("settings", ""),
}


def text_cells(line: Line) -> dict[str, str]:
    """Cells of a line by `HEADINGS`; empty where nothing was measured.

    Balanced accuracy and macro F1 say little more than the accuracy unless classes are unbalanced.
    """
    if line.failure and not line.n_splits:
        failed = {"method": line.method, "accuracy %": f"failed: {line.failure}"}
        return {**dict.fromkeys(HEADINGS, ""), **failed}
    cells = {name: _text(getattr(line, field), form) for name, (field, form) in HEADINGS.items()}
    cells["accuracy %"] += _text(line.spread, ".2f", " ± {}") + " *" * bool(line.failure)
    cells["paper %"] += _text(line.paper_spread, ".2f", " ± {}")
    cells["minus DBDL"] += _text(line.p_value, ".2g", " (p {})")
    if not line.class_ratio >= UNBALANCED:
        cells["balanced accuracy %"] = cells["macro F1 %"] = ""
    return cells


def _text(value: float | str, form: str, around: str = "{}") -> str:
    known = isinstance(value, str) or np.isfinite(value)
    return around.format(format(value, form)) if known else ""


class Panel(NamedTuple):
    """One column of a table as texts."""

    name: str
    title: str  #: The column's name and its number of splits.
    lines: list[Line]
    headings: list[str]  #: Those of `HEADINGS` under which any line has a text.
    cells: list[list[str]]  #: For each line its texts under these headings.
    notes: list[str]


def panels(table: Table, lines: Sequence[Line]) -> Iterator[Panel]:
    """Yield the columns of a table that have lines."""
    for column, protocol in table.columns.items():
        own = [line for line in lines if line.column == column]
        if not own:
            continue
        n_splits = max(line.n_splits for line in own)
        # the name of a column of folds says how many there are
        title = column if protocol.folds == n_splits else f"{column}, {_in_splits(n_splits)}"
        rows = [text_cells(line) for line in own]
        used = [name for name in HEADINGS if any(row[name] for row in rows)]
        cells = [[row[name] for name in used] for row in rows]
        yield Panel(column, title, own, used, cells, notes(column, own))


def to_markdown(table: Table, lines: Sequence[Line]) -> str:
    """Return the table as Markdown; columns of which no line has anything are left out."""
    text = [f"### {table.title}", ""]
    for panel in panels(table, lines):
        text += [f"{panel.title}:", ""]
        for cells in (panel.headings, ["---"] * len(panel.headings), *panel.cells):
            text.append(f"| {' | '.join(cells)} |")
        text += ["", *(note.replace("*", "\\*") + "\n" for note in panel.notes)]  # no list
    if table.note:
        text += [table.note.strip(), ""]
    return "\n".join(text)


def to_records(lines: Sequence[Line]) -> list[dict[str, Any]]:
    """Return lines as plain values for JSON; NaN becomes None."""
    return [
        {k: None if isinstance(v, float) and not np.isfinite(v) else v for k, v in values.items()}
        for values in map(asdict, lines)
    ]
