"""Compare methods on the same splits: ``compare`` and ``reproduce``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from dbdl.cli import errors, inputs, outputs, terminal
from dbdl.cli.errors import UserError, kept_in, user_mistakes
from dbdl.cli.options import AsJson, Data, Label, Only, Page, Plot, Quick, Results, Seed, Workers
from dbdl.cli.outputs import PAGES, PICTURES, RESULTS
from dbdl.cli.pages import write_report, write_results_page
from dbdl.cli.terminal import say
from dbdl.datasets import Dataset, load
from dbdl.experiments.protocol import Protocol
from dbdl.experiments.rows import labelled_rows
from dbdl.experiments.run import Record, cells, fit_cell, run_table
from dbdl.experiments.spec import (
    Entry,
    Table,
    load_table,
    nothing_chosen,
    table_names,
    with_search_note,
)
from dbdl.experiments.summary import OURS, UNLEARNED, summarise
from dbdl.experiments.warm import in_words


def compare(
    data: Data,
    label: Label = None,
    only: Only = None,
    folds: Annotated[int, typer.Option(min=2, help="Folds of the cross-validation.")] = 5,
    quick: Quick = False,
    workers: Workers = 1,
    seed: Seed = 0,
    results: Results = None,
    plot: Plot = None,
    page: Page = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="A folder for all outputs: accuracy.png, report.html, for DBDL model.html, and "
            "cells.jsonl to resume from.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare methods on your data: the same folds, settings chosen inside each.

    Rows are taken as they are. Each dictionary method scales them to unit norm itself. The methods
    of scikit-learn choose between rows of unit norm and standardised features, which --quick gives
    them; boosting takes rows as they are.
    """
    model_page = None
    if output is not None:
        outputs.make_folder(output)
        plot, page = plot or output / "accuracy.png", page or output / "report.html"
        results, model_page = results or output / "cells.jsonl", output / "model.html"
    outputs.check_results(results)
    outputs.check_outputs([data], {PICTURES: [plot], PAGES: [page, model_page], RESULTS: [results]})
    rows = inputs.read_data(data, label=label)
    _check_folds(rows, folds)
    table = Table(
        name=f"compare-{seed}",
        title=f"{rows.name}: {rows.n_samples} rows, {rows.n_features} features, "
        f"{len(rows.classes)} classes",
        dataset=data,
        columns={f"{folds} folds": Protocol(folds=folds)},
        entries=tuple(Entry(name) for name in inputs.known_methods(only)),
    )
    records = _run(table, rows, results, workers, as_json, quick=quick)
    _show(with_search_note(table, quick), records, plot, page, as_json)
    if model_page is not None and OURS in (entry.method for entry in table.entries):
        if quick:
            table = nothing_chosen(table)
        _write_model_page(table, rows, records, model_page)
        say("open the pages in a browser")


def reproduce(
    table: Annotated[str, typer.Argument(help=f"One of: {', '.join(table_names())}.")],
    only: Only = None,
    splits: Annotated[int | None, typer.Option(min=1, help="Splits to run, at most.")] = None,
    quick: Quick = False,
    workers: Workers = 1,
    results: Results = None,
    plot: Plot = None,
    page: Page = None,
    as_json: AsJson = False,
) -> None:
    """Run one of the paper's tables, its printed numbers beside ours; resumes after a stop.

    Every method is given the same rows: of unit norm, as in the paper, or as they are in tables of
    measurements (wine, iris, breast_cancer). Finished cells are kept in results/TABLE.jsonl, or in
    the file that --results names.
    """
    spec = load_table(table)
    wanted = inputs.known_methods(only)
    named = {entry.method for entry in spec.entries}
    if only and (absent := [name for name in wanted if name not in named]):
        raise UserError(
            f"table {table} has no method {absent[0]!r}; it has {', '.join(sorted(named))}"
        )
    spec = replace(spec, entries=tuple(entry for entry in spec.entries if entry.method in wanted))
    results = results or Path("results") / f"{table}{'-quick' if quick else ''}.jsonl"
    outputs.check_results(results)
    outputs.check_ending(results, RESULTS)  # its folder is made where it is absent
    outputs.check_outputs([spec.dataset, results], {PICTURES: [plot], PAGES: [page]})
    rows = load(spec.dataset)
    records = _run(spec, rows, results, workers, as_json, quick=quick, n_splits=splits)
    _show(with_search_note(spec, quick), records, plot, page, as_json)


def _check_folds(rows: Dataset, folds: int) -> None:
    smallest = inputs.smallest_class(rows)
    if smallest < folds:
        fewer = f"Use --folds {smallest}, or drop" if smallest > 1 else "Drop"
        raise UserError(
            f"the smallest class has {smallest} row{'s' * (smallest > 1)}, too few for {folds} "
            f"folds. {fewer} classes that have so few rows."
        )


def _run(
    table: Table, rows: Dataset, results: Path | None, workers: int, as_json: bool, **more: Any
) -> list[Record]:
    """Run the cells of a table, with a progress bar, and return their records."""
    more |= {"n_workers": workers, "n_threads": 1 if workers > 1 else -1}
    if not as_json:
        more["on_warm_up"] = lambda names: say(in_words(names))
    data = labelled_rows(rows, table.unit_rows)
    with kept_in(results), terminal.cells_bar(quiet=as_json) as on_cell, user_mistakes():
        return run_table(table, data, results, on_cell=on_cell, **more)


def _show(
    table: Table, records: list[Record], plot: Path | None, page: Path | None, as_json: bool
) -> None:
    """Print a table, and write its picture and its page."""
    lines = summarise(table, records)
    terminal.print_results(table, lines, as_json)
    if not any(line.n_splits for line in lines):
        terminal.complain("every cell failed; the table says why")
        raise typer.Exit(errors.FAILED)
    if plot is not None:
        from dbdl.plotting.accuracy import plot_accuracies

        plot_accuracies(lines, plot, title=table.title)
        say(f"wrote {plot}")
    if page is not None:
        write_results_page(table, records, page)


def _write_model_page(table: Table, rows: Dataset, records: list[Record], page: Path) -> None:
    """Write a report on DBDL as it was fitted in the first cell of a table."""
    data = labelled_rows(rows, table.unit_rows)
    first = next(cells(table, data, only=[OURS]))
    unlearned = {r["split"]: r.get("accuracy") for r in records if r["method"] == UNLEARNED}
    with user_mistakes():
        model, test = fit_cell(first, data)
    more = {"title": f"DBDL on {rows.name}", "unlearned_accuracy": unlearned.get(first.number)}
    write_report(model, rows, test, page, **more)
