"""The section of views: how chains see the rows, and what the rows that they left out chose."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dbdl.coding import Coder
from dbdl.estimators.classifier import DBDLClassifier
from dbdl.experiments.measure import most_used_coder
from dbdl.report.findings import Findings
from dbdl.report.rendering import percent


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
