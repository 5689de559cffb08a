"""The sections of numbers: accuracy, confusion, sweeps, settings."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import precision_score, recall_score

from dbdl.estimators.classifier import DBDLClassifier
from dbdl.model.settings import ModelSettings
from dbdl.plotting.arrangement import spread_evenly, trace_panels
from dbdl.plotting.pictures import SIGNED
from dbdl.report.charts import strip_chart, trace_chart
from dbdl.report.findings import Findings, share_interval
from dbdl.report.inline import confusion_pixels, data_uri
from dbdl.report.rendering import percent
from dbdl.report.views import view_of_chain

#: The largest number of pairs of classes in the table of mistakes.
MOST_PAIRS = 200
#: Lines of charts that can be told apart; ``page.css`` has as many classes.
N_LOOKS = 8


def accuracy(found: Findings) -> dict[str, Any]:
    """Return the accuracies of the classes; NaN where a class has no test rows."""
    names, labels = np.array(found.names, dtype=object), np.arange(len(found.names))
    per_class = {"labels": labels, "average": None, "zero_division": np.nan}
    shares = recall_score(found.true, found.predicted, **per_class)
    precision = precision_score(found.true, found.predicted, **per_class)
    classes = []
    for c, counts in enumerate(found.confusion):
        n_rows, mistakes = int(counts.sum()), np.where(labels == c, 0, counts)
        classes.append(
            {
                "name": names[c],
                "n_rows": n_rows,
                "accuracy": shares[c],
                "interval": share_interval(int(counts[c]), n_rows),
                "precision": precision[c],
                "confidence": found.confidence[found.true == c].mean() if n_rows else np.nan,
                "mistaken_for": names[mistakes.argmax()],
                "n_mistaken": int(mistakes.max()),
            }
        )
    tested = np.isfinite(shares)
    names, shares = names[tested], shares[tested]
    worst = np.argsort(shares, kind="stable")[:3]
    return {
        "chart": strip_chart(shares, names.tolist(), found.interval),
        "classes": classes,
        "spread": float(shares.std()),
        "lowest": ", ".join(f"{names[c]} ({percent(shares[c])})" for c in worst),
    }


def confusion(found: Findings) -> dict[str, Any]:
    """Return the confusion matrix and the pairs of classes that are confused most often."""
    counts, n_rows = found.confusion, found.confusion.sum(axis=1)
    wrong = [(a, b) for a, b in np.argwhere(counts).tolist() if a != b]
    pairs = [(int(counts[a, b]), a, b, counts[a, b] / n_rows[a]) for a, b in wrong]
    shown = sorted(pairs, key=lambda pair: -pair[0])[:MOST_PAIRS]
    caption = "Mistakes by pair of classes"
    if len(pairs) > len(shown):
        caption += f", the {len(shown)} most frequent of {len(pairs)} pairs"
    uri = data_uri(confusion_pixels(counts), SIGNED)
    return {"uri": uri, "counts": counts.tolist(), "pairs": shown, "caption": caption}


def sweeps(model: DBDLClassifier) -> dict[str, Any]:
    """Return charts along the sweeps, means over the chains, and each chain's numbers of atoms.

    Chains of one view have one look, unless all chains have the same view.
    """
    drawn = [chain.n_initial_atoms for chain in model.chains_]
    sizes = np.array([len(chain.atoms) for chain in model.chains_])
    panels = trace_panels(model.trace_, drawn)
    means = np.array([np.atleast_2d(getattr(model.trace_, p.field)).mean(axis=0) for p in panels])
    first = np.atleast_2d(model.trace_.n_atoms)[:, 0]
    looks = view_of_chain(model)
    keys = [model.chains_[looks.index(look)].view.name for look in sorted(set(looks))]
    if len(keys) == 1:
        looks, keys = list(range(len(sizes))), [f"chain {j + 1}" for j in range(len(sizes))]
    return {
        "charts": [trace_chart(panel) for panel in panels],
        "looks": [look % N_LOOKS for look in looks],
        "keys": keys if len(keys) <= N_LOOKS else [],
        "means": [(int(s), means[:, s].tolist()) for s in spread_evenly(means.shape[1], 12)],
        "drawn": drawn,
        "first": first.tolist(),
        "dropped": (first - sizes).tolist(),
        "sizes": sizes.tolist(),
        "sizes_tried": _sizes_tried(model),
    }


def _sizes_tried(model: DBDLClassifier) -> list[tuple[float, float, float, bool]]:
    """Return the sizes among which one was chosen; none if the size was given."""
    if (curve := getattr(model, "size_curve_", None)) is None:
        return []
    tried = zip(curve.n_atoms, curve.accuracy, curve.standard_error, strict=True)
    return [(*results, number == curve.chosen) for number, results in enumerate(tried)]


def settings(model: DBDLClassifier) -> list[tuple[str, str, bool]]:
    """Return the names and values of parameters, and whether they differ from the defaults."""
    default = DBDLClassifier(model=ModelSettings()).get_params()
    return [
        (name, str(value), value is not default.get(name) and value != default.get(name))
        for name, value in model.get_params().items()
        if not hasattr(value, "get_params")  # settings within are listed by their own names
    ]
