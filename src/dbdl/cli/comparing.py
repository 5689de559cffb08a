"""Compare methods on the same splits: ``compare`` and ``reproduce``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from dbdl.cli import errors, inputs, outputs, progress, scenes, terminal
from dbdl.cli.errors import UserError, kept_in, user_mistakes
from dbdl.cli.options import (
    AsJson,
    Blocks,
    Data,
    Drop,
    Estimators,
    Form,
    Format,
    Id,
    Label,
    MinRows,
    Only,
    OnlyColumns,
    Page,
    PerClass,
    PerSplit,
    Plot,
    Quick,
    Results,
    Seed,
    Truth,
    Workers,
)
from dbdl.cli.outputs import PAGES, PICTURES, RESULTS
from dbdl.cli.pages import origin_of, write_model_page, write_results_page
from dbdl.cli.terminal import say
from dbdl.datasets import Dataset
from dbdl.experiments.protocol import Protocol
from dbdl.experiments.rows import labelled_rows
from dbdl.experiments.run import Record, run_table
from dbdl.experiments.spec import (
    Entry,
    Table,
    load_table,
    nothing_chosen,
    table_names,
    with_search_note,
)
from dbdl.experiments.summary import OURS, summarise
from dbdl.experiments.warm import in_words
from dbdl.own_methods import import_method


@dataclass(frozen=True)
class Shown:
    """What becomes of results: how they are printed, and where pictures and pages are written."""

    as_json: bool
    form: Form | None
    per_split: bool
    plot: Path | None
    page: Path | None


def compare(
    data: Data,
    label: Label = None,
    truth: Truth = None,
    blocks: Blocks = None,
    per_class: PerClass = scenes.PER_CLASS,
    drop: Drop = None,
    columns: OnlyColumns = None,
    ids: Id = None,
    min_rows: MinRows = 1,
    only: Only = None,
    estimators: Estimators = None,
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
    form: Format = None,
    per_split: PerSplit = False,
    as_json: AsJson = False,
) -> None:
    """Compare methods on your data: the same folds, settings chosen inside each.

    Rows are taken as they are. Each dictionary method scales them to unit norm itself. The methods
    of scikit-learn choose between rows of unit norm and standardised features, which --quick gives
    them; boosting takes rows as they are. --estimator adds a classifier of your own. Categories,
    and missing cells for methods that do not take them, are turned into numbers inside each fold,
    from the rows to learn from alone. Of a cube with --truth, folds are whole blocks of the scene,
    since pixels side by side are alike.
    """
    model_page = None
    if output is not None:
        plot, page = plot or output / "accuracy.png", page or output / "report.html"
        results, model_page = results or output / "cells.jsonl", output / "model.html"
    outputs.check_results(results)
    own = _own_methods(estimators)
    wanted = inputs.known_methods(only)
    entries = tuple(Entry(name) for name in dict.fromkeys([*wanted, *own]))
    column, protocol = f"{folds} folds", Protocol(folds=folds)
    options: dict[str, Any] = {"drop": drop, "only": columns, "ids": ids, "min_rows": min_rows}
    if truth is not None:
        inputs.refuse_options_of_tables(label=label, **options)
        rows = scenes.read_scene(data, truth, per_class, blocks or scenes.BLOCKS, seed)
        column, protocol = scenes.folds_of_blocks(rows, folds)
    else:
        scenes.refuse_options(blocks, per_class)
        rows = inputs.read_data(data, label=label, **options)
        inputs.note_copies(rows)
    _check_folds(rows, folds)
    written = {PICTURES: [plot], PAGES: [page, model_page], RESULTS: [results]}
    with outputs.new_folder(output):
        outputs.check_outputs([data, truth], written)
    table = Table(
        name=f"compare-{seed}",
        title=f"{rows.name}: {rows.n_samples} rows, {rows.n_features} features, "
        f"{len(rows.classes)} classes",
        dataset=data,
        columns={column: protocol},
        entries=entries,
    )
    records = _run(
        table, rows, results, workers, as_json, quick=quick, origin=origin_of(data, seed)
    )
    _show(with_search_note(table, quick), records, Shown(as_json, form, per_split, plot, page))
    if model_page is not None and OURS in (entry.method for entry in table.entries):
        if quick:
            table = nothing_chosen(table)
        write_model_page(table, rows, records, model_page)
        say("open the pages in a browser")


def reproduce(
    table: Annotated[
        str,
        typer.Argument(help=f"One of: {', '.join(table_names())}; or a file of your own, .toml."),
    ],
    only: Only = None,
    estimators: Estimators = None,
    splits: Annotated[int | None, typer.Option(min=1, help="Splits to run, at most.")] = None,
    quick: Quick = False,
    workers: Workers = 1,
    results: Results = None,
    plot: Plot = None,
    page: Page = None,
    form: Format = None,
    per_split: PerSplit = False,
    as_json: AsJson = False,
) -> None:
    """Run one of the paper's tables, its printed numbers beside ours; resumes after a stop.

    Every method is given the same rows: of unit norm, as in the paper, or as they are in tables of
    measurements (wine, iris, breast_cancer). A file of your own names data, splits and methods; see
    docs/own_methods.md. Finished cells are kept in results/TABLE.jsonl, or in the file that
    --results names.
    """
    spec = load_table(table)
    own = [Entry(name) for name in _own_methods(estimators)]
    named = {entry.method for entry in spec.entries}
    spec = replace(spec, entries=(*spec.entries, *(e for e in own if e.method not in named)))
    named = {entry.method for entry in spec.entries}
    wanted = {*inputs.known_methods(only), *(entry.method for entry in own)}
    if only and (absent := [name for name in inputs.known_methods(only) if name not in named]):
        raise UserError(
            f"table {table} has no method {absent[0]!r}; it has {', '.join(sorted(named))}"
        )
    spec = replace(spec, entries=tuple(entry for entry in spec.entries if entry.method in wanted))
    stem = Path(table).stem + "-quick" * quick
    results = results or Path("results") / f"{stem}.jsonl"
    outputs.check_results(results)
    outputs.check_ending(results, RESULTS)  # its folder is made where it is absent
    outputs.check_outputs([spec.dataset, results], {PICTURES: [plot], PAGES: [page]})
    rows = inputs.read_data(spec.dataset, label=spec.label)
    origin = origin_of(spec.dataset)
    records = _run(
        spec, rows, results, workers, as_json, quick=quick, n_splits=splits, origin=origin
    )
    _show(with_search_note(spec, quick), records, Shown(as_json, form, per_split, plot, page))


def _own_methods(addresses: Sequence[str] | None) -> list[str]:
    """Register classifiers of the user's own, and return their names."""
    with user_mistakes():
        return [import_method(address).name for address in addresses or ()]


