"""How well the chains mix: diagnostics at the defaults, changes of the sweep, and the log joint.

    python -m benchmarks.mixing defaults digits wine     R-hat with the default views
    python -m benchmarks.mixing changes [NAME]           effective samples per 100 sweeps of codes
    python -m benchmarks.mixing joint [NAME]             the terms of the log joint, sweep by sweep
    python -m benchmarks.mixing relaxation [NAME]        how fast the noise precision settles

NAME is a table of `dbdl reproduce` (botswana by default), or "tiny". The figures in
docs/convergence.md and docs/sampling.md come from here. Nothing is timed: effective samples are
counted per sweep.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from benchmarks.problems import splits
from dbdl import DBDLClassifier
from dbdl.backends import make_backend
from dbdl.draws import make_key
from dbdl.learn.chain import ChainSettings, learn_chain
from dbdl.model.joint import log_normal, log_selection
from dbdl.sampler.diagnostics import bulk_effective_size, kept_values, r_hat
from dbdl.sampler.run import ChainJournal, SweepRecord, Trace
from dbdl.views import LabelledRows, make_views

QUANTITIES = ("noise_precision", "strength_precision", "mean_nonzero", "residual_square")
N_CHAINS = 5


def rows_of(name: str, view: str) -> tuple[np.ndarray, np.ndarray]:
    """Training rows through a view and their classes; "tiny" has 60 rows in three classes."""
    if name == "tiny":
        rng, y = np.random.default_rng(0), np.repeat(np.arange(3), 20)
        X = rng.standard_normal((3, 8))[y] + 0.5 * rng.standard_normal((60, 8))
    else:
        split = next(splits(name, 1))
        X, y = split.X_train, np.unique(split.y_train, return_inverse=True)[1]
    [recipe] = make_views(view)
    return recipe.fit(LabelledRows(X, y, y.max() + 1)).apply(X), y


# ------------------------------------------------------------------------------- changes of a sweep


Temper = Callable[[int], float]


class Changed:
    """A backend that draws the atoms in every ``each``-th sweep, at a tempered noise precision."""

    def __init__(self, backend: Any, each: int, temper: Temper) -> None:
        self._backend, self._each, self._temper = backend, each, temper
        self._number = 1  # of the sweep

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def gather(self, data: Any, codes: Any, n_atoms: int, class_weight: np.ndarray) -> Any:
        weight = self._temper(self._number) * class_weight
        return self._backend.gather(data, codes, n_atoms, weight)

    def draw_atoms(self, key: Any, number: int, posterior: Any, atoms: Any, births: Any) -> Any:
        if number % self._each:
            return atoms
        return self._backend.draw_atoms(key, number, posterior, atoms, births)

    def sweep(self, key: Any, number: int, data: Any, codes: Any, now: Any, scan: Any) -> Any:
        self._number = number + 1
        now = replace(now, noise_precision=self._temper(number) * now.noise_precision)
        return self._backend.sweep(key, number, data, codes, now, scan)


def as_it_is(number: int) -> float:
    """Return the factor of the noise precision without tempering."""
    return 1.0


def tempered(n_sweeps: int, lowest: float) -> Temper:
    """Factors of the noise precision that grow from ``lowest`` to 1 over the first sweeps."""
    return lambda number: lowest ** max(1 - number / n_sweeps, 0)


def traces_of(
    X: np.ndarray, y: np.ndarray, n_sweeps: int, each: int = 1, temper: Temper = as_it_is
) -> list[Trace]:
    """Run five chains with so many sweeps of codes."""
    settings, learned = ChainSettings(n_sweeps=n_sweeps), []
    for seed in range(N_CHAINS):
        backend: Any = Changed(make_backend("cpu", 1), each, temper)
        learned.append(learn_chain(make_key(seed, 1), X, y, settings, backend))
    return [one.chain.trace for one in learned]


CHANGES: dict[str, dict[str, Any]] = {
    "as it is": {},
    "atoms in every 2nd sweep": {"each": 2},
    "atoms in every 4th sweep": {"each": 4},
    "noise tempered from 1/10 over 10 sweeps": {"temper": tempered(10, 0.1)},
    "noise tempered from 1/100 over 10 sweeps": {"temper": tempered(10, 0.01)},
}


def changes(name: str, view: str, n_sweeps: int) -> None:
    """Print effective samples per 100 sweeps of codes, and R-hat, of five chains of one view.

    The first number judges each chain alone, the second all chains together.
    """
    X, y = rows_of(name, view)
    print(f"\n{name}: {len(X)} rows, {N_CHAINS} {view} chains, {n_sweeps} sweeps of codes")
    print("| change | " + " | ".join(QUANTITIES) + " | atoms | log joint at the end |")
    print("| --- |" + " --- |" * (len(QUANTITIES) + 2))
    for title, change in CHANGES.items():
        traces = traces_of(X, y, n_sweeps, **change)
        cells = []
        for quantity in QUANTITIES:
            values = kept_values(traces, quantity)
            alone = np.mean([bulk_effective_size(own[np.newaxis]) for own in values])
            alone *= 100 / values.shape[1]
            together = 100 * bulk_effective_size(values) / values.size
            cells.append(f"{alone:.1f}, {together:.1f} ({r_hat(values):.2f})")
        size = np.mean([trace.n_atoms[-1] for trace in traces])
        joint = np.mean([trace.log_joint[-n_sweeps // 4 :].mean() for trace in traces])
        print(f"| {title} | {' | '.join(cells)} | {size:.0f} | {joint:.0f} |", flush=True)


# ------------------------------------------------------------------------------------ the log joint


class Terms(ChainJournal):
    """Prints the terms of the log joint after some sweeps."""

    def __init__(self, data: Any, n_sweeps: int) -> None:
        self._data, self._shown = data, (1, 2, 3, 5, 10, 20, n_sweeps)

    def tell(self, record: SweepRecord, now: Any = None) -> bool:
        """Print one line."""
        state, priors, data = now().state, now().priors, self._data
        if state.sweep not in self._shown:
            return False
        own, n_rows = state.parameters, data.n_rows
        sums = make_backend("cpu", 1).usage(data, state.codes, own)
        n_values = n_rows * data.n_features
        terms = (
            log_normal(n_values, sums.residual_square, own.noise_precision).sum(),
            log_normal(sums.n_strengths, sums.strength_square, own.strength_precision).sum(),
            log_selection(own.selection_logit, sums.count, n_rows, priors),
            priors.atoms.log_density(own.atoms),
        )
        cells = " | ".join(f"{term / 1000:.2f}" for term in (*terms, record.log_joint))
        ends = f"{record.noise_precision:.3g} | {record.mean_nonzero:.2f}"
        print(f"| {state.sweep} | {cells} | {ends} | {record.residual_square:.2g} |", flush=True)
        return False


def joint(name: str, view: str, n_sweeps: int) -> None:
    """Print the large terms of the log joint of one chain, sweep by sweep."""
    X, y = rows_of(name, view)
    backend, settings = make_backend("cpu", 1), ChainSettings(n_sweeps=n_sweeps)
    print(f"\n{name}, {view}: terms of the log joint in thousands of nats")
    print("| sweep | data | strengths | usage | atoms | all | noise precision | used | residual |")
    print("|" + " --- |" * 9)
    journal = Terms(backend.place(X, y), n_sweeps)
    learn_chain(make_key(0, 1), X, y, settings, backend, journal)


def relaxation(name: str, view: str, n_sweeps: int) -> None:
    """Print how fast the noise precision settles, beside the share of values that are fitted.

    Drawn atoms and codes leave residuals whose squares sum to about RSS + p / precision, with p the
    number of entries of the atoms and of used codes. The next precision is about n over that, with
    n the number of values. Its inverse therefore settles at the rate p / n.
    """
    X, y = rows_of(name, view)
    print(f"\n{name}, {view}: {len(X)} rows, rates over sweeps 2 to 6")
    print("| initial atoms | atoms | p / n | measured rate | noise precision at the end |")
    print("| --- | --- | --- | --- | --- |")
    for share in (0.1, 0.25, 0.5, None):
        size = None if share is None else round(share * len(X))
        settings, backend = (
            ChainSettings(n_sweeps=n_sweeps, n_initial_atoms=size),
            make_backend("cpu", 1),
        )
        learned = learn_chain(make_key(0, 1), X, y, settings, backend)
        trace = learned.chain.trace
        inverse = 1 / trace.noise_precision
        gap = np.abs(inverse - inverse[-n_sweeps // 2 :].mean())
        rate = (gap[5] / gap[1]) ** (1 / 4)
        fitted = trace.n_atoms[1] / len(X) + trace.mean_nonzero[1] / X.shape[1]
        print(
            f"| {size or '1.5 per row'} | {trace.n_atoms[1]} | {fitted:.2f} | {rate:.2f} | "
            f"{trace.noise_precision[-1]:.3g} |",
            flush=True,
        )


# --------------------------------------------------------------------------------------- defaults


#: Quantities of the table, with their headings.
SHOWN = {
    "noise_precision": "noise precision",
    "mean_nonzero": "atoms used per row",
    "strength_precision": "strength precision",
    "log_joint": "log joint",
}


def defaults(names: list[str], n_sweeps: int) -> None:
    """Print R-hat of a model with the default views, and of five plain chains, on each data set.

    R-hat and effective sample sizes are medians over views.
    """
    hats = " | ".join(f"R-hat of {title}" for title in SHOWN.values())
    print(f"| data, views | chains, views | {hats} | effective size of noise precision |")
    print("| --- " * (3 + len(SHOWN)) + "|")
    plain = {"views": "plain", "n_chains": N_CHAINS}
    for name, (title, given) in product(names, (("defaults", {}), ("plain", plain))):
        split = next(splits(name, 1))
        model = DBDLClassifier(n_sweeps=n_sweeps, random_state=0, n_jobs=1, **given)
        lines = model.fit(split.X_train, split.y_train).diagnostics_.lines
        medians = [
            np.nanmedian([line.r_hat for line in lines if line.quantity == quantity])
            for quantity in SHOWN
        ]
        noise = [line for line in lines if line.quantity == "noise_precision"]
        bulk = np.nanmedian([line.bulk for line in noise])
        n_kept = np.median([line.n_chains * line.n_sweeps for line in noise])
        print(
            f"| {name}, {title} | {len(model.chains_)}, {len(noise)} | "
            + " | ".join(f"{value:.2f}" for value in medians)
            + f" | {bulk:.0f} of {n_kept:.0f} |",
            flush=True,
        )


def main() -> None:
    """Run one of the measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("defaults", "changes", "joint", "relaxation"))
    parser.add_argument("names", nargs="*", default=["botswana"])
    parser.add_argument("--view", default="plain")
    parser.add_argument("--sweeps", type=int, default=100)
    options = parser.parse_args()
    if options.what == "defaults":
        defaults(options.names, options.sweeps)
        return
    for name in options.names:
        measure = {"changes": changes, "joint": joint, "relaxation": relaxation}[options.what]
        measure(name, options.view, options.sweeps)


if __name__ == "__main__":
    main()
