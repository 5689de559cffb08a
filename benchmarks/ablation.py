"""The effect of each detail that the paper leaves open, from its exact text to our defaults.

    python -m benchmarks.ablation [--problem yaleb] [--splits 5]

Each row changes one more detail than the row above it.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.problems import Split, splits
from dbdl import DBDLClassifier
from dbdl.backends.crew import Crew
from dbdl.coding import Coder, Forward, Orthogonal, candidates, lengths_for
from dbdl.learn.chain import ChainSettings
from dbdl.learn.journal import Journal
from dbdl.learn.members import learn_members, score_rows
from dbdl.learn.pilots import Candidates, choose
from dbdl.learn.problem import LabelSettings, Problem

OUTPUT = Path("benchmarks/output")

LETTER = replace(
    ChainSettings(**DBDLClassifier.paper().model.get_params()),
    n_atom_draws=1,
    start_selection="half",
    keep_copies=True,
)

#: (what changes, chain settings, label settings, coders to choose from, chains)
Row = tuple[str, ChainSettings, LabelSettings, list[Coder], int]


def rows(n_features: int) -> list[Row]:
    """One more detail in each row."""
    table: list[Row] = [
        ("the paper to the letter", LETTER, LabelSettings("gibbs"), [Orthogonal(50)], 1)
    ]

    def then(text: str, *, labels=None, coders=None, chains=1, **chain) -> None:
        _, settings, old_labels, old_coders, _ = table[-1]
        settings = replace(settings, **chain)
        table.append((text, settings, labels or old_labels, coders or old_coders, chains))

    lengths = lengths_for(n_features)
    then("posterior mean of the atoms, not one draw", n_atom_draws=0)
    then("selection probabilities drawn from the first counts", start_selection="counts")
    then("copies and unused atoms dropped first: `DBDLClassifier.paper()`", keep_copies=False)
    then("strength precision from used atoms only", strengths_counted="used")
    then("strengths integrated out of the usage draw", scan="collapsed")
    then("K of the Beta prior held at its start", beta_size="start")
    then("atoms that are hardly informed dropped too", least_energy=0.05)
    then("label atoms by ridge on the training codes", labels=LabelSettings("ridge"))
    then("ten non-zeros at the start, not fifty", n_start_nonzero=10)
    then("forward selection in the coder", coders=[Forward(50)])
    plain = [family(n) for family in (Forward, Orthogonal) for n in lengths]
    then("rule and number of non-zeros chosen on held-out rows", coders=plain)
    greedy = candidates(["forward", "orthogonal"], lengths)
    then("means along the greedy path among them", coders=greedy)
    then("the lasso's path among them", coders=candidates("auto", lengths))
    then("five chains: the defaults", chains=5)
    return table


def accuracy(split: Split, row: Row) -> tuple[float, float]:
    """Test accuracy, and atoms left per chain."""
    _, settings, labels, coders, n_chains = row
    classes, y = np.unique(split.y_train, return_inverse=True)
    problem = Problem(split.X_train, y, len(classes), settings, labels, n_chains)
    crew, journal = Crew(n_threads=2), Journal()
    choice = choose(problem, Candidates(coders, calibrate=False), crew, journal)
    members = learn_members(problem, choice, crew, journal)
    (scores,) = score_rows(split.X_test, members, [choice.coder], crew.backend())
    right = classes[scores.argmax(axis=1)] == split.y_test
    return float(right.mean()), float(np.mean([len(m.atoms) for m in members]))


def main() -> None:
    """Parse the command line, print the table as it grows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problem", default="yaleb")
    parser.add_argument("--splits", type=int, default=5)
    arguments = parser.parse_args()
    all_splits = list(splits(arguments.problem, arguments.splits))
    print(f"{arguments.problem}, {arguments.splits} splits, test accuracy %")
    print("| detail | accuracy % | atoms |\n| --- | --- | --- |")
    records = []
    for row in rows(all_splits[0].X_train.shape[1]):
        results = [accuracy(split, row) for split in all_splits]
        values = [100 * a for a, _ in results]
        spread = f" ± {np.std(values, ddof=1):.2f}" if len(values) > 1 else ""
        atoms = float(np.mean([n for _, n in results]))
        print(f"| {row[0]} | {np.mean(values):.2f}{spread} | {atoms:.0f} |", flush=True)
        records.append({"detail": row[0], "accuracy": values, "atoms": atoms})
    OUTPUT.mkdir(parents=True, exist_ok=True)
    (OUTPUT / f"ablation_{arguments.problem}.json").write_text(json.dumps(records, indent=1))


if __name__ == "__main__":
    main()
