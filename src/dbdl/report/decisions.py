"""The section of decisions: tables and bars of `dbdl.report.explain`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dbdl.plotting.pictures import Pictures
from dbdl.report.charts import Scale
from dbdl.report.explain import Explanation, Part, choose_samples, explain
from dbdl.report.findings import Findings
from dbdl.report.inline import lay_out
from dbdl.report.rendering import Cell, Table, marked, number_cell, signed


def decisions(found: Findings, draw: Callable[[Any], Pictures]) -> dict[str, Any]:
    """Return decisions taken apart, and the sheet with pictures of their rows and atoms."""
    probability = found.model.selection_probability_
    explained = [explain(found, probability, *chosen) for chosen in choose_samples(found)]
    atoms = sorted({part.atom for e in explained for part in e.atoms})
    rows = found.rows[[e.sample for e in explained]].astype(np.float64)
    sheet = lay_out(draw(np.vstack([rows, found.model.atoms_[atoms]])))
    at = {k: sheet.position(len(explained) + j) for j, k in enumerate(atoms)}
    shown = [_decision(found, e, sheet.position(i), at) for i, e in enumerate(explained)]
    return {"sheet": sheet, "shown": shown}


def _decision(found: Findings, e: Explanation, at: str, atom_at: dict[int, str]) -> dict[str, Any]:
    names = found.names
    return {
        "row": e.sample,
        "kind": e.kind,
        "is_correct": e.true == e.predicted,
        "predicted": names[e.predicted],
        "true": names[e.true],
        "confidence": float(found.confidence[e.sample]),
        "at": at,
        "bars": _class_bars(found, e),
        "tables": [_atoms_table(found, e, atom_at), _owners_table(found, e)],
    }


def _atoms_table(found: Findings, e: Explanation, at: dict[int, str]) -> Table:
    names = found.names
    longest = max(abs(part.difference) for part in (*e.atoms, e.other_atoms)) or 1.0
    rows = []
    for part in e.atoms:
        first = [
            Cell(_atom_name(found, part.atom), part.atom, picture=at[part.atom]),
            Cell(names[part.owner], names[part.owner]),
            Cell(signed(part.coefficient), part.coefficient),
        ]
        rows.append([*first, *_sides(part), _difference(part, longest)])
    if n := e.other_atoms.n_atoms:
        first = [Cell(f"{n} other atom{'s' * (n > 1)}"), Cell("", " "), Cell("")]
        rows.append([*first, *_sides(e.other_atoms), _difference(e.other_atoms, longest)])
    own, rival = (float(found.scores[e.sample, c]) for c in (e.predicted, e.rival))
    sums = [Cell(marked("b", signed(value)), value) for value in (own, rival, own - rival)]
    rows.append([Cell(marked("b", "sum: the scores")), Cell("", " "), Cell(""), *sums])
    caption = (
        f"Row {e.sample}: the atoms that decided between {names[e.predicted]} and {names[e.rival]}"
    )
    headings = ["atom", "used most by", "coefficient", *_for(found, e), "difference"]
    return Table(caption, headings, rows, is_sortable=False)


def _owners_table(found: Findings, e: Explanation) -> Table:
    rows = [
        [Cell(found.names[part.owner], part.owner), number_cell(part.n_atoms), *_sides(part)]
        for part in e.owners
    ]
    if n := e.other_owners.n_atoms:
        rows.append([Cell("other classes"), number_cell(n), *_sides(e.other_owners)])
    caption = f"Row {e.sample}: by the class that uses the atoms most"
    headings = ["atoms used most by", "atoms", *_for(found, e)]
    return Table(caption, headings, rows, is_sortable=False)


def _atom_name(found: Findings, k: int) -> str:
    chain = int(np.searchsorted(found.first_atoms, k, side="right")) - 1
    chain_name = f", chain {chain + 1}" if len(found.model.chains_) > 1 else ""
    return f"{k - found.first_atoms[chain]}{chain_name}"


def _sides(part: Part) -> list[Cell]:
    return [Cell(signed(value), value) for value in (part.for_class, part.for_rival)]


def _difference(part: Part, longest: float) -> Cell:
    value = part.difference
    return Cell(signed(value), value, bar=value / longest)


def _for(found: Findings, e: Explanation) -> list[str]:
    return [f"for {found.names[c]}" for c in (e.predicted, e.rival)]


def _class_bars(found: Findings, e: Explanation) -> list[dict[str, Any]]:
    """Return bars for the scores of the leading classes, from 0 to each score."""
    scores = found.scores[e.sample, e.classes].tolist()
    x = Scale(min(*scores, 0.0), max(*scores, 0.0), 70, 160)
    bars = []
    for c, score in zip(e.classes, scores, strict=True):
        left, right = sorted((x(0.0), x(score)))
        bars.append(
            {
                "name": found.names[c],
                "score": score,
                "probability": float(found.probability[e.sample, c]),
                "kind": {e.true: "against", e.predicted: "for"}.get(c, "bar"),
                "x": left,
                "width": max(round(right - left, 2), 0.5),
            }
        )
    return bars