def _check_folds(rows: Dataset, folds: int) -> None:
    smallest = inputs.smallest_class(rows)
    if smallest < folds:
        fewer = f"Use --folds {smallest}, or leave" if smallest > 1 else "Leave"
        raise UserError(
            f"the smallest class has {smallest} row{'s' * (smallest > 1)}, too few for {folds} "
            f"folds. {fewer} out classes that have so few rows with --min-rows {folds}."
        )


def _run(
    table: Table, rows: Dataset, results: Path | None, workers: int, as_json: bool, **more: Any
) -> list[Record]:
    """Run the cells of a table, with a progress bar, and return their records."""
    more |= {"n_workers": workers, "n_threads": 1 if workers > 1 else -1}
    if not as_json:
        more["on_warm_up"] = lambda names: say(in_words(names))
    data = labelled_rows(rows, table.unit_rows)
    with kept_in(results), progress.cells_bar(quiet=as_json) as bar, user_mistakes():
        return run_table(
            table, data, results, on_cell=bar.on_cell, on_running=bar.on_running, **more
        )


def _show(table: Table, records: list[Record], shown: Shown) -> None:
    """Print a table, and write its picture and its page."""
    lines = summarise(table, records)
    form: Any = "json" if shown.as_json else shown.form and shown.form.value
    terminal.print_results(table, lines, records, form, shown.per_split)
    if not any(line.n_splits for line in lines):
        terminal.complain("every cell failed; the table says why")
        raise typer.Exit(errors.FAILED)
    if shown.plot is not None:
        from dbdl.plotting.accuracy import plot_accuracies

        plot_accuracies(lines, shown.plot, title=table.title)
        say(f"wrote {shown.plot}")
    if shown.page is not None:
        write_results_page(table, records, shown.page)
