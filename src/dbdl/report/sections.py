"""The sections of numbers: accuracy, confusion, views, sweeps, settings."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import precision_score, recall_score

from dbdl.coding import Coder
from dbdl.estimators.classifier import DBDLClassifier
from dbdl.experiments.measure import most_used_coder
from dbdl.model.settings import ModelSettings
from dbdl.plotting.arrangement import spread_evenly, trace_panels
from dbdl.plotting.pictures import SIGNED
from dbdl.report.charts import strip_chart, trace_chart
from dbdl.report.findings import Answers, Findings, share_interval
from dbdl.report.inline import confusion_pixels, data_uri
from dbdl.report.rendering import percent

#: The largest number of pairs of classes in the table of mistakes.
MOST_PAIRS = 200
#: Lines of charts that can be told apart; ``page.css`` has as many classes.
N_LOOKS = 8


def accuracy(found: Answers) -> dict[str, Any]:
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


def confusion(found: Answers) -> dict[str, Any]:
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


class ViewLine(NamedTuple):
    """One view: its chains, their coder and weight, and their results."""

    name: str
    n_chains: int
    coder: str
    weight: float  # of its chains together
    log_loss: float  # of one chain on the rows left out; NaN if there are none
    accuracy: float  # of one chain on the test rows


def view_of_chain(model: DBDLClassifier) -> list[int]:
    """Return the number of each chain's view: chains take the views in turn."""
    names = [chain.view.name for chain in model.chains_]
    if model.held_out_ is not None:
        n_views = len(model.held_out_.view_log_loss)
        return [number % n_views for number in range(len(names))]
    different = list(dict.fromkeys(names))
    return [different.index(name) for name in names]


def in_words(coder: Coder) -> str:
    """Return a coder and its number of non-zeros."""
    return f"{coder.n_nonzero} non-zeros, {coder}"


def views(found: Findings) -> dict[str, Any]:
    """Return the lines of the table, the choice in words, and the coder used most."""
    numbers = np.array(view_of_chain(found.model))
    lines = [_line(found, np.flatnonzero(numbers == view)) for view in np.unique(numbers)]
    coder, every = most_used_coder(found.model), {chain.coder for chain in found.model.chains_}
    return {
        "lines": lines,
        "choice": _choice_in_words(found.model, len(lines)),
        "coder": str(coder) if len(every) == 1 else f"mostly {coder}",
        "n_nonzero": [chain.coder.n_nonzero for chain in found.model.chains_],
    }


def _line(found: Findings, own: Any) -> ViewLine:
    chains, held_out = [found.model.chains_[j] for j in own], found.model.held_out_
    coder, log_loss = chains[0].coder, np.nan
    if held_out is not None and coder in held_out.coders:
        log_loss = float(held_out.view_log_loss[own[0], held_out.coders.index(coder)])
    return ViewLine(
        chains[0].view.name,
        len(chains),
        in_words(coder),
        sum(chain.weight for chain in chains),
        log_loss,
        float(np.mean([found.chain_accuracy[j] for j in own])),
    )


def _choice_in_words(model: DBDLClassifier, n_views: int) -> str:
    held_out, coder = model.held_out_, in_words(model.chains_[0].coder)
    if held_out is None:
        return f"No training row was left out: {coder}, temperature {model.temperature_:.3g}."
    chosen = ["the coders"] * (len(held_out.coders) > 1) + ["the weights"] * (n_views > 1)
    chosen += ["the bend of the scores"] * (model.bend_ > 0)
    if model.calibrate:
        chosen.append(f"the temperature, {model.temperature_:.3g}")
    given = "" if len(held_out.coders) > 1 else f"Given: {coder}. "
    *first, last = chosen
    together = f"{', '.join(first)} and {last}" if first else last
    said = f"{given}Each chain left out some of the training rows, which chose {together}."
    if held_out.ensemble_accuracy is None or held_out.ensemble_log_loss is None:
        return said
    said += (
        " Each of these rows was classified by the chains that left it out: "
        f"{percent(held_out.ensemble_accuracy)} correct, log-loss {held_out.ensemble_log_loss:.3f}."
    )
    if n_views > 1:
        n_rows = round(held_out.n_rows / n_views)
        said += f" The held-out log-loss of a view is that of its chains, on about {n_rows} rows."
    return said


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


def convergence(model: DBDLClassifier) -> dict[str, Any]:
    """Return the diagnostics of the chains."""
    found = model.diagnostics_
    return {
        "lines": found.lines,
        "r_hat": found.worst_r_hat,
        "effective": found.least_effective,
        "least_sweeps": found.least_sweeps,
        "converged": found.has_converged,
        "single": any(line.n_chains == 1 for line in found.lines),
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
