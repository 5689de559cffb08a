"""Sections: how often the classifier is right, for which classes, and whether it knows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dbdl.report.charts import reliability_chart, strip_chart
from dbdl.report.findings import Findings, gain_in_words, share_interval
from dbdl.report.markup import Cell, folded, number_cell, percent, table, text
from dbdl.report.subject import Subject


def summary_section(subject: Subject) -> str:
    """Return the few numbers to read first."""
    found, model = subject.findings, subject.model
    n = len(found.true)
    low, high = share_interval(int(found.correct.sum()), n)
    chains = np.array(found.chain_accuracy)
    sizes = [len(chain.atoms) for chain in model.chains_]
    start = model.chains_[0].n_initial_atoms
    cards = [
        (
            "Accuracy",
            percent(found.accuracy, 2),
            f"95 % interval {100 * low:.1f} to {percent(high)}",
        ),
        (
            "Mistakes",
            f"{n - int(found.correct.sum())}",
            f"of {n} rows; {percent(1 - found.accuracy, 2)}",
        ),
        ("Log-loss", f"{found.log_loss:.3f}", "mean −log probability of the true class"),
        (
            "Calibration error",
            percent(found.calibration_error),
            "mean gap between confidence and accuracy",
        ),
        (
            "Atoms a chain",
            f"{min(sizes)}" if min(sizes) == max(sizes) else f"{min(sizes)}–{max(sizes)}",
            f"from {start} training rows drawn; copies are left out",
        ),
        (
            "Atoms a row",
            f"{model.coder_.n_nonzero}",
            str(model.coder_),
        ),
    ]
    if len(chains) > 1:
        cards.insert(
            1,
            (
                "One chain alone",
                percent(float(chains.mean()), 2),
                f"{100 * chains.min():.1f} to {percent(float(chains.max()))} over {len(chains)}",
            ),
        )
    if subject.unlearned_accuracy is not None:
        unlearned = float(subject.unlearned_accuracy)
        cards.insert(
            1,
            (
                "Without learning",
                percent(unlearned, 2),
                gain_in_words(found.accuracy, unlearned),
            ),
        )
    if len(subject.split_accuracy):
        splits = np.asarray(subject.split_accuracy, dtype=np.float64)
        spread = f" ± {100 * splits.std(ddof=1):.2f}" if len(splits) > 1 else ""
        cards.insert(
            1, ("Over splits", f"{100 * splits.mean():.2f}{spread} %", f"{len(splits)} splits")
        )
    items = "".join(
        f'<div class="card"><dt>{text(name)}</dt><dd><strong>{text(value)}</strong>'
        f'<span class="soft">{text(note)}</span></dd></div>'
        for name, value, note in cards
    )
    return f'<dl class="cards">{items}</dl>'


def _class_accuracy(found: Findings) -> NDArray[np.float64]:
    """Return the accuracy of each class; NaN for one without test rows."""
    confusion = found.confusion
    n_rows = confusion.sum(axis=1)
    return np.where(n_rows > 0, confusion.diagonal() / np.maximum(n_rows, 1), np.nan)


def accuracy_section(subject: Subject) -> str:
    """Return the accuracies of the classes as a chart and a table."""
    found = subject.findings
    shares = _class_accuracy(found)
    tested = np.flatnonzero(np.isfinite(shares))
    interval = share_interval(int(found.correct.sum()), len(found.true))
    chart = strip_chart(
        shares[tested], [subject.names[c] for c in tested], found.accuracy, interval
    )
    return (
        "<p>Each dot is a class. The line is the accuracy over all rows, the band its 95 % "
        f"interval. {text(_in_words(shares[tested], [subject.names[c] for c in tested]))}</p>"
        f'<figure class="wide">{chart}</figure>' + folded("Table of the classes", _by_class(found))
    )


def _in_words(shares: NDArray[np.float64], names: list[str]) -> str:
    if shares.min() == 1:
        return "Every row of every class is classified right."
    lowest = np.argsort(shares, kind="stable")[:3]
    worst = ", ".join(f"{names[c]} ({percent(float(shares[c]))})" for c in lowest)
    return (
        f"Spread over classes (standard deviation): {100 * float(shares.std()):.1f} points. "
        f"Lowest: {worst}."
    )


def _by_class(found: Findings) -> str:
    confusion, shares = found.confusion, _class_accuracy(found)
    confidence = found.probability.max(axis=1)
    rows = []
    for c, name in enumerate(found.names):
        n, n_said = int(confusion[c].sum()), int(confusion[:, c].sum())
        low, high = share_interval(int(confusion[c, c]), n)
        wrong = confusion[c].copy()
        wrong[c] = 0
        most = int(wrong.argmax())
        own = found.true == c
        rows.append(
            [
                Cell(text(name), c),
                Cell(str(n), n),
                number_cell(100 * shares[c], ".1f"),
                Cell(f"{100 * low:.0f} to {100 * high:.0f}" if n else "", low if n else ""),
                number_cell(100 * confusion[c, c] / n_said if n_said else np.nan, ".1f"),
                number_cell(100 * float(confidence[own].mean()) if n else np.nan, ".1f"),
                Cell(f"{text(found.names[most])} ({wrong[most]})" if wrong[most] else "",
                     int(wrong[most])),
            ]
        )  # fmt: skip
    headings = [
        "class", "test rows", "accuracy %", "95 % interval", "precision %", "mean confidence %",
        "most often taken for",
    ]  # fmt: skip
    return table("Accuracy class by class", headings, rows)


def calibration_section(subject: Subject) -> str:
    """Return the reliability diagram and its table."""
    found = subject.findings
    bins = found.bins()
    rows = [
        [
            Cell(f"{100 * b.low:.0f} to {100 * b.high:.0f}", b.low),
            Cell(str(b.n_rows), b.n_rows),
            number_cell(100 * b.confidence, ".1f"),
            number_cell(100 * b.accuracy, ".1f"),
            Cell(f"{100 * b.interval[0]:.0f} to {100 * b.interval[1]:.0f}", b.interval[0]),
        ]
        for b in bins
    ]
    gap = found.accuracy - float(found.probability.max(axis=1).mean())
    if abs(gap) < 0.001:
        word = "as sure as it is right"
    else:
        word = f"{'less sure' if gap > 0 else 'surer'} than right, by {100 * abs(gap):.1f} points"
    headings = ["highest probability %", "rows", "confidence %", "accuracy %", "95 % interval"]
    return (
        "<p>Of the rows that the classifier is 80 % sure of, it should get 80 % right: the dots "
        "then lie on the dashed line. Lines through the dots are 95 % intervals, the bars below "
        f"count the rows, on a logarithmic scale. Over all rows it is {word}.</p>"
        f'<div class="columns"><figure>{reliability_chart(bins)}</figure>'
        f'<div class="beside">{table("Confidence and accuracy", headings, rows)}</div></div>'
    )
