"""A table's records summed up: means over splits beside the paper's numbers, and notes on them.

`dbdl.experiments.printing` writes the lines down, and `dbdl.experiments.headline` says what they
show.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from dbdl.experiments.run import Record
from dbdl.experiments.spec import Entry, Table

#: The method that the others are compared with, and the same without learning.
OURS = "DBDL"
UNLEARNED = "DBDL unlearned"
#: The baseline of every comparison: the most frequent class of the training rows, whatever the row.
MAJORITY = "majority class"
#: Fewer splits than this have no p-value: the spread of their differences is a guess.
LEAST_SPLITS = 5
#: A difference with a p-value of this or more may be chance.
LEVEL = 0.05
#: Figures of records whose means over splits are in a line: as they are, and in %.
MEANS = ("class_ratio", "log_loss", "fit_seconds", "query_milliseconds", "n_test")
SHARES = ("balanced_accuracy", "macro_f1", "calibration_error", "calibration_floor")


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
    calibration_floor: float  #: In %, the calibration error that is due to chance.
    n_atoms: float
    fit_seconds: float
    query_milliseconds: float
    settings: str  #: Those chosen on training rows.
    failure: str  #: Of the first cell that failed; empty if none did.
    splits: Mapping[int, float] = field(default_factory=dict)  #: Accuracy of each split.
    n_test: float = np.nan  #: Test rows of a split.
    test_share: float = np.nan  #: Test rows per training row.


def summarise(table: Table, records: Iterable[Record]) -> list[Line]:
    """Return the lines of a table, best first within each column."""
    by_cell = defaultdict(list)
    for record in records:
        by_cell[record["column"], record["method"]].append(record)
    lines = []
    for number, column in enumerate(table.columns):
        ours = _accuracies(by_cell[column, OURS])
        every = ((entry, by_cell[column, entry.method]) for entry in table.entries)
        of_methods = [(entry, own) for entry, own in every if own]
        of_methods += _majority([record for _, own in of_methods for record in own])
        found = [_line(entry, column, number, own, ours) for entry, own in of_methods]
        lines += sorted(found, key=lambda line: -np.nan_to_num(line.accuracy))
    return lines


def worth_drawing(lines: Sequence[Line]) -> list[Line]:
    """Return the lines for a chart: those with an accuracy.

    The majority class is left out if it is far below the methods, whose dots it would squeeze.
    """
    known = [line for line in lines if np.isfinite(line.accuracy)]
    accuracy = [line.accuracy for line in known if line.method != MAJORITY]
    least = 2 * min(accuracy) - max(accuracy) - 1 if accuracy else np.inf
    return [line for line in known if line.method != MAJORITY or line.accuracy >= least]


def _majority(records: list[Record]) -> list[tuple[Entry, list[Record]]]:
    """Return the baseline of the splits of a column; none where records are too old to have it."""
    of_split = {r["split"]: r["majority"] for r in records if "majority" in r and "accuracy" in r}
    common = ("class_ratio", "n_train", "n_test")
    shared = {r["split"]: {name: r[name] for name in common if name in r} for r in records}
    found = [{"split": s, **shared[s], **figures} for s, figures in sorted(of_split.items())]
    return [(Entry(MAJORITY), found)] if found else []


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
        paper=dict(enumerate(entry.accuracy)).get(number, np.nan),
        paper_spread=dict(enumerate(entry.spread)).get(number, np.nan),
        paper_fit_seconds=np.nan if entry.fit_seconds is None else entry.fit_seconds,
        paper_milliseconds=np.nan if entry.milliseconds is None else entry.milliseconds,
        n_atoms=_mean(records, "n_atoms") or np.nan,
        settings=_settings(records),
        failure=next((record["failure"] for record in records if "failure" in record), ""),
        splits=accuracy,
        test_share=test_share,
        **{name: _mean(records, name) for name in MEANS},
        **{name: 100 * _mean(records, name) for name in SHARES},
    )


def _accuracies(records: list[Record]) -> dict[int, float]:
    """Return the accuracies in %, by split."""
    return {r["split"]: 100 * r["accuracy"] for r in records if "accuracy" in r}


def _mean(records: list[Record], name: str) -> float:
    values = [record[name] for record in records if name in record]
    return float(np.mean(values)) if values else np.nan


def _settings(records: list[Record]) -> str:
    """Name the settings chosen, over all splits; for DBDL the best coder in hindsight too."""

    def names(field: str) -> list[str]:
        return sorted({record[field] for record in records if field in record})

    if coders := coders_in_words(names("coder")):
        best = coders_in_words(names("best_coder"))
        accuracy = 100 * _mean(records, "best_accuracy")
        return f"{coders} (in hindsight {best}: {accuracy:.2f} %)" if best else coders
    chosen = [record["chosen"] for record in records if record.get("chosen")]
    values = {name: {c[name] for c in chosen} for name in (chosen[0] if chosen else ())}

    def in_order(found: set[Any]) -> list[str]:  # numbers by size, then words
        return list(map(str, sorted(found, key=lambda value: (isinstance(value, str), value))))

    return "; ".join(f"{name} {', '.join(in_order(found))}" for name, found in values.items())


#: Families of coders by the first letter of their labels, and the ending of a mean along the path.
_CODERS = {"F": "forward selection", "O": "matching pursuit", "L": "lasso", "P": "posterior mean"}
_LABEL = re.compile(r"([FOLP])(\d+)(m?)")


def coders_in_words(labels: Sequence[str]) -> str:
    """Say what labels of coders stand for: L14 and L28 are "lasso, 14 or 28 non-zeros"."""
    lengths: dict[str, list[int]] = defaultdict(list)
    others = []
    for label in labels:
        if (match := _LABEL.fullmatch(label)) is None:
            others.append(label)
            continue
        family, length, mean = match.groups()
        lengths["averaged " * bool(mean) + _CODERS[family]].append(int(length))
    said = [f"{kind}, {_either(sorted(found))} non-zeros" for kind, found in lengths.items()]
    return "; ".join(said + others)


def _either(numbers: Sequence[int]) -> str:
    *first, last = map(str, numbers)
    return f"{', '.join(first)} or {last}" if first else last


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
        few = f", which {in_splits(twin.n_splits)} cannot tell from chance"
        return found + few * (twin.n_splits < LEAST_SPLITS) + "."
    return f"{found}, p {p:.2g}{': not told apart from chance' * (p >= LEVEL)}."


def p_values_in_words(lines: Sequence[Line]) -> str:
    """Say why the differences in a column of a table have no p-values, where they have none."""
    compared = [line for line in lines if np.isfinite(line.difference)]
    n_splits = max((line.n_splits for line in compared), default=LEAST_SPLITS)
    if n_splits >= LEAST_SPLITS or any(np.isfinite(line.p_value) for line in compared):
        return ""
    return f"No p-values: {in_splits(n_splits)}, where at least {LEAST_SPLITS} are needed."


def notes(column: str, lines: Sequence[Line]) -> list[str]:
    """Return notes for the reader of a column of a table, in sentences."""
    own = [line for line in lines if line.column == column]
    failed = any(line.failure and line.n_splits for line in own)
    stars = "* some splits failed and are not in the mean." if failed else ""
    return [note for note in (learning_in_words(own), p_values_in_words(own), stars) if note]


def in_splits(n: int) -> str:
    """Return a number of splits in words."""
    return f"{n} split{'s' * (n != 1)}"
