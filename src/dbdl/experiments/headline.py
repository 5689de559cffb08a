"""A sentence or two on what a table shows, computed from its lines.

Methods are called *level* with the best one if the splits cannot tell them apart and their means
are less than a point apart. The test is that of `dbdl.experiments.summary.paired_p_value`. Fewer
than five splits are judged by the standard error of a difference of two shares of the test rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dbdl.experiments.summary import (
    LEAST_SPLITS,
    LEVEL,
    MAJORITY,
    OURS,
    Line,
    in_splits,
    paired_p_value,
)

#: Means that are at least this many points apart are not called level, however large the spread.
MOST_APART = 1.0
#: A difference has to be larger than this many standard errors, where there are few splits.
N_ERRORS = 2.0
#: Methods that are named; more are counted.
MOST_NAMED = 4


def headline(lines: Sequence[Line]) -> str:
    """Say which method is best in one column of a table; empty where nothing has finished."""
    finished = [line for line in lines if np.isfinite(line.accuracy) and line.method != MAJORITY]
    if not finished:
        return ""
    best = max(finished, key=lambda line: line.accuracy)
    top = [line for line in finished if line is best or are_level(best, line)]
    ours = next((line for line in finished if line.method == OURS), None)
    said = [_accuracies(best, top, ours, finished), _calibration(top, finished)]
    return " ".join([_joined(said), *_baseline(lines, best)])


def how_judged(lines: Sequence[Line]) -> str:
    """Say what "level" means for the splits of these lines."""
    n_splits = max((line.n_splits for line in lines), default=0)
    if n_splits >= LEAST_SPLITS:
        return (
            f"“Level” means less than {MOST_APART:g} point apart, and not told apart by a paired "
            f"test over {in_splits(n_splits)} (p {LEVEL:g} or more)."
        )
    return (
        f"“Level” means less than {MOST_APART:g} point and {N_ERRORS:g} standard errors apart, "
        f"judged by the number of test rows in {in_splits(n_splits)}."
    )


def are_level(best: Line, other: Line) -> bool:
    """Whether the splits cannot tell a method from the best one, and the means are close."""
    common = sorted(set(best.splits) & set(other.splits))
    gaps = np.array([best.splits[split] - other.splits[split] for split in common])
    if not len(gaps) or gaps.mean() >= MOST_APART:
        return False
    if len(gaps) >= LEAST_SPLITS:
        p = paired_p_value(gaps, best.test_share)
        return bool(gaps.mean() <= 1e-9 or p >= LEVEL)
    share = np.clip(best.accuracy / 100, 0.0, 1.0)
    n_rows = max(best.n_test * len(gaps), 1.0)
    error = 100 * np.sqrt(2 * max(share * (1 - share), 0.25 / n_rows) / n_rows)
    return bool(gaps.mean() <= N_ERRORS * error)


def _accuracies(best: Line, top: list[Line], ours: Line | None, finished: list[Line]) -> str:
    named = [x for x in top if x.method == OURS or not _is_variant(x, ours)]
    if len(finished) == 1:
        return f"{best.method} is right for {best.accuracy:.1f} % of the rows"
    if len(named) > 1:
        low, high = (f"{f(x.accuracy for x in named):.1f}" for f in (min, max))
        at = f"{high} %" if low == high else f"{low} to {high} %"
        return f"{_names(named)} are level on this data, at {at}"
    winner = named[0] if named else best
    rest = [x for x in finished if x is not winner and not _is_variant(x, ours)]
    if winner.method == OURS or ours is None or not rest:
        behind = max(rest, key=lambda line: line.accuracy, default=None)
    else:
        behind = ours
    said = f"{winner.method} is the most accurate on this data, with {winner.accuracy:.1f} %"
    if behind is None:
        return said
    return f"{said}; {behind.method} is {winner.accuracy - behind.accuracy:.1f} points behind"


def _is_variant(line: Line, ours: Line | None) -> bool:
    """Whether a method is a variant of DBDL, which the notes speak of."""
    return ours is not None and line is not ours and line.method.startswith(f"{OURS} ")


def _names(lines: list[Line]) -> str:
    ordered = sorted(lines, key=lambda line: (line.method != OURS, -line.accuracy))
    names = [line.method for line in ordered]
    if len(names) > MOST_NAMED:
        names = [*names[: MOST_NAMED - 1], f"{len(names) - MOST_NAMED + 1} other methods"]
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _calibration(top: list[Line], finished: list[Line]) -> str:
    """Name the method with the best calibrated probabilities, among the level ones if any are."""
    known = [line for line in top if np.isfinite(line.calibration_error)]
    of_these = len(known) > 1 and len(known) < len(finished)
    if len(known) < 2:
        known = [line for line in finished if np.isfinite(line.calibration_error)]
    if len(known) < 2:
        return ""
    best = min(known, key=lambda line: line.calibration_error)
    which = " of these" if of_these else ""
    return (
        f"{best.method}’s probabilities are the best calibrated{which} "
        f"(error {best.calibration_error:.1f} %)"
    )


def _joined(parts: list[str]) -> str:
    return "; ".join(part for part in parts if part) + "."


def _baseline(lines: Sequence[Line], best: Line) -> list[str]:
    """Compare the best method with the most frequent class."""
    majority = next((line for line in lines if line.method == MAJORITY), None)
    if majority is None or not np.isfinite(majority.accuracy):
        return []
    always = "always answering the most frequent class"
    if majority.accuracy >= best.accuracy or are_level(best, majority):
        return [f"No method is better than {always}, which is right for {majority.accuracy:.1f} %."]
    return [f"For comparison: {always} is right for {majority.accuracy:.1f} %."]
