"""Section: the atoms as a gallery that can be sorted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dbdl.plotting.arrangement import order_by_owner, owner_of_atoms
from dbdl.plotting.pictures import Sheet, data_uri, lay_out
from dbdl.report.markup import sheet_position, sheet_style, signed, text
from dbdl.report.subject import Subject

#: Atoms in the gallery at most: more make a page that no one reads and that is slow to open.
MOST_ATOMS = 1200
#: Features that are named for an atom.
N_NAMED_FEATURES = 3


def atoms_section(subject: Subject) -> tuple[str, str, list[dict[str, Any]]]:
    """Return the gallery, its style, and what the script tells of each atom."""
    chain = subject.model.chains_[0]
    probability = chain.selection_probability
    owner = owner_of_atoms(probability)
    shown = order_by_owner(probability)
    n_all = len(shown)
    if n_all > MOST_ATOMS:
        likely = np.argsort(-probability.max(axis=0), kind="stable")[:MOST_ATOMS]
        shown = shown[np.isin(shown, likely)]
    # in the order of their numbers, so that an atom's place on the sheet follows from it
    by_number = np.sort(shown)
    sheet = lay_out(subject.draw(chain.atoms[by_number]))
    place = {int(k): j for j, k in enumerate(by_number)}
    style = sheet_style("sheet-atoms", data_uri(sheet.numbers, sheet.palette), sheet)
    own_codes = subject.findings.codes[:, : len(chain.atoms)]
    n_uses = np.bincount(own_codes.indices, minlength=len(chain.atoms))
    data = [
        _atom_data(subject, chain, k, int(owner[k]), int(n_uses[k]), sheet, place)
        for k in range(n_all)
    ]
    items = "".join(_atom_button(subject, data[k], int(k)) for k in shown)
    options = "".join(
        f'<option value="{c}">{text(name)} ({int((owner == c).sum())})</option>'
        for c, name in enumerate(subject.names)
    )
    what = "pictures" if subject.image_shape else "curves over the features"
    colours = "blue is positive, orange negative" if subject.atoms_are_signed else "white is large"
    note = f" ({colours})" if subject.image_shape else ""
    left_out = (
        f" The {MOST_ATOMS} most probable of {n_all} are shown." if n_all > MOST_ATOMS else ""
    )
    kind = "images" if subject.image_shape else "curves"
    content = (
        f"<p>The {n_all} atoms{subject.of_chain} as {what}{note}, each under the name of the "
        f"class that uses it most and how likely a row of that class does.{left_out} "
        '<span class="screen-only">Choose one to see more.</span></p>'
        '<div class="controls" data-needs-script><label>Order <select id="atom-order">'
        '<option value="class">by class</option>'
        '<option value="probability">most probable first</option>'
        '<option value="uses">most used by test rows first</option>'
        '<option value="number">by number</option></select></label>'
        f'<label>Class <select id="atom-class"><option value="">all classes</option>{options}'
        '</select></label><output id="atom-count" class="soft" aria-live="polite"></output></div>'
        f'<div class="atoms-layout"><div class="gallery {kind}" role="group" '
        f'aria-label="Atoms; arrow keys move between them">{items}</div>'
        '<aside class="atom-detail" id="atom-detail" aria-live="polite" data-needs-script>'
        '<p class="soft">No atom chosen.</p></aside></div>'
    )
    return content, style + _picture_style(subject.image_shape), data


def _picture_style(image_shape: tuple[int, int] | None) -> str:
    """Return the shape of pictures; curves are wide, and smooth when they are made smaller."""
    if image_shape is not None:
        height, width = image_shape
        return f".picture{{aspect-ratio:{width}/{height}}}"
    return (
        ".picture{aspect-ratio:3;image-rendering:auto}.picture.small{width:5rem}"
        ".sample-picture,.atom-detail .picture{width:100%;max-width:none}"
    )


def _atom_data(
    subject: Subject, chain: Any, k: int, owner: int, n_uses: int, sheet: Sheet,
    place: Mapping[int, int],
) -> dict[str, Any]:  # fmt: skip
    label_atom = chain.label_atoms[k]
    ranking = np.argsort(-label_atom, kind="stable")
    data: dict[str, Any] = {
        "c": owner,
        "p": round(float(chain.selection_probability[owner, k]), 4),
        "u": n_uses,
        "w": [[int(c), round(float(label_atom[c]), 4)] for c in (ranking[0], ranking[-1])],
    }
    if k in place:
        data["at"] = sheet_position(sheet, place[k])
    if subject.image_shape is None:
        largest = np.argsort(-np.abs(chain.atoms[k]), kind="stable")[:N_NAMED_FEATURES]
        data["f"] = [
            f"{subject.feature_names[j] if subject.feature_names else f'feature {j}'} "
            f"({signed(float(chain.atoms[k, j]), 2)})"
            for j in largest
        ]
    return data


def _atom_button(subject: Subject, atom: Mapping[str, Any], k: int) -> str:
    name = text(subject.names[atom["c"]])
    label = f"atom {k}, class {name}, probability {atom['p']:.2f}"
    return (
        f'<button type="button" class="atom" data-atom="{k}" aria-label="{label}">'
        f'<span class="picture sheet-atoms" style="background-position:{atom["at"]}"></span>'
        f'<span class="atom-name">{name} <span class="soft">{atom["p"]:.2f}</span></span></button>'
    )
