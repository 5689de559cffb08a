"""Section: single decisions taken apart, see `dbdl.report.explain`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dbdl.plotting.pictures import data_uri, lay_out
from dbdl.report.explain import Explanation, choose_samples, explain
from dbdl.report.markup import Cell, percent, sheet_position, sheet_style, signed, svg, table, text
from dbdl.report.subject import Subject


def samples_section(subject: Subject) -> tuple[str, str]:
    """Return decisions taken apart, and the style with their pictures."""
    found, model = subject.findings, subject.model
    explained = [
        explain(found, model.selection_probability_, sample, kind)
        for sample, kind in choose_samples(found)
    ]
    atoms = sorted({part.atom for e in explained for part in e.atoms})
    rows = [model.atoms_[atoms]] if atoms else []
    tested = found.rows[[e.sample for e in explained]].astype(np.float64)
    if not subject.atoms_are_signed and subject.image_shape is not None:
        tested = np.maximum(tested, 0)
    sheet = lay_out(subject.draw(np.vstack([tested, *rows])))
    style = sheet_style("sheet-samples", data_uri(sheet.numbers, sheet.palette), sheet)
    at = {k: sheet_position(sheet, len(explained) + j) for j, k in enumerate(atoms)}
    chain_of_atom = np.repeat(
        np.arange(len(model.chains_)), [len(chain.atoms) for chain in model.chains_]
    )
    first = np.cumsum([0, *(len(chain.atoms) for chain in model.chains_)])
    blocks = []
    for number, e in enumerate(explained):
        titles = {
            part.atom: _atom_title(part.atom, chain_of_atom, first, len(model.chains_))
            for part in e.atoms
        }
        blocks.append(_sample(subject, e, sheet_position(sheet, number), at, titles, number == 0))
    return (
        "<p>The score of a class is a sum over the atoms of a row's code: coefficient × label "
        "atom. So every atom's part in a decision is known exactly. Scores are compared with the "
        "runner-up's or, where the answer is wrong, with the true class's.</p>" + "".join(blocks),
        style,
    )


def _atom_title(
    k: int, chain_of_atom: NDArray[np.int64], first: NDArray[np.int64], n_chains: int
) -> str:
    chain = int(chain_of_atom[k])
    return f"{k - first[chain]}" + (f", chain {chain + 1}" if n_chains > 1 else "")


def _sample(
    subject: Subject,
    e: Explanation,
    position: str,
    at: Mapping[int, str],
    titles: Mapping[int, str],
    is_open: bool,
) -> str:
    found, names = subject.findings, subject.names
    right = e.true == e.predicted
    mark = '<span class="right">✓ right</span>' if right else '<span class="wrong">✗ wrong</span>'
    is_instead = "" if right else f", but is <b>{text(names[e.true])}</b>"
    sure = percent(float(found.probability[e.sample].max()))
    return (
        f'<details class="sample"{" open" * is_open}><summary>{mark} Row {e.sample}: said '
        f"<b>{text(names[e.predicted])}</b> at {sure}{is_instead} "
        f'<span class="soft">({text(e.kind)})</span></summary>'
        '<div class="sample-body"><div class="sample-side">'
        f'<div class="picture sample-picture sheet-samples" role="img" '
        f'aria-label="Row {e.sample}" style="background-position:{position}"></div>'
        f"{_class_bars(subject, e)}</div><div>{_by_atom(subject, e, at, titles)}"
        f"{_by_owner(subject, e)}</div></div></details>"
    )


def _by_atom(
    subject: Subject, e: Explanation, at: Mapping[int, str], titles: Mapping[int, str]
) -> str:
    names = subject.names
    longest = max(abs(part.difference) for part in (*e.atoms, e.others)) or 1.0
    rows = []
    for part in e.atoms:
        picture = (
            '<span class="picture small sheet-samples" '
            f'style="background-position:{at[part.atom]}"></span> '
        )
        rows.append(
            [
                Cell(picture + text(titles[part.atom]), part.atom),
                Cell(text(names[part.owner]), names[part.owner]),
                Cell(signed(part.coefficient), part.coefficient),
                *_parts(part.for_class, part.for_rival),
                Cell(_bar(part.difference, longest), part.difference),
            ]
        )
    if e.others.atom:
        rows.append(
            [
                Cell(f"{e.others.atom} other atoms"),
                *(Cell("", " "), Cell("")),
                *_parts(e.others.for_class, e.others.for_rival),
                Cell(_bar(e.others.difference, longest), e.others.difference),
            ]
        )
    own, rival = (float(subject.findings.scores[e.sample, c]) for c in (e.predicted, e.rival))
    sums = [Cell(f"<b>{signed(value)}</b>", value) for value in (own, rival, own - rival)]
    rows.append([Cell("<b>sum: the scores</b>"), Cell("", " "), Cell(""), *sums])
    caption = (
        f"Row {e.sample}: the atoms that decided between {names[e.predicted]} and {names[e.rival]}"
    )
    headings = ["atom", "used most by", "coefficient", *_for(names, e), "difference"]
    return table(caption, headings, rows, sortable=False)


def _by_owner(subject: Subject, e: Explanation) -> str:
    rows = [
        [
            Cell(text(subject.names[part.owner]), part.owner),
            Cell(str(part.n_atoms), part.n_atoms),
            *_parts(part.for_class, part.for_rival),
        ]
        for part in e.owners
    ]
    if others := e.other_owners.n_atoms:
        parts = _parts(e.other_owners.for_class, e.other_owners.for_rival)
        rows.append([Cell("other classes"), Cell(str(others), others), *parts])
    headings = ["atoms used most by", "atoms", *_for(subject.names, e)]
    caption = f"Row {e.sample}: by the class that the atoms belong to"
    return table(caption, headings, rows, sortable=False)


def _parts(*values: float) -> list[Cell]:
    return [Cell(signed(value), value) for value in values]


def _for(names: Sequence[str], e: Explanation) -> list[str]:
    return [f"for {names[e.predicted]}", f"for {names[e.rival]}"]


def _bar(value: float, longest: float) -> str:
    """Return a number beside a bar that goes right for a positive value and left otherwise."""
    width = 40 * abs(value) / longest
    x = 42 if value >= 0 else 42 - width
    kind = "for" if value >= 0 else "against"
    return (
        f'<svg class="mini" viewBox="0 0 84 12" aria-hidden="true"><rect class="{kind}" '
        f'x="{x:.1f}" y="1" width="{width:.1f}" height="10"/>'
        f'<line class="axis" x1="42" x2="42" y1="0" y2="12"/></svg> {signed(value)}'
    )


def _class_bars(subject: Subject, e: Explanation) -> str:
    """Return the scores and probabilities of the leading classes as bars."""
    found = subject.findings
    scores = found.scores[e.sample, e.classes]
    low, high = min(float(scores.min()), 0.0), max(float(scores.max()), 0.0)
    span = (high - low) or 1.0
    lines = []
    for number, c in enumerate(e.classes):
        y = 24 * number
        left, right = sorted((0.0, float(scores[number])))
        x, width = 70 + 90 * (left - low) / span, 90 * (right - left) / span
        kind = "for" if c == e.predicted else ("against" if c == e.true else "bar")
        name = subject.names[c]
        short = name if len(name) <= 10 else name[:9] + "…"
        lines.append(
            f'<text x="62" y="{y + 15}" text-anchor="end">{text(short)}</text>'
            f'<rect class="{kind}" x="{x:.1f}" y="{y + 4}" width="{max(width, 0.5):.1f}" '
            f'height="15"/><text x="166" y="{y + 15}">'
            f"{percent(float(found.probability[e.sample, c]))}</text>"
        )
    label = "Scores: " + ", ".join(
        f"{subject.names[c]} {found.scores[e.sample, c]:.3f} "
        f"({percent(float(found.probability[e.sample, c]))})"
        for c in e.classes
    )
    drawing = svg(220, 24 * len(e.classes) + 2, label, "".join(lines))
    caption = "<figcaption>scores and probabilities</figcaption>"
    return f'<figure class="class-bars">{caption}{drawing}</figure>'
