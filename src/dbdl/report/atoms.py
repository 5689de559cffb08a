"""The sections with atoms: the gallery, the selection probabilities, and explained decisions."""

from __future__ import annotations

import base64
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbdl._arrays import unit_rows
from dbdl.estimators.explanation import Explanation
from dbdl.learn.members import Member
from dbdl.plotting.arrangement import order_by_owner
from dbdl.plotting.explanation import MOST_BARS
from dbdl.plotting.pictures import HEAT, SIGNED, Pictures
from dbdl.report.explain import choose_samples, explain, feature_bars
from dbdl.report.findings import Findings
from dbdl.report.inline import data_uri, heat_pixels, lay_out
from dbdl.report.rendering import signed

#: The largest number of atoms in the gallery: with more, the page is slow to open.
MOST_ATOMS = 1200
#: Features that are named for an atom that is drawn as a curve.
N_NAMED_FEATURES = 3


def gallery(
    found: Findings, draw: Callable[[Any], Pictures], feature_names: Sequence[str] | None
) -> dict[str, Any]:
    """Return the atoms of the first chain.

    Features are named where ``feature_names`` is given. Keys of ``data``, for the page's script:
    ``c`` class that uses the atom most, ``p`` its probability, ``u`` number of test rows that use
    the atom, ``w`` the classes that it speaks for and against, ``at`` its place on the sheet,
    ``f`` its largest features.
    """
    chain = found.model.chains_[0]
    probability, n_atoms = chain.selection_probability, len(chain.atoms)
    likely = np.argsort(-probability.max(axis=0), kind="stable")[:MOST_ATOMS]
    order = order_by_owner(probability)
    shown = order[np.isin(order, likely)].tolist()
    atoms = atoms_as_rows(chain, np.arange(n_atoms), found.model.n_features_in_)
    sheet = lay_out(draw(atoms[shown]))
    position = {k: sheet.position(j) for j, k in enumerate(shown)}
    n_uses = np.bincount(found.codes[:, :n_atoms].indices, minlength=n_atoms)
    owner = probability.argmax(axis=0)
    data = []
    for k, label_atom in enumerate(chain.label_atoms):
        ranking = np.argsort(-label_atom, kind="stable")
        atom: dict[str, Any] = {
            "c": int(owner[k]),
            "p": round(float(probability[owner[k], k]), 4),
            "u": int(n_uses[k]),
            "w": [[int(c), round(float(label_atom[c]), 4)] for c in ranking[[0, -1]]],
            "at": position.get(k),
        }
        if feature_names is not None:
            atom["f"] = largest_features(atoms[k], feature_names)
        data.append(atom)
    n_per_class = np.bincount(owner, minlength=len(found.names)).tolist()
    return {
        "sheet": sheet,
        "data": data,
        "shown": shown,
        "n_per_class": n_per_class,
        "is_signed": sheet.palette is SIGNED,
        "can_be_drawn": bool(atoms.any()),
    }


def atoms_as_rows(chain: Member, numbers: Any, n_features: int) -> NDArray[np.floating[Any]]:
    """Return atoms in the space of the rows (n_atoms, n_features), of unit norm.

    They are 0 if a view by a user's transformer has no way back.
    """
    atoms = chain.atoms[numbers]
    try:
        return unit_rows(chain.view.restore_atoms(atoms))
    except ValueError:
        return np.zeros((len(atoms), n_features), atoms.dtype)


def largest_features(atom: Any, names: Sequence[str]) -> list[str]:
    """Name the features in which an atom is largest, with their values."""
    largest = np.argsort(-np.abs(atom), kind="stable")[:N_NAMED_FEATURES]
    return [
        f"{names[j] if names else f'feature {j}'} ({signed(float(atom[j]), 2)})" for j in largest
    ]


