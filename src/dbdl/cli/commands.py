"""The commands: each parses its arguments, calls the package, and prints."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from dbdl._columns import Columns
from dbdl.cli import errors, inputs, outputs, terminal
from dbdl.cli.errors import Commands, UserError, kept_in, user_mistakes
from dbdl.cli.outputs import MODELS, PAGES, PICTURES, PREDICTIONS, RESULTS
from dbdl.cli.terminal import say
from dbdl.datasets import Dataset, load, sources
from dbdl.experiments.measure import UNBALANCED, Part, class_ratio
from dbdl.experiments.protocol import Protocol
from dbdl.experiments.rows import LabelledRows, labelled_rows
from dbdl.experiments.run import Record, cells, fit_cell, latest, read_records, run_table
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
from dbdl.learn.choice import ENSEMBLE_RESULTS
from dbdl.learn.held_out import by_class
from dbdl.persistence import load as load_model
from dbdl.persistence import save as save_model
from dbdl.registry import methods

app = typer.Typer(
    name="dbdl",
    cls=Commands,
    help="Discriminative Bayesian dictionary learning, and the methods it is compared with.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Data = Annotated[
    str, typer.Argument(help="A data set by name (see: dbdl data), a file, or a folder of images.")
]
Label = Annotated[
    str | None, typer.Option(help="Labels: by default the last column, or the array y.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Seed = Annotated[int, typer.Option(help="The same seed gives the same answer.")]
Only = Annotated[
    list[str] | None,
    typer.Option("--methods", "--only", "-m", help="Methods by name: repeat, or use commas."),
]
Quick = Annotated[
    bool, typer.Option("--quick", help="Fixed settings: no method searches, nor does DBDL.")
]
Workers = Annotated[int, typer.Option(min=1, help="Methods to run at the same time.")]
Results = Annotated[Path | None, typer.Option(help="File of finished cells, to resume from.")]
Plot = Annotated[Path | None, typer.Option(help="Picture of the accuracies, .png.")]
Page = Annotated[Path | None, typer.Option("--report", help="A page of the results, .html.")]


def main() -> None:
    """Run the command; see `dbdl.cli.errors` for exit codes."""
    terminal.show_warnings_as_notes()
    errors.raise_swallowed_interrupts()
    app()


@app.command()
def fit(
    data: Data,
    output: Annotated[Path, typer.Option("--output", "-o", help="File of the model.")],
    label: Label = None,
    method: Annotated[str, typer.Option(help="Method (see: dbdl methods).")] = "DBDL",
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="A parameter, as n_chains=3; repeatable.")
    ] = None,
    seed: Seed = 0,
    jobs: Annotated[int, typer.Option(help="Threads; -1 for all cores.")] = -1,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Folder to keep the fit in, and to resume it from.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Learn from labelled rows and save the model."""
    outputs.check_outputs([data], {MODELS: [output]})
    rows = inputs.read_data(data, label=label)
    model = inputs.make_model(method, settings or [], seed, jobs)
    if checkpoint is not None:
        if "checkpoint" not in model.get_params():
            raise UserError(f"{method} keeps no checkpoints; leave --checkpoint out")
        model.set_params(checkpoint=str(checkpoint))
    with user_mistakes(), kept_in(checkpoint):
        inputs.with_progress_bar(model, quiet=as_json).fit(rows.X, rows.y)
    save_model(model, output, Columns(rows.feature_names, rows.label_name, rows.column_roles))
    found = {
        "model": str(output),
        "method": method,
        "rows": rows.n_samples,
        "features": rows.n_features,
        "classes": len(rows.classes),
        "atoms": getattr(model, "n_atoms_", None),
    }
    held_out = getattr(model, "held_out_", None)
    if held_out is not None:
        for name in ENSEMBLE_RESULTS:
            found[f"held_out_{name}"] = getattr(held_out, f"ensemble_{name}")
    terminal.print_pairs(found, as_json)


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(help="File that dbdl fit wrote.")],
    data: Data,
    label: Label = None,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", "-p", help="Add a column of probabilities per class.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File of the answers, .csv.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Classify rows; where their labels are known, say how many answers are right."""
    outputs.check_outputs([model, data], {PREDICTIONS: [output]})
    estimator = load_model(model)
    if probabilities and not hasattr(estimator, "predict_proba"):
        raise UserError(f"{type(estimator).__name__} gives no probabilities; leave -p out")
    rows = inputs.read_data_for(estimator, model, data, label)
    classes, probability = [], np.empty((rows.n_samples, 0))
    with user_mistakes():
        predicted = np.asarray(estimator.predict(rows.X))
        if probabilities:
            classes, probability = estimator.classes_.tolist(), estimator.predict_proba(rows.X)
    found: dict[str, Any] = {"rows": rows.n_samples}
    if rows.y is not None:
        true, answers = rows.y.astype(str), predicted.astype(str)
        found["accuracy"] = float(np.mean(answers == true))
        found |= by_class(true, answers)
    if as_json:
        found["predicted"] = predicted.tolist()
        if probabilities:
            found |= {"classes": classes, "probabilities": probability.tolist()}
        print(json.dumps(found))
    elif "accuracy" in found:
        means = ""
        if class_ratio(true) >= UNBALANCED:
            means = "; balanced accuracy {balanced_accuracy:.2%}, macro F1 {macro_f1:.2%}"
        say(f"{100 * found['accuracy']:.2f} % right of {found['rows']} rows{means.format(**found)}")
    if output is not None or not as_json:
        lines = zip(predicted, probability, strict=True)
        rounded = ([answer, *(f"{p:.6g}" for p in row)] for answer, row in lines)
        terminal.write_csv(output, ["predicted", *map(str, classes)], rounded)


@app.command()
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


@app.command()
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


@app.command()
def figures(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the pictures.")],
    data: Annotated[
        str | None,
        typer.Argument(help="As for fit; by default yaleb where it is found, else digits."),
    ] = None,
    label: Label = None,
    splits: Annotated[int, typer.Option(min=1, help="Splits of figure 2.")] = 1,
    share: Annotated[
        float, typer.Option(min=0.05, max=0.95, help="Share of each class to learn from.")
    ] = 0.5,
    quick: Annotated[bool, typer.Option("--quick", help="Three sizes and ten sweeps.")] = False,
    seed: Seed = 0,
) -> None:
    """Draw the paper's figures: accuracy by dictionary size, selection probabilities, atoms left.

    Figure 2 has K-SVD, D-KSVD and LC-KSVD1; figures 4 and 9 are of DBDL with the paper's settings.
    """
    import matplotlib

    from dbdl.plotting.paper import FILES, write_figures

    matplotlib.use("Agg")  # draws into files, with or without a screen
    outputs.make_folder(output)
    data = data or ("digits" if sources()["yaleb"].find() is None else "yaleb")
    outputs.check_outputs([data], {PICTURES: [output / name for name in FILES]})
    rows = inputs.read_data(data, label=label)
    inputs.smallest_class(rows)
    unit = labelled_rows(rows, unit=True)
    options: dict[str, Any] = {"share": share, "n_splits": splits, "quick": quick, "seed": seed}
    with user_mistakes(), terminal.steps_bar("fits", quiet=False) as on_fit:
        curves = write_figures(unit, rows.name, output, **options, on_fit=on_fit)
    for name in FILES:
        say(f"wrote {output / name}")
    by_size = zip(curves[0].n_atoms, *(curve.mean for curve in curves), strict=True)
    table = ((str(n_atoms), *(f"{mean:.2f} %" for mean in means)) for n_atoms, *means in by_size)
    terminal.print_columns(("atoms", *(curve.method for curve in curves)), table)


@app.command()
def report(
    source: Annotated[Path, typer.Argument(help="A model that dbdl fit wrote, or results.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The page, .html.")],
    data: Annotated[str | None, typer.Option(help="Labelled rows to test a model on.")] = None,
    label: Label = None,
    table: Annotated[
        str | None, typer.Option(help="Name of the table that the results belong to.")
    ] = None,
) -> None:
    """Write a page to look at: of a model and test rows, or of the results of a table."""
    outputs.check_outputs([source, data], {PAGES: [output]})
    if not source.exists():
        raise UserError(f"{source} does not exist. Pass a model of dbdl fit, or a .jsonl file.")
    if source.suffix == ".jsonl":
        records = latest(read_records(source))
        if not records:
            raise UserError(f"{source} holds no results; dbdl reproduce and compare write them")
        _write_results_page(_table_of(records, table, f"Results of {source.stem}"), records, output)
    else:
        if data is None:
            raise UserError("a report of a model needs labelled rows: pass --data")
        model = load_model(source)
        rows = inputs.read_data_for(model, source, data, label, labelled=True)
        _write_report(model, rows, labelled_rows(rows, unit=False), output)


@app.command("data")
def list_data(as_json: AsJson = False) -> None:
    """List the data sets that are known by name, and whether they were found."""
    names = ("name", "title", "found")
    rows = [(s.name, s.title, s.find() is not None) for s in sources().values()]
    if as_json:
        print(json.dumps([dict(zip(names, row, strict=True)) for row in rows]))
        return
    terminal.print_columns(names, ((*row, "yes" if found else "no") for *row, found in rows))
    print(
        "Set DBDL_DATA to the folder that holds them; dbdl reproduce NAME says where to get one.\n"
        "Your own data: an .npz, .csv, .parquet or .mat file, or a folder of images by class."
    )


@app.command("methods")
def list_methods(as_json: AsJson = False) -> None:
    """List all methods with their papers and the settings that are tried."""
    if as_json:
        found = [
            {"name": m.name, "paper": m.paper, "grid": {k: list(v) for k, v in m.grid.items()}}
            for m in methods().values()
        ]
        print(json.dumps(found, default=float))
        return
    rows = ((m.name, m.paper, _grid_in_words(m.grid)) for m in methods().values())
    terminal.print_columns(("method", "paper", "settings tried"), rows)


# ------------------------------------------------------------------------- parts of the commands


def _grid_in_words(grid: Mapping[str, tuple[Any, ...]]) -> str:
    def words(values: tuple[Any, ...]) -> str:
        return ", ".join(value if isinstance(value, str) else f"{value:g}" for value in values)

    return "; ".join(f"{name} {words(values)}" for name, values in grid.items())


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
        _write_results_page(table, records, page)


def _write_results_page(table: Table, records: list[Record], page: Path) -> None:
    from dbdl.report import write_results

    write_results(table, summarise(table, records), page, records=records)
    say(f"wrote {page}")


def _write_model_page(table: Table, rows: Dataset, records: list[Record], page: Path) -> None:
    """Write a report on DBDL as it was fitted in the first cell of a table."""
    data = labelled_rows(rows, table.unit_rows)
    first = next(cells(table, data, only=[OURS]))
    unlearned = {r["split"]: r.get("accuracy") for r in records if r["method"] == UNLEARNED}
    with user_mistakes():
        model, test = fit_cell(first, data)
    more = {"title": f"DBDL on {rows.name}", "unlearned_accuracy": unlearned.get(first.number)}
    _write_report(model, rows, test, page, **more)


def _write_report(
    model: Any, rows: Dataset, test: LabelledRows | Part, page: Path, **more: Any
) -> None:
    """Write a report on a model and test rows of a data set."""
    from dbdl.report import write_report

    shape, names = rows.image_shape, rows.feature_names
    with user_mistakes():
        write_report(model, test.X, test.y, page, image_shape=shape, feature_names=names, **more)
    say(f"wrote {page}")


def _table_of(records: Sequence[Record], name: str | None, title: str) -> Table:
    """Return the table that records belong to; one made of them where it has no name."""
    name = name or str(records[0]["table"])
    quick = bool(records[0].get("quick", False))
    if name in table_names():
        return with_search_note(load_table(name), quick)
    columns = {str(r["column"]): Protocol(folds=2) for r in records}
    found = dict.fromkeys(str(r["method"]) for r in records)
    return with_search_note(Table(name, title, "", columns, tuple(map(Entry, found))), quick)
