"""Pages and pictures to look at: ``report`` and ``figures``."""

from __future__ import annotations

import hashlib
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from dbdl.cli import inputs, outputs, progress, terminal
from dbdl.cli.answers import name_of_row
from dbdl.cli.errors import UserError, user_mistakes
from dbdl.cli.options import Label, PictureForm, Seed
from dbdl.cli.outputs import PAGES, PICTURES
from dbdl.cli.terminal import say
from dbdl.datasets import Dataset, sources
from dbdl.experiments.measure import Part
from dbdl.experiments.protocol import Protocol
from dbdl.experiments.rows import LabelledRows, labelled_rows
from dbdl.experiments.run import Record, cells, fit_cell, latest, machine, read_records
from dbdl.experiments.spec import Entry, Table, load_table, table_names, with_search_note
from dbdl.experiments.summary import OURS, UNLEARNED, summarise
from dbdl.persistence import load as load_model


def report(
    source: Annotated[Path, typer.Argument(help="A model that dbdl fit wrote, or results.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The page, .html.")],
    data: Annotated[str | None, typer.Option(help="Labelled rows to test a model on.")] = None,
    label: Label = None,
    table: Annotated[
        str | None,
        typer.Option(help="Table that the results belong to: its name, or your .toml file."),
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
        write_results_page(_table_of(records, table, f"Results of {source.stem}"), records, output)
    else:
        model = load_model(source)
        if data is None:
            raise UserError("a report of a model needs labelled rows: pass --data")
        rows = inputs.read_data_for(model, source, data, label, labelled=True)
        inputs.note_unknown_categories(model, rows)
        model, rows = inputs.prepared(model, rows)
        test = labelled_rows(rows, unit=False)
        called = [name_of_row(rows, i, numbered=False) for i in range(rows.n_samples)]
        told = {"title": f"{source.name} on {rows.name}", "row_names": called}
        write_report(model, rows, test, output, origin=origin_of(data), **told)


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
    form: Annotated[
        PictureForm, typer.Option("--format", help="Format of the pictures.")
    ] = PictureForm.png,
    seed: Seed = 0,
) -> None:
    """Draw the paper's figures: accuracy by dictionary size, selection probabilities, atoms left.

    Figure 2 has K-SVD, D-KSVD and LC-KSVD1; figures 4 and 9 are of DBDL with the paper's settings.
    """
    import matplotlib

    from dbdl.plotting.paper import file_names, write_figures

    matplotlib.use("Agg")  # draws into files, with or without a screen
    outputs.make_folder(output)
    data = data or ("digits" if sources()["yaleb"].find() is None else "yaleb")
    names = file_names(form.value)
    outputs.check_outputs([data], {PICTURES: [output / name for name in names]})
    rows = inputs.read_data(data, label=label)
    inputs.smallest_class(rows)
    unit = labelled_rows(rows, unit=True)
    options: dict[str, Any] = {"share": share, "n_splits": splits, "quick": quick, "seed": seed}
    options["ending"] = form.value
    with user_mistakes(), progress.steps_bar("fits", quiet=False) as on_fit:
        curves = write_figures(unit, rows.name, output, **options, on_fit=on_fit)
    for name in names:
        say(f"wrote {output / name}")
    by_size = zip(curves[0].n_atoms, *(curve.mean for curve in curves), strict=True)
    table = ((str(n_atoms), *(f"{mean:.2f} %" for mean in means)) for n_atoms, *means in by_size)
    terminal.print_columns(("atoms", *(curve.method for curve in curves)), table)


def origin_of(data: str, seed: int | None = None) -> dict[str, str]:
    """Return how results come about, for those who want to get them again."""
    found = {"command": shlex.join(["dbdl", *sys.argv[1:]]), "file": data}
    return found if seed is None else {**found, "seed": str(seed)}


def write_model_page(table: Table, rows: Dataset, records: list[Record], page: Path) -> None:
    """Write a report on DBDL as it was fitted in the first cell of a table.

    The page names its cell, data and versions. If they are still the same, it is left as it is.
    """
    from dbdl.report import identity_of

    data = labelled_rows(rows, table.unit_rows)
    first = next(cells(table, data, only=[OURS]))
    unlearned = {r["split"]: r.get("accuracy") for r in records if r["method"] == UNLEARNED}
    own = next((r for r in records if r["method"] == OURS and r["split"] == first.number), {})
    told = {"title": f"DBDL on {rows.name}", "unlearned_accuracy": unlearned.get(first.number)}
    origin = {name: own[name] for name in ("command", "file", "seed") if name in own}
    parts = (first.key, data.fingerprint, sorted(machine().items()), sorted(told.items()), origin)
    identity = hashlib.sha256(repr(parts).encode()).hexdigest()
    if identity_of(page) == identity:
        say(f"{page} is up to date")
        return
    with user_mistakes():
        model, test = fit_cell(first, data)
    write_report(model, rows, test, page, **told, identity=identity, origin=origin)


def write_results_page(table: Table, records: list[Record], page: Path) -> None:
    """Write a page of the results of a table."""
    from dbdl.report import write_results

    write_results(table, summarise(table, records), page, records=records)
    say(f"wrote {page}")


def write_report(
    model: Any, rows: Dataset, test: LabelledRows | Part, page: Path, **more: Any
) -> None:
    """Write a report on a model and test rows of a data set."""
    from dbdl.report import write_report as write

    names = test.names or inputs.names_of_features(rows)
    options = {**more, "image_shape": rows.image_shape, "feature_names": names}
    with user_mistakes():
        write(model, test.X, test.y, page, **options)
    say(f"wrote {page}")


def _table_of(records: Sequence[Record], name: str | None, title: str) -> Table:
    """Return the table that records belong to; one made of them where it has no name."""
    quick = bool(records[0].get("quick", False))
    if name is not None:  # one of ours, or a file of the user's; others are refused
        return with_search_note(load_table(name), quick)
    name = str(records[0]["table"])
    if name in table_names():
        return with_search_note(load_table(name), quick)
    columns = {str(r["column"]): Protocol(folds=2) for r in records}
    found = dict.fromkeys(str(r["method"]) for r in records)
    return with_search_note(Table(name, title, "", columns, tuple(map(Entry, found))), quick)
