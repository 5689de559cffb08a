"""Priors with knowledge of the domain, on spectra: accuracy, and roughness of the atoms.

    python -m benchmarks.priors [--per-class 5 10 30] [--noise 0 0.02 0.05] [--splits 5]
                                [--chains 12] [--picture docs/images/smooth_atoms.png]

Rows are Botswana spectra of unit norm, of which a few per class are learned from and the others are
tested on. White noise is added to all of them; its norm is a share of a row's. All methods have the
same chains, views and splits. Roughness is the mean squared second difference over neighbouring
bands, for atoms of unit norm of the plain chains.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.problems import Split, rows_of
from dbdl import DBDLClassifier, ModelSettings, SmoothAtoms
from dbdl.experiments.protocol import random_split
from dbdl.experiments.spec import load_table

#: Numbers of the Hyperion bands, 10 nm wide each, that are left without those of water vapour.
BANDS = np.r_[10:56, 82:98, 102:120, 134:165, 187:221]
VIEWS = ["plain", "unit half-whitened + constant", "unit whitened + constant"]
SMOOTH, SMOOTH_IN_TURN = (SmoothAtoms(scale, coordinates=BANDS) for scale in (6, [3, 6, 12]))
METHODS = {
    "independent features": ModelSettings(),
    "smooth, 6 bands": ModelSettings(atom_prior=SMOOTH),
    "smooth, 3, 6 and 12 bands": ModelSettings(atom_prior=SMOOTH_IN_TURN),
    "noise per class": ModelSettings(noise_per_class=True),
}
#: Atoms in the picture.
N_SHOWN = 2
RED, BLUE = "#c0392b", "#1f4e79"


def problems(per_class: int, noise: float, n_splits: int) -> Iterator[Split]:
    """Random splits, class by class, with noise."""
    rows = rows_of(load_table("botswana"))
    if rows is None:
        return
    unit = rows.X / np.linalg.norm(rows.X, axis=1, keepdims=True)
    for seed in range(n_splits):
        rng = np.random.default_rng(seed)
        train, test = random_split(rows.y, per_class, rng)
        X = unit + noise / np.sqrt(unit.shape[1]) * rng.standard_normal(unit.shape)
        yield Split(X[train], rows.y[train], X[test], rows.y[test])


def roughness(atoms: NDArray[np.floating]) -> float:
    """Mean squared second difference over neighbouring bands of atoms scaled to unit norm."""
    atoms = atoms / np.linalg.norm(atoms, axis=1, keepdims=True)
    neighbours = np.diff(BANDS, n=2) == 0
    neighbours &= np.diff(BANDS)[1:] == 1
    return float((np.diff(atoms, n=2, axis=1)[:, neighbours] ** 2).mean())


def plain_atoms(model: DBDLClassifier) -> NDArray[np.floating]:
    """Atoms of all chains in the plain view."""
    return np.concatenate([chain.atoms for chain in model.chains_ if chain.view.name == "plain"])


def measure(split: Split, seed: int, settings: ModelSettings, n_chains: int) -> tuple[float, float]:
    """Accuracy on the test rows, and roughness of the atoms."""
    model = DBDLClassifier(n_chains=n_chains, views=VIEWS, model=settings, random_state=seed)
    model.fit(split.X_train, split.y_train)
    return model.score(split.X_test, split.y_test), roughness(plain_atoms(model))


def compare(per_class: int, noise: float, n_splits: int, n_chains: int) -> None:
    """Print the line of a table for each method."""
    splits = list(problems(per_class, noise, n_splits))
    first: NDArray[np.float64] | None = None
    for name, settings in METHODS.items():
        found = np.array([measure(s, seed, settings, n_chains) for seed, s in enumerate(splits)])
        accuracy, rough = 100 * found[:, 0], 1e6 * found[:, 1].mean()
        first = accuracy if first is None else first
        gain = accuracy - first
        error = gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else np.nan
        print(
            f"| {per_class} | {100 * noise:.0f} % | {name} | {accuracy.mean():.2f} | "
            f"{gain.mean():+.2f} ± {error:.2f} | {rough:.0f} |",
            flush=True,
        )


def draw(path: Path, per_class: int = 5, noise: float = 0.05) -> None:
    """Draw atoms with and without the prior, and how far they are from a row without noise."""
    import matplotlib.pyplot as plt

    split, clean = (next(problems(per_class, level, 1)) for level in (noise, 0.0))
    one = {"n_chains": 1, "views": "plain", "calibrate": False, "coder": "forward", "n_nonzero": 10}
    rough, smooth = (
        DBDLClassifier(**one, random_state=0, model=settings).fit(split.X_train, split.y_train)
        for settings in (ModelSettings(), ModelSettings(atom_prior=SMOOTH))
    )
    most_used = np.argsort(-smooth.selection_probability_.max(axis=0), kind="stable")[:N_SHOWN]
    figure, axes = plt.subplots(
        2, N_SHOWN, figsize=(9, 4.6), sharex=True, sharey="row", layout="constrained"
    )
    gaps = np.flatnonzero(np.diff(BANDS) > 1) + 0.5
    for (above, below), k in zip(axes.T, most_used, strict=True):
        atom = smooth.atoms_[k]
        row = clean.X_train[np.argmax(clean.X_train @ atom)]
        lines = {
            "training row without noise": (row, "0.65", 3.0),
            "atom, independent features": (rough.atoms_[np.argmax(rough.atoms_ @ atom)], RED, 0.9),
            "smooth atom": (atom, BLUE, 1.5),
        }
        for name, (values, colour, width) in lines.items():
            above.plot(values, color=colour, linewidth=width, label=name)
            below.plot(values - row, color=colour, linewidth=width)
        for ax in (above, below):
            ax.spines[["top", "right"]].set_visible(False)
            for gap in gaps:
                ax.axvline(gap, color="0.8", linewidth=0.7, linestyle=":", zorder=0)
        below.set_xlabel("band, in order (dotted: gaps)")
    axes[0, 0].legend(frameon=False, fontsize=8)
    axes[0, 0].set_ylabel("atom")
    axes[1, 0].set_ylabel("difference from the row")
    figure.suptitle(f"Atoms learned from {per_class} rows per class with {100 * noise:.0f} % noise")
    figure.savefig(path, dpi=90)


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--per-class", type=int, nargs="*", default=[5, 10, 30])
    parser.add_argument("--noise", type=float, nargs="*", default=[0.0, 0.02, 0.05])
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--chains", type=int, default=12)
    parser.add_argument("--picture", type=Path)
    arguments = parser.parse_args()
    if arguments.picture is not None:
        draw(arguments.picture)
        return
    print("| rows per class | noise | prior | accuracy | gain | roughness |")
    print("| --- | --- | --- | --- | --- | --- |")
    for per_class in arguments.per_class:
        for noise in arguments.noise:
            compare(per_class, noise, arguments.splits, arguments.chains)


if __name__ == "__main__":
    main()
