"""Planted atoms: how many atoms a chain keeps, and how many of the true ones it finds.

    python -m benchmarks.planted [--rows 600] [--sweeps 60] [--seeds 2] [--noise 0.03]

Rows are sparse mixtures of 60 true atoms, 20 of each of three classes, with white noise, scaled to
unit norm. A chain starts from 0.5 N to 3 N of the N rows, drawn with replacement. The table has the
number of atoms that are left after all sweeps, and the number of true atoms that have an atom with
a cosine above 0.95, by the paper's rule and by others that might merge or drop atoms in earnest:

- the paper: atoms that no row uses are dropped;
- energy: atoms that explain less than the squared norm of one row, or of four, are dropped too;
- weakest first: after every sweep, of the atoms that explain less than four rows, the weakest
  twentieth is dropped;
- noise held: for the first half of the sweeps the noise precision is held at 1000, 300, 100 or 30,
  where the true one is about 3600, so that the chain cannot explain every row exactly, and it is
  drawn afterwards;
- merges: every five sweeps, each pair of atoms with a cosine above 0.8 is replaced by one atom if
  the joint density rises;
- prior: a Beta process that expects few atoms (usage_a = 1, usage_b = 100);
- whitened: the paper's rule in the view "unit whitened".

Nothing here is part of the package. Merges are not reversible moves: they climb.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbdl._arrays import unit_rows
from dbdl.backends import NumbaBackend
from dbdl.backends.base import Data
from dbdl.draws import make_key
from dbdl.learn.chain import ChainSettings, _start
from dbdl.model.conditionals import selection_posterior
from dbdl.model.joint import log_joint
from dbdl.model.priors import Priors
from dbdl.model.state import Codes, State
from dbdl.sampler.gibbs import Options
from dbdl.sampler.posterior import publish
from dbdl.sampler.run import run
from dbdl.views import LabelledRows, view_named

Floats = NDArray[np.float64]

N_CLASSES, N_TRUE, N_FEATURES, N_USED = 3, 60, 40, 3
RATIOS = (0.5, 1.0, 1.5, 2.0, 3.0)
FOUND = 0.95  # cosine
CHUNK = 5  # sweeps between merges
WEAK = 4.0  # rows that an atom should explain
SHARE = 0.05  # of the weaker atoms, that is dropped
CLOSE = 0.8  # cosine of atoms that may be merged
BACKEND = NumbaBackend(1)


@dataclass(frozen=True)
class Planted:
    """Rows of unit norm, their classes, and the true atoms (n_true, n_features)."""

    X: Floats
    class_of_row: NDArray[np.int64]
    atoms: Floats


def plant(n_rows: int, noise: float, seed: int) -> Planted:
    """Draw true atoms, codes over those of the row's class, and noise."""
    rng = np.random.default_rng(seed)
    atoms = unit_rows(rng.standard_normal((N_TRUE, N_FEATURES)))
    class_of_row = np.arange(n_rows) % N_CLASSES
    codes = np.zeros((n_rows, N_TRUE))
    share = N_TRUE // N_CLASSES
    for code, c in zip(codes, class_of_row, strict=True):
        used = c * share + rng.permutation(share)[:N_USED]
        code[used] = rng.choice([-1, 1], N_USED) * rng.uniform(0.5, 1.5, N_USED)
    X = codes @ atoms + noise * rng.standard_normal((n_rows, N_FEATURES))
    return Planted(unit_rows(X), class_of_row, atoms)


@dataclass(frozen=True)
class Way:
    """A rule: settings of the chain, the view, and what is done between chunks of sweeps."""

    name: str
    settings: dict[str, Any] = field(default_factory=dict)
    view: str = "plain"
    merges: bool = False
    held: float | None = None  # noise precision of the first half of the sweeps
    weakest_first: bool = False


PAPER = {"least_energy": 0.0}
WAYS = (
    Way("the paper", PAPER),
    Way("energy of 1 row", {"least_energy": 1.0}),
    Way("energy of 4 rows", {"least_energy": 4.0}),
    Way("weakest first", PAPER, weakest_first=True),
    Way("merges", PAPER, merges=True),
    Way("prior", {**PAPER, "usage_a": 1.0, "usage_b": 100.0, "beta_size": "current"}),
    Way("whitened", PAPER, view="unit whitened"),
    *(Way(f"noise held at {value}", PAPER, held=value) for value in (1000, 300, 100, 30)),
    Way("noise held at 100, weakest first", PAPER, held=100, weakest_first=True),
    Way("noise held at 100, merges", PAPER, held=100, merges=True),
)


def learn(planted: Planted, way: Way, ratio: float, n_sweeps: int, seed: int) -> Floats:
    """Run a chain and return its published atoms in the space of the rows."""
    view = view_named(way.view).fit(LabelledRows(planted.X, planted.class_of_row, N_CLASSES))
    key, data = make_key(seed), BACKEND.place(view.apply(planted.X), planted.class_of_row)
    settings = ChainSettings(initial_ratio=ratio, **way.settings)
    if way.held is not None:
        settings.noise_precision = float(way.held)
    rows = settings.draw_start(key, data, settings.n_start(data.n_samples))
    state, priors = _start(key, data, rows, settings, BACKEND)
    for sweep in range(n_sweeps):
        fixed = way.held is not None and sweep < n_sweeps // 2
        options = replace(settings.options, sample_noise=not fixed)
        chain = run(
            key, state, data, priors, options, BACKEND, 1,
            least_energy=settings.least_energy * data.square / data.n_samples,
            follow_size=settings.beta_size == "current",
        )  # fmt: skip
        state, priors = chain.state, chain.priors
        if way.weakest_first:
            state, priors = drop_weakest(state, data, priors)
        if way.merges and sweep % CHUNK == CHUNK - 1:
            state, priors = merge_atoms(state, data, priors, options)
    atoms = publish(key, state, data, priors, BACKEND).atoms
    return unit_rows(view.restore_atoms(atoms).astype(np.float64))


