"""Sections with heat maps: the confusion matrix and the selection probabilities."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbdl.plotting.arrangement import order_by_owner, owner_of_atoms
from dbdl.plotting.pictures import HEAT, SIGNED, confusion_pixels, data_uri, heat_pixels
from dbdl.report.markup import Cell, folded, number_cell, table, text
from dbdl.report.subject import Subject

#: Confusion matrices of up to so many classes have their counts written in the cells.
MOST_COUNTED = 20


def _heat(
    kind: str, label: str, names: Sequence[str], uri: str, x_title: str, row_height: float,
    width: str, inside: str = "", columns: str = "",
) -> str:  # fmt: skip
    """Return a heat map that the pointer and the arrow keys can read."""
    every = max(1, int(np.ceil(11 / row_height)))
    size = f"height:{row_height:g}px;line-height:{row_height:g}px"
    labels = "".join(
        f'<span style="{size}">{text(name) if c % every == 0 else ""}</span>'
        for c, name in enumerate(names)
    )
    height = row_height * len(names)
    return (
        f'<figure class="heat" data-heat="{kind}">'
        f'<div class="heat-frame"><div class="heat-names" aria-hidden="true">{labels}</div>'
        f'<div class="heat-plot" style="height:{height:g}px;{width}" role="application" '
        f'aria-roledescription="heat map" aria-label="{text(label)}" tabindex="0">'
        f'<img src="{uri}" alt="{text(label)}">{inside}<span class="heat-cursor" hidden></span>'
        f"{columns}</div></div>"
        f'<figcaption><span class="soft">{text(x_title)}</span>'
        f'<output class="readout" aria-live="polite">Point at a cell, or go there with Tab and '
        "the arrow keys.</output></figcaption></figure>"
    )


def confusion_section(subject: Subject) -> str:
    """Return the confusion matrix and the mistakes by pair of classes."""
    counts = subject.findings.confusion
    n = len(counts)
    row_height = float(np.clip(560 / n, 5, 34))
    uri = data_uri(confusion_pixels(counts), SIGNED)
    inside = ""
    if n <= MOST_COUNTED:
        strong = counts > 0.4 * counts.sum(axis=1, keepdims=True)
        cells = "".join(
            f"<span{' class=strong' * bool(s)}>{value or ''}</span>"
            for value, s in zip(counts.ravel(), strong.ravel(), strict=True)
        )
        inside = (
            f'<div class="counts" aria-hidden="true" style="grid-template-columns:repeat({n},1fr)">'
            f"{cells}</div>"
        )
    label = f"Confusion matrix of {n} classes: true classes down, answers across"
    picture = _heat(
        "confusion", label, subject.names, uri, "answer, in the same order", row_height,
        f"width:{n * row_height:g}px", inside, _column_names(subject.names, row_height),
    )  # fmt: skip
    listed = _mistakes(counts, subject.names)
    return (
        "<p>True classes are rows, answers are columns. Blue is right, orange is wrong; strength "
        "is the share of the row.</p>"
        f'<div class="columns">{picture}<div class="beside">{listed}</div></div>'
    )


def _mistakes(counts: NDArray[np.int64], names: Sequence[str]) -> str:
    """Return the table of pairs of classes that are confused, the most frequent first."""
    n = len(counts)
    pairs = [
        (int(counts[a, b]), a, b) for a in range(n) for b in range(n) if a != b and counts[a, b]
    ]
    pairs.sort(key=lambda pair: (-pair[0], pair[1], pair[2]))
    rows = [
        [
            Cell(text(names[a]), a),
            Cell(text(names[b]), names[b]),
            Cell(str(count), count),
            number_cell(100 * count / counts[a].sum(), ".1f"),
        ]
        for count, a, b in pairs[:200]
    ]
    if not rows:
        return "<p>There are no mistakes.</p>"
    headings = ["true class", "taken for", "rows", "% of the class"]
    caption = "Mistakes by pair of classes"
    if len(pairs) > len(rows):
        caption += f", the {len(rows)} most frequent of {len(pairs)} pairs"
    return table(caption, headings, rows)


def _column_names(names: Sequence[str], width: float) -> str:
    """Return the names below the columns of a confusion matrix, where there is room for them."""
    if width < 14 or max(map(len, names)) > width / 7:
        return ""
    cells = "".join(f"<span>{text(name)}</span>" for name in names)
    return f'<div class="heat-columns" aria-hidden="true">{cells}</div>'


def selection_section(subject: Subject) -> str:
    """Return the probabilities that classes use atoms, as a heat map and a table."""
    chain = subject.model.chains_[0]
    order = order_by_owner(chain.selection_probability)
    probability = chain.selection_probability[:, order]
    uri = data_uri(heat_pixels(probability, float(probability.max())), HEAT)
    n_classes, n_atoms = probability.shape
    row_height = float(np.clip(560 / n_classes, 5, 24))
    shared = (probability > probability.max(axis=0) / 2).sum(axis=0)
    note = (
        f"{int((shared == 1).sum())} of {n_atoms} atoms belong to one class alone: no other uses "
        f"them half as often. Strength is the square root of the probability, up to "
        f"{probability.max():.2f}."
    )
    label = (
        f"Selection probabilities of {n_classes} classes (down) and {n_atoms} atoms (across), "
        "atoms in the order of the class that uses them most"
    )
    rows = []
    for c, name in enumerate(subject.names):
        best = np.argsort(-chain.selection_probability[c], kind="stable")[:5]
        values = ", ".join(f"{k}: {chain.selection_probability[c, k]:.2f}" for k in best)
        own = int((owner_of_atoms(chain.selection_probability) == c).sum())
        uses = float(chain.selection_probability[c].sum())
        rows.append(
            [Cell(text(name), c), Cell(str(own), own), number_cell(uses, ".1f"),
             Cell(values, float(chain.selection_probability[c, best[0]]))]
        )  # fmt: skip
    return (
        f"<p>How likely a row of each class is to use each atom{subject.of_chain}, atoms grouped "
        f"by the class that uses them most. {note}</p>"
        + _heat(
            "selection", label, subject.names, uri, f"{n_atoms} atoms", row_height, "width:100%"
        )
        + folded(
            "Table of the classes' atoms",
            table(
                "Atoms of each class",
                ["class", "atoms it uses most", "atoms per row, expected", "most probable atoms"],
                rows,
            ),
        )
    )


def packed_selection(subject: Subject) -> dict[str, Any]:
    """Return the probabilities in 16 bits each, atoms in the order of the picture."""
    probability = subject.model.chains_[0].selection_probability
    order = order_by_owner(probability)
    packed = np.round(65535 * np.clip(probability[:, order], 0, 1)).astype("<u2")
    return {"order": order.tolist(), "values": base64.b64encode(packed.tobytes()).decode()}
