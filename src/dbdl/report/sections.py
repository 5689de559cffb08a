"""The sections of numbers: summary, accuracy, confusion, calibration, sweeps, settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import precision_score, recall_score

from dbdl.estimators.classifier import DBDLClassifier
from dbdl.plotting.arrangement import spread_evenly, trace_panels
from dbdl.plotting.pictures import SIGNED
from dbdl.report.charts import reliability_chart, strip_chart, trace_chart
from dbdl.report.findings import Findings, share_interval
from dbdl.report.inline import confusion_pixels, data_uri
from dbdl.report.rendering import Cell, Table, marked, number_cell, percent

#: The largest number of pairs of classes in the table of mistakes.
MOST_PAIRS = 200


def summary(
    found: Findings, split_accuracy: Sequence[float], unlearned_accuracy: float | None
) -> list[tuple[str, str, str]]:
    """Return the few numbers to read first: name, value and a note."""
    model, n, n_correct = found.model, len(found.true), int(found.correct.sum())
    low, high = found.interval
    cards = [
        (
            "Accuracy",
            percent(found.accuracy, 2),
            f"95 % interval {100 * low:.1f} to {percent(high)}",
        )
    ]
    if len(split_accuracy):
        splits = 100 * np.asarray(split_accuracy, dtype=np.float64)
        spread = f" ± {splits.std(ddof=1):.2f}" if len(splits) > 1 else ""
        cards.append(("Over splits", f"{splits.mean():.2f}{spread} %", f"{len(splits)} splits"))
    if unlearned_accuracy is not None:
        note = _gain_in_words(found.accuracy - float(unlearned_accuracy))
        cards.append(("Without learning", percent(float(unlearned_accuracy), 2), note))
    if len(chains := np.array(found.chain_accuracy)) > 1:
        note = f"{100 * chains.min():.1f} to {percent(chains.max())} over {len(chains)} chains"
        cards.append(("One chain alone", percent(chains.mean(), 2), note))
    sizes = np.array([len(chain.atoms) for chain in model.chains_])
    drawn = model.chains_[0].n_initial_atoms
    return [
        *cards,
        ("Mistakes", str(n - n_correct), f"of {n} rows; {percent(1 - found.accuracy, 2)}"),
        ("Log-loss", f"{found.log_loss:.3f}", "mean −log probability of the true class"),
        (
            "Calibration error",
            percent(found.calibration_error),
            "mean gap between confidence and accuracy",
        ),
        (
            "Atoms per chain",
            _range(sizes, "–"),
            f"from {drawn} training rows drawn; copies are left out",
        ),
        ("Atoms per row", str(model.n_nonzero_), str(model._coder())),
    ]


def _gain_in_words(gain: float) -> str:
    points = round(100 * gain, 2)
    adds = f"{points:.2f} points" if points > 0 else "nothing here"
    return f"random training rows as atoms: learning adds {adds}"


def _range(numbers: NDArray[np.int64], to: str = " to ") -> str:
    return to.join(map(str, sorted({int(numbers.min()), int(numbers.max())})))


def accuracy(found: Findings) -> dict[str, Any]:
    """Return the accuracies of the classes as a chart and a table."""
    confusion, classes = found.confusion, np.arange(len(found.names))
    per_class = {"labels": classes, "average": None, "zero_division": np.nan}
    shares = recall_score(found.true, found.predicted, **per_class)
    precision = precision_score(found.true, found.predicted, **per_class)
    rows = []
    for c, name in enumerate(found.names):
        n, mistakes = int(confusion[c].sum()), confusion[c] * (classes != c)
        low, high = share_interval(int(confusion[c, c]), n)
        most = int(mistakes.argmax())
        rows.append(
            [
                Cell(name, c),
                number_cell(n),
                number_cell(100 * shares[c], ".1f"),
                _interval_cell(low, high) if n else Cell(""),
                number_cell(100 * precision[c], ".1f"),
                number_cell(100 * found.confidence[found.true == c].mean() if n else np.nan, ".1f"),
                Cell(
                    f"{found.names[most]} ({mistakes[most]})" if mistakes[most] else "",
                    int(mistakes[most]),
                ),
            ]
        )
    headings = [
        "class", "test rows", "accuracy %", "95 % interval", "precision %", "mean confidence %",
        "most often mistaken for",
    ]  # fmt: skip
    tested = np.flatnonzero(np.isfinite(shares))
    names, shares = [found.names[c] for c in tested], shares[tested]
    worst = np.argsort(shares, kind="stable")[:3]
    return {
        "chart": strip_chart(shares, names, found.interval),
        "table": Table("Accuracy per class", headings, rows),
        "spread": float(shares.std()),
        "lowest": ", ".join(f"{names[c]} ({percent(shares[c])})" for c in worst),
    }


def _interval_cell(low: float, high: float) -> Cell:
    return Cell(f"{100 * low:.0f} to {100 * high:.0f}", low)


def confusion(found: Findings) -> dict[str, Any]:
    """Return the confusion matrix and the pairs of classes that are confused most often."""
    counts, names = found.confusion, found.names
    pairs = [(int(counts[a, b]), int(a), int(b)) for a, b in np.argwhere(counts) if a != b]
    pairs.sort(key=lambda pair: -pair[0])
    rows = [
        [
            Cell(names[a], a),
            Cell(names[b], names[b]),
            number_cell(count),
            number_cell(100 * count / counts[a].sum(), ".1f"),
        ]
        for count, a, b in pairs[:MOST_PAIRS]
    ]
    caption = "Mistakes by pair of classes"
    if len(pairs) > len(rows):
        caption += f", the {len(rows)} most frequent of {len(pairs)} pairs"
    headings = ["true class", "mistaken for", "rows", "% of the class"]
    return {
        "uri": data_uri(confusion_pixels(counts), SIGNED),
        "counts": counts.tolist(),
        "table": Table(caption, headings, rows),
    }


def calibration(found: Findings) -> dict[str, Any]:
    """Return the reliability diagram and its table."""
    bins = found.bins()
    rows = [
        [
            _interval_cell(b.low, b.high),
            number_cell(b.n_rows),
            number_cell(100 * b.confidence, ".1f"),
            number_cell(100 * b.accuracy, ".1f"),
            _interval_cell(*b.interval),
        ]
        for b in bins
    ]
    headings = ["highest probability %", "rows", "confidence %", "accuracy %", "95 % interval"]
    return {
        "chart": reliability_chart(bins),
        "table": Table("Confidence and accuracy", headings, rows),
        "gap": 100 * (found.accuracy - float(found.confidence.mean())),
    }


def sweeps(model: DBDLClassifier) -> dict[str, Any]:
    """Return charts along the sweeps, and a table of a few sweeps."""
    panels = trace_panels(model.trace_, [chain.n_initial_atoms for chain in model.chains_])
    means = [np.atleast_2d(getattr(model.trace_, p.field)).mean(axis=0) for p in panels]
    rows = [
        [Cell(str(s + 1), int(s)), *(number_cell(float(values[s]), ".5g") for values in means)]
        for s in spread_evenly(len(means[0]), 12)
    ]
    headings = ["sweep", *(panel.title for panel in panels)]
    return {
        "charts": [trace_chart(panel) for panel in panels],
        "table": Table("Means over chains", headings, rows),
        "size": size_in_words(model),
    }


def size_in_words(model: DBDLClassifier) -> str:
    """Say where the number of atoms comes from: the rows drawn, less those that were left out."""
    drawn, first, last = np.array(
        [(c.n_initial_atoms, np.ravel(c.trace.n_atoms)[0], len(c.atoms)) for c in model.chains_]
    ).T
    dropped = f"{_range(first - last)} here" if (first - last).any() else "none here"
    return (
        f"Each chain starts from training rows drawn as atoms: {_range(drawn)}, the number at "
        "sweep 0. Copies of a row, and rows that no first code uses, are left out at once, which "
        f"leaves {_range(first)}. A sweep also drops atoms that explain next to nothing: "
        f"{dropped}. The number of atoms is therefore mostly the number of different rows drawn; "
        "it is not inferred."
    )


def settings(model: DBDLClassifier) -> dict[str, Any]:
    """Return the parameters, and the choices made on held-out rows."""
    default = DBDLClassifier().get_params()
    rows = []
    for name, value in model.get_params(deep=False).items():
        changed = value is not default[name] and value != default[name]
        shown = marked("b", value) if changed else str(value)
        rows.append([Cell(marked("code", name), name), Cell(shown, str(value) or " ")])
    table = Table("Parameters", ["parameter", "value"], rows)
    return {"choice": _choice_in_words(model), "table": table}


def _choice_in_words(model: DBDLClassifier) -> str:
    """Say whether coder and temperature were chosen on held-out rows, or given."""
    coder = f"{model.n_nonzero_} non-zeros, {model._coder()}"
    temperature = f"temperature {model.temperature_:.3g}"
    if model.held_out_ is None:
        return f"No training row could be left out to choose on: {coder}, {temperature}."
    unseen = "on training rows that pilot chains did not see"
    if len(model.held_out_.coders) > 1:
        return f"Chosen {unseen}: {coder}, {temperature}."
    return f"Given: {coder}. Fitted {unseen}: {temperature}."