def drop_weakest(state: State, data: Data, priors: Priors) -> tuple[State, Priors]:
    """Drop a share of the atoms that explain too little, the weakest first."""
    parameters = state.parameters
    energy = BACKEND.usage(data, state.codes, parameters).energy
    energy = energy * BACKEND.norm_square(parameters.atoms) / (data.square / data.n_samples)
    weak = np.flatnonzero(energy < WEAK)
    n_dropped = int(np.ceil(SHARE * len(weak)))
    gone = weak[np.argsort(energy[weak], kind="stable")[:n_dropped]]
    return without(state, priors, gone)


def without(state: State, priors: Priors, gone: Any) -> tuple[State, Priors]:
    """State without some atoms."""
    n_atoms = state.parameters.n_atoms
    kept = np.setdiff1d(np.arange(n_atoms), gone)
    codes = BACKEND.keep(state.codes, kept, n_atoms)
    return State(state.parameters.keep(kept), codes, state.sweep), priors.keep(kept)


# --------------------------------------------------------------------------------------- merges


def merge_atoms(state: State, data: Data, priors: Priors, options: Options) -> tuple[State, Priors]:
    """Merge close pairs of atoms, the closest first, each if the joint density rises."""
    atoms = unit_rows(state.parameters.atoms)
    cosine = np.triu(np.abs(atoms @ atoms.T), 1)
    pairs = np.argwhere(cosine > CLOSE)
    pairs = pairs[np.argsort(-cosine[tuple(pairs.T)], kind="stable")]
    codes = state.codes.to_dense(len(atoms))
    now, gone = density(state, codes, data, priors, options), set[int]()
    for k, other in pairs.tolist():
        if {k, other} & gone:
            continue
        proposed, new = merged_codes(state.parameters.atoms, codes, data.X, k, other)
        atoms_then = state.parameters.atoms.copy()
        atoms_then[k], atoms_then[other] = new, 0.0
        then = replace(state, parameters=replace(state.parameters, atoms=atoms_then))
        value = density(then, proposed, data, priors, options)
        if value > now:
            state, codes, now = then, proposed, value
            gone.add(other)
    return without(replace(state, codes=Codes.from_dense(codes)), priors, sorted(gone))


def merged_codes(atoms: Floats, codes: Floats, X: Floats, k: int, other: int) -> Any:
    """Codes and atom of the best single atom for what both contribute and leave."""
    rows = np.flatnonzero((codes[:, [k, other]] != 0).any(axis=1))
    part = codes[rows]
    rest = X[rows] - part @ atoms + part[:, [k, other]] @ atoms[[k, other]]
    direction = np.linalg.svd(rest, full_matrices=False)[2][0] if len(rows) else atoms[k]
    norm = np.linalg.norm(atoms[k])
    proposed = codes.copy()
    proposed[rows, k], proposed[rows, other] = rest @ direction / norm, 0.0
    return proposed, norm * direction


def density(state: State, codes: Floats, data: Data, priors: Priors, options: Options) -> float:
    """Log joint density, with the selection probabilities at their posterior means."""
    sums = BACKEND.usage(data, Codes.from_dense(codes), state.parameters)
    a, b = selection_posterior(sums.count, data.n_rows, priors)
    parameters = replace(state.parameters, selection_logit=np.log(a) - np.log(b))
    return log_joint(parameters, sums, data.n_rows, priors, noise_per_class=options.noise_per_class)


# ---------------------------------------------------------------------------------------- table


def n_found(true: Floats, atoms: Floats) -> int:
    """True atoms with an atom close by."""
    return int((np.abs(true @ atoms.T).max(axis=1) > FOUND).sum())


def main() -> None:
    """Parse the command line and print the table as it grows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--rows", type=int, default=600)
    parser.add_argument("--sweeps", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--noise", type=float, default=0.03, help="standard deviation per feature")
    arguments = parser.parse_args()
    names = [f"{ratio:g} N" for ratio in RATIOS]
    print(f"{arguments.rows} rows, atoms left / true atoms found of {N_TRUE}")
    print(f"| rule | {' | '.join(names)} |\n| {' | '.join(['---'] * (1 + len(names)))} |")
    problems = [plant(arguments.rows, arguments.noise, s) for s in range(arguments.seeds)]
    for way in WAYS:
        cells = []
        for ratio in RATIOS:
            found = [learn(p, way, ratio, arguments.sweeps, s) for s, p in enumerate(problems)]
            left = np.mean([len(atoms) for atoms in found])
            true = np.mean([n_found(p.atoms, a) for p, a in zip(problems, found, strict=True)])
            cells.append(f"{left:.0f} / {true:.1f}")
        print(f"| {way.name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