def decisions(
    found: Findings, draw: Callable[..., Pictures], feature_names: Sequence[str] | None
) -> dict[str, Any]:
    """Return explained decisions; ``atoms`` are by the atom's number in ``atoms_``.

    The sheet has the pictures of the rows, then those of the atoms. For each atom: its chain's
    number, from 1, and view, and its place on the sheet. Features have bars where
    ``feature_names`` is given, and ``heat`` has pictures of the shares where it is not, or where
    there are too many bars to draw.
    """
    model = found.model
    chosen = choose_samples(found)
    explained = [explain(found, model.selection_probability_, *sample) for sample in chosen]
    shown = sorted({part.atom for e in explained for part in e.atoms} - {-1})
    rows = unit_rows(found.rows[[e.sample for e in explained]].astype(np.float64))
    ends = np.cumsum([len(chain.atoms) for chain in model.chains_])
    pictures, atoms = [rows], dict[int, tuple[int, str]]()
    for j, chain in enumerate(model.chains_):
        own = [k for k in shown if ends[j] - len(chain.atoms) <= k < ends[j]]
        numbers = np.array(own, dtype=np.int64) - (ends[j] - len(chain.atoms))
        atoms |= dict.fromkeys(own, (j + 1, chain.view.name))
        pictures.append(atoms_as_rows(chain, numbers, found.model.n_features_in_))
    sheet = lay_out(draw(np.vstack(pictures)))
    at = {k: sheet.position(len(rows) + j) for j, k in enumerate(shown)}
    whys = [_why(found, e.sample, e.rival, feature_names) for e in explained]
    heat = None
    if whys and (feature_names is None or found.model.n_features_in_ > MOST_BARS):
        heat = lay_out(draw(np.array([why.shares for why in whys]), signed=True))
    return {
        "sheet": sheet,
        "explained": explained,
        "atoms": atoms,
        "at": at,
        "whys": whys,
        "bars": None if feature_names is None else [feature_bars(why) for why in whys],
        "heat": heat,
    }


def _why(
    found: Findings, sample: int, rival: int, feature_names: Sequence[str] | None
) -> Explanation:
    """Explain a row against a class, feature by feature, with the names that features have."""
    model = found.model
    # the rows are as the page got them, maybe without the names that the model knows
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        (why,) = model.explain(
            np.asarray(found.rows)[sample : sample + 1], against=model.classes_.tolist()[rival]
        )
    names = tuple(feature_names or ()) or why.feature_names
    return replace(why, feature_names=names)


def selection(found: Findings) -> dict[str, Any]:
    """Return the selection probabilities of the first chain, and the best atoms of each class.

    ``data``, for the page's script, has the probabilities in 16 bits each, in the order of the
    heat map.
    """
    chain = found.model.chains_[0]
    probability = chain.selection_probability
    order, largest = order_by_owner(probability), float(probability.max())
    n_users = (probability > probability.max(axis=0) / 2).sum(axis=0)
    packed = np.round(65535 * np.clip(probability[:, order], 0, 1)).astype("<u2")
    best = np.argsort(-probability, axis=1, kind="stable")[:, :5]
    return {
        "uri": data_uri(heat_pixels(probability[:, order], largest), HEAT),
        "largest": largest,
        "n_atoms": len(order),
        "n_of_one_class": int((n_users == 1).sum()),
        "expected": probability.sum(axis=1).tolist(),
        "highest": probability.max(axis=1).tolist(),
        "n_draws": 0 if chain.draws is None else chain.draws.n_draws,
        "best": [
            ", ".join(f"{k}: {probability[c, k]:.2f}{_interval(chain, c, k)}" for k in atoms)
            for c, atoms in enumerate(best.tolist())
        ],
        "data": {"order": order.tolist(), "values": base64.b64encode(packed.tobytes()).decode()},
    }


def _interval(chain: Member, c: int, k: int) -> str:
    """Return the 90 % interval of a selection probability in words, if the chain kept draws."""
    if chain.draws is None:
        return ""
    low, high = np.quantile(chain.draws.selection_probability[:, c, k], (0.05, 0.95))
    return f" ({low:.2f} to {high:.2f})"
