"""The effect of each detail that the paper leaves open, from its exact text to our defaults.

    python -m benchmarks.ablation [--problem yaleb] [--splits 5]

Each row changes one more detail than the row above it. The last row takes the learning away again:
the same views, coders and weights, with the training rows that a chain starts from as its atoms.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.problems import Split, splits
from dbdl import DBDLClassifier
from dbdl.backends import Backend
from dbdl.backends.crew import Crew
from dbdl.coding import (
    CodePrior,
    Coder,
    Forward,
    Orthogonal,
    PreparedAtoms,
    candidates,
    lengths_for,
)
from dbdl.learn.chain import ChainSettings
from dbdl.learn.choice import Candidates, publish_members
from dbdl.learn.ensemble import Ensemble
from dbdl.learn.journal import Journal
from dbdl.learn.members import (
    LabelledAtoms,
    LearnedMember,
    learn_members,
    recoded_label_atoms,
    score_rows,
)
from dbdl.learn.problem import FEW_ROWS, LabelSettings, Problem, Share, automatic_rounds
from dbdl.sampler.run import Trace
from dbdl.views import View, automatic_views, make_views

OUTPUT = Path("benchmarks/output")

LETTER = replace(
    ChainSettings(**DBDLClassifier.paper().model.get_params()),
    n_sweeps=35,
    n_atom_draws=1,
    start_selection="half",
    keep_copies=True,
)


@dataclass(frozen=True)
class Row:
    """One row of the table: what changes, and everything that is then in force."""

    text: str
    settings: ChainSettings
    labels: LabelSettings
    coders: list[Coder]
    n_chains: int | None = 1  # None: as many as the defaults have in their first round
    views: tuple[View, ...] = (View(),)
    weighted: bool = False
    in_rounds: bool = False  # views that earn a weight have further chains, and others none
    learned: bool = True


def rows(n_rows: int, n_features: int) -> list[Row]:
    """One more detail in each row."""
    table = [Row("the paper to the letter", LETTER, LabelSettings("gibbs"), [Orthogonal(50)])]

    def then(text: str, *, of_row: dict[str, Any] | None = None, **chain: Any) -> None:
        settings = replace(table[-1].settings, **chain)
        table.append(replace(table[-1], text=text, settings=settings, **(of_row or {})))

    lengths = lengths_for(n_features)
    then("posterior mean of the atoms, not one draw", n_atom_draws=0)
    then("selection probabilities drawn from the first counts", start_selection="counts")
    then("copies and unused atoms dropped first: `DBDLClassifier.paper()`", keep_copies=False)
    then("strength precision from used atoms only", strengths_counted="used")
    then("strengths integrated out of the usage draw", scan="collapsed")
    then("K of the Beta prior held at its start", beta_size="start")
    then("atoms that are hardly informed dropped too", least_energy=0.05)
    ridge = {"labels": LabelSettings("ridge")}
    then("label atoms by ridge on the training codes", of_row=ridge)
    then("ten non-zeros at the start, not fifty", n_start_nonzero=10)
    then("forward selection in the coder", of_row={"coders": [Forward(50)]})
    every = {"coders": candidates("auto", lengths)}
    then("coder and non-zeros chosen on a tenth of the rows, left out", of_row=every)
    then("five chains", of_row={"n_chains": 5})
    then("6 sweeps, not 35", n_sweeps=6)
    then("as many chains as the defaults have in their first round", of_row={"n_chains": None})
    views: Any = make_views(automatic_views(few_rows=n_rows <= FEW_ROWS))
    then("each chain with a view of its own", of_row={"views": views})
    then("weights on the rows left out", of_row={"weighted": True})
    then("further chains for views with a weight: the defaults", of_row={"in_rounds": True})
    then("the same with training rows as atoms: no learning", of_row={"learned": False})
    return table


def accuracy(split: Split, row: Row) -> tuple[float, float]:
    """Test accuracy, and atoms left per chain."""
    classes, y = np.unique(split.y_train, return_inverse=True)
    X_train, X_test = (np.asarray(X, dtype=np.float64) for X in (split.X_train, split.X_test))
    n_views = len(automatic_views(few_rows=len(y) <= FEW_ROWS))
    rounds = automatic_rounds(len(y), n_views)
    problem = Problem(
        X_train, y, len(classes), row.settings, row.labels, row.n_chains or 1,
        views=row.views, leaves_out=len(row.coders) > 1, rounds=rounds if row.in_rounds else None,
    )  # fmt: skip
    if row.n_chains is None:
        problem = replace(problem, n_chains=rounds.first * n_views)
    crew, chosen_from = Crew(n_threads=2), Candidates(row.coders, calibrate=False)

    def learn(shares: list[Share]) -> list[LearnedMember]:
        if row.learned:
            return learn_members(problem, shares, row.coders, crew, Journal())
        return crew.map(partial(unlearned_member, problem, row.coders), shares)

    learned = learn(problem.shares())
    ensemble = Ensemble.of(problem, learned, chosen_from)
    ensemble = ensemble.with_members(learn(ensemble.further_shares()), chosen_from)
    learned, choice = ensemble.members, ensemble.choice
    if not row.weighted:
        choice = replace(choice, weights=np.full(len(learned), 1 / len(learned)))
    members = publish_members(learned, chosen_from, choice)
    backend = crew.backend()
    scores = sum(m.weight * (m.encode(X_test, backend) @ m.label_atoms) for m in members)
    right = classes[scores.argmax(axis=1)] == split.y_test
    return float(right.mean()), float(np.mean([len(m.atoms) for m in members]))


def unlearned_member(
    problem: Problem, coders: list[Coder], share: Share, backend: Backend
) -> LearnedMember:
    """Return a member whose atoms are the rows that its chain would start from."""
    rows = problem.rows_of(share.fold.learn)
    view = share.view.fit(rows)
    mapped = rows._replace(X=rows.through(view))
    own = problem.of_member(mapped, problem.settings, share.label_weight)
    data, settings = backend.place(own.X, own.class_of_row), problem.settings_of(share)
    key, n_start = problem.key(share.number), settings.n_start(len(rows.class_of_row))
    atoms = own.X[np.unique(settings.draw_start(key, data, n_start))]
    atoms = np.ascontiguousarray(atoms[atoms.any(axis=1)])
    n_atoms, prepared = len(atoms), PreparedAtoms(atoms)
    label_atoms = recoded_label_atoms(own, prepared, coders, backend)
    published = LabelledAtoms(
        atoms,
        np.zeros((problem.n_classes, n_atoms)),
        label_atoms[0],
        Trace.from_records([]),
        n_start,
        CodePrior(np.zeros(n_atoms), np.ones(n_atoms), 1.0),
    )
    left_out = problem.X[share.fold.held_out]
    scores = score_rows(left_out, view, prepared, coders, label_atoms, backend)
    return LearnedMember(share, published, view, label_atoms, scores)


def main() -> None:
    """Parse the command line, print the table as it grows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problem", default="yaleb")
    parser.add_argument("--splits", type=int, default=5)
    arguments = parser.parse_args()
    all_splits = list(splits(arguments.problem, arguments.splits))
    print(f"{arguments.problem}, {arguments.splits} splits, test accuracy %")
    text = ["| detail | accuracy % | atoms |", "| --- | --- | --- |"]
    print("\n".join(text))
    for row in rows(*all_splits[0].X_train.shape):
        results = [accuracy(split, row) for split in all_splits]
        values = [100 * a for a, _ in results]
        spread = f" ± {np.std(values, ddof=1):.2f}" if len(values) > 1 else ""
        atoms = float(np.mean([n for _, n in results]))
        text.append(f"| {row.text} | {np.mean(values):.2f}{spread} | {atoms:.0f} |")
        print(text[-1], flush=True)
    OUTPUT.mkdir(parents=True, exist_ok=True)
    path = OUTPUT / f"ablation_{arguments.problem}.md"
    path.write_text("\n".join(text) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
