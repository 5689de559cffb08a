"""The sections of numbers: accuracy, confusion, calibration, sweeps, settings."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import precision_score, recall_score

from dbdl.estimators.classifier import DBDLClassifier
from dbdl.plotting.arrangement import spread_evenly, trace_panels
from dbdl.plotting.pictures import SIGNED
from dbdl.report.charts import strip_chart, trace_chart
from dbdl.report.findings import Findings, share_interval
from dbdl.report.inline import confusion_pixels, data_uri
from dbdl.report.rendering import Cell, Table, marked, number_cell, percent

#: The largest number of pairs of classes in the table of mistakes.
MOST_PAIRS = 200


def accuracy(found: Findings) -> dict[str, Any]:
    """Return the accuracies of the classes as a chart and a table."""
    names, classes = np.array(found.names, dtype=object), np.arange(len(found.names))
    per_class = {"labels": classes, "average": None, "zero_division": np.nan}
    shares = recall_score(found.true, found.predicted, **per_class)
    precision = precision_score(found.true, found.predicted, **per_class)
    rows = []
    for c, counts in enumerate(found.confusion):
        n, mistakes = int(counts.sum()), np.where(classes == c, 0, counts)
        own, most = found.confidence[found.true == c], int(mistakes.argmax())
        mistaken_for = f"{names[most]} ({mistakes[most]})" if mistakes[most] else ""
        rows.append(
            [
                Cell(names[c], c),
                number_cell(n),
                _percent_cell(shares[c]),
                _interval_cell(*share_interval(int(counts[c]), n)) if n else Cell(""),
                _percent_cell(precision[c]),
                _percent_cell(own.mean() if n else np.nan),
                Cell(mistaken_for, int(mistakes[most])),
            ]
        )
    headings = [
        "class", "test rows", "accuracy %", "95 % interval", "precision %", "mean confidence %",
        "most often mistaken for",
    ]  # fmt: skip
    tested = np.isfinite(shares)
    names, shares = names[tested], shares[tested]
    worst = np.argsort(shares, kind="stable")[:3]
    return {
        "chart": strip_chart(shares, names.tolist(), found.interval),
        "table": Table("Accuracy per class", headings, rows),
        "spread": float(shares.std()),
        "lowest": ", ".join(f"{names[c]} ({percent(shares[c])})" for c in worst),
    }


def _percent_cell(share: float) -> Cell:
    return number_cell(100 * share, ".1f")


def _interval_cell(low: float, high: float) -> Cell:
    return Cell(f"{100 * low:.0f} to {100 * high:.0f}", low)


def confusion(found: Findings) -> dict[str, Any]:
    """Return the confusion matrix and the pairs of classes that are confused most often."""
    counts, names = found.confusion, found.names
    pairs = [(int(counts[a, b]), int(a), int(b)) for a, b in np.argwhere(counts) if a != b]
    pairs.sort(key=lambda pair: -pair[0])
    rows = []
    for count, a, b in pairs[:MOST_PAIRS]:
        share = _percent_cell(count / counts[a].sum())
        rows.append([Cell(names[a], a), Cell(names[b], names[b]), number_cell(count), share])
    caption = "Mistakes by pair of classes"
    if len(pairs) > len(rows):
        caption += f", the {len(rows)} most frequent of {len(pairs)} pairs"
    headings = ["true class", "mistaken for", "rows", "% of the class"]
    uri = data_uri(confusion_pixels(counts), SIGNED)
    return {"uri": uri, "counts": counts.tolist(), "table": Table(caption, headings, rows)}


def calibration(found: Findings) -> dict[str, Any]:
    """Return the bins of the reliability diagram and their table."""
    bins = found.bins()
    rows = []
    for b in bins:
        shares = _percent_cell(b.confidence), _percent_cell(b.accuracy)
        row = [_interval_cell(b.low, b.high), number_cell(b.n_rows), *shares]
        rows.append([*row, _interval_cell(*b.interval)])
    headings = ["highest probability %", "rows", "confidence %", "accuracy %", "95 % interval"]
    gap = 100 * (found.accuracy - float(found.confidence.mean()))
    return {"bins": bins, "table": Table("Confidence and accuracy", headings, rows), "gap": gap}


def sweeps(model: DBDLClassifier) -> dict[str, Any]:
    """Return charts along the sweeps, a table of a few sweeps, and each chain's sizes.

    Sizes: rows drawn, atoms after the first sweep, atoms at the end.
    """
    drawn = [chain.n_initial_atoms for chain in model.chains_]
    panels = trace_panels(model.trace_, drawn)
    means = [np.atleast_2d(getattr(model.trace_, p.field)).mean(axis=0) for p in panels]
    rows = [
        [Cell(str(s + 1), int(s)), *(number_cell(float(values[s]), ".5g") for values in means)]
        for s in spread_evenly(len(means[0]), 12)
    ]
    first = np.atleast_2d(model.trace_.n_atoms)[:, 0]
    sizes = np.array([len(chain.atoms) for chain in model.chains_])
    return {
        "charts": [trace_chart(panel) for panel in panels],
        "table": Table("Means over chains", ["sweep", *(p.title for p in panels)], rows),
        "drawn": drawn,
        "first": first.tolist(),
        "dropped": (first - sizes).tolist(),
        "sizes": sizes.tolist(),
    }


def settings(model: DBDLClassifier) -> dict[str, Any]:
    """Return the choices made on held-out rows, and the parameters, changed ones in bold."""
    default, rows = DBDLClassifier().get_params(), []
    for name, value in model.get_params(deep=False).items():
        changed = value is not default[name] and value != default[name]
        shown = marked("b", value) if changed else str(value)
        rows.append([Cell(marked("code", name), name), Cell(shown, str(value) or " ")])
    table = Table("Parameters", ["parameter", "value"], rows)
    return {"coder": str(model._coder()), "choice": _choice_in_words(model), "table": table}


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
